// Process grids: every process has arguments of its own.
// ops: stablehlo.all_reduce stablehlo.collective_reduce
// types: any
// values: ternary
// replicas: 2
// oracle: reference
func.func @sum(%x: tensor<3x2x$T>) -> tensor<3x2x$T> {
  %0 = "$OP"(%x) ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %r = stablehlo.add %a, %b : tensor<$T>
    stablehlo.return %r : tensor<$T>
  }) {replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<3x2x$T>) -> tensor<3x2x$T>
  return %0 : tensor<3x2x$T>
}
func.func @maximum_of_scalars(%x: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x) ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %r = stablehlo.maximum %a, %b : tensor<$T>
    stablehlo.return %r : tensor<$T>
  }) {replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @empty(%x: tensor<0x3x$T>) -> tensor<0x3x$T> {
  %0 = "$OP"(%x) ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %r = stablehlo.add %a, %b : tensor<$T>
    stablehlo.return %r : tensor<$T>
  }) {replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<0x3x$T>) -> tensor<0x3x$T>
  return %0 : tensor<0x3x$T>
}
// -----
// ops: stablehlo.reduce_scatter
// types: any
// values: ternary
// replicas: 2
// oracle: reference
func.func @sum_of_columns(%x: tensor<3x4x$T>) -> tensor<3x2x$T> {
  %0 = "$OP"(%x) ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %r = stablehlo.add %a, %b : tensor<$T>
    stablehlo.return %r : tensor<$T>
  }) {scatter_dimension = 1 : i64, replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<3x4x$T>) -> tensor<3x2x$T>
  return %0 : tensor<3x2x$T>
}
func.func @minimum(%x: tensor<4x$T>) -> tensor<2x$T> {
  %0 = "$OP"(%x) ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %r = stablehlo.minimum %a, %b : tensor<$T>
    stablehlo.return %r : tensor<$T>
  }) {scatter_dimension = 0 : i64, replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<4x$T>) -> tensor<2x$T>
  return %0 : tensor<2x$T>
}
// -----
// ops: stablehlo.all_gather
// types: any
// replicas: 2
// oracle: reference
func.func @columns(%x: tensor<2x3x$T>) -> tensor<2x6x$T> {
  %0 = "$OP"(%x) {all_gather_dim = 1 : i64, replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<2x3x$T>) -> tensor<2x6x$T>
  return %0 : tensor<2x6x$T>
}
func.func @rows(%x: tensor<2x3x$T>) -> tensor<4x3x$T> {
  %0 = "$OP"(%x) {all_gather_dim = 0 : i64, replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<2x3x$T>) -> tensor<4x3x$T>
  return %0 : tensor<4x3x$T>
}
// -----
// ops: stablehlo.all_to_all
// types: any
// replicas: 2
// oracle: reference
func.func @transposed(%x: tensor<2x4x$T>) -> tensor<4x2x$T> {
  %0 = "$OP"(%x) {split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<2x4x$T>) -> tensor<4x2x$T>
  return %0 : tensor<4x2x$T>
}
func.func @blocks(%x: tensor<4x3x$T>) -> tensor<4x3x$T> {
  %0 = "$OP"(%x) {split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<4x3x$T>) -> tensor<4x3x$T>
  return %0 : tensor<4x3x$T>
}
// -----
// ops: stablehlo.collective_permute
// types: any
// replicas: 2
// oracle: reference
func.func @swap(%x: tensor<3x2x$T>) -> tensor<3x2x$T> {
  %0 = "$OP"(%x) {source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>} : (tensor<3x2x$T>) -> tensor<3x2x$T>
  return %0 : tensor<3x2x$T>
}
func.func @zeros_where_nobody_sends(%x: tensor<3x$T>) -> tensor<3x$T> {
  %0 = "$OP"(%x) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<3x$T>) -> tensor<3x$T>
  return %0 : tensor<3x$T>
}
// -----
// ops: stablehlo.collective_broadcast
// types: any
// replicas: 2
// oracle: reference
func.func @of_the_second(%x: tensor<3x2x$T>) -> tensor<3x2x$T> {
  %0 = "$OP"(%x) {replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<3x2x$T>) -> tensor<3x2x$T>
  return %0 : tensor<3x2x$T>
}
// -----
// No oracle knows it: it is an all_reduce that adds.
// ops: stablehlo.cross-replica-sum
// types: any
// values: ternary
// replicas: 2
// oracle: true
func.func @as_all_reduce(%x: tensor<3x2x$T>) -> tensor<3x2xi1> {
  %0 = "$OP"(%x) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<3x2x$T>) -> tensor<3x2x$T>
  %1 = "stablehlo.all_reduce"(%x) ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %r = stablehlo.add %a, %b : tensor<$T>
    stablehlo.return %r : tensor<$T>
  }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<3x2x$T>) -> tensor<3x2x$T>
  %2 = stablehlo.compare EQ, %0, %1 : (tensor<3x2x$T>, tensor<3x2x$T>) -> tensor<3x2xi1>
  return %2 : tensor<3x2xi1>
}
// -----
// ops: stablehlo.replica_id stablehlo.partition_id
// types: none
// replicas: 2
// oracle: reference
func.func @id() -> tensor<ui32> {
  %0 = "$OP"() : () -> tensor<ui32>
  return %0 : tensor<ui32>
}
// -----
// As without a future: the reference interpreter ends its process.
// ops: stablehlo.async_start stablehlo.async_done
// types: any quantized
// replicas: 2
// oracle: true
func.func @gather(%x: tensor<3x$T>) -> tensor<6xi1> {
  %0 = "stablehlo.async_start"(%x) ({
  ^bb0(%a: tensor<3x$T>):
    %r = "stablehlo.all_gather"(%a) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<3x$T>) -> tensor<6x$T>
    stablehlo.return %r : tensor<6x$T>
  }) : (tensor<3x$T>) -> !stablehlo.future<tensor<6x$T>>
  %1 = "stablehlo.async_done"(%0) : (!stablehlo.future<tensor<6x$T>>) -> tensor<6x$T>
  %2 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<3x$T>) -> tensor<6x$T>
  %3 = stablehlo.compare EQ, %1, %2 : (tensor<6x$T>, tensor<6x$T>) -> tensor<6xi1>
  return %3 : tensor<6xi1>
}
// -----
// As a permutation: in the reference interpreter a send waits for its recv, and all processes send first.
// ops: stablehlo.send stablehlo.recv
// types: any quantized
// replicas: 2
// oracle: true
func.func @swap(%x: tensor<3x2x$T>) -> tensor<3x2xi1> {
  %t = stablehlo.create_token : !stablehlo.token
  %0 = "stablehlo.send"(%x, %t) {channel_handle = #stablehlo.channel_handle<handle = 7, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>} : (tensor<3x2x$T>, !stablehlo.token) -> !stablehlo.token
  %1:2 = "stablehlo.recv"(%0) {channel_handle = #stablehlo.channel_handle<handle = 7, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>} : (!stablehlo.token) -> (tensor<3x2x$T>, !stablehlo.token)
  %2 = "stablehlo.collective_permute"(%x) {source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>} : (tensor<3x2x$T>) -> tensor<3x2x$T>
  %3 = stablehlo.compare EQ, %1#0, %2 : (tensor<3x2x$T>, tensor<3x2x$T>) -> tensor<3x2xi1>
  return %3 : tensor<3x2xi1>
}
// -----
// The host sends back what it gets.
// ops: stablehlo.infeed stablehlo.outfeed
// types: any quantized
// oracle: arguments
func.func @echo(%x: tensor<3x2x$T>, %y: tensor<$T>) -> (tensor<3x2x$T>, tensor<$T>) {
  %t = stablehlo.create_token : !stablehlo.token
  %0 = "stablehlo.outfeed"(%x, %y, %t) : (tensor<3x2x$T>, tensor<$T>, !stablehlo.token) -> !stablehlo.token
  %1:3 = "stablehlo.infeed"(%0) : (!stablehlo.token) -> (tensor<3x2x$T>, tensor<$T>, !stablehlo.token)
  return %1#0, %1#1 : tensor<3x2x$T>, tensor<$T>
}
// -----
// ops: stablehlo.after_all stablehlo.create_token
// types: none
// oracle: arguments
func.func @tokens(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.create_token : !stablehlo.token
  %1 = stablehlo.create_token : !stablehlo.token
  %2 = stablehlo.after_all %0, %1 : !stablehlo.token
  %3 = "stablehlo.outfeed"(%x, %2) : (tensor<3xf32>, !stablehlo.token) -> !stablehlo.token
  %4:2 = "stablehlo.infeed"(%3) : (!stablehlo.token) -> (tensor<3xf32>, !stablehlo.token)
  %5 = stablehlo.after_all %4#1, %2 : !stablehlo.token
  return %4#0 : tensor<3xf32>
}
// -----
// ops: stablehlo.tuple stablehlo.get_tuple_element
// types: any quantized
// oracle: arguments
func.func @nested(%x: tensor<3x$T>, %y: tensor<2x2x$T>) -> (tensor<3x$T>, tensor<2x2x$T>) {
  %0 = stablehlo.tuple %y : tuple<tensor<2x2x$T>>
  %1 = stablehlo.tuple %0, %x : tuple<tuple<tensor<2x2x$T>>, tensor<3x$T>>
  %2 = stablehlo.get_tuple_element %1[0] : (tuple<tuple<tensor<2x2x$T>>, tensor<3x$T>>) -> tuple<tensor<2x2x$T>>
  %3 = stablehlo.get_tuple_element %2[0] : (tuple<tensor<2x2x$T>>) -> tensor<2x2x$T>
  %4 = stablehlo.get_tuple_element %1[1] : (tuple<tuple<tensor<2x2x$T>>, tensor<3x$T>>) -> tensor<3x$T>
  return %4, %3 : tensor<3x$T>, tensor<2x2x$T>
}
// -----
// A function that is registered (oracles.py). LAPACK: test/legalize/test_custom_call.py.
// ops: stablehlo.custom_call
// types: any quantized
// oracle: arguments
func.func @of_the_user(%x: tensor<3x2x$T>) -> tensor<3x2x$T> {
  %0 = stablehlo.custom_call @conformance.same(%x) : (tensor<3x2x$T>) -> tensor<3x2x$T>
  return %0 : tensor<3x2x$T>
}
func.func @of_a_scalar(%x: tensor<$T>) -> tensor<$T> {
  %0 = stablehlo.custom_call @conformance.same(%x) : (tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
// -----
// The reference interpreter knows no quantized collectives: the numbers that they stand for are exchanged alike.
// ops: stablehlo.all_reduce stablehlo.collective_reduce
// types: quantized
// values: ternary
// replicas: 2
// oracle: true
func.func @as_real_numbers(%x: tensor<3x2xf32>) -> tensor<3x2xi1> {
  %q = stablehlo.uniform_quantize %x : (tensor<3x2xf32>) -> tensor<3x2x$T>
  %0 = "$OP"(%q) ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %r = stablehlo.add %a, %b : tensor<$T>
    stablehlo.return %r : tensor<$T>
  }) {replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<3x2x$T>) -> tensor<3x2x$T>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<3x2x$T>) -> tensor<3x2xf32>
  %2 = "$OP"(%x) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %r = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }) {replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %3 = stablehlo.compare EQ, %1, %2 : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xi1>
  return %3 : tensor<3x2xi1>
}
// -----
// ops: stablehlo.reduce_scatter
// types: quantized
// values: ternary
// replicas: 2
// oracle: true
func.func @as_real_numbers(%x: tensor<3x4xf32>) -> tensor<3x2xi1> {
  %q = stablehlo.uniform_quantize %x : (tensor<3x4xf32>) -> tensor<3x4x$T>
  %0 = "$OP"(%q) ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %r = stablehlo.add %a, %b : tensor<$T>
    stablehlo.return %r : tensor<$T>
  }) {scatter_dimension = 1 : i64, replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<3x4x$T>) -> tensor<3x2x$T>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<3x2x$T>) -> tensor<3x2xf32>
  %2 = "$OP"(%x) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %r = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }) {scatter_dimension = 1 : i64, replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<3x4xf32>) -> tensor<3x2xf32>
  %3 = stablehlo.compare EQ, %1, %2 : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xi1>
  return %3 : tensor<3x2xi1>
}
// -----
// ops: stablehlo.all_gather
// types: quantized
// values: ternary
// replicas: 2
// oracle: true
func.func @as_real_numbers(%x: tensor<2x3xf32>) -> tensor<2x6xi1> {
  %q = stablehlo.uniform_quantize %x : (tensor<2x3xf32>) -> tensor<2x3x$T>
  %0 = "$OP"(%q) {all_gather_dim = 1 : i64, replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<2x3x$T>) -> tensor<2x6x$T>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<2x6x$T>) -> tensor<2x6xf32>
  %2 = "$OP"(%x) {all_gather_dim = 1 : i64, replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<2x3xf32>) -> tensor<2x6xf32>
  %3 = stablehlo.compare EQ, %1, %2 : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xi1>
  return %3 : tensor<2x6xi1>
}
// -----
// ops: stablehlo.all_to_all
// types: quantized
// values: ternary
// replicas: 2
// oracle: true
func.func @as_real_numbers(%x: tensor<2x4xf32>) -> tensor<4x2xi1> {
  %q = stablehlo.uniform_quantize %x : (tensor<2x4xf32>) -> tensor<2x4x$T>
  %0 = "$OP"(%q) {split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<2x4x$T>) -> tensor<4x2x$T>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<4x2x$T>) -> tensor<4x2xf32>
  %2 = "$OP"(%x) {split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<2x4xf32>) -> tensor<4x2xf32>
  %3 = stablehlo.compare EQ, %1, %2 : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xi1>
  return %3 : tensor<4x2xi1>
}
// -----
// ops: stablehlo.collective_permute
// types: quantized
// values: ternary
// replicas: 2
// oracle: true
func.func @as_real_numbers(%x: tensor<3xf32>) -> tensor<3xi1> {
  %q = stablehlo.uniform_quantize %x : (tensor<3xf32>) -> tensor<3x$T>
  %0 = "$OP"(%q) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<3x$T>) -> tensor<3x$T>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<3x$T>) -> tensor<3xf32>
  %2 = "$OP"(%x) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<3xf32>) -> tensor<3xf32>
  %3 = stablehlo.compare EQ, %1, %2 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  return %3 : tensor<3xi1>
}
// -----
// ops: stablehlo.collective_broadcast
// types: quantized
// values: ternary
// replicas: 2
// oracle: true
func.func @as_real_numbers(%x: tensor<3x2xf32>) -> tensor<3x2xi1> {
  %q = stablehlo.uniform_quantize %x : (tensor<3x2xf32>) -> tensor<3x2x$T>
  %0 = "$OP"(%q) {replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<3x2x$T>) -> tensor<3x2x$T>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<3x2x$T>) -> tensor<3x2xf32>
  %2 = "$OP"(%x) {replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %3 = stablehlo.compare EQ, %1, %2 : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xi1>
  return %3 : tensor<3x2xi1>
}
