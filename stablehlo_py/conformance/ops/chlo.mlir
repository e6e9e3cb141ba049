// ops: chlo.acos chlo.asin chlo.atan chlo.atanh
// types: small-float half float complex
// values: unit
// tolerance: 8
// oracle: exact wide jax reference
func.func @vector(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x) : (tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @empty(%x: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x) : (tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: chlo.acosh chlo.asinh chlo.cosh chlo.sinh chlo.tan
// types: small-float half float complex
// values: special
// tolerance: 8
// oracle: exact wide jax reference
func.func @vector(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x) : (tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @empty(%x: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x) : (tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: chlo._asin_acos_kernel
// types: complex
// values: special
// tolerance: 8
// oracle: reference
func.func @vector(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x) : (tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @empty(%x: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x) : (tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: chlo.bessel_i1e chlo.digamma chlo.erf chlo.erf_inv chlo.erfc chlo.lgamma
// types: small-float half float
// values: unit
// tolerance: 64
// oracle: exact wide jax reference
func.func @vector(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x) : (tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @empty(%x: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x) : (tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: chlo.conj
// types: complex small-float half float
// values: special
// tolerance: 0
// oracle: jax reference
func.func @vector(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x) : (tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @empty(%x: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x) : (tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: chlo.square
// types: small-float half float complex
// values: special
// tolerance: 2
// oracle: jax reference
func.func @vector(%x: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x) : (tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x) : (tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @empty(%x: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x) : (tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: chlo.is_inf chlo.is_neg_inf chlo.is_pos_inf
// types: small-float half float
// values: special
// tolerance: 0
// oracle: jax reference
func.func @vector(%x: tensor<131x$T>) -> tensor<131xi1> {
  %0 = "$OP"(%x) : (tensor<131x$T>) -> tensor<131xi1>
  return %0 : tensor<131xi1>
}
func.func @scalar(%x: tensor<$T>) -> tensor<i1> {
  %0 = "$OP"(%x) : (tensor<$T>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func @empty(%x: tensor<3x0x$T>) -> tensor<3x0xi1> {
  %0 = "$OP"(%x) : (tensor<3x0x$T>) -> tensor<3x0xi1>
  return %0 : tensor<3x0xi1>
}
// -----
// ops: chlo.next_after
// types: small-float half float
// values: special
// tolerance: 0
// oracle: jax reference
func.func @vector(%x: tensor<131x$T>, %y: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x, %y) : (tensor<131x$T>, tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>, %y: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x, %y) : (tensor<$T>, tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @empty(%x: tensor<3x0x$T>, %y: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x0x$T>, tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: chlo.polygamma chlo.zeta
// types: small-float half float
// values: positive
// tolerance: 256
// oracle: wide jax reference
func.func @vector(%x: tensor<131x$T> {case.range = [2, 15]}, %y: tensor<131x$T> {case.range = [2, 15]}) -> tensor<131x$T> {
  %0 = "$OP"(%x, %y) : (tensor<131x$T>, tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T> {case.range = [2, 15]}, %y: tensor<$T> {case.range = [2, 15]}) -> tensor<$T> {
  %0 = "$OP"(%x, %y) : (tensor<$T>, tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @empty(%x: tensor<3x0x$T> {case.range = [2, 15]}, %y: tensor<3x0x$T> {case.range = [2, 15]}) -> tensor<3x0x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x0x$T>, tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: chlo.mulhi
// types: int uint
// values: special
// tolerance: 0
// oracle: jax reference
func.func @vector(%x: tensor<131x$T>, %y: tensor<131x$T>) -> tensor<131x$T> {
  %0 = "$OP"(%x, %y) : (tensor<131x$T>, tensor<131x$T>) -> tensor<131x$T>
  return %0 : tensor<131x$T>
}
func.func @scalar(%x: tensor<$T>, %y: tensor<$T>) -> tensor<$T> {
  %0 = "$OP"(%x, %y) : (tensor<$T>, tensor<$T>) -> tensor<$T>
  return %0 : tensor<$T>
}
func.func @empty(%x: tensor<3x0x$T>, %y: tensor<3x0x$T>) -> tensor<3x0x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x0x$T>, tensor<3x0x$T>) -> tensor<3x0x$T>
  return %0 : tensor<3x0x$T>
}
// -----
// ops: chlo.broadcast_add chlo.broadcast_multiply chlo.broadcast_maximum chlo.broadcast_minimum
// types: any
// oracle: reference jax
// values: small
// tolerance: 1
func.func @same(%x: tensor<3x5x$T>, %y: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x5x$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @of_a_scalar(%x: tensor<$T>, %y: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @of_rows(%x: tensor<3x5x$T>, %y: tensor<5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x5x$T>, tensor<5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @stretched(%x: tensor<3x1x$T>, %y: tensor<1x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x1x$T>, tensor<1x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
// -----
// ops: chlo.broadcast_subtract
// types: number
// oracle: reference jax
// values: small
// tolerance: 1
func.func @same(%x: tensor<3x5x$T>, %y: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x5x$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @of_a_scalar(%x: tensor<$T>, %y: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @of_rows(%x: tensor<3x5x$T>, %y: tensor<5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x5x$T>, tensor<5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @stretched(%x: tensor<3x1x$T>, %y: tensor<1x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x1x$T>, tensor<1x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
// -----
// ops: chlo.broadcast_divide
// types: number
// oracle: reference jax
// values: small
// tolerance: 3
func.func @same(%x: tensor<3x5x$T>, %y: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x5x$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @of_a_scalar(%x: tensor<$T>, %y: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @of_rows(%x: tensor<3x5x$T>, %y: tensor<5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x5x$T>, tensor<5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @stretched(%x: tensor<3x1x$T>, %y: tensor<1x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x1x$T>, tensor<1x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
// -----
// ops: chlo.broadcast_remainder
// types: integer small-float half float
// oracle: reference jax
// values: small
func.func @same(%x: tensor<3x5x$T>, %y: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x5x$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @of_a_scalar(%x: tensor<$T>, %y: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @of_rows(%x: tensor<3x5x$T>, %y: tensor<5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x5x$T>, tensor<5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @stretched(%x: tensor<3x1x$T>, %y: tensor<1x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x1x$T>, tensor<1x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
// -----
// ops: chlo.broadcast_power
// types: integer small-float half float
// oracle: reference jax
// values: ternary
// tolerance: 3
func.func @same(%x: tensor<3x5x$T>, %y: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x5x$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @of_a_scalar(%x: tensor<$T>, %y: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @of_rows(%x: tensor<3x5x$T>, %y: tensor<5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x5x$T>, tensor<5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @stretched(%x: tensor<3x1x$T>, %y: tensor<1x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x1x$T>, tensor<1x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
// -----
// ops: chlo.broadcast_atan2 chlo.broadcast_next_after
// types: small-float half float
// oracle: reference jax
// values: small
// tolerance: 4
func.func @same(%x: tensor<3x5x$T>, %y: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x5x$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @of_a_scalar(%x: tensor<$T>, %y: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @of_rows(%x: tensor<3x5x$T>, %y: tensor<5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x5x$T>, tensor<5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @stretched(%x: tensor<3x1x$T>, %y: tensor<1x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x1x$T>, tensor<1x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
// -----
// ops: chlo.broadcast_polygamma chlo.broadcast_zeta
// types: float
// oracle: wide reference jax
// values: positive
// tolerance: 256
func.func @same(%x: tensor<3x5x$T> {case.range = [2, 6]}, %y: tensor<3x5x$T> {case.range = [2, 6]}) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x5x$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @of_a_scalar(%x: tensor<$T> {case.range = [2, 6]}, %y: tensor<3x5x$T> {case.range = [2, 6]}) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @of_rows(%x: tensor<3x5x$T> {case.range = [2, 6]}, %y: tensor<5x$T> {case.range = [2, 6]}) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x5x$T>, tensor<5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @stretched(%x: tensor<3x1x$T> {case.range = [2, 6]}, %y: tensor<1x5x$T> {case.range = [2, 6]}) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x1x$T>, tensor<1x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
// -----
// ops: chlo.broadcast_and chlo.broadcast_or chlo.broadcast_xor
// types: i1 integer
// oracle: reference jax
// values: special
func.func @same(%x: tensor<3x5x$T>, %y: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x5x$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @of_a_scalar(%x: tensor<$T>, %y: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @of_rows(%x: tensor<3x5x$T>, %y: tensor<5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x5x$T>, tensor<5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @stretched(%x: tensor<3x1x$T>, %y: tensor<1x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x1x$T>, tensor<1x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
// -----
// ops: chlo.broadcast_shift_left chlo.broadcast_shift_right_arithmetic chlo.broadcast_shift_right_logical
// types: integer
// oracle: reference jax
// values: special
func.func @same(%x: tensor<3x5x$T>, %y: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x5x$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @of_a_scalar(%x: tensor<$T>, %y: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @of_rows(%x: tensor<3x5x$T>, %y: tensor<5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x5x$T>, tensor<5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @stretched(%x: tensor<3x1x$T>, %y: tensor<1x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x, %y) : (tensor<3x1x$T>, tensor<1x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
// -----
// ops: chlo.broadcast_complex
// types: float
// oracle: reference jax
// values: small
func.func @same(%x: tensor<3x5x$T>, %y: tensor<3x5x$T>) -> tensor<3x5x$C> {
  %0 = "$OP"(%x, %y) : (tensor<3x5x$T>, tensor<3x5x$T>) -> tensor<3x5x$C>
  return %0 : tensor<3x5x$C>
}
func.func @of_a_scalar(%x: tensor<$T>, %y: tensor<3x5x$T>) -> tensor<3x5x$C> {
  %0 = "$OP"(%x, %y) : (tensor<$T>, tensor<3x5x$T>) -> tensor<3x5x$C>
  return %0 : tensor<3x5x$C>
}
func.func @of_rows(%x: tensor<3x5x$T>, %y: tensor<5x$T>) -> tensor<3x5x$C> {
  %0 = "$OP"(%x, %y) : (tensor<3x5x$T>, tensor<5x$T>) -> tensor<3x5x$C>
  return %0 : tensor<3x5x$C>
}
func.func @stretched(%x: tensor<3x1x$T>, %y: tensor<1x5x$T>) -> tensor<3x5x$C> {
  %0 = "$OP"(%x, %y) : (tensor<3x1x$T>, tensor<1x5x$T>) -> tensor<3x5x$C>
  return %0 : tensor<3x5x$C>
}
// -----
// ops: chlo.broadcast_compare
// types: any
// oracle: reference jax
// values: small
func.func @same(%x: tensor<3x5x$T>, %y: tensor<3x5x$T>) -> tensor<3x5xi1> {
  %0 = "$OP"(%x, %y) <{comparison_direction = #chlo<comparison_direction EQ>}> : (tensor<3x5x$T>, tensor<3x5x$T>) -> tensor<3x5xi1>
  return %0 : tensor<3x5xi1>
}
func.func @of_a_scalar(%x: tensor<$T>, %y: tensor<3x5x$T>) -> tensor<3x5xi1> {
  %0 = "$OP"(%x, %y) <{comparison_direction = #chlo<comparison_direction EQ>}> : (tensor<$T>, tensor<3x5x$T>) -> tensor<3x5xi1>
  return %0 : tensor<3x5xi1>
}
func.func @of_rows(%x: tensor<3x5x$T>, %y: tensor<5x$T>) -> tensor<3x5xi1> {
  %0 = "$OP"(%x, %y) <{comparison_direction = #chlo<comparison_direction EQ>}> : (tensor<3x5x$T>, tensor<5x$T>) -> tensor<3x5xi1>
  return %0 : tensor<3x5xi1>
}
func.func @stretched(%x: tensor<3x1x$T>, %y: tensor<1x5x$T>) -> tensor<3x5xi1> {
  %0 = "$OP"(%x, %y) <{comparison_direction = #chlo<comparison_direction EQ>}> : (tensor<3x1x$T>, tensor<1x5x$T>) -> tensor<3x5xi1>
  return %0 : tensor<3x5xi1>
}
// -----
// ops: chlo.broadcast_select
// types: any
func.func @scalar_predicate(%p: tensor<i1>, %x: tensor<3x5x$T>, %y: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%p, %x, %y) : (tensor<i1>, tensor<3x5x$T>, tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @all_broadcast(%p: tensor<3x1xi1>, %x: tensor<5x$T>, %y: tensor<$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%p, %x, %y) : (tensor<3x1xi1>, tensor<5x$T>, tensor<$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
// -----
// ops: chlo.constant
// types: any
func.func @splat() -> tensor<3x$T> {
  %0 = "chlo.constant"() <{value = dense<$1> : tensor<3x$T>}> : () -> tensor<3x$T>
  return %0 : tensor<3x$T>
}
// -----
// ops: chlo.constant_like
// types: integer small-float half float
// oracle: reference
func.func @one(%x: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "chlo.constant_like"(%x) <{value = $1 : $T}> : (tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
// -----
// ops: chlo.top_k
// types: int uint half float
// values: small
func.func @rows(%x: tensor<3x17x$T>) -> (tensor<3x5x$T>, tensor<3x5xi32>) {
  %0, %1 = chlo.top_k(%x, k = 5) : tensor<3x17x$T> -> (tensor<3x5x$T>, tensor<3x5xi32>)
  return %0, %1 : tensor<3x5x$T>, tensor<3x5xi32>
}
func.func @everything(%x: tensor<7x$T>) -> (tensor<7x$T>, tensor<7xi32>) {
  %0, %1 = chlo.top_k(%x, k = 7) : tensor<7x$T> -> (tensor<7x$T>, tensor<7xi32>)
  return %0, %1 : tensor<7x$T>, tensor<7xi32>
}
func.func @nothing(%x: tensor<7x$T>) -> (tensor<0x$T>, tensor<0xi32>) {
  %0, %1 = chlo.top_k(%x, k = 0) : tensor<7x$T> -> (tensor<0x$T>, tensor<0xi32>)
  return %0, %1 : tensor<0x$T>, tensor<0xi32>
}
// -----
// ops: chlo.ragged_dot
// types: i8 i32 half float
// values: ternary
// oracle: reference jax
func.func @ragged_rows(%x: tensor<11x5x$T>, %y: tensor<3x5x7x$T>) -> tensor<11x7x$T> {
  %sizes = stablehlo.constant dense<[4, 5, 2]> : tensor<3xi64>
  %0 = "chlo.ragged_dot"(%x, %y, %sizes) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<11x5x$T>, tensor<3x5x7x$T>, tensor<3xi64>) -> tensor<11x7x$T>
  return %0 : tensor<11x7x$T>
}
// -----
// ops: chlo.scan
// types: number
// values: ternary
// oracle: reference jax
func.func @running_sum(%x: tensor<5x3x$T>, %i: tensor<3x$T>) -> (tensor<5x3x$T>, tensor<3x$T>) {
  %0, %1 = chlo.scan(%x) inits (%i) dimension=0 {
  ^bb0(%a: tensor<3x$T>, %c: tensor<3x$T>):
    %s = stablehlo.add %a, %c : tensor<3x$T>
    stablehlo.return %s, %s : tensor<3x$T>, tensor<3x$T>
  } : (tensor<5x3x$T>, tensor<3x$T>) -> (tensor<5x3x$T>, tensor<3x$T>)
  return %0, %1 : tensor<5x3x$T>, tensor<3x$T>
}
