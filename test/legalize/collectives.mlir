// RUN: shlo-opt %s --split-input-file --pass-pipeline='builtin.module(legalize-to-hlo)' | filecheck %s

module attributes {mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 2 : i32} {

// CHECK-LABEL: func.func @ids()
// CHECK-NEXT: "hlo.replica_id"() : () -> tensor<ui32>
// CHECK-NEXT: "hlo.partition_id"() : () -> tensor<ui32>
func.func @ids() -> (tensor<ui32>, tensor<ui32>) {
  %0 = stablehlo.replica_id : tensor<ui32>
  %1 = stablehlo.partition_id : tensor<ui32>
  return %0, %1 : tensor<ui32>, tensor<ui32>
}

// The replicas of each partition.
// CHECK-LABEL: func.func @all_reduce(
// CHECK-NEXT: "hlo.all_reduce"(%arg0) {channel = 0 : i64, groups = array<i64: 2, 0, 3, 1>, kind = "maximum", origin = "stablehlo.all_reduce", processes = 4 : i64, width = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: return
func.func @all_reduce(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.all_reduce"(%a) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.maximum %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Process 2 is alone.
// CHECK-LABEL: func.func @ragged(
// CHECK-NEXT: "hlo.all_reduce"{{.*}}channel = 1 : i64, groups = array<i64: 0, 3, 1, 2, -1, -1>, kind = "add"{{.*}}width = 3
func.func @ragged(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.all_reduce"(%a) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {replica_groups = dense<[[0, 3, 1], [2, -1, -1]]> : tensor<2x3xi64>, use_global_device_ids,
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A computation of several ops stays, on groups of process numbers.
// CHECK-LABEL: func.func @own_computation(
// CHECK-NEXT: "stablehlo.all_reduce"(%arg0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<{{.*}}2, 0], [3, 1{{.*}}> : tensor<2x2xi64>, use_global_device_ids}> ({
// CHECK: "hlo.multiply"
// CHECK: "hlo.add"
// CHECK: stablehlo.return
func.func @own_computation(%a: tensor<4xi32>) -> tensor<4xi32> {
  %0 = "stablehlo.all_reduce"(%a) ({
  ^bb0(%x: tensor<i32>, %y: tensor<i32>):
    %1 = stablehlo.multiply %x, %y : tensor<i32>
    %2 = stablehlo.add %1, %y : tensor<i32>
    stablehlo.return %2 : tensor<i32>
  }) {replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<4xi32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// All of them are reduced; who is not the root has zeros.
// CHECK-LABEL: func.func @collective_reduce(
// CHECK-NEXT: [[T:%[0-9]+]] = "hlo.all_reduce"{{.*}}origin = "stablehlo.collective_reduce"
// CHECK: [[R:%[0-9]+]] = "hlo.replica_id"
// CHECK: [[P:%[0-9]+]] = "hlo.partition_id"
// CHECK: "hlo.select"({{.*}}, [[T]], {{.*}})
func.func @collective_reduce(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.collective_reduce"(%a) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @reduce_scatter(
// CHECK-NEXT: "hlo.reduce_scatter"(%arg0) {{.*}}dimension = 1 : i64, groups = array<i64: 0, 2, 1, 3>, kind = "add"{{.*}} -> tensor<3x2xf32>
func.func @reduce_scatter(%a: tensor<3x4xf32>) -> tensor<3x2xf32> {
  %0 = "stablehlo.reduce_scatter"(%a) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {scatter_dimension = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}
    : (tensor<3x4xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// CHECK-LABEL: func.func @all_gather(
// CHECK-NEXT: "hlo.all_gather"(%arg0) {{.*}}dimension = 1 : i64, {{.*}} -> tensor<3x8xf32>
func.func @all_gather(%a: tensor<3x4xf32>) -> tensor<3x8xf32> {
  %0 = "stablehlo.all_gather"(%a) {all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}
    : (tensor<3x4xf32>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// With a channel groups are of partitions.
// CHECK-LABEL: func.func @all_to_all(
// CHECK-NEXT: "hlo.all_to_all"(%arg0) {channel = 1 : i64, concat_dimension = 0 : i64, groups = array<i64: 0, 1, 2, 3>, {{.*}}split_dimension = 1 : i64, {{.*}} -> tensor<4x2xf32>
func.func @all_to_all(%a: tensor<2x4xf32>) -> tensor<4x2xf32> {
  %0 = "stablehlo.all_to_all"(%a) {split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64,
    replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>}
    : (tensor<2x4xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

// CHECK-LABEL: func.func @collective_broadcast(
// CHECK-NEXT: "hlo.collective_broadcast"(%arg0) {{.*}}groups = array<i64: 2, 0, 3, 1>
func.func @collective_broadcast(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.collective_broadcast"(%a) {replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>}
    : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @collective_permute(
// CHECK-NEXT: "hlo.collective_permute"(%arg0) {{.*}}pairs = array<i64: 0, 2, 1, 3>
func.func @collective_permute(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.collective_permute"(%a) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}
    : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
}
