"""Kernels of kind `column`: reductions over any dimensions, elementwise work before them and, on the results, after
them.

Where the last dimension is kept, lanes run along it and a block of columns is accumulated in registers while the
reduced dimensions go by. Of an array that the L2 cache does not hold, some rows meet the blocks of a page before the
next ones come: what fetches ahead follows a page to its end. Sums wait in the L1 cache. Few rows are all in the text,
and vectors of a block go by. Where the last dimension is reduced, lanes run along the reduction and every result is one
iteration. Few results of many elements are computed in two phases: chunks of the largest reduced dimension (their
number depends on shapes only) leave partial results in shared scratch memory, then these are combined in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.iteration import Space, cone, refine
from stablehlo_py.backends.common.loops import fold, pack, tree, unpack
from stablehlo_py.backends.common.reduction import Reduction, at_place, combined, finish, lanes_combined, reductions
from stablehlo_py.backends.cpu.kernels import loop
from stablehlo_py.backends.cpu.kernels.base import Kernel, Part, phase, phase_function
from stablehlo_py.backends.cpu.kernels.iteration import empty, lanes_for, power_of_two
from stablehlo_py.backends.cpu.kernels.reduction import Sweep
from stablehlo_py.backends.cpu.kernels.strips import STRIP_BYTES, STRIP_ROWS, accumulator_type, rows_of, walk_strip
from stablehlo_py.backends.cpu.policy_costs import COSTS
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import I8, Function, Index, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.elemental.shape import products, runs
from stablehlo_py.codegen.index import (
    Affine,
    Delinearized,
    Variable,
    add,
    affine,
    affine_of,
    delinearize,
    delinearized,
    lane_index,
    linear_index,
    scalar,
)
from stablehlo_py.codegen.types import Lanes, element, lane_count, load, splat, store
from stablehlo_py.dialect.symint import IntLike, is_known, maximum, size_hint
from stablehlo_py.dialect.types import num_elements, shape
from stablehlo_py.errors import InternalError

WIDEST_BLOCK = 8  # vectors of columns accumulated at once
SPLIT_ELEMENTS = 1 << 16  # reductions of fewer elements are not split
CHUNK_ELEMENTS = 1 << 15  # elements of a chunk, at least
MOST_CHUNKS = 64
FEWEST_STRIPS = 2
ENOUGH_ITERATIONS = 16  # results in this many iterations need no split


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """Generate the kernel. All reductions have one operand shape and the same dimensions; all results have the
    reductions' shape.
    """
    items = reductions(fusion)
    if not items:
        return loop.emit(fusion, target)
    count = num_elements(items[0].result)
    if count == 0:
        return empty(fusion, target)
    if num_elements(items[0].operand) in (0, count):  # nothing, or nothing to combine
        return loop.emit(fusion, target)
    sizes, dimensions = shape(items[0].operand), items[0].dimensions
    if any((shape(item.operand), item.dimensions) != (sizes, dimensions) for item in items):
        raise InternalError(f"reductions of column fusion {fusion.name} differ in shape")
    if any(num_elements(value) != count for value in fusion.outputs):
        raise InternalError(f"a result of column fusion {fusion.name} does not have the shape of the reductions")
    return _Column(fusion, target, items).emit()


@dataclass(frozen=True)
class _Loop:
    size: IntLike
    reduced: bool


class _Column:
    def __init__(self, fusion: Fusion, target: CpuTarget, items: list[Reduction]) -> None:
        self.fusion, self.target, self.items = fusion, target, items
        sizes, reduced = shape(items[0].operand), set(items[0].dimensions)
        solid = [d for d, size in enumerate(sizes) if size != 1]
        groups = runs(len(solid), lambda number: (solid[number] in reduced) == (solid[number - 1] in reduced))
        counts = products([sizes[d] for d in solid], groups)
        kinds = [solid[group[0]] in reduced for group in groups]
        results = [item.result for item in items]
        self.space: Space = refine(fusion, target, [item.operand for item in items], counts or [1], bound=results)
        self.loops = [
            _Loop(size, bool(kinds) and kinds[origin])
            for size, origin in zip(self.space.sizes, self.space.origin, strict=True)
        ]
        self.kept = [one.size for one in self.loops if not one.reduced]
        self.reduced = [one.size for one in self.loops if one.reduced]
        self.count = math.prod(self.kept)
        self.total = math.prod(self.reduced)
        self.work = [
            value for value in cone([item.operand for item in items], results.__contains__) if value not in results
        ]
        self.cost = COSTS.vector_ns(self.work, len(self.items), 0)
        self.phase_ns = COSTS.phase_ns(target, self.work, len(self.items), 0)
        rest = [value for value in cone(fusion.outputs, results.__contains__) if value not in results]
        self.rest_ns = COSTS.phase_ns(target, rest, 0, len(fusion.outputs))
        self.lanes_last = not self.loops[-1].reduced  # lanes run along kept columns
        everything = [*self.work, *cone(fusion.outputs)]
        self.lanes = lanes_for(target, everything, self.loops[-1].size)
        self.functions: list[Function] = []

    def emit(self) -> Kernel:
        if self.lanes_last:
            return _KeptLanes(self).emit()
        return _ReducedLanes(self).emit()

    def place(self, kept: Sequence[Affine], reduced: Sequence[Affine]) -> Delinearized:
        """The operands' position from the kept and the reduced loops' indices."""
        return delinearized([one.size for one in self.loops], self.indices(kept, reduced))

    def indices(self, kept: Sequence[Affine], reduced: Sequence[Affine]) -> list[Affine]:
        """Those of the kept and of the reduced loops, in the order of all."""
        first, second = iter(kept), iter(reduced)
        return [next(second if one.reduced else first) for one in self.loops]

    def chunks(self, iterations: IntLike, split_size: IntLike) -> int:
        """Into how many chunks the split loop is divided (1: not split). Depends on shapes only."""
        elements = self.count * self.total
        if not isinstance(elements, int) or not isinstance(split_size, int) or not is_known(iterations):
            return 1
        if iterations >= ENOUGH_ITERATIONS or elements < SPLIT_ELEMENTS:
            return 1
        return max(1, min(MOST_CHUNKS, elements // CHUNK_ELEMENTS, split_size))

    def results(self, e: Elemental, place: Delinearized, totals: Sequence[Lanes], mask: Value | None = None) -> None:
        """Bind the reductions at a place of the results, evaluate and store what is computed from them."""
        here = linear_index(e.f, place)
        for item, total in zip(self.items, totals, strict=True):
            result = finish(e, item, total)
            e.bind(item.result, at_place(here, result))
        with e.predicated(mask):
            values = [e.value(value, place) for value in self.fusion.outputs]
        lanes = max(lane_count(total) for total in totals)
        for number, (value, result) in enumerate(zip(self.fusion.outputs, values, strict=True)):
            e.write(element(value), e.f.parameters[f"out{number}"], place, splat(e.f, result, lanes), mask)
        for item in self.items:
            e.bind(item.result, None)


class _Partials:
    """Accumulators in shared memory: [reduction][chunk][result], in the registers' precision."""

    def __init__(self, column: _Column, chunks: int, width: IntLike) -> None:
        self.items, self.chunks, self.width = column.items, chunks, width
        self.offsets: list[IntLike] = []
        offset: IntLike = 0
        for item in self.items:
            self.offsets.append(offset)
            offset += -(-chunks * width * accumulator_type(item.of).bytes // 64) * 64
        self.bytes = offset

    def base(self, f: Function, number: int) -> Value:
        return f.gep(f.shared, self.offsets[number], I8)

    def store(self, f: Function, chunk: Index, place: Index, totals: Sequence[Lanes]) -> None:
        for number, (item, total) in enumerate(zip(self.items, totals, strict=True)):
            store(f, accumulator_type(item.of), total, self.base(f, number), f.iadd(f.imul(chunk, self.width), place))

    def combined(self, e: Elemental, place: Index, lanes: int) -> list[Lanes]:
        """The chunks' accumulators of some results, combined in order."""
        f = e.f

        def read(chunk: Index) -> list[Lanes]:
            at = f.iadd(f.imul(chunk, self.width), place)
            return [
                load(f, accumulator_type(item.of), self.base(f, number), at, lanes)
                for number, item in enumerate(self.items)
            ]

        def step(chunk: Index, totals: list[Lanes]) -> list[Lanes]:
            return combined(f, self.items, totals, read(chunk))

        return fold(f, 1, self.chunks, 1, read(0), step)


@dataclass(frozen=True)
class _Share:
    """A chunk of the loop that is split, whose accumulators are `partials`; all of a loop that is not."""

    split: int
    partials: _Partials | None = None
    chunk: Index = 0

    def rows(self, f: Function, size: IntLike) -> tuple[Index, Index]:
        """Begin and end, of `size` rows: chunk k takes [k n / chunks, (k + 1) n / chunks)."""
        if self.partials is None:
            return 0, size
        chunks = self.partials.chunks
        return f.idiv(f.imul(self.chunk, size), chunks), f.idiv(f.imul(f.iadd(self.chunk, 1), size), chunks)

    def keep(
        self, e: Elemental, column: _Column, place: Delinearized, totals: Sequence[Lanes], mask: Value | None = None
    ) -> None:
        """Store what the rows give at a place of the results."""
        if self.partials is None:
            column.results(e, place, totals, mask)
        else:
            self.partials.store(e.f, self.chunk, scalar(e.f, linear_index(e.f, place)), totals)


class _KeptLanes:
    """Lanes along the last kept loop: [outer..., columns], blocks of several vectors of columns."""

    def __init__(self, column: _Column) -> None:
        self.c = column
        self.columns, self.outer = column.kept[-1], column.kept[:-1]
        widest = WIDEST_BLOCK if column.cost < COSTS.bound_ns else 2
        wanted = max(1, widest // len(column.items))
        known = is_known(self.columns)  # else there is one vector, masked at the end of the columns
        self.vectors = min(wanted, power_of_two(max(1, int(self.columns // column.lanes)))) if known else 1
        self.block = self.vectors * column.lanes
        self.blocks = -(-self.columns // self.block)
        self.bytes = max((element(value).bytes for value in column.fusion.inputs), default=1)  # of what is read
        # A single vector of columns waits for its sum: several rows at once then.
        rows = column.reduced[-1] if isinstance(column.reduced[-1], int) else 4
        self.rows_at_once = max(1, min(4 // self.vectors, rows)) if column.cost < COSTS.bound_ns else 1

    def emit(self) -> Kernel:
        c = self.c
        iterations = math.prod(self.outer) * self.blocks
        split = c.reduced.index(max(c.reduced, key=size_hint))
        chunks = c.chunks(iterations, c.reduced[split])
        f = phase_function(c.fusion, c.target)
        cost = c.phase_ns * self.vectors * size_hint(c.total) / chunks + 5.0
        rest = c.rest_ns * self.vectors
        accumulate, strip = self._block, self._strip(chunks)
        if self._is_short() and chunks == strip == 1:
            accumulate = self._short_block
        if strip > 1:
            together, strips = min(strip, int(self.blocks)), -(-int(self.blocks) // strip)
            iterations, cost, rest = math.prod(self.outer) * strips, cost * together, rest * together
            accumulate = partial(self._blocks_of_strip, strip=strip)
        if chunks == 1:
            f.loop(f.begin, f.end, 1, lambda i: accumulate(f, i, _Share(split)), nonempty=True)
            return Kernel.of(phase(f, iterations, cost + rest))
        partials = _Partials(c, chunks, c.count)

        def one(i: Index) -> None:
            accumulate(f, f.irem(i, iterations), _Share(split, partials, f.idiv(i, iterations)))

        f.loop(f.begin, f.end, 1, one, nonempty=True)
        parts = phase(f, iterations * chunks, cost), combine_phase(c, partials)
        return Kernel.of(*parts, shared_bytes=partials.bytes)

    def _is_short(self) -> bool:
        """Whether a loop over vectors with all rows in the text is less code than one over rows with all vectors."""
        return len(self.c.reduced) == 1 and is_known(self.c.total) and self.c.total <= self.vectors > 2

    def _strip(self, chunks: int) -> int:
        """Blocks of a strip; 1: there are none."""
        c = self.c
        held = max(self.bytes, *(accumulator_type(item.of).bytes for item in c.items))
        if len(c.reduced) > 1 or not is_known(c.count, c.total, *self.outer) or self.rows_at_once > 1 or held > 8:
            return 1
        if c.count * c.total * self.bytes <= c.target.l2:
            return 1
        strips = FEWEST_STRIPS if chunks == 1 else 1
        return min(STRIP_BYTES // (self.block * held), int(math.prod(self.outer) * self.blocks) // strips)

    def _blocks_of_strip(self, f: Function, i: Index, share: _Share, strip: int) -> None:
        """Accumulate the blocks of a strip: all of them over some rows, then over the next ones."""
        c, lanes, outer_count = self.c, self.c.lanes, math.prod(self.outer)
        strips = -(-int(self.blocks) // strip)
        outer = delinearize(f, ((outer_count, affine_of(f.idiv(i, strips), outer_count - 1)),), self.outer, 1)
        first = f.imul(f.irem(i, strips), strip)
        blocks = first, f.imin(f.iadd(first, strip), self.blocks)
        identity = [arith.identity(f, item.kind, item.of, lanes) for item in c.items] * self.vectors

        def walk(number: Index, low: Index, high: Index, held: list[Lanes]) -> list[Lanes]:
            e = Elemental(f, c.fusion, c.target, lanes)
            columns, _ = self._columns(f, number)
            totals = self._rows(e, outer, columns, 0, low, high, held)
            return [each for total in totals for each in total]

        held = [item.of for item in c.items] * self.vectors
        rows = share.rows(f, c.reduced[0])
        found = walk_strip(f, held, lanes, blocks, strip, rows, lambda: identity, walk)

        def finish(number: Index) -> None:
            e = Elemental(f, c.fusion, c.target, lanes)
            columns, _ = self._columns(f, number)
            totals, count = found(number), len(c.items)
            for nth, column in enumerate(columns):
                place = delinearized(c.kept, [*outer, column])
                share.keep(e, c, place, totals[nth * count : (nth + 1) * count])

        f.loop(*blocks, 1, finish, nonempty=True)

    def _columns(self, f: Function, number: Index) -> tuple[list[Affine], Value | None]:
        """The columns of a block, vector by vector, and the mask where their number comes with the call."""
        lanes = self.c.lanes
        start = f.imul(number, self.block)
        known, mask = is_known(self.columns), None
        aligned = self.columns % self.block == 0 or not known
        if not known:
            mask = f.tail_mask(f.isub(self.columns, start), lanes)
        elif not aligned:
            start = f.imin(start, self.columns - self.block)
        base = lane_index(start, self.columns - self.block + lanes, lanes, lanes if aligned else 1)
        return [add(f, base, vector * lanes) for vector in range(self.vectors)], mask

    def _block(self, f: Function, i: Index, share: _Share) -> None:
        """Accumulate one block of columns."""
        c, lanes = self.c, self.c.lanes
        e = Elemental(f, c.fusion, c.target, lanes)
        outer = self._outer(f, i)
        columns, mask = self._columns(f, f.irem(i, self.blocks))
        with e.predicated(mask):
            totals = self._rows(e, outer, columns, share.split, *share.rows(f, c.reduced[share.split]))
        for column, total in zip(columns, totals, strict=True):
            share.keep(e, c, delinearized(c.kept, [*outer, column]), total, mask)

    def _outer(self, f: Function, i: Index) -> list[Affine]:
        """The outer indices of a block."""
        count = math.prod(self.outer)
        return delinearize(f, ((count, affine_of(f.idiv(i, self.blocks), count - 1)),), self.outer, 1)

    def _short_block(self, f: Function, i: Index, share: _Share) -> None:
        """Accumulate one block of columns, vector by vector, each over all rows."""
        c, lanes = self.c, self.c.lanes
        outer, first = self._outer(f, i), self._columns(f, f.irem(i, self.blocks))[0][0]

        def one(offset: Value) -> None:
            e = Elemental(f, c.fusion, c.target, lanes)
            column = add(f, first, Affine(0, ((Variable(offset, 0, self.block - lanes, lanes), 1),)))
            totals = [arith.identity(f, item.kind, item.of, lanes) for item in c.items]
            for row in range(int(c.total)):
                totals = self._with_row(e, [*outer, column], [affine_of(row, c.total - 1)], totals)
            share.keep(e, c, delinearized(c.kept, [*outer, column]), totals)

        f.loop(0, self.block, lanes, one, nonempty=True)

    def _with_row(
        self, e: Elemental, kept: Sequence[Affine], reduced: Sequence[Affine], totals: Sequence[Lanes]
    ) -> list[Lanes]:
        """Accumulators with one row's elements of a vector of columns."""
        c, at = self.c, self.c.place(kept, reduced)
        return [
            arith.combine(e.f, item.kind, item.of, total, splat(e.f, e.value(item.operand, at), c.lanes))
            for item, total in zip(c.items, totals, strict=True)
        ]

    def _rows(
        self,
        e: Elemental,
        outer: Sequence[Affine],
        columns: Sequence[Affine],
        split: int,
        low: Index,
        high: Index,
        before: list[Lanes] | None = None,
    ) -> list[list[Lanes]]:
        """Accumulators of every vector of columns, which begin with those `before`, if there are any."""
        f, c = e.f, self.c
        of = [item.of for item in c.items]
        copies = self.rows_at_once
        identity = [arith.identity(f, item.kind, item.of, c.lanes) for item in c.items] * self.vectors
        if before:
            copies, identity = 1, before
        order = [split, *(number for number in range(len(c.reduced)) if number != split)]
        if len(order) > 1 and split == len(order) - 1:
            copies = 1

        def accumulate(indices: dict[int, Affine], totals: list[Lanes]) -> list[Lanes]:
            reduced, count = [indices[number] for number in range(len(c.reduced))], len(c.items)
            result: list[Lanes] = []
            if before and int(self.columns) * self.bytes < STRIP_BYTES:
                ahead = c.indices([*outer, columns[0]._replace(lane=0)], [add(f, reduced[0], STRIP_ROWS)])
                for each in rows_of(c.fusion, c.space):
                    each.fetch(f, ahead, self.block)
            for nth, column in enumerate(columns):
                result += self._with_row(e, [*outer, column], reduced, totals[nth * count : (nth + 1) * count])
            return result

        def rows(indices: dict[int, Affine], totals: Sequence[Value]) -> list[Value]:
            return pack(accumulate(indices, unpack(totals, of * self.vectors)))

        width = len(pack(identity))
        bounds = [(low, high), *((0, c.reduced[number]) for number in order[1:])]
        flat = self._nest(f, order, bounds, {}, pack(identity) * copies, rows, copies)
        sets = [unpack(flat[start : start + width], of * self.vectors) for start in range(0, len(flat), width)]
        merged = tree(sets, lambda a, b: combined(f, list(c.items) * self.vectors, a, b))
        count = len(c.items)
        return [merged[number * count : (number + 1) * count] for number in range(self.vectors)]

    def _nest(
        self,
        f: Function,
        order: Sequence[int],
        bounds: Sequence[tuple[Index, Index]],
        indices: dict[int, Affine],
        carries: list[Value],
        rows: Callable[[dict[int, Affine], Sequence[Value]], list[Value]],
        copies: int,
    ) -> list[Value]:
        """The loops over reduced dimensions in this order and these bounds, inside of those that have `indices`; the
        innermost one does `copies` rows at once, each into its own accumulators."""
        number, size, (low, high) = order[0], self.c.reduced[order[0]], bounds[0]
        if len(order) > 1:

            def body(index: Value, *inner: Value) -> list[Value]:
                at = indices | {number: affine(index, size)}
                return self._nest(f, order[1:], bounds[1:], at, list(inner), rows, copies)

            return f.loop(low, high, 1, body, carries, nonempty=True)
        width = len(carries) // copies

        def many(index: Index, *inner: Value) -> list[Value]:
            result: list[Value] = []
            for copy in range(copies):
                row = affine_of(f.iadd(index, copy), size - 1)
                result += rows(indices | {number: row}, inner[copy * width : (copy + 1) * width])
            return result

        def single(index: Index, *inner: Value) -> list[Value]:
            return rows(indices | {number: affine_of(index, size - 1)}, inner)

        if copies == 1:
            return f.loop(low, high, 1, single, carries, nonempty=True)
        whole = f.iadd(low, f.imul(f.idiv(f.isub(high, low), copies), copies))
        carries = f.loop(low, whole, copies, many, carries)
        return [*f.loop(whole, high, 1, single, carries[:width]), *carries[width:]]


class _ReducedLanes:
    """Lanes along the last, reduced loop: one result per iteration."""

    def __init__(self, column: _Column) -> None:
        self.c = column
        cheap = column.cost < COSTS.bound_ns
        copies = max(1, 4 // len(column.items)) if cheap else 1
        columns = column.reduced[-1]
        self.copies = max(1, min(copies, columns // column.lanes)) if isinstance(columns, int) else copies

    def emit(self) -> Kernel:
        c = self.c
        f = phase_function(c.fusion, c.target)
        vectors = size_hint(math.prod(c.reduced[:-1]) * -(-c.reduced[-1] // c.lanes))
        unit = c.lanes * self.copies if len(c.reduced) == 1 else 1
        chunks = c.chunks(c.count, maximum(1, c.reduced[0] // unit))
        cost = c.phase_ns * vectors / chunks + 5.0
        if chunks == 1:
            f.loop(f.begin, f.end, 1, lambda i: self._result(f, i), nonempty=True)
            return Kernel.of(phase(f, c.count, cost))
        partials = _Partials(c, chunks, c.count)

        def one(i: Index) -> None:
            chunk, result = f.idiv(i, c.count), f.irem(i, c.count)
            low, high = self._range(f, chunk, chunks, unit)
            _, sweep = self._sweep(f, result)
            totals = sweep.run(low, high, tail=len(c.reduced) > 1)
            partials.store(f, chunk, result, lanes_combined(f, c.items, totals))

        f.loop(f.begin, f.end, 1, one, nonempty=True)
        second = combine_phase(c, partials, self if len(c.reduced) == 1 else None)
        return Kernel.of(phase(f, c.count * chunks, cost), second, shared_bytes=partials.bytes)

    def _range(self, f: Function, chunk: Index, chunks: int, unit: IntLike) -> tuple[Index, Index]:
        units = self.c.reduced[0] // unit
        low = f.imul(f.idiv(f.imul(chunk, units), chunks), unit)
        return low, f.imul(f.idiv(f.imul(f.iadd(chunk, 1), units), chunks), unit)

    def _sweep(self, f: Function, result: Index) -> tuple[Elemental, Sweep]:
        c = self.c
        e = Elemental(f, c.fusion, c.target, c.lanes)
        kept = delinearize(f, ((c.count, affine_of(result, c.count - 1)),), c.kept, 1) if c.kept else []
        return e, Sweep(e, c.items, c.reduced, c.lanes, self.copies, lambda indices: c.place(kept, indices))

    def _result(self, f: Function, i: Index) -> None:
        c = self.c
        e, sweep = self._sweep(f, i)
        totals = lanes_combined(f, c.items, sweep.run())
        c.results(e, ((c.count, affine_of(i, c.count - 1)),) if c.count != 1 else (), totals)

    def leftover(self, f: Function, result: Index) -> list[Lanes] | None:
        """Accumulators of what no chunk has taken."""
        c = self.c
        if c.reduced[-1] % (c.lanes * self.copies) == 0:
            return None
        _, sweep = self._sweep(f, result)
        return lanes_combined(f, c.items, sweep.remainder())


def combine_phase(c: _Column, partials: _Partials, rest: _ReducedLanes | None = None) -> Part:
    """The second phase: partial results in the order of chunks, then the epilogue."""
    f = phase_function(c.fusion, c.target, ".combine")
    lanes = 1 if rest else min(c.lanes, power_of_two(int(c.count)))
    vectors = -(-c.count // lanes)

    def one(i: Index) -> None:
        e = Elemental(f, c.fusion, c.target, lanes)
        start = f.imul(i, lanes) if c.count % lanes == 0 else f.imin(f.imul(i, lanes), c.count - lanes)
        totals = partials.combined(e, start, lanes)
        left = rest.leftover(f, start) if rest else None
        if left is not None:
            totals = combined(f, c.items, totals, left)
        place = (
            ((c.count, lane_index(start, c.count, lanes, lanes if c.count % lanes == 0 else 1)),) if c.count > 1 else ()
        )
        c.results(e, place, totals)

    f.loop(f.begin, f.end, 1, one, nonempty=True)
    return phase(f, vectors, 2.0 * partials.chunks)
