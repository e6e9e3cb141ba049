"""Where the random numbers of an executable come from (docs/random-numbers.md)."""

from __future__ import annotations

import itertools

import numpy as np

from stablehlo_py import boundary
from stablehlo_py.errors import ArgumentError


class RandomKeys:
    """The Philox keys of the calls of an executable: functions of a seed, the number of the call since it was set, and
    the process. Thread-safe."""

    def __init__(self) -> None:
        self.seed(0)

    def seed(self, number: int) -> None:
        """Start anew.

        Raises:
            ArgumentError: it is no number from 0 on.
        """
        start = boundary.number(number, "the seed", "a number from 0 on")
        if start < 0:
            raise ArgumentError(f"the seed is {start}", remedy="use a number from 0 on")
        self._state = start, itertools.count()

    def of_next_call(self, processes: int, *, alike: bool) -> list[int]:
        """64 bits for each process, the same for all where they are to draw `alike`."""
        seed, calls = self._state
        call = next(calls)
        words = [
            np.random.SeedSequence((seed, call, process)).generate_state(1, np.uint64)
            for process in range(1 if alike else processes)
        ]
        keys = [int(word[0]) for word in words]
        return keys * processes if alike else keys
