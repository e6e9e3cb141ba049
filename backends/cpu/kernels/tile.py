"""Loop kernels that read an input transposed: square tiles, transposed in registers.

The result's rows run along one loop, an input's along another. A tile of L x L elements is loaded as L vectors along
the input's rows, transposed by log2(L) rounds of two-source shuffles, and used as L vectors along the result's rows:
both sides touch whole cache lines. Small bodies take the vectors from registers, larger ones from a tile in the stack.
The last tiles overlap those before them: both loops have at least L iterations (symbolic_loop.py has code for fewer).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import accumulate, pairwise

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.iteration import Space
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase, phase_function
from stablehlo_py.backends.cpu.kernels.iteration import lanes_for, power_of_two
from stablehlo_py.backends.cpu.kernels.transposing import (
    columns_at_once,
    half_transposed,
    load_halves,
    transposed,
    transposed_halves,
    transposed_in_memory,
)
from stablehlo_py.backends.cpu.policy_costs import COSTS
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import Function, Index, Value, VectorType
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import (
    Affine,
    Delinearized,
    Variable,
    add,
    address,
    affine_of,
    delinearize,
    delinearized,
    lane_index,
    linear_index,
)
from stablehlo_py.codegen.types import Element, Lanes, element
from stablehlo_py.dialect.symint import IntLike, always_less, is_known, less, size_hint
from stablehlo_py.dialect.types import i64, shape
from stablehlo_py.mlir import ir

SMALLEST = 4  # tiles of fewer lanes do not pay
MOST_PIECES = 8  # of columns, each with tiles of its own
UNROLLED_OPS = 3  # bodies of up to this many operations are repeated for every row of the tile
# Of the nearest cache: lines of a set, and the distance of lines of one set.
_SET_LINES, _SETS_BYTES = 8, 4096


def applies(fusion: Fusion, target: CpuTarget, space: Space) -> bool:
    """Whether an input is read along another loop than the innermost, and both are long enough, or may be."""
    return not fusion.aliased and _transposed_loop(space) is not None


def lies_within_operands(fusion: Fusion, target: CpuTarget, space: Space, values: Sequence[ir.Value]) -> bool:
    """The same of inputs that are joined, `space` being refined within each of them, where tiles are, too. `values` are
    those that the fusion computes."""
    if not is_known(*space.sizes) or not applies(fusion, target, space):
        return False
    return len(_pieces(fusion, space.sizes[-1], lanes_of(target, space, values))) > 1


def _transposed_loop(space: Space) -> int | None:
    """The loop along which a transposed input is contiguous."""
    inner = len(space.sizes) - 1
    for _, offset in space.loads:
        if offset.vector is not None or space.coefficient(offset, inner) in (0, 1):
            continue
        for loop in range(inner):
            short = any(always_less(size, SMALLEST) for size in (space.sizes[loop], space.sizes[inner]))
            if space.coefficient(offset, loop) == 1 and not short:
                return loop
    return None


def _extents(space: Space) -> tuple[IntLike, IntLike, IntLike]:
    """The loop that rows of tiles are of, its size, that of the innermost one."""
    loop = _transposed_loop(space)
    assert loop is not None
    return loop, space.sizes[loop], space.sizes[-1]


def lanes_of(target: CpuTarget, space: Space, values: Sequence[ir.Value]) -> int:
    """Lanes, and rows, of a tile: full vectors, fewer where a loop is known to be shorter."""
    known = [size for size in _extents(space)[1:] if is_known(size)]
    return lanes_for(target, values, min((power_of_two(int(size)) for size in known), default=target.lanes(8)))


def fits(space: Space, lanes: int) -> IntLike:
    """1 where both loops have as many iterations as a tile has lanes, else 0."""
    _, rows, columns = _extents(space)
    return (1 - less(rows, lanes)) * (1 - less(columns, lanes))


def _is_in_memory(registers: int, bits: int, lanes: int) -> bool:
    """Whether a tile has too many vectors for registers."""
    return lanes > registers and lanes * bits > 128


class TileElemental(Elemental):
    """Reads that are contiguous along the tile's rows come from transposed tiles.

    `row`: the tile's first row; `inside`: the row within the tile, a loop variable or a Python int; `there`: the first
    lanes, which the predicate `mask` stands for where these are not all; `rows`: of the tile, as many as lanes or half
    of them.
    """

    def __init__(
        self,
        f: Function,
        fusion: Fusion,
        target: CpuTarget,
        lanes: int,
        row: Variable | int,
        inside: Variable | int,
        there: int | None = None,
        mask: Value | None = None,
        rows: int | None = None,
    ) -> None:
        super().__init__(f, fusion, target, lanes)
        self.row, self.inside, self.there, self.mask, self.rows = row, inside, there or lanes, mask, rows or lanes
        self.registers = target.registers

    def row_index(self) -> Affine:
        """The row of the result in terms of the tile's."""
        start = Affine(self.row) if isinstance(self.row, int) else Affine(0, ((self.row, 1),))
        return add(None, start, Affine(self.inside) if isinstance(self.inside, int) else Affine(0, ((self.inside, 1),)))

    def read(self, of: Element, base: Value, place: Delinearized, source: object = None) -> Lanes:
        offset = linear_index(self.f, place)
        if self._is_transposed(of, offset):
            return self._from_tile(of, base, offset)
        return super().read(of, base, place, source)

    def _is_transposed(self, of: Element, offset: Affine) -> bool:
        if offset.vector is not None or self.predicate is not self.mask:
            return False
        if of.is_complex and not isinstance(self.inside, int):
            return False
        if is_known(offset.lane) and abs(offset.lane) < 2:
            return False
        tracked = self.row if isinstance(self.row, Variable) else self.inside
        return isinstance(tracked, Variable) and (tracked, 1) in offset.terms

    def _from_tile(self, of: Element, base: Value, offset: Affine) -> Lanes:
        f, lanes = self.f, self.lanes
        if isinstance(self.inside, int):
            first = add(f, offset, -self.inside)
        else:
            first = add(f, offset, Affine(0, ((self.inside, -1),)))
        start = Affine(first.constant, first.terms)
        key = ("tile", base.ref, start, offset.lane, isinstance(self.inside, int))
        tile = f.recall(key)
        if tile is None:
            with f.at_level(max(start.level, f.safe_level)):
                load = self._load_complex_tile if of.is_complex else self._load_tile
                tile = f.remember(key, load(of, base, start, offset.lane))
        if isinstance(self.inside, int):
            stored = tile[self.inside]
        else:
            stored = f.load(VectorType(lanes, of.storage), tile, f.imul(self.inside.value, lanes))
        return of.decode(f, stored) if of.decode else stored

    def _load_complex_tile(self, of: Element, base: Value, start: Affine, stride: IntLike) -> list[tuple[Value, Value]]:
        f, rows = self.f, []
        pointer, rest = address(f, base, start, of.storage, 2)
        for lane in range(self.lanes):
            rows.append(load_halves(f, of, pointer, rest, self.lanes))
            pointer = f.gep(pointer, stride * 2, of.storage) if lane + 1 < self.there else pointer
        return transposed_halves(f, rows)

    def _load_tile(self, of: Element, base: Value, start: Affine, stride: IntLike) -> list[Value] | Value:
        f, lanes = self.f, self.lanes
        type_ = VectorType(self.rows, of.storage)
        pointer, rest = address(f, base, start, of.storage)
        if self.rows < lanes:
            return half_transposed(f, lambda lane: f.load(type_, pointer, rest + int(stride) * lane), lanes)
        if not isinstance(self.inside, int) and _is_in_memory(self.registers, of.storage.bits, lanes):

            def row(number: Index) -> Value:
                number = number if self.there == lanes else f.imin(number, self.there - 1)
                return f.load(type_, pointer, f.iadd(f.imul(number, stride), rest))

            return transposed_in_memory(f, row, lanes, of.storage)
        if not isinstance(self.inside, int) and is_known(stride):
            return self._tile_by_columns(of, f.gep(pointer, rest, of.storage), int(stride))
        if is_known(stride):
            rows = [f.load(type_, pointer, rest + stride * min(lane, self.there - 1)) for lane in range(lanes)]
        else:
            rows = []
            for lane in range(lanes):
                rows.append(f.load(type_, pointer, rest))
                pointer = f.gep(pointer, stride, of.storage) if lane + 1 < self.there else pointer
        columns = transposed(f, rows)
        if isinstance(self.inside, int):
            return columns
        buffer = f.alloca(lanes * lanes, of.storage)
        for number, column in enumerate(columns):
            f.store(column, buffer, number * lanes)
        return buffer

    def _tile_by_columns(self, of: Element, pointer: Value, stride: int) -> Value:
        """The address of a transposed tile in memory, whose halves are transposed by a loop where that takes no more
        shuffles: half of the code, and of the registers."""
        f, lanes = self.f, self.lanes
        many = columns_at_once(of.storage.bits, lanes)
        buffer = f.alloca(lanes * lanes, of.storage)

        def some(first: Index) -> None:
            start, room = f.gep(pointer, first, of.storage), f.gep(buffer, f.imul(first, lanes), of.storage)

            def row(number: int) -> Value:
                return f.load(VectorType(many, of.storage), start, stride * min(number, self.there - 1))

            columns = half_transposed(f, row, lanes) if many < lanes else transposed(f, [*map(row, range(lanes))])
            for number, column in enumerate(columns):
                f.store(column, room, number * lanes)

        f.loop(0, lanes, many, some)
        return buffer


