"""Constant folding: ops whose operands are constants become constants.

    %0 = hlo.constant {value = dense<3> : tensor<i32>}
    %1 = hlo.constant {value = dense<4> : tensor<i32>}      ==>     %2 = hlo.constant {value = dense<12> : tensor<i32>}
    %2 = hlo.multiply %0, %1

Only what gives the same bits at compile time and at run time is folded (the ops' records know where, and compute it):
arithmetic that IEEE 754 rounds correctly, integers, comparisons, conversions, moved elements. Exponentials and their
like wait for run time, and so do float sums whose result depends on the order. Splats (scalar constants broadcast) stay
splats and fold at any size; other results are bounded by `max_elements`. A constant operand may be an iota or a
broadcast: it is computed along, and stays small if others use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stablehlo_py.dialect.constants import constant_value, scalar_constant
from stablehlo_py.dialect.evaluate import evaluate_op
from stablehlo_py.dialect.ops import record_of, records
from stablehlo_py.dialect.types import num_elements, shape
from stablehlo_py.mlir import ir
from stablehlo_py.passes._matchers import ELEMENTWISE_OPS, constant_array, has_one_use
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RulePass, RuleSet, defining

#: Ops that fold: their records say where.
FOLDABLE = tuple(record.name for record in records() if record.exact is not None)
# Moving a big weight costs compile time and memory once, instead of run time always.
_MOVES = frozenset({"hlo.convert", "hlo.reshape", "hlo.slice"})


@dataclass(frozen=True)
class Fold(RulePass):
    """Evaluates ops on constants, where the result is the same bits as at run time."""

    name: ClassVar[str] = "fold"
    max_elements: int = 1024
    max_moved_elements: int = 1 << 22

    def rules(self) -> RuleSet:
        return fold_rules(self.max_elements, self.max_moved_elements)


def fold_rules(max_elements: int = 1024, max_moved_elements: int = 1 << 22) -> RuleSet:
    """The folding rule, for results and constant operands of at most `max_elements`; a constant with one use may have
    up to `max_moved_elements` when it is only sliced, reshaped or converted."""
    rules = RuleSet("fold")

    makers = ("hlo.constant", "hlo.broadcast", "hlo.iota")

    @rules.rule(
        *FOLDABLE, needs=makers, only=(*makers, "hlo.reshape"), where="same bits as at run time, and small or a splat"
    )
    def fold(op: ir.Operation, rewriter: Rewriter) -> Replacement:
        "op(constants) -> constant"
        return _fold(op, rewriter, max_elements, max_moved_elements)

    return rules


def _fold(op: ir.Operation, rewriter: Rewriter, max_elements: int, max_moved_elements: int) -> Replacement:
    operands = op.operands
    name, size = op.name, num_elements(op.result)
    if name in ELEMENTWISE_OPS:
        scalars = [scalar for operand in operands if (scalar := scalar_constant(operand)) is not None]
        if len(scalars) == len(operands):
            return _fold_splats(op, scalars, rewriter)
    limit = max_elements
    if name in _MOVES and len(operands) == 1 and defining(operands[0], "hlo.constant") and has_one_use(operands[0]):
        limit = max_moved_elements
    if size > limit or (name != "hlo.slice" and any(num_elements(operand) > limit for operand in operands)):
        return None
    if name == "hlo.reshape" and defining(operands[0], "hlo.broadcast"):
        return None  # the reshape of a broadcast is a broadcast (canonicalize-shapes)
    arrays = []
    for operand in operands:
        array = constant_array(operand, max_elements)
        if array is None:
            return None
        arrays.append(array)
    if not is_exact(op, arrays):
        return None
    return rewriter.constant(evaluate_op(op, arrays)[0], op.result.type.element_type)


def _fold_splats(op: ir.Operation, scalars: Sequence[ir.Operation], rewriter: Rewriter) -> Replacement:
    arrays = [constant_value(scalar) for scalar in scalars]
    if not is_exact(op, arrays):
        return None
    type_ = op.result.type
    return rewriter.broadcast(rewriter.constant(evaluate_op(op, arrays)[0], type_.element_type), shape(type_), [])


def is_exact(op: ir.Operation, operands: Sequence[np.ndarray]) -> bool:
    """True when NumPy's result has the same bits as any correct implementation of the op gives at run time."""
    record = record_of(op.name)
    return record is not None and record.exact is not None and record.exact(op, operands)
