// RUN: shlo-opt --pass-pipeline=fusion{target=opencl} --split-input-file %s | filecheck %s
// RUN: shlo-opt --pass-pipeline=fusion --split-input-file %s | filecheck %s --check-prefix=CPU

// Scores, their softmax and the product with the values are one fusion, where the backend has that kind. The mask is made
// in it; the division comes before the second product, and the result is transposed where it is written.
// CHECK-LABEL: func.func @causal
// CHECK-NEXT: %[[R:.*]] = call @fusion_0(%arg0, %arg1, %arg2)
// CHECK-NEXT: return %[[R]]
// CHECK: func.func private @fusion_0
// CHECK-SAME: -> tensor<5x2x3xf32> attributes {hlo.fusion = "attention"}
// CHECK: "hlo.iota"
// CHECK: "hlo.dot"
// CHECK: kind = "maximum"
// CHECK: "hlo.exponential"
// CHECK: kind = "add"
// CHECK: "hlo.divide"
// CHECK: "hlo.dot"
// CHECK-NEXT: "hlo.transpose"
// CHECK-NEXT: return
// CPU-LABEL: func.func @causal
// CPU-NOT: "attention"
func.func @causal(%q: tensor<2x5x4xf32>, %k: tensor<2x7x4xf32>, %v: tensor<2x7x3xf32>) -> tensor<5x2x3xf32> {
  %lowest = "hlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
  %zero = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "hlo.dot"(%q, %k) {lhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contract = array<i64: 2>} : (tensor<2x5x4xf32>, tensor<2x7x4xf32>) -> tensor<2x5x7xf32>
  %1 = "hlo.iota"() {dimension = 1 : i64} : () -> tensor<2x5x7xi32>
  %2 = "hlo.iota"() {dimension = 2 : i64} : () -> tensor<2x5x7xi32>
  %3 = "hlo.compare"(%1, %2) {direction = "GE"} : (tensor<2x5x7xi32>, tensor<2x5x7xi32>) -> tensor<2x5x7xi1>
  %4 = "hlo.broadcast"(%lowest) {dimensions = array<i64>} : (tensor<f32>) -> tensor<2x5x7xf32>
  %5 = "hlo.select"(%3, %0, %4) : (tensor<2x5x7xi1>, tensor<2x5x7xf32>, tensor<2x5x7xf32>) -> tensor<2x5x7xf32>
  %6 = "hlo.reduce"(%5, %lowest) {dimensions = array<i64: 2>, kind = "maximum"} : (tensor<2x5x7xf32>, tensor<f32>) -> tensor<2x5xf32>
  %7 = "hlo.broadcast"(%6) {dimensions = array<i64: 0, 1>} : (tensor<2x5xf32>) -> tensor<2x5x7xf32>
  %8 = "hlo.subtract"(%5, %7) : (tensor<2x5x7xf32>, tensor<2x5x7xf32>) -> tensor<2x5x7xf32>
  %9 = "hlo.exponential"(%8) : (tensor<2x5x7xf32>) -> tensor<2x5x7xf32>
  %10 = "hlo.reduce"(%9, %zero) {dimensions = array<i64: 2>, kind = "add"} : (tensor<2x5x7xf32>, tensor<f32>) -> tensor<2x5xf32>
  %11 = "hlo.broadcast"(%10) {dimensions = array<i64: 0, 1>} : (tensor<2x5xf32>) -> tensor<2x5x7xf32>
  %12 = "hlo.divide"(%9, %11) : (tensor<2x5x7xf32>, tensor<2x5x7xf32>) -> tensor<2x5x7xf32>
  %13 = "hlo.dot"(%12, %v) {lhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contract = array<i64: 1>} : (tensor<2x5x7xf32>, tensor<2x7x3xf32>) -> tensor<2x5x3xf32>
  %14 = "hlo.transpose"(%13) {permutation = array<i64: 1, 0, 2>} : (tensor<2x5x3xf32>) -> tensor<5x2x3xf32>
  return %14 : tensor<5x2x3xf32>
}

// -----

