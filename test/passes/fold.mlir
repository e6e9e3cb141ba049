// RUN: shlo-opt %s --pass-pipeline='builtin.module(fold)' | filecheck %s
// RUN: shlo-opt %s --pass-pipeline='builtin.module(fold{max-elements=2})' | filecheck %s --check-prefix=SMALL

// Integers wrap; a splat folds at any size; an iota is computed along.
// CHECK-LABEL: func.func @main
// CHECK-DAG: value = dense<-2147483648> : tensor<i32>
// CHECK-DAG: value = dense<[2, 3, 4, 5]> : tensor<4xi32>
// CHECK-NOT: "hlo.add"
// SMALL-LABEL: func.func @main
// SMALL: "hlo.iota"
// SMALL: "hlo.add"
func.func @main() -> (tensor<i32>, tensor<4xi32>) {
  %0 = "hlo.constant"() {value = dense<2147483647> : tensor<i32>} : () -> tensor<i32>
  %1 = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %2 = "hlo.add"(%0, %1) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  %3 = "hlo.iota"() {dimension = 0 : i64} : () -> tensor<4xi32>
  %4 = "hlo.constant"() {value = dense<2> : tensor<i32>} : () -> tensor<i32>
  %5 = "hlo.broadcast"(%4) {dimensions = array<i64>} : (tensor<i32>) -> tensor<4xi32>
  %6 = "hlo.add"(%3, %5) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  return %2, %6 : tensor<i32>, tensor<4xi32>
}

// An exponential is left to run time: its last bit depends on the target.
// CHECK-LABEL: func.func @inexact
// CHECK: "hlo.exponential"
func.func @inexact() -> tensor<f32> {
  %0 = "hlo.constant"() {value = dense<1.5> : tensor<f32>} : () -> tensor<f32>
  %1 = "hlo.exponential"(%0) : (tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
