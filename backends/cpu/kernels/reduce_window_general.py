"""`stablehlo.reduce_window` with several operands or a combiner of the user's own: the same template as
`reduce_window`."""

from __future__ import annotations

from stablehlo_py.backends.cpu.kernels.reduce_window import emit

__all__ = ["emit"]
