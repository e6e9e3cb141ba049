"""Products on matrix units: AMX of x86-64, whose registers are tiles of 16 rows of 64 bytes.

An instruction adds to a tile of 16 x 16 sums of 32 bits the products of a tile of A, 16 rows of 64 bytes along the
contracted axis, and one of B, 16 groups of the contracted axis by 16 columns. A group is what fills 32 bits: two bf16,
or four bytes (Intel, "Intrinsics and tiles", Software Developer's Manual, volume 1, chapter 18).

    for block of rows, panel of 32 columns:        the phase's range
        for strip of 32 rows in block:
            for step of 16 groups:                  2 x 2 tiles of sums stay in registers
                load 2 tiles of A and 2 of B, multiply-add 4 times; prefetch a share of the next panel
            store the sums; epilogue

A phase before packs B into tiles, and A unless its rows already lie as tiles need them. Contracted axes are padded with
zeros to whole steps, rows and columns with anything: sums of theirs are not stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from stablehlo_py.backends.common.contraction import Axis, Contraction, Operand
from stablehlo_py.backends.common.loops import offset, unravel
from stablehlo_py.backends.cpu.kernels.arithmetic import Arithmetic
from stablehlo_py.backends.cpu.kernels.gemm import Epilogue, StoreTo
from stablehlo_py.backends.cpu.kernels.tiling import each_panel
from stablehlo_py.backends.cpu.kernels.transposing import transposed
from stablehlo_py.backends.cpu.target import AMX_BF16, AMX_INT8, CpuTarget
from stablehlo_py.codegen.builder import F32, I8, I16, I32, I64, Function, Index, ScalarType, Value, VectorType
from stablehlo_py.codegen.index import Affine, add, affine_of, linearize, scalar
from stablehlo_py.dialect.symint import IntLike

SIDE = 16  # rows of a tile, columns of a tile of sums, groups of the contracted axis
ROW_BYTES = 64
TILE = SIDE * ROW_BYTES // 4  # numbers of 32 bits
PANEL = STRIP = 2 * SIDE
BLOCK_BYTES = 1 << 19  # of A, which all panels of B meet while it is in the L2 cache
LEAST = 1 << 14  # products of a contraction that are worth packing
FULL = 0.5  # of each step, at least, so much has to be no padding


@dataclass(frozen=True)
class Unit:
    """What multiplies: `scalar` as operands lie in memory, `group` of them in 32 bits, the instruction by LLVM's
    name."""

    scalar: ScalarType
    group: int
    instruction: str

    @property
    def depth(self) -> int:
        """Elements of the contracted axis in one step."""
        return SIDE * self.group


def unit_of(contraction: Contraction, arithmetic: Arithmetic, target: CpuTarget) -> Unit | None:
    """The unit for operands of these types, if the target has one."""
    a, b = (operand.element for operand in (contraction.a, contraction.b))
    if arithmetic.complex or arithmetic.boolean or arithmetic.packed != 1:
        return None
    if arithmetic.accumulator == F32 and a.name == b.name == "bf16" and AMX_BF16 in target.matrix_units:
        return Unit(I16, 2, "llvm.x86.tdpbf16ps")
    bytes_ = all(each.kind == "int" and each.bits == each.storage.bits == 8 for each in (a, b))
    if arithmetic.accumulator == I32 and bytes_ and AMX_INT8 in target.matrix_units:
        signs = "".join("u" if each.unsigned else "s" for each in (a, b))
        return Unit(I8, 4, f"llvm.x86.tdpb{signs}d")
    return None


def fitting_unit(contraction: Contraction, arithmetic: Arithmetic, target: CpuTarget) -> Unit | None:
    """The unit that computes a contraction, where it pays."""
    unit = unit_of(contraction, arithmetic, target)
    if unit is None or not contraction.is_known or any(axis.tag for axis in contraction.k):
        return None
    m, n, inner = (int(axis.size) for axis in (contraction.m, contraction.n, _inner(contraction)))
    wide = m >= SIDE and n >= SIDE and m * n * int(contraction.depth) >= LEAST
    return unit if wide and inner >= FULL * -(-inner // unit.depth) * unit.depth else None


def _inner(contraction: Contraction) -> Axis:
    """The contracted axis that groups run along."""
    return max(contraction.k, key=lambda axis: axis.size)


def configure_tiles(f: Function) -> None:
    """From here on all tiles are whole ones, until they are released."""
    configuration = [1, *[0] * 15, *[ROW_BYTES, 0] * 8, *[0] * 16, *[SIDE] * 8, *[0] * 8]
    place = f.alloca(ROW_BYTES, I8)
    f.store(f.const_lanes(configuration, I8), place)
    f.target_effect("llvm.x86.ldtilecfg", place)


class UnitProduct:
    """A contraction on a matrix unit: its packing and compute phases."""

    def __init__(self, contraction: Contraction, unit: Unit, epilogue: Epilogue, accumulator: ScalarType) -> None:
        self.contraction, self.unit, self.epilogue, self.accumulator = contraction, unit, epilogue, accumulator
        self.inner = _inner(contraction)
        self.others = [axis for axis in contraction.k if axis is not self.inner]
        self.m, self.n = int(contraction.m.size), int(contraction.n.size)
        self.room_a: Operand | None = None
        self.room_b: Operand | None = None

    @cached_property
    def steps_of_inner(self) -> int:
        """Steps along the innermost contracted axis, the last of which may be padded."""
        return -(-int(self.inner.size) // self.unit.depth)

    @cached_property
    def steps(self) -> int:
        """Steps of all contracted axes."""
        return self.steps_of_inner * math.prod(int(axis.size) for axis in self.others)

    @property
    def packs_a(self) -> bool:
        """Whether A is packed: tiles cannot be loaded from where it is."""
        whole = self.m % SIDE == 0 and self.inner.size % self.unit.depth == 0
        return not (whole and self.inner.a == 1)

    @property
    def panels(self) -> int:
        return -(-self.n // PANEL)

    @property
    def row_tiles(self) -> int:
        return -(-self.m // SIDE)

    @property
    def strips(self) -> int:
        """Strips of rows, the last of which may have fewer."""
        return -(-self.m // STRIP)

    @cached_property
    def block(self) -> int:
        """Strips of a block: even shares."""
        most = max(1, BLOCK_BYTES // (STRIP * self.steps * ROW_BYTES))
        blocks = -(-self.strips // most)
        return -(-self.strips // blocks)

    @property
    def blocks(self) -> int:
        return -(-self.strips // self.block)

    @property
    def iterations(self) -> int:
        """Of the compute phase."""
        return math.prod(int(axis.size) for axis in self.contraction.outer) * self.blocks * self.panels

    @property
    def cost(self) -> float:
        """Nanoseconds of one iteration: four instructions of 16 cycles a step, some hundred for the sums."""
        return self.block * (self.steps * 64 + 600) / 3.0

    # --- packing -----------------------------------------------------------------------------------------------------

    def size_of(self, side: str) -> int:
        """Numbers of 32 bits of a packed operand."""
        return self._copies(side) * self._tiles(side) * self.steps * TILE

    def _tiles(self, side: str) -> int:
        return self.row_tiles if side == "a" else 2 * self.panels

    def _copies(self, side: str) -> int:
        return math.prod(int(axis.size) for axis in self.contraction.outer if getattr(axis, side))

    def _by_tiles(self, side: str) -> bool:
        """Whether an iteration of the packing makes all steps of some tiles; else it makes some steps of all tiles, as
        operands are read along memory."""
        return getattr(self.inner, side) == 1

    def pack_iterations(self, side: str) -> int:
        """Of the packing of A or of B: tiles of rows, panels, or steps."""
        each = self.steps
        if self._by_tiles(side):
            each = self.row_tiles if side == "a" else self.panels
        return self._copies(side) * each

    def emit_pack(self, f: Function, side: str, number: Value, room: Operand) -> None:
        """Iteration `number` of the packing."""
        contraction, unit = self.contraction, self.unit
        axis = contraction.m if side == "a" else contraction.n
        size, across, width = int(axis.size), int(getattr(axis, side)), SIDE if side == "a" else PANEL
        own = [axis for axis in contraction.outer if getattr(axis, side)]
        several = self.pack_iterations(side) // self._copies(side)
        digits = unravel(f, f.idiv(number, several), [axis.size for axis in own])
        operand: Operand = getattr(contraction, side)
        source = operand.at(f, digits, [getattr(axis, side) for axis in own])
        target = room.at(f, digits, self.strides(side, own))
        part = f.irem(number, several)

        def tiles(at: Value, to: Value, place: Index, valid: int, depth: int) -> None:
            """One step of a panel, or of a tile of rows."""
            start = f.gep(at, f.imul(place, width * across), unit.scalar)
            end = f.gep(to, f.imul(place, self.steps * width // SIDE * TILE), I32)
            for half in range(-(-valid // SIDE)):
                first = f.gep(start, half * SIDE * across, unit.scalar)
                rows = self._tile(f, side, first, across, depth, min(SIDE, valid - half * SIDE))
                for row, value in enumerate(rows):
                    f.store(value, end, half * TILE + row * SIDE)

        def step(at: Value, to: Value, block: Index, body: Callable[[Value, Value, int], None], depth: int) -> None:
            """Step `block` along the innermost axis: `body` where it begins. `depth` of its elements are there."""
            start = f.gep(at, f.imul(block, unit.depth * int(getattr(self.inner, side))), unit.scalar)
            body(start, f.gep(to, f.imul(block, width // SIDE * TILE), I32), depth)

        if self._by_tiles(side):

            def panel(place: Index, valid: IntLike) -> None:
                def steps(at: Value, to: Value) -> None:
                    def body(start: Value, end: Value, depth: int) -> None:
                        tiles(start, end, place, int(valid), depth)

                    whole, rest = divmod(int(self.inner.size), unit.depth)
                    f.loop(0, whole, 1, lambda block: step(at, to, block, body, unit.depth))
                    if rest:
                        step(at, to, whole, body, rest)

                self._nest(f, side, source, target, width, self.others, steps)

            each_panel(f, part, size, width, panel)
            return
        *outer, block = unravel(f, part, [*(axis.size for axis in self.others), self.steps_of_inner])
        steps = [int(getattr(axis, side)) for axis in self.others]
        at = f.gep(source, offset(f, outer, steps), unit.scalar)
        to = f.gep(target, f.imul(f.isub(part, block), width // SIDE * TILE), I32)

        def all_tiles(start: Value, end: Value, depth: int) -> None:
            whole, rest = divmod(size, width)
            f.loop(0, whole, 1, lambda place: tiles(start, end, place, width, depth))
            if rest:
                tiles(start, end, whole, rest, depth)

        each_panel(
            f, block, self.inner.size, unit.depth, lambda at_block, depth: step(at, to, at_block, all_tiles, int(depth))
        )

    def strides(self, side: str, axes: Sequence[Axis]) -> list[int]:
        """Steps of outer axes in a packed operand: copies along axes that the operand lacks are not made."""
        step = self.size_of(side)
        strides = []
        for axis in axes:
            step //= int(axis.size) if getattr(axis, side) else 1
            strides.append(step if getattr(axis, side) else 0)
        return strides

    def _nest(
        self,
        f: Function,
        side: str,
        source: Value,
        target: Value,
        width: int,
        axes: Sequence[Axis],
        body: Callable[[Value, Value], None],
    ) -> None:
        """Loops over contracted axes but the innermost, around `body(source, target)` there."""
        if not axes:
            body(source, target)
            return
        first, *inner = axes
        below = self.steps_of_inner * math.prod(int(axis.size) for axis in inner)

        def turn(index: Index) -> None:
            at = f.gep(source, f.imul(index, getattr(first, side)), self.unit.scalar)
            to = f.gep(target, f.imul(index, below * width // SIDE * TILE), I32)
            self._nest(f, side, at, to, width, inner, body)

        f.loop(0, first.size, 1, turn)

    def _tile(self, f: Function, side: str, at: Value, across: int, depth: int, valid: int) -> Sequence[Value]:
        """The 16 rows of a tile, as the instruction wants them: of A along the contracted axis, of B across it. Rows or
        columns, of which `valid` are there, are `across` apart; `depth` elements of the contracted axis are there."""
        lanes = SIDE * self.unit.group
        if getattr(self.inner, side) == 1:
            mask = None if depth == lanes else f.tail_mask(depth, lanes)
            rows = [self._load(f, at, min(row, valid - 1) * across, lanes, mask) for row in range(SIDE)]
            rows = [f.bitcast(row, VectorType(SIDE, I32)) for row in rows]
            return rows if side == "a" else transposed(f, rows)
        columns = [self._group(f, side, at, across, group, depth, valid) for group in range(SIDE)]
        return columns if side == "b" else transposed(f, columns)

    def _group(self, f: Function, side: str, at: Value, across: int, group: int, depth: int, valid: int) -> Value:
        """One group of every row or column."""
        unit, along = self.unit, int(getattr(self.inner, side))
        mask = None if valid == SIDE else f.tail_mask(valid, SIDE)
        type_ = VectorType(SIDE, unit.scalar)
        parts = []
        for number in range(group * unit.group, (group + 1) * unit.group):
            if number >= depth:
                parts.append(f.const(0, type_))
            elif across == 1:
                parts.append(self._load(f, at, number * along, SIDE, mask))
            else:
                places = f.const_lanes([min(lane, valid - 1) * across for lane in range(SIDE)], I64)
                parts.append(f.gather(type_, f.gep(at, number * along, unit.scalar), places))
        while len(parts) > 1:
            parts = [_interleaved(f, *parts[i : i + 2]) for i in range(0, len(parts), 2)]
        return parts[0]

    def _load(self, f: Function, at: Value, offset: int, lanes: int, mask: Value | None) -> Value:
        type_ = VectorType(lanes, self.unit.scalar)
        if mask is None:
            return f.load(type_, at, offset)
        return f.masked_load(type_, at, offset, mask, f.const(0, type_))

    # --- computing ---------------------------------------------------------------------------------------------------

    def emit(self, f: Function) -> None:
        """The compute phase."""
        buffer = f.alloca(STRIP * PANEL, self.accumulator)
        configure_tiles(f)
        outer = self.contraction.outer

        def iteration(number: Value) -> None:
            *digits, block, panel = unravel(f, number, [*(axis.size for axis in outer), self.blocks, self.panels])

            def one(at: Index, valid: IntLike) -> None:
                _Panel(self, f, buffer, digits, block, at, int(valid)).emit()

            each_panel(f, panel, self.n, PANEL, one)

        f.loop(f.begin, f.end, 1, iteration)
        f.target_effect("llvm.x86.tilerelease")


def _interleaved(f: Function, a: Value, b: Value) -> Value:
    """Lanes of two vectors in turn, each pair as one number of twice the bits."""
    lanes, bits = a.type.lanes, a.type.element.bits
    both = f.shuffle(a, b, [lane // 2 + lanes * (lane % 2) for lane in range(2 * lanes)])
    return f.bitcast(both, VectorType(lanes, {8: I16, 16: I32}[bits]))


class _Panel:
    """A panel of `valid` columns against a block of rows, at a place of the outer axes."""

    def __init__(
        self,
        product: UnitProduct,
        f: Function,
        buffer: Value,
        outer: Sequence[Index],
        block: Index,
        panel: Index,
        valid: int,
    ) -> None:
        self.product, self.f, self.buffer, self.block, self.valid = product, f, buffer, block, valid
        contraction = product.contraction
        axes = contraction.outer
        self.places = [affine_of(index, axis.size - 1) for index, axis in zip(outer, axes, strict=True)]
        start = f.imul(panel, PANEL)
        whole = product.n // PANEL * PANEL
        self.n = affine_of(start, whole - PANEL if valid == PANEL else whole, PANEL)
        self.column_tiles = -(-valid // SIDE)
        self.share = -(-2 * SIDE // product.block)  # cache lines of the next panel that a step of a strip prefetches
        self.a = self._base("a", product.room_a, outer)
        self.b = f.gep(self._base("b", product.room_b, outer), f.imul(panel, 2 * product.steps * TILE), I32)

    def _base(self, side: str, room: Operand | None, outer: Sequence[Index]) -> Value:
        """Where an operand begins at the place of the outer axes: where it lies, or was packed."""
        product, contraction = self.product, self.product.contraction
        if room is None:
            operand: Operand = getattr(contraction, side)
            return operand.at(self.f, outer, contraction.outer_steps(side))
        return room.at(self.f, outer, product.strides(side, contraction.outer))

    def emit(self) -> None:
        """All strips of the block."""
        f, product = self.f, self.product
        whole, rest = divmod(product.m, STRIP)
        first = f.imul(self.block, product.block)
        last = f.imin(f.iadd(first, product.block), whole)
        f.loop(first, last, 1, lambda strip: self._strip(f.imul(strip, STRIP), whole * STRIP - STRIP, STRIP))
        if rest:
            at_end = f.cmp("eq", f.index(self.block), f.const(product.blocks - 1))
            f.if_(at_end, partial(self._strip, whole * STRIP, whole * STRIP, rest))

    def _strip(self, row: Index, highest: int, rows: int) -> None:
        """`rows` rows from `row` on, which is a multiple of the strip's and at most `highest`."""
        f = self.f
        row_tiles = -(-rows // SIDE)
        sums = [(r, c) for r in range(row_tiles) for c in range(self.column_tiles)]
        for r, c in sums:
            f.target_effect("llvm.x86.tilezero", self._tile(2 * r + c))
        self._steps(row, row_tiles)
        m = affine_of(row, highest, STRIP)
        epilogue = self.product.epilogue
        whole = rows == row_tiles * SIDE and self.valid == self.column_tiles * SIDE
        if whole and isinstance(epilogue, StoreTo) and epilogue.operand.element.storage == self.product.accumulator:
            for r, c in sums:
                self._store_tile(2 * r + c, epilogue, add(f, m, r * SIDE), add(f, self.n, c * SIDE))
            return
        for r, c in sums:
            place = f.gep(self.buffer, r * SIDE * PANEL + c * SIDE, self.product.accumulator)
            f.target_effect("llvm.x86.tilestored64", self._tile(2 * r + c), place, f.const(4 * PANEL))

        def finish(line: Index) -> None:
            for c in range(self.column_tiles):
                value = f.load(VectorType(SIDE, self.product.accumulator), self.buffer, self._at(line, c))
                left = self.valid - c * SIDE
                mask = f.tail_mask(left, SIDE) if left < SIDE else None
                columns = add(f, self.n, Affine(c * SIDE, lane=1))
                place = [*self.places, add(f, m, affine_of(line, rows - 1)), columns]
                epilogue.store(f, place, (value,), SIDE, mask)

        f.loop(0, rows, 1, finish)

    def _at(self, line: Index, column_tile: int) -> Index:
        return self.f.iadd(self.f.imul(line, PANEL), column_tile * SIDE)

    def _store_tile(self, number: int, epilogue: StoreTo, m: Affine, n: Affine) -> None:
        f, axes, operand = self.f, epilogue.axes, epilogue.operand
        at = linearize(f, [*self.places, m, n], [axis.c for axis in axes])
        place = f.gep(operand.at(f), scalar(f, at), operand.element.storage)
        f.target_effect("llvm.x86.tilestored64", self._tile(number), place, f.const(4 * int(axes[-2].c)))

    def _steps(self, row: Index, row_tiles: int) -> None:
        """Add all products of a strip to its sums."""
        f, product = self.f, self.product
        unit, contraction = product.unit, product.contraction
        # Each strip of the block has its share of the next panel.
        number = f.isub(f.idiv(row, STRIP), f.imul(self.block, product.block))
        self.ahead = f.gep(self.b, f.iadd(2 * product.steps * TILE, f.imul(number, self.share * SIDE)), I32)
        if product.room_a:
            packed = f.gep(self.a, f.imul(row, product.steps * TILE // SIDE), I32)

            def step(k: Index) -> None:
                place = f.gep(packed, f.imul(k, TILE), I32)
                self._step(place, k, row_tiles, product.steps * TILE, ROW_BYTES, I32)

            f.loop(0, product.steps, 1, step)
            return
        start = f.gep(self.a, f.imul(row, contraction.m.a), unit.scalar)
        self._nest(start, 0, product.others, row_tiles)

    def _nest(self, at: Value, number: Index, axes: Sequence[Axis], row_tiles: int) -> None:
        """The steps from `number` on, along these contracted axes and the innermost one, of A's rows where they are."""
        f, product = self.f, self.product
        unit, across = product.unit, int(product.contraction.m.a)
        if not axes:

            def turn(k: Index) -> None:
                place = f.gep(at, f.imul(k, unit.depth), unit.scalar)
                stride = across * unit.scalar.bits // 8
                self._step(place, f.iadd(number, k), row_tiles, SIDE * across, stride, unit.scalar)

            f.loop(0, product.steps_of_inner, 1, turn)
            return
        first, *inner = axes
        below = product.steps_of_inner * math.prod(int(axis.size) for axis in inner)

        def one(index: Index) -> None:
            there = f.gep(at, f.imul(index, first.a), unit.scalar)
            self._nest(there, f.iadd(number, f.imul(index, below)), inner, row_tiles)

        f.loop(0, first.size, 1, one)

    def _step(self, a: Value, step: Index, row_tiles: int, second: int, stride: int, scalar_a: ScalarType) -> None:
        """One step: the tiles of A are at `a` and `second` further, their rows `stride` bytes apart."""
        f = self.f
        b = f.gep(self.b, f.imul(step, 2 * TILE), I32)
        for line in range(self.share):
            f.prefetch(self.ahead, f.iadd(f.imul(step, 2 * TILE), line * SIDE), I32, locality=2)
        of_a = [f.gep(a, r * second, scalar_a) for r in range(row_tiles)]
        f.target_effect("llvm.x86.tileloadd64", self._tile(4), of_a[0], f.const(stride))
        for c in range(self.column_tiles):
            place = f.gep(b, c * TILE, I32)
            f.target_effect("llvm.x86.tileloadd64", self._tile(6 + c), place, f.const(ROW_BYTES))
            f.target_effect(self.product.unit.instruction, self._tile(c), self._tile(4), self._tile(6 + c))
        if row_tiles == 2:
            f.target_effect("llvm.x86.tileloadd64", self._tile(5), of_a[1], f.const(stride))
            for c in range(self.column_tiles):
                f.target_effect(self.product.unit.instruction, self._tile(2 + c), self._tile(5), self._tile(6 + c))

    def _tile(self, number: int) -> Value:
        """A register: sums are 0 to 3, tiles of A 4 and 5, of B 6 and 7."""
        return self.f.const(number, I8)
