// RUN: shlo-opt %s --pass-pipeline='builtin.module(legalize-to-hlo)' | filecheck %s

// CHECK-LABEL: func.func @simple
// CHECK: "hlo.reduce"(%arg0, %arg1) {dimensions = array<i64: 1>, kind = "maximum"} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
func.func @simple(%a: tensor<2x3xf32>, %i: tensor<f32>) -> tensor<2xf32> {
  %0 = stablehlo.reduce(%a init: %i) applies stablehlo.maximum across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// The arguments may come in any order; on booleans a sum is an or.
// CHECK-LABEL: func.func @any_order
// CHECK: "hlo.reduce"(%arg0, %arg1) {dimensions = array<i64: 0>, kind = "or"}
func.func @any_order(%a: tensor<4xi1>, %i: tensor<i1>) -> tensor<i1> {
  %0 = stablehlo.reduce(%a init: %i) across dimensions = [0] : (tensor<4xi1>, tensor<i1>) -> tensor<i1>
   reducer(%x: tensor<i1>, %y: tensor<i1>) {
    %1 = stablehlo.add %y, %x : tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }
  return %0 : tensor<i1>
}

// Two operands that are combined apart become two reductions.
// CHECK-LABEL: func.func @independent
// CHECK-DAG: "hlo.reduce"(%arg0, %arg2) {dimensions = array<i64: 0>, kind = "add"} : (tensor<4xf32>
// CHECK-DAG: "hlo.reduce"(%arg1, %arg3) {dimensions = array<i64: 0>, kind = "minimum"} : (tensor<4xi32>
func.func @independent(%a: tensor<4xf32>, %b: tensor<4xi32>, %i: tensor<f32>, %j: tensor<i32>) -> (tensor<f32>, tensor<i32>) {
  %0:2 = stablehlo.reduce(%a init: %i), (%b init: %j) across dimensions = [0] : (tensor<4xf32>, tensor<4xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
   reducer(%x: tensor<f32>, %y: tensor<f32>) (%p: tensor<i32>, %q: tensor<i32>) {
    %1 = stablehlo.add %x, %y : tensor<f32>
    %2 = stablehlo.minimum %p, %q : tensor<i32>
    stablehlo.return %1, %2 : tensor<f32>, tensor<i32>
  }
  return %0#0, %0#1 : tensor<f32>, tensor<i32>
}

// An unusual combiner stays, with hlo ops in it.
// CHECK-LABEL: func.func @unusual
// CHECK: stablehlo.reduce
// CHECK: "hlo.multiply"
// CHECK-NEXT: "hlo.add"
// CHECK-NEXT: stablehlo.return
func.func @unusual(%a: tensor<4xf32>, %i: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.reduce(%a init: %i) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
   reducer(%x: tensor<f32>, %y: tensor<f32>) {
    %1 = stablehlo.multiply %y, %y : tensor<f32>
    %2 = stablehlo.add %x, %1 : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }
  return %0 : tensor<f32>
}

// A constant from outside is copied in: regions of kept ops use nothing from outside.
// CHECK-LABEL: func.func @captured
// CHECK: stablehlo.reduce
// CHECK: [[C:%[0-9]+]] = "hlo.constant"() {value = dense<2.000000e+00> : tensor<f32>}
// CHECK-NEXT: "hlo.multiply"({{%.*}}, [[C]])
func.func @captured(%a: tensor<4xf32>, %i: tensor<f32>) -> tensor<f32> {
  %c = stablehlo.constant dense<2.0> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %i) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
   reducer(%x: tensor<f32>, %y: tensor<f32>) {
    %1 = stablehlo.multiply %y, %c : tensor<f32>
    %2 = stablehlo.add %x, %1 : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }
  return %0 : tensor<f32>
}

// Any other scalar becomes an operand of its own, of which every element is the scalar.
// CHECK-LABEL: func.func @captured_value
// CHECK: [[C:%[0-9]+]] = "hlo.broadcast"(%arg2)
// CHECK-NEXT: stablehlo.reduce(%arg0 init: %arg1), ([[C]] init: %arg2)
// CHECK-NEXT: reducer(%arg3: tensor<f32>, %arg5: tensor<f32>) (%arg4: tensor<f32>, %arg6: tensor<f32>)
// CHECK-NEXT: [[P:%[0-9]+]] = "hlo.multiply"(%arg5, %arg4)
// CHECK-NEXT: [[S:%[0-9]+]] = "hlo.add"(%arg3, [[P]])
// CHECK-NEXT: stablehlo.return [[S]], %arg4
func.func @captured_value(%a: tensor<4xf32>, %i: tensor<f32>, %c: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.reduce(%a init: %i) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
   reducer(%x: tensor<f32>, %y: tensor<f32>) {
    %1 = stablehlo.multiply %y, %c : tensor<f32>
    %2 = stablehlo.add %x, %1 : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }
  return %0 : tensor<f32>
}

// A branch in a body is a choice.
// CHECK-LABEL: func.func @branch
// CHECK: [[P:%[0-9]+]] = "hlo.compare"
// CHECK-NEXT: [[N:%[0-9]+]] = "hlo.negate"
// CHECK-NEXT: [[R:%[0-9]+]] = "hlo.select"([[P]], [[N]], %arg3)
// CHECK-NEXT: stablehlo.return [[R]]
func.func @branch(%a: tensor<4xf32>, %i: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.reduce(%a init: %i) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
   reducer(%x: tensor<f32>, %y: tensor<f32>) {
    %p = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %1 = "stablehlo.if"(%p) ({
      %2 = stablehlo.negate %x : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }, {
      stablehlo.return %y : tensor<f32>
    }) : (tensor<i1>) -> tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }
  return %0 : tensor<f32>
}

// CHECK-LABEL: func.func @over_nothing
// CHECK-NEXT: [[I:%[0-9]+]] = "hlo.broadcast"(%arg1)
// CHECK-NEXT: "hlo.add"(%arg0, [[I]])
func.func @over_nothing(%a: tensor<4xf32>, %i: tensor<f32>) -> tensor<4xf32> {
  %0 = stablehlo.reduce(%a init: %i) applies stablehlo.add across dimensions = [] : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @window
// CHECK: "hlo.reduce_window"(%arg0, %arg1) {base_dilation = array<i64: 1, 1>, kind = "maximum", padding = array<i64: 0, 0, 1, 1>
// CHECK-SAME: strides = array<i64: 1, 2>, window = array<i64: 1, 3>, window_dilation = array<i64: 1, 1>}
func.func @window(%a: tensor<2x8xf32>, %i: tensor<f32>) -> tensor<2x4xf32> {
  %0 = "stablehlo.reduce_window"(%a, %i) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.maximum %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {window_dimensions = array<i64: 1, 3>, window_strides = array<i64: 1, 2>, padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>}
    : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// CHECK-LABEL: func.func @sort
// CHECK: "stablehlo.sort"(%arg0)
// CHECK: "hlo.compare"({{.*}}) {direction = "LT", total_order}
// CHECK-NEXT: stablehlo.return
func.func @sort(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.sort"(%a) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.compare LT, %x, %y, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) {dimension = 0 : i64, is_stable = true} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A body that rounds computes in f32, its constants too.
// CHECK-LABEL: func.func @of_16_bits
// CHECK-DAG: [[A:%[0-9]+]] = "hlo.convert"(%arg0) : (tensor<40xbf16>) -> tensor<40xf32>
// CHECK-DAG: [[I:%[0-9]+]] = "hlo.convert"(%arg1) : (tensor<bf16>) -> tensor<f32>
// CHECK: [[R:%[0-9]+]] = stablehlo.reduce([[A]] init: [[I]])
// CHECK-NEXT: reducer(%arg2: tensor<f32>, %arg3: tensor<f32>)
// CHECK: "hlo.constant"() {value = dense<2.000000e+00> : tensor<f32>}
// CHECK: "hlo.exponential"{{.*}} : (tensor<f32>) -> tensor<f32>
// CHECK: "hlo.convert"([[R]]) : (tensor<f32>) -> tensor<bf16>
func.func @of_16_bits(%a: tensor<40xbf16>, %i: tensor<bf16>) -> tensor<bf16> {
  %0 = stablehlo.reduce(%a init: %i) across dimensions = [0] : (tensor<40xbf16>, tensor<bf16>) -> tensor<bf16>
   reducer(%x: tensor<bf16>, %y: tensor<bf16>) {
    %two = stablehlo.constant dense<2.0> : tensor<bf16>
    %1 = stablehlo.exponential %x : tensor<bf16>
    %2 = stablehlo.power %y, %two : tensor<bf16>
    %3 = stablehlo.add %1, %2 : tensor<bf16>
    stablehlo.return %3 : tensor<bf16>
  }
  return %0 : tensor<bf16>
}

// One that chooses keeps its type: nothing is rounded.
// CHECK-LABEL: func.func @choice_of_16_bits
// CHECK-NOT: "hlo.convert"
// CHECK: return
func.func @choice_of_16_bits(%a: tensor<40xbf16>, %i: tensor<bf16>) -> tensor<bf16> {
  %0 = stablehlo.reduce(%a init: %i) across dimensions = [0] : (tensor<40xbf16>, tensor<bf16>) -> tensor<bf16>
   reducer(%x: tensor<bf16>, %y: tensor<bf16>) {
    %p = stablehlo.compare LT, %x, %y : (tensor<bf16>, tensor<bf16>) -> tensor<i1>
    %1 = stablehlo.select %p, %y, %x : tensor<i1>, tensor<bf16>
    %2 = stablehlo.negate %1 : tensor<bf16>
    stablehlo.return %2 : tensor<bf16>
  }
  return %0 : tensor<bf16>
}

// So does one that asks for the type.
// CHECK-LABEL: func.func @codes_of_16_bits
// CHECK-NOT: "hlo.convert"
// CHECK: return
func.func @codes_of_16_bits(%a: tensor<40xbf16>, %i: tensor<bf16>) -> tensor<bf16> {
  %0 = stablehlo.reduce(%a init: %i) across dimensions = [0] : (tensor<40xbf16>, tensor<bf16>) -> tensor<bf16>
   reducer(%x: tensor<bf16>, %y: tensor<bf16>) {
    %1 = stablehlo.exponential %x : tensor<bf16>
    %2 = stablehlo.bitcast_convert %1 : (tensor<bf16>) -> tensor<i16>
    %3 = stablehlo.bitcast_convert %2 : (tensor<i16>) -> tensor<bf16>
    %4 = stablehlo.add %3, %y : tensor<bf16>
    stablehlo.return %4 : tensor<bf16>
  }
  return %0 : tensor<bf16>
}

// So do few values.
// CHECK-LABEL: func.func @few_of_16_bits
// CHECK-NOT: "hlo.convert"
// CHECK: return
func.func @few_of_16_bits(%a: tensor<31xbf16>, %i: tensor<bf16>) -> tensor<bf16> {
  %0 = stablehlo.reduce(%a init: %i) across dimensions = [0] : (tensor<31xbf16>, tensor<bf16>) -> tensor<bf16>
   reducer(%x: tensor<bf16>, %y: tensor<bf16>) {
    %1 = stablehlo.exponential %x : tensor<bf16>
    %2 = stablehlo.add %1, %y : tensor<bf16>
    stablehlo.return %2 : tensor<bf16>
  }
  return %0 : tensor<bf16>
}
