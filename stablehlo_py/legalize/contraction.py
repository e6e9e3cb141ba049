"""Matrix products and convolutions. Precision and algorithm attributes ask for at least some accuracy: every kernel
gives the most."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect import build
from stablehlo_py.dialect.ops.contraction import dot_shape
from stablehlo_py.dialect.types import element_type, is_complex, is_float, is_integer, rank, shape, symints
from stablehlo_py.legalize.indexing import in_hlo
from stablehlo_py.legalize.rules import Unsupported, rule
from stablehlo_py.mlir import ir

_KINDS = (is_integer, is_float, is_complex)


def product(
    name: str, type_: ir.Type, lhs: ir.Value, rhs: ir.Value, **attributes: int | Sequence[int] | ir.Attribute
) -> ir.Value:
    """`hlo.dot` or `hlo.convolution`, whose operands and result are of one kind: integers, floats or complex numbers.

    The specification has no others (dot_general C21, convolution C26); XLA does, and JAX's `preferred_element_type`
    asks for them. As there, the product is one of the widest kind among the three, in f64 if one of them is that and
    else in f32, and the result is converted.
    """
    elements = [element_type(lhs), element_type(rhs), element_type(type_)]
    if elements[0] == elements[1] == elements[2]:
        return build.value(name, type_, lhs, rhs, **attributes)
    kinds = [next(rank for rank, belongs in enumerate(_KINDS) if belongs(each)) for each in elements]
    if len(set(kinds)) == 1:
        return build.value(name, type_, lhs, rhs, **attributes)
    parts = [each.element_type if is_complex(each) else each for each in elements]
    part = next((each for each in parts if isinstance(each, ir.F64Type)), ir.F32Type.get())
    wide = ir.ComplexType.get(part) if max(kinds) == _KINDS.index(is_complex) else part
    operands = [
        operand if kind == max(kinds) else build.convert(operand, wide)
        for operand, kind in zip((lhs, rhs), kinds, strict=False)
    ]
    if kinds[-1] == max(kinds):
        return build.value(name, type_, *operands, **attributes)
    return build.value("convert", type_, build.value(name, build.tensor(shape(type_), wide), *operands, **attributes))


def dot(
    lhs: ir.Value,
    rhs: ir.Value,
    element: ir.Type,
    batch: tuple[Sequence[int], Sequence[int]],
    contract: tuple[Sequence[int], Sequence[int]],
) -> ir.Value:
    """`hlo.dot` with its inferred shape: batch, free dimensions of lhs, free dimensions of rhs."""
    sizes = dot_shape(shape(lhs), shape(rhs), batch, contract)
    return product(
        "dot",
        build.tensor(sizes, element),
        lhs,
        rhs,
        lhs_batch=batch[0],
        rhs_batch=batch[1],
        lhs_contract=contract[0],
        rhs_contract=contract[1],
    )


@rule("stablehlo.dot", "stablehlo.dot_general")
def dot_general(op: ir.OpView) -> ir.Value:
    """The dimension numbers become attributes of their own."""
    form = in_hlo(op)
    return product(form.name, op.results[0].type, *form.operands, **form.attributes)


@rule("stablehlo.convolution", "stablehlo.dynamic_conv")
def convolution(op: ir.OpView) -> ir.Value:
    """The same; absent attributes get their defaults."""
    form = in_hlo(op)
    strides, spatial = len(symints(form, "strides")), rank(op.operands[0]) - 2
    if strides != spatial:
        raise Unsupported(f"has {strides} strides for {spatial} spatial dimensions", "give one for each")
    return product(form.name, op.results[0].type, *form.operands, **form.attributes)
