// RUN: shlo-opt %s --pass-pipeline='builtin.module(legalize-to-hlo)' | filecheck %s

// CHECK-LABEL: func.func @dynamic_slices
// CHECK: [[S:%[0-9]+]] = "hlo.dynamic_slice"(%arg0, %arg1, %arg1) {sizes = array<i64: 1, 2>} : (tensor<4x5xf32>, tensor<ui8>, tensor<ui8>) -> tensor<1x2xf32>
// CHECK: "hlo.dynamic_update_slice"(%arg0, [[S]], %arg1, %arg1)
func.func @dynamic_slices(%a: tensor<4x5xf32>, %i: tensor<ui8>) -> tensor<4x5xf32> {
  %0 = stablehlo.dynamic_slice %a, %i, %i, sizes = [1, 2] : (tensor<4x5xf32>, tensor<ui8>, tensor<ui8>) -> tensor<1x2xf32>
  %1 = stablehlo.dynamic_update_slice %a, %0, %i, %i : (tensor<4x5xf32>, tensor<1x2xf32>, tensor<ui8>, tensor<ui8>) -> tensor<4x5xf32>
  return %1 : tensor<4x5xf32>
}

// CHECK-LABEL: func.func @of_scalars
// CHECK-NEXT: return %arg1
func.func @of_scalars(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %0 = "stablehlo.dynamic_update_slice"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "stablehlo.dynamic_slice"(%0) {slice_sizes = array<i64>} : (tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// CHECK-LABEL: func.func @gather
// CHECK: "hlo.gather"(%arg0, %arg1)
// CHECK-SAME: collapsed_slice_dims = array<i64: 1>, index_vector_dim = 2 : i64, offset_dims = array<i64: 2>, operand_batching_dims = array<i64: 0>
// CHECK-SAME: slice_sizes = array<i64: 1, 1, 5>, start_index_map = array<i64: 1>, start_indices_batching_dims = array<i64: 0>
func.func @gather(%a: tensor<2x4x5xf32>, %i: tensor<2x3x1xi32>) -> tensor<2x3x5xf32> {
  %0 = "stablehlo.gather"(%a, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1],
    operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>,
    slice_sizes = array<i64: 1, 1, 5>} : (tensor<2x4x5xf32>, tensor<2x3x1xi32>) -> tensor<2x3x5xf32>
  return %0 : tensor<2x3x5xf32>
}

// CHECK-LABEL: func.func @torch_index_select
// CHECK: "hlo.gather"(%arg0, %arg1)
// CHECK-SAME: collapsed_slice_dims = array<i64: 1>, index_vector_dim = 2 : i64, offset_dims = array<i64: 2>
// CHECK-SAME: -> tensor<2x3x5xf32>
func.func @torch_index_select(%a: tensor<2x4x5xf32>, %i: tensor<2x3xi32>) -> tensor<2x3x5xf32> {
  %0 = "stablehlo.torch_index_select"(%a, %i) {dim = 1 : i64, batch_dims = 1 : i64} : (tensor<2x4x5xf32>, tensor<2x3xi32>) -> tensor<2x3x5xf32>
  return %0 : tensor<2x3x5xf32>
}

// CHECK-LABEL: func.func @scatter(
// CHECK: "stablehlo.scatter"
// CHECK: "hlo.add"
// CHECK-NEXT: stablehlo.return
func.func @scatter(%a: tensor<4xf32>, %i: tensor<2x1xi32>, %u: tensor<2xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.scatter"(%a, %i, %u) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
    : (tensor<4xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Dynamic twins whose operands are constants are the static ops.
// CHECK-LABEL: func.func @dynamic_twins
// CHECK: "hlo.broadcast"(%arg0) {dimensions = array<i64: 1>} : (tensor<3xf32>) -> tensor<2x3xf32>
// CHECK: "hlo.slice"
// CHECK-NOT: dynamic
// CHECK: return
func.func @dynamic_twins(%a: tensor<3xf32>) -> tensor<1x3xf32> {
  %s = stablehlo.constant dense<[2, 3]> : tensor<2xi64>
  %0 = stablehlo.dynamic_broadcast_in_dim %a, %s, dims = [1] : (tensor<3xf32>, tensor<2xi64>) -> tensor<2x3xf32>
  %b = stablehlo.constant dense<[1, 0]> : tensor<2xi64>
  %e = stablehlo.constant dense<[2, 3]> : tensor<2xi64>
  %t = stablehlo.constant dense<1> : tensor<2xi64>
  %1 = stablehlo.real_dynamic_slice %0, %b, %e, %t : (tensor<2x3xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<1x3xf32>
  return %1 : tensor<1x3xf32>
}
