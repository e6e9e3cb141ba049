// ops: stablehlo.convert
// types: any
// also: any
// values: normal
// oracle: jax evaluate
func.func @normal(%x: tensor<37x$T>) -> tensor<37x$S> {
  %0 = "$OP"(%x) : (tensor<37x$T>) -> tensor<37x$S>
  return %0 : tensor<37x$S>
}
// -----
// ops: stablehlo.convert
// types: any
// also: any
// values: small
// oracle: jax evaluate
func.func @small(%x: tensor<3x5x$T>) -> tensor<3x5x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x$T>) -> tensor<3x5x$S>
  return %0 : tensor<3x5x$S>
}
// -----
// XLA flushes denormal numbers.
// ops: stablehlo.convert
// types: small-float half float
// also: small-float half float
// values: special
// oracle: evaluate
func.func @between_floats(%x: tensor<131x$T>) -> tensor<131x$S> {
  %0 = "$OP"(%x) : (tensor<131x$T>) -> tensor<131x$S>
  return %0 : tensor<131x$S>
}
// -----
// ops: stablehlo.convert
// types: integer
// also: any
// values: special
// oracle: jax evaluate
func.func @of_integers(%x: tensor<131x$T>) -> tensor<131x$S> {
  %0 = "$OP"(%x) : (tensor<131x$T>) -> tensor<131x$S>
  return %0 : tensor<131x$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i2 ui2
// also: i2 ui2
// values: special
func.func @same_width(%x: tensor<3x17x$T>) -> tensor<3x17x$S> {
  %0 = "$OP"(%x) : (tensor<3x17x$T>) -> tensor<3x17x$S>
  return %0 : tensor<3x17x$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i4 ui4 f4E2M1FN
// also: i4 ui4 f4E2M1FN
// values: special
func.func @same_width(%x: tensor<3x17x$T>) -> tensor<3x17x$S> {
  %0 = "$OP"(%x) : (tensor<3x17x$T>) -> tensor<3x17x$S>
  return %0 : tensor<3x17x$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: f6E2M3FN f6E3M2FN
// also: f6E2M3FN f6E3M2FN
// values: special
func.func @same_width(%x: tensor<3x17x$T>) -> tensor<3x17x$S> {
  %0 = "$OP"(%x) : (tensor<3x17x$T>) -> tensor<3x17x$S>
  return %0 : tensor<3x17x$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i8 ui8 f8E3M4 f8E4M3 f8E4M3B11FNUZ f8E4M3FN f8E4M3FNUZ f8E5M2 f8E5M2FNUZ f8E8M0FNU
// also: i8 ui8 f8E3M4 f8E4M3 f8E4M3B11FNUZ f8E4M3FN f8E4M3FNUZ f8E5M2 f8E5M2FNUZ f8E8M0FNU
// values: special
func.func @same_width(%x: tensor<3x17x$T>) -> tensor<3x17x$S> {
  %0 = "$OP"(%x) : (tensor<3x17x$T>) -> tensor<3x17x$S>
  return %0 : tensor<3x17x$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i16 ui16 bf16 f16
// also: i16 ui16 bf16 f16
// values: special
func.func @same_width(%x: tensor<3x17x$T>) -> tensor<3x17x$S> {
  %0 = "$OP"(%x) : (tensor<3x17x$T>) -> tensor<3x17x$S>
  return %0 : tensor<3x17x$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i32 ui32 f32
// also: i32 ui32 f32
// values: special
func.func @same_width(%x: tensor<3x17x$T>) -> tensor<3x17x$S> {
  %0 = "$OP"(%x) : (tensor<3x17x$T>) -> tensor<3x17x$S>
  return %0 : tensor<3x17x$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i64 ui64 f64
// also: i64 ui64 f64
// values: special
func.func @same_width(%x: tensor<3x17x$T>) -> tensor<3x17x$S> {
  %0 = "$OP"(%x) : (tensor<3x17x$T>) -> tensor<3x17x$S>
  return %0 : tensor<3x17x$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i2 ui2
// also: i4 ui4 f4E2M1FN
// values: special
func.func @wider(%x: tensor<3x5x2x$T>) -> tensor<3x5x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x2x$T>) -> tensor<3x5x$S>
  return %0 : tensor<3x5x$S>
}
func.func @wider_scalar(%x: tensor<2x$T>) -> tensor<$S> {
  %0 = "$OP"(%x) : (tensor<2x$T>) -> tensor<$S>
  return %0 : tensor<$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i4 ui4 f4E2M1FN
// also: i2 ui2
// values: special
func.func @narrower(%x: tensor<3x5x$T>) -> tensor<3x5x2x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x$T>) -> tensor<3x5x2x$S>
  return %0 : tensor<3x5x2x$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i2 ui2
// also: i8 ui8 f8E3M4 f8E4M3 f8E4M3B11FNUZ f8E4M3FN f8E4M3FNUZ f8E5M2 f8E5M2FNUZ f8E8M0FNU
// values: special
func.func @wider(%x: tensor<3x5x4x$T>) -> tensor<3x5x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x4x$T>) -> tensor<3x5x$S>
  return %0 : tensor<3x5x$S>
}
func.func @wider_scalar(%x: tensor<4x$T>) -> tensor<$S> {
  %0 = "$OP"(%x) : (tensor<4x$T>) -> tensor<$S>
  return %0 : tensor<$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i8 ui8 f8E3M4 f8E4M3 f8E4M3B11FNUZ f8E4M3FN f8E4M3FNUZ f8E5M2 f8E5M2FNUZ f8E8M0FNU
// also: i2 ui2
// values: special
func.func @narrower(%x: tensor<3x5x$T>) -> tensor<3x5x4x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x$T>) -> tensor<3x5x4x$S>
  return %0 : tensor<3x5x4x$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i4 ui4 f4E2M1FN
// also: i8 ui8 f8E3M4 f8E4M3 f8E4M3B11FNUZ f8E4M3FN f8E4M3FNUZ f8E5M2 f8E5M2FNUZ f8E8M0FNU
// values: special
func.func @wider(%x: tensor<3x5x2x$T>) -> tensor<3x5x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x2x$T>) -> tensor<3x5x$S>
  return %0 : tensor<3x5x$S>
}
func.func @wider_scalar(%x: tensor<2x$T>) -> tensor<$S> {
  %0 = "$OP"(%x) : (tensor<2x$T>) -> tensor<$S>
  return %0 : tensor<$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i8 ui8 f8E3M4 f8E4M3 f8E4M3B11FNUZ f8E4M3FN f8E4M3FNUZ f8E5M2 f8E5M2FNUZ f8E8M0FNU
// also: i4 ui4 f4E2M1FN
// values: special
func.func @narrower(%x: tensor<3x5x$T>) -> tensor<3x5x2x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x$T>) -> tensor<3x5x2x$S>
  return %0 : tensor<3x5x2x$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i4 ui4 f4E2M1FN
// also: i16 ui16 bf16 f16
// values: special
func.func @wider(%x: tensor<3x5x4x$T>) -> tensor<3x5x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x4x$T>) -> tensor<3x5x$S>
  return %0 : tensor<3x5x$S>
}
func.func @wider_scalar(%x: tensor<4x$T>) -> tensor<$S> {
  %0 = "$OP"(%x) : (tensor<4x$T>) -> tensor<$S>
  return %0 : tensor<$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i16 ui16 bf16 f16
// also: i4 ui4 f4E2M1FN
// values: special
func.func @narrower(%x: tensor<3x5x$T>) -> tensor<3x5x4x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x$T>) -> tensor<3x5x4x$S>
  return %0 : tensor<3x5x4x$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i8 ui8 f8E3M4 f8E4M3 f8E4M3B11FNUZ f8E4M3FN f8E4M3FNUZ f8E5M2 f8E5M2FNUZ f8E8M0FNU
