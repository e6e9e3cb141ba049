"""Which factorizations and triangular solves are so large that their kernels work by blocks."""

from __future__ import annotations

import math
import re

from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.attributes import OPERAND_ORDERS
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.dialect.types import flag, shape, text
from stablehlo_py.mlir import ir

LEAST_ROWS = 256
FEWEST_SIDES = 32  # with fewer a solve is bound by reading the matrix once
# Of a matrix whose LU factorization is that of kernels/lu.py, and columns. Exchanges take rows**3 as the elimination
# does: above, calls of LAPACK are as fast.
LU_ROWS = 24
LU_MATRICES = 64  # that fill the widest vectors
_LU = re.compile("lapack_[sdcz]getrf_ffi")


def is_short(rows: IntLike, columns: IntLike) -> bool:
    """Whether LU factorizations of such matrices need no LAPACK, where there are enough of them."""
    return is_known(rows, columns) and 0 < rows <= LU_ROWS and 0 < columns <= LU_ROWS


def takes_rows(op: ir.Operation) -> bool:
    """Whether a custom call is the LU factorization of many small matrices, whose kernel reads them as they lie."""
    if not _LU.fullmatch(text(op, "call_target_name")) or OPERAND_ORDERS not in op.attributes:
        return False
    *batch, columns, rows = shape(op.operands[0])
    return is_short(rows, columns) and is_known(*batch) and math.prod(batch) >= LU_MATRICES


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
