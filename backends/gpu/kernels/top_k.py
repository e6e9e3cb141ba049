"""The k largest elements of each row, in descending total order, ties by lower index.

Where k is at most half a tile, blocks sort tiles and keep the first k of each (merge.py), and again what is left, until
a row is one tile: the operand is read once, and little is written. For more, rows are sorted (sort.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from stablehlo_py.backends.common.comparators import IEEE, ordered
from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.gpu.kernels import merge, sort
from stablehlo_py.backends.gpu.kernels.base import GpuKernel
from stablehlo_py.backends.gpu.kernels.records import (
    PLACE,
    Before,
    Column,
    Ordering,
    Output,
    Record,
    Records,
    scratch_bytes,
)
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.arith import compare
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.types import shape, symint


def emit(fusion: Fusion, target: GpuTarget) -> GpuKernel:
    """The kernels of one `top_k`."""
    op = fusion.op("hlo.top_k")
    *outer, size = (int(each) for each in shape(op.operands[0]))
    k, of, rows = int(symint(op, "k")), element(op.operands[0]), math.prod(outer)
    if 0 in (rows, size, k):
        return GpuKernel((), {})

    def before(f: Function) -> Before:
        return lambda a, b: compare(f, "GT", of, a[0], b[0], total_order=True)

    def keys(f: Function, record: Record) -> list[Value]:
        return [ordered(f, of, record[0], descending=True)]

    ordering = Ordering(
        fusion,
        target,
        rows,
        size,
        1,
        k,
        (Column(of, f"in{fusion.number(op.operands[0])}"), Column(PLACE, None)),
        (Output(of, "out0", 0), Output(PLACE, "out1", 1)),
        before,
        keys if of.name in IEEE or of.kind in ("int", "bool") else None,
        (of.bits,),
    )
    tile = merge.tile_of(ordering)
    return _stages(ordering, tile) if size <= tile or 2 * k <= tile else sort.in_order(ordering)


@dataclass(frozen=True)
class _Left:
    """Records that are left of rows, in scratch memory from an offset on."""

    ordering: Ordering
    offset: int

    @property
    def end(self) -> int:
        """The offset behind them."""
        return self.offset + scratch_bytes(self.ordering.columns, self.ordering.rows * self.ordering.size)

    def records(self, f: Function) -> Records:
        """All of them."""
        return Records.scratch(f, self.ordering.columns, self.ordering.rows * self.ordering.size, self.offset)

    def at(self, f: Function, row: Index, place: Index) -> Index:
        """The number of a record."""
        return f.iadd(f.imul(row, self.ordering.size), place)


def _stages(ordering: Ordering, tile: int) -> GpuKernel:
    """Kernels that each sort the tiles of what the one before left."""
    k, kernels, left, scratch = ordering.keep, list[Function](), None, 0
    rest = ordering
    while rest.size > tile:
        whole, last = divmod(rest.size, tile)
        following = replace(ordering, size=whole * k + min(last, k))
        target = _Left(following, left.end if left is not None and left.offset == 0 else 0)
        scratch = max(scratch, target.end)
        kernels.append(_stage(rest, tile, f".tiles{len(kernels)}", left, target))
        rest, left = following, target
    kernels.append(_stage(rest, rest.size, "", left, None))
    return GpuKernel.of(*kernels, scratch_bytes=scratch)


def _stage(rest: Ordering, tile: int, suffix: str, source: _Left | None, target: _Left | None) -> Function:
    """Sort tiles of what is left of the rows (`source`; None: the operand), and keep the first ones of each (in
    `target`; None: they are the results)."""
    k = rest.keep

    def fetch(f: Function, row: Index, place: Index) -> Record:
        return rest.fetch(f, row, place) if source is None else source.records(f).load(source.at(f, row, place))

    def put(f: Function, row: Index, place: Index, record: Record) -> None:
        if target is None:
            rest.put(f, row, place, record)
            return
        here = f.irem(place, tile)
        at = target.at(f, row, f.iadd(f.imul(f.idiv(place, tile), k), here))
        f.if_(f.cmp("slt", f.index(here), f.const(k)), lambda: target.records(f).store(at, record))

    return merge.TileSort(rest, tile).emit(suffix, fetch, put)
