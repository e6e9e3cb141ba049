"""`ApproxTopK`, the custom call of `jax.lax.approx_max_k` and `approx_min_k`: an approximation on TPUs only.

Operands: values and what goes with them (JAX: their indices), then an initial value for each, which is for TPUs. The
first called computation orders two values (arguments: value, value, companion, companion). As in XLA on other devices,
the operands are sorted along `reduction_dim`, and the first elements are the results.
"""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect import build
from stablehlo_py.dialect.call_signatures import called_function
from stablehlo_py.dialect.custom_call import configuration
from stablehlo_py.dialect.edit import terminator
from stablehlo_py.dialect.types import rank, shape
from stablehlo_py.legalize.chlo_structure import stable_sort
from stablehlo_py.legalize.elementwise import compare
from stablehlo_py.legalize.rules import Unsupported
from stablehlo_py.mlir import ir


def approx_top_k(op: ir.OpView) -> Sequence[ir.Value]:
    """A stable sort and slices of its results."""
    entries = configuration(op)
    count = len(op.results)
    operands = list(op.operands)[:count]
    dimension = entries["reduction_dim"].value % len(shape(operands[0]))
    order = _order(op)

    def before(left: ir.Value, right: ir.Value) -> ir.Value:
        copy = order.operation.clone()
        copy.operands[0], copy.operands[1] = left, right
        answer = compare(copy.opview)
        copy.erase()
        return answer

    ordered, zeros = stable_sort(operands, dimension, before), [0] * rank(operands[0])
    return [build.slice_(value, zeros, shape(result)) for value, result in zip(ordered, op.results, strict=True)]


def _order(op: ir.OpView) -> ir.OpView:
    """The comparison that the called computation is."""
    function = called_function(op)
    assert function is not None  # what the call takes was checked
    block = function.regions[0].blocks[0]
    first, last = block.operations[0], terminator(block)
    compares = first.operation.name == "stablehlo.compare" and list(first.operands) == list(block.arguments)[:2]
    if compares and list(last.operands) == [first.operation.result]:
        return first
    raise Unsupported("has an order that is not one comparison", "use jax.lax.top_k")
