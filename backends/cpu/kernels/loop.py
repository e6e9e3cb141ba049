"""Kernels of kind `loop`: every element of the results by itself.

The results are walked in row-major order with as few loops as their indices allow: a chain of elementwise operations is
one flat loop, a broadcast of a bias two. The innermost loop has one vector per iteration; its last vector starts early
enough to end with the row, so there is neither a tail nor a mask (elements in the overlap are computed twice, to the
same bits). Only kernels that work in place mask the tail instead. Transposed reads go through square tiles
(kernels/tile.py)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import TypeAlias

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.iteration import Space, cone, refine
from stablehlo_py.backends.cpu.kernels import block_matrix, concatenate, symbolic_loop, tile
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase, phase_function
from stablehlo_py.backends.cpu.kernels.iteration import (
    GATHERED,
    STRAIGHT,
    empty,
    lanes_for,
    merge_short,
    vectors_of_row,
)
from stablehlo_py.backends.cpu.kernels.spread import spread_over, write_rows
from stablehlo_py.backends.cpu.policy_costs import COSTS
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I64, Function, Index, Value
from stablehlo_py.codegen.elemental import NEAR, Elemental
from stablehlo_py.codegen.index import (
    Affine,
    Delinearized,
    Variable,
    add,
    affine_of,
    delinearize,
    delinearized,
    lane_index,
    linear_index,
    scale,
)
from stablehlo_py.codegen.types import Lanes, element
from stablehlo_py.dialect.index_map import row_major_strides
from stablehlo_py.dialect.symint import is_known, size_hint
from stablehlo_py.dialect.types import i64, i64s, num_elements, shape, symints, tensor_bytes
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import ir

ALTERNATING = 15  # values whose elements alternate; 16 are the lanes of a vector, each with its own
COLUMNS = 4  # of a result, computed one after the other
MOST_APART = 32  # vectors for them whose lanes may lie anywhere: a load for each lane
PARTED = 8  # vectors of a row from which on those that reach no edge of it have code of their own
PAIRED_NS = {16: 4.1, 32: 6.0}  # registers -> arithmetic on a vector, from which on two are computed at once
CHAINED = 0.5  # of it, in one chain of operations at least
MOST_SEAMS = 32
FEWEST_STRAIGHT, MOST_PERIODIC = 3, 16  # of some rows at once
MOST_STRAIGHT = 8  # where their operands stay in registers
MOST_STRAIGHT_OPS = 160  # of all of them
ROW_NS = 2.0  # of a row, besides its vectors
SHARES = 8  # iterations of a grain, at least, where they are loops over rows
BLOCK = 8192  # elements of one iteration of a phase, where rows are longer
# Loads of elements that are no neighbours. Of more of them vectors of small numbers are shorter: each element is an
# instruction and takes as long.
MOST_GATHERED = 4
NONTEMPORAL_BYTES = 8 << 20  # results beyond the last-level cache go around it


Within: TypeAlias = "tuple[int, int] | None"


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """Generate the kernel. All results have the same number of elements."""
    count = num_elements(fusion.outputs[0])
    if any(num_elements(value) != count for value in fusion.outputs):
        raise InternalError(f"results of loop fusion {fusion.name} differ in their number of elements")
    if count == 0:
        return empty(fusion, target)
    if concatenate.applies(fusion) and (kernel := concatenate.emit(fusion, target)) is not None:
        return kernel
    if (matrix := block_matrix.emit(fusion, target)) is not None:
        return matrix
    alternating = _alternating(fusion, target)
    if alternating:
        return _emit_alternating(fusion, target, alternating)
    space = refine(fusion, target, fusion.outputs, [count])
    values = cone(fusion.outputs)
    if not is_known(*space.sizes):
        return symbolic_loop.emit(fusion, target, space, values)
    if tile.applies(fusion, target, space):
        return tile.emit(fusion, target, space, values, tile.lanes_of(target, space, values))
    if any(op.operation.name == "stablehlo.concatenate" for op in fusion.ops):
        within = refine(fusion, target, fusion.outputs, space.sizes, within_operands=True)
        if tile.lies_within_operands(fusion, target, within, values):
            return tile.emit(fusion, target, within, values, tile.lanes_of(target, within, values))
        space = within if len(within.sizes) > len(space.sizes) else space
    cost = COSTS.phase_ns(target, values, _loads(space), len(fusion.outputs))
    widest = lanes_for(target, values or fusion.outputs, count)
    if (periodic := _periodic(space, values, widest)) is not None:
        return _Loop(fusion, target, periodic, widest, straight=True).emit(cost)
    windows = int(space.sizes[-1]) < widest and _has_windows(fusion, values, int(space.sizes[-1]))
    if not windows and (loops := _column_loops(fusion, space, widest)):
        rows, columns = space.sizes[:-loops], int(math.prod(space.sizes[-loops:]))
        walked = tuple(map(int, merge_short(rows, widest)))
        lanes = _lanes(target, space, values, walked, columns)
        spread = spread_over(fusion, columns)
        return _Loop(fusion, target, walked, lanes, columns=columns, spread=spread).emit(cost * columns)
    sizes = tuple(map(int, space.sizes if windows else merge_short(space.sizes, widest)))
    lanes = _lanes(target, space, values or fusion.outputs, sizes)
    is_bound = COSTS.vector_ns(values, len(space.loads), len(fusion.outputs)) <= COSTS.bound_ns
    is_cheap = windows or (is_bound and len(sizes) > 1)
    straight = (is_cheap or _shares_places(space, sizes)) and sizes[-1] <= STRAIGHT * lanes
    straight = not fusion.aliased and (straight or _keeps_operands(target, space, sizes, lanes, len(values)))
    if not straight and _is_paired(fusion, target, values, sizes[-1], lanes):
        lanes, cost = 2 * lanes, 2 * cost
    backward = sizes[-1] == space.sizes[-1] and _is_read_backward(space)
    loop = _Loop(fusion, target, sizes, lanes, straight=straight, backward=backward)
    return loop.emit(cost * _computed_share(fusion, values))


def _lanes(
    target: CpuTarget, space: Space, values: Sequence[ir.Value], sizes: tuple[int, ...], columns: int = 1
) -> int:
    """Lanes of loops of these sizes, of which the last may be several short ones of the space; each element of it has
    so many `columns`, which are the other loops."""
    loops = [loop for loop, size in enumerate(space.sizes) if size != 1 and math.prod(space.sizes[loop:]) > columns]
    loops = loops[len(sizes) - 1 :]
    dense = tuple(stride * columns for stride in row_major_strides([space.sizes[loop] for loop in loops]))

    def is_gathered(at: Affine) -> bool:
        steps = tuple(space.coefficient(at, loop) for loop in loops)
        return any(variable not in space.variables for variable, _ in at.terms) or (any(steps) and steps != dense)

    lanes, apart = lanes_for(target, values, sizes[-1]), len(loops) > 1 or columns > 1
    return min(lanes, GATHERED) if apart and sum(is_gathered(at) for _, at in space.loads) > MOST_GATHERED else lanes


def _loads(space: Space) -> float:
    """Loads of a vector. What does not move along all loops, and neighbours of what does, lie in the nearest cache."""
    loops = [loop for loop, size in enumerate(space.sizes) if size != 1]
    far = len({tensor for tensor, at in space.loads if all(space.coefficient(at, loop) for loop in loops)})
    return far + (len(space.loads) - far) * COSTS.near_share


def _periodic(space: Space, values: Sequence[ir.Value], lanes: int) -> tuple[int, ...] | None:
    """Loops over so many short rows at once that they fill some vectors, each with code of its own, which knows what it
    reads of what is the same for all rows, or for all columns. A row may be several loops. None where nothing is the
    same, or rows are longer."""
    sizes = tuple(map(int, space.sizes))
    loops = range(1, len(sizes))
    return next(filter(None, (_periods(space, values, lanes, sizes[:-row], sizes[-row:]) for row in loops)), None)


def _periods(
    space: Space, values: Sequence[ir.Value], lanes: int, outer: tuple[int, ...], row: tuple[int, ...]
) -> tuple[int, ...] | None:
    """`_periodic` for rows that are the last loops."""
    rows, inner = outer[-1], math.prod(row)
    if lanes == 1 or not COLUMNS <= inner < 4 * lanes or inner % lanes == 0:
        return None
    sizes = (rows, *row)
    steps = {_steps(space, at, len(sizes)) for _, at in space.loads}
    if steps <= {row_major_strides(sizes)} or not all(each is not None and _is_dense(each, sizes) for each in steps):
        return None
    nanoseconds = 2 * COSTS.vector_ns(values, 0, 0)
    least = lanes // math.gcd(inner, lanes)
    for together in range(least, rows + 1, least):
        vectors = together * inner // lanes
        if vectors > MOST_PERIODIC or vectors * max(len(values), nanoseconds) > MOST_STRAIGHT_OPS:
            return None
        if rows % together == 0 and vectors >= FEWEST_STRAIGHT and together < rows:
            return (*outer[:-1], rows // together, together * inner)
    return None


def _steps(space: Space, at: Affine, loops: int) -> tuple[int, ...] | None:
    """Along the last loops; None where these do not say all."""
    if at.vector is not None or not all(variable in space.variables for variable, _ in at.terms):
        return None
    return tuple(int(space.coefficient(at, len(space.sizes) - loops + number)) for number in range(loops))


def _is_dense(steps: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether an array lies along some of the loops, row after row, and is the same along the others."""
    along = [number for number, step in enumerate(steps) if step]
    dense = row_major_strides([sizes[number] for number in along])
    return tuple(steps[number] for number in along) == tuple(dense)


