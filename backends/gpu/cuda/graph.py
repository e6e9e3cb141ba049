"""Nodes of CUDA's graphs."""

from __future__ import annotations

import ctypes

from stablehlo_py.backends.gpu.driver.recording import Step
from stablehlo_py.backends.gpu.driver.stream_graph import StreamGraph

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


class CudaGraph(StreamGraph):
    """In a stream of CUDA."""

    def _launch(self, kernel: int, step: Step, operands: int) -> LaunchParameters:
        launch = LaunchParameters(kernel, shared_bytes=step.bytes, extra=operands)
        launch.blocks[:], launch.threads[:] = [step.blocks, 1, 1], [step.threads, 1, 1]
        return launch

    def _add_copy(
        self, behind: ctypes.Array[ctypes.c_void_p], target: int, source: int, size: int
    ) -> tuple[int, CopyParameters]:
        copy = CopyParameters(width=size, height=1, depth=1)
        copy.source.memory_type = copy.target.memory_type = _DEVICE
        copy.target.device, copy.source.device = target, source
        return self._added("cuGraphAddMemcpyNode", behind, ctypes.byref(copy), self._stream.place), copy
