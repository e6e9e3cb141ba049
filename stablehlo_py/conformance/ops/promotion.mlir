// Bodies that compute in another type than that of the operands (specification, `is_promotable`): what is right is the
// op on operands that are converted first.
// ops: stablehlo.reduce
// types: any
// also: promotable
// values: ternary
// oracle: reference
func.func @rows(%x: tensor<3x17x$T>, %i: tensor<$T> {case.range = [0, 0]}) -> tensor<3x$S> {
  %0 = "$OP"(%x, %i) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<$S>, %b: tensor<$S>):
    %s = stablehlo.add %a, %b : tensor<$S>
    stablehlo.return %s : tensor<$S>
  }) : (tensor<3x17x$T>, tensor<$T>) -> tensor<3x$S>
  return %0 : tensor<3x$S>
}
func.func @wide_init(%x: tensor<5x7x$T>, %i: tensor<$S> {case.range = [0, 0]}) -> tensor<7x$S> {
  %0 = "$OP"(%x, %i) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<$S>, %b: tensor<$S>):
    %s = stablehlo.add %a, %b : tensor<$S>
    stablehlo.return %s : tensor<$S>
  }) : (tensor<5x7x$T>, tensor<$S>) -> tensor<7x$S>
  return %0 : tensor<7x$S>
}
func.func @no_dimension(%x: tensor<5x$T>, %i: tensor<$T> {case.range = [0, 0]}) -> tensor<5x$S> {
  %0 = "$OP"(%x, %i) <{dimensions = array<i64>}> ({
  ^bb0(%a: tensor<$S>, %b: tensor<$S>):
    %s = stablehlo.add %a, %b : tensor<$S>
    stablehlo.return %s : tensor<$S>
  }) : (tensor<5x$T>, tensor<$T>) -> tensor<5x$S>
  return %0 : tensor<5x$S>
}
func.func @own_body(%x: tensor<3x17x$T>, %i: tensor<$T> {case.range = [-1, -1]}) -> tensor<3x$S> {
  %0 = "$OP"(%x, %i) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<$S>, %b: tensor<$S>):
    %e = stablehlo.compare NE, %a, %b : (tensor<$S>, tensor<$S>) -> tensor<i1>
    %m = stablehlo.maximum %a, %b : tensor<$S>
    %s = stablehlo.select %e, %m, %a : tensor<i1>, tensor<$S>
    stablehlo.return %s : tensor<$S>
  }) : (tensor<3x17x$T>, tensor<$T>) -> tensor<3x$S>
  return %0 : tensor<3x$S>
}
func.func @two_operands(%x: tensor<3x17x$T>, %y: tensor<3x17xf32>, %i: tensor<$T> {case.range = [0, 0]}, %j: tensor<f32> {case.range = [0, 0]}) -> (tensor<3x$S>, tensor<3xf64>) {
  %0:2 = "$OP"(%x, %y, %i, %j) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<$S>, %c: tensor<f64>, %b: tensor<$S>, %d: tensor<f64>):
    %s = stablehlo.add %a, %b : tensor<$S>
    %t = stablehlo.add %c, %d : tensor<f64>
    stablehlo.return %s, %t : tensor<$S>, tensor<f64>
  }) : (tensor<3x17x$T>, tensor<3x17xf32>, tensor<$T>, tensor<f32>) -> (tensor<3x$S>, tensor<3xf64>)
  return %0#0, %0#1 : tensor<3x$S>, tensor<3xf64>
}
// -----
// ops: stablehlo.reduce_window
// types: any
// also: promotable
// values: ternary
// oracle: reference
func.func @sums(%x: tensor<6x7x$T>, %i: tensor<$T> {case.range = [0, 0]}) -> tensor<3x5x$S> {
  %0 = "$OP"(%x, %i) <{window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 2, 1>}> ({
  ^bb0(%a: tensor<$S>, %b: tensor<$S>):
    %s = stablehlo.add %a, %b : tensor<$S>
    stablehlo.return %s : tensor<$S>
  }) : (tensor<6x7x$T>, tensor<$T>) -> tensor<3x5x$S>
  return %0 : tensor<3x5x$S>
}
func.func @wide_init(%x: tensor<9x$T>, %i: tensor<$S> {case.range = [0, 0]}) -> tensor<9x$S> {
  %0 = "$OP"(%x, %i) <{window_dimensions = array<i64: 9>, padding = dense<[[8, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<$S>, %b: tensor<$S>):
    %s = stablehlo.add %a, %b : tensor<$S>
    stablehlo.return %s : tensor<$S>
  }) : (tensor<9x$T>, tensor<$S>) -> tensor<9x$S>
  return %0 : tensor<9x$S>
}
func.func @own_body(%x: tensor<6x7x$T>, %i: tensor<$T> {case.range = [-1, -1]}) -> tensor<5x6x$S> {
  %0 = "$OP"(%x, %i) <{window_dimensions = array<i64: 2, 2>}> ({
  ^bb0(%a: tensor<$S>, %b: tensor<$S>):
    %e = stablehlo.compare NE, %a, %b : (tensor<$S>, tensor<$S>) -> tensor<i1>
    %m = stablehlo.maximum %a, %b : tensor<$S>
    %s = stablehlo.select %e, %m, %a : tensor<i1>, tensor<$S>
    stablehlo.return %s : tensor<$S>
  }) : (tensor<6x7x$T>, tensor<$T>) -> tensor<5x6x$S>
  return %0 : tensor<5x6x$S>
}
// -----
// ops: stablehlo.scatter
// types: any
// also: promotable
// values: ternary
// oracle: reference
func.func @points(%x: tensor<5x$T>, %j: tensor<7x1xi32> {case.range = [-1, 5]}, %u: tensor<7x$T>) -> tensor<5x$S> {
  %0 = "$OP"(%x, %j, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<$S>, %b: tensor<$S>):
    %s = stablehlo.add %a, %b : tensor<$S>
    stablehlo.return %s : tensor<$S>
  }) : (tensor<5x$T>, tensor<7x1xi32>, tensor<7x$T>) -> tensor<5x$S>
  return %0 : tensor<5x$S>
}
func.func @rows(%x: tensor<5x19x$T>, %j: tensor<7x1xi32> {case.range = [-1, 5]}, %u: tensor<7x19x$T>) -> tensor<5x19x$S> {
  %0 = "$OP"(%x, %j, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<$S>, %b: tensor<$S>):
    %s = stablehlo.add %a, %b : tensor<$S>
    stablehlo.return %s : tensor<$S>
  }) : (tensor<5x19x$T>, tensor<7x1xi32>, tensor<7x19x$T>) -> tensor<5x19x$S>
  return %0 : tensor<5x19x$S>
}
func.func @wide_operand(%x: tensor<5x19x$S>, %j: tensor<7x1xi32> {case.range = [-1, 5]}, %u: tensor<7x19x$T>) -> tensor<5x19x$S> {
  %0 = "$OP"(%x, %j, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<$S>, %b: tensor<$S>):
    %e = stablehlo.compare NE, %a, %b : (tensor<$S>, tensor<$S>) -> tensor<i1>
    %m = stablehlo.maximum %a, %b : tensor<$S>
    %s = stablehlo.select %e, %m, %a : tensor<i1>, tensor<$S>
    stablehlo.return %s : tensor<$S>
  }) : (tensor<5x19x$S>, tensor<7x1xi32>, tensor<7x19x$T>) -> tensor<5x19x$S>
  return %0 : tensor<5x19x$S>
}
func.func @wide_updates(%x: tensor<5x19x$T>, %j: tensor<7x1xi32> {case.range = [-1, 5]}, %u: tensor<7x19x$S>) -> tensor<5x19x$S> {
  %0 = "$OP"(%x, %j, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<$S>, %b: tensor<$S>):
    %s = stablehlo.add %a, %b : tensor<$S>
    stablehlo.return %s : tensor<$S>
  }) : (tensor<5x19x$T>, tensor<7x1xi32>, tensor<7x19x$S>) -> tensor<5x19x$S>
  return %0 : tensor<5x19x$S>
}
func.func @no_window(%x: tensor<5x$T>, %j: tensor<0x1xi32>, %u: tensor<0x$T>) -> tensor<5x$S> {
  %0 = "$OP"(%x, %j, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<$S>, %b: tensor<$S>):
    %s = stablehlo.add %a, %b : tensor<$S>
    stablehlo.return %s : tensor<$S>
  }) : (tensor<5x$T>, tensor<0x1xi32>, tensor<0x$T>) -> tensor<5x$S>
  return %0 : tensor<5x$S>
}
// -----
// ops: stablehlo.select_and_scatter
// types: i1 integer small-float half float
// also: promotable
// values: ternary
// oracle: reference
func.func @pool_gradient(%x: tensor<6x7x$T>, %s: tensor<3x3x$T>, %i: tensor<$T> {case.range = [0, 0]}) -> tensor<6x7x$S> {
  %0 = "$OP"(%x, %s, %i) <{window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 2, 2>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %p = stablehlo.compare GE, %a, %b : (tensor<$T>, tensor<$T>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<$S>, %b: tensor<$S>):
    %r = stablehlo.add %a, %b : tensor<$S>
    stablehlo.return %r : tensor<$S>
  }) : (tensor<6x7x$T>, tensor<3x3x$T>, tensor<$T>) -> tensor<6x7x$S>
  return %0 : tensor<6x7x$S>
}
func.func @columns(%x: tensor<6x19x$T>, %s: tensor<3x19x$T>, %i: tensor<$T> {case.range = [0, 0]}) -> tensor<6x19x$S> {
  %0 = "$OP"(%x, %s, %i) <{window_dimensions = array<i64: 2, 1>, window_strides = array<i64: 2, 1>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %p = stablehlo.compare LT, %a, %b : (tensor<$T>, tensor<$T>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<$S>, %b: tensor<$S>):
    %r = stablehlo.add %a, %b : tensor<$S>
    stablehlo.return %r : tensor<$S>
  }) : (tensor<6x19x$T>, tensor<3x19x$T>, tensor<$T>) -> tensor<6x19x$S>
  return %0 : tensor<6x19x$S>
}
func.func @captures(%x: tensor<6x$T>, %s: tensor<3x$T>, %i: tensor<$T> {case.range = [0, 0]}, %c: tensor<$S> {case.range = [1, 1]}) -> tensor<6x$S> {
  %0 = "$OP"(%x, %s, %i) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %p = stablehlo.compare GE, %a, %b : (tensor<$T>, tensor<$T>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<$S>, %b: tensor<$S>):
    %e = stablehlo.add %a, %b : tensor<$S>
    %r = stablehlo.multiply %e, %c : tensor<$S>
    stablehlo.return %r : tensor<$S>
  }) : (tensor<6x$T>, tensor<3x$T>, tensor<$T>) -> tensor<6x$S>
  return %0 : tensor<6x$S>
}
// -----
// ops: stablehlo.select_and_scatter
// types: small-float half float
// also: promotable
// values: ternary
// oracle: reference
func.func @wide_choice(%x: tensor<6x7x$T>, %s: tensor<3x3x$T>, %i: tensor<$T> {case.range = [0, 0]}) -> tensor<6x7x$S> {
  %0 = "$OP"(%x, %s, %i) <{window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 2, 2>}> ({
  ^bb0(%a: tensor<$S>, %b: tensor<$S>):
    %p = stablehlo.compare GE, %a, %b : (tensor<$S>, tensor<$S>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<$S>, %b: tensor<$S>):
    %r = stablehlo.add %a, %b : tensor<$S>
    stablehlo.return %r : tensor<$S>
  }) : (tensor<6x7x$T>, tensor<3x3x$T>, tensor<$T>) -> tensor<6x7x$S>
  return %0 : tensor<6x7x$S>
}
// -----
// ops: stablehlo.select_and_scatter
// types: complex
// also: promotable
// values: ternary
// oracle: reference
func.func @by_real_part(%x: tensor<6x$T>, %s: tensor<3x$T>, %i: tensor<$T> {case.range = [0, 0]}) -> tensor<6x$S> {
  %0 = "$OP"(%x, %s, %i) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %c = stablehlo.real %a : (tensor<$T>) -> tensor<$P>
    %d = stablehlo.real %b : (tensor<$T>) -> tensor<$P>
    %p = stablehlo.compare GE, %c, %d : (tensor<$P>, tensor<$P>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<$S>, %b: tensor<$S>):
    %r = stablehlo.add %a, %b : tensor<$S>
    stablehlo.return %r : tensor<$S>
  }) : (tensor<6x$T>, tensor<3x$T>, tensor<$T>) -> tensor<6x$S>
  return %0 : tensor<6x$S>
}
// -----
// ops: stablehlo.all_reduce stablehlo.collective_reduce
// types: any
// also: promotable
// values: ternary
// replicas: 2
// oracle: reference
func.func @sum(%x: tensor<3x2x$T>) -> tensor<3x2x$S> {
  %0 = "$OP"(%x) <{replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<$S>, %b: tensor<$S>):
    %s = stablehlo.add %a, %b : tensor<$S>
    stablehlo.return %s : tensor<$S>
  }) : (tensor<3x2x$T>) -> tensor<3x2x$S>
  return %0 : tensor<3x2x$S>
}
// -----
// ops: stablehlo.reduce_scatter
// types: any
// also: promotable
// values: ternary
// replicas: 2
// oracle: reference
func.func @sum(%x: tensor<3x4x$T>) -> tensor<3x2x$S> {
  %0 = "$OP"(%x) <{scatter_dimension = 1 : i64, replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<$S>, %b: tensor<$S>):
    %s = stablehlo.add %a, %b : tensor<$S>
    stablehlo.return %s : tensor<$S>
  }) : (tensor<3x4x$T>) -> tensor<3x2x$S>
  return %0 : tensor<3x2x$S>
}
