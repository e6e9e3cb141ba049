// RUN: shlo-opt --pass-pipeline=cse{stablehlo} --split-input-file %s | filecheck %s

// Chains merge; an op with a body, too; what nobody uses goes.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[C:.*]] = stablehlo.constant
// CHECK-NEXT: %[[B:.*]] = stablehlo.broadcast_in_dim %[[C]]
// CHECK-NEXT: %[[M:.*]] = stablehlo.multiply %arg0, %[[B]]
// CHECK-NEXT: %[[R:.*]] = stablehlo.reduce(%[[M]] init: %[[C]])
// CHECK-NEXT: return %[[R]], %[[R]]
func.func @main(%x: tensor<4xf32>) -> (tensor<f32>, tensor<f32>) {
  %c = stablehlo.constant dense<2.0> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %1 = stablehlo.multiply %x, %0 : tensor<4xf32>
  %d = stablehlo.constant dense<2.0> : tensor<f32>
  %2 = stablehlo.broadcast_in_dim %d, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %3 = stablehlo.multiply %x, %2 : tensor<4xf32>
  %4 = stablehlo.reduce(%1 init: %c) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %5 = stablehlo.reduce(%3 init: %d) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %6 = stablehlo.tanh %3 : tensor<4xf32>
  return %4, %5 : tensor<f32>, tensor<f32>
}

// -----

// A body keeps its own constants: nothing is done.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: stablehlo.tanh
// CHECK: stablehlo.map
// CHECK: stablehlo.constant
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %c = stablehlo.constant dense<2.0> : tensor<f32>
  %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %0 = stablehlo.tanh %x : tensor<4xf32>
  %1 = stablehlo.tanh %x : tensor<4xf32>
  %2 = stablehlo.add %0, %b : tensor<4xf32>
  %3 = "stablehlo.map"(%1) ({
  ^bb0(%arg: tensor<f32>):
    %d = stablehlo.constant dense<2.0> : tensor<f32>
    %e = stablehlo.multiply %arg, %d : tensor<f32>
    stablehlo.return %e : tensor<f32>
  }) {dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  return %2, %3 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Loops use values from outside. Random numbers differ each time; so may calls with side effects.
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.while
// CHECK-NOT: stablehlo.constant
// CHECK: stablehlo.add
// CHECK-COUNT-2: stablehlo.rng
// CHECK-COUNT-2: stablehlo.custom_call
func.func @main(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) {
  %c = stablehlo.constant dense<2.0> : tensor<f32>
  %0 = stablehlo.while(%i = %x) : tensor<f32> cond {
    %d = stablehlo.constant dense<2.0> : tensor<f32>
    %p = stablehlo.compare LT, %i, %d : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c : tensor<f32>
    stablehlo.return %j : tensor<f32>
  }
  %s = stablehlo.constant dense<> : tensor<0xi64>
  %1 = stablehlo.rng %x, %c, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<0xi64>) -> tensor<f32>
  %2 = stablehlo.rng %x, %c, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<0xi64>) -> tensor<f32>
  %3 = stablehlo.custom_call @f(%x) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
  %4 = stablehlo.custom_call @f(%x) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
  return %0, %1, %2, %3, %4 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}
