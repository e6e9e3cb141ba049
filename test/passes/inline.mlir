// RUN: shlo-opt --pass-pipeline='builtin.module(inline)' --split-input-file --verify-diagnostics %s | filecheck %s
// RUN: shlo-opt --pass-pipeline='inline{keep=my.op}' --split-input-file --verify-diagnostics %s | filecheck %s --check-prefix=KEEP

// Calls of calls, and calls in regions of StableHLO ops.
// CHECK-LABEL: func.func @main
// CHECK-NOT: call
// CHECK: "stablehlo.if"
// CHECK: stablehlo.tanh
// CHECK: stablehlo.return
// CHECK: stablehlo.while
// CHECK: do {
// CHECK: stablehlo.tanh
// CHECK-NOT: func.func private
func.func private @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @g(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @f(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>, %p: tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = "stablehlo.if"(%p) ({
    %1 = func.call @g(%x) : (tensor<4xf32>) -> tensor<4xf32>
    stablehlo.return %1 : tensor<4xf32>
  }, {
    stablehlo.return %x : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  %2:2 = stablehlo.while(%i = %x, %q = %p) : tensor<4xf32>, tensor<i1>
    cond { stablehlo.return %q : tensor<i1> }
    do {
      %3 = func.call @f(%i) : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %3, %q : tensor<4xf32>, tensor<i1>
    }
  return %0, %2#0 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Composites: what legalization knows stays, with its decomposition.
// CHECK-LABEL: func.func private @erf
// CHECK-NOT: @mine
// CHECK-LABEL: func.func @main
// CHECK-NEXT: stablehlo.composite "chlo.erf"
// CHECK-NEXT: stablehlo.cosine
// KEEP-LABEL: func.func private @mine
// KEEP-LABEL: func.func @main(
// KEEP-NEXT: stablehlo.tanh
// KEEP-NEXT: stablehlo.composite "my.op"
func.func private @erf(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @mine(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.cosine %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.composite "chlo.erf" %x {decomposition = @erf} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.composite "my.op" %0 {decomposition = @mine} : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// A composite that takes the smallest elements is known as well.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: stablehlo.composite "chlo.top_k"
func.func private @smallest(%a: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0 = stablehlo.slice %a [0:2] : (tensor<4xf32>) -> tensor<2xf32>
  %1 = stablehlo.iota dim = 0 : tensor<2xi32>
  return %0, %1 : tensor<2xf32>, tensor<2xi32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<2xf32> {
  %0:2 = stablehlo.composite "chlo.top_k" %x {composite_attributes = {k = 2 : i64, largest = false}, decomposition = @smallest} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %0#0 : tensor<2xf32>
}

// -----

func.func private @even(%a: tensor<f32>) -> tensor<f32> {
  %0 = call @odd(%a) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @odd(%a: tensor<f32>) -> tensor<f32> {
  // expected-error@+1 {{recursion cannot be inlined: @even -> @odd -> @even}}
  %0 = call @even(%a) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @main(%a: tensor<f32>) -> tensor<f32> {
  %0 = call @even(%a) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func private @elsewhere(tensor<f32>) -> tensor<f32>
func.func @main(%a: tensor<f32>) -> tensor<f32> {
  // expected-error@+1 {{calls @elsewhere, which has no body}}
  %0 = call @elsewhere(%a) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
