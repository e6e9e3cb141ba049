"""`jax.shard_map`: a computation on the shards of one device, as a program that every process of a grid runs on whole
arrays.

    %y = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"d"}]>] out_shardings=[<@mesh, [{"d"}]>] { body }

becomes, on a grid with a partition for each device of the mesh:

    %start = [0, 2, 4, 6][partition_id]         each process takes its shard of %x
    %shard = dynamic_slice %x, %start
    ... body ...
    %y = all_gather %result                     and has all of the result in the end

What stands outside the computation is the same in all processes, and so are arguments and results. Objects here are of
jaxlib's copy of MLIR (see `shardy`).
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from stablehlo_py.dialect.locations import describe
from stablehlo_py.errors import UnsupportedError

_CHANNEL = "#stablehlo.channel_handle<handle = 1, type = 0>"


class ManualComputation:
    """One `sdy.manual_computation` op: `shards` of its operands, then `whole` results of what its body returns.

    Args:
        ir, sdy: jaxlib's modules.
        op: the op, which stays as it is.
        meshes: the attribute of every mesh, by symbol name.
        partitions: how many processes the module is for.

    Raises:
        UnsupportedError: a sharding that has no counterpart here, or a mesh of another size.
    """

    def __init__(self, ir: Any, sdy: ModuleType, op: Any, meshes: dict[str, Any], partitions: int) -> None:
        self._ir, self._sdy, self._op = ir, sdy, op
        self._meshes, self._partitions = meshes, partitions
        self._manual = {str(axis).strip('"') for axis in sdy.ManualAxesAttr(op.attributes["manual_axes"])}

    def shards(self) -> list[Any]:
        """This process's part of every operand, made before the op."""
        with self._op.location, self._ir.InsertionPoint(self._op):
            shardings = self._shardings("in_shardings")
            return [self._shard(value, sharding) for value, sharding in zip(self._op.operands, shardings, strict=True)]

    def whole(self, values: Sequence[Any]) -> list[Any]:
        """Every result put together from the parts of all processes, made before the op."""
        with self._op.location, self._ir.InsertionPoint(self._op):
            shardings = self._shardings("out_shardings")
            return [self._gathered(value, sharding) for value, sharding in zip(values, shardings, strict=True)]

    # --- shardings ---------------------------------------------------------------------------------------------------

    def _shardings(self, name: str) -> list[Any]:
        of_values = self._sdy.TensorShardingPerValueAttr(self._op.attributes[name]).shardings
        return [self._sdy.TensorShardingAttr(sharding) for sharding in of_values]

    def _mesh(self, sharding: Any) -> tuple[list[str], np.ndarray]:
        """Names of the axes; the devices, in the shape of the mesh."""
        named = sharding.mesh_or_ref
        by_symbol = isinstance(named, self._ir.FlatSymbolRefAttr)
        mesh = self._sdy.MeshAttr(self._meshes[named.value] if by_symbol else named)
        axes = [self._sdy.MeshAxisAttr(axis) for axis in mesh.axes]
        devices = np.array(list(mesh.device_ids) or range(int(np.prod([axis.size for axis in axes]))))
        if sorted(devices) != list(range(self._partitions)):
            self._refuse(f"its mesh has {devices.size} devices, the module is for {self._partitions} partitions")
        return [axis.name for axis in axes], devices.reshape([axis.size for axis in axes])

    def _axes(self, sharding: Any, rank: int) -> list[list[str]]:
        """For every dimension the manual axes that it is split along, the slowest first."""
        if list(sharding.unreduced_axes):
            self._refuse("its sharding has unreduced axes")
        found = []
        for dimension in sharding.dimension_shardings:
            references = [self._sdy.AxisRefAttr(axis) for axis in self._sdy.DimensionShardingAttr(dimension).axes]
            if any(reference.sub_axis_info is not None for reference in references):
                self._refuse("its sharding splits an axis of the mesh")
            found.append([reference.name for reference in references if reference.name in self._manual])
        return found or [[] for _ in range(rank)]

    def _refuse(self, reason: str) -> None:
        raise UnsupportedError(
            f"this computation is split by hand, and {reason}",
            location=describe(self._op.location),
            op=self._op.name,
            remedy="shard over whole axes of one mesh of all devices",
        )

    # --- values ------------------------------------------------------------------------------------------------------

    def _shard(self, value: Any, sharding: Any) -> Any:
        sizes = list(value.type.shape)
        split = self._axes(sharding, len(sizes))
        if not any(split):
            return value
        names, devices = self._mesh(sharding)
        partition = self._make("partition_id", self._tensor([], self._ir.IntegerType.get_unsigned(32)))
        starts = []
        for dimension, axes in enumerate(split):
            groups = _groups(names, devices, axes)
            sizes[dimension] //= groups.shape[1]
            table = np.zeros(self._partitions, np.int32)
            table[groups] = np.arange(groups.shape[1], dtype=np.int32) * sizes[dimension]
            starts.append(self._looked_up(table, partition))
        attributes = {"slice_sizes": self._ir.DenseI64ArrayAttr.get(sizes)}
        type_ = self._tensor(sizes, value.type.element_type)
        return self._make("dynamic_slice", type_, [value, *starts], attributes)

    def _looked_up(self, table: np.ndarray, partition: Any) -> Any:
        """table[partition], tensor<i32>."""
        element = self._ir.IntegerType.get_signless(32)
        value = self._ir.DenseElementsAttr.get(table)
        constant = self._make("constant", self._tensor([len(table)], element), attributes={"value": value})
        sizes = {"slice_sizes": self._ir.DenseI64ArrayAttr.get([1])}
        found = self._make("dynamic_slice", self._tensor([1], element), [constant, partition], sizes)
        return self._make("reshape", self._tensor([], element), [found])

    def _gathered(self, value: Any, sharding: Any) -> Any:
        for dimension, axes in enumerate(self._axes(sharding, value.type.rank)):
            if not axes:
                continue
            groups = _groups(*self._mesh(sharding), axes)
            sizes = list(value.type.shape)
            sizes[dimension] *= groups.shape[1]
            attributes = {
                "all_gather_dim": self._ir.IntegerAttr.get(self._ir.IntegerType.get_signless(64), dimension),
                "replica_groups": self._ir.DenseElementsAttr.get(np.ascontiguousarray(groups, np.int64)),
                "channel_handle": self._ir.Attribute.parse(_CHANNEL),
                "use_global_device_ids": self._ir.UnitAttr.get(),
            }
            value = self._make("all_gather", self._tensor(sizes, value.type.element_type), [value], attributes)
        return value

    def _tensor(self, sizes: Sequence[int], element: Any) -> Any:
        return self._ir.RankedTensorType.get(list(sizes), element)

    def _make(
        self, name: str, type_: Any, operands: Sequence[Any] = (), attributes: dict[str, Any] | None = None
    ) -> Any:
        return self._ir.Operation.create(
            f"stablehlo.{name}", results=[type_], operands=list(operands), attributes=attributes
        ).results[0]


def _groups(names: Sequence[str], devices: np.ndarray, axes: Sequence[str]) -> np.ndarray:
    """Rows of the devices that differ along `axes` only, in the order of their shards."""
    varying = [names.index(axis) for axis in axes]
    fixed = [dimension for dimension in range(devices.ndim) if dimension not in varying]
    width = int(np.prod([devices.shape[dimension] for dimension in varying]))
    return devices.transpose([*fixed, *varying]).reshape(-1, width)
