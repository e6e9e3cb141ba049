"""Nodes of CUDA's graphs."""

from __future__ import annotations

import array
import ctypes
import time
from collections.abc import Sequence

import numpy as np

from stablehlo_py.backends.gpu.cuda import conditions
from stablehlo_py.backends.gpu.cuda.conditions import IF, WHILE, ConditionalParameters
from stablehlo_py.backends.gpu.cuda.stream import CudaStream
from stablehlo_py.backends.gpu.driver.device import Built
from stablehlo_py.backends.gpu.driver.memory import GpuMemory
from stablehlo_py.backends.gpu.driver.recording import Step
from stablehlo_py.backends.gpu.driver.stream_graph import ADDRESS_BYTES, Place, StreamGraph
from stablehlo_py.backends.gpu.driver.structure import Block, Condition, Conditional, Setting

_DEVICE = 2  # CU_MEMORYTYPE_DEVICE
_PORTABLE, _MAPPED = 1, 2  # CU_MEMHOSTALLOC_PORTABLE, _DEVICEMAP
_LONGEST_PAUSE = 1e-3  # seconds, between two looks at whether loops have ended


class LaunchParameters(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2 of cuda.h."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("blocks", ctypes.c_uint32 * 3),
        ("threads", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


class _End(ctypes.Structure):
    """What CUDA_MEMCPY3D says of the source, and of the target."""

    _fields_ = (
        ("x", ctypes.c_size_t),
        ("y", ctypes.c_size_t),
        ("z", ctypes.c_size_t),
        ("level", ctypes.c_size_t),
        ("memory_type", ctypes.c_int32),
        ("host", ctypes.c_void_p),
        ("device", ctypes.c_uint64),
        ("array", ctypes.c_void_p),
        ("reserved", ctypes.c_void_p),
        ("pitch", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    )


class CopyParameters(ctypes.Structure):
    """CUDA_MEMCPY3D of cuda.h."""

    _fields_ = (
        ("source", _End),
        ("target", _End),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
        ("depth", ctypes.c_size_t),
    )


#: Where native code writes the addresses of a copy, in bytes.
SOURCE_AT = CopyParameters.source.offset + _End.device.offset
TARGET_AT = CopyParameters.target.offset + _End.device.offset


class CudaGraph(StreamGraph):
    """In a stream of CUDA. Of one with loops of unknown length, `start` returns when they have ended, so that Ctrl-C
    may end them: between two trips, by a number in the host's memory, which the kernel that sets conditions reads.

    Args:
        memory: of the device. setter: the module of that kernel, where there are conditions.
    """

    _stop = 0  # the address of that number
    _stream: CudaStream

    def __init__(
        self,
        stream: CudaStream,
        steps: array.array[int],
        kernels: Sequence[int],
        block: Block,
        memory: GpuMemory,
        setter: Built | None,
    ) -> None:
        self._stream = stream
        self._conditions: dict[int, int] = {}  # handles
        self._rows: list[tuple[int, int, int]] = []  # of the kernel's table
        if setter is not None:
            count = sum(len(each.conditions) for each in block.all_nodes() if isinstance(each, Setting))
            self._setter = setter, setter.kernel(conditions.NAME)
            self._table = memory.allocate(count * conditions.ROW * ADDRESS_BYTES)
        if any(each.is_loop for each in block.conditionals):
            self._stop = stream.made("cuMemHostAlloc", ctypes.sizeof(ctypes.c_uint32), _PORTABLE | _MAPPED)
            self._asked.value = 0
        super().__init__(stream, steps, kernels, block)
        if setter is not None:
            memory.write(np.array(self._rows, np.uint64), self._table)

    def __del__(self) -> None:
        super().__del__()
        self._stream.release("cuMemFreeHost", self._stop)

    @property
    def waits(self) -> bool:  # type: ignore[override]
        """Where there are such loops."""
        return bool(self._stop)

    @property
    def _asked(self) -> ctypes.c_uint32:
        """Whether loops are to end."""
        return ctypes.c_uint32.from_address(self._stop)

    def start(self) -> int:
        """As `Graph.start`."""
        status = super().start()
        return status if status or not self._stop else self._ended()

    def _ended(self) -> int:
        """Wait until the loops have ended. Raises what a signal handler does."""
        event, pause = self._stream.last_event(), 0.0
        try:
            while not event.is_ready():
                time.sleep(pause)
                pause = min(1.25 * pause + 1e-6, _LONGEST_PAUSE)
        except BaseException:
            self._asked.value = 1
            self._stream.finish()
            raise
        finally:
            self._asked.value = 0
        return 0

    def _make_condition(self, graph: int, condition: Condition) -> None:
        made, context = "cuGraphConditionalHandleCreate", self._stream.place
        self._conditions[condition.number] = self._stream.made(made, graph, context, 0, 0, of=ctypes.c_uint64)

    def _add_conditional(self, place: Place, conditional: Conditional) -> tuple[int, int]:
        handle, type_ = self._conditions[conditional.condition.number], (IF, WHILE)[conditional.is_loop]
        parameters = ConditionalParameters.of(handle, type_, self._stream.place)
        graph, behind = place
        added = "cuGraphAddNode_v2"
        node = self._stream.made(added, graph, behind, None, len(behind), ctypes.byref(parameters))
        return node, parameters.graphs[0] or 0

    def _add_setting(self, place: Place, setting: Setting) -> int:
        step, count = setting.step, len(setting.conditions)
        table = self._table.address + len(self._rows) * conditions.ROW * ADDRESS_BYTES
        self._rows += [(self._conditions[each.number], each.way, each.last) for each in setting.conditions]
        numbers = (ctypes.c_uint64 * 4)(step.bytes, count, table, self._stop)
        first = ctypes.addressof(numbers)
        operands = (ctypes.c_void_p * 5)(self._operands(step), *(first + ADDRESS_BYTES * each for each in range(4)))
        parameters = LaunchParameters(self._setter[1], parameters=ctypes.addressof(operands))
        parameters.blocks[:], parameters.threads[:] = [1, 1, 1], [1, 1, 1]
        self._kept += [numbers, operands]
        node = self._added("GraphAddKernelNode", place, ctypes.byref(parameters))
        self._keep(step, node, parameters)
        return node

    def _launch(self, kernel: int, step: Step, operands: int) -> LaunchParameters:
        launch = LaunchParameters(kernel, shared_bytes=step.bytes, extra=operands)
        launch.blocks[:], launch.threads[:] = [step.blocks, 1, 1], [step.threads, 1, 1]
        return launch

    def _add_copy(self, place: Place, target: int, source: int, size: int) -> tuple[int, CopyParameters]:
        copy = CopyParameters(width=size, height=1, depth=1)
        copy.source.memory_type = copy.target.memory_type = _DEVICE
        copy.target.device, copy.source.device = target, source
        return self._added("cuGraphAddMemcpyNode", place, ctypes.byref(copy), self._stream.place), copy
