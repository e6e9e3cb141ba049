"""Tiles of keys that no query of a tile sees, where a mask says that by indices: they are left out.

A key that is masked has the score that the mask gives. It counts for nothing where the exponential of that score below
the row's largest one is 0, and its values are finite: 0 times an infinity is NaN, as the program says. So a phase in
front finds out which values are finite. Where the score is -inf, its exponential is 0. Where it is a finite number, the
rows' largest scores are looked at afterwards: if one is not far above (the queries of the row see no key, or have
scores as low as that), the tile begins again, and goes through all keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from stablehlo_py.backends.common.attention import AttentionProgram
from stablehlo_py.backends.common.band import Band, Sides
from stablehlo_py.backends.cpu.kernels.attention_operands import Rows
from stablehlo_py.codegen.builder import Function, Index, Value, vector
from stablehlo_py.codegen.index import Affine, affine_of
from stablehlo_py.codegen.math import any_lane
from stablehlo_py.passes.fusing.attention_mask import Mask

GRAIN = 16  # keys, of which the last tile has a multiple
Run = Callable[[Index, Index], list[Value]]  # through the tiles between two keys


class Skipping:
    """How a kernel goes through the tiles that its queries see.

    Args:
        program, mask: what is computed.
        row, key: the dimensions of the first product that tiles go along; keys: of a tile.
    """

    def __init__(self, program: AttentionProgram, mask: Mask, row: int, key: int, keys: int) -> None:
        self.p, self.mask, self.row, self.key, self.keys = program, mask, row, key, keys
        self.count = program.sizes[key]

    def counted(self, f: Function, rows: Rows, copy: Index, lanes: int) -> Value:
        """0 where all values of a copy are finite, else NaN."""
        of = rows.arithmetic.accumulator
        start = rows.copy(f, copy)
        zero = f.const(0.0, vector(lanes, of))

        def line(row: Index, *sums: Value) -> list[Value]:
            found = [sums[0]]

            def one(at: Index, mask: Value | None) -> None:
                place = f.gep(start, rows.place(f, row, at), rows.operand.element.storage)
                found[0] = f.fadd(found[0], f.fmul(rows.arithmetic.load(f, rows.operand, place, 0, lanes, mask), zero))

            for at in range(0, rows.width, lanes):
                one(at, f.tail_mask(rows.width - at, lanes) if rows.width - at < lanes else None)
            return found

        (sums,) = f.loop(0, rows.count, 1, line, [zero])
        return f.reduce_lanes("fadd", sums)

    def band(self, f: Function, outer: Mapping[int, Index], first: Index, count: int) -> Band:
        """The keys that a tile of queries sees."""
        sizes = self.p.sizes

        def places(_: Index, row: Index) -> Mapping[int, Affine]:
            labels = {**outer, self.row: row}
            return {label: affine_of(index, sizes[label] - 1) for label, index in labels.items()}

        sides = Sides((self.row,), self.key, dict(enumerate(sizes)), sizes[self.row], self.count, 1, places)
        return Band(f, sides, self.mask, self.keys, 0, first, count)

    def run(self, band: Band, flag: Value, start: Sequence[Value], run: Run, rows: int) -> list[Value]:
        """What is carried out of the loop over the tiles: `run` goes through some. The first `rows` of it are the rows'
        largest scores; `start` is what the loop begins with; `flag`: 0 where all values are finite."""
        f = band.f
        first, last = band.range(GRAIN)
        is_finite = f.cmp("oeq", flag, f.const(0.0, flag.type))
        first = f.select(is_finite, f.index(first), f.const(0))
        last = f.select(is_finite, f.index(f.imin(last, self.count)), f.const(self.count))
        if self.mask.value == -math.inf:
            return run(first, last)

        def again(number: Value, *carried: Value) -> Value:
            return f.cmp("slt", number, f.const(2))

        def round_(number: Value, *carried: Value) -> list[Value]:
            is_first = f.cmp("eq", number, f.const(0))
            found = run(f.select(is_first, first, f.const(0)), f.select(is_first, last, f.const(self.count)))
            fails = f.binary("and", is_first, any_lane(f, self._sees_masked(found[:rows])))
            return [f.select(fails, f.const(1), f.const(2)), *found]

        return f.while_([f.const(0), *start], again, round_)[1:]

    def _sees_masked(self, largest: Sequence[Value]) -> Value:
        """Whether a masked key counts in rows with these largest scores, lane by lane: its score less the largest is so
        high that the exponential may not be 0."""
        f = self.p.f
        type_ = largest[0].type
        least = f.const(-1024.0 if type_.bits == 64 else -128.0, type_)
        masked = f.const(self.mask.value, type_)
        found = []
        for top in largest:
            below = f.fsub(masked, self.p.reference(top))
            found += [f.cmp("olt", top, masked), f.cmp("ugt", below, least)]
        return reduce(lambda a, b: f.binary("or", a, b), found)


def skipping(program: AttentionProgram, columns: Rows, row: int, key: int, keys: int) -> Skipping | None:
    """How tiles of so many keys are left out, where masks say which and there are some."""
    mask, few = program.mask, program.sizes[key] <= keys
    if mask is None or few or columns.stride != 1 or not program.drops_masked:
        return None
    return Skipping(program, mask, row, key, keys)
