"""One call of a grid: its processes, the memory that they share, and who looks after them.

Every process makes the call that a single one would make, with memory of its own. In between, the thread that called
looks after them: it answers Ctrl-C and the time limit, and it finds out when nobody can go on: if all processes that
have not ended wait, each for something that has not come, and none has moved between two looks, nobody is left to bring
it.
"""

from __future__ import annotations

import ctypes
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

from stablehlo_py.backends.base import GridCode
from stablehlo_py.errors import CommunicationError, Problem, elided
from stablehlo_py.interrupts import deferred
from stablehlo_py.runtime.program import GridPlan, Port
from stablehlo_py.runtime.streams import Item, Stream

LOOK_SECONDS = 0.05  # between two looks after the processes


class GridCall:
    """The processes of one call: `code` runs each, `feeds` and `channels` are what they exchange with the host,
    `random_keys` are those of each."""

    def __init__(
        self,
        code: GridCode,
        plan: GridPlan,
        feeds: Mapping[str, Stream],
        channels: Mapping[int, Stream],
        random_keys: Sequence[int],
    ) -> None:
        self._plan = plan
        self._feeds, self._host_channels = feeds, channels
        self._grid = code.grid(self._answer, random_keys)
        self._items: dict[int, Item] = {}  # by process: what the op that it is at moves
        self._failure: BaseException | None = None
        self._ended: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._running = set(range(plan.processes))

    def run(self, number: int, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """One process, in its thread."""
        try:
            self._grid.run(number, inputs, outputs)
        except BaseException as error:  # raised by `wait_for`
            self._give_up(error)
        finally:
            self._ended.put(number)

    def wait_for(self, workers: Sequence[threading.Thread], timeout: float | None) -> None:
        """Start the processes; return when all have ended, since until then they use the memory of the call.

        Raises:
            CommunicationError: they could not go on. KeyboardInterrupt: Ctrl-C. CallError: a custom call failed.
        """
        limit = None if timeout is None else time.monotonic() + timeout
        before: list[tuple[int, int]] | None = None
        try:
            with deferred():  # all are started, or none more can be
                for worker in workers:
                    worker.start()
        except KeyboardInterrupt as interrupt:
            self._give_up(interrupt)
        except RuntimeError as error:  # no more threads
            self._give_up(CommunicationError(f"a process of the grid cannot be started: {error}"))
            self._running = {number for number in self._running if workers[number].ident is not None}
        while self._running:
            try:
                with suppress(queue.Empty):
                    self._running.discard(self._ended.get(timeout=LOOK_SECONDS))
                    before = None
                    continue
                if self._failure is not None:
                    continue
                if limit is not None and time.monotonic() > limit:
                    what = f"the grid has not finished in {timeout:g} seconds"
                    self._give_up(CommunicationError(what, problems=self._whereabouts()))
                stuck = self._stuck()
                if stuck is not None and stuck == before:
                    what = "the processes of the grid wait for each other"
                    self._give_up(CommunicationError(what, problems=self._whereabouts()))
                before = stuck
            except KeyboardInterrupt as interrupt:
                self._give_up(interrupt)
        self._grid.end()
        failure, self._failure = self._failure or self._noticed(), None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # its traceback has this frame

    def _give_up(self, failure: BaseException) -> None:
        """Let every process return from where it waits; the first failure is the one to be raised."""
        self._failure = self._failure or failure
        self._grid.stop()

    def _stuck(self) -> list[tuple[int, int]] | None:
        """(process, how often it has waited) of all that run, if each waits for what has not come; else None."""
        found = []
        for number in sorted(self._running):
            waits = self._grid.waits(number)
            if waits is None:
                return None
            found.append((number, waits))
        return found

    def _whereabouts(self) -> list[Problem]:
        """Where every process is."""
        problems = []
        for number in range(self._plan.processes):
            where = divmod(number, self._plan.partitions)
            if number not in self._running:
                problems.append(Problem(f"process {where} has ended"))
                continue
            waits = self._grid.is_waiting(number)
            problems.append(Problem(f"process {where} {'waits at' if waits else 'is after'} {self._site(number)}"))
        return problems

    def _site(self, number: int) -> str:
        site = self._grid.site(number)
        return self._plan.sites[site] if site < len(self._plan.sites) else "the start"

    def _noticed(self) -> CommunicationError | None:
        """What the processes noticed themselves."""
        found = self._grid.failure()
        if found is None:
            return None
        sentence, process = found
        what = sentence.format(divmod(process, self._plan.partitions))
        places = [
            Problem(f"process {divmod(number, self._plan.partitions)} is at {self._site(number)}")
            for number in range(self._plan.processes)
        ]
        return CommunicationError(what, problems=places)

    # --- the host's side of a transfer, in the thread of the process --------------------------------------------------

    def _answer(self, process: int, number: int, address: int) -> None:
        """Called by the program at port `number`, for a tensor at `address`. What it raises, `run` raises."""
        port = self._plan.ports[number]
        if port.kind in ("infeed", "recv"):
            self._hand_in(process, port, address)
        else:
            self._take_out(process, port, address)

    def _goes_on(self) -> bool:
        return not self._grid.failed()

    def _stream(self, port: Port) -> Stream:
        return self._feeds[port.kind] if port.kind in self._feeds else self._host_channels[port.channel]

    def _hand_in(self, process: int, port: Port, address: int) -> None:
        if port.part == 0:
            item = self._stream(port).take(process, self._goes_on)
            if item is None:
                return
            self._items[process] = item
        item = self._items[process]
        fits = len(item) == port.parts and (
            not item or (item[port.part].dtype, item[port.part].shape) == (port.spec.dtype, port.spec.shape)
        )
        if not fits:
            held = elided(f"{array.dtype}{list(array.shape)}" for array in item) or "nothing"
            raise CommunicationError(
                f"{port.site} takes {port.parts} arrays, {port.spec}; the next item of {self._stream(port).name} "
                f"holds {held}",
                remedy="put items in the order in which the program takes them",
            )
        if item:
            ctypes.memmove(address, item[port.part].ctypes.data, item[port.part].nbytes)

    def _take_out(self, process: int, port: Port, address: int) -> None:
        earlier = self._items[process] if port.part else ()
        if port.parts:
            array = np.empty([size or 0 for size in port.spec.shape], port.spec.dtype)
            ctypes.memmove(array.ctypes.data, address, array.nbytes)
            earlier = (*earlier, array)
        self._items[process] = earlier
        if len(earlier) == port.parts:
            self._stream(port).give(process, earlier, self._goes_on)
