"""What the verifiers of the hlo ops of the process grid check; see verify.py."""

from __future__ import annotations

from stablehlo_py.dialect.types import element_type, i64, i64s, is_tensor, shape
from stablehlo_py.dialect.verify import Check, require
from stablehlo_py.mlir import ir

NOBODY = -1
PROCESS_WORDS = 2
STATE_WORDS = 3  # of hlo.random_state: key, low and high half of the counter


def process(op: ir.OpView) -> None:
    """The first operand of what communicates is the process."""
    value = op.operands[0]
    fits = is_tensor(value) and shape(value) == (PROCESS_WORDS,) and str(element_type(value)) == "i64"
    require(fits, f"process must be a tensor<{PROCESS_WORDS}xi64>")


def same_elements(op: ir.OpView) -> None:
    """The operand after the process and the first result have one element type."""
    source, result = element_type(op.operands[1]), element_type(op.results[0])
    require(source == result, f"must keep the element type: {source} became {result}")


def groups(op: ir.OpView) -> None:
    """Rows of process numbers: every process in one place at most."""
    process(op)
    width, members = i64(op, "width"), i64s(op, "groups")
    require(width > 0 and len(members) % width == 0, "groups must be rows of `width` processes")
    present = [member for member in members if member != NOBODY]
    inside = all(0 <= member < i64(op, "processes") for member in present)
    require(inside, "groups must hold numbers of processes, or -1 for padding")
    require(len(set(present)) == len(present), "no process may be in two groups")
    require(i64(op, "barrier") >= 0, "barrier must be a number")


def all_gather(op: ir.OpView) -> None:
    """One operand for each place of a group."""
    expected = (i64(op, "width"), *shape(op.operands[1]))
    require(shape(op.results[0]) == expected, f"result shape must be {expected}")


def all_to_all(op: ir.OpView) -> None:
    """One block for each place of a group."""
    sizes = shape(op.operands[1])
    require(len(sizes) > 0 and sizes[0] == i64(op, "width"), "the first dimension must have `width` blocks")


def collective_permute(op: ir.OpView) -> None:
    """Sources and what they go to are in one group."""
    width, members, sources = i64(op, "width"), i64s(op, "groups"), i64s(op, "sources")
    require(len(sources) == i64(op, "processes"), "there must be a source for each process, or -1")
    group_of = {member: position // width for position, member in enumerate(members) if member != NOBODY}
    for target, source in enumerate(sources):
        together = source == NOBODY or (source in group_of and group_of[source] == group_of.get(target))
        require(together, f"process {target} is not in the group of its source {source}")


def ordered(op: ir.OpView) -> None:
    """The second operand and the last result are tokens."""
    process(op)
    for value in (op.operands[1], op.results[len(op.results) - 1]):
        token = is_tensor(value) and shape(value) == (0,) and str(element_type(value)) == "i8"
        require(token, "token must be a tensor<0xi8>")


def one_to_one(name: str) -> Check:
    """Each process is a source, or a target, once at most."""

    def check(op: ir.OpView) -> None:
        others = [other for other in i64s(op, name) if other != NOBODY]
        require(all(0 <= other < len(i64s(op, name)) for other in others), f"{name} must be processes, or -1")
        require(len(set(others)) == len(others), f"{name} must be different")
        require(i64(op, "channel") >= 0, "channel must be a number")

    return check


def random_state(op: ir.OpView) -> None:
    """The result is a state for PHILOX; the site has a number."""
    fits = shape(op.results[0]) == (STATE_WORDS,) and str(element_type(op.results[0])) == "ui64"
    require(fits, f"state must be a tensor<{STATE_WORDS}xui64>")
    require(i64(op, "site") >= 0, "site must be a number")
