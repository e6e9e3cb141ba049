"""`jax.shard_map` as the partitioner before Shardy (GSPMD) writes it: custom calls between whole values and shards.

    %1 = custom_call @Sharding(%0) {mhlo.sharding = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"}
    %2 = custom_call @SPMDFullToShardShape(%1) {mhlo.sharding = "{manual}"} : (tensor<8x6xf32>) -> tensor<4x6xf32>
    ... what one process does ...
    %8 = custom_call @SPMDShardToFullShape(%7) {mhlo.sharding = "{devices=..."} : (tensor<4x6xf32>) -> tensor<8x6xf32>

As in `manual`, every process of a grid runs the module on whole arrays, takes its shards, and all results are put
together. All other shardings become those of `dialect/sharding.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from stablehlo_py.dialect.attributes import MHLO_SHARDING, PARTITIONS, REPLICATED, SHARDING
from stablehlo_py.dialect.edit import replace_op
from stablehlo_py.dialect.locations import describe
from stablehlo_py.dialect.sharding import annotate, declare_meshes
from stablehlo_py.errors import Problem, UnsupportedError
from stablehlo_py.frontend.hlo_sharding import Meshes, tiles_of
from stablehlo_py.frontend.shards import Shards, groups_along
from stablehlo_py.mlir import ir

_TO_SHARD, _TO_FULL = "SPMDFullToShardShape", "SPMDShardToFullShape"
_UNSPECIFIED = re.compile(r"unspecified_dims=\[([\d,]*)\]")


def expand(module: ir.Module, calls: Sequence[ir.Operation]) -> None:
    """Replace a module's custom calls between whole values and shards, and say in Shardy's syntax how values are
    sharded, where that can be said (docs/sharding.md). A module without any of it stays as it is. `calls`: all of its
    custom calls.

    Raises:
        UnsupportedError: naming every call whose sharding is not known.
    """
    found = [op for op in calls if _target(op) in (_TO_SHARD, _TO_FULL)]
    sharded = [op for op in calls if MHLO_SHARDING in op.attributes and _target(op) not in (_TO_SHARD, _TO_FULL)]
    functions = [op.operation for op in module.body.operations if op.operation.name == "func.func"]
    changing = [op for op in found if op.operands[0].type != op.results[0].type]
    attributes = module.operation.attributes
    partitions = attributes[PARTITIONS].value if PARTITIONS in attributes else 1
    problems = []
    for op in changing:
        try:
            _expand(op, partitions)
        except _Unknown as error:
            remedy = "export the model with Shardy: jax.config.update('jax_use_shardy_partitioner', True)"
            problems.append(Problem(str(error), describe(op.location), op.name, remedy))
    if problems:
        raise UnsupportedError("the model is split by hand in a way that is not known", problems=problems)
    if found:
        with module.context:
            attributes[REPLICATED] = ir.UnitAttr.get()
    with module.context:
        meshes = Meshes()
        for op in sharded:
            _annotate(op, meshes)
        of_values = [_annotate_values(op, name, meshes) for op in functions for name in ("arg_attrs", "res_attrs")]
    if sharded or any(of_values):
        declare_meshes(module, {name: mesh for mesh, name in meshes.names.items()})


def _annotate(op: ir.Operation, meshes: Meshes) -> None:
    """The sharding of a call, which the call keeps in its own syntax too."""
    if len(op.results) != 1:
        return
    options = str(op.attributes["backend_config"]) if "backend_config" in op.attributes else ""
    unspecified = _UNSPECIFIED.search(options)
    open_ = [int(number) for number in unspecified[1].split(",") if number] if unspecified else []
    annotate(op, [meshes.shardy(op.attributes[MHLO_SHARDING].value, len(op.results[0].type.shape), open_)])


def _annotate_values(function: ir.Operation, name: str, meshes: Meshes) -> bool:
    """The shardings of the arguments, or of the results, of a function; whether there are any."""
    described = list(function.attributes[name]) if name in function.attributes else []
    if not any(MHLO_SHARDING in each for each in described):
        return False
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    kept = []
    for each, value in zip(described, type_.inputs if name == "arg_attrs" else type_.results, strict=True):
        named = {entry.name: entry.attr for entry in ir.DictAttr(each)}
        if MHLO_SHARDING in named and isinstance(value, ir.RankedTensorType):
            sharding = named.pop(MHLO_SHARDING).value
            named[SHARDING] = ir.StringAttr.get(meshes.shardy(sharding, value.rank))
        kept.append(ir.DictAttr.get(named))
    function.attributes[name] = ir.ArrayAttr.get(kept)
    return True


class _Unknown(Exception):
    """Why a sharding is not known."""


def _target(op: ir.Operation) -> str:
    return op.attributes["call_target_name"].value


def _expand(op: ir.Operation, partitions: int) -> None:
    operand, result = op.operands[0], op.results[0].type
    to_shard = _target(op) == _TO_SHARD
    # The call that leaves whole values says "manual": how they are split stands on the operand.
    described = operand.owner if to_shard else op
    if isinstance(described, ir.Block) or MHLO_SHARDING not in described.attributes:
        raise _Unknown("its operand has no sharding")
    text = described.attributes[MHLO_SHARDING].value
    groups = _groups(text, len(result.shape), partitions)
    whole, part = (operand.type, result) if to_shard else (result, operand.type)
    if [rows.shape[1] * size for rows, size in zip(groups, part.shape, strict=True)] != list(whole.shape):
        raise _Unknown(f"the sharding {text} does not make {part} of {whole}")
    with op.location, ir.InsertionPoint(op):
        shards = Shards(ir, partitions)
        value = shards.own(operand, groups) if to_shard else shards.whole(operand, groups)
    replace_op(op, [value])


def _groups(sharding: str, rank: int, partitions: int) -> list[np.ndarray]:
    """For every dimension of a value the groups of devices along it."""
    tiles = tiles_of(sharding)
    if tiles is None:
        raise _Unknown(f"the sharding {sharding} has no tiles")
    devices, counts = tiles.devices, tiles.counts
    if sorted(devices) != list(range(partitions)) or devices.size != np.prod(counts) or len(counts) < rank:
        raise _Unknown(f"the sharding {sharding} is not one of rank {rank} over {partitions} partitions")
    devices = devices.reshape(counts)
    return [groups_along(devices, [dimension]) for dimension in range(rank)]
