// RUN: shlo-run %s | filecheck %s
// Self-checking modules: the inputs become arguments, so that nothing is folded away.

// CHECK: #0: 2 checks passed
func.func @main() {
  %x = stablehlo.constant dense<[1.0, -2.0, 0.5, 3.0]> : tensor<4xf32>
  %y = stablehlo.constant dense<[4.0, 2.0, -8.0, 0.0]> : tensor<4xf32>
  %p = stablehlo.multiply %x, %y : tensor<4xf32>
  %m = stablehlo.maximum %p, %x : tensor<4xf32>
  %e = stablehlo.constant dense<[4.0, -4.0, -4.0, 0.0]> : tensor<4xf32>
  %f = stablehlo.constant dense<[4.0, -2.0, 0.5, 3.0]> : tensor<4xf32>
  "check.expect_eq"(%p, %e) : (tensor<4xf32>, tensor<4xf32>) -> ()
  "check.expect_eq"(%m, %f) : (tensor<4xf32>, tensor<4xf32>) -> ()
  return
}

// -----

// Integer division by zero and the smallest number divided by -1 do not trap.
// CHECK: #1: 1 check passed
func.func @main() {
  %x = stablehlo.constant dense<[7, -7, 5, -2147483648]> : tensor<4xi32>
  %y = stablehlo.constant dense<[2, 2, 0, -1]> : tensor<4xi32>
  %q = stablehlo.divide %x, %y : tensor<4xi32>
  %e = stablehlo.constant dense<[3, -3, -1, -2147483648]> : tensor<4xi32>
  "check.expect_eq"(%q, %e) : (tensor<4xi32>, tensor<4xi32>) -> ()
  return
}

// -----

// CHECK: #2: 1 check passed
func.func @main() {
  %x = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xbf16>
  %y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<2x2xbf16>, tensor<2x2xbf16>) -> tensor<2x2xbf16>
  %e = stablehlo.constant dense<[[7.0, 10.0], [15.0, 22.0]]> : tensor<2x2xbf16>
  stablehlo.custom_call @check.expect_close(%y, %e) {has_side_effect = true} : (tensor<2x2xbf16>, tensor<2x2xbf16>) -> ()
  return
}
