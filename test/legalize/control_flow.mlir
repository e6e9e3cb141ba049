// RUN: shlo-opt %s --pass-pipeline='builtin.module(legalize-to-hlo)' | filecheck %s

// CHECK-LABEL: func.func @loop
// CHECK: [[W:%[0-9]+]]:2 = scf.while ([[I:%.*]] = %arg0, [[X:%.*]] = %arg1) : (tensor<i32>, tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>)
// CHECK: [[P:%[0-9]+]] = "hlo.compare"([[I]], %arg2) {direction = "LT"}
// CHECK: [[E:%.*]] = tensor.extract [[P]][] : tensor<i1>
// CHECK: scf.condition([[E]]) [[I]], [[X]] : tensor<i32>, tensor<4xf32>
// CHECK: "hlo.add"
// CHECK: "hlo.sine"
// CHECK: scf.yield
// CHECK: return [[W]]#1
func.func @loop(%i: tensor<i32>, %x: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32> {
  %0:2 = stablehlo.while(%a = %i, %b = %x) : tensor<i32>, tensor<4xf32>
  cond {
    %1 = stablehlo.compare LT, %a, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = stablehlo.add %a, %a : tensor<i32>
    %2 = stablehlo.sine %b : tensor<4xf32>
    stablehlo.return %1, %2 : tensor<i32>, tensor<4xf32>
  }
  return %0#1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @branch
// CHECK: [[E:%.*]] = tensor.extract %arg0[] : tensor<i1>
// CHECK: scf.if [[E]] -> (tensor<4xf32>)
// CHECK: "hlo.sine"
// CHECK: scf.yield
// CHECK: else
// CHECK: scf.yield %arg1
func.func @branch(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.if"(%p) ({
    %1 = stablehlo.sine %x : tensor<4xf32>
    stablehlo.return %1 : tensor<4xf32>
  }, {
    stablehlo.return %x : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// An index out of range takes the last branch.
// CHECK-LABEL: func.func @switch
// CHECK: [[I:%[0-9]+]] = arith.index_cast {{%.*}} : i32 to index
// CHECK: scf.index_switch [[I]] -> tensor<4xf32>
// CHECK: case 0
// CHECK-NEXT: "hlo.sine"
// CHECK: case 1
// CHECK-NEXT: "hlo.cosine"
// CHECK: default
// CHECK-NEXT: "hlo.tanh"
func.func @switch(%i: tensor<i32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.case"(%i) ({
    %1 = stablehlo.sine %x : tensor<4xf32>
    stablehlo.return %1 : tensor<4xf32>
  }, {
    %1 = stablehlo.cosine %x : tensor<4xf32>
    stablehlo.return %1 : tensor<4xf32>
  }, {
    %1 = stablehlo.tanh %x : tensor<4xf32>
    stablehlo.return %1 : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @only_branch
// CHECK-NEXT: [[R:%[0-9]+]] = "hlo.sine"(%arg1)
// CHECK-NEXT: return [[R]]
func.func @only_branch(%i: tensor<i32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.case"(%i) ({
    %1 = stablehlo.sine %x : tensor<4xf32>
    stablehlo.return %1 : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
