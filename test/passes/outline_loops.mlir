// RUN: shlo-opt %s --pass-pipeline='outline-loops' --split-input-file | filecheck %s

// A loop over scalars becomes one kernel; the constant it starts from is cloned into it, the array is passed. It returns
// what somebody reads.
// CHECK-LABEL: func.func @main
// CHECK-NOT: scf.while
// CHECK: call @loop_0(%arg0) : (tensor<f32>) -> tensor<f32>
// CHECK: func.func private @loop_0
// CHECK-SAME: hlo.fusion = "straight_line_loop"
// CHECK: scf.while
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %zero = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %ten = "hlo.constant"() {value = dense<10> : tensor<i32>} : () -> tensor<i32>
  %one = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %r:2 = scf.while (%i = %zero, %y = %x) : (tensor<i32>, tensor<f32>) -> (tensor<i32>, tensor<f32>) {
    %p = "hlo.compare"(%i, %ten) {direction = "LT"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %go = tensor.extract %p[] : tensor<i1>
    scf.condition(%go) %i, %y : tensor<i32>, tensor<f32>
  } do {
  ^bb0(%i: tensor<i32>, %y: tensor<f32>):
    %next = "hlo.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %twice = "hlo.add"(%y, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    scf.yield %next, %twice : tensor<i32>, tensor<f32>
  }
  return %r#1 : tensor<f32>
}

// -----

// Big values may be read by dynamic_slice, and written by one dynamic_update_slice after that.
// CHECK-LABEL: func.func @main
// CHECK: call @loop_0
func.func @main(%xs: tensor<1000xf32>, %ys: tensor<1000xf32>) -> tensor<1000xf32> {
  %zero = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %limit = "hlo.constant"() {value = dense<1000> : tensor<i32>} : () -> tensor<i32>
  %one = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %r:2 = scf.while (%i = %zero, %y = %ys) : (tensor<i32>, tensor<1000xf32>) -> (tensor<i32>, tensor<1000xf32>) {
    %p = "hlo.compare"(%i, %limit) {direction = "LT"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %go = tensor.extract %p[] : tensor<i1>
    scf.condition(%go) %i, %y : tensor<i32>, tensor<1000xf32>
  } do {
  ^bb0(%i: tensor<i32>, %y: tensor<1000xf32>):
    %next = "hlo.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %x = "hlo.dynamic_slice"(%xs, %i) {sizes = array<i64: 1>} : (tensor<1000xf32>, tensor<i32>) -> tensor<1xf32>
    %old = "hlo.dynamic_slice"(%y, %i) {sizes = array<i64: 1>} : (tensor<1000xf32>, tensor<i32>) -> tensor<1xf32>
    %new = "hlo.multiply"(%x, %old) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %z = "hlo.dynamic_update_slice"(%y, %new, %i) : (tensor<1000xf32>, tensor<1xf32>, tensor<i32>) -> tensor<1000xf32>
    scf.yield %next, %z : tensor<i32>, tensor<1000xf32>
  }
  return %r#1 : tensor<1000xf32>
}

// -----

// Whole-array arithmetic on a big carry stays a loop of kernels.
// CHECK-LABEL: func.func @main
// CHECK: scf.while
// CHECK-NOT: straight_line_loop
func.func @main(%x: tensor<1000xf32>) -> tensor<1000xf32> {
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
    %twice = "hlo.add"(%y, %y) : (tensor<1000xf32>, tensor<1000xf32>) -> tensor<1000xf32>
    scf.yield %next, %twice : tensor<i32>, tensor<1000xf32>
  }
  return %r#1 : tensor<1000xf32>
}

// -----

// A big splat that a trip slices is passed: the kernel has no memory for one of its own.
// CHECK-LABEL: func.func @main
// CHECK: [[C:%[0-9]+]] = "hlo.broadcast"
// CHECK: call @loop_0({{.*}}[[C]]{{.*}}) : {{.*}}tensor<1000xf32>
// CHECK: func.func private @loop_0({{.*}}tensor<1000xf32>{{.*}}"straight_line_loop"
// CHECK-NOT: "hlo.broadcast"{{.*}}tensor<1000xf32>
func.func @main(%n: tensor<i32>) -> tensor<1xf32> {
  %one = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %c = "hlo.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %cs = "hlo.broadcast"(%c) {dimensions = array<i64>} : (tensor<f32>) -> tensor<1000xf32>
  %sum = "hlo.broadcast"(%c) {dimensions = array<i64>} : (tensor<f32>) -> tensor<1xf32>
  %r:2 = scf.while (%i = %one, %y = %sum) : (tensor<i32>, tensor<1xf32>) -> (tensor<i32>, tensor<1xf32>) {
    %p = "hlo.compare"(%i, %n) {direction = "LT"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %go = tensor.extract %p[] : tensor<i1>
    scf.condition(%go) %i, %y : tensor<i32>, tensor<1xf32>
  } do {
  ^bb0(%i: tensor<i32>, %y: tensor<1xf32>):
    %next = "hlo.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %x = "hlo.dynamic_slice"(%cs, %i) {sizes = array<i64: 1>} : (tensor<1000xf32>, tensor<i32>) -> tensor<1xf32>
    %z = "hlo.add"(%y, %x) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    scf.yield %next, %z : tensor<i32>, tensor<1xf32>
  }
  return %r#1 : tensor<1xf32>
}
