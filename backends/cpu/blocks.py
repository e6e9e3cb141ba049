"""Which factorizations and triangular solves are so large that their kernels work by blocks."""

from __future__ import annotations

from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.symint import is_known
from stablehlo_py.dialect.types import flag, shape
from stablehlo_py.mlir import ir

LEAST_ROWS = 256
FEWEST_SIDES = 32  # with fewer a solve is bound by reading the matrix once


def is_blocked(op: ir.Operation) -> bool:
    """Whether the kernel of a Cholesky factorization or a triangular solve works by blocks: of known size, and of
    numbers that are computed with as they are stored."""
    sizes, of = shape(op.operands[-1]), element(op.operands[0])
    if not is_known(*sizes) or 0 in sizes or of.is_complex or of.storage != of.compute:
        return False
    if op.name == "hlo.cholesky":
        return sizes[-1] >= LEAST_ROWS
    n, sides = sizes[-2:] if flag(op, "left_side") else sizes[:-3:-1]
    return n >= LEAST_ROWS and sides >= FEWEST_SIDES
