// RUN: shlo-opt %s --pass-pipeline='builtin.module(canonicalize-dot)' | filecheck %s

// CHECK-LABEL: func.func @transposed_operand
// CHECK-NEXT: "hlo.dot"(%arg0, %arg1) {lhs_batch = array<i64: 0>, lhs_contract = array<i64: 1>, rhs_batch = array<i64: 0>, rhs_contract = array<i64: 1>}
// CHECK-NEXT: return
func.func @transposed_operand(%x: tensor<2x3x4xf32>, %y: tensor<2x3x5xf32>) -> tensor<2x4x5xf32> {
  %0 = "hlo.transpose"(%x) {permutation = array<i64: 0, 2, 1>} : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
  %1 = "hlo.dot"(%0, %y) {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<2x4x3xf32>, tensor<2x3x5xf32>) -> tensor<2x4x5xf32>
  return %1 : tensor<2x4x5xf32>
}

// CHECK-LABEL: func.func @outer
// CHECK: "hlo.multiply"
// CHECK-NOT: "hlo.dot"
func.func @outer(%x: tensor<3xf32>, %y: tensor<4xf32>) -> tensor<3x4xf32> {
  %0 = "hlo.dot"(%x, %y) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64>, rhs_contract = array<i64>} : (tensor<3xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// CHECK-LABEL: func.func @sums_of_products
// CHECK-NEXT: "hlo.dot"(%arg0, %arg1) {lhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contract = array<i64: 1>}
// CHECK-NEXT: return
func.func @sums_of_products(%x: tensor<2x4x3xf32>, %y: tensor<2x3x5xf32>) -> tensor<2x4x5xf32> {
  %0 = "hlo.broadcast"(%x) {dimensions = array<i64: 0, 1, 2>} : (tensor<2x4x3xf32>) -> tensor<2x4x3x5xf32>
  %1 = "hlo.broadcast"(%y) {dimensions = array<i64: 0, 2, 3>} : (tensor<2x3x5xf32>) -> tensor<2x4x3x5xf32>
  %2 = "hlo.multiply"(%0, %1) : (tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32>) -> tensor<2x4x3x5xf32>
  %3 = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %4 = "hlo.reduce"(%2, %3) {kind = "add", dimensions = array<i64: 2>} : (tensor<2x4x3x5xf32>, tensor<f32>) -> tensor<2x4x5xf32>
  return %4 : tensor<2x4x5xf32>
}
