"""Triton as a second generator of kernels for matrix products and attention: the source of a kernel, and its machine
code."""
