// RUN: shlo-opt %s --pass-pipeline='builtin.module(batch-products{least=1})' | filecheck %s
// RUN: shlo-opt %s --pass-pipeline='builtin.module(batch-products)' | filecheck %s --check-prefix=SMALL

// CHECK-LABEL: func.func @main
// CHECK: %[[ALL:.*]] = "hlo.dot"(%arg0, %arg1) {{.*}} -> tensor<5x2x4xf32>
// CHECK: scf.while
// CHECK-NOT: "hlo.dot"
// CHECK: "hlo.dynamic_slice"(%[[ALL]], %{{.*}}) {sizes = array<i64: 1, 2, 4>}
// Weights of few elements stay in a cache.
// SMALL: scf.while
// SMALL: "hlo.dot"
func.func @main(%xs: tensor<5x2x3xf32>, %w: tensor<3x4xf32>) -> tensor<1x2x4xf32> {
  %c0 = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %c1 = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %c5 = "hlo.constant"() {value = dense<5> : tensor<i32>} : () -> tensor<i32>
  %zero = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %none = "hlo.broadcast"(%zero) {dimensions = array<i64>} : (tensor<f32>) -> tensor<1x2x4xf32>
  %r:2 = scf.while (%i0 = %c0, %a0 = %none) : (tensor<i32>, tensor<1x2x4xf32>) -> (tensor<i32>, tensor<1x2x4xf32>) {
    %l = "hlo.compare"(%i0, %c5) {direction = "LT"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %p = tensor.extract %l[] : tensor<i1>
    scf.condition(%p) %i0, %a0 : tensor<i32>, tensor<1x2x4xf32>
  } do {
  ^bb0(%i: tensor<i32>, %a: tensor<1x2x4xf32>):
    %n = "hlo.add"(%i, %c1) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %x = "hlo.dynamic_slice"(%xs, %i, %c0, %c0) {sizes = array<i64: 1, 2, 3>} : (tensor<5x2x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x3xf32>
    %d = "hlo.dot"(%x, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 2>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<1x2x3xf32>, tensor<3x4xf32>) -> tensor<1x2x4xf32>
    %b = "hlo.add"(%a, %d) : (tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
    scf.yield %n, %b : tensor<i32>, tensor<1x2x4xf32>
  }
  return %r#1 : tensor<1x2x4xf32>
}
