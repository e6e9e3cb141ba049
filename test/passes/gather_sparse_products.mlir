// RUN: shlo-opt %s --pass-pipeline='builtin.module(gather-sparse-products,cse,dce)' | filecheck %s

// Each column of the constant has one number that is not zero.
// CHECK-LABEL: func.func @main
// CHECK-NOT: "hlo.dot"
// CHECK: %[[PART:.*]] = "hlo.gather"(%arg0, %{{.*}}) {{.*}} : (tensor<8x16xf32>, tensor<2x1xi32>) -> tensor<2x16xf32>
// CHECK: %[[PRODUCT:.*]] = "hlo.multiply"(%[[PART]], %{{.*}})
// CHECK: %[[ALL:.*]] = "hlo.reduce"({{.*}}) {dimensions = array<i64: 0>, kind = "add"} {{.*}} -> tensor<16xi32>
// Where a number is not finite that the sum multiplies by zero, the sum is not a number.
// CHECK: %[[MORE:.*]] = "hlo.compare"({{.*}}) {direction = "GT"}
// CHECK: %[[RESULT:.*]] = "hlo.select"(%[[MORE]], %{{.*}}, %[[PRODUCT]])
// CHECK: return %[[RESULT]]
func.func @main(%x: tensor<8x16xf32>) -> tensor<2x16xf32> {
  %w = "hlo.constant"() {value = dense<[[0.0, 0.0], [0.0, 0.0], [3.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 2.0], [0.0, 0.0], [0.0, 0.0]]> : tensor<8x2xf32>} : () -> tensor<8x2xf32>
  %0 = "hlo.dot"(%w, %x) {lhs_batch = array<i64>, lhs_contract = array<i64: 0>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<8x2xf32>, tensor<8x16xf32>) -> tensor<2x16xf32>
  return %0 : tensor<2x16xf32>
}

// Too few zeros for that many numbers, along the dimension that varies fastest.
// CHECK-LABEL: func.func @short_rows
// CHECK: "hlo.dot"
func.func @short_rows(%x: tensor<16x8xf32>) -> tensor<16x2xf32> {
  %w = "hlo.constant"() {value = dense<[[0.0, 0.0], [0.0, 0.0], [3.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 2.0], [0.0, 0.0], [0.0, 0.0]]> : tensor<8x2xf32>} : () -> tensor<8x2xf32>
  %0 = "hlo.dot"(%x, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<16x8xf32>, tensor<8x2xf32>) -> tensor<16x2xf32>
  return %0 : tensor<16x2xf32>
}
