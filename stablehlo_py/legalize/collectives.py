"""Collectives: one hlo op for each tensor, on groups of process numbers.

    stablehlo.all_reduce(%x) {add} replica_groups = [[0, 1]]  ->  hlo.all_reduce %x {kind = "add", groups = [0, 1]}

A computation that is more than one simple op stays with its `stablehlo.all_reduce` or `stablehlo.reduce_scatter`, whose
groups become process numbers too. How a collective is carried out is the backend's choice (`decompose-collectives`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stablehlo_py.dialect import build
from stablehlo_py.dialect.attributes import ZEROS
from stablehlo_py.dialect.grid import Groups, grid_of, looked_up, padded
from stablehlo_py.dialect.scalar_regions import not_elementwise
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import element_type, i64, is_bool, shape
from stablehlo_py.legalize.grid import (
    channel,
    groups_of_one_kind,
    groups_with_partitions,
    pairs,
    process_number,
)
from stablehlo_py.legalize.regions import combined, promoted, single_combiner
from stablehlo_py.legalize.rules import ON_BOOLEANS, RENAMED, Results, Unsupported, block_of, rule
from stablehlo_py.mlir import ir, stablehlo

RENAMED["stablehlo.replica_id"] = "hlo.replica_id"
RENAMED["stablehlo.partition_id"] = "hlo.partition_id"


# --- reductions ------------------------------------------------------------------------------------------------------


@rule("stablehlo.all_reduce")
def all_reduce(op: ir.OpView) -> Results:
    """Every operand by itself: the computation combines two elements of one tensor."""
    return _all_reduce(op, _of_all(op, groups_with_partitions(op)), list(op.operands))


@rule("stablehlo.cross-replica-sum")
def cross_replica_sum(op: ir.OpView) -> ir.Value:
    """What all_reduce came from: it adds."""
    kind = ON_BOOLEANS["hlo.add"].removeprefix("hlo.") if is_bool(element_type(op.operands[0])) else "add"
    groups = _of_all(op, groups_with_partitions(op))
    return build.like("all_reduce", op.operands[0], kind=kind, **_attributes(op, groups))


@rule("stablehlo.reduce_scatter")
def reduce_scatter(op: ir.OpView) -> ir.Value:
    """Each member has its block of what the operands of all members combine to."""
    groups = _equal(op, _of_all(op, groups_with_partitions(op)))
    operand, dimension = promoted(op.operands[0], combined(op)[0]), i64(op, "scatter_dimension")
    type_ = build.tensor(_split(shape(operand), dimension, len(groups[0])), element_type(operand))
    kind = single_combiner(op)
    if kind is None:
        dimensions = {"scatter_dimension": op.attributes["scatter_dimension"]}
        return _kept(op, "stablehlo.reduce_scatter", groups, [operand], [type_], dimensions).result
    return build.value("reduce_scatter", type_, operand, kind=kind, dimension=dimension, **_attributes(op, groups))


@rule("stablehlo.collective_reduce")
def collective_reduce(op: ir.OpView) -> Results:
    """What all_reduce gives, in the root of each group; zeros elsewhere. The root is the first member, or the one whose
    position the last operand holds."""
    groups = groups_with_partitions(op)
    position = [-1] * grid_of(op).processes
    for group in groups:
        for place, member in enumerate(group):
            position[member] = place
    alone = [[process] for process, place in enumerate(position) if place < 0]
    operands = list(op.operands)
    roots = operands.pop() if "has_dynamic_root" in op.attributes else None
    results = []
    for number, total in enumerate(_all_reduce(op, [*groups, *alone], operands)):
        place = looked_up(position, process_number(op))
        if roots is None:
            root = build.splat(0, place.type)
        else:
            place, root = build.convert(place, element_type(roots)), build.row(roots, number)
        results.append(_where(build.compare(place, root, "EQ"), total, _zero(op, number)))
    return results


def _all_reduce(op: ir.OpView, groups: Groups, operands: Sequence[ir.Value]) -> Sequence[ir.Value]:
    """The operands reduced by the op's region."""
    wide = [promoted(operand, combined(op)[0]) for operand in operands]
    kind = single_combiner(op)
    if kind is None:
        return list(_kept(op, "stablehlo.all_reduce", groups, wide, [each.type for each in wide]).results)
    return [build.like("all_reduce", operand, kind=kind, **_attributes(op, groups)) for operand in wide]


def _kept(
    op: ir.OpView,
    name: str,
    groups: Groups,
    operands: Sequence[ir.Value],
    types: Sequence[ir.Type],
    attributes: dict[str, ir.Attribute] | None = None,
) -> ir.Operation:
    """A StableHLO op with the region of `op`, of hlo ops. Its groups are process numbers (flattened_ids).

    Raises: Unsupported for a region with an op that does not work element by element.
    """
    block = block_of(op)
    unknown = not_elementwise(block)
    if unknown is not None:
        raise Unsupported(f"combines elements with '{unknown}'", "combine them with elementwise ops")
    members, width = padded(groups)
    rows = np.asarray(members, np.int64).reshape(-1, width)
    handle = stablehlo.ChannelHandle.get(max(1, channel(op)), 0)
    in_groups = {
        "replica_groups": ir.DenseElementsAttr.get(rows),
        "channel_handle": handle,
        "use_global_device_ids": ir.UnitAttr.get(),
    }
    made = build.op(name, types, operands, {**in_groups, **(attributes or {})}, regions=1)
    block.append_to(made.regions[0])
    return made


