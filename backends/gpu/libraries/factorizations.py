"""Which factorizations of a program a library may compute: Cholesky's of matrices that are large and not many."""

from __future__ import annotations

import math

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, numbered_kernel
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.builder import I32, Function, Value
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.symint import is_known
from stablehlo_py.dialect.types import flag, num_elements, shape, static_shape, user_location
from stablehlo_py.element_types import ELEMENT_TYPES
from stablehlo_py.mlir import ir
from stablehlo_py.options import CUSOLVER
from stablehlo_py.runtime.library_calls import LibraryCholesky

LEAST_SIZE = 256  # rows of a matrix: our own kernels take smaller ones
MOST_MATRICES = 64  # which are factorized one after the other
_COLUMNS, _LEAST_WORKSPACE = 512, 4 << 20  # of a matrix that the library works in; it says how many when it is loaded


def takes(op: ir.Operation) -> bool:
    """Whether a `cholesky` is for a library, where one is asked for: the same on all sides of it."""
    sizes, dtype = shape(op.operands[0]), ELEMENT_TYPES[element(op.operands[0]).name]
    if not is_known(*sizes) or int(sizes[-1]) < LEAST_SIZE or dtype.itemsize < 4:
        return False
    return 0 < math.prod(map(int, sizes[:-2])) <= MOST_MATRICES


def library_cholesky(fusion: Fusion) -> LibraryCholesky | None:
    """What a `cholesky` fusion is to a library; None: nothing."""
    op = fusion.op("hlo.cholesky")
    if list(fusion.inputs) != [op.operands[0]] or list(fusion.outputs) != [op.results[0]] or not takes(op.operation):
        return None
    sizes, dtype = static_shape(op.operands[0]), ELEMENT_TYPES[element(op.operands[0]).name]
    size, batch = int(sizes[-1]), math.prod(map(int, sizes[:-2]))
    return LibraryCholesky(
        library=CUSOLVER,
        kernel=fusion.name,
        op=op.operation.name,
        location=user_location(op.location) or "",
        workspace_bytes=max(_LEAST_WORKSPACE, _COLUMNS * size * dtype.itemsize),
        dtype=dtype,
        size=size,
        batch=batch,
        lower=flag(op, "lower"),
    )


def finished(fusion: Fusion, target: GpuTarget, call: LibraryCholesky) -> GpuKernel:
    """What comes behind it: zeros in the other triangle; NaN in the factors of matrices that have none."""
    part, n = element(fusion.outputs[0]).compute, call.size
    width = 2 if call.dtype.kind == "c" else 1  # floats of an element

    def one(f: Function, number: Value) -> None:
        place = f.idiv(number, width)
        matrix, row, column = f.idiv(place, n * n), f.irem(f.idiv(place, n), n), f.irem(place, n)
        first, second = (column, row) if call.lower else (row, column)
        inside = f.cmp("sle", f.index(first), f.index(second))
        has_one = f.cmp("eq", f.load(I32, f.scratch, matrix), f.const(0, I32))
        value = f.select(has_one, f.load(part, f.out0, number), f.const(math.nan, part))
        f.store(f.select(inside, value, f.const(0.0, part)), f.out0, number)

    count = width * int(num_elements(fusion.outputs[0]))
    return GpuKernel.of(numbered_kernel(fusion, target, f"{fusion.name}_finished", count, one))
