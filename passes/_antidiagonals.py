"""Values of two nested loops as vectors along antidiagonals; see `skew_loops`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from stablehlo_py.dialect import build
from stablehlo_py.dialect.regions import defined_values
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.dialect.trips import trip_count
from stablehlo_py.dialect.types import i64s, is_tensor, num_elements, operations, shape
from stablehlo_py.mlir import ir
from stablehlo_py.passes._loops import Loop, Trips
from stablehlo_py.passes._matchers import ELEMENTWISE_OPS, integer_splat, without_reshapes
from stablehlo_py.passmanager.rewrite import defining


class NoAntidiagonalError(Exception):
    """A pair of loops has something that is no vector along antidiagonals."""


@dataclass(frozen=True)
class Nest:
    """A loop over rows, in it one over columns whose carries are scalars and rows."""

    outer: Trips
    inner: Trips
    step: int  # 1: both from the first place on, -1: from the last one

    @staticmethod
    def of(op: ir.Operation) -> Nest | None:
        loops = [Loop.of(each) for each in operations(op) if each.name == "scf.while"]
        if len(loops) != 2 or None in loops:
            return None
        inner, outer = sorted((loop for loop in loops if loop is not None), key=lambda loop: loop.op == op)
        if inner.op.block != outer.after or not all(is_tensor(each) for each in (*op.results, *inner.op.results)):
            return None
        nests = [Trips(loop, trip_count(loop.op, {}) or 0) for loop in (outer, inner)]
        steps = {step for trips in nests for step in _steps(trips)}
        sizes = [size for each in operations(op) for value in each.results if is_tensor(value) for size in shape(value)]
        if steps not in ({1}, {-1}) or not all(trips.trips for trips in nests) or not all(map(is_known, sizes)):
            return None
        return Nest(nests[0], nests[1], steps.pop())


def _steps(trips: Trips) -> set[int]:
    """The directions in which a loop's body goes through places that it reads or writes; 0: another order."""
    found = set()
    for view in trips.loop.after:
        op = view.operation
        if op.name in ("hlo.dynamic_slice", "hlo.dynamic_update_slice"):
            index = op.operands[1 if op.name == "hlo.dynamic_slice" else 2]
            number = trips.affine(index) if trips.is_index(index) else None
            found.add(0 if number is None else number[1])
    return found


