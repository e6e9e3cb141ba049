// RUN: shlo-opt %s --pass-pipeline='builtin.module(simplify)' | filecheck %s
// RUN: shlo-opt %s --pass-pipeline='builtin.module(simplify{allow-approximate=true})' | filecheck %s --check-prefix=APPROXIMATE
// RUN: shlo-opt %s --pass-pipeline='builtin.module(simplify{disable=one-right})' | filecheck %s --check-prefix=DISABLED

// x * 1 -> x; but not x + 0.0, which turns -0.0 into 0.0.
// CHECK-LABEL: func.func @identities
// CHECK-NOT: "hlo.multiply"
// CHECK: %[[S:.*]] = "hlo.add"(%arg0,
// CHECK: return %arg0, %[[S]]
// DISABLED-LABEL: func.func @identities
// DISABLED: "hlo.multiply"
func.func @identities(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %one = "hlo.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %zero = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "hlo.multiply"(%one, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "hlo.add"(%x, %zero) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}

// CHECK-LABEL: func.func @power
// CHECK: "hlo.multiply"(%arg0, %arg0)
// CHECK: "hlo.power"
// APPROXIMATE-LABEL: func.func @power
// APPROXIMATE: "hlo.sqrt"(%arg0)
func.func @power(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %two = "hlo.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %half = "hlo.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = "hlo.power"(%x, %two) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "hlo.power"(%x, %half) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}

// CHECK-LABEL: func.func @logistic
// CHECK: "hlo.logistic"(%arg0)
func.func @logistic(%x: tensor<f32>) -> tensor<f32> {
  %one = "hlo.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "hlo.negate"(%x) : (tensor<f32>) -> tensor<f32>
  %1 = "hlo.exponential"(%0) : (tensor<f32>) -> tensor<f32>
  %2 = "hlo.add"(%1, %one) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %3 = "hlo.divide"(%one, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %3 : tensor<f32>
}

// A start past the end is clamped, as at run time.
// CHECK-LABEL: func.func @known_start
// CHECK: "hlo.slice"(%arg0) {limit = array<i64: 8>, start = array<i64: 5>, strides = array<i64: 1>}
func.func @known_start(%x: tensor<8xf32>) -> tensor<3xf32> {
  %c = "hlo.constant"() {value = dense<7> : tensor<i32>} : () -> tensor<i32>
  %0 = "hlo.dynamic_slice"(%x, %c) {sizes = array<i64: 3>} : (tensor<8xf32>, tensor<i32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// Eigenvectors that nobody reads are not asked for.
// CHECK-LABEL: func.func @eigenvalues
// CHECK: @lapack_dsyevd_ffi{{.*}}mode = 78 : ui8
// CHECK: @lapack_dsyevd_ffi{{.*}}mode = 86 : ui8
func.func @eigenvalues(%x: tensor<3x3xf64>) -> (tensor<3xf64>, tensor<3x3xf64>) {
  %0:3 = stablehlo.custom_call @lapack_dsyevd_ffi(%x) {mhlo.backend_config = {mode = 86 : ui8, uplo = 76 : ui8}, api_version = 4 : i32} : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<3xf64>, tensor<i32>)
  %1:3 = stablehlo.custom_call @lapack_dsyevd_ffi(%x) {mhlo.backend_config = {mode = 86 : ui8, uplo = 76 : ui8}, api_version = 4 : i32} : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<3xf64>, tensor<i32>)
  return %0#1, %1#0 : tensor<3xf64>, tensor<3x3xf64>
}
