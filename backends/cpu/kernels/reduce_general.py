"""Reductions of several operands at once, or with a combiner of the user's own (argmax): `stablehlo.reduce`.

Where the last dimension is kept, lanes run along it. Where it is reduced, every lane reduces a part of it, and the
parts are combined by the body at the end: every n-th element where the body commutes, else a run of neighbours, whose
loads are slower, so that elements are combined in their order (dialect.commuting.py).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import fold, offset, unravel
from stablehlo_py.backends.cpu.kernels.base import Kernel, op_phase, phase_function
from stablehlo_py.backends.cpu.kernels.common import full_lanes, operand, scalar_operand
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I64, Function, Index, Value, vector
from stablehlo_py.codegen.region import combiner
from stablehlo_py.codegen.types import Lanes, element
from stablehlo_py.dialect.commuting import Commutes, commutes
from stablehlo_py.dialect.index_map import row_major_strides
from stablehlo_py.dialect.symint import IntLike, always_at_most, size_hint
from stablehlo_py.dialect.types import i64s, shape
from stablehlo_py.mlir import ir


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """One phase over the kept positions."""
    op = fusion.op("stablehlo.reduce")
    f = phase_function(fusion, target)
    iterations, cost = _Reduction(f, fusion, op, target).emit()
    return Kernel.of(op_phase(f, iterations, cost))


class _Reduction:
    def __init__(self, f: Function, fusion: Fusion, op: ir.OpView, target: CpuTarget) -> None:
        self.f, self.fusion, self.op = f, fusion, op
        self.count = len(op.operands) // 2
        self.sizes = shape(op.operands[0])
        self.reduced = sorted(i64s(op, "dimensions"))
        self.kept = [d for d in range(len(self.sizes)) if d not in self.reduced]
        self.strides = row_major_strides(self.sizes)
        self.elements = [element(value) for value in op.operands[: self.count]]
        self.combine = combiner(f, op)
        self.lanes = full_lanes(target, self.elements)

    def emit(self) -> tuple[IntLike, float]:
        """Returns (iterations, nanoseconds of one)."""
        inner = size_hint(math.prod(self.sizes[d] for d in self.reduced))
        last = len(self.sizes) - 1
        if self.kept and self.kept[-1] == last and always_at_most(4, self.sizes[last]) and self.lanes > 1:
            width = self.sizes[last]
            outer = [self.sizes[d] for d in self.kept[:-1]]
            blocks = -(-width // self.lanes)
            self._over_kept_lanes(outer, blocks, width)
            return math.prod(outer) * blocks, inner * 1.0
        rows = math.prod(self.sizes[d] for d in self.kept)
        self.f.loop(self.f.begin, self.f.end, 1, self._row)
        return rows, inner * (0.3 if self.sizes and last in self.reduced else 1.5)

    def _inits(self, lanes: int) -> list[Lanes]:
        return [scalar_operand(self.f, self.fusion, value, lanes) for value in self.op.operands[self.count :]]

    def _load(self, position: Index, lanes: int, mask: Value | None = None) -> list[Lanes]:
        return [
            types.load(self.f, of, operand(self.f, self.fusion, value), position, lanes, mask)
            for of, value in zip(self.elements, self.op.operands, strict=False)
        ]

    def _over_kept_lanes(self, outer: list[IntLike], blocks: IntLike, width: IntLike) -> None:
        f, lanes = self.f, self.lanes

        def block(i: Value) -> None:
            row, column = f.idiv(i, blocks), f.imul(f.irem(i, blocks), lanes)
            mask = f.tail_mask(f.isub(width, column), lanes) if width % lanes else None
            place = unravel(f, row, outer)
            base = f.iadd(offset(f, place, [self.strides[d] for d in self.kept[:-1]]), column)
            results = self._reduce(base, lanes, mask)
            self._store(f.iadd(f.imul(row, width), column), results, mask)

        f.loop(f.begin, f.end, 1, block)

    def _over(
        self,
        base: Index,
        dimensions: list[int],
        carries: list[Lanes],
        body: Callable[[Index, list[Lanes]], list[Lanes]],
    ) -> list[Lanes]:
        """Nested loops over reduced dimensions around `body(offset, accumulators)`."""
        if not dimensions:
            return body(base, carries)
        f, (first, *rest) = self.f, dimensions

        def inside(i: Value, values: list[Lanes]) -> list[Lanes]:
            return self._over(f.iadd(base, f.imul(i, self.strides[first])), rest, values, body)

        return fold(f, 0, self.sizes[first], 1, carries, inside)

    def _reduce(self, base: Index, lanes: int, mask: Value | None = None) -> list[Lanes]:
        """The results at `base`, element by element."""
        return self._over(
            base,
            self.reduced,
            self._inits(lanes),
            lambda at, values: self.combine([*values, *self._load(at, lanes, mask)]),
        )

    def _row(self, i: Value) -> None:
        """One result: its reduced elements, lanes along the last dimension where that is reduced."""
        f, last = self.f, len(self.sizes) - 1
        place = unravel(f, i, [self.sizes[d] for d in self.kept])
        base = offset(f, place, [self.strides[d] for d in self.kept])
        if self.lanes == 1 or last not in self.reduced or self.sizes[last] < 2 * self.lanes:
            self._store(i, self._reduce(base, 1))
            return
        known = commutes(self.op.regions[0].blocks[0])
        if known is Commutes.UNKNOWN:
            self._store(i, self._over(base, self.reduced[:-1], self._inits(1), self._in_order))
            return
        self._store(i, results := self._interleaved(base))
        floats = [value for of, value in zip(self.elements, results, strict=True) if of.is_float]
        if known is Commutes.WITHOUT_NAN and floats:
            nan = functools.reduce(
                lambda a, b: f.binary("or", a, b),
                [f.cmp("uno", value, value) for value in floats if isinstance(value, Value)],
            )
            f.if_(nan, lambda: self._store(i, self._over(base, self.reduced[:-1], self._inits(1), self._in_order)))

    def _store(self, at: Index, results: list[Lanes], mask: Value | None = None) -> None:
        for n, (of, value) in enumerate(zip(self.elements, results, strict=True)):
            types.store(self.f, of, value, self.f.parameters[f"out{n}"], at, mask)

    def _interleaved(self, base: Index) -> list[Lanes]:
        """Lane n reduces every element whose index along the last dimension is n modulo the lanes."""
        f, lanes, last = self.f, self.lanes, len(self.sizes) - 1
        results = self._inits(1)
        whole = self.sizes[last] // lanes * lanes
        outer = self.reduced[:-1]
        parts = self._along(base, outer, 0, whole, lanes, self._inits(lanes))
        for lane in range(lanes):
            one = [types.each(lambda part, lane=lane: f.extract(part, lane), value) for value in parts]
            results = self.combine([*results, *one])
        return self._along(base, outer, whole, self.sizes[last], 1, results) if whole < self.sizes[last] else results

    def _in_order(self, base: Index, carries: list[Lanes]) -> list[Lanes]:
        """Lane n reduces the n-th part of the elements along the last dimension."""
        f, lanes = self.f, self.lanes
        part = self.sizes[-1] // lanes
        starts = f.binary("mul", f.lane_ids(lanes), f.const(part, vector(lanes, I64)))
        inits = self._inits(lanes)

        def step(i: Value, values: list[Lanes]) -> list[Lanes]:
            places = f.binary("add", starts, f.splat(f.index(f.iadd(base, i)), lanes))
            elements = [
                types.gather(f, of, operand(f, self.fusion, value), places)
                for of, value in zip(self.elements, self.op.operands, strict=False)
            ]
            return self.combine([*values, *elements])

        parts = fold(f, 0, part, 1, inits, step)
        for lane in range(lanes):
            one = [types.each(lambda value, lane=lane: f.extract(value, lane), value) for value in parts]
            carries = self.combine([*carries, *one])
        return self._along(base, [], part * lanes, self.sizes[-1], 1, carries)

    def _along(
        self, base: Index, outer: list[int], low: IntLike, high: IntLike, lanes: int, carries: list[Lanes]
    ) -> list[Lanes]:
        """Elements low <= i < high of the last dimension, in vectors of so many lanes."""
        f = self.f

        def line(at: Index, values: list[Lanes]) -> list[Lanes]:
            return fold(
                f, low, high, lanes, values, lambda i, held: self.combine([*held, *self._load(f.iadd(at, i), lanes)])
            )

        return self._over(base, outer, carries, line)
