"""Products on matrix units: AMX of x86-64, whose registers are tiles of 16 rows of 64 bytes.

An instruction adds to a tile of 16 x 16 sums of 32 bits the products of a tile of A, 16 rows of 64 bytes along the
contracted axis, and one of B, 16 groups of the contracted axis by 16 columns. A group is what fills 32 bits: two bf16,
or four bytes (Intel, "Intrinsics and tiles", Software Developer's Manual, volume 1, chapter 18).

    for block of rows, panel of 32 columns:        the phase's range
        for chunk of at most 16 steps:
            for strip of 32 rows in block:
                load or clear its sums, 2 x 2 tiles, which stay in registers
                for step of 16 groups:
                    load 2 tiles of A and 2 of B, multiply-add 4 times; prefetch a share of the next panel
                    in the last chunk: epilogue of a line of the strip before
                store its sums
        epilogue of the last strip

The unit multiplies while the core's vectors do the rest: so an epilogue is spread over the steps of the next strip. A
chunk of a panel is read by every strip and stays in the L1 cache; A, which passes by, is loaded without a place in it.

Where rows are few, reading B takes all the time. Then chunks of 64 rows of B go around panels, so that rows are read in
long runs, and each chunk of a panel is packed just before its products:

    for chunk, panel:
        pack the panel's steps; its sums with their products

With some more rows B is packed just before its products, too, but a region at a time: panels that are 512 bytes of a
row, and as many steps as leave the region in the L2 cache. For up to 64 rows of A a region is 128 bytes of a row of B,
and stays in the L1 cache. Where rows are many, a phase before packs B into tiles
(tile_packing.py), unless it is a constant that lies so (weight_tiles.py). A is packed where its rows do not lie as
tiles need them, or are few. Contracted axes are padded with zeros to whole steps, packed rows and columns with
anything: sums of theirs are not stored. Where A is not packed, the last tiles are as high as there are rows.
tile_sums.py has the compute phase.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from stablehlo_py.backends.common.contraction import Axis, Contraction, Operand
from stablehlo_py.backends.cpu.kernels.base import SharedFunction
from stablehlo_py.backends.cpu.kernels.finished_tiles import Epilogue
from stablehlo_py.backends.cpu.target import AMX_BF16, AMX_INT8, BF16_FEATURE, CpuTarget, required_features
from stablehlo_py.backends.cpu.tiles import CONFIGURE
from stablehlo_py.backends.cpu.weight_tiles import LEAST, LEAST_NARROW, LEAST_SHORT, PANEL, SIDE
from stablehlo_py.codegen.builder import F32, I8, I16, I32, Function, ScalarType, Value
from stablehlo_py.codegen.types import Element

ROW_BYTES = 64
TILE = SIDE * ROW_BYTES // 4  # numbers of 32 bits
STRIP = 2 * SIDE
BLOCK_BYTES = 3 << 18  # of A, which all panels of B meet while it is in the L2 cache
CHUNK = 16  # steps of a panel, which stay in the L1 cache
MOST_FOLDED = 256  # rows of a line
LEAST_FOLDED = 1.1  # times the rows of whole tiles that a line takes by itself
FEW_ROWS = 2 * STRIP  # of A, that B is packed in regions for, however long they are
MOST_ROWS = 8 * STRIP  # where they stay in the L2 cache besides
REGION_BYTES = 3 << 17  # of B, which is packed and used while it is in the L2 cache
RUN_BYTES = 512  # of a row of B that a region has at least, as much as is read at full speed
NEAR_REGION_BYTES = 1 << 15  # of B, which are packed and used while they are in the L1 cache
LINES = 128  # bytes of a row of B: lines of the cache that are fetched together
READ_BY = 16  # panels that read a copy of A, which makes up for its making
STREAMED_ROWS = 64  # of B, in regions of one panel
GROUP_BYTES = 1 << 19  # of sums, a quarter of the L2 cache, that regions of one panel leave unfinished
LONGEST_RUN = 32  # panels that a thread reads at least; 16 are read at three quarters of the speed
FULL = 0.5  # of each step, at least, so much has to be no padding


@dataclass(frozen=True)
class Reading:
    """How a processor reads B best, while it is packed.

    Attributes:
        rows: so many at once. Those of a large B share few places in the L1 cache.
        lines: bytes of two panels at once, which are a cache line of a row.
        ahead: what reads rows fetches those that are read next.
        near: where A has few rows, regions are as large as the L1 cache holds.
    """

    rows: int
    lines: bool
    ahead: bool
    near: bool


@dataclass(frozen=True)
class Unit:
    """What multiplies: `scalar` as operands lie in memory, `group` of them in 32 bits, the instruction by LLVM's name.
    `rounding`: the one that rounds two vectors of f32 to such operands, if the CPU has that; like those that multiply,
    it takes subnormal numbers for 0."""

    reading: ClassVar = Reading(8, lines=True, ahead=False, near=True)  # of Xeons with AMX

    scalar: ScalarType
    group: int
    instruction: str
    rounding: str = field(default="", kw_only=True)

    @property
    def lanes(self) -> int:
        """Sums of a vector, as epilogues get them."""
        return SIDE

    @property
    def depth(self) -> int:
        """Elements of the contracted axis in one step."""
        return SIDE * self.group

    def fits(self, contraction: Contraction) -> bool:
        """Whether it computes a contraction of known sizes, and that pays."""
        if contraction.a.tiled or contraction.b.tiled:
            return reads_tiles(contraction, self)
        m, n, inner = rows_of(contraction), int(contraction.n.size), int(inner_of(contraction).size)
        least = 2 if streams_b(contraction, self) else SIDE
        products = m * n * int(contraction.depth)
        enough = LEAST_SHORT if m < SIDE else LEAST_NARROW if n < SIDE else LEAST
        wide = m >= least and n > 1 and products >= enough
        return wide and inner >= FULL * -(-inner // self.depth) * self.depth

    def product(self, contraction: Contraction, epilogue: Epilogue, accumulator: ScalarType) -> UnitProduct:
        """The contraction on this unit."""
        return UnitProduct(contraction, self, epilogue, accumulator)


def tile_unit(a: Element, b: Element, accumulator: ScalarType, target: CpuTarget) -> Unit | None:
    """The matrix unit for operands of these types, if the target has one."""
    if accumulator == F32 and a.name == b.name == "bf16" and AMX_BF16 in target.matrix_units:
        return Unit(I16, 2, "llvm.x86.tdpbf16ps", rounding=bf16_rounding(target))
    if accumulator == I32 and are_bytes(a, b) and AMX_INT8 in target.matrix_units:
        signs = "".join("u" if each.unsigned else "s" for each in (a, b))
        return Unit(I8, 4, f"llvm.x86.tdpb{signs}d")
    return None


def bf16_rounding(target: CpuTarget) -> str:
    """The instruction of a unit of bf16 that rounds."""
    has = BF16_FEATURE in required_features(target)
    return f"llvm.x86.avx512bf16.cvtne2ps2bf16.{target.vector_bits}" if has else ""


def are_bytes(*elements: Element) -> bool:
    """Whether they are integers that fill bytes."""
    return all(each.kind == "int" and each.bits == each.storage.bits == 8 for each in elements)


@dataclass(frozen=True)
class Fold:
    """An outer axis, by its number, that continues the rows: its places are `pitch` rows apart, of which `valid` are
    rows of the result. So lines of an image whose padding is written out are rows of one product."""

    number: int
    pitch: int
    valid: int


def fold_of(contraction: Contraction) -> Fold | None:
    """The fold that makes better use of tiles than short rows, if there is one."""
    m = contraction.m
    size, step = int(m.size), int(m.a)
    if step <= 0 or size >= MOST_FOLDED:
        return None
    folds = [
        Fold(number, int(axis.a) // step, size)
        for number, axis in enumerate(contraction.outer)
        if not axis.b and axis.a > 0 and axis.a % step == 0 and axis.a >= size * step
    ]
    best = min(folds, key=lambda fold: fold.pitch, default=None)
    return best if best and best.pitch <= LEAST_FOLDED * -(-size // SIDE) * SIDE else None


def rows_of(contraction: Contraction) -> int:
    """Rows of a product, with those between lines."""
    fold, size = fold_of(contraction), int(contraction.m.size)
    return (int(contraction.outer[fold.number].size) - 1) * fold.pitch + size if fold else size


def reads_tiles(contraction: Contraction, unit: Unit) -> bool:
    """Whether B is tiled, and the axes go along whole panels and steps of it."""
    n, outer, k = contraction.n, [axis for axis in contraction.outer if axis.b], contraction.k
    if not contraction.b.tiled or n.b != 1 or any(int(size) % PANEL for size in (n.size, *(axis.b for axis in outer))):
        return False
    step = int(n.size) * math.prod(int(axis.size) for axis in outer)
    for axis in reversed(k):
        if axis.b != step:
            return False
        step *= int(axis.size)
    return int(k[-1].size) % unit.depth == 0


def streams_b(contraction: Contraction, unit: Unit) -> bool:
    """Whether B is packed a region at a time: rows of A are so few that reading B is much of the work, and stay in the
    L2 cache meanwhile."""
    if contraction.b.tiled or contraction.n.b != 1:
        return False
    rows, fold = rows_of(contraction), fold_of(contraction)
    if rows <= FEW_ROWS:
        return True
    # Else a B that several places of outer axes share would be packed for each of them.
    outer = (axis for number, axis in enumerate(contraction.outer) if fold is None or number != fold.number)
    shared = any(axis.size > 1 and not axis.b for axis in outer)
    bytes_ = rows * int(contraction.depth) * unit.scalar.bits // 8
    return rows <= MOST_ROWS and bytes_ <= BLOCK_BYTES and not shared


def inner_of(contraction: Contraction) -> Axis:
    """The contracted axis that groups run along."""
    if contraction.b.tiled:
        return contraction.k[-1]
    return max(contraction.k, key=lambda axis: axis.size)


def configuration(f: Function, rows: int = 2 * SIDE) -> Value:
    """Where it is said how high tiles are: for strips of so many rows (tile_sums.py). Their width is whole."""
    first, second = min(SIDE, rows), max(1, rows - SIDE)
    heights = [first, first, second, second, first, second, SIDE, SIDE]
    place = f.alloca(ROW_BYTES, I8)
    f.store(f.const_lanes([1, *[0] * 15, *[ROW_BYTES, 0] * 8, *[0] * 16, *heights, *[0] * 8], I8), place)
    return place


def configure_tiles(f: Function) -> None:
    """From here on all tiles are whole ones, until they are released."""
    f.target_effect(CONFIGURE, configuration(f))


class UnitProduct:
    """A contraction on a matrix unit: its packing and compute phases.

    Attributes:
        strip: rows that are multiplied at once. longest_chunk: steps of a chunk, at most.
        room_a, room_b: where operands are packed, if they are. sums: scratch for unfinished ones.
        flips: bytes of a packed B get the other sign: 128 is added to signed ones, taken from others.
        shared_packing: what gets the functions that pack B; None: it is part of the kernel.
    """

    strip = STRIP
    longest_chunk = CHUNK
    flips = False

    def __init__(self, contraction: Contraction, unit: Unit, epilogue: Epilogue, accumulator: ScalarType) -> None:
        self.contraction, self.unit, self.epilogue, self.accumulator = contraction, unit, epilogue, accumulator
        self.inner = inner_of(contraction)
        self.others = [axis for axis in contraction.k if axis is not self.inner]
        self.m, self.n = rows_of(contraction), int(contraction.n.size)
        self.fold = fold_of(contraction)
        folded = self.fold.number if self.fold else None
        self.outer = [axis for number, axis in enumerate(contraction.outer) if number != folded]
        self.room_a: Operand | None = None
        self.room_b: Operand | None = None
        self.sums: Operand | None = None
        self.shared_packing: set[SharedFunction] | None = None

    @property
    def lines(self) -> int:
        """Places of the axis that continues the rows."""
        return int(self.contraction.outer[self.fold.number].size) if self.fold else 1

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
        """Whether A is packed: tiles cannot be loaded from where it is, or many panels load them. Rows of a tile that
        are not neighbours share few places in the caches."""
        in_place = self.inner.a == 1 and self.inner.size % self.unit.depth == 0 and not self.contraction.a.rounded
        is_read_often = self.streams_b and not self.is_near and not self.fold and self.panels >= READ_BY
        return self.by_panel or not in_place or is_read_often

    @property
    def streams_b(self) -> bool:
        """Whether rows of A are so few that reading B is all the work: it is packed as it comes along."""
        return streams_b(self.contraction, self.unit)

    @property
    def panels(self) -> int:
        return -(-self.n // PANEL)

    @property
    def row_tiles(self) -> int:
        return -(-self.m // SIDE)

    @property
    def strips(self) -> int:
        """Strips of rows, the last of which may have fewer."""
        return -(-self.m // self.strip)

    @cached_property
    def block(self) -> int:
        """Strips of a block: even shares."""
        most = self.strips if self.streams_b else max(1, BLOCK_BYTES // (self.strip * self.steps * ROW_BYTES))
        blocks = -(-self.strips // most)
        return -(-self.strips // blocks)

    @property
    def blocks(self) -> int:
        return -(-self.strips // self.block)

    @property
    def iterations(self) -> int:
        """Of the compute phase."""
        return math.prod(int(axis.size) for axis in self.outer) * self.blocks * self.panels

    @property
    def cost(self) -> float:
        """Nanoseconds of one iteration. A step of a strip is four instructions of 16 cycles, and takes some more as A
        comes from the L2 cache; sums take some hundred. Where B is packed on the way, a step of it takes 250, and sums
        pass by for every chunk."""
        if self.streams_b:
            return self.steps * (self.strips * 200 + 250) / 3.0
        return self.block * (self.steps * 80 + 600) / 3.0

    @property
    def least_range(self) -> int:
        """Iterations that a thread has at least: an eighth of all, or 32, where rows of B are read in runs."""
        return min(LONGEST_RUN, -(-self.iterations // 8)) if self.streams_b else 1

    # --- packing -----------------------------------------------------------------------------------------------------

    def size_of(self, side: str) -> int:
        """Numbers of 32 bits of a packed operand."""
        return self.copies(side) * self._tiles(side) * self.steps * TILE

    def _tiles(self, side: str) -> int:
        return self.row_tiles if side == "a" else 2 * self.panels

    def room_steps(self, side: str) -> tuple[int, int, int]:
        """In a packed operand, in numbers of 32 bits: from a tile of rows, or a panel, to the next, from a step to the
        next, from a row to the next within a step."""
        tiles = 1 if side == "a" else 2
        return tiles * self.steps * TILE, tiles * TILE, SIDE

    def copies(self, side: str) -> int:
        return math.prod(int(axis.size) for axis in self.outer if getattr(axis, side))

    def by_tiles(self, side: str) -> bool:
        """Whether an iteration of the packing makes all steps of some tiles; else it makes some steps of all tiles, as
        operands are read along memory."""
        return getattr(self.inner, side) == 1

    def pack_iterations(self, side: str) -> int:
        """Of the packing of A or of B: tiles of rows, panels, or steps."""
        each = self.steps
        if self.by_tiles(side):
            each = self.row_tiles if side == "a" else self.panels
        return self.copies(side) * each

    def strides(self, side: str, axes: Sequence[Axis]) -> list[int]:
        """Steps of outer axes in a packed operand: copies along axes that the operand lacks are not made."""
        if side == "b" and self.contraction.b.tiled:
            return [int(axis.b) // PANEL * 2 * self.steps * TILE for axis in axes]
        step = self.size_of(side)
        strides = []
        for axis in axes:
            step //= int(axis.size) if getattr(axis, side) else 1
            strides.append(step if getattr(axis, side) else 0)
        return strides

    # --- computing ---------------------------------------------------------------------------------------------------

    @cached_property
    def chunk(self) -> int:
        """Steps of a chunk: even shares."""
        if self.by_panel:
            return min(self.steps, STREAMED_ROWS // self.unit.depth)
        steps = self._most_steps
        return -(-steps // -(-steps // self.longest_chunk))

    @property
    def chunks(self) -> int:
        return -(-self.steps // self.chunk)

    # --- regions of B ------------------------------------------------------------------------------------------------

    @property
    def by_panel(self) -> bool:
        """Whether a region is one panel: it has one strip to meet, and no need to leave the L1 cache."""
        return self.streams_b and self.strips == 1

    @property
    def is_near(self) -> bool:
        """Whether regions stay in the L1 cache: rows of A are so few that little is gained by fewer, longer sums.
        Folded lines of images take 1.1 of the time so."""
        is_short = self.m <= FEW_ROWS and not self.fold
        return self.by_panel or (self.streams_b and self.unit.reading.near and is_short)

    @property
    def _region_bytes(self) -> int:
        """Of a region that is packed, at most."""
        return NEAR_REGION_BYTES if self.is_near else REGION_BYTES

    @cached_property
    def _most_steps(self) -> int:
        """Of a region, even shares: all, or as many as leave room for rows that are read at full speed."""
        if not self.streams_b:
            return self.steps
        run, bits = RUN_BYTES, self.unit.scalar.bits
        if self.is_near:
            run, bits = LINES, self.contraction.b.element.storage.bits
        panels = min(self.panels, max(1, run * 8 // (PANEL * bits)))
        regions = -(-self.steps // max(1, self._region_bytes // (panels * 2 * TILE * 4)))
        return -(-self.steps // regions)

    @property
    def region_chunks(self) -> int:
        """Chunks of a region."""
        return 1 if self.by_panel else -(-self._most_steps // self.chunk)

    @property
    def regions(self) -> int:
        """Regions along the contracted axes."""
        return -(-self.chunks // self.region_chunks)

    @property
    def region_steps(self) -> int:
        return self.region_chunks * self.chunk

    @property
    def region_pitch(self) -> int:
        """Numbers of 32 bits from a panel of a region to the next: an odd number of cache lines, since a row's lines go
        to all of them, and a page apart would share few places in the L1 cache."""
        return self.region_steps * 2 * TILE + SIDE

    @cached_property
    def region_panels(self) -> int:
        if self.by_panel:
            return 1
        return min(self.panels, max(1, self._region_bytes // (self.region_steps * 2 * TILE * 4)))

    @property
    def group(self) -> int:
        """Panels whose regions follow each other, before those of the next steps."""
        return min(self.panels, GROUP_BYTES // (4 * self.strip * PANEL)) if self.by_panel else self.region_panels

    @property
    def region_size(self) -> int:
        """Numbers of 32 bits of a packed region."""
        return self.region_panels * self.region_pitch

    @property
    def sums_size(self) -> int:
        """Numbers of 32 bits of the scratch for sums: of one strip that is stored, or of all that are unfinished."""
        panels = self.group if self.streams_b and self.regions > 1 else 1
        return self.strip * PANEL * panels * (self.block if self.chunks > 1 else 1)
