"""Result shapes of StableHLO ops over sizes. Sections of the StableHLO specification give the formulas.

A rule takes the op and a `Scope` (shapes and integer values of what comes before it) and returns the shape of each
result. An op without a rule is elementwise: operands and results have one shape. Dimensions that the result's type
knows need not be right in a rule: the type has the last word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from stablehlo_py.dialect import infer
from stablehlo_py.dialect.size import Number, floordiv, maximum, product
from stablehlo_py.dialect.stablehlo import keyword, optional_i64s, optional_pairs
from stablehlo_py.dialect.types import i64, i64s
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir, stablehlo
from stablehlo_py.rules import Rules

Shape: TypeAlias = tuple[Number, ...]


class Scope(Protocol):
    """What a rule may ask."""

    def shape(self, value: ir.Value) -> Shape:
        """The shape of a value that is there."""

    def elements(self, value: ir.Value) -> Shape:
        """The elements of an integer tensor. Raises UnsupportedError where they are not known."""

    def unite(self, a: Number, b: Number, op: ir.Operation, *, unless_one: Number | None = None) -> Number:
        """Let two sizes be equal; a call where `unless_one` is 1 may differ, and is not for this program then."""

    def require_at_most(self, a: Number, b: Number, op: ir.Operation) -> None:
        """Let a size not exceed another, by a check of the call where that is not known."""

    def require_equal(self, a: Number, b: Number, op: ir.Operation) -> None:
        """Let two sizes be equal, by a check of the call where that says nothing about a symbol."""


Rule = Callable[[Scope, ir.Operation], Sequence[Shape]]
RULES: Rules[Rule] = Rules("stablehlo.")


def result_shapes(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    """The shapes of an op's results.

    Raises:
        UnsupportedError: they do not follow from sizes.
    """
    return RULES.get(op.name, _elementwise)(scope, op)


def _united(scope: Scope, op: ir.Operation, shapes: Sequence[Shape]) -> Shape:
    first, *others = shapes
    for other in others:
        first = tuple(scope.unite(a, b, op) for a, b in zip(first, other, strict=True))
    return first


def _elementwise(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    if not len(op.results):
        return []
    rank = len(op.results[0].type.shape)
    shapes = [scope.shape(value) for value in op.operands]
    like_result = [shape for shape in shapes if len(shape) == rank]
    # Scalars beside tensors: the predicate of a select, the bounds of a clamp.
    if not like_result or any(len(shape) not in (0, rank) for shape in shapes):
        raise UnsupportedError("the shape of its result does not follow from a rule", op=op.name)
    united = _united(scope, op, like_result)
    return [united] * len(op.results)


# --- sources and shapes given as values ------------------------------------------------------------------------------


@RULES.rule("constant", "iota", "rng_bit_generator", "reshape", "dynamic_slice", "rng")
def declared(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    """Ops whose static form says the shape: their types must."""
    if op.name == "stablehlo.rng_bit_generator":
        return [scope.shape(op.operands[0]), _static(op, 1)]
    if op.name == "stablehlo.dynamic_slice":
        _require_within(scope, op, i64s(op, "slice_sizes"), scope.shape(op.operands[0]))
    return [_static(op, number) for number in range(len(op.results))]


def _require_within(scope: Scope, op: ir.Operation, sizes: Sequence[Number], whole: Sequence[Number]) -> None:
    for size, bound in zip(sizes, whole, strict=True):
        scope.require_at_most(0, size, op)
        scope.require_at_most(size, bound, op)


def _static(op: ir.Operation, number: int = 0) -> Shape:
    type_ = op.results[number].type
    if not type_.has_static_shape:
        raise UnsupportedError(f"has a result of dynamic shape, {type_}, that no rule explains", op=op.name)
    return tuple(type_.shape)


def _sizes(scope: Scope, op: ir.Operation, operand: int) -> Shape:
    """The operand that holds the result's shape."""
    sizes, rank = scope.elements(op.operands[operand]), len(op.results[0].type.shape)
    if len(sizes) != rank:
        raise UnsupportedError(f"has {len(sizes)} sizes for a result of rank {rank}", op=op.name)
    return sizes


