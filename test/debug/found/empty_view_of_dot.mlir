// Fusion asked for the strides of an empty view.
// disable: peephole
func.func @main(%arg0: tensor<0x1xui8>, %arg1: tensor<0x1xui8>) -> (tensor<1x1x1xui8>, tensor<0xui8>) {
  %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1] : (tensor<0x1xui8>) -> tensor<0x1x1xui8>
  %1 = stablehlo.dot_general %0, %arg1, contracting_dims = [0] x [0] : (tensor<0x1x1xui8>, tensor<0x1xui8>) -> tensor<1x1x1xui8>
  %2 = stablehlo.reshape %0 : (tensor<0x1x1xui8>) -> tensor<0xui8>
  return %1, %2 : tensor<1x1x1xui8>, tensor<0xui8>
}
