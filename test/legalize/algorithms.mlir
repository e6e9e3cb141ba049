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

// Every op has a site of its own; the state says the rest.
// CHECK-LABEL: func.func @random_numbers(
// CHECK-SAME: [[P:%arg[0-9]]]: tensor<2xi64> {hlo.process}
// CHECK-SAME: hlo.random_sites = 2 : i64
// CHECK: [[S:%[0-9]+]] = "hlo.random_state"([[P]]) {site = 0 : i64} : (tensor<2xi64>) -> tensor<3xui64>
// CHECK-NEXT: "hlo.rng_bit_generator"([[S]]) {algorithm = "PHILOX"} : (tensor<3xui64>) -> (tensor<3xui64>, tensor<4xui32>)
// CHECK: "hlo.random_state"([[P]]) {site = 1 : i64}
// CHECK-NOT: chlo.
func.func @random_numbers(%a: tensor<f32>, %b: tensor<f32>, %n: tensor<1xi64>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.rng %a, %b, %n, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
  %1 = stablehlo.rng %a, %b, %n, distribution = NORMAL : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
