// RUN: shlo-opt %s --pass-pipeline='builtin.module(skew-loops{least=2},dce)' | filecheck %s
// RUN: shlo-opt %s --pass-pipeline='builtin.module(skew-loops,dce)' | filecheck %s --check-prefix=FEW

// Three rows of four columns are six antidiagonals of three lanes. A lane's left neighbour is itself a step before, the
// one above it the lane before, a step before: one carry has both.
// CHECK-LABEL: func.func @main
// CHECK: "hlo.transpose"(%{{.*}} : (tensor<3x6xf32>) -> tensor<6x3xf32>
// CHECK: scf.while
// CHECK-SAME: (tensor<i32>, tensor<3xf32>, tensor<6x3xf32>)
// CHECK-NOT: scf.while
// CHECK: %[[LEFT:.*]] = "hlo.select"
// CHECK: "hlo.pad"(%{{.*}}) {high = array<i64: 0>, interior = array<i64: 0>, low = array<i64: 1>} : (tensor<2xf32>, tensor<f32>) -> tensor<3xf32>
// CHECK: %[[ABOVE:.*]] = "hlo.select"
// CHECK: "hlo.maximum"(%{{.*}}) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
// CHECK: scf.yield
// CHECK: "hlo.transpose"(%{{.*}} : (tensor<6x3xf32>) -> tensor<3x6xf32>
// FEW: scf.while
// FEW: scf.while
func.func @main(%xs: tensor<3x4xf32>, %from: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %c1 = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %c3 = "hlo.constant"() {value = dense<3> : tensor<i32>} : () -> tensor<i32>
  %c4 = "hlo.constant"() {value = dense<4> : tensor<i32>} : () -> tensor<i32>
  %zero = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %none = "hlo.broadcast"(%zero) {dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32>
  %r:2 = scf.while (%i0 = %c0, %a0 = %from) : (tensor<i32>, tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>) {
    %l = "hlo.compare"(%i0, %c3) {direction = "LT"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %p = tensor.extract %l[] : tensor<i1>
    scf.condition(%p) %i0, %a0 : tensor<i32>, tensor<4xf32>
  } do {
  ^bb0(%i: tensor<i32>, %a: tensor<4xf32>):
    %cut = "hlo.dynamic_slice"(%xs, %i, %c0) {sizes = array<i64: 1, 4>} : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %x = "hlo.reshape"(%cut) : (tensor<1x4xf32>) -> tensor<4xf32>
    %s:3 = scf.while (%j0 = %c0, %v0 = %zero, %b0 = %none) : (tensor<i32>, tensor<f32>, tensor<4xf32>) -> (tensor<i32>, tensor<f32>, tensor<4xf32>) {
      %l = "hlo.compare"(%j0, %c4) {direction = "LT"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %p = tensor.extract %l[] : tensor<i1>
      scf.condition(%p) %j0, %v0, %b0 : tensor<i32>, tensor<f32>, tensor<4xf32>
    } do {
    ^bb0(%j: tensor<i32>, %v: tensor<f32>, %b: tensor<4xf32>):
      %xj = "hlo.dynamic_slice"(%x, %j) {sizes = array<i64: 1>} : (tensor<4xf32>, tensor<i32>) -> tensor<1xf32>
      %aj = "hlo.dynamic_slice"(%a, %j) {sizes = array<i64: 1>} : (tensor<4xf32>, tensor<i32>) -> tensor<1xf32>
      %left = "hlo.broadcast"(%v) {dimensions = array<i64>} : (tensor<f32>) -> tensor<1xf32>
      %m = "hlo.maximum"(%left, %aj) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
      %n = "hlo.add"(%m, %xj) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
      %w = "hlo.reshape"(%n) : (tensor<1xf32>) -> tensor<f32>
      %d = "hlo.dynamic_update_slice"(%b, %n, %j) : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
      %k = "hlo.add"(%j, %c1) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      scf.yield %k, %w, %d : tensor<i32>, tensor<f32>, tensor<4xf32>
    }
    %n = "hlo.add"(%i, %c1) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    scf.yield %n, %s#2 : tensor<i32>, tensor<4xf32>
  }
  return %r#1 : tensor<4xf32>
}
