// LLVM took another lane where a shuffle of nine elements was padded with the ninth.
func.func @main(%arg0: tensor<3x3x3xui64>) -> (tensor<3x3x1xui64>, tensor<3x3xui64>) {
  %c = stablehlo.constant dense<0> : tensor<ui64>
  %0 = stablehlo.slice %arg0 [0:3, 0:3, 0:1] : (tensor<3x3x3xui64>) -> tensor<3x3x1xui64>
  %1 = stablehlo.slice %arg0 [0:3, 0:3, 1:2] : (tensor<3x3x3xui64>) -> tensor<3x3x1xui64>
  %2 = stablehlo.slice %arg0 [0:3, 0:3, 2:3] : (tensor<3x3x3xui64>) -> tensor<3x3x1xui64>
  %3 = stablehlo.maximum %1, %0 : tensor<3x3x1xui64>
  %4 = stablehlo.maximum %2, %3 : tensor<3x3x1xui64>
  %5 = stablehlo.reduce(%arg0 init: %c) applies stablehlo.add across dimensions = [2] : (tensor<3x3x3xui64>, tensor<ui64>) -> tensor<3x3xui64>
  return %4, %5 : tensor<3x3x1xui64>, tensor<3x3xui64>
}