// also: i16 ui16 bf16 f16
// values: special
func.func @wider(%x: tensor<3x5x2x$T>) -> tensor<3x5x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x2x$T>) -> tensor<3x5x$S>
  return %0 : tensor<3x5x$S>
}
func.func @wider_scalar(%x: tensor<2x$T>) -> tensor<$S> {
  %0 = "$OP"(%x) : (tensor<2x$T>) -> tensor<$S>
  return %0 : tensor<$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i16 ui16 bf16 f16
// also: i8 ui8 f8E3M4 f8E4M3 f8E4M3B11FNUZ f8E4M3FN f8E4M3FNUZ f8E5M2 f8E5M2FNUZ f8E8M0FNU
// values: special
func.func @narrower(%x: tensor<3x5x$T>) -> tensor<3x5x2x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x$T>) -> tensor<3x5x2x$S>
  return %0 : tensor<3x5x2x$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i8 ui8 f8E3M4 f8E4M3 f8E4M3B11FNUZ f8E4M3FN f8E4M3FNUZ f8E5M2 f8E5M2FNUZ f8E8M0FNU
// also: i32 ui32 f32
// values: special
func.func @wider(%x: tensor<3x5x4x$T>) -> tensor<3x5x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x4x$T>) -> tensor<3x5x$S>
  return %0 : tensor<3x5x$S>
}
func.func @wider_scalar(%x: tensor<4x$T>) -> tensor<$S> {
  %0 = "$OP"(%x) : (tensor<4x$T>) -> tensor<$S>
  return %0 : tensor<$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i32 ui32 f32
// also: i8 ui8 f8E3M4 f8E4M3 f8E4M3B11FNUZ f8E4M3FN f8E4M3FNUZ f8E5M2 f8E5M2FNUZ f8E8M0FNU
// values: special
func.func @narrower(%x: tensor<3x5x$T>) -> tensor<3x5x4x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x$T>) -> tensor<3x5x4x$S>
  return %0 : tensor<3x5x4x$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i8 ui8 f8E3M4 f8E4M3 f8E4M3B11FNUZ f8E4M3FN f8E4M3FNUZ f8E5M2 f8E5M2FNUZ f8E8M0FNU
