"""The systems of equations of a triangular solve."""

from __future__ import annotations

import math
from dataclasses import dataclass

from stablehlo_py.codegen.types import Element, element
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import flag, shape, text
from stablehlo_py.mlir import ir


@dataclass(frozen=True)
class Systems:
    """The shape of the problem: op(A) of n x n and `sides` right-hand sides per system.

    Solving x op(a) = b is solving op(a)^T x^T = b^T: with `transposed`, the coefficient of unknown k in equation i is
    a[k, i].
    """

    of: Element
    n: IntLike
    sides: IntLike
    batch: IntLike
    left: bool
    transposed: bool
    conjugated: bool
    forward: bool
    unit: bool

    @classmethod
    def read(cls, op: ir.Operation) -> Systems:
        """Those of an op."""
        left, transpose = flag(op, "left_side"), text(op, "transpose_a")
        sizes, of = shape(op.operands[1]), element(op.operands[0])
        n, sides = sizes[-2:] if left else sizes[:-3:-1]
        transposed = (transpose != "NO_TRANSPOSE") == left
        return cls(
            of=of,
            n=n,
            sides=sides,
            batch=math.prod(sizes[:-2]),
            left=left,
            transposed=transposed,
            conjugated=transpose == "ADJOINT" and of.is_complex,
            forward=flag(op, "lower") != transposed,
            unit=flag(op, "unit_diagonal"),
        )
