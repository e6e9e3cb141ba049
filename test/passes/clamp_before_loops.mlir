// RUN: shlo-opt %s --pass-pipeline='builtin.module(clamp-before-loops)' | filecheck %s

// Two gathers by the same places have one clamp; that of a value of the loop stays, as does one that is not in a loop.
// CHECK-LABEL: func.func @main
// CHECK: %[[LEAST:.*]] = "hlo.maximum"(%arg1
// CHECK: %[[CLAMPED:.*]] = "hlo.minimum"(%[[LEAST]]
// CHECK-NOT: "hlo.maximum"
// CHECK: scf.while
// CHECK: %[[PLACES:.*]] = "hlo.reshape"(%[[CLAMPED]]) : (tensor<6xi32>) -> tensor<6x1xi32>
// CHECK: "hlo.gather"(%{{.*}}, %[[PLACES]]) {{.*}}hlo.in_bounds
// CHECK: "hlo.gather"(%{{.*}}, %{{.*}}) {{.*}}hlo.in_bounds
// CHECK: "hlo.gather"
// CHECK-NOT: hlo.in_bounds
func.func @main(%table: tensor<9xf32>, %places: tensor<6xi32>, %p: tensor<i1>) -> (tensor<6xf32>, tensor<6xf32>) {
  %i0 = "hlo.reshape"(%places) : (tensor<6xi32>) -> tensor<6x1xi32>
  %r:3 = scf.while (%t0 = %table, %x0 = %table, %i1 = %i0) : (tensor<9xf32>, tensor<9xf32>, tensor<6x1xi32>) -> (tensor<9xf32>, tensor<9xf32>, tensor<6x1xi32>) {
    %q = tensor.extract %p[] : tensor<i1>
    scf.condition(%q) %t0, %x0, %i1 : tensor<9xf32>, tensor<9xf32>, tensor<6x1xi32>
  } do {
  ^bb0(%t: tensor<9xf32>, %x: tensor<9xf32>, %i: tensor<6x1xi32>):
    %j = "hlo.reshape"(%places) : (tensor<6xi32>) -> tensor<6x1xi32>
    %0 = "hlo.gather"(%t, %j) {collapsed_slice_dims = array<i64: 0>, index_vector_dim = 1 : i64, offset_dims = array<i64>, operand_batching_dims = array<i64>, slice_sizes = array<i64: 1>, start_index_map = array<i64: 0>, start_indices_batching_dims = array<i64>} : (tensor<9xf32>, tensor<6x1xi32>) -> tensor<6xf32>
    %1 = "hlo.gather"(%x, %j) {collapsed_slice_dims = array<i64: 0>, index_vector_dim = 1 : i64, offset_dims = array<i64>, operand_batching_dims = array<i64>, slice_sizes = array<i64: 1>, start_index_map = array<i64: 0>, start_indices_batching_dims = array<i64>} : (tensor<9xf32>, tensor<6x1xi32>) -> tensor<6xf32>
    %2 = "hlo.gather"(%x, %i) {collapsed_slice_dims = array<i64: 0>, index_vector_dim = 1 : i64, offset_dims = array<i64>, operand_batching_dims = array<i64>, slice_sizes = array<i64: 1>, start_index_map = array<i64: 0>, start_indices_batching_dims = array<i64>} : (tensor<9xf32>, tensor<6x1xi32>) -> tensor<6xf32>
    %3 = "hlo.add"(%0, %1) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
    %4 = "hlo.add"(%3, %2) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
    %zero = "hlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %5 = "hlo.pad"(%4, %zero) {high = array<i64: 3>, interior = array<i64: 0>, low = array<i64: 0>} : (tensor<6xf32>, tensor<f32>) -> tensor<9xf32>
    scf.yield %5, %t, %i : tensor<9xf32>, tensor<9xf32>, tensor<6x1xi32>
  }
  %6 = "hlo.gather"(%r#0, %i0) {collapsed_slice_dims = array<i64: 0>, index_vector_dim = 1 : i64, offset_dims = array<i64>, operand_batching_dims = array<i64>, slice_sizes = array<i64: 1>, start_index_map = array<i64: 0>, start_indices_batching_dims = array<i64>} : (tensor<9xf32>, tensor<6x1xi32>) -> tensor<6xf32>
  return %6, %6 : tensor<6xf32>, tensor<6xf32>
}

// The attribute is the pass's own: what a module brings along is no reason to read anywhere.
// CHECK-LABEL: func.func @not_from_outside
// CHECK-NOT: hlo.in_bounds
// CHECK: return
func.func @not_from_outside(%table: tensor<9xf32>, %i: tensor<6x1xi32>) -> tensor<6xf32> {
  %0 = "hlo.gather"(%table, %i) {collapsed_slice_dims = array<i64: 0>, hlo.in_bounds, index_vector_dim = 1 : i64, offset_dims = array<i64>, operand_batching_dims = array<i64>, slice_sizes = array<i64: 1>, start_index_map = array<i64: 0>, start_indices_batching_dims = array<i64>} : (tensor<9xf32>, tensor<6x1xi32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
