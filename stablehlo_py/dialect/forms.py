"""What StableHLO ops and custom calls say, as hlo has it, where attributes have other names there or are operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from stablehlo_py.dialect.build import Form, attribute
from stablehlo_py.dialect.call_signatures import CALLS, RESULT, Source, shape_operands
from stablehlo_py.dialect.stablehlo import keyword, optional_i64s, optional_pairs
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.dialect.types import rank
from stablehlo_py.mlir import ir, stablehlo


def _numbers(name: str, read: Callable[[ir.Attribute], object], *fields: str) -> Source:
    """Fields of the attribute `name`, one after the other; a field alone is what it is."""

    def source(op: ir.OpView) -> int | list[int]:
        numbers = read(op.attributes[name])
        found = [getattr(numbers, field) for field in fields]
        if len(found) == 1:
            return found[0]
        return [number for each in found for number in ([each] if isinstance(each, int) else each)]

    return source


def _spatial(name: str) -> Source:
    return lambda op: [int(each) for each in optional_i64s(op, name, [int(name != "window_reversal")] * _spaces(op))]


def _spaces(op: ir.OpView) -> int:
    return len(stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"]).input_spatial_dimensions)


def _dot(field: str) -> Source:
    return _numbers("dot_dimension_numbers", stablehlo.DotDimensionNumbers, field)


def _dimensions(*fields: str) -> Source:
    return _numbers("dimension_numbers", stablehlo.ConvDimensionNumbers, *fields)


def _gather(*fields: str) -> dict[str, Source]:
    return {field: _numbers("dimension_numbers", stablehlo.GatherDimensionNumbers, field) for field in fields}


_GATHER = _gather(
    "offset_dims",
    "collapsed_slice_dims",
    "operand_batching_dims",
    "start_indices_batching_dims",
    "start_index_map",
    "index_vector_dim",
)
_CONVOLUTION: dict[str, Source] = {
    "strides": _spatial("window_strides"),
    "padding": lambda op: optional_pairs(op, "padding", _spaces(op)),
    "lhs_dilation": _spatial("lhs_dilation"),
    "rhs_dilation": _spatial("rhs_dilation"),
    "reversal": _spatial("window_reversal"),
    "input_dims": _dimensions("input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"),
    "kernel_dims": _dimensions(
        "kernel_input_feature_dimension", "kernel_output_feature_dimension", "kernel_spatial_dimensions"
    ),
    "output_dims": _dimensions("output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions"),
    "feature_groups": "feature_group_count",
    "batch_groups": "batch_group_count",
}
#: The hlo op that a StableHLO op is, and its attributes, where these have other names or are operands.
FORMS: dict[str, tuple[str, Mapping[str, Source]]] = {
    "stablehlo.slice": ("slice", {"start": "start_indices", "limit": "limit_indices", "strides": "strides"}),
    "stablehlo.real_dynamic_slice": ("slice", {"start": 1, "limit": 2, "strides": 3}),
    "stablehlo.dynamic_slice": ("dynamic_slice", {"sizes": "slice_sizes"}),
    "stablehlo.pad": (
        "pad",
        {"low": "edge_padding_low", "high": "edge_padding_high", "interior": "interior_padding"},
    ),
    "stablehlo.dynamic_pad": ("pad", {"low": 2, "high": 3, "interior": 4}),
    "stablehlo.gather": ("gather", _GATHER | {"slice_sizes": "slice_sizes"}),
    "stablehlo.dynamic_gather": ("gather", _GATHER | {"slice_sizes": 2}),
    "stablehlo.dot": (
        "dot",
        {
            "lhs_batch": lambda op: [],
            "rhs_batch": lambda op: [],
            "lhs_contract": lambda op: [rank(op.operands[0]) - 1],
            "rhs_contract": lambda op: [0],
        },
    ),
    "stablehlo.dot_general": (
        "dot",
        {
            "lhs_batch": _dot("lhs_batching_dimensions"),
            "rhs_batch": _dot("rhs_batching_dimensions"),
            "lhs_contract": _dot("lhs_contracting_dimensions"),
            "rhs_contract": _dot("rhs_contracting_dimensions"),
        },
    ),
    "stablehlo.convolution": ("convolution", _CONVOLUTION),
    "stablehlo.dynamic_conv": ("convolution", _CONVOLUTION | {"padding": 2}),
    "stablehlo.dynamic_iota": ("", {RESULT: 0}),
    "stablehlo.dynamic_reshape": ("", {RESULT: 1}),
    "stablehlo.dynamic_broadcast_in_dim": ("", {RESULT: 1}),
    "stablehlo.set_dimension_size": ("", {RESULT: 1}),
    **{target: (call.op, call.attributes) for target, call in CALLS.items()},
    "stablehlo.fft": ("fft", {"kind": lambda op: keyword(op.attributes["fft_type"]), "length": "fft_length"}),
}

# Calls have the names of their targets here.
_SIZED = frozenset(
    {"stablehlo.custom_call"}
    | {name for name, (_, sources) in FORMS.items() if any(isinstance(each, int | tuple) for each in sources.values())}
)


def name_of(op: ir.OpView | ir.Operation) -> str:
    """The name of an op; of a custom call its target, by which it is an op too."""
    return (
        op.attributes["call_target_name"].value if op.operation.name == "stablehlo.custom_call" else op.operation.name
    )


def form_of(op: ir.OpView | ir.Operation, elements: Callable[[ir.Value], Sequence[IntLike]]) -> Form | None:
    """An op of `FORMS` as hlo has it, None for any other; `elements` says what an operand that is an attribute there
    holds."""
    name, sources = FORMS.get(name_of(op), ("", {}))
    if not name:
        return None
    attributes = {}
    for key, source in sources.items():
        if isinstance(source, str):
            attributes[key] = op.attributes[source]
        elif isinstance(source, tuple):
            (number,) = elements(op.operands[source[0]])
            attributes[key] = attribute(number) if is_known(number) else attribute([number])
        elif key != RESULT:
            attributes[key] = attribute(elements(op.operands[source]) if isinstance(source, int) else source(op))
    gone = size_operands(op) if takes_sizes(op.operation.name) else ()
    return Form(name, [operand for number, operand in enumerate(op.operands) if number not in gone], attributes)


def takes_sizes(name: str) -> bool:
    """Whether ops of this full name may have `size_operands`."""
    return name in _SIZED


def size_operands(op: ir.OpView | ir.Operation) -> tuple[int, ...]:
    """Numbers of the operands that are attributes of the hlo op, or the shape of its result."""
    _, sources = FORMS.get(name_of(op), ("", {}))
    if not sources:
        return ()
    count = len(op.operands) - len(shape_operands(op))
    numbers = (source[0] if isinstance(source, tuple) else source for source in sources.values())
    return tuple(number % count for number in numbers if isinstance(number, int))
