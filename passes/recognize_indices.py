"""Constants that say no more than indices do are computed from these again, where a kernel computes them for nothing.

    %0 = hlo.constant {value = dense<[0, 1, 2, 3]> : tensor<4xi32>}
        ==>  %0 = hlo.iota {dimension = 0} : tensor<4xi32>

    %0 = hlo.constant {value = dense<[[1, 0, 0], [1, 1, 0], [1, 1, 1]]> : tensor<3x3xi1>}
        ==>  %0 = hlo.compare(rows, columns) {direction = "GE"}

Masks of attention come so: as NumPy arrays of a model, and from `fold`, which makes a constant of a small one. Only an
array has to be read, and hides from attention which keys a query sees (passes/fusing/attention_mask.py). Backends
with fusions of attention run this; nothing folds it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stablehlo_py.dialect.build import tensor
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.types import is_bool, num_elements, shape
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RulePass, RuleSet

INDICES = RuleSet("recognize-indices")
_MOST_ELEMENTS = 1 << 22  # that are looked at
_MOST_STEPS = 8  # from integers to a comparison
_VIEWS = frozenset({"hlo.broadcast", "hlo.reshape", "hlo.transpose"})
_OF_INDICES = _VIEWS | {"hlo.add", "hlo.convert", "hlo.subtract"}
_OF_MASKS = _VIEWS | {"hlo.and", "hlo.not", "hlo.or", "hlo.select"}


@dataclass(frozen=True)
class RecognizeIndices(RulePass):
    """Makes iotas, and comparisons of them, of constants."""

    name: ClassVar[str] = "recognize-indices"
    sweeps: ClassVar[bool] = False
    table: ClassVar[RuleSet] = INDICES


@INDICES.rule("hlo.constant", where="integers of one dimension that go up by one; for comparisons")
def progression(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "constant [a, a + 1, ..] -> iota + a"
    type_ = op.result.type
    if not isinstance(type_.element_type, ir.IntegerType) or is_bool(type_.element_type) or not _is_compared(op.result):
        return None
    solid = [d for d, size in enumerate(shape(type_)) if size != 1]
    if len(solid) != 1 or not 1 < num_elements(type_) <= _MOST_ELEMENTS:
        return None
    found = constant_value(op).reshape(-1).astype(object)
    first = int(found[0])
    if any(int(number) != first + place for place, number in enumerate(found)):
        return None
    iota = rewriter.value("iota", type_, dimension=solid[0])
    return rewriter.like("add", iota, rewriter.splat(first, type_)) if first else iota


@INDICES.rule("hlo.constant", where="truth values of two dimensions, true in a band along the diagonal; for masks")
def band(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "constant [[1, 0], [1, 1]] -> row >= column"
    type_ = op.result.type
    if not is_bool(type_.element_type) or not 1 < num_elements(type_) <= _MOST_ELEMENTS or not _masks(op.result):
        return None
    solid = [d for d, size in enumerate(shape(type_)) if size != 1]
    if len(solid) != 2:
        return None
    rows, columns = (int(shape(type_)[d]) for d in solid)
    seen = constant_value(op).reshape(rows, columns).astype(bool)
    below = np.arange(columns)[None] - np.arange(rows)[:, None]
    if not seen.any() or seen.all():
        return None
    low, high = int(below[seen].min()), int(below[seen].max())
    if not np.array_equal(seen, (below >= low) & (below <= high)):
        return None
    integer = ir.IntegerType.get_signless(32)
    row, column = (rewriter.value("iota", tensor([size], integer), dimension=0) for size in (rows, columns))
    parts = []
    for bound, direction, is_bound in ((high, "GE", high < columns - 1), (low, "LE", low > 1 - rows)):
        if is_bound:
            moved = rewriter.like("add", row, rewriter.splat(bound, row.type)) if bound else row
            pair = (rewriter.broadcast(each, shape(type_), [d]) for each, d in zip((moved, column), solid, strict=True))
            parts.append(rewriter.value("compare", type_, *pair, direction=direction))
    return parts[0] if len(parts) == 1 else rewriter.like("and", *parts)


def _is_compared(value: ir.Value, steps: int = _MOST_STEPS) -> bool:
    """Is all that becomes of integers a part of comparisons?"""
    users = [use.owner.operation for use in value.uses]
    return bool(users) and all(
        user.name == "hlo.compare" or (user.name in _OF_INDICES and steps > 0 and _is_compared(user.result, steps - 1))
        for user in users
    )


def _masks(value: ir.Value) -> bool:
    """Are truth values a part of masks for all who read them?"""
    users = [use.owner.operation.name for use in value.uses]
    return bool(users) and _OF_MASKS.issuperset(users)
