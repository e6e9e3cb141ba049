// Calls of the targets that are known, LAPACK's for one letter each; between the lines a module each.
func.func @main(%a0: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xi32>, tensor<i32>) {
  %r:3 = stablehlo.custom_call @lapack_sgetrf_ffi(%a0) {mhlo.backend_config = {}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>, dense<> : tensor<0xindex>]} : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xi32>, tensor<i32>)
  return %r#0, %r#1, %r#2 : tensor<4x4xf32>, tensor<4xi32>, tensor<i32>
}
// -----
func.func @main(%a0: tensor<4x4xcomplex<f32>>) -> (tensor<4x4xcomplex<f32>>, tensor<4xi32>, tensor<i32>) {
  %r:3 = stablehlo.custom_call @lapack_cgetrf_ffi(%a0) {mhlo.backend_config = {}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>, dense<> : tensor<0xindex>]} : (tensor<4x4xcomplex<f32>>) -> (tensor<4x4xcomplex<f32>>, tensor<4xi32>, tensor<i32>)
  return %r#0, %r#1, %r#2 : tensor<4x4xcomplex<f32>>, tensor<4xi32>, tensor<i32>
}
// -----
func.func @main(%a0: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>) {
  %r:2 = stablehlo.custom_call @lapack_sgeqrf_ffi(%a0) {mhlo.backend_config = {}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>]} : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>)
  return %r#0, %r#1 : tensor<4x4xf32>, tensor<4xf32>
}
// -----
func.func @main(%a0: tensor<2x4x4xf32>) -> (tensor<2x4x4xf32>, tensor<2x4xf32>) {
  %r:2 = stablehlo.custom_call @lapack_sgeqrf_ffi(%a0) {mhlo.backend_config = {}, operand_layouts = [dense<[1, 2, 0]> : tensor<3xindex>], result_layouts = [dense<[1, 2, 0]> : tensor<3xindex>, dense<[1, 0]> : tensor<2xindex>]} : (tensor<2x4x4xf32>) -> (tensor<2x4x4xf32>, tensor<2x4xf32>)
  return %r#0, %r#1 : tensor<2x4x4xf32>, tensor<2x4xf32>
}
// -----
func.func @main(%a0: tensor<4x4xf32>, %a1: tensor<4xi32>) -> (tensor<4x4xf32>, tensor<4xi32>, tensor<4xf32>) {
  %r:3 = stablehlo.custom_call @lapack_sgeqp3_ffi(%a0, %a1) {mhlo.backend_config = {}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>, dense<[0]> : tensor<1xindex>]} : (tensor<4x4xf32>, tensor<4xi32>) -> (tensor<4x4xf32>, tensor<4xi32>, tensor<4xf32>)
  return %r#0, %r#1, %r#2 : tensor<4x4xf32>, tensor<4xi32>, tensor<4xf32>
}
// -----
func.func @main(%a0: tensor<4x4xf32>, %a1: tensor<4xf32>) -> (tensor<4x4xf32>) {
  %r:1 = stablehlo.custom_call @lapack_sorgqr_ffi(%a0, %a1) {mhlo.backend_config = {}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>]} : (tensor<4x4xf32>, tensor<4xf32>) -> (tensor<4x4xf32>)
  return %r#0 : tensor<4x4xf32>
}
// -----
func.func @main(%a0: tensor<4x4xf32>, %a1: tensor<4xf32>, %a2: tensor<4x2xf32>) -> (tensor<4x2xf32>) {
  %r:1 = stablehlo.custom_call @lapack_sormqr_ffi(%a0, %a1, %a2) {mhlo.backend_config = {left = true, transpose = false}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>, dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>]} : (tensor<4x4xf32>, tensor<4xf32>, tensor<4x2xf32>) -> (tensor<4x2xf32>)
  return %r#0 : tensor<4x2xf32>
}
// -----
func.func @main(%a0: tensor<4x4xf32>, %a1: tensor<4xf32>, %a2: tensor<2x4xf32>) -> (tensor<2x4xf32>) {
  %r:1 = stablehlo.custom_call @lapack_sormqr_ffi(%a0, %a1, %a2) {mhlo.backend_config = {left = false, transpose = false}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>, dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>]} : (tensor<4x4xf32>, tensor<4xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>)
  return %r#0 : tensor<2x4xf32>
}
// -----
func.func @main(%a0: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<i32>) {
  %r:5 = stablehlo.custom_call @lapack_sgesdd_ffi(%a0) {mhlo.backend_config = {mode = 65 : ui8}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>, dense<[0, 1]> : tensor<2xindex>, dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]} : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<i32>)
  return %r#0, %r#1, %r#2, %r#3, %r#4 : tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<i32>
}
// -----
func.func @main(%a0: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<i32>) {
  %r:5 = stablehlo.custom_call @lapack_sgesvd_ffi(%a0) {mhlo.backend_config = {mode = 65 : ui8}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>, dense<[0, 1]> : tensor<2xindex>, dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]} : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<i32>)
  return %r#0, %r#1, %r#2, %r#3, %r#4 : tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<i32>
}
// -----
func.func @main(%a0: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<i32>) {
  %r:3 = stablehlo.custom_call @lapack_ssyevd_ffi(%a0) {mhlo.backend_config = {mode = 86 : ui8, uplo = 76 : ui8}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>, dense<> : tensor<0xindex>]} : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<i32>)
  return %r#0, %r#1, %r#2 : tensor<4x4xf32>, tensor<4xf32>, tensor<i32>
}
// -----
func.func @main(%a0: tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4x4xcomplex<f32>>, tensor<4x4xcomplex<f32>>, tensor<i32>) {
  %r:5 = stablehlo.custom_call @lapack_sgeev_ffi(%a0) {mhlo.backend_config = {compute_left = 78 : ui8, compute_right = 78 : ui8}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0]> : tensor<1xindex>, dense<[0]> : tensor<1xindex>, dense<[0, 1]> : tensor<2xindex>, dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]} : (tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4x4xcomplex<f32>>, tensor<4x4xcomplex<f32>>, tensor<i32>)
  return %r#0, %r#1, %r#2, %r#3, %r#4 : tensor<4xf32>, tensor<4xf32>, tensor<4x4xcomplex<f32>>, tensor<4x4xcomplex<f32>>, tensor<i32>
}
// -----
func.func @main(%a0: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>, tensor<i32>) {
  %r:6 = stablehlo.custom_call @lapack_sgees_ffi(%a0) {mhlo.backend_config = {mode = 78 : ui8, sort = 78 : ui8}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>, dense<[0]> : tensor<1xindex>, dense<> : tensor<0xindex>, dense<> : tensor<0xindex>]} : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>, tensor<i32>)
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>, tensor<i32>
}
// -----
func.func @main(%a0: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<3xf32>, tensor<i32>) {
  %r:3 = stablehlo.custom_call @lapack_sgehrd_ffi(%a0) {mhlo.backend_config = {low = 1 : i32, high = 4 : i32}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>, dense<> : tensor<0xindex>]} : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<3xf32>, tensor<i32>)
  return %r#0, %r#1, %r#2 : tensor<4x4xf32>, tensor<3xf32>, tensor<i32>
}
// -----
func.func @main(%a0: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<3xf32>, tensor<i32>) {
  %r:3 = stablehlo.custom_call @lapack_sgehrd_ffi(%a0) {mhlo.backend_config = {low = 1 : i32, high = 1 : i32}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>, dense<> : tensor<0xindex>]} : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<3xf32>, tensor<i32>)
  return %r#0, %r#1, %r#2 : tensor<4x4xf32>, tensor<3xf32>, tensor<i32>
}
// -----
func.func @main(%a0: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<i32>) {
  %r:5 = stablehlo.custom_call @lapack_ssytrd_ffi(%a0) {mhlo.backend_config = {uplo = 76 : ui8}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>, dense<[0]> : tensor<1xindex>, dense<[0]> : tensor<1xindex>, dense<> : tensor<0xindex>]} : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<i32>)
  return %r#0, %r#1, %r#2, %r#3, %r#4 : tensor<4x4xf32>, tensor<4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<i32>
}
// -----
func.func @main(%a0: tensor<4xf32>, %a1: tensor<4xf32>, %a2: tensor<4xf32>, %a3: tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<i32>) {
  %r:5 = stablehlo.custom_call @lapack_sgtsv_ffi(%a0, %a1, %a2, %a3) {mhlo.backend_config = {}, operand_layouts = [dense<[0]> : tensor<1xindex>, dense<[0]> : tensor<1xindex>, dense<[0]> : tensor<1xindex>, dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0]> : tensor<1xindex>, dense<[0]> : tensor<1xindex>, dense<[0]> : tensor<1xindex>, dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<i32>)
  return %r#0, %r#1, %r#2, %r#3, %r#4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<i32>
}
// -----
func.func @main(%a0: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<i32>) {
  %r:2 = stablehlo.custom_call @lapack_spotrf_ffi(%a0) {mhlo.backend_config = {uplo = 76 : ui8}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]} : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<i32>)
  return %r#0, %r#1 : tensor<4x4xf32>, tensor<i32>
}
// -----
func.func @main(%a0: tensor<4x4xf32>, %a1: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r:1 = stablehlo.custom_call @lapack_strsm_ffi(%a0, %a1) {mhlo.backend_config = {side = 76 : ui8, uplo = 76 : ui8, trans_x = 84 : ui8, diag = 78 : ui8}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>]} : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>)
  return %r#0 : tensor<4x4xf32>
}
// -----
func.func @main(%a0: tensor<4x4xf32>, %a1: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r:1 = stablehlo.custom_call @lapack_strsm_ffi(%a0, %a1) {mhlo.backend_config = {side = 82 : ui8, uplo = 76 : ui8, trans_x = 78 : ui8, diag = 85 : ui8}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>]} : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>)
  return %r#0 : tensor<4x4xf32>
}
// -----
func.func @main(%x: tensor<6xf32>, %b: tensor<4xi32>, %c: tensor<6xi32>, %d: tensor<5x2xf32>) -> tensor<3x2xf32> {
  %0 = stablehlo.custom_call @cpu_csr_sparse_dense_ffi(%x, %b, %c, %d) {mhlo.backend_config = {}} : (tensor<6xf32>, tensor<4xi32>, tensor<6xi32>, tensor<5x2xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}
// -----
func.func @main(%l: tensor<4xf32>, %d: tensor<4xf32>, %u: tensor<4xf32>, %b: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %0 = stablehlo.custom_call @tridiagonal_solve_perturbed_ffi(%l, %d, %u, %b) {mhlo.backend_config = {}, operand_layouts = [dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>, dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>]} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
// -----
func.func @main(%a: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0 = stablehlo.custom_call @mhlo.erf(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %1:2 = stablehlo.custom_call @mhlo.topk(%0) {mhlo.attributes = {k = 2 : i64, largest = true}} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %1#0, %1#1 : tensor<2xf32>, tensor<2xi32>
}
// -----
func.func @main(%a: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0 = stablehlo.custom_call @mhlo.tan(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %1:2 = stablehlo.custom_call @mhlo.topk(%0) {mhlo.attributes = {k = 2 : i64, largest = false}} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %1#0, %1#1 : tensor<2xf32>, tensor<2xi32>
}
// -----
func.func @main(%a: tensor<4xf32>, %k: tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %c = stablehlo.constant dense<2> : tensor<i32>
  %0:2 = stablehlo.custom_call @stablehlo.dynamic_top_k(%a, %c) : (tensor<4xf32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
}
// -----
func.func @main(%a: tensor<2xui64>) -> (tensor<2xui64>, tensor<3xui32>) {
  %c = stablehlo.constant dense<3> : tensor<1xi64>
  %0:2 = stablehlo.custom_call @stablehlo.dynamic_rng_bit_generator(%a, %c) {rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>} : (tensor<2xui64>, tensor<1xi64>) -> (tensor<2xui64>, tensor<3xui32>)
  return %0#0, %0#1 : tensor<2xui64>, tensor<3xui32>
}
// -----
func.func @main(%x: tensor<7xf32>, %p: tensor<1x2xi64>) -> tensor<5xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %w = stablehlo.constant dense<3> : tensor<1xi64>
  %o = stablehlo.constant dense<1> : tensor<1xi64>
  %q = stablehlo.constant dense<0> : tensor<1x2xi64>
  %0 = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %z, %w, %o, %o, %o, %q) {called_computations = [@sum]} : (tensor<7xf32>, tensor<f32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1x2xi64>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
func.func private @sum(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %a, %b : tensor<f32>
  return %0 : tensor<f32>
}
// -----
func.func @main(%x: tensor<3x7xf32>, %i: tensor<3x7xi32>) -> (tensor<3x2xf32>, tensor<3x2xi32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %n = stablehlo.constant dense<-1> : tensor<i32>
  %0:2 = stablehlo.custom_call @ApproxTopK(%x, %i, %z, %n) {called_computations = [@order], mhlo.backend_config = {reduction_dim = 1 : i64, recall_target = 0.9 : f32, top_k = 2 : i64, aggregate_to_topk = true, reduction_input_size_override = -1 : i64, is_fallback = true}} : (tensor<3x7xf32>, tensor<3x7xi32>, tensor<f32>, tensor<i32>) -> (tensor<3x2xf32>, tensor<3x2xi32>)
  return %0#0, %0#1 : tensor<3x2xf32>, tensor<3x2xi32>
}
func.func private @order(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>) -> tensor<i1> {
  %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
// -----
func.func @main(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %0 = stablehlo.custom_call @Sharding(%x) {mhlo.sharding = "{replicated}"} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {mhlo.sharding = "{manual}"} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %2 = stablehlo.custom_call @SPMDShardToFullShape(%1) {mhlo.sharding = "{replicated}"} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %3 = stablehlo.custom_call @LayoutConstraint(%2) {operand_layouts = [dense<[1, 0]> : tensor<2xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>]} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %4 = stablehlo.custom_call @annotate_device_placement(%3) {has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "device"}} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %5 = stablehlo.custom_call @AllocateBuffer() : () -> tensor<4x2xf32>
  stablehlo.custom_call @dce_sink(%5) {has_side_effect = true} : (tensor<4x2xf32>) -> ()
  %p = stablehlo.constant dense<true> : tensor<i1>
  stablehlo.custom_call @shape_assertion(%p) {error_message = "no", has_side_effect = true} : (tensor<i1>) -> ()
  return %4 : tensor<4x2xf32>
}
