"""Whole algorithms: factorizations, transforms, random bits."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect import build
from stablehlo_py.dialect.ops.algorithms import fft_operand_sizes
from stablehlo_py.dialect.stablehlo import keyword
from stablehlo_py.dialect.types import flag, i64s, shape
from stablehlo_py.legalize.rules import Unsupported, refuse, rule
from stablehlo_py.mlir import ir


@rule("stablehlo.cholesky")
def cholesky(op: ir.OpView) -> ir.Value:
    """`lower` becomes explicit."""
    return build.like("cholesky", op.operands[0], lower=flag(op, "lower"))


@rule("stablehlo.triangular_solve")
def triangular_solve(op: ir.OpView) -> ir.Value:
    """Enums become words. TRANSPOSE_INVALID (the old default) means none."""
    transpose = keyword(op.attributes["transpose_a"])
    return build.value(
        "triangular_solve",
        op.results[0].type,
        *op.operands,
        left_side=flag(op, "left_side"),
        lower=flag(op, "lower"),
        unit_diagonal=flag(op, "unit_diagonal"),
        transpose_a="NO_TRANSPOSE" if transpose == "TRANSPOSE_INVALID" else transpose,
    )


@rule("stablehlo.fft")
def fft(op: ir.OpView) -> ir.Value:
    """Enums become words. Upstream's verifier does not compare all sizes with `fft_length`."""
    length, kind = i64s(op, "fft_length"), keyword(op.attributes["fft_type"])
    taken, sizes = fft_operand_sizes(kind, length), shape(op.operands[0])[-len(length) :]
    if sizes != taken:
        raise Unsupported(f"transforms dimensions of sizes {list(sizes)}", f"this {kind} takes {list(taken)}")
    return build.value("fft", op.results[0].type, op.operands[0], kind=kind, length=length)


@rule("stablehlo.rng_bit_generator")
def rng_bit_generator(op: ir.OpView) -> Sequence[ir.Value]:
    """Enums become words."""
    algorithm = keyword(op.attributes["rng_algorithm"])
    lengths = (2,) if algorithm == "THREE_FRY" else (2, 3)
    if shape(op.operands[0])[0] not in lengths:
        allowed = " or ".join(f"tensor<{length}xui64>" for length in lengths)
        raise Unsupported(f"asks for {algorithm} with a state of type {op.operands[0].type}", f"use {allowed}")
    types = [result.type for result in op.results]
    return list(build.op("hlo.rng_bit_generator", types, list(op.operands), {"algorithm": algorithm}).results)


refuse(
    "computes on quantized types",
    "run the pass legalize-quantized first",
    "stablehlo.uniform_quantize",
    "stablehlo.uniform_dequantize",
)
