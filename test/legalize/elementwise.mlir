// RUN: shlo-opt %s --pass-pipeline='builtin.module(legalize-to-hlo)' | filecheck %s

// CHECK-LABEL: func.func @same_names
// CHECK: [[T:%[0-9]+]] = "hlo.tanh"(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: [[C:%[0-9]+]] = "hlo.cbrt"([[T]])
// CHECK-NEXT: [[S:%[0-9]+]] = "hlo.subtract"([[C]], %arg1)
// CHECK-NEXT: return [[S]]
func.func @same_names(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %a : tensor<4xf32>
  %1 = stablehlo.cbrt %0 : tensor<4xf32>
  %2 = stablehlo.subtract %1, %b : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// CHECK-LABEL: func.func @arithmetic_on_booleans
// CHECK: "hlo.or"
// CHECK-NEXT: "hlo.and"
// CHECK-NEXT: "hlo.or"
// CHECK-NEXT: "hlo.and"
// CHECK-NEXT: return
func.func @arithmetic_on_booleans(%a: tensor<4xi1>, %b: tensor<4xi1>) -> tensor<4xi1> {
  %0 = stablehlo.add %a, %b : tensor<4xi1>
  %1 = stablehlo.multiply %0, %b : tensor<4xi1>
  %2 = stablehlo.maximum %1, %b : tensor<4xi1>
  %3 = stablehlo.minimum %2, %b : tensor<4xi1>
  return %3 : tensor<4xi1>
}

// A constant comes to stand on the right, where rules look for it.
// CHECK-LABEL: func.func @constant_on_the_left
// CHECK: [[C:%[0-9]+]] = "hlo.broadcast"
// CHECK-NEXT: [[SUM:%[0-9]+]] = "hlo.add"(%arg0, [[C]])
// CHECK-NEXT: [[DIFFERENCE:%[0-9]+]] = "hlo.subtract"([[C]], [[SUM]])
// CHECK-NEXT: return [[DIFFERENCE]]
func.func @constant_on_the_left(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.constant dense<2.0> : tensor<4xf32>
  %1 = stablehlo.add %0, %a : tensor<4xf32>
  %2 = stablehlo.subtract %0, %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// The scalar bounds are broadcast; the order is the specification's.
// CHECK-LABEL: func.func @clamp
// CHECK-DAG: [[LOW:%[0-9]+]] = "hlo.broadcast"(%arg0) {dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32>
// CHECK-DAG: [[HIGH:%[0-9]+]] = "hlo.broadcast"(%arg2)
// CHECK: [[MAX:%[0-9]+]] = "hlo.maximum"(%arg1, [[LOW]])
// CHECK: "hlo.minimum"([[MAX]], [[HIGH]])
func.func @clamp(%low: tensor<f32>, %x: tensor<4xf32>, %high: tensor<f32>) -> tensor<4xf32> {
  %0 = stablehlo.clamp %low, %x, %high : (tensor<f32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @select_by_scalar
// CHECK: [[P:%[0-9]+]] = "hlo.broadcast"(%arg0) {dimensions = array<i64>} : (tensor<i1>) -> tensor<4xi1>
// CHECK-NEXT: "hlo.select"([[P]], %arg1, %arg2)
func.func @select_by_scalar(%p: tensor<i1>, %a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.select %p, %a, %b : tensor<i1>, tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Lexicographic (spec, section compare): a < b || a == b && c <= d.
// CHECK-LABEL: func.func @compare_complex
// CHECK: [[FIRST:%[0-9]+]] = "hlo.compare"([[A:%[0-9]+]], [[B:%[0-9]+]]) {direction = "LT"}
// CHECK-NEXT: [[SAME:%[0-9]+]] = "hlo.compare"([[A]], [[B]]) {direction = "EQ"}
// CHECK-NEXT: [[LAST:%[0-9]+]] = "hlo.compare"({{%[0-9]+}}, {{%[0-9]+}}) {direction = "LE"}
// CHECK-NEXT: [[BOTH:%[0-9]+]] = "hlo.and"([[SAME]], [[LAST]])
// CHECK-NEXT: "hlo.or"([[FIRST]], [[BOTH]])
// CHECK: "hlo.compare"(%arg0, %arg1) {direction = "NE"}
func.func @compare_complex(%a: tensor<4xcomplex<f32>>, %b: tensor<4xcomplex<f32>>) -> (tensor<4xi1>, tensor<4xi1>) {
  %0 = stablehlo.compare LE, %a, %b : (tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>) -> tensor<4xi1>
  %1 = stablehlo.compare NE, %a, %b : (tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>) -> tensor<4xi1>
  return %0, %1 : tensor<4xi1>, tensor<4xi1>
}

// CHECK-LABEL: func.func @compare
// CHECK: "hlo.compare"(%arg0, %arg0) {direction = "LT"} :
// CHECK: "hlo.compare"(%arg0, %arg0) {direction = "GE", total_order} :
// CHECK: "hlo.compare"(%arg1, %arg1) {direction = "NE"} :
func.func @compare(%a: tensor<4xf32>, %b: tensor<4xui8>) -> (tensor<4xi1>, tensor<4xi1>, tensor<4xi1>) {
  %0 = stablehlo.compare LT, %a, %a, FLOAT : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %1 = stablehlo.compare GE, %a, %a, TOTALORDER : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %2 = stablehlo.compare NE, %b, %b, UNSIGNED : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xi1>
  return %0, %1, %2 : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>
}

// CHECK-LABEL: func.func @conversions
// CHECK-NEXT: [[I:%[0-9]+]] = "hlo.convert"(%arg0) : (tensor<4xf32>) -> tensor<4xi8>
// CHECK-NEXT: [[R:%[0-9]+]] = "hlo.reduce_precision"(%arg0) {exponent_bits = 5 : i64, mantissa_bits = 10 : i64}
// CHECK-NEXT: return %arg0, [[I]], [[R]]
func.func @conversions(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi8>, tensor<4xf32>) {
  %0 = stablehlo.convert %a : tensor<4xf32>
  %1 = stablehlo.convert %0 : (tensor<4xf32>) -> tensor<4xi8>
  %2 = stablehlo.reduce_precision %a, format = e5m10 : tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xi8>, tensor<4xf32>
}

// CHECK-LABEL: func.func @parts_of_reals
// CHECK: [[Z:%[0-9]+]] = "hlo.constant"() {value = dense<0.000000e+00> : tensor<f32>}
// CHECK: [[I:%[0-9]+]] = "hlo.broadcast"([[Z]])
// CHECK: return %arg0, [[I]]
func.func @parts_of_reals(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.real %a : tensor<4xf32>
  %1 = stablehlo.imag %a : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @map
// CHECK-DAG: [[P:%[0-9]+]] = "hlo.multiply"(%arg0, %arg1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-DAG: [[C:%[0-9]+]] = "hlo.constant"() {value = dense<1.000000e+00> : tensor<f32>}
// CHECK-DAG: [[B:%[0-9]+]] = "hlo.broadcast"([[C]])
// CHECK: "hlo.add"([[P]], [[B]])
// CHECK-NOT: stablehlo.map
func.func @map(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.map"(%a, %b) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.multiply %x, %y : tensor<f32>
    %2 = stablehlo.constant dense<1.0> : tensor<f32>
    %3 = stablehlo.add %1, %2 : tensor<f32>
    stablehlo.return %3 : tensor<f32>
  }) {dimensions = array<i64: 0>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
