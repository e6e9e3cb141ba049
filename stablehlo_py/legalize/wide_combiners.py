"""Combiners of floats of 16 bits and less compute in f32: a sum of logarithms that is rounded at every step stops
growing (`lax.cumlogsumexp` of 1,275 bf16 was wrong by 1.2).

    reduce(x, init) { (a, b) -> f(a, b) }   ->   convert(reduce(convert(x), convert(init)) { (a, b) -> f(a, b) })

The simple ones, `hlo.reduce` and `hlo.reduce_window`, do so where the code is made.
"""

from __future__ import annotations

from stablehlo_py.dialect import build
from stablehlo_py.dialect.attributes import SHARDING
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.edit import replace_op
from stablehlo_py.dialect.ops import Rounds, Work, record_of
from stablehlo_py.dialect.regions import TERMINATORS
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.dialect.types import shape
from stablehlo_py.legalize.rules import Results, block_of
from stablehlo_py.mlir import ir

# What keeps its meaning when floats get wider, beside arithmetic on elements.
_WIDENED = frozenset({"hlo.constant", "hlo.broadcast", "hlo.reshape", *TERMINATORS})
# Arithmetic that asks for the type, or says it.
_OF_A_TYPE = frozenset({"hlo.bitcast_convert", "hlo.convert", "hlo.reduce_precision"})


MANY = 32  # values; fewer lose less than it would take to convert the operands


def widened(op: ir.OpView, combined: IntLike) -> Results:
    """The results of an op that combines f32 instead, `combined` values for each. Its body is closed. None where no
    step would round, or these are few."""
    if is_known(combined) and combined < MANY:
        return None
    block = block_of(op)
    inside = [view.operation for view in block.operations]
    if not any(map(_rounds, inside)) or not all(map(_may_be_wide, inside)):
        return None
    attributes = {name: op.attributes[name] for name in op.attributes if name != SHARDING}
    wide = build.op(
        op.operation.name,
        [_wide(result.type) for result in op.results],
        [build.convert(operand, _wide(operand.type).element_type) for operand in op.operands],
        attributes,
        regions=1,
    ).opview
    block.append_to(wide.regions[0])
    for argument in block.arguments:
        argument.set_type(_wide(argument.type))
    for each in inside:
        _widen(each)
    return [build.convert(result, old.type.element_type) for result, old in zip(wide.results, op.results, strict=True)]


def _is_narrow(type_: ir.Type) -> bool:
    element = type_.element_type
    return isinstance(element, ir.FloatType) and element.width < 32


def _wide(type_: ir.Type) -> ir.Type:
    return build.tensor(shape(type_), ir.F32Type.get()) if _is_narrow(type_) else type_


def _rounds(op: ir.Operation) -> bool:
    record = record_of(op.name)
    computes = record is not None and record.work is Work.ELEMENTS and record.rounds is Rounds.ALWAYS
    return computes and any(_is_narrow(result.type) for result in op.results)


def _may_be_wide(op: ir.Operation) -> bool:
    record = record_of(op.name)
    computes = record is not None and record.work is Work.ELEMENTS and op.name not in _OF_A_TYPE
    return computes or op.name in _WIDENED


def _widen(op: ir.Operation) -> None:
    if op.name == "hlo.constant" and _is_narrow(op.result.type):
        with ir.InsertionPoint(op), op.location:
            wide = _wide(op.result.type)
            replace_op(op, [build.constant(constant_value(op).astype("float32"), wide.element_type)])
        return
    for result in op.results:
        result.set_type(_wide(result.type))
