// RUN: shlo-opt %s --pass-pipeline='builtin.module(tile-weights)' | filecheck %s

// CHECK-LABEL: func.func @bytes
// CHECK: %[[TILES:.*]] = "hlo.constant"() {{.*}}tensor<2x1x2x16x16x4xi8>
// CHECK: %[[TURNED:.*]] = "hlo.transpose"(%[[TILES]]) {permutation = array<i64: 1, 3, 5, 0, 2, 4>}
// CHECK: %[[W:.*]] = "hlo.reshape"(%[[TURNED]]) : (tensor<1x16x4x2x2x16xi8>) -> tensor<64x64xi8>
// CHECK: "hlo.dot"(%arg0, %[[W]])
func.func @bytes(%x: tensor<16x64xi8>) -> tensor<16x64xi32> {
  %w = "hlo.constant"() {value = dense<1> : tensor<64x64xi8>} : () -> tensor<64x64xi8>
  %0 = "hlo.dot"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<16x64xi8>, tensor<64x64xi8>) -> tensor<16x64xi32>
  return %0 : tensor<16x64xi32>
}

// Both readers want the same, of a matrix that is contracted along its last dimension.
// CHECK-LABEL: func.func @turned
// CHECK: %[[TILES:.*]] = "hlo.constant"() {{.*}}tensor<1x2x2x16x16x2xbf16>
// CHECK: %[[TURNED:.*]] = "hlo.transpose"(%[[TILES]]) {permutation = array<i64: 0, 2, 4, 1, 3, 5>}
// CHECK: %[[W:.*]] = "hlo.reshape"(%[[TURNED]]) : (tensor<1x2x16x2x16x2xbf16>) -> tensor<32x64xbf16>
// CHECK: "hlo.dot"(%arg0, %[[W]])
// CHECK: "hlo.dot"(%arg1, %[[W]])
func.func @turned(%x: tensor<16x64xbf16>, %y: tensor<48x64xbf16>) -> (tensor<16x32xf32>, tensor<48x32xbf16>) {
  %w = "hlo.constant"() {value = dense<1.0> : tensor<32x64xbf16>} : () -> tensor<32x64xbf16>
  %0 = "hlo.dot"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<16x64xbf16>, tensor<32x64xbf16>) -> tensor<16x32xf32>
  %1 = "hlo.dot"(%y, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<48x64xbf16>, tensor<32x64xbf16>) -> tensor<48x32xbf16>
  return %0, %1 : tensor<16x32xf32>, tensor<48x32xbf16>
}

// No whole panel, no whole step, one row, another reader, another side, another type.
// CHECK-LABEL: func.func @left
// CHECK-NOT: hlo.transpose
// CHECK: return
func.func @left(%x: tensor<16x64xi8>, %y: tensor<16x60xi8>, %z: tensor<1x4096xi8>, %f: tensor<16x64xf32>) -> (tensor<16x48xi32>, tensor<16x32xi32>, tensor<1x256xi32>, tensor<16x32xi32>, tensor<64x32xi8>, tensor<64x16xi32>, tensor<16x64xf32>) {
  %0 = "hlo.constant"() {value = dense<1> : tensor<64x48xi8>} : () -> tensor<64x48xi8>
  %1 = "hlo.constant"() {value = dense<1> : tensor<60x32xi8>} : () -> tensor<60x32xi8>
  %2 = "hlo.constant"() {value = dense<1> : tensor<4096x256xi8>} : () -> tensor<4096x256xi8>
  %3 = "hlo.constant"() {value = dense<1> : tensor<64x32xi8>} : () -> tensor<64x32xi8>
  %4 = "hlo.constant"() {value = dense<1> : tensor<64x64xi8>} : () -> tensor<64x64xi8>
  %5 = "hlo.constant"() {value = dense<1.0> : tensor<64x64xf32>} : () -> tensor<64x64xf32>
  %6 = "hlo.dot"(%x, %0) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<16x64xi8>, tensor<64x48xi8>) -> tensor<16x48xi32>
  %7 = "hlo.dot"(%y, %1) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<16x60xi8>, tensor<60x32xi8>) -> tensor<16x32xi32>
  %8 = "hlo.dot"(%z, %2) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<1x4096xi8>, tensor<4096x256xi8>) -> tensor<1x256xi32>
  %9 = "hlo.dot"(%x, %3) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<16x64xi8>, tensor<64x32xi8>) -> tensor<16x32xi32>
  %10 = "hlo.negate"(%3) : (tensor<64x32xi8>) -> tensor<64x32xi8>
  %11 = "hlo.dot"(%4, %x) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<64x64xi8>, tensor<16x64xi8>) -> tensor<64x16xi32>
  %12 = "hlo.dot"(%f, %5) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
  return %6, %7, %8, %9, %10, %11, %12 : tensor<16x48xi32>, tensor<16x32xi32>, tensor<1x256xi32>, tensor<16x32xi32>, tensor<64x32xi8>, tensor<64x16xi32>, tensor<16x64xf32>
}
