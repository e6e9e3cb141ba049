"""Programs that run as a grid of processes, which are threads of this one, or that talk to the host while they run."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import cast

import numpy as np

from stablehlo_py import boundary
from stablehlo_py.backends.base import GridCode
from stablehlo_py.boundary import is_expected, public
from stablehlo_py.errors import ArgumentError, Problem, elided
from stablehlo_py.runtime.arguments import convert, not_buffers
from stablehlo_py.runtime.buffer import Buffer
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.grid_call import GridCall
from stablehlo_py.runtime.memory import addresses_of
from stablehlo_py.runtime.program import CompiledProgram, Spec
from stablehlo_py.runtime.streams import Stream

Arrays = tuple[np.ndarray, ...]


class GridExecutable(Executable):
    """A compiled model that runs as `num_replicas` x `num_partitions` processes, threads of this one.

    `call_grid` takes arguments for each process and gives the results of each. Calls are thread-safe; Ctrl-C ends one.

    Attributes:
        infeed, outfeed: streams that the program takes from and gives to while it runs.
    """

    def __init__(self, program: CompiledProgram, device: int = 0) -> None:
        super().__init__(program, device)
        assert program.grid is not None
        self._plan = program.grid
        self.num_replicas, self.num_partitions = self._plan.replicas, self._plan.partitions
        self.infeed = self._stream("the infeed", "infeed")
        self.outfeed = self._stream("the outfeed", "outfeed")
        numbers = sorted({port.channel for port in self._plan.ports if port.kind in ("send", "recv")})
        self._channels = {number: self._stream(f"channel {number}", "recv", number) for number in numbers}

    def _stream(self, name: str, kind: str, channel: int = 0) -> Stream:
        accepts: list[tuple[Spec, ...]] = []
        for port in self._plan.ports:
            if (port.kind, port.channel) != (kind, channel):
                continue
            if port.part == 0:
                accepts.append(())
            if port.parts:
                accepts[-1] = (*accepts[-1], port.spec)
        return Stream(name, self.num_replicas, self.num_partitions, accepts)

    @property
    @public
    def has_own_arguments(self) -> bool:
        """Whether there are several processes, each with arguments and results of its own: `call_grid` runs them."""
        return self._plan.processes > 1 and not self._plan.whole

    @public
    def channel(self, number: int) -> Stream:
        """The host's end of a channel of send and recv: `put` for the program's recv, `get` from its send.

        Raises:
            ArgumentError: the program has no such channel with the host.
        """
        number = boundary.number(number, "the channel")
        if number not in self._channels:
            raise ArgumentError(
                f"the program has no channel {number} with the host",
                remedy=f"its channels: {elided(self._channels) or 'none'}",
            )
        return self._channels[number]

    @public
    def __call__(self, *arrays: object) -> Arrays:
        """Run a grid of one process, or one whose processes all have the same arguments and results (jax.shard_map).

        Raises:
            ArgumentError: the grid has several processes, or the arguments do not fit.
            CommunicationError: as `call_grid`.
        """
        if self._plan.whole:
            row = [arrays] * self.num_partitions
            return self.call_grid([row] * self.num_replicas)[0][0]
        if self._plan.processes > 1:
            raise ArgumentError(
                f"the model runs as a grid of {self.num_replicas} x {self.num_partitions} processes, "
                "each with arguments of its own",
                remedy="use call_grid(arguments), with arguments[replica][partition] a sequence of arrays",
            )
        return self.call_grid([[arrays]])[0][0]

    @public
    def call(self, buffers: Sequence[Buffer]) -> tuple[Buffer, ...]:
        """As `Executable.call`, in a grid of one process. Donated inputs are copied.

        Raises:
            ArgumentError: the grid has several processes, or a buffer is spent or of another input.
        """
        try:
            for buffer in buffers:
                buffer._require()
        except Exception as error:
            if is_expected(error):
                raise
            raise not_buffers(buffers) from error
        results = zip(self(*map(np.asarray, buffers)), self.outputs, strict=True)
        return tuple(self._placement.put(result, spec, copy=False) for result, spec in results)

    @public
    def call_grid(
        self, arguments: Sequence[Sequence[Sequence[object]]], timeout: float | None = None
    ) -> list[list[Arrays]]:
        """Run all processes: `arguments[replica][partition]` are those of one, and so are the results.

        Raises:
            ArgumentError: the arguments do not fit the model or the grid; every one that does not is named.
            CommunicationError: processes wait for each other in a circle, or for one that has ended; are at different
                ops; `timeout` seconds have passed; or a stream was closed, or held what does not fit.
            CallError: a custom call failed in one of them.
        """
        limit = boundary.seconds(timeout, "timeout")
        prepared = self._prepare(arguments)
        feeds = {"infeed": self.infeed, "outfeed": self.outfeed}
        keys = [0] * self._plan.processes
        if self._plan.random_sites:  # where all compute the same, all draw the same
            keys = self.random_keys.of_next_call(self._plan.processes, alike=self._plan.whole)
        call = GridCall(cast(GridCode, self._loaded.code), self._plan, feeds, self._channels, keys)
        workers, all_results = [], []
        for number, arrays in enumerate(prepared):
            inputs = addresses_of(arrays)
            results, places = self._loaded.allocate(arrays, inputs, self._layouts)
            all_results.append(tuple(results))
            workers.append(threading.Thread(target=call.run, args=(number, inputs, places), daemon=True))
        call.wait_for(workers, limit)
        rows = iter(all_results)
        return [[next(rows) for _ in range(self.num_partitions)] for _ in range(self.num_replicas)]

    def _prepare(self, arguments: Sequence[Sequence[Sequence[object]]]) -> list[list[np.ndarray]]:
        try:
            arguments = [[list(values) for values in row] for row in arguments]
        except Exception as error:  # what cannot be iterated
            if is_expected(error):
                raise
            raise ArgumentError(
                "the arguments are not nested as the processes are",
                remedy="pass arguments[replica][partition], a sequence of arrays for each process",
            ) from error
        sizes = [len(row) for row in arguments]
        if sizes != [self.num_partitions] * self.num_replicas:
            raise ArgumentError(
                f"got arguments for replicas of [{elided(sizes)}] partitions, the grid has {self.num_replicas} of "
                f"{self.num_partitions}",
                remedy="pass arguments[replica][partition], a sequence of arrays for each process",
            )
        prepared, problems = [], []
        for replica, row in enumerate(arguments):
            for partition, values in enumerate(row):
                try:
                    prepared.append(convert(values, self.inputs, self._leaves))
                except ArgumentError as error:
                    where = f"process ({replica}, {partition})"
                    problems += [Problem(f"{where}: {each.reason}", remedy=each.remedy) for each in error.problems]
        if problems:
            raise ArgumentError("the arguments do not fit the model", problems=problems)
        return prepared
