"""The process grid as legalization sees it: its size, who is in a group with whom, the process that runs.

A module says its size in `mhlo.num_replicas` and `mhlo.num_partitions` (JAX writes them, options override them). A
process is known by its number, `replica * num_partitions + partition`. What communicates gets `process`, an argument
that is added to the function: everything that differs from one process to the next is computed from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from stablehlo_py.dialect import build
from stablehlo_py.dialect.constants import to_numpy
from stablehlo_py.dialect.ops.grid import NOBODY, PROCESS_WORDS
from stablehlo_py.dialect.types import shape
from stablehlo_py.legalize.rules import Unsupported
from stablehlo_py.mlir import ir, stablehlo

REPLICAS, PARTITIONS = "mhlo.num_replicas", "mhlo.num_partitions"
WHOLE = "hlo.whole"  # on the module: all processes have the same arguments, and the same results
PROCESS = "hlo.process"  # marks the argument
BARRIERS = "hlo.barriers"  # on the function: the groups that meet at each barrier

Groups = list[list[int]]
_OTHER_GRID = "compile it for the grid that it was written for: Options(num_replicas=..., num_partitions=...)"


@dataclass(frozen=True)
class Grid:
    """`replicas` x `partitions` processes."""

    replicas: int
    partitions: int

    @property
    def processes(self) -> int:
        """How many processes there are."""
        return self.replicas * self.partitions

    def number(self, replica: int, partition: int) -> int:
        """The number of a process."""
        return replica * self.partitions + partition


def grid_of_module(module: ir.Operation) -> Grid:
    """The grid that a module is for; 1 x 1 where it does not say."""
    attributes = module.attributes
    sizes = [attributes[name].value if name in attributes else 1 for name in (REPLICAS, PARTITIONS)]
    return Grid(*sizes)


def declare_grid(module: ir.Module, replicas: int | None, partitions: int | None) -> None:
    """Write the size of the grid into the module, where it is given."""
    attributes = module.operation.attributes
    for name, size in ((REPLICAS, replicas), (PARTITIONS, partitions)):
        if size is not None:
            attributes[name] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32, module.context), size)


def grid_of(op: ir.OpView) -> Grid:
    """The grid of the module around an op."""
    around = op.operation
    while around.name != "builtin.module":
        around = around.parent.operation
    return grid_of_module(around)


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


def components(links: Iterable[tuple[int, int]]) -> Groups:
    """Processes that are linked, directly or through others, in ascending order."""
    of: dict[int, list[int]] = {}
    for one, other in links:
        left, right = of.setdefault(one, [one]), of.setdefault(other, [other])
        if left is not right:
            left += right
            of.update(dict.fromkeys(right, left))
    return [sorted(group) for number, group in sorted(of.items()) if number == min(group)]


# --- the process that runs -------------------------------------------------------------------------------------------


def process(op: ir.OpView) -> ir.Value:
    """The argument of the function around an op that tells who this process is; added where there is none yet."""
    function = function_of(op)
    block = function.regions[0].blocks[0]
    described = list(function.attributes["arg_attrs"]) if "arg_attrs" in function.attributes else []
    if described and PROCESS in described[-1]:
        return block.arguments[len(block.arguments) - 1]
    described = described or [ir.DictAttr.get({})] * len(block.arguments)
    words = build.tensor([PROCESS_WORDS], ir.IntegerType.get_signless(64))
    argument = block.add_argument(words, function.location)
    signature = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    types = [*signature.inputs, words]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, signature.results))
    function.attributes["arg_attrs"] = ir.ArrayAttr.get([*described, ir.DictAttr.get({PROCESS: ir.UnitAttr.get()})])
    return argument


def function_of(op: ir.OpView) -> ir.Operation:
    """The function around an op."""
    around = op.operation.parent.operation
    while around.name != "func.func":
        around = around.parent.operation
    return around


def process_number(op: ir.OpView) -> ir.Value:
    """The number of this process, tensor<i64>."""
    element = ir.IntegerType.get_signless(64)
    first = build.value("slice", build.tensor([1], element), process(op), start=[0], limit=[1], strides=[1])
    return build.reshape(first, [])


def looked_up(op: ir.OpView, numbers: Sequence[int]) -> ir.Value:
    """`numbers[process]`, tensor<i64>."""
    element = ir.IntegerType.get_signless(64)
    table = build.constant(np.asarray(numbers, np.int64), element)
    found = build.value("dynamic_slice", build.tensor([1], element), table, process_number(op), sizes=[1])
    return build.reshape(found, [])


def barrier(op: ir.OpView, groups: Groups) -> int:
    """The number of the barrier at which these groups meet. Ops with equal groups share one: a process is at one op at
    a time, and all reach them in one order."""
    function = function_of(op)
    known = list(function.attributes[BARRIERS]) if BARRIERS in function.attributes else []
    key = ir.StringAttr.get(repr(groups))
    if key not in known:
        known.append(key)
        function.attributes[BARRIERS] = ir.ArrayAttr.get(known)
    return known.index(key)


def padded(groups: Groups) -> tuple[list[int], int]:
    """(rows of equal width in one list, width)."""
    width = max((len(group) for group in groups), default=1)
    return [member for group in groups for member in [*group, *[NOBODY] * (width - len(group))]], width


def communicate(op: ir.OpView, name: str, groups: Groups, operand: ir.Value, **attributes: Sequence[int]) -> ir.Value:
    """An hlo op in which groups meet: all_gather, all_to_all or collective_permute."""
    members, width = padded(groups)
    result = operand.type
    if name == "all_gather":
        result = build.tensor([width, *shape(operand)], operand.type.element_type)
    return build.value(
        name,
        result,
        process(op),
        operand,
        groups=members,
        width=width,
        processes=grid_of(op).processes,
        barrier=barrier(op, groups),
        origin=op.operation.name,
        **attributes,
    )
