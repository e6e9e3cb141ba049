// Every stage of one small model, from StableHLO to machine code.
// RUN: shlo-opt --compile-to=hlo %s | filecheck %s --check-prefix=HLO
// RUN: shlo-opt --compile-to=optimized %s | filecheck %s --check-prefix=OPTIMIZED
// RUN: shlo-opt --compile-to=scheduled %s | filecheck %s --check-prefix=SCHEDULED
// RUN: shlo-opt --compile-to=kernels %s | filecheck %s --check-prefix=KERNELS
// RUN: shlo-opt --compile-to=llvm %s | filecheck %s --check-prefix=LLVM
// RUN: shlo-compile %s --quiet -o %t.shloexe
// RUN: shlo-run %t.shloexe | filecheck %s --check-prefix=SAVED
// RUN: shlo-run %s --compare=reference | filecheck %s --check-prefix=COMPARE

func.func @main(%x: tensor<64x32xf32>, %w: tensor<32x16xf32>) -> (tensor<64x16xf32>, tensor<64x32xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<64x32xf32>
  // HLO: "hlo.subtract"
  // OPTIMIZED-NOT: hlo.subtract
  %same = stablehlo.subtract %x, %zero : tensor<64x32xf32>
  // OPTIMIZED: "hlo.dot"
  %y = stablehlo.dot_general %same, %w, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
  // SCHEDULED: call @fusion_{{[0-9]+}}{{.*}}hlo.slices
  // SCHEDULED: hlo.fusion = "dot"
  // KERNELS: llvm.func @fusion_
  // KERNELS: llvm.func @shlo_main
  // LLVM: define i32 @shlo_main(ptr %0)
  %z = stablehlo.tanh %y : tensor<64x16xf32>
  // SAVED: result0: float32[64, 16]
  // SAVED: result1: float32[64, 32]
  // COMPARE: result 0 against reference: agrees
  // COMPARE: result 1 against reference: agrees
  return %z, %x : tensor<64x16xf32>, tensor<64x32xf32>
}
