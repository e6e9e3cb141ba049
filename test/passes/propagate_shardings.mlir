// RUN: shlo-opt %s --split-input-file --pass-pipeline='builtin.module(legalize-to-hlo,propagate-shardings)' | filecheck %s

module attributes {hlo.meshes = {mesh = "#sdy.mesh<[\22x\22=2, \22y\22=4]>"}} {

// Along dimensions that correspond; not along one that is summed up, nor one that the devices do not divide, nor twice.
// What is said already stays, and goes on.
// CHECK: func.func public @main(
// CHECK-SAME: -> (tensor<8x6xf32> {hlo.sharding = "#sdy.sharding<@mesh, [{\22y\22}, {\22x\22}]>"},
// CHECK-SAME: tensor<8x8xf32> {hlo.sharding = "#sdy.sharding<@mesh, [{}, {\22y\22}]>"},
// CHECK-SAME: tensor<8xf32>,
// CHECK-SAME: tensor<48xf32> {hlo.sharding = "#sdy.sharding<@mesh, [{\22x\22}]>"},
// CHECK-SAME: tensor<2x8xf32> {hlo.sharding = "#sdy.sharding<@mesh, [{}, {}]>"},
// CHECK-SAME: tensor<8x6xf32> {hlo.sharding = "#sdy.sharding<@mesh, [{\22y\22}, {}]>"},
// CHECK-SAME: tensor<6xf32>)
// CHECK: "hlo.tanh"(%arg0) {hlo.sharding = ["#sdy.sharding<@mesh, [{\22x\22}, {\22y\22}]>"]}
// CHECK: "hlo.transpose"({{.*}}) {hlo.sharding = ["#sdy.sharding<@mesh, [{\22y\22}, {\22x\22}]>"]
// CHECK: "hlo.exponential"({{.*}}) {hlo.sharding = ["#sdy.sharding<@mesh, [{\22y\22}, {}]>"]}
func.func public @main(%x: tensor<6x8xf32> {hlo.sharding = "#sdy.sharding<@mesh, [{\22x\22}, {\22y\22}]>"})
    -> (tensor<8x6xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<48xf32>,
        tensor<2x8xf32> {hlo.sharding = "#sdy.sharding<@mesh, [{}, {}]>"}, tensor<8x6xf32>, tensor<6xf32>) {
  %0 = stablehlo.tanh %x : tensor<6x8xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<6x8xf32>) -> tensor<8x6xf32>
  %2 = stablehlo.constant dense<1.0> : tensor<8x6xf32>
  %3 = stablehlo.dot %2, %0 : (tensor<8x6xf32>, tensor<6x8xf32>) -> tensor<8x8xf32>
  %4 = stablehlo.constant dense<0.0> : tensor<f32>
  %5 = stablehlo.reduce(%3 init: %4) applies stablehlo.add across dimensions = [1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
  %6 = stablehlo.reshape %x : (tensor<6x8xf32>) -> tensor<48xf32>
  %7 = stablehlo.slice %0 [0:2, 0:8] : (tensor<6x8xf32>) -> tensor<2x8xf32>
  %8 = stablehlo.exponential %1 {hlo.sharding = ["#sdy.sharding<@mesh, [{\22y\22}, {}]>"]} : tensor<8x6xf32>
  %9 = stablehlo.constant dense<2.0> : tensor<6xf32>
  %10 = stablehlo.negate %9 {hlo.sharding = ["#sdy.sharding<@mesh, [{\22y\22}]>"]} : tensor<6xf32>
  return %1, %3, %5, %6, %7, %8, %10
    : tensor<8x6xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<48xf32>, tensor<2x8xf32>, tensor<8x6xf32>, tensor<6xf32>
}
}

// -----

module attributes {hlo.meshes = {mesh = "#sdy.mesh<[\22x\22=2, \22y\22=4]>"}} {

// Open dimensions are sharded further, closed ones are not; a mesh without axes is any. A loop gives what its body gives.
// CHECK: func.func public @main(
// CHECK-SAME: -> (tensor<8x8xf32> {hlo.sharding = "#sdy.sharding<@mesh, [{\22x\22}, {}]>"},
// CHECK-SAME: tensor<8x8xf32> {hlo.sharding = "#sdy.sharding<@mesh, [{}, {}]>"},
// CHECK-SAME: tensor<8x8xf32> {hlo.sharding = "#sdy.sharding<@mesh, [{\22x\22, \22y\22}, {}]>"},
// CHECK-SAME: tensor<8x8xf32> {hlo.sharding = "#sdy.sharding<@mesh, [{}, {\22y\22}]>"})
// CHECK: "hlo.sharding_constraint"(%arg0) {hlo.sharding = ["#sdy.sharding<@mesh, [{\22x\22, \22y\22}, {}]>"]}
func.func public @main(%x: tensor<8x8xf32> {hlo.sharding = "#sdy.sharding<@mesh, [{\22x\22, \22y\22}, {}]>"},
                       %y: tensor<8x8xf32> {hlo.sharding = "#sdy.sharding<@mesh, [{\22x\22}, {\22y\22}]>"}, %z: tensor<8x8xf32>)
    -> (tensor<8x8xf32> {hlo.sharding = "#sdy.sharding<@empty_mesh, [{?}, {}]>"},
        tensor<8x8xf32> {hlo.sharding = "#sdy.sharding<@mesh, [{}, {}]>"}, tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = stablehlo.custom_call @Sharding(%x) {hlo.sharding = ["#sdy.sharding<@mesh, [{\22x\22, ?}, {?}]>"]} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.negate %0 : tensor<8x8xf32>
  %2 = stablehlo.constant dense<0> : tensor<i32>
  %3 = stablehlo.constant dense<5> : tensor<i32>
  %4:2 = stablehlo.while(%i = %2, %c = %z) : tensor<i32>, tensor<8x8xf32>
    cond {
      %5 = stablehlo.compare LT, %i, %3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %5 : tensor<i1>
    } do {
      %5 = stablehlo.add %i, %3 : tensor<i32>
      %6 = stablehlo.custom_call @Sharding(%c) {hlo.sharding = ["#sdy.sharding<@mesh, [{}, {\22y\22}]>"]} : (tensor<8x8xf32>) -> tensor<8x8xf32>
      stablehlo.return %5, %6 : tensor<i32>, tensor<8x8xf32>
    }
  return %y, %y, %1, %4#1 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
}
