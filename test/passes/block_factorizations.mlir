// RUN: shlo-opt %s --pass-pipeline='builtin.module(block-factorizations{block=4})' | filecheck %s

// CHECK-LABEL: func.func @cholesky
// CHECK: %[[A11:.*]] = "hlo.slice"(%arg0) {limit = array<i64: 4, 4>, start = array<i64: 0, 0>
// CHECK: %[[L11:.*]] = "hlo.cholesky"(%[[A11]]) {lower = true}
// CHECK: %[[A21:.*]] = "hlo.slice"(%arg0) {limit = array<i64: 8, 4>, start = array<i64: 4, 0>
// CHECK: %[[L21:.*]] = "hlo.triangular_solve"(%[[L11]], %[[A21]]) {left_side = false, lower = true, transpose_a = "ADJOINT"
// CHECK: %[[A22:.*]] = "hlo.slice"(%arg0) {limit = array<i64: 8, 8>, start = array<i64: 4, 4>
// CHECK: %[[P:.*]] = "hlo.dot"(%[[L21]], %[[L21]]) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 1>}
// CHECK: %[[REST:.*]] = "hlo.subtract"(%[[A22]], %[[P]])
// CHECK: %[[L22:.*]] = "hlo.cholesky"(%[[REST]])
// CHECK: %[[ABOVE:.*]] = stablehlo.concatenate %[[L11]], %{{.*}}, dim = 1
// CHECK: %[[BELOW:.*]] = stablehlo.concatenate %[[L21]], %[[L22]], dim = 1
// CHECK: stablehlo.concatenate %[[ABOVE]], %[[BELOW]], dim = 0
func.func @cholesky(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = "hlo.cholesky"(%a) {lower = true} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// CHECK-LABEL: func.func @solve
// CHECK: %[[B1:.*]] = "hlo.slice"(%arg1) {limit = array<i64: 4, 40>, start = array<i64: 0, 0>
// CHECK: %[[X1:.*]] = "hlo.triangular_solve"(%{{.*}}, %[[B1]])
// CHECK: %[[P:.*]] = "hlo.dot"(%{{.*}}, %[[X1]])
// CHECK: %[[REST:.*]] = "hlo.subtract"(%{{.*}}, %[[P]])
// CHECK: %[[X2:.*]] = "hlo.triangular_solve"(%{{.*}}, %[[REST]])
// CHECK: stablehlo.concatenate %[[X1]], %[[X2]], dim = 0
func.func @solve(%a: tensor<8x8xf32>, %b: tensor<8x40xf32>) -> tensor<8x40xf32> {
  %0 = "hlo.triangular_solve"(%a, %b) {left_side = true, lower = true, unit_diagonal = false, transpose_a = "NO_TRANSPOSE"} : (tensor<8x8xf32>, tensor<8x40xf32>) -> tensor<8x40xf32>
  return %0 : tensor<8x40xf32>
}

// Halves of two blocks are split again: four of 4 rows.
// CHECK-LABEL: func.func @again
// CHECK-COUNT-4: "hlo.cholesky"(%{{.*}}) {lower = false} : (tensor<4x4xf32>)
// CHECK-NOT: "hlo.cholesky"
func.func @again(%a: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = "hlo.cholesky"(%a) {lower = false} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return %0 : tensor<16x16xf32>
}

// CHECK-LABEL: func.func @too_small
// CHECK-NEXT: "hlo.cholesky"(%arg0)
func.func @too_small(%a: tensor<7x7xf32>) -> tensor<7x7xf32> {
  %0 = "hlo.cholesky"(%a) {lower = true} : (tensor<7x7xf32>) -> tensor<7x7xf32>
  return %0 : tensor<7x7xf32>
}

// CHECK-LABEL: func.func @few_sides
// CHECK-NEXT: "hlo.triangular_solve"(%arg0, %arg1)
func.func @few_sides(%a: tensor<8x8xf32>, %b: tensor<8x3xf32>) -> tensor<8x3xf32> {
  %0 = "hlo.triangular_solve"(%a, %b) {left_side = true, lower = true, unit_diagonal = false, transpose_a = "NO_TRANSPOSE"} : (tensor<8x8xf32>, tensor<8x3xf32>) -> tensor<8x3xf32>
  return %0 : tensor<8x3xf32>
}

// What a library takes stays whole where that library is asked for.
// RUN: shlo-opt %s --pass-pipeline='builtin.module(block-factorizations{target=cuda})' | filecheck %s --check-prefix=SPLIT
// RUN: shlo-opt %s --pass-pipeline='builtin.module(block-factorizations{target=cuda libraries=cufft,cusolver})' | filecheck %s --check-prefix=WHOLE
// SPLIT-LABEL: func.func @large
// SPLIT: "hlo.cholesky"(%{{.*}}) {lower = true} : (tensor<128x128xf32>) -> tensor<128x128xf32>
// WHOLE-LABEL: func.func @large
// WHOLE-NEXT: "hlo.cholesky"(%arg0) {lower = true} : (tensor<256x256xf32>) -> tensor<256x256xf32>
func.func @large(%a: tensor<256x256xf32>) -> tensor<256x256xf32> {
  %0 = "hlo.cholesky"(%a) {lower = true} : (tensor<256x256xf32>) -> tensor<256x256xf32>
  return %0 : tensor<256x256xf32>
}

// Many small matrices need no transposes for the LU factorization that the CPU has code for; few of them are LAPACK's.
// RUN: shlo-opt %s --pass-pipeline='builtin.module(block-factorizations,peephole)' | filecheck %s --check-prefix=ROWS
// ROWS-LABEL: func.func @many
// ROWS-NEXT: %[[R:.*]]:3 = stablehlo.custom_call @lapack_sgetrf_ffi(%arg0) {hlo.by_rows, hlo.operand_orders = [array<i64: 0, 1, 2>], hlo.result_orders = [array<i64: 0, 1, 2>, array<i64: 0, 1>, array<i64: 0>]
// ROWS-SAME: (tensor<64x4x3xf32>) -> (tensor<64x4x3xf32>, tensor<64x3xi32>, tensor<64xi32>)
// ROWS-NEXT: return %[[R]]#0, %[[R]]#1
func.func @many(%a: tensor<64x4x3xf32>) -> (tensor<64x4x3xf32>, tensor<64x3xi32>) {
  %0 = "hlo.transpose"(%a) {permutation = array<i64: 0, 2, 1>} : (tensor<64x4x3xf32>) -> tensor<64x3x4xf32>
  %1:3 = stablehlo.custom_call @lapack_sgetrf_ffi(%0) {hlo.operand_orders = [array<i64: 0, 2, 1>], hlo.result_orders = [array<i64: 0, 2, 1>, array<i64: 0, 1>, array<i64: 0>]} : (tensor<64x3x4xf32>) -> (tensor<64x3x4xf32>, tensor<64x3xi32>, tensor<64xi32>)
  %2 = "hlo.transpose"(%1#0) {permutation = array<i64: 0, 2, 1>} : (tensor<64x3x4xf32>) -> tensor<64x4x3xf32>
  return %2, %1#1 : tensor<64x4x3xf32>, tensor<64x3xi32>
}

// ROWS-LABEL: func.func @few
// ROWS-NEXT: "hlo.transpose"
// ROWS-NEXT: stablehlo.custom_call
// ROWS-NEXT: "hlo.transpose"
func.func @few(%a: tensor<8x4x4xf32>) -> tensor<8x4x4xf32> {
  %0 = "hlo.transpose"(%a) {permutation = array<i64: 0, 2, 1>} : (tensor<8x4x4xf32>) -> tensor<8x4x4xf32>
  %1:3 = stablehlo.custom_call @lapack_sgetrf_ffi(%0) {hlo.operand_orders = [array<i64: 0, 2, 1>], hlo.result_orders = [array<i64: 0, 2, 1>, array<i64: 0, 1>, array<i64: 0>]} : (tensor<8x4x4xf32>) -> (tensor<8x4x4xf32>, tensor<8x4xi32>, tensor<8xi32>)
  %2 = "hlo.transpose"(%1#0) {permutation = array<i64: 0, 2, 1>} : (tensor<8x4x4xf32>) -> tensor<8x4x4xf32>
  return %2 : tensor<8x4x4xf32>
}
