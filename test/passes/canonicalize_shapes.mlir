// RUN: shlo-opt %s --pass-pipeline='builtin.module(canonicalize-shapes)' | filecheck %s

// The work is done before the broadcast; keepdims reshapes cancel.
// CHECK-LABEL: func.func @normalise
// CHECK: %[[R:.*]] = "hlo.rsqrt"(%{{.*}}) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: "hlo.broadcast"(%[[R]]) {dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x64xf32>
// CHECK-NOT: "hlo.reshape"
// CHECK: return
func.func @normalise(%x: tensor<4xf32>) -> tensor<4x64xf32> {
  %eps = "hlo.constant"() {value = dense<1.0e-5> : tensor<f32>} : () -> tensor<f32>
  %0 = "hlo.reshape"(%x) : (tensor<4xf32>) -> tensor<4x1xf32>
  %1 = "hlo.broadcast"(%eps) {dimensions = array<i64>} : (tensor<f32>) -> tensor<4x1xf32>
  %2 = "hlo.add"(%0, %1) : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  %3 = "hlo.reshape"(%2) : (tensor<4x1xf32>) -> tensor<4xf32>
  %4 = "hlo.broadcast"(%3) {dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x64xf32>
  %5 = "hlo.rsqrt"(%4) : (tensor<4x64xf32>) -> tensor<4x64xf32>
  return %5 : tensor<4x64xf32>
}

// A chain is computed in the shape of before; what needs the other one gets a reshape.
// CHECK-LABEL: func.func @chain
// CHECK: %[[A:.*]] = "hlo.abs"(%arg0)
// CHECK: %[[N:.*]] = "hlo.negate"(%[[A]]) : (tensor<4x6xf32>) -> tensor<4x6xf32>
// CHECK: %[[Y:.*]] = "hlo.reshape"(%arg1) : (tensor<24xf32>) -> tensor<4x6xf32>
// CHECK: %[[M:.*]] = "hlo.multiply"(%[[N]], %[[Y]]) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
// CHECK: %[[P:.*]] = "hlo.reshape"(%[[M]]) : (tensor<4x6xf32>) -> tensor<24xf32>
// CHECK: %[[C:.*]] = "hlo.compare"(%[[M]], %[[A]]) {direction = "LT"} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>
// CHECK: %[[B:.*]] = "hlo.reshape"(%[[C]]) : (tensor<4x6xi1>) -> tensor<24xi1>
// CHECK: return %[[P]], %[[B]]
func.func @chain(%x: tensor<4x6xf32>, %y: tensor<24xf32>) -> (tensor<24xf32>, tensor<24xi1>) {
  %0 = "hlo.abs"(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = "hlo.reshape"(%0) : (tensor<4x6xf32>) -> tensor<24xf32>
  %2 = "hlo.negate"(%1) : (tensor<24xf32>) -> tensor<24xf32>
  %3 = "hlo.multiply"(%2, %y) : (tensor<24xf32>, tensor<24xf32>) -> tensor<24xf32>
  %4 = "hlo.compare"(%3, %1) {direction = "LT"} : (tensor<24xf32>, tensor<24xf32>) -> tensor<24xi1>
  return %3, %4 : tensor<24xf32>, tensor<24xi1>
}

// A slice rises to the arguments.
// CHECK-LABEL: func.func @unread
// CHECK: "hlo.slice"(%arg0)
// CHECK: "hlo.exponential"(%{{.*}}) : (tensor<2x8xf32>) -> tensor<2x8xf32>
// CHECK-NOT: tensor<16x8xf32>) -> tensor<16x8xf32>
func.func @unread(%x: tensor<16x8xf32>) -> tensor<2x8xf32> {
  %0 = "hlo.exponential"(%x) : (tensor<16x8xf32>) -> tensor<16x8xf32>
  %1 = "hlo.slice"(%0) {start = array<i64: 3, 0>, limit = array<i64: 5, 8>, strides = array<i64: 1, 1>} : (tensor<16x8xf32>) -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}

// CHECK-LABEL: func.func @views
// CHECK-NEXT: "hlo.reshape"(%arg0) : (tensor<2x1x3xf32>) -> tensor<3x2xf32>
// CHECK-NEXT: return
func.func @views(%x: tensor<2x1x3xf32>) -> tensor<3x2xf32> {
  %0 = "hlo.transpose"(%x) {permutation = array<i64: 1, 0, 2>} : (tensor<2x1x3xf32>) -> tensor<1x2x3xf32>
  %1 = "hlo.reshape"(%0) : (tensor<1x2x3xf32>) -> tensor<6xf32>
  %2 = "hlo.reshape"(%1) : (tensor<6xf32>) -> tensor<3x2xf32>
  return %2 : tensor<3x2xf32>
}

// One row of the product is read: one row is computed.
// CHECK-LABEL: func.func @one_row
// CHECK: %[[ROW:.*]] = "hlo.slice"(%arg0)
// CHECK: "hlo.dot"(%[[ROW]], %arg1) {{.*}} -> tensor<1x6xf32>
func.func @one_row(%x: tensor<8x4xf32>, %y: tensor<4x6xf32>) -> tensor<1x6xf32> {
  %0 = "hlo.dot"(%x, %y) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %1 = "hlo.slice"(%0) {start = array<i64: 2, 0>, limit = array<i64: 3, 6>, strides = array<i64: 1, 1>} : (tensor<8x6xf32>) -> tensor<1x6xf32>
  return %1 : tensor<1x6xf32>
}
