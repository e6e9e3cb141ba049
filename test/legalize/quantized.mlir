// RUN: shlo-opt %s --pass-pipeline='builtin.module(legalize-quantized)' | filecheck %s

!q = !quant.uniform<i8:f32, 0.5:3>
!symmetric = !quant.uniform<i8:f32, 0.5>
!unsigned = !quant.uniform<u8<1:200>:f32, 0.1:7>
!other = !quant.uniform<i8:f32, 0.25:3>
!i32 = !quant.uniform<i32:f32, 0.125>
!channels = !quant.uniform<i8:f32:1, {0.5, 0.25}>
!channels32 = !quant.uniform<i32:f32:1, {0.25, 0.125}>

// Arguments and results are stored integers; what they were stays as an attribute.
// CHECK-LABEL: func.func @signature(%arg0: tensor<4xi8> {hlo.quantized = !quant.uniform<i8:f32, 5.000000e-01:3>, jax.arg_info = "x"},
// CHECK-SAME: %arg1: tensor<4xf32>) -> (tensor<4xi8> {hlo.quantized = !quant.uniform<i8:f32, 5.000000e-01:3>}, tensor<4xf32>)
// CHECK-NEXT: return %arg0, %arg1
func.func @signature(%a: tensor<4x!q> {jax.arg_info = "x"}, %b: tensor<4xf32>) -> (tensor<4x!q>, tensor<4xf32>) {
  return %a, %b : tensor<4x!q>, tensor<4xf32>
}

// Spec, quantize: scale, zero point, clamp, round to even, store.
// CHECK-LABEL: func.func @quantize
// CHECK: [[S:%.*]] = stablehlo.constant dense<1.000000e-01> : tensor<f32>
// CHECK: [[SB:%.*]] = stablehlo.broadcast_in_dim [[S]], dims = []
// CHECK: [[D:%.*]] = stablehlo.divide %arg0, [[SB]] : tensor<4xf32>
// CHECK: [[Z:%.*]] = stablehlo.constant dense<7.000000e+00> : tensor<f32>
// CHECK: [[ZB:%.*]] = stablehlo.broadcast_in_dim [[Z]], dims = []
// CHECK: [[A:%.*]] = stablehlo.add [[D]], [[ZB]] : tensor<4xf32>
// CHECK: [[LOW:%.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f32>
// CHECK: [[HIGH:%.*]] = stablehlo.constant dense<2.000000e+02> : tensor<f32>
// CHECK: [[C:%.*]] = stablehlo.clamp [[LOW]], [[A]], [[HIGH]]
// CHECK: [[R:%.*]] = stablehlo.round_nearest_even [[C]] : tensor<4xf32>
// CHECK: [[Q:%.*]] = stablehlo.convert [[R]] : (tensor<4xf32>) -> tensor<4xui8>
// CHECK: return [[Q]]
func.func @quantize(%a: tensor<4xf32>) -> tensor<4x!unsigned> {
  %0 = stablehlo.uniform_quantize %a : (tensor<4xf32>) -> tensor<4x!unsigned>
  return %0 : tensor<4x!unsigned>
}

// The largest i32 is no f32: the conversion saturates.
// CHECK-LABEL: func.func @quantize_to_i32
// CHECK-NOT: clamp
// CHECK: stablehlo.round_nearest_even
// CHECK-NEXT: stablehlo.convert {{.*}} : (tensor<4xf32>) -> tensor<4xi32>
// CHECK-NEXT: return
func.func @quantize_to_i32(%a: tensor<4xf32>) -> tensor<4x!i32> {
  %0 = stablehlo.uniform_quantize %a : (tensor<4xf32>) -> tensor<4x!i32>
  return %0 : tensor<4x!i32>
}

