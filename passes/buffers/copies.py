"""Insert the copies that a plan asks for."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Hashable, Sequence

from stablehlo_py.mlir import ir
from stablehlo_py.passes.buffers.plan import Copy
from stablehlo_py.passmanager.rewrite import key_of


def insert_copies(copies: Sequence[Copy]) -> None:
    """`hlo.copy` before the op of each copy. Those of one loop's yield are ordered: a slice is read before it is
    written."""
    groups: dict[Hashable, list[Copy]] = {}
    for copy in copies:
        groups.setdefault(key_of(copy.op), []).append(copy)
    for group in groups.values():
        _insert(group)


def _insert(group: list[Copy]) -> None:
    """The copy into carry j overwrites what carry j was; whoever reads that goes first. Circles (swaps) are cut by
    one more copy."""
    waiting = {copy.position: copy for copy in group}
    order = {position: number for number, position in enumerate(waiting)}
    readers = Counter(copy.carry for copy in group if _reads_another(copy))
    free = [(number, position) for position, number in order.items() if not readers[position]]

    def insert(copy: Copy) -> None:
        copy.op.operands[copy.position] = _copy(copy)
        if _reads_another(copy):
            readers[copy.carry] -= 1
            if not readers[copy.carry] and copy.carry in waiting:
                heapq.heappush(free, (order[copy.carry], copy.carry))

    while waiting:
        if free:
            _, position = heapq.heappop(free)
            insert(waiting.pop(position))
            continue
        # Every waiting copy overwrites what another reads: save one of them first.
        position, copy = next(iter(waiting.items()))
        waiting[position] = Copy(copy.op, position)
        insert(copy)


def _reads_another(copy: Copy) -> bool:
    return copy.carry >= 0 and copy.carry != copy.position


def _copy(copy: Copy) -> ir.Value:
    value = copy.op.operands[copy.position]
    return ir.Operation.create(
        "hlo.copy", results=[value.type], operands=[value], loc=copy.op.location, ip=ir.InsertionPoint(copy.op)
    ).result
