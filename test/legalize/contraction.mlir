// RUN: shlo-opt %s --pass-pipeline='builtin.module(legalize-to-hlo)' | filecheck %s

// CHECK-LABEL: func.func @dot_general
// CHECK: "hlo.dot"(%arg0, %arg1) {lhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contract = array<i64: 1>}
// CHECK-SAME: -> tensor<2x3x5xf32>
func.func @dot_general(%a: tensor<2x3x4xbf16>, %b: tensor<2x4x5xbf16>) -> tensor<2x3x5xf32> {
  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGHEST, HIGHEST] : (tensor<2x3x4xbf16>, tensor<2x4x5xbf16>) -> tensor<2x3x5xf32>
  return %0 : tensor<2x3x5xf32>
}

// CHECK-LABEL: func.func @old_dot
// CHECK: "hlo.dot"(%arg0, %arg1) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>}
func.func @old_dot(%a: tensor<3x4xf32>, %b: tensor<4xf32>) -> tensor<3xf32> {
  %0 = "stablehlo.dot"(%a, %b) : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// CHECK-LABEL: func.func @convolution
// CHECK: "hlo.convolution"(%arg0, %arg1)
// CHECK-SAME: batch_groups = 1 : i64, feature_groups = 2 : i64, input_dims = array<i64: 0, 3, 1, 2>, kernel_dims = array<i64: 2, 3, 0, 1>
// CHECK-SAME: lhs_dilation = array<i64: 1, 1>, output_dims = array<i64: 0, 3, 1, 2>, padding = array<i64: 1, 1, 0, 2>, reversal = array<i64: 0, 0>
// CHECK-SAME: rhs_dilation = array<i64: 1, 1>, strides = array<i64: 2, 1>
func.func @convolution(%x: tensor<1x8x8x4xf32>, %w: tensor<3x3x2x6xf32>) -> tensor<1x4x8x6xf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {stride = [2, 1], pad = [[1, 1], [0, 2]]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64}
    : (tensor<1x8x8x4xf32>, tensor<3x3x2x6xf32>) -> tensor<1x4x8x6xf32>
  return %0 : tensor<1x4x8x6xf32>
}

// The label d of lhs alone is summed away, b is a batch, c is contracted.
// CHECK-LABEL: func.func @einsum
// CHECK: [[S:%[0-9]+]] = "hlo.reduce"(%arg0, {{%[0-9]+}}) {dimensions = array<i64: 3>, kind = "add"}
// CHECK: [[D:%[0-9]+]] = "hlo.dot"([[S]], %arg1) {lhs_batch = array<i64: 1>, lhs_contract = array<i64: 2>, rhs_batch = array<i64: 1>, rhs_contract = array<i64: 0>}
// CHECK-SAME: -> tensor<3x2x6xf32>
// CHECK: "hlo.transpose"([[D]]) {permutation = array<i64: 2, 0, 1>}
func.func @einsum(%a: tensor<2x3x4x5xf32>, %b: tensor<4x3x6xf32>) -> tensor<6x3x2xf32> {
  %0 = "stablehlo.einsum"(%a, %b) {einsum_config = "abcd,cbe->eba"} : (tensor<2x3x4x5xf32>, tensor<4x3x6xf32>) -> tensor<6x3x2xf32>
  return %0 : tensor<6x3x2xf32>
}

// JAX's preferred_element_type: the product is one of the widest kind.
// CHECK-LABEL: func.func @integers_to_floats
// CHECK: %[[LHS:.*]] = "hlo.convert"(%arg0) : (tensor<3x4xi8>) -> tensor<3x4xf32>
// CHECK: %[[RHS:.*]] = "hlo.convert"(%arg1) : (tensor<4x5xi8>) -> tensor<4x5xf32>
// CHECK: "hlo.dot"(%[[LHS]], %[[RHS]])
// CHECK-SAME: -> tensor<3x5xbf16>
func.func @integers_to_floats(%a: tensor<3x4xi8>, %b: tensor<4x5xi8>) -> tensor<3x5xbf16> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<3x4xi8>, tensor<4x5xi8>) -> tensor<3x5xbf16>
  return %0 : tensor<3x5xbf16>
}

// CHECK-LABEL: func.func @integer_and_complex_to_float
// CHECK: %[[LHS:.*]] = "hlo.convert"(%arg0) : (tensor<3x4xi8>) -> tensor<3x4xcomplex<f64>>
// CHECK: %[[DOT:.*]] = "hlo.dot"(%[[LHS]], %arg1)
// CHECK: "hlo.convert"(%[[DOT]]) : (tensor<3x5xcomplex<f64>>) -> tensor<3x5xf32>
func.func @integer_and_complex_to_float(%a: tensor<3x4xi8>, %b: tensor<4x5xcomplex<f64>>) -> tensor<3x5xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<3x4xi8>, tensor<4x5xcomplex<f64>>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}
