"""CHLO functions on floats below 32 bits: computed in f32 and rounded once.

Upstream expands CHLO into sums and products of StableHLO in the operand's own type, where every step would round to a
few bits (and expands some functions for f16 and wider only).

    %1 = chlo.acosh %0 : f8E5M2   ==>   %1 = stablehlo.convert %0 : f8E5M2 -> f32
                                        %2 = chlo.acosh %1 : f32
                                        %3 = stablehlo.convert %2 : f32 -> f8E5M2
"""

from __future__ import annotations

from stablehlo_py.dialect import build
from stablehlo_py.dialect.types import element_type, is_float, shape
from stablehlo_py.mlir import ir

_FUNCTIONS = frozenset(
    f"chlo.{name}"
    for name in (
        "acos acosh asin asinh atan atanh bessel_i1e cosh digamma erf_inv erfc lgamma polygamma sinh zeta"
    ).split()
)


def compute_in_f32(function: ir.OpView) -> None:
    """Widen the operands of every such op in a function and narrow its result."""
    found: list[ir.Operation] = []

    def collect(op: ir.Operation) -> ir.WalkResult:
        if op.name in _FUNCTIONS and is_float(element_type(op.result)) and element_type(op.result).width < 32:
            found.append(op)
        return ir.WalkResult.ADVANCE

    function.operation.walk(collect)
    for op in found:
        with ir.InsertionPoint(op), op.location:
            wide = build.tensor(shape(op.result), ir.F32Type.get())
            operands = [build.op("stablehlo.convert", [wide], [operand]).result for operand in op.operands]
            exact = build.op(op.name, [wide], operands).result
            narrow = build.op("stablehlo.convert", [op.result.type], [exact]).result
        op.result.replace_all_uses_with(narrow)
        op.erase()
