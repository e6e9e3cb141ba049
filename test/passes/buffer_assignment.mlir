// RUN: shlo-opt --pass-pipeline=fusion,schedule,buffer-assignment{verify=true} --split-input-file %s | filecheck %s

// Results lie in the output, the rest in the arena; what is dead by then is written over.
// CHECK: hlo.arena_bytes = 32768
// CHECK-NOT: hlo.free_memory
// CHECK-LABEL: func.func @chain
// CHECK: call @{{.*}} {hlo.slices = array<i64: 0, 0, 0, 16384>}
// CHECK: call @{{.*}} {hlo.slices = array<i64: 0, 0, 16384, 16384>}
// CHECK: call @{{.*}} {hlo.slices = array<i64: 0, 0, 0, 16384>}
// CHECK: call @{{.*}} {hlo.slices = array<i64: 2, 0, 0, 16384>}
func.func @chain(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = "hlo.cholesky"(%x) {lower = true} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = "hlo.cholesky"(%0) {lower = true} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = "hlo.cholesky"(%1) {lower = true} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = "hlo.cholesky"(%2) {lower = true} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return %3 : tensor<64x64xf32>
}

// -----

// An elementwise kernel writes over its operand; another call of the same kernel, which may not, gets a function of its own.
// CHECK-LABEL: func.func @inplace
// CHECK: call @[[A:.*]](%arg0) {hlo.slices = array<i64: 0, 0, [[O:.*]], 16384>}
// CHECK: call @[[B:.*]](%{{.*}}) {hlo.slices = array<i64: 0, 0, {{.*}}, 16384>}
// CHECK: func.func private @fusion_1
// CHECK-SAME: hlo.inplace = array<i64: 0, 0>
func.func @inplace(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = "hlo.cholesky"(%x) {lower = true} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = "hlo.sine"(%0) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = "hlo.cholesky"(%1) {lower = true} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return %2 : tensor<64x64xf32>
}

// -----

// Returned inputs and constants are copied, and a value that is returned twice; a view is where its operand is.
// CHECK-LABEL: func.func @returned
// CHECK: "hlo.constant"() {hlo.slices = array<i64: 3, 0, 0, 8>
// CHECK: %[[S:.*]] = call @{{.*}}(%arg0) {hlo.slices = array<i64: 2, 2, 0, 64>}
// CHECK: "hlo.reshape"(%[[S]]) {hlo.slices = array<i64: 2, 2, 0, 64>}
// CHECK-DAG: "hlo.copy"(%arg0) {hlo.slices = array<i64: 2, 0, 0, 64>}
// CHECK-DAG: "hlo.copy"(%{{.*}}) {hlo.slices = array<i64: 2, 1, 0, 8>}
// CHECK-DAG: "hlo.copy"(%{{.*}}) {hlo.slices = array<i64: 2, 3, 0, 64>}
func.func @returned(%x: tensor<16xf32>) -> (tensor<16xf32>, tensor<2xf32>, tensor<16xf32>, tensor<4x4xf32>) {
  %c = "hlo.constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %0 = "hlo.sine"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %1 = "hlo.reshape"(%0) : (tensor<16xf32>) -> tensor<4x4xf32>
  return %x, %c, %0, %1 : tensor<16xf32>, tensor<2xf32>, tensor<16xf32>, tensor<4x4xf32>
}

// -----

// Carries that change places are copied; one that is handed on unchanged is its initial value, wherever that lies.
// CHECK-LABEL: func.func @swap
// CHECK: "hlo.copy"(%arg0) {hlo.slices = array<i64: 2, 0, 0, 512>}
// CHECK: "hlo.copy"(%arg1) {hlo.slices = array<i64: 2, 1, 0, 512>}
// CHECK: ^bb0(%{{.*}}: tensor<i32>, %[[A:.*]]: tensor<128xf32>, %[[B:.*]]: tensor<128xf32>, %{{.*}}: tensor<128xf32>):
// CHECK: %[[SAVED:.*]] = "hlo.copy"(%[[B]]) {hlo.slices = array<i64: 0,
// CHECK-NEXT: %[[NEW:.*]] = "hlo.copy"(%[[A]]) {hlo.slices = array<i64: 2, 1, 0, 512>}
// CHECK-NEXT: "hlo.copy"(%[[SAVED]]) {hlo.slices = array<i64: 2, 0, 0, 512>}
// CHECK: hlo.slices = array<i64: 0, 0, {{.*}}, 4, 2, 0, 0, 512, 2, 1, 0, 512, 1, 2, 0, 512>
func.func @swap(%x: tensor<128xf32>, %y: tensor<128xf32>, %z: tensor<128xf32>) -> (tensor<128xf32>, tensor<128xf32>) {
  %zero = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %one = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %n = "hlo.constant"() {value = dense<7> : tensor<i32>} : () -> tensor<i32>
  %r:4 = scf.while (%i = %zero, %a = %x, %b = %y, %u = %z) : (tensor<i32>, tensor<128xf32>, tensor<128xf32>, tensor<128xf32>) -> (tensor<i32>, tensor<128xf32>, tensor<128xf32>, tensor<128xf32>) {
    %p = "hlo.compare"(%i, %n) {direction = "LT"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %e = tensor.extract %p[] : tensor<i1>
    scf.condition(%e) %i, %a, %b, %u : tensor<i32>, tensor<128xf32>, tensor<128xf32>, tensor<128xf32>
  } do {
  ^bb0(%j: tensor<i32>, %c: tensor<128xf32>, %d: tensor<128xf32>, %v: tensor<128xf32>):
    %k = "hlo.add"(%j, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    scf.yield %k, %d, %c, %v : tensor<i32>, tensor<128xf32>, tensor<128xf32>, tensor<128xf32>
  }
  return %r#1, %r#2 : tensor<128xf32>, tensor<128xf32>
}

// -----

// A fusion at whose call little lives has scratch in what others take.
// CHECK: hlo.arena_bytes = 32768 : i64, hlo.free_memory = {fusion_{{.*}} = array<i64: 256>
// CHECK-LABEL: func.func @little
func.func @little(%x: tensor<64x64xf32>, %y: tensor<8x8xf32>) -> (tensor<64x64xf32>, tensor<8x8xf32>) {
  %0 = "hlo.cholesky"(%x) {lower = true} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = "hlo.cholesky"(%0) {lower = true} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = "hlo.cholesky"(%1) {lower = true} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = "hlo.cholesky"(%y) {lower = true} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = "hlo.cholesky"(%3) {lower = true} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %2, %4 : tensor<64x64xf32>, tensor<8x8xf32>
}
