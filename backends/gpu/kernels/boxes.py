"""Products whose tiles the machine's copy engine brings to shared memory (NVIDIA's tensor memory accelerator).

One thread asks for whole boxes of an operand; no thread computes addresses, or holds what is on its way. A counter for
each stage says when its bytes have come. Operands are matrices in memory, in batches; what a tile has outside of them
is zero. Where the machine has no such engine, the threads of a block copy boxes, which is there to test them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from stablehlo_py.backends.common.views import view_of
from stablehlo_py.backends.gpu.kernels.matrix import Shares, WarpgroupProduct, tilings
from stablehlo_py.backends.gpu.kernels.product import PIECE_BITS, Product, Side
from stablehlo_py.backends.gpu.kernels.tile import Tile
from stablehlo_py.backends.gpu.kernels.tiled import Corner, TiledProduct
from stablehlo_py.codegen.builder import I8, I32, I64, Function, Index, Value
from stablehlo_py.codegen.matrix_units import MatrixUnit
from stablehlo_py.codegen.tensor_maps import BYTES, LINE_BYTES, MOST_DIMENSIONS, TensorMap
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.alignment import ACCESS_ALIGNMENT
from stablehlo_py.dialect.index_map import merge_digits

_MOST_LINES = 256  # of a box


def kernels(product: Product, units: Sequence[MatrixUnit], *, more: bool) -> list[TiledProduct]:
    """Those of a product whose operands' elements these units take, and `more` to be tried."""
    wide = (unit for unit in units if unit.is_warpgroup)
    return [BoxProduct(product, tiling, unit) for unit in wide for tiling in tilings(unit, more=more)]


