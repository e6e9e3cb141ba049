"""The custom calls by which JAX writes ops that have no dynamic form in StableHLO, made static ops again.

`@stablehlo.dynamic_reduce_window`, `@stablehlo.dynamic_top_k` and `@stablehlo.dynamic_rng_bit_generator` take as
operands what the static op has as attributes (jax/_src/interpreters/mlir.py and jax/_src/lax/lax.py write them). Once
shape refinement has made those operands constants, the static op says the same, and refinement can go on from its
result types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stablehlo_py.dialect import build
from stablehlo_py.dialect.attributes import WINDOW
from stablehlo_py.dialect.call_signatures import CALLS, called_function, check_call
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.forms import form_of, name_of, size_operands
from stablehlo_py.dialect.ops import record_of
from stablehlo_py.dialect.size import IntLike, is_known
from stablehlo_py.dialect.types import DYNAMIC, shape, symints
from stablehlo_py.dialect.verify import Conditions
from stablehlo_py.dialect.window import NAMES, STABLEHLO_NAMES
from stablehlo_py.mlir import ir

REDUCE_WINDOW = "stablehlo.dynamic_reduce_window"


class _Unchecked(Conditions):
    """The verifier of the static op looks at its sizes."""

    def unite(self, a: IntLike, b: IntLike) -> IntLike:
        return a

    def require_at_most(self, a: IntLike, b: IntLike) -> None:
        pass


def make_static(operations: Sequence[ir.Operation]) -> bool:
    """Replace every such call among `operations` whose operands are known; True when there was one."""
    calls = [op for op in operations if op.name == "stablehlo.custom_call" and name_of(op) in CALLS]
    calls = [op for op in calls if CALLS[name_of(op)].static]
    for op in calls:
        check_call(op)
    changed = [_make_static(op) for op in calls]
    return any(changed)


def _make_static(op: ir.Operation) -> bool:
    numbers = size_operands(op)
    sizes = [op.operands[number] for number in numbers]
    arrays = [operand for number, operand in enumerate(op.operands) if number not in numbers]
    if not all(map(_is_constant, sizes)) or not all(operand.type.has_static_shape for operand in arrays):
        return False
    known = {value: constant_value(value.owner).reshape(-1).tolist() for value in sizes}
    form = form_of(op, known.__getitem__)
    assert form is not None
    record = record_of(f"hlo.{form.name}")
    assert record is not None
    before = [shape(operand) for operand in arrays]
    after = record.shapes(_Unchecked(), form, *before) if record.shapes else [*before, *known.values()]
    elements = [result.type.element_type for result in op.results]
    types = [ir.RankedTensorType.get(list(each), element) for each, element in zip(after, elements, strict=True)]
    replace_call(op, static_op(op, form, types))
    return True


def _is_constant(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.operation.name == "stablehlo.constant"


def static_op(op: ir.Operation, form: build.Form, types: Sequence[ir.Type]) -> ir.Operation:
    """The op that a call with a static form is, of results of these types."""
    attributes: Mapping[str, Any] = form.attributes
    if form.name == "rng_bit_generator":
        attributes = {"rng_algorithm": op.attributes["rng_algorithm"]}
    elif form.name == "reduce_window":
        attributes = _window(op, form)
    has_body = form.name == "reduce_window"
    with op.location, ir.InsertionPoint(op):
        static = build.op(CALLS[name_of(op)].static, types, form.operands, attributes, regions=has_body)
    if has_body:
        _move_body(op, static.regions[0])
    return static


def _window(op: ir.Operation, form: build.Form) -> dict[str, Any]:
    """The attributes of a `reduce_window`. They cannot hold Sizes: then `hlo.window` counts, and they are those of a
    window of one element, padded or cut to the shape of the result, since the op's verifier computes with them."""
    window = {name: symints(form, name) for name in NAMES}
    flat = [number for name in NAMES for number in window[name]]
    if is_known(*flat):
        found: dict[str, Any] = dict(zip(STABLEHLO_NAMES, window.values(), strict=True))
        edges = np.array(window["padding"])
    else:
        shapes = zip(op.operands[0].type.shape, op.results[0].type.shape, strict=True)
        edges = np.array([(0, after - size if DYNAMIC not in (size, after) else 0) for size, after in shapes])
        found = {WINDOW: flat, "window_dimensions": [1] * len(edges)}
    return found | {"padding": ir.DenseIntElementsAttr.get(edges.astype(np.int64).reshape(-1, 2))}


def _move_body(op: ir.Operation, region: ir.Region) -> None:
    """Give `region` a copy of the body of the function that the call names."""
    function = called_function(op)
    assert function is not None  # what the call takes was checked
    # Two calls may share the function: the copy's block is moved, not the function's own.
    copy = function.operation.clone(ip=ir.InsertionPoint(function))
    copy.regions[0].blocks[0].append_to(region)
    copy.erase()
    *_, terminator = region.blocks[0].operations
    if terminator.operation.name == "func.return":
        values = list(terminator.operands)
        ir.Operation.create(
            "stablehlo.return", operands=values, loc=terminator.location, ip=ir.InsertionPoint(terminator)
        )
        terminator.operation.erase()


def replace_call(op: ir.Operation, new: ir.Operation) -> None:
    """Let the results of another op take the place of those of a call, which goes."""
    for old, result in zip(op.results, new.results, strict=True):
        if old.type != result.type:
            _cast_for_returns(old, result)
        old.replace_all_uses_with(result)
    op.erase()


def _cast_for_returns(old: ir.Value, result: ir.Value) -> None:
    """StableHLO's ops accept an operand whose type got more precise; `return` must match the signature, until
    refinement updates that through this cast."""
    for use in list(old.uses):
        if use.owner.operation.name == "func.return":
            cast = ir.Operation.create(
                "builtin.unrealized_conversion_cast",
                results=[old.type],
                operands=[result],
                loc=use.owner.location,
                ip=ir.InsertionPoint(use.owner),
            )
            use.owner.operands[use.operand_number] = cast.results[0]
