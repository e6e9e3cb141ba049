"""A program loaded into this process, and what all its calls have in common: where arguments and results lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stablehlo_py.backends.base import backend_of
from stablehlo_py.errors import ArgumentError
from stablehlo_py.runtime.buffer import DONATED, Buffer, Event, Placement, result_of
from stablehlo_py.runtime.memory import ArrayMemory, Layouts, addresses_of
from stablehlo_py.runtime.program import CompiledProgram


class LoadedProgram:
    """A program's machine code and the memory of its results. Calls are thread-safe. Their arguments are checked.

    Args:
        sizes: of how many sizes of each argument and result memory is kept for the next call.
        device: the number of the one that runs it.
    """

    def __init__(self, program: CompiledProgram, sizes: int = 1, device: int = 0) -> None:
        self.program = program
        self.device = device
        self._memory = ArrayMemory(sizes * (len(program.inputs) + len(program.outputs)))
        self._load()
        self._donations = sorted(program.donations)
        given = dict(program.donations)
        self._made = [number for number in range(len(program.outputs)) if number not in given]
        self._made_specs = [program.outputs[number] for number in self._made]

    def _load(self) -> None:
        self.code = code = backend_of(self.program).load(self.program, self.device)
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

    def fast_call(self, inputs: Layouts, outputs: Layouts) -> Callable[..., Any] | None:
        """As `Code.fast_call`, with this program's memory."""
        return self.code.fast_call(inputs, outputs, self._memory)

    def allocate(
        self, arrays: Sequence[np.ndarray], inputs: list[int], layouts: Layouts
    ) -> tuple[list[np.ndarray], list[int]]:
        """The results of a call on the host, and their addresses. The program updates a donated input in place: its
        elements are copied to its result, and its address in `inputs` becomes the result's."""
        made = self._memory.arrays(layouts)
        for number, source in self._donations:
            result, inputs[source] = made[number]
            np.copyto(result, arrays[source])
        return [result for result, _ in made], [place for _, place in made]

    def call(self, buffers: Sequence[Buffer], layouts: Layouts, *sizes: Sequence[int]) -> list[Buffer]:
        """The results of a call with buffers; donated ones are spent. Raises as `Code.run`, and ArgumentError: a
        donated buffer is passed twice."""
        for _, source in self._donations:
            if sum(buffer is buffers[source] for buffer in buffers) > 1:
                raise ArgumentError(
                    f"the buffer of {self.program.inputs[source].name}, which is donated, is also another input",
                    remedy="put() the array once for each input",
                )
        run, placement = self._bound
        if placement.space is not None:
            for buffer, spec in zip(buffers, self.program.inputs, strict=True):
                if buffer._space is not placement.space:  # another thread has loaded the program anew
                    placement.check(buffer, spec)
        inputs = [buffer.address for buffer in buffers]
        if self._donations:
            layouts = [layouts[number] for number in self._made]
        results = placement.empty(self._made_specs, layouts)
        for number, source in self._donations:
            result = result_of(placement.taken(buffers[source]), self.program.outputs[number])
            inputs[source] = result.address
            results.insert(number, result)
        event = run(inputs, [result.address for result in results], *sizes)
        if event is not None:
            for result in results:
                result._event = event
        for _, source in self._donations:
            buffers[source]._spend(DONATED)
        return results
