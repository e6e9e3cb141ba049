// RUN: shlo-opt %s --pass-pipeline='builtin.module(drop-fills)' --split-input-file | filecheck %s

// Each stack starts as a call of its own, which is not made; somebody else reads the zeros that were there.
// CHECK-LABEL: func.func @main
// CHECK: %[[ZEROS:.*]] = call @fill() : ()
// CHECK: %[[A:.*]] = call @fill() {hlo.unread} : ()
// CHECK: %[[B:.*]] = call @fill() {hlo.unread} : ()
// CHECK: scf.while (%{{.*}} = %[[A]], %{{.*}} = %[[B]], %{{.*}} = %[[ZEROS]])
// CHECK-NOT: hlo.overwritten
func.func @main(%p: tensor<i1>) -> (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) {
  %z = func.call @fill() : () -> tensor<5xf32>
  %r:3 = scf.while (%a0 = %z, %b0 = %z, %d0 = %z) : (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) {
    %q = tensor.extract %p[] : tensor<i1>
    scf.condition(%q) %a0, %b0, %d0 : tensor<5xf32>, tensor<5xf32>, tensor<5xf32>
  } do {
  ^bb0(%a: tensor<5xf32>, %b: tensor<5xf32>, %d: tensor<5xf32>):
    scf.yield %a, %b, %d : tensor<5xf32>, tensor<5xf32>, tensor<5xf32>
  } attributes {hlo.overwritten = array<i64: 0, 1>}
  return %r#0, %r#1, %r#2 : tensor<5xf32>, tensor<5xf32>, tensor<5xf32>
}
func.func private @fill() -> tensor<5xf32> attributes {hlo.fusion = "loop"} {
  %0 = "hlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %1 = "hlo.broadcast"(%0) {dimensions = array<i64>} : (tensor<f32>) -> tensor<5xf32>
  return %1 : tensor<5xf32>
}

// -----

// A loop that is a fusion need not fill the stack that it overwrites; zeros that others read, too, stay.
// CHECK-LABEL: func.func private @loop_0
// CHECK: "hlo.broadcast"(%{{.*}}) {dimensions = array<i64>, hlo.unread}
// CHECK-NOT: hlo.unread
// CHECK: scf.while
// CHECK-NOT: hlo.overwritten
func.func @main(%p: tensor<i1>) -> (tensor<50xf32>, tensor<50xf32>, tensor<50xf32>) {
  %r:3 = func.call @loop_0(%p) : (tensor<i1>) -> (tensor<50xf32>, tensor<50xf32>, tensor<50xf32>)
  return %r#0, %r#1, %r#2 : tensor<50xf32>, tensor<50xf32>, tensor<50xf32>
}
func.func private @loop_0(%p: tensor<i1>) -> (tensor<50xf32>, tensor<50xf32>, tensor<50xf32>) attributes {hlo.fusion = "straight_line_loop"} {
  %0 = "hlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %y = "hlo.broadcast"(%0) {dimensions = array<i64>} : (tensor<f32>) -> tensor<50xf32>
  %z = "hlo.broadcast"(%0) {dimensions = array<i64>} : (tensor<f32>) -> tensor<50xf32>
  %r:3 = scf.while (%a0 = %y, %b0 = %z, %d0 = %z) : (tensor<50xf32>, tensor<50xf32>, tensor<50xf32>) -> (tensor<50xf32>, tensor<50xf32>, tensor<50xf32>) {
    %q = tensor.extract %p[] : tensor<i1>
    scf.condition(%q) %a0, %b0, %d0 : tensor<50xf32>, tensor<50xf32>, tensor<50xf32>
  } do {
  ^bb0(%a: tensor<50xf32>, %b: tensor<50xf32>, %d: tensor<50xf32>):
    scf.yield %a, %b, %d : tensor<50xf32>, tensor<50xf32>, tensor<50xf32>
  } attributes {hlo.overwritten = array<i64: 0, 1>}
  return %r#0, %r#1, %r#2 : tensor<50xf32>, tensor<50xf32>, tensor<50xf32>
}
