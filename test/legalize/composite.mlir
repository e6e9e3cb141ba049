// RUN: shlo-opt %s --pass-pipeline='builtin.module(legalize-to-hlo)' | filecheck %s

// CHECK-LABEL: func.func @main
// CHECK-NEXT: [[E:%[0-9]+]] = "hlo.erf"(%arg0)
// CHECK-NEXT: [[T:%[0-9]+]]:2 = "hlo.top_k"([[E]]) {k = 2 : i64}
// CHECK-NEXT: "hlo.zeta"([[T]]#0, [[T]]#0)
// CHECK-NEXT: return
// CHECK-NOT: @decomposition
func.func @main(%a: tensor<4xf32>) -> tensor<2xf32> {
  %0 = stablehlo.composite "chlo.erf" %a {decomposition = @decomposition} : (tensor<4xf32>) -> tensor<4xf32>
  %1:2 = stablehlo.composite "chlo.top_k" %0 {composite_attributes = {k = 2 : i64, largest = true}, decomposition = @decomposition_2} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  %2 = stablehlo.composite "chlo.zeta" %1#0, %1#0 {decomposition = @decomposition_3} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}
func.func private @decomposition(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func private @decomposition_2(%a: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0 = stablehlo.slice %a [0:2] : (tensor<4xf32>) -> tensor<2xf32>
  %1 = stablehlo.iota dim = 0 : tensor<2xi32>
  return %0, %1 : tensor<2xf32>, tensor<2xi32>
}
func.func private @decomposition_3(%a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<2xf32> {
  return %a : tensor<2xf32>
}

// CHLO ops with an hlo op become that op; others are expanded.
// CHECK-LABEL: func.func @chlo
// CHECK: "hlo.erf"
// CHECK-NEXT: "hlo.tan"
// CHECK-NEXT: [[S:%[0-9]+]] = "hlo.multiply"([[X:%[0-9]+]], [[X]])
// CHECK-NEXT: [[A:%[0-9]+]] = "hlo.atanh"
// CHECK-NEXT: "hlo.digamma"([[A]]) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: return
func.func @chlo(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = chlo.erf %a : tensor<4xf32> -> tensor<4xf32>
  %1 = chlo.tan %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = chlo.square %1 : tensor<4xf32> -> tensor<4xf32>
  %3 = chlo.atanh %2 : tensor<4xf32> -> tensor<4xf32>
  %4 = chlo.digamma %3 : tensor<4xf32> -> tensor<4xf32>
  return %4 : tensor<4xf32>
}
