"""Graphs of CUDA: the launches and copies of a program, which the driver is asked for in one go."""

from __future__ import annotations

import array
import ctypes
from collections.abc import Sequence

from stablehlo_py.backends.gpu.cuda.stream import CudaStream
from stablehlo_py.backends.gpu.driver.recording import COPY, STEP, Graph, Step, steps_of
from stablehlo_py.backends.gpu.driver.stream_library import LAUNCH_BUFFER, LAUNCH_SIZE

_DEVICE = 2  # CU_MEMORYTYPE_DEVICE


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


class CudaGraph(Graph):
    """Steps, each behind the one before it. It owns its handles. `steps` are the numbers that native code wrote: it
    goes on writing operands there, and finds nodes and parameters there.

    Raises:
        ResourceError, InternalError: as `Queue.check`.
    """

    handle = _graph = 0

    def __init__(self, stream: CudaStream, steps: array.array[int], kernels: Sequence[int]) -> None:
        self._stream = stream
        self._kept: list[object] = [steps]
        self._graph = stream.made("cuGraphCreate", 0)
        before = ctypes.c_void_p()
        for step in steps_of(steps):
            parameters = self._parameters(step, steps, kernels)
            self._kept.append(parameters)
            name, more = "cuGraphAddKernelNode_v2", []
            if step.kernel == COPY:
                name, more = "cuGraphAddMemcpyNode", [stream.place]
            last, count = ctypes.byref(before), int(bool(before.value))
            node = ctypes.c_void_p()
            stream.call(name, ctypes.byref(node), self._graph, last, count, ctypes.byref(parameters), *more)
            steps[step.place + STEP.index("node")] = node.value or 0
            steps[step.place + STEP.index("parameters")] = ctypes.addressof(parameters)
            before = node
        self.handle = stream.made("cuGraphInstantiateWithFlags", self._graph, 0)

    def __del__(self) -> None:
        self._stream.release("cuGraphExecDestroy", self.handle)
        self._stream.release("cuGraphDestroy", self._graph)

    def start(self) -> int:
        """cuGraphLaunch."""
        return self._stream.library.status("cuGraphLaunch", self.handle, self._stream.handle)

    def _parameters(self, step: Step, steps: array.array[int], kernels: Sequence[int]) -> ctypes.Structure:
        """Of a node. Those of a launch point to the operands where native code writes them."""
        if step.kernel == COPY:
            copy = CopyParameters(width=step.bytes, height=1, depth=1)
            copy.source.memory_type = copy.target.memory_type = _DEVICE
            copy.target.device, copy.source.device = steps[step.operands : step.operands + 2]
            return copy
        size, operands = ctypes.c_size_t(8 * step.count), steps.buffer_info()[0] + 8 * step.operands
        end = self._stream.library.launch_end
        extra = (ctypes.c_void_p * 5)(LAUNCH_BUFFER, operands, LAUNCH_SIZE, ctypes.addressof(size), end)
        self._kept += [size, extra]
        launch = LaunchParameters(kernels[step.kernel], shared_bytes=step.bytes, extra=ctypes.addressof(extra))
        launch.blocks[:], launch.threads[:] = [step.blocks, 1, 1], [step.threads, 1, 1]
        return launch
