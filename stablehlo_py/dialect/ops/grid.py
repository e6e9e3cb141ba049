"""Ops by which the processes of a grid communicate, and what differs from process to process."""

from __future__ import annotations

from functools import partial

from stablehlo_py.dialect.ops.factors import Builder
from stablehlo_py.dialect.ops.record import Effects, Work, op, records
from stablehlo_py.dialect.types import element_type, i64, i64s, shape, text
from stablehlo_py.dialect.verify import Check, one_of, require, require_shape
from stablehlo_py.mlir import ir

NOBODY = -1
PROCESS_WORDS = 2
EXCHANGES = ("gather", "blocks", "permute")
STATE_WORDS = 3  # of hlo.random_state: key, low and high half of the counter

#: Defines an op by which a process reaches others, or the host.
communicates = partial(op, work=Work.OPAQUE, effects=Effects.IMPURE)


def _process(op: ir.OpView) -> None:
    """The first operand of what communicates is the process."""
    _require_type(op.operands[0], "process", f"tensor<{PROCESS_WORDS}xi64>")


def _require_type(value: ir.Value, name: str, type_: str) -> None:
    require(str(value.type) == type_, f"{name} must be a {type_}")


def groups(op: ir.OpView) -> None:
    """Rows of process numbers: every process in one place at most."""
    width, members = i64(op, "width"), i64s(op, "groups")
    require(width > 0 and len(members) % width == 0, "groups must be rows of `width` processes")
    present = [member for member in members if member != NOBODY]
    inside = all(0 <= member < i64(op, "processes") for member in present)
    require(inside, "groups must hold numbers of processes, or -1 for padding")
    require(len(set(present)) == len(present), "no process may be in two groups")


def _exchange(op: ir.OpView) -> None:
    """Memory that is exchanged, by kind."""
    _process(op)
    groups(op)
    source, result = element_type(op.operands[1]), element_type(op.results[0])
    require(source == result, f"must keep the element type: {source} became {result}")
    require(i64(op, "barrier") >= 0, "barrier must be a number")
    kind, width, sizes = text(op, "kind"), i64(op, "width"), shape(op.operands[1])
    if kind == "blocks":
        require(len(sizes) > 0 and sizes[0] == width, "the first dimension must have `width` blocks")
    require_shape(op, (width, *sizes) if kind == "gather" else sizes)
    if kind == "permute":
        _check_sources(op)


def _check_sources(op: ir.OpView) -> None:
    """Sources and what they go to are in one group."""
    width, members, sources = i64(op, "width"), i64s(op, "groups"), i64s(op, "sources")
    require(len(sources) == i64(op, "processes"), "there must be a source for each process, or -1")
    group_of = {member: position // width for position, member in enumerate(members) if member != NOBODY}
    for target, source in enumerate(sources):
        together = source == NOBODY or (source in group_of and group_of[source] == group_of.get(target))
        require(together, f"process {target} is not in the group of its source {source}")


def _ordered(op: ir.OpView) -> None:
    """The second operand and the last result are tokens."""
    _process(op)
    for value in (op.operands[1], op.results[len(op.results) - 1]):
        _require_type(value, "token", "tensor<0xi8>")


def _one_to_one(name: str) -> Check:
    """Each process is a source, or a target, once at most."""

    def check(op: ir.OpView) -> None:
        others = [other for other in i64s(op, name) if other != NOBODY]
        require(all(0 <= other < len(i64s(op, name)) for other in others), f"{name} must be processes, or -1")
        require(len(set(others)) == len(others), f"{name} must be different")
        require(i64(op, "channel") >= 0, "channel must be a number")

    return check


def _random_state(op: ir.OpView) -> None:
    """The result is a state for PHILOX; the site has a number."""
    _require_type(op.results[0], "state", f"tensor<{STATE_WORDS}xui64>")
    require(i64(op, "site") >= 0, "site must be a number")


communicates(
    "random_state(process: any) {site} -> (state: any)",
    "A state for PHILOX that no other draw has: the key of this call of the process, and a counter whose high "
    "half is the number of the `site` (an op of the user's) in its upper half and how often this site has drawn "
    "in its lower one.",
    checks=(_process, _random_state),
    factors="it draws from what the process counts",
)


def _exchange_factors(b: Builder, op: ir.Operation) -> None:
    kind = text(op, "kind")
    for dimension, size in enumerate(b.shapes[1]):
        if kind != "blocks" or dimension:
            b.add(size, {1: dimension}, {0: dimension + (kind == "gather")})


communicates(
    "exchange(process: any, operand: any) {groups, width, processes, kind, sources, barrier, origin} -> (result: any)",
    "Copies memory between the members of a group, which meet at `barrier`. What `kind` says: gather - block i "
    "along a new first dimension is the operand of member i; blocks - the operand has a block for each member "
    "along its first dimension, block i of the result is the one that member i has for this process; permute - "
    "the operand of process `sources[process]` (empty for other kinds), in the same group. Zeros where there is "
    "nobody: without a group, and where a source is -1. Groups as for `all_reduce`.",
    checks=(one_of("kind", EXCHANGES), _exchange),
    factors=_exchange_factors,
)


# A token is a tensor<0xi8>: it orders what it passes through.


communicates(
    "infeed(process: any, token: T) {port, origin} -> (value: any, done: T)",
    "The next tensor from the host at `port` (infeed, or recv from the host).",
    checks=(_ordered,),
    factors="it takes whole tensors from the host",
)
communicates(
    "outfeed(process: any, token: T, operand: any) {port, origin} -> (done: T)",
    "Hands the operand to the host at `port` (outfeed, or send to the host).",
    checks=(_ordered,),
    factors="it hands whole tensors to the host",
)
communicates(
    "send(process: any, token: T, operand: any) {targets, channel, origin} -> (done: T)",
    "Puts the operand into the channel of process `targets[process]`, unless that is -1; does not wait.",
    checks=(_ordered, _one_to_one("targets")),
    factors="it hands whole tensors to another process",
)
communicates(
    "recv(process: any, token: T) {sources, channel, origin} -> (value: any, done: T)",
    "Waits for the next tensor in this process's channel, sent by `sources[process]`; zeros where that is -1.",
    checks=(_ordered, _one_to_one("sources")),
    factors="it takes whole tensors from another process",
)
#: Ops that take a token: they meet the host, or other processes, in the order of the program.
TRANSFERS = tuple(record.mnemonic for record in records() if "token" in record.operands)