@dataclass
class Antidiagonals:
    """The loop over antidiagonals, under construction. What is one element for a row and a column in the old loops is
    a vector with an element for each row here; that of row i is at column `diagonal` - i."""

    nest: Nest
    skewed: dict[tuple[ir.Block, ir.Value], ir.Value]  # arrays by antidiagonals, by block and array
    inits: list[ir.Value] = field(default_factory=list, init=False)
    ends: list[ir.Value] = field(default_factory=list, init=False)
    # Carries of the inner loop, by carries here; but those that it also writes to a row, which is kept.
    lefts: dict[int, ir.Value] = field(default_factory=dict, init=False)
    past: dict[int, list[int]] = field(default_factory=dict, init=False)  # carries here, by rows of the inner loop
    vectors: dict[ir.Value, ir.Value] = field(default_factory=dict, init=False)
    parts: dict[tuple[ir.Value, int, bool], ir.Value] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        op = self.nest.outer.loop.op
        self.rows, self.columns = self.nest.outer.trips, self.nest.inner.trips
        self.inside, self.block = defined_values(op), op.block
        self.before = ir.InsertionPoint(op)
        with self.before:
            self.loop = build.op("scf.while", [], [], regions=2)
            self.scalar = build.tensor((), ir.IntegerType.get_signless(32))
            zero = build.splat(0, self.scalar)
        for region in self.loop.regions:
            region.blocks.append()
        self.body = self.loop.regions[1].blocks[0]
        self.add_carry(zero)
        time = self.body.arguments[0]
        with ir.InsertionPoint(self.body):
            self.ends[0] = build.like("add", time, build.splat(1, self.scalar))
            self.diagonal = time
            if self.nest.step < 0:
                last = build.splat(self.rows + self.columns - 2, self.scalar)
                self.diagonal = build.like("subtract", last, time)
            self.row = build.value("iota", build.tensor((self.rows,), self.scalar.element_type), dimension=0)
            self.column = build.like("subtract", self._spread(self.diagonal), self.row)

    # --- carries

    def add_carry(self, init: ir.Value) -> int:
        """A new carry; what it yields is to be `ends` of its number."""
        for region in self.loop.regions:
            argument = region.blocks[0].add_argument(init.type, self.nest.outer.loop.op.location)
        self.inits.append(init)
        self.ends.append(argument)
        return len(self.inits) - 1

    def add_vectors(self, sizes: tuple[int, ...], element: ir.Type) -> int:
        with self.before:
            init = build.splat(0, build.tensor(sizes, element))
        return self.add_carry(init)

    def written(self, row: int) -> ir.Value:
        """What a step of the inner loop writes to its place of a row."""
        update = self.nest.inner.filling(row)
        if update is None:
            raise NoAntidiagonalError
        return update.operands[1]

    def _before(self, row: int, steps: int) -> ir.Value:
        """What a row got some steps before."""
        must(steps >= 1)
        kept = self.past.setdefault(row, [])
        while len(kept) < steps:
            kept.append(self.add_vectors((self.rows,), self.written(row).type.element_type))
        return self.body.arguments[kept[steps - 1]]

    def close(self) -> None:
        """What carries yield. To compute that may need more carries."""
        done = 0
        while done < len(self.lefts) + len(self.past):
            values = [*self.lefts.values(), *map(self.written, self.past)]
            done = len(values)
            for value in values:
                self.vector(value)
        for carry, value in self.lefts.items():
            self.ends[carry] = self.vector(value)
        for row, kept in self.past.items():
            newer = [self.vector(self.written(row)), *(self.body.arguments[carry] for carry in kept)]
            for carry, value in zip(kept, newer, strict=False):
                self.ends[carry] = value

    # --- vectors

    def _spread(self, value: ir.Value) -> ir.Value:
        """One element for every row."""
        return build.broadcast(build.reshape(value, ()), (self.rows,), [])

    def vector(self, value: ir.Value) -> ir.Value:
        """One element of the old loops, for each row and its column."""
        must(is_tensor(value) and num_elements(value) == 1)
        if value not in self.inside:
            return self._spread(value)
        if value not in self.vectors:
            is_carry = isinstance(value, ir.BlockArgument)
            self.vectors[value] = self._left(value) if is_carry else self._computed(value)
        return self.vectors[value]

    def _left(self, argument: ir.BlockArgument) -> ir.Value:
        """A carry of the inner loop, or a counter of the outer one."""
        inner, number = self.nest.inner.loop, argument.arg_number
        counted = self.nest.outer.affine(argument)
        if counted is not None:
            numbers = build.convert(self.row, argument.type.element_type)
            start, by = counted if self.nest.step > 0 else (counted[0] + counted[1] * (self.rows - 1), -counted[1])
            return build.like(
                "add", build.like("multiply", numbers, build.splat(by, numbers.type)), build.splat(start, numbers.type)
            )
        must(argument.owner == inner.after)
        start, value = self.vector(inner.op.operands[number]), inner.yielded.operands[number]
        row = self._rows_by_number.get(_number(value))
        if row is None:
            carry = self.add_vectors((self.rows,), argument.type.element_type)
            self.lefts[carry] = value
            left: ir.Value = self.body.arguments[carry]
        else:
            left = self._before(row, 1)
        first = self.compared(self.column, "EQ", 0 if self.nest.step > 0 else self.columns - 1)
        return build.value("select", start.type, first, start, left)

    @cached_property
    def _rows_by_number(self) -> dict[ir.Value, int]:
        """The rows of the inner loop, by what it writes to them."""
        updates = {row: self.nest.inner.filling(row) for row in range(len(self.nest.inner.loop.op.results))}
        return {_number(update.operands[1]): row for row, update in updates.items() if update is not None}

    def _computed(self, value: ir.Value) -> ir.Value:
        op = value.owner.operation
        if op.name == "hlo.dynamic_slice":
            source, index, *_ = op.operands
            if op.block == self.nest.inner.loop.after:
                must(self.nest.inner.is_index(index) and len(shape(source)) == 1 and shape(source)[0] >= self.columns)
                return self.part(source, 0)
            must(self.nest.outer.is_index(index) and source not in self.inside and num_elements(source) == self.rows)
            return build.reshape(source, (self.rows,))
        if op.name in ("hlo.reshape", "hlo.broadcast"):
            return self.vector(op.operands[0])
        if op.name == "hlo.constant":
            return self._spread(op.clone().operation.result)
        must(op.name in ELEMENTWISE_OPS)
        vectors = [self.vector(operand) for operand in op.operands]
        return build.again(op, vectors, build.tensor((self.rows,), value.type.element_type))

    def part(self, value: ir.Value, shift: int, above: bool = False) -> ir.Value:
        """The elements of rows that are `shift` after each row's column; `above`: of the rows of the trip before."""
        key = value, shift, above
        if key not in self.parts:
            if value not in self.inside:
                self.parts[key] = self._window(value, shift)
            elif isinstance(value, ir.BlockArgument):
                self.parts[key] = self._carried(value, shift, above)
            else:
                self.parts[key] = self._cut(value, shift, above)
        return self.parts[key]

    def _window(self, value: ir.Value, shift: int) -> ir.Value:
        """Of a row from outside."""
        found = defining(value, "hlo.broadcast")
        if found is not None and num_elements(found.operands[0]) == 1:
            return self._spread(found.operands[0])
        (size,) = shape(value)
        low, high = max(0, self.rows + self.columns - 1 - size + shift), max(0, self.rows - 1 - shift)
        with self.before:
            zero = build.splat(0, build.tensor((), value.type.element_type))
            turned = build.like("reverse", value, dimensions=[0])
            padded = build.made("pad", turned, zero, low=[low], high=[high], interior=[0])
        start = build.like("subtract", build.splat(size - 1 - shift + low, self.scalar), self.diagonal)
        return build.value("dynamic_slice", self._vector_type(value), padded, start, sizes=[self.rows])

    def _carried(self, argument: ir.BlockArgument, shift: int, above: bool) -> ir.Value:
        """Of a row that the outer loop carries."""
        outer, number = self.nest.outer.loop, argument.arg_number
        must(argument.owner == outer.after and not above and len(shape(argument)) == 1)
        first = 0 if self.nest.step > 0 else self.rows - 1
        start = outer.op.operands[number]
        at = self._moved(shift - first)
        sizes = build.tensor((1,), argument.type.element_type)
        element = self._spread(build.value("dynamic_slice", sizes, start, at, sizes=[1]))
        later = self.part(outer.yielded.operands[number], shift, above=True)
        return build.value("select", later.type, self.compared(self.row, "EQ", first), element, later)

    def _cut(self, value: ir.Value, shift: int, above: bool) -> ir.Value:
        """Of a row that the body of the outer loop computes."""
        op, step = value.owner.operation, self.nest.step
        if op == self.nest.inner.loop.op:
            row, steps = ir.OpResult(value).result_number, -step * shift
            if above:
                return self._next_row(self._before(row, steps + 1))
            return self._before(row, steps) if steps else self.vector(self.written(row))
        if op.name == "hlo.reshape":
            source = without_reshapes(value)
            made = defining(source, "hlo.dynamic_slice")
            if made is None:
                must(len(shape(source)) == 1)
                return self.part(source, shift, above)
            row = self._row(made, shift - step if above else shift)
            return self._next_row(row) if above else row
        if op.name == "hlo.slice":
            must(len(shape(value)) == 1 and i64s(op, "strides") == (1,))
            return self.part(op.operands[0], shift + i64s(op, "start")[0], above)
        if op.name == "hlo.pad":
            must(len(shape(value)) == 1 and i64s(op, "interior") == (0,) and op.operands[1] not in self.inside)
            (low,), (high,), filled = i64s(op, "low"), i64s(op, "high"), op.operands[1]
            must(low >= 0 and high >= 0)
            return self._joined(
                [(low, filled), (shape(op.operands[0])[0], op.operands[0]), (high, filled)], shift, above
            )
        if op.name == "stablehlo.concatenate":
            must(len(shape(value)) == 1)
            return self._joined([(shape(operand)[0], operand) for operand in op.operands], shift, above)
        if op.name == "hlo.broadcast":
            vector = self.vector(op.operands[0])
            return self._next_row(vector) if above else vector
        must(op.name in ELEMENTWISE_OPS and len(shape(value)) == 1)
        operands = [self.part(operand, shift, above) for operand in op.operands]
        return build.again(op, operands, self._vector_type(value))

    def _joined(self, pieces: list[tuple[IntLike, ir.Value]], shift: int, above: bool) -> ir.Value:
        """Of pieces, one after the other, each with its size; those in no valid column do not matter."""
        found: list[tuple[int, ir.Value]] = []
        start = 0
        for size, piece in ((int(size), piece) for size, piece in pieces):
            if start < self.columns + shift and start + size > shift and size:
                one = num_elements(piece) == 1 and piece not in self.inside
                part = self._spread(piece) if one else self.part(piece, shift - start, above)
                found.append((start + size - shift, part))
            start += size
        must(found)
        *others, (_, result) = found
        for end, part in reversed(others):
            result = build.value("select", part.type, self.compared(self.column, "LT", end), part, result)
        return result

    def _row(self, cut: ir.Operation, shift: int) -> ir.Value:
        """Of rows of an array from outside, cut at the row of the trip."""
        source, index, *others = cut.operands
        sizes = shape(source)
        whole = len(sizes) == 2 and sizes[0] == self.rows and shape(cut.result) == (1, sizes[1])
        must(whole and source not in self.inside and self.nest.outer.is_index(index))
        must(all(integer_splat(other) == 0 for other in others))
        key = self.block, source
        if key not in self.skewed:
            with self.before:
                self.skewed[key] = _by_antidiagonals(source)
        starts = self._moved(shift), build.splat(0, self.scalar)
        type_ = build.tensor((1, self.rows), source.type.element_type)
        part = build.value("dynamic_slice", type_, self.skewed[key], *starts, sizes=[1, self.rows])
        return build.reshape(part, (self.rows,))

    def _next_row(self, vector: ir.Value) -> ir.Value:
        """Each row gets what the row before has."""
        zero = build.splat(0, build.tensor((), vector.type.element_type))
        forwards = self.nest.step > 0
        kept = build.slice_(vector, [0], [self.rows - 1]) if forwards else build.slice_(vector, [1], [self.rows])
        return build.made("pad", kept, zero, low=[int(forwards)], high=[int(not forwards)], interior=[0])

    def _moved(self, by: int) -> ir.Value:
        return build.like("add", self.diagonal, build.splat(by, self.scalar)) if by else self.diagonal

    def compared(self, numbers: ir.Value, direction: str, limit: int) -> ir.Value:
        """Which elements compare so with a number."""
        return build.compare(numbers, build.splat(limit, numbers.type), direction)

    def _vector_type(self, value: ir.Value) -> ir.RankedTensorType:
        return build.tensor((self.rows,), value.type.element_type)


def must(condition: object) -> None:
    if not condition:
        raise NoAntidiagonalError


def _number(value: ir.Value) -> ir.Value:
    """What has the one number of a value, whatever its shape."""
    while (op := defining(value)) is not None and op.name in ("hlo.reshape", "hlo.broadcast"):
        value = op.operands[0]
    return value


def _by_antidiagonals(array: ir.Value) -> ir.Value:
    """[rows, columns] -> [rows + columns - 1, rows]: element (i, j) at (i + j, i)."""
    rows, columns = shape(array)
    zero = build.splat(0, build.tensor((), array.type.element_type))
    padded = build.made("pad", array, zero, low=[0, 0], high=[0, rows], interior=[0, 0])
    flat = build.slice_(build.reshape(padded, (rows * (rows + columns),)), [0], [rows * (rows + columns - 1)])
    return build.transpose(build.reshape(flat, (rows, rows + columns - 1)), [1, 0])
