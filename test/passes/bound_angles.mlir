// RUN: shlo-opt %s --pass-pipeline='builtin.module(bound-angles)' | filecheck %s

// A window, and the angles of positions, whose frequencies are powers.
// CHECK-LABEL: func.func @known
// CHECK: "hlo.cosine"({{.*}}) {hlo.small_angle}
// CHECK: "hlo.sine"({{.*}}) {hlo.small_angle}
func.func @known() -> (tensor<4xf32>, tensor<128x2xf32>) {
  %angles = "hlo.constant"() {value = dense<[0.0, 1.5, 3.0, 4.5]> : tensor<4xf32>} : () -> tensor<4xf32>
  %0 = "hlo.cosine"(%angles) : (tensor<4xf32>) -> tensor<4xf32>
  %base = "hlo.constant"() {value = dense<1.0e4> : tensor<f32>} : () -> tensor<f32>
  %1 = "hlo.broadcast"(%base) {dimensions = array<i64>} : (tensor<f32>) -> tensor<2xf32>
  %exponents = "hlo.constant"() {value = dense<[0.0, -0.5]> : tensor<2xf32>} : () -> tensor<2xf32>
  %2 = "hlo.power"(%1, %exponents) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = "hlo.iota"() {dimension = 0 : i64} : () -> tensor<128xi32>
  %4 = "hlo.convert"(%3) : (tensor<128xi32>) -> tensor<128xf32>
  %5 = "hlo.broadcast"(%4) {dimensions = array<i64: 0>} : (tensor<128xf32>) -> tensor<128x2xf32>
  %6 = "hlo.broadcast"(%2) {dimensions = array<i64: 1>} : (tensor<2xf32>) -> tensor<128x2xf32>
  %7 = "hlo.multiply"(%5, %6) : (tensor<128x2xf32>, tensor<128x2xf32>) -> tensor<128x2xf32>
  %8 = "hlo.sine"(%7) : (tensor<128x2xf32>) -> tensor<128x2xf32>
  return %0, %8 : tensor<4xf32>, tensor<128x2xf32>
}

// A fraction, or a NaN.
// CHECK-LABEL: func.func @fraction
// CHECK: "hlo.sine"({{.*}}) {hlo.small_angle}
// CHECK: "hlo.sine"(%{{[0-9]+}}) :
func.func @fraction(%x: tensor<2xf32>, %y: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = "hlo.floor"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "hlo.subtract"(%x, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = "hlo.sine"(%1) : (tensor<2xf32>) -> tensor<2xf32>
  %3 = "hlo.subtract"(%y, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %4 = "hlo.sine"(%3) : (tensor<2xf32>) -> tensor<2xf32>
  return %2, %4 : tensor<2xf32>, tensor<2xf32>
}

// digamma: the sine counts where x < 1/2, and there the angle is less than 2 pi. Elsewhere it may be large.
// CHECK-LABEL: func.func @taken_where_small
// CHECK: "hlo.sine"({{.*}}) {hlo.small_angle}
// CHECK: "hlo.cosine"(%{{[0-9]+}}) :
// CHECK: "hlo.tan"(%{{[0-9]+}}) :
func.func @taken_where_small(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %half = "hlo.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = "hlo.broadcast"(%half) {dimensions = array<i64>} : (tensor<f32>) -> tensor<2xf32>
  %pi = "hlo.constant"() {value = dense<3.14159274> : tensor<f32>} : () -> tensor<f32>
  %1 = "hlo.broadcast"(%pi) {dimensions = array<i64>} : (tensor<f32>) -> tensor<2xf32>
  %2 = "hlo.add"(%x, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = "hlo.floor"(%2) : (tensor<2xf32>) -> tensor<2xf32>
  %4 = "hlo.abs"(%3) : (tensor<2xf32>) -> tensor<2xf32>
  %5 = "hlo.add"(%x, %4) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %6 = "hlo.multiply"(%5, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %7 = "hlo.sine"(%6) : (tensor<2xf32>) -> tensor<2xf32>
  %8 = "hlo.divide"(%1, %7) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %9 = "hlo.cosine"(%6) : (tensor<2xf32>) -> tensor<2xf32>
  %10 = "hlo.tan"(%6) : (tensor<2xf32>) -> tensor<2xf32>
  %11 = "hlo.compare"(%x, %0) {direction = "LT"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  %12 = "hlo.select"(%11, %8, %x) : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %13 = "hlo.select"(%11, %x, %9) : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %14 = "hlo.compare"(%x, %1) {direction = "LT"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  %15 = "hlo.select"(%14, %10, %x) : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %12, %13, %15 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// What is not known, not small, not a number, or divided by what may be zero; the attribute is the pass's own.
// CHECK-LABEL: func.func @unknown
// CHECK-NOT: hlo.small_angle
// CHECK: return
func.func @unknown(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %0 = "hlo.cosine"(%x) {hlo.small_angle} : (tensor<2xf32>) -> tensor<2xf32>
  %large = "hlo.constant"() {value = dense<[0.0, 2.0e4]> : tensor<2xf32>} : () -> tensor<2xf32>
  %1 = "hlo.sine"(%large) : (tensor<2xf32>) -> tensor<2xf32>
  %nan = "hlo.constant"() {value = dense<[0.0, 0x7FC00000]> : tensor<2xf32>} : () -> tensor<2xf32>
  %2 = "hlo.tan"(%nan) : (tensor<2xf32>) -> tensor<2xf32>
  %one = "hlo.constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %zero = "hlo.constant"() {value = dense<[-1.0, 1.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %3 = "hlo.divide"(%one, %zero) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %4 = "hlo.cosine"(%3) : (tensor<2xf32>) -> tensor<2xf32>
  return %0, %1, %2, %4 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
