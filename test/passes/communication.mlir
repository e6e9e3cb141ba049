// RUN: shlo-opt %s --pass-pipeline='builtin.module(cse,dce,peephole,licm,cse)' | filecheck %s
// RUN: shlo-opt %s --pass-pipeline='builtin.module(decompose-collectives,fusion,schedule,buffer-assignment{verify=true})' | filecheck %s --check-prefix=FUSED

// What communicates stays where it is, as often as it is there, used or not.

// CHECK-LABEL: func.func @main(
// CHECK: "hlo.all_reduce"(%arg0)
// CHECK: "hlo.all_reduce"(%arg0)
// CHECK: scf.while
// CHECK: do
// CHECK: "hlo.all_reduce"(%arg0)
// CHECK: scf.yield

// Nothing is written over the operand: the others read it.
// FUSED-LABEL: func.func @main(
// FUSED: call @[[GATHER:fusion_[0-9]+]](%arg1, %arg0)
// FUSED: call @[[GATHER]](%arg1, %arg0)
// FUSED: scf.while
// FUSED: do
// FUSED: call @[[GATHER]](%arg1, %arg0)
// FUSED: call @[[PERMUTE:fusion_[0-9]+]](%arg1,
// FUSED: func.func private @[[PERMUTE]]({{.*}}attributes {hlo.fusion = "exchange"} {
module attributes {mhlo.num_replicas = 2 : i32} {
func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = "hlo.all_reduce"(%a) {kind = "add", groups = array<i64: 0, 1>, width = 2 : i64, processes = 2 : i64,
    channel = 0 : i64, origin = "stablehlo.all_reduce"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "hlo.all_reduce"(%a) {kind = "add", groups = array<i64: 0, 1>, width = 2 : i64, processes = 2 : i64,
    channel = 0 : i64, origin = "stablehlo.all_reduce"} : (tensor<4xf32>) -> tensor<4xf32>
  %zero = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %one = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %many = "hlo.constant"() {value = dense<9> : tensor<i32>} : () -> tensor<i32>
  %i = scf.while (%n = %zero) : (tensor<i32>) -> tensor<i32> {
    %go = "hlo.compare"(%n, %many) {direction = "LT"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %p = tensor.extract %go[] : tensor<i1>
    scf.condition(%p) %n : tensor<i32>
  } do {
  ^bb0(%n: tensor<i32>):
    %2 = "hlo.all_reduce"(%a) {kind = "add", groups = array<i64: 0, 1>, width = 2 : i64, processes = 2 : i64,
      channel = 0 : i64, origin = "stablehlo.all_reduce"} : (tensor<4xf32>) -> tensor<4xf32>
    %next = "hlo.add"(%n, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    scf.yield %next : tensor<i32>
  }
  %b = "hlo.negate"(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = "hlo.collective_permute"(%b) {pairs = array<i64: 0, 1, 1, 0>, processes = 2 : i64, channel = 0 : i64,
    origin = "stablehlo.collective_permute"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %c : tensor<4xf32>, tensor<4xf32>
}
}
