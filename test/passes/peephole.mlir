// RUN: shlo-opt %s --pass-pipeline='builtin.module(simplify-loops,unroll-loops,peephole,cse)' | filecheck %s
// RUN: shlo-opt %s --pass-pipeline='builtin.module(peephole)' | filecheck %s --check-prefix=ALONE

// Counter and predicate are gone, and the body's loop-invariant work is done once.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: "hlo.exponential"(%arg1)
// CHECK-COUNT-3: "hlo.multiply"
// CHECK-NEXT: return
// ALONE-LABEL: func.func @main
// ALONE: scf.while
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
