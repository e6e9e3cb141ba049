// RUN: shlo-opt %s --pass-pipeline='builtin.module(recognize-indices)' | filecheck %s

// CHECK-LABEL: func.func @progressions
// CHECK: "hlo.iota"() {dimension = 0 : i64} : () -> tensor<4xi32>
// CHECK: "hlo.constant"() {value = dense<5> : tensor<i8>}
// CHECK: "hlo.add"
// CHECK: "hlo.constant"() {value = dense<[0, 2, 4]> : tensor<3xi32>}
// CHECK-NOT: dense<[5, 6, 7]>
// CHECK: return
func.func @progressions(%x: tensor<4xi32>, %y: tensor<1x3xi8>, %z: tensor<3xi32>) -> (tensor<4xi1>, tensor<1x3xi1>, tensor<3xi1>) {
  %0 = "hlo.constant"() {value = dense<[0, 1, 2, 3]> : tensor<4xi32>} : () -> tensor<4xi32>
  %1 = "hlo.constant"() {value = dense<[[5, 6, 7]]> : tensor<1x3xi8>} : () -> tensor<1x3xi8>
  %2 = "hlo.constant"() {value = dense<[0, 2, 4]> : tensor<3xi32>} : () -> tensor<3xi32>
  %3 = "hlo.compare"(%x, %0) {direction = "GE"} : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
  %4 = "hlo.compare"(%y, %1) {direction = "GE"} : (tensor<1x3xi8>, tensor<1x3xi8>) -> tensor<1x3xi1>
  %5 = "hlo.compare"(%z, %2) {direction = "GE"} : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
  return %3, %4, %5 : tensor<4xi1>, tensor<1x3xi1>, tensor<3xi1>
}

// One bound, two bounds, and no band.
// CHECK-LABEL: func.func @bands
// CHECK: %[[CAUSAL:.*]] = "hlo.compare"({{.*}}) {direction = "GE"} : (tensor<3x1x4xi32>, tensor<3x1x4xi32>) -> tensor<3x1x4xi1>
// CHECK: %[[ABOVE:.*]] = "hlo.compare"({{.*}}) {direction = "GE"} : (tensor<3x4xi32>, tensor<3x4xi32>) -> tensor<3x4xi1>
// CHECK: %[[BELOW:.*]] = "hlo.compare"({{.*}}) {direction = "LE"} : (tensor<3x4xi32>, tensor<3x4xi32>) -> tensor<3x4xi1>
// CHECK: "hlo.and"(%[[ABOVE]], %[[BELOW]])
// CHECK: "hlo.constant"() {{.*}}tensor<2x3xi1>
func.func @bands(%x: tensor<3x1x4xf32>, %y: tensor<3x4xi1>, %z: tensor<2x3xi1>) -> (tensor<3x1x4xf32>, tensor<3x4xi1>, tensor<2x3xi1>) {
  %0 = "hlo.constant"() {value = dense<[[[true, true, false, false]], [[true, true, true, false]], [[true, true, true, true]]]> : tensor<3x1x4xi1>} : () -> tensor<3x1x4xi1>
  %1 = "hlo.constant"() {value = dense<[[true, false, false, false], [true, true, false, false], [false, true, true, false]]> : tensor<3x4xi1>} : () -> tensor<3x4xi1>
  %2 = "hlo.constant"() {value = dense<[[true, false, true], [false, true, false]]> : tensor<2x3xi1>} : () -> tensor<2x3xi1>
  %3 = "hlo.select"(%0, %x, %x) : (tensor<3x1x4xi1>, tensor<3x1x4xf32>, tensor<3x1x4xf32>) -> tensor<3x1x4xf32>
  %4 = "hlo.or"(%1, %y) : (tensor<3x4xi1>, tensor<3x4xi1>) -> tensor<3x4xi1>
  %5 = "hlo.or"(%2, %z) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
  return %3, %4, %5 : tensor<3x1x4xf32>, tensor<3x4xi1>, tensor<2x3xi1>
}

// What others read is left: it lies in memory anyway.
// CHECK-LABEL: func.func @results
// CHECK: "hlo.constant"() {value = dense<[1, 2, 3]> : tensor<3xi32>}
func.func @results() -> tensor<3xi32> {
  %0 = "hlo.constant"() {value = dense<[1, 2, 3]> : tensor<3xi32>} : () -> tensor<3xi32>
  return %0 : tensor<3xi32>
}

// Nor are numbers that are not only compared.
// CHECK-LABEL: func.func @sums
// CHECK: "hlo.constant"() {value = dense<[1, 2, 3]> : tensor<3xi32>}
func.func @sums(%x: tensor<3xi32>) -> tensor<3xi32> {
  %0 = "hlo.constant"() {value = dense<[1, 2, 3]> : tensor<3xi32>} : () -> tensor<3xi32>
  %1 = "hlo.add"(%x, %0) : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
  return %1 : tensor<3xi32>
}