def _is_read_backward(space: Space) -> bool:
    """Whether rows are read from their ends only. What goes around the cache is written from there, too: memory is
    fetched ahead of what reads it upwards."""
    steps = {space.coefficient(at, len(space.sizes) - 1) for _, at in space.loads} - {0}
    return steps == {-1}


def _shares_places(space: Space, sizes: tuple[int, ...]) -> bool:
    """Whether places that are read are read themselves, and are the same for all rows: before all rows, if each vector
    of a row has code of its own."""
    if sizes != space.sizes:
        return False
    steps = [_steps(space, at, len(sizes)) for _, at in space.loads]
    return None in steps and any(each and each[-1] and not any(each[:-1]) for each in steps)


def _computed_share(fusion: Fusion, values: Sequence[ir.Value]) -> float:
    """Of what all `values` take, what an element of the results does: parts of a concatenation are computed for their
    own elements only."""
    shares = dict.fromkeys(fusion.outputs, 1.0)
    taken = 0.0
    for value in reversed(values):
        share, op = min(1.0, shares[value]), value.owner
        taken += share * COSTS.op_ns(op.name)
        for operand in op.operands:
            is_part = op.name == "stablehlo.concatenate"
            part = size_hint(num_elements(operand)) / max(1, size_hint(num_elements(value))) if is_part else 1.0
            shares[operand] = shares.get(operand, 0.0) + share * part
    return taken / COSTS.vector_ns(values, 0, 0) if taken else 1.0


