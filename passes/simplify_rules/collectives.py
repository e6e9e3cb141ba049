"""Rules on collectives in which nobody communicates, on ids that are known, and on shardings."""

from __future__ import annotations

from stablehlo_py.dialect.grid import grid_of, groups_of, pairs_of
from stablehlo_py.dialect.ops import records
from stablehlo_py.dialect.sharding import shardings_of, take
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RuleSet

COLLECTIVES = RuleSet("collectives")
_IN_GROUPS = tuple(record.name for record in records() if {"groups", "channel"} <= {*record.attributes})
_KEPT = ("stablehlo.all_reduce", "stablehlo.reduce_scatter")


@COLLECTIVES.rule(*_IN_GROUPS, *_KEPT, where="every process is a group by itself")
def collective_alone(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "collective(x...) -> x..."
    groups = groups_of(op)
    alone = len(groups) == grid_of(op).processes and all(len(group) == 1 for group in groups)
    return list(op.operands) if alone else None


@COLLECTIVES.rule("hlo.collective_permute", where="every process is its own source")
def permute_in_place(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "collective_permute(x) -> x"
    linked = pairs_of(op)
    in_place = len(linked) == grid_of(op).processes and all(source == target for source, target in linked)
    return op.operands[0] if in_place else None


@COLLECTIVES.rule("hlo.replica_id", "hlo.partition_id", where="there is one replica, or one partition")
def only_id(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "replica_id(), partition_id() -> 0"
    grid = grid_of(op)
    count = grid.replicas if op.name == "hlo.replica_id" else grid.partitions
    return rewriter.splat(0, op.result.type) if count == 1 else None


@COLLECTIVES.rule("hlo.sharding_constraint", where="the op that makes x says the same, or nothing")
def constraint_on_op(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "sharding_constraint(x) -> x"
    return op.operands[0] if take(op.operands[0], shardings_of(op)[0]) else None
