"""Decisions about a contraction: register tile, blocking, packing. Numbers only; gemm.py emits what is decided here.

The register tile follows Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM TOMS 34,
2008): rows x vectors accumulators, one broadcast of A and one vector of B feed rows * vectors multiply-adds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from stablehlo_py.backends.common.contraction import UNIT, Axis, Contraction, Operand, collapse
from stablehlo_py.backends.cpu.kernels.arithmetic import Arithmetic
from stablehlo_py.backends.cpu.kernels.tall_tiles import TallTiles, TileBody
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import I64, Function, Index
from stablehlo_py.codegen.index import affine_of
from stablehlo_py.dialect.index_map import row_major_strides
from stablehlo_py.dialect.symint import IntLike, is_known, less, size_hint

PAGE, LINE, WAYS = 4096, 64, 8
TALLEST = 28  # rows of a register tile
PANEL_VECTORS = 3  # where lanes come with the call: the tile is then high enough for a panel with one vector, too
FEW_SUMS = 8  # accumulators of a tile, at least: what two multiply-adders have under way
HALF_VECTOR = 8  # elements of the commonest type
FULL_ROWS = 12  # a register tile of that many rows does well
REPEATED_ROWS = 1 / 64  # of all rows, at most, to save the code of a second height of tiles
ONE_HEIGHT = 1.01  # of the estimated time, at most, for the same
ONE_WIDTH = 1.03  # the same for panels; a narrow tile of few rows takes less than the estimate
FEW_ROWS = 8  # of tiles, and times that a panel is read, for which it matters that the L1 cache keeps it
SOME_ROWS = 4  # that many are better than a number that a call brings along, which may be one
CHUNK_DEPTH = 512  # products of an element between two visits to the sums' buffer
SHARES = 32  # iterations that threads share out evenly
SHARE_PRODUCTS = 3000  # multiply-adds of vectors that are worth an iteration of their own: a microsecond


@dataclass(frozen=True)
class Split:
    """`size` rows cut into `tiles` of nearly equal height: the first `extra` have `base + 1` rows, the others
    `base`."""

    size: int
    tiles: int

    @property
    def base(self) -> int:
        return self.size // self.tiles

    @property
    def extra(self) -> int:
        return self.size % self.tiles

    @property
    def height(self) -> int:
        """Of the highest tiles."""
        return self.base + bool(self.extra)

    def emit(self, f: Function, first: Index, last: Index | None, tile: TileBody) -> None:
        """Call `tile` for tiles first..last (None: all)."""
        last = self.tiles if last is None else last

        def tiles(height: int, offset: int, begin: Index, end: Index) -> None:
            def one(number: Index) -> None:
                row = f.iadd(f.imul(number, height), offset)
                tile(row, affine_of(row, self.size - height, math.gcd(height, offset)), height, None)

            f.loop(begin, end, 1, one)

        if self.extra:
            tiles(self.base + 1, 0, first, f.imin(last, self.extra))
        tiles(self.base, self.extra, f.imax(first, self.extra) if self.extra else first, last)

    def tiles_before(self, f: Function, row: Index) -> Index:
        """A number of tiles that have all rows before that one."""
        return f.idiv(f.iadd(row, self.base - 1), self.base)

    def begin(self, f: Function, tile: Index) -> Index:
        """The first row of a tile."""
        return f.iadd(f.imul(tile, self.base), f.imin(tile, self.extra) if self.extra else 0)

    def place_of(self, f: Function, row: Index) -> Index:
        """Where a row is among the places of all tiles."""
        return row


@dataclass(frozen=True)
class OverlappingTiles:
    """`size` rows in tiles of one height, so that one code serves them all: the last tile begins early enough to end
    with the rows, and computes its first rows again. In panels and buffers every tile has a place of its own."""

    size: int
    height: int

    @property
    def tiles(self) -> int:
        return -(-self.size // self.height)

    @property
    def repeated(self) -> int:
        """Rows that the last tile shares with the one before it."""
        return self.tiles * self.height - self.size

    def emit(self, f: Function, first: Index, last: Index | None, tile: TileBody) -> None:
        """Call `tile` for tiles first..last (None: all)."""

        def one(number: Index) -> None:
            place = f.imul(number, self.height)
            row = f.imin(place, self.size - self.height)
            tile(row, affine_of(row, self.size - self.height), self.height, f.isub(place, row))

        f.loop(first, self.tiles if last is None else last, 1, one)

    def tiles_before(self, f: Function, row: Index) -> Index:
        """A number of tiles that have all rows before that one."""
        return f.idiv(f.iadd(row, self.height - 1), self.height)

    def begin(self, f: Function, tile: Index) -> Index:
        """The first place of a tile."""
        return f.imul(tile, self.height)

    def place_of(self, f: Function, row: Index) -> Index:
        """Where a row is among the places of all tiles: in the last tile, after those that it repeats."""
        is_last = f.cmp("sge", f.index(row), f.const((self.tiles - 1) * self.height))
        return f.iadd(row, f.imul(f.cast("zext", is_last, I64), self.repeated))


@dataclass(frozen=True)
class Plan:
    """How a contraction is computed.

    Attributes:
        lanes: scalars per vector. vectors: vectors per full panel of lanes.
        rows: the cut of the m axis into tiles. block: tiles per iteration.
        panels_outside: the panel of B is the slow loop (it stays in the cache while A streams).
        pack_a, pack_b: operands are first copied into panels.
        pack_inside: where it is 1, a panel of B is packed by the one iteration that uses it, so it is read from the
            cache.
        chunk: steps of the slowest contracted axis that all rows of a block take before the next ones, so that what
            they share of B stays in the cache.
        prefetch: fetch the next panel of an unpacked B while this one is used.
    """

    lanes: int
    vectors: int
    rows: Split | OverlappingTiles | TallTiles
    block: int
    panels_outside: bool
    pack_a: bool
    pack_b: bool
    pack_inside: IntLike
    chunk: IntLike
    prefetch: bool

    @property
    def keeps_panel(self) -> bool:
        """Whether a range of iterations packs a panel of B where it begins to use it, and keeps it for the rows that
        follow: the whole of B is never packed."""
        return self.pack_b and self.panels_outside and isinstance(self.pack_inside, int) and not self.pack_inside


def each_panel(f: Function, panel: Index, size: IntLike, width: int, body: Callable[[Index, IntLike], None]) -> None:
    """`body(panel, valid elements)` of a panel of a known size: the last one, whose number is a constant there, may
    have fewer than `width`."""
    rest, whole = size % width, size // width
    if not rest:
        body(panel, width)
    elif not whole:
        body(whole, rest)
    else:
        full = f.cmp("slt", f.index(panel), f.const(whole))
        f.if_(full, lambda: body(panel, width), lambda: body(whole, rest))


@dataclass(frozen=True)
class Problem:
    """A contraction, how it is computed, and the sizes that follow."""

    contraction: Contraction
    plan: Plan
    arithmetic: Arithmetic

    @cached_property
    def step(self) -> int:
        """Elements of n per vector."""
        return self.plan.lanes // self.arithmetic.parts

    @cached_property
    def panel(self) -> int:
        """Elements of n per full panel."""
        return self.width // self.arithmetic.parts

    @cached_property
    def width(self) -> int:
        """Scalars of a row of a full panel."""
        return self.plan.lanes * self.plan.vectors

    @cached_property
    def panels(self) -> IntLike:
        return -(-self.contraction.n.size // self.panel)

    @cached_property
    def blocks(self) -> IntLike:
        return -(-self.plan.rows.tiles // self.plan.block)

    @cached_property
    def in_chunks(self) -> bool:
        """Whether the contracted axes are walked in chunks, all rows of a block within each."""
        return is_known(self.plan.chunk) and self.plan.chunk < self.contraction.k[0].size

    @cached_property
    def sums_size(self) -> IntLike:
        """Scalars of the buffer for unfinished sums of a block of rows."""
        return self.plan.block * self.plan.rows.height * self.width

    @cached_property
    def panel_size(self) -> IntLike:
        """Scalars of a packed panel of B."""
        return self.contraction.depth * self.width

    def packed_size(self, side: str) -> IntLike:
        """Scalars of a packed operand at one place of the outer axes."""
        if side == "a":
            rows = self.plan.rows
            places = rows.size if isinstance(rows, Split) else rows.tiles * rows.height
            return places * self.contraction.depth * self.arithmetic.parts
        return self.panels * self.panel_size

    def packed_strides(self, side: str) -> list[IntLike]:
        """Steps of the outer axes in a packed operand: copies along axes that the operand lacks are not made."""
        strides: list[IntLike] = []
        step = self.packed_size(side)
        for axis in reversed(self.contraction.outer):
            strides.append(step if getattr(axis, side) else 0)
            step *= axis.size if getattr(axis, side) else 1
        return strides[::-1]


def dense_steps(axes: Sequence[Axis], innermost: int) -> list[IntLike]:
    """Steps of nested axes stored densely, the last one `innermost` apart."""
    return [innermost * step for step in row_major_strides([axis.size for axis in axes])]


def row_axis(axes: Iterable[Axis]) -> Axis:
    """The axis that becomes the rows of the register tile: of those that fill it the one that steps least (rows that
    are pages apart share cache sets), else the longest. One whose size comes with the call may have a single row."""

    def filled(axis: Axis) -> float:
        return min(axis.size, FULL_ROWS) if isinstance(axis.size, int) else SOME_ROWS - 0.5

    return max(
        axes,
        key=lambda axis: (filled(axis), -abs(size_hint(axis.a or axis.b)), size_hint(axis.size)),
        default=UNIT,
    )


def _lane_axis(m_axes: list[Axis], n_axes: list[Axis]) -> Axis | None:
    """The axis that stores of C are contiguous along; where it fills less than half a vector (the channels of an image,
    say) the longest one that can be loaded whole, and is stored with gaps."""
    unit = next((axis for axis in (*m_axes, *n_axes) if axis.c == 1), None)
    if unit is None or not is_known(unit.size) or unit.size >= HALF_VECTOR:
        return unit
    loaded = [axis for axis in m_axes if axis.a == 1] + [axis for axis in n_axes if axis.b == 1]
    long = [axis for axis in loaded if is_known(axis.size) and axis.size >= 2 * HALF_VECTOR]
    return max(long, key=lambda axis: axis.size, default=unit)


def _elements(axes: Iterable[Axis]) -> IntLike:
    return math.prod(axis.size for axis in axes)


def normalize(
    batch: Sequence[Axis],
    m: Sequence[Axis],
    n: Sequence[Axis],
    k: Sequence[Axis],
    a: Operand,
    b: Operand,
) -> Contraction:
    """Collapse the axes and choose rows and lanes: lanes run along the free axis that is contiguous in C, or along one
    that is contiguous in its operand where that is too short.

    Without such an axis (C has one element along m and n, or its contiguous axis is a batch axis) the longer side
    becomes the lanes.
    """
    m_axes, n_axes = collapse(m), collapse(n)
    k_axes = collapse(k)
    lanes = _lane_axis(m_axes, n_axes)
    if lanes in m_axes if lanes else size_hint(_elements(m_axes)) > size_hint(_elements(n_axes)):
        return normalize(
            [axis.swapped() for axis in batch],
            [axis.swapped() for axis in n_axes],
            [axis.swapped() for axis in m_axes],
            [axis.swapped() for axis in k_axes],
            b,
            a,
        )
    lanes = lanes or max(n_axes, key=lambda axis: size_hint(axis.size), default=UNIT)
    rows = row_axis(m_axes)
    outer = collapse(batch)
    outer += [axis for axis in m_axes if axis is not rows] + [axis for axis in n_axes if axis is not lanes]
    k_axes.sort(key=lambda axis: (abs(size_hint(axis.b)), abs(size_hint(axis.a))), reverse=True)
    return Contraction(tuple(outer), rows, lanes, tuple(k_axes) or (UNIT,), a, b)


def tile_cost(rows: int, vectors: int, depth: int) -> float:
    """Cycles of one tile, roughly: multiply-adds, loads, latency of the accumulator chain, prologue and epilogue.

    A core does two multiply-adds and two loads a cycle. Loads hide behind multiply-adds, but not for nothing: every
    vector of B is a cache line, often from L2, a row of A one in sixteen (on Sapphire Rapids 9 x 3 vectors is 7 %
    faster than 14 x 2, 4 % faster than 4 x 6, 40 % faster than 26 x 1).
    """
    work = rows * vectors
    step = max(0.5 * work, 0.5 * (rows + vectors), 4.0) + 0.12 * rows + 0.2 * vectors
    return depth * (step + 0.5) + 1.5 * work + 20


def choose_tile(
    m: int, n: int, depth: int, lanes: int, target: CpuTarget, arithmetic: Arithmetic, tallest: int = TALLEST
) -> tuple[int, int]:
    """(rows per tile, vectors) with the least estimated time; n counts scalars, rows count elements of m."""
    needed, parts = -(-n // lanes), arithmetic.parts
    registers = target.registers - arithmetic.registers_beside(target)

    def tallest_of(vectors: int) -> int:
        return min((registers - vectors) // vectors // parts, tallest // parts, m)

    def cost(rows: Split, vectors: int) -> float:
        cost, variants = 0.0, 0
        for panel, count in ((vectors, needed // vectors), (needed % vectors, 1)):
            if not panel or not count:
                continue
            for height, tiles in ((rows.base + 1, rows.extra), (rows.base, rows.tiles - rows.extra)):
                if tiles:
                    variants += 1
                    cost += count * tiles * tile_cost(height * parts, panel, depth)
        return cost * (1 + 0.005 * (variants - 1))

    splits = [
        (Split(m, -(-m // tallest_of(vectors))), vectors)
        for vectors in range(1, min(8, needed) + 1)
        if tallest_of(vectors) >= 1
    ]
    if not splits:
        return 1, 1
    rows, vectors = min(splits, key=lambda split: cost(*split))
    even = max(height for height in range(1, tallest_of(vectors) + 1) if m % height == 0)
    one = Split(m, m // even)  # tiles of one height: half of the code
    if cost(one, vectors) <= ONE_HEIGHT * cost(rows, vectors):
        rows = one
    even = max(width for width in range(1, vectors + 1) if needed % width == 0)  # panels of one width: the same
    if cost(rows, even) <= ONE_WIDTH * cost(rows, vectors):
        vectors = even
    return rows.height, vectors


def _conflicts(stride: int, size: int, ways: int) -> bool:
    """Whether that many accesses, `stride` bytes apart, fall on few sets of an L1 cache."""
    if stride % PAGE == 0:
        return size > ways
    return stride % (PAGE // 2) == 0 and size > 2 * ways


def vector_lanes(contraction: Contraction, arithmetic: Arithmetic, target: CpuTarget) -> int:
    """Scalars per vector: the target's, or fewer when the n axis is shorter."""
    lanes = max(arithmetic.parts, target.lanes(arithmetic.accumulator.bits))
    needed = contraction.n.size * arithmetic.parts
    while lanes > arithmetic.parts and lanes // 2 >= needed:
        lanes //= 2
    return lanes


