"""Shards of whole arrays in a grid of partitions, as ops: a process takes its own, and puts those of all together.

How a tensor is split is said for each dimension by an array of devices: a row for every group of devices that differ
along this dimension only, in the order of their shards. Objects are of either copy of MLIR: ours, or jaxlib's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stablehlo_py.dialect.constants import to_numpy
from stablehlo_py.dialect.edit import replace_op
from stablehlo_py.dialect.types import i64
from stablehlo_py.mlir import ir

_CHANNEL = "#stablehlo.channel_handle<handle = 1, type = 0>"


class Shards:
    """Makes ops at the insertion point, in the location that is set. `ir` is the copy's module."""

    def __init__(self, ir: Any, partitions: int) -> None:
        self._ir, self._partitions = ir, partitions

    def own(self, value: Any, groups: Sequence[np.ndarray], sums: np.ndarray | None = None) -> Any:
        """This process's part of a whole value. `sums`: rows of devices whose parts add up to it; the first has all."""
        if sums is not None and sums.shape[1] > 1:
            value = self._for_first(value, sums)
        sizes = list(value.type.shape)
        partition = self._make("partition_id", self._tensor([], self._ir.IntegerType.get_unsigned(32)))
        starts = []
        for dimension, rows in enumerate(groups):
            sizes[dimension] //= rows.shape[1]
            starts.append(self._looked_up(_starts(rows, sizes[dimension], self._partitions), partition))
        attributes = {"slice_sizes": self._ir.DenseI64ArrayAttr.get(sizes)}
        type_ = self._tensor(sizes, value.type.element_type)
        return self._make("dynamic_slice", type_, [value, *starts], attributes)

    def whole(self, value: Any, groups: Sequence[np.ndarray], sums: np.ndarray | None = None) -> Any:
        """The value that all processes have parts of; `sums`: rows of devices whose parts add up to it."""
        counts = [rows.shape[1] for rows in groups]
        sizes = [size * count for size, count in zip(value.type.shape, counts, strict=True)]
        if 0 in sizes:  # nothing to gather, which the op refuses
            type_ = self._tensor(sizes, value.type.element_type)
            return value if value.type == type_ else self._make("reshape", type_, [value])
        if sums is not None and sums.shape[1] > 1:
            value = self._summed(value, sums)
        for dimension, rows in enumerate(groups):
            if rows.shape[1] == 1:
                continue
            sizes = list(value.type.shape)
            sizes[dimension] *= rows.shape[1]
            number = self._ir.IntegerAttr.get(self._ir.IntegerType.get_signless(64), dimension)
            attributes = {"all_gather_dim": number, **self._among(rows)}
            value = self._make("all_gather", self._tensor(sizes, value.type.element_type), [value], attributes)
        return value

    def _among(self, rows: np.ndarray) -> dict[str, Any]:
        return {
            "replica_groups": self._ir.DenseElementsAttr.get(np.ascontiguousarray(rows, np.int64)),
            "channel_handle": self._ir.Attribute.parse(_CHANNEL),
            "use_global_device_ids": self._ir.UnitAttr.get(),
        }

    def _summed(self, value: Any, rows: np.ndarray) -> Any:
        """The sum of what the processes of a row have."""
        scalar = self._tensor([], value.type.element_type)
        op = self._ir.Operation.create(
            "stablehlo.all_reduce", [value.type], [value], attributes=self._among(rows), regions=1
        )
        block = self._ir.Block.create_at_start(op.regions[0], [scalar, scalar], [op.location] * 2)
        with self._ir.InsertionPoint(block):
            total = self._make("add", scalar, list(block.arguments))
            self._ir.Operation.create("stablehlo.return", operands=[total])
        return op.results[0]

    def _for_first(self, value: Any, rows: np.ndarray) -> Any:
        """The value for the first process of every row, and zeros for the others."""
        table = np.zeros(self._partitions, np.int32)
        table[rows[:, 0]] = 1
        partition = self._make("partition_id", self._tensor([], self._ir.IntegerType.get_unsigned(32)))
        bit = self._tensor([], self._ir.IntegerType.get_signless(1))
        is_first = self._make("convert", bit, [self._looked_up(table, partition)])
        number = self._tensor([], value.type.element_type)
        nothing = {"value": self._ir.DenseElementsAttr.get(np.zeros((), np.int32))}
        zero = self._make("constant", self._tensor([], self._ir.IntegerType.get_signless(32)), attributes=nothing)
        zero = self._make("convert", number, [zero])
        everywhere = {"broadcast_dimensions": self._ir.DenseI64ArrayAttr.get([])}
        zeros = self._make("broadcast_in_dim", value.type, [zero], everywhere)
        return self._make("select", value.type, [is_first, value, zeros])

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


def without_detours(module: ir.Module, partitions: int) -> None:
    """Where a process puts a value together only to take its own part of it, it has that part already."""
    slices: list[ir.Operation] = []

    def visit(view: ir.Operation) -> ir.WalkResult:
        if view.operation.name == "stablehlo.dynamic_slice":
            slices.append(view.operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in slices:
        gathered, groups = op.operands[0], dict[int, np.ndarray]()
        value = gathered
        while _is_gathered(value) and i64(value.owner, "all_gather_dim") not in groups:
            groups[i64(value.owner, "all_gather_dim")] = to_numpy(value.owner.attributes["replica_groups"])
            value = value.owner.operands[0]
        if not groups or value.type != op.results[0].type:
            continue
        wanted = [
            _starts(groups[dimension], size, partitions) if dimension in groups else np.zeros(partitions, np.int32)
            for dimension, size in enumerate(value.type.shape)
        ]
        found = [_table(start) for start in list(op.operands)[1:]]
        if all(table is not None and np.array_equal(table, each) for table, each in zip(found, wanted, strict=True)):
            replace_op(op, [value])
            while _is_gathered(gathered) and not list(gathered.uses):
                unused, gathered = gathered.owner.operation, gathered.owner.operands[0]
                unused.erase()


def _is_gathered(value: ir.Value) -> bool:
    owner = value.owner
    return not isinstance(owner, ir.Block) and owner.operation.name == "stablehlo.all_gather"


def _starts(rows: np.ndarray, size: int, partitions: int) -> np.ndarray:
    """Where the part of every process begins, whose `size` is that."""
    table = np.zeros(partitions, np.int32)
    table[rows] = np.arange(rows.shape[1], dtype=np.int32) * size
    return table


def _table(start: ir.Value) -> np.ndarray | None:
    """The table from which `Shards.own` reads where a part begins."""
    for name in ("stablehlo.reshape", "stablehlo.dynamic_slice", "stablehlo.constant"):
        if isinstance(start.owner, ir.Block) or start.owner.operation.name != name:
            return None
        if name == "stablehlo.constant":
            return to_numpy(start.owner.attributes["value"])
        start = start.owner.operands[0]
    return None


def groups_along(devices: np.ndarray, dimensions: Sequence[int]) -> np.ndarray:
    """Rows of the devices of a mesh that differ along some of its dimensions only, in their order."""
    fixed = [dimension for dimension in range(devices.ndim) if dimension not in dimensions]
    width = int(np.prod([devices.shape[dimension] for dimension in dimensions]))
    return devices.transpose([*fixed, *dimensions]).reshape(-1, width)
