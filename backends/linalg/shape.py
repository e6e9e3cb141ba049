"""Ops that move elements: broadcasts and transposes are maps of a linalg.generic; reshapes, slices, pads and
concatenations are ops of tensor."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.backends.linalg.rules import RULES, at_index
from stablehlo_py.backends.linalg.tensors import Tensor, TensorFunction, identity
from stablehlo_py.codegen.builder import Index
from stablehlo_py.codegen.conversions import as_index
from stablehlo_py.codegen.types import Known, Lanes, element
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.types import i64, i64s, static_shape
from stablehlo_py.mlir import ir

rule = RULES.rule


@rule("hlo.constant", "hlo.const_size")
def _constant(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    value, of, sizes = constant_value(op), element(op.results[0]), static_shape(op.results[0])
    type_ = f.empty_type(sizes, of)
    if 0 in sizes:
        listed = ""
    elif of.kind == "bool":
        listed = str(value.tolist()).lower()
    else:
        one = value if any(value.strides) else value[(slice(0, 1),) * value.ndim]
        data = one.astype(one.dtype.newbyteorder("<")) if one.dtype.kind in "fiuc" else one
        listed = f'"0x{data.tobytes().hex().upper()}"'
    return [f.tensor(f"arith.constant dense<{listed}> : {type_}", sizes, of)]


@rule("hlo.sharding_constraint", "stablehlo.optimization_barrier")
def _same(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    return list(tensors)


@rule("hlo.broadcast")
def _broadcast(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    sizes, (operand,) = static_shape(op.results[0]), tensors
    from_ = ", ".join(f"d{dimension}" for dimension in i64s(op, "dimensions"))
    return f.generic(
        [(operand, from_)], [(f.empty(sizes, operand.of), identity(len(sizes)))], "p" * len(sizes), lambda x: [x]
    )


@rule("hlo.transpose")
def _transpose(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    (operand,), order = tensors, i64s(op, "permutation")
    return [transposed(f, operand, order)]


def transposed(f: TensorFunction, operand: Tensor, order: Sequence[int]) -> Tensor:
    """Dimension i of the result is dimension `order[i]` of the operand."""
    to = f.empty([operand.sizes[dimension] for dimension in order], operand.of)
    listed = ", ".join(map(str, order))
    text = f"linalg.transpose ins({operand.ref} : {operand.type}) outs({to.ref} : {to.type}) permutation = [{listed}]"
    return f.tensor(text, to.sizes, to.of) if len(order) else operand


@rule("hlo.reshape")
def _reshape(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    return [reshaped(f, tensors[0], static_shape(op.results[0]))]


def reshaped(f: TensorFunction, operand: Tensor, sizes: Sequence[int]) -> Tensor:
    """The same elements in row-major order, by collapsing dimensions, then expanding them."""
    if operand.sizes == tuple(sizes):
        return operand
    if 0 in sizes:
        return f.empty(sizes, operand.of)
    groups = _groups(operand.sizes, sizes)
    between = [_product(operand.sizes, group) for group, _ in groups]
    if len(between) != len(operand.sizes):
        result = f.empty_type(between, operand.of)
        listed = _nested([group for group, _ in groups])
        text = f"tensor.collapse_shape {operand.ref} {listed} : {operand.type} into {result}"
        operand = f.tensor(text, between, operand.of)
    if len(between) != len(sizes):
        result = f.empty_type(sizes, operand.of)
        shown = f"{_nested([group for _, group in groups])} output_shape {list(sizes)}"
        operand = f.tensor(
            f"tensor.expand_shape {operand.ref} {shown} : {operand.type} into {result}", sizes, operand.of
        )
    return operand


def _groups(source: Sequence[int], target: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Runs of dimensions of both sides that hold the same elements; every run has one of each side, or there are
    none."""
    if not source or not target:
        return []
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(source) and j < len(target):
        left, right = [i], [j]
        while (a := _product(source, left)) != (b := _product(target, right)):
            if a < b:
                left.append(left[-1] + 1)
            else:
                right.append(right[-1] + 1)
        groups.append((left, right))
        i, j = left[-1] + 1, right[-1] + 1
    groups[-1][0].extend(range(i, len(source)))  # of size 1
    groups[-1][1].extend(range(j, len(target)))
    return groups


