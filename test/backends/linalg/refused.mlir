// What has no form in linalg is named, all of it, with the lines of the model.
// RUN: not shlo-opt --target=linalg --compile-to=linalg %s 2>&1 | filecheck %s

// CHECK: error[unsupported]: the model cannot be written as linalg
// CHECK: refused.mlir:9:10: 'stablehlo.custom_call': the function 'lapack_sgetrf_ffi' has no form in linalg
// CHECK: help: compile the model for target 'cpu'
func.func @main(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xi32>, tensor<i32>) {
  %y = stablehlo.add %x, %x : tensor<4x4xf32>
  %0:3 = stablehlo.custom_call @lapack_sgetrf_ffi(%y) {mhlo.backend_config = {}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>, dense<> : tensor<0xindex>]}
    : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xi32>, tensor<i32>)
  return %0#0, %0#1, %0#2 : tensor<4x4xf32>, tensor<4xi32>, tensor<i32>
}
