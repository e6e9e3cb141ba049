// RUN: shlo-opt --pass-pipeline=cse --split-input-file %s | filecheck %s

// CHECK-LABEL: func.func @commutative
// CHECK-NEXT: %[[A:.*]] = "hlo.add"(%arg0, %arg1)
// CHECK-NEXT: %[[S:.*]] = "hlo.subtract"(%arg0, %arg1)
// CHECK-NEXT: %[[T:.*]] = "hlo.subtract"(%arg1, %arg0)
// CHECK-NEXT: %[[D:.*]] = "hlo.add"(%arg0, %arg0)
// CHECK-NEXT: return %[[A]], %[[A]], %[[S]], %[[T]], %[[D]]
func.func @commutative(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = "hlo.add"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = "hlo.add"(%y, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = "hlo.subtract"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = "hlo.subtract"(%y, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = "hlo.add"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0, %1, %2, %3, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Chains merge in one sweep; attributes and result types tell ops apart.
// CHECK-LABEL: func.func @attributes
// CHECK-COUNT-1: hlo.constant
// CHECK: "hlo.broadcast"
// CHECK-NEXT: %[[I:.*]] = "hlo.iota"() {dimension = 0 : i64} : () -> tensor<2x2xi32>
// CHECK-NEXT: %[[J:.*]] = "hlo.iota"() {dimension = 1 : i64} : () -> tensor<2x2xi32>
// CHECK-NEXT: %[[K:.*]] = "hlo.iota"() {dimension = 1 : i64} : () -> tensor<2x2xi64>
// CHECK-NEXT: return %[[B:.*]], %[[B]], %[[I]], %[[J]], %[[K]]
func.func @attributes() -> (tensor<4xf32>, tensor<4xf32>, tensor<2x2xi32>, tensor<2x2xi32>, tensor<2x2xi64>) {
  %0 = "hlo.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "hlo.broadcast"(%0) {dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32>
  %2 = "hlo.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %3 = "hlo.broadcast"(%2) {dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32>
  %4 = "hlo.iota"() {dimension = 0} : () -> tensor<2x2xi32>
  %5 = "hlo.iota"() {dimension = 1} : () -> tensor<2x2xi32>
  %6 = "hlo.iota"() {dimension = 1} : () -> tensor<2x2xi64>
  return %1, %3, %4, %5, %6 : tensor<4xf32>, tensor<4xf32>, tensor<2x2xi32>, tensor<2x2xi32>, tensor<2x2xi64>
}

// -----

// An op in a branch may be served by one outside, never the other way round.
// CHECK-LABEL: func.func @regions
// CHECK-NEXT: %[[T:.*]] = "hlo.tanh"(%arg0)
// CHECK-NEXT: scf.if
// CHECK-NEXT: %[[A:.*]] = "hlo.abs"
// CHECK-NEXT: "hlo.add"(%[[T]], %[[A]])
// CHECK: else
// CHECK-NEXT: "hlo.abs"
// CHECK: "hlo.abs"
// CHECK-NEXT: return
func.func @regions(%x: tensor<4xf32>, %p: i1) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = "hlo.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = scf.if %p -> tensor<4xf32> {
    %2 = "hlo.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %3 = "hlo.abs"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %4 = "hlo.add"(%2, %3) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    scf.yield %4 : tensor<4xf32>
  } else {
    %5 = "hlo.abs"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %5 : tensor<4xf32>
  }
  %6 = "hlo.abs"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %1, %6 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Equal bodies make equal ops; a body that may not use outside values gets none; custom calls with an effect stay.
// CHECK-LABEL: func.func @bodies
// CHECK: hlo.constant
// CHECK: %[[S:.*]] = "stablehlo.sort"
// CHECK: hlo.constant
// CHECK: %[[R:.*]] = "stablehlo.sort"
// CHECK-NOT: stablehlo.sort
// CHECK: custom_call
// CHECK: custom_call
// CHECK: return %[[S]], %[[S]], %[[R]]
func.func @bodies(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %c = "hlo.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "stablehlo.sort"(%x) <{dimension = 0 : i64}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %d = "hlo.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
    %e = "hlo.add"(%a, %d) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %p = "hlo.compare"(%e, %b) {direction = "LT"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "stablehlo.sort"(%x) <{dimension = 0 : i64}> ({
  ^bb0(%f: tensor<f32>, %g: tensor<f32>):
    %d = "hlo.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
    %e = "hlo.add"(%f, %d) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %p = "hlo.compare"(%e, %g) {direction = "LT"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "stablehlo.sort"(%x) <{dimension = 0 : i64}> ({
  ^bb0(%f: tensor<f32>, %g: tensor<f32>):
    %p = "hlo.compare"(%g, %f) {direction = "LT"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  stablehlo.custom_call @print(%x) {has_side_effect = true} : (tensor<4xf32>) -> ()
  stablehlo.custom_call @print(%x) {has_side_effect = true} : (tensor<4xf32>) -> ()
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
