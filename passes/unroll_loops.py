"""Short loops written out.

    scf.while (%i = 0, %x = %a) { %p = compare LT %i, 5 ... } do { ... }        ==>     the body, five times

The number of iterations is found by running the predicate, and the few integer ops that it depends on, at compile time:
counters of any start, step and direction. Where it stays below `max_trips` and the result below `max_ops`, the loop is
written out; folding then makes the counter's values constants (the rotations of JAX's threefry loop, for example).
Loops of no or one iteration go at any size. Bodies with large contractions, sorts, or loops of their own stay loops:
their kernels gain nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from stablehlo_py.dialect import sharding
from stablehlo_py.dialect.evaluate import can_evaluate
from stablehlo_py.dialect.interpret import Interpreter
from stablehlo_py.dialect.regions import replace_operands
from stablehlo_py.dialect.symint import always_at_most
from stablehlo_py.dialect.trips import trip_count as trips_of
from stablehlo_py.dialect.types import is_tensor, num_elements, operations
from stablehlo_py.mlir import ir
from stablehlo_py.passes._loops import Loop
from stablehlo_py.passes._matchers import constant_array, is_integer_value
from stablehlo_py.passes.licm import EXPENSIVE
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.passmanager.effects import is_pure

_MAX_SLICE, _MAX_ELEMENTS = 64, 64


@dataclass(frozen=True)
class UnrollLoops(Pass):
    """Writes out `scf.while` loops of a known, small number of iterations."""

    name: ClassVar[str] = "unroll-loops"
    max_trips: int = 8
    max_ops: int = 2000
    max_expensive_elements: int = 4096

    def roots(self) -> tuple[str, ...]:
        return ("scf.while",)

    def run(self, module: ir.Module) -> bool:
        # Inner loops come first; unrolling one clones ops only, so references to outer loops stay good.
        loops = [op for op in operations(module.operation) if op.name == "scf.while"]
        unrolled = [self._unroll(op) for op in loops]
        return any(unrolled)

    def _unroll(self, op: ir.Operation) -> bool:
        if (trips_of(op, {}) or 0) > self.max_trips:
            return False
        loop = Loop.of(op)
        if loop is None or not all(is_pure(view.operation) for view in list(loop.before)[:-1]):
            return False
        trips = trip_count(loop, self.max_trips)
        if trips is None or (trips > 1 and not self._is_small(loop, trips)):
            return False
        values = list(op.operands)
        for _ in range(trips):
            values = clone_block(loop.after, values, op)
        for result, value in zip(op.results, values, strict=True):
            sharding.replace(result, value)
        op.erase()
        return True

    def _is_small(self, loop: Loop, trips: int) -> bool:
        *inside, _ = ops = operations(loop.op)
        return (
            len(ops) * trips <= self.max_ops
            and all(op.name != "scf.while" for op in inside)
            and all(
                always_at_most(num_elements(value), self.max_expensive_elements)
                for op in inside
                if op.name in EXPENSIVE
                for value in (*op.operands, *op.results)
            )
        )


def clone_block(block: ir.Block, arguments: list[ir.Value], before: ir.Operation) -> list[ir.Value]:
    """Copy the ops of a block before another op, with `arguments` for the block's; returns what the terminator would
    yield."""
    mapping: dict[ir.Value, ir.Value] = dict(zip(block.arguments, arguments, strict=True))
    point = ir.InsertionPoint(before)
    ops = [view.operation for view in block]
    for op in ops[:-1]:
        copy = op.clone(point).operation
        replace_operands(copy, mapping)
        mapping.update(zip(op.results, copy.results, strict=True))
    return [mapping.get(value, value) for value in ops[-1].operands]


# --- trip count ------------------------------------------------------------------------------------------------------


def trip_count(loop: Loop, limit: int) -> int | None:
    """Number of iterations, if it is known and at most `limit`."""
    predicate_ops, needed = _slice(loop.before, [loop.condition.operands[0]])
    if predicate_ops is None:
        return None
    body_ops: dict[int, list[ir.Operation]] = {}
    pending = list(needed)
    yielded = list(loop.yielded.operands)
    while pending:
        i = pending.pop()
        if i in body_ops:
            continue
        ops, more = _slice(loop.after, [yielded[i]])
        if ops is None:
            return None
        body_ops[i] = ops
        pending += more
    carried: dict[int, np.ndarray] = {}
    for i in body_ops:
        array = _constant(loop.op.operands[i])
        if array is None:
            return None
        carried[i] = array
    for trip in range(limit + 1):
        predicate = _run(predicate_ops, loop.before, carried, loop.condition.operands[0])
        if predicate is None:
            return None
        if not predicate:
            return trip
        following = {i: _run(ops, loop.after, carried, yielded[i]) for i, ops in body_ops.items()}
        if any(array is None for array in following.values()):
            return None
        carried = following  # type: ignore[assignment]
    return None


def _is_small(value: ir.Value) -> bool:
    """True for integer tensors of few elements."""
    return is_integer_value(value) and always_at_most(num_elements(value), _MAX_ELEMENTS)


def _constant(value: ir.Value) -> np.ndarray | None:
    return constant_array(value, _MAX_ELEMENTS) if is_tensor(value) and _is_small(value) else None


def _slice(block: ir.Block, roots: list[ir.Value]) -> tuple[list[ir.Operation] | None, set[int]]:
    """(ops of the block that the roots depend on, in order, and which of the block's arguments); (None, ...) when there
    are too many, or one is not integer arithmetic on a few elements."""
    collected = _Slice(block)
    return (collected.ops if all(collected.add(root) for root in roots) else None), collected.arguments


@dataclass
class _Slice:
    """Ops of a block, in order, and which of its arguments."""

    block: ir.Block
    ops: list[ir.Operation] = field(default_factory=list)
    arguments: set[int] = field(default_factory=set)
    seen: set[ir.Value] = field(default_factory=set)

    def add(self, value: ir.Value) -> bool:
        """Add what a value depends on; False where that cannot be evaluated."""
        if value in self.seen:
            return True
        self.seen.add(value)
        if isinstance(value, ir.BlockArgument):
            if value.owner != self.block:
                return False
            self.arguments.add(value.arg_number)
            return True
        op = value.owner.operation
        if op.block != self.block:
            return _constant(value) is not None
        evaluated = can_evaluate(op.name) or op.name in ("tensor.extract", "arith.constant")
        if len(self.ops) >= _MAX_SLICE or not evaluated:
            return False
        if is_tensor(value) and not _is_small(value):
            return False
        if not all(self.add(operand) for operand in op.operands):
            return False
        self.ops.append(op)
        return True


def _run(ops: list[ir.Operation], block: ir.Block, carried: dict[int, np.ndarray], root: ir.Value) -> np.ndarray | None:
    values: dict[ir.Value, np.ndarray] = {block.arguments[i]: array for i, array in carried.items()}

    def read(value: ir.Value) -> np.ndarray | None:
        return values[value] if value in values else _constant(value)

    for op in ops:
        operands = [read(operand) for operand in op.operands]
        if any(operand is None for operand in operands):
            return None
        values.update(zip(op.results, Interpreter().op(op, operands), strict=True))  # type: ignore[arg-type]
    return read(root)
