"""Emitters: one file for each language that kernels can become."""
