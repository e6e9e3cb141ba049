// RUN: shlo-opt --pass-pipeline=fusion --split-input-file %s | filecheck %s

// An argmax computes what it compares, and the numbers of the places, where that is few operations.
// CHECK-LABEL: func.func @argmax_of_sums
// CHECK: call @fusion_0(%arg0, %arg1)
// CHECK-NEXT: return
// CHECK: hlo.fusion = "reduce_general"
// CHECK: "hlo.add"
// CHECK: stablehlo.reduce
func.func @argmax_of_sums(%best: tensor<64xf32>, %moves: tensor<64x64xf32>) -> tensor<64xi32> {
  %low = "hlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
  %zero = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %0 = "hlo.broadcast"(%best) {dimensions = array<i64: 0>} : (tensor<64xf32>) -> tensor<64x64xf32>
  %1 = "hlo.add"(%0, %moves) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = "hlo.iota"() {dimension = 0 : i64} : () -> tensor<64x64xi32>
  %3:2 = stablehlo.reduce(%1 init: %low), (%2 init: %zero) across dimensions = [0] : (tensor<64x64xf32>, tensor<64x64xi32>, tensor<f32>, tensor<i32>) -> (tensor<64xf32>, tensor<64xi32>)
   reducer(%a: tensor<f32>, %b: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {
    %4 = "hlo.compare"(%a, %b) {direction = "GE"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %5 = "hlo.select"(%4, %a, %b) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %6 = "hlo.select"(%4, %i, %j) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    stablehlo.return %5, %6 : tensor<f32>, tensor<i32>
  }
  return %3#1 : tensor<64xi32>
}

// -----

// Not an exponential, nor what is better shared by threads as a loop.
// CHECK-LABEL: func.func @expensive_operands
// CHECK-COUNT-2: call @fusion_
func.func @expensive_operands(%x: tensor<64x64xf32>, %n: tensor<64x64xi32>) -> tensor<64xi32> {
  %low = "hlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
  %zero = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %1 = "hlo.exponential"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %3:2 = stablehlo.reduce(%1 init: %low), (%n init: %zero) across dimensions = [0] : (tensor<64x64xf32>, tensor<64x64xi32>, tensor<f32>, tensor<i32>) -> (tensor<64xf32>, tensor<64xi32>)
   reducer(%a: tensor<f32>, %b: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {
    %4 = "hlo.compare"(%a, %b) {direction = "GE"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %5 = "hlo.select"(%4, %a, %b) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %6 = "hlo.select"(%4, %i, %j) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    stablehlo.return %5, %6 : tensor<f32>, tensor<i32>
  }
  return %3#1 : tensor<64xi32>
}

// -----

// CHECK-LABEL: func.func @large_operands
// CHECK-COUNT-2: call @fusion_
func.func @large_operands(%x: tensor<4096x64xf32>, %n: tensor<4096x64xi32>) -> tensor<64xi32> {
  %low = "hlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
  %zero = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %1 = "hlo.add"(%x, %x) : (tensor<4096x64xf32>, tensor<4096x64xf32>) -> tensor<4096x64xf32>
  %3:2 = stablehlo.reduce(%1 init: %low), (%n init: %zero) across dimensions = [0] : (tensor<4096x64xf32>, tensor<4096x64xi32>, tensor<f32>, tensor<i32>) -> (tensor<64xf32>, tensor<64xi32>)
   reducer(%a: tensor<f32>, %b: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {
    %4 = "hlo.compare"(%a, %b) {direction = "GE"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %5 = "hlo.select"(%4, %a, %b) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %6 = "hlo.select"(%4, %i, %j) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    stablehlo.return %5, %6 : tensor<f32>, tensor<i32>
  }
  return %3#1 : tensor<64xi32>
}
