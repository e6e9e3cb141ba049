"""Batch normalization, expanded by the formulas of the StableHLO spec (sections batch_norm_inference, _training,
_grad). Floats below 32 bits are computed with in f32: squares and their sums leave a small type's range long before
variances do."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect import build
from stablehlo_py.dialect.types import element_type, i64, num_elements, rank, shape
from stablehlo_py.legalize.rules import rule
from stablehlo_py.mlir import ir


class _Normalization:
    """The pieces that the three ops share: everything is per element of the feature dimension."""

    def __init__(self, op: ir.OpView) -> None:
        self.types = [result.type for result in op.results]
        self.element = ir.F32Type.get() if element_type(op.results[0]).width < 32 else element_type(op.results[0])
        self.operands = [build.convert(value, self.element) for value in op.operands]
        self.operand = self.operands[0]
        self.feature = i64(op, "feature_index")
        self.epsilon = op.attributes["epsilon"].value
        self.sizes = shape(self.operand)
        self.others = [i for i in range(rank(self.operand)) if i != self.feature]
        self.count = num_elements(self.operand) // max(1, self.sizes[self.feature])

    def results(self, *values: ir.Value) -> list[ir.Value]:
        """The values, of the element types of the op's results."""
        return [build.convert(value, type_.element_type) for value, type_ in zip(values, self.types, strict=True)]

    def wide(self, per_feature: ir.Value) -> ir.Value:
        return build.broadcast(per_feature, self.sizes, [self.feature])

    def sum(self, value: ir.Value) -> ir.Value:
        zero = build.splat(0, build.tensor([], self.element))
        return build.made("reduce", value, zero, kind="add", dimensions=self.others)

    def mean(self, value: ir.Value) -> ir.Value:
        total = self.sum(value)
        return build.like("divide", total, build.splat(int(self.count), total.type))

    def centered(self, mean: ir.Value) -> ir.Value:
        return build.like("subtract", self.operand, self.wide(mean))

    def deviation(self, variance: ir.Value) -> ir.Value:
        return build.like("sqrt", build.like("add", variance, build.splat(self.epsilon, variance.type)))

    def normalized(self, mean: ir.Value, variance: ir.Value, scale: ir.Value, offset: ir.Value) -> ir.Value:
        quotient = build.like("divide", self.centered(mean), self.wide(self.deviation(variance)))
        return build.like("add", build.like("multiply", quotient, self.wide(scale)), self.wide(offset))


@rule("stablehlo.batch_norm_inference")
def batch_norm_inference(op: ir.OpView) -> ir.Value:
    """`(operand - mean) / sqrt(variance + epsilon) * scale + offset`."""
    norm = _Normalization(op)
    _, scale, offset, mean, variance = norm.operands
    return norm.results(norm.normalized(mean, variance, scale, offset))[0]


@rule("stablehlo.batch_norm_training")
def batch_norm_training(op: ir.OpView) -> Sequence[ir.Value]:
    """Mean and (biased) variance of the batch, then as in inference; results: output, mean, variance."""
    norm = _Normalization(op)
    _, scale, offset = norm.operands
    mean = norm.mean(norm.operand)
    centered = norm.centered(mean)
    variance = norm.mean(build.like("multiply", centered, centered))
    return norm.results(norm.normalized(mean, variance, scale, offset), mean, variance)


@rule("stablehlo.batch_norm_grad")
def batch_norm_grad(op: ir.OpView) -> Sequence[ir.Value]:
    """Results: gradients of operand, scale and offset; the names are those of the spec."""
    norm = _Normalization(op)
    _, scale, mean, variance, grad_output = norm.operands
    centered = norm.centered(mean)
    deviation = norm.wide(norm.deviation(variance))
    per_element = build.like("multiply", grad_output, build.splat(int(norm.count), grad_output.type))
    i2 = norm.wide(norm.sum(grad_output))
    i3 = norm.wide(norm.sum(build.like("multiply", grad_output, centered)))
    i4 = build.like("multiply", i3, centered)
    wide_variance = norm.wide(build.like("add", variance, build.splat(norm.epsilon, variance.type)))
    i5 = build.like("divide", i4, wide_variance)
    i6 = build.like("subtract", build.like("subtract", per_element, i2), i5)
    factor = build.like(
        "divide", build.like("divide", norm.wide(scale), deviation), build.splat(int(norm.count), i6.type)
    )
    grad_operand = build.like("multiply", factor, i6)
    grad_scale = norm.sum(build.like("multiply", grad_output, build.like("divide", centered, deviation)))
    return norm.results(grad_operand, grad_scale, norm.sum(grad_output))
