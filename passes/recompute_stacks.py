"""What a loop stacks for another loop is computed there again, where that costs less than to keep it.

    %r:3 = scf.while ... do { %d = hlo.subtract %x, %y ; %s = hlo.multiply %d, %d
                              yield ..., dynamic_update_slice %ds, %d, %i ; dynamic_update_slice %ss, %s, %i }
    scf.while ... do { %s = dynamic_slice %r#2[%j] ... }
        ==>  scf.while ... do { ... yield ..., dynamic_update_slice %ds, %d, %i }
             scf.while ... do { %d = dynamic_slice %r#1[%j] ; %s = hlo.multiply %d, %d ... }

The gradient of a scan keeps whatever its way back reads. Much of that follows, by few operations an element, from other
values that it keeps, from slices of the scan's inputs, or from a carry of far fewer elements, which is stacked instead.

Relies on the normal form of loops. Comes after `sink-products`, which reads stacks whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from stablehlo_py.dialect import build
from stablehlo_py.dialect.ops.record import Work, record_of
from stablehlo_py.dialect.regions import defined_values
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.dialect.trips import trip_count
from stablehlo_py.dialect.types import is_tensor, num_elements, shape
from stablehlo_py.mlir import ir
from stablehlo_py.passes._loops import Affine, Loop, Trips, change_loops, rebuilt
from stablehlo_py.passes._matchers import ELEMENTWISE_OPS, integer_splat, without_reshapes
from stablehlo_py.passmanager.base import Pass

_MOVES = frozenset((Work.INDICES, Work.MOVES))


@dataclass(frozen=True)
class RecomputeStacks(Pass):
    """Computes stacked values again where they are read.

    Options:
        flops: per element of a stack, the most that are done twice instead of it.
        large, flops_of_large: elements of the stacks of a loop that caches do not keep, and the most flops then.
        shrink: elements of a stack per element that is stacked instead, at least.
        terms: the most of a sum that is done again.
    """

    name: ClassVar[str] = "recompute-stacks"
    flops: int = 8
    large: int = 1 << 20
    flops_of_large: int = 32
    shrink: int = 8
    terms: int = 8

    def roots(self) -> tuple[str, ...]:
        return ("scf.while",)

    def run(self, module: ir.Module) -> bool:
        return change_loops(module, self._recompute)

    def _recompute(self, op: ir.Operation) -> bool:
        loop, trips = Loop.of(op), trip_count(op, {})
        if loop is None or trips is None or trips < 2:
            return False
        plan = _Plan(loop, trips, self.terms)
        if not plan.readers:
            return False
        elements = sum(num_elements(op.results[number]) for number in plan.stacked)
        limit = self.flops_of_large if elements >= self.large else self.flops
        for number in reversed(plan.readers):  # later ones follow from earlier ones
            plan.try_without(number, limit, self.shrink)
        if not plan.removed:
            return False
        _rebuild(plan)
        return True


@dataclass(frozen=True)
class _Reader:
    """A slice of one place of a stack, in a body that runs once for each place."""

    op: ir.Operation
    index: ir.Value

    @staticmethod
    def all_of(stack: ir.Value, trips: int) -> list[_Reader] | None:
        """Those of a stack; None where something else reads it."""
        found = [_Reader.of(use.owner.operation, stack, trips) for use in stack.uses]
        kept = [reader for reader in found if reader is not None]
        return kept if kept and len(kept) == len(found) else None

    @staticmethod
    def of(op: ir.Operation, stack: ir.Value, trips: int) -> _Reader | None:
        around = op.parent
        if op.name != "hlo.dynamic_slice" or around is None or around.operation.name != "scf.while":
            return None
        loop = Loop.of(around.operation)
        if loop is None or op.block != loop.after or trip_count(loop.op, {}) != trips:
            return None
        source, index, *others = op.operands
        one = source == stack and shape(op.result) == (1, *shape(stack)[1:])
        zero = all(integer_splat(other) == 0 for other in others)
        return _Reader(op, index) if one and zero and Trips(loop, trips).is_index(index) else None


@dataclass
class _Plan(Trips):
    """Which stacks of a loop go, and what they are computed from."""

    terms: int
    inside: set[ir.Value] = field(init=False)
    index: ir.Value | None = field(default=None, init=False)  # of the places of all stacks here
    place: Affine | None = field(default=None, init=False)
    stacked: dict[int, ir.Value] = field(default_factory=dict, init=False)  # what a step writes, by carry
    kept: dict[ir.Value, int] = field(default_factory=dict, init=False)
    readers: dict[int, list[_Reader]] = field(default_factory=dict, init=False)
    removed: set[int] = field(default_factory=set, init=False)
    gone: set[ir.Operation] = field(default_factory=set, init=False)  # that wrote them
    again: set[ir.Operation] = field(default_factory=set, init=False)  # computed again already
    added: dict[ir.Value, None] = field(default_factory=dict, init=False)  # stacked instead
    numbers: set[ir.Value] = field(default_factory=set, init=False)  # values that are the number of the place

    def __post_init__(self) -> None:
        self.inside = defined_values(self.loop.op)
        for number, result in enumerate(self.loop.op.results):
            update = self.filling(number) if is_tensor(result) and shape(result) else None
            if update is None or not all(is_known(size) for size in shape(result)):
                continue
            index = update.operands[2]
            if self.index is None:
                self.index, self.place = index, self.affine(index)
            if not self._is_place(index):
                continue
            value = without_reshapes(update.operands[1])
            self.stacked[number] = value
            self.kept.setdefault(value, number)
            readers = _Reader.all_of(result, self.trips)
            if readers and self.in_body(value):
                self.readers[number] = readers
        order = {value: at for at, view in enumerate(self.loop.after) for value in view.operation.results}
        numbers = sorted(self.readers, key=lambda number: order.get(self.stacked[number], -1))
        self.readers = {number: self.readers[number] for number in numbers}

    def try_without(self, number: int, limit: int, shrink: int) -> None:
        """Give a stack up, where what it holds takes at most so many flops an element."""
        value = self.stacked[number]
        if self.kept.get(value) != number:  # another stack holds the same
            self.removed.add(number)
            self.gone.add(self.loop.yielded.operands[number].owner.operation)
            return
        update = self.loop.yielded.operands[number].owner.operation
        self.gone.add(update)
        found = self._followed(value, num_elements(value), limit, shrink)
        if found is None:
            self.gone.remove(update)
        else:
            ops, added = found
            del self.kept[value]
            self.removed.add(number)
            self.again |= ops
            self.added |= dict.fromkeys(added)

    def _followed(
        self, value: ir.Value, size: IntLike, limit: int, shrink: int
    ) -> tuple[set[ir.Operation], set[ir.Value]] | None:
        """The ops from which a value follows, and what has to be stacked for them; None where that does not pay."""
        ops: set[ir.Operation] = set()
        added: set[ir.Value] = set()
        todo, flops = [value], 0
        while todo:
            each = todo.pop()
            if self.is_free(each) and each != value:
                continue
            if each.owner in (self.loop.after, self.loop.before) or not self._is_done_again(each.owner.operation):
                if each == value:
                    return None
                added.add(each)
                if not self.in_body(each) or sum(map(num_elements, added)) * shrink > size:
                    return None
                continue
            op = each.owner.operation
            if op in ops or op in self.again:
                continue
            ops.add(op)
            flops += _flops(op) if self._is_needed(op, ops) else 0
            if flops > limit * size:
                return None
            todo += again_from(op)
        return ops, added

    def is_free(self, value: ir.Value) -> bool:
        """True for what the reading loop has at hand: values from outside, stacked ones, the number of the place."""
        if value not in self.inside or without_reshapes(value) in self.kept or value in self.added:
            return True
        if self._is_place(value):
            self.numbers.add(value)
        return value in self.numbers

    def _is_done_again(self, op: ir.Operation) -> bool:
        if op.name == "hlo.dynamic_slice":  # of an input, at the same place
            source, index, *others = op.operands
            zero = all(integer_splat(other) == 0 for other in others)
            along = shape(source)[0] == self.trips and shape(op.result) == (1, *shape(source)[1:])
            return source not in self.inside and zero and along and self.affine(index) == self.place
        if op.name == "hlo.reduce":
            return num_elements(op.operands[0]) <= self.terms * num_elements(op.result)
        if len(op.regions) or len(op.results) != 1 or not all(map(is_known, shape(op.result))):
            return False
        record = record_of(op.name)
        return op.name in ELEMENTWISE_OPS or (record is not None and record.work in _MOVES and not record.random_access)

    def _is_needed(self, op: ir.Operation, ops: set[ir.Operation]) -> bool:
        """True if the first loop still needs what an op computes, when these ops and the stacks that go do not."""
        todo = [use.owner.operation for use in op.result.uses]
        while todo:
            user = todo.pop()
            if user.name == "hlo.reshape":
                todo += [use.owner.operation for use in user.result.uses]
            elif user not in ops and user not in self.again and user not in self.gone:
                return True
        return False

    def _is_place(self, value: ir.Value) -> bool:
        return self.index is not None and value.type == self.index.type and self.affine(value) == self.place


def again_from(op: ir.Operation) -> list[ir.Value]:
    """The operands that an op has again; a slice is of the place that is read."""
    return [op.operands[0]] if op.name == "hlo.dynamic_slice" else list(op.operands)


@dataclass
class _Again:
    """Values of the first loop, computed in the body of another one for one place of the stacks."""

    plan: _Plan
    stacks: dict[ir.Value, ir.Value]  # results of the first loop, by what they hold
    index: ir.Value
    made: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def value(self, value: ir.Value) -> ir.Value:
        """A value for this place, at the insertion point."""
        if value not in self.plan.inside:
            return value
        if value not in self.made:
            self.made[value] = self._new(value)
        return self.made[value]

    def _new(self, value: ir.Value) -> ir.Value:
        if value in self.plan.numbers:
            return self.index
        source = without_reshapes(value)
        if source in self.stacks:
            return build.reshape(self._place(self.stacks[source]), shape(value))
        op = value.owner.operation
        operands = [self.value(operand) for operand in again_from(op)]
        if op.name == "hlo.dynamic_slice":
            return self._place(*operands)
        copy = op.clone()
        for number, operand in enumerate(operands):
            copy.operation.operands[number] = operand
        return copy.results[0]

    def _place(self, stack: ir.Value) -> ir.Value:
        sizes = (1, *shape(stack)[1:])
        starts = [self.index, *[build.splat(0, self.index.type)] * len(sizes[1:])]
        type_ = build.tensor(sizes, stack.type.element_type)
        return build.value("dynamic_slice", type_, stack, *starts, sizes=sizes)


def _flops(op: ir.Operation) -> int:
    record = record_of(op.name)
    if record is None or record.work in _MOVES:
        return 0
    return int(num_elements(op.operands[0]) if op.name == "hlo.reduce" else record.flops * num_elements(op.result))


def _rebuild(plan: _Plan) -> None:
    """The loop without the stacks that are given up, which their readers compute."""
    old, index, added = plan.loop.op, plan.index, list(plan.added)
    assert index is not None
    readers = [(number, reader) for number in sorted(plan.removed) for reader in plan.readers[number]]
    types = [build.tensor((plan.trips, *shape(value)), value.type.element_type) for value in added]
    with ir.InsertionPoint(old), old.location:
        started = [build.splat(0, type_) for type_ in types]

    def ends(arguments: list[ir.BlockArgument]) -> list[ir.Value]:
        written = []
        for value, stack in zip(added, arguments, strict=True):
            starts = [index, *[build.splat(0, index.type)] * len(shape(value))]
            part = build.reshape(value, (1, *shape(value)))
            written.append(build.like("dynamic_update_slice", stack, part, *starts))
        return written

    results, new = rebuilt(plan.loop, plan.removed, started, ends)
    stacks = {value: result for value, number in plan.kept.items() if (result := results[number]) is not None}
    stacks |= dict(zip(added, new, strict=True))
    bodies: dict[tuple[ir.Block, ir.Value], tuple[_Again, ir.Operation]] = {}
    for number, reader in readers:
        key = reader.op.block, reader.index
        if key not in bodies:
            bodies[key] = _Again(plan, stacks, reader.index), _first_with(reader.index, reader.op.block)
        again, first = bodies[key]
        with ir.InsertionPoint(first), reader.op.location:
            value = build.reshape(again.value(plan.stacked[number]), shape(reader.op.result))
        reader.op.result.replace_all_uses_with(value)
    for _, reader in readers:
        reader.op.erase()
    for before, result in zip(old.results, results, strict=True):
        if result is not None:
            before.replace_all_uses_with(result)
    old.erase()


def _first_with(index: ir.Value, block: ir.Block) -> ir.Operation:
    """The first op of a block before which an index is computed."""
    ops = [view.operation for view in block]
    return ops[0] if isinstance(index, ir.BlockArgument) else ops[ops.index(index.owner.operation) + 1]
