"""Calls of a program as a graph: the driver is asked for all kernels in one go."""

from __future__ import annotations

import array
from collections.abc import Callable, Sequence
from typing import Any

from stablehlo_py.backends.gpu.driver.dependencies import dependencies
from stablehlo_py.backends.gpu.driver.device import Device
from stablehlo_py.backends.gpu.driver.queue import END, GRAPH, NEXT
from stablehlo_py.backends.gpu.driver.recording import FULL, LEAST, MOST, REPLAY, ROOM, Graph, steps_of
from stablehlo_py.errors import ShloError
from stablehlo_py.runtime.accesses import Accesses


class Replay:
    """The first call asks for its steps one by one, as many programs are called once. The second one writes them down,
    and they become a graph; from then on, a call changes what its arguments and results change in that, and starts it.
    What all calls have in common, intermediate values, scratch memory and constants, is where it was.

    Where a driver refuses a graph, or a change, the steps are asked for one by one from then on: so an error names its
    kernel. Nothing was asked for until the graph is started. Who calls holds the queue's lock.

    Args:
        driver: the structure of the queue for native code, as the program has it. kernels: their handles;
            accesses: what each of them accesses.

    Attributes:
        is_wanted: whether there is a graph, or is to be one.
    """

    def __init__(
        self,
        device: Device[Any, Any],
        driver: array.array[int],
        kernels: Sequence[int],
        accesses: Sequence[Accesses | None],
    ) -> None:
        self._device = device
        self._queue = queue = device.queue
        self._driver = driver
        self._kernels, self._accesses = kernels, accesses
        self._next, self._end, self._handle = (queue.fields.index(field) for field in (NEXT, END, GRAPH))
        self.is_wanted, self._was_called = True, False
        self._steps = array.array("q")
        self._graph: Graph | None = None
        self._native = array.array("q", [0] * len(REPLAY))

    @property
    def native(self) -> int:
        """The address of a REPLAY, by which native code starts the graph; 0: there is none, or who starts it waits."""
        return 0 if self._graph is None or self._graph.waits else self._native.buffer_info()[0]

    def run(self, ask: Callable[[], int]) -> int | None:
        """Ask for the work of a call. `ask` runs the host's part, and gives the driver's first error.

        Returns the driver's status; None: nothing was asked for.

        Raises:
            ResourceError, InternalError: the device is lost; else as `ask`.
        """
        if not self.is_wanted:
            return None
        if not self._was_called:
            self._was_called = True
            return None
        if self._graph is None:
            self._graph = self._recorded(ask)
            status = 0
        else:
            status, _ = self._write(self._steps, ask)
        if self._graph is not None and not status:
            status = self._graph.start()
        if self._graph is None or (status and status not in self._queue.library.lost):
            self.is_wanted, self._graph = False, None
            return None
        return status

    def _recorded(self, ask: Callable[[], int]) -> Graph | None:
        """A graph of the steps; None: there is none, or it is not worth it."""
        room = array.array("q", [0]) * ROOM
        status, used = self._write(room, ask)
        self._steps = room[:used]
        if status == FULL or not LEAST <= sum(1 for _ in steps_of(self._steps)) <= MOST:
            return None
        block = dependencies(self._steps, self._accesses)
        try:
            graph = self._device.graph(self._steps, self._kernels, block)
        except ShloError:
            if self._queue.is_lost:
                raise
            return None
        self._driver[self._handle] = 0 if graph is None else graph.handle
        if graph is not None:
            begin = self._steps.buffer_info()[0]
            self._native[:] = array.array("q", [begin, begin + self._steps.itemsize * used, graph.handle])
        return graph

    def _write(self, numbers: array.array[int], ask: Callable[[], int]) -> tuple[int, int]:
        """Write the steps of a call down. The status; how many numbers they take."""
        address, width = numbers.buffer_info()[0], numbers.itemsize
        self._driver[self._next], self._driver[self._end] = address, address + width * len(numbers)
        try:
            status = ask()
            return status, (self._driver[self._next] - address) // width
        finally:
            self._driver[self._next] = 0
