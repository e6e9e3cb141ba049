"""Reductions of several operands at once, or with a combiner of the user's own (argmax): `stablehlo.reduce`.

Where the last dimension is kept, lanes run along it. Where it is reduced, every lane reduces a part of it, and the
parts are combined by the body at the end: every n-th element where the body commutes, else a run of neighbours, whose
loads are slower, so that elements are combined in their order (dialect.commuting.py).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TypeAlias

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import fold, unravel
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase, phase_function
from stablehlo_py.backends.cpu.kernels.common import full_lanes, scalar_operand
from stablehlo_py.backends.cpu.kernels.iteration import empty
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import ZERO, Affine, add, affine, lane_index
from stablehlo_py.codegen.region import combiner
from stablehlo_py.codegen.types import Lanes, element
from stablehlo_py.dialect.commuting import Commutes, commutes
from stablehlo_py.dialect.symint import IntLike, always_at_most, is_known, size_hint
from stablehlo_py.dialect.types import i64s, num_elements, shape
from stablehlo_py.mlir import ir

Place: TypeAlias = tuple[Affine, ...]  # an index a dimension
TOGETHER = 4  # vectors whose elements are combined in turn


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """One phase over the kept positions."""
    op = fusion.op("stablehlo.reduce")
    if num_elements(op.results[0]) == 0:
        return empty(fusion, target)
    f = phase_function(fusion, target)
    iterations, cost = _Reduction(f, fusion, op, target).emit()
    return Kernel.of(phase(f, iterations, cost))


class _Reduction:
    def __init__(self, f: Function, fusion: Fusion, op: ir.OpView, target: CpuTarget) -> None:
        self.f, self.fusion, self.op = f, fusion, op
        self.count = len(op.operands) // 2
        self.sizes = shape(op.operands[0])
        self.reduced = sorted(i64s(op, "dimensions"))
        self.kept = [d for d in range(len(self.sizes)) if d not in self.reduced]
        self.elements = [element(value) for value in op.operands[: self.count]]
        self.combine = combiner(f, op)
        self.target = target
        self.elementals: dict[int, Elemental] = {}
        self.lanes = full_lanes(target, self.elements)

    def emit(self) -> tuple[IntLike, float]:
        """Returns (iterations, nanoseconds of one)."""
        inner = size_hint(math.prod(self.sizes[d] for d in self.reduced))
        last = len(self.sizes) - 1
        if self.kept and self.kept[-1] == last and always_at_most(4, self.sizes[last]) and self.lanes > 1:
            width = self.sizes[last]
            outer = [self.sizes[d] for d in self.kept[:-1]]
            blocks = -(-width // self.lanes)
            together = min(TOGETHER, int(blocks)) if is_known(width) else 1
            groups = -(-blocks // together)
            self._over_kept_lanes(outer, groups, together)
            return math.prod(outer) * groups, inner * (1.0 if together == 1 else 0.6 * together)
        rows = math.prod(self.sizes[d] for d in self.kept)
        self.f.loop(self.f.begin, self.f.end, 1, self._row)
        return rows, inner * (0.3 if self.sizes and last in self.reduced else 1.5)

    def _inits(self, lanes: int) -> list[Lanes]:
        return [scalar_operand(self.f, self.fusion, value, lanes) for value in self.op.operands[self.count :]]

    def _at(self, place: Place, lanes: int, mask: Value | None = None) -> list[Lanes]:
        """An element of each operand, read or computed."""
        if lanes not in self.elementals:
            self.elementals[lanes] = Elemental(self.f, self.fusion, self.target, lanes)
        return [self.elementals[lanes].at(value, place, mask) for value in self.op.operands[: self.count]]

    def _set(self, place: Place, dimension: int, index: Affine) -> Place:
        return (*place[:dimension], index, *place[dimension + 1 :])

    def _kept_place(self, i: Index, kept: list[int]) -> Place:
        """The i-th place of these dimensions; 0 in the others."""
        place = [ZERO] * len(self.sizes)
        for dimension, index in zip(kept, unravel(self.f, i, [self.sizes[d] for d in kept]), strict=True):
            place[dimension] = affine(index, self.sizes[dimension])
        return tuple(place)

    def _over_kept_lanes(self, outer: list[IntLike], groups: IntLike, together: int) -> None:
        """Several vectors at a time: a vector's next element waits for the choice of the one before."""
        f, lanes, last = self.f, self.lanes, len(self.sizes) - 1
        width = self.sizes[last]

        def group(i: Value) -> None:
            row, first = f.idiv(i, groups), f.imul(f.irem(i, groups), together * lanes)
            place = self._kept_place(row, self.kept[:-1])
            columns = [f.iadd(first, number * lanes) for number in range(together)]
            mask = None
            if together > 1 and width % (together * lanes):
                columns = [f.imin(column, width - lanes) for column in columns]  # computed twice
            elif width % lanes:
                mask = f.tail_mask(f.isub(width, first), lanes)
            if mask is None:
                vectors = [lane_index(column, width, lanes) for column in columns]
            else:
                vectors = [add(f, affine(first, width), Affine(lane=1))]

            def step(at: Place, carries: list[Lanes]) -> list[Lanes]:
                after = []
                for number, vector in enumerate(vectors):
                    old = carries[number * self.count : (number + 1) * self.count]
                    after += self.combine([*old, *self._at(self._set(at, last, vector), lanes, mask)])
                return after

            results = self._over(place, self.reduced, self._inits(lanes) * together, step)
            for number, column in enumerate(columns):
                at = f.iadd(f.imul(row, width), column)
                self._store(at, results[number * self.count : (number + 1) * self.count], mask)

        f.loop(f.begin, f.end, 1, group)

    def _over(
        self,
        place: Place,
        dimensions: list[int],
        carries: list[Lanes],
        body: Callable[[Place, list[Lanes]], list[Lanes]],
    ) -> list[Lanes]:
        """Nested loops over reduced dimensions around `body(place, accumulators)`."""
        if not dimensions:
            return body(place, carries)
        first, *rest = dimensions
        if self.sizes[first] == 0:
            return carries  # there is no place at which operands could be computed

        def inside(i: Value, values: list[Lanes]) -> list[Lanes]:
            return self._over(self._set(place, first, affine(i, self.sizes[first])), rest, values, body)

        return fold(self.f, 0, self.sizes[first], 1, carries, inside)

    def _row(self, i: Value) -> None:
        """One result: its reduced elements, lanes along the last dimension where that is reduced."""
        f, last = self.f, len(self.sizes) - 1
        place = self._kept_place(i, self.kept)
        if self.lanes == 1 or last not in self.reduced or self.sizes[last] < 2 * self.lanes:
            results = self._over(
                place, self.reduced, self._inits(1), lambda at, values: self.combine([*values, *self._at(at, 1)])
            )
            self._store(i, results)
            return
        known = commutes(self.op.regions[0].blocks[0])
        if known is Commutes.UNKNOWN:
            self._store(i, self._over(place, self.reduced[:-1], self._inits(1), self._in_order))
            return
        self._store(i, results := self._interleaved(place))
        floats = [value for of, value in zip(self.elements, results, strict=True) if of.is_float]
        if known is Commutes.WITHOUT_NAN and floats:
            nan = functools.reduce(
                lambda a, b: f.binary("or", a, b),
                [f.cmp("uno", value, value) for value in floats if isinstance(value, Value)],
            )
            f.if_(nan, lambda: self._store(i, self._over(place, self.reduced[:-1], self._inits(1), self._in_order)))

    def _store(self, at: Index, results: list[Lanes], mask: Value | None = None) -> None:
        for n, (of, value) in enumerate(zip(self.elements, results, strict=True)):
            types.store(self.f, of, value, self.f.parameters[f"out{n}"], at, mask)

    def _interleaved(self, place: Place) -> list[Lanes]:
        """Lane n reduces every element whose index along the last dimension is n modulo the lanes."""
        f, lanes, last = self.f, self.lanes, len(self.sizes) - 1
        results = self._inits(1)
        whole = self.sizes[last] // lanes * lanes
        outer = self.reduced[:-1]
        parts = self._along(place, outer, 0, whole, lanes, self._inits(lanes))
        for lane in range(lanes):
            one = [types.each(lambda part, lane=lane: f.extract(part, lane), value) for value in parts]
            results = self.combine([*results, *one])
        return self._along(place, outer, whole, self.sizes[last], 1, results) if whole < self.sizes[last] else results

    def _in_order(self, place: Place, carries: list[Lanes]) -> list[Lanes]:
        """Lane n reduces the n-th part of the elements along the last dimension."""
        f, lanes, last = self.f, self.lanes, len(self.sizes) - 1
        part = self.sizes[-1] // lanes
        starts = Affine(lane=part)

        def step(i: Value, values: list[Lanes]) -> list[Lanes]:
            at = self._set(place, last, add(f, affine(i, part), starts))
            return self.combine([*values, *self._at(at, lanes)])

        parts = fold(f, 0, part, 1, self._inits(lanes), step)
        for lane in range(lanes):
            one = [types.each(lambda value, lane=lane: f.extract(value, lane), value) for value in parts]
            carries = self.combine([*carries, *one])
        return self._along(place, [], part * lanes, self.sizes[-1], 1, carries)

    def _along(
        self, place: Place, outer: list[int], low: IntLike, high: IntLike, lanes: int, carries: list[Lanes]
    ) -> list[Lanes]:
        """Elements low <= i < high of the last dimension, in vectors of so many lanes."""
        last = len(self.sizes) - 1

        def line(at: Place, values: list[Lanes]) -> list[Lanes]:
            return fold(
                self.f,
                low,
                high,
                lanes,
                values,
                lambda i, held: self.combine(
                    [*held, *self._at(self._set(at, last, lane_index(i, self.sizes[last], lanes)), lanes)]
                ),
            )

        return self._over(place, outer, carries, line)
