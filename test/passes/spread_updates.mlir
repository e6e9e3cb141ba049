// RUN: shlo-opt %s --pass-pipeline='builtin.module(spread-updates,dce)' | filecheck %s

// CHECK-LABEL: func.func @set
// CHECK-DAG: %[[INSIDE:.*]] = "hlo.pad"({{.*}}) {high = array<i64: 2, 3>, interior = array<i64: 0, 0>, low = array<i64: 0, 3>} : (tensor<2x2xi1>, tensor<i1>) -> tensor<4x8xi1>
// CHECK-DAG: %[[NEW:.*]] = "hlo.pad"(%arg1, {{.*}}) {high = array<i64: 2, 3>, interior = array<i64: 0, 0>, low = array<i64: 0, 3>} : (tensor<2x2xf32>, tensor<f32>) -> tensor<4x8xf32>
// CHECK: %[[RESULT:.*]] = "hlo.select"(%[[INSIDE]], %[[NEW]], %arg0)
// CHECK: return %[[RESULT]]
func.func @set(%x: tensor<4x8xf32>, %u: tensor<2x2xf32>) -> tensor<4x8xf32> {
  %0 = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %3 = "hlo.constant"() {value = dense<3> : tensor<i32>} : () -> tensor<i32>
  %1 = "hlo.dynamic_update_slice"(%x, %u, %0, %3) : (tensor<4x8xf32>, tensor<2x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// A number is broadcast, and a start that is too large is clamped.
// CHECK-LABEL: func.func @number
// CHECK-DAG: %[[INSIDE:.*]] = "hlo.pad"({{.*}}) {high = array<i64: 0>, interior = array<i64: 0>, low = array<i64: 6>} : (tensor<2xi1>
// CHECK-DAG: %[[NEW:.*]] = "hlo.broadcast"({{.*}}) {dimensions = array<i64>} : (tensor<f32>) -> tensor<8xf32>
// CHECK: "hlo.select"(%[[INSIDE]], %[[NEW]], %arg0)
func.func @number(%x: tensor<8xf32>) -> tensor<8xf32> {
  %9 = "hlo.constant"() {value = dense<9> : tensor<i32>} : () -> tensor<i32>
  %one = "hlo.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %u = "hlo.broadcast"(%one) {dimensions = array<i64>} : (tensor<f32>) -> tensor<2xf32>
  %1 = "hlo.dynamic_update_slice"(%x, %u, %9) : (tensor<8xf32>, tensor<2xf32>, tensor<i32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// What is read from the place of the update is read from the whole tensor, so it is read at one place. What is read
// from the same place of another tensor is not padded either.
// CHECK-LABEL: func.func @add
// CHECK-NOT: hlo.slice
// CHECK-NOT: hlo.dynamic_slice
// CHECK-DAG: %[[NEW:.*]] = "hlo.pad"(%arg2, {{.*}}) {high = array<i64: 2>, interior = array<i64: 0>, low = array<i64: 3>}
// CHECK-DAG: %[[PRODUCT:.*]] = "hlo.multiply"(%arg1, %arg0) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
// CHECK: %[[SUM:.*]] = "hlo.add"(%[[PRODUCT]], %[[NEW]]) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
// CHECK: "hlo.select"({{.*}}, %[[SUM]], %arg0)
func.func @add(%x: tensor<8xf32>, %y: tensor<8xf32>, %u: tensor<3xf32>) -> tensor<8xf32> {
  %3 = "hlo.constant"() {value = dense<3> : tensor<i32>} : () -> tensor<i32>
  %old = "hlo.slice"(%x) {start = array<i64: 3>, limit = array<i64: 6>, strides = array<i64: 1>} : (tensor<8xf32>) -> tensor<3xf32>
  %other = "hlo.dynamic_slice"(%y, %3) {sizes = array<i64: 3>} : (tensor<8xf32>, tensor<i32>) -> tensor<3xf32>
  %product = "hlo.multiply"(%other, %old) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %new = "hlo.add"(%product, %u) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %1 = "hlo.dynamic_update_slice"(%x, %new, %3) : (tensor<8xf32>, tensor<3xf32>, tensor<i32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// Places that are not known, and large tensors, are updated in place.
// CHECK-LABEL: func.func @left
// CHECK-COUNT-2: hlo.dynamic_update_slice
// CHECK-NOT: hlo.select
func.func @left(%x: tensor<8xf32>, %y: tensor<1000000xf32>, %u: tensor<3xf32>, %i: tensor<i32>) -> (tensor<8xf32>, tensor<1000000xf32>) {
  %3 = "hlo.constant"() {value = dense<3> : tensor<i32>} : () -> tensor<i32>
  %0 = "hlo.dynamic_update_slice"(%x, %u, %i) : (tensor<8xf32>, tensor<3xf32>, tensor<i32>) -> tensor<8xf32>
  %1 = "hlo.dynamic_update_slice"(%y, %u, %3) : (tensor<1000000xf32>, tensor<3xf32>, tensor<i32>) -> tensor<1000000xf32>
  return %0, %1 : tensor<8xf32>, tensor<1000000xf32>
}
