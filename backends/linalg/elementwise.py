"""Elementwise ops: a linalg.generic whose body is the scalar op.

Real functions that the math dialect knows are its ops, which every compiler lowers in its own way. The others, complex
ones, and conversions of narrow floats are written out as for other targets (`codegen/arith.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.backends.linalg.rules import RULES, at_index
from stablehlo_py.backends.linalg.tensors import Tensor, TensorFunction
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.types import Element, Lanes, element
from stablehlo_py.dialect.ops import records
from stablehlo_py.dialect.types import static_shape
from stablehlo_py.mlir import ir

MATH = {
    "acos": "acos",
    "acosh": "acosh",
    "asin": "asin",
    "asinh": "asinh",
    "atan2": "atan2",
    "atanh": "atanh",
    "cbrt": "cbrt",
    "cosh": "cosh",
    "cosine": "cos",
    "erf": "erf",
    "erfc": "erfc",
    "exponential": "exp",
    "exponential_minus_one": "expm1",
    "log": "log",
    "log_plus_one": "log1p",
    "power": "powf",
    "rsqrt": "rsqrt",
    "sine": "sin",
    "sinh": "sinh",
    "sqrt": "sqrt",
    "tan": "tan",
    "tanh": "tanh",
}


def apply(f: TensorFunction, op: ir.OpView | ir.Operation, operands: Sequence[Lanes]) -> Lanes:
    """The result of an elementwise op on scalars."""
    of, name = element(op.results[0]), op.operation.name.removeprefix("hlo.")
    if of.is_float and name in MATH:
        return arith.rounded(f, of, f.intrinsic(f"math.{MATH[name]}", *operands))  # type: ignore[arg-type]
    return arith.apply(f, op, operands)


def _elementwise(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    (result,) = op.results
    if op.operation.name == "hlo.bitcast_convert" and not _same_width(element(op.operands[0]), element(result)):
        return at_index(f, op, tensors)
    return [f.each_element(static_shape(result), element(result), tensors, lambda *lanes: apply(f, op, lanes))]


def _same_width(a: Element, b: Element) -> bool:
    return a.bits == b.bits and not (a.is_complex or b.is_complex)


for _record in records():
    if _record.elementwise or _record.name == "hlo.bitcast_convert":
        RULES.enter(_elementwise, _record.name)