def _keeps_operands(target: CpuTarget, space: Space, sizes: tuple[int, ...], lanes: int, ops: int) -> bool:
    """Whether what is the same for all rows (a bias, a scale) stays in registers, if each vector of a row has code of
    its own: half of them are for that. Of many `ops` a load is little, and code for each vector is long."""
    if sizes != space.sizes or len(sizes) == 1 or lanes < target.lanes(32) or sizes[-1] % lanes:
        return False
    rows, vectors = range(len(sizes) - 1), sizes[-1] // lanes
    same = [
        at
        for _, at in space.loads
        if space.coefficient(at, len(rows)) and not any(space.coefficient(at, loop) for loop in rows)
    ]
    is_short = vectors <= MOST_STRAIGHT and vectors * ops <= MOST_STRAIGHT_OPS
    return bool(same) and is_short and vectors * len(same) <= target.registers // 2


def _is_paired(fusion: Fusion, target: CpuTarget, values: Sequence[ir.Value], inner: int, lanes: int) -> bool:
    """Whether a vector has the lanes of two registers, whose instructions alternate: a core that meets a long chain of
    operations does not look far enough ahead to begin with the next vector. Not of f64 in 16 lanes, one of which leaves
    the usual range of a function too often; and with 16 registers not of what needs two for a vector anyway."""
    fits = lanes == target.lanes(32) or lanes == target.lanes(64) < 8
    fits = fits and lanes > 1 and inner % (2 * lanes) == 0
    total = COSTS.vector_ns(values, 0, 0)
    if not fits or total < PAIRED_NS.get(target.registers, math.inf):
        return False
    if any(tensor_bytes(value) >= NONTEMPORAL_BYTES for value in fusion.outputs):
        return False
    if target.registers < 32 and any(_takes_two_registers(value) for value in values):
        return False
    until: dict[ir.Value, float] = {}  # value -> nanoseconds of the longest chain that ends with it
    for op in fusion.ops:
        before = max((until.get(operand, 0.0) for operand in op.operands), default=0.0)
        until.update((result, before + COSTS.op_ns(op.operation.name)) for result in op.results)
    return max(until.values()) >= total * CHAINED


