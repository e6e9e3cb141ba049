// ops: stablehlo.negate
// types: number quantized
// values: special
func.func @vector(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x) : (tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @one(%x: tensor<1x1x$T>) -> tensor<1x1x$T> {
  %0 = "$OP"(%x) : (tensor<1x1x$T>) -> tensor<1x1x$T>
  return %0 : tensor<1x1x$T>
}
func.func @empty(%x: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x) : (tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: stablehlo.sign
// types: signed small-float half float complex quantized
// values: special
// tolerance: 2
func.func @vector(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x) : (tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @one(%x: tensor<1x1x$T>) -> tensor<1x1x$T> {
  %0 = "$OP"(%x) : (tensor<1x1x$T>) -> tensor<1x1x$T>
  return %0 : tensor<1x1x$T>
}
func.func @empty(%x: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x) : (tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: stablehlo.abs
// types: signed small-float half float complex quantized
// values: special
// tolerance: 2
// oracle: wide reference jax
func.func @vector(%x: tensor<131x$T>) -> tensor<131x$P> {
  %0 = "$OP"(%x) : (tensor<131x$T>) -> tensor<131x$P>
  return %0 : tensor<131x$P>
}
func.func @scalar(%x: tensor<$T>) -> tensor<$P> {
  %0 = "$OP"(%x) : (tensor<$T>) -> tensor<$P>
  return %0 : tensor<$P>
}
func.func @one(%x: tensor<1x1x$T>) -> tensor<1x1x$P> {
  %0 = "$OP"(%x) : (tensor<1x1x$T>) -> tensor<1x1x$P>
  return %0 : tensor<1x1x$P>
}
func.func @empty(%x: tensor<3x0x$T>) -> tensor<3x0x$P> {
  %0 = "$OP"(%x) : (tensor<3x0x$T>) -> tensor<3x0x$P>
  return %0 : tensor<3x0x$P>
}
// -----
// ops: stablehlo.ceil stablehlo.floor stablehlo.round_nearest_afz stablehlo.round_nearest_even
// types: small-float half float quantized
// values: special
func.func @vector(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x) : (tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @one(%x: tensor<1x1x$T>) -> tensor<1x1x$T> {
  %0 = "$OP"(%x) : (tensor<1x1x$T>) -> tensor<1x1x$T>
  return %0 : tensor<1x1x$T>
}
func.func @empty(%x: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x) : (tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: stablehlo.is_finite
// types: small-float half float quantized
// values: special
func.func @vector(%x: tensor<131x$T>) -> tensor<131xi1> {
  %0 = "$OP"(%x) : (tensor<131x$T>) -> tensor<131xi1>
  return %0 : tensor<131xi1>
}
func.func @scalar(%x: tensor<$T>) -> tensor<i1> {
  %0 = "$OP"(%x) : (tensor<$T>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func @one(%x: tensor<1x1x$T>) -> tensor<1x1xi1> {
  %0 = "$OP"(%x) : (tensor<1x1x$T>) -> tensor<1x1xi1>
  return %0 : tensor<1x1xi1>
}
func.func @empty(%x: tensor<3x0x$T>) -> tensor<3x0xi1> {
  %0 = "$OP"(%x) : (tensor<3x0x$T>) -> tensor<3x0xi1>
  return %0 : tensor<3x0xi1>
}
// -----
// ops: stablehlo.cbrt stablehlo.cosine stablehlo.exponential stablehlo.exponential_minus_one stablehlo.log stablehlo.log_plus_one stablehlo.rsqrt stablehlo.sine stablehlo.sqrt stablehlo.tan stablehlo.tanh
// types: small-float half float complex quantized
// values: special
// tolerance: 8
func.func @vector(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x) : (tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @one(%x: tensor<1x1x$T>) -> tensor<1x1x$T> {
  %0 = "$OP"(%x) : (tensor<1x1x$T>) -> tensor<1x1x$T>
  return %0 : tensor<1x1x$T>
}
func.func @empty(%x: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x) : (tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// The reference interpreter rounds every step, and XLA loses small results of f16.
// ops: stablehlo.logistic
// types: small-float half float complex quantized
// values: special
// tolerance: 8
// oracle: exact wide jax
func.func @vector(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x) : (tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @one(%x: tensor<1x1x$T>) -> tensor<1x1x$T> {
  %0 = "$OP"(%x) : (tensor<1x1x$T>) -> tensor<1x1x$T>
  return %0 : tensor<1x1x$T>
}
func.func @empty(%x: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x) : (tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: stablehlo.count_leading_zeros stablehlo.popcnt
// types: integer
// values: special
func.func @vector(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x) : (tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @one(%x: tensor<1x1x$T>) -> tensor<1x1x$T> {
  %0 = "$OP"(%x) : (tensor<1x1x$T>) -> tensor<1x1x$T>
  return %0 : tensor<1x1x$T>
}
func.func @empty(%x: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x) : (tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: stablehlo.not
// types: i1 integer
// values: special
func.func @vector(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x) : (tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @one(%x: tensor<1x1x$T>) -> tensor<1x1x$T> {
  %0 = "$OP"(%x) : (tensor<1x1x$T>) -> tensor<1x1x$T>
  return %0 : tensor<1x1x$T>
}
func.func @empty(%x: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x) : (tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: stablehlo.real stablehlo.imag
// types: small-float half float complex
// values: special
func.func @vector(%x: tensor<131x$T>) -> tensor<131x$P> {
  %0 = "$OP"(%x) : (tensor<131x$T>) -> tensor<131x$P>
  return %0 : tensor<131x$P>
}
func.func @scalar(%x: tensor<$T>) -> tensor<$P> {
  %0 = "$OP"(%x) : (tensor<$T>) -> tensor<$P>
  return %0 : tensor<$P>
}
func.func @one(%x: tensor<1x1x$T>) -> tensor<1x1x$P> {
  %0 = "$OP"(%x) : (tensor<1x1x$T>) -> tensor<1x1x$P>
  return %0 : tensor<1x1x$P>
}
func.func @empty(%x: tensor<3x0x$T>) -> tensor<3x0x$P> {
  %0 = "$OP"(%x) : (tensor<3x0x$T>) -> tensor<3x0x$P>
  return %0 : tensor<3x0x$P>
}
// -----
// ops: stablehlo.complex
// types: float
// values: special
func.func @vector(%x: tensor<131x$T>, %y: tensor<131x$T>) -> tensor<131x$C> {
  %0 = "$OP"(%x, %y) : (tensor<131x$T>, tensor<131x$T>) -> tensor<131x$C>
  return %0 : tensor<131x$C>
}
func.func @scalar(%x: tensor<$T>, %y: tensor<$T>) -> tensor<$C> {
  %0 = "$OP"(%x, %y) : (tensor<$T>, tensor<$T>) -> tensor<$C>
  return %0 : tensor<$C>
}
func.func @one(%x: tensor<1x1x$T>, %y: tensor<1x1x$T>) -> tensor<1x1x$C> {
  %0 = "$OP"(%x, %y) : (tensor<1x1x$T>, tensor<1x1x$T>) -> tensor<1x1x$C>
  return %0 : tensor<1x1x$C>
}
func.func @empty(%x: tensor<3x0x$T>, %y: tensor<3x0x$T>) -> tensor<3x0x$C> {
  %0 = "$OP"(%x, %y) : (tensor<3x0x$T>, tensor<3x0x$T>) -> tensor<3x0x$C>
  return %0 : tensor<3x0x$C>
}
// -----
// ops: stablehlo.add stablehlo.multiply stablehlo.maximum stablehlo.minimum
// types: any quantized
// values: special
// tolerance: 2
func.func @vector(%x: tensor<131x$T>, %y: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x, %y) : (tensor<131x$T>, tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>, %y: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x, %y) : (tensor<$T>, tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @one(%x: tensor<1x1x$T>, %y: tensor<1x1x$T>) -> tensor<1x1x$T> {
  %0 = "$OP"(%x, %y) : (tensor<1x1x$T>, tensor<1x1x$T>) -> tensor<1x1x$T>
  return %0 : tensor<1x1x$T>
}
func.func @empty(%x: tensor<3x0x$T>, %y: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x0x$T>, tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: stablehlo.subtract
// types: number quantized
// values: special
// tolerance: 2
func.func @vector(%x: tensor<131x$T>, %y: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x, %y) : (tensor<131x$T>, tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>, %y: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x, %y) : (tensor<$T>, tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @one(%x: tensor<1x1x$T>, %y: tensor<1x1x$T>) -> tensor<1x1x$T> {
  %0 = "$OP"(%x, %y) : (tensor<1x1x$T>, tensor<1x1x$T>) -> tensor<1x1x$T>
  return %0 : tensor<1x1x$T>
}
func.func @empty(%x: tensor<3x0x$T>, %y: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x0x$T>, tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: stablehlo.divide
// types: number quantized
// values: special
// tolerance: 4
func.func @vector(%x: tensor<131x$T>, %y: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x, %y) : (tensor<131x$T>, tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>, %y: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x, %y) : (tensor<$T>, tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @one(%x: tensor<1x1x$T>, %y: tensor<1x1x$T>) -> tensor<1x1x$T> {
  %0 = "$OP"(%x, %y) : (tensor<1x1x$T>, tensor<1x1x$T>) -> tensor<1x1x$T>
  return %0 : tensor<1x1x$T>
}
func.func @empty(%x: tensor<3x0x$T>, %y: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x0x$T>, tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: stablehlo.remainder
// types: number quantized
// values: special
func.func @vector(%x: tensor<131x$T>, %y: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x, %y) : (tensor<131x$T>, tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>, %y: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x, %y) : (tensor<$T>, tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @one(%x: tensor<1x1x$T>, %y: tensor<1x1x$T>) -> tensor<1x1x$T> {
  %0 = "$OP"(%x, %y) : (tensor<1x1x$T>, tensor<1x1x$T>) -> tensor<1x1x$T>
  return %0 : tensor<1x1x$T>
}
func.func @empty(%x: tensor<3x0x$T>, %y: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x0x$T>, tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: stablehlo.power
// types: number quantized
// values: special
// tolerance: 64
func.func @vector(%x: tensor<131x$T>, %y: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x, %y) : (tensor<131x$T>, tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>, %y: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x, %y) : (tensor<$T>, tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @one(%x: tensor<1x1x$T>, %y: tensor<1x1x$T>) -> tensor<1x1x$T> {
  %0 = "$OP"(%x, %y) : (tensor<1x1x$T>, tensor<1x1x$T>) -> tensor<1x1x$T>
  return %0 : tensor<1x1x$T>
}
func.func @empty(%x: tensor<3x0x$T>, %y: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x0x$T>, tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: stablehlo.atan2
// types: small-float half float complex quantized
// values: special
// tolerance: 16
func.func @vector(%x: tensor<131x$T>, %y: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x, %y) : (tensor<131x$T>, tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>, %y: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x, %y) : (tensor<$T>, tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @one(%x: tensor<1x1x$T>, %y: tensor<1x1x$T>) -> tensor<1x1x$T> {
  %0 = "$OP"(%x, %y) : (tensor<1x1x$T>, tensor<1x1x$T>) -> tensor<1x1x$T>
  return %0 : tensor<1x1x$T>
}
func.func @empty(%x: tensor<3x0x$T>, %y: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x0x$T>, tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: stablehlo.and stablehlo.or stablehlo.xor
// types: i1 integer
// values: special
func.func @vector(%x: tensor<131x$T>, %y: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x, %y) : (tensor<131x$T>, tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>, %y: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x, %y) : (tensor<$T>, tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @one(%x: tensor<1x1x$T>, %y: tensor<1x1x$T>) -> tensor<1x1x$T> {
  %0 = "$OP"(%x, %y) : (tensor<1x1x$T>, tensor<1x1x$T>) -> tensor<1x1x$T>
  return %0 : tensor<1x1x$T>
}
func.func @empty(%x: tensor<3x0x$T>, %y: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x0x$T>, tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: stablehlo.shift_left stablehlo.shift_right_arithmetic stablehlo.shift_right_logical
// types: integer
// values: special
func.func @vector(%x: tensor<131x$T>, %y: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x, %y) : (tensor<131x$T>, tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>, %y: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x, %y) : (tensor<$T>, tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @one(%x: tensor<1x1x$T>, %y: tensor<1x1x$T>) -> tensor<1x1x$T> {
  %0 = "$OP"(%x, %y) : (tensor<1x1x$T>, tensor<1x1x$T>) -> tensor<1x1x$T>
  return %0 : tensor<1x1x$T>
}
func.func @empty(%x: tensor<3x0x$T>, %y: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x0x$T>, tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: stablehlo.clamp
// types: any quantized
// values: special
func.func @vector(%x: tensor<131x$T>, %y: tensor<131x$T>, %z: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x, %y, %z) : (tensor<131x$T>, tensor<131x$T>, tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>, %y: tensor<$T>, %z: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x, %y, %z) : (tensor<$T>, tensor<$T>, tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @one(%x: tensor<1x1x$T>, %y: tensor<1x1x$T>, %z: tensor<1x1x$T>) -> tensor<1x1x$T> {
  %0 = "$OP"(%x, %y, %z) : (tensor<1x1x$T>, tensor<1x1x$T>, tensor<1x1x$T>) -> tensor<1x1x$T>
  return %0 : tensor<1x1x$T>
}
func.func @empty(%x: tensor<3x0x$T>, %y: tensor<3x0x$T>, %z: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x, %y, %z) : (tensor<3x0x$T>, tensor<3x0x$T>, tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: stablehlo.compare
// types: i1 integer small-float half float complex quantized
// values: special
func.func @lt(%x: tensor<67x$T>, %y: tensor<67x$T>) -> tensor<67xi1> {
  %0 = "$OP"(%x, %y) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<67x$T>, tensor<67x$T>) -> tensor<67xi1>
  return %0 : tensor<67xi1>
}
func.func @le(%x: tensor<67x$T>, %y: tensor<67x$T>) -> tensor<67xi1> {
  %0 = "$OP"(%x, %y) <{comparison_direction = #stablehlo<comparison_direction LE>}> : (tensor<67x$T>, tensor<67x$T>) -> tensor<67xi1>
  return %0 : tensor<67xi1>
}
func.func @gt(%x: tensor<67x$T>, %y: tensor<67x$T>) -> tensor<67xi1> {
  %0 = "$OP"(%x, %y) <{comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<67x$T>, tensor<67x$T>) -> tensor<67xi1>
  return %0 : tensor<67xi1>
}
func.func @ge(%x: tensor<67x$T>, %y: tensor<67x$T>) -> tensor<67xi1> {
  %0 = "$OP"(%x, %y) <{comparison_direction = #stablehlo<comparison_direction GE>}> : (tensor<67x$T>, tensor<67x$T>) -> tensor<67xi1>
  return %0 : tensor<67xi1>
}
// -----
// ops: stablehlo.compare
// types: any quantized
// values: special
func.func @eq(%x: tensor<67x$T>, %y: tensor<67x$T>) -> tensor<67xi1> {
  %0 = "$OP"(%x, %y) <{comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<67x$T>, tensor<67x$T>) -> tensor<67xi1>
  return %0 : tensor<67xi1>
}
func.func @ne(%x: tensor<67x$T>, %y: tensor<67x$T>) -> tensor<67xi1> {
  %0 = "$OP"(%x, %y) <{comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<67x$T>, tensor<67x$T>) -> tensor<67xi1>
  return %0 : tensor<67xi1>
}
// -----
// ops: stablehlo.compare
// types: small-float half float
// values: special
// oracle: jax
func.func @total_eq(%x: tensor<67x$T>, %y: tensor<67x$T>) -> tensor<67xi1> {
  %0 = "$OP"(%x, %y) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type TOTALORDER>}> : (tensor<67x$T>, tensor<67x$T>) -> tensor<67xi1>
  return %0 : tensor<67xi1>
}
func.func @total_ne(%x: tensor<67x$T>, %y: tensor<67x$T>) -> tensor<67xi1> {
  %0 = "$OP"(%x, %y) <{comparison_direction = #stablehlo<comparison_direction NE>, compare_type = #stablehlo<comparison_type TOTALORDER>}> : (tensor<67x$T>, tensor<67x$T>) -> tensor<67xi1>
  return %0 : tensor<67xi1>
}
func.func @total_lt(%x: tensor<67x$T>, %y: tensor<67x$T>) -> tensor<67xi1> {
  %0 = "$OP"(%x, %y) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type TOTALORDER>}> : (tensor<67x$T>, tensor<67x$T>) -> tensor<67xi1>
  return %0 : tensor<67xi1>
}
func.func @total_le(%x: tensor<67x$T>, %y: tensor<67x$T>) -> tensor<67xi1> {
  %0 = "$OP"(%x, %y) <{comparison_direction = #stablehlo<comparison_direction LE>, compare_type = #stablehlo<comparison_type TOTALORDER>}> : (tensor<67x$T>, tensor<67x$T>) -> tensor<67xi1>
  return %0 : tensor<67xi1>
}
func.func @total_gt(%x: tensor<67x$T>, %y: tensor<67x$T>) -> tensor<67xi1> {
  %0 = "$OP"(%x, %y) <{comparison_direction = #stablehlo<comparison_direction GT>, compare_type = #stablehlo<comparison_type TOTALORDER>}> : (tensor<67x$T>, tensor<67x$T>) -> tensor<67xi1>
  return %0 : tensor<67xi1>
}
func.func @total_ge(%x: tensor<67x$T>, %y: tensor<67x$T>) -> tensor<67xi1> {
  %0 = "$OP"(%x, %y) <{comparison_direction = #stablehlo<comparison_direction GE>, compare_type = #stablehlo<comparison_type TOTALORDER>}> : (tensor<67x$T>, tensor<67x$T>) -> tensor<67xi1>
  return %0 : tensor<67xi1>
}
// -----
// ops: stablehlo.clamp
// types: any quantized
func.func @scalar_bounds(%x: tensor<3x5x$T>, %low: tensor<$T>, %high: tensor<$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%low, %x, %high) : (tensor<$T>, tensor<3x5x$T>, tensor<$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
// -----
// ops: stablehlo.select
// types: any quantized
func.func @elements(%p: tensor<3x5xi1>, %x: tensor<3x5x$T>, %y: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%p, %x, %y) : (tensor<3x5xi1>, tensor<3x5x$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @scalar_predicate(%p: tensor<i1>, %x: tensor<3x5x$T>, %y: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%p, %x, %y) : (tensor<i1>, tensor<3x5x$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @scalars(%p: tensor<i1>, %x: tensor<$T>, %y: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%p, %x, %y) : (tensor<i1>, tensor<$T>, tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @empty(%p: tensor<0xi1>, %x: tensor<0x$T>, %y: tensor<0x$T>) -> tensor<0x$T> {
  %0 = "$OP"(%p, %x, %y) : (tensor<0xi1>, tensor<0x$T>, tensor<0x$T>) -> tensor<0x$T>
  return %0 : tensor<0x$T>
}
// -----
// ops: stablehlo.reduce_precision
// types: half float quantized
// values: special
func.func @e5m10(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) <{exponent_bits = 5 : i32, mantissa_bits = 10 : i32}> : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @e8m7(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) <{exponent_bits = 8 : i32, mantissa_bits = 7 : i32}> : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @e8m23(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) <{exponent_bits = 8 : i32, mantissa_bits = 23 : i32}> : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @e1m0(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) <{exponent_bits = 1 : i32, mantissa_bits = 0 : i32}> : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @e4m3(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) <{exponent_bits = 4 : i32, mantissa_bits = 3 : i32}> : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @e2m1(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) <{exponent_bits = 2 : i32, mantissa_bits = 1 : i32}> : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @e11m52(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) <{exponent_bits = 11 : i32, mantissa_bits = 52 : i32}> : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @e5m0(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) <{exponent_bits = 5 : i32, mantissa_bits = 0 : i32}> : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @e3m30(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) <{exponent_bits = 3 : i32, mantissa_bits = 30 : i32}> : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
// -----
// Infinity is NaN where the type has none, which the reference interpreter does not know; XLA rounds halves of denormal
// numbers otherwise.
// ops: stablehlo.reduce_precision
// types: small-float
// values: special
// oracle: evaluate
func.func @e5m10(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) <{exponent_bits = 5 : i32, mantissa_bits = 10 : i32}> : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @e8m7(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) <{exponent_bits = 8 : i32, mantissa_bits = 7 : i32}> : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @e8m23(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) <{exponent_bits = 8 : i32, mantissa_bits = 23 : i32}> : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @e1m0(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) <{exponent_bits = 1 : i32, mantissa_bits = 0 : i32}> : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @e4m3(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) <{exponent_bits = 4 : i32, mantissa_bits = 3 : i32}> : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @e2m1(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) <{exponent_bits = 2 : i32, mantissa_bits = 1 : i32}> : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @e11m52(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) <{exponent_bits = 11 : i32, mantissa_bits = 52 : i32}> : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @e5m0(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) <{exponent_bits = 5 : i32, mantissa_bits = 0 : i32}> : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @e3m30(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) <{exponent_bits = 3 : i32, mantissa_bits = 30 : i32}> : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
