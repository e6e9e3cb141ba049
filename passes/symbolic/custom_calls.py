"""Custom calls whose results have dynamic shapes: their shapes, and the operands that say them.

JAX gives any call of dynamic results `indices_of_shape_operands`, the operands (the last ones) that hold the results'
shapes; `symbolize` drops them. Targets "stablehlo.dynamic_*" are ops whose attributes are operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stablehlo_py.dialect.size import Number
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir
from stablehlo_py.passes.symbolic.shapes import RULES, Scope, Shape, declared, window_shape

_INDICES = "indices_of_shape_operands"
# Custom calls that hand on their operand.
_ANNOTATIONS = frozenset(("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement"))
WINDOW_OPERANDS = 5  # of dynamic_reduce_window: dimensions, strides, base dilations, window dilations, padding


def target_of(op: ir.Operation) -> str:
    """The target of a custom call."""
    return str(op.attributes["call_target_name"].value)


def size_operands(op: ir.Operation) -> tuple[int, ...]:
    """Operands that hold sizes, and stay."""
    target, count = target_of(op), len(op.operands)
    if target == "stablehlo.dynamic_reduce_window":
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


def _custom_call(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    target = target_of(op)
    if target in _ANNOTATIONS:
        return [scope.shape(op.operands[0])]
    if target in _TARGETS:
        return _TARGETS[target](scope, op)
    indices = shape_operands(op)
    if not indices:
        return declared(scope, op)
    if len(indices) != len(op.results):
        raise UnsupportedError(f"has {len(op.results)} results and shapes of {len(indices)}", op=op.name)
    return [scope.elements(op.operands[index]) for index in indices]


def _reduce_window(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    window, strides, base, dilation, padding = (scope.elements(op.operands[i]) for i in size_operands(op))
    shape = scope.shape(op.operands[0])
    for other in list(op.operands)[1 : len(op.results)]:
        shape = tuple(scope.unite(a, b, op) for a, b in zip(shape, scope.shape(other), strict=True))
    return [window_shape(shape, window, strides, padding, base, dilation)] * len(op.results)


def _top_k(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    *outer, size = scope.shape(op.operands[0])
    (k,) = scope.elements(op.operands[1])
    scope.require_at_most(k, size, op)
    return [(*outer, k)] * 2


def _rng_bit_generator(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    return [scope.shape(op.operands[0]), scope.elements(op.operands[1])]


_TARGETS: dict[str, Callable[[Scope, ir.Operation], Sequence[tuple[Number, ...]]]] = {
    "stablehlo.dynamic_reduce_window": _reduce_window,
    "stablehlo.dynamic_top_k": _top_k,
    "stablehlo.dynamic_rng_bit_generator": _rng_bit_generator,
}
RULES["stablehlo.custom_call"] = _custom_call
