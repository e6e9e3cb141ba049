"""What a call of a program asks a driver for, step by step: native code writes it down instead of asking (calls.py), so
that a driver can be asked for all of it in one go, as a graph. In later calls it goes through the steps again, and
tells the driver which of them have other operands.

Nothing of the device is read meanwhile. Instead it is written down which scalar is read; of a branch all ways, of a
loop one trip, each between BODY and END (structure.py).
"""

from __future__ import annotations

import array
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

#: 64-bit numbers of a step, before its operands. Node, parameters: of the graph, once there is one, as its driver knows
#: them. Kernel: its number, or COPY; bytes: of dynamic shared memory, or of the copy; count: of the operands, those of
#: a copy are its target and its source.
#:
#: Of a READ, blocks is the number of the scalar, bytes are its own, and the operand is its place. Of a BODY, blocks is
#: the number of the scalar by which it runs, threads is the way that it is, of so many (bytes), where the last one is
#: that of all greater scalars too. One way: it is a trip of a loop, which runs as long as the scalar is not 0.
STEP = ("node", "parameters", "kernel", "blocks", "threads", "bytes", "count")
#: What native code needs to start a graph, 64 bits each: where the steps are and where they end, and its handle.
REPLAY = ("steps", "end", "graph")
COPY, READ, BODY, END = -1, -2, -3, -4
ROOM = 1 << 17  # numbers that the steps of a program may take
FULL = 1 << 40  # the status where they take more: no driver's
LEAST = 4  # steps: to ask for a graph takes a driver as long as to ask for two or three kernels
# Steps of a graph, whose loops are written down trip by trip. To make one takes the host some 40 microseconds a step,
# and the driver memory; and a host that asks for so many kernels is ahead of the device all the same.
MOST = 4096


@dataclass(frozen=True)
class Step:
    """A step. `place` is the one of its first number among those of all steps."""

    place: int
    kernel: int
    blocks: int
    threads: int
    bytes: int
    count: int

    @property
    def scalar(self) -> int:
        """Of a READ, or a BODY."""
        return self.blocks

    @property
    def way(self) -> int:
        """Of a BODY."""
        return self.threads

    @property
    def ways(self) -> int:
        """Of a BODY."""
        return self.bytes

    @property
    def operands(self) -> int:
        """The place of its operands."""
        return self.place + len(STEP)


def steps_of(numbers: array.array[int]) -> Iterator[Step]:
    """The steps that native code wrote."""
    place = 0
    while place < len(numbers):
        step = Step(place, *numbers[place + STEP.index("kernel") : place + len(STEP)])
        yield step
        place = step.operands + step.count


class Graph(ABC):
    """Steps as a driver knows them, each behind those that it waits for (dependencies.py).

    Attributes:
        handle: what native code names it by.
        waits: whether `start` returns when all is done.
    """

    handle: int
    waits = False

    @abstractmethod
    def start(self) -> int:
        """Ask for all steps. The driver's status."""
