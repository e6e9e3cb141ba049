"""Shape computations, interpreted: integer tensors of few elements whose elements are known sizes.

A value is the tuple of its elements, row-major; None where they are not known. An i1 is 0 or 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from stablehlo_py.dialect import symint
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.stablehlo import keyword
from stablehlo_py.dialect.symint import IntLike, SymInt, is_known
from stablehlo_py.dialect.types import element_type, i64, i64s, is_bool, is_integer, is_unsigned
from stablehlo_py.mlir import ir
from stablehlo_py.rules import Rules

MAX_ELEMENTS = 64  # of a value that is followed
MAX_TEXT = 1000  # of an element that is; what is longer is no size, and may double with every op

Elements: TypeAlias = "tuple[IntLike, ...] | None"
Rule = Callable[[ir.Operation, Sequence["tuple[IntLike, ...]"]], Elements]
RULES: Rules[Rule] = Rules("stablehlo.")


def followed(type_: ir.Type) -> bool:
    """Whether a tensor of this type may be a shape, or part of one."""
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        return False
    return is_integer(type_.element_type) and math.prod(type_.shape) <= MAX_ELEMENTS


def evaluate(op: ir.Operation, operands: Sequence[Elements]) -> Elements:
    """The elements of an op's result, where those of its operands say them."""
    rule = RULES.get(op.name)
    if rule is None or len(op.results) != 1 or not followed(op.results[0].type) or None in operands:
        return None
    found = _short(rule(op, operands))  # type: ignore[arg-type]
    if found is None:
        return None
    type_ = ir.IntegerType(element_type(op.results[0]))
    return tuple(_wrapped(each, type_) if is_known(each) else each for each in found)


def _short(elements: Elements) -> Elements:
    """The elements, None where an expression is long: the next op might double it."""
    if elements is None or any(isinstance(each, SymInt) and len(each.text) > MAX_TEXT for each in elements):
        return None
    return elements


def _wrapped(number: IntLike, type_: ir.IntegerType) -> IntLike:
    """The integer of the type that is left of a number which it does not hold."""
    low = 0 if is_unsigned(type_) or is_bool(type_) else -(1 << (type_.width - 1))
    return (number - low) % (1 << type_.width) + low


def _shape(value: ir.Value) -> tuple[int, ...]:
    return tuple(value.type.shape)


# --- arithmetic ------------------------------------------------------------------------------------------------------


def _elementwise(name: str, function: Callable[..., IntLike]) -> None:
    RULES.enter(lambda op, operands: tuple(map(function, *operands)), name)


_ARITHMETIC: dict[str, Callable[..., IntLike]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": symint.truncdiv,
    "remainder": symint.remainder,
    "maximum": symint.maximum,
    "minimum": symint.minimum,
    "negate": lambda a: -a,
    "abs": lambda a: symint.maximum(a, -a),
    "sign": lambda a: symint.less(0, a) - symint.less(a, 0),
}
for _name, _function in _ARITHMETIC.items():
    _elementwise(_name, _function)


def _logical(name: str, function: Callable[..., IntLike]) -> None:
    def rule(op: ir.Operation, operands: Sequence[tuple[IntLike, ...]]) -> Elements:
        return tuple(map(function, *operands)) if is_bool(element_type(op.results[0])) else None

    RULES.enter(rule, name)


_logical("and", lambda a, b: a * b)
_logical("or", lambda a, b: a + b - a * b)
_logical("xor", lambda a, b: a + b - 2 * a * b)
_logical("not", lambda a: 1 - a)

_COMPARISONS: dict[str, Callable[[IntLike, IntLike], IntLike]] = {
    "EQ": symint.equal,
    "NE": lambda a, b: 1 - symint.equal(a, b),
    "LT": symint.less,
    "GE": lambda a, b: 1 - symint.less(a, b),
    "GT": lambda a, b: symint.less(b, a),
    "LE": lambda a, b: 1 - symint.less(b, a),
}


