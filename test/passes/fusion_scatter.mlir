// RUN: shlo-opt --pass-pipeline=fusion --split-input-file %s | filecheck %s

// A scatter of single elements computes updates that are few operations, gathered elements among them.
// CHECK-LABEL: func.func @scattered_products
// CHECK: call @fusion_0(
// CHECK-NEXT: return
// CHECK: hlo.fusion = "scatter"
// CHECK: "hlo.gather"
// CHECK: "hlo.multiply"
// CHECK: "stablehlo.scatter"
func.func @scattered_products(%ranks: tensor<64xf32>, %from: tensor<512x1xi32>, %share: tensor<512xf32>, %to: tensor<512x1xi32>, %sums: tensor<64xf32>) -> tensor<64xf32> {
  %0 = "hlo.gather"(%ranks, %from) {collapsed_slice_dims = array<i64: 0>, index_vector_dim = 1 : i64, offset_dims = array<i64>, operand_batching_dims = array<i64>, slice_sizes = array<i64: 1>, start_index_map = array<i64: 0>, start_indices_batching_dims = array<i64>} : (tensor<64xf32>, tensor<512x1xi32>) -> tensor<512xf32>
  %1 = "hlo.multiply"(%0, %share) : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
  %2 = "stablehlo.scatter"(%sums, %to, %1) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %3 = "hlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    stablehlo.return %3 : tensor<f32>
  }) : (tensor<64xf32>, tensor<512x1xi32>, tensor<512xf32>) -> tensor<64xf32>
  return %2 : tensor<64xf32>
}

// -----

// Not what reads the tensor that is overwritten, nor an exponential: the other updates would wait for it.
// CHECK-LABEL: func.func @own_elements
// CHECK-COUNT-2: call @fusion_
func.func @own_elements(%from: tensor<512x1xi32>, %to: tensor<512x1xi32>, %sums: tensor<64xf32>) -> tensor<64xf32> {
  %0 = "hlo.gather"(%sums, %from) {collapsed_slice_dims = array<i64: 0>, index_vector_dim = 1 : i64, offset_dims = array<i64>, operand_batching_dims = array<i64>, slice_sizes = array<i64: 1>, start_index_map = array<i64: 0>, start_indices_batching_dims = array<i64>} : (tensor<64xf32>, tensor<512x1xi32>) -> tensor<512xf32>
  %2 = "stablehlo.scatter"(%sums, %to, %0) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %3 = "hlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    stablehlo.return %3 : tensor<f32>
  }) : (tensor<64xf32>, tensor<512x1xi32>, tensor<512xf32>) -> tensor<64xf32>
  return %2 : tensor<64xf32>
}

// -----

// CHECK-LABEL: func.func @expensive_updates
// CHECK-COUNT-2: call @fusion_
func.func @expensive_updates(%x: tensor<512xf32>, %to: tensor<512x1xi32>, %sums: tensor<64xf32>) -> tensor<64xf32> {
  %0 = "hlo.exponential"(%x) : (tensor<512xf32>) -> tensor<512xf32>
  %2 = "stablehlo.scatter"(%sums, %to, %0) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %3 = "hlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    stablehlo.return %3 : tensor<f32>
  }) : (tensor<64xf32>, tensor<512x1xi32>, tensor<512xf32>) -> tensor<64xf32>
  return %2 : tensor<64xf32>
}

// -----

// However many updates there are, one number needs no memory; products of many are computed before, by all threads.
// CHECK-LABEL: func.func @counts
// CHECK-NEXT: call @fusion_{{.*}} : (tensor<64xf32>, tensor<200000x1xi32>) -> tensor<64xf32>
func.func @counts(%to: tensor<200000x1xi32>, %sums: tensor<64xf32>) -> tensor<64xf32> {
  %one = "hlo.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "hlo.broadcast"(%one) {dimensions = array<i64>} : (tensor<f32>) -> tensor<200000xf32>
  %2 = "stablehlo.scatter"(%sums, %to, %0) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %3 = "hlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    stablehlo.return %3 : tensor<f32>
  }) : (tensor<64xf32>, tensor<200000x1xi32>, tensor<200000xf32>) -> tensor<64xf32>
  return %2 : tensor<64xf32>
}

