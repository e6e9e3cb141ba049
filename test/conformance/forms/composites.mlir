// Composites with names of CHLO ops, which are known by name, and one that is not.
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.composite "chlo.erf" %x {decomposition = @other, version = 1 : i32} : (tensor<3xf32>) -> tensor<3xf32>
  %1 = stablehlo.composite "chlo.asin" %0 {decomposition = @other, composite_attributes = {k = 2 : i64}} : (tensor<3xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}
func.func private @other(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.negate %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}
// -----
func.func @main(%x: tensor<2x5xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>) {
  %0:2 = stablehlo.composite "chlo.top_k" %x {decomposition = @other, composite_attributes = {k = 3 : i64, largest = true}} : (tensor<2x5xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>)
  return %0#0, %0#1 : tensor<2x3xf32>, tensor<2x3xi32>
}
func.func private @other(%x: tensor<2x5xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>) {
  %0 = stablehlo.slice %x [0:2, 0:3] : (tensor<2x5xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.convert %0 : (tensor<2x3xf32>) -> tensor<2x3xi32>
  return %0, %1 : tensor<2x3xf32>, tensor<2x3xi32>
}
// -----
func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.composite "mine.any" %x, %y {decomposition = @other} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
func.func private @other(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.add %x, %y : tensor<3xf32>
  return %0 : tensor<3xf32>
}
