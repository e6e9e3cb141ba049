"""Attention (attention.py) whose products are f32's or f64's: keys and values are read where they lie, as numbers that
every lane multiplies. Phases before copy operands whose rows lie far apart: these would meet in few
sets of the cache.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from stablehlo_py.backends.common.attention import AttentionProgram, Places
from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import unravel, vectors
from stablehlo_py.backends.cpu.kernels.arithmetic import arithmetic_of
from stablehlo_py.backends.cpu.kernels.attention_band import GRAIN, Skipping, skipping
from stablehlo_py.backends.cpu.kernels.attention_operands import Operands, Rows, packed
from stablehlo_py.backends.cpu.kernels.base import Kernel
from stablehlo_py.backends.cpu.kernels.panel_transpose import PanelTranspose, Sizes
from stablehlo_py.backends.cpu.kernels.product import KernelBuilder
from stablehlo_py.backends.cpu.kernels.tile import TileElemental
from stablehlo_py.backends.cpu.kernels.tiling import Split, each_panel
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import Function, Index, Value, vector
from stablehlo_py.codegen.index import ZERO, Affine, Variable, affine_of, lane_index
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.symint import IntLike

MOST_VECTORS = 4  # of queries
MOST_KEYS = 128  # of a tile: the fewer, the more of them masks leave out
MANY_QUERIES = 512  # from here on, keys and values are copied if their rows are not near each other
LEAST_SUMS = 16  # vectors of sums that multiply-adds need; with tiles of one height there is half of the code of two
WEIGHT_NS = 5.0  # of a vector of scores, besides the products


class Attention:
    """An attention fusion on its way to a kernel.

    Attributes:
        lanes: queries of a vector; width: of a tile; height: rows of products in registers; keys: of a tile, a multiple
            of `grain` if there is another one.
        row, outer: the dimension of the first product that tiles go along, and the others but the keys'.
    """

    grain = GRAIN
    before = 0  # lines in front of those of scores

    def __init__(self, program: AttentionProgram, fusion: Fusion, target: CpuTarget) -> None:
        self.fusion, self.target, self.p = fusion, target, program
        self.arithmetic = arithmetic_of(self.p.value_of(self.p.found.first))
        self.type = self.arithmetic.accumulator
        operands = Operands(self.p, self.arithmetic)
        self.row, self.key = operands.row, operands.key
        self.rows, self.count = (self.p.sizes[label] for label in (self.row, self.key))
        self.outer = [d for d, size in enumerate(self.p.sizes) if size != 1 and d not in (self.row, self.key)]
        self.queries, self.k, self.v = operands.queries, operands.keys, operands.columns
        self.lanes = target.lanes(self.type.bits)
        most = MOST_VECTORS if target.registers >= 32 else MOST_VECTORS // 2
        self.width = self.lanes * min(most, -(-self.rows // self.lanes))
        self.height = max(1, (target.registers - 1 - most) // most)
        self.keys = self._tile_of_keys()
        self.builder = KernelBuilder(fusion, target)

    def _tile_of_keys(self) -> int:
        """Weights fill half of the L1 cache at most. The last tile has the keys of a tile of registers at least;
        these have fewer rows where that many divide the columns."""
        self.height = min(self.height, self.count)
        fewer = range(self.height, -(-LEAST_SUMS * self.lanes // self.width) - 1, -1)
        self.height = next((rows for rows in fewer if self.p.width % rows == 0), self.height)
        grain = self.grain
        fitting = self.target.l1 // 2 // (self.width * self.type.bits // 8) // grain * grain
        most = max(grain, min(MOST_KEYS, fitting))
        if self.count <= most:
            return self.count
        size = max(range(most, 0, -grain), key=lambda size: min(self.count % size or size, self.height))
        self.height = min(self.height, self.count % size or size)
        return size

    @property
    def _tiles(self) -> int:
        """Tiles of queries of a head."""
        return -(-self.rows // self.width)

    # --- phases ------------------------------------------------------------------------------------------------------

    def emit(self) -> Kernel:
        """The phases."""
        made, p = self.builder, self.p
        self._bring_operands()
        self.skips = skipping(p, self.v, self.row, self.key, self.keys)
        if self.skips:
            self.flags = made.scratch.take(self.v.copies, self.arithmetic.element)
            cost = 0.1 * self.count * self.v.width / self.lanes * 3
            made.phase("finite", self.v.copies, cost, partial(self._finite, self.skips))
        rooms = [made.private.take(each * self.width, self.arithmetic.element) for each in self._lines()]
        self.room_q, self.room_w, self.room_o, self.room_r = rooms
        self.pitch_t = -(-p.width // self.lanes) * self.lanes  # of transposed results
        self.room_t = made.private.take(self.width * self.pitch_t, self.arithmetic.element)
        iterations = math.prod(p.sizes[d] for d in self.outer) * self._tiles
        work = self.count * (0.5 if self.skips else 1.0) * self.width / self.lanes
        made.phase("", iterations, work * (self._multiplying() + WEIGHT_NS), self._compute)
        return made.kernel()

    def _bring_operands(self) -> None:
        """Phases that come first."""
        self.k, self.v = self._packed("keys", self.k), self._packed("values", self.v)

    def starts(self, f: Function, outer: dict[int, Index]) -> tuple[Value, Value]:
        """Where the keys and the values begin at a place of the outer dimensions."""
        keys, values = (rows.copy(f, rows.number(f, outer, self.p.sizes)) for rows in (self.k, self.v))
        return keys, values

    def _lines(self) -> tuple[int, int, int, int]:
        """Lines of a tile of queries, of scores, of results, and of their maxima and sums."""
        return self.k.width, self.keys, self.p.width, 2

    def _multiplying(self) -> float:
        """Nanoseconds that the products of a vector of scores take."""
        return (self.k.width + self.p.width) / 6.0

    def _packed(self, name: str, rows: Rows) -> Rows:
        """An operand, copied by a phase before where it does not lie as kernels read it."""
        of = self.arithmetic.element
        if rows.is_strided and rows.operand.element == of and (self.rows < MANY_QUERIES or rows.is_near):
            return rows
        return packed(self.builder, name, rows, self.lanes)

    def _finite(self, skips: Skipping, f: Function) -> None:
        def one(copy: Value) -> None:
            f.store(skips.counted(f, self.v, copy, self.lanes), self.flags.at(f), copy)

        f.loop(f.begin, f.end, 1, one)

    def _compute(self, f: Function) -> None:
        self.f = f
        self.p.begin(f, self.lanes)
        self.q, self.o = (room.at(f) for room in (self.room_q, self.room_o))
        self.w = self.room_w.at(f, start=self.before * self.width)

        def iteration(number: Value) -> None:
            *outer, tile = unravel(f, number, [*(self.p.sizes[d] for d in self.outer), self._tiles])
            if self.skips:
                tile = self._balanced(tile)
            numbers = dict(zip(self.outer, outer, strict=True))
            each_panel(f, tile, self.rows, self.width, partial(self._queries, numbers))

        f.loop(f.begin, f.end, 1, iteration)

    def _balanced(self, tile: Index) -> Index:
        """Tiles from both ends in turn: where masks are causal, ranges of them have equal work."""
        f = self.f
        half, is_odd = f.idiv(tile, 2), f.cmp("ne", f.index(f.irem(tile, 2)), f.const(0))
        return f.select(is_odd, f.index(f.isub(self._tiles - 1, half)), f.index(half))

    # --- a tile of queries -------------------------------------------------------------------------------------------

    def _queries(self, outer: dict[int, Index], tile: Index, valid: IntLike) -> None:
        self._tile(outer, self.f.imul(tile, self.width), int(valid)).emit()

    def _tile(self, outer: dict[int, Index], first: Index, valid: int) -> Tile:
        return Tile(self, self.f, outer, first, valid)


class Tile:
    """`valid` queries from `first` on, at a place of the outer dimensions."""

    def __init__(self, attention: Attention, f: Function, outer: dict[int, Index], first: Index, valid: int) -> None:
        self.a, self.f, self.p, self.outer, self.first, self.valid = attention, f, attention.p, outer, first, valid
        a = attention
        self.lanes, self.width, self.height = a.lanes, a.width, a.height
        self.type = vector(a.lanes, a.type)
        self.vectors = -(-valid // a.lanes)
        sizes = self.p.sizes
        self.places = {a.key: ZERO} | {d: affine_of(index, sizes[d] - 1) for d, index in outer.items()}
        self.at_rows = [lane_index(f.iadd(first, v * a.lanes), a.rows, a.lanes, a.lanes) for v in range(self.vectors)]
        left = valid - (self.vectors - 1) * a.lanes
        self.mask = f.tail_mask(left, a.lanes) if left < a.lanes else None
        self.k, self.v = a.starts(f, outer)

    def emit(self) -> None:
        """All of it."""
        f, a = self.f, self.a
        self._bring_queries()
        lowest, zero = f.const(-math.inf, self.type), f.const(0.0, self.type)
        start = [lowest] * self.vectors + [zero] * self.vectors
        self.band = a.skips.band(f, self.outer, self.first, self.valid) if a.skips else None

        def run(begin: Index, end: Index) -> list[Value]:
            f.loop(0, self.p.width * self.width, self.lanes, lambda at: f.store(zero, a.o, at))
            return f.loop(begin, end, a.keys, partial(self._keys, end), start)

        if a.skips and self.band:
            flag = f.load(a.type, a.flags.at(f), a.v.number(f, self.outer, self.p.sizes))
            carried = a.skips.run(self.band, flag, start, run, self.vectors)
        else:
            carried = run(0, a.count)
        self._finish(carried[: self.vectors], carried[self.vectors :])

    def _predicate(self, v: int) -> Value | None:
        return self.mask if v == self.vectors - 1 else None

    # --- queries -----------------------------------------------------------------------------------------------------

    def _bring_queries(self) -> None:
        """The queries as rows of vectors, one for each number of the depth. Behind the last one it is there again."""
        f, a = self.f, self.a
        rows, operand = a.queries, a.queries.operand
        base = rows.copy(f, rows.number(f, self.outer, self.p.sizes))

        def address(row: Index, k: Index) -> Value:
            return f.gep(base, rows.place(f, row, k), operand.element.storage)

        if rows.is_strided and rows.stride == 1 and rows.width >= self.lanes:
            sizes = Sizes(self.valid, rows.row_stride, rows.width, self.width)
            panel = PanelTranspose(self.lanes, operand.element.name, a.arithmetic.element.name)
            panel.emit(f, address(self.first, 0), a.q, sizes)
            return

        def bring(v: Index) -> None:
            start = f.iadd(self.first, f.imul(v, self.lanes))
            lines = [f.imin(f.iadd(start, lane), a.rows - 1) for lane in range(self.lanes)]

            def one(k: Index) -> None:
                for lane, row in enumerate(lines):
                    value = a.arithmetic.load(f, operand, address(row, k), 0, 1)
                    f.store(value, a.q, f.iadd(self._at(k, v), lane))

            f.loop(0, rows.width, 1, one)

        f.loop(0, self.vectors, 1, bring)

    def _at(self, line: Index, v: Index) -> Index:
        """A vector of one of the tiles: of a number of the depth, of a key, of a column."""
        return self.f.iadd(self.f.imul(line, self.width), self.f.imul(v, self.lanes))

    def _inside(self, place: int) -> int:
        """The same for a vector of a tile of registers, from its first line on."""
        return place // self.vectors * self.width + place % self.vectors * self.lanes

    # --- keys --------------------------------------------------------------------------------------------------------

    def _keys(self, end: Index, begin: Value, *carried: Value) -> list[Value]:
        """A tile of keys: the largest scores, and the sums of weights."""
        f, n = self.f, self.vectors
        count = f.imin(self.a.keys, f.isub(end, begin))
        self._products(begin, count)
        largest = self._scores(begin, count, carried[:n])
        references, scales = self._references(carried[:n], largest)
        sums = self._weights(begin, count, references)
        self._values(begin, count, scales)
        totals = [f.fma(*each) for each in zip(carried[n:], scales, sums, strict=True)]
        return [*largest, *totals]

    def _references(self, before: Sequence[Value], after: Sequence[Value]) -> list[list[Value]]:
        """What is subtracted of scores, and what sums so far are multiplied with, by the largest scores.
        Through memory, vector by vector: each has the code of an exponential, which runs once a tile of keys."""
        f, p = self.f, self.p
        room = self._put(before, after)

        def one(v: Index) -> None:
            was, is_ = self._taken(room, v)
            f.store(p.reference(is_), room, self._at(0, v))
            f.store(p.scale(was, is_), room, self._at(1, v))

        f.loop(0, self.vectors, 1, one)
        return [list(line) for line in zip(*(self._taken(room, v) for v in range(self.vectors)), strict=True)]

    def _put(self, *lines: Sequence[Value]) -> Value:
        """Two lines of vectors in memory."""
        room = self.a.room_r.at(self.f)
        for line, values in enumerate(lines):
            for v, value in enumerate(values):
                self.f.store(value, room, self._at(line, v))
        return room

    def _taken(self, room: Value, v: Index) -> list[Value]:
        return [self.f.load(self.type, room, self._at(line, v)) for line in range(2)]

    def _sums(self, height: int, steps: Index, left: Value, strides: tuple[int, int], right: Value) -> list[Value]:
        """Products of `height` rows of numbers and the vectors of a tile, summed over so many steps. `strides`: of the
        numbers, from row to row and from step to step."""
        f, operand_type, n = self.f, self.a.type, self.vectors
        across, along = strides

        def step(k: Index, *sums: Value) -> list[Value]:
            vectors = [f.load(self.type, right, self._at(k, v)) for v in range(n)]
            at = f.gep(left, f.imul(k, along), operand_type)
            result = list(sums)
            for row in range(height):
                number = f.splat(f.load(operand_type, at, row * across), self.lanes)
                for v in range(n):
                    place = row * n + v
                    result[place] = self.a.arithmetic.multiply_add(f, number, vectors[v], result[place])
            return result

        return f.loop(0, steps, 1, step, [f.const(0.0, self.type)] * (height * n), nonempty=True)

    def _products(self, begin: Value, count: Index) -> None:
        """Those of a tile of keys. The last rows of registers may be some of those before."""
        f, a = self.f, self.a

        def lines(line: Index) -> None:
            line = f.imin(line, f.isub(count, self.height))
            start = f.gep(self.k, f.imul(f.iadd(begin, line), a.k.row_stride), a.k.operand.element.storage)
            sums = self._sums(self.height, a.k.width, start, (a.k.row_stride, a.k.stride), a.q)
            room = f.gep(a.w, self._at(line, 0), a.type)
            for place, value in enumerate(sums):
                f.store(value, room, self._inside(place))

        f.loop(0, count, self.height, lines, nonempty=True)

    def _place(self, v: int, key: Affine) -> Places:
        return {**self.places, self.a.row: self.at_rows[v], self.a.key: key}

    def _scores(self, begin: Value, count: Index, largest: Sequence[Value]) -> list[Value]:
        """What becomes of the products, and the largest."""
        f = self.f

        def through(is_seen: bool) -> list[Value]:
            def block(start: Index, *tops: Value) -> list[Value]:
                key = f.imin(f.iadd(begin, start), self.a.count - self.lanes)
                before = f.isub(f.iadd(begin, start), key)  # keys that another block had
                after = f.imin(self.lanes, f.isub(f.iadd(begin, count), key))
                line = partial(self._score, key, f.isub(key, begin), is_seen)
                return f.loop(before, after, 1, line, tops, nonempty=True)

            return f.loop(0, count, self.lanes, block, largest, nonempty=True)

        if self.band is None or not self.band.mask.exact:
            return through(False)
        return f.if_(self.band.is_full(begin), lambda: through(True), lambda: through(False))

    def _score(self, key: Index, line: Index, is_seen: bool, inside: Value, *tops: Value) -> list[Value]:
        """The scores of a key: number `inside` of a square of keys and of queries of a vector."""
        f, p, w = self.f, self.p, self.a.w
        first = Variable(f.index(key), 0, self.a.count - self.lanes)
        number = Variable(inside, 0, self.lanes - 1)
        at_key = Affine(0, ((first, 1), (number, 1)))
        whole, result = p.e, []
        for v, top in enumerate(tops):
            mask, at = self._predicate(v), self._at(f.iadd(line, inside), v)
            there = min(self.lanes, self.valid - v * self.lanes)
            p.e = TileElemental(f, self.a.fusion, self.a.target, self.lanes, first, number, there, mask)
            with p.e.predicated(mask):
                score = p.score_at(self._place(v, at_key), f.load(self.type, w, at), is_seen=is_seen)
            f.store(score, w, at)
            result.append(p.larger(top, score))
        p.e = whole
        return result

    def _weights(self, begin: Value, count: Index, references: Sequence[Value]) -> list[Value]:
        """The weights, and their sums."""
        f, p, w = self.f, self.p, self.a.w

        def line(j: Index, *sums: Value) -> list[Value]:
            result = []
            for v, sum_ in enumerate(sums):
                with p.e.predicated(self._predicate(v)):
                    score = f.load(self.type, w, self._at(j, v))
                    added, weight = p.weight_at(
                        self._place(v, affine_of(f.iadd(begin, j), self.a.count - 1)), score, references[v]
                    )
                f.store(weight, w, self._at(j, v))
                result.append(f.fadd(sum_, added))
            return result

        return f.loop(0, count, 1, line, [f.const(0.0, self.type)] * self.vectors, nonempty=True)

    def _values(self, begin: Value, count: Index, scales: Sequence[Value]) -> None:
        """Scale the results, and add the values of a tile of keys with their weights."""
        f, a = self.f, self.a
        columns = Split(self.p.width, -(-self.p.width // self.height))
        start = f.gep(self.v, f.imul(begin, a.v.row_stride), a.type)

        def lines(line: Index, _: Affine, height: int, __: Index | None) -> None:
            left = f.gep(start, f.imul(line, a.v.stride), a.type)
            sums = self._sums(height, count, left, (a.v.stride, a.v.row_stride), a.w)
            self._add(line, sums, scales)

        columns.emit(f, 0, None, lines)

    def _add(self, line: Index, sums: Sequence[Value], scales: Sequence[Value]) -> None:
        """Scale the results from a line on, and add sums."""
        f, room = self.f, self.f.gep(self.a.o, self._at(line, 0), self.a.type)
        for place, value in enumerate(sums):
            at = self._inside(place)
            f.store(f.fma(f.load(self.type, room, at), scales[place % self.vectors], value), room, at)

    # --- results -----------------------------------------------------------------------------------------------------

    def _finish(self, largest: Sequence[Value], totals: Sequence[Value]) -> None:
        """Divide the results by the sums of weights, and store them, row by row."""
        f, p, a, lanes = self.f, self.p, self.a, self.lanes
        self._put(largest, totals)
        for v, rows in enumerate(zip(largest, totals, strict=True)):
            p.keep_at({**self.places, a.row: self.at_rows[v]}, *rows, self._predicate(v))
        f.loop(0, self.vectors, 1, self._results)
        of, name, turned, pitch = element(p.output), a.arithmetic.element.name, a.room_t.at(f), a.pitch_t
        sizes = Sizes(p.width, self.width, self.valid, pitch)
        PanelTranspose(lanes, name, name).emit(f, a.o, turned, sizes)

        def row(number: Value) -> None:
            query = affine_of(f.iadd(self.first, number), a.rows - 1)

            def put(column: Index, mask: Value | None) -> None:
                value = f.load(self.type, turned, f.iadd(f.imul(number, pitch), column))
                across = lane_index(column, p.width, lanes, lanes)
                p.e.write(of, p.out, p.result_place({**self.places, a.row: query}, across, lanes), value, mask)

            vectors(f, p.width, lanes, put)

        f.loop(0, self.valid, 1, row, nonempty=True)

    def _results(self, v: Value) -> None:
        """The results of a vector of queries, column by column."""
        f, p, a, lanes = self.f, self.p, self.a, self.lanes
        first = f.iadd(self.first, f.imul(v, lanes))
        largest, total = self._taken(a.room_r.at(f), v)
        made = p.results_at({**self.places, a.row: lane_index(first, a.rows, lanes, lanes)}, largest, total)

        def one(column: Value) -> None:
            at = self._at(column, v)
            f.store(made(column, f.load(self.type, a.o, at)), a.o, at)

        f.loop(0, p.width, 1, one, nonempty=True)
