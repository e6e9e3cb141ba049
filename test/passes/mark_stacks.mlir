// RUN: shlo-opt %s --pass-pipeline='builtin.module(mark-stacks)' | filecheck %s

// The first stack gets a place from each trip, from the last one on; the second one is read, the third one keeps places.
// CHECK-LABEL: func.func @main
// CHECK: scf.while
// CHECK: } attributes {hlo.overwritten = array<i64: 1>}
func.func @main(%x: tensor<1x3xf32>, %y: tensor<5x3xf32>) -> (tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x3xf32>) {
  %c0 = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %c1 = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %c4 = "hlo.constant"() {value = dense<4> : tensor<i32>} : () -> tensor<i32>
  %c5 = "hlo.constant"() {value = dense<5> : tensor<i32>} : () -> tensor<i32>
  %r:4 = scf.while (%i0 = %c0, %a0 = %y, %b0 = %y, %d0 = %y) : (tensor<i32>, tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x3xf32>) -> (tensor<i32>, tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x3xf32>) {
    %l = "hlo.compare"(%i0, %c5) {direction = "LT"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %p = tensor.extract %l[] : tensor<i1>
    scf.condition(%p) %i0, %a0, %b0, %d0 : tensor<i32>, tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x3xf32>
  } do {
  ^bb0(%i: tensor<i32>, %a: tensor<5x3xf32>, %b: tensor<5x3xf32>, %d: tensor<5x3xf32>):
    %n = "hlo.add"(%i, %c1) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %back = "hlo.subtract"(%c4, %i) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %v = "hlo.dynamic_slice"(%b, %i, %c0) {sizes = array<i64: 1, 3>} : (tensor<5x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
    %a1 = "hlo.dynamic_update_slice"(%a, %v, %back, %c0) : (tensor<5x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<5x3xf32>
    %b1 = "hlo.dynamic_update_slice"(%b, %x, %i, %c0) : (tensor<5x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<5x3xf32>
    %d1 = "hlo.dynamic_update_slice"(%d, %x, %n, %c0) : (tensor<5x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<5x3xf32>
    scf.yield %n, %a1, %b1, %d1 : tensor<i32>, tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x3xf32>
  }
  return %r#1, %r#2, %r#3 : tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x3xf32>
}
