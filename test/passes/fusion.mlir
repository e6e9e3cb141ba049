// RUN: shlo-opt --pass-pipeline=fusion --split-input-file %s | filecheck %s

// A product takes its bias and its activation; the bias is read by the kernel, never broadcast in memory.
// CHECK-LABEL: func.func @epilogue
// CHECK-NEXT: %[[R:.*]] = call @fusion_0(%arg0, %arg1, %arg2)
// CHECK-NEXT: return %[[R]]
// CHECK: func.func private @fusion_0
// CHECK-SAME: hlo.fusion = "dot"
// CHECK-NEXT: "hlo.dot"
// CHECK-NEXT: "hlo.broadcast"
// CHECK-NEXT: "hlo.add"
// CHECK-NEXT: "hlo.tanh"
// CHECK-NEXT: return
func.func @epilogue(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %b: tensor<32xf32>) -> tensor<8x32xf32> {
  %0 = "hlo.dot"(%x, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %1 = "hlo.broadcast"(%b) {dimensions = array<i64: 1>} : (tensor<32xf32>) -> tensor<8x32xf32>
  %2 = "hlo.add"(%0, %1) : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  %3 = "hlo.tanh"(%2) : (tensor<8x32xf32>) -> tensor<8x32xf32>
  return %3 : tensor<8x32xf32>
}

// -----

// Equal work is one function, wherever its ops came from.
// CHECK-LABEL: func.func @equal
// CHECK: %[[A:.*]] = call @fusion_0(%arg0)
// CHECK: %[[B:.*]] = call @fusion_0(%arg1)
// CHECK: call @fusion_1(%[[A]], %[[B]])
// CHECK: func.func private @fusion_0
// CHECK-SAME: hlo.fusion = "row"
// CHECK: func.func private @fusion_1
// CHECK-SAME: hlo.fusion = "dot"
// CHECK-NOT: func.func
func.func @equal(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %z = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "hlo.reduce"(%x, %z) {dimensions = array<i64: 1>, kind = "add"} : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
  %1 = "hlo.reduce"(%y, %z) {dimensions = array<i64: 1>, kind = "add"} : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
  %2 = "hlo.broadcast"(%1) {dimensions = array<i64: 0>} : (tensor<64xf32>) -> tensor<64x64xf32>
  %3 = "hlo.broadcast"(%0) {dimensions = array<i64: 0>} : (tensor<64xf32>) -> tensor<64x64xf32>
  %4 = "hlo.divide"(%x, %3) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %5 = "hlo.divide"(%y, %2) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %6 = "hlo.dot"(%4, %5) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %6 : tensor<64x64xf32>
}

// -----

// Bodies of loops are partitioned too; constants from outside are cloned into them; an update is written in place.
// CHECK-LABEL: func.func @scan
// CHECK: scf.while
// CHECK: %[[P:.*]] = func.call @fusion_0(
// CHECK: tensor.extract %[[P]][]
// CHECK: ^bb0(%[[I:.*]]: tensor<i32>, %[[H:.*]]: tensor<128xf32>, %[[YS:.*]]: tensor<100x128xf32>):
// CHECK-DAG: %[[S:.*]] = func.call @[[LOOP:.*]](%[[H]])
// CHECK-DAG: %[[V:.*]] = "hlo.reshape"(%[[S]])
// CHECK-DAG: func.call @[[UPDATE:.*]](%[[YS]], %[[V]], %[[I]])
// CHECK: hlo.fusion = "in_place_update"
// CHECK: "hlo.constant"
// CHECK: "hlo.dynamic_update_slice"
func.func @scan(%h: tensor<128xf32>, %ys: tensor<100x128xf32>) -> tensor<100x128xf32> {
  %zero = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %one = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %n = "hlo.constant"() {value = dense<100> : tensor<i32>} : () -> tensor<i32>
  %r:3 = scf.while (%i = %zero, %a = %h, %b = %ys) : (tensor<i32>, tensor<128xf32>, tensor<100x128xf32>) -> (tensor<i32>, tensor<128xf32>, tensor<100x128xf32>) {
    %p = "hlo.compare"(%i, %n) {direction = "LT"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %e = tensor.extract %p[] : tensor<i1>
    scf.condition(%e) %i, %a, %b : tensor<i32>, tensor<128xf32>, tensor<100x128xf32>
  } do {
  ^bb0(%j: tensor<i32>, %c: tensor<128xf32>, %d: tensor<100x128xf32>):
    %s = "hlo.sine"(%c) : (tensor<128xf32>) -> tensor<128xf32>
    %u = "hlo.reshape"(%s) : (tensor<128xf32>) -> tensor<1x128xf32>
    %v = "hlo.dynamic_update_slice"(%d, %u, %j, %zero) : (tensor<100x128xf32>, tensor<1x128xf32>, tensor<i32>, tensor<i32>) -> tensor<100x128xf32>
    %k = "hlo.add"(%j, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    scf.yield %k, %s, %v : tensor<i32>, tensor<128xf32>, tensor<100x128xf32>
  }
  return %r#2 : tensor<100x128xf32>
}

// -----

// Algorithms are alone in their fusion, under their own name.
// CHECK-LABEL: func.func @alone
// CHECK: %[[T:.*]] = call @fusion_0(%arg0)
// CHECK: %[[K:.*]]:2 = call @fusion_1(%[[T]])
// CHECK: call @fusion_2(%[[K]]#0)
// CHECK: hlo.fusion = "loop"
// CHECK: hlo.fusion = "top_k"
// CHECK: hlo.fusion = "cholesky"
func.func @alone(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = "hlo.tanh"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %1:2 = "hlo.top_k"(%0) {k = 64 : i64} : (tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xi32>)
  %2 = "hlo.cholesky"(%1#0) {lower = true} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return %2 : tensor<64x64xf32>
}

// -----

// An argument that one dot alone reads is rounded as it is read.

// CHECK-LABEL: func.func public @rounds_arguments
// CHECK-NEXT: call @[[DOT:.*]](%arg0, %arg1)
// CHECK: func.func private @[[DOT]](%arg0: tensor<8x16xf32>, %arg1: tensor<16x32xf32>) -> tensor<8x32xf32>
// CHECK-COUNT-2: hlo.convert
// CHECK: hlo.dot
func.func public @rounds_arguments(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>) -> tensor<8x32xf32> {
  %a = "hlo.convert"(%x) : (tensor<8x16xf32>) -> tensor<8x16xbf16>
  %b = "hlo.convert"(%w) : (tensor<16x32xf32>) -> tensor<16x32xbf16>
  %0 = "hlo.dot"(%a, %b) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<8x16xbf16>, tensor<16x32xbf16>) -> tensor<8x32xf32>
  return %0 : tensor<8x32xf32>
}

// -----

// What two read, or what is computed, is rounded once.

// CHECK-LABEL: func.func public @rounds_once
// CHECK-NEXT: %[[A:.*]] = call @[[FIRST:.*]](%arg0)
// CHECK-NEXT: %[[B:.*]] = call @[[SECOND:.*]](%arg1)
// CHECK-NEXT: call @{{.*}}(%[[A]], %[[B]])
// CHECK-NEXT: call @{{.*}}(%[[B]])
// CHECK: func.func private @[[FIRST]]
// CHECK-NEXT: hlo.exponential
// CHECK-NEXT: hlo.convert
// CHECK: func.func private @[[SECOND]]
// CHECK-NEXT: hlo.convert
func.func public @rounds_once(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %e = "hlo.exponential"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %a = "hlo.convert"(%e) : (tensor<64x64xf32>) -> tensor<64x64xbf16>
  %b = "hlo.convert"(%w) : (tensor<64x64xf32>) -> tensor<64x64xbf16>
  %0 = "hlo.dot"(%a, %b) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
  %1 = "hlo.dot"(%b, %b) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
  return %0, %1 : tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// Few elements of a large value are gathered before the softmax, which may then be written over it: their indices do
// not wait for it either.
// CHECK-LABEL: func.func @cross_entropy
// CHECK: %[[AT:.*]] = call @{{.*}}(%arg2)
// CHECK: %[[SCORES:.*]] = call @{{.*}}(%arg0, %arg1)
// CHECK: %[[ROWS:.*]]:2 = call @{{.*}}(%[[AT]], %[[SCORES]])
// CHECK: %[[COLUMN:.*]] = "hlo.reshape"(%[[AT]])
// CHECK: call @[[GATHER:[a-z_0-9]+]](%[[SCORES]], %[[COLUMN]])
// CHECK: call @{{.*}}(%[[ROWS]]#1, %[[AT]],
// CHECK: func.func private @[[GATHER]]
// CHECK-NEXT: "hlo.gather"
// CHECK-NEXT: return
func.func @cross_entropy(%x: tensor<256x64xf32>, %w: tensor<64x1024xf32>, %labels: tensor<256xi32>) -> (tensor<256x1024xf32>, tensor<256xf32>) {
  %zero = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %size = "hlo.constant"() {value = dense<1024> : tensor<i32>} : () -> tensor<i32>
  %sizes = "hlo.broadcast"(%size) {dimensions = array<i64>} : (tensor<i32>) -> tensor<256xi32>
  %up = "hlo.add"(%labels, %sizes) : (tensor<256xi32>, tensor<256xi32>) -> tensor<256xi32>
  %down = "hlo.abs"(%labels) : (tensor<256xi32>) -> tensor<256xi32>
  %sum = "hlo.multiply"(%up, %down) : (tensor<256xi32>, tensor<256xi32>) -> tensor<256xi32>
  %at = "hlo.remainder"(%sum, %sizes) : (tensor<256xi32>, tensor<256xi32>) -> tensor<256xi32>
  %0 = "hlo.dot"(%x, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<256x64xf32>, tensor<64x1024xf32>) -> tensor<256x1024xf32>
  %1 = "hlo.exponential"(%0) : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %2 = "hlo.reduce"(%1, %zero) {dimensions = array<i64: 1>, kind = "add"} : (tensor<256x1024xf32>, tensor<f32>) -> tensor<256xf32>
  %3 = "hlo.broadcast"(%2) {dimensions = array<i64: 0>} : (tensor<256xf32>) -> tensor<256x1024xf32>
  %place = "hlo.iota"() {dimension = 1 : i64} : () -> tensor<256x1024xi32>
  %column = "hlo.reshape"(%at) : (tensor<256xi32>) -> tensor<256x1x1xi32>
  %wide = "hlo.broadcast"(%at) {dimensions = array<i64: 0>} : (tensor<256xi32>) -> tensor<256x1024xi32>
  %hit = "hlo.compare"(%place, %wide) {direction = "EQ"} : (tensor<256x1024xi32>, tensor<256x1024xi32>) -> tensor<256x1024xi1>
  %4 = "hlo.divide"(%1, %3) : (tensor<256x1024xf32>, tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %5 = "hlo.select"(%hit, %1, %4) : (tensor<256x1024xi1>, tensor<256x1024xf32>, tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %gathered = "hlo.gather"(%0, %column) {collapsed_slice_dims = array<i64: 1>, index_vector_dim = 2 : i64, offset_dims = array<i64>, operand_batching_dims = array<i64: 0>, slice_sizes = array<i64: 1, 1>, start_index_map = array<i64: 1>, start_indices_batching_dims = array<i64: 0>} : (tensor<256x1024xf32>, tensor<256x1x1xi32>) -> tensor<256x1xf32>
  %6 = "hlo.reshape"(%gathered) : (tensor<256x1xf32>) -> tensor<256xf32>
  %last = "hlo.compare"(%at, %sizes) {direction = "LT"} : (tensor<256xi32>, tensor<256xi32>) -> tensor<256xi1>
  %picked = "hlo.select"(%last, %6, %2) : (tensor<256xi1>, tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
  %7 = "hlo.log"(%2) : (tensor<256xf32>) -> tensor<256xf32>
  %8 = "hlo.subtract"(%7, %picked) : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
  return %5, %8 : tensor<256x1024xf32>, tensor<256xf32>
}

// -----

// What a comparison of memory with a number gives would be bytes, which are read no sooner.
// CHECK-LABEL: func.func @repeated_comparison
// CHECK-NEXT: call @[[SELECT:[a-z_0-9]*]](%arg0, %arg1)
// CHECK-NEXT: return
// CHECK: func.func private @[[SELECT]]
// CHECK: "hlo.compare"
// CHECK: "hlo.select"
func.func @repeated_comparison(%n: tensor<256xi32>, %x: tensor<256x4096xf32>) -> tensor<256x4096xf32> {
  %zero = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %zeros = "hlo.broadcast"(%zero) {dimensions = array<i64>} : (tensor<i32>) -> tensor<256xi32>
  %p = "hlo.compare"(%n, %zeros) {direction = "GE"} : (tensor<256xi32>, tensor<256xi32>) -> tensor<256xi1>
  %wide = "hlo.broadcast"(%p) {dimensions = array<i64: 0>} : (tensor<256xi1>) -> tensor<256x4096xi1>
  %nan = "hlo.constant"() {value = dense<0x7FC00000> : tensor<f32>} : () -> tensor<f32>
  %nans = "hlo.broadcast"(%nan) {dimensions = array<i64>} : (tensor<f32>) -> tensor<256x4096xf32>
  %0 = "hlo.select"(%wide, %x, %nans) : (tensor<256x4096xi1>, tensor<256x4096xf32>, tensor<256x4096xf32>) -> tensor<256x4096xf32>
  return %0 : tensor<256x4096xf32>
}
