// RUN: shlo-opt %s --split-input-file --pass-pipeline='builtin.module(decompose-collectives)' | filecheck %s
// RUN: shlo-opt %s --split-input-file --pass-pipeline='builtin.module(decompose-collectives{shared-reduction=1000000})' | filecheck %s --check-prefix=WHOLE
// RUN: shlo-opt %s --split-input-file --pass-pipeline='builtin.module(simplify)' | filecheck %s --check-prefix=SIMPLE

module attributes {mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 2 : i32} {

// CHECK-LABEL: func.func @ids(%arg0: tensor<2xi64> {hlo.process})
// CHECK-NEXT: [[W:%[0-9]+]] = "hlo.slice"(%arg0)
// CHECK-NEXT: [[N:%[0-9]+]] = "hlo.reshape"([[W]])
// CHECK-NEXT: [[P:%[0-9]+]] = "hlo.constant"() {value = dense<2> : tensor<i64>}
// CHECK-NEXT: [[R:%[0-9]+]] = "hlo.divide"([[N]], [[P]])
// CHECK-NEXT: "hlo.convert"([[R]]) : (tensor<i64>) -> tensor<ui32>
// CHECK: "hlo.remainder"
// SIMPLE-LABEL: func.func @ids()
// SIMPLE-NEXT: "hlo.replica_id"
// SIMPLE-NEXT: "hlo.partition_id"
func.func @ids() -> (tensor<ui32>, tensor<ui32>) {
  %0 = "hlo.replica_id"() : () -> tensor<ui32>
  %1 = "hlo.partition_id"() : () -> tensor<ui32>
  return %0, %1 : tensor<ui32>, tensor<ui32>
}

// Combined in the order of the group.
// CHECK-LABEL: func.func @all_reduce(
// CHECK-SAME: attributes {hlo.barriers = ["{{\[\[}}2, 0], [3, 1]]"]}
// CHECK-NEXT: [[S:%[0-9]+]] = "hlo.exchange"(%arg1, %arg0) {barrier = 0 : i64, groups = array<i64: 2, 0, 3, 1>, kind = "gather", origin = "stablehlo.all_reduce", processes = 4 : i64, sources = array<i64>, width = 2 : i64} : (tensor<2xi64>, tensor<4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT: "hlo.slice"([[S]]) {limit = array<i64: 1, 4>
// CHECK-NEXT: [[A:%[0-9]+]] = "hlo.reshape"
// CHECK-NEXT: "hlo.slice"([[S]]) {limit = array<i64: 2, 4>
// CHECK-NEXT: [[B:%[0-9]+]] = "hlo.reshape"
// CHECK-NEXT: "hlo.maximum"([[A]], [[B]])
// SIMPLE-LABEL: func.func @all_reduce(
// SIMPLE-NEXT: "hlo.all_reduce"
func.func @all_reduce(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "hlo.all_reduce"(%a) {kind = "maximum", groups = array<i64: 2, 0, 3, 1>, width = 2 : i64, processes = 4 : i64,
    channel = 0 : i64, origin = "stablehlo.all_reduce"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Process 2 is alone: what it would combine with padding is not taken.
// CHECK-LABEL: func.func @ragged(
// CHECK-NEXT: "hlo.exchange"{{.*}}groups = array<i64: 0, 3, 1, 2, -1, -1>
// CHECK: "hlo.constant"() {value = dense<[3, 3, 1, 3]> : tensor<4xi64>}
// CHECK: [[P:%[0-9]+]] = "hlo.broadcast"
// CHECK: [[T:%[0-9]+]] = "hlo.add"([[F:%[0-9]+]],
// CHECK-NEXT: "hlo.select"([[P]], [[T]], [[F]])
func.func @ragged(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "hlo.all_reduce"(%a) {kind = "add", groups = array<i64: 0, 3, 1, 2, -1, -1>, width = 3 : i64,
    processes = 4 : i64, channel = 1 : i64, origin = "stablehlo.all_reduce"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Each member reduces one half, then the halves are gathered. Not so below the threshold.
// CHECK-LABEL: func.func @large(
// CHECK: "hlo.pad"
// CHECK: "hlo.exchange"{{.*}}kind = "blocks"{{.*}} -> tensor<2x16384xi32>
// CHECK: "hlo.add"{{.*}} -> tensor<16384xi32>
// CHECK-NEXT: "hlo.exchange"{{.*}}kind = "gather"{{.*}} -> tensor<2x16384xi32>
// CHECK: "hlo.slice"{{.*}} -> tensor<32767xi32>
// WHOLE-LABEL: func.func @large(
// WHOLE-NEXT: "hlo.exchange"{{.*}}kind = "gather"{{.*}} -> tensor<2x32767xi32>
func.func @large(%a: tensor<32767xi32>) -> tensor<32767xi32> {
  %0 = "hlo.all_reduce"(%a) {kind = "add", groups = array<i64: 0, 2, 1, 3>, width = 2 : i64, processes = 4 : i64,
    channel = 0 : i64, origin = "stablehlo.all_reduce"} : (tensor<32767xi32>) -> tensor<32767xi32>
  return %0 : tensor<32767xi32>
}

// A computation of several ops works on whole tensors; what it uses from outside is one number for all elements.
// CHECK-LABEL: func.func @own_computation(
// CHECK-NEXT: "hlo.exchange"(%arg2, %arg0) {{.*}}origin = "stablehlo.all_reduce"
// CHECK: [[C:%[0-9]+]] = "hlo.broadcast"(%arg1) {{.*}} -> tensor<4xi32>
// CHECK-NEXT: [[M:%[0-9]+]] = "hlo.multiply"({{.*}}, [[C]])
// CHECK-NEXT: "hlo.add"([[M]],
// CHECK-NEXT: return
func.func @own_computation(%a: tensor<4xi32>, %b: tensor<i32>) -> tensor<4xi32> {
  %0 = "stablehlo.all_reduce"(%a) ({
  ^bb0(%x: tensor<i32>, %y: tensor<i32>):
    %1 = "hlo.multiply"(%x, %b) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %2 = "hlo.add"(%1, %y) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    stablehlo.return %2 : tensor<i32>
  }) {replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids,
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>} : (tensor<4xi32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// CHECK-LABEL: func.func @reduce_scatter(
// CHECK-NEXT: "hlo.reshape"(%arg0) : (tensor<3x4xf32>) -> tensor<3x2x2xf32>
// CHECK-NEXT: "hlo.transpose"
// CHECK-NEXT: "hlo.exchange"{{.*}}kind = "blocks"{{.*}} -> tensor<2x3x2xf32>
// CHECK: "hlo.add"{{.*}} -> tensor<3x2xf32>
func.func @reduce_scatter(%a: tensor<3x4xf32>) -> tensor<3x2xf32> {
  %0 = "hlo.reduce_scatter"(%a) {kind = "add", dimension = 1 : i64, groups = array<i64: 0, 2, 1, 3>, width = 2 : i64,
    processes = 4 : i64, channel = 0 : i64, origin = "stablehlo.reduce_scatter"} : (tensor<3x4xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// CHECK-LABEL: func.func @all_gather(
// CHECK-NEXT: [[S:%[0-9]+]] = "hlo.exchange"{{.*}}kind = "gather"{{.*}} -> tensor<2x3x4xf32>
// CHECK-NEXT: [[T:%[0-9]+]] = "hlo.transpose"([[S]]) {permutation = array<i64: 1, 0, 2>}
// CHECK-NEXT: "hlo.reshape"([[T]]) : (tensor<3x2x4xf32>) -> tensor<3x8xf32>
func.func @all_gather(%a: tensor<3x4xf32>) -> tensor<3x8xf32> {
  %0 = "hlo.all_gather"(%a) {dimension = 1 : i64, groups = array<i64: 0, 2, 1, 3>, width = 2 : i64,
    processes = 4 : i64, channel = 0 : i64, origin = "stablehlo.all_gather"} : (tensor<3x4xf32>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// CHECK-LABEL: func.func @all_to_all(
// CHECK: "hlo.exchange"{{.*}}groups = array<i64: 0, 1, 2, 3>, kind = "blocks"
// CHECK-NEXT: "hlo.reshape"{{.*}} -> tensor<4x2xf32>
func.func @all_to_all(%a: tensor<2x4xf32>) -> tensor<4x2xf32> {
  %0 = "hlo.all_to_all"(%a) {split_dimension = 1 : i64, concat_dimension = 0 : i64, groups = array<i64: 0, 1, 2, 3>,
    width = 2 : i64, processes = 4 : i64, channel = 1 : i64, origin = "stablehlo.all_to_all"}
    : (tensor<2x4xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

// CHECK-LABEL: func.func @collective_broadcast(
// CHECK-NEXT: "hlo.exchange"{{.*}}kind = "permute"{{.*}}sources = array<i64: 2, 3, 2, 3>
func.func @collective_broadcast(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "hlo.collective_broadcast"(%a) {groups = array<i64: 2, 0, 3, 1>, width = 2 : i64, processes = 4 : i64,
    channel = 0 : i64, origin = "stablehlo.collective_broadcast"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Who gets nothing has zeros.
// CHECK-LABEL: func.func @collective_permute(
// CHECK-NEXT: "hlo.exchange"{{.*}}groups = array<i64: 0, 2, 1, 3>{{.*}}sources = array<i64: -1, -1, 0, 1>
// SIMPLE-LABEL: func.func @collective_permute(
// SIMPLE-NEXT: "hlo.collective_permute"
func.func @collective_permute(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "hlo.collective_permute"(%a) {pairs = array<i64: 0, 2, 1, 3>, processes = 4 : i64, channel = 0 : i64,
    origin = "stablehlo.collective_permute"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Groups of one, and permutations that move nothing, are nothing: before the pass too.
// CHECK-LABEL: func.func @alone(
// CHECK-NEXT: return %arg0, %arg0
// SIMPLE-LABEL: func.func @alone(
// SIMPLE-NEXT: return %arg0, %arg0
func.func @alone(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = "hlo.all_reduce"(%a) {kind = "add", groups = array<i64: 0, 1, 2, 3>, width = 1 : i64, processes = 4 : i64,
    channel = 0 : i64, origin = "stablehlo.all_reduce"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "hlo.collective_permute"(%a) {pairs = array<i64: 0, 0, 1, 1, 2, 2, 3, 3>, processes = 4 : i64,
    channel = 0 : i64, origin = "stablehlo.collective_permute"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
}

// -----

// In a grid of one process there is nobody to communicate with.
// CHECK-LABEL: func.func @zero()
// CHECK-NEXT: "hlo.constant"() {value = dense<0> : tensor<ui32>}
// SIMPLE-LABEL: func.func @zero()
// SIMPLE-NEXT: "hlo.constant"() {value = dense<0> : tensor<ui32>}
func.func @zero() -> tensor<ui32> {
  %0 = "hlo.replica_id"() : () -> tensor<ui32>
  return %0 : tensor<ui32>
}
