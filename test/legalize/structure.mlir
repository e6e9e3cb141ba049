// RUN: shlo-opt %s --pass-pipeline='builtin.module(legalize-to-hlo)' | filecheck %s

// CHECK-LABEL: func.func @tuples
// CHECK-NEXT: return %arg1
func.func @tuples(%a: tensor<4xf32>, %b: tensor<2xi32>) -> tensor<2xi32> {
  %0 = stablehlo.tuple %a, %b : tuple<tensor<4xf32>, tensor<2xi32>>
  %1 = stablehlo.get_tuple_element %0[1] : (tuple<tensor<4xf32>, tensor<2xi32>>) -> tensor<2xi32>
  return %1 : tensor<2xi32>
}

// Tuples of the signature are taken apart, tokens go; attributes of other arguments stay theirs.
// CHECK-LABEL: func.func @signature(%arg0: tensor<2xi32>, %arg1: tensor<3xf32>, %arg2: tensor<4xf32> {tf.aliasing_output = 1 : i32}) -> (tensor<2xi32>, tensor<4xf32> {jax.result_info = "kept"}, tensor<3xf32>)
// CHECK: return %arg0, %arg2, %arg1
func.func @signature(%t: !stablehlo.token, %u: tuple<tensor<2xi32>, tuple<tensor<3xf32>>>,
                     %a: tensor<4xf32> {tf.aliasing_output = 1 : i32})
    -> (tensor<2xi32>, !stablehlo.token, tensor<4xf32> {jax.result_info = "kept"},
        tuple<tuple<tensor<3xf32>>, !stablehlo.token>) {
  %0 = stablehlo.get_tuple_element %u[0] : (tuple<tensor<2xi32>, tuple<tensor<3xf32>>>) -> tensor<2xi32>
  %1 = stablehlo.get_tuple_element %u[1] : (tuple<tensor<2xi32>, tuple<tensor<3xf32>>>) -> tuple<tensor<3xf32>>
  %2 = stablehlo.tuple %1, %t : tuple<tuple<tensor<3xf32>>, !stablehlo.token>
  return %0, %t, %a, %2 : tensor<2xi32>, !stablehlo.token, tensor<4xf32>, tuple<tuple<tensor<3xf32>>, !stablehlo.token>
}

// CHECK-LABEL: func.func @asynchronous
// CHECK-NEXT: [[A:%[0-9]+]] = "hlo.slice"(%arg0)
// CHECK-NEXT: [[B:%[0-9]+]] = "hlo.negate"(%arg0)
// CHECK-NEXT: return [[A]], [[B]]
func.func @asynchronous(%a: tensor<4xf32>) -> (tensor<2xf32>, tensor<4xf32>) {
  %f = "stablehlo.async_start"(%a) ({
  ^bb0(%x: tensor<4xf32>):
    %0 = stablehlo.slice %x [0:2] : (tensor<4xf32>) -> tensor<2xf32>
    stablehlo.return %0 : tensor<2xf32>
  }) : (tensor<4xf32>) -> !stablehlo.future<tensor<2xf32>>
  %b = stablehlo.negate %a : tensor<4xf32>
  %1 = "stablehlo.async_done"(%f) : (!stablehlo.future<tensor<2xf32>>) -> tensor<2xf32>
  return %1, %b : tensor<2xf32>, tensor<4xf32>
}

// One chain, in the order of the text, whatever the tokens were.
// CHECK-LABEL: func.func @tokens
// CHECK-NEXT: [[T:%[0-9]+]] = "hlo.constant"() {value = dense<> : tensor<0xi8>}
// CHECK-NEXT: [[A:%[0-9]+]] = "hlo.outfeed"(%arg1, [[T]], %arg0)
// CHECK-NEXT: [[B:%[0-9]+]] = "hlo.outfeed"(%arg1, [[A]], %arg0)
// CHECK-NEXT: [[W:%[0-9]+]]:2 = scf.while ({{.*}} = %arg0, {{.*}} = [[B]])
// CHECK: "hlo.outfeed"(%arg1, [[W]]#1, %arg0)
func.func @tokens(%a: tensor<i32>) -> tensor<i32> {
  %t = stablehlo.create_token : !stablehlo.token
  %u = stablehlo.create_token : !stablehlo.token
  %0 = "stablehlo.outfeed"(%a, %t) : (tensor<i32>, !stablehlo.token) -> !stablehlo.token
  %1 = "stablehlo.outfeed"(%a, %u) : (tensor<i32>, !stablehlo.token) -> !stablehlo.token
  %2 = stablehlo.after_all %1, %0 : !stablehlo.token
  %3:2 = "stablehlo.while"(%a, %2) ({
  ^bb0(%x: tensor<i32>, %k: !stablehlo.token):
    %4 = stablehlo.compare LT, %x, %a : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %4 : tensor<i1>
  }, {
  ^bb0(%x: tensor<i32>, %k: !stablehlo.token):
    stablehlo.return %x, %k : tensor<i32>, !stablehlo.token
  }) : (tensor<i32>, !stablehlo.token) -> (tensor<i32>, !stablehlo.token)
  %5 = "stablehlo.outfeed"(%a, %t) : (tensor<i32>, !stablehlo.token) -> !stablehlo.token
  return %3#0 : tensor<i32>
}
