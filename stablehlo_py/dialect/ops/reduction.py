"""Reductions by one elementwise op, the combiner, whose record says what it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from stablehlo_py.dialect.ops.factors import Builder, Kind, at, common_but, others
from stablehlo_py.dialect.ops.record import Array, Hlo, Record, Shape, Shapes, op, record_of, records
from stablehlo_py.dialect.ops.shape import pad_array, window_positions
from stablehlo_py.dialect.rounding import cast, is_float_dtype, widened
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import element_type, i64s, is_bool, is_integer, rank, shape, symints, text
from stablehlo_py.dialect.verify import Conditions, one_of, require, require_dimensions, same_elements, scalar_like
from stablehlo_py.dialect.window import NAMES, window_of, window_shape, windows_of
from stablehlo_py.mlir import ir

_NUMPY_FLOATS = frozenset(map(np.dtype, (np.float16, np.float32, np.float64)))
#: What a reduction may combine by: the commutative and associative ops that have an identity element.
REDUCTION_KINDS = tuple(each.mnemonic for each in records() if each.identity is not None)


# A region of scalars, applied lane by lane: from as many arrays as it has arguments.
Body = Callable[..., Sequence[Array]]


def combiner(kind: str) -> Record:
    """The record of the elementwise op that a reduction of this kind combines by."""
    record = record_of(f"{Hlo.DIALECT_NAMESPACE}.{kind}")
    assert record is not None
    return record


def reduction_kind(op: ir.OpView) -> None:
    """The combiner of a reduction."""
    kind, element = text(op, "kind"), element_type(op.operands[0])
    one_of("kind", REDUCTION_KINDS)(op)
    if combiner(kind).elements == "integer or i1":
        require(is_integer(element), f"kind {kind} needs integers or i1, not {element}")
    else:
        require(not is_bool(element), f"kind {kind} on i1 is logic: write and, or")


def reduced(operands: Sequence[Array], dimensions: Sequence[int], combine: Body) -> list[Array]:
    """Arrays reduced together, in row-major order, each from its initial value (the second half of the operands)."""
    count = len(operands) // 2
    inputs, initial = operands[:count], operands[count:]
    kept = others(inputs[0].ndim, dimensions)
    sizes = [inputs[0].shape[dimension] for dimension in kept]
    length = math.prod(inputs[0].shape[dimension] for dimension in dimensions)
    flat = [x.transpose([*kept, *dimensions]).reshape(*sizes, length) for x in inputs]
    results = [np.full(sizes, init, x.dtype) for x, init in zip(inputs, initial, strict=True)]
    for position in range(length):
        results = list(combine(*results, *(x[..., position] for x in flat)))
    return results


def _by_kind(op: ir.Operation) -> Body:
    function = combiner(text(op, "kind")).function
    assert function is not None
    return lambda a, b: [function(a, b)]


def _check_reduce(op: ir.OpView) -> None:
    """reduce."""
    dimensions = i64s(op, "dimensions")
    require_dimensions(dimensions, rank(op.operands[0]), "dimensions")
    require(bool(dimensions), "dimensions must not be empty: that is an elementwise op")


def reduce_shape(c: Conditions, op: ir.Operation, *shapes: Shape) -> Shapes:
    """Of one operand and its initial value, or of several."""
    count, dimensions = len(shapes) // 2, i64s(op, "dimensions")
    return [[size for i, size in enumerate(c.united(shapes[:count])) if i not in dimensions]] * count


def _reduce(op: ir.Operation, x: Array, init: Array) -> Array:
    (result,) = reduced([widened(x), widened(init)], i64s(op, "dimensions"), _by_kind(op))
    return cast(result, x.dtype)


def _is_exact(op: ir.Operation, operands: Sequence[Array]) -> bool:
    kind, (x, init) = text(op, "kind"), operands
    if not is_float_dtype(x.dtype):
        return x.dtype.kind != "c"
    if kind in ("maximum", "minimum"):
        return True
    if kind != "add" or x.dtype not in _NUMPY_FLOATS:
        return False
    # Whole numbers whose sum stays small add up exactly in any order.
    with np.errstate(all="ignore"):
        total = np.abs(x).sum(dtype=np.float64) + abs(float(init))
        whole = bool((np.trunc(x) == x).all() and np.trunc(init) == init)
    return whole and bool(total < 2.0 ** np.finfo(x.dtype).nmant)


def reduction_factors(b: Builder, op: ir.Operation, count: int) -> None:
    reduced = i64s(op, "dimensions")
    kept = iter(range(len(b.result_shapes[0])))
    for dimension, size in enumerate(b.shapes[0]):
        operands = at(range(count), dimension)
        if dimension in reduced:
            b.add(size, operands, kind=Kind.REDUCED)
        else:
            b.add(size, operands, at(range(count), next(kept)))
    b.initial = tuple(range(count, 2 * count))


def _reduce_factors(b: Builder, op: ir.Operation) -> None:
    reduction_factors(b, op, 1)
    b.combiner = text(op, "kind")


op(
    "reduce(operand: any, init: any) {kind, dimensions} -> (result: any)",
    "Reduction over `dimensions` by a simple combiner `kind`, starting from the scalar `init`.",
    checks=(same_elements, reduction_kind, scalar_like(1, "init"), _check_reduce),
    value=_reduce,
    exact=_is_exact,
    shapes=reduce_shape,
    factors=_reduce_factors,
    numbers={"dimensions": 0},
)


def windows(op: ir.Operation, x: Array, padding_value: Array, sizes: Sequence[IntLike]) -> list[Array]:
    """For every position of the window, in row-major order, the elements that stand there in all windows."""
    window = window_of(op)
    low, high = window["padding"][0::2], window["padding"][1::2]
    padded = pad_array(x, padding_value, low, high, [dilation - 1 for dilation in window["base_dilation"]])
    positions = window_positions(padded, window["window"], window["window_dilation"], window["strides"], sizes)
    return [elements for _, elements in positions]


def reduce_windows(op: ir.Operation, operands: list[Array], combine: Body) -> list[Array]:
    """Elements of every window combined one after the other, in row-major order."""
    count = len(operands) // 2
    sizes = shape(op.results[0])
    initial = operands[count:]
    results = [np.full(sizes, init, x.dtype) for x, init in zip(operands, initial, strict=False)]
    if 0 in sizes:
        return results
    views = [windows(op, x, init, sizes) for x, init in zip(operands, initial, strict=False)]
    for elements in zip(*views, strict=True):
        results = list(combine(*results, *elements))
    return results


def _reduce_window(op: ir.Operation, operands: list[Array], body: Callable[[int], Body]) -> list[Array]:
    return reduce_windows(op, operands, _by_kind(op))


def _check_reduce_window(op: ir.OpView) -> None:
    """reduce_window."""
    for name in NAMES:
        entries = len(symints(op, name))
        require(entries == rank(op.operands[0]) * (1 + (name == "padding")), f"{name} has the wrong number of entries")


def reduce_window_shape(c: Conditions, op: ir.Operation, *shapes: Shape) -> Shapes:
    """Of one operand and its initial value, or of several."""
    count, window = len(shapes) // 2, window_of(op)
    for name in NAMES[:-1]:
        for number in window[name]:
            c.require_at_most(1, number)
    names = ("window", "strides", "padding", "base_dilation", "window_dilation")
    return [window_shape(c.united(shapes[:count]), *(window[name] for name in names))] * count


def windowed_dimensions(op: ir.Operation) -> list[int]:
    """The dimensions but those along which every window is one element, and there is one for each element."""
    return [dimension for dimension, window in enumerate(windows_of(op)) if not window.trivial]


window_factors = common_but(windowed_dimensions, Kind.WINDOWED)


op(
    "reduce_window(operand: any, init: any) {kind, window, strides, base_dilation, window_dilation, padding} -> "
    "(result: any)",
    "Reduction over sliding windows by a simple combiner `kind`; attributes as in StableHLO, `padding` is low, "
    "high per dimension.",
    checks=(same_elements, reduction_kind, scalar_like(1, "init"), _check_reduce_window),
    region_value=_reduce_window,
    shapes=reduce_window_shape,
    factors=window_factors,
)
