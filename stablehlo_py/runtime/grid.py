"""Programs that run as a grid of processes, which are threads of this one, or that talk to the host while they run.

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
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from stablehlo_py.backends.cpu import grid as native
from stablehlo_py.errors import ArgumentError, CommunicationError, Problem
from stablehlo_py.runtime.arguments import Handle, convert
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.memory import RESULTS, Block
from stablehlo_py.runtime.program import CompiledProgram, GridPlan

LOOK_SECONDS = 0.05  # between two looks after the processes
Arrays = tuple[np.ndarray, ...]


class GridExecutable(Executable):
    """A compiled model that runs as `num_replicas` x `num_partitions` processes, threads of this one.

    `call_grid` takes arguments for each process and gives the results of each. Calls are thread-safe; Ctrl-C ends one.
    """

    def __init__(self, program: CompiledProgram) -> None:
        super().__init__(program)
        assert program.grid is not None
        self._plan = program.grid
        self.num_replicas, self.num_partitions = self._plan.replicas, self._plan.partitions

    def __call__(self, *arrays: object) -> Arrays:
        """Run a grid of one process.

        Raises:
            ArgumentError: the grid has several processes, or the arguments do not fit.
        """
        if self._plan.processes > 1:
            raise ArgumentError(
                f"the model runs as a grid of {self.num_replicas} x {self.num_partitions} processes, "
                "each with arguments of its own",
                remedy="use call_grid(arguments), with arguments[replica][partition] a sequence of arrays",
            )
        return self.call_grid([[arrays]])[0][0]

    def call(self, handles: Sequence[Handle]) -> Arrays:
        """As `Executable.call`, in a grid of one process. Donated inputs are copied.

        Raises:
            ArgumentError: the grid has several processes, or a handle is spent or of another input.
        """
        if any(handle.array is None for handle in handles):
            raise ArgumentError("a handle was donated to an earlier call", remedy="put() a new array")
        return self(*(handle.array for handle in handles))

    def call_grid(
        self, arguments: Sequence[Sequence[Sequence[object]]], timeout: float | None = None
    ) -> list[list[Arrays]]:
        """Run all processes: `arguments[replica][partition]` are those of one, and so are the results.

        Raises:
            ArgumentError: the arguments do not fit the model or the grid; every one that does not is named.
            CommunicationError: processes wait for each other in a circle, or for one that has ended; are at different
                ops; or `timeout` seconds have passed.
        """
        prepared = self._prepare(arguments)
        call = _Call(self._plan)
        workers = []
        frames = [self._frame() for _ in prepared]
        all_results = []
        for number, (arrays, frame) in enumerate(zip(prepared, frames, strict=True)):
            results = self._allocate(arrays)
            all_results.append(results)
            self._fill(frame, arrays, results, call.process(number))
            entry = (frame.inputs_address, frame.outputs_address, frame.arena, self._constants_address, None)
            workers.append(threading.Thread(target=call.run, args=(number, self._entry, entry), daemon=True))
        call.wait_for(workers, timeout)
        self._frames += frames
        rows = iter([tuple(results) for results in all_results])
        return [[next(rows) for _ in range(self.num_partitions)] for _ in range(self.num_replicas)]

    def _prepare(self, arguments: Sequence[Sequence[Sequence[object]]]) -> list[list[np.ndarray]]:
        sizes = [len(row) for row in arguments]
        if sizes != [self.num_partitions] * self.num_replicas:
            raise ArgumentError(
                f"got arguments for replicas of {sizes} partitions, the grid has {self.num_replicas} of "
                f"{self.num_partitions}",
                remedy="pass arguments[replica][partition], a sequence of arrays for each process",
            )
        prepared, problems = [], []
        for replica, row in enumerate(arguments):
            for partition, values in enumerate(row):
                try:
                    prepared.append(convert(values, self.inputs))
                except ArgumentError as error:
                    where = f"process ({replica}, {partition})"
                    problems += [Problem(f"{where}: {each.reason}", remedy=each.remedy) for each in error.problems]
        if problems:
            raise ArgumentError("the arguments do not fit the model", problems=problems)
        return prepared

    def _allocate(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """Results of one process; a donated input is copied into the result whose memory it is to be."""
        results = []
        for number, (shape, dtype, size) in enumerate(self._results):
            result = RESULTS.array(shape, dtype, size)
            if number in self._donated:
                np.copyto(result, arrays[self._donated[number]])
                arrays[self._donated[number]] = result
            results.append(result)
        return results

    def _fill(self, frame: object, arrays: list[np.ndarray], results: list[np.ndarray], process: int) -> None:
        for number, array in enumerate(arrays):
            frame.inputs[number] = array.__array_interface__["data"][0]  # type: ignore[attr-defined]
        frame.inputs[len(arrays)] = process  # type: ignore[attr-defined]
        for number, result in enumerate(results):
            frame.outputs[number] = result.__array_interface__["data"][0]  # type: ignore[attr-defined]


class _Call:
    """The processes of one call and the memory that they share (layout: backends/cpu/grid.py)."""

    def __init__(self, plan: GridPlan) -> None:
        self._plan = plan
        count = plan.processes
        sizes = [
            native.HEADER_BYTES,
            count * native.RECORD_BYTES,
            count * native.PROCESS_BYTES,
            plan.barriers * count * native.BARRIER_BYTES,
        ]
        self._block = Block(sum(sizes))
        self._header = self._block.address
        ctypes.memset(self._header, 0, sum(sizes))
        self._records = self._header + sizes[0]
        self._processes = self._records + sizes[1]
        self._put(self._header, native.NAP + 8, native.NAP_NANOSECONDS)
        self._put(self._header, native.RECORDS, self._records)
        self._put(self._header, native.BARRIERS, self._processes + sizes[2])
        for number in range(count):
            self._put(self._record(number), native.HEADER, self._header)
            self._put(self.process(number), native.NUMBER, number)
            self._put(self.process(number), native.RECORD, self._record(number))
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

    def run(self, number: int, entry: Callable[..., None], arguments: tuple[object, ...]) -> None:
        """One process, in its thread."""
        try:
            entry(*arguments)
        finally:
            self._ended.put(number)

    def wait_for(self, workers: Sequence[threading.Thread], timeout: float | None) -> None:
        """Start the processes; return when all have ended, since until then they use the memory of the call.

        Raises:
            CommunicationError: they could not go on. KeyboardInterrupt: Ctrl-C.
        """
        failure: BaseException | None = None
        limit = None if timeout is None else time.monotonic() + timeout
        before: list[tuple[int, int]] | None = None
        try:
            for worker in workers:
                worker.start()
        except RuntimeError as error:  # no more threads
            failure = self._give_up(CommunicationError(f"a process of the grid cannot be started: {error}"))
            self._running = {number for number in self._running if workers[number].ident is not None}
        while self._running:
            try:
                with suppress(queue.Empty):
                    self._running.discard(self._ended.get(timeout=LOOK_SECONDS))
                    before = None
                    continue
                if failure is not None:
                    continue
                if limit is not None and time.monotonic() > limit:
                    what = f"the grid has not finished in {timeout:g} seconds"
                    failure = self._give_up(CommunicationError(what, problems=self._whereabouts()))
                stuck = self._stuck()
                if stuck is not None and stuck == before:
                    what = "the processes of the grid wait for each other"
                    failure = self._give_up(CommunicationError(what, problems=self._whereabouts()))
                before = stuck
            except KeyboardInterrupt as interrupt:
                failure = self._give_up(interrupt)
        failure = failure or self._native_failure()
        if failure is not None:
            raise failure

    def _give_up(self, failure: BaseException) -> BaseException:
        """Let every process return from where it waits."""
        ctypes.c_int32.from_address(self._header + native.FAILED).value = native.STOPPED
        return failure

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
        places = [
            Problem(f"process {divmod(number, self._plan.partitions)} is at {self._site(number)}")
            for number in range(self._plan.processes)
        ]
        return CommunicationError(f"processes meet at different ops, as process {noticed} noticed", problems=places)
