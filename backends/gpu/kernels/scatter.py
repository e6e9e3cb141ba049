"""Scatter: what the operands hold is copied, then updates are combined into it. Results are the same in every call,
unless the target asks for atomic updates (atomics.py).

A *point* is a place in the operands that indices choose; what else a window covers are its *columns*. Where no two
points can be one (a single window, `unique_indices`), a thread takes an element of the updates. Few points are taken
one after another by a thread for each column. Many updates of few places by an associative op (a histogram) are
combined in bins (bins.py). Else the points are sorted by where they go, and by their number:

* of a body that replaces, the last point of each place is written: a thread for a point and a column;
* where the body is an associative op (the gradient of an embedding), threads go through ranges of points with many
  columns (runs.py); with few, totals of points that go to one place are prefixes that begin anew at every place
  (scanning.py). Many updates of one place are no reason to wait in either;
* of any other body, a thread takes all points of a place, in their order.

With atomic updates, where the body allows them, a thread takes an element of the updates, and nothing is sorted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import offset, unravel
from stablehlo_py.backends.common.reduction import Reduction
from stablehlo_py.backends.common.scatter import ScatterLayout
from stablehlo_py.backends.gpu.kernels import loop
from stablehlo_py.backends.gpu.kernels.atomics import update_atomically
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, numbered_kernel
from stablehlo_py.backends.gpu.kernels.bins import Bins, binned
from stablehlo_py.backends.gpu.kernels.ordering import sorted_bytes, sorted_numbers
from stablehlo_py.backends.gpu.kernels.runs import FEWEST_COLUMNS, Runs, runs_combined
from stablehlo_py.backends.gpu.kernels.scanning import Sequences, combined_in_order
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I1, I8, I32, I64, Function, Index, Value
from stablehlo_py.codegen.conversions import as_index
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Delinearized, affine, affine_of, delinearize, delinearized, scalar
from stablehlo_py.codegen.region import combiner
from stablehlo_py.codegen.types import ELEMENTS, Known, Lanes, element
from stablehlo_py.dialect.attributes import WHOLE_WINDOWS
from stablehlo_py.dialect.index_map import row_major_strides
from stablehlo_py.dialect.ops import record_of
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import num_elements
from stablehlo_py.mlir import ir

FEW_POINTS = 16  # that a thread takes one after another
NOWHERE = (1 << 31) - 1  # the place of points that are out of bounds


def emit(fusion: Fusion, target: GpuTarget) -> GpuKernel:
    """The kernels: a copy where the operands are not updated in place, and those that update."""
    op = fusion.op("stablehlo.scatter")
    operands = tuple(op.operands)[: len(op.results)]
    if num_elements(operands[0]) == 0:
        return GpuKernel((), {})
    scatter = _Scatter(fusion, target, op)
    bins = scatter.bins()
    if bins is not None:
        kernels, scratch = binned(bins, fusion, target)
        return GpuKernel.of(*kernels, scratch_bytes=scratch)
    copied = [] if fusion.inplace else [replace(fusion, name=f"{fusion.name}.copy", outputs=operands, ops=())]
    kernels = [loop.written(copy, target) for copy in copied]
    updates, scratch = scatter.emit()
    return GpuKernel.of(*kernels, *updates, scratch_bytes=scratch)


class _Scatter:
    def __init__(self, fusion: Fusion, target: GpuTarget, op: ir.OpView) -> None:
        self.fusion, self.target, self.op, self.count = fusion, target, op, len(op.results)
        self.layout = layout = ScatterLayout.of(op)
        self.operand, self.sizes = known_sizes(layout.operand), known_sizes(layout.updates)
        moved = [layout.window_of[d] for d in layout.index_of if layout.window(d) != 1]
        self.point_dims = [*layout.update_scatter_dims, *sorted(moved)]
        self.column_dims = [d for d in range(len(self.sizes)) if d not in self.point_dims]
        self.strides = row_major_strides(self.operand)
        self.along = {update: self.strides[d] for d, update in layout.window_of.items()}  # steps in the operands
        self.of = [element(value) for value in op.results]

    @property
    def points(self) -> int:
        """How many there are."""
        return math.prod(self.sizes[d] for d in self.point_dims)

    @property
    def columns(self) -> int:
        """How many elements of the updates each has."""
        return math.prod(self.sizes[d] for d in self.column_dims)

    @property
    def _count(self) -> int:
        """Elements of a result."""
        return math.prod(self.operand)

    @property
    def _new(self) -> list[ir.Value]:
        """The updates."""
        return list(self.op.operands)[self.count + 1 :]

    def emit(self) -> tuple[list[Function], int]:
        """The kernels that update, and how much scratch memory they take."""
        points, columns = self.points, self.columns
        if points * columns == 0:
            return [], 0
        if self._is_unique:
            return [self._threads(self.fusion.name, points * columns, self._one_update)], 0
        if self._is_atomic:
            return [self._threads(self.fusion.name, points * columns, self._one_atomically)], 0
        if points <= FEW_POINTS or max(num_elements(self.op.results[0]), points) > NOWHERE:
            return [self._threads(self.fusion.name, columns, self._all_points)], 0
        kernels, at = sorted_numbers(points, self._number, self.fusion, self.target)
        scratch = sorted_bytes(points)
        if self._is_associative:
            if columns >= FEWEST_COLUMNS:
                combining, more = runs_combined(self._runs(at), self.fusion, self.target, scratch)
            else:
                combining, more = combined_in_order(self._totals(at), self.fusion, self.target, scratch)
            return [*kernels, *combining], scratch + more
        one = self._last if self._replaces else self._all_of_a_place
        return [*kernels, self._threads(self.fusion.name, points * columns, partial(one, at))], scratch

    def bins(self) -> Bins | None:
        """How updates are combined in bins, which writes all elements of the results; None: they are not."""
        if self._is_atomic or not self._is_associative or self.points <= FEW_POINTS or self._is_unique:
            return None
        of_place = {*self.layout.index_of, *self.layout.batch_of}
        sizes = [size if d in of_place else 1 for d, size in enumerate(self.operand)]
        if math.prod(sizes) * self.columns != math.prod(self.operand):
            return None
        strides = [stride if d in of_place else 0 for d, stride in enumerate(row_major_strides(sizes))]

        def place(e: Elemental, point: Index) -> tuple[Index, Value]:
            return self._destination(e, self._digits(e.f, point, 0), strides)

        def read(e: Elemental, point: Index, column: Index) -> list[Lanes]:
            return self._updates(e, self._digits(e.f, point, column))

        def write(e: Elemental, place: Index, column: Index, totals: list[Lanes]) -> None:
            digits = unravel(e.f, column, [self.sizes[d] for d in self.column_dims])
            start = offset(e.f, unravel(e.f, place, sizes), self.strides)
            to = offset(e.f, digits, [self.along[d] for d in self.column_dims], start)
            here = ((self._count, affine_of(to, self._count - 1)),)
            old = [e.value(value, here) for value in list(self.op.operands)[: self.count]]
            for number, (of, value) in enumerate(zip(self.of, self._combined(e.f, old, totals), strict=True)):
                e.write(of, e.f.parameters[f"out{number}"], here, value)

        work = Bins(self.points, self.columns, math.prod(sizes), self._items, place, read, write)
        records = [record_of(op.name) for op in self._body]
        in_any_order = all(record is not None and record.commutative for record in records)
        return work if in_any_order and work.pays else None

    # --- the body ----------------------------------------------------------------------------------------------------

    @property
    def _is_unique(self) -> bool:
        """Whether no two points can be one."""
        windows = math.prod(self.sizes[d] for d in self.layout.update_scatter_dims)
        attributes = self.op.attributes
        return windows == 1 or ("unique_indices" in attributes and attributes["unique_indices"].value)

    @property
    def _replaces(self) -> bool:
        """Whether the body returns the updates."""
        block = self.op.regions[0].blocks[0]
        return list(block.operations[len(block.operations) - 1].operands) == list(block.arguments)[self.count :]

    @property
    def _is_associative(self) -> bool:
        """Whether the body combines each pair by an associative op."""
        block = self.op.regions[0].blocks[0]
        *ops, last = block.operations
        arguments = list(block.arguments)
        pairs = [{a, b} for a, b in zip(arguments[: self.count], arguments[self.count :], strict=True)]
        records = [record_of(op.operation.name) for op in ops]
        return (
            all(record is not None and record.associative for record in records)
            and [value for op in ops for value in op.operation.results] == list(last.operands)
            and [set(op.operation.operands) for op in ops] == pairs
        )

    @property
    def _is_atomic(self) -> bool:
        """Whether the target asks for atomic updates, and can combine as the body does."""
        pairs = zip(self._body, self.of, strict=False)
        can = self._is_associative and all(self.target.updates_atomically(op.name, of) for op, of in pairs)
        return can and self.target.atomic_scatter

    @property
    def _items(self) -> list[Reduction]:
        """Of an associative body, how updates are combined."""
        of_each = zip(self.op.results, self._new, list(self.op.operands), self._body, self.of, strict=False)
        return [
            Reduction(result, update, old, op.name.removeprefix("hlo."), (), of)
            for result, update, old, op, of in of_each
        ]

    @property
    def _body(self) -> list[ir.Operation]:
        """Of an associative body, what combines each pair."""
        return [op.operation for op in list(self.op.regions[0].blocks[0].operations)[:-1]]

    def _combined(self, f: Function, a: list[Lanes], b: list[Lanes]) -> list[Lanes]:
        return combiner(f, self.op)([*a, *b])

    def _put(self, f: Function, to: Index, new: list[Lanes]) -> None:
        """Combine into an element of the results."""
        outputs = [f.parameters[f"out{number}"] for number in range(self.count)]
        old = [types.load(f, of, output, to) for of, output in zip(self.of, outputs, strict=True)]
        for of, output, value in zip(self.of, outputs, self._combined(f, old, new), strict=True):
            types.store(f, of, value, output, to)

    # --- where things are --------------------------------------------------------------------------------------------

    def _threads(self, name: str, count: int, one: Callable[[Elemental, Value], None]) -> Function:
        """A kernel in which threads take numbers."""

        def body(f: Function, number: Value) -> None:
            one(Elemental(f, self.fusion, self.target, 1), number)

        return numbered_kernel(self.fusion, self.target, name, count, body)

    def _digits(self, f: Function, point: Index, column: Index) -> list[Index]:
        """The indices of an element of the updates."""
        found: dict[int, Index] = {}
        for dims, number in ((self.point_dims, point), (self.column_dims, column)):
            found |= zip(dims, unravel(f, number, [self.sizes[d] for d in dims]), strict=True)
        return [found[d] for d in range(len(self.sizes))]

    def _updates(self, e: Elemental, digits: list[Index]) -> list[Lanes]:
        place = delinearized(self.sizes, [affine(index, size) for index, size in zip(digits, self.sizes, strict=True)])
        return [e.value(value, place) for value in self._new]

    def _destination(
        self, e: Elemental, digits: list[Index], strides: Sequence[int] | None = None
    ) -> tuple[Index, Value]:
        """Which element of the operands an element of the updates is combined into, and whether it is in bounds. With
        `strides`, elements are numbered by these."""
        strides = strides or self.strides
        f, layout = e.f, self.layout
        indices = self.op.operands[self.count]
        sizes = known_sizes(layout.indices)

        def index(at: list[Index]) -> Index:
            place = delinearized(sizes, [affine(i, size) for i, size in zip(at, sizes, strict=True)])
            loaded: Known = e.value(indices, place)
            return as_index(f, element(indices), loaded)

        starts = layout.starts([digits[d] for d in layout.update_scatter_dims], index)
        whole = WHOLE_WINDOWS in self.op.attributes
        inside = f.const(True, I1)
        to: Index = 0
        for dimension, (start, size) in enumerate(zip(starts, self.operand, strict=True)):
            step: Index = digits[layout.window_of[dimension]] if dimension in layout.window_of else 0
            if dimension not in layout.index_of:
                to = f.iadd(to, f.imul(f.iadd(start, step), strides[dimension]))
                continue
            at = f.binary("add", f.index(start), f.index(step))  # modulo 2^64: an index may be any number
            width = int(layout.window(dimension)) if whole else 1
            least = f.index(start) if whole else at
            good = f.cmp("ult", least, f.const(max(0, size - width + 1)))
            inside = f.binary("and", inside, good)
            to = f.iadd(to, f.imul(f.bounded(at, 0, size - 1), strides[dimension]))
        return to, inside

    # --- no two points are one, or few -------------------------------------------------------------------------------

    def _one_update(self, e: Elemental, number: Value) -> None:
        self._update(e, unravel(e.f, number, self.sizes))

    def _all_points(self, e: Elemental, column: Value) -> None:
        e.f.loop(0, self.points, 1, lambda point: self._update(e, self._digits(e.f, point, column)))

    def _update(self, e: Elemental, digits: list[Index]) -> None:
        to, inside = self._destination(e, digits)
        e.f.if_(inside, lambda: self._put(e.f, to, self._updates(e, digits)))

    def _one_atomically(self, e: Elemental, number: Value) -> None:
        f, digits = e.f, unravel(e.f, number, self.sizes)
        to, inside = self._destination(e, digits)

        def put() -> None:
            updates = zip(self._body, self.of, self._updates(e, digits), strict=True)
            for position, (op, of, new) in enumerate(updates):
                update_atomically(f, self.target, op, of, f.parameters[f"out{position}"], to, new)

        f.if_(inside, put)

    # --- points in the order of their places -------------------------------------------------------------------------

    def _number(self, f: Function, point: Index) -> Value:
        """Where a point goes, and its number: the high and the low half of an i64."""
        e = Elemental(f, self.fusion, self.target, 1)
        to, inside = self._destination(e, self._digits(f, point, 0))
        place = f.select(inside, f.index(to), f.const(NOWHERE))
        return f.binary("or", f.binary("shl", place, f.const(32)), f.index(point))

    def _place(self, f: Function, at: int, position: Index) -> Value:
        """The place (i32) of a point by its position in the order; NOWHERE: it has none."""
        return f.load(I32, f.gep(f.scratch, at, I8), f.iadd(f.imul(position, 2), 1))

    def _point(self, f: Function, at: int, position: Index) -> Index:
        return _below(f, f.load(I32, f.gep(f.scratch, at, I8), f.imul(position, 2)), self.points)

    def _to(self, f: Function, place: Value, column: Index) -> Index:
        """The element of the operands of a place and a column."""
        digits = unravel(f, column, [self.sizes[d] for d in self.column_dims])
        to = offset(f, digits, [self.along[d] for d in self.column_dims], _below(f, place, self._count))
        return f.imin(to, self._count - 1)

    def _is_last(self, f: Function, at: int, position: Index, place: Value) -> Value:
        """Whether a point is the last one of its place."""
        after = self._place(f, at, f.imin(f.iadd(position, 1), self.points - 1))
        is_end = f.cmp("eq", f.index(position), f.const(self.points - 1))
        is_last = f.binary("or", is_end, f.cmp("ne", after, place))
        return f.binary("and", is_last, f.cmp("ne", place, f.const(NOWHERE, I32)))

    def _runs(self, at: int) -> Runs:
        """Of the points that go to one place: rows of them."""

        def read(e: Elemental, position: Index, column: Index) -> list[Lanes]:
            return self._updates(e, self._digits(e.f, self._point(e.f, at, position), column))

        def write(e: Elemental, place: Value, column: Index, totals: list[Lanes]) -> None:
            self._put(e.f, self._to(e.f, place, column), totals)

        def place(f: Function, position: Index) -> Value:
            return self._place(f, at, position)

        return Runs(self.points, self.columns, self._items, place, NOWHERE, read, write)

    def _totals(self, at: int) -> Sequences:
        """Of the points that go to one place: prefixes that begin anew where the place changes."""

        def read(e: Elemental, where: Delinearized) -> list[Lanes]:
            position, column = (scalar(e.f, each) for each in delinearize(e.f, where, [self.points, self.columns], 1))
            digits = self._digits(e.f, self._point(e.f, at, position), column)
            return [self._place(e.f, at, position), *self._updates(e, digits)]

        def combine(e: Elemental, a: list[Lanes], b: list[Lanes]) -> list[Lanes]:
            (before, *old), (place, *new) = a, b
            assert isinstance(before, Value) and isinstance(place, Value)
            is_same = e.f.cmp("eq", before, place)
            joined = self._combined(e.f, old, new)
            return [place, *(types.select(e.f, is_same, x, y) for x, y in zip(joined, new, strict=True))]

        def start(e: Elemental) -> list[Lanes]:
            return [e.f.const(-1, I32), *(types.constant(e.f, of, 0) for of in self.of)]

        def write(e: Elemental, where: Delinearized, total: list[Lanes]) -> None:
            f, (place, *new) = e.f, total
            assert isinstance(place, Value)
            position, column = (scalar(f, each) for each in delinearize(f, where, [self.points, self.columns], 1))
            is_last = self._is_last(f, at, position, place)
            f.if_(is_last, lambda: self._put(f, self._to(f, place, column), new))

        of = [ELEMENTS["i32"], *self.of]
        return Sequences(1, self.points, self.columns, of, read, combine, start, write)

    def _last(self, at: int, e: Elemental, number: Value) -> None:
        """Write the last point of a place."""
        f = e.f
        position, column = f.idiv(number, self.columns), f.irem(number, self.columns)
        place = self._place(f, at, position)

        def put() -> None:
            digits = self._digits(f, self._point(f, at, position), column)
            self._put(f, self._to(f, place, column), self._updates(e, digits))

        f.if_(self._is_last(f, at, position, place), put)

    def _all_of_a_place(self, at: int, e: Elemental, number: Value) -> None:
        """Take all points of a place, if this is the first one."""
        f = e.f
        position, column = f.idiv(number, self.columns), f.irem(number, self.columns)
        place = self._place(f, at, position)
        before = self._place(f, at, f.imax(f.isub(position, 1), 0))
        is_first = f.binary("or", f.cmp("eq", f.index(position), f.const(0)), f.cmp("ne", before, place))

        def goes_on(each: Value) -> Value:
            is_there = f.cmp("slt", each, f.const(self.points))
            here = self._place(f, at, f.imin(f.bounded(each, 0, self.points), self.points - 1))
            return f.binary("and", is_there, f.cmp("eq", here, place))

        def put(each: Value) -> list[Value]:
            known = f.bounded(each, 0, self.points - 1)
            digits = self._digits(f, self._point(f, at, known), column)
            self._put(f, self._to(f, place, column), self._updates(e, digits))
            return [f.index(f.iadd(known, 1))]

        def all_points() -> None:
            f.while_([f.index(position)], goes_on, put)

        is_there = f.cmp("ne", place, f.const(NOWHERE, I32))
        f.if_(f.binary("and", is_first, is_there), all_points)


def known_sizes(sizes: Sequence[IntLike]) -> list[int]:
    """Sizes of a program for certain shapes."""
    return [int(size) for size in sizes]


def _below(f: Function, number: Value, size: int) -> Index:
    """A number (i32) that was sorted, as an index. It is below the size, which is made sure of: else threads that race
    would end the process, and not be found (races.py)."""
    return f.bounded(f.cast("zext", f.intrinsic("umin", number, f.const(size - 1, I32)), I64), 0, size - 1)
