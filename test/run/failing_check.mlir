// RUN: not shlo-run %s | filecheck %s
// CHECK: check 0 failed: eq: 1 of 2 elements off
// CHECK-SAME: at [1] 4.0 where 5.0 is expected
func.func @main() {
  %x = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %y = stablehlo.add %x, %x : tensor<2xf32>
  %e = stablehlo.constant dense<[2.0, 5.0]> : tensor<2xf32>
  "check.expect_eq"(%y, %e) : (tensor<2xf32>, tensor<2xf32>) -> ()
  return
}
