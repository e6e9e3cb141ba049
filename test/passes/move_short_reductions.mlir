// RUN: shlo-opt %s --pass-pipeline='builtin.module(move-short-reductions,dce)' | filecheck %s

// Squared distances of points.
// CHECK-LABEL: func.func @distances
// CHECK-DAG: %[[A:.*]] = "hlo.broadcast"(%arg0) {dimensions = array<i64: 0, 1>} : (tensor<50x3xf32>) -> tensor<50x3x40xf32>
// CHECK-DAG: %[[T:.*]] = "hlo.transpose"(%arg1) {permutation = array<i64: 1, 0>} : (tensor<40x3xf32>) -> tensor<3x40xf32>
// CHECK-DAG: %[[B:.*]] = "hlo.broadcast"(%[[T]]) {dimensions = array<i64: 1, 2>} : (tensor<3x40xf32>) -> tensor<50x3x40xf32>
// CHECK: %[[D:.*]] = "hlo.subtract"(%[[A]], %[[B]])
// CHECK: %[[S:.*]] = "hlo.multiply"(%[[D]], %[[D]])
// CHECK: %[[R:.*]] = "hlo.reduce"(%[[S]], {{.*}}) {dimensions = array<i64: 1>, kind = "add"} : (tensor<50x3x40xf32>, tensor<f32>) -> tensor<50x40xf32>
// CHECK: return %[[R]]
func.func @distances(%a: tensor<50x3xf32>, %b: tensor<40x3xf32>) -> tensor<50x40xf32> {
  %zero = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "hlo.broadcast"(%a) {dimensions = array<i64: 0, 2>} : (tensor<50x3xf32>) -> tensor<50x40x3xf32>
  %1 = "hlo.broadcast"(%b) {dimensions = array<i64: 1, 2>} : (tensor<40x3xf32>) -> tensor<50x40x3xf32>
  %2 = "hlo.subtract"(%0, %1) : (tensor<50x40x3xf32>, tensor<50x40x3xf32>) -> tensor<50x40x3xf32>
  %3 = "hlo.multiply"(%2, %2) : (tensor<50x40x3xf32>, tensor<50x40x3xf32>) -> tensor<50x40x3xf32>
  %4 = "hlo.reduce"(%3, %zero) {dimensions = array<i64: 2>, kind = "add"} : (tensor<50x40x3xf32>, tensor<f32>) -> tensor<50x40xf32>
  return %4 : tensor<50x40xf32>
}

// Whether a point is at least as far as another one in every direction, of batches. A constant is repeated, too.
// CHECK-LABEL: func.func @all_of_batches
// CHECK-DAG: "hlo.broadcast"(%arg0) {dimensions = array<i64: 0, 1, 2>} : (tensor<2x50x4xf32>) -> tensor<2x50x4x40xf32>
// CHECK-DAG: %[[T:.*]] = "hlo.transpose"(%arg1) {permutation = array<i64: 0, 2, 1>} : (tensor<2x40x4xf32>) -> tensor<2x4x40xf32>
// CHECK-DAG: "hlo.broadcast"(%[[T]]) {dimensions = array<i64: 0, 2, 3>} : (tensor<2x4x40xf32>) -> tensor<2x50x4x40xf32>
// CHECK: "hlo.compare"({{.*}}) {direction = "GE"} : (tensor<2x50x4x40xf32>, tensor<2x50x4x40xf32>) -> tensor<2x50x4x40xi1>
// CHECK: "hlo.reduce"({{.*}}) {dimensions = array<i64: 2>, kind = "and"}
func.func @all_of_batches(%a: tensor<2x50x4xf32>, %b: tensor<2x40x4xf32>) -> tensor<2x50x40xi1> {
  %true = "hlo.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  %half = "hlo.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = "hlo.broadcast"(%a) {dimensions = array<i64: 0, 1, 3>} : (tensor<2x50x4xf32>) -> tensor<2x50x40x4xf32>
  %1 = "hlo.broadcast"(%b) {dimensions = array<i64: 0, 2, 3>} : (tensor<2x40x4xf32>) -> tensor<2x50x40x4xf32>
  %h = "hlo.broadcast"(%half) {dimensions = array<i64>} : (tensor<f32>) -> tensor<2x50x40x4xf32>
  %2 = "hlo.add"(%1, %h) : (tensor<2x50x40x4xf32>, tensor<2x50x40x4xf32>) -> tensor<2x50x40x4xf32>
  %3 = "hlo.compare"(%0, %2) {direction = "GE"} : (tensor<2x50x40x4xf32>, tensor<2x50x40x4xf32>) -> tensor<2x50x40x4xi1>
  %4 = "hlo.reduce"(%3, %true) {dimensions = array<i64: 3>, kind = "and"} : (tensor<2x50x40x4xi1>, tensor<i1>) -> tensor<2x50x40xi1>
  return %4 : tensor<2x50x40xi1>
}

