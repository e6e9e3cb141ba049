// RUN: shlo-run %s | filecheck %s

// The greatest common divisor, by a loop that runs as often as the data say.
// CHECK: #0: 1 check passed
func.func @main() {
  %a = stablehlo.constant dense<1071> : tensor<i32>
  %b = stablehlo.constant dense<462> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%x = %a, %y = %b) : tensor<i32>, tensor<i32>
  cond {
    %c = stablehlo.compare NE, %y, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %m = stablehlo.remainder %x, %y : tensor<i32>
    stablehlo.return %y, %m : tensor<i32>, tensor<i32>
  }
  %e = stablehlo.constant dense<21> : tensor<i32>
  "check.expect_eq"(%r#0, %e) : (tensor<i32>, tensor<i32>) -> ()
  return
}

// -----

// A case out of range takes the last branch.
// CHECK: #1: 1 check passed
func.func @main() {
  %i = stablehlo.constant dense<17> : tensor<i32>
  %x = stablehlo.constant dense<[1.0, -2.0, 3.0]> : tensor<3xf32>
  %r = "stablehlo.case"(%i) ({
    stablehlo.return %x : tensor<3xf32>
  }, {
    %n = stablehlo.negate %x : tensor<3xf32>
    stablehlo.return %n : tensor<3xf32>
  }) : (tensor<i32>) -> tensor<3xf32>
  %e = stablehlo.constant dense<[-1.0, 2.0, -3.0]> : tensor<3xf32>
  "check.expect_eq"(%r, %e) : (tensor<3xf32>, tensor<3xf32>) -> ()
  return
}
