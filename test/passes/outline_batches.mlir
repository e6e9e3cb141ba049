// RUN: shlo-opt %s --pass-pipeline='outline-batches' --split-input-file | filecheck %s

// Elementwise work on each item of a carry: one kernel, to which the other operands are passed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: scf.while
// CHECK: call @batch_0(%arg0, %arg1) : (tensor<1000xf32>, tensor<1000xf32>) -> (tensor<i32>, tensor<1000xf32>)
// CHECK: func.func private @batch_0
// CHECK-SAME: hlo.fusion = "batched_loop"
// CHECK: scf.while
func.func @main(%x: tensor<1000xf32>, %rate: tensor<1000xf32>) -> tensor<1000xf32> {
  %zero = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %ten = "hlo.constant"() {value = dense<10> : tensor<i32>} : () -> tensor<i32>
  %one = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %r:2 = scf.while (%i = %zero, %y = %x) : (tensor<i32>, tensor<1000xf32>) -> (tensor<i32>, tensor<1000xf32>) {
    %p = "hlo.compare"(%i, %ten) {direction = "LT"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %go = tensor.extract %p[] : tensor<i1>
    scf.condition(%go) %i, %y : tensor<i32>, tensor<1000xf32>
  } do {
  ^bb0(%i: tensor<i32>, %y: tensor<1000xf32>):
    %next = "hlo.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %z = "hlo.multiply"(%y, %rate) : (tensor<1000xf32>, tensor<1000xf32>) -> tensor<1000xf32>
    scf.yield %next, %z : tensor<i32>, tensor<1000xf32>
  }
  return %r#1 : tensor<1000xf32>
}

// -----

// The items of a carry of rows are its rows, where the other carry has a number for each, and their sums stay in them.
// CHECK-LABEL: func.func @rows
// CHECK-NOT: scf.while
// CHECK: call @batch_0
func.func @rows(%x: tensor<300x4xf32>, %s: tensor<300xf32>) -> tensor<300xf32> {
  %zero = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %none = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %ten = "hlo.constant"() {value = dense<10> : tensor<i32>} : () -> tensor<i32>
  %one = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %r:3 = scf.while (%i = %zero, %y = %x, %t = %s) : (tensor<i32>, tensor<300x4xf32>, tensor<300xf32>) -> (tensor<i32>, tensor<300x4xf32>, tensor<300xf32>) {
    %p = "hlo.compare"(%i, %ten) {direction = "LT"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %go = tensor.extract %p[] : tensor<i1>
    scf.condition(%go) %i, %y, %t : tensor<i32>, tensor<300x4xf32>, tensor<300xf32>
  } do {
  ^bb0(%i: tensor<i32>, %y: tensor<300x4xf32>, %t: tensor<300xf32>):
    %next = "hlo.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %sum = "hlo.reduce"(%y, %none) {dimensions = array<i64: 1>, kind = "add"} : (tensor<300x4xf32>, tensor<f32>) -> tensor<300xf32>
    %all = "hlo.broadcast"(%t) {dimensions = array<i64: 0>} : (tensor<300xf32>) -> tensor<300x4xf32>
    %z = "hlo.subtract"(%y, %all) : (tensor<300x4xf32>, tensor<300x4xf32>) -> tensor<300x4xf32>
    scf.yield %next, %z, %sum : tensor<i32>, tensor<300x4xf32>, tensor<300xf32>
  }
  return %r#2 : tensor<300xf32>
}

// -----

// An item that needs its neighbour keeps the loop.
// CHECK-LABEL: func.func @neighbours
// CHECK: scf.while
// CHECK-NOT: batched_loop
func.func @neighbours(%x: tensor<1000xf32>) -> tensor<1000xf32> {
  %zero = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %ten = "hlo.constant"() {value = dense<10> : tensor<i32>} : () -> tensor<i32>
  %one = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %r:2 = scf.while (%i = %zero, %y = %x) : (tensor<i32>, tensor<1000xf32>) -> (tensor<i32>, tensor<1000xf32>) {
    %p = "hlo.compare"(%i, %ten) {direction = "LT"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %go = tensor.extract %p[] : tensor<i1>
    scf.condition(%go) %i, %y : tensor<i32>, tensor<1000xf32>
  } do {
  ^bb0(%i: tensor<i32>, %y: tensor<1000xf32>):
    %next = "hlo.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %turned = "hlo.reverse"(%y) {dimensions = array<i64: 0>} : (tensor<1000xf32>) -> tensor<1000xf32>
    %z = "hlo.add"(%y, %turned) : (tensor<1000xf32>, tensor<1000xf32>) -> tensor<1000xf32>
    scf.yield %next, %z : tensor<i32>, tensor<1000xf32>
  }
  return %r#1 : tensor<1000xf32>
}

// -----

// So does an end that depends on all items: how many trips there are has to be known.
// CHECK-LABEL: func.func @until_all_are_small
// CHECK: scf.while
// CHECK-NOT: batched_loop
func.func @until_all_are_small(%x: tensor<1000xf32>) -> tensor<1000xf32> {
  %least = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %one = "hlo.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %r = scf.while (%y = %x) : (tensor<1000xf32>) -> (tensor<1000xf32>) {
    %most = "hlo.reduce"(%y, %least) {dimensions = array<i64: 0>, kind = "maximum"} : (tensor<1000xf32>, tensor<f32>) -> tensor<f32>
    %p = "hlo.compare"(%most, %one) {direction = "GT"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %go = tensor.extract %p[] : tensor<i1>
    scf.condition(%go) %y : tensor<1000xf32>
  } do {
  ^bb0(%y: tensor<1000xf32>):
    %z = "hlo.multiply"(%y, %y) : (tensor<1000xf32>, tensor<1000xf32>) -> tensor<1000xf32>
    scf.yield %z : tensor<1000xf32>
  }
  return %r : tensor<1000xf32>
}
