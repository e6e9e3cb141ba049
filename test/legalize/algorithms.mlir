// RUN: shlo-opt %s --pass-pipeline='builtin.module(legalize-to-hlo)' | filecheck %s

// CHECK-LABEL: func.func @factorizations
// CHECK: "hlo.cholesky"(%arg0) {lower = true}
// CHECK: "hlo.triangular_solve"({{%[0-9]+}}, %arg1) {left_side = true, lower = true, transpose_a = "ADJOINT", unit_diagonal = false}
func.func @factorizations(%a: tensor<3x3xf32>, %b: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %0 = stablehlo.cholesky %a, lower = true : tensor<3x3xf32>
  %1 = "stablehlo.triangular_solve"(%0, %b) {left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose ADJOINT>} : (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  return %1 : tensor<3x2xf32>
}

// CHECK-LABEL: func.func @fft
// CHECK: "hlo.fft"(%arg0) {kind = "RFFT", length = array<i64: 8>} : (tensor<3x8xf32>) -> tensor<3x5xcomplex<f32>>
func.func @fft(%a: tensor<3x8xf32>) -> tensor<3x5xcomplex<f32>> {
  %0 = stablehlo.fft %a, type = RFFT, length = [8] : (tensor<3x8xf32>) -> tensor<3x5xcomplex<f32>>
  return %0 : tensor<3x5xcomplex<f32>>
}

// CHECK-LABEL: func.func @random_bits
// CHECK: "hlo.rng_bit_generator"(%arg0) {algorithm = "THREE_FRY"} : (tensor<2xui64>) -> (tensor<2xui64>, tensor<8xui32>)
func.func @random_bits(%s: tensor<2xui64>) -> (tensor<2xui64>, tensor<8xui32>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<8xui32>)
  return %0, %1 : tensor<2xui64>, tensor<8xui32>
}
