"""Triton as a second generator of kernels for matrix products: the source of a kernel, and its machine code."""
