"""Fusions of kind `scores`: all sums over work on the products of queries and keys, without an array of all scores. The
gradient of attention is one of them (passes/fusing/scores.py).

An iteration has a batch, or some of its tiles of queries. As in attention.py queries are in lanes. The products of a
tile with all keys stay in the cache (Dao et al., FlashAttention, 2022, algorithm 4, has them computed again):

    for tile of queries:
        for tile of keys:  products [keys, queries]; what the first reductions over keys have of them
        for tile of keys:  what reductions have of these that need the first ones, and so on
        for tile of keys:  weights [keys, queries]
                           sums over keys [columns, queries]      += row of the keys' columns * weights
                           sums over queries [keys, columns]      += weight * rows of the queries' columns

The gradient of attention is 5 products so: the scores and the gradients of weights, then those of keys, values and
queries. Sums over queries are added up in the order of tiles. Where batches are few, several iterations share the tiles
of one in turns, and a last phase adds their sums, in order: results do not depend on threads.

Tiles of keys that a mask leaves nothing of are left out (scores_band.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import unravel, vectors
from stablehlo_py.backends.common.scores import RowReduction, given
from stablehlo_py.backends.cpu.kernels.attention_operands import Rows
from stablehlo_py.backends.cpu.kernels.base import Kernel
from stablehlo_py.backends.cpu.kernels.panel_transpose import PanelTranspose, Sizes
from stablehlo_py.backends.cpu.kernels.scores_band import skipping
from stablehlo_py.backends.cpu.kernels.scores_plan import Plan, Queries
from stablehlo_py.backends.cpu.kernels.tile import TileElemental
from stablehlo_py.backends.cpu.kernels.tiling import Split, each_panel
from stablehlo_py.backends.cpu.kernels.transposing import transposed
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import Function, Index, Value, vector
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Affine, Variable, affine_of, lane_index
from stablehlo_py.codegen.types import Lanes
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.mlir import ir
from stablehlo_py.passes.fusing.scores import Label

WEIGHT_NS = 10.0  # of a vector of scores, besides the products


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """The kernel of a `scores` fusion."""
    return Scores(fusion, target).emit()


class Scores(Plan):
    """A fusion on its way to a kernel."""

    def emit(self) -> Kernel:
        """The phases."""
        made, p = self.builder, self.p
        of = self.arithmetic.element
        self.skips = skipping(self)
        if self.skips:
            self.skips.add_phase()
        lines = self.count + self.keys if self.levels else self.keys
        depths, widths = [each.width for each in self.left], [each.width for each in self.sums]
        take = made.private.take
        self.room_left = [take(depth * self.width, of) for depth in depths]
        self.room_products = [take(lines * self.width, of) for _ in depths]
        self.weights = list(dict.fromkeys(each.weights for each in self.sums))
        self.room_weights = [take(self.keys * self.width, of) for _ in self.weights]
        self.room_sums = {number: take(widths[number] * self.width, of) for number in self.over_keys}
        self.room_rows = take(max(1, len(p.reductions)) * self.width, of)
        iterations = p.batch * self.shares
        self.steps = {number: -(-widths[number] // self.lanes) * self.lanes for number in self.over_queries}
        self.lines = -(-self.count // self.keys) * self.keys
        self.room_shares = {
            number: made.scratch.take(iterations * self.lines * step, of) for number, step in self.steps.items()
        }
        work = self.count * (0.5 if self.skips else 1.0) * self.width / self.lanes
        cost = work * self.tiles / self.shares * (sum(depths + widths) / 6.0 + WEIGHT_NS)
        made.phase("", iterations, cost, self._compute)
        if self.over_queries:
            vectors_ = sum(self.steps.values()) / self.lanes
            made.phase("total", p.batch * self.count, vectors_ * (self.shares + 2.0), self._total)
        return made.kernel()

    def _compute(self, f: Function) -> None:
        zero = f.const(0.0, vector(self.lanes, self.type))
        other_sizes = [self.p.size(label) for label in self.others]

        def iteration(number: Value) -> None:
            batch, share = f.idiv(number, self.shares), f.irem(number, self.shares)
            batches = dict(zip(self.p.scores.batch, self._batch(f, batch), strict=True))
            into = dict[int, Value]()
            for sum_, step in self.steps.items():
                into[sum_] = self.room_shares[sum_].at(f, (number,), (self.lines * step,))
                f.loop(0, self.lines * step, self.lanes, lambda at, to=into[sum_]: f.store(zero, to, at))

            def one(number: Index) -> None:
                *others, tile = unravel(f, number, [*other_sizes, -(-self.rows // self.width)])
                outer = batches | dict(zip(self.others, others, strict=True))

                def queries(panel: Index, valid: IntLike) -> None:
                    Tile(self, f, (batch, outer), f.imul(panel, self.width), int(valid), into).emit()

                each_panel(f, tile, self.rows, self.width, queries)

            f.loop(share, self.tiles, self.shares, one)

        f.loop(f.begin, f.end, 1, iteration)

    def _batch(self, f: Function, batch: Index) -> list[Index]:
        return unravel(f, batch, [self.p.size(label) for label in self.p.scores.batch])

    def _total(self, f: Function) -> None:
        """Add the sums of the iterations of a batch, and store them: rows of keys."""
        p, lanes = self.p, self.lanes
        p.begin(f, Elemental(f, self.fusion, self.target, lanes))
        rooms = {number: room.at(f) for number, room in self.room_shares.items()}

        def line(number: Value) -> None:
            batch, key = f.idiv(number, self.count), f.irem(number, self.count)
            indices = zip((*p.scores.batch, self.key), (*self._batch(f, batch), key), strict=True)
            at = {label: affine_of(index, p.size(label) - 1) for label, index in indices}

            for sum_, step in self.steps.items():

                def one(column: Index, mask: Value | None, sum_: int = sum_, step: int = step) -> None:
                    share = self.lines * step
                    begin = f.iadd(f.imul(f.imul(batch, self.shares), share), f.iadd(f.imul(key, step), column))
                    type_ = vector(lanes, self.type)
                    total = f.load(type_, rooms[sum_], begin)
                    for each in range(1, self.shares):
                        total = f.fadd(total, f.load(type_, rooms[sum_], f.iadd(begin, each * share)))
                    of = self.sums[sum_]
                    of.store_at(at, lane_index(column, of.width, lanes, lanes), total, lanes, mask)

                vectors(f, self.sums[sum_].width, lanes, one)

        f.loop(f.begin, f.end, 1, line)


Consume = Callable[[int, Index, list[Lanes], list[Value]], None]


class Tile(Queries):
    """A tile of queries. `into`: where sums over queries are added, by number."""

    def __init__(
        self,
        scores: Scores,
        f: Function,
        at: tuple[Index, dict[Label, Index]],
        first: Index,
        valid: int,
        into: Mapping[int, Value],
    ) -> None:
        super().__init__(scores, f, at, first, valid, scores.room_rows)
        self.a, self.into = scores, into
        a = scores
        self.lanes, self.width, self.height = a.lanes, a.width, a.height
        self.at_rows = [lane_index(f.iadd(first, v * a.lanes), a.rows, a.lanes, a.lanes) for v in range(self.vectors)]
        left = valid - (self.vectors - 1) * a.lanes
        self.mask = f.tail_mask(left, a.lanes) if left < a.lanes else None
        self.left, self.products = ([room.at(f) for room in rooms] for rooms in (a.room_left, a.room_products))
        self.weights = [room.at(f) for room in a.room_weights]
        self.sums = {number: room.at(f) for number, room in a.room_sums.items()}
        self.p.begin(f, Elemental(f, a.fusion, a.target, self.lanes))

    def emit(self) -> None:
        """All of it."""
        f, a = self.f, self.a
        for rows, room in zip(a.left, self.left, strict=True):
            self._bring(rows, room)
        for number, room in self.sums.items():
            size = a.sums[number].width * self.width
            f.loop(0, size, self.lanes, lambda at, room=room: f.store(self.zero, room, at))
        self.right = [self.start(rows) for rows in a.right]
        self.columns = [self.start(rows) for rows in a.columns]
        if a.skips:
            begin, end, *known = a.skips.run(self, self._reduced)
            self._sum_all(begin, end, known)
        else:
            self._sum_all(0, a.count, self._reduced(0, a.count))
        for number in a.over_keys:
            f.loop(0, self.valid // self.lanes, 1, partial(self._store, number, self.lanes))
            if self.valid % self.lanes:
                self._store(number, self.valid % self.lanes, self.valid // self.lanes)

    def _predicate(self, v: int) -> Value | None:
        return self.mask if v == self.vectors - 1 else None

    def _bring(self, rows: Rows, room: Value) -> None:
        """An operand's rows as vectors, one for each number of the depth. Behind the last row it is there again."""
        f, a, lanes = self.f, self.a, self.lanes
        base = self.start(rows)
        if rows.width >= lanes:
            panel = PanelTranspose(lanes, a.arithmetic.element.name, a.arithmetic.element.name)
            start = f.gep(base, f.imul(self.first, rows.width), a.type)
            panel.emit(f, start, room, Sizes(self.valid, rows.width, rows.width, self.width))
            return

        def bring(v: Index) -> None:
            start = f.iadd(self.first, f.imul(v, lanes))
            lines = [f.imul(f.imin(f.iadd(start, lane), a.rows - 1), rows.width) for lane in range(lanes)]

            def one(k: Index) -> None:
                for lane, line in enumerate(lines):
                    f.store(f.load(a.type, base, f.iadd(line, k)), room, f.iadd(self._at(k, v), lane))

            f.loop(0, rows.width, 1, one)

        f.loop(0, self.vectors, 1, bring)

    def _at(self, line: Index, v: Index) -> Index:
        """A vector of a tile: of a number of the depth, of a key, of a column."""
        return self.f.iadd(self.f.imul(line, self.width), self.f.imul(v, self.lanes))

    # --- reductions --------------------------------------------------------------------------------------------------

    def _reduced(self, begin: Index, end: Index) -> list[Value]:
        """What reductions have of the keys between two, a few vectors for each. Products are there afterwards."""
        f, a = self.f, self.a
        known = list[Value]()
        for number, level in enumerate(a.levels):
            identities = [f.splat(each.identity(f), self.lanes) for each in level for _ in range(self.vectors)]
            tile = partial(self._reduce, level, self._bound(known), end, is_first=number == 0)
            carried = f.loop(begin, end, a.keys, tile, identities)
            if a.skips:
                carried = a.skips.with_masked(level, (begin, end), carried, self.vectors)
            items = [each for each in level for _ in range(self.vectors)]
            known += [item.finished(total) for item, total in zip(items, carried, strict=True)]
        for place, value in enumerate(known):
            f.store(value, self.row_values, self._at(place // self.vectors, place % self.vectors))
        return known

    def _bound(self, known: Sequence[Value]) -> list[tuple[RowReduction, Sequence[Value]]]:
        """Reductions of which values are known, and these."""
        items = [each for level in self.a.levels for each in level][: len(known) // self.vectors]
        return [(each, known[i * self.vectors :][: self.vectors]) for i, each in enumerate(items)]

    def _reduce(
        self,
        level: Sequence[RowReduction],
        bound: list[tuple[RowReduction, Sequence[Value]]],
        end: Index,
        begin: Value,
        *carried: Value,
        is_first: bool,
    ) -> list[Value]:
        """What reductions have of a tile of keys."""
        f, n = self.f, self.vectors
        count = f.imin(self.a.keys, f.isub(end, begin))
        if is_first:
            self._products(begin, count)

        def consume(v: int, line: Index, values: list[Lanes], held: list[Value]) -> None:
            for number, (item, value) in enumerate(zip(level, values, strict=True)):
                assert isinstance(value, Value)
                held[number * n + v] = item.combined(f, held[number * n + v], value)

        return self._scores(begin, count, [each.weights for each in level], bound, consume, carried)

    # --- products and weights ----------------------------------------------------------------------------------------

    def _line(self, begin: Index, line: Index) -> Index:
        """Where the products of a key of a tile are."""
        return self.f.iadd(begin, line) if self.a.levels else line

    def _products(self, begin: Index, count: Index) -> None:
        """Those of a tile of keys. The last rows of registers may be some of those before."""
        f, a = self.f, self.a
        for left, right, rows, room in zip(self.left, self.right, a.right, self.products, strict=True):

            def lines(
                line: Index, left: Value = left, right: Value = right, rows: Rows = rows, room: Value = room
            ) -> None:
                line = f.imin(line, f.isub(count, self.height))
                start = f.gep(right, f.imul(f.iadd(begin, line), rows.width), a.type)
                zeros = [self.zero] * (self.height * self.vectors)
                sums = self._multiplied(rows.width, start, (rows.width, 1), left, self.width, zeros)
                for place, value in enumerate(sums):
                    inside = f.iadd(line, place // self.vectors)
                    f.store(value, room, self._at(self._line(begin, inside), place % self.vectors))

            f.loop(0, count, self.height, lines, nonempty=True)

    def _multiplied(
        self,
        steps: Index,
        numbers: Value,
        strides: tuple[int, int],
        right: Value,
        stride: int,
        sums: Sequence[Value],
        mask: Value | None = None,
        vectors: int = 0,
    ) -> list[Value]:
        """Sums with the products of rows of numbers and of vectors added, over so many steps. `strides`: of numbers,
        from row to row and from step to step; `stride`: from step to step of vectors; `mask`: of the last one."""
        f, n = self.f, vectors or self.vectors
        across, along = strides
        load, of = self.a.arithmetic.load, self.a.room_rows

        def step(k: Index, *held: Value) -> list[Value]:
            places = [f.iadd(f.imul(k, stride), v * self.lanes) for v in range(n)]
            masks = [*[None] * (n - 1), mask]
            loaded = [load(f, of, right, *each) for each in zip(places, [self.lanes] * n, masks, strict=True)]
            at = f.gep(numbers, f.imul(k, along), self.a.type)
            result = list(held)
            for row in range(len(held) // n):
                number = f.splat(f.load(self.a.type, at, row * across), self.lanes)
                for v in range(n):
                    place = row * n + v
                    result[place] = self.a.arithmetic.multiply_add(f, number, loaded[v], result[place])
            return result

        return f.loop(0, steps, 1, step, sums, nonempty=True)

    def _scores(
        self,
        begin: Value,
        count: Index,
        ends: Sequence[ir.Value],
        bound: Sequence[tuple[RowReduction, Sequence[Value]]],
        consume: Consume,
        carried: Sequence[Value] = (),
    ) -> list[Value]:
        """What becomes of the products of a tile: `consume` gets the vector's number, the key's, and the ends, and
        changes what is carried."""
        f, p, a = self.f, self.p, self.a

        def block(start: Index, *held: Value) -> list[Value]:
            key = f.imin(f.iadd(begin, start), a.count - self.lanes)
            before = f.isub(f.iadd(begin, start), key)  # keys that another block had
            after = f.imin(self.lanes, f.isub(f.iadd(begin, count), key))
            return f.loop(before, after, 1, partial(line, key), held, nonempty=True)

        def line(key: Index, inside: Value, *held: Value) -> list[Value]:
            first = Variable(f.index(key), 0, a.count - self.lanes)
            number = Variable(inside, 0, self.lanes - 1)
            at_key = Affine(0, ((first, 1), (number, 1)))
            local = f.iadd(f.isub(key, begin), inside)
            result = list(held)
            whole = p.e
            for v in range(self.vectors):
                mask, there = self._predicate(v), min(self.lanes, self.valid - v * self.lanes)
                p.e = e = TileElemental(f, a.fusion, a.target, self.lanes, first, number, there, mask)
                for item, values in bound:
                    e.bind(item.result, partial(given, values[v]))
                at = self._at(self._line(begin, local), v)
                totals = [f.load(self.type, room, at) for room in self.products]
                places = {**self.places, a.row: self.at_rows[v], a.key: at_key}
                with e.predicated(mask):
                    found = p.evaluated_at(places, totals, ends)
                consume(v, local, found, result)
            p.e = whole
            return result

        return f.loop(0, count, self.lanes, block, carried, nonempty=True)

    # --- sums --------------------------------------------------------------------------------------------------------

    def _sum_all(self, begin: Index, end: Index, known: Sequence[Value]) -> None:
        """What sums have of the keys between two."""
        self.f.loop(begin, end, self.a.keys, partial(self._sum, self._bound(known), end))

    def _sum(self, bound: Sequence[tuple[RowReduction, Sequence[Value]]], end: Index, begin: Value) -> None:
        """What sums have of a tile of keys."""
        f, a = self.f, self.a
        count = f.imin(a.keys, f.isub(end, begin))
        if not a.levels:
            self._products(begin, count)
        of = [next(each for each in a.sums if each.weights == weights) for weights in a.weights]

        def consume(v: int, line: Index, values: list[Lanes], held: list[Value]) -> None:
            for sum_, room, value in zip(of, self.weights, values, strict=True):
                f.store(sum_.weight(value), room, self._at(line, v))

        self._scores(begin, count, a.weights, bound, consume)
        for number in a.over_keys:
            self._sum_keys(number, begin, count)
        for number in a.over_queries:
            self._sum_queries(number, begin, count)

    def _weights_of(self, number: int) -> Value:
        return self.weights[self.a.weights.index(self.a.sums[number].weights)]

    def _sum_keys(self, number: int, begin: Value, count: Index) -> None:
        f, a, n = self.f, self.a, self.vectors
        rows, room = a.columns[number], self.sums[number]
        start = f.gep(self.columns[number], f.imul(begin, rows.width), a.type)

        def lines(line: Index, _: Affine, height: int, __: Index | None) -> None:
            places = [self._at(f.iadd(line, place // n), place % n) for place in range(height * n)]
            sums = [f.load(self.type, room, at) for at in places]
            left = f.gep(start, line, a.type)
            sums = self._multiplied(count, left, (1, rows.width), self._weights_of(number), self.width, sums)
            for at, value in zip(places, sums, strict=True):
                f.store(value, room, at)

        Split(rows.width, -(-rows.width // self.height)).emit(f, 0, None, lines)

    def _sum_queries(self, number: int, begin: Value, count: Index) -> None:
        """The last rows of registers may be behind the last key, where there is room for them."""
        f, a, lanes = self.f, self.a, self.lanes
        rows, step, into = a.columns[number], a.steps[number], self.into[number]
        start = f.gep(self.columns[number], f.imul(self.first, rows.width), a.type)

        def panel(first: int, n: int) -> None:
            left = rows.width - first - (n - 1) * lanes
            mask = f.tail_mask(left, lanes) if left < lanes else None
            right = f.gep(start, first, a.type)

            def lines(line: Index) -> None:
                at_line = [f.imul(f.iadd(begin, f.iadd(line, row)), step) for row in range(self.height)]
                places = [f.iadd(at, first + v * lanes) for at in at_line for v in range(n)]
                sums = [f.load(self.type, into, at) for at in places]
                numbers = f.gep(self._weights_of(number), f.imul(line, self.width), a.type)
                strides = (self.width, 1)
                sums = self._multiplied(self.valid, numbers, strides, right, rows.width, sums, mask, n)
                for at, value in zip(places, sums, strict=True):
                    f.store(value, into, at)

            f.loop(0, count, self.height, lines, nonempty=True)

        for first in range(0, step, a.most * lanes):
            panel(first, min(a.most, (step - first) // lanes))

    def _store(self, number: int, valid: int, v: Index) -> None:
        """The sums over keys of the first `valid` queries of a vector."""
        f, a, lanes = self.f, self.a, self.lanes
        sum_, room = a.sums[number], self.sums[number]
        first = f.iadd(self.first, f.imul(v, lanes))

        def square(start: Index, count: int = lanes) -> None:
            lines = [f.load(self.type, room, self._at(f.iadd(start, j), v)) for j in range(count)]
            lines += lines[-1:] * (lanes - count)
            mask = f.tail_mask(count, lanes) if count < lanes else None
            for lane, value in enumerate(transposed(f, lines)[:valid]):
                places = {**self.places, a.row: affine_of(f.iadd(first, lane), a.rows - 1)}
                sum_.store_at(places, lane_index(start, sum_.width, lanes, lanes), value, lanes, mask)

        whole = sum_.width // lanes * lanes
        f.loop(0, whole, lanes, square)
        if whole < sum_.width:
            square(whole, sum_.width - whole)
