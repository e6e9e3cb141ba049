// Sizes were asked of a tuple.
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = stablehlo.tuple %x, %x : tuple<tensor<?xf32>, tensor<?xf32>>
  %1 = stablehlo.get_tuple_element %0[1] : (tuple<tensor<?xf32>, tensor<?xf32>>) -> tensor<?xf32>
  %2 = stablehlo.add %1, %x : tensor<?xf32>
  return %2 : tensor<?xf32>
}
