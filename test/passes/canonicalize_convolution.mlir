// RUN: shlo-opt %s --pass-pipeline='builtin.module(canonicalize-convolution)' | filecheck %s

// CHECK-LABEL: func.func @pointwise
// CHECK-NOT: "hlo.convolution"
// CHECK: "hlo.dot"(%arg0, %{{.*}}) {lhs_batch = array<i64>, lhs_contract = array<i64: 3>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>}
func.func @pointwise(%x: tensor<2x5x6x3xf32>, %w: tensor<1x1x3x4xf32>) -> tensor<2x5x6x4xf32> {
  %0 = "hlo.convolution"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, lhs_dilation = array<i64: 1, 1>, rhs_dilation = array<i64: 1, 1>, reversal = array<i64: 0, 0>, input_dims = array<i64: 0, 3, 1, 2>, kernel_dims = array<i64: 2, 3, 0, 1>, output_dims = array<i64: 0, 3, 1, 2>, feature_groups = 1 : i64, batch_groups = 1 : i64} : (tensor<2x5x6x3xf32>, tensor<1x1x3x4xf32>) -> tensor<2x5x6x4xf32>
  return %0 : tensor<2x5x6x4xf32>
}

// CHECK-LABEL: func.func @padded
// CHECK-NOT: "hlo.pad"
// CHECK: "hlo.convolution"(%arg0, %arg1) {{.*}}padding = array<i64: 1, 2, 0, 1>
func.func @padded(%x: tensor<2x5x6x3xf32>, %w: tensor<3x2x3x4xf32>) -> tensor<2x6x6x4xf32> {
  %z = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %p = "hlo.pad"(%x, %z) {low = array<i64: 0, 1, 0, 0>, high = array<i64: 0, 2, 1, 0>, interior = array<i64: 0, 0, 0, 0>} : (tensor<2x5x6x3xf32>, tensor<f32>) -> tensor<2x8x7x3xf32>
  %0 = "hlo.convolution"(%p, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, lhs_dilation = array<i64: 1, 1>, rhs_dilation = array<i64: 1, 1>, reversal = array<i64: 0, 0>, input_dims = array<i64: 0, 3, 1, 2>, kernel_dims = array<i64: 2, 3, 0, 1>, output_dims = array<i64: 0, 3, 1, 2>, feature_groups = 1 : i64, batch_groups = 1 : i64} : (tensor<2x8x7x3xf32>, tensor<3x2x3x4xf32>) -> tensor<2x6x6x4xf32>
  return %0 : tensor<2x6x6x4xf32>
}
