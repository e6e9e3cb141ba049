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
from stablehlo_py.frontend.shards import Shards, groups_along


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
            return [
                self._gathered(value, sharding) for value, sharding in zip(values, self.result_shardings, strict=True)
            ]

    @property
    def result_shardings(self) -> list[Any]:
        """How the results are sharded."""
        return self._shardings("out_shardings")

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
        groups = self._groups(sharding, value.type.rank)
        return Shards(self._ir, self._partitions).own(value, groups) if groups else value

    def _gathered(self, value: Any, sharding: Any) -> Any:
        groups = self._groups(sharding, value.type.rank)
        return Shards(self._ir, self._partitions).whole(value, groups)

    def _groups(self, sharding: Any, rank: int) -> list[np.ndarray]:
        """For every dimension the groups of devices along it; nothing where none is split."""
        split = self._axes(sharding, rank)
        if not any(split):
            return []
        names, devices = self._mesh(sharding)
        return [groups_along(devices, [names.index(axis) for axis in axes]) for axes in split]