// The division may come after the second product, here as its first operand is the values. A guard for rows without a
// finite score is part of it.
// CHECK-LABEL: func.func @late
// CHECK-NEXT: %[[R:.*]] = call @fusion_0(%arg1, %arg0, %arg2)
// CHECK-NEXT: return %[[R]]
// CHECK: hlo.fusion = "attention"
func.func @late(%q: tensor<5x4xf32>, %k: tensor<7x4xf32>, %v: tensor<7x3xf32>) -> tensor<3x5xf32> {
  %lowest = "hlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
  %zero = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "hlo.dot"(%k, %q) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 1>} : (tensor<7x4xf32>, tensor<5x4xf32>) -> tensor<7x5xf32>
  %1 = "hlo.reduce"(%0, %lowest) {dimensions = array<i64: 0>, kind = "maximum"} : (tensor<7x5xf32>, tensor<f32>) -> tensor<5xf32>
  %2 = "hlo.is_finite"(%1) : (tensor<5xf32>) -> tensor<5xi1>
  %3 = "hlo.broadcast"(%zero) {dimensions = array<i64>} : (tensor<f32>) -> tensor<5xf32>
  %4 = "hlo.select"(%2, %1, %3) : (tensor<5xi1>, tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  %5 = "hlo.broadcast"(%4) {dimensions = array<i64: 1>} : (tensor<5xf32>) -> tensor<7x5xf32>
  %6 = "hlo.subtract"(%0, %5) : (tensor<7x5xf32>, tensor<7x5xf32>) -> tensor<7x5xf32>
  %7 = "hlo.exponential"(%6) : (tensor<7x5xf32>) -> tensor<7x5xf32>
  %8 = "hlo.dot"(%v, %7) {lhs_batch = array<i64>, lhs_contract = array<i64: 0>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<7x3xf32>, tensor<7x5xf32>) -> tensor<3x5xf32>
  %9 = "hlo.reduce"(%7, %zero) {dimensions = array<i64: 0>, kind = "add"} : (tensor<7x5xf32>, tensor<f32>) -> tensor<5xf32>
  %10 = "hlo.broadcast"(%9) {dimensions = array<i64: 1>} : (tensor<5xf32>) -> tensor<3x5xf32>
  %11 = "hlo.divide"(%8, %10) : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  return %11 : tensor<3x5xf32>
}

// -----

// Weights that are a result, too, stay in memory: these are two products.
// CHECK-LABEL: func.func @weights
// CHECK-NOT: "attention"
// CHECK: hlo.fusion = "dot"
func.func @weights(%q: tensor<5x4xf32>, %k: tensor<7x4xf32>, %v: tensor<7x3xf32>) -> (tensor<5x3xf32>, tensor<5x7xf32>) {
  %lowest = "hlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
  %0 = "hlo.dot"(%q, %k) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 1>} : (tensor<5x4xf32>, tensor<7x4xf32>) -> tensor<5x7xf32>
  %1 = "hlo.reduce"(%0, %lowest) {dimensions = array<i64: 1>, kind = "maximum"} : (tensor<5x7xf32>, tensor<f32>) -> tensor<5xf32>
  %2 = "hlo.broadcast"(%1) {dimensions = array<i64: 0>} : (tensor<5xf32>) -> tensor<5x7xf32>
  %3 = "hlo.subtract"(%0, %2) : (tensor<5x7xf32>, tensor<5x7xf32>) -> tensor<5x7xf32>
  %4 = "hlo.exponential"(%3) : (tensor<5x7xf32>) -> tensor<5x7xf32>
  %5 = "hlo.dot"(%4, %v) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>
  return %5, %4 : tensor<5x3xf32>, tensor<5x7xf32>
}

// -----

