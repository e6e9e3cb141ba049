// Kernels for GPUs at each stage: a fusion of each kind of template.
// RUN: shlo-opt --target=opencl --compile-to=fused --split-input-file %s | filecheck %s --check-prefix=FUSED
// RUN: shlo-opt --target=opencl --compile-to=scheduled --split-input-file %s | filecheck %s --check-prefix=SCHEDULED
// RUN: shlo-opt --target=opencl --compile-to=kernels --split-input-file %s | filecheck %s --check-prefix=KERNELS
// RUN: shlo-opt --target=opencl --compile-to=llvm --split-input-file %s | filecheck %s --check-prefix=LLVM

// A thread computes every 1024th element, by numbers of 32 bits: they are known to fit.
// FUSED: hlo.fusion = "loop"
// KERNELS-DAG: llvm.func spir_funccc @_Z12get_group_idj(i32) -> i64 attributes {convergent, no_unwind}
// KERNELS-DAG: llvm.func spir_funccc @_Z12get_local_idj(i32) -> i64 attributes {convergent, no_unwind}
// KERNELS: llvm.func spir_kernelcc @fusion_0(%in0.global: !llvm.ptr<1> {llvm.align = 16 : i64, llvm.noalias}, %in1.global: !llvm.ptr<1> {llvm.align = 16 : i64, llvm.noalias}, %out0.global: !llvm.ptr<1> {llvm.align = 16 : i64, llvm.noalias}, %scratch.global: !llvm.ptr<1> {llvm.align = 16 : i64, llvm.noalias}) attributes {gpu.kernel, reqd_work_group_size = array<i32: 256, 1, 1>}
// KERNELS-NEXT: %in0 = llvm.addrspacecast %in0.global : !llvm.ptr<1> to !llvm.ptr<4>
// KERNELS: [[BLOCK:%[0-9]+]] = llvm.call spir_funccc @_Z12get_group_idj
// KERNELS: [[NUMBER:%[0-9]+]] = llvm.trunc [[BLOCK]] : i64 to i32
// KERNELS: [[FIRST:%[0-9]+]] = llvm.mul [[NUMBER]], %{{c[0-9]+}} : i32
// KERNELS: [[THREAD:%[0-9]+]] = llvm.call spir_funccc @_Z12get_local_idj
// KERNELS: [[PLACE:%[0-9]+]] = llvm.trunc [[THREAD]] : i64 to i32
// KERNELS: [[ELEMENT:%[0-9]+]] = llvm.add [[FIRST]], [[PLACE]] : i32
// KERNELS: [[WIDE:%[0-9]+]] = llvm.sext [[ELEMENT]] : i32 to i64
// KERNELS: llvm.icmp "slt" [[WIDE]]
// KERNELS: llvm.load {{.*}} : !llvm.ptr<4> -> f32
// KERNELS-NOT: @_Z7barrierj
// KERNELS: llvm.store {{.*}} : f32, !llvm.ptr<4>
// LLVM: target triple = "spirv64-unknown-unknown"
// LLVM: define spir_kernel void @fusion_0(ptr addrspace(1) noalias align 16 %0, {{.*}}) !reqd_work_group_size
// LLVM: fadd float
// LLVM: store float {{.*}}, ptr addrspace(4)
func.func @main(%x: tensor<1000xf32>, %y: tensor<1000xf32>) -> tensor<1000xf32> {
  %0 = stablehlo.add %x, %y : tensor<1000xf32>
  %1 = stablehlo.negate %0 : tensor<1000xf32>
  return %1 : tensor<1000xf32>
}

// -----

// A block of 32 threads reduces a row of 100, four elements each: a number of each thread in shared memory, a tree of
// five levels.
// FUSED: hlo.fusion = "row"
// KERNELS: llvm.mlir.global internal @fusion_0.shared0() {addr_space = 3 : i32, alignment = 16 : i64, dso_local} : !llvm.array<32 x f32>
// KERNELS: llvm.func spir_kernelcc @fusion_0({{.*}}reqd_work_group_size = array<i32: 32, 1, 1>}
// KERNELS: llvm.mlir.addressof @fusion_0.shared0 : !llvm.ptr<3>
// KERNELS: llvm.store {{.*}} : f32, !llvm.ptr<3>
// KERNELS-COUNT-6: llvm.call spir_funccc @_Z7barrierj
// KERNELS: llvm.load {{.*}} : !llvm.ptr<3> -> f32
// KERNELS: llvm.fsub
// KERNELS: llvm.store {{.*}} : f32, !llvm.ptr<4>
// LLVM: @fusion_0.shared0 = internal addrspace(3) global [32 x float] undef, align 16
// LLVM: call spir_func void @_Z7barrierj(i32 3)
func.func @main(%x: tensor<8x100xf32>) -> tensor<8x100xf32> {
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %m = stablehlo.reduce(%x init: %lowest) applies stablehlo.maximum across dimensions = [1] : (tensor<8x100xf32>, tensor<f32>) -> tensor<8xf32>
  %all = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<8xf32>) -> tensor<8x100xf32>
  %d = stablehlo.subtract %x, %all : tensor<8x100xf32>
  return %d : tensor<8x100xf32>
}

