"""The module as StableHLO, for tools that know nothing of the hlo dialect: the inverse of `legalize-to-hlo`.

Before::

    %0 = "hlo.dot"(%x, %y) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, ...} : ...
    %1 = "hlo.lgamma"(%0) : (tensor<4xf32>) -> tensor<4xf32>

After::

    %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : ...
    %1 = stablehlo.custom_call @hlo.lgamma(%0) : (tensor<4xf32>) -> tensor<4xf32>

Static modules up to `optimized`. An op that StableHLO does not have is a custom call of its name, whose configuration
is the text of its attributes; so is a constant whose elements the text of a stage leaves out. Shardings and other
attributes that only this compiler knows are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stablehlo_py.dialect import build
from stablehlo_py.dialect.constants import complex_elements, constant_value, is_elided
from stablehlo_py.dialect.edit import end_with, replace_op, terminator
from stablehlo_py.dialect.grid import grid_of
from stablehlo_py.dialect.ops import record_of
from stablehlo_py.dialect.types import element_type, entries, i64, i64s, is_complex, operations, text
from stablehlo_py.dialect.window import NAMES, STABLEHLO_NAMES
from stablehlo_py.mlir import ir, stablehlo
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.rules import Rules

# What takes the place of an op's results; ops are converted from the innermost ones on.
Rule = Callable[[ir.Operation], Sequence[ir.Value]]
_RULES: Rules[Rule] = Rules()
# Ops whose attributes only have other names.
_NAMES: dict[str, tuple[str, dict[str, str]]] = {
    "hlo.broadcast": ("broadcast_in_dim", {"broadcast_dimensions": "dimensions"}),
    "hlo.cholesky": ("cholesky", {"lower": "lower"}),
    "hlo.dynamic_slice": ("dynamic_slice", {"slice_sizes": "sizes"}),
    "hlo.iota": ("iota", {"iota_dimension": "dimension"}),
    "hlo.pad": ("pad", {"edge_padding_low": "low", "edge_padding_high": "high", "interior_padding": "interior"}),
    "hlo.reverse": ("reverse", {"dimensions": "dimensions"}),
    "hlo.slice": ("slice", {"start_indices": "start", "limit_indices": "limit", "strides": "strides"}),
    "hlo.transpose": ("transpose", {"permutation": "permutation"}),
}


@dataclass(frozen=True)
class LegalizeToStablehlo(Pass):
    """Make StableHLO of the hlo dialect."""

    name: ClassVar[str] = "legalize-to-stablehlo"

    def run(self, module: ir.Module) -> None:
        """Every op by the rule of its name; attributes of ours are dropped."""
        for op in operations(module.operation):
            with op.location, ir.InsertionPoint(op) if op.parent is not None else ir.Location.unknown():
                if op.name in _RULES:
                    replace_op(op, _RULES[op.name](op))
                elif op.name in _NAMES:
                    name, attributes = _NAMES[op.name]
                    replace_op(op, _made(op, name, **{key: op.attributes[each] for key, each in attributes.items()}))
                elif op.name.startswith("hlo."):
                    replace_op(op, _of_same_name(op))
                else:
                    _without_own_attributes(op)


def _made(op: ir.Operation, name: str, /, **attributes: build.AttributeValue) -> list[ir.Value]:
    """The results of a StableHLO op with the operands of another."""
    return list(build.op(f"stablehlo.{name}", _types(op), list(op.operands), attributes).results)


def _types(op: ir.Operation) -> list[ir.Type]:
    return [result.type for result in op.results]


def _of_same_name(op: ir.Operation) -> list[ir.Value]:
    """StableHLO has elementwise ops without attributes under the same names; else a custom call."""
    name = op.name.removeprefix("hlo.")
    if not len(op.attributes) and op.context.is_registered_operation(f"stablehlo.{name}"):
        return _made(op, name)
    described = str(ir.DictAttr.get({key: op.attributes[key] for key in _inherent(op)})) if _inherent(op) else ""
    return _custom_call(op, described)


def _inherent(op: ir.Operation) -> list[str]:
    record = record_of(op.name)
    return [name for name in (*record.attributes, *record.options) if name in op.attributes] if record else []


def _custom_call(op: ir.Operation, configuration: str) -> list[ir.Value]:
    return _made(op, "custom_call", call_target_name=op.name, backend_config=configuration)


def _without_own_attributes(op: ir.Operation) -> None:
    for name in [name for name in op.attributes if name.startswith("hlo.")]:
        del op.attributes[name]
    for name in ("arg_attrs", "res_attrs"):
        if op.name == "func.func" and name in op.attributes:
            op.attributes[name] = ir.ArrayAttr.get([_of_others(each) for each in op.attributes[name]])


def _of_others(attributes: ir.DictAttr) -> ir.DictAttr:
    return ir.DictAttr.get({name: value for name, value in entries(attributes).items() if not name.startswith("hlo.")})


def _enum(name: str, word: str) -> ir.Attribute:
    return ir.Attribute.parse(f"#stablehlo<{name} {word}>")


# --- elements --------------------------------------------------------------------------------------------------------


@_RULES.rule("hlo.constant")
def _constant(op: ir.Operation) -> Sequence[ir.Value]:
    if is_elided(op.attributes["value"]):
        return _custom_call(op, "its elements are left out")
    if not is_complex(element_type(op.results[0])):
        return _made(op, "constant", value=op.attributes["value"])
    return _made(op, "constant", value=complex_elements(constant_value(op), op.results[0].type))


@_RULES.rule("hlo.reduce_precision")
def _reduce_precision(op: ir.Operation) -> Sequence[ir.Value]:
    number = ir.IntegerType.get_signless(32)
    bits = {name: ir.IntegerAttr.get(number, i64(op, name)) for name in ("exponent_bits", "mantissa_bits")}
    return _made(op, "reduce_precision", **bits)


@_RULES.rule("hlo.compare")
def _compare(op: ir.Operation) -> Sequence[ir.Value]:
    attributes = {"comparison_direction": _enum("comparison_direction", text(op, "direction"))}
    if "total_order" in op.attributes:
        attributes["compare_type"] = _enum("comparison_type", "TOTALORDER")
    return _made(op, "compare", **attributes)


# --- products, windows, gathers --------------------------------------------------------------------------------------


@_RULES.rule("hlo.dot")
def _dot(op: ir.Operation) -> Sequence[ir.Value]:
    names = ("lhs_batch", "rhs_batch", "lhs_contract", "rhs_contract")
    numbers = stablehlo.DotDimensionNumbers.get(*(list(i64s(op, name)) for name in names))
    return _made(op, "dot_general", dot_dimension_numbers=numbers)


@_RULES.rule("hlo.convolution")
def _convolution(op: ir.Operation) -> Sequence[ir.Value]:
    lhs, kernel, out = (list(i64s(op, name)) for name in ("input_dims", "kernel_dims", "output_dims"))
    numbers = stablehlo.ConvDimensionNumbers.get(
        lhs[0], lhs[1], lhs[2:], kernel[0], kernel[1], kernel[2:], out[0], out[1], out[2:]
    )
    return _made(
        op,
        "convolution",
        dimension_numbers=numbers,
        window_strides=op.attributes["strides"],
        padding=_pairs(i64s(op, "padding")),
        lhs_dilation=op.attributes["lhs_dilation"],
        rhs_dilation=op.attributes["rhs_dilation"],
        window_reversal=ir.DenseBoolArrayAttr.get([bool(each) for each in i64s(op, "reversal")]),
        feature_group_count=op.attributes["feature_groups"],
        batch_group_count=op.attributes["batch_groups"],
    )


def _pairs(numbers: Sequence[int]) -> ir.Attribute:
    return _rows(numbers, 2)


def _rows(numbers: Sequence[int], width: int) -> ir.Attribute:
    rows = np.array(numbers, np.int64).reshape(-1, width)
    return ir.DenseElementsAttr.get(rows, type=ir.IntegerType.get_signless(64), shape=rows.shape)


@_RULES.rule("hlo.gather")
def _gather(op: ir.Operation) -> Sequence[ir.Value]:
    names = ("offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims")
    numbers = stablehlo.GatherDimensionNumbers.get(
        *(list(i64s(op, name)) for name in (*names, "start_index_map")), i64(op, "index_vector_dim")
    )
    return _made(op, "gather", dimension_numbers=numbers, slice_sizes=op.attributes["slice_sizes"])


# --- reductions ------------------------------------------------------------------------------------------------------


def _combining(op: ir.Operation, name: str, /, **attributes: build.AttributeValue) -> Sequence[ir.Value]:
    """An op whose region combines two elements as the attribute `kind` says."""
    scalar = build.tensor([], element_type(op.results[0]))
    made = build.op(f"stablehlo.{name}", _types(op), list(op.operands), attributes, regions=1)
    block = made.regions[0].blocks.append(scalar, scalar)
    with ir.InsertionPoint(block):
        combined = build.op(f"stablehlo.{text(op, 'kind')}", [scalar], list(block.arguments)).result
        build.op("stablehlo.return", [], [combined])
    return list(made.results)


@_RULES.rule("hlo.reduce")
def _reduce(op: ir.Operation) -> Sequence[ir.Value]:
    return _combining(op, "reduce", dimensions=op.attributes["dimensions"])


@_RULES.rule("hlo.reduce_window")
def _reduce_window(op: ir.Operation) -> Sequence[ir.Value]:
    window: dict[str, build.AttributeValue] = {
        theirs: op.attributes[ours] for ours, theirs in zip(NAMES, STABLEHLO_NAMES, strict=True)
    }
    return _combining(op, "reduce_window", **window | {"padding": _pairs(i64s(op, "padding"))})


# --- algorithms ------------------------------------------------------------------------------------------------------


@_RULES.rule("hlo.triangular_solve")
def _triangular_solve(op: ir.Operation) -> Sequence[ir.Value]:
    flags = {name: op.attributes[name] for name in ("left_side", "lower", "unit_diagonal")}
    return _made(op, "triangular_solve", transpose_a=_enum("transpose", text(op, "transpose_a")), **flags)


@_RULES.rule("hlo.fft")
def _fft(op: ir.Operation) -> Sequence[ir.Value]:
    return _made(op, "fft", fft_type=_enum("fft_type", text(op, "kind")), fft_length=op.attributes["length"])


@_RULES.rule("hlo.rng_bit_generator")
def _rng_bit_generator(op: ir.Operation) -> Sequence[ir.Value]:
    return _made(op, "rng_bit_generator", rng_algorithm=_enum("rng_algorithm", text(op, "algorithm")))


# --- collectives -----------------------------------------------------------------------------------------------------


def _in_groups(op: ir.Operation) -> dict[str, build.AttributeValue]:
    return {"replica_groups": _rows(i64s(op, "groups"), i64(op, "width")), **_channel(op)}


def _channel(op: ir.Operation) -> dict[str, build.AttributeValue]:
    """Groups and pairs are numbers of processes: with a channel those are partitions, else replicas."""
    number = i64(op, "channel") or int(grid_of(op).partitions > 1)
    return {"channel_handle": stablehlo.ChannelHandle.get(number, 1)} if number else {}


def _of_processes(op: ir.Operation) -> dict[str, build.AttributeValue]:
    """Groups of replicas and partitions together, which need a channel."""
    channel = stablehlo.ChannelHandle.get(max(1, i64(op, "channel")), 1)
    return {**_in_groups(op), "channel_handle": channel, "use_global_device_ids": ir.UnitAttr.get()}


@_RULES.rule("hlo.all_reduce")
def _all_reduce(op: ir.Operation) -> Sequence[ir.Value]:
    return _combining(op, "all_reduce", **_of_processes(op))


@_RULES.rule("hlo.reduce_scatter")
def _reduce_scatter(op: ir.Operation) -> Sequence[ir.Value]:
    return _combining(op, "reduce_scatter", scatter_dimension=op.attributes["dimension"], **_of_processes(op))


@_RULES.rule("hlo.all_gather")
def _all_gather(op: ir.Operation) -> Sequence[ir.Value]:
    return _made(op, "all_gather", all_gather_dim=op.attributes["dimension"], **_of_processes(op))


@_RULES.rule("hlo.all_to_all")
def _all_to_all(op: ir.Operation) -> Sequence[ir.Value]:
    split, concat = op.attributes["split_dimension"], op.attributes["concat_dimension"]
    return _made(
        op, "all_to_all", split_dimension=split, concat_dimension=concat, split_count=i64(op, "width"), **_in_groups(op)
    )


@_RULES.rule("hlo.collective_permute")
def _collective_permute(op: ir.Operation) -> Sequence[ir.Value]:
    pairs = _pairs(i64s(op, "pairs"))
    return _made(op, "collective_permute", source_target_pairs=pairs, **_channel(op))


@_RULES.rule("hlo.collective_broadcast")
def _collective_broadcast(op: ir.Operation) -> Sequence[ir.Value]:
    return _made(op, "collective_broadcast", **_in_groups(op))


# --- control flow ----------------------------------------------------------------------------------------------------


@_RULES.rule("tensor.extract")
def _extract(op: ir.Operation) -> Sequence[ir.Value]:
    """A predicate or an index as a tensor of rank 0: only control flow uses it, and what it becomes is a tensor there.
    The types do not agree until the op that uses it is converted, too."""
    return [op.operands[0]]


@_RULES.rule("arith.index_cast")
def _index_cast(op: ir.Operation) -> Sequence[ir.Value]:
    return [op.operands[0]]


def _with_regions(op: ir.Operation, name: str, operands: Sequence[ir.Value], order: Sequence[int]) -> list[ir.Value]:
    """Control flow, whose blocks move."""
    made = build.op(f"stablehlo.{name}", _types(op), operands, regions=len(order))
    for number, source in enumerate(order):
        block = op.regions[source].blocks[0]
        block.append_to(made.regions[number])
        last = terminator(block)
        end_with(block, "stablehlo.return", list(last.operands)[:1] if last.name == "scf.condition" else None)
    return list(made.results)


@_RULES.rule("scf.while")
def _while(op: ir.Operation) -> Sequence[ir.Value]:
    return _with_regions(op, "while", list(op.operands), (0, 1))


@_RULES.rule("scf.if")
def _if(op: ir.Operation) -> Sequence[ir.Value]:
    return _with_regions(op, "if", [op.operands[0]], (0, 1))


@_RULES.rule("scf.index_switch")
def _case(op: ir.Operation) -> Sequence[ir.Value]:
    """StableHLO's last branch is the default, which is the first region here."""
    return _with_regions(op, "case", [op.operands[0]], (*range(1, len(op.regions)), 0))
