"""Offsets in the arena where some sizes are known at run time only.

Intervals of known size are placed as ever (arena.py). Behind them come slots, each as large as the largest interval in
it: an interval goes into a slot whose others live at other times, and which is known to be large enough. Where a slot
begins is the sum of those before it, worked out once per call.
"""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect.alignment import aligned
from stablehlo_py.dialect.symint import IntLike, always_at_most, is_known, size_hint
from stablehlo_py.passes.buffers.arena import Interval, assign_offsets


def assign_slots(intervals: Sequence[Interval]) -> tuple[list[IntLike], IntLike]:
    """(offset of every interval, bytes of the arena)."""
    known = [number for number, interval in enumerate(intervals) if is_known(interval.bytes)]
    offsets, total = assign_offsets([intervals[number] for number in known])
    result: dict[int, IntLike] = dict(zip(known, offsets, strict=True))
    slots: list[list[int]] = []  # the first is the largest
    others = [number for number in range(len(intervals)) if number not in result]
    for number in sorted(others, key=lambda number: (-size_hint(intervals[number].bytes), intervals[number].first)):
        fitting = [slot for slot in slots if _fits(intervals, slot, number)]
        exact = [slot for slot in fitting if intervals[slot[0]].bytes == intervals[number].bytes]
        if fitting:
            (exact or fitting)[-1].append(number)
        else:
            slots.append([number])
    end: IntLike = total
    for slot in slots:
        result |= dict.fromkeys(slot, end)
        end = end + aligned(intervals[slot[0]].bytes)
    return [result[number] for number in range(len(intervals))], end


def _fits(intervals: Sequence[Interval], slot: Sequence[int], number: int) -> bool:
    new = intervals[number]
    apart = all(intervals[old].last < new.first or new.last < intervals[old].first for old in slot)
    return apart and always_at_most(new.bytes, intervals[slot[0]].bytes)
