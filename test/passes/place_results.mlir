// RUN: shlo-opt %s --pass-pipeline='builtin.module(place-results,buffer-assignment{verify})' | filecheck %s

// A row that is only stacked is computed in its place: in no memory of its own. The first result is carried, too.
// CHECK-LABEL: func.func @main
// CHECK: %[[Y:.*]]:2 = func.call @step(%{{.*}}) {hlo.placed = array<i64: 1>, hlo.slices = array<i64: {{.*}}, 4, 1, 0, 64>}
// CHECK: %[[V:.*]] = "hlo.reshape"(%[[Y]]#1) {hlo.slices = array<i64: 4, 1, 0, 64>}
// CHECK: func.call @stack(%{{.*}}, %[[V]], %{{.*}}) {{{.*}}hlo.unread}
// CHECK: func.call @stack(%{{.*}}, %{{.*}}, %{{.*}}) {hlo.slices = array<i64: {{[0-9, ]*}}>} :
func.func @main(%x: tensor<16xf32>, %s: tensor<6x16xf32>, %t: tensor<6x16xf32>) -> (tensor<6x16xf32>, tensor<6x16xf32>) {
  %c0 = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %r:4 = scf.while (%i0 = %c0, %a0 = %x, %s0 = %s, %t0 = %t) : (tensor<i32>, tensor<16xf32>, tensor<6x16xf32>, tensor<6x16xf32>)
      -> (tensor<i32>, tensor<16xf32>, tensor<6x16xf32>, tensor<6x16xf32>) {
    %l = func.call @more(%i0) : (tensor<i32>) -> tensor<i1>
    %p = tensor.extract %l[] : tensor<i1>
    scf.condition(%p) %i0, %a0, %s0, %t0 : tensor<i32>, tensor<16xf32>, tensor<6x16xf32>, tensor<6x16xf32>
  } do {
  ^bb0(%i: tensor<i32>, %a: tensor<16xf32>, %s1: tensor<6x16xf32>, %t1: tensor<6x16xf32>):
    %y:2 = func.call @step(%a) : (tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>)
    %v = "hlo.reshape"(%y#1) : (tensor<16xf32>) -> tensor<1x16xf32>
    %s2 = func.call @stack(%s1, %v, %i) : (tensor<6x16xf32>, tensor<1x16xf32>, tensor<i32>) -> tensor<6x16xf32>
    %w = "hlo.reshape"(%y#0) : (tensor<16xf32>) -> tensor<1x16xf32>
    %t2 = func.call @stack(%t1, %w, %i) : (tensor<6x16xf32>, tensor<1x16xf32>, tensor<i32>) -> tensor<6x16xf32>
    %n = func.call @next(%i) : (tensor<i32>) -> tensor<i32>
    scf.yield %n, %y#0, %s2, %t2 : tensor<i32>, tensor<16xf32>, tensor<6x16xf32>, tensor<6x16xf32>
  }
  return %r#2, %r#3 : tensor<6x16xf32>, tensor<6x16xf32>
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
func.func private @step(%x: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) attributes {hlo.fusion = "loop"} {
  %y = "hlo.sine"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %z = "hlo.add"(%y, %x) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %y, %z : tensor<16xf32>, tensor<16xf32>
}
func.func private @stack(%s: tensor<6x16xf32>, %v: tensor<1x16xf32>, %i: tensor<i32>) -> tensor<6x16xf32> attributes {hlo.fusion = "in_place_update"} {
  %c = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %r = "hlo.dynamic_update_slice"(%s, %v, %i, %c) : (tensor<6x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<6x16xf32>
  return %r : tensor<6x16xf32>
}
