// RUN: shlo-opt %s --pass-pipeline='builtin.module(legalize-to-hlo)' | filecheck %s

module attributes {mhlo.num_replicas = 3 : i32} {

// One op for each tensor, in order; the ports say which part of which op each one is.
// CHECK-LABEL: func.func @feeds(
// CHECK-SAME: hlo.ports = [{channel = 0 : i64, kind = "infeed", part = 0 : i64, parts = 2 : i64, site = "'stablehlo.infeed' at
// CHECK-SAME: kind = "infeed", part = 1 : i64, parts = 2 : i64
// CHECK-SAME: kind = "outfeed", part = 0 : i64, parts = 1 : i64
// CHECK-NEXT: [[T:%[0-9]+]] = "hlo.constant"
// CHECK-NEXT: [[A:%[0-9]+]]:2 = "hlo.infeed"(%arg0, [[T]]) {origin = "stablehlo.infeed", port = 0 : i64} : (tensor<2xi64>, tensor<0xi8>) -> (tensor<4xf32>, tensor<0xi8>)
// CHECK-NEXT: [[B:%[0-9]+]]:2 = "hlo.infeed"(%arg0, [[A]]#1) {origin = "stablehlo.infeed", port = 1 : i64}
// CHECK-NEXT: "hlo.outfeed"(%arg0, [[B]]#1, [[A]]#0) {origin = "stablehlo.outfeed", port = 2 : i64}
// CHECK-NEXT: return [[B]]#0
func.func @feeds(%t: !stablehlo.token) -> tensor<2xi8> {
  %0:3 = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (tensor<4xf32>, tensor<2xi8>, !stablehlo.token)
  %1 = "stablehlo.outfeed"(%0#0, %0#2) : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
  return %0#1 : tensor<2xi8>
}

// CHECK-LABEL: func.func @between_processes(
// CHECK-SAME: hlo.channels = array<i64: 7>
// CHECK: [[S:%[0-9]+]] = "hlo.send"(%arg1, {{%[0-9]+}}, %arg0) {channel = 0 : i64, origin = "stablehlo.send", targets = array<i64: 1, 2, -1>}
// CHECK-NEXT: "hlo.recv"(%arg1, [[S]]) {channel = 0 : i64, origin = "stablehlo.recv", sources = array<i64: -1, 0, 1>}
func.func @between_processes(%a: tensor<4xf32>, %t: !stablehlo.token) -> tensor<4xf32> {
  %0 = "stablehlo.send"(%a, %t) {channel_handle = #stablehlo.channel_handle<handle = 7, type = 1>,
    source_target_pairs = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>} : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
  %1:2 = "stablehlo.recv"(%0) {channel_handle = #stablehlo.channel_handle<handle = 7, type = 1>,
    source_target_pairs = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>} : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
  return %1#0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @with_the_host(
// CHECK-SAME: {channel = 3 : i64, kind = "send"
// CHECK-SAME: {channel = 4 : i64, kind = "recv"
// CHECK: "hlo.outfeed"
// CHECK: "hlo.infeed"
func.func @with_the_host(%a: tensor<4xf32>, %t: !stablehlo.token) -> tensor<4xf32> {
  %0 = "stablehlo.send"(%a, %t) {channel_handle = #stablehlo.channel_handle<handle = 3, type = 2>,
    is_host_transfer = true} : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
  %1:2 = "stablehlo.recv"(%0) {channel_handle = #stablehlo.channel_handle<handle = 4, type = 3>,
    is_host_transfer = true} : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
  return %1#0 : tensor<4xf32>
}
}
