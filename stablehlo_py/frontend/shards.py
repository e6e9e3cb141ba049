"""Shards of whole arrays in a grid of partitions: a process takes its own of a value, and puts those of all together.

The front end marks where that is, with the custom calls that XLA has for it:

    %1 = custom_call @SPMDFullToShardShape(%0) {hlo.shards = "#sdy.sharding<@mesh, [{\\"x\\"}]>"}
    ... what one process does ...
    %8 = custom_call @SPMDShardToFullShape(%7) {hlo.shards = "#sdy.sharding<@mesh, [{\\"x\\"}]>"}

`expand` makes ops of these calls:

    %start = [0, 2, 4, 6][partition_id]         each process takes its shard of %0
    %1 = dynamic_slice %0, %start
    ... what one process does ...
    %8 = all_gather %7                          and has all of the value in the end

A value that is put together and taken apart again stays in shards along those dimensions, and in those summands, that
are the same on both sides. So shards that are passed on are not moved, and each process keeps its own summand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from stablehlo_py.dialect.attributes import MANUAL_AXES, PARTITIONS, SHARDING, SHARDS
from stablehlo_py.dialect.edit import replace_op
from stablehlo_py.dialect.locations import describe
from stablehlo_py.dialect.sharding import meshes_of
from stablehlo_py.errors import Problem, UnsupportedError
from stablehlo_py.frontend.placement import Placement, UnknownSharding, placement_of
from stablehlo_py.mlir import ir

TO_SHARD, TO_FULL = "SPMDFullToShardShape", "SPMDShardToFullShape"
_CONSTRAINT = "Sharding"
_CHANNEL = "#stablehlo.channel_handle<handle = 1, type = 0>"


def marked(
    ir: Any, target: str, value: Any, type_: Any, sharding: str, manual_axes: Iterable[str] | None = None
) -> Any:
    """A call of TO_SHARD or TO_FULL at the insertion point, with a result of that type. `sharding` is that of the whole
    value, of whose axes only `manual_axes` count (None: all). `ir` is the copy of MLIR that the value is of."""
    attributes = {"call_target_name": ir.StringAttr.get(target), SHARDS: ir.StringAttr.get(sharding)}
    if manual_axes is not None:
        attributes[MANUAL_AXES] = ir.ArrayAttr.get([ir.StringAttr.get(axis) for axis in sorted(manual_axes)])
    return ir.Operation.create("stablehlo.custom_call", [type_], [value], attributes).results[0]


def expand(module: ir.Module) -> None:
    """Make ops of all marks of a module.

    Raises:
        UnsupportedError: naming every mark whose sharding is not known, or does not fit its types.
    """
    marks: list[ir.Operation] = []

    def visit(view: ir.Operation) -> ir.WalkResult:
        if view.operation.name == "stablehlo.custom_call" and SHARDS in view.operation.attributes:
            marks.append(view.operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    if marks:
        with module.context:
            _Marks(module, marks).expand()


class _Marks:
    """The marks of a module, each with the placement of the whole value."""

    def __init__(self, module: ir.Module, marks: Sequence[ir.Operation]) -> None:
        attributes = module.operation.attributes
        self._partitions = attributes[PARTITIONS].value if PARTITIONS in attributes else 1
        meshes, problems = meshes_of(module), list[Problem]()
        # By result: the hash of an op changes with its operands.
        self._placements: dict[ir.Value, Placement] = {}
        for op in marks:
            try:
                self._placements[op.results[0]] = _placement(op, meshes, self._partitions)
            except UnknownSharding as error:
                remedy = "shard over the axes of one mesh of all devices"
                problems.append(Problem(str(error), describe(op.location), op.name, remedy))
        if problems:
            raise UnsupportedError("the model is split by hand in a way that is not known", problems=problems)

    def expand(self) -> None:
        """All of them."""
        for result in [each for each in self._placements if _is_call(each, TO_SHARD)]:
            op, placement = result.owner.operation, self._placements.pop(result)
            whole = op.operands[0]
            with op.location, ir.InsertionPoint(op):
                value, placement = self._without_detour(whole, placement)
                own = Shards(self._partitions).own(value, placement)
            replace_op(op, [own])
            while _is_call(whole, _CONSTRAINT) and not list(whole.uses):
                unused, whole = whole.owner.operation, whole.owner.operands[0]
                unused.erase()
        for result, placement in self._placements.items():
            op = result.owner.operation
            if list(result.uses):
                with op.location, ir.InsertionPoint(op):
                    whole = Shards(self._partitions).whole(op.operands[0], placement)
                if SHARDING in op.attributes and whole != op.operands[0]:
                    whole.owner.attributes[SHARDING] = op.attributes[SHARDING]
                replace_op(op, [whole])
            else:
                op.erase()

    def _without_detour(self, whole: ir.Value, wanted: Placement) -> tuple[ir.Value, Placement]:
        """What to take a shard of, and how: without what a mark puts together in the same way."""
        value = whole
        while _is_call(value, _CONSTRAINT):
            value = value.owner.operands[0]
        given = self._placements.get(value)
        if given is None:
            return whole, wanted
        mark, shard = value.owner.operation, value.owner.operands[0]
        left, rest = given.without(wanted), wanted.without(given)
        if not left.is_split:
            return shard, rest
        # What is still put together is so where the mark stands: all processes come there, and as often.
        if left.counts == given.counts and left.has_summands == given.has_summands:
            return whole, wanted
        sizes = [size * count for size, count in zip(shard.type.shape, left.counts, strict=True)]
        type_ = ir.RankedTensorType.get(sizes, shard.type.element_type)
        with ir.InsertionPoint(mark), mark.location:
            partly = marked(ir, TO_FULL, shard, type_, mark.attributes[SHARDS].value)
        self._placements[partly] = left
        return partly, rest


def _target(op: ir.Operation) -> str:
    return op.attributes["call_target_name"].value


def _is_call(value: ir.Value, target: str) -> bool:
    owner = value.owner
    return (
        not isinstance(owner, ir.Block)
        and owner.operation.name == "stablehlo.custom_call"
        and _target(owner.operation) == target
        and len(owner.operands) == 1
    )


def _placement(op: ir.Operation, meshes: dict[str, str], partitions: int) -> Placement:
    """How the whole value of a mark is placed. Raises UnknownSharding."""
    text, types = op.attributes[SHARDS].value, [op.operands[0].type, op.results[0].type]
    whole, part = types if _target(op) == TO_SHARD else types[::-1]
    only = {axis.value for axis in op.attributes[MANUAL_AXES]} if MANUAL_AXES in op.attributes else None
    placement = placement_of(text, meshes, len(whole.shape), partitions, only)
    if [size * count for size, count in zip(part.shape, placement.counts, strict=False)] != list(whole.shape):
        raise UnknownSharding(f"the sharding {text} does not make {part} of {whole}")
    return placement


class Shards:
    """Makes ops at the insertion point, in the location that is set."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    def own(self, value: ir.Value, placement: Placement) -> ir.Value:
        """This process's part of a whole value: of the processes whose parts add up to it, the first has all."""
        partition = None
        if placement.is_split:
            partition = _made("partition_id", _tensor([], ir.IntegerType.get_unsigned(32)))
        if any(count > 1 for count in placement.counts):
            sizes = [size // count for size, count in zip(value.type.shape, placement.counts, strict=True)]
            starts = [
                self._looked_up(self._starts(rows, size), partition)
                for rows, size in zip(placement.groups, sizes, strict=True)
            ]
            attributes = {"slice_sizes": ir.DenseI64ArrayAttr.get(sizes)}
            type_ = _tensor(sizes, value.type.element_type)
            value = _made("dynamic_slice", type_, [value, *starts], attributes)
        return self._for_first(value, placement.sums, partition) if placement.has_summands else value

    def whole(self, value: ir.Value, placement: Placement) -> ir.Value:
        """The value that all processes have parts of."""
        sizes = [size * count for size, count in zip(value.type.shape, placement.counts, strict=True)]
        if 0 in sizes:  # nothing to gather, which the op refuses
            type_ = _tensor(sizes, value.type.element_type)
            return value if value.type == type_ else _made("reshape", type_, [value])
        if placement.has_summands:
            value = _summed(value, placement.sums)
        for dimension, rows in enumerate(placement.groups):
            if rows.shape[1] == 1:
                continue
            sizes = list(value.type.shape)
            sizes[dimension] *= rows.shape[1]
            number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dimension)
            attributes = {"all_gather_dim": number, **_among(rows)}
            value = _made("all_gather", _tensor(sizes, value.type.element_type), [value], attributes)
        return value

    def _starts(self, rows: np.ndarray, size: int) -> np.ndarray:
        """Where the part of every process begins, whose `size` is that."""
        table = np.zeros(self._partitions, np.int32)
        table[rows] = np.arange(rows.shape[1], dtype=np.int32) * size
        return table

    def _for_first(self, value: ir.Value, rows: np.ndarray, partition: ir.Value) -> ir.Value:
        """The value for the first process of every row, and zeros for the others."""
        table = np.zeros(self._partitions, np.int32)
        table[rows[:, 0]] = 1
        is_first = _made("convert", _tensor([], ir.IntegerType.get_signless(1)), [self._looked_up(table, partition)])
        nothing = {"value": ir.DenseElementsAttr.get(np.zeros((), np.int32))}
        zero = _made("constant", _tensor([], ir.IntegerType.get_signless(32)), attributes=nothing)
        zero = _made("convert", _tensor([], value.type.element_type), [zero])
        everywhere = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get([])}
        zeros = _made("broadcast_in_dim", value.type, [zero], everywhere)
        return _made("select", value.type, [is_first, value, zeros])

    def _looked_up(self, table: np.ndarray, partition: ir.Value) -> ir.Value:
        """table[partition], tensor<i32>."""
        element = ir.IntegerType.get_signless(32)
        value = ir.DenseElementsAttr.get(table)
        constant = _made("constant", _tensor([len(table)], element), attributes={"value": value})
        sizes = {"slice_sizes": ir.DenseI64ArrayAttr.get([1])}
        found = _made("dynamic_slice", _tensor([1], element), [constant, partition], sizes)
        return _made("reshape", _tensor([], element), [found])


