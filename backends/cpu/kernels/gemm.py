"""The compute phase of a contraction: register tiles over panels.

One iteration of the phase is a block of row tiles times one panel of lanes, for one place of the outer axes:

    for panel, block:                     the phase's range
        for tile of rows in block:
            for k:                        accumulators stay in registers
                vectors of B; for each row: broadcast A, multiply-add
            epilogue, store

Where the contracted axes are long, a loop over chunks of them goes around the one over tiles, so that a chunk of the
panel stays in the cache while all rows meet it. Each chunk's sum is added to a buffer, which also bounds the rounding
errors of long sums (blocked summation: Higham, "Accuracy and Stability of Numerical Algorithms", section 4.2).

Complex numbers run through the same tile: a row of A becomes two (real and imaginary parts), B stays interleaved, and
the two sums are combined at the end. The tile's height and width, and what is packed, are decided in tiling.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from stablehlo_py.backends.common.contraction import Axis, Contraction, Operand
from stablehlo_py.backends.common.loops import unravel
from stablehlo_py.backends.cpu.kernels.arithmetic import Arithmetic
from stablehlo_py.backends.cpu.kernels.tall_tiles import TallTiles
from stablehlo_py.backends.cpu.kernels.tiling import Plan, Split
from stablehlo_py.codegen.builder import I64, Function, Index, Value, vector
from stablehlo_py.codegen.index import Affine, add, address, affine_of, linearize, scalar
from stablehlo_py.dialect.size import IntLike, is_known, size_hint

UNROLLED_PRODUCTS = 160  # a tile of at most this many multiply-adds is straight-line code

Parts = tuple[Value, ...]  # the value of an element: one vector, or real and imaginary parts


class Epilogue(Protocol):
    """What happens to finished elements."""

    @property
    def inline(self) -> bool:
        """Cheap enough to be repeated for every vector of a tile."""

    def store(self, f: Function, place: Sequence[Affine], value: Parts, lanes: int, mask: Value | None) -> None:
        """Consume neighbouring elements of the result; place has one index per outer axis, then m, then n (with its
        lanes)."""


@dataclass(frozen=True)
class StoreTo:
    """Stores sums to memory, as they are: position = origin . strides of C."""

    operand: Operand
    axes: tuple[Axis, ...]
    inline: bool = True

    def store(self, f: Function, place: Sequence[Affine], value: Parts, lanes: int, mask: Value | None) -> None:
        at = linearize(f, place, [axis.c for axis in self.axes])
        pointer, offset = address(f, getattr(f, self.operand.pointer), at, self.operand.element.storage, len(value))
        offset += self.operand.offset
        whole = interleave(f, value) if len(value) == 2 else value[0]
        if mask is None:
            f.store(whole, pointer, offset)
        else:
            f.masked_store(whole, pointer, offset, widen_mask(f, mask, len(value)))


def interleave(f: Function, value: Parts) -> Value:
    """re, im -> re0 im0 re1 im1 ..."""
    real, imaginary = value
    lanes = real.type.lanes
    if lanes == 1:
        both = f.insert(f.poison(vector(2, real.type.element)), real, 0)
        return f.insert(both, imaginary, 1)
    return f.shuffle(real, imaginary, [lane // 2 + lanes * (lane % 2) for lane in range(2 * lanes)])


def widen_mask(f: Function, mask: Value, parts: int) -> Value:
    """Every lane `parts` times."""
    if parts == 1:
        return mask
    return f.shuffle(mask, mask, [lane // parts for lane in range(parts * mask.type.lanes)])


#: (function, address of B, panel, where to, steps of the slowest contracted axis or None for all)
PackPanel = Callable[[Function, "Gemm", Value, Index, Value, IntLike | None], None]
#: (row, the same as an index of m, height, rows that another tile has already or None)
_Tile = Callable[[Index, Affine, int, Index | None], None]


@dataclass(frozen=True)
class _Strip:
    """What the row tiles of one iteration share.

    Attributes:
        outer: the place of the outer axes. panel: the number of the panel of B.
        places, n: the same as indices of the result; n is the panel's first element.
        vectors: vectors of the panel. tail: valid elements of the last one; None where all are.
    """

    outer: tuple[Index, ...]
    panel: Index
    places: tuple[Affine, ...]
    n: Affine
    vectors: int
    tail: Index | None


class Gemm:
    """Emits the compute phase. `a` and `b` override the operands when they were packed (see packing.py)."""

    def __init__(self, contraction: Contraction, plan: Plan, arithmetic: Arithmetic, epilogue: Epilogue) -> None:
        self.contraction = contraction
        self.plan = plan
        self.arithmetic = arithmetic
        self.epilogue = epilogue
        self.packed_a: Operand | None = None
        self.packed_b: Operand | None = None
        # Where `inside` is 1, `own_panel` holds one panel of B, made by the iteration that uses it.
        self.inside: IntLike = 0
        self.own_panel: Operand | None = None
        self.pack_panel: PackPanel | None = None
        self.sums: Operand | None = None  # the buffer of unfinished sums
        self.vector = vector(plan.lanes, arithmetic.accumulator)
        self.step = plan.lanes // arithmetic.parts  # elements of n per vector
        self.panel = plan.panel(arithmetic)
        self.width = plan.lanes * plan.vectors
        self.panels = -(-contraction.n.size // self.panel)
        self.blocks = -(-plan.rows.tiles // plan.block)

    @property
    def in_chunks(self) -> bool:
        """Whether the contracted axes are walked in chunks, all rows of a block within each."""
        return is_known(self.plan.chunk) and self.plan.chunk < self.contraction.k[0].size

    @property
    def sums_size(self) -> IntLike:
        """Scalars of the buffer for unfinished sums of a block of rows."""
        assert isinstance(self.plan.rows, Split)
        return self.plan.block * (self.plan.rows.base + bool(self.plan.rows.extra)) * self.width

    # --- the range ---------------------------------------------------------------------------------------------------

    def _digits(self) -> list[tuple[int | str, IntLike]]:
        """The iteration number's digits, slowest first: outer axes by position, "block", "panel"."""
        outer = list(enumerate(self.contraction.outer))
        both: list[tuple[int | str, IntLike]] = [(i, axis.size) for i, axis in outer if axis.a and axis.b]
        rows: list[tuple[int | str, IntLike]] = [(i, axis.size) for i, axis in outer if not axis.b]
        rows.append(("block", self.blocks))
        lanes: list[tuple[int | str, IntLike]] = [(i, axis.size) for i, axis in outer if axis.b and not axis.a]
        lanes.append(("panel", self.panels))
        return both + (lanes + rows if self.plan.panels_outside else rows + lanes)

    @property
    def iterations(self) -> IntLike:
        return math.prod(size for _, size in self._digits())

    @property
    def cost(self) -> float:
        """Nanoseconds of one iteration, at one multiply-add of a vector per cycle."""
        tall = self.plan.rows
        if isinstance(tall, TallTiles):
            rows: float = min(tall.hint, self.plan.block * tall.height) * self.arithmetic.parts
        else:
            rows = size_hint(self.contraction.m.size) / size_hint(self.blocks) * self.arithmetic.parts
        vectors = size_hint(self.contraction.n.size) / self.step / size_hint(self.panels)
        return (rows * vectors * (size_hint(self.contraction.depth) + 3) + 30) / 3.0

    def emit(self, f: Function) -> None:
        """The body of the phase function."""

        def iteration(number: Value) -> None:
            names, sizes = zip(*self._digits(), strict=True)
            digits = dict(zip(names, unravel(f, number, sizes), strict=True))
            outer = [digits[i] for i in range(len(self.contraction.outer))]
            self._iteration(f, outer, digits["block"], digits["panel"])

        f.loop(f.begin, f.end, 1, iteration)
        f.ret()

    def _iteration(self, f: Function, outer: list[Index], block: Index, panel: Index) -> None:
        remainder = self.contraction.n.size % self.panel
        whole = self.contraction.n.size // self.panel
        vectors = self.plan.vectors
        if not is_known(remainder):
            valid = f.isub(self.contraction.n.size, f.imul(panel, self.panel))
            enough = f.cmp("sge", f.index(valid), f.const(self.panel))
            f.if_(
                enough,
                lambda: self._rows(f, outer, block, panel, vectors, None),
                lambda: self._short_panel(f, outer, block, panel, vectors, valid),
            )
            return

        def full() -> None:
            self._rows(f, outer, block, panel, vectors, None)

        def last() -> None:
            used = int(-(-remainder // self.step))
            tail = remainder - (used - 1) * self.step
            mask = None if tail == self.step else tail
            self._rows(f, outer, block, whole, used, mask)  # a constant panel number: the last one

        if not remainder:
            full()
        elif not whole:
            last()
        else:
            f.if_(f.cmp("slt", f.index(panel), f.const(whole)), full, last)

    def _short_panel(
        self, f: Function, outer: list[Index], block: Index, panel: Index, vectors: int, valid: Index
    ) -> None:
        """A panel of `valid` columns, which up to so many vectors hold."""
        if vectors == 1:
            self._rows(f, outer, block, panel, 1, valid)
            return
        before = (vectors - 1) * self.step
        more = f.cmp("sgt", f.index(valid), f.const(before))
        tail = f.isub(valid, before)
        f.if_(
            more,
            lambda: self._rows(f, outer, block, panel, vectors, tail),
            lambda: self._short_panel(f, outer, block, panel, vectors - 1, valid),
        )

    def _rows(
        self, f: Function, outer: list[Index], block: Index, panel: Index, vectors: int, tail: Index | None
    ) -> None:
        """All row tiles of a block against a panel of `vectors` vectors, the last of which has `tail` valid elements
        (None: all)."""
        first: Index = f.imul(block, self.plan.block)
        last: Index = f.imin(f.iadd(first, self.plan.block), self.plan.rows.tiles)
        if self.blocks == 1:
            first, last = 0, self.plan.rows.tiles
        start = f.imul(panel, self.panel)
        whole = self.contraction.n.size // self.panel * self.panel
        n = affine_of(start, whole - self.panel if tail is None else whole, self.panel)
        axes = self.contraction.outer
        places = [affine_of(index, axis.size - 1) for index, axis in zip(outer, axes, strict=True)]
        strip = _Strip(tuple(outer), panel, tuple(places), n, vectors, tail)
        if self.in_chunks:
            self._by_chunks(f, strip, first, last)
            return
        a, b = self._addresses(f, strip, 0, None)

        def tile(row: Index, m: Affine, height: int, skip: Index | None) -> None:
            sums = [f.const(0, self.vector)] * (height * self.arithmetic.parts * vectors)
            packed_row = f.iadd(row, skip or 0) if self.packed_a else row
            sums = self._products(f, strip, a, b, packed_row, height, sums, self._depths(f, strip.places))
            self._finish(f, strip, m, sums, height, skip)

        self._each_tile(f, first, last, tile)

    def _by_chunks(self, f: Function, strip: _Strip, first: Index, last: Index) -> None:
        """All row tiles against one chunk of the panel, then against the next; sums add up in `self.sums`."""
        rows, parts, lanes = self.plan.rows, self.arithmetic.parts, self.plan.lanes
        assert isinstance(rows, Split) and self.sums is not None and parts == 1
        begin, end = (f.iadd(f.imul(tile, rows.base), f.imin(tile, rows.extra)) for tile in (first, last))
        buffer = f.gep(getattr(f, self.sums.pointer), self.sums.offset, self.arithmetic.accumulator)
        width = strip.vectors * lanes
        zero = f.const(0, self.vector)

        def at(row: Index, v: int) -> Index:
            return f.iadd(f.imul(f.isub(row, begin), width), v * lanes)

        def clear(row: Index) -> None:
            for v in range(strip.vectors):
                f.store(zero, buffer, at(row, v))

        def chunk(start: Index, steps: IntLike) -> None:
            a, b = self._addresses(f, strip, start, steps)
            sizes: list[Index] = [steps, *(axis.size for axis in self.contraction.k[1:])]

            def tile(row: Index, m: Affine, height: int, _: Index | None) -> None:
                sums = self._products(f, strip, a, b, row, height, [zero] * (height * strip.vectors), sizes, start)
                places = [at(f.iadd(row, line), v) for line in range(height) for v in range(strip.vectors)]
                for place, value in zip(places, sums, strict=True):
                    f.store(self.arithmetic.add(f, f.load(self.vector, buffer, place), value), buffer, place)

            self._each_tile(f, first, last, tile)

        def finish(row: Index) -> None:
            sums = [f.load(self.vector, buffer, at(row, v)) for v in range(strip.vectors)]
            self._finish(f, strip, affine_of(row, rows.size - 1), sums, 1)

        steps, rest = self.plan.chunk, self.contraction.k[0].size % self.plan.chunk
        whole = self.contraction.k[0].size - rest
        f.loop(begin, end, 1, clear)
        f.loop(0, whole, steps, lambda start: chunk(start, steps))
        if rest:
            chunk(whole, rest)
        f.loop(begin, end, 1, finish)

    def _each_tile(self, f: Function, first: Index, last: Index, tile: _Tile) -> None:
        """Call `tile` for the row tiles first..last."""
        rows = self.plan.rows
        if isinstance(rows, TallTiles):
            end = f.imin(f.imul(last, rows.height), rows.size)

            def tall(row: Index, height: int, skip: Index | None) -> None:
                tile(row, affine_of(row, rows.size - height), height, skip)

            rows.emit(f, f.imul(first, rows.height), end, tall)
            return

        def tiles(height: int, offset: int, begin: Index, end: Index) -> None:
            def one(number: Index) -> None:
                row = f.iadd(f.imul(number, height), offset)
                tile(row, affine_of(row, rows.size - height, math.gcd(height, offset)), height, None)

            f.loop(begin, end, 1, one)

        if rows.extra:
            tiles(rows.base + 1, 0, first, f.imin(last, rows.extra))
        tiles(rows.base, rows.extra, f.imax(first, rows.extra) if rows.extra else first, last)

    def _addresses(self, f: Function, strip: _Strip, start: Index, steps: IntLike | None) -> tuple[Value, Value]:
        """Where A and the strip's panel of B begin, at step `start` of the slowest contracted axis. A panel that only
        this iteration uses is packed now: `steps` of that axis, None: all."""
        contraction, outer = self.contraction, strip.outer
        slowest, inner = contraction.k[0], math.prod(axis.size for axis in contraction.k[1:])
        a = self._base(f, self.packed_a or contraction.a, outer, "a")
        if not self.packed_a:
            a = f.gep(a, f.imul(start, slowest.a), contraction.a.element.storage)
        shared = None
        if self.packed_b:
            shared = self._base(f, self.packed_b, outer, "b")
            offset = f.iadd(f.imul(strip.panel, self.panel_size), f.imul(start, inner * self.width))
            shared = f.gep(shared, offset, self.packed_b.element.storage)
            if not self.own_panel:
                return a, shared
        b = self._base(f, contraction.b, outer, "b")
        b = f.gep(b, f.imul(start, slowest.b), contraction.b.element.storage)
        if not (self.own_panel and self.pack_panel):
            return a, f.gep(b, f.imul(strip.panel, self.panel * contraction.n.b), contraction.b.element.storage)
        own = f.gep(getattr(f, self.own_panel.pointer), self.own_panel.offset, self.own_panel.element.storage)
        pack = partial(self.pack_panel, f, self, b, strip.panel, own, steps)
        if shared is None:
            pack()
            return a, own
        is_inside = f.cmp("ne", f.index(self.inside), f.const(0))
        f.if_(is_inside, pack)
        return a, f.select(is_inside, own, shared)

    @property
    def is_b_packed(self) -> bool:
        """Whether tiles read packed panels of B."""
        return self.packed_b is not None or self.own_panel is not None

    def _base(self, f: Function, operand: Operand, outer: Sequence[Index], side: str) -> Value:
        """The operand's address at a place of the outer axes."""
        packed = operand is self.packed_a or operand is self.packed_b
        offset: Index = operand.offset
        strides = self.packed_strides(side) if packed else [getattr(axis, side) for axis in self.contraction.outer]
        for index, stride in zip(outer, strides, strict=True):
            offset = f.iadd(offset, f.imul(index, stride))
        return f.gep(getattr(f, operand.pointer), offset, operand.element.storage)

    def packed_size(self, side: str) -> IntLike:
        """Scalars of a packed operand at one place of the outer axes."""
        if side == "a":
            tall = self.plan.rows
            rows = tall.tiles * tall.height if isinstance(tall, TallTiles) else self.contraction.m.size
            return rows * self.contraction.depth * self.arithmetic.parts
        return self.panels * self.panel_size

    @property
    def panel_size(self) -> IntLike:
        """Scalars of a packed panel of B."""
        return self.contraction.depth * self.width

    def packed_strides(self, side: str) -> list[IntLike]:
        """Steps of the outer axes in a packed operand: copies along axes that the operand lacks are not made."""
        strides: list[IntLike] = []
        step = self.packed_size(side)
        for axis in reversed(self.contraction.outer):
            strides.append(step if getattr(axis, side) else 0)
            step *= axis.size if getattr(axis, side) else 1
        return strides[::-1]

    # --- the register tile -------------------------------------------------------------------------------------------

    def _products(
        self,
        f: Function,
        strip: _Strip,
        a: Value,
        b: Value,
        row: Index,
        height: int,
        sums: Sequence[Value],
        sizes: Sequence[Index],
        start: Index = 0,
    ) -> list[Value]:
        """`sums` of a tile, and the products of `sizes` steps of the contracted axes from step `start` of the slowest;
        `b` points there already, `a` where it is not packed. `row` is the tile's first, in a packed A the first that no
        other tile has."""
        contraction, parts, vectors, tail = self.contraction, self.arithmetic.parts, strip.vectors, strip.tail
        if self.packed_a:
            operand_a = self.packed_a
            row_stride: IntLike = parts
            steps_a = dense_steps(contraction.k, height * parts)
            offset = f.iadd(f.imul(row, contraction.depth * parts), f.imul(start, steps_a[0]))
            a = f.gep(a, offset, operand_a.element.storage)
        else:
            operand_a = contraction.a
            a = f.gep(a, f.imul(row, contraction.m.a), operand_a.element.storage)
            row_stride, steps_a = contraction.m.a, [axis.a for axis in contraction.k]
        operand_b, width = self.packed_b or self.own_panel or contraction.b, self.width
        steps_b = dense_steps(contraction.k, width) if self.is_b_packed else [axis.b for axis in contraction.k]
        masks = [None if self.is_b_packed else self._mask(f, tail, v, vectors, parts) for v in range(vectors)]

        def products(a_at: Value, b_at: Value, sums: Sequence[Value]) -> list[Value]:
            if self.plan.prefetch and operand_b is contraction.b:
                for cache_line in range(0, width * operand_b.element.storage.bits // 8, 64):
                    f.prefetch(
                        b_at, width + cache_line * 8 // operand_b.element.storage.bits, operand_b.element.storage
                    )
            lanes = self.plan.lanes
            columns = [self.arithmetic.load(f, operand_b, b_at, v * lanes, lanes, masks[v]) for v in range(vectors)]
            result = list(sums)
            for line in range(height * parts):
                offset = line // parts * row_stride + line % parts
                one = f.splat(self.arithmetic.load(f, operand_a, a_at, offset, 1), lanes)
                for v in range(vectors):
                    position = line * vectors + v
                    result[position] = self.arithmetic.multiply_add(f, one, columns[v], result[position])
            return result

        unroll = is_known(contraction.depth) and contraction.depth * len(sums) <= UNROLLED_PRODUCTS
        unroll = unroll and all(isinstance(size, int) for size in sizes)
        return contract(f, sizes, (a, steps_a, operand_a), (b, steps_b, operand_b), sums, products, unroll)

    def _mask(self, f: Function, tail: Index | None, v: int, vectors: int, parts: int) -> Value | None:
        """The valid scalars of vector `v` of a panel, `parts` for each element; None: all."""
        if tail is None or v < vectors - 1:
            return None
        return f.tail_mask(f.imul(tail, parts), self.step * parts)

    def _depths(self, f: Function, place: Sequence[Affine]) -> list[Index]:
        """Sizes of the contracted axes at a place of the outer axes."""
        sizes: list[Index] = []
        for axis in self.contraction.k:
            size: Index = axis.size
            for other, index in zip(self.contraction.outer, place, strict=False):
                if axis.tag and axis.long_from and other.tag == axis.tag:
                    short = f.cmp("slt", f.index(scalar(f, index)), f.index(axis.long_from))
                    size = f.isub(size, f.cast("zext", short, I64))
            sizes.append(size)
        return sizes

    def _finish(
        self, f: Function, strip: _Strip, m: Affine, sums: list[Value], height: int, skip: Index | None = None
    ) -> None:
        """Give the tile's finished sums, but those of the first `skip` rows, to the epilogue; `m` is its first row."""
        parts, step, vectors, tail = self.arithmetic.parts, self.step, strip.vectors, strip.tail
        masks = [self._mask(f, tail, v, vectors, 1) for v in range(vectors)]

        def store(row: Affine, v: int, value: Parts) -> None:
            lanes = Affine(v * step, lane=1 if step > 1 else 0)
            place = [*strip.places, add(f, m, row), add(f, strip.n, lanes)]
            self.epilogue.store(f, place, value, step, masks[v])

        if self.arithmetic.complex:

            def store_row(row: int) -> None:
                for v in range(vectors):
                    by_real, by_imaginary = (sums[(row * parts + part) * vectors + v] for part in range(2))
                    store(Affine(row), v, combine_complex(f, by_real, by_imaginary))

            for row in range(height):
                if skip is None:
                    store_row(row)
                else:
                    f.if_(f.cmp("sge", f.const(row), f.index(skip)), partial(store_row, row))
            return
        if skip is None and (self.epilogue.inline or height == 1):
            for position, value in enumerate(sums):
                store(Affine(position // vectors), position % vectors, (value,))
            return
        # A long epilogue is emitted once, and rows are left out: the tile goes through a buffer in the L1 cache.
        lanes, element = self.plan.lanes, self.arithmetic.accumulator
        buffer = f.alloca(height * vectors * lanes, element)
        for position, value in enumerate(sums):
            f.store(value, buffer, position * lanes, align=min(64, lanes * element.bits // 8))

        def row_loop(row: Index) -> None:
            for v in range(vectors):
                offset = f.iadd(f.imul(row, vectors * lanes), v * lanes)
                store(affine_of(row, height - 1), v, (f.load(self.vector, buffer, offset),))

        f.loop(skip or 0, height, 1, row_loop)


def combine_complex(f: Function, by_real: Value, by_imaginary: Value) -> Parts:
    """(real, imaginary) parts from the sums a.re * (b.re, b.im) and a.im * (b.re, b.im), interleaved."""
    lanes = by_real.type.lanes
    even, odd = list(range(0, lanes, 2)), list(range(1, lanes, 2))

    def pick(value: Value, order: list[int]) -> Value:
        return f.extract(value, order[0]) if len(order) == 1 else f.shuffle(value, value, order)

    real = f.fsub(pick(by_real, even), pick(by_imaginary, odd))
    imaginary = f.fadd(pick(by_real, odd), pick(by_imaginary, even))
    return real, imaginary


def dense_steps(axes: Sequence[Axis], innermost: int) -> list[IntLike]:
    """Steps of nested axes stored densely, the last one `innermost` apart."""
    steps: list[IntLike] = []
    step: IntLike = innermost
    for axis in reversed(axes):
        steps.append(step)
        step *= axis.size
    return steps[::-1]


Side = tuple[Value, Sequence[IntLike], Operand]


def contract(
    f: Function,
    sizes: Sequence[Index],
    a: Side,
    b: Side,
    sums: Sequence[Value],
    products: Callable[[Value, Value, Sequence[Value]], list[Value]],
    unroll: bool,
) -> list[Value]:
    """The nest of loops over contracted axes of these sizes; `products(address of A, address of B, sums)` is its
    innermost body."""
    (a_at, steps_a, of_a), (b_at, steps_b, of_b) = a, b
    if not sizes:
        return products(a_at, b_at, sums)
    size, *rest = sizes

    def body(index: Index, *inner: Value) -> list[Value]:
        at_a = f.gep(a_at, f.imul(index, steps_a[0]), of_a.element.storage)
        at_b = f.gep(b_at, f.imul(index, steps_b[0]), of_b.element.storage)
        return contract(f, rest, (at_a, steps_a[1:], of_a), (at_b, steps_b[1:], of_b), inner, products, unroll)

    if unroll and isinstance(size, int):
        for index in range(size):
            sums = body(index, *sums)
        return list(sums)
    return f.loop(0, size, 1, body, sums)