def _product(sizes: Sequence[int], group: Sequence[int]) -> int:
    product = 1
    for dimension in group:
        product *= sizes[dimension]
    return product


def _nested(groups: Sequence[Sequence[int]]) -> str:
    return str([list(group) for group in groups])


def sliced(
    f: TensorFunction, operand: Tensor, starts: Sequence[Index], sizes: Sequence[int], strides: Sequence[int]
) -> Tensor:
    """tensor.extract_slice."""
    at = ", ".join(_offset(f, start) for start in starts)
    result = f.empty_type(sizes, operand.of)
    text = f"tensor.extract_slice {operand.ref}[{at}] {list(sizes)} {list(strides)} : {operand.type} to {result}"
    return f.tensor(text, sizes, operand.of)


def with_slice(
    f: TensorFunction, part: Tensor, whole: Tensor, starts: Sequence[Index], strides: Sequence[int] | None = None
) -> Tensor:
    """tensor.insert_slice."""
    at, steps = ", ".join(_offset(f, start) for start in starts), list(strides or [1] * len(part.sizes))
    text = f"tensor.insert_slice {part.ref} into {whole.ref}[{at}] {list(part.sizes)} {steps}"
    return f.tensor(f"{text} : {part.type} into {whole.type}", whole.sizes, whole.of)


def _offset(f: TensorFunction, start: Index) -> str:
    return str(start) if isinstance(start, int) else f.as_index(start).ref


@rule("hlo.slice")
def _slice(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    sizes = static_shape(op.results[0])
    if 0 in sizes:
        return [f.empty(sizes, tensors[0].of)]
    return [sliced(f, tensors[0], i64s(op, "start"), sizes, i64s(op, "strides"))]


@rule("hlo.dynamic_slice")
def _dynamic_slice(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    operand, *starts = tensors
    sizes = static_shape(op.results[0])
    if 0 in sizes:
        return [f.empty(sizes, operand.of)]
    return [sliced(f, operand, _clamped(f, starts, operand.sizes, sizes), sizes, [1] * len(sizes))]


@rule("hlo.dynamic_update_slice")
def _dynamic_update_slice(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    operand, update, *starts = tensors
    if 0 in update.sizes:
        return [operand]
    return [with_slice(f, update, operand, _clamped(f, starts, operand.sizes, update.sizes))]


def _clamped(f: TensorFunction, starts: Sequence[Tensor], sizes: Sequence[int], window: Sequence[int]) -> list[Index]:
    found: list[Index] = []
    for start, size, width in zip(starts, sizes, window, strict=True):
        number: Known = f.element(start)
        found.append(f.imax(f.imin(as_index(f, start.of, number), size - width), 0))
    return found


@rule("hlo.pad")
def _pad(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    low, high, sizes = i64s(op, "low"), i64s(op, "high"), static_shape(op.results[0])
    if 0 in tensors[0].sizes:
        return [f.filled(f.element(tensors[1]), sizes, tensors[0].of)]
    if any(i64s(op, "interior")) or min((*low, *high), default=0) < 0 or not sizes:
        return at_index(f, op, tensors)
    return [padded(f, tensors[0], low, high, f.element(tensors[1]))]


def padded(f: TensorFunction, operand: Tensor, low: Sequence[int], high: Sequence[int], value: Lanes) -> Tensor:
    """A larger tensor, filled with a scalar around the operand."""
    if not any((*low, *high)):
        return operand
    sizes = [size + a + b for size, a, b in zip(operand.sizes, low, high, strict=True)]
    return with_slice(f, operand, f.filled(value, sizes, operand.of), low)


@rule("stablehlo.concatenate")
def _concatenate(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    dimension, sizes = i64(op, "dimension"), static_shape(op.results[0])
    result, begin = f.empty(sizes, tensors[0].of), 0
    for tensor in tensors:
        if 0 not in tensor.sizes:
            result = with_slice(f, tensor, result, [begin if d == dimension else 0 for d in range(len(sizes))])
        begin += tensor.sizes[dimension]
    return [result]
