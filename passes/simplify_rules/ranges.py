"""Ranges of values: of integers, from iotas, constants and arithmetic that cannot wrap around; of floats, from the
same and what functions make of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from typing import TypeAlias

from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.ops import record_of
from stablehlo_py.dialect.symint import GuardError, IntLike
from stablehlo_py.dialect.types import i64, is_integer, num_elements, shape, text
from stablehlo_py.mlir import ir
from stablehlo_py.passes._matchers import integer_bounds
from stablehlo_py.passmanager.rewrite import defining

_MAX_DEPTH, _MAX_CONSTANT = 8, 4096


def integer_range(value: ir.Value, depth: int = _MAX_DEPTH) -> tuple[IntLike, IntLike]:
    """(low, high), both inclusive, that hold for every element of an integer tensor: at least the range of its element
    type."""
    low, high = integer_bounds(value)
    op = defining(value) if depth else None
    if op is None:
        return low, high
    found = _range_of(op, value, depth - 1)
    # What may have wrapped around says nothing.
    return found if found is not None and low <= found[0] and found[1] <= high else (low, high)


def _range_of(op: ir.Operation, value: ir.Value, depth: int) -> tuple[IntLike, IntLike] | None:
    name = op.name
    record = record_of(name)
    if record is not None and record.picks is not None:
        ranges = [integer_range(operand, depth) for operand in list(op.operands)[record.picks]]
        return min(low for low, _ in ranges), max(high for _, high in ranges)
    if name == "hlo.constant":
        if not 0 < num_elements(value) <= _MAX_CONSTANT:
            return None
        array = constant_value(op)
        return int(array.min()), int(array.max())
    if name == "hlo.iota":
        return 0, max(shape(value)[i64(op, "dimension")] - 1, 0)
    if name == "hlo.reduce" and text(op, "kind") in ("minimum", "maximum"):
        ranges = [integer_range(operand, depth) for operand in op.operands]
        return min(low for low, _ in ranges), max(high for _, high in ranges)
    if name == "hlo.convert":
        return integer_range(op.operands[0], depth) if is_integer(op.operands[0].type.element_type) else None
    if name == "hlo.popcnt" or name == "hlo.count_leading_zeros":
        return 0, value.type.element_type.width
    if name in _BINARY:
        return _BINARY[name](*(integer_range(operand, depth) for operand in op.operands))
    return None


Range: TypeAlias = tuple[IntLike, IntLike]


def _multiply(x: Range, y: Range) -> Range:
    corners = [a * b for a in x for b in y]
    return min(corners), max(corners)


def _and(x: Range, y: Range) -> Range | None:
    bounds = [high for low, high in (x, y) if low >= 0]
    return (0, min(bounds)) if bounds else None


_BINARY: dict[str, Callable[[Range, Range], Range | None]] = {
    "hlo.add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "hlo.subtract": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "hlo.multiply": _multiply,
    "hlo.maximum": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "hlo.minimum": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "hlo.and": _and,
    # Of what is not negative, by what is positive.
    "hlo.shift_right_logical": lambda x, y: (0, x[1]) if x[0] >= 0 else None,
    "hlo.remainder": lambda x, y: (0, min(x[1], y[1] - 1)) if x[0] >= 0 and y[0] > 0 else None,
    "hlo.divide": lambda x, y: (x[0] // y[1], x[1] // y[0]) if x[0] >= 0 and y[0] > 0 else None,
}

# --- floats ----------------------------------------------------------------------------------------------------------

Interval: TypeAlias = tuple[float, float]

ANY: Interval = (-math.inf, math.inf)
_WIDE = (ir.F32Type, ir.F64Type)
_MAX_FLOATS = 1 << 20  # of a constant that is looked at
_LARGEST = 1e30  # from here on an f32 may be infinite, and what is made of it anything


def float_range(value: ir.Value, depth: int = _MAX_DEPTH) -> Interval:
    """(low, high) that hold for every element of a tensor of f32 or f64 that is no NaN, but for rounding; `ANY` where
    nothing is known."""
    op = defining(value) if depth else None
    found = None
    if op is not None and isinstance(value.type.element_type, _WIDE):
        with suppress(ArithmeticError, GuardError):
            found = _floats_of(op, value, depth - 1)
    return found if found is not None and -_LARGEST < found[0] <= found[1] < _LARGEST else ANY


def _floats_of(op: ir.Operation, value: ir.Value, depth: int) -> Interval | None:
    name, record = op.name, record_of(op.name)
    if record is not None and record.picks is not None:
        picked = [float_range(operand, depth) for operand in list(op.operands)[record.picks]]
        return min(low for low, _ in picked), max(high for _, high in picked)
    if name == "hlo.constant":
        if not 0 < num_elements(value) <= _MAX_FLOATS:
            return None
        array = constant_value(op)
        return float(array.min()), float(array.max())
    if name == "hlo.iota":
        return 0.0, float(shape(value)[i64(op, "dimension")])
    if name == "hlo.convert":
        low, high = _converted(op.operands[0], depth)
        return float(low), float(high)
    if name in _BOUNDED:
        return -1.0, 1.0
    if name == "hlo.subtract" and _is_floor_of(op.operands[1], op.operands[0]):
        return 0.0, 1.0  # an infinity less an infinity is a NaN
    if name not in _FLOATS:
        return None
    operands = [float_range(operand, depth) for operand in op.operands]
    return None if ANY in operands else _FLOATS[name](*operands)


def _is_floor_of(value: ir.Value, operand: ir.Value) -> bool:
    op = defining(value)
    return op is not None and op.name == "hlo.floor" and bool(op.operands[0] == operand)


def _converted(value: ir.Value, depth: int) -> Range | Interval:
    return integer_range(value, depth) if is_integer(value.type.element_type) else float_range(value, depth)


def _ends(function: Callable[..., float]) -> Callable[..., Interval]:
    """Of a function that goes one way in each operand."""

    def of(*operands: Interval) -> Interval:
        found = [function(*corner) for corner in product(*operands)]
        return min(found), max(found)

    return of


_BOUNDED = ("hlo.cosine", "hlo.sine", "hlo.tanh")
_FLOATS: dict[str, Callable[..., Interval | None]] = {
    "hlo.abs": lambda x: (0.0, max(map(abs, x))),
    "hlo.add": _ends(lambda x, y: x + y),
    "hlo.divide": lambda x, y: _ends(lambda a, b: a / b)(x, y) if y[0] * y[1] > 0 else None,
    "hlo.exponential": _ends(math.exp),
    "hlo.maximum": _ends(max),
    "hlo.minimum": _ends(min),
    "hlo.multiply": _ends(lambda x, y: x * y),
    "hlo.negate": _ends(lambda x: -x),
    "hlo.power": lambda x, y: _ends(math.pow)(x, y) if x[0] > 0 else None,
    "hlo.subtract": _ends(lambda x, y: x - y),
}
