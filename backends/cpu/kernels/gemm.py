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

from stablehlo_py.backends.common.contraction import Operand
from stablehlo_py.backends.common.loops import unravel
from stablehlo_py.backends.cpu.kernels.arithmetic import combine_complex
from stablehlo_py.backends.cpu.kernels.base import SharedFunction
from stablehlo_py.backends.cpu.kernels.finished_tiles import (
    Epilogue,
    Parts,
    StoreTo,
    each_vector,
    emit_tile,
    keeps_sums,
)
from stablehlo_py.backends.cpu.kernels.packing import emit_panel
from stablehlo_py.backends.cpu.kernels.register_tile import RegisterTile, Side, contract, contract_in_strands
from stablehlo_py.backends.cpu.kernels.shared_tile import SharedTile
from stablehlo_py.backends.cpu.kernels.tall_tiles import TallTiles
from stablehlo_py.backends.cpu.kernels.tiling import OverlappingTiles, Problem, Split, dense_steps, each_panel
from stablehlo_py.backends.cpu.policy_costs import COSTS
from stablehlo_py.codegen.builder import I64, Function, Index, Value, vector
from stablehlo_py.codegen.index import Affine, add, affine_of, scalar
from stablehlo_py.dialect.symint import IntLike, is_known, size_hint

STRANDS = 4  # sums that are added to in turn, at least: an addition takes as many cycles
PACKED_AGAIN = 8  # times what packing a panel takes, at least, is what follows in a range
UNROLLED_PRODUCTS = 160  # a tile of at most this many multiply-adds is straight-line code
UNROLLED_TURNS = 8  # of strands, whose additions take longer than the instructions of a loop


@dataclass(frozen=True)
class _Strip:
    """What the row tiles of one iteration share.

    Attributes:
        outer: the place of the outer axes. panel: the number of the panel of B.
        places, n: the same as indices of the result; n is the panel's first element.
        vectors: vectors of the panel. tail: valid elements of the last one; None where all are.
        packs: whether it packs the panel; None where that is known.
    """

    outer: tuple[Index, ...]
    panel: Index
    places: tuple[Affine, ...]
    n: Affine
    vectors: int
    tail: Index | None
    packs: Value | None

    @property
    def alike(self) -> int:
        """Vectors that are whole."""
        return self.vectors - (self.tail is not None)


@dataclass(frozen=True)
class _Steps:
    """Steps of the contracted axes that tiles of a strip take, of these `sizes`, from step `start` of the slowest on.
    `a`, `b`: where A and the strip's panel of B are then; an A that was packed is where it begins."""

    a: Value
    b: Value
    sizes: Sequence[Index]
    start: Index = 0


@dataclass(frozen=True)
class Rooms:
    """Scratch of a contraction.

    Attributes:
        a, b: operands that were packed (packing.py).
        panel: a panel of B, where `inside` is 1 made by the iteration that uses it, or kept for those that follow
            (`Plan.keeps_panel`).
        sums: the buffer of unfinished sums.
    """

    a: Operand | None = None
    b: Operand | None = None
    panel: Operand | None = None
    inside: IntLike = 0
    sums: Operand | None = None


