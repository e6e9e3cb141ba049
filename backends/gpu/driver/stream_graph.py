"""Graphs of drivers with streams: the launches and copies of a program, which the driver is asked for in one go, and of
which those that need nothing of each other run side by side."""

from __future__ import annotations

import array
import ctypes
from abc import abstractmethod
from collections.abc import Sequence

from stablehlo_py.backends.gpu.driver.recording import COPY, STEP, Graph, Step
from stablehlo_py.backends.gpu.driver.stream import Stream
from stablehlo_py.backends.gpu.driver.stream_library import LAUNCH_BUFFER, LAUNCH_SIZE
from stablehlo_py.backends.gpu.driver.structure import Block, Condition, Conditional, Setting
from stablehlo_py.errors import InternalError

ADDRESS_BYTES = 8
Place = tuple[int, ctypes.Array[ctypes.c_void_p]]  # of a node: the graph that it is in, the nodes that it is behind


class StreamGraph(Graph):
    """The steps of a block, each behind those that it waits for. It owns its handles. `steps` are the numbers that
    native code wrote: it goes on writing operands there, and finds nodes and parameters there.

    Raises:
        ResourceError, InternalError: as `Queue.check`.
    """

    handle = _graph = 0

    def __init__(self, stream: Stream, steps: array.array[int], kernels: Sequence[int], block: Block) -> None:
        self._stream = stream
        self._steps, self._kernels = steps, kernels
        self._kept: list[object] = []  # what the driver reads later
        self._graph = stream.made("GraphCreate", 0)
        self._fill(self._graph, block)
        self.handle = stream.made("GraphInstantiate", self._graph, 0)

    def __del__(self) -> None:
        self._stream.release("GraphExecDestroy", self.handle)
        self._stream.release("GraphDestroy", self._graph)

    def start(self) -> int:
        """GraphLaunch."""
        return self._stream.library.status("GraphLaunch", self.handle, self._stream.handle)

    def _fill(self, graph: int, block: Block) -> None:
        """Add the nodes of a block. Raises as the class."""
        for each in block.nodes:
            if isinstance(each, Conditional):
                self._make_condition(graph, each.condition)
        nodes: list[int] = []
        for each, last in zip(block.nodes, block.before, strict=True):
            place = graph, (ctypes.c_void_p * len(last))(*(nodes[number] for number in last))
            if isinstance(each, Conditional):
                node, body = self._add_conditional(place, each)
                self._fill(body, each.body)
            else:
                node = self._add_setting(place, each) if isinstance(each, Setting) else self._add_step(place, each)
            nodes.append(node)

    def _add_step(self, place: Place, step: Step) -> int:
        """Add a launch or a copy. Raises as the class."""
        if step.kernel == COPY:
            target, source = self._steps[step.operands : step.operands + 2]
            node, parameters = self._add_copy(place, target, source, step.bytes)
        else:
            parameters = self._launch(self._kernels[step.kernel], step, self._packed(step))
            node = self._added("GraphAddKernelNode", place, ctypes.byref(parameters))
        self._keep(step, node, parameters)
        return node

    def _keep(self, step: Step, node: int, parameters: ctypes.Structure | None) -> None:
        """Let native code know what to change where the step has other operands; None: nothing that is kept here."""
        self._steps[step.place + STEP.index("node")] = node
        if parameters is not None:
            self._kept.append(parameters)
            self._steps[step.place + STEP.index("parameters")] = ctypes.addressof(parameters)

    @abstractmethod
    def _launch(self, kernel: int, step: Step, operands: int) -> ctypes.Structure:
        """The driver's parameters of a launch; `operands`: the address of what says where they are."""

    @abstractmethod
    def _add_copy(self, place: Place, target: int, source: int, size: int) -> tuple[int, ctypes.Structure | None]:
        """Add a copy: its node, and the parameters that change with its operands, if there are any. Raises as the
        class."""

    def _make_condition(self, graph: int, condition: Condition) -> None:
        """Make a condition that a graph asks for. Raises as the class."""
        raise InternalError("graphs of this driver have no conditions")

    def _add_conditional(self, place: Place, conditional: Conditional) -> tuple[int, int]:
        """Add what runs under a condition: its node, and the graph of its block. Raises as the class."""
        raise InternalError("graphs of this driver have no conditions")

    def _add_setting(self, place: Place, setting: Setting) -> int:
        """Add what sets conditions. Raises as the class."""
        raise InternalError("graphs of this driver have no conditions")

    def _added(self, name: str, place: Place, *parameters: object) -> int:
        """The node that a function of the driver adds there. Raises as the class."""
        graph, behind = place
        return self._stream.made(name, graph, behind, len(behind), *parameters)

    def _operands(self, step: Step) -> int:
        """Their address, where native code writes them."""
        return self._steps.buffer_info()[0] + ADDRESS_BYTES * step.operands

    def _packed(self, step: Step) -> int:
        """The address of the array by which a launch finds its operands."""
        size, operands = ctypes.c_size_t(ADDRESS_BYTES * step.count), self._operands(step)
        end = self._stream.library.launch_end
        extra = (ctypes.c_void_p * 5)(LAUNCH_BUFFER, operands, LAUNCH_SIZE, ctypes.addressof(size), end)
        self._kept += [size, extra]
        return ctypes.addressof(extra)