// Spec, dequantize; the zero point is subtracted in i32, where nothing overflows.
// CHECK-LABEL: func.func @dequantize
// CHECK: [[W:%.*]] = stablehlo.convert %arg0 : (tensor<4xi8>) -> tensor<4xi32>
// CHECK: [[D:%.*]] = stablehlo.subtract [[W]], {{%.*}} : tensor<4xi32>
// CHECK: [[F:%.*]] = stablehlo.convert [[D]] : (tensor<4xi32>) -> tensor<4xf32>
// CHECK: [[M:%.*]] = stablehlo.multiply [[F]], {{%.*}} : tensor<4xf32>
// CHECK: return [[M]]
func.func @dequantize(%a: tensor<4x!q>) -> tensor<4xf32> {
  %0 = stablehlo.uniform_dequantize %a : (tensor<4x!q>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Requantizing to the same type is nothing.
// CHECK-LABEL: func.func @requantize_to_the_same
// CHECK-NEXT: return %arg0
func.func @requantize_to_the_same(%a: tensor<4x!q>) -> tensor<4x!q> {
  %0 = stablehlo.uniform_quantize %a : (tensor<4x!q>) -> tensor<4x!q>
  return %0 : tensor<4x!q>
}

// Parameters along a dimension.
// CHECK-LABEL: func.func @per_axis
// CHECK: [[S:%.*]] = stablehlo.constant dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf32>
// CHECK: stablehlo.broadcast_in_dim [[S]], dims = [1] : (tensor<2xf32>) -> tensor<3x2xf32>
func.func @per_axis(%a: tensor<3x2x!channels>) -> tensor<3x2xf32> {
  %0 = stablehlo.uniform_dequantize %a : (tensor<3x2x!channels>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// CHECK-LABEL: func.func @constants
// CHECK-NEXT: stablehlo.constant dense<[255, 1]> : tensor<2xui8>
// CHECK-NEXT: stablehlo.constant dense<-3> : tensor<1x2xi8>
// CHECK-NEXT: return
func.func @constants() -> (tensor<2x!unsigned>, tensor<1x2x!q>) {
  %0 = "stablehlo.constant"() {value = dense<[-1, 1]> : tensor<2xi8>} : () -> tensor<2x!unsigned>
  %1 = "stablehlo.constant"() {value = dense<-3> : tensor<1x2xi8>} : () -> tensor<1x2x!q>
  return %0, %1 : tensor<2x!unsigned>, tensor<1x2x!q>
}

// Movement is on the stored integers.
// CHECK-LABEL: func.func @movement
// CHECK-NEXT: [[T:%.*]] = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x3xi8>) -> tensor<3x2xi8>
// CHECK-NEXT: [[R:%.*]] = stablehlo.reshape [[T]] : (tensor<3x2xi8>) -> tensor<6xi8>
// CHECK-NEXT: [[P:%.*]] = stablehlo.pad [[R]], %arg1, low = [1], high = [0], interior = [0] : (tensor<6xi8>, tensor<i8>) -> tensor<7xi8>
// CHECK-NEXT: [[B:%.*]] = stablehlo.bitcast_convert [[P]] : (tensor<7xi8>) -> tensor<7xui8>
// CHECK-NEXT: return [[B]]
func.func @movement(%a: tensor<2x3x!q>, %p: tensor<!q>) -> tensor<7xui8> {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3x!q>) -> tensor<3x2x!q>
  %1 = stablehlo.reshape %0 : (tensor<3x2x!q>) -> tensor<6x!q>
  %2 = stablehlo.pad %1, %p, low = [1], high = [0], interior = [0] : (tensor<6x!q>, tensor<!q>) -> tensor<7x!q>
  %3 = stablehlo.bitcast_convert %2 : (tensor<7x!q>) -> tensor<7xui8>
  return %3 : tensor<7xui8>
}

// With one type the order of the stored integers is that of the real values.
// CHECK-LABEL: func.func @ordered
// CHECK-NEXT: [[M:%.*]] = stablehlo.maximum %arg0, %arg1 : tensor<4xui8>
// CHECK-NEXT: [[C:%.*]] = stablehlo.compare LT, [[M]], %arg1, UNSIGNED : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xi1>
// CHECK-NEXT: stablehlo.select [[C]], [[M]], %arg1 : tensor<4xi1>, tensor<4xui8>
func.func @ordered(%a: tensor<4x!unsigned>, %b: tensor<4x!unsigned>) -> tensor<4x!unsigned> {
  %0 = stablehlo.maximum %a, %b : tensor<4x!unsigned>
  %1 = stablehlo.compare LT, %0, %b, FLOAT : (tensor<4x!unsigned>, tensor<4x!unsigned>) -> tensor<4xi1>
  %2 = stablehlo.select %1, %0, %b : tensor<4xi1>, tensor<4x!unsigned>
  return %2 : tensor<4x!unsigned>
}

// With two types it is not.
// CHECK-LABEL: func.func @compared
// CHECK: [[A:%.*]] = stablehlo.multiply {{.*}} : tensor<4xf32>
// CHECK: [[B:%.*]] = stablehlo.multiply {{.*}} : tensor<4xf32>
// CHECK: stablehlo.compare LT, [[A]], [[B]], FLOAT : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
func.func @compared(%a: tensor<4x!q>, %b: tensor<4x!other>) -> tensor<4xi1> {
  %0 = stablehlo.compare LT, %a, %b : (tensor<4x!q>, tensor<4x!other>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}

// Sums and differences of one type are exact in integers.
// CHECK-LABEL: func.func @sums
// CHECK: [[A:%.*]] = stablehlo.convert %arg0 : (tensor<4xi8>) -> tensor<4xi32>
// CHECK: [[AZ:%.*]] = stablehlo.subtract [[A]], {{%.*}} : tensor<4xi32>
// CHECK: [[B:%.*]] = stablehlo.convert %arg1 : (tensor<4xi8>) -> tensor<4xi32>
// CHECK: [[S:%.*]] = stablehlo.add [[AZ]], [[B]] : tensor<4xi32>
// CHECK: [[C:%.*]] = stablehlo.clamp {{%.*}}, [[S]], {{%.*}} : (tensor<i32>, tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
// CHECK: [[Q:%.*]] = stablehlo.convert [[C]] : (tensor<4xi32>) -> tensor<4xi8>
// CHECK: [[R:%.*]] = stablehlo.add {{.*}} : tensor<4xf32>
// CHECK: stablehlo.divide [[R]], {{%.*}} : tensor<4xf32>
func.func @sums(%a: tensor<4x!q>, %b: tensor<4x!q>) -> tensor<4x!other> {
  %0 = stablehlo.add %a, %b : tensor<4x!q>
  %1 = stablehlo.add %0, %b : (tensor<4x!q>, tensor<4x!q>) -> tensor<4x!other>
  return %1 : tensor<4x!other>
}

// Products are summed in i32; weights without zero points stay as they are.
// CHECK-LABEL: func.func @dot
// CHECK: [[C:%.*]] = stablehlo.subtract {{.*}} : tensor<3x5xi16>
// CHECK: [[D:%.*]] = stablehlo.dot_general [[C]], %arg1, contracting_dims = [1] x [0] : (tensor<3x5xi16>, tensor<5x2xi8>) -> tensor<3x2xi32>
// CHECK-NEXT: [[F:%.*]] = stablehlo.convert [[D]] : (tensor<3x2xi32>) -> tensor<3x2xf32>
// CHECK: [[S:%.*]] = stablehlo.constant dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf32>
// CHECK: [[SB:%.*]] = stablehlo.broadcast_in_dim [[S]], dims = [1]
// CHECK: stablehlo.multiply [[F]], [[SB]] : tensor<3x2xf32>
func.func @dot(%a: tensor<3x5x!q>, %b: tensor<5x2x!channels>) -> tensor<3x2x!symmetric> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<3x5x!q>, tensor<5x2x!channels>) -> tensor<3x2x!quant.uniform<i8:f32:1, {0.5, 0.5}>>
  %1 = stablehlo.uniform_quantize %0 : (tensor<3x2x!quant.uniform<i8:f32:1, {0.5, 0.5}>>) -> tensor<3x2x!symmetric>
  return %1 : tensor<3x2x!symmetric>
}

// Where the result's scale is the product of the operands' scales, the sum is the result.
// CHECK-LABEL: func.func @exact_dot
// CHECK-NEXT: [[D:%.*]] = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<3x5xi8>, tensor<5x2xi8>) -> tensor<3x2xi32>
// CHECK-NEXT: return [[D]]
func.func @exact_dot(%a: tensor<3x5x!symmetric>, %b: tensor<5x2x!channels>) -> tensor<3x2x!channels32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<3x5x!symmetric>, tensor<5x2x!channels>) -> tensor<3x2x!channels32>
  return %0 : tensor<3x2x!channels32>
}