// also: i64 ui64 f64
// values: special
func.func @wider(%x: tensor<3x5x8x$T>) -> tensor<3x5x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x8x$T>) -> tensor<3x5x$S>
  return %0 : tensor<3x5x$S>
}
func.func @wider_scalar(%x: tensor<8x$T>) -> tensor<$S> {
  %0 = "$OP"(%x) : (tensor<8x$T>) -> tensor<$S>
  return %0 : tensor<$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i64 ui64 f64
// also: i8 ui8 f8E3M4 f8E4M3 f8E4M3B11FNUZ f8E4M3FN f8E4M3FNUZ f8E5M2 f8E5M2FNUZ f8E8M0FNU
// values: special
func.func @narrower(%x: tensor<3x5x$T>) -> tensor<3x5x8x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x$T>) -> tensor<3x5x8x$S>
  return %0 : tensor<3x5x8x$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i16 ui16 bf16 f16
// also: i32 ui32 f32
// values: special
func.func @wider(%x: tensor<3x5x2x$T>) -> tensor<3x5x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x2x$T>) -> tensor<3x5x$S>
  return %0 : tensor<3x5x$S>
}
func.func @wider_scalar(%x: tensor<2x$T>) -> tensor<$S> {
  %0 = "$OP"(%x) : (tensor<2x$T>) -> tensor<$S>
  return %0 : tensor<$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i32 ui32 f32
// also: i16 ui16 bf16 f16
// values: special
func.func @narrower(%x: tensor<3x5x$T>) -> tensor<3x5x2x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x$T>) -> tensor<3x5x2x$S>
  return %0 : tensor<3x5x2x$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i16 ui16 bf16 f16