# --- moves -----------------------------------------------------------------------------------------------------------


@rule("stablehlo.all_gather")
def all_gather(op: ir.OpView) -> Results:
    """Every operand by itself."""
    groups = _equal(op, _of_all(op, groups_with_partitions(op)))
    dimension = i64(op, "all_gather_dim")
    return [_moved(op, "all_gather", groups, operand, concat=dimension, dimension=dimension) for operand in op.operands]


@rule("stablehlo.all_to_all")
def all_to_all(op: ir.OpView) -> Results:
    """Every operand by itself."""
    groups = _equal(op, _of_all(op, groups_of_one_kind(op)))
    split, concat, count = (i64(op, name) for name in ("split_dimension", "concat_dimension", "split_count"))
    if count != len(groups[0]):
        raise Unsupported(
            f"splits into {count} for groups of {len(groups[0])}", "make split_count the size of the groups"
        )
    numbers = {"split_dimension": split, "concat_dimension": concat}
    return [_moved(op, "all_to_all", groups, operand, split, concat, **numbers) for operand in op.operands]


def _moved(
    op: ir.OpView,
    name: str,
    groups: Groups,
    operand: ir.Value,
    split: int | None = None,
    concat: int = 0,
    **attributes: int,
) -> ir.Value:
    """An hlo op that splits a dimension between the members, or none, and joins what they have along another."""
    sizes, width = list(shape(operand)), len(groups[0])
    if split is not None:
        sizes = _split(sizes, split, width)
    sizes[concat] *= width
    type_ = build.tensor(sizes, element_type(operand))
    return build.value(name, type_, operand, **attributes, **_attributes(op, groups))


def _split(sizes: Sequence[IntLike], dimension: int, count: int) -> list[IntLike]:
    """The sizes of one of `count` blocks along a dimension."""
    if sizes[dimension] % count:
        raise Unsupported(f"splits a dimension of {sizes[dimension]} into {count} blocks", "make it divisible")
    return [size // count if number == dimension else size for number, size in enumerate(sizes)]


@rule("stablehlo.collective_broadcast")
def collective_broadcast(op: ir.OpView) -> Results:
    """Every operand by itself."""
    groups = groups_of_one_kind(op)
    present = {member for group in groups for member in group}
    moved = [build.like("collective_broadcast", operand, **_attributes(op, groups)) for operand in op.operands]
    return _with_zeros(op, moved, present)


@rule("stablehlo.collective_permute")
def collective_permute(op: ir.OpView) -> Results:
    """Every operand by itself."""
    linked = pairs(op, across_partitions=channel(op) > 0)
    attributes = {**_described(op), "pairs": [number for pair in linked for number in pair]}
    moved = [build.like("collective_permute", operand, **attributes) for operand in op.operands]
    return _with_zeros(op, moved, {target for _, target in linked})


def _with_zeros(op: ir.OpView, values: Sequence[ir.Value], arrives: set[int]) -> Sequence[ir.Value]:
    """The values, in processes where nothing arrives what stands for zero."""
    there = [int(process in arrives) for process in range(grid_of(op).processes)]
    if all(there):
        return values
    results = list(values)
    for number, value in enumerate(values):
        if zero := _zero(op, number):
            arrived = looked_up(there, process_number(op))
            results[number] = _where(build.compare(arrived, build.splat(0, arrived.type), "NE"), value, zero)
    return results


def _where(holds: ir.Value, value: ir.Value, zero: int) -> ir.Value:
    """The value where a scalar predicate holds, else what stands for zero."""
    everywhere = build.broadcast(holds, shape(value), [])
    return build.value("select", value.type, everywhere, value, build.splat(zero, value.type))


def _zero(op: ir.OpView, number: int) -> int:
    """What stands for zero in a result."""
    return op.attributes[ZEROS][number] if ZEROS in op.attributes else 0


# --- groups ----------------------------------------------------------------------------------------------------------


def _described(op: ir.OpView) -> dict[str, int | str | Sequence[int]]:
    return {"processes": grid_of(op).processes, "channel": channel(op), "origin": op.operation.name}


def _attributes(op: ir.OpView, groups: Groups) -> dict[str, int | str | Sequence[int]]:
    """What collectives with groups have in common."""
    members, width = padded(groups)
    return {**_described(op), "groups": members, "width": width}


def _of_all(op: ir.OpView, groups: Groups) -> Groups:
    """Groups that hold every process, as the specification wants them."""
    missing = set(range(grid_of(op).processes)) - {member for group in groups for member in group}
    if missing:
        raise Unsupported(
            f"leaves out {len(missing)} of {grid_of(op).processes} processes", "put every process into a group"
        )
    return groups


def _equal(op: ir.OpView, groups: Groups) -> Groups:
    if len({len(group) for group in groups}) > 1:
        raise Unsupported("has groups of different sizes, so its result has no shape", "use groups of one size")
    return groups
