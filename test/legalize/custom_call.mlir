// RUN: shlo-opt %s --pass-pipeline='builtin.module(legalize-to-hlo)' | filecheck %s

// CHECK-LABEL: func.func @nothing_on_one_device
// CHECK-NEXT: return %arg0
func.func @nothing_on_one_device(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @Sharding(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.custom_call @annotate_device_placement(%0) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @assertion
// CHECK-NOT: custom_call
// CHECK: return
func.func @assertion(%p: tensor<i1>, %n: tensor<i32>) {
  stablehlo.custom_call @shape_assertion(%p, %n) {has_side_effect = true, error_message = "n = {0}"} : (tensor<i1>, tensor<i32>) -> ()
  return
}

// CHECK-LABEL: func.func @ops_of_old_exporters
// CHECK-NEXT: [[E:%[0-9]+]] = "hlo.erf"(%arg0)
// CHECK-NEXT: "hlo.top_k"([[E]]) {k = 2 : i64}
func.func @ops_of_old_exporters(%a: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0 = stablehlo.custom_call @mhlo.erf(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %1:2 = stablehlo.custom_call @mhlo.topk(%0) {mhlo.attributes = {k = 2 : i64, largest = true}} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %1#0, %1#1 : tensor<2xf32>, tensor<2xi32>
}

// CHECK-LABEL: func.func @others_stay
// CHECK: stablehlo.custom_call @mine(%arg0)
func.func @others_stay(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @mine(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