// -----

// CHECK-LABEL: func.func @many_products
// CHECK-COUNT-2: call @fusion_
func.func @many_products(%x: tensor<200000xf32>, %to: tensor<200000x1xi32>, %sums: tensor<64xf32>) -> tensor<64xf32> {
  %0 = "hlo.multiply"(%x, %x) : (tensor<200000xf32>, tensor<200000xf32>) -> tensor<200000xf32>
  %2 = "stablehlo.scatter"(%sums, %to, %0) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %3 = "hlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    stablehlo.return %3 : tensor<f32>
  }) : (tensor<64xf32>, tensor<200000x1xi32>, tensor<200000xf32>) -> tensor<64xf32>
  return %2 : tensor<64xf32>
}

// -----

// Rows of any number are computed where they go: to write them and to read them again takes longer.
// CHECK-LABEL: func.func @many_messages
// CHECK: call @fusion_{{.*}} : (tensor<4096x64xf32>, tensor<32768x1xi32>, tensor<32768xf32>, tensor<4096x64xf32>, tensor<32768x1xi32>) -> tensor<4096x64xf32>
// CHECK-NEXT: return
func.func @many_messages(%x: tensor<4096x64xf32>, %from: tensor<32768x1xi32>, %share: tensor<32768xf32>, %to: tensor<32768x1xi32>, %sums: tensor<4096x64xf32>) -> tensor<4096x64xf32> {
  %0 = "hlo.gather"(%x, %from) {collapsed_slice_dims = array<i64: 0>, index_vector_dim = 1 : i64, offset_dims = array<i64: 1>, operand_batching_dims = array<i64>, slice_sizes = array<i64: 1, 64>, start_index_map = array<i64: 0>, start_indices_batching_dims = array<i64>} : (tensor<4096x64xf32>, tensor<32768x1xi32>) -> tensor<32768x64xf32>
  %1 = "hlo.broadcast"(%share) {dimensions = array<i64: 0>} : (tensor<32768xf32>) -> tensor<32768x64xf32>
  %2 = "hlo.multiply"(%0, %1) : (tensor<32768x64xf32>, tensor<32768x64xf32>) -> tensor<32768x64xf32>
  %3 = "stablehlo.scatter"(%sums, %to, %2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %4 = "hlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    stablehlo.return %4 : tensor<f32>
  }) : (tensor<4096x64xf32>, tensor<32768x1xi32>, tensor<32768x64xf32>) -> tensor<4096x64xf32>
  return %3 : tensor<4096x64xf32>
}

// -----

// Rows of two are written faster by vectors.
// CHECK-LABEL: func.func @pairs
// CHECK-COUNT-2: call @fusion_
func.func @pairs(%x: tensor<512x2xf32>, %to: tensor<512x1xi32>, %sums: tensor<64x2xf32>) -> tensor<64x2xf32> {
  %0 = "hlo.multiply"(%x, %x) : (tensor<512x2xf32>, tensor<512x2xf32>) -> tensor<512x2xf32>
  %1 = "stablehlo.scatter"(%sums, %to, %0) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %2 = "hlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) : (tensor<64x2xf32>, tensor<512x1xi32>, tensor<512x2xf32>) -> tensor<64x2xf32>
  return %1 : tensor<64x2xf32>
}

// -----

// Nor parts of rows, which may begin anywhere in them.
// CHECK-LABEL: func.func @parts_of_rows
// CHECK-COUNT-2: call @fusion_
func.func @parts_of_rows(%x: tensor<512x8xf32>, %to: tensor<512x2xi32>, %sums: tensor<64x32xf32>) -> tensor<64x32xf32> {
  %0 = "hlo.multiply"(%x, %x) : (tensor<512x8xf32>, tensor<512x8xf32>) -> tensor<512x8xf32>
  %1 = "stablehlo.scatter"(%sums, %to, %0) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %2 = "hlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) : (tensor<64x32xf32>, tensor<512x2xi32>, tensor<512x8xf32>) -> tensor<64x32xf32>
  return %1 : tensor<64x32xf32>
}