// Hybrid: float activations, quantized weights, whose scales are applied to the sums.
// CHECK-LABEL: func.func @hybrid
// CHECK: [[W:%.*]] = stablehlo.convert %arg1 : (tensor<5x2xi8>) -> tensor<5x2xf32>
// CHECK: [[D:%.*]] = stablehlo.dot_general %arg0, [[W]], contracting_dims = [1] x [0] : (tensor<3x5xf32>, tensor<5x2xf32>) -> tensor<3x2xf32>
// CHECK: [[S:%.*]] = stablehlo.broadcast_in_dim {{%.*}}, dims = [1] : (tensor<2xf32>) -> tensor<3x2xf32>
// CHECK: stablehlo.multiply [[D]], [[S]] : tensor<3x2xf32>
func.func @hybrid(%a: tensor<3x5xf32>, %b: tensor<5x2x!channels>) -> tensor<3x2xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<3x5xf32>, tensor<5x2x!channels>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// Weights with zero points are dequantized.
// CHECK-LABEL: func.func @hybrid_with_zero_points
// CHECK: [[R:%.*]] = stablehlo.multiply {{%.*}}, {{%.*}} : tensor<3x1x2xf32>
// CHECK: stablehlo.convolution(%arg0, [[R]])
// CHECK-NEXT: return
func.func @hybrid_with_zero_points(%a: tensor<1x6x1xf32>, %b: tensor<3x1x2x!q>) -> tensor<1x4x2xf32> {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x6x1xf32>, tensor<3x1x2x!q>) -> tensor<1x4x2xf32>
  return %0 : tensor<1x4x2xf32>
}

