// Infinite by finite was NaN, as was finite by infinite, and |0 + NaN i| was 0.
func.func @main() -> (tensor<6xcomplex<f32>>, tensor<6xf32>) {
  %ar = stablehlo.constant dense<[0x7F800000, 1.0, 1.0, 0.0, 2.0, 0x7F800000]> : tensor<6xf32>
  %ai = stablehlo.constant dense<[1.0, 2.0, 0x7F800000, 0x7FC00000, 0.0, 0x7F800000]> : tensor<6xf32>
  %br = stablehlo.constant dense<[2.0, 0x7F800000, 0.0, 1.0, -0.0, 3.0]> : tensor<6xf32>
  %bi = stablehlo.constant dense<[3.0, -1.0, 0.0, 1.0, 0.0, 4.0]> : tensor<6xf32>
  %a = stablehlo.complex %ar, %ai : tensor<6xcomplex<f32>>
  %b = stablehlo.complex %br, %bi : tensor<6xcomplex<f32>>
  %c = stablehlo.divide %a, %b : tensor<6xcomplex<f32>>
  %d = stablehlo.abs %a : (tensor<6xcomplex<f32>>) -> tensor<6xf32>
  return %c, %d : tensor<6xcomplex<f32>>, tensor<6xf32>
}
