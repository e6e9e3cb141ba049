// RUN: shlo-opt %s --split-input-file --pass-pipeline='builtin.module(legalize-to-hlo)' | filecheck %s

module attributes {mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 2 : i32} {

// CHECK-LABEL: func.func @ids(%arg0: tensor<2xi64> {hlo.process})
// CHECK-NEXT: [[W:%[0-9]+]] = "hlo.slice"(%arg0)
// CHECK-NEXT: [[N:%[0-9]+]] = "hlo.reshape"([[W]])
// CHECK-NEXT: [[P:%[0-9]+]] = "hlo.constant"() {value = dense<2> : tensor<i64>}
// CHECK-NEXT: [[R:%[0-9]+]] = "hlo.divide"([[N]], [[P]])
// CHECK-NEXT: "hlo.convert"([[R]]) : (tensor<i64>) -> tensor<ui32>
// CHECK: "hlo.remainder"
func.func @ids() -> (tensor<ui32>, tensor<ui32>) {
  %0 = stablehlo.replica_id : tensor<ui32>
  %1 = stablehlo.partition_id : tensor<ui32>
  return %0, %1 : tensor<ui32>, tensor<ui32>
}

// The replicas of each partition; combined in the order of the group.
// CHECK-LABEL: func.func @all_reduce(
// CHECK-SAME: attributes {hlo.barriers = ["{{\[\[}}2, 0], [3, 1]]"]}
// CHECK-NEXT: [[S:%[0-9]+]] = "hlo.all_gather"(%arg1, %arg0) {{.*}}groups = array<i64: 2, 0, 3, 1>, origin = "stablehlo.all_reduce", processes = 4 : i64, width = 2 : i64} : (tensor<2xi64>, tensor<4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT: "hlo.slice"([[S]]) {limit = array<i64: 1, 4>
// CHECK-NEXT: [[A:%[0-9]+]] = "hlo.reshape"
// CHECK-NEXT: "hlo.slice"([[S]]) {limit = array<i64: 2, 4>
// CHECK-NEXT: [[B:%[0-9]+]] = "hlo.reshape"
// CHECK-NEXT: "hlo.maximum"([[A]], [[B]])
func.func @all_reduce(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.all_reduce"(%a) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.maximum %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Process 2 is alone: what it would combine with padding is not taken.
// CHECK-LABEL: func.func @ragged(
// CHECK-NEXT: "hlo.all_gather"{{.*}}groups = array<i64: 0, 3, 1, 2, -1, -1>
// CHECK: "hlo.constant"() {value = dense<[3, 3, 1, 3]> : tensor<4xi64>}
// CHECK: [[P:%[0-9]+]] = "hlo.broadcast"
// CHECK: [[T:%[0-9]+]] = "hlo.add"([[F:%[0-9]+]],
// CHECK-NEXT: "hlo.select"([[P]], [[T]], [[F]])
func.func @ragged(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.all_reduce"(%a) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {replica_groups = dense<[[0, 3, 1], [2, -1, -1]]> : tensor<2x3xi64>, use_global_device_ids,
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Each member reduces one half, then the halves are gathered.
// CHECK-LABEL: func.func @large(
// CHECK: "hlo.pad"
// CHECK: "hlo.all_to_all"{{.*}} -> tensor<2x16384xi32>
// CHECK: "hlo.add"{{.*}} -> tensor<16384xi32>
// CHECK-NEXT: "hlo.all_gather"{{.*}} -> tensor<2x16384xi32>
// CHECK: "hlo.slice"{{.*}} -> tensor<32767xi32>
func.func @large(%a: tensor<32767xi32>) -> tensor<32767xi32> {
  %0 = "stablehlo.all_reduce"(%a) ({
  ^bb0(%x: tensor<i32>, %y: tensor<i32>):
    %1 = stablehlo.add %x, %y : tensor<i32>
    stablehlo.return %1 : tensor<i32>
  }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<32767xi32>) -> tensor<32767xi32>
  return %0 : tensor<32767xi32>
}

// CHECK-LABEL: func.func @reduce_scatter(
// CHECK-NEXT: "hlo.reshape"(%arg0) : (tensor<3x4xf32>) -> tensor<3x2x2xf32>
// CHECK-NEXT: "hlo.transpose"
// CHECK-NEXT: "hlo.all_to_all"{{.*}} -> tensor<2x3x2xf32>
// CHECK: "hlo.add"{{.*}} -> tensor<3x2xf32>
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
// CHECK-NEXT: [[S:%[0-9]+]] = "hlo.all_gather"{{.*}} -> tensor<2x3x4xf32>
// CHECK-NEXT: [[T:%[0-9]+]] = "hlo.transpose"([[S]]) {permutation = array<i64: 1, 0, 2>}
// CHECK-NEXT: "hlo.reshape"([[T]]) : (tensor<3x2x4xf32>) -> tensor<3x8xf32>
func.func @all_gather(%a: tensor<3x4xf32>) -> tensor<3x8xf32> {
  %0 = "stablehlo.all_gather"(%a) {all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}
    : (tensor<3x4xf32>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// With a channel groups are of partitions.
// CHECK-LABEL: func.func @all_to_all(
// CHECK: "hlo.all_to_all"{{.*}}groups = array<i64: 0, 1, 2, 3>
// CHECK-NEXT: "hlo.reshape"{{.*}} -> tensor<4x2xf32>
func.func @all_to_all(%a: tensor<2x4xf32>) -> tensor<4x2xf32> {
  %0 = "stablehlo.all_to_all"(%a) {split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64,
    replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>}
    : (tensor<2x4xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

// CHECK-LABEL: func.func @collective_broadcast(
// CHECK-NEXT: "hlo.collective_permute"{{.*}}sources = array<i64: 2, 3, 2, 3>
func.func @collective_broadcast(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.collective_broadcast"(%a) {replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>}
    : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Who gets nothing has zeros.
// CHECK-LABEL: func.func @collective_permute(
// CHECK-NEXT: "hlo.collective_permute"{{.*}}groups = array<i64: 0, 2, 1, 3>{{.*}}sources = array<i64: -1, -1, 0, 1>
func.func @collective_permute(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.collective_permute"(%a) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}
    : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
}

// -----

// In a grid of one process there is nobody to communicate with.
// CHECK-LABEL: func.func @alone(
// CHECK-NEXT: return %arg0
func.func @alone(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.all_reduce"(%a) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {replica_groups = dense<[[0]]> : tensor<1x1xi64>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @zero
// CHECK-NEXT: "hlo.constant"() {value = dense<0> : tensor<ui32>}
func.func @zero() -> tensor<ui32> {
  %0 = stablehlo.replica_id : tensor<ui32>
  return %0 : tensor<ui32>
}
