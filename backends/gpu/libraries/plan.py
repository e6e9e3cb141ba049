"""How a library is called: a plan is a list of calls of its functions, which native code (calls.py) goes through. It is
made when a program is loaded, so that native code knows no library. All functions return a status of 32 bits, and take
integers and pointers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

STATUS_BIT = 32  # set in a status that is a library's
ARGUMENTS = 16  # that every function is called with: those behind its own are left where it does not look
STEP = 1 + 2 * ARGUMENTS  # numbers of a call: the function's address, then the base and the offset of each argument
#: Bases of arguments: numbers that native code has at hand. Behind them come the pointers of the fusion's kernels.
BASES = ("nothing", "workspace", "stream")
NOTHING, WORKSPACE, STREAM = range(len(BASES))


@dataclass(frozen=True)
class At:
    """An argument: a base plus so many bytes."""

    base: int
    offset: int = 0

    @property
    def numbers(self) -> tuple[int, int]:
        """As native code reads them."""
        return self.base, self.offset


@dataclass(frozen=True)
class AddressOf:
    """An argument: where a base lies in memory."""

    base: int

    @property
    def numbers(self) -> tuple[int, int]:
        """As native code reads them."""
        return ~self.base, 0


Argument = int | At | AddressOf


def pointer(number: int, offset: int = 0) -> At:
    """So many bytes behind a pointer of the fusion's kernels."""
    return At(len(BASES) + number, offset)


def plan_of(calls: Sequence[tuple[int, Sequence[Argument]]]) -> np.ndarray:
    """A plan: how many calls there are, and each of them. `calls` are addresses of functions and their arguments."""
    numbers = [len(calls)]
    for function, arguments in calls:
        numbers.append(function)
        for argument in (*arguments, *[0] * (ARGUMENTS - len(arguments))):
            numbers += (NOTHING, argument) if isinstance(argument, int) else argument.numbers
    return np.array(numbers, np.int64)