def _rows_at_once(target: CpuTarget, space: Space, row_loop: int, lanes: int) -> int:
    """Rows of a tile whose lines are repeated, as many as lanes or half of them: then a loop does two halves, which are
    transposed in no more shuffles and half of the code. Each reads half of a cache line, so that both find the lines in
    the nearest cache, unless these are more than a set of it holds, and a tile fits into registers."""
    inner = len(space.sizes) - 1

    def has_halves(value: object, step: IntLike) -> bool:
        of = element(value) if isinstance(value, ir.Value) else None
        if of is None or of.is_complex or columns_at_once(of.storage.bits, lanes) == lanes:
            return False
        sets = _SETS_BYTES // math.gcd(int(step) * of.bytes, _SETS_BYTES)
        return lanes <= _SET_LINES * sets or 2 * lanes > target.registers

    if not is_known(*space.sizes):
        return lanes
    turned = [
        (value, space.coefficient(offset, inner))
        for value, offset in space.loads
        if offset.vector is None and space.coefficient(offset, row_loop) == 1
    ]
    by_halves = all(has_halves(value, step) for value, step in turned if step not in (0, 1))
    return lanes // 2 if by_halves else lanes


def _advanced(f: Function, row: Variable | int, by: Index, rows: int, lanes: int) -> Variable | int:
    """The first of some rows of a tile, that many after its own."""
    if isinstance(by, int):
        assert by == 0
        return row
    if isinstance(row, int):
        return Variable(f.index(f.iadd(row, by)), row, row + lanes - rows, math.gcd(row, rows))
    multiple = math.gcd(int(row.multiple), rows)
    return Variable(f.index(f.iadd(row.value, by)), row.low, row.high + lanes - rows, multiple)


