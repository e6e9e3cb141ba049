// ops: stablehlo.while
// types: any quantized
// values: ternary
func.func @counted(%x: tensor<3x$T>, %y: tensor<3x$T>, %n: tensor<i32> {case.range = [3, 3]}) -> (tensor<3x$T>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %a = %x, %b = %y) : tensor<i32>, tensor<3x$T>, tensor<3x$T>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %b, %a : tensor<i32>, tensor<3x$T>, tensor<3x$T>
  }
  return %r#1, %r#0 : tensor<3x$T>, tensor<i32>
}
func.func @never(%x: tensor<3x$T>) -> tensor<3x$T> {
  %f = stablehlo.constant dense<false> : tensor<i1>
  %r = stablehlo.while(%a = %x) : tensor<3x$T>
  cond {
    stablehlo.return %f : tensor<i1>
  } do {
    %z = stablehlo.reverse %a, dims = [0] : tensor<3x$T>
    stablehlo.return %z : tensor<3x$T>
  }
  return %r : tensor<3x$T>
}
func.func @nested(%x: tensor<2x3x$T>) -> tensor<2x3x$T> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<2x3x$T>
  cond {
    %p = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %s:2 = stablehlo.while(%k = %i, %b = %a) : tensor<i32>, tensor<2x3x$T>
    cond {
      %p = stablehlo.compare LE, %k, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %l = stablehlo.add %k, %one : tensor<i32>
      %c = stablehlo.slice %b [0:1, 0:3] : (tensor<2x3x$T>) -> tensor<1x3x$T>
      %d = stablehlo.dynamic_update_slice %b, %c, %i, %k : (tensor<2x3x$T>, tensor<1x3x$T>, tensor<i32>, tensor<i32>) -> tensor<2x3x$T>
      %e = stablehlo.reverse %d, dims = [0, 1] : tensor<2x3x$T>
      stablehlo.return %l, %e : tensor<i32>, tensor<2x3x$T>
    }
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %s#1 : tensor<i32>, tensor<2x3x$T>
  }
  return %r#1 : tensor<2x3x$T>
}
// -----
// ops: stablehlo.if
// types: any quantized
// values: ternary
func.func @choose(%p: tensor<i1>, %x: tensor<3x$T>, %y: tensor<3x$T>) -> (tensor<3x$T>, tensor<3x$T>) {
  %r:2 = "stablehlo.if"(%p) ({
    %z = stablehlo.reverse %x, dims = [0] : tensor<3x$T>
    stablehlo.return %z, %y : tensor<3x$T>, tensor<3x$T>
  }, {
    stablehlo.return %y, %x : tensor<3x$T>, tensor<3x$T>
  }) : (tensor<i1>) -> (tensor<3x$T>, tensor<3x$T>)
  return %r#0, %r#1 : tensor<3x$T>, tensor<3x$T>
}
func.func @nested(%p: tensor<i1>, %q: tensor<i1>, %x: tensor<3x$T>, %y: tensor<3x$T>) -> tensor<3x$T> {
  %r = "stablehlo.if"(%p) ({
    %s = "stablehlo.if"(%q) ({
      stablehlo.return %x : tensor<3x$T>
    }, {
      stablehlo.return %y : tensor<3x$T>
    }) : (tensor<i1>) -> tensor<3x$T>
    %z = stablehlo.reverse %s, dims = [0] : tensor<3x$T>
    stablehlo.return %z : tensor<3x$T>
  }, {
    stablehlo.return %y : tensor<3x$T>
  }) : (tensor<i1>) -> tensor<3x$T>
  return %r : tensor<3x$T>
}
// -----
// ops: stablehlo.case
// types: any quantized
// values: ternary
func.func @second(%i: tensor<i32> {case.range = [1, 1]}, %x: tensor<3x$T>, %y: tensor<3x$T>) -> tensor<3x$T> {
  %r = "stablehlo.case"(%i) ({
    stablehlo.return %x : tensor<3x$T>
  }, {
    %z = stablehlo.reverse %y, dims = [0] : tensor<3x$T>
    stablehlo.return %z : tensor<3x$T>
  }, {
    stablehlo.return %y : tensor<3x$T>
  }) : (tensor<i32>) -> tensor<3x$T>
  return %r : tensor<3x$T>
}
func.func @out_of_range(%i: tensor<i32> {case.range = [-9, -1]}, %x: tensor<3x$T>, %y: tensor<3x$T>) -> tensor<3x$T> {
  %r = "stablehlo.case"(%i) ({
    stablehlo.return %x : tensor<3x$T>
  }, {
    stablehlo.return %y : tensor<3x$T>
  }) : (tensor<i32>) -> tensor<3x$T>
  return %r : tensor<3x$T>
}
func.func @one_branch(%i: tensor<i32>, %x: tensor<3x$T>) -> tensor<3x$T> {
  %r = "stablehlo.case"(%i) ({
    %z = stablehlo.reverse %x, dims = [0] : tensor<3x$T>
    stablehlo.return %z : tensor<3x$T>
  }) : (tensor<i32>) -> tensor<3x$T>
  return %r : tensor<3x$T>
}
// -----
// ops: stablehlo.composite
// types: any quantized
func.func @unknown(%x: tensor<3x$T>) -> tensor<3x$T> {
  %0 = stablehlo.composite "my.flip" %x {decomposition = @flip, version = 1 : i32} : (tensor<3x$T>) -> tensor<3x$T>
  return %0 : tensor<3x$T>
}
func.func private @flip(%x: tensor<3x$T>) -> tensor<3x$T> {
  %0 = stablehlo.reverse %x, dims = [0] : tensor<3x$T>
  return %0 : tensor<3x$T>
}
// -----
// ops: stablehlo.return
// types: any quantized
func.func @of_a_region(%p: tensor<i1>, %x: tensor<3x$T>, %y: tensor<3x$T>) -> tensor<3x$T> {
  %r = "stablehlo.if"(%p) ({
    stablehlo.return %x : tensor<3x$T>
  }, {
    stablehlo.return %y : tensor<3x$T>
  }) : (tensor<i1>) -> tensor<3x$T>
  return %r : tensor<3x$T>
}
