"""Shards of whole arrays in a grid of partitions, as ops: a process takes its own, and puts those of all together.

How a tensor is split is said for each dimension by an array of devices: a row for every group of devices that differ
along this dimension only, in the order of their shards. Objects are of either copy of MLIR: ours, or jaxlib's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

_CHANNEL = "#stablehlo.channel_handle<handle = 1, type = 0>"


class Shards:
    """Makes ops at the insertion point, in the location that is set. `ir` is the copy's module."""

    def __init__(self, ir: Any, partitions: int) -> None:
        self._ir, self._partitions = ir, partitions

    def own(self, value: Any, groups: Sequence[np.ndarray]) -> Any:
        """This process's part of a whole value."""
        sizes = list(value.type.shape)
        partition = self._make("partition_id", self._tensor([], self._ir.IntegerType.get_unsigned(32)))
        starts = []
        for dimension, rows in enumerate(groups):
            sizes[dimension] //= rows.shape[1]
            table = np.zeros(self._partitions, np.int32)
            table[rows] = np.arange(rows.shape[1], dtype=np.int32) * sizes[dimension]
            starts.append(self._looked_up(table, partition))
        attributes = {"slice_sizes": self._ir.DenseI64ArrayAttr.get(sizes)}
        type_ = self._tensor(sizes, value.type.element_type)
        return self._make("dynamic_slice", type_, [value, *starts], attributes)

    def whole(self, value: Any, groups: Sequence[np.ndarray]) -> Any:
        """The value that all processes have parts of."""
        for dimension, rows in enumerate(groups):
            if rows.shape[1] == 1:
                continue
            sizes = list(value.type.shape)
            sizes[dimension] *= rows.shape[1]
            attributes = {
                "all_gather_dim": self._ir.IntegerAttr.get(self._ir.IntegerType.get_signless(64), dimension),
                "replica_groups": self._ir.DenseElementsAttr.get(np.ascontiguousarray(rows, np.int64)),
                "channel_handle": self._ir.Attribute.parse(_CHANNEL),
                "use_global_device_ids": self._ir.UnitAttr.get(),
            }
            value = self._make("all_gather", self._tensor(sizes, value.type.element_type), [value], attributes)
        return value

    def _looked_up(self, table: np.ndarray, partition: Any) -> Any:
        """table[partition], tensor<i32>."""
        element = self._ir.IntegerType.get_signless(32)
        value = self._ir.DenseElementsAttr.get(table)
        constant = self._make("constant", self._tensor([len(table)], element), attributes={"value": value})
        sizes = {"slice_sizes": self._ir.DenseI64ArrayAttr.get([1])}
        found = self._make("dynamic_slice", self._tensor([1], element), [constant, partition], sizes)
        return self._make("reshape", self._tensor([], element), [found])

    def _tensor(self, sizes: Sequence[int], element: Any) -> Any:
        return self._ir.RankedTensorType.get(list(sizes), element)

    def _make(
        self, name: str, type_: Any, operands: Sequence[Any] = (), attributes: dict[str, Any] | None = None
    ) -> Any:
        return self._ir.Operation.create(
            f"stablehlo.{name}", results=[type_], operands=list(operands), attributes=attributes
        ).results[0]


def groups_along(devices: np.ndarray, dimensions: Sequence[int]) -> np.ndarray:
    """Rows of the devices of a mesh that differ along some of its dimensions only, in their order."""
    fixed = [dimension for dimension in range(devices.ndim) if dimension not in dimensions]
    width = int(np.prod([devices.shape[dimension] for dimension in dimensions]))
    return devices.transpose([*fixed, *dimensions]).reshape(-1, width)
