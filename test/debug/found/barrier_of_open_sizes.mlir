// The pass that gives names to open sizes took a barrier's operands for tensors of one shape.
func.func @main(%arg0: tensor<?x2xi32>, %arg1: tensor<i32>) -> (tensor<?x2xi32>, tensor<i32>) {
  %0:2 = stablehlo.optimization_barrier %arg0, %arg1 : tensor<?x2xi32>, tensor<i32>
  return %0#0, %0#1 : tensor<?x2xi32>, tensor<i32>
}
