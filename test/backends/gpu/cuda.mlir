// What becomes of a kernel for a GPU of NVIDIA; machine code needs tools of CUDA, and is tested in test_targets.py.
// RUN: shlo-opt --target=cuda --gpu=sm_90 --compile-to=kernels %s | filecheck %s --check-prefix=KERNELS
// RUN: shlo-opt --target=cuda --gpu=sm_90 --compile-to=llvm %s | filecheck %s --check-prefix=LLVM
// RUN: shlo-opt --target=cuda --gpu=sm_80 --compile-to=ptx %s | filecheck %s --check-prefixes=PTX,SM80
// RUN: shlo-opt --target=cuda --gpu=sm_90a --compile-to=ptx %s | filecheck %s --check-prefixes=PTX,SM90A
// RUN: shlo-opt --target=cuda --gpu=sm_100 --compile-to=ptx %s | filecheck %s --check-prefixes=PTX,SM100
// RUN: not shlo-opt --target=cuda --gpu=gfx942 --compile-to=ptx %s 2>&1 | filecheck %s --check-prefix=OTHER
// RUN: not shlo-opt --target=cuda --compile-to=nothing %s 2>&1 | filecheck %s --check-prefix=STAGES

// KERNELS: gpu.module @kernels [#nvvm.target<chip = "sm_90">]
// KERNELS: llvm.func ptx_kernelcc @fusion_0({{.*}}) attributes {gpu.kernel, nvvm.kernel, nvvm.reqntid = array<i32: 256, 1, 1>}
// KERNELS: llvm.func @shlo_main(%caller: !llvm.ptr) -> i32
// KERNELS: gpu.launch_func <%caller : !llvm.ptr> @kernels::@fusion_0 blocks in (%{{c[0-9]+}}, %[[ONE:c[0-9]+]], %[[ONE]]) threads in (%{{c[0-9]+}}, %[[ONE]], %[[ONE]]) : i64 args(
// LLVM: target triple = "nvptx64-nvidia-cuda"
// LLVM: define ptx_kernel void @fusion_0(
// SM80: .target sm_80
// SM90A: .target sm_90a
// SM100: .version 8.6
// SM100: .target sm_100
// PTX: .visible .entry fusion_0(
// PTX: .reqntid 256
// PTX: ld.global
// PTX: add.rn.f32
// PTX: st.global
// OTHER: error[option]: the backend 'cuda' generates no code for gpu='gfx942'
// OTHER-NEXT: use one of sm_80, sm_90, sm_90a, sm_100
// STAGES: stages: stablehlo, hlo, optimized, fused, scheduled, plans, triton, kernels, llvm, ptx, sass
func.func @main(%x: tensor<1000xf32>, %y: tensor<1000xf32>) -> tensor<1000xf32> {
  %0 = stablehlo.add %x, %y : tensor<1000xf32>
  return %0 : tensor<1000xf32>
}
