"""Slices at computed places, gather, scatter."""

from __future__ import annotations

import numpy as np

from stablehlo_py.dialect import build
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.forms import form_of
from stablehlo_py.dialect.scatter_windows import mark_windows
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import element_type, i64s, is_integer, shape, static_shape, symints
from stablehlo_py.errors import shape_text
from stablehlo_py.legalize.closures import closed
from stablehlo_py.legalize.regions import combined, promote
from stablehlo_py.legalize.rules import Results, Unsupported, dimension_of, rule
from stablehlo_py.legalize.shape import broadcast_in_dim
from stablehlo_py.mlir import ir


@rule("stablehlo.dynamic_slice")
def dynamic_slice(op: ir.OpView) -> ir.Value:
    """Of a scalar it is the scalar."""
    operands = list(op.operands)
    if len(operands) == 1:
        return operands[0]
    return build.value("dynamic_slice", op.results[0].type, *operands, sizes=op.attributes["slice_sizes"])


@rule("stablehlo.dynamic_update_slice")
def dynamic_update_slice(op: ir.OpView) -> ir.Value:
    """Of a scalar it is the update."""
    operands = list(op.operands)
    return operands[1] if len(operands) == 2 else build.like("dynamic_update_slice", *operands)


@rule("stablehlo.slice", "stablehlo.real_dynamic_slice", "stablehlo.pad", "stablehlo.dynamic_pad")
def with_attributes(op: ir.OpView) -> ir.Value:
    """Attributes of other names, or given by operands, which must be constants."""
    form = in_hlo(op)
    return build.value(form.name, op.results[0].type, *form.operands, **form.attributes)


@rule("stablehlo.gather", "stablehlo.dynamic_gather")
def gather(op: ir.OpView) -> ir.Value:
    """The dimension numbers become attributes of their own. `indices_are_sorted` is a promise that nothing here
    needs."""
    form = in_hlo(op)
    if any(symints(form, "slice_sizes")[dimension] == 0 for dimension in i64s(form, "collapsed_slice_dims")):
        raise Unsupported("collapses a dimension of slices that has size 0", "use slices of size 1 there")
    return build.value(form.name, op.results[0].type, *form.operands, **form.attributes)


def in_hlo(op: ir.OpView) -> build.Form:
    """An op of `FORMS` as hlo has it. Raises Unsupported where an attribute is given by an operand that is no constant,
    or the result's shape is not known."""
    static_result(op)
    form = form_of(op, lambda operand: constant_operand(operand, "sizes, edges or steps").reshape(-1).tolist())
    assert form is not None
    return form


def constant_operand(value: ir.Value, name: str) -> np.ndarray:
    """The value of an operand that must be a constant; of an `hlo.const_size` an array of sizes. Raises Unsupported."""
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.name == "hlo.const_size":
        return np.array(symints(owner, "value"), object).reshape(shape(value))
    if isinstance(owner, ir.Block) or owner.name not in ("hlo.constant", "stablehlo.constant"):
        if not isinstance(owner, ir.Block) and owner.name == "hlo.broadcast":
            return np.broadcast_to(constant_operand(owner.operands[0], name), static_shape(value))
        raise Unsupported(f"has {name} that are no constant", "export the model with static shapes")
    return constant_value(owner)


@rule("stablehlo.torch_index_select")
def torch_index_select(op: ir.OpView) -> ir.Value:
    """Spec before version 1.0: `operand` indexed by `index` along `dim`, the first `batch_dims` dimensions paired: a
    gather."""
    operand, index = op.operands
    if not is_integer(element_type(index)) or element_type(operand) != element_type(op.results[0]):
        raise Unsupported(
            f"selects {element_type(op.results[0])} from {element_type(operand)} by {element_type(index)}",
            "index with integers; the result has the operand's elements",
        )
    source, places = shape(operand), shape(index)
    dim, batch = dimension_of(op, "dim", len(source)), dimension_of(op, "batch_dims", min(len(source), len(places)) + 1)
    if batch > dim:
        raise Unsupported(f"has batch_dims = {batch} and dim = {dim}", "batch dimensions come before dim")
    paired = list(range(batch))
    result = shape(op.results[0])
    gathered = (*source[:dim], *places[batch:], *source[dim + 1 :])
    pairs = [*zip(gathered, result, strict=False), *zip(source[:batch], places[:batch], strict=True)]
    known = [(a, b) for a, b in pairs if type(a) is int and type(b) is int]
    if len(gathered) != len(result) or any(a != b for a, b in known):
        selected = f"selects from {shape_text(source)} by indices {shape_text(places)}"
        raise Unsupported(f"{selected}, which gives no {shape_text(result)}", "correct dim, batch_dims or the types")
    # Result: operand dimensions before dim, index dimensions after the paired ones, operand dimensions after dim.
    before, inside = dim - batch, len(places) - batch
    first = batch + before + inside
    offsets = [batch + i for i in range(before)] + [first + i for i in range(len(source) - dim - 1)]
    sizes = [1 if i in paired or i == dim else size for i, size in enumerate(source)]
    return build.value(
        "gather",
        op.results[0].type,
        operand,
        index,
        offset_dims=offsets,
        collapsed_slice_dims=[dim],
        operand_batching_dims=paired,
        start_indices_batching_dims=paired,
        start_index_map=[dim],
        index_vector_dim=len(places),
        slice_sizes=sizes,
    )


@rule("stablehlo.scatter")
def scatter(op: ir.OpView) -> Results:
    """Kept, with hlo ops in its region. Operands are inputs, indices, updates; the body takes inputs, then updates."""
    count = len(op.results)
    numbers = [*range(count), *range(count + 1, 2 * count + 1)]
    promote(op, zip(numbers, combined(op), strict=True))
    mark_windows(op)
    return closed(op, count, len(op.operands))


def static_result(op: ir.OpView) -> tuple[IntLike, ...]:
    type_ = op.results[0].type
    if not type_.has_static_shape and not isinstance(type_.encoding, ir.StringAttr):
        raise Unsupported(f"has a result of dynamic shape, {type_}", "load the module with concrete argument shapes")
    return shape(op.results[0])


@rule("stablehlo.dynamic_broadcast_in_dim")
def dynamic_broadcast_in_dim(op: ir.OpView) -> ir.Value:
    """Where the result's sizes are known the shape operand says nothing new."""
    return broadcast_in_dim(op.operands[0], static_result(op), i64s(op, "broadcast_dimensions"))


@rule("stablehlo.dynamic_reshape")
def dynamic_reshape(op: ir.OpView) -> ir.Value:
    """Where the result's sizes are known the shape operand says nothing new."""
    return build.reshape(op.operands[0], static_result(op))


@rule("stablehlo.dynamic_iota")
def dynamic_iota(op: ir.OpView) -> ir.Value:
    """Where the result's sizes are known the shape operand says nothing new."""
    sizes = static_result(op)
    return build.value("iota", op.results[0].type, dimension=dimension_of(op, "iota_dimension", len(sizes)))


@rule("stablehlo.set_dimension_size")
def set_dimension_size(op: ir.OpView) -> ir.Value:
    """The elements below the new size: a slice."""
    operand, size = op.operands
    sizes = shape(operand)
    changed = dimension_of(op, "dimension", len(sizes))
    given = constant_operand(size, "sizes").reshape(-1).tolist()[0]
    if shape(op.results[0])[changed] != given:
        raise Unsupported("makes a dimension dynamic", "export the model with static shapes")
    if given == sizes[changed]:
        return operand
    limit = [given if number == changed else each for number, each in enumerate(sizes)]
    return build.slice_(operand, [0] * len(sizes), limit)
