// One program for every op that violates a constraint of its section of the specification (`violates: C1` and so on;
// `type` is the table of inputs). The line of the first `$OP` is where the error must be; `says` is in the message.
// ops: abs cbrt ceil cosine exponential exponential_minus_one floor log log_plus_one logistic negate rsqrt sign sine sqrt tan tanh round_nearest_afz round_nearest_even
// violates: C1: shape(result) = shape(operand)
// says: shape|compatible
func.func @main(%x: tensor<4xf32>) -> tensor<5xf32> {
  %0 = "$OP"(%x) : (tensor<4xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
// -----
// ops: count_leading_zeros popcnt not
// violates: type: integers
// says: must be
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "$OP"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
// ops: is_finite
// violates: C1: shape(x) = shape(y)
// says: shape
func.func @main(%x: tensor<4xf32>) -> tensor<3xi1> {
  %0 = "$OP"(%x) : (tensor<4xf32>) -> tensor<3xi1>
  return %0 : tensor<3xi1>
}
// -----
// ops: real imag
// violates: C2: element_type(result) is that of the part
// says: compatible|element
func.func @main(%x: tensor<4xcomplex<f32>>) -> tensor<4xf64> {
  %0 = "$OP"(%x) : (tensor<4xcomplex<f32>>) -> tensor<4xf64>
  return %0 : tensor<4xf64>
}
// -----
// ops: add atan2 divide maximum minimum multiply power remainder subtract
// violates: C1: type(lhs) = type(rhs)
// says: type|shape
func.func @main(%x: tensor<4xf32>, %y: tensor<5xf32>) -> tensor<4xf32> {
  %0 = "$OP"(%x, %y) : (tensor<4xf32>, tensor<5xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
// ops: and or xor shift_left shift_right_arithmetic shift_right_logical
// violates: C1: type(lhs) = type(rhs)
// says: type|element
func.func @main(%x: tensor<4xi32>, %y: tensor<4xi64>) -> tensor<4xi32> {
  %0 = "$OP"(%x, %y) : (tensor<4xi32>, tensor<4xi64>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}
// -----
// ops: complex
// violates: C3: element_type(result) = complex(element_type(lhs))
// says: complex
func.func @main(%x: tensor<4xf32>) -> tensor<4xcomplex<f64>> {
  %0 = "$OP"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xcomplex<f64>>
  return %0 : tensor<4xcomplex<f64>>
}
// -----
// ops: compare
// violates: C3: compare_type of complex numbers is FLOAT
// says: TOTALORDER
func.func @main(%x: tensor<4xcomplex<f32>>) -> tensor<4xi1> {
  %0 = "$OP"(%x, %x) {comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type TOTALORDER>} : (tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}
// -----
// ops: remainder
// violates: complex numbers: TBD
// says: complex
func.func @main(%x: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %0 = "$OP"(%x, %x) : (tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  return %0 : tensor<4xcomplex<f32>>
}
// -----
// ops: clamp
// violates: C1: rank(min) = 0 or shape(min) = shape(operand)
// says: shape
func.func @main(%x: tensor<4xf32>, %m: tensor<3xf32>) -> tensor<4xf32> {
  %0 = "$OP"(%m, %x, %m) : (tensor<3xf32>, tensor<4xf32>, tensor<3xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
// ops: select
// violates: C1: rank(pred) = 0 or shape(pred) = shape(on_true)
// says: shape
func.func @main(%p: tensor<3xi1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "$OP"(%p, %x, %x) : (tensor<3xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
// ops: convert
// violates: C1: shape(operand) = shape(result)
// says: shape
func.func @main(%x: tensor<4xf32>) -> tensor<5xi32> {
  %0 = "$OP"(%x) : (tensor<4xf32>) -> tensor<5xi32>
  return %0 : tensor<5xi32>
}
// -----
// ops: bitcast_convert
// violates: C1: dim(result, R - 1) * num_bits(E') = num_bits(E)
// says: bit|rank|dimension
func.func @main(%x: tensor<4xf32>) -> tensor<4x3xi8> {
  %0 = "$OP"(%x) : (tensor<4xf32>) -> tensor<4x3xi8>
  return %0 : tensor<4x3xi8>
}
// -----
// ops: reduce_precision
// violates: C2: 1 <= exponent_bits
// says: exponent
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "$OP"(%x) {exponent_bits = 0 : i32, mantissa_bits = 4 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
// ops: uniform_quantize
// violates: C1: shape(operand) = shape(result)
// says: shape
func.func @main(%x: tensor<4xf32>) -> tensor<5x!quant.uniform<i8:f32, 0.5>> {
  %0 = "$OP"(%x) : (tensor<4xf32>) -> tensor<5x!quant.uniform<i8:f32, 0.5>>
  return %0 : tensor<5x!quant.uniform<i8:f32, 0.5>>
}
// -----
// ops: uniform_dequantize
// violates: type: a quantized tensor
// says: quantized
func.func @main(%x: tensor<4xi8>) -> tensor<4xf32> {
  %0 = "$OP"(%x) : (tensor<4xi8>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
// ops: constant
// violates: C1: type(value) = type(output)
// says: type|value
func.func @main() -> tensor<3xf32> {
  %0 = "$OP"() {value = dense<1.0> : tensor<4xf32>} : () -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
// -----
// ops: iota
// violates: C1: 0 <= iota_dimension < rank(output)
// says: dimension
func.func @main() -> tensor<3xf32> {
  %0 = "$OP"() {iota_dimension = 1 : i64} : () -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
// -----
// ops: dynamic_iota
// violates: C1: 0 <= iota_dimension < size(output_shape)
// says: dimension
func.func @main() -> tensor<3xf32> {
  %s = stablehlo.constant dense<3> : tensor<1xi64>
  %0 = "$OP"(%s) {iota_dimension = 1 : i64} : (tensor<1xi64>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
// -----
// ops: broadcast_in_dim
// violates: C4: is_unique(broadcast_dimensions)
// says: duplicate|unique
func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2x3xf32> {
  %0 = "$OP"(%x) {broadcast_dimensions = array<i64: 0, 0>} : (tensor<2x2xf32>) -> tensor<2x2x3xf32>
  return %0 : tensor<2x2x3xf32>
}
// -----
// ops: dynamic_broadcast_in_dim
// violates: C2: size(broadcast_dimensions) = rank(operand)
// says: dimensions
func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2x3xf32> {
  %s = stablehlo.constant dense<[2, 2, 3]> : tensor<3xi64>
  %0 = "$OP"(%x, %s) {broadcast_dimensions = array<i64: 0>} : (tensor<2x2xf32>, tensor<3xi64>) -> tensor<2x2x3xf32>
  return %0 : tensor<2x2x3xf32>
}
// -----
// ops: reshape
// violates: C2: size(operand) = size(result)
// says: elements
func.func @main(%x: tensor<2x2xf32>) -> tensor<5xf32> {
  %0 = "$OP"(%x) : (tensor<2x2xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
// -----
// ops: dynamic_reshape
// violates: C4: size(output_shape) = rank(result)
// says: output|rank|shape
func.func @main(%x: tensor<2x2xf32>, %s: tensor<2xi64>) -> tensor<4xf32> {
  %0 = "$OP"(%x, %s) : (tensor<2x2xf32>, tensor<2xi64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
// ops: transpose
// violates: C2: permutation is a permutation of range(rank(operand))
// says: permutation
func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = "$OP"(%x) {permutation = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}
// -----
// ops: slice
// violates: C3: limit_indices <= shape(operand)
// says: limit
func.func @main(%x: tensor<4xf32>) -> tensor<5xf32> {
  %0 = "$OP"(%x) {start_indices = array<i64: 0>, limit_indices = array<i64: 5>, strides = array<i64: 1>} : (tensor<4xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
// -----
// ops: dynamic_slice
// violates: C4: slice_sizes <= shape(operand)
// says: slice
func.func @main(%x: tensor<4xf32>, %i: tensor<i32>) -> tensor<5xf32> {
  %0 = "$OP"(%x, %i) {slice_sizes = array<i64: 5>} : (tensor<4xf32>, tensor<i32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
// -----
// ops: dynamic_update_slice
// violates: C6: shape(update) <= shape(operand)
// says: update
func.func @main(%x: tensor<4xf32>, %u: tensor<5xf32>, %i: tensor<i32>) -> tensor<4xf32> {
  %0 = "$OP"(%x, %u, %i) : (tensor<4xf32>, tensor<5xf32>, tensor<i32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
// ops: pad
// violates: C3: 0 <= interior_padding
// says: Interior padding
func.func @main(%x: tensor<4xf32>, %v: tensor<f32>) -> tensor<1xf32> {
  %0 = "$OP"(%x, %v) {edge_padding_low = array<i64: 0>, edge_padding_high = array<i64: 0>, interior_padding = array<i64: -1>} : (tensor<4xf32>, tensor<f32>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}
// -----
// ops: dynamic_pad
// violates: C2: size(edge_padding_low) = rank(operand)
// says: padding|rank
func.func @main(%x: tensor<4xf32>, %v: tensor<f32>, %p: tensor<2xi64>) -> tensor<6xf32> {
  %0 = "$OP"(%x, %v, %p, %p, %p) : (tensor<4xf32>, tensor<f32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
// -----
// ops: reverse
// violates: C2: is_unique(dimensions)
// says: unique
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "$OP"(%x) {dimensions = array<i64: 0, 0>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
// ops: concatenate
// violates: C2: same(shape(inputs...)) except for dim(inputs..., dimension)
// says: shape|dimension
func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>) -> tensor<4x3xf32> {
  %0 = "$OP"(%x, %y) {dimension = 0 : i64} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}
// -----
// ops: get_dimension_size
// violates: C1: 0 <= dimension < rank(operand)
// says: dimension
func.func @main(%x: tensor<2x3xf32>) -> tensor<i32> {
  %0 = "$OP"(%x) {dimension = 2 : i64} : (tensor<2x3xf32>) -> tensor<i32>
  return %0 : tensor<i32>
}
// -----
// ops: gather
// violates: C9: slice_sizes[collapsed_slice_dims...] <= 1
// says: slice_sizes
func.func @main(%x: tensor<5x4xf32>, %i: tensor<3x1xi32>) -> tensor<3x4xf32> {
  %0 = "$OP"(%x, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 2, 4>} : (tensor<5x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
// -----
// ops: dynamic_gather
// violates: C2: 0 <= index_vector_dim <= rank(start_indices)
// says: index_vector_dim
func.func @main(%x: tensor<5x4xf32>, %i: tensor<3x1xi32>, %s: tensor<2xi32>) -> tensor<3x4xf32> {
  %0 = "$OP"(%x, %i, %s) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 3>} : (tensor<5x4xf32>, tensor<3x1xi32>, tensor<2xi32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
// -----
// ops: scatter
// violates: C6: element_type(updates...) = element_type(inputs...)
// says: type
func.func @main(%x: tensor<5xf32>, %i: tensor<3x1xi32>, %u: tensor<3xi32>) -> tensor<5xf32> {
  %0 = "$OP"(%x, %i, %u) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %b : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>} : (tensor<5xf32>, tensor<3x1xi32>, tensor<3xi32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
// -----
// ops: select_and_scatter
// violates: C2: shape(source) = num_windows
// says: source
func.func @main(%x: tensor<6xf32>, %s: tensor<4xf32>, %i: tensor<f32>) -> tensor<6xf32> {
  %0 = "$OP"(%x, %s, %i) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %b : tensor<f32>
  }) {window_dimensions = array<i64: 2>, window_strides = array<i64: 2>} : (tensor<6xf32>, tensor<4xf32>, tensor<f32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
// -----
// ops: sort
// violates: C4: -R <= dimension < R
// says: dimension
func.func @main(%x: tensor<6xf32>) -> tensor<6xf32> {
  %0 = "$OP"(%x) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) {dimension = 1 : i64} : (tensor<6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
// -----
// ops: map
// violates: C3: dimensions = range(rank(inputs[0]))
// says: dimension
func.func @main(%x: tensor<6xf32>) -> tensor<6xf32> {
  %0 = "$OP"(%x) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {dimensions = array<i64: 1>} : (tensor<6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
// -----
// ops: reduce
// violates: C5: is_unique(dimensions)
// says: [Dd]uplicate|unique
func.func @main(%x: tensor<6x2xf32>, %i: tensor<f32>) -> tensor<2xf32> {
  %0 = "$OP"(%x, %i) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {dimensions = array<i64: 0, 0>} : (tensor<6x2xf32>, tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
// -----
// ops: reduce_window
// violates: C5: 0 < window_dimensions
// says: window
func.func @main(%x: tensor<6xf32>, %i: tensor<f32>) -> tensor<7xf32> {
  %0 = "$OP"(%x, %i) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {window_dimensions = array<i64: 0>} : (tensor<6xf32>, tensor<f32>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}
// -----
// ops: dot_general
// violates: C10: contracted dimensions have one size
// says: contracting
func.func @main(%x: tensor<2x3xf32>, %y: tensor<4x5xf32>) -> tensor<2x5xf32> {
  %0 = "$OP"(%x, %y) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>} : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}
// -----
// ops: convolution
// violates: C11: dim(lhs, input_feature_dimension) % feature_group_count = 0
// says: feature
func.func @main(%x: tensor<1x7x3xf32>, %k: tensor<3x1x4xf32>) -> tensor<1x5x4xf32> {
  %0 = "$OP"(%x, %k) {dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 2 : i64, batch_group_count = 1 : i64} : (tensor<1x7x3xf32>, tensor<3x1x4xf32>) -> tensor<1x5x4xf32>
  return %0 : tensor<1x5x4xf32>
}
// -----
// ops: dynamic_conv
// violates: C4: shape(padding) = [N - 2, 2]
// says: padding
func.func @main(%x: tensor<1x7x3xf32>, %k: tensor<3x3x4xf32>, %p: tensor<3x2xi64>) -> tensor<1x5x4xf32> {
  %0 = "$OP"(%x, %k, %p) {dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64} : (tensor<1x7x3xf32>, tensor<3x3x4xf32>, tensor<3x2xi64>) -> tensor<1x5x4xf32>
  return %0 : tensor<1x5x4xf32>
}
// -----
// ops: cholesky
// violates: C3: the last two dimensions are equal
// says: minor|square|dimension
func.func @main(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = "$OP"(%x) {lower = true} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
// -----
// ops: triangular_solve
// violates: C3: the shapes of a and b fit
// says: dimension|shape
func.func @main(%x: tensor<3x3xf32>, %y: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %0 = "$OP"(%x, %y) {left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<3x3xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
// -----
// ops: fft
// violates: C1: size(fft_length) <= rank(operand)
// says: rank|length
func.func @main(%x: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %0 = "$OP"(%x) {fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 4, 4>} : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  return %0 : tensor<4xcomplex<f32>>
}
// -----
// ops: rng
// violates: C2: normal numbers are floats
// says: float|type
func.func @main(%a: tensor<i32>, %s: tensor<1xi64>) -> tensor<3xi32> {
  %0 = "$OP"(%a, %a, %s) {rng_distribution = #stablehlo<rng_distribution NORMAL>} : (tensor<i32>, tensor<i32>, tensor<1xi64>) -> tensor<3xi32>
  return %0 : tensor<3xi32>
}
// -----
// ops: rng_bit_generator
// violates: C2: size(initial_state) is 2 for THREE_FRY
// says: THREE_FRY
func.func @main(%s: tensor<3xui64>) -> tensor<4xui32> {
  %0, %1 = "$OP"(%s) {rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>} : (tensor<3xui64>) -> (tensor<3xui64>, tensor<4xui32>)
  return %1 : tensor<4xui32>
}
// -----
// ops: batch_norm_inference
// violates: C1: 0 <= feature_index < rank(operand)
// says: featureIndex
func.func @main(%x: tensor<3x2xf32>, %s: tensor<2xf32>) -> tensor<3x2xf32> {
  %0 = "$OP"(%x, %s, %s, %s, %s) {feature_index = 2 : i64, epsilon = 0.1 : f32} : (tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}
// -----
// ops: batch_norm_training
// violates: C3: size(scale) = dim(operand, feature_index)
// says: scale|feature
func.func @main(%x: tensor<3x2xf32>, %s: tensor<3xf32>) -> tensor<3x2xf32> {
  %0:3 = "$OP"(%x, %s, %s) {feature_index = 1 : i64, epsilon = 0.1 : f32} : (tensor<3x2xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3x2xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#0 : tensor<3x2xf32>
}
// -----
// ops: batch_norm_grad
// violates: C5: size(scale) = dim(operand, feature_index)
// says: scale|feature
func.func @main(%x: tensor<3x2xf32>, %s: tensor<3xf32>) -> tensor<3x2xf32> {
  %0:3 = "$OP"(%x, %s, %s, %s, %x) {feature_index = 1 : i64, epsilon = 0.1 : f32} : (tensor<3x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#0 : tensor<3x2xf32>
}
// -----
// ops: if
// violates: C2: output_types(true_branch) = output_types(false_branch)
// says: type|branch
func.func @main(%p: tensor<i1>, %x: tensor<3xf32>, %y: tensor<4xf32>) -> tensor<3xf32> {
  %0 = "$OP"(%p) ({ stablehlo.return %x : tensor<3xf32> }, { stablehlo.return %y : tensor<4xf32> }) : (tensor<i1>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
// -----
// ops: case
// violates: C3: same(output_types(branches...))
// says: type|branch
func.func @main(%p: tensor<i32>, %x: tensor<3xf32>, %y: tensor<4xf32>) -> tensor<3xf32> {
  %0 = "$OP"(%p) ({ stablehlo.return %x : tensor<3xf32> }, { stablehlo.return %y : tensor<4xf32> }) : (tensor<i32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
// -----
// ops: while
// violates: C1: cond gives tensor<i1>
// says: i1|cond
func.func @main(%x: tensor<i32>) -> tensor<i32> {
  %0 = "$OP"(%x) ({
  ^bb0(%a: tensor<i32>):
    stablehlo.return %a : tensor<i32>
  }, {
  ^bb0(%a: tensor<i32>):
    stablehlo.return %a : tensor<i32>
  }) : (tensor<i32>) -> tensor<i32>
  return %0 : tensor<i32>
}
// -----
// ops: optimization_barrier
// violates: C1: type(operand...) = type(result...)
// says: type
func.func @main(%x: tensor<3xf32>) -> tensor<4xf32> {
  %0 = "$OP"(%x) : (tensor<3xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
// ops: composite
// violates: C3: the types of the decomposition fit
// says: type|decomposition
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "$OP"(%x) {name = "mine.op", decomposition = @of_four} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
func.func private @of_four(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
// -----
// ops: custom_call
// violates: a target that nobody has registered
// says: no_such_target
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "$OP"(%x) {call_target_name = "no_such_target"} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
// -----
// ops: tuple
// violates: C1: the result has the types of the operands
// says: type
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "$OP"(%x) : (tensor<3xf32>) -> tuple<tensor<4xf32>>
  return %x : tensor<3xf32>
}
// -----
// ops: get_tuple_element
// violates: C1: 0 <= index < size(operand)
// says: index
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %t = stablehlo.tuple %x : tuple<tensor<3xf32>>
  %0 = "$OP"(%t) {index = 1 : i32} : (tuple<tensor<3xf32>>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
// -----
// ops: replica_id partition_id
// violates: type: tensor<ui32>
// says: 32-bit unsigned
func.func @main() -> tensor<i32> {
  %0 = "$OP"() : () -> tensor<i32>
  return %0 : tensor<i32>
}
// -----
// ops: after_all
// violates: type: tokens
// says: token
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "$OP"(%x) : (tensor<3xf32>) -> !stablehlo.token
  return %x : tensor<3xf32>
}
// -----
// ops: infeed
// violates: C2: the last result is a token
// says: token
func.func @main(%t: !stablehlo.token) -> tensor<3xf32> {
  %0 = "$OP"(%t) : (!stablehlo.token) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
// -----
// ops: outfeed
// violates: type: the last operand is a token
// says: token
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "$OP"(%x) : (tensor<3xf32>) -> !stablehlo.token
  return %x : tensor<3xf32>
}
// -----
// ops: send
// violates: who sends to whom is not said
// says: source_target_pairs
func.func @main(%x: tensor<3xf32>, %t: !stablehlo.token) -> tensor<3xf32> {
  %0 = "$OP"(%x, %t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<3xf32>, !stablehlo.token) -> !stablehlo.token
  return %x : tensor<3xf32>
}
// -----
// ops: recv
// violates: C4: the last result is a token
// says: token
func.func @main(%t: !stablehlo.token) -> tensor<3xf32> {
  %0 = "$OP"(%t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 3>, is_host_transfer = true} : (!stablehlo.token) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
// -----
// ops: all_gather
// violates: C4: 0 <= replica_groups < the number of replicas
// says: replica 1
func.func @main(%x: tensor<3xf32>) -> tensor<6xf32> {
  %0 = "$OP"(%x) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<3xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
// -----
// ops: all_reduce collective_reduce
// violates: C3: 0 <= replica_groups < the number of replicas
// says: replica 1
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "$OP"(%x) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %r = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
// -----
// ops: reduce_scatter
// violates: C1: dim(operand, scatter_dimension) % dim(process_groups, 1) = 0
// says: scatter|divi
func.func @main(%x: tensor<3xf32>) -> tensor<1xf32> {
  %0 = "$OP"(%x) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %r = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }) {scatter_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<3xf32>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}
// -----
// ops: all_to_all
// violates: C2: dim(operand, split_dimension) % split_count = 0
// says: split
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "$OP"(%x) {split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
// -----
// ops: collective_broadcast
// violates: C1: is_unique(replica_groups)
// says: unique|twice|duplicate|more than once
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "$OP"(%x) {replica_groups = dense<[[0, 0]]> : tensor<1x2xi64>} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
// -----
// ops: collective_permute
// violates: C2: is_unique(source_target_pairs[:, 0])
// says: unique|twice|duplicate|more than once
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "$OP"(%x) {source_target_pairs = dense<[[0, 0], [0, 0]]> : tensor<2x2xi64>} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
// -----
// ops: async_start
// violates: the future goes elsewhere than to async_done
// says: future
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "$OP"(%x) ({
  ^bb0(%a: tensor<3xf32>):
    %r = "stablehlo.slice"(%a) {start_indices = array<i64: 0>, limit_indices = array<i64: 3>, strides = array<i64: 1>} : (tensor<3xf32>) -> tensor<3xf32>
    stablehlo.return %r : tensor<3xf32>
  }) : (tensor<3xf32>) -> !stablehlo.future<tensor<3xf32>>
  %1 = "stablehlo.custom_call"(%0) {call_target_name = "foo"} : (!stablehlo.future<tensor<3xf32>>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}
// -----
// ops: async_done
// violates: type: a future
// says: future
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "$OP"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
