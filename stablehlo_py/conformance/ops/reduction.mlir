// ops: stablehlo.reduce
// types: any quantized
// values: ternary
func.func @sum_of_rows(%x: tensor<3x17x$T>, %i: tensor<$T> {case.range = [0, 0]}) -> tensor<3x$T> {
  %0 = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [1] : (tensor<3x17x$T>, tensor<$T>) -> tensor<3x$T>
  return %0 : tensor<3x$T>
}
func.func @maximum_of_columns(%x: tensor<5x17x$T>, %i: tensor<$T> {case.range = [-1, -1]}) -> tensor<17x$T> {
  %0 = stablehlo.reduce(%x init: %i) applies stablehlo.maximum across dimensions = [0] : (tensor<5x17x$T>, tensor<$T>) -> tensor<17x$T>
  return %0 : tensor<17x$T>
}
func.func @product_of_all(%x: tensor<2x3x5x$T>, %i: tensor<$T> {case.range = [1, 1]}) -> tensor<$T> {
  %0 = stablehlo.reduce(%x init: %i) applies stablehlo.multiply across dimensions = [0, 1, 2] : (tensor<2x3x5x$T>, tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @minimum_of_outer(%x: tensor<2x3x5x$T>, %i: tensor<$T> {case.range = [1, 1]}) -> tensor<3x$T> {
  %0 = stablehlo.reduce(%x init: %i) applies stablehlo.minimum across dimensions = [0, 2] : (tensor<2x3x5x$T>, tensor<$T>) -> tensor<3x$T>
  return %0 : tensor<3x$T>
}
func.func @no_dimension(%x: tensor<5x$T>, %i: tensor<$T> {case.range = [0, 0]}) -> tensor<5x$T> {
  %0 = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [] : (tensor<5x$T>, tensor<$T>) -> tensor<5x$T>
  return %0 : tensor<5x$T>
}
func.func @of_nothing(%x: tensor<3x0x$T>, %i: tensor<$T> {case.range = [0, 0]}) -> tensor<3x$T> {
  %0 = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [1] : (tensor<3x0x$T>, tensor<$T>) -> tensor<3x$T>
  return %0 : tensor<3x$T>
}
func.func @to_nothing(%x: tensor<0x3x$T>, %i: tensor<$T> {case.range = [0, 0]}) -> tensor<0x$T> {
  %0 = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [1] : (tensor<0x3x$T>, tensor<$T>) -> tensor<0x$T>
  return %0 : tensor<0x$T>
}
// -----
// ops: stablehlo.reduce
// types: i1 integer
// values: special
func.func @bits_and(%x: tensor<3x17x$T>, %i: tensor<$T> {case.range = [-1, -1]}) -> tensor<3x$T> {
  %0 = stablehlo.reduce(%x init: %i) applies stablehlo.and across dimensions = [1] : (tensor<3x17x$T>, tensor<$T>) -> tensor<3x$T>
  return %0 : tensor<3x$T>
}
func.func @bits_or(%x: tensor<3x17x$T>, %i: tensor<$T> {case.range = [0, 0]}) -> tensor<17x$T> {
  %0 = stablehlo.reduce(%x init: %i) applies stablehlo.or across dimensions = [0] : (tensor<3x17x$T>, tensor<$T>) -> tensor<17x$T>
  return %0 : tensor<17x$T>
}
func.func @bits_xor(%x: tensor<3x17x$T>, %i: tensor<$T> {case.range = [0, 0]}) -> tensor<$T> {
  %0 = stablehlo.reduce(%x init: %i) applies stablehlo.xor across dimensions = [1, 0] : (tensor<3x17x$T>, tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
// -----
// Several operands, and bodies of more than one op, which need not be commutative. Every init is the body's identity:
// how often it takes part is left to the implementation.
// ops: stablehlo.reduce
// types: any
// values: ternary
func.func @last_that_differs(%x: tensor<67x5x$T>, %i: tensor<$T>) -> tensor<5x$T> {
  %0 = stablehlo.reduce(%x init: %i) across dimensions = [0] : (tensor<67x5x$T>, tensor<$T>) -> tensor<5x$T>
    reducer(%a: tensor<$T>, %b: tensor<$T>) {
    %p = stablehlo.compare EQ, %b, %i : (tensor<$T>, tensor<$T>) -> tensor<i1>
    %s = stablehlo.select %p, %a, %b : tensor<i1>, tensor<$T>
    stablehlo.return %s : tensor<$T>
  }
  return %0 : tensor<5x$T>
}
func.func @last_of_rows(%x: tensor<3x67x$T>, %i: tensor<$T>) -> tensor<3x$T> {
  %0 = stablehlo.reduce(%x init: %i) across dimensions = [1] : (tensor<3x67x$T>, tensor<$T>) -> tensor<3x$T>
    reducer(%a: tensor<$T>, %b: tensor<$T>) {
    %p = stablehlo.compare EQ, %b, %i : (tensor<$T>, tensor<$T>) -> tensor<i1>
    %s = stablehlo.select %p, %a, %b : tensor<i1>, tensor<$T>
    stablehlo.return %s : tensor<$T>
  }
  return %0 : tensor<3x$T>
}
func.func @separate(%x: tensor<3x17x$T>, %y: tensor<3x17xi32>, %i: tensor<$T> {case.range = [0, 0]}, %j: tensor<i32> {case.range = [-1, -1]}) -> (tensor<3x$T>, tensor<3xi32>) {
  %0:2 = stablehlo.reduce(%x init: %i), (%y init: %j) across dimensions = [1] : (tensor<3x17x$T>, tensor<3x17xi32>, tensor<$T>, tensor<i32>) -> (tensor<3x$T>, tensor<3xi32>)
    reducer(%a: tensor<$T>, %b: tensor<$T>) (%c: tensor<i32>, %d: tensor<i32>) {
    %s = stablehlo.add %a, %b : tensor<$T>
    %t = stablehlo.maximum %d, %c : tensor<i32>
    stablehlo.return %s, %t : tensor<$T>, tensor<i32>
  }
  return %0#0, %0#1 : tensor<3x$T>, tensor<3xi32>
}
// -----
// ops: stablehlo.reduce
// types: int uint i1 half float
// values: small
func.func @argmax(%x: tensor<3x67x$T>, %i: tensor<$T>) -> (tensor<3x$T>, tensor<3xi32>) {
  %y = stablehlo.iota dim = 1 : tensor<3x67xi32>
  %j = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.reduce(%x init: %i), (%y init: %j) across dimensions = [1] : (tensor<3x67x$T>, tensor<3x67xi32>, tensor<$T>, tensor<i32>) -> (tensor<3x$T>, tensor<3xi32>)
    reducer(%a: tensor<$T>, %b: tensor<$T>) (%c: tensor<i32>, %d: tensor<i32>) {
    %g = stablehlo.compare GT, %a, %b : (tensor<$T>, tensor<$T>) -> tensor<i1>
    %e = stablehlo.compare EQ, %a, %b : (tensor<$T>, tensor<$T>) -> tensor<i1>
    %l = stablehlo.compare LT, %c, %d : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %m = stablehlo.and %e, %l : tensor<i1>
    %p = stablehlo.or %g, %m : tensor<i1>
    %s = stablehlo.select %p, %a, %b : tensor<i1>, tensor<$T>
    %t = stablehlo.select %p, %c, %d : tensor<i1>, tensor<i32>
    stablehlo.return %s, %t : tensor<$T>, tensor<i32>
  }
  return %0#0, %0#1 : tensor<3x$T>, tensor<3xi32>
}
// -----
// Composition of x -> a x + b: associative, not commutative.
// ops: stablehlo.reduce
// types: int uint
// values: ternary
func.func @affine(%x: tensor<2x67x$T>, %y: tensor<2x67x$T>) -> (tensor<2x$T>, tensor<2x$T>) {
  %i = stablehlo.constant dense<1> : tensor<$T>
  %j = stablehlo.constant dense<0> : tensor<$T>
  %0:2 = stablehlo.reduce(%x init: %i), (%y init: %j) across dimensions = [1] : (tensor<2x67x$T>, tensor<2x67x$T>, tensor<$T>, tensor<$T>) -> (tensor<2x$T>, tensor<2x$T>)
    reducer(%a: tensor<$T>, %b: tensor<$T>) (%c: tensor<$T>, %d: tensor<$T>) {
    %s = stablehlo.multiply %a, %b : tensor<$T>
    %t = stablehlo.multiply %c, %b : tensor<$T>
    %u = stablehlo.add %t, %d : tensor<$T>
    stablehlo.return %s, %u : tensor<$T>, tensor<$T>
  }
  return %0#0, %0#1 : tensor<2x$T>, tensor<2x$T>
}
// -----
// ops: stablehlo.reduce_window
// types: any quantized
// values: ternary
func.func @max_pool(%x: tensor<6x7x$T>, %i: tensor<$T> {case.range = [-1, -1]}) -> tensor<3x6x$T> {
  %0 = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 1>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %m = stablehlo.maximum %a, %b : tensor<$T>
    stablehlo.return %m : tensor<$T>
  }) : (tensor<6x7x$T>, tensor<$T>) -> tensor<3x6x$T>
  return %0 : tensor<3x6x$T>
}
func.func @sum_with_everything(%x: tensor<4x5x$T>, %i: tensor<$T> {case.range = [0, 0]}) -> tensor<3x4x$T> {
  %0 = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 2, 3>, base_dilations = array<i64: 2, 3>, window_dilations = array<i64: 3, 1>, padding = dense<[[2, -1], [-1, 2]]> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %m = stablehlo.add %a, %b : tensor<$T>
    stablehlo.return %m : tensor<$T>
  }) : (tensor<4x5x$T>, tensor<$T>) -> tensor<3x4x$T>
  return %0 : tensor<3x4x$T>
}
func.func @cumulative(%x: tensor<9x$T>, %i: tensor<$T> {case.range = [0, 0]}) -> tensor<9x$T> {
  %0 = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 9>, padding = dense<[[8, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %m = stablehlo.add %a, %b : tensor<$T>
    stablehlo.return %m : tensor<$T>
  }) : (tensor<9x$T>, tensor<$T>) -> tensor<9x$T>
  return %0 : tensor<9x$T>
}
func.func @windows_in_padding(%x: tensor<2x$T>, %i: tensor<$T> {case.range = [1, 1]}) -> tensor<7x$T> {
  %0 = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2>, padding = dense<[[3, 3]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %m = stablehlo.minimum %a, %b : tensor<$T>
    stablehlo.return %m : tensor<$T>
  }) : (tensor<2x$T>, tensor<$T>) -> tensor<7x$T>
  return %0 : tensor<7x$T>
}
func.func @of_nothing(%x: tensor<0x$T>, %i: tensor<$T> {case.range = [0, 0]}) -> tensor<3x$T> {
  %0 = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2>, padding = dense<[[2, 2]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %m = stablehlo.add %a, %b : tensor<$T>
    stablehlo.return %m : tensor<$T>
  }) : (tensor<0x$T>, tensor<$T>) -> tensor<3x$T>
  return %0 : tensor<3x$T>
}
// -----
// ops: stablehlo.reduce_window
// types: any
// values: ternary
func.func @general_body(%x: tensor<4x5x$T>, %i: tensor<$T>) -> tensor<2x3x$T> {
  %0 = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 2, 1>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %p = stablehlo.compare EQ, %b, %i : (tensor<$T>, tensor<$T>) -> tensor<i1>
    %s = stablehlo.select %p, %a, %b : tensor<i1>, tensor<$T>
    stablehlo.return %s : tensor<$T>
  }) : (tensor<4x5x$T>, tensor<$T>) -> tensor<2x3x$T>
  return %0 : tensor<2x3x$T>
}
func.func @two_operands(%x: tensor<7x$T>, %y: tensor<7xi32>, %i: tensor<$T>, %j: tensor<i32> {case.range = [9, 9]}) -> (tensor<3x$T>, tensor<3xi32>) {
  %0:2 = "stablehlo.reduce_window"(%x, %y, %i, %j) <{window_dimensions = array<i64: 3>, window_strides = array<i64: 2>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<i32>, %c: tensor<$T>, %d: tensor<i32>):
    %p = stablehlo.compare LT, %b, %d : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = stablehlo.select %p, %a, %c : tensor<i1>, tensor<$T>
    %t = stablehlo.minimum %b, %d : tensor<i32>
    stablehlo.return %s, %t : tensor<$T>, tensor<i32>
  }) : (tensor<7x$T>, tensor<7xi32>, tensor<$T>, tensor<i32>) -> (tensor<3x$T>, tensor<3xi32>)
  return %0#0, %0#1 : tensor<3x$T>, tensor<3xi32>
}
func.func @padded_and_dilated_general(%x: tensor<4x$T>, %i: tensor<$T>) -> tensor<5x$T> {
  %0 = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2>, base_dilations = array<i64: 2>, window_dilations = array<i64: 3>, padding = dense<[[2, -1]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %p = stablehlo.compare EQ, %b, %i : (tensor<$T>, tensor<$T>) -> tensor<i1>
    %s = stablehlo.select %p, %a, %b : tensor<i1>, tensor<$T>
    stablehlo.return %s : tensor<$T>
  }) : (tensor<4x$T>, tensor<$T>) -> tensor<5x$T>
  return %0 : tensor<5x$T>
}
// -----
// ops: stablehlo.map
// types: any
// values: small
func.func @two(%x: tensor<3x5x$T>, %y: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "stablehlo.map"(%x, %y) <{dimensions = array<i64: 0, 1>}> ({
  ^bb0(%a: tensor<$T>, %b: tensor<$T>):
    %s = stablehlo.add %a, %b : tensor<$T>
    %t = stablehlo.multiply %s, %a : tensor<$T>
    stablehlo.return %t : tensor<$T>
  }) : (tensor<3x5x$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @captured(%x: tensor<3x5x$T>, %c: tensor<$T>) -> tensor<3x5xi1> {
  %0 = "stablehlo.map"(%x) <{dimensions = array<i64: 0, 1>}> ({
  ^bb0(%a: tensor<$T>):
    %p = stablehlo.compare EQ, %a, %c : (tensor<$T>, tensor<$T>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<3x5x$T>) -> tensor<3x5xi1>
  return %0 : tensor<3x5xi1>
}
func.func @loop_inside(%x: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "stablehlo.map"(%x) <{dimensions = array<i64: 0, 1>}> ({
  ^bb0(%a: tensor<$T>):
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %v = %a) : tensor<i32>, tensor<$T>
    cond {
      %p = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %w = stablehlo.add %v, %a : tensor<$T>
      stablehlo.return %j, %w : tensor<i32>, tensor<$T>
    }
    stablehlo.return %r#1 : tensor<$T>
  }) : (tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @empty(%x: tensor<0x5x$T>) -> tensor<0x5x$T> {
  %0 = "stablehlo.map"(%x) <{dimensions = array<i64: 0, 1>}> ({
  ^bb0(%a: tensor<$T>):
    %s = stablehlo.add %a, %a : tensor<$T>
    stablehlo.return %s : tensor<$T>
  }) : (tensor<0x5x$T>) -> tensor<0x5x$T>
  return %0 : tensor<0x5x$T>
}
// -----
// ops: stablehlo.map
// types: quantized
func.func @quantized(%x: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "stablehlo.map"(%x) <{dimensions = array<i64: 0, 1>}> ({
  ^bb0(%a: tensor<$T>):
    %s = stablehlo.abs %a : tensor<$T>
    stablehlo.return %s : tensor<$T>
  }) : (tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
