// Programs that take sizes, places and counts as arguments. `call` gives the arguments of a call that is right.

// call: f32[3] f32[] i64=[1] i64=[2] i64=[1]
func.func @dynamic_pad(%x: tensor<?xf32>, %v: tensor<f32>, %l: tensor<1xi64>, %h: tensor<1xi64>, %i: tensor<1xi64>) -> tensor<?xf32> {
  %0 = stablehlo.dynamic_pad %x, %v, %l, %h, %i : (tensor<?xf32>, tensor<f32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// call: f32[3,2] f32[] i32=[1,-1] i32=[-1,2] i32=[1,0]
func.func @dynamic_pad_matrix(%x: tensor<?x2xf32>, %v: tensor<f32>, %l: tensor<2xi32>, %h: tensor<2xi32>, %i: tensor<2xi32>) -> tensor<?x?xf32> {
  %0 = stablehlo.dynamic_pad %x, %v, %l, %h, %i : (tensor<?x2xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}

// call: f32[3] f32[] i64=[1]
func.func @dynamic_pad_of_computed_edges(%x: tensor<?xf32>, %v: tensor<f32>, %l: tensor<1xi64>) -> tensor<?xf32> {
  %h = stablehlo.negate %l : tensor<1xi64>
  %i = stablehlo.constant dense<0> : tensor<1xi64>
  %0 = stablehlo.dynamic_pad %x, %v, %l, %h, %i : (tensor<?xf32>, tensor<f32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// call: f32[5] i64=[1] i64=[4] i64=[2]
func.func @real_dynamic_slice(%x: tensor<?xf32>, %l: tensor<1xi64>, %h: tensor<1xi64>, %s: tensor<1xi64>) -> tensor<?xf32> {
  %0 = stablehlo.real_dynamic_slice %x, %l, %h, %s : (tensor<?xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// call: f32[5] i64=[1] i64=[4] i64=[2]
func.func @real_dynamic_slice_of_static(%x: tensor<5xf32>, %l: tensor<1xi64>, %h: tensor<1xi64>, %s: tensor<1xi64>) -> tensor<?xf32> {
  %0 = stablehlo.real_dynamic_slice %x, %l, %h, %s : (tensor<5xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// call: f32[3] i64=[2,3]
func.func @dynamic_broadcast_in_dim(%x: tensor<?xf32>, %n: tensor<2xi64>) -> tensor<?x?xf32> {
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %n, dims = [1] : (tensor<?xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}

// call: f32[3,4] i32=3
func.func @dynamic_broadcast_of_scalar(%x: tensor<?x4xf32>, %n: tensor<i32>) -> tensor<?xf32> {
  %c = stablehlo.constant dense<1.0> : tensor<f32>
  %s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %0 = stablehlo.dynamic_broadcast_in_dim %c, %s, dims = [] : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// call: f32[3] i64=[4,3]
func.func @dynamic_iota(%x: tensor<?xf32>, %n: tensor<2xi64>) -> tensor<?x?xi32> {
  %0 = stablehlo.dynamic_iota %n, dim = 1 : (tensor<2xi64>) -> tensor<?x?xi32>
  return %0 : tensor<?x?xi32>
}

// call: f32[3] ui64=[4]
func.func @dynamic_iota_unsigned(%x: tensor<?xf32>, %n: tensor<1xui64>) -> tensor<?xi32> {
  %m = stablehlo.convert %n : (tensor<1xui64>) -> tensor<1xi64>
  %0 = stablehlo.dynamic_iota %m, dim = 0 : (tensor<1xi64>) -> tensor<?xi32>
  return %0 : tensor<?xi32>
}

// call: f32[2,6] i64=[3,4]
func.func @dynamic_reshape(%x: tensor<?x6xf32>, %n: tensor<2xi64>) -> tensor<?x?xf32> {
  %0 = stablehlo.dynamic_reshape %x, %n : (tensor<?x6xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}

// call: f32[2,6] i32=3
func.func @dynamic_reshape_by_quotient(%x: tensor<?x6xf32>, %n: tensor<i32>) -> tensor<?x?xf32> {
  %r = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x6xf32>) -> tensor<i32>
  %six = stablehlo.constant dense<6> : tensor<i32>
  %all = stablehlo.multiply %r, %six : tensor<i32>
  %q = stablehlo.divide %all, %n : tensor<i32>
  %a = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %b = stablehlo.reshape %q : (tensor<i32>) -> tensor<1xi32>
  %s = stablehlo.concatenate %a, %b, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %0 = stablehlo.dynamic_reshape %x, %s : (tensor<?x6xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}

// call: f32[5,4] i32=[[1],[3],[0]] i32=[1,2]
func.func @dynamic_gather(%x: tensor<?x4xf32>, %i: tensor<?x1xi32>, %n: tensor<2xi32>) -> tensor<?x?xf32> {
  %0 = "stablehlo.dynamic_gather"(%x, %i, %n) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false}> : (tensor<?x4xf32>, tensor<?x1xi32>, tensor<2xi32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}

// call: f32[1,7,2] f32[3,2,3] i64=[[1,2]]
func.func @dynamic_conv(%x: tensor<?x7x2xf32>, %k: tensor<3x2x3xf32>, %p: tensor<1x2xi64>) -> tensor<?x?x3xf32> {
  %0 = "stablehlo.dynamic_conv"(%x, %k, %p) <{dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<?x7x2xf32>, tensor<3x2x3xf32>, tensor<1x2xi64>) -> tensor<?x?x3xf32>
  return %0 : tensor<?x?x3xf32>
}

// call: f32[5] i32=3
func.func @set_dimension_size(%x: tensor<?xf32>, %n: tensor<i32>) -> tensor<?xf32> {
  %0 = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<?xf32>, tensor<i32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// call: f32[5] i64=3
func.func @dynamic_top_k(%x: tensor<?xf32>, %k: tensor<i64>) -> (tensor<?xf32>, tensor<?xi32>) {
  %0:2 = stablehlo.custom_call @stablehlo.dynamic_top_k(%x, %k) : (tensor<?xf32>, tensor<i64>) -> (tensor<?xf32>, tensor<?xi32>)
  return %0#0, %0#1 : tensor<?xf32>, tensor<?xi32>
}

// call: f32[3] ui64=[1,2] i64=[4]
func.func @dynamic_rng_bit_generator(%x: tensor<?xf32>, %s: tensor<2xui64>, %n: tensor<1xi64>) -> (tensor<2xui64>, tensor<?xui32>) {
  %0:2 = stablehlo.custom_call @stablehlo.dynamic_rng_bit_generator(%s, %n) {rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>} : (tensor<2xui64>, tensor<1xi64>) -> (tensor<2xui64>, tensor<?xui32>)
  return %0#0, %0#1 : tensor<2xui64>, tensor<?xui32>
}

// call: f32[6] i64=[3] i64=[2] i64=[1] i64=[1] i64=[[1,0]]
func.func @dynamic_reduce_window(%x: tensor<?xf32>, %w: tensor<1xi64>, %s: tensor<1xi64>, %b: tensor<1xi64>, %d: tensor<1xi64>, %p: tensor<1x2xi64>) -> tensor<?xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %z, %w, %s, %b, %d, %p) {called_computations = [@sum]} : (tensor<?xf32>, tensor<f32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1x2xi64>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
func.func private @sum(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %a, %b : tensor<f32>
  return %0 : tensor<f32>
}

// call: f32[5,4] i32=2 i64=-1
func.func @dynamic_slice(%x: tensor<?x4xf32>, %i: tensor<i32>, %j: tensor<i64>) -> tensor<2x2xf32> {
  %k = stablehlo.convert %j : (tensor<i64>) -> tensor<i32>
  %0 = stablehlo.dynamic_slice %x, %i, %k, sizes = [2, 2] : (tensor<?x4xf32>, tensor<i32>, tensor<i32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// call: f32[5,4] f32[2,4] i64=2 i64=0
func.func @dynamic_update_slice(%x: tensor<?x4xf32>, %u: tensor<?x4xf32>, %i: tensor<i64>, %j: tensor<i64>) -> tensor<?x4xf32> {
  %0 = stablehlo.dynamic_update_slice %x, %u, %i, %j : (tensor<?x4xf32>, tensor<?x4xf32>, tensor<i64>, tensor<i64>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

// call: i32[5] i32=[1,2,3,4,5]
func.func @shifts(%x: tensor<?xi32>, %n: tensor<?xi32>) -> (tensor<?xi32>, tensor<?xi32>, tensor<?xi32>) {
  %0 = stablehlo.shift_left %x, %n : tensor<?xi32>
  %1 = stablehlo.shift_right_logical %x, %n : tensor<?xi32>
  %2 = stablehlo.shift_right_arithmetic %x, %n : tensor<?xi32>
  return %0, %1, %2 : tensor<?xi32>, tensor<?xi32>, tensor<?xi32>
}

// call: i64[5] i64=[1,2,3,4,5]
func.func @division(%x: tensor<?xi64>, %n: tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>) {
  %0 = stablehlo.divide %x, %n : tensor<?xi64>
  %1 = stablehlo.remainder %x, %n : tensor<?xi64>
  return %0, %1 : tensor<?xi64>, tensor<?xi64>
}

// call: f32[4] f32[3]
func.func @cube(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %m = stablehlo.convert %n : (tensor<i32>) -> tensor<i64>
  %a = stablehlo.multiply %m, %m : tensor<i64>
  %b = stablehlo.multiply %a, %m : tensor<i64>
  %s = stablehlo.reshape %b : (tensor<i64>) -> tensor<1xi64>
  %0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi64>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// call: f32[3] i32=4
func.func @narrow_arithmetic(%x: tensor<?xf32>, %n: tensor<i32>) -> tensor<?xf32> {
  %m = stablehlo.multiply %n, %n : tensor<i32>
  %k = stablehlo.convert %m : (tensor<i32>) -> tensor<ui8>
  %l = stablehlo.convert %k : (tensor<ui8>) -> tensor<i32>
  %s = stablehlo.reshape %l : (tensor<i32>) -> tensor<1xi32>
  %0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// call: f32[4,8] f32[3]
func.func @fft(%x: tensor<?x8xf32>, %y: tensor<?xf32>) -> tensor<?x5xcomplex<f32>> {
  %0 = stablehlo.fft %x, type = RFFT, length = [8] : (tensor<?x8xf32>) -> tensor<?x5xcomplex<f32>>
  return %0 : tensor<?x5xcomplex<f32>>
}
