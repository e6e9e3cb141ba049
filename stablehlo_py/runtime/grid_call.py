"""One call of a grid: its processes, the memory that they share, and who looks after them.

Every process makes the foreign call that a single one would make, with an arena and a record of its own. In between,
the thread that called looks after them: it answers Ctrl-C and the time limit, and it finds out when nobody can go on.
What each process waits for stands in its record, so that is no guess: if all processes that have not ended wait, each
for something that has not come, and none has moved between two looks, nobody is left to bring it.
"""

from __future__ import annotations

import ctypes
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import numpy as np

from stablehlo_py.backends.cpu import channels as native_channels
from stablehlo_py.backends.cpu import grid as native
from stablehlo_py.backends.cpu.threads import register_grid_symbols
from stablehlo_py.errors import CommunicationError, Problem
from stablehlo_py.interrupts import deferred
from stablehlo_py.runtime.callbacks import failure_of
from stablehlo_py.runtime.memory import Block
from stablehlo_py.runtime.program import GridPlan, Port
from stablehlo_py.runtime.streams import Item, Stream

LOOK_SECONDS = 0.05  # between two looks after the processes

_TRANSFER = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
_DRAIN = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_FAILURES = {
    native.MISMATCH: "processes meet at different ops, as process {} noticed",
    native.MISFIT: "process {} received what does not fit: send and recv of a channel differ in their types",
    native.NO_MEMORY: "there is no memory for what process {} sends",
}


class GridCall:
    """The processes of one call and the memory that they share (layout: backends/cpu/grid.py)."""

    def __init__(self, plan: GridPlan, feeds: Mapping[str, Stream], channels: Mapping[int, Stream]) -> None:
        self._plan = plan
        self._feeds, self._host_channels = feeds, channels
        count = plan.processes
        sizes = [
            native.HEADER_BYTES,
            count * native.RECORD_BYTES,
            count * native.PROCESS_BYTES,
            plan.barriers * count * native.BARRIER_BYTES,
            plan.channels * count * native_channels.CHANNEL_BYTES,
        ]
        self._block = Block(sum(sizes))
        self._header = self._block.address
        ctypes.memset(self._header, 0, sum(sizes))
        self._records = self._header + sizes[0]
        self._processes = self._records + sizes[1]
        self._put(self._header, native.NAP + 8, native.NAP_NANOSECONDS)
        self._put(self._header, native.RECORDS, self._records)
        self._put(self._header, native.BARRIERS, self._processes + sizes[2])
        self._channels = self._processes + sizes[2] + sizes[3]
        self._put(self._header, native.CHANNELS, self._channels)
        self._transfer = _TRANSFER(self._answer)
        self._put(self._header, native.TRANSFER, ctypes.cast(self._transfer, ctypes.c_void_p).value or 0)
        for number in range(count):
            self._put(self._record(number), native.HEADER, self._header)
            self._put(self.process(number), native.NUMBER, number)
            self._put(self.process(number), native.RECORD, self._record(number))
        self._items: dict[int, Item] = {}  # by process: what the op that it is at moves
        self._failure: BaseException | None = None
        self._ended: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._running = set(range(count))

    @staticmethod
    def _put(base: int, offset: int, value: int) -> None:
        ctypes.c_int64.from_address(base + offset).value = value

    @staticmethod
    def _get(base: int, offset: int) -> int:
        return ctypes.c_int64.from_address(base + offset).value

    def _record(self, number: int) -> int:
        return self._records + number * native.RECORD_BYTES

    def process(self, number: int) -> int:
        """Address of a process's input."""
        return self._processes + number * native.PROCESS_BYTES

    def run(self, number: int, entry: Callable[..., int | None], arguments: tuple[object, ...]) -> None:
        """One process, in its thread."""
        try:
            failed = entry(*arguments)
            if failed:
                self._give_up(failure_of(failed))
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
        self._drain()
        failure = self._failure or self._native_failure()
        if failure is not None:
            raise failure

    def _give_up(self, failure: BaseException) -> None:
        """Let every process return from where it waits; the first failure is the one to be raised."""
        self._failure = self._failure or failure
        ctypes.c_int32.from_address(self._header + native.FAILED).value = native.STOPPED

    def _drain(self) -> None:
        """Free what was sent and not received."""
        if self._plan.channels:
            drain = _DRAIN(register_grid_symbols().address("shlo_grid_drain"))
            for number in range(self._plan.channels * self._plan.processes):
                drain(self._channels + number * native_channels.CHANNEL_BYTES)

    def _stuck(self) -> list[tuple[int, int]] | None:
        """(process, how often it has waited) of all that run, if each waits for what has not come; else None."""
        found = []
        for number in sorted(self._running):
            record = self._record(number)
            waits, address = self._get(record, native.WAITS), self._get(record, native.WAIT_ADDRESS)
            if not address or ctypes.c_uint32.from_address(address).value != self._get(record, native.WAIT_VALUE):
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
            record = self._record(number)
            waits = bool(self._get(record, native.WAIT_ADDRESS))
            problems.append(Problem(f"process {where} {'waits at' if waits else 'is after'} {self._site(number)}"))
        return problems

    def _site(self, number: int) -> str:
        site = self._get(self._record(number), native.SITE)
        return self._plan.sites[site] if site < len(self._plan.sites) else "the start"

    def _native_failure(self) -> CommunicationError | None:
        """What the processes noticed themselves."""
        code = ctypes.c_int32.from_address(self._header + native.FAILED).value
        if code == 0:
            return None
        noticed = divmod(self._get(self._header, native.AT), self._plan.partitions)
        what = _FAILURES[code].format(noticed)
        places = [
            Problem(f"process {divmod(number, self._plan.partitions)} is at {self._site(number)}")
            for number in range(self._plan.processes)
        ]
        return CommunicationError(what, problems=places)

    # --- the host's side of a transfer, in the thread of the process --------------------------------------------------

    def _answer(self, process: int, number: int, address: int) -> None:
        """Called by the program at port `number`, for a tensor at `address`."""
        try:
            port = self._plan.ports[number]
            if port.kind in ("infeed", "recv"):
                self._hand_in(process, port, address)
            else:
                self._take_out(process, port, address)
        except BaseException as error:  # a callback has no caller that it could raise to
            self._give_up(error)

    def _goes_on(self) -> bool:
        return ctypes.c_int32.from_address(self._header + native.FAILED).value == 0

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
            held = ", ".join(f"{array.dtype}{list(array.shape)}" for array in item) or "nothing"
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
