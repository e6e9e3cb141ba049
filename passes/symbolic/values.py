"""Shape computations, interpreted: integer tensors of few elements whose elements are known sizes.

A value is the tuple of its elements, row-major; None where they are not known. An i1 is 0 or 1. Rules compute as NumPy
does, on arrays of ints and SymInts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from stablehlo_py.dialect import symint
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.ops.shape import broadcast_array
from stablehlo_py.dialect.stablehlo import keyword
from stablehlo_py.dialect.symint import IntLike, SymInt, is_known
from stablehlo_py.dialect.types import element_type, i64, i64s, is_bool, is_integer, is_unsigned
from stablehlo_py.mlir import ir
from stablehlo_py.rules import Rules

MAX_ELEMENTS = 64  # of a value that is followed
MAX_TEXT = 1000  # of an element that is; what is longer is no size, and may double with every op

Elements: TypeAlias = "tuple[IntLike, ...] | None"
Array = np.ndarray
Rule = Callable[..., "Array | None"]
RULES: Rules[Rule] = Rules("stablehlo.")


def followed(type_: ir.Type) -> bool:
    """Whether a tensor of this type may be a shape, or part of one."""
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        return False
    return is_integer(type_.element_type) and math.prod(type_.shape) <= MAX_ELEMENTS


def evaluate(op: ir.Operation, operands: Sequence[Elements]) -> Elements:
    """The elements of an op's result, where those of its operands say them."""
    rule = RULES.get(op.name)
    if rule is None or len(op.results) != 1 or not followed(op.results[0].type):
        return None
    arrays = []
    for value, elements in zip(op.operands, operands, strict=True):
        if elements is None:
            return None
        arrays.append(np.array(elements, object).reshape(value.type.shape))
    found = _short(rule(op, *arrays))
    if found is None:
        return None
    type_ = ir.IntegerType(element_type(op.results[0]))
    return tuple(_wrapped(each, type_) if is_known(each) else each for each in found.flat)


def _short(array: Array | None) -> Array | None:
    """The array, None where an expression is long: the next op might double it."""
    if array is None or any(isinstance(each, SymInt) and len(each.text) > MAX_TEXT for each in array.flat):
        return None
    return array


def _wrapped(number: IntLike, type_: ir.IntegerType) -> IntLike:
    """The integer of the type that is left of a number which it does not hold."""
    low = 0 if is_unsigned(type_) or is_bool(type_) else -(1 << (type_.width - 1))
    return (number - low) % (1 << type_.width) + low


# --- arithmetic ------------------------------------------------------------------------------------------------------


def _elementwise(function: Callable[..., IntLike]) -> Callable[..., Array]:
    """The rule that is a function of numbers, for each element; a scalar goes with all elements of the others."""
    return lambda op, *operands: np.asarray(np.frompyfunc(function, len(operands), 1)(*operands), object)


_NUMBERS: dict[str, Callable[..., IntLike]] = {
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
    "select": symint.select,
    "clamp": lambda low, x, high: symint.minimum(symint.maximum(x, low), high),
}
for _name, _function in _NUMBERS.items():
    RULES.enter(_elementwise(_function), _name)

_LOGIC = {
    "and": _elementwise(lambda a, b: a * b),
    "or": _elementwise(lambda a, b: a + b - a * b),
    "xor": _elementwise(lambda a, b: a + b - 2 * a * b),
    "not": _elementwise(lambda a: 1 - a),
}


@RULES.rule(*_LOGIC)
def _logical(op: ir.Operation, *operands: Array) -> Array | None:
    rule = _LOGIC[op.name.removeprefix("stablehlo.")]
    return rule(op, *operands) if is_bool(element_type(op.results[0])) else None


_COMPARISONS = {
    "EQ": _elementwise(symint.equal),
    "NE": _elementwise(lambda a, b: 1 - symint.equal(a, b)),
    "LT": _elementwise(symint.less),
    "GE": _elementwise(lambda a, b: 1 - symint.less(a, b)),
    "GT": _elementwise(lambda a, b: symint.less(b, a)),
    "LE": _elementwise(lambda a, b: 1 - symint.less(b, a)),
}


@RULES.rule("compare")
def _compare(op: ir.Operation, a: Array, b: Array) -> Array | None:
    element = element_type(op.operands[0])
    if is_unsigned(element) and not is_bool(element) and not is_known(*a.flat, *b.flat):
        return None
    return _COMPARISONS[keyword(op.attributes["comparison_direction"])](op, a, b)


@RULES.rule("convert")
def _convert(op: ir.Operation, x: Array) -> Array:
    """Sizes fit any integer type that holds them."""
    to_bool = is_bool(element_type(op.results[0])) and not is_bool(element_type(op.operands[0]))
    return _elementwise(lambda each: 1 - symint.equal(each, 0))(op, x) if to_bool else x


# --- structure -------------------------------------------------------------------------------------------------------


@RULES.rule("constant")
def _constant(op: ir.Operation) -> Array:
    return _elementwise(int)(op, constant_value(op))


@RULES.rule("reshape", "dynamic_reshape", "optimization_barrier")
def _same(op: ir.Operation, x: Array, *sizes: Array) -> Array:
    return x


@RULES.rule("broadcast_in_dim", "dynamic_broadcast_in_dim")
def _broadcast(op: ir.Operation, x: Array, *sizes: Array) -> Array:
    return broadcast_array(x, op.results[0].type.shape, i64s(op, "broadcast_dimensions"))


@RULES.rule("concatenate")
def _concatenate(op: ir.Operation, *operands: Array) -> Array:
    return np.concatenate(operands, i64(op, "dimension"))


@RULES.rule("slice")
def _slice(op: ir.Operation, x: Array) -> Array:
    return x[tuple(map(slice, *(i64s(op, name) for name in ("start_indices", "limit_indices", "strides"))))]


@RULES.rule("iota")
def _iota(op: ir.Operation) -> Array:
    return np.indices(op.results[0].type.shape)[i64(op, "iota_dimension")].astype(object)


@RULES.rule("reduce")
def _reduce(op: ir.Operation, *operands: Array) -> Array | None:
    """Of a whole value, by one arithmetic op."""
    if len(operands) != 2 or op.results[0].type.rank or len(op.regions[0].blocks[0].operations) != 2:
        return None
    body = op.regions[0].blocks[0].operations[0].operation
    rule = RULES.get(body.name)
    if rule is None or len(body.operands) != 2:
        return None
    elements, total = operands[0].flat, _short(operands[1])
    for each in elements:
        total = None if total is None else _short(rule(body, np.asarray(each, object), total))
    return total