@dataclass(frozen=True)
class Boxes:
    """The boxes that a tile of an operand consists of.

    Attributes:
        tile: what they fill; map: of the operand.
        argument, offset: where the operand begins: an input of the fusion, and bytes from there.
    """

    tile: Tile
    map: TensorMap
    argument: int
    offset: int

    @classmethod
    def of(cls, tile: Tile) -> Boxes | None:
        """None: the operand is no matrix in memory, or one that the engine does not take."""
        operand, bits = tile.operand, tile.held.bits
        view = view_of(operand.value, element(operand.value)) if isinstance(operand, Side) else None
        if view is None or view.element != element(operand.value) or not tile.as_stored or tile.turned:
            return None
        assert isinstance(operand, Side)
        rows, depth, batch = (
            merge_digits(tuple(digit for d in dimensions for digit in view.layout.dimensions[d]))
            for dimensions in (operand.free, operand.contracted, operand.batch)
        )
        first, second = (depth, rows) if operand.contracts_last else (rows, depth)
        digits = [*first, *second, *reversed(batch)]
        strides = tuple(int(stride) * bits // 8 for _, stride in digits[1:])
        offset = int(view.layout.offset) * bits // 8
        is_matrix = len(first) == len(second) == 1 and first[0][1] == 1 and len(digits) <= MOST_DIMENSIONS
        is_aligned = not any(number % ACCESS_ALIGNMENT for number in (*strides, offset)) and min(strides, default=0) > 0
        if not is_matrix or not is_aligned or tile.line * bits != 8 * LINE_BYTES or tile.lines > _MOST_LINES:
            return None
        box = (tile.line, tile.lines, *(1 for _ in batch))
        return cls(tile, TensorMap(bits, tuple(int(size) for size, _ in digits), strides, box), view.argument, offset)

    @property
    def _count(self) -> int:
        return self.tile.size * self.tile.held.bits // 8 // self.map.box_bytes

    def source(self, f: Function) -> Value:
        """Where the operand begins."""
        return f.gep(f.parameters[f"in{self.argument}"], self.offset, I8)

    def begins(self, f: Function, batch: Index, row: Index, k: Index) -> list[list[Index]]:
        """The first element of each box of the tile that begins there."""
        first, second = (k, row) if self.tile.operand.contracts_last else (row, k)
        batches = list[Index]()
        for size in self.map.sizes[2:]:
            batches.append(f.irem(batch, size))
            batch = f.idiv(batch, size)
        return [[f.iadd(first, self.tile.line * number), second, *batches] for number in range(self._count)]

    def place(self, f: Function, begin: Index, number: int) -> Index:
        """The first element of a box in shared memory, of the tile that begins at that one."""
        return f.iadd(begin, number * self.tile.size // self._count)

    def copied_by_threads(self, f: Function, shared: Value, at: Index, begin: Sequence[Index]) -> None:
        """Copy a box as the engine would: all threads of the block do."""
        held, sizes = self.tile.held, self.map.sizes
        steps = (1, *(stride * 8 // held.bits for stride in self.map.strides))
        line, wide = self.tile.line, PIECE_BITS // held.bits

        def copy(number: Index) -> None:
            outer, inner = f.idiv(number, line), f.irem(number, line)
            indices = [f.iadd(begin[0], inner), f.iadd(begin[1], outer), *begin[2:]]
            place: Index = 0
            for index, size, step in zip(indices, sizes, steps, strict=True):
                place = f.iadd(place, f.imul(f.imin(index, size - 1), step))
            inside = [f.cmp("slt", f.index(index), f.const(size)) for index, size in zip(indices, sizes, strict=True)]
            exists = reduce(partial(f.binary, "and"), inside)
            value = f.select(exists, f.load(held, self.source(f), place), f.const(0, held))
            piece = f.ixor(f.idiv(inner, wide), f.irem(outer, 8))
            to = f.iadd(f.imul(outer, line), f.iadd(f.imul(piece, wide), f.irem(inner, wide)))
            f.store(value, shared, f.iadd(at, to))

        f.loop(f.thread_number(), self.map.box_bytes * 8 // held.bits, f.threads_of_block, copy)


class BoxProduct(WarpgroupProduct):
    """A product whose operands both come in boxes. A block makes the maps of both; they take it some hundred cycles."""

    def __init__(self, product: Product, tiling: Shares, unit: MatrixUnit) -> None:
        super().__init__(product, tiling, unit)
        self.boxes = [Boxes.of(tile) for tile in (self.a, self.b)]
        self.copies, self.stages = False, tiling.stages

    @property
    def by(self) -> str:
        return f"{super().by} with tensor maps"

    @property
    def is_possible(self) -> bool:
        fits = self.shared_bytes + 2 * BYTES + 8 * self.stages <= self.p.target.shared_bytes
        return None not in self.boxes and fits and super().is_possible

    @property
    def more_scratch(self) -> int:
        return BYTES * (2 * self.tiling.tiles(self.p) * self.parts + 1)

    def prepare(self, f: Function, first: Index, last: Index) -> None:
        super().prepare(f, first, last)
        self.by_engine = self.unit.architecture == f.architecture.name
        if not self.by_engine:
            return
        self.counters = f.shared_memory(self.stages, I64)
        place = f.shared_memory(2 * BYTES // 4, I32, align=BYTES)
        begin = f.gep(f.scratch, self.sums_bytes, I8)
        past = f.irem(f.isub(0, f.cast("ptrtoint", begin, I64)), BYTES)
        maps = f.gep(begin, f.iadd(past, f.imul(f.block_number(), 2 * BYTES)), I8)
        self.maps = [f.gep(maps, number * BYTES, I8) for number in range(2)]

        def make() -> None:
            for number, boxes in enumerate(self.boxes):
                assert boxes is not None
                at = f.gep(place, number * BYTES, I8)
                f.make_tensor_map(boxes.map, boxes.source(f), at, self.maps[number])

        f.if_(f.cmp("slt", f.thread_number(), f.const(self.unit.threads)), make)

        def begin_all() -> None:
            for number in range(self.stages):
                f.begin_arrivals(self.counters, number)

        f.if_(f.cmp("eq", f.thread_number(), f.const(0)), begin_all)
        f.barrier()

    def bring(self, f: Function, shared: Value, begin: Index, corner: Corner, step: Index) -> Callable[[], None]:
        batch, row, column = corner
        start = f.imul(step, self.tiling.depth)
        sides = ((row, begin, 0), (column, f.iadd(begin, self.a.size), 1))

        def ask() -> None:
            stage = f.irem(step, self.stages)
            if self.by_engine:
                f.expect_bytes(self.counters, stage, (self.a.size + self.b.size) * self.held.bits // 8)
            for first, at, side in sides:
                boxes = self.boxes[side]
                assert boxes is not None
                for number, place in enumerate(boxes.begins(f, batch, first, start)):
                    to = boxes.place(f, at, number)
                    if not self.by_engine:
                        boxes.copied_by_threads(f, shared, to, place)
                        continue
                    word = f.idiv(f.imul(to, self.held.bits), 32)
                    f.copy_box(self.maps[side], shared, word, self.counters, stage, place)

        # Nothing may be on its way when the block ends, so that no step behind the last one is asked for.
        there = f.cmp("slt", f.index(step), f.index(self.last))
        first = f.cmp("eq", f.thread_number(), f.const(0))
        f.if_(f.binary("and", there, first) if self.by_engine else there, ask)
        return lambda: None

    def arrived(self, f: Function, step: Index, pending: int) -> None:
        if self.by_engine:
            phase = f.idiv(f.isub(step, self.first), self.stages)
            f.await_arrivals(self.counters, f.irem(step, self.stages), phase)
