// ops: stablehlo.dot_general
// types: any
// values: ternary
// tolerance: 1
func.func @matrices(%x: tensor<5x7x$T>, %y: tensor<7x3x$T>) -> tensor<5x3x$T> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<5x7x$T>, tensor<7x3x$T>) -> tensor<5x3x$T>
  return %0 : tensor<5x3x$T>
}
func.func @batched(%x: tensor<3x7x2x5x$T>, %y: tensor<2x7x3x4x$T>) -> tensor<2x3x5x4x$T> {
  %0 = stablehlo.dot_general %x, %y, batching_dims = [2, 0] x [0, 2], contracting_dims = [1] x [1] : (tensor<3x7x2x5x$T>, tensor<2x7x3x4x$T>) -> tensor<2x3x5x4x$T>
  return %0 : tensor<2x3x5x4x$T>
}
func.func @two_contracted(%x: tensor<3x2x5x$T>, %y: tensor<4x5x3x$T>) -> tensor<2x4x$T> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [0, 2] x [2, 1] : (tensor<3x2x5x$T>, tensor<4x5x3x$T>) -> tensor<2x4x$T>
  return %0 : tensor<2x4x$T>
}
func.func @outer(%x: tensor<5x$T>, %y: tensor<3x$T>) -> tensor<5x3x$T> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [] x [] : (tensor<5x$T>, tensor<3x$T>) -> tensor<5x3x$T>
  return %0 : tensor<5x3x$T>
}
func.func @of_nothing(%x: tensor<2x0x$T>, %y: tensor<0x3x$T>) -> tensor<2x3x$T> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<2x0x$T>, tensor<0x3x$T>) -> tensor<2x3x$T>
  return %0 : tensor<2x3x$T>
}
func.func @to_nothing(%x: tensor<0x4x$T>, %y: tensor<4x3x$T>) -> tensor<0x3x$T> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<0x4x$T>, tensor<4x3x$T>) -> tensor<0x3x$T>
  return %0 : tensor<0x3x$T>
}
func.func @precision(%x: tensor<2x3x$T>, %y: tensor<3x$T>) -> tensor<2x$T> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0], precision = [HIGHEST, DEFAULT] : (tensor<2x3x$T>, tensor<3x$T>) -> tensor<2x$T>
  return %0 : tensor<2x$T>
}
// -----
// The right operand's zero point must be 0.
// ops: stablehlo.dot_general
// types: quantized
// values: ternary
func.func @matrices(%x: tensor<5x7x$T>, %y: tensor<7x3x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<5x3x!quant.uniform<i32:f32, 2.500000e-01>> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<5x7x$T>, tensor<7x3x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<5x3x!quant.uniform<i32:f32, 2.500000e-01>>
  return %0 : tensor<5x3x!quant.uniform<i32:f32, 2.500000e-01>>
}
// -----
// Accumulation in a wider type.
// ops: stablehlo.dot_general
// types: i8 ui8 i16
// also: i32
// values: ternary
// oracle: jax
func.func @wide_result(%x: tensor<5x67x$T>, %y: tensor<67x3x$T>) -> tensor<5x3x$S> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<5x67x$T>, tensor<67x3x$T>) -> tensor<5x3x$S>
  return %0 : tensor<5x3x$S>
}
// -----
// ops: stablehlo.dot_general
// types: bf16 f16 f8E4M3FN f8E5M2
// also: f32
// values: ternary
// oracle: jax
func.func @wide_result(%x: tensor<5x67x$T>, %y: tensor<67x3x$T>) -> tensor<5x3x$S> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<5x67x$T>, tensor<67x3x$T>) -> tensor<5x3x$S>
  return %0 : tensor<5x3x$S>
}
// -----
// ops: stablehlo.dot_general
// types: f32
// values: ternary
// oracle: reference jax
func.func @tf32(%x: tensor<5x7xf32>, %y: tensor<7x3xf32>) -> tensor<5x3xf32> {
  %0 = "stablehlo.dot_general"(%x, %y) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, algorithm = #stablehlo.dot_algorithm<lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false>}> : (tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>
  return %0 : tensor<5x3xf32>
}
func.func @bf16_x3(%x: tensor<5x7xf32>, %y: tensor<7x3xf32>) -> tensor<5x3xf32> {
  %0 = "stablehlo.dot_general"(%x, %y) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, algorithm = #stablehlo.dot_algorithm<lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 3, allow_imprecise_accumulation = false>}> : (tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>
  return %0 : tensor<5x3xf32>
}
// -----
// ops: stablehlo.dot
// types: any quantized
// values: ternary
// tolerance: 1
// oracle: jax reference
func.func @matrices(%x: tensor<5x7x$T>, %y: tensor<7x3x$T>) -> tensor<5x3x$T> {
  %0 = stablehlo.dot %x, %y : (tensor<5x7x$T>, tensor<7x3x$T>) -> tensor<5x3x$T>
  return %0 : tensor<5x3x$T>
}
func.func @vectors(%x: tensor<7x$T>, %y: tensor<7x$T>) -> tensor<$T> {
  %0 = stablehlo.dot %x, %y : (tensor<7x$T>, tensor<7x$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @matrix_and_vector(%x: tensor<5x7x$T>, %y: tensor<7x$T>) -> tensor<5x$T> {
  %0 = stablehlo.dot %x, %y : (tensor<5x7x$T>, tensor<7x$T>) -> tensor<5x$T>
  return %0 : tensor<5x$T>
}
// -----
// ops: stablehlo.einsum
// types: any quantized
// values: ternary
// tolerance: 1
// oracle: jax wide
func.func @batched(%x: tensor<2x3x5x$T>, %y: tensor<2x5x4x$T>) -> tensor<2x3x4x$T> {
  %0 = stablehlo.einsum %x, %y, config = "bij,bjk->bik" : (tensor<2x3x5x$T>, tensor<2x5x4x$T>) -> tensor<2x3x4x$T>
  return %0 : tensor<2x3x4x$T>
}
func.func @transposed(%x: tensor<3x5x$T>, %y: tensor<5x4x$T>) -> tensor<4x3x$T> {
  %0 = stablehlo.einsum %x, %y, config = "ij,jk->ki" : (tensor<3x5x$T>, tensor<5x4x$T>) -> tensor<4x3x$T>
  return %0 : tensor<4x3x$T>
}
func.func @summed(%x: tensor<3x5x$T>, %y: tensor<4x2x$T>) -> tensor<3x2x$T> {
  %0 = stablehlo.einsum %x, %y, config = "ij,lk->ik" : (tensor<3x5x$T>, tensor<4x2x$T>) -> tensor<3x2x$T>
  return %0 : tensor<3x2x$T>
}
func.func @ellipsis(%x: tensor<2x3x5x$T>, %y: tensor<2x5x4x$T>) -> tensor<2x3x4x$T> {
  %0 = stablehlo.einsum %x, %y, config = "...ij,...jk->...ik" : (tensor<2x3x5x$T>, tensor<2x5x4x$T>) -> tensor<2x3x4x$T>
  return %0 : tensor<2x3x4x$T>
}
func.func @diagonal(%x: tensor<3x3x$T>, %y: tensor<3x4x$T>) -> tensor<3x4x$T> {
  %0 = stablehlo.einsum %x, %y, config = "ii,ij->ij" : (tensor<3x3x$T>, tensor<3x4x$T>) -> tensor<3x4x$T>
  return %0 : tensor<3x4x$T>
}
// -----
// ops: stablehlo.convolution
// types: any quantized
// values: ternary
// tolerance: 1
func.func @one_dimension(%x: tensor<2x7x3x$T>, %k: tensor<3x3x4x$T>) -> tensor<2x5x4x$T> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {feature_group_count = 1 : i64, batch_group_count = 1 : i64} : (tensor<2x7x3x$T>, tensor<3x3x4x$T>) -> tensor<2x5x4x$T>
  return %0 : tensor<2x5x4x$T>
}
func.func @everything(%x: tensor<2x4x5x6x$T>, %k: tensor<6x2x2x3x$T>) -> tensor<6x4x3x2x$T> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[f, 1, 0, b], window = {stride = [3, 3], pad = [[1, 2], [2, 0]], lhs_dilate = [2, 2], rhs_dilate = [3, 1], reverse = [true, false]} {feature_group_count = 2 : i64, batch_group_count = 1 : i64} : (tensor<2x4x5x6x$T>, tensor<6x2x2x3x$T>) -> tensor<6x4x3x2x$T>
  return %0 : tensor<6x4x3x2x$T>
}
func.func @batch_groups(%x: tensor<6x5x5x2x$T>, %k: tensor<3x3x2x4x$T>) -> tensor<3x3x3x4x$T> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {feature_group_count = 1 : i64, batch_group_count = 2 : i64} : (tensor<6x5x5x2x$T>, tensor<3x3x2x4x$T>) -> tensor<3x3x3x4x$T>
  return %0 : tensor<3x3x3x4x$T>
}
func.func @depthwise(%x: tensor<1x6x6x4x$T>, %k: tensor<3x3x1x4x$T>) -> tensor<1x6x6x4x$T> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {feature_group_count = 4 : i64, batch_group_count = 1 : i64} : (tensor<1x6x6x4x$T>, tensor<3x3x1x4x$T>) -> tensor<1x6x6x4x$T>
  return %0 : tensor<1x6x6x4x$T>
}
func.func @cropped(%x: tensor<1x9x2x$T>, %k: tensor<2x2x3x$T>) -> tensor<1x4x3x$T> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[-1, -3]]} {feature_group_count = 1 : i64, batch_group_count = 1 : i64} : (tensor<1x9x2x$T>, tensor<2x2x3x$T>) -> tensor<1x4x3x$T>
  return %0 : tensor<1x4x3x$T>
}
func.func @no_spatial_dimension(%x: tensor<5x2x$T>, %k: tensor<2x3x$T>) -> tensor<5x3x$T> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, f]x[i, o]->[b, f], window = {} {feature_group_count = 1 : i64, batch_group_count = 1 : i64} : (tensor<5x2x$T>, tensor<2x3x$T>) -> tensor<5x3x$T>
  return %0 : tensor<5x3x$T>
}
func.func @three_dimensions(%x: tensor<1x3x4x3x2x$T>, %k: tensor<2x2x2x2x2x$T>) -> tensor<1x2x3x2x2x$T> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, 2, f]x[0, 1, 2, i, o]->[b, 0, 1, 2, f], window = {} {feature_group_count = 1 : i64, batch_group_count = 1 : i64} : (tensor<1x3x4x3x2x$T>, tensor<2x2x2x2x2x$T>) -> tensor<1x2x3x2x2x$T>
  return %0 : tensor<1x2x3x2x2x$T>
}
func.func @empty_batch(%x: tensor<0x7x3x$T>, %k: tensor<3x3x4x$T>) -> tensor<0x5x4x$T> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {feature_group_count = 1 : i64, batch_group_count = 1 : i64} : (tensor<0x7x3x$T>, tensor<3x3x4x$T>) -> tensor<0x5x4x$T>
  return %0 : tensor<0x5x4x$T>
}
// -----
// No oracle runs it.
// ops: stablehlo.unary_einsum
// types: any quantized
// values: small
// oracle: true
func.func @transposed(%x: tensor<3x5x$T>) -> tensor<5x3xi1> {
  %0 = "$OP"(%x) {einsum_config = "ab->ba"} : (tensor<3x5x$T>) -> tensor<5x3x$T>
  %1 = stablehlo.transpose %x, dims = [1, 0] : (tensor<3x5x$T>) -> tensor<5x3x$T>
  %2 = stablehlo.compare EQ, %0, %1 : (tensor<5x3x$T>, tensor<5x3x$T>) -> tensor<5x3xi1>
  return %2 : tensor<5x3xi1>
}
func.func @diagonal(%x: tensor<3x3x$T>) -> tensor<3xi1> {
  %0 = "$OP"(%x) {einsum_config = "aa->a"} : (tensor<3x3x$T>) -> tensor<3x$T>
  %1 = stablehlo.reshape %x : (tensor<3x3x$T>) -> tensor<9x$T>
  %2 = stablehlo.slice %1 [0:9:4] : (tensor<9x$T>) -> tensor<3x$T>
  %3 = stablehlo.compare EQ, %0, %2 : (tensor<3x$T>, tensor<3x$T>) -> tensor<3xi1>
  return %3 : tensor<3xi1>
}
// -----
// Operands and results of several kinds, which JAX's `preferred_element_type` asks for and the specification leaves out.
// ops: stablehlo.dot_general
// types: i1 i8 i32 ui8 bf16 f32 f64 complex
// also: i8 i32 bf16 f32 f64 complex
// values: ternary
// oracle: jax
func.func @another_result(%x: tensor<5x7x$T>, %y: tensor<7x3x$T>) -> tensor<5x3x$S> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<5x7x$T>, tensor<7x3x$T>) -> tensor<5x3x$S>
  return %0 : tensor<5x3x$S>
}
// -----
// ops: stablehlo.dot_general
// types: i8 i32 bf16 f32 f64 complex
// also: i1 i8 i32 ui8 bf16 f32 f64 complex
// values: ternary
// oracle: jax
func.func @another_operand(%x: tensor<5x7x$T>, %y: tensor<7x3x$S>) -> tensor<5x3x$T> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<5x7x$T>, tensor<7x3x$S>) -> tensor<5x3x$T>
  return %0 : tensor<5x3x$T>
}
// -----
// ops: stablehlo.convolution
// types: i1 i8 i32 ui8 bf16 f32 f64 complex
// also: i8 i32 bf16 f32 f64 complex
// values: ternary
// oracle: jax
func.func @another_result(%x: tensor<2x6x3x$T>, %y: tensor<3x3x2x$T>) -> tensor<2x4x2x$S> {
  %0 = stablehlo.convolution(%x, %y) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x6x3x$T>, tensor<3x3x2x$T>) -> tensor<2x4x2x$S>
  return %0 : tensor<2x4x2x$S>
}
