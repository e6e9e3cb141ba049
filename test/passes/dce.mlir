// RUN: shlo-opt --pass-pipeline=dce --split-input-file %s | filecheck %s

// Chains go, loops and branches without uses too; effects stay.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: stablehlo.custom_call @print
// CHECK-NEXT: return %arg0
func.func @main(%x: tensor<4xf32>, %p: i1) -> tensor<4xf32> {
  %0 = "hlo.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "hlo.abs"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = scf.while (%i = %0) : (tensor<4xf32>) -> tensor<4xf32> {
    scf.condition(%p) %i : tensor<4xf32>
  } do {
  ^bb0(%i: tensor<4xf32>):
    %3 = "hlo.add"(%i, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    scf.yield %3 : tensor<4xf32>
  }
  %4 = stablehlo.custom_call @pure(%2) : (tensor<4xf32>) -> tensor<4xf32>
  stablehlo.custom_call @print(%x) {has_side_effect = true} : (tensor<4xf32>) -> ()
  return %x : tensor<4xf32>
}

// -----

// A branch with an effect stays; what only it does not need goes.
// CHECK-LABEL: func.func @effect
// CHECK-NEXT: scf.if
// CHECK-NEXT: custom_call
// CHECK-NEXT: }
// CHECK-NEXT: return
func.func @effect(%x: tensor<4xf32>, %p: i1) {
  %0 = "hlo.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  scf.if %p {
    %1 = "hlo.abs"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    stablehlo.custom_call @print(%x) {has_side_effect = true} : (tensor<4xf32>) -> ()
  }
  return
}

// -----

// Calls go when the callee is pure.
// CHECK-LABEL: func.func @calls
// CHECK-NEXT: call @prints
// CHECK-NEXT: return
func.func private @adds(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "hlo.add"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @prints(%x: tensor<4xf32>) -> tensor<4xf32> {
  stablehlo.custom_call @print(%x) {has_side_effect = true} : (tensor<4xf32>) -> ()
  return %x : tensor<4xf32>
}
func.func private @nested(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @adds(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @calls(%x: tensor<4xf32>) {
  %0 = call @nested(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @prints(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}
