"""A program loaded into this process, and what all its calls have in common: where arguments and results lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from stablehlo_py.backends.base import backend_of
from stablehlo_py.errors import ArgumentError
from stablehlo_py.runtime.buffer import DONATED, Buffer, Event, Placement, result_of
from stablehlo_py.runtime.memory import ArrayMemory, addresses_of
from stablehlo_py.runtime.program import CompiledProgram

#: Of every result: its shape, and how many bytes it takes.
Layouts = Sequence[tuple[tuple[int, ...], int]]


class LoadedProgram:
    """A program's machine code and the memory of its results. Calls are thread-safe. Their arguments are checked.

    Args:
        sizes: of how many sizes of each argument and result memory is kept for the next call.
    """

    def __init__(self, program: CompiledProgram, sizes: int = 1) -> None:
        self.program = program
        self._memory = ArrayMemory(sizes * (len(program.inputs) + len(program.outputs)))
        self._load()
        donated = dict(program.donations)
        self._results = [(spec, donated.get(number)) for number, spec in enumerate(program.outputs)]
        self._donated = tuple(donated.values())

    def _load(self) -> None:
        self.code = code = backend_of(self.program).load(self.program)
        # One object, so that a call which has begun goes on with what belongs together.
        self._bound: tuple[Callable[..., Event | None], Placement] = code.run, Placement(code.memory, self._memory)

    @property
    def placement(self) -> Placement:
        """Where arrays of the next call are. A program whose device was lost is loaded anew first.

        Raises:
            ResourceError: that device is not there again.
        """
        placement = self._bound[1]
        if placement.space is None or not self.code.is_lost:
            return placement
        self._load()
        return self._bound[1]

    def run(self, arrays: Sequence[np.ndarray], layouts: Layouts, *sizes: Sequence[int]) -> list[np.ndarray]:
        """The results of a call with arrays of the host, which stay as they are. `sizes` is the table of a program with
        dynamic dimensions (`SizedCode.sizes`). Raises as `Code.run`."""
        run, placement = self._bound
        if placement.space is not None:
            placement = self.placement
            buffers = [placement.put(array, spec) for array, spec in zip(arrays, self.program.inputs, strict=True)]
            return [placement.fetch(result) for result in self.call(buffers, layouts, *sizes)]
        inputs = addresses_of(arrays)
        results, places = self.allocate(arrays, inputs, layouts)
        run(inputs, places, *sizes)
        return results

    def allocate(
        self, arrays: Sequence[np.ndarray], inputs: list[int], layouts: Layouts
    ) -> tuple[list[np.ndarray], list[int]]:
        """The results of a call on the host, and their addresses. The program updates a donated input in place: its
        elements are copied to its result, and its address in `inputs` becomes the result's."""
        placed = self._memory.placed
        results, places = [], []
        for (spec, source), (shape, size) in zip(self._results, layouts, strict=True):
            result, place = placed(shape, spec.dtype, size)
            if source is not None:
                np.copyto(result, arrays[source])
                inputs[source] = place
            results.append(result)
            places.append(place)
        return results, places

    def call(self, buffers: Sequence[Buffer], layouts: Layouts, *sizes: Sequence[int]) -> list[Buffer]:
        """The results of a call with buffers; donated ones are spent. Raises as `Code.run`, and ArgumentError: a
        donated buffer is passed twice."""
        for number in self._donated:
            if sum(buffer is buffers[number] for buffer in buffers) > 1:
                raise ArgumentError(
                    f"the buffer of {self.program.inputs[number].name}, which is donated, is also another input",
                    remedy="put() the array once for each input",
                )
        run, placement = self._bound
        if placement.space is not None:
            for buffer, spec in zip(buffers, self.program.inputs, strict=True):
                if buffer._space is not placement.space:  # another thread has loaded the program anew
                    placement.check(buffer, spec)
        inputs, empty = [buffer.address for buffer in buffers], placement.empty
        results, places = [], []
        for (spec, source), (shape, size) in zip(self._results, layouts, strict=True):
            if source is None:
                result = empty(spec, shape, size)
            else:
                result = result_of(placement.taken(buffers[source]), spec)
                inputs[source] = result.address
            results.append(result)
            places.append(result.address)
        event = run(inputs, places, *sizes)
        if event is not None:
            for result in results:
                result._event = event
        for number in self._donated:
            buffers[number]._spend(DONATED)
        return results
