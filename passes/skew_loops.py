"""Recurrences in two dimensions are computed by antidiagonals: loops of scalars become one loop of vectors.

    scf.while rows { scf.while columns { %v[i, j] = f(%v[i, j - 1], %v[i - 1, j], %v[i - 1, j - 1], %x[i, j]) } }
        ==>  scf.while (%t) { %v = f(%left, %up, %diagonal, %x[%t]) : tensor<rows> }

Each number of a row needs the one before it and some of the row above, so nothing of a row can be computed at once, but
all of an antidiagonal i + j = t can: row i is element i of a vector. What it needs of the row above, its neighbour
computed one or more steps before. This is loop skewing (Wolfe 1986), of dynamic programming: alignments, time warping,
paths in grids, and their gradients, which go the same way back. Rows before their first column and after their last one
compute what nobody reads. Stacks are kept as the steps write them, each antidiagonal a row.

Relies on the normal form of loops. Row and column go in the same direction, the inner body has scalars only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect import build
from stablehlo_py.dialect.types import num_elements, operations, shape
from stablehlo_py.mlir import ir
from stablehlo_py.passes._antidiagonals import Antidiagonals, Nest, NoAntidiagonalError, must
from stablehlo_py.passes._loops import change_loops
from stablehlo_py.passes._matchers import has_one_use, integer_splat, without_reshapes
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.passmanager.rewrite import defining


@dataclass(frozen=True)
class SkewLoops(Pass):
    """Computes nests of two loops over scalars by antidiagonals.

    Options:
        least: rows, and columns, from which on it pays.
        rows_per_column: the most rows a column; elements are idle in as many steps as there are rows.
        ops: the most that the bodies have.
    """

    name: ClassVar[str] = "skew-loops"
    least: int = 8
    rows_per_column: int = 4
    ops: int = 200

    def roots(self) -> tuple[str, ...]:
        return ("scf.while",)

    def run(self, module: ir.Module) -> bool:
        skewed: dict[tuple[ir.Block, ir.Value], ir.Value] = {}
        return change_loops(module, lambda op: self._skew(op, skewed))

    def _skew(self, op: ir.Operation, skewed: dict[tuple[ir.Block, ir.Value], ir.Value]) -> bool:
        nest = Nest.of(op)
        if nest is None or not self._pays(nest):
            return False
        with op.location:
            wavefront = _Wavefront(nest, skewed)
            try:
                results = wavefront.results()
            except NoAntidiagonalError:
                wavefront.loop.erase()
                return True  # what was made before the loop is left, without uses
        for before, result in zip(op.results, results, strict=True):
            if result is not None:
                before.replace_all_uses_with(result)
        op.erase()
        return True

    def _pays(self, nest: Nest) -> bool:
        rows, columns = nest.outer.trips, nest.inner.trips
        few = min(rows, columns) < self.least or rows > self.rows_per_column * columns
        return not few and len(operations(nest.outer.loop.op)) <= self.ops


@dataclass(frozen=True)
class _Plan:
    """How a result of the outer loop comes from the new one: as the `stack` of a row, the `sum` of a row, what a scalar
    of the inner loop `ends` with in each row, or what else the `last` trip computes of rows of the inner loop."""

    kind: str
    rows: list[ir.Value]


@dataclass
class _Wavefront(Antidiagonals):
    """The loop over antidiagonals, and what comes after it."""

    def results(self) -> list[ir.Value | None]:
        """What the outer loop's results are, after the new one; None for those that nobody uses."""
        outer = self.nest.outer.loop
        wanted = [number for number, result in enumerate(outer.op.results) if any(True for _ in result.uses)]
        plans = {number: self._plan(number) for number in wanted}
        with ir.InsertionPoint(self.body):
            ends = {number: self._kept(plan.rows[0]) for number, plan in plans.items() if plan.kind == "ends"}
            rows = [row for plan in plans.values() if plan.kind != "ends" for row in plan.rows]
            stacks = {row: self._stack(row) for row in dict.fromkeys(rows)}
            self.close()
        new = self._finished()
        made: list[ir.Value | None] = [None] * len(outer.op.results)
        with self.before:
            arrays = {row: _in_rows(new.results[carry], self.rows, self.columns) for row, carry in stacks.items()}
            self.skewed.update({(self.block, array): new.results[stacks[row]] for row, array in arrays.items()})
            copies = {row: build.row(array, self._last) for row, array in arrays.items()}
            for number, plan in plans.items():
                if plan.kind == "ends":
                    made[number] = build.reshape(new.results[ends[number]], shape(outer.op.results[number]))
                elif plan.kind == "stack":
                    made[number] = arrays[plan.rows[0]]
                elif plan.kind == "sum":
                    made[number] = _sum(outer.op.operands[number], arrays[plan.rows[0]])
                else:
                    made[number] = self._copied(number, copies)
        return made

    @property
    def _last(self) -> int:
        """The row of the last trip."""
        return self.rows - 1 if self.nest.step > 0 else 0

    def _plan(self, number: int) -> _Plan:
        """How a result of the outer loop comes from the new one."""
        outer = self.nest.outer
        update = outer.filling(number)
        if update is not None:
            row = without_reshapes(update.operands[1])
            if num_elements(row) == 1:
                return _Plan("ends", [row])
            must(shape(row) == (self.columns,) and row in self.inside)
            return _Plan("stack", [row])
        carry, added = outer.loop.after.arguments[number], defining(outer.loop.yielded.operands[number], "hlo.add")
        if added is not None and carry in added.operands and has_one_use(carry) and outer.in_body(added.result):
            (row,) = (operand for operand in added.operands if operand != carry)
            must(shape(row) == (self.columns,) and row in self.inside)
            return _Plan("sum", [row])
        return _Plan("last", self._rows_of(number))

    def _rows_of(self, number: int) -> list[ir.Value]:
        """The rows of the inner loop that the last value of a carry of the outer one needs."""
        outer, inner = self.nest.outer, self.nest.inner.loop
        found: dict[ir.Value, None] = {}
        todo = [outer.loop.yielded.operands[number]]
        while todo:
            each = todo.pop()
            if each not in self.inside:
                continue
            must(not isinstance(each, ir.BlockArgument))
            op = each.owner.operation
            if op == inner.op:
                must(shape(each) == (self.columns,))
                found[each] = None
            elif not self._is_cut(op):
                must(not len(op.regions) and op.name != "hlo.dynamic_slice")
                todo += op.operands
        must(found)
        return list(found)

    def _is_cut(self, op: ir.Operation) -> bool:
        """True for the place of a trip, of an array from outside."""
        if op.name != "hlo.dynamic_slice" or not self.nest.outer.is_index(op.operands[1]):
            return False
        return op.operands[0] not in self.inside and all(integer_splat(other) == 0 for other in op.operands[2:])

    def _copied(self, number: int, copies: dict[ir.Value, ir.Value]) -> ir.Value:
        """The last value of a carry of the outer loop, whose body is copied to the insertion point."""
        loop = self.nest.outer.loop
        for view in loop.after:
            op = view.operation
            operands = list(op.operands)
            if self._is_cut(op):
                operands[1] = build.splat(self._last, operands[1].type)
            has_operands = all(each in copies or each not in self.inside for each in operands)
            if has_operands and op != loop.yielded and not len(op.regions):
                copy = op.clone().operation
                for place, operand in enumerate(operands):
                    copy.operands[place] = copies.get(operand, operand)
                copies.update(zip(op.results, copy.results, strict=True))
        value = loop.yielded.operands[number]
        return copies.get(value, value)

    def _kept(self, value: ir.Value) -> int:
        """A carry for what a scalar of the inner loop ends with, in each row."""
        inner = self.nest.inner.loop
        while (spread := defining(value)) is not None and spread.name in ("hlo.broadcast", "hlo.reshape"):
            value = spread.operands[0]
        must(value.owner == inner.op)
        ended = self.vector(inner.yielded.operands[ir.OpResult(value).result_number])
        carry = self.add_vectors((self.rows,), ended.type.element_type)
        is_last = self.compared(self.column, "EQ", self.columns - 1 if self.nest.step > 0 else 0)
        self.ends[carry] = build.value("select", ended.type, is_last, ended, self.body.arguments[carry])
        return carry

    def _stack(self, row: ir.Value) -> int:
        value = self.part(row, 0)
        carry = self.add_vectors((self.rows + self.columns - 1, self.rows), value.type.element_type)
        part = build.reshape(value, (1, self.rows))
        starts = self.diagonal, build.splat(0, self.scalar)
        self.ends[carry] = build.like("dynamic_update_slice", self.body.arguments[carry], part, *starts)
        return carry

    def _finished(self) -> ir.Operation:
        """The loop with its carries."""
        condition = self.loop.regions[0].blocks[0]
        with ir.InsertionPoint(self.body):
            ir.Operation.create("scf.yield", operands=self.ends)
        with ir.InsertionPoint(condition):
            steps = build.splat(self.rows + self.columns - 1, self.scalar)
            goes_on = build.compare(condition.arguments[0], steps, "LT")
            extracted = build.op("tensor.extract", [ir.IntegerType.get_signless(1)], [goes_on]).result
            ir.Operation.create("scf.condition", operands=[extracted, *condition.arguments])
        with self.before:
            new = build.op("scf.while", [value.type for value in self.inits], self.inits, regions=2)
        condition.append_to(new.regions[0])
        self.body.append_to(new.regions[1])
        self.loop.erase()
        return new


def _in_rows(array: ir.Value, rows: int, columns: int) -> ir.Value:
    """What `_by_antidiagonals` makes of it is the array, where that has elements."""
    flat = build.reshape(build.transpose(array, [1, 0]), (rows * (rows + columns - 1),))
    zero = build.splat(0, build.tensor((), array.type.element_type))
    padded = build.made("pad", flat, zero, low=[0], high=[rows], interior=[0])
    return build.slice_(build.reshape(padded, (rows, rows + columns)), [0, 0], [rows, columns])


def _sum(init: ir.Value, array: ir.Value) -> ir.Value:
    """init + what the rows add up to."""
    zero = build.splat(0, build.tensor((), array.type.element_type))
    return build.like("add", init, build.value("reduce", init.type, array, zero, dimensions=[0], kind="add"))
