// RUN: shlo-opt --mlir-print-debuginfo %s | filecheck %s --check-prefix=BEFORE
// RUN: shlo-opt --pass-pipeline=strip-debug --mlir-print-debuginfo %s | filecheck %s

// BEFORE: loc("model.py":3:4)
// CHECK-NOT: model.py
// CHECK: #[[U:.*]] = loc(unknown)
// CHECK: "hlo.tanh"{{.*}} loc(#[[U]])
// CHECK-NOT: model.py
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "hlo.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("model.py":3:4)
  return %0 : tensor<4xf32>
}