// A mask that says by indices which keys a query sees is computed in each of the kernels that bound their loops by it,
// whatever it takes: here two of them, in each for two heads. What other masks are of stays in memory.
// CHECK-LABEL: func.func @windows
// CHECK-NEXT: %[[A:.*]] = call @fusion_0(%arg0, %arg1, %arg2) :
// CHECK-NEXT: %[[B:.*]] = call @fusion_0(%[[A]], %arg1, %arg2) :
// CHECK-NEXT: return %[[B]]
// CHECK: hlo.fusion = "attention"
// CPU-LABEL: func.func @windows
// CPU: hlo.fusion = "attention"
func.func @windows(%q: tensor<2x50x3xf32>, %k: tensor<2x70x3xf32>, %v: tensor<2x70x3xf32>) -> tensor<2x50x3xf32> {
  %lowest = "hlo.constant"() {value = dense<-1.0e30> : tensor<f32>} : () -> tensor<f32>
  %start = "hlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
  %zero = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %nine = "hlo.constant"() {value = dense<9> : tensor<i32>} : () -> tensor<i32>
  %rows = "hlo.iota"() {dimension = 0 : i64} : () -> tensor<50x70xi32>
  %keys = "hlo.iota"() {dimension = 1 : i64} : () -> tensor<50x70xi32>
  %behind = "hlo.subtract"(%rows, %keys) : (tensor<50x70xi32>, tensor<50x70xi32>) -> tensor<50x70xi32>
  %width = "hlo.broadcast"(%nine) {dimensions = array<i64>} : (tensor<i32>) -> tensor<50x70xi32>
  %early = "hlo.compare"(%behind, %width) {direction = "LE"} : (tensor<50x70xi32>, tensor<50x70xi32>) -> tensor<50x70xi1>
  %causal = "hlo.compare"(%rows, %keys) {direction = "GE"} : (tensor<50x70xi32>, tensor<50x70xi32>) -> tensor<50x70xi1>
  %seen = "hlo.and"(%early, %causal) : (tensor<50x70xi1>, tensor<50x70xi1>) -> tensor<50x70xi1>
  %mask = "hlo.broadcast"(%seen) {dimensions = array<i64: 1, 2>} : (tensor<50x70xi1>) -> tensor<2x50x70xi1>
  %low = "hlo.broadcast"(%lowest) {dimensions = array<i64>} : (tensor<f32>) -> tensor<2x50x70xf32>
  %0 = "hlo.dot"(%q, %k) {lhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contract = array<i64: 2>} : (tensor<2x50x3xf32>, tensor<2x70x3xf32>) -> tensor<2x50x70xf32>
  %1 = "hlo.select"(%mask, %0, %low) : (tensor<2x50x70xi1>, tensor<2x50x70xf32>, tensor<2x50x70xf32>) -> tensor<2x50x70xf32>
  %2 = "hlo.reduce"(%1, %start) {dimensions = array<i64: 2>, kind = "maximum"} : (tensor<2x50x70xf32>, tensor<f32>) -> tensor<2x50xf32>
  %3 = "hlo.broadcast"(%2) {dimensions = array<i64: 0, 1>} : (tensor<2x50xf32>) -> tensor<2x50x70xf32>
  %4 = "hlo.subtract"(%1, %3) : (tensor<2x50x70xf32>, tensor<2x50x70xf32>) -> tensor<2x50x70xf32>
  %5 = "hlo.exponential"(%4) : (tensor<2x50x70xf32>) -> tensor<2x50x70xf32>
  %6 = "hlo.dot"(%5, %v) {lhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contract = array<i64: 1>} : (tensor<2x50x70xf32>, tensor<2x70x3xf32>) -> tensor<2x50x3xf32>
  %7 = "hlo.dot"(%6, %k) {lhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contract = array<i64: 2>} : (tensor<2x50x3xf32>, tensor<2x70x3xf32>) -> tensor<2x50x70xf32>
  %8 = "hlo.select"(%mask, %7, %low) : (tensor<2x50x70xi1>, tensor<2x50x70xf32>, tensor<2x50x70xf32>) -> tensor<2x50x70xf32>
  %9 = "hlo.reduce"(%8, %start) {dimensions = array<i64: 2>, kind = "maximum"} : (tensor<2x50x70xf32>, tensor<f32>) -> tensor<2x50xf32>
  %10 = "hlo.broadcast"(%9) {dimensions = array<i64: 0, 1>} : (tensor<2x50xf32>) -> tensor<2x50x70xf32>
  %11 = "hlo.subtract"(%8, %10) : (tensor<2x50x70xf32>, tensor<2x50x70xf32>) -> tensor<2x50x70xf32>
  %12 = "hlo.exponential"(%11) : (tensor<2x50x70xf32>) -> tensor<2x50x70xf32>
  %13 = "hlo.dot"(%12, %v) {lhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contract = array<i64: 1>} : (tensor<2x50x70xf32>, tensor<2x70x3xf32>) -> tensor<2x50x3xf32>
  return %13 : tensor<2x50x3xf32>
}

// -----

// Vectors full of queries, and keys that fill tiles of registers.
// CHECK-LABEL: func.func @tiles
// CHECK: hlo.fusion = "attention"
// CPU-LABEL: func.func @tiles
// CPU: hlo.fusion = "attention"
func.func @tiles(%q: tensor<32x4xf32>, %k: tensor<32x4xf32>, %v: tensor<32x3xf32>) -> tensor<32x3xf32> {
  %lowest = "hlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
  %zero = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "hlo.dot"(%q, %k) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 1>} : (tensor<32x4xf32>, tensor<32x4xf32>) -> tensor<32x32xf32>
  %1 = "hlo.reduce"(%0, %lowest) {dimensions = array<i64: 1>, kind = "maximum"} : (tensor<32x32xf32>, tensor<f32>) -> tensor<32xf32>
  %2 = "hlo.broadcast"(%1) {dimensions = array<i64: 0>} : (tensor<32xf32>) -> tensor<32x32xf32>
  %3 = "hlo.subtract"(%0, %2) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %4 = "hlo.exponential"(%3) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %5 = "hlo.reduce"(%4, %zero) {dimensions = array<i64: 1>, kind = "add"} : (tensor<32x32xf32>, tensor<f32>) -> tensor<32xf32>
  %6 = "hlo.broadcast"(%5) {dimensions = array<i64: 0>} : (tensor<32xf32>) -> tensor<32x32xf32>
  %7 = "hlo.divide"(%4, %6) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %8 = "hlo.dot"(%7, %v) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<32x32xf32>, tensor<32x3xf32>) -> tensor<32x3xf32>
  return %8 : tensor<32x3xf32>
}
