// A loop whose big carry becomes another array was taken for one that keeps it in place.
func.func @main(%arg0: tensor<17x16xui16>, %arg1: tensor<i32>, %c: tensor<17x16xui16>) -> tensor<17x16xui16> {
  %0 = stablehlo.add %arg0, %c : tensor<17x16xui16>
  %c_0 = stablehlo.constant dense<0> : tensor<i32>
  %1:3 = stablehlo.while(%iterArg = %c_0, %iterArg_1 = %c, %iterArg_2 = %arg0) : tensor<i32>, tensor<17x16xui16>, tensor<17x16xui16>
  cond {
      %2 = stablehlo.compare LT, %iterArg, %arg1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
  } do {
      %n = stablehlo.constant dense<5> : tensor<i32>
      %k = stablehlo.add %iterArg, %n : tensor<i32>
      stablehlo.return %k, %0, %0 : tensor<i32>, tensor<17x16xui16>, tensor<17x16xui16>
  }
  return %1#2 : tensor<17x16xui16>
}
