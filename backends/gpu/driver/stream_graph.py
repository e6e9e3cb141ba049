"""Graphs of drivers with streams: the launches and copies of a program, which the driver is asked for in one go, and of
which those that need nothing of each other run side by side."""

from __future__ import annotations

import array
import ctypes
from abc import abstractmethod
from collections.abc import Sequence

from stablehlo_py.backends.gpu.driver.recording import COPY, STEP, Graph, Step, steps_of
from stablehlo_py.backends.gpu.driver.stream import Stream
from stablehlo_py.backends.gpu.driver.stream_library import LAUNCH_BUFFER, LAUNCH_SIZE

_ADDRESS = 8  # bytes


class StreamGraph(Graph):
    """Steps, each behind those that `before` says. It owns its handles. `steps` are the numbers that native code wrote:
    it goes on writing operands there, and finds nodes and parameters there.

    Raises:
        ResourceError, InternalError: as `Queue.check`.
    """

    handle = _graph = 0

    def __init__(
        self, stream: Stream, steps: array.array[int], kernels: Sequence[int], before: Sequence[Sequence[int]]
    ) -> None:
        self._stream = stream
        self._kept: list[object] = [steps]  # what the driver reads later
        self._graph = stream.made("GraphCreate", 0)
        nodes: list[int] = []
        for step, last in zip(steps_of(steps), before, strict=True):
            behind = (ctypes.c_void_p * len(last))(*(nodes[number] for number in last))
            if step.kernel == COPY:
                target, source = steps[step.operands : step.operands + 2]
                node, parameters = self._add_copy(behind, target, source, step.bytes)
            else:
                parameters = self._launch(kernels[step.kernel], step, self._packed(steps, step))
                node = self._added("GraphAddKernelNode", behind, ctypes.byref(parameters))
            nodes.append(node)
            steps[step.place + STEP.index("node")] = node
            if parameters is not None:
                self._kept.append(parameters)
                steps[step.place + STEP.index("parameters")] = ctypes.addressof(parameters)
        self.handle = stream.made("GraphInstantiate", self._graph, 0)

    def __del__(self) -> None:
        self._stream.release("GraphExecDestroy", self.handle)
        self._stream.release("GraphDestroy", self._graph)

    def start(self) -> int:
        """GraphLaunch."""
        return self._stream.library.status("GraphLaunch", self.handle, self._stream.handle)

    @abstractmethod
    def _launch(self, kernel: int, step: Step, operands: int) -> ctypes.Structure:
        """The driver's parameters of a launch; `operands`: the address of what says where they are."""

    @abstractmethod
    def _add_copy(
        self, behind: ctypes.Array[ctypes.c_void_p], target: int, source: int, size: int
    ) -> tuple[int, ctypes.Structure | None]:
        """Add a copy behind these nodes: its node, and the parameters that change with its operands, if there are any.
        Raises as the class."""

    def _added(self, name: str, behind: ctypes.Array[ctypes.c_void_p], *parameters: object) -> int:
        """The node that a function of the driver adds behind these nodes. Raises as the class."""
        return self._stream.made(name, self._graph, behind, len(behind), *parameters)

    def _packed(self, steps: array.array[int], step: Step) -> int:
        """The address of the array by which a launch finds its operands, where native code writes them."""
        size, operands = ctypes.c_size_t(_ADDRESS * step.count), steps.buffer_info()[0] + _ADDRESS * step.operands
        end = self._stream.library.launch_end
        extra = (ctypes.c_void_p * 5)(LAUNCH_BUFFER, operands, LAUNCH_SIZE, ctypes.addressof(size), end)
        self._kept += [size, extra]
        return ctypes.addressof(extra)
