"""Ops that the specification defines by `dequantize_op_quantize`, and conversions."""

from __future__ import annotations

import numpy as np

from stablehlo_py.dialect import build
from stablehlo_py.dialect.constants import to_numpy
from stablehlo_py.dialect.quantized import Quantized
from stablehlo_py.dialect.types import is_unsigned, shape
from stablehlo_py.legalize.quantized import emit
from stablehlo_py.legalize.quantized.affine import center, dequantize, quantize, requantize, saturate, wide_integer
from stablehlo_py.legalize.quantized.rules import RULES, Reading, Results, common, quantization, rule
from stablehlo_py.mlir import ir

_ELEMENTWISE = """
    abs add atan2 cbrt ceil clamp cosine divide exponential exponential_minus_one floor log log_plus_one logistic
    maximum minimum multiply negate power reduce_precision remainder round_nearest_afz round_nearest_even rsqrt select
    sign sine sqrt subtract tan tanh
"""
_WHOLE = "batch_norm_grad batch_norm_inference batch_norm_training cholesky einsum triangular_solve unary_einsum"
_BROADCASTING = "add atan2 compare divide maximum minimum multiply power remainder select subtract"
# Scales are positive: where all values are quantized alike, these mean the same on the stored integers.
_MONOTONIC = frozenset({"clamp", "maximum", "minimum", "select"})


def dequantize_op_quantize(op: ir.OpView, of: Reading) -> list[ir.Value]:
    """The specification's `dequantize_op_quantize`: the op on real values, its results quantized."""
    real = op.operation.clone()
    for number, operand in enumerate(op.operands):
        quantized = of(operand)
        if quantized is not None:
            with ir.InsertionPoint(real):
                real.operands[number] = dequantize(operand, quantized)
    results = []
    for old, new in zip(op.results, real.results, strict=True):
        quantized = of(old)
        if quantized is not None:
            new.set_type(build.tensor(shape(old), quantized.expressed))
        results.append(new if quantized is None else quantize(new, quantized))
    return results


def _elementwise(op: ir.OpView, of: Reading) -> Results:
    name = op.operation.name.removeprefix("stablehlo.")
    quantized = common(op, of)
    if name == "select":
        _, on_true, on_false = op.operands
        alike = of(on_true) == of(on_false) == of(op.results[0])
        return None if alike else dequantize_op_quantize(op, of)
    if quantized is not None and name in _MONOTONIC:
        return None
    if quantized is not None and name in ("add", "subtract"):
        return _sum(op, quantized, name)
    return dequantize_op_quantize(op, of)


def _sum(op: ir.OpView, quantized: Quantized, name: str) -> ir.Value:
    """With one scale, the sum is `(a - z) + b` and the difference `a - (b - z)`: exact in integers."""
    lhs, rhs = op.operands
    wide = wide_integer(quantized)
    if name == "add":
        total = emit.like("add", center(lhs, quantized, wide), emit.convert(rhs, wide))
    else:
        total = emit.like("subtract", emit.convert(lhs, wide), center(rhs, quantized, wide))
    return saturate(total, quantized)


@rule("stablehlo.compare")
def compare(op: ir.OpView, of: Reading) -> Results:
    """Order is that of the stored integers where both operands are quantized alike, else that of the real values."""
    lhs, rhs = op.operands
    quantized = of(lhs)
    kind = "FLOAT"
    if quantized == of(rhs) and quantized is not None:
        kind = "UNSIGNED" if is_unsigned(quantized.storage) else "SIGNED"
    op.attributes["compare_type"] = ir.Attribute.parse(f"#stablehlo<comparison_type {kind}>")
    return dequantize_op_quantize(op, of) if kind == "FLOAT" else None


@rule("stablehlo.is_finite")
def is_finite(op: ir.OpView, of: Reading) -> ir.Value:
    """Real values of stored integers are always finite."""
    type_ = op.results[0].type
    return emit.constant(np.asarray(True), shape(type_), type_.element_type)


@rule("stablehlo.uniform_quantize")
def uniform_quantize(op: ir.OpView, of: Reading) -> ir.Value:
    """Quantizes floats, requantizes what is quantized."""
    (operand,) = op.operands
    source, target = of(operand), quantization(op.results[0], of)
    return quantize(operand, target) if source is None else requantize(operand, source, target)


@rule("stablehlo.uniform_dequantize")
def uniform_dequantize(op: ir.OpView, of: Reading) -> ir.Value:
    """Real values."""
    return dequantize(op.operands[0], quantization(op.operands[0], of))


@rule("stablehlo.constant")
def constant(op: ir.OpView, of: Reading) -> ir.Value:
    """The literal of a quantized constant is its stored integers, signless also where the storage is unsigned."""
    return emit.literal(to_numpy(op.attributes["value"]), op.results[0].type.element_type)


@rule("stablehlo.iota", "stablehlo.dynamic_iota")
def iota(op: ir.OpView, of: Reading) -> ir.Value:
    """Specification, section iota: `quantize(output_index[iota_dimension])`."""
    (result,) = op.results
    quantized = quantization(result, of)
    real = build.tensor(shape(result), quantized.expressed)
    counted = emit.value("iota", real, iota_dimension=op.attributes["iota_dimension"])
    return quantize(counted, quantized)


RULES.enter(_elementwise, *(f"stablehlo.{name}" for name in _ELEMENTWISE.split()))
RULES.enter(dequantize_op_quantize, *(f"stablehlo.{name}" for name in _WHOLE.split()))
RULES.enter(dequantize_op_quantize, *(f"chlo.broadcast_{name}" for name in _BROADCASTING.split()))