def _takes_two_registers(value: ir.Value) -> bool:
    """Whether a vector of it is computed in two: complex numbers in parts, quotients of integers as f64."""
    of = element(value)
    return of.is_complex or (not of.is_float and value.owner.name in ("hlo.divide", "hlo.remainder"))


def _has_windows(fusion: Fusion, values: Sequence[ir.Value], inner: int) -> bool:
    """Whether rows of so many elements are windows of a gather, of which little is computed. The place of a window is
    read once then, and its elements side by side, where a vector of the elements of several rows reads a place for each
    of them."""
    gathers = [op for op in fusion.ops if op.name == "hlo.gather"]
    others = [value for value in values if value.owner.name != "hlo.gather"]
    return COSTS.vector_ns(others, 0, 0) < COSTS.bound_ns and any(
        inner > 1 and sizes[-1] == inner and len(sizes) - 1 in i64s(op, "offset_dims")
        for op in gathers
        for sizes in (shape(op.results[0]),)
    )


def _column_loops(fusion: Fusion, space: Space, lanes: int) -> int:
    """How many of the last loops are over few columns, over which something is spread or lies otherwise than in the
    result, or 0: vectors of a column of many rows are computed then, where a vector of whole rows would ask for each
    lane by itself. A row for all rows is the same in each vector, if those hold whole rows."""
    result, sizes = fusion.outputs[0], [int(size) for size in space.sizes]
    if len(fusion.outputs) > 1 or fusion.aliased or element(result).is_complex or lanes == 1:
        return 0
    count = 1
    while len(sizes) > count + 1 and 2 * sizes[-count - 1] < lanes and _lie_near(space, sizes, count + 1):
        count += 1  # rows of so few are columns, too: as lanes they would be divided by
    columns, rows = math.prod(sizes[-count:]), math.prod(sizes[:-count])
    few = columns <= COLUMNS and columns * len(space.loads) <= MOST_APART
    if not 2 <= columns < lanes <= rows or not (few or _lie_near(space, sizes, count)):
        return 0
    moves = count > 1 or any(_lies_otherwise(space, offset) for _, offset in space.loads)
    return count if moves or lanes % columns else 0


def _lies_otherwise(space: Space, offset: Affine) -> bool:
    """Whether what is read lies otherwise than in the result, or as the loops do not say (of joined arrays)."""
    if not all(variable in space.variables for variable, _ in offset.terms):
        return True
    *others, last = (space.coefficient(offset, loop) for loop in range(len(space.sizes)))
    return last != 1 and any(others)


def _lie_near(space: Space, sizes: Sequence[int], count: int) -> bool:
    """Whether the last loops are over so few columns that these are written side by side, and what is read of
    neighbouring rows lies at most so far apart that it is read with what is between."""
    row = len(sizes) - count - 1
    steps = [space.coefficient(offset, row) for _, offset in space.loads]
    return row >= 0 and math.prod(sizes[-count:]) <= ALTERNATING and all(-NEAR <= int(step) <= NEAR for step in steps)


