"""StableHLO ops, whose attributes are written in other ways than those of hlo: what they say, in hlo's words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from stablehlo_py.dialect.build import attribute
from stablehlo_py.dialect.constants import to_numpy
from stablehlo_py.dialect.size import Number
from stablehlo_py.dialect.types import rank
from stablehlo_py.mlir import ir, stablehlo


def keyword(attribute: ir.Attribute) -> str:
    """The word of an enum attribute: TOTALORDER of `#stablehlo<comparison_type TOTALORDER>`."""
    return str(attribute).rstrip(">").rsplit(" ", 1)[-1]


def optional_i64s(op: ir.OpView, name: str, default: Sequence[int]) -> list[int]:
    """An optional `array<i64>` attribute as a list."""
    return list(op.attributes[name]) if name in op.attributes else list(default)


def optional_pairs(op: ir.OpView, name: str, rows: int) -> list[int]:
    """An optional `[rows, 2]` dense integer attribute (paddings), flattened; zeros when absent."""
    return to_numpy(op.attributes[name]).reshape(-1).tolist() if name in op.attributes else [0] * (2 * rows)


# --- in hlo's words --------------------------------------------------------------------------------------------------

# What an attribute of the hlo op is: an attribute of another name, the elements of an operand (by number), or computed.
_Source: TypeAlias = "str | int | Callable[[ir.OpView], int | str | Sequence[int]]"


@dataclass(frozen=True)
class Form:
    """A StableHLO op as hlo has it.

    Attributes:
        name: of the hlo op, without the dialect.
        operands: those that are no attributes there.
        attributes: as hlo has them.
    """

    name: str
    operands: list[ir.Value]
    attributes: Mapping[str, ir.Attribute]


def _numbers(name: str, read: Callable[[ir.Attribute], object], *fields: str) -> _Source:
    """Fields of the attribute `name`, one after the other; a field alone is what it is."""

    def source(op: ir.OpView) -> int | list[int]:
        numbers = read(op.attributes[name])
        found = [getattr(numbers, field) for field in fields]
        if len(found) == 1:
            return found[0]
        return [number for each in found for number in ([each] if isinstance(each, int) else each)]

    return source


def _spatial(name: str) -> _Source:
    return lambda op: [int(each) for each in optional_i64s(op, name, [int(name != "window_reversal")] * _spaces(op))]


def _spaces(op: ir.OpView) -> int:
    return len(stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"]).input_spatial_dimensions)


def _dot(field: str) -> _Source:
    return _numbers("dot_dimension_numbers", stablehlo.DotDimensionNumbers, field)


def _dimensions(*fields: str) -> _Source:
    return _numbers("dimension_numbers", stablehlo.ConvDimensionNumbers, *fields)


def _gather(*fields: str) -> dict[str, _Source]:
    return {field: _numbers("dimension_numbers", stablehlo.GatherDimensionNumbers, field) for field in fields}


_GATHER = _gather(
    "offset_dims",
    "collapsed_slice_dims",
    "operand_batching_dims",
    "start_indices_batching_dims",
    "start_index_map",
    "index_vector_dim",
)
_CONVOLUTION: dict[str, _Source] = {
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
FORMS: dict[str, tuple[str, dict[str, _Source]]] = {
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
    "stablehlo.fft": ("fft", {"kind": lambda op: keyword(op.attributes["fft_type"]), "length": "fft_length"}),
}


def form_of(op: ir.OpView | ir.Operation, elements: Callable[[ir.Value], Sequence[Number]]) -> Form | None:
    """An op of `FORMS` as hlo has it, None for any other; `elements` says what an operand that is an attribute there
    holds."""
    name, sources = FORMS.get(op.operation.name, ("", {}))
    if not name:
        return None
    attributes = {}
    for key, source in sources.items():
        if isinstance(source, str):
            attributes[key] = op.attributes[source]
        else:
            attributes[key] = attribute(elements(op.operands[source]) if isinstance(source, int) else source(op))
    gone = size_operands(op)
    return Form(name, [operand for number, operand in enumerate(op.operands) if number not in gone], attributes)


def size_operands(op: ir.OpView | ir.Operation) -> tuple[int, ...]:
    """Numbers of the operands that are attributes of the hlo op."""
    _, sources = FORMS.get(op.operation.name, ("", {}))
    return tuple(source for source in sources.values() if isinstance(source, int))
