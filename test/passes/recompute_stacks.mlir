// RUN: shlo-opt %s --pass-pipeline='builtin.module(recompute-stacks,dce)' | filecheck %s
// RUN: shlo-opt %s --pass-pipeline='builtin.module(recompute-stacks{flops=0 shrink=100},dce)' | filecheck %s --check-prefix=KEPT

// The square follows from the difference, the difference from a carry of one row, which is stacked instead, and the
// exponential takes too much. The places are read backwards, and so is the input of a step.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:4 = scf.while
// CHECK-SAME: tensor<5x16x3xf32>, tensor<5x3xf32>)
// CHECK: } do {
// CHECK: %[[E:.*]] = "hlo.exponential"
// CHECK-DAG: "hlo.dynamic_update_slice"(%{{.*}} : (tensor<5x16x3xf32>
// CHECK-DAG: "hlo.dynamic_update_slice"(%{{.*}} : (tensor<5x3xf32>
// CHECK: scf.yield
// CHECK: scf.while
// CHECK: %[[BACK:.*]] = "hlo.subtract"
// CHECK: %[[CUT:.*]] = "hlo.dynamic_slice"(%arg0, %[[BACK]]
// CHECK: %[[INPUT:.*]] = "hlo.reshape"(%[[CUT]])
// CHECK: %[[ROW:.*]] = "hlo.dynamic_slice"(%[[R]]#3, %[[BACK]]
// CHECK: %[[CARRY:.*]] = "hlo.reshape"(%[[ROW]])
// CHECK: %[[WIDE:.*]] = "hlo.broadcast"(%[[CARRY]])
// CHECK: %[[D:.*]] = "hlo.subtract"(%[[INPUT]], %[[WIDE]])
// CHECK: "hlo.multiply"(%[[D]], %[[D]])
// CHECK: "hlo.dynamic_slice"(%[[R]]#2, %[[BACK]]
// Without any work twice, all three are kept, but for the square, which only its reader computes now.
// KEPT: %[[R:.*]]:4 = scf.while
// KEPT-SAME: tensor<5x16x3xf32>, tensor<5x16x3xf32>)
func.func @main(%xs: tensor<5x16x3xf32>, %from: tensor<3xf32>) -> tensor<16x3xf32> {
  %c0 = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %c1 = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %c4 = "hlo.constant"() {value = dense<4> : tensor<i32>} : () -> tensor<i32>
  %c5 = "hlo.constant"() {value = dense<5> : tensor<i32>} : () -> tensor<i32>
  %zero = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %none = "hlo.broadcast"(%zero) {dimensions = array<i64>} : (tensor<f32>) -> tensor<5x16x3xf32>
  %start = "hlo.broadcast"(%zero) {dimensions = array<i64>} : (tensor<f32>) -> tensor<16x3xf32>
  %r:5 = scf.while (%i0 = %c0, %a0 = %from, %s0 = %none, %t0 = %none, %u0 = %none) : (tensor<i32>, tensor<3xf32>, tensor<5x16x3xf32>, tensor<5x16x3xf32>, tensor<5x16x3xf32>) -> (tensor<i32>, tensor<3xf32>, tensor<5x16x3xf32>, tensor<5x16x3xf32>, tensor<5x16x3xf32>) {
    %l = "hlo.compare"(%i0, %c5) {direction = "LT"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %p = tensor.extract %l[] : tensor<i1>
    scf.condition(%p) %i0, %a0, %s0, %t0, %u0 : tensor<i32>, tensor<3xf32>, tensor<5x16x3xf32>, tensor<5x16x3xf32>, tensor<5x16x3xf32>
  } do {
  ^bb0(%i: tensor<i32>, %a: tensor<3xf32>, %s: tensor<5x16x3xf32>, %t: tensor<5x16x3xf32>, %u: tensor<5x16x3xf32>):
    %n = "hlo.add"(%i, %c1) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %cut = "hlo.dynamic_slice"(%xs, %i, %c0, %c0) {sizes = array<i64: 1, 16, 3>} : (tensor<5x16x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x3xf32>
    %x = "hlo.reshape"(%cut) : (tensor<1x16x3xf32>) -> tensor<16x3xf32>
    %w = "hlo.broadcast"(%a) {dimensions = array<i64: 1>} : (tensor<3xf32>) -> tensor<16x3xf32>
    %d = "hlo.subtract"(%x, %w) : (tensor<16x3xf32>, tensor<16x3xf32>) -> tensor<16x3xf32>
    %q = "hlo.multiply"(%d, %d) : (tensor<16x3xf32>, tensor<16x3xf32>) -> tensor<16x3xf32>
    %e = "hlo.exponential"(%d) : (tensor<16x3xf32>) -> tensor<16x3xf32>
    %b = "hlo.reduce"(%e, %zero) {dimensions = array<i64: 0>, kind = "add"} : (tensor<16x3xf32>, tensor<f32>) -> tensor<3xf32>
    %dr = "hlo.reshape"(%d) : (tensor<16x3xf32>) -> tensor<1x16x3xf32>
    %qr = "hlo.reshape"(%q) : (tensor<16x3xf32>) -> tensor<1x16x3xf32>
    %er = "hlo.reshape"(%e) : (tensor<16x3xf32>) -> tensor<1x16x3xf32>
    %s1 = "hlo.dynamic_update_slice"(%s, %dr, %i, %c0, %c0) : (tensor<5x16x3xf32>, tensor<1x16x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<5x16x3xf32>
    %t1 = "hlo.dynamic_update_slice"(%t, %qr, %i, %c0, %c0) : (tensor<5x16x3xf32>, tensor<1x16x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<5x16x3xf32>
    %u1 = "hlo.dynamic_update_slice"(%u, %er, %i, %c0, %c0) : (tensor<5x16x3xf32>, tensor<1x16x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<5x16x3xf32>
    scf.yield %n, %b, %s1, %t1, %u1 : tensor<i32>, tensor<3xf32>, tensor<5x16x3xf32>, tensor<5x16x3xf32>, tensor<5x16x3xf32>
  }
  %g:2 = scf.while (%j0 = %c0, %y0 = %start) : (tensor<i32>, tensor<16x3xf32>) -> (tensor<i32>, tensor<16x3xf32>) {
    %l = "hlo.compare"(%j0, %c5) {direction = "LT"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %p = tensor.extract %l[] : tensor<i1>
    scf.condition(%p) %j0, %y0 : tensor<i32>, tensor<16x3xf32>
  } do {
  ^bb0(%j: tensor<i32>, %y: tensor<16x3xf32>):
    %back = "hlo.subtract"(%c4, %j) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %dc = "hlo.dynamic_slice"(%r#2, %back, %c0, %c0) {sizes = array<i64: 1, 16, 3>} : (tensor<5x16x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x3xf32>
    %qc = "hlo.dynamic_slice"(%r#3, %back, %c0, %c0) {sizes = array<i64: 1, 16, 3>} : (tensor<5x16x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x3xf32>
    %ec = "hlo.dynamic_slice"(%r#4, %back, %c0, %c0) {sizes = array<i64: 1, 16, 3>} : (tensor<5x16x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x3xf32>
    %m = "hlo.add"(%dc, %qc) : (tensor<1x16x3xf32>, tensor<1x16x3xf32>) -> tensor<1x16x3xf32>
    %o = "hlo.multiply"(%m, %ec) : (tensor<1x16x3xf32>, tensor<1x16x3xf32>) -> tensor<1x16x3xf32>
    %f = "hlo.reshape"(%o) : (tensor<1x16x3xf32>) -> tensor<16x3xf32>
    %z = "hlo.add"(%y, %f) : (tensor<16x3xf32>, tensor<16x3xf32>) -> tensor<16x3xf32>
    %k = "hlo.add"(%j, %c1) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    scf.yield %k, %z : tensor<i32>, tensor<16x3xf32>
  }
  return %g#1 : tensor<16x3xf32>
}
