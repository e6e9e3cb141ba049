"""Attention (attention.py) of bf16 by matrix units, or by instructions that multiply pairs (vector_unit.py).

Both multiply rows of pairs with lanes of pairs, so operands lie the same way for them, two bf16 in 32 bits:

    queries [pair of the depth, query]      copied for each tile, transposed by pairs
    keys [key, depth]                       where they lie, if pairs do; a row is a line of numbers or a row of a tile
    weights [pair of keys, query]           written over their scores
    values [column, key]                    copied before, transposed

Sums are those of f32, as scores and results are. Tiles of a matrix unit have 16 keys, or columns, and 16 queries; there
are four of sums, for the queries of a tile, beside one of keys and one for each 16 queries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from stablehlo_py.backends.common.attention import AttentionProgram
from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels.arithmetic import Arithmetic, arithmetic_of
from stablehlo_py.backends.cpu.kernels.attention_lanes import MANY_QUERIES, Attention, Tile
from stablehlo_py.backends.cpu.kernels.attention_operands import Operands, packed
from stablehlo_py.backends.cpu.kernels.matrix_unit import Unit, configure_tiles
from stablehlo_py.backends.cpu.kernels.panel_transpose import PanelTranspose, Sizes
from stablehlo_py.backends.cpu.kernels.tile_sums import LOAD, STORE
from stablehlo_py.backends.cpu.kernels.tiling import Split
from stablehlo_py.backends.cpu.kernels.units import units_of
from stablehlo_py.backends.cpu.kernels.vector_unit import VectorUnit
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.backends.cpu.weight_tiles import SIDE
from stablehlo_py.codegen.builder import BF16, F32, I8, I16, I32, Function, Index, Value, VectorType
from stablehlo_py.codegen.index import Affine, affine_of
from stablehlo_py.codegen.types import ELEMENTS, element

PAIR = 2
BITS = ELEMENTS["i16"]  # numbers that are moved as they are
PAIRS = "i32"


def attention_unit(program: AttentionProgram, target: CpuTarget) -> Unit | None:
    """What multiplies the operands of an attention fusion, besides vectors of f32."""
    arithmetic = arithmetic_of(program.value_of(program.found.first))
    operands = Operands(program, arithmetic)
    read = (operands.queries, operands.keys, operands.columns)
    of = ELEMENTS["bf16"]
    if any(rows.operand.element != of for rows in read) or element(program.weights) != of:
        return None
    return next(iter(units_of(of, of, arithmetic, target)), None)


def _up(size: int, to: int) -> int:
    return -(-size // to) * to


class UnitAttention(Attention):
    """Such a fusion.

    Attributes:
        step: elements of a row that an instruction multiplies. depth: of a row of keys, whole steps.
        before: lines for keys of the tile before that are multiplied once more.
        columns, pitch: transposed values of a head, and numbers from one column to the next.
    """

    def __init__(self, program: AttentionProgram, fusion: Fusion, target: CpuTarget, unit: Unit) -> None:
        self.unit = unit
        self.has_tiles = not isinstance(unit, VectorUnit)
        self.step = unit.depth if self.has_tiles else PAIR
        if self.has_tiles:
            self.grain = unit.depth
        super().__init__(program, fusion, target)
        self.depth = _up(self.queries.width, self.step)
        if self.has_tiles:
            self.height = SIDE
        self.before = SIDE if self.has_tiles else 0
        self.pitch = _up(self.count, PAIR * self.lanes) + (self.step if self.has_tiles else 0)  # of transposed values
        self.columns = _up(program.width, SIDE if self.has_tiles else 1)

    def _bring_operands(self) -> None:
        keys = self.k
        lies_well = keys.is_strided and keys.stride == 1 and keys.width == self.depth
        if not lies_well or (self.rows >= MANY_QUERIES and not keys.is_near):
            bits = replace(keys, operand=replace(keys.operand, element=BITS), arithmetic=Arithmetic(BITS))
            self.k = packed(self.builder, "keys", bits, self.lanes, self.depth)
        copies, blocks = self.v.copies, -(-self.columns // self.lanes)
        self.room_v = self.builder.scratch.take(copies * self.columns * self.pitch, BITS)
        self.room_p = self.builder.private.take(self.lanes**2, ELEMENTS[PAIRS])
        self.builder.phase("turn_values", copies * blocks, self.pitch * 1.0, self._turn_values)

    def starts(self, f: Function, outer: dict[int, Index]) -> tuple[Value, Value]:
        """Where the keys and the transposed values begin."""
        keys, number = (rows.number(f, outer, self.p.sizes) for rows in (self.k, self.v))
        return self.k.copy(f, keys), self.room_v.at(f, (number,), (self.columns * self.pitch,))

    def _lines(self) -> tuple[int, int, int, int]:
        return self.depth // PAIR, self.before + _up(self.keys, self.step), self.columns, 2

    def _multiplying(self) -> float:
        return (self.depth + self.p.width) / (96.0 if self.has_tiles else 12.0)

    def _compute(self, f: Function) -> None:
        if self.has_tiles:
            configure_tiles(f)
        super()._compute(f)
        if self.has_tiles:
            f.target_effect("llvm.x86.tilerelease")

    def _tile(self, outer: dict[int, Index], first: Index, valid: int) -> Tile:
        return (_TilesOfUnit if self.has_tiles else _PairsOfVectors)(self, self.f, outer, first, valid)

    # --- values ------------------------------------------------------------------------------------------------------

    def _turn_values(self, f: Function) -> None:
        """Rows of columns, `pitch` keys long, of which those behind the last key are zeros."""
        blocks = -(-self.columns // self.lanes)
        by_squares = self.v.is_strided and self.v.stride == 1 and self.columns >= self.lanes
        turn = self._by_squares if by_squares else self._one_by_one
        last = max(0, self.columns - self.lanes)  # the last block overlaps the one before it

        def block(number: Value) -> None:
            copy, column = f.idiv(number, blocks), f.imin(f.imul(f.irem(number, blocks), self.lanes), last)
            target = self.room_v.at(f, (copy, column), (self.columns * self.pitch, self.pitch))
            turn(f, self.v.copy(f, copy), target, column)

        f.loop(f.begin, f.end, 1, block)

    def _one_by_one(self, f: Function, source: Value, target: Value, first: Index) -> None:
        """The columns of a block, number by number."""
        room, there = (f.imin(self.lanes, f.isub(size, first)) for size in (self.columns, self.p.width))
        f.set_memory(target, 0, f.imul(room, PAIR * self.pitch))

        def one(column: Index) -> None:
            def number(key: Index) -> None:
                place = self.v.place(f, key, f.iadd(first, column))
                f.store(f.load(I16, f.gep(source, place, I16)), target, f.iadd(f.imul(column, self.pitch), key))

            f.loop(0, self.count, 1, number)

        f.loop(0, f.imax(0, there), 1, one)

    def _by_squares(self, f: Function, source: Value, target: Value, first: Index) -> None:
        """The columns of a block, a vector of pairs of keys at a time: these in memory, then transposed."""
        lanes, room = self.lanes, self.room_p.at(f)
        turn, sizes = PanelTranspose(lanes, PAIRS, PAIRS), Sizes(lanes, lanes, lanes, self.pitch // PAIR)

        def square(key: Index) -> None:
            f.loop(0, lanes, 1, lambda number: pair(key, number), nonempty=True)
            turn.emit(f, room, f.gep(target, key, I16), sizes)

        def pair(key: Index, number: Index) -> None:
            line = f.iadd(key, f.imul(number, PAIR))
            low, high = (self._bits(f, source, first, f.iadd(line, half)) for half in range(PAIR))
            f.store(f.binary("or", low, f.binary("shl", high, f.const(16, low.type))), room, f.imul(number, lanes))

        f.loop(0, self.pitch, PAIR * lanes, square, nonempty=True)

    def _bits(self, f: Function, source: Value, first: Index, key: Index) -> Value:
        """Those of a vector of columns of a key; zeros where there are none."""
        type_, place = VectorType(self.lanes, I16), f.gep(source, f.iadd(f.imul(key, self.v.row_stride), first), I16)
        if self.columns == self.p.width and self.pitch == self.count:
            return f.cast("zext", f.load(type_, place), I32)
        there = f.select(
            f.cmp("slt", f.index(key), f.const(self.count)), f.index(f.isub(self.p.width, first)), f.const(0)
        )
        value = f.masked_load(type_, place, 0, f.tail_mask(there, self.lanes), f.const(0, type_))
        return f.cast("zext", value, I32)


class _UnitTile(Tile):
    """A tile of queries, by either."""

    a: UnitAttention

    @property
    def pairs(self) -> VectorType:
        """A vector of pairs."""
        return VectorType(self.lanes, I32)

    def _bring_queries(self) -> None:
        """The queries as rows of vectors of pairs, one for each pair of the depth. Behind the last one it is there
        again."""
        f, a = self.f, self.a
        rows = a.queries
        base = rows.copy(f, rows.number(f, self.outer, self.p.sizes))
        whole, zero = rows.width // PAIR, f.const(0, self.pairs)
        f.loop(whole * self.width, a.depth // PAIR * self.width, self.lanes, lambda at: f.store(zero, a.q, at))
        if rows.is_strided and rows.stride == 1 and rows.row_stride % PAIR == rows.width % PAIR == 0:
            sizes = Sizes(self.valid, rows.row_stride // PAIR, whole, self.width)
            start = f.gep(base, rows.place(f, self.first, 0), I16)
            PanelTranspose(self.lanes, PAIRS, PAIRS).emit(f, start, a.q, sizes)
            return

        def one(query: Index) -> None:
            row = f.imin(f.iadd(self.first, query), a.rows - 1)

            def number(k: Index) -> None:
                pair, half = f.idiv(k, PAIR), f.irem(k, PAIR)
                place = f.iadd(f.imul(f.iadd(f.imul(pair, self.width), query), PAIR), half)
                f.store(f.load(I16, f.gep(base, rows.place(f, row, k), I16)), f.gep(a.q, place, I16), 0)

            f.loop(0, rows.width, 1, number)

        f.loop(0, self.vectors * self.lanes, 1, one)

    def _weights(self, begin: Value, count: Index, references: Sequence[Value]) -> list[Value]:
        """The weights in pairs, over their scores, and their sums. Keys that are none have no weight."""
        f, p, w = self.f, self.p, self.a.w
        end = self._end(count)
        lowest = f.const(-math.inf, self.type)

        def no_key(line: Index) -> None:
            for v in range(self.vectors):
                f.store(lowest, w, self._at(line, v))

        f.loop(count, end, 1, no_key)

        def pair(number: Index, *sums: Value) -> list[Value]:
            lines = [f.iadd(f.imul(number, PAIR), half) for half in range(PAIR)]
            keys = [f.imin(f.iadd(begin, line), self.a.count - 1) for line in lines]
            result = []
            for v, sum_ in enumerate(sums):
                weights = []
                for line, key in zip(lines, keys, strict=True):
                    with p.e.predicated(self._predicate(v)):
                        score = f.load(self.type, w, self._at(line, v))
                        place = self._place(v, affine_of(key, self.a.count - 1))
                        added, weight = p.weight_at(place, score, references[v], rounds=not self.a.unit.rounding)
                    sum_ = f.fadd(sum_, added)
                    weights.append(weight)
                f.store(self._paired(*weights), w, self._at(number, v))
                result.append(sum_)
            return result

        start = [f.const(0.0, self.type)] * self.vectors
        return f.loop(0, f.idiv(end, PAIR), 1, pair, start, nonempty=True)

    def _paired(self, low: Value, high: Value) -> Value:
        """Pairs of bf16: of numbers that have been rounded, or where an instruction does that."""
        f, lanes, type_ = self.f, self.lanes, self.pairs
        if rounding := self.a.unit.rounding:
            both = f.target_intrinsic(rounding, high, low, result=VectorType(2 * lanes, BF16))
            order = [lane + half for lane in range(lanes) for half in (0, lanes)]
            return f.bitcast(f.shuffle(both, both, order), type_)
        low, high = (f.bitcast(value, type_) for value in (low, high))
        low = f.binary("lshr", low, f.const(16, type_))
        return f.binary("or", low, f.binary("and", high, f.const(0xFFFF0000, type_)))

    def _end(self, count: Index) -> Index:
        """So many keys, up to whole steps."""
        f, step = self.f, self.a.step
        return f.imul(f.idiv(f.iadd(count, step - 1), step), step)


class _PairsOfVectors(_UnitTile):
    def _sums(self, height: int, steps: Index, left: Value, strides: tuple[int, int], right: Value) -> list[Value]:
        """Products of rows of numbers and the vectors of a tile, pair by pair. `steps`: numbers of a row."""
        f, n, unit = self.f, self.vectors, self.a.unit
        across, _ = strides
        assert isinstance(unit, VectorUnit)

        def step(k: Index, *sums: Value) -> list[Value]:
            vectors = [f.load(self.pairs, right, self._at(k, v)) for v in range(n)]
            at = f.gep(left, f.imul(k, PAIR), I16)
            result = list(sums)
            for row in range(height):
                number = f.splat(f.load(I32, f.gep(at, row * across, I16), align=2), self.lanes)
                for v in range(n):
                    place = row * n + v
                    result[place] = unit.multiply(f, number, vectors[v], result[place])
            return result

        start = [f.const(0.0, self.type)] * (height * n)
        return f.loop(0, f.idiv(steps, PAIR), 1, step, start, nonempty=True)

    def _values(self, begin: Value, count: Index, scales: Sequence[Value]) -> None:
        """Scale the results, and add the values of a tile of keys with their weights."""
        f, a = self.f, self.a
        end = self._end(count)

        def lines(line: Index, _: Affine, height: int, __: Index | None) -> None:
            left = f.gep(self.v, f.iadd(f.imul(line, a.pitch), begin), I16)
            sums = self._sums(height, end, left, (a.pitch, 1), a.w)
            self._add(line, sums, scales)

        Split(self.p.width, -(-self.p.width // self.height)).emit(f, 0, None, lines)


class _TilesOfUnit(_UnitTile):
    """Registers: sums are 0 to 3, a tile of keys or of columns is 4, those of queries or of weights are 5 to 7."""

    def _products(self, begin: Value, count: Index) -> None:
        """Those of a tile of keys. The last ones may have been multiplied before."""
        f, a = self.f, self.a
        across = a.k.row_stride

        def lines(line: Index) -> None:
            line = f.isub(f.imin(f.iadd(line, SIDE), count), SIDE)
            start = f.gep(self.k, f.imul(f.iadd(begin, line), across), I16)
            for v in range(self.vectors):
                f.target_effect("llvm.x86.tilezero", f.const(v, I8))
            self._steps(a.depth, start, across, a.q)
            self._move(STORE, a.w, line)

        f.loop(0, count, SIDE, lines, nonempty=True)

    def _values(self, begin: Value, count: Index, scales: Sequence[Value]) -> None:
        """Scale the results, and add the values of a tile of keys with their weights."""
        f, a = self.f, self.a
        end = self._end(count)

        def scale(line: Index) -> None:
            for v, factor in enumerate(scales):
                at = self._at(line, v)
                f.store(f.fmul(f.load(self.type, a.o, at), factor), a.o, at)

        def columns(line: Index) -> None:
            f.loop(line, f.iadd(line, SIDE), 1, scale)
            self._move(LOAD, a.o, line)
            self._steps(end, f.gep(self.v, f.iadd(f.imul(line, a.pitch), begin), I16), a.pitch, a.w)
            self._move(STORE, a.o, line)

        f.loop(0, a.columns, SIDE, columns, nonempty=True)

    def _steps(self, size: Index, left: Value, across: int, right: Value) -> None:
        """Add the products of 16 rows of numbers, of so many, and the vectors of a tile."""
        f, unit = self.f, self.a.unit
        numbers, bytes_ = f.const(4, I8), 4 * self.width

        def step(k: Index) -> None:
            f.target_effect(LOAD, numbers, f.gep(left, k, I16), f.const(2 * across))
            for v in range(self.vectors):
                lanes = f.const(5 + v % 3, I8)
                f.target_effect(LOAD, lanes, f.gep(right, self._at(f.idiv(k, PAIR), v), I32), f.const(bytes_))
                f.target_effect(unit.instruction, f.const(v, I8), numbers, lanes)

        f.loop(0, size, unit.depth, step, nonempty=True)

    def _move(self, how: str, room: Value, line: Index) -> None:
        """Load or store the sums."""
        for v in range(self.vectors):
            place = self.f.gep(room, self._at(line, v), F32)
            self.f.target_effect(how, self.f.const(v, I8), place, self.f.const(4 * self.width))