def _alternating(fusion: Fusion, target: CpuTarget) -> list[ir.Value]:
    """The values whose elements alternate in the result: a few that are one wide, side by side, or one that is
    repeated; [] for other results."""
    result = fusion.outputs[0]
    if len(fusion.outputs) > 1 or fusion.aliased or isinstance(result.owner, ir.Block) or element(result).is_complex:
        return []
    op, sizes, values = result.owner, shape(result), list[ir.Value]()
    if op.name == "stablehlo.concatenate" and math.prod(sizes[i64(op, "dimension") :]) == len(op.operands):
        values = list(op.operands)
    elif op.name == "hlo.broadcast" and i64s(op, "dimensions") == tuple(range(len(sizes) - 1)) and is_known(sizes[-1]):
        values = [op.operands[0]] * min(int(sizes[-1]), ALTERNATING + 1)
    if not 2 <= len(values) <= ALTERNATING or not all(is_known(*shape(value)) for value in values):
        return []
    counts = {num_elements(value) for value in values}
    return values if len(counts) == 1 and counts.pop() >= lanes_for(target, cone([result]), 1 << 10) else []


def _emit_alternating(fusion: Fusion, target: CpuTarget, alternating: list[ir.Value]) -> Kernel:
    space = refine(fusion, target, alternating, [num_elements(alternating[0])])
    values = cone([*alternating, *fusion.outputs])
    sizes = tuple(map(int, merge_short(space.sizes, lanes_for(target, values, 1 << 10))))
    lanes = _lanes(target, space, values, sizes)
    cost = COSTS.phase_ns(target, values, _loads(space), 2 * len(alternating))
    return _Loop(fusion, target, sizes, lanes, alternating).emit(cost)


