"""The memory that the processes of one call share, as the host sees it (backends/cpu/layout.py).

What each process waits for stands in its record, and the i32 that is to change is in memory too: so whether it can go
on is no guess.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from itertools import accumulate

from stablehlo_py.backends.cpu import helpers, host, layout
from stablehlo_py.runtime.memory import Block
from stablehlo_py.runtime.program import GridPlan

_AT_PORT = ctypes.c_int64 * 3  # process, port, address
_DRAIN = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
#: What the processes of a grid notice themselves, by the value of FAILED; with a place for who noticed.
FAILURES = {
    layout.MISMATCH: "processes meet at different ops, as process {} noticed",
    layout.MISFIT: "process {} received what does not fit: send and recv of a channel differ in their types",
    layout.NO_MEMORY: "there is no memory for what process {} sends",
    layout.STUCK: "the processes of the grid wait for each other",
}


class GridMemory:
    """A header, a record and an input for each process, barriers, channels, and for each process how often its random
    sites have drawn.

    `enter(address of the process's input, address of the block that ends loops, inputs, outputs)` makes the foreign
    call; that block ends those of all processes once the grid has failed.
    """

    def __init__(
        self,
        plan: GridPlan,
        enter: Callable[[int, int, Sequence[int], Sequence[int]], None],
        transfer: Callable[[int, int, int], None],
        random_keys: Sequence[int],
    ) -> None:
        self._enter = enter
        self._channel_count = plan.channels * plan.processes
        sizes = [
            layout.HEADER_BYTES,
            plan.processes * layout.RECORD_BYTES,
            plan.processes * layout.PROCESS_BYTES,
            plan.barriers * plan.processes * layout.BARRIER_BYTES,
            self._channel_count * layout.CHANNEL_BYTES,
            plan.processes * plan.random_sites * layout.COUNT_BYTES,
        ]
        self._block = Block(sum(sizes))
        ctypes.memset(self._block.address, 0, sum(sizes))
        places = accumulate(sizes[:-1], initial=self._block.address)
        self._header, self._records, self._processes, barriers, self._channels, drawn = places
        self._put(self._header, layout.END, helpers.code(helpers.GRID).address("shlo_grid_end"))
        self._put(self._header, layout.NAP + 8, layout.NAP_NANOSECONDS)
        self._put(self._header, layout.RECORDS, self._records)
        self._put(self._header, layout.BARRIERS, barriers)
        self._put(self._header, layout.CHANNELS, self._channels)
        self._answer: Callable[[int], None] | None = None
        if plan.ports:

            def answer(address: int) -> None:
                transfer(*_AT_PORT.from_address(address))

            self._answer = answer
            self._put(self._header, layout.CALL, host.call_python())
            self._put(self._header, layout.TRANSFER, id(answer))
        for number, key in enumerate(random_keys):
            self._put(self._record(number), layout.HEADER, self._header)
            self._put(self._record(number), layout.KEY, key)
            self._put(self._record(number), layout.DRAWN, drawn + number * plan.random_sites * layout.COUNT_BYTES)
            self._put(self._process(number), layout.NUMBER, number)
            self._put(self._process(number), layout.RECORD, self._record(number))

    @staticmethod
    def _put(base: int, offset: int, value: int) -> None:
        ctypes.c_int64.from_address(base + offset).value = value

    @staticmethod
    def _get(base: int, offset: int) -> int:
        return ctypes.c_int64.from_address(base + offset).value

    def _record(self, process: int) -> int:
        return self._records + process * layout.RECORD_BYTES

    def _process(self, process: int) -> int:
        return self._processes + process * layout.PROCESS_BYTES

    def run(self, process: int, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """One process, in the thread that calls."""
        self._enter(self._process(process), self._header, inputs, outputs)

    def stop(self) -> None:
        """Let every process return from where it waits."""
        ctypes.c_int32.from_address(self._header + layout.FAILED).value = layout.STOPPED

    def _failed(self) -> int:
        return ctypes.c_int32.from_address(self._header + layout.FAILED).value

    def failed(self) -> bool:
        """Whether it was stopped, or a process has noticed that it cannot go on."""
        return self._failed() != 0

    def failure(self) -> tuple[str, int] | None:
        """What a process has noticed, and which."""
        code = self._failed()
        return (FAILURES[code], self._get(self._header, layout.AT)) if code in FAILURES else None

    def waits(self, process: int) -> int | None:
        """How often a process has waited, if it waits for something that has not come."""
        record = self._record(process)
        waits, address = self._get(record, layout.WAITS), self._get(record, layout.WAIT_ADDRESS)
        if not address or ctypes.c_uint32.from_address(address).value != self._get(record, layout.WAIT_VALUE):
            return None
        return waits

    def is_waiting(self, process: int) -> bool:
        """Whether it waits."""
        return self._get(self._record(process), layout.WAIT_ADDRESS) != 0

    def site(self, process: int) -> int:
        """The op that a process is at."""
        return self._get(self._record(process), layout.SITE)

    def end(self) -> None:
        """Free what was sent and not received, and forget what answers for the host, which refers to this object."""
        self._answer = None
        if self._channel_count:
            drain = _DRAIN(helpers.code(helpers.GRID).address("shlo_grid_drain"))
            for number in range(self._channel_count):
                drain(self._channels + number * layout.CHANNEL_BYTES)
