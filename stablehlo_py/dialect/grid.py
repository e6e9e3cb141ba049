"""The process grid: its size, the groups that collectives name, and the argument that tells a process who it is.

A module says its size in `mhlo.num_replicas` and `mhlo.num_partitions` (JAX writes them, options override them). A
process is known by its number, `replica * num_partitions + partition`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stablehlo_py.dialect import build
from stablehlo_py.dialect.attributes import PARTITIONS, PROCESS, REPLICAS
from stablehlo_py.dialect.constants import to_numpy
from stablehlo_py.dialect.ops.grid import NOBODY, PROCESS_WORDS
from stablehlo_py.dialect.types import i64, i64s, module_of
from stablehlo_py.mlir import ir

Groups = list[list[int]]


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


def grid_of(op: ir.OpView | ir.Operation) -> Grid:
    """The grid of the module around an op."""
    return grid_of_module(module_of(op.operation))


def groups_of(op: ir.OpView | ir.Operation) -> Groups:
    """The groups of an hlo collective, or of a StableHLO one that legalization has kept, without padding."""
    if "groups" in op.attributes:
        width, members = i64(op, "width"), i64s(op, "groups")
        rows = [members[start : start + width] for start in range(0, len(members), width)]
    else:
        rows = to_numpy(op.attributes["replica_groups"]).tolist()
    return [[member for member in row if member != NOBODY] for row in rows]


def pairs_of(op: ir.OpView | ir.Operation) -> list[tuple[int, int]]:
    """(source, target) processes of an `hlo.collective_permute`."""
    flat = i64s(op, "pairs")
    return list(zip(flat[::2], flat[1::2], strict=True))


def padded(groups: Groups) -> tuple[list[int], int]:
    """(rows of equal width in one list, width)."""
    width = max((len(group) for group in groups), default=1)
    return [member for group in groups for member in [*group, *[NOBODY] * (width - len(group))]], width


def process(op: ir.OpView) -> ir.Value:
    """The argument of the function around an op that tells who this process is; added where there is none yet.
    Everything that differs from one process to the next is computed from it."""
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


def looked_up(numbers: Sequence[int], process_number: ir.Value) -> ir.Value:
    """`numbers[process_number]`, tensor<i64>."""
    table = build.constant(np.asarray(numbers, np.int64), ir.IntegerType.get_signless(64))
    return build.reshape(build.made("dynamic_slice", table, process_number, sizes=[1]), [])


def function_of(op: ir.OpView) -> ir.Operation:
    """The function around an op."""
    around = op.operation.parent.operation
    while around.name != "func.func":
        around = around.parent.operation
    return around
