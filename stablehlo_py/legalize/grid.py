"""The process grid as legalization sees it: who is in a group with whom, and arithmetic with the process's number."""

from __future__ import annotations

import numpy as np

from stablehlo_py.dialect import build
from stablehlo_py.dialect.constants import to_numpy
from stablehlo_py.dialect.grid import Grid, Groups, grid_of
from stablehlo_py.dialect.ops.grid import NOBODY
from stablehlo_py.legalize.rules import Unsupported
from stablehlo_py.mlir import ir, stablehlo

_OTHER_GRID = "compile it for the grid that it was written for: Options(num_replicas=..., num_partitions=...)"


# --- groups ----------------------------------------------------------------------------------------------------------


def channel(op: ir.OpView) -> int:
    """The channel id; 0 where there is none."""
    if "channel_handle" not in op.attributes:
        return 0
    return stablehlo.ChannelHandle(op.attributes["channel_handle"]).handle


def groups_with_partitions(op: ir.OpView) -> Groups:
    """Groups of all_reduce, all_gather, reduce_scatter, collective_reduce: cross_replica, cross_replica_and_partition
    or flattened_ids (spec, section Collective ops)."""
    grid, across = grid_of(op), channel(op) > 0
    flattened = "use_global_device_ids" in op.attributes
    if flattened and not across:
        raise Unsupported("uses global device ids without a channel", "give it a channel_handle with a positive id")
    if flattened:
        return _checked(replica_groups(op, grid.processes), grid.processes, "process", grid)
    rows = _checked(replica_groups(op, grid.replicas), grid.replicas, "replica", grid)
    if not across:
        return _in_each_partition(rows, grid)
    return [[grid.number(replica, p) for p in range(grid.partitions) for replica in row] for row in rows]


def groups_of_one_kind(op: ir.OpView) -> Groups:
    """Groups of all_to_all and collective_broadcast: cross_replica, or cross_partition where there is a channel."""
    grid = grid_of(op)
    if channel(op) > 0:
        rows = _checked(replica_groups(op, grid.partitions), grid.partitions, "partition", grid)
        return _in_each_replica(rows, grid)
    return _in_each_partition(_checked(replica_groups(op, grid.replicas), grid.replicas, "replica", grid), grid)


def pairs(op: ir.OpView, *, across_partitions: bool) -> list[tuple[int, int]]:
    """(source, target) processes of `source_target_pairs`, in every replica or partition.

    Raises Unsupported for a process that is not there, and for one that sends or receives twice.
    """
    grid = grid_of(op)
    count = grid.partitions if across_partitions else grid.replicas
    rows = to_numpy(op.attributes["source_target_pairs"]).reshape(-1, 2).tolist()
    kind = "partition" if across_partitions else "replica"
    for column in zip(*rows, strict=True):
        _checked([list(column)], count, kind, grid)
    spread = _in_each_replica if across_partitions else _in_each_partition
    return [(source, target) for source, target in spread(rows, grid)]


def _in_each_partition(rows: Groups, grid: Grid) -> Groups:
    return [[grid.number(replica, p) for replica in row] for row in rows for p in range(grid.partitions)]


def _in_each_replica(rows: Groups, grid: Grid) -> Groups:
    return [[grid.number(r, partition) for partition in row] for row in rows for r in range(grid.replicas)]


def _checked(rows: Groups, count: int, kind: str, grid: Grid) -> Groups:
    ids = [member for row in rows for member in row]
    size = f"{grid.replicas} replica(s) and {grid.partitions} partition(s)"
    for member in ids:
        if not 0 <= member < count:
            raise Unsupported(f"names {kind} {member}, the grid has {size}", _OTHER_GRID)
        if ids.count(member) > 1:
            raise Unsupported(f"names {kind} {member} twice", "a process takes part once")
    return rows


def replica_groups(op: ir.OpView, count: int) -> Groups:
    """The rows of `replica_groups` without padding; one group of all `count` where they are empty."""
    attribute = op.attributes["replica_groups"]
    if isinstance(attribute, ir.DenseElementsAttr):
        rows = to_numpy(attribute)
        listed = [[member for member in row if member != NOBODY] for row in rows.tolist()] if rows.size else []
    else:
        listed = _mesh_groups(stablehlo.ReplicaGroupMeshAxesAttr(attribute))
    return listed or [list(range(count))]


def _mesh_groups(attribute: ir.Attribute) -> Groups:
    """Groups that vary along some axes of a mesh; devices are numbered row by row where the mesh does not list them."""
    if not stablehlo.MeshAttr.isinstance(attribute.mesh):
        raise Unsupported("names a mesh by symbol", "write the mesh, or the groups, into the op")
    mesh = stablehlo.MeshAttr(attribute.mesh)
    axes = [stablehlo.MeshAxisAttr(axis) for axis in mesh.axes]
    chosen = [stablehlo.AxisRefAttr(axis) for axis in attribute.axes]
    # A part of an axis is an axis of its own: (pre_size)size stands for sizes pre_size, size, rest.
    sizes: list[int] = []
    place: dict[tuple[str, int], int] = {}
    for axis in axes:
        parts = [stablehlo.SubAxisInfoAttr(ref.sub_axis_info) for ref in chosen if _splits(ref, axis.name)]
        cuts = sorted({1, axis.size, *(cut for part in parts for cut in (part.pre_size, part.pre_size * part.size))})
        for low, high in zip(cuts, cuts[1:] or [axis.size], strict=False):
            place[axis.name, low] = len(sizes)
            sizes.append(high // low)
    ids = to_numpy(mesh.device_ids) if mesh.device_ids is not None else np.arange(int(np.prod(sizes)))
    varying: list[int] = []
    for ref in chosen:
        info = stablehlo.SubAxisInfoAttr(ref.sub_axis_info) if ref.sub_axis_info is not None else None
        low, high = (info.pre_size, info.pre_size * info.size) if info else (1, None)
        names = [key for key in place if key[0] == ref.name and key[1] >= low and (high is None or key[1] < high)]
        varying += [place[key] for key in sorted(names)]
    fixed = [dimension for dimension in range(len(sizes)) if dimension not in varying]
    width = int(np.prod([sizes[dimension] for dimension in varying]))
    return ids.reshape(sizes).transpose([*fixed, *varying]).reshape(-1, width).tolist()


def _splits(ref: ir.Attribute, name: str) -> bool:
    return ref.name == name and ref.sub_axis_info is not None


# --- the process that runs -------------------------------------------------------------------------------------------


def process_number(op: ir.OpView) -> ir.Value:
    """The number of this process, tensor<i64>."""
    grid = grid_of(op)
    wide, narrow = (build.tensor([], ir.Type.parse(element)) for element in ("i64", "ui32"))
    replica, partition = (
        build.value("convert", wide, build.value(name, narrow)) for name in ("replica_id", "partition_id")
    )
    return build.like("add", build.like("multiply", replica, build.splat(grid.partitions, wide)), partition)
