"""Ops with operands that say sizes, made the static ops that they are once the sizes are known.

JAX writes ops that have no dynamic form in StableHLO as custom calls: `@stablehlo.dynamic_reduce_window`,
`@stablehlo.dynamic_top_k` and `@stablehlo.dynamic_rng_bit_generator` take as operands what the static op has as
attributes (jax/_src/interpreters/mlir.py and jax/_src/lax/lax.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stablehlo_py.dialect import build
from stablehlo_py.dialect.attributes import WINDOW
from stablehlo_py.dialect.call_signatures import SHAPE_OPERANDS, called_function
from stablehlo_py.dialect.edit import end_with, terminator
from stablehlo_py.dialect.forms import form_of, name_of, size_operands
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.dialect.types import DYNAMIC, symints
from stablehlo_py.dialect.window import NAMES, STABLEHLO_NAMES
from stablehlo_py.mlir import ir

REDUCE_WINDOW = "stablehlo.dynamic_reduce_window"
# The static op, and the attributes of it that operands of the dynamic op hold (by number). The operand that holds a
# shape just goes: the type of the result says it.
_TWINS: dict[str, tuple[str, Mapping[str, int]]] = {
    "stablehlo.dynamic_broadcast_in_dim": ("stablehlo.broadcast_in_dim", {}),
    "stablehlo.dynamic_conv": ("stablehlo.convolution", {"padding": 2}),
    "stablehlo.dynamic_gather": ("stablehlo.gather", {"slice_sizes": 2}),
    "stablehlo.dynamic_iota": ("stablehlo.iota", {}),
    "stablehlo.dynamic_pad": (
        "stablehlo.pad",
        {"edge_padding_low": 2, "edge_padding_high": 3, "interior_padding": 4},
    ),
    "stablehlo.dynamic_reshape": ("stablehlo.reshape", {}),
    "stablehlo.real_dynamic_slice": ("stablehlo.slice", {"start_indices": 1, "limit_indices": 2, "strides": 3}),
    "stablehlo.dynamic_rng_bit_generator": ("stablehlo.rng_bit_generator", {}),
    "stablehlo.dynamic_top_k": ("chlo.top_k", {"k": 1}),
}
# Attributes that the static op does not have: what is known of a shape that is not, and those of calls.
_DYNAMIC = ("known_expanding_dimensions", "known_nonexpanding_dimensions")
_OF_CALLS = ("call_target_name", "api_version", "backend_config", "called_computations", "has_side_effect")

Elements = Callable[[ir.Value], Sequence[IntLike]]


def static_op(op: ir.Operation, elements: Elements, symbolic: bool) -> ir.Operation | None:
    """The static op that an op with size operands is, made before it; None where there is none, or where its attributes
    depend on the call or on data. `elements` says what an operand holds; `symbolic`: SymInts are of the call, not data,
    so that a window may hold them."""
    types = [result.type for result in op.results]
    if name_of(op) == REDUCE_WINDOW:
        sizes = [size for number in size_operands(op) for size in elements(op.operands[number])]
        return _reduce_window(op, types, elements) if symbolic or is_known(*sizes) else None
    twin, places = _TWINS.get(name_of(op), ("", {}))
    if not twin or not all(type_.has_static_shape for type_ in types):
        return None
    held = {name: elements(op.operands[number]) for name, number in places.items()}
    if not all(is_known(*numbers) for numbers in held.values()):
        return _slice_at(op) if set(held.get("strides", ())) == {1} else None
    attributes: dict[str, Any] = {
        name: op.attributes[name] for name in op.attributes if name not in (*_DYNAMIC, *_OF_CALLS, SHAPE_OPERANDS)
    }
    attributes |= held
    if "k" in held:
        (attributes["k"],) = held["k"]
    if "padding" in held:
        attributes["padding"] = _pairs(held["padding"])
    gone = size_operands(op)
    operands = [operand for number, operand in enumerate(op.operands) if number not in gone]
    with op.location, ir.InsertionPoint(op):
        return build.op(twin, types, operands, attributes)


def _slice_at(op: ir.Operation) -> ir.Operation:
    """The `dynamic_slice` that a `real_dynamic_slice` with steps of 1 is: only where it starts depends on data."""
    operand, start = op.operands[0], op.operands[1]
    element = start.type.element_type
    with op.location, ir.InsertionPoint(op):
        places = []
        for dimension in range(operand.type.rank):
            bounds = {"start_indices": [dimension], "limit_indices": [dimension + 1], "strides": [1]}
            part = build.stablehlo.value("slice", build.tensor([1], element), start, **bounds)
            places.append(build.stablehlo.reshape(part, []))
        sizes = list(op.results[0].type.shape)
        return build.op("stablehlo.dynamic_slice", [op.results[0].type], [operand, *places], {"slice_sizes": sizes})


def _reduce_window(op: ir.Operation, types: Sequence[ir.Type], elements: Elements) -> ir.Operation:
    form = form_of(op, elements)
    assert form is not None
    with op.location, ir.InsertionPoint(op):
        static = build.op("stablehlo.reduce_window", types, form.operands, _window(op, form), regions=1)
    _move_body(op, static.regions[0])
    return static


def _window(op: ir.Operation, form: build.Form) -> dict[str, Any]:
    """The attributes of a `reduce_window`. They cannot hold SymInts: then `hlo.window` counts, and they are those of a
    window of one element, padded or cut to the shape of the result, since the op's verifier computes with them."""
    window = {name: symints(form, name) for name in NAMES}
    flat = [number for name in NAMES for number in window[name]]
    if is_known(*flat):
        found: dict[str, Any] = dict(zip(STABLEHLO_NAMES, window.values(), strict=True))
        edges: Sequence[object] = window["padding"]
    else:
        shapes = zip(op.operands[0].type.shape, op.results[0].type.shape, strict=True)
        edges = [(0, after - size if DYNAMIC not in (size, after) else 0) for size, after in shapes]
        found = {WINDOW: flat, "window_dimensions": [1] * len(edges)}
    return found | {"padding": _pairs(edges)}


def _pairs(padding: Sequence[object]) -> ir.Attribute:
    return ir.DenseIntElementsAttr.get(np.array(padding, np.int64).reshape(-1, 2))


def _move_body(op: ir.Operation, region: ir.Region) -> None:
    """Give `region` a copy of the body of the function that the call names."""
    function = called_function(op)
    assert function is not None  # what the call takes was checked
    # Two calls may share the function: the copy's block is moved, not the function's own.
    copy = function.operation.clone(ip=ir.InsertionPoint(function))
    copy.regions[0].blocks[0].append_to(region)
    copy.erase()
    if terminator(region.blocks[0]).name == "func.return":
        end_with(region.blocks[0], "stablehlo.return")
