"""Reductions inside kernels: several at once over the same loops, with accumulators enough to hide latencies.

Order of the sum: lane l of accumulator u takes elements l, l + copies * lanes, ... of its share; then accumulators
pairwise, then lanes in a tree, then the initial value. It depends on shapes and the target only, never on threads.

A maximum of floats may have NaN and the signs of zeros apart until the end (extremes.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from stablehlo_py.backends.common.loops import pack, tree, unpack
from stablehlo_py.backends.common.reduction import Reduction, lanes_combined
from stablehlo_py.backends.cpu.kernels import extremes
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import I1, Index, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Affine, Delinearized, Variable, affine, lane_index
from stablehlo_py.codegen.math.basics import any_lane
from stablehlo_py.codegen.types import Lanes, parts, select, splat
from stablehlo_py.dialect.ops import combiner
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.mlir import ir


@dataclass(frozen=True)
class Sweep:
    """Loops over the reduced elements, the innermost in vectors.

    Attributes:
        e: where values come from. items: the reductions. sizes: loops, outermost first; lanes run along the last.
            lanes: lanes of a vector along the last loop (at most its size); 1 where the lanes of `e` run along
            something else. copies: independent accumulators. place: the operands' position from one index per loop.
            after: called with the position of every vector that has been evaluated (staging).
        folds: lanes are combined, too; totals are scalars.
    """

    e: Elemental
    items: Sequence[Reduction]
    sizes: Sequence[IntLike]
    lanes: int
    copies: int
    place: Callable[[list[Affine]], Delinearized]
    after: Callable[[Delinearized], None] = lambda place: None
    folds: bool = False

    def run(self, low: Index = 0, high: Index | None = None, *, tail: bool = True) -> list[Lanes]:
        """Accumulators, one per reduction, combined over copies but not over lanes.

        `low`, `high`: the range of the outermost loop (multiples of lanes * copies if it is the only one). Without
        `tail`, the elements after the last full group of vectors are left out (`remainder` has them)."""
        total = self._nest([], self._start(), low, self.sizes[0] if high is None else high, tail)
        return self._totals(total)

    def remainder(self) -> list[Lanes]:
        """The accumulators of the elements that `run(tail=False)` leaves out of a single loop."""
        return self._totals(self._rest([], self._start()))

    def run_from(self, condition: ir.Value) -> list[Lanes]:
        """`run`, where the first element of a single loop with this condition says all: from that group of vectors on,
        to its end and that of the loop."""
        f, group = self.e.f, self.lanes * self.copies
        whole = self.sizes[0] // group * group

        def missed(index: Value, hit: Value) -> Value:
            return f.binary("and", f.cmp("slt", index, f.index(whole)), f.cmp("eq", hit, f.const(0, I1)))

        def look(index: Value, hit: Value) -> list[Value]:
            starts = [f.iadd(index, copy * self.lanes) for copy in range(self.copies)]
            places = [self.place([self._lane_index(start, copy)]) for copy, start in enumerate(starts)]
            hits = [parts(splat(f, self.e.value(condition, place), self.lanes))[0] for place in places]
            hit = any_lane(f, tree(hits, partial(f.binary, "or")))
            return [f.select(hit, index, f.index(f.iadd(index, group))), hit]

        first, _ = f.while_([f.const(0), f.const(0, I1)], missed, look)
        return self.run(first, f.index(f.iadd(first, group)))

    # --- loops -------------------------------------------------------------------------------------------------------

    def _nest(self, indices: list[Affine], carries: list[Value], low: Index, high: Index, tail: bool) -> list[Value]:
        f, depth = self.e.f, len(indices)
        if depth < len(self.sizes) - 1:

            def outer(index: Value, *inner: Value) -> list[Value]:
                at = [*indices, affine(index, self.sizes[depth])]
                return self._nest(at, list(inner), 0, self.sizes[depth + 1], tail)

            return f.loop(low, high, 1, outer, carries, nonempty=True)
        group = self.lanes * self.copies
        size = self.sizes[-1]
        whole = size // group * group
        if isinstance(high, Value):
            high = f.imin(high, whole)
        elif high == size:
            high = whole

        def main(index: Index, *inner: Value) -> list[Value]:
            held = _Held(self, inner)
            for copy in range(self.copies):
                start = f.iadd(index, copy * self.lanes)
                self._step(indices, self._lane_index(start, copy), held, copy)
            return held.carries()

        dynamic = not (isinstance(low, int) and isinstance(high, int))  # a SymInt may be less than a group
        carries = f.loop(low, high, group, main, carries, nonempty=not dynamic)
        return self._rest(indices, carries) if tail else carries

    def _lane_index(self, start: Index, copy: int) -> Affine:
        if self.lanes == 1:
            return affine(start, self.sizes[-1])
        size, lanes = self.sizes[-1], self.lanes
        if not isinstance(start, Value):
            return Affine(start, lane=1)
        return Affine(0, ((Variable(start, copy * lanes, size - lanes, lanes), 1),), 1)

    def _rest(self, indices: list[Affine], carries: list[Value]) -> list[Value]:
        """Vectors after the last full group, and the elements after the last full vector."""
        f, size, lanes = self.e.f, self.sizes[-1], self.lanes
        done = size // (lanes * self.copies) * lanes * self.copies
        vectors = size // lanes * lanes
        held = _Held(self, carries)

        def single(index: Index, *inner: Value) -> list[Value]:
            one = _Held(self, inner)
            self._step(indices, self._lane_index(index, 0), one, 0)
            return one.carries()

        held.set_first(f.loop(done, vectors, lanes, single, held.first()))
        if not is_known(size):
            self._masked(indices, lane_index(f.index(vectors), size, lanes, lanes), held, -1)
        elif vectors < size:
            self._step(indices, lane_index(size - lanes, size, lanes), held, -1, lanes - (size - vectors))
        return held.carries()

    def _step(self, indices: list[Affine], index: Affine, held: _Held, copy: int, skip: IntLike = 0) -> None:
        """Combine one vector of every operand into the accumulators, without its first `skip` lanes."""
        e, f = self.e, self.e.f
        place = self.place([*indices, index])
        for number, item in enumerate(self.items):
            part = splat(f, e.value(item.operand, place), e.lanes)
            if skip and not combiner(item.kind).idempotent:
                fresh = f.const_lanes([int(lane >= skip) for lane in range(self.lanes)], I1)
                part = select(f, fresh, part, arith.identity(f, item.kind, item.of, e.lanes))
            held.combine(copy, number, part)
        self.after(place)

    def _masked(self, indices: list[Affine], index: Affine, held: _Held, copy: int) -> None:
        """Combine what is left of a row, less than a vector and maybe nothing, into the accumulators."""
        e, f, size = self.e, self.e.f, self.sizes[-1]
        if self.lanes == 1:
            return
        mask = f.tail_mask(f.isub(size, size // self.lanes * self.lanes), self.lanes)
        place = self.place([*indices, index])
        with e.predicated(mask):
            for number, item in enumerate(self.items):
                part = splat(f, e.value(item.operand, place), e.lanes)
                held.combine(copy, number, select(f, mask, part, arith.identity(f, item.kind, item.of, e.lanes)))
            self.after(place)

    # --- accumulators ------------------------------------------------------------------------------------------------

    @cached_property
    def apart(self) -> list[int]:
        """Reductions that have NaN and signs apart."""
        return [number for number, item in enumerate(self.items) if extremes.come_apart(self.e, item)]

    def _start(self) -> list[Value]:
        f, items, lanes = self.e.f, self.items, self.e.lanes
        identity = pack(arith.identity(f, item.kind, item.of, lanes) for item in items)
        return identity * self.copies + [each for one in self.apart for each in extremes.start(f, items[one], lanes)]

    def _totals(self, carries: Sequence[Value]) -> list[Lanes]:
        """The accumulators of each reduction: copies pairwise."""
        held = _Held(self, carries)
        totals = tree(held.sets, self._combined)
        for one, marks in zip(self.apart, held.marks, strict=True):
            rule = extremes.folded if self.folds else extremes.joined
            totals[one] = rule(self.e.f, self.items[one], totals[one], marks)
        return lanes_combined(self.e.f, self.items, totals) if self.folds else totals

    def _combined(self, a: list[Lanes], b: list[Lanes]) -> list[Lanes]:
        return [_combine(self, number, x, y) for number, (x, y) in enumerate(zip(a, b, strict=True))]


def _combine(sweep: Sweep, number: int, total: Lanes, part: Lanes) -> Lanes:
    item = sweep.items[number]
    rule = extremes.further if number in sweep.apart else arith.combine
    return rule(sweep.e.f, item.kind, item.of, total, part)


class _Held:
    """The accumulators of a sweep, as loops carry them.

    Attributes:
        sets: those of each copy, one a reduction. marks: what all copies of a reduction have apart.
    """

    def __init__(self, sweep: Sweep, carries: Sequence[Value]) -> None:
        self.sweep, self.f, self.items, self.apart = sweep, sweep.e.f, sweep.items, sweep.apart
        width = sum(2 if item.of.is_complex else 1 for item in self.items)
        copies, count = (len(carries) - extremes.MARKS * len(self.apart)) // width, len(self.items)
        flat = unpack(carries[: copies * width], [item.of for item in self.items] * copies)
        self.sets = [flat[start : start + count] for start in range(0, len(flat), count)]
        self._set_marks(carries[copies * width :])
        self.seen: dict[int, list[Value]] = {number: [] for number in self.apart}

    def combine(self, copy: int, number: int, part: Lanes) -> None:
        """One vector of a reduction's operand into a copy."""
        self.sets[copy][number] = _combine(self.sweep, number, self.sets[copy][number], part)
        if number in self.seen:
            self.seen[number] += parts(part)

    def carries(self) -> list[Value]:
        """The inverse of the constructor, with what was seen."""
        return pack(value for one in self.sets for value in one) + self._all_marks()

    def first(self) -> list[Value]:
        """Those of the first copy alone."""
        return pack(self.sets[0]) + self._all_marks()

    def set_first(self, carries: Sequence[Value]) -> None:
        """The first copy after some more vectors."""
        marks = extremes.MARKS * len(self.apart)
        self.sets[0] = unpack(carries[: len(carries) - marks], [item.of for item in self.items])
        self._set_marks(carries[len(carries) - marks :])

    def _set_marks(self, values: Sequence[Value]) -> None:
        self.marks = [values[at : at + extremes.MARKS] for at in range(0, len(values), extremes.MARKS)]

    def _all_marks(self) -> list[Value]:
        return [
            each
            for number, marks in zip(self.apart, self.marks, strict=True)
            for each in extremes.marked(self.f, self.items[number], marks, self.seen[number])
        ]
