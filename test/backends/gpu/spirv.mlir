// SPIR-V as text.
// RUN: shlo-opt --target=opencl --compile-to=spirv %s | filecheck %s
// RUN: not shlo-opt --target=opencl --gpu=sm_90 --compile-to=spirv %s 2>&1 | filecheck %s --check-prefix=OTHER

// CHECK: OpCapability Kernel
// CHECK: OpEntryPoint Kernel %[[KERNEL:[0-9]+]] "fusion_0"
// CHECK: OpExecutionMode %[[KERNEL]] LocalSize 256 1 1
// CHECK: OpFAdd
// CHECK: OpReturn
// OTHER: error[option]: code of the backend 'opencl' is for all devices, gpu is 'sm_90'
func.func @main(%x: tensor<1000xf32>, %y: tensor<1000xf32>) -> tensor<1000xf32> {
  %0 = stablehlo.add %x, %y : tensor<1000xf32>
  return %0 : tensor<1000xf32>
}
