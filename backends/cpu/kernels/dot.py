"""Fusions of kind `dot`: one `hlo.dot`, views of its operands, an elementwise epilogue on its result.

The product is read as an affine contraction (contraction.py): dimension by dimension, the digits of both operands and
of the result are brought to common axes, so transposed weights, split heads and merged batches cost no copy.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace

from stablehlo_py.backends.common.contraction import Source, dot_axes
from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels import loop
from stablehlo_py.backends.cpu.kernels.base import Kernel
from stablehlo_py.backends.cpu.kernels.pairs import pairs_pay, use_pairs
from stablehlo_py.backends.cpu.kernels.rooted import AxesOf, Rooted, emit_rooted
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.backends.cpu.weight_tiles import tiled_group
from stablehlo_py.dialect.symint import GuardError, size_hint
from stablehlo_py.dialect.types import i64s, shape
from stablehlo_py.mlir import ir


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """The kernel of a `dot` fusion: packing phases where they pay, a compute phase, and those that rooted.py adds."""
    try:
        return emit_rooted(fusion, target, "hlo.dot", _phases)
    except GuardError:
        return loop.emit(fusion, target)  # element by element


def _phases(rooted: Rooted) -> None:
    lhs, rhs = rooted.root.operands
    axes = functools.partial(dot_axes, rooted.root)
    a, b = (rooted.source(operand, rounds=True) for operand in (lhs, rhs))
    tiles = _tiles(rooted.root, b)
    if tiles is not None:
        fits = axes(a.dimensions, tiles.dimensions, None) is not None and rooted.has_unit(a, tiles, axes)
        b = tiles if fits else rooted.materialized(rhs)
    fits = axes(a.dimensions, b.dimensions, None) is not None
    if (a.operand.rounded or b.operand.rounded) and not (fits and rooted.has_unit(a, b, axes)):
        # Only what packs operands for units rounds them.
        a, b = (rooted.source(value) if read.operand.rounded else read for value, read in ((lhs, a), (rhs, b)))
        fits = axes(a.dimensions, b.dimensions, None) is not None
    if not fits:
        a, b = rooted.materialized(lhs), rooted.materialized(rhs)
    if not rooted.has_unit(a, b, axes):
        a, b = _pairs(rooted, a, b, axes)
    rooted.emit(a, b, axes)


def _tiles(op: ir.OpView, b: Source) -> Source | None:
    """The right operand, where it lies as tiles of a matrix unit (weight_tiles.py): as the matrix that it is."""
    contract = i64s(op, "rhs_contract")
    if len(b.dimensions) != 2 or len(contract) != 1:
        return None
    (along,) = contract
    group = tiled_group(b.dimensions[along], b.dimensions[1 - along])
    if group is None or group * b.operand.element.storage.bits != 32:
        return None
    sizes = shape(op.operands[1])
    digits = ((sizes[along], sizes[1 - along]),), ((sizes[1 - along], 1),)
    return Source(replace(b.operand, tiled=True), digits[::-1] if along else digits)


def _pairs(rooted: Rooted, a: Source, b: Source, axes: AxesOf) -> tuple[Source, Source]:
    """The operands, as pairs of 16-bit integers where that pays."""
    op = rooted.root
    lhs, rhs = (shape(operand) for operand in op.operands)
    contract, rhs_contract, batch = i64s(op, "lhs_contract"), i64s(op, "rhs_contract"), i64s(op, "lhs_batch")
    depth, outer = (math.prod(lhs[d] for d in dimensions) for dimensions in (contract, batch))
    rows, columns = math.prod(lhs) // (depth * outer), math.prod(rhs) // (depth * outer)
    if not contract or not pairs_pay(op.operands, rooted.arithmetic, rows, columns, depth):
        return a, b
    longest = max(range(len(contract)), key=lambda i: size_hint(lhs[contract[i]]))
    dimensions = contract[longest], rhs_contract[longest]
    if any(len(source.dimensions[d]) > 1 for source, d in zip((a, b), dimensions, strict=True)):
        return a, b
    return use_pairs(rooted, a, b, dimensions, rooted.lanes(a, b, axes))
