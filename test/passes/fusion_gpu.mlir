// RUN: shlo-opt %s --split-input-file --pass-pipeline='builtin.module(fusion{target=cuda})' | filecheck %s --check-prefix=GPU
// RUN: shlo-opt %s --split-input-file --pass-pipeline='builtin.module(fusion{target=cpu})' | filecheck %s --check-prefix=CPU

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

// -----

// One row is shared out among blocks, which write nothing of its size.
// GPU-LABEL: func.func public @main
// GPU: %[[PRODUCT:.*]] = call @fusion_0(%arg0, %arg1) : {{.*}} -> tensor<512x512xf32>
// GPU: call @fusion_1(%[[PRODUCT]]) : (tensor<512x512xf32>) -> tensor<f32>
// CPU-LABEL: func.func public @main
// CPU: call @fusion_0(%arg0, %arg1) : {{.*}} -> (tensor<f32>, tensor<512x512xf32>)
func.func public @main(%x: tensor<512x512xf32>, %y: tensor<512x512xf32>) -> (tensor<f32>, tensor<512x512xf32>) {
  %zero = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %product = "hlo.multiply"(%x, %y) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %sum = "hlo.reduce"(%product, %zero) {dimensions = array<i64: 0, 1>, kind = "add"} : (tensor<512x512xf32>, tensor<f32>) -> tensor<f32>
  return %sum, %product : tensor<f32>, tensor<512x512xf32>
}

// -----

// A scatter computes what is one number repeated.
// GPU-LABEL: func.func public @main
// GPU-NEXT: %[[COUNT:.*]] = call @fusion_0(%arg0) : (tensor<500x1xi32>) -> tensor<8xf32>
// GPU-NEXT: return %[[COUNT]]
// CPU-LABEL: func.func public @main
// CPU-NEXT: %[[ZEROS:.*]] = call @fusion_0()
// CPU-NEXT: call @fusion_1(%[[ZEROS]], %arg0)
// CPU-NEXT: return
func.func public @main(%places: tensor<500x1xi32>) -> tensor<8xf32> {
  %zero = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %one = "hlo.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %zeros = "hlo.broadcast"(%zero) {dimensions = array<i64>} : (tensor<f32>) -> tensor<8xf32>
  %ones = "hlo.broadcast"(%one) {dimensions = array<i64>} : (tensor<f32>) -> tensor<500xf32>
  %0 = "stablehlo.scatter"(%zeros, %places, %ones) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%old: tensor<f32>, %new: tensor<f32>):
    %1 = "hlo.add"(%old, %new) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<8xf32>, tensor<500x1xi32>, tensor<500xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// What is cheap is computed for every element of few, rather than by a kernel of its own.
// GPU-LABEL: func.func public @main
// GPU-NEXT: %[[RESULT:.*]] = call @fusion_0(%arg0, %arg1)
// GPU-NEXT: return %[[RESULT]]
// CPU-LABEL: func.func public @main
// CPU-COUNT-2: call @fusion_
func.func public @main(%x: tensor<64xf32>, %y: tensor<64x16xf32>) -> tensor<64x16xf32> {
  %one = "hlo.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %ones = "hlo.broadcast"(%one) {dimensions = array<i64>} : (tensor<f32>) -> tensor<64xf32>
  %most = "hlo.maximum"(%x, %ones) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %wide = "hlo.broadcast"(%most) {dimensions = array<i64: 0>} : (tensor<64xf32>) -> tensor<64x16xf32>
  %0 = "hlo.divide"(%y, %wide) : (tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<64x16xf32>
  return %0 : tensor<64x16xf32>
}
