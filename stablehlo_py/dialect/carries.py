"""Carries of `scf.while` that can stay in one place of memory."""

from __future__ import annotations

from stablehlo_py.dialect.edit import terminator
from stablehlo_py.mlir import ir

#: Ops that read part of a value where it lies in memory.
READS_MEMORY = frozenset(("hlo.slice", "hlo.dynamic_slice"))


def kept_in_place(block: ir.Block, argument: ir.Value, number: int) -> bool:
    """Is carry `number`, an argument of a loop's block, only read by slices, then updated once and so on, and yielded
    in its own place?"""
    last = terminator(block)
    yielded = last.operands[number + (last.name == "scf.condition")]
    value = argument
    while True:
        update = None
        readers = []
        for use in value.uses:
            user = use.owner.operation
            if user.name == "hlo.dynamic_update_slice" and use.operand_number == 0:
                if update is not None or user.block != block:
                    return False
                update = user
            elif user.name in ("scf.yield", "scf.condition"):
                if use.operand_number != number + (user.name == "scf.condition") or user.block != block:
                    return False
            elif user.name in READS_MEMORY and use.operand_number == 0:
                readers.append(user)
            else:
                return False
        if update is None:
            return yielded == value
        if any(reader.block != block or not reader.is_before_in_block(update) for reader in readers):
            return False
        if any(use.owner.operation.name == "scf.yield" for use in value.uses):
            return False
        value = update.results[0]