// also: i64 ui64 f64
// values: special
func.func @wider(%x: tensor<3x5x4x$T>) -> tensor<3x5x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x4x$T>) -> tensor<3x5x$S>
  return %0 : tensor<3x5x$S>
}
func.func @wider_scalar(%x: tensor<4x$T>) -> tensor<$S> {
  %0 = "$OP"(%x) : (tensor<4x$T>) -> tensor<$S>
  return %0 : tensor<$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i64 ui64 f64
// also: i16 ui16 bf16 f16
// values: special
func.func @narrower(%x: tensor<3x5x$T>) -> tensor<3x5x4x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x$T>) -> tensor<3x5x4x$S>
  return %0 : tensor<3x5x4x$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i32 ui32 f32
// also: i64 ui64 f64
// values: special
func.func @wider(%x: tensor<3x5x2x$T>) -> tensor<3x5x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x2x$T>) -> tensor<3x5x$S>
  return %0 : tensor<3x5x$S>
}
func.func @wider_scalar(%x: tensor<2x$T>) -> tensor<$S> {
  %0 = "$OP"(%x) : (tensor<2x$T>) -> tensor<$S>
  return %0 : tensor<$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i64 ui64 f64
// also: i32 ui32 f32
// values: special
func.func @narrower(%x: tensor<3x5x$T>) -> tensor<3x5x2x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x$T>) -> tensor<3x5x2x$S>
  return %0 : tensor<3x5x2x$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: complex<f32>
// also: complex<f32>
// values: normal
func.func @complex_32(%x: tensor<3x5x$T>) -> tensor<3x5x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x$T>) -> tensor<3x5x$S>
  return %0 : tensor<3x5x$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: complex<f64>
// also: complex<f64>
// values: normal
func.func @complex_64(%x: tensor<3x5x$T>) -> tensor<3x5x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x$T>) -> tensor<3x5x$S>
  return %0 : tensor<3x5x$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: complex<f64>
