// ops: stablehlo.constant
// types: any
func.func @splat() -> tensor<3x2x$T> {
  %0 = stablehlo.constant dense<$1> : tensor<3x2x$T>
  return %0 : tensor<3x2x$T>
}
func.func @scalar() -> tensor<$T> {
  %0 = stablehlo.constant dense<$1> : tensor<$T>
  return %0 : tensor<$T>
}
func.func @elements() -> tensor<2x2x$T> {
  %0 = stablehlo.constant dense<[[$1, $0], [$0, $1]]> : tensor<2x2x$T>
  return %0 : tensor<2x2x$T>
}
func.func @empty() -> tensor<0x2x$T> {
  %0 = stablehlo.constant dense<> : tensor<0x2x$T>
  return %0 : tensor<0x2x$T>
}
// -----
// ops: stablehlo.iota
// types: number quantized
func.func @vector() -> tensor<4x$T> {
  %0 = stablehlo.iota dim = 0 : tensor<4x$T>
  return %0 : tensor<4x$T>
}
func.func @middle() -> tensor<2x3x4x$T> {
  %0 = stablehlo.iota dim = 1 : tensor<2x3x4x$T>
  return %0 : tensor<2x3x4x$T>
}
func.func @last() -> tensor<2x4x$T> {
  %0 = stablehlo.iota dim = 1 : tensor<2x4x$T>
  return %0 : tensor<2x4x$T>
}
func.func @empty() -> tensor<2x0x$T> {
  %0 = stablehlo.iota dim = 0 : tensor<2x0x$T>
  return %0 : tensor<2x0x$T>
}
// -----
// ops: stablehlo.broadcast_in_dim
// types: any quantized
func.func @of_scalar(%x: tensor<$T>) -> tensor<2x3x$T> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<$T>) -> tensor<2x3x$T>
  return %0 : tensor<2x3x$T>
}
func.func @rows(%x: tensor<3x$T>) -> tensor<2x3x$T> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [1] : (tensor<3x$T>) -> tensor<2x3x$T>
  return %0 : tensor<2x3x$T>
}
func.func @transposed(%x: tensor<3x2x$T>) -> tensor<2x4x3x$T> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [2, 0] : (tensor<3x2x$T>) -> tensor<2x4x3x$T>
  return %0 : tensor<2x4x3x$T>
}
func.func @stretched(%x: tensor<1x3x1x$T>) -> tensor<2x3x5x$T> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [0, 1, 2] : (tensor<1x3x1x$T>) -> tensor<2x3x5x$T>
  return %0 : tensor<2x3x5x$T>
}
func.func @to_empty(%x: tensor<1x3x$T>) -> tensor<0x3x$T> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [0, 1] : (tensor<1x3x$T>) -> tensor<0x3x$T>
  return %0 : tensor<0x3x$T>
}
// -----
// ops: stablehlo.broadcast
// types: any quantized
func.func @vector(%x: tensor<3x$T>) -> tensor<2x4x3x$T> {
  %0 = stablehlo.broadcast %x, sizes = [2, 4] : (tensor<3x$T>) -> tensor<2x4x3x$T>
  return %0 : tensor<2x4x3x$T>
}
func.func @scalar(%x: tensor<$T>) -> tensor<2x$T> {
  %0 = stablehlo.broadcast %x, sizes = [2] : (tensor<$T>) -> tensor<2x$T>
  return %0 : tensor<2x$T>
}
func.func @same(%x: tensor<3x$T>) -> tensor<3x$T> {
  %0 = stablehlo.broadcast %x, sizes = [] : (tensor<3x$T>) -> tensor<3x$T>
  return %0 : tensor<3x$T>
}
// -----
// ops: stablehlo.reshape
// types: any quantized
func.func @flat(%x: tensor<3x5x$T>) -> tensor<15x$T> {
  %0 = stablehlo.reshape %x : (tensor<3x5x$T>) -> tensor<15x$T>
  return %0 : tensor<15x$T>
}
func.func @to_scalar(%x: tensor<1x1x$T>) -> tensor<$T> {
  %0 = stablehlo.reshape %x : (tensor<1x1x$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @empty(%x: tensor<0x5x$T>) -> tensor<7x0x$T> {
  %0 = stablehlo.reshape %x : (tensor<0x5x$T>) -> tensor<7x0x$T>
  return %0 : tensor<7x0x$T>
}
// -----
// ops: stablehlo.transpose
// types: any quantized
func.func @matrix(%x: tensor<3x5x$T>) -> tensor<5x3x$T> {
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<3x5x$T>) -> tensor<5x3x$T>
  return %0 : tensor<5x3x$T>
}
func.func @cycle(%x: tensor<2x3x5x$T>) -> tensor<5x2x3x$T> {
  %0 = stablehlo.transpose %x, dims = [2, 0, 1] : (tensor<2x3x5x$T>) -> tensor<5x2x3x$T>
  return %0 : tensor<5x2x3x$T>
}
func.func @identity(%x: tensor<2x3x$T>) -> tensor<2x3x$T> {
  %0 = stablehlo.transpose %x, dims = [0, 1] : (tensor<2x3x$T>) -> tensor<2x3x$T>
  return %0 : tensor<2x3x$T>
}
func.func @empty(%x: tensor<2x0x$T>) -> tensor<0x2x$T> {
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x0x$T>) -> tensor<0x2x$T>
  return %0 : tensor<0x2x$T>
}
// -----
// ops: stablehlo.slice
// types: any quantized
func.func @strided(%x: tensor<9x5x$T>) -> tensor<3x2x$T> {
  %0 = stablehlo.slice %x [1:9:3, 2:5:2] : (tensor<9x5x$T>) -> tensor<3x2x$T>
  return %0 : tensor<3x2x$T>
}
func.func @whole(%x: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = stablehlo.slice %x [0:3, 0:5] : (tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @none(%x: tensor<3x5x$T>) -> tensor<0x5x$T> {
  %0 = stablehlo.slice %x [2:2, 0:5] : (tensor<3x5x$T>) -> tensor<0x5x$T>
  return %0 : tensor<0x5x$T>
}
func.func @one(%x: tensor<3x5x$T>) -> tensor<1x1x$T> {
  %0 = stablehlo.slice %x [2:3:7, 4:5] : (tensor<3x5x$T>) -> tensor<1x1x$T>
  return %0 : tensor<1x1x$T>
}
// -----
// ops: stablehlo.pad
// types: any quantized
func.func @edges(%x: tensor<3x5x$T>, %v: tensor<$T>) -> tensor<6x6x$T> {
  %0 = stablehlo.pad %x, %v, low = [1, 0], high = [2, 1], interior = [0, 0] : (tensor<3x5x$T>, tensor<$T>) -> tensor<6x6x$T>
  return %0 : tensor<6x6x$T>
}
func.func @interior(%x: tensor<3x2x$T>, %v: tensor<$T>) -> tensor<7x2x$T> {
  %0 = stablehlo.pad %x, %v, low = [0, 0], high = [0, -5], interior = [2, 5] : (tensor<3x2x$T>, tensor<$T>) -> tensor<7x2x$T>
  return %0 : tensor<7x2x$T>
}
func.func @negative(%x: tensor<5x6x$T>, %v: tensor<$T>) -> tensor<2x7x$T> {
  %0 = stablehlo.pad %x, %v, low = [-1, 2], high = [-2, -1], interior = [0, 0] : (tensor<5x6x$T>, tensor<$T>) -> tensor<2x7x$T>
  return %0 : tensor<2x7x$T>
}
func.func @negative_with_interior(%x: tensor<4x$T>, %v: tensor<$T>) -> tensor<7x$T> {
  %0 = stablehlo.pad %x, %v, low = [-2], high = [-1], interior = [2] : (tensor<4x$T>, tensor<$T>) -> tensor<7x$T>
  return %0 : tensor<7x$T>
}
func.func @of_empty(%x: tensor<0x3x$T>, %v: tensor<$T>) -> tensor<2x3x$T> {
  %0 = stablehlo.pad %x, %v, low = [1, 0], high = [1, 0], interior = [0, 0] : (tensor<0x3x$T>, tensor<$T>) -> tensor<2x3x$T>
  return %0 : tensor<2x3x$T>
}
func.func @to_empty(%x: tensor<3x$T>, %v: tensor<$T>) -> tensor<0x$T> {
  %0 = stablehlo.pad %x, %v, low = [-1], high = [-2], interior = [0] : (tensor<3x$T>, tensor<$T>) -> tensor<0x$T>
  return %0 : tensor<0x$T>
}
// -----
// ops: stablehlo.reverse
// types: any quantized
func.func @one_dimension(%x: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = stablehlo.reverse %x, dims = [1] : tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @all_dimensions(%x: tensor<2x3x5x$T>) -> tensor<2x3x5x$T> {
  %0 = stablehlo.reverse %x, dims = [2, 0, 1] : tensor<2x3x5x$T>
  return %0 : tensor<2x3x5x$T>
}
func.func @no_dimension(%x: tensor<3x$T>) -> tensor<3x$T> {
  %0 = stablehlo.reverse %x, dims = [] : tensor<3x$T>
  return %0 : tensor<3x$T>
}
func.func @empty(%x: tensor<0x2x$T>) -> tensor<0x2x$T> {
  %0 = stablehlo.reverse %x, dims = [0] : tensor<0x2x$T>
  return %0 : tensor<0x2x$T>
}
// -----
// ops: stablehlo.concatenate
// types: any quantized
func.func @three(%x: tensor<2x3x$T>, %y: tensor<2x1x$T>, %z: tensor<2x5x$T>) -> tensor<2x9x$T> {
  %0 = stablehlo.concatenate %x, %y, %z, dim = 1 : (tensor<2x3x$T>, tensor<2x1x$T>, tensor<2x5x$T>) -> tensor<2x9x$T>
  return %0 : tensor<2x9x$T>
}
func.func @leading(%x: tensor<2x3x$T>, %y: tensor<4x3x$T>) -> tensor<6x3x$T> {
  %0 = stablehlo.concatenate %x, %y, dim = 0 : (tensor<2x3x$T>, tensor<4x3x$T>) -> tensor<6x3x$T>
  return %0 : tensor<6x3x$T>
}
func.func @one(%x: tensor<2x3x$T>) -> tensor<2x3x$T> {
  %0 = stablehlo.concatenate %x, dim = 0 : (tensor<2x3x$T>) -> tensor<2x3x$T>
  return %0 : tensor<2x3x$T>
}
func.func @with_empty(%x: tensor<0x3x$T>, %y: tensor<2x3x$T>) -> tensor<2x3x$T> {
  %0 = stablehlo.concatenate %x, %y, dim = 0 : (tensor<0x3x$T>, tensor<2x3x$T>) -> tensor<2x3x$T>
  return %0 : tensor<2x3x$T>
}
func.func @same_twice(%x: tensor<3x$T>) -> tensor<6x$T> {
  %0 = stablehlo.concatenate %x, %x, dim = 0 : (tensor<3x$T>, tensor<3x$T>) -> tensor<6x$T>
  return %0 : tensor<6x$T>
}
// -----
// ops: stablehlo.get_dimension_size
// types: any quantized
func.func @size(%x: tensor<3x5x$T>) -> tensor<i32> {
  %0 = stablehlo.get_dimension_size %x, dim = 1 : (tensor<3x5x$T>) -> tensor<i32>
  return %0 : tensor<i32>
}
func.func @empty(%x: tensor<0x5x$T>) -> tensor<i32> {
  %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<0x5x$T>) -> tensor<i32>
  return %0 : tensor<i32>
}
// -----
// ops: stablehlo.dynamic_slice
// types: any quantized
func.func @inside(%x: tensor<5x6x$T>, %i: tensor<i32> {case.range = [0, 2]}, %j: tensor<i32> {case.range = [0, 2]}) -> tensor<2x3x$T> {
  %0 = stablehlo.dynamic_slice %x, %i, %j, sizes = [2, 3] : (tensor<5x6x$T>, tensor<i32>, tensor<i32>) -> tensor<2x3x$T>
  return %0 : tensor<2x3x$T>
}
func.func @too_high(%x: tensor<5x6x$T>, %i: tensor<i64> {case.range = [9, 9]}, %j: tensor<i64> {case.range = [-7, -1]}) -> tensor<2x3x$T> {
  %0 = stablehlo.dynamic_slice %x, %i, %j, sizes = [2, 3] : (tensor<5x6x$T>, tensor<i64>, tensor<i64>) -> tensor<2x3x$T>
  return %0 : tensor<2x3x$T>
}
func.func @nothing(%x: tensor<5x$T>, %i: tensor<i32> {case.range = [3, 3]}) -> tensor<0x$T> {
  %0 = stablehlo.dynamic_slice %x, %i, sizes = [0] : (tensor<5x$T>, tensor<i32>) -> tensor<0x$T>
  return %0 : tensor<0x$T>
}
// -----
// The reference interpreter reads an unsigned index as a signed one.
// ops: stablehlo.dynamic_slice
// types: any
// oracle: jax
func.func @unsigned_index(%x: tensor<5x$T>, %i: tensor<ui8> {case.range = [200, 255]}) -> tensor<2x$T> {
  %0 = stablehlo.dynamic_slice %x, %i, sizes = [2] : (tensor<5x$T>, tensor<ui8>) -> tensor<2x$T>
  return %0 : tensor<2x$T>
}
// -----
// ops: stablehlo.dynamic_update_slice
// types: any quantized
func.func @inside(%x: tensor<5x6x$T>, %u: tensor<2x3x$T>, %i: tensor<i32> {case.range = [0, 2]}, %j: tensor<i32> {case.range = [0, 2]}) -> tensor<5x6x$T> {
  %0 = stablehlo.dynamic_update_slice %x, %u, %i, %j : (tensor<5x6x$T>, tensor<2x3x$T>, tensor<i32>, tensor<i32>) -> tensor<5x6x$T>
  return %0 : tensor<5x6x$T>
}
func.func @outside(%x: tensor<5x6x$T>, %u: tensor<2x3x$T>, %i: tensor<ui32> {case.range = [9, 9]}, %j: tensor<ui32> {case.range = [7, 7]}) -> tensor<5x6x$T> {
  %0 = stablehlo.dynamic_update_slice %x, %u, %i, %j : (tensor<5x6x$T>, tensor<2x3x$T>, tensor<ui32>, tensor<ui32>) -> tensor<5x6x$T>
  return %0 : tensor<5x6x$T>
}
func.func @of_scalar(%x: tensor<$T>, %u: tensor<$T>) -> tensor<$T> {
  %0 = "stablehlo.dynamic_update_slice"(%x, %u) : (tensor<$T>, tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @nothing(%x: tensor<5x$T>, %u: tensor<0x$T>, %i: tensor<i64> {case.range = [3, 3]}) -> tensor<5x$T> {
  %0 = stablehlo.dynamic_update_slice %x, %u, %i : (tensor<5x$T>, tensor<0x$T>, tensor<i64>) -> tensor<5x$T>
  return %0 : tensor<5x$T>
}
func.func @everything(%x: tensor<5x$T>, %u: tensor<5x$T>, %i: tensor<i64> {case.range = [3, 3]}) -> tensor<5x$T> {
  %0 = stablehlo.dynamic_update_slice %x, %u, %i : (tensor<5x$T>, tensor<5x$T>, tensor<i64>) -> tensor<5x$T>
  return %0 : tensor<5x$T>
}
// -----
// ops: stablehlo.optimization_barrier
// types: any quantized
func.func @two(%x: tensor<3x$T>, %y: tensor<2x2x$T>) -> (tensor<3x$T>, tensor<2x2x$T>) {
  %0:2 = stablehlo.optimization_barrier %x, %y : tensor<3x$T>, tensor<2x2x$T>
  return %0#0, %0#1 : tensor<3x$T>, tensor<2x2x$T>
}
func.func @none(%x: tensor<3x$T>) -> tensor<3x$T> {
  "stablehlo.optimization_barrier"() : () -> ()
  return %x : tensor<3x$T>
}
// -----
// Dynamic twins of static ops, whose operands are constants or computed from shapes.
// ops: stablehlo.dynamic_broadcast_in_dim
// types: any quantized
func.func @constant_shape(%x: tensor<1x3x$T>) -> tensor<2x3x$T> {
  %s = stablehlo.constant dense<[2, 3]> : tensor<2xi64>
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [0, 1] : (tensor<1x3x$T>, tensor<2xi64>) -> tensor<2x3x$T>
  return %0 : tensor<2x3x$T>
}
func.func @computed_shape(%x: tensor<3x$T>, %y: tensor<2x3x$T>) -> tensor<?x?x$T> {
  %a = stablehlo.get_dimension_size %y, dim = 0 : (tensor<2x3x$T>) -> tensor<i32>
  %b = stablehlo.get_dimension_size %x, dim = 0 : (tensor<3x$T>) -> tensor<i32>
  %c = stablehlo.reshape %a : (tensor<i32>) -> tensor<1xi32>
  %d = stablehlo.reshape %b : (tensor<i32>) -> tensor<1xi32>
  %s = stablehlo.concatenate %c, %d, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1] : (tensor<3x$T>, tensor<2xi32>) -> tensor<?x?x$T>
  return %0 : tensor<?x?x$T>
}
// -----
// ops: stablehlo.dynamic_reshape
// types: any quantized
func.func @constant_shape(%x: tensor<2x6x$T>) -> tensor<?x?x$T> {
  %s = stablehlo.constant dense<[4, 3]> : tensor<2xi32>
  %0 = stablehlo.dynamic_reshape %x, %s : (tensor<2x6x$T>, tensor<2xi32>) -> tensor<?x?x$T>
  return %0 : tensor<?x?x$T>
}
func.func @static_result(%x: tensor<2x6x$T>) -> tensor<4x3x$T> {
  %s = stablehlo.constant dense<[4, 3]> : tensor<2xi64>
  %0 = stablehlo.dynamic_reshape %x, %s : (tensor<2x6x$T>, tensor<2xi64>) -> tensor<4x3x$T>
  return %0 : tensor<4x3x$T>
}
// -----
// ops: stablehlo.dynamic_iota
// types: number quantized
func.func @constant_shape() -> tensor<?x?x$T> {
  %s = stablehlo.constant dense<[4, 3]> : tensor<2xi64>
  %0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<2xi64>) -> tensor<?x?x$T>
  return %0 : tensor<?x?x$T>
}
// -----
// ops: stablehlo.dynamic_pad
// types: any quantized
func.func @constant_padding(%x: tensor<3x5x$T>, %v: tensor<$T>) -> tensor<?x?x$T> {
  %low = stablehlo.constant dense<[1, -1]> : tensor<2xi64>
  %high = stablehlo.constant dense<[0, 2]> : tensor<2xi64>
  %interior = stablehlo.constant dense<[1, 0]> : tensor<2xi64>
  %0 = stablehlo.dynamic_pad %x, %v, %low, %high, %interior : (tensor<3x5x$T>, tensor<$T>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?x?x$T>
  return %0 : tensor<?x?x$T>
}
// -----
// ops: stablehlo.real_dynamic_slice
// types: any quantized
func.func @constant_bounds(%x: tensor<7x5x$T>) -> tensor<?x?x$T> {
  %start = stablehlo.constant dense<[1, 0]> : tensor<2xi64>
  %limit = stablehlo.constant dense<[7, 4]> : tensor<2xi64>
  %strides = stablehlo.constant dense<[2, 1]> : tensor<2xi64>
  %0 = stablehlo.real_dynamic_slice %x, %start, %limit, %strides : (tensor<7x5x$T>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?x?x$T>
  return %0 : tensor<?x?x$T>
}
// -----
// ops: stablehlo.set_dimension_size
// types: any quantized
func.func @same_size(%x: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %size = stablehlo.constant dense<5> : tensor<i32>
  %0 = stablehlo.set_dimension_size %x, %size, dim = 1 : (tensor<3x5x$T>, tensor<i32>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
// -----
// ops: stablehlo.dynamic_gather
// types: any quantized
func.func @constant_sizes(%x: tensor<5x4x$T>, %i: tensor<3x1xi32> {case.range = [-2, 7]}) -> tensor<3x2x$T> {
  %sizes = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %0 = "stablehlo.dynamic_gather"(%x, %i, %sizes) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}> : (tensor<5x4x$T>, tensor<3x1xi32>, tensor<2xi32>) -> tensor<3x2x$T>
  return %0 : tensor<3x2x$T>
}
// -----
// ops: stablehlo.dynamic_conv
// types: any quantized
// tolerance: 2 small-float=8
func.func @constant_padding(%x: tensor<1x7x2x$T>, %k: tensor<3x2x3x$T>) -> tensor<1x?x3x$T> {
  %padding = stablehlo.constant dense<[[1, 2]]> : tensor<1x2xi64>
  %0 = "stablehlo.dynamic_conv"(%x, %k, %padding) <{dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x7x2x$T>, tensor<3x2x3x$T>, tensor<1x2xi64>) -> tensor<1x?x3x$T>
  return %0 : tensor<1x?x3x$T>
}
// -----
// ops: stablehlo.constant
// types: quantized
// oracle: reference evaluate
func.func @stored() -> tensor<4x$T> {
  %0 = stablehlo.constant() {value = dense<[-5, 3, 0, 127]> : tensor<4xi8>} : () -> tensor<4x$T>
  return %0 : tensor<4x$T>
}
