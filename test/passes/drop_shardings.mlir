// RUN: shlo-opt %s --pass-pipeline='builtin.module(legalize-to-hlo)' | filecheck %s --check-prefix=HLO
// RUN: shlo-opt %s --pass-pipeline='builtin.module(inline,legalize-to-hlo,cse,peephole,cse)' | filecheck %s --check-prefix=OPTIMIZED
// RUN: shlo-opt %s --pass-pipeline='builtin.module(inline,legalize-to-hlo,cse,peephole,cse,drop-shardings)' | filecheck %s --check-prefix=DROPPED

module attributes {hlo.meshes = {mesh = "#sdy.mesh<[\22x\22=2]>"}} {

// An op takes the sharding of the one that it stands for, and an op that says nothing that of the constraint behind it.
// What an argument has is for callers to say: there the constraint stays.
// HLO-LABEL: func.func public @main(
// HLO-SAME: tensor<4x4xf32> {hlo.sharding = "rows"}) -> (tensor<4x4xf32> {hlo.sharding = "columns"},
// HLO-NEXT: [[A:%[0-9]+]] = "hlo.sharding_constraint"(%arg0) {hlo.sharding = ["columns"]}
// HLO-NEXT: [[D:%[0-9]+]] = "hlo.dot"([[A]], %arg0) {hlo.sharding = ["rows"],
// HLO-NEXT: [[N:%[0-9]+]] = "hlo.sharding_constraint"([[D]]) {hlo.sharding = ["columns"]}
// HLO-NEXT: "hlo.tanh"([[N]]) {hlo.sharding = ["rows"]}

// Equal ops of which one says nothing are one op, that says what the other does. Two that say different things are two.
// What is left of x + 0 is x, which another op has made: a constraint says how the sum is sharded.
// OPTIMIZED-LABEL: func.func public @main(
// OPTIMIZED: "hlo.tanh"({{.*}}) {hlo.sharding = ["rows"]}
// OPTIMIZED-NOT: "hlo.tanh"
// OPTIMIZED: [[S:%[0-9]+]] = "hlo.sine"(%arg0) {hlo.sharding = ["rows"]}
// OPTIMIZED-NEXT: "hlo.sharding_constraint"([[S]]) {hlo.sharding = ["columns"]}
// OPTIMIZED-NEXT: "hlo.sine"(%arg0) {hlo.sharding = ["columns"]}
// OPTIMIZED-NEXT: "hlo.cosine"(%arg0) {hlo.sharding = ["of the function"]}

// DROPPED-LABEL: func.func public @main(
// DROPPED-SAME: tensor<4x4xf32> {hlo.sharding = "rows"}
// DROPPED-NOT: {hlo.sharding = [
// DROPPED: return
func.func public @main(%x: tensor<4x4xf32> {hlo.sharding = "rows"})
    -> (tensor<4x4xf32> {hlo.sharding = "columns"}, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = stablehlo.custom_call @Sharding(%x) {hlo.sharding = ["columns"]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = stablehlo.dot %0, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = stablehlo.custom_call @Sharding(%1) {hlo.sharding = ["rows"]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = stablehlo.custom_call @Sharding(%2) {hlo.sharding = ["columns"]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = stablehlo.tanh %3 {hlo.sharding = ["rows"]} : tensor<4x4xf32>
  %5 = stablehlo.tanh %3 : tensor<4x4xf32>
  %6 = stablehlo.add %4, %5 : tensor<4x4xf32>
  %7 = stablehlo.sine %x {hlo.sharding = ["rows"]} : tensor<4x4xf32>
  %8 = stablehlo.sine %x {hlo.sharding = ["columns"]} : tensor<4x4xf32>
  %zero = stablehlo.constant dense<-0.0> : tensor<4x4xf32>
  %9 = stablehlo.add %7, %zero {hlo.sharding = ["columns"]} : tensor<4x4xf32>
  %10 = call @f(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %6, %7, %8, %9, %2, %10
    : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

func.func private @f(%x: tensor<4x4xf32> {hlo.sharding = "rows"}) -> (tensor<4x4xf32> {hlo.sharding = "of the function"}) {
  %0 = stablehlo.cosine %x : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
}
