// RUN: shlo-opt %s --pass-pipeline='builtin.module(sink-products{least=1 share=1})' | filecheck %s
// RUN: shlo-opt %s --pass-pipeline='builtin.module(sink-products)' | filecheck %s --check-prefix=SMALL

// The sum of products becomes one, and what the loop stacks is a product of the same stack.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = scf.while
// CHECK: "hlo.dynamic_update_slice"(%{{.*}} : (tensor<5x2x4xf32>
// CHECK: scf.yield
// CHECK: %[[SUM:.*]] = "hlo.dot"(%arg0, %[[R]]#1) {lhs_batch = array<i64>, lhs_contract = array<i64: 0, 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0, 1>}
// CHECK: "hlo.add"(%arg2, %[[SUM]])
// CHECK: "hlo.dot"(%[[R]]#1, %arg1)
// Registers keep a sum of few elements.
// SMALL: scf.while
// SMALL: "hlo.dot"
func.func @main(%xs: tensor<5x2x3xf32>, %w: tensor<3x4xf32>, %dw: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<5x2x3xf32>) {
  %c0 = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %c1 = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %c4 = "hlo.constant"() {value = dense<4> : tensor<i32>} : () -> tensor<i32>
  %c5 = "hlo.constant"() {value = dense<5> : tensor<i32>} : () -> tensor<i32>
  %zero = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %none = "hlo.broadcast"(%zero) {dimensions = array<i64>} : (tensor<f32>) -> tensor<5x2x3xf32>
  %r:3 = scf.while (%i0 = %c0, %a0 = %dw, %s0 = %none) : (tensor<i32>, tensor<3x4xf32>, tensor<5x2x3xf32>) -> (tensor<i32>, tensor<3x4xf32>, tensor<5x2x3xf32>) {
    %l = "hlo.compare"(%i0, %c5) {direction = "LT"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %p = tensor.extract %l[] : tensor<i1>
    scf.condition(%p) %i0, %a0, %s0 : tensor<i32>, tensor<3x4xf32>, tensor<5x2x3xf32>
  } do {
  ^bb0(%i: tensor<i32>, %a: tensor<3x4xf32>, %s: tensor<5x2x3xf32>):
    %n = "hlo.add"(%i, %c1) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %back = "hlo.subtract"(%c4, %i) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %cut = "hlo.dynamic_slice"(%xs, %back, %c0, %c0) {sizes = array<i64: 1, 2, 3>} : (tensor<5x2x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x3xf32>
    %x = "hlo.reshape"(%cut) : (tensor<1x2x3xf32>) -> tensor<2x3xf32>
    %z = "hlo.dot"(%x, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    %t = "hlo.tanh"(%z) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %d = "hlo.dot"(%x, %t) {lhs_batch = array<i64>, lhs_contract = array<i64: 0>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<3x4xf32>
    %b = "hlo.add"(%a, %d) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %dx = "hlo.dot"(%t, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 1>} : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
    %row = "hlo.reshape"(%dx) : (tensor<2x3xf32>) -> tensor<1x2x3xf32>
    %u = "hlo.dynamic_update_slice"(%s, %row, %back, %c0, %c0) : (tensor<5x2x3xf32>, tensor<1x2x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<5x2x3xf32>
    scf.yield %n, %b, %u : tensor<i32>, tensor<3x4xf32>, tensor<5x2x3xf32>
  }
  return %r#1, %r#2 : tensor<3x4xf32>, tensor<5x2x3xf32>
}
