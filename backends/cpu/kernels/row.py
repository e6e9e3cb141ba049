"""Kernels of kind `row`: reductions over trailing dimensions, and elementwise work before, between and after them.

The tensor is seen as [rows, columns]; a row is one iteration. It is walked once for every level of reductions (softmax:
maximum, then the sum of exponentials) and once for full-size results. Values that a later pass needs are computed again
if that is cheap, else kept in a row of scratch memory. Rows of few columns are processed many at a time, one per lane,
where that takes less time. Elementary functions of reductions are computed for a vector of rows, whose reductions are
kept until then: of one number they take ten times as long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.iteration import Space, cone, refine
from stablehlo_py.backends.common.loops import nest
from stablehlo_py.backends.common.reduction import (
    Reduction,
    at_place,
    finish,
    first_condition,
    reduction_levels,
    reductions,
)
from stablehlo_py.backends.cpu.kernels import column, loop
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase, phase_function
from stablehlo_py.backends.cpu.kernels.iteration import empty, lanes_for, merge_short
from stablehlo_py.backends.cpu.kernels.reduction import Sweep
from stablehlo_py.backends.cpu.kernels.transposing import columns_at_once, load_rows
from stablehlo_py.backends.cpu.policy_costs import COSTS
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import I8, Function, Index, Value
from stablehlo_py.codegen.elemental import NEAR, Elemental
from stablehlo_py.codegen.index import (
    Affine,
    Delinearized,
    add,
    affine,
    affine_of,
    delinearize,
    delinearized,
    lane_index,
    linear_index,
    same,
    scalar,
)
from stablehlo_py.codegen.types import Element, Lanes, alternating, element, scatter, splat, store
from stablehlo_py.dialect.ops import record_of
from stablehlo_py.dialect.symint import IntLike, always_at_most, always_less, is_known, size_hint
from stablehlo_py.dialect.types import num_elements, shape
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import ir
from stablehlo_py.passes.policy import flops_per_element

STAGE_BYTES = 512 << 10  # most scratch memory for kept rows
ACROSS_COLUMNS = 16  # rows up to this long may go one per lane
_DIVISION_FLOPS = flops_per_element(record_of("hlo.divide"))
FEWEST_LOOKS = 4  # groups of vectors of a row that is not walked past what is looked for
SPLIT_COLUMNS = 1 << 15  # from here on, few rows are split over threads
WORTH_GROUPS = 4  # times what functions of one number take: longer rows gain too little by groups


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """Generate the kernel. All reductions split their operand into the same rows and columns; results have `rows`
    elements, or all.
    """
    items = reductions(fusion)
    if not items:
        return loop.emit(fusion, target)
    sizes = shape(items[0].operand)
    columns = math.prod(sizes[dimension] for dimension in items[0].dimensions)
    rows = num_elements(items[0].result)
    if rows == 0:
        return empty(fusion, target)
    if columns in (0, 1):  # nothing to combine
        return loop.emit(fusion, target)
    for item in items:
        if num_elements(item.result) != rows or num_elements(item.operand) != rows * columns:
            raise InternalError(f"reductions of row fusion {fusion.name} split their operands differently")
    levels = reduction_levels(items)
    full = [value for value in fusion.outputs if num_elements(value) != rows]
    if not full and len(levels) == 1 and always_less(rows, 64) and always_at_most(SPLIT_COLUMNS, columns):
        return column.emit(fusion, target)
    return _Row(fusion, target, rows, columns, levels).emit()


def _is_function(value: ir.Value) -> bool:
    """Whether an elementary function makes it; of complex numbers, quotients and roots are such too."""
    flops = flops_per_element(record_of(value.owner.name))
    return flops > _DIVISION_FLOPS or (flops == _DIVISION_FLOPS and element(value).is_complex)


def _is_in_order(space: Space, offset: Affine) -> bool:
    """Whether an access reads the elements in the order of the loops."""
    steps = [math.prod(space.sizes[loop + 1 :]) for loop in range(len(space.sizes))]
    found = [space.coefficient(offset, loop) for loop in range(len(space.sizes))]
    return offset.vector is None and offset.constant == 0 and found == steps


def _is_apart(space: Space, offset: Affine) -> bool:
    """Whether an access reads the elements of a vector one by one: along a row they are far apart."""
    step = space.coefficient(offset, len(space.sizes) - 1)
    return not is_known(step) or abs(step) > NEAR


def _changing(buffer: Value, here: Affine) -> Value:
    """A buffer that changes from row to row, even where the place in it is a constant: no load may leave the loop."""
    return Value(buffer.ref, buffer.type, None, max(buffer.level, here.level))


class _Row:
    def __init__(
        self, fusion: Fusion, target: CpuTarget, rows: IntLike, columns: IntLike, levels: list[list[Reduction]]
    ) -> None:
        self.fusion, self.target, self.rows, self.columns, self.levels = fusion, target, rows, columns, levels
        results = [item.result for level in levels for item in level]
        self.full = [value for value in fusion.outputs if num_elements(value) == rows * columns and columns != 1]
        self.roots = [[item.operand for item in level] for level in levels] + [self.full]
        roots = [value for root in self.roots for value in root]
        space = refine(fusion, target, roots, [rows, columns], bound=results)
        self.in_order = {tensor for tensor, offset in space.loads if _is_in_order(space, offset)}
        self.apart = {tensor for tensor, offset in space.loads if _is_apart(space, offset)}
        self.row_sizes = [size for size, origin in zip(space.sizes, space.origin, strict=True) if origin == 0]
        column_sizes = [size for size, origin in zip(space.sizes, space.origin, strict=True) if origin == 1]
        self.values = cone(fusion.outputs)
        self.results, self.group = results, 1
        full_lanes = lanes_for(target, self.values, 1 << 10)
        self.aliased = fusion.aliased
        most = min(ACROSS_COLUMNS, full_lanes)
        if not target.gathers:
            most += most // 2  # a second vector of a row would be half empty
        short = always_at_most(columns, most)
        self.across = short and always_less(columns, rows) and always_at_most(full_lanes, rows)
        if self.aliased and rows % full_lanes:
            self.across = False  # rows in the overlap of two groups would be read after they were written
        merged = merge_short(column_sizes, full_lanes)
        along = lanes_for(target, self.values, merged[-1])
        if self.across:
            self.lanes = full_lanes
            self.staged = self._staged(results)
            if self._across_ns() <= self._along_ns(along):
                self.column_sizes = column_sizes
                self.transposed = self._transposed()
                if not self._fits_lanes(self.row_sizes[-1]):
                    self.row_sizes = [rows]
                return
        self.across, self.column_sizes, self.lanes, self.transposed = False, merged, along, []
        self.staged = self._staged(results)
        self.group = self._group_rows()

    # --- rows in lanes, or columns -----------------------------------------------------------------------------------

    def _fits_lanes(self, rows: IntLike) -> bool:
        """Whether groups of rows end where a loop of so many does, but for an overlap: then their places need no
        divisions."""
        return always_at_most(self.lanes, rows) and not (self.aliased and rows % self.lanes)

    def _across_ns(self) -> float:
        """Of as many rows as there are lanes, one per lane: elements of a column are columns apart."""
        passes = len(self.levels) + bool(self.full) - bool(self.staged)
        moved = sum(self._parts(value) for value in self.fusion.inputs if self._is_full(value)) * passes
        moved += 2 * sum(self._parts(value) for value in self.full)
        apart_ns = COSTS.random_ns * moved * self.lanes / 16
        columns, rest = self._columns_and_rest()
        return size_hint(self.columns) * (COSTS.vector_ns(columns, 0, 0) + apart_ns) + COSTS.vector_ns(rest, 0, 0)

    def _along_ns(self, lanes: int) -> float:
        """Of the same rows, one after the other."""
        columns, rest = self._columns_and_rest()
        short = (1 + lanes / self.lanes) / 2  # short vectors take less
        row_ns = -(-size_hint(self.columns) // lanes) * short * COSTS.vector_ns(columns, 0, 0) + self._numbers_ns(rest)
        row_ns += COSTS.combine_ns * sum(map(len, self.levels)) + COSTS.kept_ns * bool(self.staged)
        return self.lanes * row_ns

    def _numbers_ns(self, values: Sequence[ir.Value]) -> float:
        """Of values that are computed for one row, as numbers: these take less than vectors, but for functions."""
        functions = [value for value in values if _is_function(value)]
        others = [value for value in values if value not in functions]
        return (1 + 1 / self.lanes) / 2 * COSTS.vector_ns(others, 0, 0) + COSTS.lone_ns * len(functions)

    def _columns_and_rest(self) -> tuple[list[ir.Value], list[ir.Value]]:
        """Values that are computed for elements, and for rows."""
        columns = [value for value in self.values if self._is_full(value)]
        return columns, [value for value in self.values if not self._is_full(value)]

    def _is_full(self, value: ir.Value) -> bool:
        return not always_less(num_elements(value), self.rows * self.columns)

    @staticmethod
    def _parts(value: ir.Value) -> int:
        return 2 if element(value).is_complex else 1

    # --- groups of rows ----------------------------------------------------------------------------------------------

    def _group_rows(self) -> int:
        """Rows whose results are computed together, as lanes of a vector; 1: of each row by itself."""
        stop = set(self.results).__contains__
        after = [value for value in cone(self.fusion.outputs, stop) if not stop(value)]
        functions = [value for value in after if _is_function(value)]
        lanes = lanes_for(self.target, [*after, *self.results], 1 << 10)
        if self.full or not functions or not is_known(self.rows) or not always_at_most(lanes, self.rows):
            return 1
        row_ns = -(-size_hint(self.columns) // self.lanes) * COSTS.vector_ns(self._columns_and_rest()[0], 0, 0)
        return lanes if row_ns <= WORTH_GROUPS * COSTS.lone_ns * len(functions) else 1

    def _kept(self) -> list[tuple[ir.Value, IntLike]]:
        """Reductions of a group, and where in scratch they are, after what is kept of a row."""
        return [(value, self.private_bytes + number * self._room()) for number, value in enumerate(self.results)]

    def _room(self) -> int:
        """Bytes of a reduction of a group."""
        return -(-self.group * max(element(value).bytes for value in self.results) // 64) * 64

    def _emit_group(self, f: Function, number: Index) -> None:
        """The reductions of each row of a group, then its results."""
        rows, group, kept = self.rows, self.group, self._kept()
        start = f.imul(number, group)

        def row(i: Index) -> None:
            def keep(e: Elemental, place: Delinearized) -> None:
                slot = ((group, affine(f.isub(i, start), group)),)
                for value, room in kept:
                    e.write(element(value), f.gep(f.private, room, I8), slot, e.value(value, place))

            self._row(f, i, keep)

        f.loop(start, f.imin(f.iadd(start, group), rows), 1, row, nonempty=True)
        e = Elemental(f, self.fusion, self.target, group)
        place = delinearized([rows], [lane_index(start, rows, group, group)])
        for value, room in kept:
            self._bind_kept(e, value, room, linear_index(f, place))
        e.write_outputs(
            self.fusion.outputs, place, None if rows % group == 0 else f.tail_mask(f.isub(rows, start), group)
        )

    def _bind_kept(self, e: Elemental, value: ir.Value, room: IntLike, here: Affine) -> None:
        def provide(e: Elemental, at: Delinearized) -> Lanes | None:
            if not same(e.f, linear_index(e.f, at), here):
                return None
            buffer = _changing(e.f.gep(e.f.private, room, I8), here)
            return e.read(element(value), buffer, ((self.group, Affine(0, lane=1)),))

        e.bind(value, provide)

    # --- what is kept between passes ---------------------------------------------------------------------------------

    def _staged(self, results: Sequence[ir.Value]) -> dict[ir.Value, tuple[IntLike, IntLike]]:
        """Values kept in scratch memory: value -> (pass that computes it, byte offset). Arguments are kept where rows
        are in lanes: the elements of a column are apart there."""
        stop = set(results).__contains__
        cones = [{*root, *cone(root, stop)} for root in self.roots]
        for values in cones:
            values.update(
                [arg for value in values if self._is_computed(value, results) for arg in value.owner.operands]
            )
        costs: dict[ir.Value, float] = {}

        def cost(value: ir.Value) -> float:
            if value not in costs:
                costs[value] = COSTS.vector_ns([one for one in cone([value], stop) if one not in results], 0, 0)
            return costs[value]

        staged: dict[ir.Value, tuple[IntLike, IntLike]] = {}
        used: IntLike = 0
        room = self.columns * self.lanes if self.across else self.columns
        if not is_known(room):  # the last vector of a row may reach past its end
            room += self.lanes

        for number, root in enumerate(self.roots):
            seen: set[ir.Value] = set()
            pending = list(reversed(root))
            while pending:
                value = pending.pop()
                stored = isinstance(value.owner, ir.Block)  # an argument
                if value in seen or value in results or value in staged or (stored and not self.across):
                    continue
                seen.add(value)
                earlier = next((before for before in range(number) if value in cones[before]), None)
                kept = earlier is not None and num_elements(value) == self.rows * self.columns
                if earlier is not None and kept and (stored or cost(value) >= COSTS.stage_ns):
                    size = -(-room * element(value).bytes // 64) * 64
                    if not is_known(size) or used + size <= STAGE_BYTES:
                        staged[value] = earlier, used
                        used += size
                        continue
                if not stored:
                    pending += reversed(value.owner.operands)
        self.private_bytes = used
        return staged

    def _transposed(self) -> list[ir.Value]:
        """Arguments that are kept as well, transposed a square at a time: to take a column's elements one by one from
        rows in lanes costs two instructions each, in every pass."""
        found = []
        for value in self.fusion.inputs:
            of = element(value)
            few = always_less(self.columns, max(columns_at_once(of.storage.bits, self.lanes), NEAR + 1))
            if value not in self.in_order or of.is_complex or few or not is_known(self.columns):
                continue
            if value not in self.staged:
                size = -(-self.columns * self.lanes * of.bytes // 64) * 64
                self.staged[value] = 0, self.private_bytes
                self.private_bytes += size
            found.append(value)
        return found

    @staticmethod
    def _is_computed(value: ir.Value, results: Sequence[ir.Value]) -> bool:
        return value not in results and not isinstance(value.owner, ir.Block)

    # --- emission ----------------------------------------------------------------------------------------------------

    def emit(self) -> Kernel:
        f = phase_function(self.fusion, self.target)
        groups = math.prod(self._groups()) if self.across else -(-self.rows // self.group)
        one = self._row if self.group == 1 else self._emit_group
        f.loop(f.begin, f.end, 1, lambda i: one(f, i), nonempty=True)
        columns, rest = self._columns_and_rest()
        vectors = size_hint(self.columns if self.across else -(-self.columns // self.lanes))
        cost = COSTS.phase_ns(self.target, columns, self._loads(), len(self.full)) * vectors + 5.0
        if self.group > 1:
            cost *= self.group
        together = self.across or self.group > 1
        cost += COSTS.phase_ns(self.target, rest, 0, 0) if together else self._numbers_ns(rest)
        kept = len(self.results) * self._room() if self.group > 1 else 0
        return Kernel.of(phase(f, groups, cost), private_bytes=self.private_bytes + kept)

    def _loads(self) -> float:
        """Loads of a column in all passes: what an earlier pass has read, or is not full, lies in the nearest cache."""
        kept = {*self.staged, *(item.result for level in self.levels for item in level)}
        read: set[ir.Value] = set(self.staged)
        loads = 0.0
        for root in self.roots:
            computed = [value for value in cone(root, kept.__contains__) if value not in kept]
            touched = [*root, *(operand for value in computed for operand in value.owner.operands)]
            inputs = {one for one in touched if one in self.staged or isinstance(one.owner, ir.Block)}
            far = {one for one in inputs - read if self._is_full(one)}
            loads += len(far) + COSTS.near_share * len(inputs - far)
            read |= far
        return loads

    def _groups(self) -> list[IntLike]:
        """Loops over groups of rows in lanes."""
        return [*self.row_sizes[:-1], -(-self.row_sizes[-1] // self.lanes)]

    def _row(self, f: Function, i: Index, store: Callable[[Elemental, Delinearized], None] | None = None) -> None:
        """A row, or a group of rows in lanes. `store`: what is done with its reductions instead of storing results."""
        e = Elemental(f, self.fusion, self.target, self.lanes)
        sizes = self._groups() if self.across else self.row_sizes
        count = math.prod(sizes)
        row = delinearize(f, ((count, affine_of(i, count - 1)),), sizes, 1)
        if self.across:
            inner = self.row_sizes[-1]
            start, whole = f.imul(f.index(scalar(f, row[-1])), self.lanes), inner % self.lanes == 0
            start = start if whole else f.imin(start, inner - self.lanes)
            row[-1] = lane_index(start, inner, self.lanes, self.lanes if whole else 1)
        row_place = delinearized(self.row_sizes, row)
        here = linear_index(f, row_place)

        def place(indices: list[Affine]) -> Delinearized:
            return row_place + delinearized(self.column_sizes, indices)

        for value in self.transposed:
            self._transpose(e, value, here)
            self._bind_staged(e, value, here)
        for number, level in enumerate(self.levels):
            staging = [value for value, (when, _) in self.staged.items() if when == number]
            staging = [value for value in staging if value not in self.transposed]
            self._reduce(e, level, place, here, partial(self._stage, e, staging), stages=bool(staging))
            for value in staging:
                self._bind_staged(e, value, here)
        (store or self._store_rows)(e, row_place)
        if self.full:
            self._full_pass(e, place)

    def _reduce(
        self,
        e: Elemental,
        level: Sequence[Reduction],
        place: Callable[[list[Affine]], Delinearized],
        here: Affine,
        after: Callable[[Delinearized], None],
        *,
        stages: bool,
    ) -> None:
        copies = self._copies(level)
        lanes = 1 if self.across else self.lanes
        sweep = Sweep(e, level, self.column_sizes, lanes, copies, place, after, folds=not self.across)
        first = self._first_condition(level, copies)
        totals = sweep.run() if first is None or stages else sweep.run_from(first)
        for item, total in zip(level, totals, strict=True):
            result = finish(e, item, total)
            e.bind(item.result, at_place(here, result))

    def _first_condition(self, level: Sequence[Reduction], copies: int) -> ir.Value | None:
        """What the level looks for the first place of, in rows that are worth a look at each group of vectors."""
        looks = not self.across and len(level) == len(self.column_sizes) == 1
        long = always_at_most(FEWEST_LOOKS * copies * self.lanes, self.columns)
        return first_condition(level[0]) if looks and long else None

    def _copies(self, level: Sequence[Reduction]) -> int:
        if self.across:
            return 1
        results = {item.result for row in self.levels for item in row}
        work = [value for value in cone([item.operand for item in level], results.__contains__) if value not in results]
        read = {operand for value in work for operand in value.owner.operands}
        # Elements that are read one by one take longer than it takes to combine vectors of them.
        copies = 4 if COSTS.vector_ns(work, 0, 0) < COSTS.bound_ns and not read & self.apart else 1
        most = copies // len(level) or 1
        columns = self.column_sizes[-1]
        return max(1, min(most, columns // self.lanes)) if isinstance(columns, int) else most

    def _store_rows(self, e: Elemental, row_place: Delinearized) -> None:
        """Results with one element per row."""
        for number, value in enumerate(self.fusion.outputs):
            if value not in self.full:
                result = e.value(value, row_place)
                if self.across:
                    result = splat(e.f, result, self.lanes)
                e.write(element(value), e.f.parameters[f"out{number}"], row_place, result)

    def _full_pass(self, e: Elemental, place: Callable[[list[Affine]], Delinearized]) -> None:
        """Results with an element for every column."""
        f, size, lanes = e.f, self.column_sizes[-1], self.lanes
        if self.across and len(self.column_sizes) == 1 and always_at_most(size, NEAR):
            self._store_whole(e, [place([affine(column, size)]) for column in range(size)])
            return

        whole = self.across or size % lanes == 0
        # In place an overlap would read what was written: the last vector is computed before the others, and written
        # behind them. A mask would reach into the next row, which would wait to read its elements.
        ends = self.aliased and not whole and is_known(size) and size >= lanes

        def results(indices: list[Affine], start: Index) -> tuple[Delinearized, Value | None, list[Lanes]]:
            mask = None
            if self.across:
                index = affine(start, size)
            elif whole or ends or (is_known(size) and not self.aliased):
                start = start if whole or ends else f.imin(start, size - lanes)
                index = lane_index(start, size, lanes, lanes if whole else 1)
            else:  # a row may be short
                index, mask = lane_index(start, size, lanes, lanes), f.tail_mask(f.isub(size, start), lanes)
            at = place([*indices, index])
            return at, mask, [e.at(value, at, mask) for value in self.full]

        def write(at: Delinearized, mask: Value | None, found: Sequence[Lanes]) -> None:
            for value, result in zip(self.full, found, strict=True):
                self._write(e, value, at, result, mask)

        def line(indices: list[Index]) -> None:
            at = [affine(index, bound) for index, bound in zip(indices, self.column_sizes, strict=False)]
            last = results(at, size - lanes) if ends else None
            end = size // lanes * lanes if ends else size
            f.loop(0, end, 1 if self.across else lanes, lambda index: write(*results(at, index)))
            if last is not None:
                write(*last)

        nest(f, [(0, bound) for bound in self.column_sizes[:-1]], line)

    def _store_whole(self, e: Elemental, places: Sequence[Delinearized]) -> None:
        """The same, of rows in lanes with few columns: what memory has between two rows is written with them."""
        results = [(value, [e.at(value, at) for at in places]) for value in self.full]
        for value, columns in results:
            if element(value).is_complex:
                for at, column in zip(places, columns, strict=True):
                    self._write(e, value, at, column, None)
                continue
            columns = [splat(e.f, column, self.lanes) for column in columns]
            first = linear_index(e.f, places[0])
            for number in range(len(places)):
                index = add(e.f, first, number * self.lanes)._replace(lane=1)
                part = alternating(e.f, columns, range(number * self.lanes, (number + 1) * self.lanes))
                for output in (one for one, each in enumerate(self.fusion.outputs) if each == value):
                    e.write(element(value), e.f.parameters[f"out{output}"], ((num_elements(value), index),), part)

    def _write(self, e: Elemental, value: ir.Value, at: Delinearized, result: Lanes, mask: Value | None) -> None:
        for number, output in enumerate(self.fusion.outputs):
            if output == value:
                base = e.f.parameters[f"out{number}"]
                if self.across:
                    start = linear_index(e.f, at)
                    scalar_start = Affine(start.constant, start.terms)
                    offset = e.f.index(scalar(e.f, scalar_start))
                    scatter(e.f, element(value), result, base, offset, start.lane)
                else:
                    e.write(element(value), base, at, result, mask)

    # --- scratch memory ----------------------------------------------------------------------------------------------

    def _buffer(self, e: Elemental, value: ir.Value) -> Value:
        return e.f.gep(e.f.private, self.staged[value][1], I8)

    def _stage(self, e: Elemental, values: Sequence[ir.Value], at: Delinearized) -> None:
        for value in values:
            result = splat(e.f, e.value(value, at), self.lanes)
            e.write(element(value), self._buffer(e, value), self._stage_place(e, at), result)

    def _transpose(self, e: Elemental, value: ir.Value, here: Affine) -> None:
        """Keep an argument's rows from `here` on."""
        f, of, buffer = e.f, element(value), self._buffer(e, value)
        start = f.imul(f.index(scalar(f, Affine(here.constant, here.terms))), self.columns)

        def keep(column: Index, number: int, vector: Lanes) -> None:
            store(f, of, vector, buffer, f.imul(f.iadd(column, number), self.lanes))

        load_rows(f, of, f.gep(e.base(value), start, of.storage), self.columns, self.lanes, keep)

    def _stage_place(self, e: Elemental, at: Delinearized) -> Delinearized:
        """Where a column is kept: by its number; when rows are in lanes, a vector per column."""
        column_index = delinearize(e.f, at, (self.rows, self.columns), self.lanes)[1]
        if not self.across:
            return ((self.columns, column_index),)
        return ((self.columns, column_index), (self.lanes, Affine(0, lane=1)))

    def _bind_staged(self, e: Elemental, value: ir.Value, here: Affine) -> None:
        of: Element = element(value)

        def provide(e: Elemental, at: Delinearized) -> Lanes | None:
            row, _ = delinearize(e.f, at, (self.rows, self.columns), self.lanes)
            if not same(e.f, row, here):
                return None
            return e.read(of, _changing(self._buffer(e, value), here), self._stage_place(e, at))

        e.bind(value, provide)
