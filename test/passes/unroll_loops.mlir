// RUN: shlo-opt %s --pass-pipeline='builtin.module(unroll-loops)' | filecheck %s
// RUN: shlo-opt %s --pass-pipeline='builtin.module(unroll-loops{max-trips=2})' | filecheck %s --check-prefix=LONG

// CHECK-LABEL: func.func @main
// CHECK-NOT: scf.while
// CHECK-COUNT-3: "hlo.multiply"
// CHECK-NOT: "hlo.multiply"
// LONG-LABEL: func.func @main
// LONG: scf.while
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %c1 = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %c3 = "hlo.constant"() {value = dense<3> : tensor<i32>} : () -> tensor<i32>
  %r:3 = scf.while (%i0 = %c0, %a0 = %x, %w0 = %y) : (tensor<i32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>, tensor<4xf32>) {
    %l = "hlo.compare"(%i0, %c3) {direction = "LT"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %p = tensor.extract %l[] : tensor<i1>
    scf.condition(%p) %i0, %a0, %w0 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  } do {
  ^bb0(%i: tensor<i32>, %a: tensor<4xf32>, %w: tensor<4xf32>):
    %n = "hlo.add"(%i, %c1) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %e = "hlo.exponential"(%w) : (tensor<4xf32>) -> tensor<4xf32>
    %b = "hlo.multiply"(%a, %e) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    scf.yield %n, %b, %w : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %r#1 : tensor<4xf32>
}
