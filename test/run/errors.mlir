// RUN: not shlo-run %s 2>&1 | filecheck %s
// RUN: not shlo-compile %s -o %t.shloexe 2>&1 | filecheck %s
// CHECK: error[unsupported]: 2 parts of the model have no CPU kernel
// CHECK-NEXT: errors.mlir:{{[0-9]+}}:8: 'stablehlo.custom_call': the target 'first'
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: errors.mlir:{{[0-9]+}}:8: 'stablehlo.custom_call': the target 'second'
  %a = stablehlo.custom_call @first(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = stablehlo.custom_call @second(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}
