// A model at each stage of the backend 'c'.
// RUN: shlo-opt --target=c --compile-to=fused --split-input-file %s | filecheck %s --check-prefix=FUSED
// RUN: shlo-opt --target=c --compile-to=kernels --split-input-file %s | filecheck %s --check-prefix=KERNELS
// RUN: shlo-opt --target=c --compile-to=c --split-input-file %s | filecheck %s --check-prefix=FILE

// FUSED: hlo.fusion = "loop"
// KERNELS: static void fusion_0(const float *restrict in0, const float *restrict in1, float *restrict out0, char *shared, char *private, int64_t begin, int64_t end) {
// KERNELS-NEXT:   (void)shared;
// KERNELS-NEXT:   (void)private;
// KERNELS-NEXT:   for (int64_t i1 = begin; i1 < end; i1++) {
// KERNELS-NEXT:     const float v1 = in0[i1];
// KERNELS-NEXT:     const float v2 = in1[i1];
// KERNELS-NEXT:     const float v3 = v1 + v2;
// KERNELS-NEXT:     const float v4 = -v3;
// KERNELS-NEXT:     out0[i1] = v4;
// KERNELS-NEXT:   }
// KERNELS-NEXT: }
// KERNELS: int shlo_main(const shlo_call *call) {
// KERNELS-NEXT:   if (call->size < sizeof(shlo_call)) return 3;
// KERNELS-NEXT:   fusion_0((void *)call->inputs[0], (void *)call->inputs[1], (void *)call->outputs[0], (void *)0, (void *)0, 0, 1000);
// KERNELS-NEXT:   return 0;
// FILE: #include <math.h>
// FILE-NEXT: #include <stdint.h>
// FILE-NEXT: #include <string.h>
// FILE: } shlo_call;
// FILE-NEXT: #endif
// FILE: // fusion_0: loop (add, negate)
// FILE-NEXT: // {{.*}}stages.mlir:
// FILE-NEXT: // {{.*}}stages.mlir:
// FILE-NEXT: static void fusion_0(
// FILE: int shlo_main(
func.func @main(%x: tensor<1000xf32>, %y: tensor<1000xf32>) -> tensor<1000xf32> {
  %0 = stablehlo.add %x, %y : tensor<1000xf32>
  %1 = stablehlo.negate %0 : tensor<1000xf32>
  return %1 : tensor<1000xf32>
}

// -----

// Sums that do not wait for each other are in variables.
// FUSED: hlo.fusion = "row"
// KERNELS: float c1 = -0.0f;
// KERNELS: for (int64_t i2 = 0; i2 < 48; i2 += 4) {
// KERNELS: const float v2 = in0[v1 + i2];
// KERNELS-NEXT: const float v3 = c1 + v2;
// KERNELS: c1 = v3;
// KERNELS: out0[i1] =
func.func @main(%x: tensor<6x50xf32>) -> tensor<6xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<6x50xf32>, tensor<f32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

// Constants are in the file; only helpers that it calls are.
// KERNELS: call->constants[0]
// FILE: static inline float shlo_f32(uint32_t a) {
// FILE-NOT: shlo_f16_to_f32
// FILE: static const uint16_t constant_0[6] = {
// FILE-NEXT:   16128, 16256, 16384, 16512, 49024, 16000
// FILE-NEXT: };
// FILE: static void fusion_0(const uint16_t *restrict in0, const uint16_t *restrict in1, uint16_t *restrict out0
// FILE: (void *)constant_0
func.func @main(%x: tensor<3x2xbf16>) -> tensor<3x2xbf16> {
  %c = stablehlo.constant dense<[[0.5, 1.0], [2.0, 4.0], [-1.0, 0.25]]> : tensor<3x2xbf16>
  %0 = stablehlo.multiply %x, %c : tensor<3x2xbf16>
  return %0 : tensor<3x2xbf16>
}