def _pieces(fusion: Fusion, columns: IntLike, lanes: int) -> list[tuple[int, IntLike]]:
    """Where pieces of the columns begin and how many they are: each within one operand of a concatenation, if these are
    few and as wide as a tile. A tile that may lie in several would be read anew for each of its rows."""
    ends = set[int]()
    for op in fusion.ops if is_known(columns) else ():
        if op.operation.name == "stablehlo.concatenate":
            sizes = [shape(operand)[i64(op, "dimension")] for operand in op.operands]
            if sum(sizes) == columns:
                ends.update(accumulate(map(int, sizes)))
    pieces: list[tuple[int, IntLike]] = [(begin, end - begin) for begin, end in pairwise([0, *sorted(ends)])]
    narrow = any(always_less(size, lanes) for _, size in pieces)
    return pieces if 1 < len(pieces) <= MOST_PIECES and not narrow else [(0, columns)]


def emit(
    fusion: Fusion, target: CpuTarget, space: Space, values: Sequence[ir.Value], lanes: int, suffix: str = ""
) -> Kernel:
    """Generate the kernel; `values` are the values that it computes, `suffix` tells its function from others of the
    fusion."""
    row_loop, rows, columns = _extents(space)
    column_loop = len(space.sizes) - 1
    others = [size for loop, size in enumerate(space.sizes) if loop not in (row_loop, column_loop)]
    row_tiles, pieces = -(-rows // lanes), _pieces(fusion, columns, lanes)
    work = [value for value in values if value.owner.name not in ("hlo.transpose", "hlo.reshape", "hlo.broadcast")]
    f = phase_function(fusion, target, suffix)
    high = _rows_at_once(target, space, int(row_loop), lanes) if work else lanes  # copies wait for memory alone

    def tile(outer: Sequence[Affine], row: Variable | int, first: int, size: IntLike, number: Index) -> None:
        start = f.imul(number, lanes)
        if size % lanes:
            start = f.imin(start, size - lanes)
        column = add(f, lane_index(start, size, lanes, 1 if size % lanes else lanes), first)

        def line(e: TileElemental, inside: Index) -> None:
            e.inside = Variable(inside, 0, lanes - 1) if isinstance(inside, Value) else int(inside)
            indices = list(outer)
            indices.insert(row_loop, e.row_index())
            place = delinearized(space.sizes, [*indices, column])
            e.write_outputs(fusion.outputs, place)

        def some(first: Index) -> None:
            """Lines that are repeated."""
            e = TileElemental(f, fusion, target, lanes, _advanced(f, row, first, high, lanes), 0, rows=high)
            for inside in range(high):
                line(e, inside)

        in_memory = any(_is_in_memory(target.registers, element(each).storage.bits, lanes) for each in fusion.inputs)
        if len(work) <= UNROLLED_OPS and not in_memory:
            f.loop(0, lanes, high, some)
        else:
            # What lines have in common is computed once.
            f.loop(0, lanes, 1, partial(line, TileElemental(f, fusion, target, lanes, row, 0)))

    def strip(i: Index) -> None:
        outer = delinearize(
            f, ((math.prod(others), affine_of(f.idiv(i, row_tiles), math.prod(others) - 1)),), others, 1
        )
        first = f.imul(f.irem(i, row_tiles), lanes)
        if rows % lanes:
            first = f.imin(first, rows - lanes)
        row = Variable(first, 0, rows - lanes, 1 if rows % lanes else lanes) if isinstance(first, Value) else int(first)
        for first_column, size in pieces:
            f.loop(0, -(-size // lanes), 1, partial(tile, outer, row, first_column, size))

    f.loop(f.begin, f.end, 1, strip, nonempty=is_known(rows, columns))
    column_tiles = sum(-(-size_hint(size) // lanes) for _, size in pieces)
    cost = COSTS.phase_ns(target, values, 2 * len(space.loads), len(fusion.outputs)) * lanes * column_tiles
    return Kernel.of(phase(f, math.prod(others) * row_tiles, cost))
