// RUN: shlo-opt --pass-pipeline=fusion --split-input-file %s | filecheck %s

// What a stencil's neighbours are read of is computed at each of a few places, if it is one operation on one tensor.
// CHECK-LABEL: func.func @scaled_neighbours
// CHECK: call @fusion_0(
// CHECK-NEXT: return
// CHECK: hlo.fusion = "loop"
// CHECK: "hlo.slice"
// CHECK: "hlo.multiply"
// CHECK-COUNT-3: "hlo.pad"
func.func @scaled_neighbours(%x: tensor<66xf32>, %rate: tensor<f32>) -> tensor<66xf32> {
  %zero = "hlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %0 = "hlo.slice"(%x) {limit = array<i64: 65>, start = array<i64: 1>, strides = array<i64: 1>} : (tensor<66xf32>) -> tensor<64xf32>
  %1 = "hlo.broadcast"(%rate) {dimensions = array<i64>} : (tensor<f32>) -> tensor<64xf32>
  %2 = "hlo.multiply"(%0, %1) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %3 = "hlo.pad"(%2, %zero) {high = array<i64: 2>, interior = array<i64: 0>, low = array<i64: 0>} : (tensor<64xf32>, tensor<f32>) -> tensor<66xf32>
  %4 = "hlo.pad"(%2, %zero) {high = array<i64: 1>, interior = array<i64: 0>, low = array<i64: 1>} : (tensor<64xf32>, tensor<f32>) -> tensor<66xf32>
  %5 = "hlo.pad"(%2, %zero) {high = array<i64: 0>, interior = array<i64: 0>, low = array<i64: 2>} : (tensor<64xf32>, tensor<f32>) -> tensor<66xf32>
  %6 = "hlo.add"(%3, %4) : (tensor<66xf32>, tensor<66xf32>) -> tensor<66xf32>
  %7 = "hlo.add"(%6, %5) : (tensor<66xf32>, tensor<66xf32>) -> tensor<66xf32>
  return %7 : tensor<66xf32>
}

// -----

// Not a sum of two tensors, which would be read three times each; nor what is repeated for every row.
// CHECK-LABEL: func.func @sums_of_neighbours
// CHECK-COUNT-2: call @fusion_
func.func @sums_of_neighbours(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<66xf32> {
  %zero = "hlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %2 = "hlo.multiply"(%x, %y) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %3 = "hlo.pad"(%2, %zero) {high = array<i64: 2>, interior = array<i64: 0>, low = array<i64: 0>} : (tensor<64xf32>, tensor<f32>) -> tensor<66xf32>
  %4 = "hlo.pad"(%2, %zero) {high = array<i64: 1>, interior = array<i64: 0>, low = array<i64: 1>} : (tensor<64xf32>, tensor<f32>) -> tensor<66xf32>
  %6 = "hlo.add"(%3, %4) : (tensor<66xf32>, tensor<66xf32>) -> tensor<66xf32>
  return %6 : tensor<66xf32>
}

// -----

// CHECK-LABEL: func.func @repeated_rows
// CHECK-COUNT-2: call @fusion_
func.func @repeated_rows(%x: tensor<64xf32>, %y: tensor<1000x64xf32>) -> tensor<1000x64xf32> {
  %c = "hlo.constant"() {value = dense<3.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %1 = "hlo.broadcast"(%c) {dimensions = array<i64>} : (tensor<f32>) -> tensor<64xf32>
  %2 = "hlo.multiply"(%x, %1) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %3 = "hlo.broadcast"(%2) {dimensions = array<i64: 1>} : (tensor<64xf32>) -> tensor<1000x64xf32>
  %4 = "hlo.add"(%3, %y) : (tensor<1000x64xf32>, tensor<1000x64xf32>) -> tensor<1000x64xf32>
  return %4 : tensor<1000x64xf32>
}
