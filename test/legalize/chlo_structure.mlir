// RUN: shlo-opt %s --pass-pipeline='builtin.module(legalize-to-hlo)' | filecheck %s

// The dimensions of the operand of lower rank are the last ones, or those that the attribute names.
// CHECK-LABEL: func.func @trailing
// CHECK: [[B:%[0-9]+]] = "hlo.broadcast"(%arg1) {dimensions = array<i64: 1>}
// CHECK-NEXT: "hlo.add"(%arg0, [[B]])
func.func @trailing(%a: tensor<3x4xf32>, %b: tensor<4xf32>) -> tensor<3x4xf32> {
  %0 = "chlo.broadcast_add"(%a, %b) : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// CHECK-LABEL: func.func @named
// CHECK: [[B:%[0-9]+]] = "hlo.broadcast"(%arg1) {dimensions = array<i64: 0>}
// CHECK-NEXT: "hlo.compare"(%arg0, [[B]]) {direction = "LT"}
func.func @named(%a: tensor<3x4xf32>, %b: tensor<3xf32>) -> tensor<3x4xi1> {
  %0 = "chlo.broadcast_compare"(%a, %b) <{broadcast_dimensions = array<i64: 0>,
    comparison_direction = #chlo<comparison_direction LT>}> : (tensor<3x4xf32>, tensor<3xf32>) -> tensor<3x4xi1>
  return %0 : tensor<3x4xi1>
}

// CHECK-LABEL: func.func @select
// CHECK-DAG: [[P:%[0-9]+]] = "hlo.broadcast"(%arg0)
// CHECK-DAG: [[F:%[0-9]+]] = "hlo.broadcast"(%arg2)
// CHECK: "hlo.select"([[P]], %arg1, [[F]])
func.func @select(%p: tensor<i1>, %a: tensor<3x4xf32>, %b: tensor<4xf32>) -> tensor<3x4xf32> {
  %0 = "chlo.broadcast_select"(%p, %a, %b) : (tensor<i1>, tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// A scan is a loop over slices.
// CHECK-LABEL: func.func @scan
// CHECK: scf.while
// CHECK: [[I:%[0-9]+]] = "hlo.subtract"
// CHECK: [[X:%[0-9]+]] = "hlo.dynamic_slice"(%arg0, [[I]], {{.*}}) {sizes = array<i64: 1, 3>}
// CHECK: "hlo.dynamic_update_slice"
// CHECK: scf.yield
func.func @scan(%a: tensor<5x3xf32>, %i: tensor<3xf32>) -> (tensor<5x3xf32>, tensor<3xf32>) {
  %0:2 = "chlo.scan"(%a, %i) <{dimension = 0 : i64, is_reverse = true, operandSegmentSizes = array<i32: 1, 1>,
    resultSegmentSizes = array<i32: 1, 1>}> ({
  ^bb0(%x: tensor<3xf32>, %c: tensor<3xf32>):
    %s = stablehlo.add %x, %c : tensor<3xf32>
    stablehlo.return %s, %s : tensor<3xf32>, tensor<3xf32>
  }) : (tensor<5x3xf32>, tensor<3xf32>) -> (tensor<5x3xf32>, tensor<3xf32>)
  return %0#0, %0#1 : tensor<5x3xf32>, tensor<3xf32>
}

// The smallest elements come from a stable sort.
// CHECK-LABEL: func.func @smallest
// CHECK: "stablehlo.sort"
// CHECK: "hlo.compare"{{.*}} {direction = "LT", total_order}
// CHECK: "hlo.slice"{{.*}} {limit = array<i64: 2>
func.func @smallest(%a: tensor<7xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0:2 = stablehlo.composite "chlo.top_k" %a {composite_attributes = {k = 2 : i64, largest = false},
    decomposition = @chlo.top_k.impl} : (tensor<7xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
}
func.func private @chlo.top_k.impl(%a: tensor<7xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0 = stablehlo.slice %a [0:2] : (tensor<7xf32>) -> tensor<2xf32>
  %1 = stablehlo.iota dim = 0 : tensor<2xi32>
  return %0, %1 : tensor<2xf32>, tensor<2xi32>
}
