// RUN: shlo-opt %s --pass-pipeline='builtin.module(fusion{target=cuda})' | filecheck %s --check-prefix=GPU
// RUN: shlo-opt %s --pass-pipeline='builtin.module(fusion{target=cpu})' | filecheck %s --check-prefix=CPU

// Lookups in small tables: a kernel takes long to start, so it computes the indices, and several sums of rows.
// GPU-LABEL: func.func public @main
// GPU: %[[SUMS:.*]]:2 = call @fusion_0(%arg1, %arg0) : {{.*}} -> (tensor<8x16xf32>, tensor<8x16xf32>)
// GPU: return %[[SUMS]]#0, %[[SUMS]]#1
// GPU: func.func private @fusion_0({{.*}} attributes {hlo.fusion = "column"}
// GPU-COUNT-2: "hlo.gather"
// CPU-LABEL: func.func public @main
// CPU-COUNT-3: call @fusion_
func.func public @main(%table: tensor<100x16xf32>, %places: tensor<8x4x1xi32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %zero = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %ones = "hlo.broadcast"(%1) {dimensions = array<i64>} : (tensor<i32>) -> tensor<8x4x1xi32>
  %next = "hlo.add"(%places, %ones) : (tensor<8x4x1xi32>, tensor<8x4x1xi32>) -> tensor<8x4x1xi32>
  %before = "hlo.subtract"(%places, %ones) : (tensor<8x4x1xi32>, tensor<8x4x1xi32>) -> tensor<8x4x1xi32>
  %a = "hlo.gather"(%table, %next) {collapsed_slice_dims = array<i64: 0>, index_vector_dim = 2 : i64, offset_dims = array<i64: 2>, operand_batching_dims = array<i64>, slice_sizes = array<i64: 1, 16>, start_index_map = array<i64: 0>, start_indices_batching_dims = array<i64>} : (tensor<100x16xf32>, tensor<8x4x1xi32>) -> tensor<8x4x16xf32>
  %b = "hlo.gather"(%table, %before) {collapsed_slice_dims = array<i64: 0>, index_vector_dim = 2 : i64, offset_dims = array<i64: 2>, operand_batching_dims = array<i64>, slice_sizes = array<i64: 1, 16>, start_index_map = array<i64: 0>, start_indices_batching_dims = array<i64>} : (tensor<100x16xf32>, tensor<8x4x1xi32>) -> tensor<8x4x16xf32>
  %sum_a = "hlo.reduce"(%a, %zero) {dimensions = array<i64: 1>, kind = "add"} : (tensor<8x4x16xf32>, tensor<f32>) -> tensor<8x16xf32>
  %sum_b = "hlo.reduce"(%b, %zero) {dimensions = array<i64: 1>, kind = "add"} : (tensor<8x4x16xf32>, tensor<f32>) -> tensor<8x16xf32>
  return %sum_a, %sum_b : tensor<8x16xf32>, tensor<8x16xf32>
}
