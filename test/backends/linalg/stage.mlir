// The stage `linalg`, an op of each family (docs/linalg.md).
// RUN: shlo-opt --target=linalg --compile-to=linalg --split-input-file %s | filecheck %s

// Elementwise ops are bodies of linalg.generic; functions of the math dialect stay what they are.
// CHECK: func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT: %0 = tensor.empty() : tensor<4xf32>
// CHECK-NEXT: %1 = linalg.generic {{.*}}iterator_types = ["parallel"]} ins(%arg0 : tensor<4xf32>) outs(%0 : tensor<4xf32>)
// CHECK: %{{.*}} = math.exp %in : f32
// CHECK: return %1 : tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.exponential %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Integers have no sign; their operations do.
// CHECK: func.func @main(%arg0: tensor<4xi8>, %arg1: tensor<4xi8>) -> tensor<4xi1>
// CHECK: arith.cmpi ult, %in, %{{.*}} : i8
func.func @main(%x: tensor<4xui8>, %y: tensor<4xui8>) -> tensor<4xi1> {
  %0 = stablehlo.compare LT, %x, %y : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}

// -----

// Narrow floats are widened in the body, and rounded once; complex numbers are taken apart.
// CHECK: ^bb0(%in: bf16, %{{.*}}: bf16, %out: bf16)
// CHECK: arith.extf %in : bf16 to f32
// CHECK: [[PRODUCT:%.*]] = arith.mulf
// CHECK-NEXT: [[ROUNDED:%.*]] = arith.truncf [[PRODUCT]] : f32 to bf16
// CHECK-NEXT: linalg.yield [[ROUNDED]] : bf16
// CHECK: complex.re %in
// CHECK: complex.im %in
// CHECK: complex.create
func.func @main(%x: tensor<4xbf16>, %z: tensor<4xcomplex<f32>>) -> (tensor<4xbf16>, tensor<4xcomplex<f32>>) {
  %0 = stablehlo.multiply %x, %x : tensor<4xbf16>
  %1 = stablehlo.negate %z : tensor<4xcomplex<f32>>
  return %0, %1 : tensor<4xbf16>, tensor<4xcomplex<f32>>
}

// -----

// Products accumulate in f32.
// CHECK-DAG: affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// CHECK-DAG: affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>
// CHECK: linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<2x3x5xf32>)
// CHECK: iterator_types = ["parallel", "parallel", "parallel", "reduction"]
// CHECK: } -> tensor<2x3x5xf32>
// CHECK: arith.truncf
// CHECK: } -> tensor<2x3x5xbf16>
func.func @main(%x: tensor<2x3x4xbf16>, %y: tensor<2x4x5xbf16>) -> tensor<2x3x5xbf16> {
  %0 = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<2x3x4xbf16>, tensor<2x4x5xbf16>) -> tensor<2x3x5xbf16>
  return %0 : tensor<2x3x5xbf16>
}

// -----

// A convolution reads its padded input through one map.
// CHECK: affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d2 * 2 + d5, d3 * 2 + d6, d4)>
// CHECK: tensor.insert_slice %arg0 into %{{.*}}[0, 1, 1, 0] [1, 8, 8, 3] [1, 1, 1, 1]
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]
func.func @main(%x: tensor<1x8x8x3xf32>, %w: tensor<3x3x3x4xf32>) -> tensor<1x4x4x4xf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {stride = [2, 2], pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x8x8x3xf32>, tensor<3x3x3x4xf32>) -> tensor<1x4x4x4xf32>
  return %0 : tensor<1x4x4x4xf32>
}

// -----

// A reduction starts from its initial value.
// CHECK: linalg.fill
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<4x5xf32>) outs(%{{.*}} : tensor<4xf32>)
// CHECK: arith.maximumf
func.func @main(%x: tensor<4x5xf32>, %init: tensor<f32>) -> tensor<4xf32> {
  %0 = stablehlo.reduce(%x init: %init) applies stablehlo.maximum across dimensions = [1]
    : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// What moves elements is said by tensor and by maps.
// CHECK: tensor.extract_slice %arg0[0, 1] [4, 2] [1, 2] : tensor<4x6xf32> to tensor<4x2xf32>
// CHECK: linalg.transpose ins(%{{.*}} : tensor<4x2xf32>) outs(%{{.*}} : tensor<2x4xf32>) permutation = [1, 0]
// CHECK: tensor.collapse_shape %{{.*}} {{\[}}[0, 1]] : tensor<2x4xf32> into tensor<8xf32>
// CHECK: tensor.insert_slice
func.func @main(%x: tensor<4x6xf32>, %y: tensor<3xf32>) -> tensor<11xf32> {
  %0 = stablehlo.slice %x [0:4, 1:5:2] : (tensor<4x6xf32>) -> tensor<4x2xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<4x2xf32>) -> tensor<2x4xf32>
  %2 = stablehlo.reshape %1 : (tensor<2x4xf32>) -> tensor<8xf32>
  %3 = stablehlo.concatenate %2, %y, dim = 0 : (tensor<8xf32>, tensor<3xf32>) -> tensor<11xf32>
  return %3 : tensor<11xf32>
}

// -----

// Start indices are clamped.
// CHECK: tensor.extract %arg1[] : tensor<i32>
// CHECK: arith.minsi
// CHECK: arith.maxsi
// CHECK: [[AT:%.*]] = arith.index_cast
// CHECK: tensor.extract_slice %arg0{{\[}}[[AT]]] [3] [1] : tensor<9xf32> to tensor<3xf32>
func.func @main(%x: tensor<9xf32>, %at: tensor<i32>) -> tensor<3xf32> {
  %0 = stablehlo.dynamic_slice %x, %at, sizes = [3] : (tensor<9xf32>, tensor<i32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// Control flow is scf on tensors.
// CHECK: scf.while (%{{.*}} = %arg0) : (tensor<f32>) -> tensor<f32> {
// CHECK: arith.cmpf olt
// CHECK: scf.condition
// CHECK: } do {
// CHECK: arith.addf
// CHECK: scf.yield
func.func @main(%x: tensor<f32>, %limit: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.while(%a = %x) : tensor<f32>
    cond {
      %1 = stablehlo.compare LT, %a, %limit : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.add %a, %a : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }
  return %0 : tensor<f32>
}

// -----

// Where linalg has no op there are loops over tensors.
// CHECK: scf.for {{.*}} -> (tensor<7xi32>
// CHECK: arith.cmpi slt
// CHECK: tensor.insert %{{.*}} into %{{.*}} : tensor<7xi32>
func.func @main(%x: tensor<7xi32>) -> tensor<7xi32> {
  %0 = "stablehlo.sort"(%x) ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %1 = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) {dimension = 0 : i64} : (tensor<7xi32>) -> tensor<7xi32>
  return %0 : tensor<7xi32>
}
