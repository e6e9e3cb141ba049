"""Shardings and `jax.shard_map` as the partitioner before Shardy (GSPMD) writes them.

    %1 = custom_call @Sharding(%0) {mhlo.sharding = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"}
    %2 = custom_call @SPMDFullToShardShape(%1) {mhlo.sharding = "{manual}"} : (tensor<8x6xf32>) -> tensor<4x6xf32>
    ... what one process does ...
    %8 = custom_call @SPMDShardToFullShape(%7) {mhlo.sharding = "{devices=..."} : (tensor<4x6xf32>) -> tensor<8x6xf32>

Shardings become those of `dialect/sharding.py`, and calls between whole values and shards become marks of `shards`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from stablehlo_py.dialect.attributes import MHLO_SHARDING, REPLICATED, SHARDING, SHARDS
from stablehlo_py.dialect.locations import describe
from stablehlo_py.dialect.sharding import annotate, declare_meshes, meshes_of
from stablehlo_py.dialect.types import entries
from stablehlo_py.errors import Problem, UnsupportedError
from stablehlo_py.frontend.hlo_sharding import Meshes
from stablehlo_py.frontend.shards import TO_FULL, TO_SHARD
from stablehlo_py.mlir import ir

_UNSPECIFIED = re.compile(r"unspecified_dims=\[([\d,]*)\]")


def translate(module: ir.Module, calls: Sequence[ir.Operation]) -> None:
    """Say in Shardy's syntax how values are sharded, where that can be said (docs/sharding.md), and mark where values
    become shards and whole. A module without any of it stays as it is. `calls`: all of its custom calls.

    Raises:
        UnsupportedError: naming every call between whole values and shards without a sharding.
    """
    of_parts = [op for op in calls if _target(op) in (TO_SHARD, TO_FULL) and SHARDS not in op.attributes]
    sharded = [op for op in calls if MHLO_SHARDING in op.attributes and _target(op) not in (TO_SHARD, TO_FULL)]
    functions = [op.operation for op in module.body.operations if op.operation.name == "func.func"]
    meshes, problems = Meshes(meshes_of(module)), list[Problem]()
    with module.context:
        # The call that leaves whole values says "manual": how they are split stands on the operand.
        for op in of_parts:
            said = op.operands[0].owner if _target(op) == TO_SHARD else op
            if op.operands[0].type == op.results[0].type:
                continue  # passed on
            if isinstance(said, ir.Block) or MHLO_SHARDING not in said.attributes:
                remedy = "export the model with Shardy: jax.config.update('jax_use_shardy_partitioner', True)"
                problems.append(Problem("its operand has no sharding", describe(op.location), op.name, remedy))
                continue
            text = meshes.shardy(said.attributes[MHLO_SHARDING].value, len(op.results[0].type.shape), manual=True)
            op.attributes[SHARDS] = ir.StringAttr.get(text)
        if problems:
            raise UnsupportedError("the model is split by hand in a way that is not known", problems=problems)
        if of_parts:
            module.operation.attributes[REPLICATED] = ir.UnitAttr.get()
        for op in sharded:
            _annotate(op, meshes)
        of_values = [_annotate_values(op, name, meshes) for op in functions for name in ("arg_attrs", "res_attrs")]
    if of_parts or sharded or any(of_values):
        declare_meshes(module, {name: mesh for mesh, name in meshes.names.items()})


def _annotate(op: ir.Operation, meshes: Meshes) -> None:
    """The sharding of a call, which the call keeps in its own syntax too."""
    if len(op.results) != 1 or not isinstance(op.results[0].type, ir.RankedTensorType):
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
        named = entries(each)
        if MHLO_SHARDING in named and isinstance(value, ir.RankedTensorType):
            sharding = named.pop(MHLO_SHARDING).value
            named[SHARDING] = ir.StringAttr.get(meshes.shardy(sharding, value.rank))
        kept.append(ir.DictAttr.get(named))
    function.attributes[name] = ir.ArrayAttr.get(kept)
    return True


def _target(op: ir.Operation) -> str:
    return op.attributes["call_target_name"].value
