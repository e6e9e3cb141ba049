"""Tiles of keys that a mask leaves nothing of, in sums over scores (scores.py): they are left out.

What such a tile adds is zeros times finite columns, which changes no sum, where its weights are zero
(backends/common/scores_masked.py). That depends on how large products get, so a phase in front finds the largest
magnitude of every operand; and on rows, so that each tile of queries looks at its own, once it has their reductions. If
weights of one of them are not zero, the tile begins again, and goes through all keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from stablehlo_py.backends.common.band import Band, Sides
from stablehlo_py.backends.common.scores import RowReduction, given
from stablehlo_py.backends.common.scores_masked import FINITE, MaskedPlaces, largest_product
from stablehlo_py.backends.cpu.kernels.attention_operands import Rows
from stablehlo_py.backends.cpu.kernels.base import phase_function
from stablehlo_py.backends.cpu.kernels.scores_plan import Plan, Queries
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import I1, Function, Index, Value, vector
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Affine, affine_of
from stablehlo_py.codegen.types import element

Reduced = Callable[[Index, Index], list[Value]]  # what reductions have of the keys between two


@dataclass(frozen=True)
class _Limit:
    """Operands, and what their largest magnitudes, multiplied, may be."""

    operands: tuple[Rows, ...]
    most: float


class Skipping:
    """How a kernel goes through the tiles that its queries see.

    Args:
        scores: the kernel; places: what is known of masked places.
    """

    def __init__(self, scores: Plan, places: MaskedPlaces) -> None:
        self.a, self.p, self.places = scores, scores.p, places
        self.mask = places.masked.mask
        of = element(self.p.value_of(self.p.scores.products[0]))
        pairs = zip(self.p.scores.products, scores.left, scores.right, strict=True)
        self.limits = [
            _Limit((left, right), largest_product(of, left.width)) for node, left, right in pairs if node in places.used
        ]
        self.limits += [_Limit((each,), FINITE[scores.type.bits]) for each in scores.columns]

    # --- the phase in front ------------------------------------------------------------------------------------------

    def add_phase(self) -> None:
        """Find the largest magnitude of each copy of each operand."""
        a = self.a
        self.begins = [0]
        for rows in a.operands:
            self.begins.append(self.begins[-1] + rows.copies)
        self.room = a.builder.scratch.take(self.begins[-1], a.arithmetic.element)
        cost = max(rows.count * rows.width for rows in a.operands) / a.lanes * 0.5
        a.builder.phase("largest", self.begins[-1], cost, self._emit)

    def _emit(self, f: Function) -> None:
        jobs = list(zip(self.begins, self.a.operands, strict=False))

        def one(number: Value) -> None:
            f.store(self._chosen(f, number, jobs), self.room.at(f), number)

        f.loop(f.begin, f.end, 1, one)

    def _chosen(self, f: Function, number: Value, jobs: Sequence[tuple[int, Rows]]) -> Value:
        *others, (begin, rows) = jobs
        if not others:
            return self._largest(f, rows, number)
        is_last = f.cmp("sge", number, f.const(begin))
        return f.if_(
            is_last,
            lambda: [self._largest(f, rows, f.isub(number, begin))],
            lambda: [self._chosen(f, number, others)],
        )[0]

    def _largest(self, f: Function, rows: Rows, copy: Index) -> Value:
        """The largest magnitude of a copy; NaN where it has one."""
        a, of = self.a, self.a.arithmetic.element
        type_ = vector(a.lanes, a.type)
        start = rows.copy(f, copy)

        def line(row: Value, found: Value) -> list[Value]:
            held = [found]

            def one(at: Index, mask: Value | None) -> None:
                place = f.iadd(f.imul(row, rows.width), at)
                value = a.arithmetic.load(f, rows.operand, start, place, a.lanes, mask)
                larger = arith.combine(f, "maximum", of, held[0], f.intrinsic("fabs", value))
                assert isinstance(larger, Value)
                held[0] = larger

            for at in range(0, rows.width, a.lanes):
                one(at, f.tail_mask(rows.width - at, a.lanes) if rows.width - at < a.lanes else None)
            return held

        (found,) = f.loop(0, rows.count, 1, line, [f.const(0.0, type_)])
        largest = arith.reduce_lanes(f, "maximum", of, found)
        assert isinstance(largest, Value)
        return largest

    # --- a tile of queries -------------------------------------------------------------------------------------------

    def run(self, tile: Queries, reduced: Reduced) -> list[Value]:
        """The first and the last key that the tile goes through, and its reductions."""
        f, a = tile.f, self.a
        sides = Sides((a.row[1],), a.key[1], dict(enumerate(a.sizes)), a.rows, a.count, 1, partial(self._places, tile))
        band = Band(f, sides, self.mask, a.keys, 0, tile.first, tile.valid)
        first, last = (f.index(each) for each in band.range())
        last = f.index(f.imin(last, a.count))
        is_small = reduce(partial(f.binary, "and"), [self._holds(tile, limit) for limit in self.limits])
        first, last = f.select(is_small, first, f.const(0)), f.select(is_small, last, f.const(a.count))
        reductions = len(self.p.reductions) * tile.vectors
        start = [f.const(0), first, last, *[tile.zero] * reductions]

        def again(number: Value, *carried: Value) -> Value:
            return f.cmp("slt", number, f.const(2))

        def round_(number: Value, begin: Value, end: Value, *_: Value) -> list[Value]:
            found = reduced(begin, end)
            is_all = f.binary("or", f.cmp("ne", number, f.const(0)), f.binary("xor", is_small, f.const(1, I1)))
            is_done = f.binary("or", is_all, self._drops_masked(tile))
            begin, end = f.select(is_done, begin, f.const(0)), f.select(is_done, end, f.const(a.count))
            return [f.select(is_done, f.const(2), f.const(1)), begin, end, *found]

        return f.while_(start, again, round_)[1:]

    def _places(self, tile: Queries, _: Index, row: Index) -> dict[int, Affine]:
        row_place = affine_of(row, self.a.rows - 1)
        return {place: at for (_, place), at in tile.places.items()} | {self.a.row[1]: row_place}

    def _holds(self, tile: Queries, limit: _Limit) -> Value:
        """Whether operands are as small as that."""
        f, of = tile.f, self.a.type
        product = f.const(1.0, of)
        for rows in limit.operands:
            begin = self.begins[self.a.operands.index(rows)]
            product = f.fmul(product, f.load(of, self.room.at(f), f.iadd(begin, tile.copy(rows))))
        return f.cmp("ole", product, f.const(limit.most, of))

    def _drops_masked(self, tile: Queries) -> Value:
        """Whether weights of masked places are zero in all rows of the tile."""
        f, a, p = tile.f, self.a, self.p
        whole = p.e
        zero, one = (f.const(each, a.type) for each in (0.0, 1.0))
        items = [each for level in a.levels for each in level]

        def look(row: Value, found: Value) -> list[Value]:
            p.begin(f, Elemental(f, a.fusion, a.target, 1))
            for number, item in enumerate(items):
                value = f.load(a.type, tile.row_values, f.iadd(number * a.width, row))
                p.e.bind(item.result, partial(given, value))
            outer: Index = 0
            for label in p.outer:
                index = f.iadd(tile.first, row) if label == a.row else tile.outer[label]
                outer = f.iadd(f.imul(outer, p.size(label)), index)
            known = self.places.magnitudes(tile.batch, outer)
            assert known is not None
            tests = [f.cmp("oeq", each, f.const(0.0, each.type)) for each in known]
            return [f.select(reduce(partial(f.binary, "and"), tests), found, one)] if tests else [found]

        (found,) = f.loop(0, tile.valid, 1, look, [zero])
        p.e = whole
        return f.cmp("oeq", found, zero)

    def with_masked(
        self, level: Sequence[RowReduction], keys: tuple[Index, Index], carried: Sequence[Value], rows: int
    ) -> list[Value]:
        """What reductions, of so many vectors each, have of the keys between two, and of masked ones, if there are
        others."""
        f, found = self.p.f, list(carried)
        begin, end = keys
        ends = f.cmp("eq", f.index(begin), f.const(0)), f.cmp("eq", f.index(end), f.const(self.a.count))
        all_ = f.binary("and", *ends)
        for number, item in enumerate(level):
            value = self.places.extremes.get(self.p.reductions.index(item))
            if value is None:
                continue
            for row in range(number * rows, (number + 1) * rows):
                masked = f.const(value, found[row].type)
                found[row] = f.select(all_, found[row], item.combined(f, found[row], masked))
        return found


def skipping(scores: Plan) -> Skipping | None:
    """How tiles of keys are left out, where a mask says which and there are some."""
    p = scores.p
    if p.masked is None or p.key != scores.key[1] or scores.count <= scores.keys:
        return None
    places = MaskedPlaces(p, p.masked, by_outer=True)
    f = phase_function(scores.fusion, scores.target, "none")  # which is thrown away
    p.begin(f)
    return Skipping(scores, places) if places.magnitudes(f.begin, f.begin) is not None else None
