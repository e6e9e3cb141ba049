"""`jax.shard_map` as the partitioner before Shardy (GSPMD) writes it: custom calls between whole values and shards.

    %1 = custom_call @Sharding(%0) {mhlo.sharding = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"}
    %2 = custom_call @SPMDFullToShardShape(%1) {mhlo.sharding = "{manual}"} : (tensor<8x6xf32>) -> tensor<4x6xf32>
    ... what one process does ...
    %8 = custom_call @SPMDShardToFullShape(%7) {mhlo.sharding = "{devices=..."} : (tensor<4x6xf32>) -> tensor<8x6xf32>

As in `manual`, every process of a grid runs the module on whole arrays, takes its shards, and all results are put
together. Shardings are read as XLA prints them (xla/hlo/ir/hlo_sharding.cc): the devices of a tile assignment are a
list, or `<=[dims]T(permutation)`, iota reshaped to `dims` and transposed. Dimensions of the tiles behind those of the
value tell devices apart that have the same tile.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from stablehlo_py.dialect.attributes import PARTITIONS, SHARDING, WHOLE
from stablehlo_py.dialect.locations import describe
from stablehlo_py.errors import Problem, UnsupportedError
from stablehlo_py.frontend.shards import Shards, groups_along
from stablehlo_py.mlir import ir

_TO_SHARD, _TO_FULL = "SPMDFullToShardShape", "SPMDShardToFullShape"
_TILES = re.compile(r"\{devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))")


def expand(module: ir.Module, calls: Sequence[ir.Operation]) -> None:
    """Replace a module's custom calls between whole values and shards; one without them stays as it is. `calls`: all of
    its custom calls.

    Raises:
        UnsupportedError: naming every call whose sharding is not known.
    """
    found = [op for op in calls if _target(op) in (_TO_SHARD, _TO_FULL)]
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
            attributes[WHOLE] = ir.UnitAttr.get()


class _Unknown(Exception):
    """Why a sharding is not known."""


def _target(op: ir.Operation) -> str:
    return op.attributes["call_target_name"].value


def _expand(op: ir.Operation, partitions: int) -> None:
    operand, result = op.operands[0], op.results[0].type
    to_shard = _target(op) == _TO_SHARD
    # The call that leaves whole values says "manual": how they are split stands on the operand.
    described = operand.owner if to_shard else op
    if isinstance(described, ir.Block) or SHARDING not in described.attributes:
        raise _Unknown("its operand has no sharding")
    text = described.attributes[SHARDING].value
    groups = _groups(text, len(result.shape), partitions)
    whole, part = (operand.type, result) if to_shard else (result, operand.type)
    if [rows.shape[1] * size for rows, size in zip(groups, part.shape, strict=True)] != list(whole.shape):
        raise _Unknown(f"the sharding {text} does not make {part} of {whole}")
    with op.location, ir.InsertionPoint(op):
        shards = Shards(ir, partitions)
        value = shards.own(operand, groups) if to_shard else shards.whole(operand, groups)
    op.results[0].replace_all_uses_with(value)
    op.erase()


def _groups(sharding: str, rank: int, partitions: int) -> list[np.ndarray]:
    """For every dimension of a value the groups of devices along it."""
    match = _TILES.match(sharding)
    if match is None:
        raise _Unknown(f"the sharding {sharding} has no tiles")
    tiles, dims, permutation, listed = ([int(n) for n in part.split(",")] if part else [] for part in match.groups())
    if listed:
        devices = np.array(listed)
    else:
        iota = np.arange(int(np.prod(dims))).reshape(dims)
        devices = iota.transpose(permutation) if permutation else iota
    if sorted(devices.reshape(-1)) != list(range(partitions)) or devices.size != np.prod(tiles) or len(tiles) < rank:
        raise _Unknown(f"the sharding {sharding} is not one of rank {rank} over {partitions} partitions")
    devices = devices.reshape(tiles)
    return [groups_along(devices, [dimension]) for dimension in range(rank)]