// A convolution's padding is a real zero: the zero point is subtracted before.
// CHECK-LABEL: func.func @convolution
// CHECK: [[C:%.*]] = stablehlo.subtract {{.*}} : tensor<1x6x1xi16>
// CHECK: [[K:%.*]] = stablehlo.convert %arg1 : (tensor<3x1x2xi8>) -> tensor<3x1x2xi16>
// CHECK: stablehlo.convolution([[C]], [[K]])
// CHECK-SAME: pad = {{\[\[}}1, 1]]
// CHECK-SAME: (tensor<1x6x1xi16>, tensor<3x1x2xi16>) -> tensor<1x6x2xi32>
func.func @convolution(%a: tensor<1x6x1x!q>, %b: tensor<3x1x2x!symmetric>) -> tensor<1x6x2x!i32> {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x6x1x!q>, tensor<3x1x2x!symmetric>) -> tensor<1x6x2x!i32>
  return %0 : tensor<1x6x2x!i32>
}

// 16-bit products outgrow i32: their sums are exact in f64.
// CHECK-LABEL: func.func @wide_dot
// CHECK: stablehlo.dot_general {{.*}} : (tensor<3x5xf64>, tensor<5x2xf64>) -> tensor<3x2xf64>
func.func @wide_dot(%a: tensor<3x5x!quant.uniform<i16:f32, 0.5>>, %b: tensor<5x2x!quant.uniform<i16:f32, 0.5>>)
    -> tensor<3x2x!i32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<3x5x!quant.uniform<i16:f32, 0.5>>, tensor<5x2x!quant.uniform<i16:f32, 0.5>>) -> tensor<3x2x!i32>
  return %0 : tensor<3x2x!i32>
}

// A sum is formed in i32 and clamped once; a maximum is that of the stored integers.
// CHECK-LABEL: func.func @reductions
// CHECK: [[S:%.*]] = stablehlo.reduce({{%.*}} init: {{%.*}}) applies stablehlo.add across dimensions = [1] : (tensor<2x3xi32>, tensor<i32>) -> tensor<2xi32>
// CHECK: stablehlo.clamp
// CHECK: stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.maximum across dimensions = [1] : (tensor<2x3xi8>, tensor<i8>) -> tensor<2xi8>
func.func @reductions(%a: tensor<2x3x!q>, %i: tensor<!q>) -> (tensor<2x!q>, tensor<2x!q>) {
  %0 = stablehlo.reduce(%a init: %i) applies stablehlo.add across dimensions = [1] : (tensor<2x3x!q>, tensor<!q>) -> tensor<2x!q>
  %1 = stablehlo.reduce(%a init: %i) applies stablehlo.maximum across dimensions = [1] : (tensor<2x3x!q>, tensor<!q>) -> tensor<2x!q>
  return %0, %1 : tensor<2x!q>, tensor<2x!q>
}

// Bodies may compute in another type: the operand is requantized to it.
// CHECK-LABEL: func.func @promotion
// CHECK: [[P:%.*]] = stablehlo.convert {{.*}} : (tensor<2x3xf32>) -> tensor<2x3xi32>
// CHECK: stablehlo.reduce([[P]] init: %arg1) applies stablehlo.maximum across dimensions = [1] : (tensor<2x3xi32>, tensor<i32>) -> tensor<2xi32>
func.func @promotion(%a: tensor<2x3x!q>, %i: tensor<!i32>) -> tensor<2x!i32> {
  %0 = stablehlo.reduce(%a init: %i) across dimensions = [1] : (tensor<2x3x!q>, tensor<!i32>) -> tensor<2x!i32>
   reducer(%x: tensor<!i32>, %y: tensor<!i32>) {
    %1 = stablehlo.maximum %x, %y : tensor<!i32>
    stablehlo.return %1 : tensor<!i32>
  }
  return %0 : tensor<2x!i32>
}

// The regions of control flow carry stored integers.
// CHECK-LABEL: func.func @loop
// CHECK: stablehlo.while([[I:%.*]] = %arg0) : tensor<i8>
// CHECK: stablehlo.compare LT, [[I]], %arg1, SIGNED : (tensor<i8>, tensor<i8>) -> tensor<i1>
func.func @loop(%a: tensor<!q>, %b: tensor<!q>) -> tensor<!q> {
  %0 = stablehlo.while(%i = %a) : tensor<!q>
    cond {
      %1 = stablehlo.compare LT, %i, %b : (tensor<!q>, tensor<!q>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.add %i, %b : tensor<!q>
      stablehlo.return %1 : tensor<!q>
    }
  return %0 : tensor<!q>
}

// A module without quantized values is left alone.
// CHECK-LABEL: func.func @plain
// CHECK-NEXT: stablehlo.add %arg0, %arg0 : tensor<4xf32>
func.func @plain(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
