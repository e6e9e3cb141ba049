"""Pieces that the templates of single ops share: operands and copies."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels.base import Part, phase, phase_function
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I8, Function, Index, ScalarType, Value
from stablehlo_py.codegen.types import Element, Lanes, element
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.dialect.types import tensor_bytes
from stablehlo_py.mlir import ir

COPY_BLOCK = 1 << 16
CACHE_LINE = 64  # bytes


def operand(f: Function, fusion: Fusion, value: ir.Value) -> Value:
    """Pointer of a fusion input."""
    return f.parameters[f"in{fusion.number(value)}"]


def scalar_operand(f: Function, fusion: Fusion, value: ir.Value, lanes: int = 1) -> Lanes:
    """A scalar: from memory, or a constant that was cloned into the fusion."""
    if value in fusion.inputs:
        return types.splat(f, types.load(f, element(value), operand(f, fusion, value), 0), lanes)
    owner = value.owner
    if owner.name in ("hlo.reshape", "hlo.broadcast"):
        return scalar_operand(f, fusion, owner.operands[0], lanes)
    return types.constant(f, element(value), constant_value(owner).reshape(-1)[0].item(), lanes)


def full_lanes(target: CpuTarget, elements: Sequence[Element]) -> int:
    """Lanes of full vectors of the widest of these types; complex numbers go one by one."""
    return 1 if any(of.is_complex for of in elements) else target.lanes(max(of.storage.bits for of in elements))


def last_lanes(f: Function, start: Index, size: IntLike, lanes: int) -> tuple[Index, Value | None]:
    """Where a vector of `lanes` out of `size` begins that is to begin at `start`, and its mask: the last one overlaps
    the one before, and is masked where that may not be, in a row that is shorter or may be. Not for work in place:
    what overlaps is computed twice."""
    if size % lanes == 0:
        return start, None
    if is_known(size) and size >= lanes:
        return f.imin(start, size - lanes), None
    return start, f.tail_mask(f.isub(size, start), lanes)


def copy_phase(fusion: Fusion, source: ir.Value, output: int, target: CpuTarget) -> Part | None:
    """A parallel phase that copies an input (or splats a constant) into an output; None where they share memory."""
    f = phase_function(fusion, target, f".copy{output}")
    size = tensor_bytes(fusion.outputs[output])
    if size == 0:
        return None
    blocks = -(-size // COPY_BLOCK)
    to = f.parameters[f"out{output}"]
    begin = f.imul(f.begin, COPY_BLOCK)
    length = f.isub(f.imin(f.imul(f.end, COPY_BLOCK), size), begin)
    if source in fusion.inputs:
        if (fusion.inputs.index(source), output) in fusion.inplace:
            return None
        source_pointer = operand(f, fusion, source)
        f.copy_memory(f.gep(to, begin, I8), f.gep(source_pointer, begin, I8), length)
    else:
        of = element(source)
        filler = scalar_operand(f, fusion, source)
        step = of.bytes
        f.loop(f.idiv(begin, step), f.idiv(f.iadd(begin, length), step), 1, lambda i: types.store(f, of, filler, to, i))
    return phase(f, blocks, COPY_BLOCK / 10)


def fetch_lines(f: Function, base: Value, start: Index, of: ScalarType, count: int) -> None:
    """Fetch the cache lines of so many scalars, which will be written."""
    for first in range(0, count, CACHE_LINE * 8 // of.bits):
        f.prefetch(base, f.iadd(start, first), of, write=True)
