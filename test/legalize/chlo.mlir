// RUN: shlo-opt %s --pass-pipeline='builtin.module(legalize-to-hlo)' | filecheck %s

// Functions that upstream expands are computed in f32.

// CHECK-LABEL: func.func @narrow
// CHECK-NEXT: [[X:%[0-9]+]] = "hlo.convert"(%arg0) : (tensor<4xf8E5M2>) -> tensor<4xf32>
// CHECK-NOT: (tensor<4xf8E5M2>, 
// CHECK: [[R:%[0-9]+]] = "hlo.convert"(%{{[0-9]+}}) : (tensor<4xf32>) -> tensor<4xf8E5M2>
// CHECK-NEXT: return [[R]]
func.func @narrow(%a: tensor<4xf8E5M2>) -> tensor<4xf8E5M2> {
  %0 = chlo.sinh %a : tensor<4xf8E5M2> -> tensor<4xf8E5M2>
  return %0 : tensor<4xf8E5M2>
}

// CHECK-LABEL: func.func @wide
// CHECK-NOT: hlo.convert
// CHECK: return
func.func @wide(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = chlo.sinh %a : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
