"""Custom calls by which JAX writes ops whose attributes are known at run time, as `stablehlo.dynamic_top_k`. Their last
operands, each an `hlo.size` in modules with symbolic shapes, become the attributes. (`dynamic_reduce_window` is an op
with a region since `symbolize`.)"""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect import build
from stablehlo_py.dialect.size import is_known
from stablehlo_py.dialect.stablehlo import keyword
from stablehlo_py.legalize.chlo_structure import first_sorted
from stablehlo_py.legalize.indexing import constant_operand
from stablehlo_py.legalize.rules import Results
from stablehlo_py.mlir import ir


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
