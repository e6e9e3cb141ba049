// What becomes of a kernel for a GPU of AMD.
// RUN: shlo-opt --target=rocm --gpu=gfx942 --compile-to=kernels %s | filecheck %s --check-prefix=KERNELS
// RUN: shlo-opt --target=rocm --gpu=gfx942 --compile-to=llvm %s | filecheck %s --check-prefix=LLVM
// RUN: shlo-opt --target=rocm --gpu=gfx90a --compile-to=gcn %s | filecheck %s --check-prefixes=GFX90A,GCN,WAVE64
// RUN: shlo-opt --target=rocm --gpu=gfx942 --compile-to=gcn %s | filecheck %s --check-prefixes=GFX942,GCN,WAVE64
// RUN: shlo-opt --target=rocm --gpu=gfx1100 --compile-to=gcn %s | filecheck %s --check-prefixes=GFX1100,GCN,WAVE32
// RUN: not shlo-opt --target=rocm --gpu=sm_90 --compile-to=gcn %s 2>&1 | filecheck %s --check-prefix=OTHER
// RUN: not shlo-opt --target=rocm --compile-to=gcn %s 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not shlo-opt --target=rocm --compile-to=nothing %s 2>&1 | filecheck %s --check-prefix=STAGES

// KERNELS: gpu.module @kernels [#rocdl.target<chip = "gfx942">]
// KERNELS: llvm.func amdgpu_kernelcc @fusion_0({{.*}}"amdgpu-flat-work-group-size", "256,256"
// LLVM: target triple = "amdgcn-amd-amdhsa"
// LLVM: define amdgpu_kernel void @fusion_0(
// GFX90A: .amdgcn_target "amdgcn-amd-amdhsa--gfx90a"
// GFX942: .amdgcn_target "amdgcn-amd-amdhsa--gfx942"
// GFX1100: .amdgcn_target "amdgcn-amd-amdhsa--gfx1100"
// GCN: global_load_{{dword|b32}}
// GCN: v_add_f32
// GCN: global_store_{{dword|b32}}
// GCN: .amdhsa_kernel fusion_0
// WAVE64: .wavefront_size: 64
// WAVE32: .wavefront_size: 32
// OTHER: error[option]: the backend 'rocm' generates no code for gpu='sm_90'
// OTHER-NEXT: use one of gfx90a, gfx942, gfx1100
// NONE: error[option]: which GPU to generate code for is not said, and the backend 'rocm' finds none here
// NONE-NEXT: pass Options(gpu=...), or --gpu, with one of gfx90a, gfx942, gfx1100
// STAGES: stages: stablehlo, hlo, optimized, fused, scheduled, plans, kernels, llvm, gcn
func.func @main(%x: tensor<1000xf32>, %y: tensor<1000xf32>) -> tensor<1000xf32> {
  %0 = stablehlo.add %x, %y : tensor<1000xf32>
  return %0 : tensor<1000xf32>
}