// A large tensor that is in memory stays as it is; so does what others read, and sums that fill vectors.
// CHECK-LABEL: func.func @whole
// CHECK-NOT: hlo.transpose
// CHECK: "hlo.reduce"({{.*}}) {dimensions = array<i64: 2>
func.func @whole(%a: tensor<50x40x3xf32>, %b: tensor<40x3xf32>) -> tensor<50x40xf32> {
  %zero = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "hlo.broadcast"(%b) {dimensions = array<i64: 1, 2>} : (tensor<40x3xf32>) -> tensor<50x40x3xf32>
  %2 = "hlo.subtract"(%a, %1) : (tensor<50x40x3xf32>, tensor<50x40x3xf32>) -> tensor<50x40x3xf32>
  %4 = "hlo.reduce"(%2, %zero) {dimensions = array<i64: 2>, kind = "add"} : (tensor<50x40x3xf32>, tensor<f32>) -> tensor<50x40xf32>
  return %4 : tensor<50x40xf32>
}

// What reads the differences of points besides: forces, of which each has sums over the other points, and a product with
// a vector.
// CHECK-LABEL: func.func @forces
// CHECK: %[[D:.*]] = "hlo.subtract"({{.*}}) : (tensor<50x3x40xf32>, tensor<50x3x40xf32>) -> tensor<50x3x40xf32>
// CHECK: %[[R:.*]] = "hlo.reduce"({{.*}}) {dimensions = array<i64: 1>, kind = "add"} : (tensor<50x3x40xf32>, tensor<f32>) -> tensor<50x40xf32>
// CHECK: %[[W:.*]] = "hlo.broadcast"(%[[R]]) {dimensions = array<i64: 0, 2>} : (tensor<50x40xf32>) -> tensor<50x3x40xf32>
// CHECK: %[[F:.*]] = "hlo.multiply"(%[[D]], %[[W]])
// CHECK: %[[S:.*]] = "hlo.reduce"(%[[F]], {{.*}}) {dimensions = array<i64: 2>, kind = "add"} : (tensor<50x3x40xf32>, tensor<f32>) -> tensor<50x3xf32>
// CHECK: %[[M:.*]] = "hlo.broadcast"(%arg2) {dimensions = array<i64: 2>} : (tensor<40xf32>) -> tensor<50x3x40xf32>
// CHECK: %[[P:.*]] = "hlo.multiply"(%[[D]], %[[M]])
// CHECK: %[[V:.*]] = "hlo.reduce"(%[[P]], {{.*}}) {dimensions = array<i64: 2>, kind = "add"} : (tensor<50x3x40xf32>, tensor<f32>) -> tensor<50x3xf32>
// CHECK: return %[[S]], %[[V]]
func.func @forces(%a: tensor<50x3xf32>, %b: tensor<40x3xf32>, %m: tensor<40xf32>) -> (tensor<50x3xf32>, tensor<50x3xf32>) {
  %zero = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "hlo.broadcast"(%a) {dimensions = array<i64: 0, 2>} : (tensor<50x3xf32>) -> tensor<50x40x3xf32>
  %1 = "hlo.broadcast"(%b) {dimensions = array<i64: 1, 2>} : (tensor<40x3xf32>) -> tensor<50x40x3xf32>
  %2 = "hlo.subtract"(%0, %1) : (tensor<50x40x3xf32>, tensor<50x40x3xf32>) -> tensor<50x40x3xf32>
  %3 = "hlo.multiply"(%2, %2) : (tensor<50x40x3xf32>, tensor<50x40x3xf32>) -> tensor<50x40x3xf32>
  %4 = "hlo.reduce"(%3, %zero) {dimensions = array<i64: 2>, kind = "add"} : (tensor<50x40x3xf32>, tensor<f32>) -> tensor<50x40xf32>
  %5 = "hlo.broadcast"(%4) {dimensions = array<i64: 0, 1>} : (tensor<50x40xf32>) -> tensor<50x40x3xf32>
  %6 = "hlo.multiply"(%2, %5) : (tensor<50x40x3xf32>, tensor<50x40x3xf32>) -> tensor<50x40x3xf32>
  %7 = "hlo.reduce"(%6, %zero) {dimensions = array<i64: 1>, kind = "add"} : (tensor<50x40x3xf32>, tensor<f32>) -> tensor<50x3xf32>
  %8 = "hlo.dot"(%2, %m) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<50x40x3xf32>, tensor<40xf32>) -> tensor<50x3xf32>
  return %7, %8 : tensor<50x3xf32>, tensor<50x3xf32>
}

