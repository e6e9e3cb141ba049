// RUN: shlo-opt --pass-pipeline=symbol-dce %s | filecheck %s

// CHECK-NOT: @unused
// CHECK: func.func private @decomposition
// CHECK: func.func @main
func.func private @unused() {
  return
}
func.func private @decomposition(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.composite "my.op" %x {decomposition = @decomposition} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
