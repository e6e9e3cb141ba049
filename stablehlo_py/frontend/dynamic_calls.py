"""The custom calls by which JAX writes ops that have no dynamic form in StableHLO, made static ops again.

`@stablehlo.dynamic_reduce_window`, `@stablehlo.dynamic_top_k` and `@stablehlo.dynamic_rng_bit_generator` take as
operands what the static op has as attributes (jax/_src/interpreters/mlir.py and jax/_src/lax/lax.py write them). Once
shape refinement has made those operands constants, the static op says the same, and refinement can go on from its
result types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from stablehlo_py.dialect.call_signatures import check_call
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir

_PREFIX = "stablehlo.dynamic_"
_CALLED = "called_computations"


def make_static(module: ir.Module, operations: Sequence[ir.Operation]) -> bool:
    """Replace every such call among `operations` whose operands are known; True when there was one."""
    calls = [op for op in operations if _target(op) in _RULES]
    for op in calls:
        check_call(op)
    changed = [_RULES[_target(op)](module, op) for op in calls]
    return any(changed)


def _target(op: ir.Operation) -> str:
    if op.name != "stablehlo.custom_call":
        return ""
    name = op.attributes["call_target_name"].value
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else ""


def _known(value: ir.Value) -> np.ndarray | None:
    """The elements of a constant, None for anything else."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "stablehlo.constant":
        return None
    return constant_value(owner)


def _all_known(values: Sequence[ir.Value]) -> list[np.ndarray] | None:
    found = [_known(value) for value in values]
    return None if any(each is None for each in found) else [each for each in found if each is not None]


def _is_static(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType) and value.type.has_static_shape


def _replace(op: ir.Operation, new: ir.Operation) -> None:
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


def _reduce_window(module: ir.Module, op: ir.Operation) -> bool:
    """Operands: n inputs, n inits, window dimensions, strides, base dilations, window dilations, padding[rank, 2]."""
    arrays, numbers = list(op.operands)[:-5], list(op.operands)[-5:]
    known, inputs = _all_known(numbers), arrays[: len(arrays) // 2]
    if known is None or not inputs or not all(map(_is_static, inputs)):
        return False
    sizes = np.array(inputs[0].type.shape)
    if [each.shape for each in known] != [sizes.shape] * 4 + [(*sizes.shape, 2)]:
        return False
    window_, strides_, base_, dilation_, padding_ = (each.astype(np.int64) for each in known)
    # StableHLO specification, reduce_window, (C15).
    dilated = np.where(sizes == 0, 0, (sizes - 1) * base_ + 1)
    padded = padding_[:, 0] + dilated + padding_[:, 1]
    span = (window_ - 1) * dilation_ + 1
    shape = np.where((padded == 0) | (span > padded), 0, (padded - span) // strides_ + 1)
    array = ir.DenseI64ArrayAttr.get
    static = ir.Operation.create(
        "stablehlo.reduce_window",
        results=[ir.RankedTensorType.get(shape.tolist(), result.type.element_type) for result in op.results],
        operands=arrays,
        attributes={
            "window_dimensions": array(window_.tolist()),
            "window_strides": array(strides_.tolist()),
            "base_dilations": array(base_.tolist()),
            "window_dilations": array(dilation_.tolist()),
            "padding": ir.DenseIntElementsAttr.get(np.ascontiguousarray(padding_)),
        },
        regions=1,
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    move_body(module.operation, op, static.regions[0])
    _replace(op, static)
    return True


def move_body(module: ir.Operation, op: ir.Operation, region: ir.Region) -> None:
    """Give `region` a copy of the body of the function that the call names.

    Raises:
        UnsupportedError: it names none of the module.
    """
    names = [symbol.value for symbol in op.attributes[_CALLED]] if _CALLED in op.attributes else []
    block = module.regions[0].blocks[0]
    functions = [each for each in block.operations if each.attributes["sym_name"].value in names[:1]]
    if not functions:
        raise UnsupportedError("calls no computation of the module", op=op.name, remedy="export the model with JAX")
    # Two calls may share the function: the copy's block is moved, not the function's own.
    copy = functions[0].operation.clone(ip=ir.InsertionPoint(block))
    copy.regions[0].blocks[0].append_to(region)
    copy.erase()
    *_, terminator = region.blocks[0].operations
    if terminator.operation.name == "func.return":
        values = list(terminator.operands)
        ir.Operation.create(
            "stablehlo.return", operands=values, loc=terminator.location, ip=ir.InsertionPoint(terminator)
        )
        terminator.operation.erase()


def _top_k(module: ir.Module, op: ir.Operation) -> bool:
    """Operands: the input and k. The static form is `chlo.top_k`."""
    values, k = op.operands
    known = _known(k)
    if known is None or not _is_static(values):
        return False
    count = int(known)
    shape = [*values.type.shape[:-1], count]
    static = ir.Operation.create(
        "chlo.top_k",
        results=[ir.RankedTensorType.get(shape, result.type.element_type) for result in op.results],
        operands=[values],
        attributes={"k": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), count)},
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    _replace(op, static)
    return True


def _rng_bit_generator(module: ir.Module, op: ir.Operation) -> bool:
    """Operands: the state and the shape of the output."""
    state, shape = op.operands
    known = _known(shape)
    if known is None:
        return False
    output = ir.RankedTensorType.get(known.astype(np.int64).tolist(), op.results[1].type.element_type)
    static = ir.Operation.create(
        "stablehlo.rng_bit_generator",
        results=[state.type, output],
        operands=[state],
        attributes={"rng_algorithm": op.attributes["rng_algorithm"]},
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    _replace(op, static)
    return True


_RULES: dict[str, Callable[[ir.Module, ir.Operation], bool]] = {
    "reduce_window": _reduce_window,
    "rng_bit_generator": _rng_bit_generator,
    "top_k": _top_k,
}
