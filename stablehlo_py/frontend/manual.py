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

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from stablehlo_py.dialect.locations import describe
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.frontend.placement import Placement, UnknownSharding, placement_of
from stablehlo_py.frontend.shards import Shards


class ManualComputation:
    """One `sdy.manual_computation` op: `shards` of its operands, then `whole` results of what its body returns.

    Args:
        ir, sdy: jaxlib's modules.
        op: the op, which stays as it is.
        meshes: the text of every mesh, by symbol name.
        partitions: how many processes the module is for.

    Raises:
        UnsupportedError: a sharding that has no counterpart here, or a mesh of another size.
    """

    def __init__(self, ir: Any, sdy: ModuleType, op: Any, meshes: Mapping[str, str], partitions: int) -> None:
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

    def _shardings(self, name: str) -> list[Any]:
        of_values = self._sdy.TensorShardingPerValueAttr(self._op.attributes[name]).shardings
        return [self._sdy.TensorShardingAttr(sharding) for sharding in of_values]

    def _placement(self, sharding: Any, rank: int) -> Placement:
        try:
            return placement_of(str(sharding), self._meshes, rank, self._partitions, self._manual)
        except UnknownSharding as error:
            raise UnsupportedError(
                f"this computation is split by hand, and {error}",
                location=describe(self._op.location),
                op=self._op.name,
                remedy="shard over the axes of one mesh of all devices",
            ) from error

    def _shard(self, value: Any, sharding: Any) -> Any:
        placement = self._placement(sharding, value.type.rank)
        if not placement.is_split:
            return value
        return Shards(self._ir, self._partitions).own(value, placement.groups, placement.sums)

    def _gathered(self, value: Any, sharding: Any) -> Any:
        placement = self._placement(sharding, value.type.rank)
        return Shards(self._ir, self._partitions).whole(value, placement.groups, placement.sums)
