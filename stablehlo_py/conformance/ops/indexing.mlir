// ops: stablehlo.gather
// types: any quantized
func.func @rows(%x: tensor<5x4x$T>, %i: tensor<3x1xi32> {case.range = [-2, 7]}) -> tensor<3x4x$T> {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>, indices_are_sorted = false}> : (tensor<5x4x$T>, tensor<3x1xi32>) -> tensor<3x4x$T>
  return %0 : tensor<3x4x$T>
}
func.func @windows(%x: tensor<5x6x$T>, %i: tensor<3x2xi64> {case.range = [-2, 7]}) -> tensor<2x3x3x$T> {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1], start_index_map = [1, 0], index_vector_dim = 1>, slice_sizes = array<i64: 2, 3>}> : (tensor<5x6x$T>, tensor<3x2xi64>) -> tensor<2x3x3x$T>
  return %0 : tensor<2x3x3x$T>
}
func.func @batching(%x: tensor<2x5x3x$T>, %i: tensor<3x4x2xi32> {case.range = [-1, 6]}) -> tensor<3x4x2x2x$T> {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [3], operand_batching_dims = [0, 2], start_indices_batching_dims = [2, 0], start_index_map = [1], index_vector_dim = 3>, slice_sizes = array<i64: 1, 2, 1>}> : (tensor<2x5x3x$T>, tensor<3x4x2xi32>) -> tensor<3x4x2x2x$T>
  return %0 : tensor<3x4x2x2x$T>
}
func.func @scalar_index(%x: tensor<5x$T>, %i: tensor<ui8> {case.range = [3, 3]}) -> tensor<$T> {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 0>, slice_sizes = array<i64: 1>}> : (tensor<5x$T>, tensor<ui8>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @leading_index_vector(%x: tensor<5x6x$T>, %i: tensor<2x3xi32> {case.range = [0, 5]}) -> tensor<3x$T> {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 0>, slice_sizes = array<i64: 1, 1>}> : (tensor<5x6x$T>, tensor<2x3xi32>) -> tensor<3x$T>
  return %0 : tensor<3x$T>
}
func.func @empty(%x: tensor<5x4x$T>, %i: tensor<0x1xi32>) -> tensor<0x4x$T> {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<5x4x$T>, tensor<0x1xi32>) -> tensor<0x4x$T>
  return %0 : tensor<0x4x$T>
}
// -----
// ops: stablehlo.torch_index_select
// types: any quantized
// oracle: jax
func.func @rows(%x: tensor<5x4x$T>, %i: tensor<3xi32> {case.range = [0, 4]}) -> tensor<3x4x$T> {
  %0 = "stablehlo.torch_index_select"(%x, %i) <{dim = 0 : i64, batch_dims = 0 : i64}> : (tensor<5x4x$T>, tensor<3xi32>) -> tensor<3x4x$T>
  return %0 : tensor<3x4x$T>
}
func.func @columns(%x: tensor<5x4x$T>, %i: tensor<2x3xi32> {case.range = [0, 3]}) -> tensor<5x2x3x$T> {
  %0 = "stablehlo.torch_index_select"(%x, %i) <{dim = 1 : i64, batch_dims = 0 : i64}> : (tensor<5x4x$T>, tensor<2x3xi32>) -> tensor<5x2x3x$T>
  return %0 : tensor<5x2x3x$T>
}
func.func @batch(%x: tensor<2x5x3x$T>, %i: tensor<2x4xi32> {case.range = [0, 4]}) -> tensor<2x4x3x$T> {
  %0 = "stablehlo.torch_index_select"(%x, %i) <{dim = 1 : i64, batch_dims = 1 : i64}> : (tensor<2x5x3x$T>, tensor<2x4xi32>) -> tensor<2x4x3x$T>
  return %0 : tensor<2x4x3x$T>
}
// -----
// ops: stablehlo.scatter
// types: any quantized
func.func @set_rows(%x: tensor<5x4x$T>, %i: tensor<3x1xi32> {case.range = [-1, 6]}, %u: tensor<3x4x$T>) -> tensor<5x4x$T> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    stablehlo.return %b : tensor<$T>
  }) : (tensor<5x4x$T>, tensor<3x1xi32>, tensor<3x4x$T>) -> tensor<5x4x$T>
  return %0 : tensor<5x4x$T>
}
func.func @keep(%x: tensor<5x$T>, %i: tensor<3x1xi32> {case.range = [-1, 6]}, %u: tensor<3x$T>) -> tensor<5x$T> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    stablehlo.return %a : tensor<$T>
  }) : (tensor<5x$T>, tensor<3x1xi32>, tensor<3x$T>) -> tensor<5x$T>
  return %0 : tensor<5x$T>
}
func.func @empty_updates(%x: tensor<5x$T>, %i: tensor<0x1xi32>, %u: tensor<0x$T>) -> tensor<5x$T> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    stablehlo.return %b : tensor<$T>
  }) : (tensor<5x$T>, tensor<0x1xi32>, tensor<0x$T>) -> tensor<5x$T>
  return %0 : tensor<5x$T>
}
// -----
// ops: stablehlo.scatter
// types: number i1
// values: ternary
func.func @add(%x: tensor<5x6x$T>, %i: tensor<4x2xi32> {case.range = [-1, 6]}, %u: tensor<4x$T>) -> tensor<5x6x$T> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %s = stablehlo.add %a, %b : tensor<$T>
    stablehlo.return %s : tensor<$T>
  }) : (tensor<5x6x$T>, tensor<4x2xi32>, tensor<4x$T>) -> tensor<5x6x$T>
  return %0 : tensor<5x6x$T>
}
func.func @windows(%x: tensor<5x6x$T>, %i: tensor<4x1xi32> {case.range = [-1, 5]}, %u: tensor<4x3x2x$T>) -> tensor<5x6x$T> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], scatter_dims_to_operand_dims = [1], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %s = stablehlo.add %b, %a : tensor<$T>
    stablehlo.return %s : tensor<$T>
  }) : (tensor<5x6x$T>, tensor<4x1xi32>, tensor<4x3x2x$T>) -> tensor<5x6x$T>
  return %0 : tensor<5x6x$T>
}
func.func @batching(%x: tensor<2x5x3x$T>, %i: tensor<3x4x2xi32> {case.range = [-1, 5]}, %u: tensor<3x4x2x2x$T>) -> tensor<2x5x3x$T> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [3], input_batching_dims = [0, 2], scatter_indices_batching_dims = [2, 0], scatter_dims_to_operand_dims = [1], index_vector_dim = 3>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %s = stablehlo.maximum %a, %b : tensor<$T>
    stablehlo.return %s : tensor<$T>
  }) : (tensor<2x5x3x$T>, tensor<3x4x2xi32>, tensor<3x4x2x2x$T>) -> tensor<2x5x3x$T>
  return %0 : tensor<2x5x3x$T>
}
func.func @two_inputs(%x: tensor<5x$T>, %y: tensor<5xi32>, %i: tensor<7x1xi64> {case.range = [0, 4]}, %u: tensor<7x$T>, %v: tensor<7xi32>) -> (tensor<5x$T>, tensor<5xi32>) {
  %0:2 = "stablehlo.scatter"(%x, %y, %i, %u, %v) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<i32>, %c: tensor<$T>, %d: tensor<i32>):
    %s = stablehlo.multiply %a, %c : tensor<$T>
    %t = stablehlo.subtract %d, %b : tensor<i32>
    stablehlo.return %s, %t : tensor<$T>, tensor<i32>
  }) : (tensor<5x$T>, tensor<5xi32>, tensor<7x1xi64>, tensor<7x$T>, tensor<7xi32>) -> (tensor<5x$T>, tensor<5xi32>)
  return %0#0, %0#1 : tensor<5x$T>, tensor<5xi32>
}
func.func @captured(%x: tensor<5x$T>, %c: tensor<$T>, %i: tensor<7x1xi32> {case.range = [0, 4]}, %u: tensor<7x$T>) -> tensor<5x$T> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %s = stablehlo.multiply %b, %c : tensor<$T>
    %t = stablehlo.add %s, %a : tensor<$T>
    stablehlo.return %t : tensor<$T>
  }) : (tensor<5x$T>, tensor<7x1xi32>, tensor<7x$T>) -> tensor<5x$T>
  return %0 : tensor<5x$T>
}
func.func @scalar_index(%x: tensor<5x$T>, %i: tensor<i32> {case.range = [2, 2]}, %u: tensor<2x$T>) -> tensor<5x$T> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 0>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %s = stablehlo.add %a, %b : tensor<$T>
    stablehlo.return %s : tensor<$T>
  }) : (tensor<5x$T>, tensor<i32>, tensor<2x$T>) -> tensor<5x$T>
  return %0 : tensor<5x$T>
}
// -----
// ops: stablehlo.sort
// types: small-float half float
// values: special
// oracle: jax
func.func @total_order(%x: tensor<67x$T>) -> tensor<67x$T> {
  %0 = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %p = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<$T>, tensor<$T>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<67x$T>) -> tensor<67x$T>
  return %0 : tensor<67x$T>
}
// -----
// ops: stablehlo.sort
// types: i1 integer
// values: special
func.func @ascending(%x: tensor<67x$T>) -> tensor<67x$T> {
  %0 = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %p = stablehlo.compare LT, %a, %b : (tensor<$T>, tensor<$T>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<67x$T>) -> tensor<67x$T>
  return %0 : tensor<67x$T>
}
// -----
// ops: stablehlo.sort
// types: i1 integer small-float half float
// values: small
func.func @descending_rows(%x: tensor<3x17x$T>) -> tensor<3x17x$T> {
  %0 = "stablehlo.sort"(%x) <{dimension = -1 : i64, is_stable = false}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %p = stablehlo.compare GT, %a, %b : (tensor<$T>, tensor<$T>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<3x17x$T>) -> tensor<3x17x$T>
  return %0 : tensor<3x17x$T>
}
func.func @keys_and_values(%x: tensor<9x4x$T>, %y: tensor<9x4xi32>) -> (tensor<9x4x$T>, tensor<9x4xi32>) {
  %0:2 = "stablehlo.sort"(%x, %y) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>, %c: tensor<i32>, %d: tensor<i32>):
    %p = stablehlo.compare LT, %a, %b : (tensor<$T>, tensor<$T>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<9x4x$T>, tensor<9x4xi32>) -> (tensor<9x4x$T>, tensor<9x4xi32>)
  return %0#0, %0#1 : tensor<9x4x$T>, tensor<9x4xi32>
}
func.func @scalar(%x: tensor<$T>) -> tensor<$T> {
  %0 = "stablehlo.reshape"(%x) : (tensor<$T>) -> tensor<1x$T>
  %1 = "stablehlo.sort"(%0) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %p = stablehlo.compare LT, %a, %b : (tensor<$T>, tensor<$T>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<1x$T>) -> tensor<1x$T>
  %2 = "stablehlo.reshape"(%1) : (tensor<1x$T>) -> tensor<$T>
  return %2 : tensor<$T>
}
func.func @empty(%x: tensor<0x3x$T>) -> tensor<0x3x$T> {
  %0 = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %p = stablehlo.compare LT, %a, %b : (tensor<$T>, tensor<$T>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<0x3x$T>) -> tensor<0x3x$T>
  return %0 : tensor<0x3x$T>
}
func.func @captured(%x: tensor<9x$T>, %c: tensor<$T>) -> tensor<9x$T> {
  %0 = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %l = stablehlo.compare LT, %a, %c : (tensor<$T>, tensor<$T>) -> tensor<i1>
    %r = stablehlo.compare GE, %b, %c : (tensor<$T>, tensor<$T>) -> tensor<i1>
    %p = stablehlo.and %l, %r : tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<9x$T>) -> tensor<9x$T>
  return %0 : tensor<9x$T>
}
// -----
// ops: stablehlo.sort
// types: complex
func.func @by_real_part(%x: tensor<9x$T>) -> tensor<9x$T> {
  %0 = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %c = stablehlo.real %a : (tensor<$T>) -> tensor<$P>
    %d = stablehlo.real %b : (tensor<$T>) -> tensor<$P>
    %p = stablehlo.compare LT, %c, %d : (tensor<$P>, tensor<$P>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<9x$T>) -> tensor<9x$T>
  return %0 : tensor<9x$T>
}
// -----
// ops: stablehlo.sort
// types: quantized
func.func @by_value(%x: tensor<9x$T>) -> tensor<9x$T> {
  %0 = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %p = stablehlo.compare LT, %a, %b : (tensor<$T>, tensor<$T>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<9x$T>) -> tensor<9x$T>
  return %0 : tensor<9x$T>
}
// -----
// ops: stablehlo.select_and_scatter
// types: i1 integer small-float half float
// values: ternary
func.func @max_pool_grad(%x: tensor<6x7x$T>, %s: tensor<3x3x$T>, %i: tensor<$T> {case.range = [0, 0]}) -> tensor<6x7x$T> {
  %0 = "stablehlo.select_and_scatter"(%x, %s, %i) <{window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 2, 2>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %p = stablehlo.compare GE, %a, %b : (tensor<$T>, tensor<$T>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %r = stablehlo.add %a, %b : tensor<$T>
    stablehlo.return %r : tensor<$T>
  }) : (tensor<6x7x$T>, tensor<3x3x$T>, tensor<$T>) -> tensor<6x7x$T>
  return %0 : tensor<6x7x$T>
}
func.func @padded(%x: tensor<5x4x$T>, %s: tensor<3x4x$T>, %i: tensor<$T> {case.range = [-1, -1]}) -> tensor<5x4x$T> {
  %0 = "stablehlo.select_and_scatter"(%x, %s, %i) <{window_dimensions = array<i64: 3, 2>, window_strides = array<i64: 2, 1>, padding = dense<[[1, 1], [0, 1]]> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %p = stablehlo.compare LT, %a, %b : (tensor<$T>, tensor<$T>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %r = stablehlo.maximum %a, %b : tensor<$T>
    stablehlo.return %r : tensor<$T>
  }) : (tensor<5x4x$T>, tensor<3x4x$T>, tensor<$T>) -> tensor<5x4x$T>
  return %0 : tensor<5x4x$T>
}
func.func @defaults(%x: tensor<5x$T>, %s: tensor<5x$T>, %i: tensor<$T> {case.range = [0, 0]}) -> tensor<5x$T> {
  %0 = "stablehlo.select_and_scatter"(%x, %s, %i) <{window_dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %p = stablehlo.compare GE, %a, %b : (tensor<$T>, tensor<$T>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %r = stablehlo.add %a, %b : tensor<$T>
    stablehlo.return %r : tensor<$T>
  }) : (tensor<5x$T>, tensor<5x$T>, tensor<$T>) -> tensor<5x$T>
  return %0 : tensor<5x$T>
}
// -----
// ops: stablehlo.select_and_scatter
// types: complex
// values: ternary
func.func @by_real_part(%x: tensor<6x$T>, %s: tensor<3x$T>, %i: tensor<$T> {case.range = [0, 0]}) -> tensor<6x$T> {
  %0 = "stablehlo.select_and_scatter"(%x, %s, %i) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %c = stablehlo.real %a : (tensor<$T>) -> tensor<$P>
    %d = stablehlo.real %b : (tensor<$T>) -> tensor<$P>
    %p = stablehlo.compare GE, %c, %d : (tensor<$P>, tensor<$P>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %r = stablehlo.add %a, %b : tensor<$T>
    stablehlo.return %r : tensor<$T>
  }) : (tensor<6x$T>, tensor<3x$T>, tensor<$T>) -> tensor<6x$T>
  return %0 : tensor<6x$T>
}
// -----
// ops: stablehlo.select_and_scatter
// types: quantized
// values: ternary
func.func @quantized(%x: tensor<6x$T>, %s: tensor<3x$T>, %i: tensor<$T> {case.range = [0, 0]}) -> tensor<6x$T> {
  %0 = "stablehlo.select_and_scatter"(%x, %s, %i) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %p = stablehlo.compare GE, %a, %b : (tensor<$T>, tensor<$T>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %r = stablehlo.add %a, %b : tensor<$T>
    stablehlo.return %r : tensor<$T>
  }) : (tensor<6x$T>, tensor<3x$T>, tensor<$T>) -> tensor<6x$T>
  return %0 : tensor<6x$T>
}
// -----
// Scalars from outside in both bodies.
// ops: stablehlo.select_and_scatter
// types: integer half float
// values: ternary
// oracle: reference
func.func @captures(%x: tensor<5x4x$T>, %s: tensor<3x2x$T>, %i: tensor<$T>, %c: tensor<$T>, %d: tensor<$T>) -> tensor<5x4x$T> {
  %0 = "stablehlo.select_and_scatter"(%x, %s, %i) <{window_dimensions = array<i64: 3, 2>, window_strides = array<i64: 2, 2>, padding = dense<[[1, 1], [0, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %e = stablehlo.multiply %b, %c : tensor<$T>
    %p = stablehlo.compare GE, %a, %e : (tensor<$T>, tensor<$T>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %e = stablehlo.multiply %b, %d : tensor<$T>
    %r = stablehlo.add %a, %e : tensor<$T>
    stablehlo.return %r : tensor<$T>
  }) : (tensor<5x4x$T>, tensor<3x2x$T>, tensor<$T>) -> tensor<5x4x$T>
  return %0 : tensor<5x4x$T>
}