// -----

// Without a template of its own: what the CPU's kernel does for an iteration, a thread does.
// FUSED: hlo.fusion = "rng_bit_generator"
// KERNELS: llvm.func internal spir_funccc @fusion_0.bits(%in0: !llvm.ptr<4>{{.*}}, %begin: i64, %end: i64) attributes {}
// KERNELS: llvm.func spir_kernelcc @fusion_0_bits_kernel({{.*}}reqd_work_group_size = array<i32: 64, 1, 1>}
// KERNELS: llvm.call spir_funccc @fusion_0.bits({{.*}}) : ({{.*}}!llvm.ptr<4>, i64, i64) -> ()
// LLVM: define internal spir_func void @fusion_0.bits(
// LLVM: define spir_kernel void @fusion_0_bits_kernel(
func.func @main(%state: tensor<2xui64>) -> tensor<1000xui32> {
  %0, %1 = stablehlo.rng_bit_generator %state, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<1000xui32>)
  return %1 : tensor<1000xui32>
}

// -----

// The host decides on the next trip: it waits for a byte of the arena. The body writes where it reads.
// SCHEDULED: hlo.fusion = "rng_bit_generator"
// SCHEDULED: scf.while
// SCHEDULED: func.call @fusion_0({{.*}}) {hlo.slices = array<i64: 0, 0, 64, 1>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
// SCHEDULED: tensor.extract {{.*}} : tensor<i1>
// SCHEDULED: func.call @fusion_2({{.*}}) {hlo.slices = array<i64: 2, 0, 0, 4000000>}
// SCHEDULED: func.func private @fusion_2({{.*}}hlo.fusion = "loop", hlo.inplace = array<i64: 0, 0>
// KERNELS-DAG: llvm.func spir_kernelcc @fusion_0(
// KERNELS-DAG: llvm.func spir_kernelcc @fusion_1(
// KERNELS-DAG: llvm.func spir_kernelcc @fusion_2(%in0.global: !llvm.ptr<1> {llvm.align = 16 : i64}, %out0.global: !llvm.ptr<1> {llvm.align = 16 : i64}, %scratch.global: !llvm.ptr<1> {llvm.align = 16 : i64})
func.func @main(%x: tensor<1000000xf32>, %n: tensor<i32>) -> tensor<1000000xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<1000000xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      %s = stablehlo.negate %a : tensor<1000000xf32>
      stablehlo.return %next, %s : tensor<i32>, tensor<1000000xf32>
    }
  return %r#1 : tensor<1000000xf32>
}

// -----

// Of less data it is one kernel of one block: it reads the byte, and does no trip before all threads have met. At its end
// it says whether the loop has ended.
// SCHEDULED: scf.while
// KERNELS-NOT: llvm.func spir_kernelcc @fusion_0
// KERNELS: llvm.func spir_kernelcc @while_0({{.*}}reqd_work_group_size = array<i32: 256, 1, 1>}
// KERNELS: llvm.icmp "slt" {{.*}} : i32
// KERNELS: llvm.store {{.*}} : i8, !llvm.ptr<4>
// KERNELS: llvm.call spir_funccc @_Z7barrierj
// KERNELS: llvm.load {{.*}} : !llvm.ptr<4> -> i8
// KERNELS: llvm.fneg
// KERNELS: llvm.call spir_funccc @_Z7barrierj
// KERNELS: llvm.store {{.*}} : i32, !llvm.ptr<4>
// KERNELS: llvm.return
// LLVM: define spir_kernel void @while_0(
func.func @main(%x: tensor<1000xf32>, %n: tensor<i32>) -> tensor<1000xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<1000xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      %s = stablehlo.negate %a : tensor<1000xf32>
      stablehlo.return %next, %s : tensor<i32>, tensor<1000xf32>
    }
  return %r#1 : tensor<1000xf32>
}