def _among(rows: np.ndarray) -> dict[str, ir.Attribute]:
    return {
        "replica_groups": ir.DenseElementsAttr.get(np.ascontiguousarray(rows, np.int64)),
        "channel_handle": ir.Attribute.parse(_CHANNEL),
        "use_global_device_ids": ir.UnitAttr.get(),
    }


def _summed(value: ir.Value, rows: np.ndarray) -> ir.Value:
    """The sum of what the processes of a row have."""
    scalar = _tensor([], value.type.element_type)
    op = ir.Operation.create("stablehlo.all_reduce", [value.type], [value], attributes=_among(rows), regions=1)
    block = ir.Block.create_at_start(op.regions[0], [scalar, scalar], [op.location] * 2)
    with ir.InsertionPoint(block):
        total = _made("add", scalar, list(block.arguments))
        ir.Operation.create("stablehlo.return", operands=[total])
    return op.results[0]


def _tensor(sizes: Sequence[int], element: ir.Type) -> ir.Type:
    return ir.RankedTensorType.get(list(sizes), element)


def _made(
    name: str,
    type_: ir.Type,
    operands: Sequence[ir.Value] = (),
    attributes: dict[str, ir.Attribute] | None = None,
) -> ir.Value:
    op = ir.Operation.create(f"stablehlo.{name}", results=[type_], operands=list(operands), attributes=attributes)
    return op.results[0]
