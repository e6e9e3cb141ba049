"""Collectives: one for each of StableHLO's, until a backend's pipeline decomposes them (docs/collectives.md)."""

from __future__ import annotations

from stablehlo_py.dialect.ops.factors import common_but
from stablehlo_py.dialect.ops.grid import NOBODY, communicates, groups
from stablehlo_py.dialect.ops.record import FactorRule, Work, op
from stablehlo_py.dialect.ops.reduction import reduction_kind
from stablehlo_py.dialect.types import i64, i64s, rank, shape
from stablehlo_py.dialect.verify import Check, require, require_shape, same_elements
from stablehlo_py.mlir import ir


def _process_id(op: ir.OpView) -> None:
    """The number of a replica or partition."""
    require(str(op.results[0].type) == "tensor<ui32>", "result must be a tensor<ui32>")


def _require_dimension(op: ir.OpView, name: str) -> int:
    dimension, count = i64(op, name), rank(op.operands[0])
    require(0 <= dimension < count, f"{name} must be below {count}")
    return dimension


def _in_groups(op: ir.OpView) -> None:
    """What collectives with groups have in common."""
    groups(op)
    same_elements(op)
    require(i64(op, "channel") >= 0, "channel must be a number")


def _blocks(split: str = "", joined: str = "") -> Check:
    """The result has a block of the dimension that the attribute `split` names for each member of a group, and as many
    of the dimension `joined`."""

    def check(op: ir.OpView) -> None:
        places = {name: _require_dimension(op, name) for name in (split, joined) if name}
        require(NOBODY not in i64s(op, "groups"), "groups must be of one size")
        width, sizes = i64(op, "width"), list(shape(op.operands[0]))
        if split:
            dimension = places[split]
            require(sizes[dimension] % width == 0, f"dimension {dimension} must be divisible by {width}")
            sizes[dimension] //= width
        if joined:
            sizes[places[joined]] *= width
        require_shape(op, sizes)

    return check


def _collective_permute(op: ir.OpView) -> None:
    """Every process sends once at most, and receives once at most."""
    flat = i64s(op, "pairs")
    require(len(flat) % 2 == 0, "pairs must be source and target in turn")
    require(all(0 <= member < i64(op, "processes") for member in flat), "pairs must hold numbers of processes")
    for column in (flat[::2], flat[1::2]):
        require(len(set(column)) == len(column), "a process sends once at most, and receives once at most")
    require(i64(op, "channel") >= 0, "channel must be a number")


def _besides(*names: str) -> FactorRule:
    """Blocks of all dimensions go together, besides those that attributes name: of these every block is needed."""
    return common_but(lambda op: [i64(op, name) for name in names])


for _name in ("replica", "partition"):
    op(
        f"{_name}_id() -> (result: any)",
        f"The number of the {_name} that runs.",
        checks=(_process_id,),
        work=Work.OPAQUE,
        factors=_besides(),
    )
communicates(
    "all_reduce(operand: T) {groups, width, processes, channel, origin, kind} -> (result: T)",
    "The operands of all members of the process's group, combined elementwise by the simple combiner `kind`, in "
    "the order of the group; without a group not specified. `groups` are rows of `width` numbers of the grid's "
    "`processes`, padded with -1. `channel` is the channel id, 0 without one. `origin` names the user's op, for "
    "messages.",
    checks=(_in_groups, reduction_kind),
    factors=_besides(),
)
communicates(
    "reduce_scatter(operand: any) {groups, width, processes, channel, origin, kind, dimension} -> (result: any)",
    "As `all_reduce`; each member has the block of its position along `dimension`.",
    checks=(_in_groups, reduction_kind, _blocks(split="dimension")),
    factors=_besides("dimension"),
)
communicates(
    "all_gather(operand: any) {groups, width, processes, channel, origin, dimension} -> (result: any)",
    "The operands of all members of the group, joined along `dimension`; groups of one size.",
    checks=(_in_groups, _blocks(joined="dimension")),
    factors=_besides("dimension"),
)
communicates(
    "all_to_all(operand: any) {groups, width, processes, channel, origin, split_dimension, concat_dimension} -> "
    "(result: any)",
    "The operand is split into blocks along `split_dimension`, one for each member of the group; the blocks that "
    "the members have for this process follow each other along `concat_dimension`. Groups as for `all_gather`.",
    checks=(_in_groups, _blocks("split_dimension", "concat_dimension")),
    factors=_besides("split_dimension", "concat_dimension"),
)
communicates(
    "collective_permute(operand: T) {pairs, processes, channel, origin} -> (result: T)",
    "`pairs` are source, target, source, target, ... processes: a target has the operand of its source, a process"
    " that is no target has zeros. Other attributes as for `all_reduce`.",
    checks=(_collective_permute,),
    factors=_besides(),
)
communicates(
    "collective_broadcast(operand: T) {groups, width, processes, channel, origin} -> (result: T)",
    "The operand of the first member of the group; zeros without a group.",
    checks=(_in_groups,),
    factors=_besides(),
)
op(
    "sharding_constraint(operand: T) -> (result: T)",
    "The operand, distributed over devices as the op's attribute `hlo.sharding` says (docs/sharding.md).",
    work=Work.OPAQUE,
    value=lambda op, x: x,
    factors=_besides(),
)
