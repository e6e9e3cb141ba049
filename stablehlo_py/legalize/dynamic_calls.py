"""Custom calls by which JAX writes ops whose attributes are known at run time, as `stablehlo.dynamic_reduce_window`.
Their last operands, each an `hlo.size` in modules with symbolic shapes, become the attributes."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect import build
from stablehlo_py.dialect.size import is_known
from stablehlo_py.dialect.types import element_type, is_bool, rank
from stablehlo_py.dialect.verify import REDUCTION_KINDS
from stablehlo_py.legalize.chlo_structure import first_sorted
from stablehlo_py.legalize.indexing import constant_operand
from stablehlo_py.legalize.regions import called_computation
from stablehlo_py.legalize.rules import Results, Unsupported, keyword, terminator
from stablehlo_py.mlir import ir


def dynamic_reduce_window(op: ir.OpView) -> Sequence[ir.Value]:
    """Operands: values, an initial value for each, then dimensions, strides, base dilations, window dilations (a
    tensor<Rxi32> each) and padding (tensor<Rx2xi32>). The called computation combines."""
    *values, window, strides, base, dilation, padding = op.operands
    if len(values) != 2:
        raise Unsupported("reduces several operands in windows of dynamic size", "specialize, or export static shapes")
    operand, init = values
    if rank(padding) != 2 or rank(window) != 1:
        raise Unsupported("is not a dynamic_reduce_window as JAX writes it", "export the model with JAX")
    attributes = {"window": window, "strides": strides, "base_dilation": base, "window_dilation": dilation}
    numbers = {name: constant_operand(value, name).reshape(-1).tolist() for name, value in attributes.items()}
    numbers["padding"] = constant_operand(padding, "padding").reshape(-1).tolist()
    return [build.value("reduce_window", op.results[0].type, operand, init, kind=_kind(op), **numbers)]


def _kind(op: ir.OpView) -> str:
    """The reduction that the called computation is."""
    block = called_computation(op).regions[0].blocks[0]
    first, last = block.operations[0], terminator(block)
    kind = first.operation.name.removeprefix("stablehlo.")
    logical = kind in ("and", "or", "xor")
    simple = kind in REDUCTION_KINDS and list(last.operands) == list(first.operation.results)
    if not simple or set(first.operands) != set(block.arguments) or is_bool(element_type(op.operands[0])) != logical:
        what = "reduces windows of dynamic size by a computation of its own"
        raise Unsupported(what, "specialize, or export static shapes")
    return kind


def dynamic_top_k(op: ir.OpView) -> Results:
    """Operands: values, and how many of them are wanted."""
    operand, count = op.operands
    (k,) = constant_operand(count, "k").reshape(-1).tolist()
    if not is_known(k):
        return first_sorted(op, k, "GT")
    return list(build.op("hlo.top_k", [result.type for result in op.results], [operand], {"k": k}).results)


def dynamic_rng_bit_generator(op: ir.OpView) -> Sequence[ir.Value]:
    """Operands: the state, and the shape of the bits."""
    types = [result.type for result in op.results]
    algorithm = keyword(op.attributes["rng_algorithm"])
    return list(build.op("hlo.rng_bit_generator", types, [op.operands[0]], {"algorithm": algorithm}).results)
