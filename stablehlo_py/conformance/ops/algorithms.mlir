// ops: stablehlo.batch_norm_inference
// types: f8E3M4 f8E4M3 f8E4M3FN f8E5M2 half float quantized
// values: small
// tolerance: 8 small-float=8
// measure: largest
// oracle: wide jax reference evaluate
func.func @last(%x: tensor<3x2x5x$T>, %s: tensor<5x$T>, %o: tensor<5x$T>, %m: tensor<5x$T>, %v: tensor<5x$T> {case.range = [0, 4]}) -> tensor<3x2x5x$T> {
  %0 = "$OP"(%x, %s, %o, %m, %v) <{feature_index = 2 : i64, epsilon = 1.250000e-01 : f32}> : (tensor<3x2x5x$T>, tensor<5x$T>, tensor<5x$T>, tensor<5x$T>, tensor<5x$T>) -> tensor<3x2x5x$T>
  return %0 : tensor<3x2x5x$T>
}
func.func @middle(%x: tensor<3x2x5x$T>, %s: tensor<2x$T>, %o: tensor<2x$T>, %m: tensor<2x$T>, %v: tensor<2x$T> {case.range = [0, 4]}) -> tensor<3x2x5x$T> {
  %0 = "$OP"(%x, %s, %o, %m, %v) <{feature_index = 1 : i64, epsilon = 1.250000e-01 : f32}> : (tensor<3x2x5x$T>, tensor<2x$T>, tensor<2x$T>, tensor<2x$T>, tensor<2x$T>) -> tensor<3x2x5x$T>
  return %0 : tensor<3x2x5x$T>
}
func.func @empty(%x: tensor<0x2x$T>, %s: tensor<2x$T>, %o: tensor<2x$T>, %m: tensor<2x$T>, %v: tensor<2x$T> {case.range = [0, 4]}) -> tensor<0x2x$T> {
  %0 = "$OP"(%x, %s, %o, %m, %v) <{feature_index = 1 : i64, epsilon = 1.250000e-01 : f32}> : (tensor<0x2x$T>, tensor<2x$T>, tensor<2x$T>, tensor<2x$T>, tensor<2x$T>) -> tensor<0x2x$T>
  return %0 : tensor<0x2x$T>
}
// -----
// ops: stablehlo.batch_norm_training
// types: f8E3M4 f8E4M3 f8E4M3FN f8E5M2 half float quantized
// values: small
// tolerance: 16 small-float=8
// measure: largest
// oracle: wide jax reference evaluate
func.func @last(%x: tensor<4x2x5x$T>, %s: tensor<5x$T>, %o: tensor<5x$T>) -> (tensor<4x2x5x$T>, tensor<5x$T>, tensor<5x$T>) {
  %0:3 = "$OP"(%x, %s, %o) <{feature_index = 2 : i64, epsilon = 1.250000e-01 : f32}> : (tensor<4x2x5x$T>, tensor<5x$T>, tensor<5x$T>) -> (tensor<4x2x5x$T>, tensor<5x$T>, tensor<5x$T>)
  return %0#0, %0#1, %0#2 : tensor<4x2x5x$T>, tensor<5x$T>, tensor<5x$T>
}
func.func @middle(%x: tensor<4x2x2x$T>, %s: tensor<2x$T>, %o: tensor<2x$T>) -> (tensor<4x2x2x$T>, tensor<2x$T>, tensor<2x$T>) {
  %0:3 = "$OP"(%x, %s, %o) <{feature_index = 1 : i64, epsilon = 1.250000e-01 : f32}> : (tensor<4x2x2x$T>, tensor<2x$T>, tensor<2x$T>) -> (tensor<4x2x2x$T>, tensor<2x$T>, tensor<2x$T>)
  return %0#0, %0#1, %0#2 : tensor<4x2x2x$T>, tensor<2x$T>, tensor<2x$T>
}
// -----
// ops: stablehlo.batch_norm_grad
// types: f8E3M4 f8E4M3 f8E4M3FN f8E5M2 half float quantized
// values: small
// tolerance: 8 small-float=8
// measure: largest
// oracle: wide jax reference evaluate
func.func @last(%x: tensor<4x2x5x$T>, %s: tensor<5x$T>, %m: tensor<5x$T>, %v: tensor<5x$T> {case.range = [0, 4]}, %g: tensor<4x2x5x$T>) -> (tensor<4x2x5x$T>, tensor<5x$T>, tensor<5x$T>) {
  %0:3 = "$OP"(%x, %s, %m, %v, %g) <{feature_index = 2 : i64, epsilon = 1.250000e-01 : f32}> : (tensor<4x2x5x$T>, tensor<5x$T>, tensor<5x$T>, tensor<5x$T>, tensor<4x2x5x$T>) -> (tensor<4x2x5x$T>, tensor<5x$T>, tensor<5x$T>)
  return %0#0, %0#1, %0#2 : tensor<4x2x5x$T>, tensor<5x$T>, tensor<5x$T>
}
func.func @middle(%x: tensor<4x2x2x$T>, %s: tensor<2x$T>, %m: tensor<2x$T>, %v: tensor<2x$T> {case.range = [0, 4]}, %g: tensor<4x2x2x$T>) -> (tensor<4x2x2x$T>, tensor<2x$T>, tensor<2x$T>) {
  %0:3 = "$OP"(%x, %s, %m, %v, %g) <{feature_index = 1 : i64, epsilon = 1.250000e-01 : f32}> : (tensor<4x2x2x$T>, tensor<2x$T>, tensor<2x$T>, tensor<2x$T>, tensor<4x2x2x$T>) -> (tensor<4x2x2x$T>, tensor<2x$T>, tensor<2x$T>)
  return %0#0, %0#1, %0#2 : tensor<4x2x2x$T>, tensor<2x$T>, tensor<2x$T>
}
// -----
// ops: stablehlo.cholesky
// types: half float
// values: ternary
// tolerance: 32 half=8
// measure: largest
// oracle: wide jax
func.func @lower(%x: tensor<5x5x$T>) -> tensor<5x5x$T> {
  %i = stablehlo.iota dim = 0 : tensor<5x5xi32>
  %j = stablehlo.iota dim = 1 : tensor<5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %g = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1] : (tensor<5x5x$T>, tensor<5x5x$T>) -> tensor<5x5x$T>
  %one = stablehlo.constant dense<$1> : tensor<5x5x$T>
  %h = stablehlo.add %g, %one : tensor<5x5x$T>
  %q = stablehlo.add %h, %one : tensor<5x5x$T>
  %s = stablehlo.select %p, %q, %g : tensor<5x5xi1>, tensor<5x5x$T>
  %r = "$OP"(%s) <{lower = true}> : (tensor<5x5x$T>) -> tensor<5x5x$T>
  %t = stablehlo.compare GE, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %zero = stablehlo.constant dense<$0> : tensor<5x5x$T>
  %o = stablehlo.select %t, %r, %zero : tensor<5x5xi1>, tensor<5x5x$T>
  return %o : tensor<5x5x$T>
}
func.func @upper(%x: tensor<5x5x$T>) -> tensor<5x5x$T> {
  %i = stablehlo.iota dim = 0 : tensor<5x5xi32>
  %j = stablehlo.iota dim = 1 : tensor<5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %g = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1] : (tensor<5x5x$T>, tensor<5x5x$T>) -> tensor<5x5x$T>
  %one = stablehlo.constant dense<$1> : tensor<5x5x$T>
  %h = stablehlo.add %g, %one : tensor<5x5x$T>
  %q = stablehlo.add %h, %one : tensor<5x5x$T>
  %s = stablehlo.select %p, %q, %g : tensor<5x5xi1>, tensor<5x5x$T>
  %r = "$OP"(%s) <{lower = false}> : (tensor<5x5x$T>) -> tensor<5x5x$T>
  %t = stablehlo.compare LE, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %zero = stablehlo.constant dense<$0> : tensor<5x5x$T>
  %o = stablehlo.select %t, %r, %zero : tensor<5x5xi1>, tensor<5x5x$T>
  return %o : tensor<5x5x$T>
}
func.func @batched(%x: tensor<2x3x4x4x$T>) -> tensor<2x3x4x4x$T> {
  %i = stablehlo.iota dim = 2 : tensor<2x3x4x4xi32>
  %j = stablehlo.iota dim = 3 : tensor<2x3x4x4xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<2x3x4x4xi32>, tensor<2x3x4x4xi32>) -> tensor<2x3x4x4xi1>
  %g = stablehlo.dot_general %x, %x, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x3x4x4x$T>, tensor<2x3x4x4x$T>) -> tensor<2x3x4x4x$T>
  %one = stablehlo.constant dense<$1> : tensor<2x3x4x4x$T>
  %h = stablehlo.add %g, %one : tensor<2x3x4x4x$T>
  %q = stablehlo.add %h, %one : tensor<2x3x4x4x$T>
  %s = stablehlo.select %p, %q, %g : tensor<2x3x4x4xi1>, tensor<2x3x4x4x$T>
  %r = "$OP"(%s) <{lower = true}> : (tensor<2x3x4x4x$T>) -> tensor<2x3x4x4x$T>
  %t = stablehlo.compare GE, %i, %j : (tensor<2x3x4x4xi32>, tensor<2x3x4x4xi32>) -> tensor<2x3x4x4xi1>
  %zero = stablehlo.constant dense<$0> : tensor<2x3x4x4x$T>
  %o = stablehlo.select %t, %r, %zero : tensor<2x3x4x4xi1>, tensor<2x3x4x4x$T>
  return %o : tensor<2x3x4x4x$T>
}
func.func @one(%x: tensor<1x1x$T>) -> tensor<1x1x$T> {
  %i = stablehlo.iota dim = 0 : tensor<1x1xi32>
  %j = stablehlo.iota dim = 1 : tensor<1x1xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<1x1xi32>, tensor<1x1xi32>) -> tensor<1x1xi1>
  %g = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1] : (tensor<1x1x$T>, tensor<1x1x$T>) -> tensor<1x1x$T>
  %one = stablehlo.constant dense<$1> : tensor<1x1x$T>
  %h = stablehlo.add %g, %one : tensor<1x1x$T>
  %q = stablehlo.add %h, %one : tensor<1x1x$T>
  %s = stablehlo.select %p, %q, %g : tensor<1x1xi1>, tensor<1x1x$T>
  %r = "$OP"(%s) <{lower = true}> : (tensor<1x1x$T>) -> tensor<1x1x$T>
  %t = stablehlo.compare GE, %i, %j : (tensor<1x1xi32>, tensor<1x1xi32>) -> tensor<1x1xi1>
  %zero = stablehlo.constant dense<$0> : tensor<1x1x$T>
  %o = stablehlo.select %t, %r, %zero : tensor<1x1xi1>, tensor<1x1x$T>
  return %o : tensor<1x1x$T>
}
func.func @large(%x: tensor<37x37x$T>) -> tensor<37x37x$T> {
  %i = stablehlo.iota dim = 0 : tensor<37x37xi32>
  %j = stablehlo.iota dim = 1 : tensor<37x37xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<37x37xi32>, tensor<37x37xi32>) -> tensor<37x37xi1>
  %g = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1] : (tensor<37x37x$T>, tensor<37x37x$T>) -> tensor<37x37x$T>
  %one = stablehlo.constant dense<$1> : tensor<37x37x$T>
  %h = stablehlo.add %g, %one : tensor<37x37x$T>
  %q = stablehlo.add %h, %one : tensor<37x37x$T>
  %s = stablehlo.select %p, %q, %g : tensor<37x37xi1>, tensor<37x37x$T>
  %r = "$OP"(%s) <{lower = true}> : (tensor<37x37x$T>) -> tensor<37x37x$T>
  %t = stablehlo.compare GE, %i, %j : (tensor<37x37xi32>, tensor<37x37xi32>) -> tensor<37x37xi1>
  %zero = stablehlo.constant dense<$0> : tensor<37x37x$T>
  %o = stablehlo.select %t, %r, %zero : tensor<37x37xi1>, tensor<37x37x$T>
  return %o : tensor<37x37x$T>
}
// -----
// ops: stablehlo.cholesky
// types: complex
// values: ternary
// tolerance: 32 small-float=4 half=8
// measure: largest
// oracle: wide jax
func.func @lower(%x: tensor<5x5x$T>) -> tensor<5x5x$T> {
  %i = stablehlo.iota dim = 0 : tensor<5x5xi32>
  %j = stablehlo.iota dim = 1 : tensor<5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %re = stablehlo.real %x : (tensor<5x5x$T>) -> tensor<5x5x$P>
  %im = stablehlo.imag %x : (tensor<5x5x$T>) -> tensor<5x5x$P>
  %neg = stablehlo.negate %im : tensor<5x5x$P>
  %y = stablehlo.complex %re, %neg : tensor<5x5x$T>
  %g = stablehlo.dot_general %x, %y, contracting_dims = [1] x [1] : (tensor<5x5x$T>, tensor<5x5x$T>) -> tensor<5x5x$T>
  %one = stablehlo.constant dense<$1> : tensor<5x5x$T>
  %h = stablehlo.add %g, %one : tensor<5x5x$T>
  %q = stablehlo.add %h, %one : tensor<5x5x$T>
  %s = stablehlo.select %p, %q, %g : tensor<5x5xi1>, tensor<5x5x$T>
  %r = "$OP"(%s) <{lower = true}> : (tensor<5x5x$T>) -> tensor<5x5x$T>
  %t = stablehlo.compare GE, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %zero = stablehlo.constant dense<$0> : tensor<5x5x$T>
  %o = stablehlo.select %t, %r, %zero : tensor<5x5xi1>, tensor<5x5x$T>
  return %o : tensor<5x5x$T>
}
func.func @upper(%x: tensor<5x5x$T>) -> tensor<5x5x$T> {
  %i = stablehlo.iota dim = 0 : tensor<5x5xi32>
  %j = stablehlo.iota dim = 1 : tensor<5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %re = stablehlo.real %x : (tensor<5x5x$T>) -> tensor<5x5x$P>
  %im = stablehlo.imag %x : (tensor<5x5x$T>) -> tensor<5x5x$P>
  %neg = stablehlo.negate %im : tensor<5x5x$P>
  %y = stablehlo.complex %re, %neg : tensor<5x5x$T>
  %g = stablehlo.dot_general %x, %y, contracting_dims = [1] x [1] : (tensor<5x5x$T>, tensor<5x5x$T>) -> tensor<5x5x$T>
  %one = stablehlo.constant dense<$1> : tensor<5x5x$T>
  %h = stablehlo.add %g, %one : tensor<5x5x$T>
  %q = stablehlo.add %h, %one : tensor<5x5x$T>
  %s = stablehlo.select %p, %q, %g : tensor<5x5xi1>, tensor<5x5x$T>
  %r = "$OP"(%s) <{lower = false}> : (tensor<5x5x$T>) -> tensor<5x5x$T>
  %t = stablehlo.compare LE, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %zero = stablehlo.constant dense<$0> : tensor<5x5x$T>
  %o = stablehlo.select %t, %r, %zero : tensor<5x5xi1>, tensor<5x5x$T>
  return %o : tensor<5x5x$T>
}
func.func @batched(%x: tensor<2x3x4x4x$T>) -> tensor<2x3x4x4x$T> {
  %i = stablehlo.iota dim = 2 : tensor<2x3x4x4xi32>
  %j = stablehlo.iota dim = 3 : tensor<2x3x4x4xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<2x3x4x4xi32>, tensor<2x3x4x4xi32>) -> tensor<2x3x4x4xi1>
  %re = stablehlo.real %x : (tensor<2x3x4x4x$T>) -> tensor<2x3x4x4x$P>
  %im = stablehlo.imag %x : (tensor<2x3x4x4x$T>) -> tensor<2x3x4x4x$P>
  %neg = stablehlo.negate %im : tensor<2x3x4x4x$P>
  %y = stablehlo.complex %re, %neg : tensor<2x3x4x4x$T>
  %g = stablehlo.dot_general %x, %y, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x3x4x4x$T>, tensor<2x3x4x4x$T>) -> tensor<2x3x4x4x$T>
  %one = stablehlo.constant dense<$1> : tensor<2x3x4x4x$T>
  %h = stablehlo.add %g, %one : tensor<2x3x4x4x$T>
  %q = stablehlo.add %h, %one : tensor<2x3x4x4x$T>
  %s = stablehlo.select %p, %q, %g : tensor<2x3x4x4xi1>, tensor<2x3x4x4x$T>
  %r = "$OP"(%s) <{lower = true}> : (tensor<2x3x4x4x$T>) -> tensor<2x3x4x4x$T>
  %t = stablehlo.compare GE, %i, %j : (tensor<2x3x4x4xi32>, tensor<2x3x4x4xi32>) -> tensor<2x3x4x4xi1>
  %zero = stablehlo.constant dense<$0> : tensor<2x3x4x4x$T>
  %o = stablehlo.select %t, %r, %zero : tensor<2x3x4x4xi1>, tensor<2x3x4x4x$T>
  return %o : tensor<2x3x4x4x$T>
}
func.func @one(%x: tensor<1x1x$T>) -> tensor<1x1x$T> {
  %i = stablehlo.iota dim = 0 : tensor<1x1xi32>
  %j = stablehlo.iota dim = 1 : tensor<1x1xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<1x1xi32>, tensor<1x1xi32>) -> tensor<1x1xi1>
  %re = stablehlo.real %x : (tensor<1x1x$T>) -> tensor<1x1x$P>
  %im = stablehlo.imag %x : (tensor<1x1x$T>) -> tensor<1x1x$P>
  %neg = stablehlo.negate %im : tensor<1x1x$P>
  %y = stablehlo.complex %re, %neg : tensor<1x1x$T>
  %g = stablehlo.dot_general %x, %y, contracting_dims = [1] x [1] : (tensor<1x1x$T>, tensor<1x1x$T>) -> tensor<1x1x$T>
  %one = stablehlo.constant dense<$1> : tensor<1x1x$T>
  %h = stablehlo.add %g, %one : tensor<1x1x$T>
  %q = stablehlo.add %h, %one : tensor<1x1x$T>
  %s = stablehlo.select %p, %q, %g : tensor<1x1xi1>, tensor<1x1x$T>
  %r = "$OP"(%s) <{lower = true}> : (tensor<1x1x$T>) -> tensor<1x1x$T>
  %t = stablehlo.compare GE, %i, %j : (tensor<1x1xi32>, tensor<1x1xi32>) -> tensor<1x1xi1>
  %zero = stablehlo.constant dense<$0> : tensor<1x1x$T>
  %o = stablehlo.select %t, %r, %zero : tensor<1x1xi1>, tensor<1x1x$T>
  return %o : tensor<1x1x$T>
}
func.func @large(%x: tensor<37x37x$T>) -> tensor<37x37x$T> {
  %i = stablehlo.iota dim = 0 : tensor<37x37xi32>
  %j = stablehlo.iota dim = 1 : tensor<37x37xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<37x37xi32>, tensor<37x37xi32>) -> tensor<37x37xi1>
  %re = stablehlo.real %x : (tensor<37x37x$T>) -> tensor<37x37x$P>
  %im = stablehlo.imag %x : (tensor<37x37x$T>) -> tensor<37x37x$P>
  %neg = stablehlo.negate %im : tensor<37x37x$P>
  %y = stablehlo.complex %re, %neg : tensor<37x37x$T>
  %g = stablehlo.dot_general %x, %y, contracting_dims = [1] x [1] : (tensor<37x37x$T>, tensor<37x37x$T>) -> tensor<37x37x$T>
  %one = stablehlo.constant dense<$1> : tensor<37x37x$T>
  %h = stablehlo.add %g, %one : tensor<37x37x$T>
  %q = stablehlo.add %h, %one : tensor<37x37x$T>
  %s = stablehlo.select %p, %q, %g : tensor<37x37xi1>, tensor<37x37x$T>
  %r = "$OP"(%s) <{lower = true}> : (tensor<37x37x$T>) -> tensor<37x37x$T>
  %t = stablehlo.compare GE, %i, %j : (tensor<37x37xi32>, tensor<37x37xi32>) -> tensor<37x37xi1>
  %zero = stablehlo.constant dense<$0> : tensor<37x37x$T>
  %o = stablehlo.select %t, %r, %zero : tensor<37x37xi1>, tensor<37x37x$T>
  return %o : tensor<37x37x$T>
}
// -----
// ops: stablehlo.cholesky
// types: float complex
// oracle: jax
func.func @empty(%x: tensor<2x0x0x$T>) -> tensor<2x0x0x$T> {
  %0 = stablehlo.cholesky %x, lower = true : tensor<2x0x0x$T>
  return %0 : tensor<2x0x0x$T>
}
// -----
// ops: stablehlo.triangular_solve
// types: f8E3M4 f8E4M3 f8E4M3FN f8E5M2 half float complex
// values: ternary
// tolerance: 32 small-float=4 half=8
// measure: largest
// oracle: wide jax
func.func @left_lower_unit_no_transpose(%x: tensor<5x5x$T>, %b: tensor<5x3x$T>) -> tensor<5x3x$T> {
  %i = stablehlo.iota dim = 0 : tensor<5x5xi32>
  %j = stablehlo.iota dim = 1 : tensor<5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<5x5x$T>
  %two = stablehlo.add %one, %one : tensor<5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<5x5xi1>, tensor<5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = true, lower = true, unit_diagonal = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (tensor<5x5x$T>, tensor<5x3x$T>) -> tensor<5x3x$T>
  return %0 : tensor<5x3x$T>
}
func.func @left_lower_unit_transpose(%x: tensor<5x5x$T>, %b: tensor<5x3x$T>) -> tensor<5x3x$T> {
  %i = stablehlo.iota dim = 0 : tensor<5x5xi32>
  %j = stablehlo.iota dim = 1 : tensor<5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<5x5x$T>
  %two = stablehlo.add %one, %one : tensor<5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<5x5xi1>, tensor<5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = true, lower = true, unit_diagonal = true, transpose_a = #stablehlo<transpose TRANSPOSE>}> : (tensor<5x5x$T>, tensor<5x3x$T>) -> tensor<5x3x$T>
  return %0 : tensor<5x3x$T>
}
func.func @left_lower_unit_adjoint(%x: tensor<2x5x5x$T>, %b: tensor<2x5x3x$T>) -> tensor<2x5x3x$T> {
  %i = stablehlo.iota dim = 1 : tensor<2x5x5xi32>
  %j = stablehlo.iota dim = 2 : tensor<2x5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<2x5x5xi32>, tensor<2x5x5xi32>) -> tensor<2x5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<2x5x5x$T>
  %two = stablehlo.add %one, %one : tensor<2x5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<2x5x5xi1>, tensor<2x5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = true, lower = true, unit_diagonal = true, transpose_a = #stablehlo<transpose ADJOINT>}> : (tensor<2x5x5x$T>, tensor<2x5x3x$T>) -> tensor<2x5x3x$T>
  return %0 : tensor<2x5x3x$T>
}
func.func @left_lower_no_transpose(%x: tensor<5x5x$T>, %b: tensor<5x3x$T>) -> tensor<5x3x$T> {
  %i = stablehlo.iota dim = 0 : tensor<5x5xi32>
  %j = stablehlo.iota dim = 1 : tensor<5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<5x5x$T>
  %two = stablehlo.add %one, %one : tensor<5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<5x5xi1>, tensor<5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (tensor<5x5x$T>, tensor<5x3x$T>) -> tensor<5x3x$T>
  return %0 : tensor<5x3x$T>
}
func.func @left_lower_transpose(%x: tensor<5x5x$T>, %b: tensor<5x3x$T>) -> tensor<5x3x$T> {
  %i = stablehlo.iota dim = 0 : tensor<5x5xi32>
  %j = stablehlo.iota dim = 1 : tensor<5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<5x5x$T>
  %two = stablehlo.add %one, %one : tensor<5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<5x5xi1>, tensor<5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose TRANSPOSE>}> : (tensor<5x5x$T>, tensor<5x3x$T>) -> tensor<5x3x$T>
  return %0 : tensor<5x3x$T>
}
func.func @left_lower_adjoint(%x: tensor<2x5x5x$T>, %b: tensor<2x5x3x$T>) -> tensor<2x5x3x$T> {
  %i = stablehlo.iota dim = 1 : tensor<2x5x5xi32>
  %j = stablehlo.iota dim = 2 : tensor<2x5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<2x5x5xi32>, tensor<2x5x5xi32>) -> tensor<2x5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<2x5x5x$T>
  %two = stablehlo.add %one, %one : tensor<2x5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<2x5x5xi1>, tensor<2x5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose ADJOINT>}> : (tensor<2x5x5x$T>, tensor<2x5x3x$T>) -> tensor<2x5x3x$T>
  return %0 : tensor<2x5x3x$T>
}
func.func @left_upper_unit_no_transpose(%x: tensor<5x5x$T>, %b: tensor<5x3x$T>) -> tensor<5x3x$T> {
  %i = stablehlo.iota dim = 0 : tensor<5x5xi32>
  %j = stablehlo.iota dim = 1 : tensor<5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<5x5x$T>
  %two = stablehlo.add %one, %one : tensor<5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<5x5xi1>, tensor<5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = true, lower = false, unit_diagonal = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (tensor<5x5x$T>, tensor<5x3x$T>) -> tensor<5x3x$T>
  return %0 : tensor<5x3x$T>
}
func.func @left_upper_unit_transpose(%x: tensor<5x5x$T>, %b: tensor<5x3x$T>) -> tensor<5x3x$T> {
  %i = stablehlo.iota dim = 0 : tensor<5x5xi32>
  %j = stablehlo.iota dim = 1 : tensor<5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<5x5x$T>
  %two = stablehlo.add %one, %one : tensor<5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<5x5xi1>, tensor<5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = true, lower = false, unit_diagonal = true, transpose_a = #stablehlo<transpose TRANSPOSE>}> : (tensor<5x5x$T>, tensor<5x3x$T>) -> tensor<5x3x$T>
  return %0 : tensor<5x3x$T>
}
func.func @left_upper_unit_adjoint(%x: tensor<2x5x5x$T>, %b: tensor<2x5x3x$T>) -> tensor<2x5x3x$T> {
  %i = stablehlo.iota dim = 1 : tensor<2x5x5xi32>
  %j = stablehlo.iota dim = 2 : tensor<2x5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<2x5x5xi32>, tensor<2x5x5xi32>) -> tensor<2x5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<2x5x5x$T>
  %two = stablehlo.add %one, %one : tensor<2x5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<2x5x5xi1>, tensor<2x5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = true, lower = false, unit_diagonal = true, transpose_a = #stablehlo<transpose ADJOINT>}> : (tensor<2x5x5x$T>, tensor<2x5x3x$T>) -> tensor<2x5x3x$T>
  return %0 : tensor<2x5x3x$T>
}
func.func @left_upper_no_transpose(%x: tensor<5x5x$T>, %b: tensor<5x3x$T>) -> tensor<5x3x$T> {
  %i = stablehlo.iota dim = 0 : tensor<5x5xi32>
  %j = stablehlo.iota dim = 1 : tensor<5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<5x5x$T>
  %two = stablehlo.add %one, %one : tensor<5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<5x5xi1>, tensor<5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = true, lower = false, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (tensor<5x5x$T>, tensor<5x3x$T>) -> tensor<5x3x$T>
  return %0 : tensor<5x3x$T>
}
func.func @left_upper_transpose(%x: tensor<5x5x$T>, %b: tensor<5x3x$T>) -> tensor<5x3x$T> {
  %i = stablehlo.iota dim = 0 : tensor<5x5xi32>
  %j = stablehlo.iota dim = 1 : tensor<5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<5x5x$T>
  %two = stablehlo.add %one, %one : tensor<5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<5x5xi1>, tensor<5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = true, lower = false, unit_diagonal = false, transpose_a = #stablehlo<transpose TRANSPOSE>}> : (tensor<5x5x$T>, tensor<5x3x$T>) -> tensor<5x3x$T>
  return %0 : tensor<5x3x$T>
}
func.func @left_upper_adjoint(%x: tensor<2x5x5x$T>, %b: tensor<2x5x3x$T>) -> tensor<2x5x3x$T> {
  %i = stablehlo.iota dim = 1 : tensor<2x5x5xi32>
  %j = stablehlo.iota dim = 2 : tensor<2x5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<2x5x5xi32>, tensor<2x5x5xi32>) -> tensor<2x5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<2x5x5x$T>
  %two = stablehlo.add %one, %one : tensor<2x5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<2x5x5xi1>, tensor<2x5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = true, lower = false, unit_diagonal = false, transpose_a = #stablehlo<transpose ADJOINT>}> : (tensor<2x5x5x$T>, tensor<2x5x3x$T>) -> tensor<2x5x3x$T>
  return %0 : tensor<2x5x3x$T>
}
func.func @right_lower_unit_no_transpose(%x: tensor<5x5x$T>, %b: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %i = stablehlo.iota dim = 0 : tensor<5x5xi32>
  %j = stablehlo.iota dim = 1 : tensor<5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<5x5x$T>
  %two = stablehlo.add %one, %one : tensor<5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<5x5xi1>, tensor<5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = false, lower = true, unit_diagonal = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (tensor<5x5x$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @right_lower_unit_transpose(%x: tensor<5x5x$T>, %b: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %i = stablehlo.iota dim = 0 : tensor<5x5xi32>
  %j = stablehlo.iota dim = 1 : tensor<5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<5x5x$T>
  %two = stablehlo.add %one, %one : tensor<5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<5x5xi1>, tensor<5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = false, lower = true, unit_diagonal = true, transpose_a = #stablehlo<transpose TRANSPOSE>}> : (tensor<5x5x$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @right_lower_unit_adjoint(%x: tensor<2x5x5x$T>, %b: tensor<2x3x5x$T>) -> tensor<2x3x5x$T> {
  %i = stablehlo.iota dim = 1 : tensor<2x5x5xi32>
  %j = stablehlo.iota dim = 2 : tensor<2x5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<2x5x5xi32>, tensor<2x5x5xi32>) -> tensor<2x5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<2x5x5x$T>
  %two = stablehlo.add %one, %one : tensor<2x5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<2x5x5xi1>, tensor<2x5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = false, lower = true, unit_diagonal = true, transpose_a = #stablehlo<transpose ADJOINT>}> : (tensor<2x5x5x$T>, tensor<2x3x5x$T>) -> tensor<2x3x5x$T>
  return %0 : tensor<2x3x5x$T>
}
func.func @right_lower_no_transpose(%x: tensor<5x5x$T>, %b: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %i = stablehlo.iota dim = 0 : tensor<5x5xi32>
  %j = stablehlo.iota dim = 1 : tensor<5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<5x5x$T>
  %two = stablehlo.add %one, %one : tensor<5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<5x5xi1>, tensor<5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = false, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (tensor<5x5x$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @right_lower_transpose(%x: tensor<5x5x$T>, %b: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %i = stablehlo.iota dim = 0 : tensor<5x5xi32>
  %j = stablehlo.iota dim = 1 : tensor<5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<5x5x$T>
  %two = stablehlo.add %one, %one : tensor<5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<5x5xi1>, tensor<5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = false, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose TRANSPOSE>}> : (tensor<5x5x$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @right_lower_adjoint(%x: tensor<2x5x5x$T>, %b: tensor<2x3x5x$T>) -> tensor<2x3x5x$T> {
  %i = stablehlo.iota dim = 1 : tensor<2x5x5xi32>
  %j = stablehlo.iota dim = 2 : tensor<2x5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<2x5x5xi32>, tensor<2x5x5xi32>) -> tensor<2x5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<2x5x5x$T>
  %two = stablehlo.add %one, %one : tensor<2x5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<2x5x5xi1>, tensor<2x5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = false, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose ADJOINT>}> : (tensor<2x5x5x$T>, tensor<2x3x5x$T>) -> tensor<2x3x5x$T>
  return %0 : tensor<2x3x5x$T>
}
func.func @right_upper_unit_no_transpose(%x: tensor<5x5x$T>, %b: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %i = stablehlo.iota dim = 0 : tensor<5x5xi32>
  %j = stablehlo.iota dim = 1 : tensor<5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<5x5x$T>
  %two = stablehlo.add %one, %one : tensor<5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<5x5xi1>, tensor<5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = false, lower = false, unit_diagonal = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (tensor<5x5x$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @right_upper_unit_transpose(%x: tensor<5x5x$T>, %b: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %i = stablehlo.iota dim = 0 : tensor<5x5xi32>
  %j = stablehlo.iota dim = 1 : tensor<5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<5x5x$T>
  %two = stablehlo.add %one, %one : tensor<5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<5x5xi1>, tensor<5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = false, lower = false, unit_diagonal = true, transpose_a = #stablehlo<transpose TRANSPOSE>}> : (tensor<5x5x$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @right_upper_unit_adjoint(%x: tensor<2x5x5x$T>, %b: tensor<2x3x5x$T>) -> tensor<2x3x5x$T> {
  %i = stablehlo.iota dim = 1 : tensor<2x5x5xi32>
  %j = stablehlo.iota dim = 2 : tensor<2x5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<2x5x5xi32>, tensor<2x5x5xi32>) -> tensor<2x5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<2x5x5x$T>
  %two = stablehlo.add %one, %one : tensor<2x5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<2x5x5xi1>, tensor<2x5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = false, lower = false, unit_diagonal = true, transpose_a = #stablehlo<transpose ADJOINT>}> : (tensor<2x5x5x$T>, tensor<2x3x5x$T>) -> tensor<2x3x5x$T>
  return %0 : tensor<2x3x5x$T>
}
func.func @right_upper_no_transpose(%x: tensor<5x5x$T>, %b: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %i = stablehlo.iota dim = 0 : tensor<5x5xi32>
  %j = stablehlo.iota dim = 1 : tensor<5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<5x5x$T>
  %two = stablehlo.add %one, %one : tensor<5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<5x5xi1>, tensor<5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = false, lower = false, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (tensor<5x5x$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @right_upper_transpose(%x: tensor<5x5x$T>, %b: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %i = stablehlo.iota dim = 0 : tensor<5x5xi32>
  %j = stablehlo.iota dim = 1 : tensor<5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<5x5x$T>
  %two = stablehlo.add %one, %one : tensor<5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<5x5xi1>, tensor<5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = false, lower = false, unit_diagonal = false, transpose_a = #stablehlo<transpose TRANSPOSE>}> : (tensor<5x5x$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @right_upper_adjoint(%x: tensor<2x5x5x$T>, %b: tensor<2x3x5x$T>) -> tensor<2x3x5x$T> {
  %i = stablehlo.iota dim = 1 : tensor<2x5x5xi32>
  %j = stablehlo.iota dim = 2 : tensor<2x5x5xi32>
  %p = stablehlo.compare EQ, %i, %j : (tensor<2x5x5xi32>, tensor<2x5x5xi32>) -> tensor<2x5x5xi1>
  %one = stablehlo.constant dense<$1> : tensor<2x5x5x$T>
  %two = stablehlo.add %one, %one : tensor<2x5x5x$T>
  %a = stablehlo.select %p, %two, %x : tensor<2x5x5xi1>, tensor<2x5x5x$T>
  %0 = "$OP"(%a, %b) <{left_side = false, lower = false, unit_diagonal = false, transpose_a = #stablehlo<transpose ADJOINT>}> : (tensor<2x5x5x$T>, tensor<2x3x5x$T>) -> tensor<2x3x5x$T>
  return %0 : tensor<2x3x5x$T>
}
// -----
// ops: stablehlo.triangular_solve
// types: float complex
// oracle: jax
func.func @empty(%x: tensor<2x0x0x$T>, %b: tensor<2x0x3x$T>) -> tensor<2x0x3x$T> {
  %0 = "$OP"(%x, %b) <{left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (tensor<2x0x0x$T>, tensor<2x0x3x$T>) -> tensor<2x0x3x$T>
  return %0 : tensor<2x0x3x$T>
}
func.func @no_right_side(%x: tensor<3x3x$T>, %b: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x, %b) <{left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (tensor<3x3x$T>, tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: stablehlo.fft
// types: complex
// values: small
// tolerance: 8
// measure: largest
// oracle: jax reference
func.func @fft_1(%x: tensor<3x16x$C>) -> tensor<3x16x$C> {
  %0 = stablehlo.fft %x, type = FFT, length = [16] : (tensor<3x16x$C>) -> tensor<3x16x$C>
  return %0 : tensor<3x16x$C>
}
func.func @fft_odd(%x: tensor<15x$C>) -> tensor<15x$C> {
  %0 = stablehlo.fft %x, type = FFT, length = [15] : (tensor<15x$C>) -> tensor<15x$C>
  return %0 : tensor<15x$C>
}
func.func @fft_prime(%x: tensor<2x17x$C>) -> tensor<2x17x$C> {
  %0 = stablehlo.fft %x, type = FFT, length = [17] : (tensor<2x17x$C>) -> tensor<2x17x$C>
  return %0 : tensor<2x17x$C>
}
func.func @fft_one(%x: tensor<2x1x$C>) -> tensor<2x1x$C> {
  %0 = stablehlo.fft %x, type = FFT, length = [1] : (tensor<2x1x$C>) -> tensor<2x1x$C>
  return %0 : tensor<2x1x$C>
}
func.func @fft_2(%x: tensor<2x4x6x$C>) -> tensor<2x4x6x$C> {
  %0 = stablehlo.fft %x, type = FFT, length = [4, 6] : (tensor<2x4x6x$C>) -> tensor<2x4x6x$C>
  return %0 : tensor<2x4x6x$C>
}
func.func @fft_3(%x: tensor<2x3x4x5x$C>) -> tensor<2x3x4x5x$C> {
  %0 = stablehlo.fft %x, type = FFT, length = [3, 4, 5] : (tensor<2x3x4x5x$C>) -> tensor<2x3x4x5x$C>
  return %0 : tensor<2x3x4x5x$C>
}
func.func @fft_empty(%x: tensor<0x4x$C>) -> tensor<0x4x$C> {
  %0 = stablehlo.fft %x, type = FFT, length = [4] : (tensor<0x4x$C>) -> tensor<0x4x$C>
  return %0 : tensor<0x4x$C>
}
func.func @ifft_1(%x: tensor<3x16x$C>) -> tensor<3x16x$C> {
  %0 = stablehlo.fft %x, type = IFFT, length = [16] : (tensor<3x16x$C>) -> tensor<3x16x$C>
  return %0 : tensor<3x16x$C>
}
func.func @ifft_odd(%x: tensor<15x$C>) -> tensor<15x$C> {
  %0 = stablehlo.fft %x, type = IFFT, length = [15] : (tensor<15x$C>) -> tensor<15x$C>
  return %0 : tensor<15x$C>
}
func.func @ifft_prime(%x: tensor<2x17x$C>) -> tensor<2x17x$C> {
  %0 = stablehlo.fft %x, type = IFFT, length = [17] : (tensor<2x17x$C>) -> tensor<2x17x$C>
  return %0 : tensor<2x17x$C>
}
func.func @ifft_one(%x: tensor<2x1x$C>) -> tensor<2x1x$C> {
  %0 = stablehlo.fft %x, type = IFFT, length = [1] : (tensor<2x1x$C>) -> tensor<2x1x$C>
  return %0 : tensor<2x1x$C>
}
func.func @ifft_2(%x: tensor<2x4x6x$C>) -> tensor<2x4x6x$C> {
  %0 = stablehlo.fft %x, type = IFFT, length = [4, 6] : (tensor<2x4x6x$C>) -> tensor<2x4x6x$C>
  return %0 : tensor<2x4x6x$C>
}
func.func @ifft_3(%x: tensor<2x3x4x5x$C>) -> tensor<2x3x4x5x$C> {
  %0 = stablehlo.fft %x, type = IFFT, length = [3, 4, 5] : (tensor<2x3x4x5x$C>) -> tensor<2x3x4x5x$C>
  return %0 : tensor<2x3x4x5x$C>
}
func.func @ifft_empty(%x: tensor<0x4x$C>) -> tensor<0x4x$C> {
  %0 = stablehlo.fft %x, type = IFFT, length = [4] : (tensor<0x4x$C>) -> tensor<0x4x$C>
  return %0 : tensor<0x4x$C>
}
// -----
// ops: stablehlo.fft
// types: float
// values: small
// tolerance: 8
// measure: largest
// oracle: jax reference
func.func @rfft_1(%x: tensor<3x16x$T>) -> tensor<3x9x$C> {
  %0 = stablehlo.fft %x, type = RFFT, length = [16] : (tensor<3x16x$T>) -> tensor<3x9x$C>
  return %0 : tensor<3x9x$C>
}
func.func @rfft_odd(%x: tensor<15x$T>) -> tensor<8x$C> {
  %0 = stablehlo.fft %x, type = RFFT, length = [15] : (tensor<15x$T>) -> tensor<8x$C>
  return %0 : tensor<8x$C>
}
func.func @rfft_2(%x: tensor<2x4x7x$T>) -> tensor<2x4x4x$C> {
  %0 = stablehlo.fft %x, type = RFFT, length = [4, 7] : (tensor<2x4x7x$T>) -> tensor<2x4x4x$C>
  return %0 : tensor<2x4x4x$C>
}
func.func @rfft_3(%x: tensor<3x4x6x$T>) -> tensor<3x4x4x$C> {
  %0 = stablehlo.fft %x, type = RFFT, length = [3, 4, 6] : (tensor<3x4x6x$T>) -> tensor<3x4x4x$C>
  return %0 : tensor<3x4x4x$C>
}
func.func @rfft_one(%x: tensor<2x1x$T>) -> tensor<2x1x$C> {
  %0 = stablehlo.fft %x, type = RFFT, length = [1] : (tensor<2x1x$T>) -> tensor<2x1x$C>
  return %0 : tensor<2x1x$C>
}
func.func @irfft_1(%x: tensor<3x9x$C>) -> tensor<3x16x$T> {
  %0 = stablehlo.fft %x, type = IRFFT, length = [16] : (tensor<3x9x$C>) -> tensor<3x16x$T>
  return %0 : tensor<3x16x$T>
}
func.func @irfft_odd(%x: tensor<8x$C>) -> tensor<15x$T> {
  %0 = stablehlo.fft %x, type = IRFFT, length = [15] : (tensor<8x$C>) -> tensor<15x$T>
  return %0 : tensor<15x$T>
}
func.func @irfft_2(%x: tensor<2x4x4x$C>) -> tensor<2x4x7x$T> {
  %0 = stablehlo.fft %x, type = IRFFT, length = [4, 7] : (tensor<2x4x4x$C>) -> tensor<2x4x7x$T>
  return %0 : tensor<2x4x7x$T>
}
func.func @irfft_3(%x: tensor<3x4x4x$C>) -> tensor<3x4x6x$T> {
  %0 = stablehlo.fft %x, type = IRFFT, length = [3, 4, 6] : (tensor<3x4x4x$C>) -> tensor<3x4x6x$T>
  return %0 : tensor<3x4x6x$T>
}
func.func @irfft_one(%x: tensor<2x1x$C>) -> tensor<2x1x$T> {
  %0 = stablehlo.fft %x, type = IRFFT, length = [1] : (tensor<2x1x$C>) -> tensor<2x1x$T>
  return %0 : tensor<2x1x$T>
}
// -----
// ops: stablehlo.rng_bit_generator
// types: i8 i16 i32 i64 ui8 ui16 ui32 ui64
// oracle: jax
func.func @three_fry_2_vector(%s: tensor<2xui64> {case.range = [0, 1000000]}) -> (tensor<2xui64>, tensor<17x$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<17x$T>)
  return %0, %1 : tensor<2xui64>, tensor<17x$T>
}
func.func @three_fry_2_matrix(%s: tensor<2xui64> {case.range = [0, 1000000]}) -> (tensor<2xui64>, tensor<3x5x$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3x5x$T>)
  return %0, %1 : tensor<2xui64>, tensor<3x5x$T>
}
func.func @three_fry_2_scalar(%s: tensor<2xui64> {case.range = [0, 1000000]}) -> (tensor<2xui64>, tensor<$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<$T>)
  return %0, %1 : tensor<2xui64>, tensor<$T>
}
func.func @three_fry_2_even(%s: tensor<2xui64> {case.range = [0, 1000000]}) -> (tensor<2xui64>, tensor<4x8x$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4x8x$T>)
  return %0, %1 : tensor<2xui64>, tensor<4x8x$T>
}
func.func @three_fry_2_empty(%s: tensor<2xui64> {case.range = [0, 1000000]}) -> (tensor<2xui64>, tensor<0x$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<0x$T>)
  return %0, %1 : tensor<2xui64>, tensor<0x$T>
}
func.func @philox_2_vector(%s: tensor<2xui64> {case.range = [0, 1000000]}) -> (tensor<2xui64>, tensor<17x$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<17x$T>)
  return %0, %1 : tensor<2xui64>, tensor<17x$T>
}
func.func @philox_2_matrix(%s: tensor<2xui64> {case.range = [0, 1000000]}) -> (tensor<2xui64>, tensor<3x5x$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3x5x$T>)
  return %0, %1 : tensor<2xui64>, tensor<3x5x$T>
}
func.func @philox_2_scalar(%s: tensor<2xui64> {case.range = [0, 1000000]}) -> (tensor<2xui64>, tensor<$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<$T>)
  return %0, %1 : tensor<2xui64>, tensor<$T>
}
func.func @philox_2_even(%s: tensor<2xui64> {case.range = [0, 1000000]}) -> (tensor<2xui64>, tensor<4x8x$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4x8x$T>)
  return %0, %1 : tensor<2xui64>, tensor<4x8x$T>
}
func.func @philox_2_empty(%s: tensor<2xui64> {case.range = [0, 1000000]}) -> (tensor<2xui64>, tensor<0x$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<0x$T>)
  return %0, %1 : tensor<2xui64>, tensor<0x$T>
}
func.func @philox_3_vector(%s: tensor<3xui64> {case.range = [0, 1000000]}) -> (tensor<3xui64>, tensor<17x$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<3xui64>) -> (tensor<3xui64>, tensor<17x$T>)
  return %0, %1 : tensor<3xui64>, tensor<17x$T>
}
func.func @philox_3_matrix(%s: tensor<3xui64> {case.range = [0, 1000000]}) -> (tensor<3xui64>, tensor<3x5x$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<3xui64>) -> (tensor<3xui64>, tensor<3x5x$T>)
  return %0, %1 : tensor<3xui64>, tensor<3x5x$T>
}
func.func @philox_3_scalar(%s: tensor<3xui64> {case.range = [0, 1000000]}) -> (tensor<3xui64>, tensor<$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<3xui64>) -> (tensor<3xui64>, tensor<$T>)
  return %0, %1 : tensor<3xui64>, tensor<$T>
}
func.func @philox_3_even(%s: tensor<3xui64> {case.range = [0, 1000000]}) -> (tensor<3xui64>, tensor<4x8x$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<3xui64>) -> (tensor<3xui64>, tensor<4x8x$T>)
  return %0, %1 : tensor<3xui64>, tensor<4x8x$T>
}
func.func @philox_3_empty(%s: tensor<3xui64> {case.range = [0, 1000000]}) -> (tensor<3xui64>, tensor<0x$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<3xui64>) -> (tensor<3xui64>, tensor<0x$T>)
  return %0, %1 : tensor<3xui64>, tensor<0x$T>
}
func.func @default_2_vector(%s: tensor<2xui64> {case.range = [0, 1000000]}) -> (tensor<2xui64>, tensor<17x$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<17x$T>)
  return %0, %1 : tensor<2xui64>, tensor<17x$T>
}
func.func @default_2_matrix(%s: tensor<2xui64> {case.range = [0, 1000000]}) -> (tensor<2xui64>, tensor<3x5x$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3x5x$T>)
  return %0, %1 : tensor<2xui64>, tensor<3x5x$T>
}
func.func @default_2_scalar(%s: tensor<2xui64> {case.range = [0, 1000000]}) -> (tensor<2xui64>, tensor<$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<$T>)
  return %0, %1 : tensor<2xui64>, tensor<$T>
}
func.func @default_2_even(%s: tensor<2xui64> {case.range = [0, 1000000]}) -> (tensor<2xui64>, tensor<4x8x$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4x8x$T>)
  return %0, %1 : tensor<2xui64>, tensor<4x8x$T>
}
func.func @default_2_empty(%s: tensor<2xui64> {case.range = [0, 1000000]}) -> (tensor<2xui64>, tensor<0x$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<0x$T>)
  return %0, %1 : tensor<2xui64>, tensor<0x$T>
}
func.func @default_3_vector(%s: tensor<3xui64> {case.range = [0, 1000000]}) -> (tensor<3xui64>, tensor<17x$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = DEFAULT : (tensor<3xui64>) -> (tensor<3xui64>, tensor<17x$T>)
  return %0, %1 : tensor<3xui64>, tensor<17x$T>
}
func.func @default_3_matrix(%s: tensor<3xui64> {case.range = [0, 1000000]}) -> (tensor<3xui64>, tensor<3x5x$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = DEFAULT : (tensor<3xui64>) -> (tensor<3xui64>, tensor<3x5x$T>)
  return %0, %1 : tensor<3xui64>, tensor<3x5x$T>
}
func.func @default_3_scalar(%s: tensor<3xui64> {case.range = [0, 1000000]}) -> (tensor<3xui64>, tensor<$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = DEFAULT : (tensor<3xui64>) -> (tensor<3xui64>, tensor<$T>)
  return %0, %1 : tensor<3xui64>, tensor<$T>
}
func.func @default_3_even(%s: tensor<3xui64> {case.range = [0, 1000000]}) -> (tensor<3xui64>, tensor<4x8x$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = DEFAULT : (tensor<3xui64>) -> (tensor<3xui64>, tensor<4x8x$T>)
  return %0, %1 : tensor<3xui64>, tensor<4x8x$T>
}
func.func @default_3_empty(%s: tensor<3xui64> {case.range = [0, 1000000]}) -> (tensor<3xui64>, tensor<0x$T>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = DEFAULT : (tensor<3xui64>) -> (tensor<3xui64>, tensor<0x$T>)
  return %0, %1 : tensor<3xui64>, tensor<0x$T>
}
// -----
// In [a, b): the numbers are left open, and these are tested in test/run/test_rng.py.
// ops: stablehlo.rng
// types: i1 integer
// values: ternary
// oracle: true
func.func @uniform(%a: tensor<$T> {case.range = [0, 0]}, %b: tensor<$T> {case.range = [1, 1]}) -> tensor<3x5xi1> {
  %s = stablehlo.constant dense<[3, 5]> : tensor<2xi64>
  %0 = "$OP"(%a, %b, %s) {rng_distribution = #stablehlo<rng_distribution UNIFORM>} : (tensor<$T>, tensor<$T>, tensor<2xi64>) -> tensor<3x5x$T>
  %1 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<$T>) -> tensor<3x5x$T>
  %2 = stablehlo.broadcast_in_dim %b, dims = [] : (tensor<$T>) -> tensor<3x5x$T>
  %3 = stablehlo.compare GE, %0, %1 : (tensor<3x5x$T>, tensor<3x5x$T>) -> tensor<3x5xi1>
  %4 = stablehlo.compare LT, %0, %2 : (tensor<3x5x$T>, tensor<3x5x$T>) -> tensor<3x5xi1>
  %5 = stablehlo.and %3, %4 : tensor<3x5xi1>
  return %5 : tensor<3x5xi1>
}
func.func @scalar(%a: tensor<$T> {case.range = [0, 0]}, %b: tensor<$T> {case.range = [1, 1]}) -> tensor<i1> {
  %s = stablehlo.constant dense<> : tensor<0xi64>
  %0 = "$OP"(%a, %b, %s) {rng_distribution = #stablehlo<rng_distribution UNIFORM>} : (tensor<$T>, tensor<$T>, tensor<0xi64>) -> tensor<$T>
  %1 = stablehlo.compare LT, %0, %b : (tensor<$T>, tensor<$T>) -> tensor<i1>
  return %1 : tensor<i1>
}
func.func @empty(%a: tensor<$T>, %b: tensor<$T>) -> tensor<0x$T> {
  %s = stablehlo.constant dense<[0]> : tensor<1xi64>
  %0 = "$OP"(%a, %b, %s) {rng_distribution = #stablehlo<rng_distribution UNIFORM>} : (tensor<$T>, tensor<$T>, tensor<1xi64>) -> tensor<0x$T>
  return %0 : tensor<0x$T>
}
// -----
// ops: stablehlo.rng
// types: small-float half float
// values: ternary
// oracle: true
func.func @uniform(%a: tensor<$T> {case.range = [1, 1]}, %b: tensor<$T> {case.range = [2, 2]}) -> tensor<3x5xi1> {
  %s = stablehlo.constant dense<[3, 5]> : tensor<2xi64>
  %0 = "$OP"(%a, %b, %s) {rng_distribution = #stablehlo<rng_distribution UNIFORM>} : (tensor<$T>, tensor<$T>, tensor<2xi64>) -> tensor<3x5x$T>
  %1 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<$T>) -> tensor<3x5x$T>
  %2 = stablehlo.broadcast_in_dim %b, dims = [] : (tensor<$T>) -> tensor<3x5x$T>
  %3 = stablehlo.compare GE, %0, %1 : (tensor<3x5x$T>, tensor<3x5x$T>) -> tensor<3x5xi1>
  %4 = stablehlo.compare LT, %0, %2 : (tensor<3x5x$T>, tensor<3x5x$T>) -> tensor<3x5xi1>
  %5 = stablehlo.and %3, %4 : tensor<3x5xi1>
  return %5 : tensor<3x5xi1>
}
func.func @scalar(%a: tensor<$T> {case.range = [1, 1]}, %b: tensor<$T> {case.range = [2, 2]}) -> tensor<i1> {
  %s = stablehlo.constant dense<> : tensor<0xi64>
  %0 = "$OP"(%a, %b, %s) {rng_distribution = #stablehlo<rng_distribution UNIFORM>} : (tensor<$T>, tensor<$T>, tensor<0xi64>) -> tensor<$T>
  %1 = stablehlo.compare LT, %0, %b : (tensor<$T>, tensor<$T>) -> tensor<i1>
  return %1 : tensor<i1>
}
func.func @empty(%a: tensor<$T>, %b: tensor<$T>) -> tensor<0x$T> {
  %s = stablehlo.constant dense<[0]> : tensor<1xi64>
  %0 = "$OP"(%a, %b, %s) {rng_distribution = #stablehlo<rng_distribution UNIFORM>} : (tensor<$T>, tensor<$T>, tensor<1xi64>) -> tensor<0x$T>
  return %0 : tensor<0x$T>
}
// -----
// A standard deviation of 0, which f8E8M0FNU lacks.
// ops: stablehlo.rng
// types: f4E2M1FN f6E2M3FN f6E3M2FN f8E3M4 f8E4M3 f8E4M3B11FNUZ f8E4M3FN f8E4M3FNUZ f8E5M2 f8E5M2FNUZ half float
// values: ternary
// oracle: true
func.func @normal(%a: tensor<$T> {case.range = [1, 1]}, %b: tensor<$T> {case.range = [0, 0]}) -> tensor<3x5xi1> {
  %s = stablehlo.constant dense<[3, 5]> : tensor<2xi64>
  %0 = "$OP"(%a, %b, %s) {rng_distribution = #stablehlo<rng_distribution NORMAL>} : (tensor<$T>, tensor<$T>, tensor<2xi64>) -> tensor<3x5x$T>
  %1 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<$T>) -> tensor<3x5x$T>
  %2 = stablehlo.compare EQ, %0, %1 : (tensor<3x5x$T>, tensor<3x5x$T>) -> tensor<3x5xi1>
  return %2 : tensor<3x5xi1>
}
// -----
// XLA has bits of 8 to 64-bit integers only: other types have those of the unsigned integer of their width ($U).
// ops: stablehlo.rng_bit_generator
// types: small-int small-uint f4E2M1FN f8E3M4 f8E4M3 f8E4M3B11FNUZ f8E4M3FN f8E4M3FNUZ f8E5M2 f8E5M2FNUZ f8E8M0FNU half float
// oracle: true
func.func @three_fry(%s: tensor<2xui64> {case.range = [0, 1000000]}) -> tensor<4x8xi1> {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4x8x$T>)
  %2, %3 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4x8x$U>)
  %4 = stablehlo.bitcast_convert %1 : (tensor<4x8x$T>) -> tensor<4x8x$U>
  %5 = stablehlo.compare EQ, %3, %4 : (tensor<4x8x$U>, tensor<4x8x$U>) -> tensor<4x8xi1>
  return %5 : tensor<4x8xi1>
}
func.func @philox(%s: tensor<3xui64> {case.range = [0, 1000000]}) -> tensor<17xi1> {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<3xui64>) -> (tensor<3xui64>, tensor<17x$T>)
  %2, %3 = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<3xui64>) -> (tensor<3xui64>, tensor<17x$U>)
  %4 = stablehlo.bitcast_convert %1 : (tensor<17x$T>) -> tensor<17x$U>
  %5 = stablehlo.compare EQ, %3, %4 : (tensor<17x$U>, tensor<17x$U>) -> tensor<17xi1>
  return %5 : tensor<17xi1>
}
// -----
// ops: stablehlo.cholesky
// types: quantized
// oracle: evaluate
func.func @of_a_diagonal(%x: tensor<1x1x$T> {case.range = [1, 1]}) -> tensor<1x1x$T> {
  %0 = "$OP"(%x) <{lower = true}> : (tensor<1x1x$T>) -> tensor<1x1x$T>
  return %0 : tensor<1x1x$T>
}
// -----
// ops: stablehlo.cholesky
// types: f8E3M4 f8E4M3 f8E4M3FN f8E5M2
// tolerance: 1
// oracle: wide
func.func @one(%x: tensor<2x1x1x$T> {case.range = [1, 4]}) -> tensor<2x1x1x$T> {
  %0 = "$OP"(%x) <{lower = true}> : (tensor<2x1x1x$T>) -> tensor<2x1x1x$T>
  return %0 : tensor<2x1x1x$T>
}
func.func @two(%x: tensor<2x2x$T> {case.range = [1, 1]}) -> tensor<2x2x$T> {
  %a = stablehlo.constant dense<[[3.0, 1.0], [1.0, 3.0]]> : tensor<2x2x$T>
  %b = stablehlo.add %x, %a : tensor<2x2x$T>
  %0 = "$OP"(%b) <{lower = true}> : (tensor<2x2x$T>) -> tensor<2x2x$T>
  %i = stablehlo.iota dim = 0 : tensor<2x2xi32>
  %j = stablehlo.iota dim = 1 : tensor<2x2xi32>
  %p = stablehlo.compare GE, %i, %j : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi1>
  %z = stablehlo.constant dense<0.0> : tensor<2x2x$T>
  %r = stablehlo.select %p, %0, %z : tensor<2x2xi1>, tensor<2x2x$T>
  return %r : tensor<2x2x$T>
}
