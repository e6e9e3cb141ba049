"""Offsets in the arena: slices whose live ranges overlap lie side by side, all others may lie on top of each other.

Interval colouring with sizes is NP-hard. Largest first, each into the smallest gap that it fits ("greedy by size",
as in Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020) comes within a few percent
of the lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import add

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
    offsets = [0] * len(intervals)
    sizes = [int(aligned(interval.bytes)) for interval in intervals]
    order = sorted(range(len(intervals)), key=lambda number: (-sizes[number], intervals[number].first, number))
    placed = np.zeros((4, len(intervals)), np.int64)  # where each begins and ends, first and last; in order of offsets
    for done, number in enumerate(order):
        if not (size := sizes[number]):
            break
        interval, (begins, ends, first, last) = intervals[number], placed[:, :done]
        living = (first <= interval.last) & (last >= interval.first)
        offset = offsets[number] = _best_gap(begins[living], ends[living], size)
        at = int(begins.searchsorted(offset, "right"))
        placed[:, at + 1 : done + 1] = placed[:, at:done]
        placed[:, at] = offset, offset + size, interval.first, interval.last
    return offsets, max(map(add, offsets, sizes), default=0)


def _best_gap(begins: np.ndarray, ends: np.ndarray, wanted: int) -> int:
    """The offset of the smallest gap of at least `wanted` bytes between slices in order; behind them all when
    there is none."""
    if not len(begins):
        return 0
    ends = np.maximum.accumulate(ends)
    gaps = begins.copy()  # before each
    gaps[1:] -= ends[:-1]
    (fitting,) = (gaps >= wanted).nonzero()
    if len(fitting):
        smallest = fitting[gaps[fitting].argmin()]
        return int(begins[smallest] - gaps[smallest])
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
        gaps = np.stack((used[:-1], begins[lives]), axis=1)
        found[name] = [*gaps[gaps[:, 0] < gaps[:, 1]].ravel().tolist(), int(used[-1])]
    return found
