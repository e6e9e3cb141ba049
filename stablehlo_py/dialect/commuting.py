"""What a reduction's body does: whether it commutes, and whether it chooses the largest element and its place.

Does it commute? StableHLO lets an implementation regroup the elements of a reduction, never reorder
them (spec, section reduce: the leaves of the schedule are in ascending order of index). Lanes that run over
interleaved elements reorder them, which only a commutative body allows. Two proofs are tried:

* by structure: the results' expressions are the same when accumulators and elements change places, where operands of
  commutative ops have no order;
* by cases, for bodies that only compare, choose and combine truth values (argmax): nothing but the order of each
  accumulator and its element counts, so a few values stand for all.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Sequence

import numpy as np

from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.evaluate import evaluate_op
from stablehlo_py.dialect.ops import SWAPPED, record_of
from stablehlo_py.dialect.rounding import is_float_dtype
from stablehlo_py.dialect.types import element_type, text
from stablehlo_py.mlir import ir

_MAX_CASES = 50_000
# Two of these are in every relation that two floats can be in.
_FLOATS = (float("-nan"), -1.0, -0.0, 0.0, 1.0, float("nan"))

_Expression = tuple[object, ...]


class Commutes(enum.Enum):
    """What is known of a body."""

    ALWAYS = enum.auto()
    # Without NaN it commutes, and of a NaN it makes a NaN: so a result without NaN had none among its elements.
    WITHOUT_NAN = enum.auto()
    UNKNOWN = enum.auto()


def commutes(block: ir.Block) -> Commutes:
    """Whether a body (accumulators..., elements...) -> results gives the same when accumulators and elements change
    places (up to the signs of zeros and NaNs)."""
    count = len(block.arguments) // 2
    arguments = list(block.arguments)
    swapped = arguments[count:] + arguments[:count]
    if _expressions(block, arguments) == _expressions(block, swapped):
        return Commutes.ALWAYS
    return _by_cases(block, count)


def _expressions(block: ir.Block, arguments: Sequence[ir.Value]) -> list[_Expression]:
    """What the body returns, as trees over argument numbers; equal ones are equal values."""
    known: dict[ir.Value, _Expression] = {argument: (number,) for number, argument in enumerate(arguments)}
    *ops, last = list(block.operations)
    for op in ops:
        operation = op.operation
        operands = [known[operand] for operand in operation.operands]
        name = operation.name
        attributes = " ".join(f"{key}={operation.attributes[key]}" for key in operation.attributes)
        record = record_of(name)
        if record is not None and record.commutative:
            operands.sort(key=repr)
        elif name == "hlo.compare":
            turned = sorted(operands, key=repr)
            direction = text(operation, "direction")
            attributes = f"{direction if turned == operands else SWAPPED[direction]} {'total_order' in attributes}"
            operands = turned
        elif name == "hlo.abs" and operands[0][0] == "hlo.subtract":  # |a - b| = |b - a|
            operands = [(*operands[0][:2], *sorted(operands[0][2:], key=repr))]
        for number, result in enumerate(operation.results):
            known[result] = (name, f"{attributes} {result.type} {number}", *operands)
    return [known[value] for value in last.operands]


def place_of(block: ir.Block) -> str:
    """ "maximum" or "minimum": a body (x, i, y, j) -> (z, k), whose numbers i are below the numbers j, chooses the
    larger (smaller) of x and y with its number, the first one of equals, and of NaNs, which are larger (smaller) than
    everything; "" if that is not proven. The number does not depend on the order in which elements come."""
    cases = _cases(block)
    if len(block.arguments) != 4 or cases is None:
        return ""
    x, i, y, j = cases
    i, j = 3 + 4 * i, 3 + 4 * j  # numbers that no constant of the body is by chance
    ordered = i < j
    _, number = _evaluate(block, [x, i, y, j])
    with np.errstate(invalid="ignore"):
        better = {"maximum": x > y, "minimum": x < y}
    for kind, first in better.items():
        chosen = np.where(_is_nan(x) | (~_is_nan(y) & (first | (x == y))), i, j)
        if np.array_equal(number[ordered], chosen[ordered]):
            return kind
    return ""


def _by_cases(block: ir.Block, count: int) -> Commutes:
    cases = _cases(block)
    if cases is None:
        return Commutes.UNKNOWN
    results, swapped = (_evaluate(block, values) for values in (cases, cases[count:] + cases[:count]))
    nans = [_is_nan(a) | _is_nan(b) for a, b in zip(cases[:count], cases[count:], strict=True)]
    same = np.logical_and.reduce([_same(a, b) for a, b in zip(results, swapped, strict=True)])
    if same.all():
        return Commutes.ALWAYS
    spreads = all(_is_nan(result)[nan].all() for result, nan in zip(results, nans, strict=True))
    if spreads and same[~np.logical_or.reduce(nans)].all():
        return Commutes.WITHOUT_NAN
    return Commutes.UNKNOWN


def _cases(block: ir.Block) -> list[np.ndarray] | None:
    """Values of the arguments that stand for all, where only their order counts; None where more does, or they are too
    many."""
    *ops, _ = list(block.operations)
    arguments = list(block.arguments)
    if not all(map(_is_relational, ops)) or not all(_is_of_one_pair(op, arguments) for op in ops):
        return None
    dtypes = [numpy_dtype(element_type(argument)) for argument in arguments]
    domains = [_FLOATS if is_float_dtype(dtype) else (0, 1) for dtype in dtypes]
    if math.prod(len(domain) for domain in domains) > _MAX_CASES:
        return None
    columns = zip(*itertools.product(*domains), strict=True)
    return [np.array(column).astype(dtype) for column, dtype in zip(columns, dtypes, strict=True)]


def _is_relational(op: ir.OpView) -> bool:
    record = record_of(op.operation.name)
    return record is not None and record.relational


def _evaluate(block: ir.Block, cases: Sequence[np.ndarray]) -> list[np.ndarray]:
    known = dict(zip(block.arguments, cases, strict=True))
    *ops, last = list(block.operations)
    for op in ops:
        operands = [known[operand] for operand in op.operation.operands]
        known[op.operation.results[0]] = evaluate_op(op.operation, operands)[0]
    return [known[value] for value in last.operands]


def _is_of_one_pair(op: ir.OpView, arguments: Sequence[ir.Value]) -> bool:
    """True where numbers that are related are an accumulator and its own element (or one of them and itself)."""
    operation = op.operation
    if operation.name not in ("hlo.compare", "hlo.maximum", "hlo.minimum"):
        return True
    count = len(arguments) // 2
    pairs = {arguments.index(operand) % count if operand in arguments else -1 for operand in operation.operands}
    return len(pairs) == 1 and -1 not in pairs


def _is_nan(a: np.ndarray) -> np.ndarray:
    return np.isnan(a.astype(np.float64)) if is_float_dtype(a.dtype) else np.zeros(a.shape, bool)


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a == b) | (_is_nan(a) & _is_nan(b))
