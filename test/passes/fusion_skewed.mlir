// RUN: shlo-opt --pass-pipeline=fusion --split-input-file %s | filecheck %s

// Antidiagonals are strided rows of what is padded in memory; computed, each lane is a division.
// CHECK-LABEL: func.func @antidiagonals
// CHECK: call @fusion_0(
// CHECK-NEXT: "hlo.reshape"
// CHECK-NEXT: call @fusion_1(
// CHECK: func.func private @fusion_0
// CHECK: "hlo.subtract"
// CHECK: "hlo.pad"
// CHECK-NEXT: return
// CHECK: func.func private @fusion_1
// CHECK: "hlo.transpose"
func.func @antidiagonals(%x: tensor<128x128xf32>, %y: tensor<128x128xf32>) -> tensor<255x128xf32> {
  %0 = "hlo.subtract"(%x, %y) : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  %1 = "hlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %2 = "hlo.pad"(%0, %1) {high = array<i64: 0, 128>, interior = array<i64: 0, 0>, low = array<i64: 0, 0>} : (tensor<128x128xf32>, tensor<f32>) -> tensor<128x256xf32>
  %3 = "hlo.reshape"(%2) : (tensor<128x256xf32>) -> tensor<32768xf32>
  %4 = "hlo.slice"(%3) {limit = array<i64: 32640>, start = array<i64: 0>, strides = array<i64: 1>} : (tensor<32768xf32>) -> tensor<32640xf32>
  %5 = "hlo.reshape"(%4) : (tensor<32640xf32>) -> tensor<128x255xf32>
  %6 = "hlo.transpose"(%5) {permutation = array<i64: 1, 0>} : (tensor<128x255xf32>) -> tensor<255x128xf32>
  return %6 : tensor<255x128xf32>
}

// -----

// The way back: rows, then a longer vector of them.
// CHECK-LABEL: func.func @from_antidiagonals
// CHECK: call @fusion_0(
// CHECK-NEXT: "hlo.reshape"
// CHECK-NEXT: call @fusion_1(
// CHECK: "hlo.transpose"
// CHECK-NEXT: return
// CHECK: "hlo.pad"
func.func @from_antidiagonals(%x: tensor<255x128xf32>) -> tensor<32768xf32> {
  %0 = "hlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %1 = "hlo.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<255x128xf32>) -> tensor<128x255xf32>
  %2 = "hlo.reshape"(%1) : (tensor<128x255xf32>) -> tensor<32640xf32>
  %3 = "hlo.pad"(%2, %0) {high = array<i64: 128>, interior = array<i64: 0>, low = array<i64: 0>} : (tensor<32640xf32>, tensor<f32>) -> tensor<32768xf32>
  return %3 : tensor<32768xf32>
}

// -----

// Where dimensions stay whole, a pad is computed, and read along its strides; so is one element of many.
// CHECK-LABEL: func.func @whole_dimensions
// CHECK-COUNT-2: call @fusion_
// CHECK-NOT: call
// CHECK: return
func.func @whole_dimensions(%x: tensor<128x128xf32>, %y: tensor<255x128xf32>) -> (tensor<256x128xf32>, tensor<1xf32>) {
  %0 = "hlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %1 = "hlo.pad"(%x, %0) {high = array<i64: 0, 128>, interior = array<i64: 0, 0>, low = array<i64: 0, 0>} : (tensor<128x128xf32>, tensor<f32>) -> tensor<128x256xf32>
  %2 = "hlo.transpose"(%1) {permutation = array<i64: 1, 0>} : (tensor<128x256xf32>) -> tensor<256x128xf32>
  %3 = "hlo.transpose"(%y) {permutation = array<i64: 1, 0>} : (tensor<255x128xf32>) -> tensor<128x255xf32>
  %4 = "hlo.reshape"(%3) : (tensor<128x255xf32>) -> tensor<32640xf32>
  %5 = "hlo.pad"(%4, %0) {high = array<i64: 128>, interior = array<i64: 0>, low = array<i64: 0>} : (tensor<32640xf32>, tensor<f32>) -> tensor<32768xf32>
  %6 = "hlo.slice"(%5) {limit = array<i64: 32640>, start = array<i64: 32639>, strides = array<i64: 1>} : (tensor<32768xf32>) -> tensor<1xf32>
  return %2, %6 : tensor<256x128xf32>, tensor<1xf32>
}
