// RUN: shlo-opt %s --pass-pipeline='builtin.module(legalize-to-hlo)' | filecheck %s

// Splats are scalars that are broadcast.
// CHECK-LABEL: func.func @constants
// CHECK: [[S:%[0-9]+]] = "hlo.constant"() {value = dense<1.500000e+00> : tensor<bf16>} : () -> tensor<bf16>
// CHECK-NEXT: [[B:%[0-9]+]] = "hlo.broadcast"([[S]]) {dimensions = array<i64>} : (tensor<bf16>) -> tensor<2x3xbf16>
// CHECK-NEXT: [[D:%[0-9]+]] = "hlo.constant"() {value = dense<[1, -2]> : tensor<2xi4>}
// CHECK-NEXT: [[E:%[0-9]+]] = "hlo.constant"() {value = dense<> : tensor<0x2xf32>}
// CHECK-NEXT: return [[B]], [[D]], [[E]]
func.func @constants() -> (tensor<2x3xbf16>, tensor<2xi4>, tensor<0x2xf32>) {
  %0 = stablehlo.constant dense<1.5> : tensor<2x3xbf16>
  %1 = stablehlo.constant dense<[1, -2]> : tensor<2xi4>
  %2 = stablehlo.constant dense<> : tensor<0x2xf32>
  return %0, %1, %2 : tensor<2x3xbf16>, tensor<2xi4>, tensor<0x2xf32>
}

// Complex values are interleaved parts.
// CHECK-LABEL: func.func @complex_constants
// CHECK: value = dense<{{\[\[}}1.000000e+00, 2.000000e+00], [3.000000e+00, -4.000000e+00]]> : tensor<2x2xf32>} : () -> tensor<2xcomplex<f32>>
// CHECK: [[S:%[0-9]+]] = "hlo.constant"() {value = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf64>} : () -> tensor<complex<f64>>
// CHECK: "hlo.broadcast"([[S]]) {dimensions = array<i64>} : (tensor<complex<f64>>) -> tensor<5xcomplex<f64>>
func.func @complex_constants() -> (tensor<2xcomplex<f32>>, tensor<5xcomplex<f64>>) {
  %0 = stablehlo.constant dense<[(1.0, 2.0), (3.0, -4.0)]> : tensor<2xcomplex<f32>>
  %1 = stablehlo.constant dense<(1.0, 2.0)> : tensor<5xcomplex<f64>>
  return %0, %1 : tensor<2xcomplex<f32>>, tensor<5xcomplex<f64>>
}

// CHECK-LABEL: func.func @iota
// CHECK: "hlo.iota"() {dimension = 1 : i64} : () -> tensor<2x3xui8>
func.func @iota() -> tensor<2x3xui8> {
  %0 = stablehlo.iota dim = 1 : tensor<2x3xui8>
  return %0 : tensor<2x3xui8>
}

