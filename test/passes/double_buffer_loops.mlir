// RUN: shlo-opt %s --pass-pipeline='builtin.module(double-buffer-loops{min-bytes=1},buffer-assignment)' | filecheck %s

// The two trips of a pair write where the other one reads, so nothing is copied in the loop.
// CHECK-LABEL: func.func @main
// CHECK: } do {
// CHECK-NOT: hlo.copy
// CHECK: %[[Y:.*]] = func.call @turn(%arg{{.*}})
// CHECK-NOT: hlo.copy
// CHECK: %[[Z:.*]] = func.call @turn(%[[Y]])
// CHECK-NOT: hlo.copy
// CHECK: scf.yield %{{.*}}, %[[Z]]
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %r:2 = scf.while (%i0 = %c0, %a0 = %x) : (tensor<i32>, tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>) {
    %l = func.call @more(%i0) : (tensor<i32>) -> tensor<i1>
    %p = tensor.extract %l[] : tensor<i1>
    scf.condition(%p) %i0, %a0 : tensor<i32>, tensor<4xf32>
  } do {
  ^bb0(%i: tensor<i32>, %a: tensor<4xf32>):
    %y = func.call @turn(%a) : (tensor<4xf32>) -> tensor<4xf32>
    %n = func.call @next(%i) : (tensor<i32>) -> tensor<i32>
    scf.yield %n, %y : tensor<i32>, tensor<4xf32>
  }
  return %r#1 : tensor<4xf32>
}
func.func private @more(%i: tensor<i32>) -> tensor<i1> attributes {hlo.fusion = "straight_line"} {
  %c = "hlo.constant"() {value = dense<6> : tensor<i32>} : () -> tensor<i32>
  %l = "hlo.compare"(%i, %c) {direction = "LT"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
  return %l : tensor<i1>
}
func.func private @next(%i: tensor<i32>) -> tensor<i32> attributes {hlo.fusion = "straight_line"} {
  %c = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %n = "hlo.add"(%i, %c) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  return %n : tensor<i32>
}
func.func private @turn(%x: tensor<4xf32>) -> tensor<4xf32> attributes {hlo.fusion = "loop"} {
  %y = "hlo.reverse"(%x) {dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
