// RUN: shlo-opt %s --pass-pipeline='builtin.module(fusion{target=cpu})' | filecheck %s

// The sum over keys, and the products over queries that need it, are one fusion.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[BOTH:.*]]:2 = call @fusion_0(
// CHECK-NEXT: return %[[BOTH]]#0, %[[BOTH]]#1
// CHECK: func.func private @fusion_0
// CHECK-SAME: hlo.fusion = "scores"
// CHECK: "hlo.exponential"
// CHECK: "hlo.reduce"
// CHECK: "hlo.divide"
// CHECK-NOT: func.func private
func.func @main(%q: tensor<200x8xf32>, %k: tensor<250x8xf32>, %u: tensor<200x8xf32>, %v: tensor<200x12xf32>) -> (tensor<250x8xf32>, tensor<250x12xf32>) {
  %0 = "hlo.dot"(%q, %k) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 1>} : (tensor<200x8xf32>, tensor<250x8xf32>) -> tensor<200x250xf32>
  %1 = "hlo.exponential"(%0) : (tensor<200x250xf32>) -> tensor<200x250xf32>
  %2 = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %3 = "hlo.reduce"(%1, %2) {dimensions = array<i64: 1>, kind = "add"} : (tensor<200x250xf32>, tensor<f32>) -> tensor<200xf32>
  %4 = "hlo.broadcast"(%3) {dimensions = array<i64: 0>} : (tensor<200xf32>) -> tensor<200x250xf32>
  %5 = "hlo.divide"(%1, %4) : (tensor<200x250xf32>, tensor<200x250xf32>) -> tensor<200x250xf32>
  %6 = "hlo.dot"(%5, %u) {lhs_batch = array<i64>, lhs_contract = array<i64: 0>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<200x250xf32>, tensor<200x8xf32>) -> tensor<250x8xf32>
  %7 = "hlo.dot"(%5, %v) {lhs_batch = array<i64>, lhs_contract = array<i64: 0>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<200x250xf32>, tensor<200x12xf32>) -> tensor<250x12xf32>
  return %6, %7 : tensor<250x8xf32>, tensor<250x12xf32>
}