// CHECK-LABEL: func.func @broadcast_to_the_same_shape
// CHECK-NEXT: return %arg0
func.func @broadcast_to_the_same_shape(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.broadcast_in_dim %a, dims = [0, 1] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// A dimension of size 1 that expands is reshaped away; one that stays of size 1 stays.
// CHECK-LABEL: func.func @broadcast_that_expands
// CHECK-NEXT: [[R:%[0-9]+]] = "hlo.reshape"(%arg0) : (tensor<1x3x1xf32>) -> tensor<3x1xf32>
// CHECK-NEXT: "hlo.broadcast"([[R]]) {dimensions = array<i64: 1, 2>} : (tensor<3x1xf32>) -> tensor<2x3x1xf32>
func.func @broadcast_that_expands(%a: tensor<1x3x1xf32>) -> tensor<2x3x1xf32> {
  %0 = stablehlo.broadcast_in_dim %a, dims = [0, 1, 2] : (tensor<1x3x1xf32>) -> tensor<2x3x1xf32>
  return %0 : tensor<2x3x1xf32>
}

// CHECK-LABEL: func.func @reshape_of_a_reshape
// CHECK: [[R:%[0-9]+]] = "hlo.reshape"(%arg0) : (tensor<2x6xf32>) -> tensor<12xf32>
// CHECK-NEXT: return [[R]]
func.func @reshape_of_a_reshape(%a: tensor<2x6xf32>) -> tensor<12xf32> {
  %0 = stablehlo.reshape %a : (tensor<2x6xf32>) -> tensor<3x4xf32>
  %1 = stablehlo.reshape %0 : (tensor<3x4xf32>) -> tensor<12xf32>
  return %1 : tensor<12xf32>
}

// CHECK-LABEL: func.func @broadcast_that_transposes
// CHECK-NEXT: [[T:%[0-9]+]] = "hlo.transpose"(%arg0) {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
// CHECK-NEXT: "hlo.broadcast"([[T]]) {dimensions = array<i64: 0, 2>} : (tensor<3x2xf32>) -> tensor<3x4x2xf32>
func.func @broadcast_that_transposes(%a: tensor<2x3xf32>) -> tensor<3x4x2xf32> {
  %0 = stablehlo.broadcast_in_dim %a, dims = [2, 0] : (tensor<2x3xf32>) -> tensor<3x4x2xf32>
  return %0 : tensor<3x4x2xf32>
}

// CHECK-LABEL: func.func @old_broadcast
// CHECK-NEXT: "hlo.broadcast"(%arg0) {dimensions = array<i64: 2>} : (tensor<3xf32>) -> tensor<5x4x3xf32>
func.func @old_broadcast(%a: tensor<3xf32>) -> tensor<5x4x3xf32> {
  %0 = "stablehlo.broadcast"(%a) {broadcast_sizes = array<i64: 5, 4>} : (tensor<3xf32>) -> tensor<5x4x3xf32>
  return %0 : tensor<5x4x3xf32>
}

// CHECK-LABEL: func.func @moves
// CHECK: "hlo.slice"(%arg0) {limit = array<i64: 4, 3>, start = array<i64: 1, 0>, strides = array<i64: 2, 1>}
// CHECK: "hlo.pad"({{%[0-9]+}}, %arg1) {high = array<i64: -1, 0>, interior = array<i64: 0, 2>, low = array<i64: 1, 0>}
// CHECK: "hlo.reverse"({{%[0-9]+}}) {dimensions = array<i64: 0>}
// CHECK: "hlo.transpose"({{%[0-9]+}}) {permutation = array<i64: 1, 0>}
// CHECK: [[R:%[0-9]+]] = "hlo.reshape"({{%[0-9]+}}) : (tensor<7x2xf32>) -> tensor<14xf32>
// CHECK-NEXT: return [[R]]
func.func @moves(%a: tensor<4x3xf32>, %v: tensor<f32>) -> tensor<14xf32> {
  %0 = stablehlo.slice %a [1:4:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.pad %0, %v, low = [1, 0], high = [-1, 0], interior = [0, 2] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x7xf32>
  %2 = stablehlo.reverse %1, dims = [0] : tensor<2x7xf32>
  %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<2x7xf32>) -> tensor<7x2xf32>
  %4 = stablehlo.reshape %3 : (tensor<7x2xf32>) -> tensor<14xf32>
  %5 = stablehlo.concatenate %4, dim = 0 : (tensor<14xf32>) -> tensor<14xf32>
  return %5 : tensor<14xf32>
}

// CHECK-LABEL: func.func @dimension_size
// CHECK-NEXT: "hlo.constant"() {value = dense<3> : tensor<i32>}
func.func @dimension_size(%a: tensor<4x3xf32>) -> tensor<i32> {
  %0 = stablehlo.get_dimension_size %a, dim = 1 : (tensor<4x3xf32>) -> tensor<i32>
  return %0 : tensor<i32>
}