// also: complex<f32>
// values: normal
func.func @complex_narrower(%x: tensor<3x5x$T>) -> tensor<3x5x2x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x$T>) -> tensor<3x5x2x$S>
  return %0 : tensor<3x5x2x$S>
}
func.func @complex_narrower_transposed(%x: tensor<9x17x$T>) -> tensor<2x17x9x$S> {
  %0 = "$OP"(%x) : (tensor<9x17x$T>) -> tensor<9x17x2x$S>
  %1 = stablehlo.transpose %0, dims = [2, 1, 0] : (tensor<9x17x2x$S>) -> tensor<2x17x9x$S>
  return %1 : tensor<2x17x9x$S>
}
func.func @complex_of_a_scalar(%x: tensor<$T>) -> tensor<2x$S> {
  %0 = "$OP"(%x) : (tensor<$T>) -> tensor<2x$S>
  return %0 : tensor<2x$S>
}
func.func @complex_wider(%x: tensor<3x5x2x$S>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x) : (tensor<3x5x2x$S>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
func.func @complex_wider_transposed(%x: tensor<2x17x9x$S>) -> tensor<9x17x$T> {
  %0 = stablehlo.transpose %x, dims = [2, 1, 0] : (tensor<2x17x9x$S>) -> tensor<9x17x2x$S>
  %1 = "$OP"(%0) : (tensor<9x17x2x$S>) -> tensor<9x17x$T>
  return %1 : tensor<9x17x$T>
}
// -----
// ops: stablehlo.bitcast_convert
// types: i1
// also: i1
// values: normal
func.func @booleans(%x: tensor<3x5x$T>) -> tensor<3x5x$S> {
  %0 = "$OP"(%x) : (tensor<3x5x$T>) -> tensor<3x5x$S>
  return %0 : tensor<3x5x$S>
}
// -----
// ops: stablehlo.bitcast_convert
// types: quantized
// values: normal
func.func @quantized(%x: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = "$OP"(%x) : (tensor<3x5x$T>) -> tensor<3x5x$T>
  return %0 : tensor<3x5x$T>
}
// -----
// ops: stablehlo.uniform_quantize stablehlo.uniform_dequantize
// types: half float
// values: small
// oracle: reference evaluate
func.func @per_tensor(%x: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = stablehlo.uniform_quantize %x : (tensor<3x5x$T>) -> tensor<3x5x!quant.uniform<i8:$T, 1.500000e+00:3>>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<3x5x!quant.uniform<i8:$T, 1.500000e+00:3>>) -> tensor<3x5x$T>
  return %1 : tensor<3x5x$T>
}
func.func @saturated(%x: tensor<7x$T>) -> tensor<7x$T> {
  %0 = stablehlo.uniform_quantize %x : (tensor<7x$T>) -> tensor<7x!quant.uniform<i4:$T, 2.500000e-01>>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<7x!quant.uniform<i4:$T, 2.500000e-01>>) -> tensor<7x$T>
  return %1 : tensor<7x$T>
}
func.func @per_axis(%x: tensor<2x3x$T>) -> tensor<2x3x$T> {
  %0 = stablehlo.uniform_quantize %x : (tensor<2x3x$T>) -> tensor<2x3x!quant.uniform<i8:$T:1, {5.000000e-01:1, 1.250000e+00:-2, 2.000000e+00}>>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<2x3x!quant.uniform<i8:$T:1, {5.000000e-01:1, 1.250000e+00:-2, 2.000000e+00}>>) -> tensor<2x3x$T>
  return %1 : tensor<2x3x$T>
}
// -----
// ops: stablehlo.uniform_quantize
// types: quantized
// values: small
// oracle: reference evaluate
func.func @again(%x: tensor<3x5x$T>) -> tensor<3x5xf32> {
  %0 = "$OP"(%x) : (tensor<3x5x$T>) -> tensor<3x5x!quant.uniform<i16:f32, 1.250000e-01:-7>>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<3x5x!quant.uniform<i16:f32, 1.250000e-01:-7>>) -> tensor<3x5xf32>
  return %1 : tensor<3x5xf32>
}
func.func @from_float(%x: tensor<7xf32>) -> tensor<7x$T> {
  %0 = "$OP"(%x) : (tensor<7xf32>) -> tensor<7x$T>
  return %0 : tensor<7x$T>
}
// -----
// ops: stablehlo.uniform_dequantize
// types: quantized
// values: small
// oracle: reference evaluate
func.func @to_float(%x: tensor<7x$T>) -> tensor<7xf32> {
  %0 = "$OP"(%x) : (tensor<7x$T>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}
// -----
// The reference interpreter reads unsigned storage as signed.
// ops: stablehlo.uniform_quantize stablehlo.uniform_dequantize
// types: half float
// values: small
// oracle: evaluate
func.func @unsigned_storage(%x: tensor<7x$T>) -> tensor<7x$T> {
  %0 = stablehlo.uniform_quantize %x : (tensor<7x$T>) -> tensor<7x!quant.uniform<u8:$T, 7.500000e-01:128>>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<7x!quant.uniform<u8:$T, 7.500000e-01:128>>) -> tensor<7x$T>
  return %1 : tensor<7x$T>
}
// -----
// ops: stablehlo.uniform_quantize stablehlo.uniform_dequantize
// types: f8E3M4 f8E4M3 f8E4M3B11FNUZ f8E4M3FN f8E4M3FNUZ f8E5M2 f8E5M2FNUZ
// values: small
// oracle: evaluate
func.func @per_tensor(%x: tensor<3x5x$T>) -> tensor<3x5x$T> {
  %0 = stablehlo.uniform_quantize %x : (tensor<3x5x$T>) -> tensor<3x5x!quant.uniform<i8:$T, 1.500000e+00:3>>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<3x5x!quant.uniform<i8:$T, 1.500000e+00:3>>) -> tensor<3x5x$T>
  return %1 : tensor<3x5x$T>
}
