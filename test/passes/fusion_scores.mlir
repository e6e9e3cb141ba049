// RUN: shlo-opt %s --pass-pipeline='builtin.module(fusion{target=cuda})' | filecheck %s

// The weights of a softmax are used twice: nothing of 40 x 50 elements is stored.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[SUMS:.*]] = call @fusion_0(%arg0, %arg1) : (tensor<40x8xf32>, tensor<50x8xf32>) -> tensor<40xf32>
// CHECK-NEXT: %[[BOTH:.*]]:2 = call @fusion_1(
// CHECK-NEXT: return %[[BOTH]]#0, %[[BOTH]]#1
// CHECK: func.func private @fusion_0
// CHECK-SAME: hlo.fusion = "scores"
// CHECK: "hlo.exponential"
// CHECK: "hlo.reduce"
// CHECK: func.func private @fusion_1
// CHECK-SAME: hlo.fusion = "scores"
// CHECK: "hlo.exponential"
func.func @main(%q: tensor<40x8xf32>, %k: tensor<50x8xf32>, %u: tensor<40x8xf32>, %v: tensor<40x12xf32>) -> (tensor<50x8xf32>, tensor<50x12xf32>) {
  %0 = "hlo.dot"(%q, %k) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 1>} : (tensor<40x8xf32>, tensor<50x8xf32>) -> tensor<40x50xf32>
  %1 = "hlo.exponential"(%0) : (tensor<40x50xf32>) -> tensor<40x50xf32>
  %2 = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %3 = "hlo.reduce"(%1, %2) {dimensions = array<i64: 1>, kind = "add"} : (tensor<40x50xf32>, tensor<f32>) -> tensor<40xf32>
  %4 = "hlo.broadcast"(%3) {dimensions = array<i64: 0>} : (tensor<40xf32>) -> tensor<40x50xf32>
  %5 = "hlo.divide"(%1, %4) : (tensor<40x50xf32>, tensor<40x50xf32>) -> tensor<40x50xf32>
  %6 = "hlo.dot"(%5, %u) {lhs_batch = array<i64>, lhs_contract = array<i64: 0>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<40x50xf32>, tensor<40x8xf32>) -> tensor<50x8xf32>
  %7 = "hlo.dot"(%5, %v) {lhs_batch = array<i64>, lhs_contract = array<i64: 0>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<40x50xf32>, tensor<40x12xf32>) -> tensor<50x12xf32>
  return %6, %7 : tensor<50x8xf32>, tensor<50x12xf32>
}