def _thrashes(stride: int, rows: int, target: CpuTarget) -> bool:
    """Whether lines of that many rows, `stride` bytes apart, share so few places of the L1 cache that most are gone
    before they are read again."""
    places = target.l1 // (WAYS * LINE)
    apart = stride // LINE if stride % LINE == 0 else 1
    return rows >= 4 * WAYS * places // math.gcd(apart, places)


def _packs_b(
    contraction: Contraction, arithmetic: Arithmetic, target: CpuTarget, rows: Split, uses: int, width: int
) -> bool:
    """Whether B is copied into panels: where its lanes are not contiguous, or scalars are joined; else where it is read
    often enough and reading it in place would miss the cache or convert again and again."""
    n, b, size = contraction.n, contraction.b.element.storage, arithmetic.accumulator.bits // 8
    if (n.size > 1 and n.b != arithmetic.parts) or contraction.b.apart:
        return True
    if uses < 4:
        return False
    if b.bits != arithmetic.accumulator.bits:
        return True
    row_bytes = max(abs(int(axis.b)) for axis in contraction.k) * b.bits // 8
    whole = contraction.depth * n.size * arithmetic.parts * size
    strided = _conflicts(row_bytes, int(contraction.depth), 64) or whole > target.l2
    # Rows of a panel that are no whole lines of the cache bring parts of its neighbours with them.
    strided = strided or (uses >= 16 and width * size % LINE != 0 and whole >= target.l2 // 2)
    # Tiles of few rows read B faster than it comes from the L2 cache.
    often = rows.height <= FEW_ROWS and uses >= FEW_ROWS
    strided = strided or (often and _thrashes(row_bytes, int(contraction.depth), target))
    return contraction.depth > 64 and strided and n.size * arithmetic.parts > width


def choose_chunk(contraction: Contraction, tiles: int) -> int:
    """Steps of the slowest contracted axis between visits to the sums' buffer: all of them, where the depth is no
    problem or the buffer's cost not repaid by many tiles."""
    slowest, *others = contraction.k
    steps, inner = int(slowest.size), int(math.prod(axis.size for axis in others))
    if tiles < 4 or contraction.depth < 3 * CHUNK_DEPTH or any(axis.tag for axis in contraction.k):
        return steps
    ideal = max(1, CHUNK_DEPTH // inner)
    even = [size for size in range(-(-ideal // 2), min(steps, 2 * ideal) + 1) if steps % size == 0]
    return min(even, key=lambda size: abs(size - ideal), default=ideal)


def symbolic_plan(contraction: Contraction, arithmetic: Arithmetic, target: CpuTarget, rows: int, least: int) -> Plan:
    """The plan of a contraction with sizes that a call brings along: what their hints, and `rows` rows where their
    number is among them, ask for, as far as it holds for all from `least` rows on."""
    hinted, m = contraction.hinted(), contraction.m
    if not is_known(m.size):
        hinted = replace(hinted, m=replace(hinted.m, size=rows))
    if not is_known(contraction.n.size):
        lanes = target.lanes(arithmetic.accumulator.bits) // arithmetic.parts
        vectors = max(PANEL_VECTORS, FEW_SUMS // hinted.m.size)
        hinted = replace(hinted, n=replace(hinted.n, size=vectors * lanes))
    plan = replace(make_plan(hinted, arithmetic, target), chunk=contraction.k[0].size)
    has_gaps = contraction.n.size != 1 and contraction.n.b != arithmetic.parts  # between the lanes of B
    plan = replace(plan, pack_b=has_gaps or (plan.pack_b and is_known(contraction.n.size)))
    if is_known(m.size):
        return plan
    assert isinstance(plan.rows, Split)
    tallest = plan.rows.height
    pack_a = plan.pack_a and least >= tallest
    lower = () if pack_a else (4, 2, 1) if least < 4 else (8, 4)
    heights = (tallest, *(height for height in lower if height < tallest))
    tall = TallTiles(m.size, heights, rows)
    inside = less(tall.tiles, plan.block + 1) if _one_place(contraction) else 0
    return replace(plan, rows=tall, pack_a=pack_a, pack_inside=inside)


def _one_place(contraction: Contraction) -> bool:
    """Whether no two places of the outer axes share a B."""
    return all(axis.b or axis.size == 1 for axis in contraction.outer)


def make_plan(contraction: Contraction, arithmetic: Arithmetic, target: CpuTarget) -> Plan:
    """Decide tile, blocking and packing of a contraction."""
    parts, bytes_ = arithmetic.parts, arithmetic.accumulator.bits // 8
    lanes = vector_lanes(contraction, arithmetic, target)
    m, n, depth = int(contraction.m.size), int(contraction.n.size) * parts, int(contraction.depth)
    height, vectors = choose_tile(m, n, depth, lanes, target, arithmetic)
    stored_a = contraction.a.element.storage
    a_row = abs(int(contraction.m.a)) * stored_a.bits // 8
    conflicting = depth > 64 and _conflicts(a_row, height, 8)
    a_uses = -(-n // (lanes * vectors)) * math.prod(axis.size for axis in contraction.outer if axis.a == 0)
    # An A that overlaps itself (a convolution's) is never unfolded into panels.
    packable = not arithmetic.complex and len(contraction.k) == 1 and a_uses >= 4
    pack_a = packable and (conflicting or stored_a.bits != arithmetic.accumulator.bits)
    if conflicting and not pack_a:
        height, vectors = choose_tile(m, n, depth, lanes, target, arithmetic, tallest=8 if a_row % PAGE == 0 else 16)
    rows, width = Split(m, -(-m // height)), lanes * vectors
    b_uses = rows.tiles * int(math.prod(axis.size for axis in contraction.outer if axis.b == 0))
    pack_b = _packs_b(contraction, arithmetic, target, rows, b_uses, width)
    b_bytes = depth * n * bytes_
    slowest = int(contraction.k[0].size)
    chunk = slowest if arithmetic.complex else choose_chunk(contraction, rows.tiles)
    row_bytes = max(1, depth * chunk // slowest * bytes_ * parts)  # of A, for each chunk of the contracted axes
    near = max(target.l2, target.l3) if chunk == slowest else target.l2  # the sums' buffer is read and written
    is_near = m * row_bytes <= near * 3 // 4  # beside a panel of B
    block = rows.tiles if is_near else max(1, near // 2 // (row_bytes * height))
    block = -(-rows.tiles // -(-rows.tiles // block))
    # Per multiply-add, streaming B costs 1 / rows of a block, streaming A costs 1 / width of a panel.
    panels_outside = b_bytes > target.l2 // 2 and block * height * parts < width
    one_user = block == rows.tiles and _one_place(contraction)
    # Of several panels, the next one comes soon enough from the L2 cache.
    stored_b = depth * n * contraction.b.element.storage.bits // 8
    prefetch = not pack_b and b_bytes > target.l1 and (stored_b > target.l2 or n <= width)
    return Plan(lanes, vectors, rows, block, panels_outside, pack_a, pack_b, int(one_user), chunk, prefetch)


def with_even_shares(plan: Plan, problem: Problem, target: CpuTarget) -> Plan:
    """The plan with rows in more blocks, where iterations are so few that threads get uneven shares of them. A block of
    all rows became that by `panels_outside`: they meet panels in the same order."""
    contraction, tiles = problem.contraction, int(plan.rows.tiles)
    places = int(math.prod(axis.size for axis in contraction.outer))
    products = places * contraction.m.size * contraction.n.size * contraction.depth // problem.step
    wanted = int(-(-min(SHARES, products // SHARE_PRODUCTS) // (places * problem.panels)))
    panel_bytes = problem.panel_size * problem.arithmetic.accumulator.bits // 8
    inside = plan.pack_b and plan.pack_inside == 1
    if min(wanted, tiles) <= problem.blocks or (inside and panel_bytes > target.l2 // 2):
        return plan
    block = -(-tiles // wanted)
    if (tiles - 1) % block == 0 and block < tiles - 1:
        block += 1  # `with_one_height` wants the last two tiles in one block
    outside = plan.panels_outside or (problem.blocks == 1 and (inside or not plan.pack_b))
    return replace(plan, block=block, panels_outside=outside, pack_inside=0)


def with_one_height(plan: Plan, stores_twice: bool) -> Plan:
    """The plan with tiles of one height, where few rows are computed twice for it. `stores_twice`: an iteration may
    store the results of a row twice; otherwise somebody leaves out those of repeated rows."""
    rows = plan.rows
    if not isinstance(rows, Split) or not rows.extra:
        return plan
    one = OverlappingTiles(rows.size, rows.height)
    if one.tiles != rows.tiles or one.repeated > REPEATED_ROWS * rows.size:
        return plan
    # The last tile repeats rows of the one before it: both must be of one iteration, lest two threads store them.
    if stores_twice and (one.tiles - 1) % plan.block == 0:
        return plan
    return replace(plan, rows=one)