class _Loop:
    """`alternating`: the loop is over the elements of these, of which each becomes an element of one result.
    `straight`: there is no loop over the vectors of a row. `columns`: the loop is over rows of so many elements, which
    are vectors side by side; or, where these broadcasts are `spread`, vectors of whole ones. `backward`: the last
    vector of a row comes first where it goes around the cache."""

    def __init__(
        self,
        fusion: Fusion,
        target: CpuTarget,
        sizes: tuple[int, ...],
        lanes: int,
        alternating: Sequence[ir.Value] = (),
        straight: bool = False,
        columns: int = 0,
        spread: Sequence[ir.Value] = (),
        backward: bool = False,
    ) -> None:
        self.straight, self.columns, self.spread = straight, columns, spread
        self.fusion, self.target, self.sizes, self.lanes = fusion, target, sizes, lanes
        self.alternating = alternating
        self.outer, self.inner = math.prod(sizes[:-1]), sizes[-1]
        self.aliased = fusion.aliased
        # Code for vectors that reach no edge of the row, where edges make a difference.
        self.edges = [op for op in fusion.ops if _has_edges(op, self.inner)]
        self.parted = lanes > 1 and self.inner >= PARTED * lanes and bool(self.edges)
        self.seams = self._seams() if self.parted else []
        self.backward = backward and not self.parted

    def emit(self, cost: float) -> Kernel:
        f = phase_function(self.fusion, self.target)
        vectors = -(-self.inner // self.lanes)
        if self.outer == 1:

            def vectors_of(nontemporal: bool) -> None:
                def vector(i: Index, within: Within) -> None:
                    self._vector(f, (), f.imul(i, self.lanes), nontemporal, within)

                self._row(f, f.begin, f.end, 1, vector)

            self._streamed(f, vectors_of)
            return Kernel.of(phase(f, vectors, cost))
        blocks = -(-self.inner // BLOCK) if self.inner > 2 * BLOCK else 1
        cost = cost * -(-vectors // blocks) + ROW_NS
        shared = self._shared(cost) if blocks == 1 else self.sizes[:-1]

        def rows_of(nontemporal: bool) -> None:
            def iteration(i: Value) -> None:
                row = affine_of(f.idiv(i, blocks), math.prod(shared) - 1)
                indices = delinearize(f, ((math.prod(shared), row),), shared, 1)
                self._nest(f, indices, lambda indices: self._block(f, indices, i, blocks, nontemporal))

            f.loop(f.begin, f.end, 1, iteration, nonempty=True)

        self._streamed(f, rows_of)
        rows = math.prod(self.sizes[len(shared) : -1])
        return Kernel.of(phase(f, math.prod(shared) * blocks, cost * rows))

    def _shared(self, cost: float) -> tuple[int, ...]:
        """The loops that threads share, of rows that take `cost`: the others are loops within an iteration, whose
        indices need no division. Iterations stay so short that threads get equal shares."""
        shared = self.sizes[:-1]
        while len(shared) > 1 and cost * shared[-1] <= COSTS.grain_ns / SHARES:
            cost *= shared[-1]
            shared = shared[:-1]
        return shared

    def _nest(self, f: Function, indices: Sequence[Affine], row: Callable[[Sequence[Affine]], None]) -> None:
        """`row` for all rows whose first indices are these."""
        if len(indices) == len(self.sizes) - 1:
            row(indices)
            return
        size = self.sizes[len(indices)]
        f.loop(0, size, 1, lambda i: self._nest(f, [*indices, affine_of(i, size - 1)], row))

    def _streamed(self, f: Function, run: Callable[[bool], None]) -> None:
        """What `run` does for [begin, end), in a version with non-temporal stores too where the results are large."""
        if not self._can_stream():
            run(False)
            return
        misaligned = f.const(0)
        for number in range(len(self.fusion.outputs)):
            misaligned = f.binary("or", misaligned, f.cast("ptrtoint", f.parameters[f"out{number}"], I64))
        low = f.binary("and", misaligned, f.const(self.target.vector_bits // 8 - 1))

        def stream() -> None:
            run(True)
            f.fence()

        f.if_(f.cmp("eq", low, f.const(0)), stream, lambda: run(False))

    def _can_stream(self) -> bool:
        width = self.target.vector_bits // 8
        return (
            not self.aliased
            and not self.alternating
            and not self.columns
            and all(
                tensor_bytes(value) >= NONTEMPORAL_BYTES
                and not element(value).is_complex
                and self.lanes * element(value).bytes == width
                and self.inner % self.lanes == 0
                for value in self.fusion.outputs
            )
        )

    def _block(self, f: Function, indices: Sequence[Affine], i: Index, blocks: int, nontemporal: bool) -> None:
        """The `i % blocks`-th part of the row at `indices`."""
        step = math.ceil(math.ceil(self.inner / blocks) / self.lanes) * self.lanes
        if self.straight:
            e = Elemental(f, self.fusion, self.target, self.lanes)  # what vectors have in common is computed once
            for start in range(0, self.inner, self.lanes):
                self._vector(f, indices, start, nontemporal, e=e)
            return
        low: Index = f.imul(f.irem(i, blocks), step)
        high = f.imin(f.iadd(low, step), self.inner) if blocks > 1 else self.inner
        self._row(f, low, high, self.lanes, lambda j, within: self._vector(f, indices, j, nontemporal, within))

    def _seams(self) -> list[int]:
        """The vectors at which arrays that are joined or padded in a row begin and end, where these are few."""
        seams = [seam for op in self.edges for seam in _seams_of(op, self.inner)]
        found = {vector for seam in seams for vector in (seam // self.lanes, -(-seam // self.lanes))}
        inside = [vector for vector in sorted(found) if 1 < vector < self.inner // self.lanes - 1]
        return inside if len(inside) <= MOST_SEAMS and self.inner >= 2 * PARTED * self.lanes else []

    def _row(self, f: Function, low: Index, high: Index, step: int, vector: Callable[[Index, Within], None]) -> None:
        """`vector` for a part of a row, which is not empty; vectors are `step` apart. It gets between which elements a
        vector begins that is neither the row's first one nor among its last two."""
        if not self.parted:
            whole = self.inner // self.lanes
            within = (0, (whole - 1) * self.lanes) if self.aliased and self.inner % self.lanes else None
            tail = None if within is None else partial(vector, whole * step, None)
            vectors_of_row(f, low, high, step, whole * step, lambda j: vector(j, within), tail)
            return
        first, last = step, (self.inner // self.lanes - 1) * step
        for start, end in pairwise([1, *self.seams, self.inner // self.lanes - 1]):
            within = start * self.lanes, (end - 1) * self.lanes
            begin, stop = f.imax(low, start * step), f.imin(high, end * step)
            f.loop(begin, stop, step, partial(lambda within, j: vector(j, within), within))

        def edge(number: Index) -> None:
            left = f.cmp("eq", f.index(number), f.const(0))
            start = f.select(left, f.index(low), f.index(f.imax(low, last)))
            end = f.select(left, f.index(f.imin(high, first)), f.index(high))
            f.loop(start, end, step, lambda j: vector(j, None))

        f.loop(0, 2, 1, edge)

    def _vector(
        self,
        f: Function,
        outer: Sequence[Affine],
        start: Index,
        nontemporal: bool,
        within: Within = None,
        e: Elemental | None = None,
    ) -> None:
        """One vector of every result, `start` elements into the row; `within`: the least and most that it begins with,
        of one that is neither its first nor its last one."""
        lanes, mask = self.lanes, None
        if self.backward and nontemporal:
            start = f.isub((self.inner - 1) // lanes * lanes, start)
        whole = within is not None or self.inner % lanes == 0
        if not whole and self.aliased:
            mask = f.tail_mask(f.isub(self.inner, start), lanes)
        elif not whole:
            start = f.imin(start, self.inner - lanes)
        multiple = lanes if whole or mask else math.gcd(lanes, self.inner)
        column = lane_index(start, self.inner, lanes, multiple)
        if within is not None and isinstance(start, Value):
            column = column._replace(terms=((Variable(start, *within, multiple), 1),))
        place = delinearized(self.sizes, [*outer, column])
        e = e or Elemental(f, self.fusion, self.target, lanes)
        if self.alternating:
            self._alternate(e, place, [e.at(value, place) for value in self.alternating])
        elif self.spread:
            write_rows(e, self.fusion, place, (self.outer * self.inner, self.columns), self.spread)
        elif self.columns:
            (result,), columns = self.fusion.outputs, range(self.columns)
            places = [(*place, (self.columns, affine_of(column, self.columns - 1))) for column in columns]
            self._alternate(e, place, [e.at(result, each) for each in places])
        else:
            e.write_outputs(self.fusion.outputs, place, mask, nontemporal=nontemporal)

    def _alternate(self, e: Elemental, place: Delinearized, values: Sequence[Lanes]) -> None:
        """Write a vector of each of the values: the first elements of all, then the second ones ..."""
        f, count, of = e.f, len(values), element(self.fusion.outputs[0])
        at = scale(f, linear_index(f, place), count)
        for number in range(count):
            index = add(f, at, number * self.lanes)._replace(lane=min(1, self.lanes - 1))
            part = types.alternating(f, values, range(number * self.lanes, (number + 1) * self.lanes))
            e.write(of, f.parameters["out0"], ((self.outer * self.inner * count, index),), part)


def _has_edges(op: ir.OpView, inner: int) -> bool:
    """Does an op give other elements next to the edges of a row of so many? Short pieces of a concatenate are such
    edges, and those that are the row."""
    if op.operation.name == "hlo.pad":
        return True
    if op.operation.name != "stablehlo.concatenate":
        return False
    sizes, dimension = shape(op.results[0]), i64(op, "dimension")
    return dimension == len(sizes) - 1 or math.prod(sizes[dimension:]) == inner


def _seams_of(op: ir.OpView, inner: int) -> list[int]:
    """Where in a row of so many elements the operands of a concatenate or a pad begin and end, if that is the same in
    all rows."""
    sizes, operand = shape(op.results[0]), shape(op.operands[0])
    if op.operation.name == "stablehlo.concatenate":
        pieces = [int(math.prod(shape(part)[i64(op, "dimension") :])) for part in op.operands]
        return [*accumulate(pieces)] if sum(pieces) == inner else []
    low, interior = symints(op, "low"), symints(op, "interior")
    first = next((first for first in range(len(sizes)) if math.prod(sizes[first:]) == inner), None)
    if first is None or not is_known(low[first], operand[first]):
        return []
    if operand[first + 1 :] != sizes[first + 1 :] or any(low[first + 1 :]) or any(interior[first:]):
        return []
    row = inner // int(sizes[first])
    return [int(low[first]) * row, int(low[first] + operand[first]) * row]
