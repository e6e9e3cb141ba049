"""Custom calls whose results have dynamic shapes: their shapes, and the operands that say them.

JAX gives any call of dynamic results `indices_of_shape_operands`, the operands (the last ones) that hold the results'
shapes; `symbolize` drops them. Targets "stablehlo.dynamic_*" are ops whose attributes are operands; a
`dynamic_reduce_window` becomes a `stablehlo.reduce_window` that has its window in `hlo.window`, which may hold Sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from stablehlo_py.dialect import build
from stablehlo_py.dialect.attributes import WINDOW
from stablehlo_py.dialect.call_signatures import check_call
from stablehlo_py.dialect.ops.record import Shapes
from stablehlo_py.dialect.size import Number
from stablehlo_py.dialect.types import DYNAMIC
from stablehlo_py.dialect.window import window_shape
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.frontend.dynamic_calls import move_body
from stablehlo_py.mlir import ir
from stablehlo_py.passes.symbolic.shapes import RULES, Scope, declared

_INDICES = "indices_of_shape_operands"
# Custom calls that hand on their operand.
_ANNOTATIONS = frozenset(("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement"))
REDUCE_WINDOW = "stablehlo.dynamic_reduce_window"
WINDOW_OPERANDS = 5  # dimensions, strides, base dilations, window dilations, padding


def target_of(op: ir.Operation) -> str:
    """The target of a custom call."""
    return str(op.attributes["call_target_name"].value)


def sizes_of_call(op: ir.Operation) -> tuple[int, ...]:
    """Operands that hold sizes, and stay."""
    target, count = target_of(op), len(op.operands)
    if target == REDUCE_WINDOW:
        return tuple(range(count - WINDOW_OPERANDS, count))
    if target in ("stablehlo.dynamic_top_k", "stablehlo.dynamic_rng_bit_generator"):
        return (1,)
    return (2 * len(op.results),) if target == "stablehlo.dynamic_approx_top_k" else ()


def shape_operands(op: ir.Operation) -> tuple[int, ...]:
    """Operands that hold the shapes of the results, and go.

    Raises:
        UnsupportedError: they are not the last ones.
    """
    if op.name != "stablehlo.custom_call" or _INDICES not in op.attributes:
        return ()
    found = tuple(ir.DenseIntElementsAttr(op.attributes[_INDICES]))
    if sorted(found) != list(range(len(op.operands) - len(found), len(op.operands))):
        raise UnsupportedError(f"has {_INDICES} that are not those of its last operands", op=op.name)
    return found


def without_shape_operands(op: ir.Operation) -> None:
    """Replace a call by one without the operands that hold shapes."""
    kept = list(op.operands)[: -len(shape_operands(op))]
    attributes = {name: op.attributes[name] for name in op.attributes if name != _INDICES}
    if "operand_layouts" in attributes:
        attributes["operand_layouts"] = ir.ArrayAttr.get(list(attributes["operand_layouts"])[: len(kept)])
    with op.location, ir.InsertionPoint(op):
        call = ir.Operation.create(op.name, [result.type for result in op.results], kept, attributes)
    for old, new in zip(op.results, call.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def with_window(op: ir.Operation, numbers: Sequence[Sequence[Number]]) -> None:
    """Replace a `dynamic_reduce_window` by a `reduce_window`; `numbers` are the elements of the operands that say the
    window.

    Raises:
        UnsupportedError: it calls no computation of the module.
    """
    arrays = list(op.operands)[:-WINDOW_OPERANDS]
    flat = [number for each in numbers for number in each]
    with op.location, ir.InsertionPoint(op):
        attributes = {WINDOW: flat, **_stand_in(op)}
        types = [result.type for result in op.results]
        reduced = build.op("stablehlo.reduce_window", types, arrays, attributes, regions=1)
    module = op
    while module.parent is not None:
        module = module.parent.operation
    move_body(module, op, reduced.regions[0])
    for old, new in zip(op.results, reduced.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def _stand_in(op: ir.Operation) -> dict[str, Sequence[int] | ir.Attribute]:
    """The attributes of a `reduce_window`, which cannot hold Sizes: of a window of one element, padded or cut to the
    shape of the result, since the op's verifier computes with them. `hlo.window` counts."""
    shapes = zip(op.operands[0].type.shape, op.results[0].type.shape, strict=True)
    edges = [(0, after - before if DYNAMIC not in (before, after) else 0) for before, after in shapes]
    padding = ir.DenseIntElementsAttr.get(np.array(edges, np.int64).reshape(-1, 2))
    return {"window_dimensions": [1] * len(edges), "padding": padding}


def _custom_call(scope: Scope, op: ir.Operation) -> Shapes:
    target = target_of(op)
    if target in _ANNOTATIONS:
        return [scope.shape(op.operands[0])]
    if target in _TARGETS:
        check_call(op)
        return _TARGETS[target](scope, op)
    indices = shape_operands(op)
    if not indices:
        return declared(scope, op)
    if len(indices) != len(op.results):
        raise UnsupportedError(f"has {len(op.results)} results and shapes of {len(indices)}", op=op.name)
    return [scope.elements(op.operands[index]) for index in indices]


def _reduce_window(scope: Scope, op: ir.Operation) -> Shapes:
    window, strides, base, dilation, padding = (scope.elements(op.operands[i]) for i in sizes_of_call(op))
    shape = scope.shape(op.operands[0])
    for other in list(op.operands)[1 : len(op.results)]:
        shape = tuple(scope.unite(a, b) for a, b in zip(shape, scope.shape(other), strict=True))
    for number in (*window, *strides, *base, *dilation):
        scope.require_at_most(1, number)
    return [window_shape(shape, window, strides, padding, base, dilation)] * len(op.results)


def _top_k(scope: Scope, op: ir.Operation) -> Shapes:
    *outer, size = scope.shape(op.operands[0])
    (k,) = scope.elements(op.operands[1])
    scope.require_at_most(0, k)
    scope.require_at_most(k, size)
    return [(*outer, k)] * 2


def _rng_bit_generator(scope: Scope, op: ir.Operation) -> Shapes:
    return [scope.shape(op.operands[0]), scope.elements(op.operands[1])]


_TARGETS: dict[str, Callable[[Scope, ir.Operation], Shapes]] = {
    REDUCE_WINDOW: _reduce_window,
    "stablehlo.dynamic_top_k": _top_k,
    "stablehlo.dynamic_rng_bit_generator": _rng_bit_generator,
}
RULES.enter(_custom_call, "custom_call")