@RULES.rule("compare")
def _compare(op: ir.Operation, operands: Sequence[tuple[IntLike, ...]]) -> Elements:
    element = element_type(op.operands[0])
    if is_unsigned(element) and not is_bool(element) and not is_known(*itertools.chain(*operands)):
        return None
    return tuple(map(_COMPARISONS[keyword(op.attributes["comparison_direction"])], *operands))


@RULES.rule("select")
def _select(op: ir.Operation, operands: Sequence[tuple[IntLike, ...]]) -> Elements:
    condition, on_true, on_false = operands
    conditions = condition * len(on_true) if len(condition) == 1 else condition
    return tuple(map(symint.select, conditions, on_true, on_false))


@RULES.rule("clamp")
def _clamp(op: ir.Operation, operands: Sequence[tuple[IntLike, ...]]) -> Elements:
    low, x, high = operands
    lows, highs = (side * len(x) if len(side) == 1 else side for side in (low, high))
    return tuple(symint.minimum(symint.maximum(each, a), b) for a, each, b in zip(lows, x, highs, strict=True))


@RULES.rule("convert")
def _convert(op: ir.Operation, operands: Sequence[tuple[IntLike, ...]]) -> Elements:
    """Sizes fit any integer type that holds them."""
    if is_bool(element_type(op.results[0])) and not is_bool(element_type(op.operands[0])):
        return tuple(1 - symint.equal(each, 0) for each in operands[0])
    return operands[0]


# --- structure -------------------------------------------------------------------------------------------------------


@RULES.rule("constant")
def _constant(op: ir.Operation, operands: Sequence[tuple[IntLike, ...]]) -> Elements:
    return tuple(int(each) for each in constant_value(op).reshape(-1))


@RULES.rule("reshape", "dynamic_reshape", "optimization_barrier")
def _same(op: ir.Operation, operands: Sequence[tuple[IntLike, ...]]) -> Elements:
    return operands[0]


@RULES.rule("broadcast_in_dim", "dynamic_broadcast_in_dim")
def _broadcast(op: ir.Operation, operands: Sequence[tuple[IntLike, ...]]) -> Elements:
    source, dimensions = _shape(op.operands[0]), i64s(op, "broadcast_dimensions")
    result = []
    for place in itertools.product(*map(range, _shape(op.results[0]))):
        at = 0
        for extent, dimension in zip(source, dimensions, strict=True):
            at = at * extent + (place[dimension] if extent > 1 else 0)
        result.append(operands[0][at])
    return tuple(result)


@RULES.rule("concatenate")
def _concatenate(op: ir.Operation, operands: Sequence[tuple[IntLike, ...]]) -> Elements:
    return tuple(itertools.chain(*operands)) if i64(op, "dimension") == 0 or len(operands) == 1 else None


@RULES.rule("slice")
def _slice(op: ir.Operation, operands: Sequence[tuple[IntLike, ...]]) -> Elements:
    if len(_shape(op.results[0])) != 1:
        return None
    bounds = (i64s(op, f"{name}")[0] for name in ("start_indices", "limit_indices", "strides"))
    return operands[0][slice(*bounds)]


@RULES.rule("iota")
def _iota(op: ir.Operation, operands: Sequence[tuple[IntLike, ...]]) -> Elements:
    dimension = i64(op, "iota_dimension")
    return tuple(place[dimension] for place in itertools.product(*map(range, _shape(op.results[0]))))


@RULES.rule("reduce")
def _reduce(op: ir.Operation, operands: Sequence[tuple[IntLike, ...]]) -> Elements:
    """Of a whole value, by one arithmetic op."""
    if len(operands) != 2 or len(_shape(op.results[0])) or len(op.regions[0].blocks[0].operations) != 2:
        return None
    body = op.regions[0].blocks[0].operations[0].operation
    rule = RULES.get(body.name)
    if rule is None or len(body.operands) != 2:
        return None
    total: Elements = operands[1]
    for each in operands[0]:
        total = _short(rule(body, ((each,), total))) if total is not None else None
    return total
