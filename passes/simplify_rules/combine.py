"""Rules that follow from what the records say of ops of two operands: commutative, associative, idempotent, and which
element leaves others unchanged, or nothing of them.

Floats: -0.0 + 0.0 is +0.0, so only -0.0 leaves every number unchanged in a sum; a NaN spreads, so nothing absorbs it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from stablehlo_py.dialect.constants import splat
from stablehlo_py.dialect.ops import Record, combiner, record_of, records
from stablehlo_py.mlir import ir
from stablehlo_py.passes._matchers import INTEGER_BOUNDS, SPLAT, integer_bounds, is_integer_value
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RuleSet, defining

COMBINE = RuleSet("combine")


def _ops(holds: Callable[[Record], object]) -> tuple[str, ...]:
    return tuple(record.name for record in records() if holds(record))


def _integers(of: Callable[[int, int], int]) -> set[complex]:
    """What a record says of the least and the greatest number, for all types of integers."""
    return {of(*bounds) for bounds in INTEGER_BOUNDS}


def _identities(record: Record) -> set[complex]:
    """The elements that leave others unchanged, of all types."""
    identity = record.identity
    if identity is None:
        return set()
    return _integers(identity.integer) | ({identity.real} if identity.real is not None else set())


_ASSOCIATIVE = _ops(lambda record: record.associative)
_IDEMPOTENT = _ops(lambda record: record.idempotent)
_ABSORBING = [record.absorbing for record in records() if record.absorbing is not None]


def is_identity(kind: str, value: ir.Value) -> bool:
    """True when `value` is a constant that does not change what `kind` combines it with; of sums, zeros of both
    signs."""
    return _is_identity(kind, value, splat(value))


def _is_identity(kind: str, value: ir.Value, c: float | complex | None) -> bool:
    if c is None:
        return False
    identity = combiner(kind).identity
    assert identity is not None
    if isinstance(c, int):
        return c == identity.integer(*integer_bounds(value))
    return c == (identity.real if isinstance(c, float) else identity.complex)


@COMBINE.rule(*_ops(lambda record: record.commutative), needs=SPLAT, number=0, where="c is a splat constant, x is not")
def constant_right(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "c + x -> x + c, and so for * max min and or xor"
    x, y = op.operands
    if splat(x) is None or splat(y) is not None:
        return None
    op.operands[0], op.operands[1] = y, x
    return True


@COMBINE.rule(
    *_ops(lambda record: record.identity),
    needs=SPLAT,
    number=1,
    constants=set().union(*map(_identities, records())),
    where="not complex: inf * 0 in its parts is NaN; sums: c is -0.0",
)
def identity(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x * 1 -> x, max(x, least) -> x, and so for + min and or xor"
    x, y = op.operands
    c = splat(y)
    if isinstance(c, complex) or not _is_identity(op.name[4:], y, c):
        return None
    positive_zero = isinstance(c, float) and c == 0 and math.copysign(1.0, c) > 0
    return None if positive_zero else x


@COMBINE.rule(
    *_ops(lambda record: record.absorbing),
    needs=SPLAT,
    number=1,
    constants=set().union(*map(_integers, _ABSORBING)),
    where="integers (a NaN would spread)",
)
def absorbing(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x * 0 -> 0, x & 0 -> 0, x | ~0 -> ~0, max(x, greatest) -> greatest, min(x, least) -> least"
    y, record = op.operands[1], record_of(op.name)
    assert record is not None and record.absorbing is not None
    return y if is_integer_value(y) and splat(y) == record.absorbing(*integer_bounds(y)) else None


@COMBINE.rule(
    *_ASSOCIATIVE, needs=SPLAT, number=1, nested=True, where="integers; of other numbers extrema, exact in any order"
)
def constants_together(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "(x + c) + d -> x + (c + d), and so for * max min and or xor"
    x, y = op.operands
    record = record_of(op.name)
    assert record is not None
    if not (record.relational or is_integer_value(x)):
        return None
    inner = defining(x, op.name)
    if inner is None or splat(y) is None or splat(inner.operands[1]) is None:
        return None
    # Three constants are folded; without folding they would go round and round.
    if splat(inner.operands[0]) is not None:
        return None
    return rewriter.like(record.mnemonic, inner.operands[0], rewriter.like(record.mnemonic, inner.operands[1], y))


@COMBINE.rule(*_IDEMPOTENT)
def idempotent(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "max(x, x) -> x, and so for min, and, or"
    x, y = op.operands
    return x if x == y else None


@COMBINE.rule(*_IDEMPOTENT, needs=_IDEMPOTENT)
def idempotent_twice(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "max(max(x, y), y) -> max(x, y), and so for min, and, or"
    for one, two in (tuple(op.operands), tuple(op.operands)[::-1]):
        inner = defining(one, op.name)
        if inner is not None and two in (inner.operands[0], inner.operands[1]):
            return one
    return None