// CHECK-LABEL: func.func @read
// CHECK-NOT: hlo.transpose
// CHECK: "hlo.reduce"({{.*}}) {dimensions = array<i64: 2>
func.func @read(%a: tensor<50x3xf32>, %b: tensor<40x3xf32>) -> (tensor<50x40xf32>, tensor<50x40x3xf32>) {
  %zero = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "hlo.broadcast"(%a) {dimensions = array<i64: 0, 2>} : (tensor<50x3xf32>) -> tensor<50x40x3xf32>
  %1 = "hlo.broadcast"(%b) {dimensions = array<i64: 1, 2>} : (tensor<40x3xf32>) -> tensor<50x40x3xf32>
  %2 = "hlo.subtract"(%0, %1) : (tensor<50x40x3xf32>, tensor<50x40x3xf32>) -> tensor<50x40x3xf32>
  %3 = "hlo.abs"(%2) : (tensor<50x40x3xf32>) -> tensor<50x40x3xf32>
  %4 = "hlo.reduce"(%3, %zero) {dimensions = array<i64: 2>, kind = "add"} : (tensor<50x40x3xf32>, tensor<f32>) -> tensor<50x40xf32>
  return %4, %2 : tensor<50x40xf32>, tensor<50x40x3xf32>
}

// CHECK-LABEL: func.func @long
// CHECK-NOT: hlo.transpose
// CHECK: "hlo.reduce"({{.*}}) {dimensions = array<i64: 2>
func.func @long(%a: tensor<50x32xf32>, %b: tensor<40x32xf32>) -> tensor<50x40xf32> {
  %zero = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "hlo.broadcast"(%a) {dimensions = array<i64: 0, 2>} : (tensor<50x32xf32>) -> tensor<50x40x32xf32>
  %1 = "hlo.broadcast"(%b) {dimensions = array<i64: 1, 2>} : (tensor<40x32xf32>) -> tensor<50x40x32xf32>
  %2 = "hlo.subtract"(%0, %1) : (tensor<50x40x32xf32>, tensor<50x40x32xf32>) -> tensor<50x40x32xf32>
  %4 = "hlo.reduce"(%2, %zero) {dimensions = array<i64: 2>, kind = "maximum"} : (tensor<50x40x32xf32>, tensor<f32>) -> tensor<50x40xf32>
  return %4 : tensor<50x40xf32>
}
