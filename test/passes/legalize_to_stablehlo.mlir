// RUN: shlo-opt --pass-pipeline='legalize-to-stablehlo' %s | filecheck %s

// Control flow ends with tensors; what StableHLO lacks is a custom call that says its attributes; what only we know goes.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %arg0: tensor<4xf32>, %arg1: tensor<i32>)
// CHECK: stablehlo.while
// CHECK: stablehlo.compare LT
// CHECK: stablehlo.return {{%[0-9]+}} : tensor<i1>
// CHECK: stablehlo.add
// CHECK: "stablehlo.case"(%arg1)
// CHECK: stablehlo.tanh
// CHECK: stablehlo.custom_call @hlo.digamma
// CHECK: stablehlo.custom_call @hlo.top_k({{.*}}) {backend_config = "{k = 2 : i64}"}
// CHECK-NOT: hlo.sharding
func.func @main(%x: tensor<4xf32> {hlo.sharding = "rows"}, %n: tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %one = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %counted = scf.while (%i = %one) : (tensor<i32>) -> tensor<i32> {
    %less = "hlo.compare"(%i, %n) {direction = "LT"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %go_on = tensor.extract %less[] : tensor<i1>
    scf.condition(%go_on) %i : tensor<i32>
  } do {
  ^bb0(%i: tensor<i32>):
    %next = "hlo.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    scf.yield %next : tensor<i32>
  }
  %number = tensor.extract %n[] : tensor<i32>
  %index = arith.index_cast %number : i32 to index
  %chosen = scf.index_switch %index -> tensor<4xf32>
  case 0 {
    %t = "hlo.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %t : tensor<4xf32>
  }
  default {
    %d = "hlo.digamma"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %d : tensor<4xf32>
  }
  %values, %places = "hlo.top_k"(%chosen) {hlo.sharding = ["rows", "rows"], k = 2 : i64} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %values, %places : tensor<2xf32>, tensor<2xi32>
}