class Gemm:
    """Emits the compute phase. `shared` gets the functions that it calls, tiles only where it `calls_tiles`; None: all
    is part of it. `tile_levels` as of the target. `half`: of the result only the panels down to the diagonal are
    computed."""

    def __init__(
        self,
        problem: Problem,
        epilogue: Epilogue,
        rooms: Rooms,
        shared: set[SharedFunction] | None = None,
        *,
        calls_tiles: bool = False,
        tile_levels: int = 1,
        half: bool = False,
    ) -> None:
        self.problem, self.epilogue, self.rooms, self.shared = problem, epilogue, rooms, shared
        self.calls_tiles, self.tile_levels, self.half = calls_tiles, tile_levels, half
        self.contraction, self.plan, self.arithmetic = problem.contraction, problem.plan, problem.arithmetic
        self.vector = vector(self.plan.lanes, self.arithmetic.accumulator)
        self.step, self.panel, self.width = problem.step, problem.panel, problem.width

    # --- the range ---------------------------------------------------------------------------------------------------

    @property
    def _rows_of_panel(self) -> IntLike:
        """Iterations that use a panel one after the other, where panels are outside."""
        rows = math.prod(axis.size for axis in self.contraction.outer if not axis.b)
        return rows * self.problem.blocks

    @property
    def least_range(self) -> int:
        """Iterations of a range, at least: one that begins within a panel packs it once more. Two threads that both do
        are still faster than one."""
        if not self.plan.keeps_panel:
            return 1
        packing = PACKED_AGAIN * COSTS.pack_ns * size_hint(self.problem.panel_size)
        half = max(1, size_hint(self.iterations) // 2)
        return min(2 * size_hint(self._rows_of_panel), COSTS.grain(self.cost, packing), half)

    def _digits(self) -> list[tuple[int | str, IntLike]]:
        """The iteration number's digits, slowest first: outer axes by position, "block", "panel"."""
        outer = list(enumerate(self.contraction.outer))
        both: list[tuple[int | str, IntLike]] = [(i, axis.size) for i, axis in outer if axis.a and axis.b]
        rows: list[tuple[int | str, IntLike]] = [(i, axis.size) for i, axis in outer if not axis.b]
        rows.append(("block", self.problem.blocks))
        lanes: list[tuple[int | str, IntLike]] = [(i, axis.size) for i, axis in outer if axis.b and not axis.a]
        lanes.append(("panel", self.problem.panels))
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
            rows = size_hint(self.contraction.m.size) / size_hint(self.problem.blocks) * self.arithmetic.parts
        vectors = size_hint(self.contraction.n.size) / self.step / size_hint(self.problem.panels)
        return (rows * vectors * (size_hint(self.contraction.depth) + 3) / (2 if self.half else 1) + 30) / 3.0

    def emit(self, f: Function) -> None:
        """The body of the phase function."""

        def iteration(number: Value) -> None:
            names, sizes = zip(*self._digits(), strict=True)
            digits = dict(zip(names, unravel(f, number, sizes), strict=True))
            outer = [digits[i] for i in range(len(self.contraction.outer))]
            packs = None
            if self.plan.keeps_panel:
                is_first = f.cmp("eq", f.index(f.irem(number, self._rows_of_panel)), f.const(0))
                packs = f.binary("or", is_first, f.cmp("eq", number, f.begin))
            self._iteration(f, outer, digits["block"], digits["panel"], packs)

        f.loop(f.begin, f.end, 1, iteration)

    def _iteration(self, f: Function, outer: list[Index], block: Index, panel: Index, packs: Value | None) -> None:
        vectors = self.plan.vectors
        if not is_known(self.contraction.n.size % self.panel):
            valid = f.isub(self.contraction.n.size, f.imul(panel, self.panel))
            enough = f.cmp("sge", f.index(valid), f.const(self.panel))
            f.if_(
                enough,
                lambda: self._rows(f, outer, block, panel, packs, vectors, None),
                lambda: self._short_panel(f, outer, block, panel, packs, vectors, valid),
            )
            return

        def one(at: Index, count: IntLike) -> None:
            used = int(-(-count // self.step))
            tail = count - (used - 1) * self.step
            self._rows(f, outer, block, at, packs, used, None if tail == self.step else tail)

        each_panel(f, panel, self.contraction.n.size, self.panel, one)

    def _short_panel(
        self,
        f: Function,
        outer: list[Index],
        block: Index,
        panel: Index,
        packs: Value | None,
        vectors: int,
        valid: Index,
    ) -> None:
        """A panel of `valid` columns, which up to so many vectors hold."""
        if vectors == 1:
            self._rows(f, outer, block, panel, packs, 1, valid)
            return
        before = (vectors - 1) * self.step
        more = f.cmp("sgt", f.index(valid), f.const(before))
        tail = f.isub(valid, before)
        f.if_(
            more,
            lambda: self._rows(f, outer, block, panel, packs, vectors, tail),
            lambda: self._short_panel(f, outer, block, panel, packs, vectors - 1, valid),
        )

    def _rows(
        self,
        f: Function,
        outer: list[Index],
        block: Index,
        panel: Index,
        packs: Value | None,
        vectors: int,
        tail: Index | None,
    ) -> None:
        """All row tiles of a block against a panel of `vectors` vectors, the last of which has `tail` valid elements
        (None: all)."""
        first: Index = f.imul(block, self.plan.block)
        last: Index = f.imin(f.iadd(first, self.plan.block), self.plan.rows.tiles)
        if self.problem.blocks == 1:
            first, last = 0, self.plan.rows.tiles
        start = f.imul(panel, self.panel)
        if self.half:
            assert not isinstance(self.plan.rows, TallTiles)
            last = f.imin(last, self.plan.rows.tiles_before(f, f.iadd(start, self.panel)))
        whole = self.contraction.n.size // self.panel * self.panel
        n = affine_of(start, whole - self.panel if tail is None else whole, self.panel)
        axes = self.contraction.outer
        places = [affine_of(index, axis.size - 1) for index, axis in zip(outer, axes, strict=True)]
        strip = _Strip(tuple(outer), panel, tuple(places), n, vectors, tail, packs)
        if self.problem.in_chunks:
            self._by_chunks(f, strip, first, last)
            return
        a, b = self._addresses(f, strip, 0, None)
        if self.calls_tiles:
            steps = _Steps(a, b, [axis.size for axis in self.contraction.k])
            if tail is None and keeps_sums(self.epilogue, self.arithmetic.accumulator):
                self._by_calls_in_place(f, strip, steps, first, last, self.epilogue)
            else:
                self._by_calls(f, strip, steps, first, last)
            return

        def tile(row: Index, m: Affine, height: int, skip: Index | None) -> None:
            sums = [f.const(0, self.vector)] * (height * self.arithmetic.parts * vectors)
            packed_row = f.iadd(row, skip or 0) if self.rooms.a else row
            sums = self._products(f, strip, _Steps(a, b, self._depths(f, strip.places)), packed_row, height, sums)
            stores_twice = self.epilogue.inline and isinstance(self.plan.rows, OverlappingTiles)
            self._finish(f, strip, m, sums, None if stores_twice else skip)

        self.plan.rows.emit(f, first, last, tile)

    def _by_calls_in_place(
        self, f: Function, strip: _Strip, steps: _Steps, first: Index, last: Index, result: StoreTo
    ) -> None:
        """All row tiles of a block, whose sums go to the result."""
        rows, m = self.plan.rows, self.contraction.m
        assert isinstance(rows, Split)

        def tile(number: Index) -> None:
            row = rows.begin(f, number)
            at = result.address(f, [*strip.places, affine_of(row, m.size - 1), strip.n])
            self._call_tiles(f, strip, steps, number, row, (at, m.c), adds=False)

        f.loop(first, last, 1, tile)

    def _by_calls(self, f: Function, strip: _Strip, steps: _Steps, first: Index, last: Index) -> None:
        """The same through a buffer in the L1 cache, from which the epilogue gets each row."""
        rows, lanes = self.plan.rows, self.plan.lanes
        assert isinstance(rows, Split)
        width = strip.vectors * lanes
        buffer = f.alloca(rows.height * width, self.arithmetic.accumulator)

        def tile(number: Index) -> None:
            row = rows.begin(f, number)
            height = self._call_tiles(f, strip, steps, number, row, (buffer, width), adds=False)

            def one(line: Index) -> None:
                offset, m = f.imul(line, width), affine_of(f.iadd(row, line), self.contraction.m.size - 1)
                self._finish_row(f, strip, m, lambda v: f.load(self.vector, buffer, f.iadd(offset, f.imul(v, lanes))))

            f.loop(0, height, 1, one, nonempty=True)

        f.loop(first, last, 1, tile)

    def _call_tiles(
        self,
        f: Function,
        strip: _Strip,
        steps: _Steps,
        number: Index,
        row: Index,
        sums: tuple[Value, Index],
        *,
        adds: bool,
    ) -> Value:
        """Call the tile of that number, of one of two heights; how high it is. `sums`: as of `SharedTile.call`."""
        rows = self.plan.rows
        assert isinstance(rows, Split)
        call = partial(self._call_tile, f, strip, steps, row, sums=sums, adds=adds)
        if not rows.extra:
            call(height=rows.base)
            return f.index(rows.base)
        is_tall = f.cmp("slt", f.index(number), f.const(rows.extra))
        f.if_(is_tall, lambda: call(height=rows.height), lambda: call(height=rows.base))
        return f.index(f.iadd(rows.base, f.cast("zext", is_tall, I64)))

    def _by_chunks(self, f: Function, strip: _Strip, first: Index, last: Index) -> None:
        """All row tiles against one chunk of the panel, then against the next; sums add up in the buffer."""
        rows, parts, lanes = self.plan.rows, self.arithmetic.parts, self.plan.lanes
        assert not isinstance(rows, TallTiles) and self.rooms.sums is not None and parts == 1
        begin, end = (rows.begin(f, tile) for tile in (first, last))
        buffer = self.rooms.sums.at(f)
        width = strip.vectors * lanes
        zero = f.const(0, self.vector)

        def at(row: Index, v: Index) -> Index:
            return f.iadd(f.imul(f.isub(row, begin), width), f.imul(v, lanes))

        def clear(row: Index) -> None:
            for v in range(strip.vectors):
                f.store(zero, buffer, at(row, v))

        def chunk(start: Index, steps: IntLike) -> None:
            sizes: list[Index] = [steps, *(axis.size for axis in self.contraction.k[1:])]
            contracted = _Steps(*self._addresses(f, strip, start, steps), sizes, start)

            def tile(row: Index, m: Affine, height: int, skip: Index | None) -> None:
                own = f.iadd(row, skip or 0)
                packed_row = own if self.rooms.a else row
                sums = self._products(f, strip, contracted, packed_row, height, [zero] * (height * strip.vectors))
                places = [at(f.iadd(own, line), v) for line in range(height) for v in range(strip.vectors)]
                for place, value in zip(places, sums, strict=True):
                    f.store(self.arithmetic.add(f, f.load(self.vector, buffer, place), value), buffer, place)

            def add(number: Index) -> None:
                row = rows.begin(f, number)
                sums = f.gep(buffer, at(row, 0), self.vector.element)
                self._call_tiles(f, strip, contracted, number, row, (sums, width), adds=True)

            if self.calls_tiles:
                f.loop(first, last, 1, add)
            else:
                rows.emit(f, first, last, tile)

        def finish(row: Index) -> None:
            own = rows.place_of(f, row)
            m = affine_of(row, rows.size - 1)
            self._finish_row(f, strip, m, lambda v: f.load(self.vector, buffer, at(own, v)))

        steps, rest = self.plan.chunk, self.contraction.k[0].size % self.plan.chunk
        whole = self.contraction.k[0].size - rest
        f.loop(begin, end, 1, clear)
        f.loop(0, whole, steps, lambda start: chunk(start, steps))
        if rest:
            chunk(whole, rest)
        f.loop(begin, f.imin(end, rows.size), 1, finish)

    def _addresses(self, f: Function, strip: _Strip, start: Index, steps: IntLike | None) -> tuple[Value, Value]:
        """Where A and the strip's panel of B begin, at step `start` of the slowest contracted axis. A panel that only
        this iteration uses is packed now, and one that is kept if it `packs`: `steps` of that axis, None: all."""
        contraction, outer = self.contraction, strip.outer
        slowest, inner = contraction.k[0], math.prod(axis.size for axis in contraction.k[1:])
        a = self._base(f, self.rooms.a, "a", outer)
        if not self.rooms.a:
            a = f.gep(a, f.imul(start, slowest.a), contraction.a.element.storage)
        shared = None
        if self.rooms.b:
            shared = self._base(f, self.rooms.b, "b", outer)
            offset = f.iadd(f.imul(strip.panel, self.problem.panel_size), f.imul(start, inner * self.width))
            shared = f.gep(shared, offset, self.rooms.b.element.storage)
            if not self.rooms.panel:
                return a, shared
        b = self._base(f, None, "b", outer)
        b = f.gep(b, f.imul(start, slowest.b), contraction.b.element.storage)
        if not self.rooms.panel:
            return a, f.gep(b, f.imul(strip.panel, self.panel * contraction.n.b), contraction.b.element.storage)
        own = self.rooms.panel.at(f)
        if strip.packs is not None:
            own = f.gep(own, f.imul(start, inner * self.width), self.rooms.panel.element.storage)
        pack = partial(emit_panel, f, self.problem, b, strip.panel, own, steps)
        if strip.packs is not None:
            f.if_(strip.packs, pack)
            return a, own
        if shared is None:
            pack()
            return a, own
        is_inside = f.cmp("ne", f.index(self.rooms.inside), f.const(0))
        f.if_(is_inside, pack)
        return a, f.select(is_inside, own, shared)

    @property
    def is_b_packed(self) -> bool:
        """Whether tiles read packed panels of B."""
        return self.rooms.b is not None or self.rooms.panel is not None

    def _base(self, f: Function, packed: Operand | None, side: str, outer: Sequence[Index]) -> Value:
        """The address of A or B, as it was packed or as it is, at a place of the outer axes."""
        if packed:
            return packed.at(f, outer, self.problem.packed_strides(side))
        operand: Operand = getattr(self.contraction, side)
        return operand.at(f, outer, self.contraction.outer_steps(side))

    # --- the register tile -------------------------------------------------------------------------------------------

    def _sides(self, f: Function, strip: _Strip, steps: _Steps, row: Index, height: int) -> tuple[Side, Index, Side]:
        """Of a tile: A and B, where it begins in them, and the steps of the contracted axes there; between them the
        stride of A's rows. `row` is the tile's first, in a packed A the first that no other tile has."""
        contraction, parts = self.contraction, self.arithmetic.parts
        if self.rooms.a:
            row_stride: IntLike = parts
            steps_a = dense_steps(contraction.k, height * parts)
            offset = f.iadd(f.imul(row, contraction.depth * parts), f.imul(steps.start, steps_a[0]))
        else:
            row_stride, steps_a = contraction.m.a, [axis.a for axis in contraction.k]
            offset = f.imul(row, row_stride)
        operand_a, operand_b = self.rooms.a or contraction.a, self.rooms.b or self.rooms.panel or contraction.b
        a = f.gep(steps.a, offset, operand_a.element.storage)
        steps_b = dense_steps(contraction.k, self.width) if self.is_b_packed else [axis.b for axis in contraction.k]
        return (a, steps_a, operand_a), row_stride, (steps.b, steps_b, operand_b)

    @property
    def _adds_in_any_order(self) -> bool:
        """Whether sums are numbers of which several may be kept, and added up at the end."""
        return not self.arithmetic.complex and self.arithmetic.packed == 1 and not self.arithmetic.boolean

    @property
    def _prefetched(self) -> int:
        return self.width if self.plan.prefetch and not self.is_b_packed else 0

    def _products(
        self, f: Function, strip: _Strip, steps: _Steps, row: Index, height: int, sums: Sequence[Value]
    ) -> list[Value]:
        """`sums` of a tile, and the products of some steps of the contracted axes. `row`: as of `_sides`."""
        parts, vectors = self.arithmetic.parts, strip.vectors
        a, row_stride, b = self._sides(f, strip, steps, row, height)
        masks = [None if self.is_b_packed else self._mask(f, strip.tail, v, vectors, parts) for v in range(vectors)]
        tile = RegisterTile(
            self.arithmetic, a[2], b[2], height, vectors, self.plan.lanes, row_stride, self._prefetched, masks
        )
        depth = self.contraction.depth
        unroll = is_known(depth) and depth * len(sums) <= UNROLLED_PRODUCTS and not self.epilogue.long
        unroll = unroll and all(isinstance(size, int) for size in steps.sizes)
        strands, size = STRANDS // len(sums), steps.sizes[-1] if len(steps.sizes) == 1 else 0
        if strands > 1 and isinstance(size, int) and size >= 4 * strands and self._adds_in_any_order:
            arithmetic, products = self.arithmetic, partial(tile.products, f)
            unroll = unroll and size <= UNROLLED_TURNS * strands
            return contract_in_strands(f, arithmetic, size, a, b, sums, products, strands, unroll=unroll)
        return contract(f, steps.sizes, a, b, sums, partial(tile.products, f), unroll=unroll)

    def _call_tile(
        self,
        f: Function,
        strip: _Strip,
        steps: _Steps,
        row: Index,
        height: int,
        sums: tuple[Value, Index],
        *,
        adds: bool,
    ) -> None:
        """The products of a tile as a call; the sums go to memory, or are added to what is there."""
        assert self.shared is not None
        a, row_stride, b = self._sides(f, strip, steps, row, height)
        tile = SharedTile(
            height,
            strip.vectors,
            self.plan.lanes,
            a[2].element.name,
            b[2].element.name,
            self.arithmetic.element.name,
            self.arithmetic.boolean,
            self.arithmetic.packed,
            self.arithmetic.quad_unsigned,
            max(self.tile_levels, len(self.contraction.k)),
            neighbours=row_stride == 1,
            prefetched=self._prefetched,
            adds=adds,
        )
        self.shared.add(tile)
        tile.call(f, sums, (a[0], row_stride, a[1]), (b[0], b[1]), steps.sizes)

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

    def _finish(self, f: Function, strip: _Strip, m: Affine, sums: list[Value], skip: Index | None = None) -> None:
        """Give the tile's finished sums, but those of the first `skip` rows, to the epilogue; `m` is its first row."""
        parts, vectors = self.arithmetic.parts, strip.vectors
        store = self._store_of(f, strip, m)
        if self.arithmetic.complex:

            def store_row(row: int) -> None:
                for v in range(vectors):
                    by_real, by_imaginary = (sums[(row * parts + part) * vectors + v] for part in range(2))
                    store(Affine(row), v, combine_complex(f, by_real, by_imaginary))

            for row in range(len(sums) // (parts * vectors)):
                if skip is None:
                    store_row(row)
                else:
                    f.if_(f.cmp("sge", f.const(row), f.index(skip)), partial(store_row, row))
            return
        emit_tile(f, sums, vectors, self.epilogue, skip, lambda row, v, value: store(row, v, (value,)), strip.alike)

    def _finish_row(self, f: Function, strip: _Strip, m: Affine, sums: Callable[[Index], Value]) -> None:
        """Give a row's finished sums, by the number of the vector, to the epilogue."""
        store = self._store_of(f, strip, m)
        each_vector(f, self.epilogue, strip.vectors, strip.alike, lambda v: store(Affine(), v, (sums(v),)))

    def _store_of(self, f: Function, strip: _Strip, m: Affine) -> Callable[[Affine, Index, Parts], None]:
        """`store(row, number of the vector, value)` for rows from `m` on."""
        step, vectors, tail = self.step, strip.vectors, strip.tail
        masks = [self._mask(f, tail, v, vectors, 1) for v in range(vectors)]

        def store(row: Affine, v: Index, value: Parts) -> None:
            lanes = Affine(0, lane=1 if step > 1 else 0)
            n = add(f, affine_of(f.imul(v, step), (vectors - 1) * step, step), lanes)
            place = [*strip.places, add(f, m, row), add(f, strip.n, n)]
            self.epilogue.store(f, place, value, step, masks[v] if isinstance(v, int) else None)

        return store
