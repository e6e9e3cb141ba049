"""Offsets in the arena: slices whose live ranges overlap lie side by side, all others may lie on top of each other.

Interval colouring with sizes is NP-hard. Largest first, each into the smallest gap that it fits ("greedy by size",
as in Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020) comes within a few percent
of the lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stablehlo_py.dialect.alignment import aligned
from stablehlo_py.dialect.symint import IntLike


@dataclass(frozen=True)
class Interval:
    """Memory of `bytes` needed from position `first` to `last`, both included."""

    bytes: IntLike
    first: int
    last: int


def assign_offsets(intervals: Sequence[Interval]) -> tuple[list[int], int]:
    """(offset of every interval, bytes of the arena)."""
    count = len(intervals)
    offsets = np.zeros(count, np.int64)
    sizes = np.array([aligned(interval.bytes) for interval in intervals], np.int64)
    first = np.array([interval.first for interval in intervals], np.int64)
    last = np.array([interval.last for interval in intervals], np.int64)
    order = sorted(range(count), key=lambda number: (-sizes[number], first[number], number))
    placed = np.array(order, np.int64)
    # Rows of what is placed, in order of placement: the first `done` of `placed`.
    for done, number in enumerate(order):
        if not sizes[number]:
            continue
        before = placed[:done]
        overlapping = before[(first[before] <= last[number]) & (last[before] >= first[number])]
        offsets[number] = _best_gap(offsets[overlapping], sizes[overlapping], int(sizes[number]))
    total = int((offsets + sizes).max()) if count else 0
    return [int(offset) for offset in offsets], total


def _best_gap(offsets: np.ndarray, sizes: np.ndarray, wanted: int) -> int:
    """The offset of the smallest gap of at least `wanted` bytes between slices; behind them all when there is none."""
    if not len(offsets):
        return 0
    order = np.argsort(offsets, kind="stable")
    starts = offsets[order]
    ends = np.maximum.accumulate((offsets + sizes)[order])
    gap_starts = np.concatenate(([0], ends[:-1]))
    gaps = starts - gap_starts
    fitting = np.nonzero(gaps >= wanted)[0]
    if len(fitting):
        return int(gap_starts[fitting[np.argmin(gaps[fitting])]])
    return int(ends[-1])


def free_memory(
    intervals: Sequence[Interval], offsets: Sequence[IntLike], calls: Mapping[str, Sequence[int]]
) -> dict[str, list[int]]:
    """By name: begin, end, ... of the memory in which nothing lives at any of its positions, which ascend, and where
    all ends that lives then."""
    order = sorted((number for number, each in enumerate(intervals) if each.bytes), key=lambda number: offsets[number])
    first = np.array([intervals[number].first for number in order], np.int64)
    last = np.array([intervals[number].last for number in order], np.int64)
    begins = np.array([offsets[number] for number in order], np.int64)
    ends = begins + np.array([aligned(intervals[number].bytes) for number in order], np.int64)
    found = {}
    for name, positions in calls.items():
        lives = np.searchsorted(positions, first) < np.searchsorted(positions, last, "right")
        used = np.concatenate(([0], np.maximum.accumulate(ends[lives])))
        gaps = [(int(end), int(begin)) for end, begin in zip(used, begins[lives], strict=False) if begin > end]
        found[name] = [at for gap in gaps for at in gap] + [int(used[-1])]
    return found
