"""GPUs: one policy and one set of kernels for all, by way of SPIR-V, NVPTX and AMDGPU."""
