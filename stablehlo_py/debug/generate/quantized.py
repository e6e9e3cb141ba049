"""Quantized arithmetic between a quantization and a dequantization, with scales that are powers of two: what is not
rounded by an op's definition is exact. Storage is signed: upstream's pass, by which the interpreter knows quantized
ops, clamps unsigned storage to 127."""

from __future__ import annotations

from stablehlo_py.debug.generate.contractions import moderate
from stablehlo_py.debug.generate.draft import Draft, require, sizes
from stablehlo_py.debug.generate.families import Made, family
from stablehlo_py.mlir import ir

SCALES = ("1.25e-1", "2.5e-1", "5.0e-1")


def _type(d: Draft, shape: list[int]) -> ir.Type:
    dimensions = "x".join([*map(str, shape), ""])
    return ir.Type.parse(f"tensor<{dimensions}!quant.uniform<i8:f32, {d.one_of(SCALES)}:{d.whole(-3, 4)}>>")


def _expressed(d: Draft, x: ir.Value) -> ir.Value:
    return d.op("uniform_dequantize", x, results=[d.tensor(list(x.type.shape), ir.F32Type.get())])


@family(0.6)
def quantized_elementwise(d: Draft) -> Made:
    """A sum, extremum, clamp, move or requantization of quantized numbers."""
    x = d.pick(lambda value: str(value.type.element_type) == "f32" and value.type.has_static_shape)
    if x is None:
        require(not d.depth and d.kind != "symbolic")
        x = d.fresh(d.shape(), ir.F32Type.get())
    a = d.op("uniform_quantize", moderate(d, x), results=[_type(d, sizes(x))])
    way = d.whole(0, 4)
    if way == 0:
        b = d.op("uniform_quantize", moderate(d, d.like(x)), results=[a.type])
        name = d.one_of(("add", "maximum", "minimum", "subtract"))
        return _expressed(d, d.op(name, a, b, results=[a.type]))
    if way == 1:
        return _expressed(d, d.op("uniform_quantize", a, results=[_type(d, sizes(x))]))
    if way == 2:
        order = [int(axis) for axis in d.random.permutation(len(sizes(x)))]
        type_ = ir.RankedTensorType.get([sizes(x)[axis] for axis in order], a.type.element_type)
        return _expressed(d, d.op("transpose", a, results=[type_], permutation=order))
    return _expressed(d, a)


@family(0.6)
def quantized_dot(d: Draft) -> Made:
    """A product of matrices of quantized numbers, with sums in i32, which are then expressed exactly."""
    m, k, n = d.whole(1, 9), d.whole(1, 20), d.whole(1, 9)
    f32 = ir.F32Type.get()
    scales = [d.one_of(SCALES) for _ in range(2)]
    parts = []
    for shape, scale, zero in zip(([m, k], [k, n]), scales, (d.whole(-3, 4), 0), strict=True):
        type_ = ir.Type.parse(f"tensor<{shape[0]}x{shape[1]}x!quant.uniform<i8:f32, {scale}:{zero}>>")
        parts.append(d.op("uniform_quantize", moderate(d, d.fresh(shape, f32)), results=[type_]))
    product = float(scales[0]) * float(scales[1])
    result = ir.Type.parse(f"tensor<{m}x{n}x!quant.uniform<i32:f32, {product:e}>>")
    numbers = "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>"
    return _expressed(d, d.op("dot_general", *parts, results=[result], dot_dimension_numbers=numbers))
