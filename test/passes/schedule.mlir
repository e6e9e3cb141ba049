// RUN: shlo-opt --pass-pipeline=fusion,schedule --split-input-file %s | filecheck %s

// Two big values that are reduced at once: one after the other, not both before both.
// CHECK-LABEL: func.func @peak
// CHECK: call @[[WORK:[a-z_0-9]+]](%arg0)
// CHECK-NEXT: call @[[SUM:[a-z_0-9]+]](
// CHECK-NEXT: call @[[WORK]](%arg1)
// CHECK-NEXT: call @[[SUM]](
func.func @peak(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %z = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "hlo.cholesky"(%x) {lower = true} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = "hlo.cholesky"(%y) {lower = true} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = "hlo.reduce"(%0, %z) {dimensions = array<i64: 1>, kind = "add"} : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
  %3 = "hlo.reduce"(%1, %z) {dimensions = array<i64: 1>, kind = "add"} : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
  return %2, %3 : tensor<64xf32>, tensor<64xf32>
}

// -----

// What reads the operand of an update comes before the update: it is overwritten.
// CHECK-LABEL: func.func @overwrite
// CHECK: %[[X:.*]] = call @{{.*}}(%arg0)
// CHECK: call @[[READER:[a-z_0-9]+]](%[[X]], %arg1)
// CHECK: call @[[UPDATE:[a-z_0-9]+]](%[[X]],
// CHECK: func.func private @[[UPDATE]]
func.func @overwrite(%a: tensor<64x64xf32>, %w: tensor<64x64xf32>, %u: tensor<1x64xf32>, %i: tensor<i32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %zero = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %x = "hlo.cholesky"(%a) {lower = true} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %0 = "hlo.dynamic_update_slice"(%x, %u, %i, %zero) : (tensor<64x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<64x64xf32>
  %1 = "hlo.dot"(%x, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0, %1 : tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// Calls with side effects stay in their order, whatever the order of their operands.
// CHECK-LABEL: func.func @effects
// CHECK: %[[X:.*]] = call @{{.*}}(%arg0)
// CHECK-NEXT: %[[Y:.*]] = call @{{.*}}(%arg1)
// CHECK-NEXT: call @[[SHOW:[a-z_0-9]+]](%[[Y]])
// CHECK-NEXT: call @[[SHOW]](%[[X]])
func.func @effects(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) {
  %0 = "hlo.cholesky"(%x) {lower = true} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = "hlo.cholesky"(%y) {lower = true} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  stablehlo.custom_call @show(%1) {has_side_effect = true} : (tensor<64x64xf32>) -> ()
  stablehlo.custom_call @show(%0) {has_side_effect = true} : (tensor<64x64xf32>) -> ()
  return
}

// -----

// Results of the program lie elsewhere: the first is computed before the second one's operand is there.
// CHECK-LABEL: func.func @results
// CHECK: call @[[FACTOR:[a-z_0-9]+]](%arg0)
// CHECK-NEXT: call @[[PRODUCT:[a-z_0-9]+]](
// CHECK-NEXT: call @[[FACTOR]](%arg1)
// CHECK-NEXT: call @[[PRODUCT]](
func.func @results(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %0 = "hlo.cholesky"(%x) {lower = true} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = "hlo.cholesky"(%y) {lower = true} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = "hlo.dot"(%0, %x) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = "hlo.dot"(%1, %y) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %2, %3 : tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// Of orders with the same peak, which is at the product here, that one stays with which less lives at other times.
// CHECK-LABEL: func.func @other_times
// CHECK: call @[[FACTOR:[a-z_0-9]+]](%arg0)
// CHECK-NEXT: call @[[SUM:[a-z_0-9]+]](
// CHECK-NEXT: call @[[FACTOR]](%arg1)
// CHECK-NEXT: call @[[SUM]](
func.func @other_times(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %z = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "hlo.cholesky"(%x) {lower = true} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = "hlo.cholesky"(%y) {lower = true} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = "hlo.reduce"(%0, %z) {dimensions = array<i64: 1>, kind = "add"} : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
  %3 = "hlo.reduce"(%1, %z) {dimensions = array<i64: 1>, kind = "add"} : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
  %4 = "hlo.cholesky"(%x) {lower = false} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %5 = "hlo.cholesky"(%4) {lower = true} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %6 = "hlo.reduce"(%5, %z) {dimensions = array<i64: 1>, kind = "add"} : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
  return %2, %3, %6 : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
}
