// Marks of the front end as ops: shards are taken and put together only where they differ (frontend/shards.py).
// RUN: shlo-opt %s --split-input-file --compile-to stablehlo | filecheck %s

// CHECK-LABEL: module @both_ways
// CHECK:         %[[PART:.*]] = stablehlo.dynamic_slice %arg0
// CHECK-SAME:      sizes = [2, 8]
// CHECK-NEXT:    %[[SUM:.*]] = stablehlo.add %[[PART]], %[[PART]] : tensor<2x8xf32>
// CHECK-NEXT:    %[[WHOLE:.*]] = "stablehlo.all_gather"(%[[SUM]])
// CHECK-SAME:      replica_groups = dense<{{\[\[0, 2\], \[1, 3\]\]}}>
// CHECK:         return %[[WHOLE]]
module @both_ways attributes {hlo.meshes = {m = "#sdy.mesh<[\"x\"=2, \"y\"=2]>"}, mhlo.num_partitions = 4 : i32} {
  func.func @main(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.custom_call @SPMDFullToShardShape(%a) {hlo.shards = "#sdy.sharding<@m, [{\"x\"}, {}]>"} : (tensor<4x8xf32>) -> tensor<2x8xf32>
    %1 = stablehlo.add %0, %0 : tensor<2x8xf32>
    %2 = stablehlo.custom_call @SPMDShardToFullShape(%1) {hlo.shards = "#sdy.sharding<@m, [{\"x\"}, {}]>"} : (tensor<2x8xf32>) -> tensor<4x8xf32>
    return %2 : tensor<4x8xf32>
  }
}

// -----

// What is passed from one computation on shards to the next is not moved, nor are its summands added up.
// CHECK-LABEL: module @passed_on
// CHECK-NOT:     all_reduce
// CHECK:         %[[DOUBLE:.*]] = stablehlo.add {{.*}} : tensor<2x8xf32>
// CHECK-NEXT:    %[[NEGATIVE:.*]] = stablehlo.negate %[[DOUBLE]] : tensor<2x8xf32>
// CHECK-NEXT:    "stablehlo.all_reduce"(%[[NEGATIVE]])
// CHECK-SAME:      replica_groups = dense<{{\[\[0, 1\], \[2, 3\]\]}}>
// CHECK:         stablehlo.all_gather
// CHECK-NOT:     stablehlo.all_gather
// CHECK:         return
module @passed_on attributes {hlo.meshes = {m = "#sdy.mesh<[\"x\"=2, \"y\"=2]>"}, mhlo.num_partitions = 4 : i32} {
  func.func @main(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.custom_call @SPMDFullToShardShape(%a) {hlo.shards = "#sdy.sharding<@m, [{\"x\"}, {}]>"} : (tensor<4x8xf32>) -> tensor<2x8xf32>
    %1 = stablehlo.add %0, %0 : tensor<2x8xf32>
    %2 = stablehlo.custom_call @SPMDShardToFullShape(%1) {hlo.manual_axes = ["x", "y"], hlo.shards = "#sdy.sharding<@m, [{\"x\"}, {}], unreduced={\"y\"}>"} : (tensor<2x8xf32>) -> tensor<4x8xf32>
    %3 = stablehlo.custom_call @Sharding(%2) {hlo.sharding = ["#sdy.sharding<@m, [{\"x\"}, {}], unreduced={\"y\"}>"]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %4 = stablehlo.custom_call @SPMDFullToShardShape(%3) {hlo.shards = "#sdy.sharding<@m, [{\"x\"}, {}], unreduced={\"y\"}>"} : (tensor<4x8xf32>) -> tensor<2x8xf32>
    %5 = stablehlo.negate %4 : tensor<2x8xf32>
    %6 = stablehlo.custom_call @SPMDShardToFullShape(%5) {hlo.shards = "#sdy.sharding<@m, [{\"x\"}, {}], unreduced={\"y\"}>"} : (tensor<2x8xf32>) -> tensor<4x8xf32>
    return %6 : tensor<4x8xf32>
  }
}

// -----

// What differs along one dimension stays in shards along the other; the last value, which has another use, is whole.
// CHECK-LABEL: module @in_part
// CHECK:         %[[ROWS:.*]] = stablehlo.negate {{.*}} : tensor<2x4xf32>
// CHECK-NEXT:    %[[HALF:.*]] = "stablehlo.all_gather"(%[[ROWS]]) <{all_gather_dim = 1 : i64, {{.*}} -> tensor<2x8xf32>
// CHECK:         stablehlo.abs %[[HALF]] : tensor<2x8xf32>
module @in_part attributes {hlo.meshes = {m = "#sdy.mesh<[\"x\"=2, \"y\"=2]>"}, mhlo.num_partitions = 4 : i32} {
  func.func @main(%a: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %0 = stablehlo.custom_call @SPMDFullToShardShape(%a) {hlo.shards = "#sdy.sharding<@m, [{\"x\"}, {\"y\"}]>"} : (tensor<4x8xf32>) -> tensor<2x4xf32>
    %1 = stablehlo.negate %0 : tensor<2x4xf32>
    %2 = stablehlo.custom_call @SPMDShardToFullShape(%1) {hlo.shards = "#sdy.sharding<@m, [{\"x\"}, {\"y\"}]>"} : (tensor<2x4xf32>) -> tensor<4x8xf32>
    %3 = stablehlo.custom_call @SPMDFullToShardShape(%2) {hlo.manual_axes = ["x"], hlo.shards = "#sdy.sharding<@m, [{\"x\"}, {\"y\"}]>"} : (tensor<4x8xf32>) -> tensor<2x8xf32>
    %4 = stablehlo.abs %3 : tensor<2x8xf32>
    %5 = stablehlo.custom_call @SPMDShardToFullShape(%4) {hlo.manual_axes = ["x"], hlo.shards = "#sdy.sharding<@m, [{\"x\"}, {}]>"} : (tensor<2x8xf32>) -> tensor<4x8xf32>
    return %5, %2 : tensor<4x8xf32>, tensor<4x8xf32>
  }
}
