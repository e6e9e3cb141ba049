"""Reading and rebuilding `scf.while`, in the normal form where `scf.condition` forwards the arguments of its block, in
order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from stablehlo_py.dialect import build
from stablehlo_py.dialect.constants import splat
from stablehlo_py.dialect.edit import end_with, terminator
from stablehlo_py.dialect.sharding import is_sharded
from stablehlo_py.dialect.types import is_tensor, operations, shape
from stablehlo_py.mlir import ir
from stablehlo_py.passes._matchers import has_one_use, integer_splat
from stablehlo_py.passmanager.rewrite import Rewriter, defining


@dataclass(frozen=True)
class Loop:
    """The parts of one `scf.while`."""

    op: ir.Operation
    before: ir.Block
    after: ir.Block
    condition: ir.Operation
    yielded: ir.Operation

    @staticmethod
    def of(op: ir.Operation) -> Loop | None:
        """None when the op is not in normal form."""
        before, after = op.regions[0].blocks[0], op.regions[1].blocks[0]
        condition, yielded = terminator(before), terminator(after)
        if list(condition.operands)[1:] != list(before.arguments):
            return None
        return Loop(op, before, after, condition, yielded)


Affine: TypeAlias = tuple[int, int]  # (value in the first trip, what each trip adds)


@dataclass
class Trips:
    """A loop that runs its body a known number of times: which values are numbers of trips, which carries stacks."""

    loop: Loop
    trips: int

    def is_index(self, value: ir.Value) -> bool:
        """True where a value is each of 0 .. trips - 1 in one trip."""
        return self.affine(value) in ((0, 1), (self.trips - 1, -1))

    def counter(self) -> ir.Value | None:
        """A carry that is an index."""
        return next((argument for argument in self.loop.after.arguments if self.is_index(argument)), None)

    def in_body(self, value: ir.Value) -> bool:
        """True for what each trip computes or carries, outside of inner regions."""
        owner = value.owner
        return (owner if isinstance(owner, ir.Block) else owner.operation.block) == self.loop.after

    def affine(self, value: ir.Value, depth: int = 6) -> Affine | None:
        """A number that grows evenly from trip to trip; None for other values."""
        if not is_tensor(value) or shape(value):
            return None
        if (number := integer_splat(value)) is not None:
            return number, 0
        if isinstance(value, ir.BlockArgument):
            return self._carried(value)
        op = value.owner.operation
        if not depth or op.name not in ("hlo.add", "hlo.subtract"):
            return None
        left, right = (self.affine(operand, depth - 1) for operand in op.operands)
        if left is None or right is None:
            return None
        sign = 1 if op.name == "hlo.add" else -1
        return left[0] + sign * right[0], left[1] + sign * right[1]

    def _carried(self, argument: ir.BlockArgument) -> Affine | None:
        if argument.owner != self.loop.after or not is_tensor(argument):
            return None
        start = integer_splat(self.loop.op.operands[argument.arg_number])
        step = defining(self.loop.yielded.operands[argument.arg_number], "hlo.add")
        if start is None or step is None or sum(operand == argument for operand in step.operands) != 1:
            return None
        by = integer_splat(next(operand for operand in step.operands if operand != argument))
        return None if by is None else (start, by)

    def filling(self, number: int) -> ir.Operation | None:
        """The op by which each trip writes a place of its own along the first dimension of a carry that nothing else
        reads: so all of it is overwritten."""
        carry, value = self.loop.after.arguments[number], self.loop.yielded.operands[number]
        update = defining(value, "hlo.dynamic_update_slice")
        if update is None or not (has_one_use(carry) and has_one_use(value) and self.in_body(value)):
            return None
        stack, part, index, *others = update.operands
        sizes = shape(stack)
        if stack != carry or sizes[0] != self.trips or shape(part) != (1, *sizes[1:]):
            return None
        return update if self.is_index(index) and all(integer_splat(other) == 0 for other in others) else None


def change_loops(module: ir.Module, change: Callable[[ir.Operation], bool]) -> bool:
    """Change every `scf.while`, inner ones first: what leaves them may leave the outer one too. Returns whether any
    changed. Modules for several devices stay as they are."""
    if is_sharded(module):
        return False
    changed = [change(op) for op in [op for op in operations(module.operation) if op.name == "scf.while"]]
    return any(changed)


def scalar_value(value: ir.Value) -> int | None:
    """The number in a scalar of control flow (i1, index), through `tensor.extract` and casts, when it is constant."""
    op = defining(value)
    if op is None:
        return None
    if op.name == "tensor.extract":
        found = splat(op.operands[0])
        return None if found is None or isinstance(found, complex) else int(found)
    if op.name in ("arith.index_cast", "arith.index_castui"):
        return scalar_value(op.operands[0])
    return int(op.attributes["value"].value) if op.name == "arith.constant" else None


def without_carries(rewriter: Rewriter, loop: Loop, removed: set[int]) -> list[ir.Value | None]:
    """A new `scf.while` without some carries, around the same blocks; their block arguments must have no uses left but
    in the terminators. Returns the new result per old one (None for those removed); the old loop still has its uses."""
    kept = [i for i in range(len(loop.op.operands)) if i not in removed]
    inits, types = list(loop.op.operands), [result.type for result in loop.op.results]
    new = rewriter.create("scf.while", [types[i] for i in kept], [inits[i] for i in kept], regions=2)
    loop.before.append_to(new.regions[0])
    loop.after.append_to(new.regions[1])
    predicate, *forwarded = loop.condition.operands
    _replace_terminator(rewriter, loop.condition, [predicate, *(forwarded[i] for i in kept)])
    values = list(loop.yielded.operands)
    _replace_terminator(rewriter, loop.yielded, [values[i] for i in kept])
    for i in sorted(removed, reverse=True):
        loop.before.erase_argument(i)
        loop.after.erase_argument(i)
    results = iter(new.results)
    return [None if i in removed else next(results) for i in range(len(inits))]


def _replace_terminator(rewriter: Rewriter, op: ir.Operation, operands: Sequence[ir.Value]) -> None:
    rewriter.create(op.name, [], operands, ip=ir.InsertionPoint(op))
    rewriter.erase(op)


def rebuilt(
    loop: Loop,
    removed: set[int],
    added: Sequence[ir.Value],
    ends: Callable[[list[ir.BlockArgument]], list[ir.Value]],
) -> tuple[list[ir.Value | None], list[ir.Value]]:
    """A new `scf.while` before the old one, around the same blocks, without some carries and with others. `added`: what
    these start with; `ends` builds at the end of the body what it yields for their arguments. What still reads the
    argument of a carry that goes reads what it started with. Returns the new result per old one (None for those
    removed), and those of the carries that are added; the old loop still has its uses, and is to be erased."""
    op = loop.op
    inits = list(op.operands)
    kept = [i for i in range(len(inits)) if i not in removed]
    types = [*(op.results[i].type for i in kept), *(value.type for value in added)]
    new = build.op(
        "scf.while", types, [*(inits[i] for i in kept), *added], loc=op.location, ip=ir.InsertionPoint(op), regions=2
    )
    arguments = [
        [block.add_argument(value.type, op.location) for value in added] for block in (loop.before, loop.after)
    ]
    with ir.InsertionPoint(loop.yielded), loop.yielded.location:
        ended = ends(arguments[1])
    predicate, *forwarded = loop.condition.operands
    values = list(loop.yielded.operands)
    end_with(loop.before, loop.condition.name, [predicate, *(forwarded[i] for i in kept), *arguments[0]])
    end_with(loop.after, loop.yielded.name, [*(values[i] for i in kept), *ended])
    for i in sorted(removed, reverse=True):
        for block in (loop.before, loop.after):
            block.arguments[i].replace_all_uses_with(inits[i])
            block.erase_argument(i)
    loop.before.append_to(new.regions[0])
    loop.after.append_to(new.regions[1])
    results = iter(new.results)
    return [None if i in removed else next(results) for i in range(len(inits))], list(results)
