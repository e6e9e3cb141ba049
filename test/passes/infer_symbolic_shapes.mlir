// RUN: shlo-opt --pass-pipeline=infer-symbolic-shapes --split-input-file %s | filecheck %s

// Dimensions of arguments are symbols; arithmetic on sizes is followed, and what must be equal is.
// CHECK: kind = "argument", {{.*}}message = "dimension 0 of argument 2 is {0}, and must be {1} (dimension 0 of argument 1)", op = "stablehlo.add", sizes = "eq(d1_0,d2_0), d2_0, d1_0"
// CHECK-LABEL: func.func {{.*}}@main
// CHECK-SAME: tensor<?x3xf32, "d1_0, 3">, {{.*}}tensor<?x3xf32, "d1_0, 3">) -> tensor<?xf32, "3*d1_0">
func.func public @main(%n: tensor<i64>, %x: tensor<?x3xf32>, %y: tensor<?x3xf32>) -> tensor<?xf32> {
  // CHECK: stablehlo.add {{.*}} : tensor<?x3xf32, "d1_0, 3">
  %0 = stablehlo.add %x, %y : tensor<?x3xf32>
  %1 = stablehlo.constant dense<3> : tensor<i64>
  %2 = stablehlo.multiply %n, %1 : tensor<i64>
  %3 = stablehlo.reshape %2 : (tensor<i64>) -> tensor<1xi64>
  // CHECK: %[[S:.*]] = "hlo.const_size"() {value = "3*d1_0"} : () -> tensor<1xi64>
  // CHECK: stablehlo.dynamic_reshape {{.*}}, %[[S]] : {{.*}} -> tensor<?xf32, "3*d1_0">
  %4 = stablehlo.dynamic_reshape %0, %3 : (tensor<?x3xf32>, tensor<1xi64>) -> tensor<?xf32>
  return %4 : tensor<?xf32>
}

// -----

// Assertions of the export become checks; a size that is read is an hlo.const_size.
// CHECK: message = "b is {0}", op = "stablehlo.custom_call", sizes = "-lt(d0_0,4)+1, d0_0"
// CHECK-LABEL: func.func {{.*}}@main
// CHECK-NOT: custom_call
// CHECK: %[[S:.*]] = "hlo.const_size"() {value = "d0_0"} : () -> tensor<i32>
// CHECK: return %[[S]]
func.func public @main(%x: tensor<?x3xf32>) -> tensor<i32> {
  %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
  %1 = stablehlo.constant dense<4> : tensor<i32>
  %2 = stablehlo.compare GE, %0, %1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%2, %0) {api_version = 2 : i32, error_message = "b is {0}", has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
  return %0 : tensor<i32>
}

// -----

// What an assertion says to be equal is one size.
// CHECK: message = "square", op = "stablehlo.custom_call", sizes = "eq(d0_0,d0_1)"
// CHECK-NOT: message
// CHECK-LABEL: func.func {{.*}}@main
// CHECK-SAME: tensor<?x?xf32, "d0_0, d0_0">) -> tensor<?x?xf32, "d0_0, d0_0">
func.func public @main(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x?xf32>) -> tensor<i32>
  %1 = stablehlo.get_dimension_size %x, dim = 1 : (tensor<?x?xf32>) -> tensor<i32>
  %2 = stablehlo.compare EQ, %0, %1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%2) {api_version = 2 : i32, error_message = "square", has_side_effect = true} : (tensor<i1>) -> ()
  return %x : tensor<?x?xf32>
}

// -----

// A window of dynamic size is text on the op, whose region is a copy of the computation.
// CHECK-LABEL: func.func {{.*}}@main
// CHECK: "stablehlo.reduce_window"(%arg0, %{{.*}}) <{
// CHECK: stablehlo.add
// CHECK: stablehlo.return
// CHECK: hlo.window = "d0_0, 1, 1, 1, d0_0-1, 0"
func.func public @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<1xi32>
  %init = stablehlo.constant dense<0.0> : tensor<f32>
  %less = stablehlo.subtract %n, %one : tensor<i32>
  %low = stablehlo.reshape %less : (tensor<i32>) -> tensor<1xi32>
  %flat = stablehlo.concatenate %low, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %padding = stablehlo.reshape %flat : (tensor<2xi32>) -> tensor<1x2xi32>
  %window = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %ones = stablehlo.constant dense<1> : tensor<1xi32>
  %0 = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %init, %window, %ones, %ones, %ones, %padding) {called_computations = [@sum]}
    : (tensor<?xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1x2xi32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
func.func private @sum(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %a, %b : tensor<f32>
  return %0 : tensor<f32>
}

// -----

// Static modules stay as they are.
// CHECK-LABEL: func.func {{.*}}@main
// CHECK-NEXT: stablehlo.negate %arg0 : tensor<3xf32>
func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.negate %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// The elements of a tuple have the sizes that they had.
// CHECK-LABEL: func.func {{.*}}@main
// CHECK-NOT: tuple
// CHECK: stablehlo.add %{{.*}}, %{{.*}} : tensor<?xf32, "d0_0">
func.func public @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %0 = stablehlo.tuple %x, %y : tuple<tensor<?xf32>, tensor<?xf32>>
  %1 = stablehlo.get_tuple_element %0[1] : (tuple<tensor<?xf32>, tensor<?xf32>>) -> tensor<?xf32>
  %2 = stablehlo.add %1, %x : tensor<?xf32>
  return %2 : tensor<?xf32>
}