@RULES.rule("fft")
def _fft(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    """Specification, section fft, C4 to C6: dimensions before the transformed ones are those of the operand."""
    length, kind, sizes = i64s(op, "fft_length"), keyword(op.attributes["fft_type"]), scope.shape(op.operands[0])
    for size in length:
        scope.require_at_most(0, size, op)
    for size, taken in zip(sizes[-len(length) :], infer.fft_operand_sizes(kind, length), strict=True):
        scope.unite(size, taken, op)
    return [infer.fft_shape((*sizes[: -len(length)], *length), kind, length)]


@RULES.rule("dynamic_reshape")
def _dynamic_reshape(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    sizes = _sizes(scope, op, 1)
    scope.require_equal(product(scope.shape(op.operands[0])), product(sizes), op)
    return [sizes]


@RULES.rule("dynamic_iota")
def _dynamic_iota(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    return [_sizes(scope, op, 0)]


@RULES.rule("dynamic_broadcast_in_dim")
def _dynamic_broadcast(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    """A mapped dimension has the result's size, unless it is known to be 1."""
    source, sizes = scope.shape(op.operands[0]), list(_sizes(scope, op, 1))
    for extent, dimension in zip(source, i64s(op, "broadcast_dimensions"), strict=True):
        if extent != 1:
            sizes[dimension] = scope.unite(sizes[dimension], extent, op, unless_one=extent)
    return [tuple(sizes)]


@RULES.rule("broadcast_in_dim")
def _broadcast(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    source, sizes = scope.shape(op.operands[0]), list(_static(op))
    for extent, dimension in zip(source, i64s(op, "broadcast_dimensions"), strict=True):
        if extent != 1:
            scope.unite(sizes[dimension], extent, op, unless_one=extent)
    return [tuple(sizes)]


@RULES.rule("get_dimension_size")
def _scalar(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    return [()]


@RULES.rule("set_dimension_size")
def _set_dimension_size(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    sizes, dimension = list(scope.shape(op.operands[0])), i64(op, "dimension")
    (size,) = scope.elements(op.operands[1])
    _require_within(scope, op, [size], [sizes[dimension]])
    sizes[dimension] = size
    return [tuple(sizes)]


# --- moving elements -------------------------------------------------------------------------------------------------


@RULES.rule("optimization_barrier")
def _barrier(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    return [scope.shape(value) for value in op.operands]


@RULES.rule("transpose")
def _transpose(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    source = scope.shape(op.operands[0])
    return [tuple(source[dimension] for dimension in i64s(op, "permutation"))]


@RULES.rule("concatenate")
def _concatenate(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    shapes = [scope.shape(value) for value in op.operands]
    dimension = i64(op, "dimension")
    total = sum(shape[dimension] for shape in shapes)
    rest = [(*shape[:dimension], 0, *shape[dimension + 1 :]) for shape in shapes]
    united = list(_united(scope, op, rest))
    united[dimension] = total
    return [tuple(united)]


@RULES.rule("slice")
def _slice(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    start, limit, strides = (i64s(op, name) for name in ("start_indices", "limit_indices", "strides"))
    _require_within(scope, op, limit, scope.shape(op.operands[0]))
    return [infer.slice_shape(start, limit, strides)]


@RULES.rule("real_dynamic_slice")
def _real_dynamic_slice(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    start, limit, strides = (scope.elements(value) for value in list(op.operands)[1:])
    for first, end, step, size in zip(start, limit, strides, scope.shape(op.operands[0]), strict=True):
        scope.require_at_most(0, first, op)
        scope.require_at_most(first, end, op)
        scope.require_at_most(end, size, op)
        scope.require_at_most(1, step, op)
    return [infer.slice_shape(start, limit, strides)]


@RULES.rule("pad")
def _pad(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    edges = (i64s(op, name) for name in ("edge_padding_low", "edge_padding_high", "interior_padding"))
    return [_padded(scope.shape(op.operands[0]), *edges)]


@RULES.rule("dynamic_pad")
def _dynamic_pad(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    low, high, interior = (scope.elements(value) for value in list(op.operands)[2:])
    for inner in interior:
        scope.require_at_most(0, inner, op)
    return [_padded(scope.shape(op.operands[0]), low, high, interior)]


def _padded(sizes: Shape, low: Shape, high: Shape, interior: Shape) -> Shape:
    edges = zip(sizes, low, high, interior, strict=True)
    return tuple(size + first + last + maximum(size - 1, 0) * inner for size, first, last, inner in edges)


@RULES.rule("reverse", "cholesky")
def _like_operand(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    return [scope.shape(op.operands[0])]


@RULES.rule("dynamic_update_slice")
def _dynamic_update_slice(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    operand, update = (scope.shape(value) for value in list(op.operands)[:2])
    _require_within(scope, op, update, operand)
    return [operand]


@RULES.rule("sort")
def _sort(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    return [_united(scope, op, [scope.shape(value) for value in op.operands])] * len(op.results)


@RULES.rule("scatter")
def _scatter(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    """Specification, section scatter, constraints on the shape of updates."""
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    count = len(op.results)
    shapes = [scope.shape(value) for value in op.operands]
    operand, indices = _united(scope, op, shapes[:count]), shapes[count]
    updates = _united(scope, op, shapes[count + 1 :])
    batching = list(numbers.input_batching_dims), list(numbers.scatter_indices_batching_dims)
    for ours, theirs in zip(*batching, strict=True):
        scope.require_equal(operand[ours], indices[theirs], op)
    window = list(numbers.update_window_dims)
    places = [size for i, size in enumerate(indices) if i != numbers.index_vector_dim]
    for place, update in zip(places, (size for i, size in enumerate(updates) if i not in window), strict=True):
        scope.require_equal(place, update, op)
    fixed = {*numbers.inserted_window_dims, *batching[0]}
    free = [size for i, size in enumerate(operand) if i not in fixed]
    _require_within(scope, op, [updates[i] for i in window], free)
    return [operand] * count


@RULES.rule("select_and_scatter")
def _select_and_scatter(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    """Specification, section select_and_scatter, C2: one element of source for every window of the operand."""
    operand, source = (scope.shape(value) for value in list(op.operands)[:2])
    ones = [1] * len(operand)
    window, strides = (tuple(optional_i64s(op, name, ones)) for name in ("window_dimensions", "window_strides"))
    padding = tuple(optional_pairs(op, "padding", len(operand)))
    windows = window_shape(operand, window, strides, padding, tuple(ones), tuple(ones))
    for one, other in zip(windows, source, strict=True):
        scope.require_equal(other, one, op)
    return [operand]


@RULES.rule("triangular_solve")
def _triangular_solve(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    a, b = (scope.shape(value) for value in op.operands)
    for one, other in zip(a[:-2], b[:-2], strict=True):
        scope.unite(one, other, op)
    left = ir.BoolAttr(op.attributes["left_side"]).value
    scope.require_equal(a[-1], a[-2], op)
    scope.require_equal(a[-1], b[-2] if left else b[-1], op)
    return [b]


@RULES.rule("bitcast_convert")
def _bitcast_convert(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    source, declared = scope.shape(op.operands[0]), tuple(op.results[0].type.shape)
    return [(*source, declared[-1]) if len(declared) > len(source) else source[: len(declared)]]


@RULES.rule("gather")
def _gather(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    _require_within(scope, op, i64s(op, "slice_sizes"), scope.shape(op.operands[0]))
    return [_gathered(scope, op, i64s(op, "slice_sizes"))]


@RULES.rule("dynamic_gather")
def _dynamic_gather(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    sizes = scope.elements(op.operands[2])
    _require_within(scope, op, sizes, scope.shape(op.operands[0]))
    return [_gathered(scope, op, sizes)]


def _gathered(scope: Scope, op: ir.Operation, slice_sizes: Shape) -> Shape:
    numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    dropped = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    indices = scope.shape(op.operands[1])
    return infer.gather_shape(indices, slice_sizes, numbers.offset_dims, dropped, numbers.index_vector_dim)


# --- reductions and contractions -------------------------------------------------------------------------------------


@RULES.rule("reduce")
def _reduce(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    count, dimensions = len(op.results), i64s(op, "dimensions")
    united = _united(scope, op, [scope.shape(value) for value in list(op.operands)[:count]])
    return [tuple(size for i, size in enumerate(united) if i not in dimensions)] * count


def window_shape(sizes: Shape, window: Shape, strides: Shape, padding: Shape, base: Shape, dilation: Shape) -> Shape:
    """Window positions per dimension, where at least one is known to fit."""
    result = []
    for i, size in enumerate(sizes):
        padded = (size - 1) * base[i] + 1 + padding[2 * i] + padding[2 * i + 1]
        reach = (window[i] - 1) * dilation[i] + 1
        result.append(maximum(floordiv(padded - reach, strides[i]) + 1, 0))
    return tuple(result)


@RULES.rule("reduce_window")
def _reduce_window(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    count, rank = len(op.results), len(scope.shape(op.operands[0]))
    united = _united(scope, op, [scope.shape(value) for value in list(op.operands)[:count]])
    ones = [1] * rank
    window, strides, base, dilation = (
        tuple(optional_i64s(op, name, ones))
        for name in ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
    )
    padding = tuple(optional_pairs(op, "padding", rank))
    return [window_shape(united, window, strides, padding, base, dilation)] * count


@RULES.rule("dot_general")
def _dot_general(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    lhs, rhs = (scope.shape(value) for value in op.operands)
    batch = numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions
    contract = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    for left, right in (*zip(*batch, strict=True), *zip(*contract, strict=True)):
        scope.unite(lhs[left], rhs[right], op)
    return [infer.dot_shape(lhs, rhs, batch, contract)]


@RULES.rule("dot")
def _dot(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    lhs, rhs = (scope.shape(value) for value in op.operands)
    scope.unite(lhs[-1], rhs[0], op)
    return [(*lhs[:-1], *rhs[1:])]


@RULES.rule("convolution")
def _convolution(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    rank = len(scope.shape(op.operands[0]))
    return [_convolved(scope, op, tuple(optional_pairs(op, "padding", rank - 2)))]


@RULES.rule("dynamic_conv")
def _dynamic_conv(scope: Scope, op: ir.Operation) -> Sequence[Shape]:
    return [_convolved(scope, op, scope.elements(op.operands[2]))]


def _convolved(scope: Scope, op: ir.Operation, padding: Shape) -> Shape:
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    lhs, rhs = scope.shape(op.operands[0]), scope.shape(op.operands[1])
    ones = [1] * len(numbers.input_spatial_dimensions)
    strides, base, dilation = (
        tuple(optional_i64s(op, name, ones)) for name in ("window_strides", "lhs_dilation", "rhs_dilation")
    )
    features = lhs[numbers.input_feature_dimension], rhs[numbers.kernel_input_feature_dimension]
    feature_groups, batch_groups = i64(op, "feature_group_count"), i64(op, "batch_group_count")
    scope.unite(features[0], features[1] * feature_groups, op)
    batch, outputs = lhs[numbers.input_batch_dimension], rhs[numbers.kernel_output_feature_dimension]
    for size, groups in ((batch, batch_groups), (outputs, batch_groups), (outputs, feature_groups)):
        scope.require_equal(size, groups * floordiv(size, groups), op)
    spatial = window_shape(
        tuple(lhs[i] for i in numbers.input_spatial_dimensions),
        tuple(rhs[i] for i in numbers.kernel_spatial_dimensions),
        strides,
        padding,
        base,
        dilation,
    )
    result: list[Number] = [0] * len(lhs)
    result[numbers.output_batch_dimension] = floordiv(batch, batch_groups)
    result[numbers.output_feature_dimension] = rhs[numbers.kernel_output_feature_dimension]
    for dimension, extent in zip(numbers.output_spatial_dimensions, spatial, strict=True):
        result[dimension] = extent
    return tuple(result)
