"""Nodes of HIP's graphs."""

from __future__ import annotations

import ctypes

from stablehlo_py.backends.gpu.driver.recording import Step
from stablehlo_py.backends.gpu.driver.stream_graph import Place, StreamGraph
from stablehlo_py.backends.gpu.hip.library import DEVICE_TO_DEVICE


class LaunchParameters(ctypes.Structure):
    """hipKernelNodeParams of hip_runtime_api.h."""

    _fields_ = (
        ("threads", ctypes.c_uint32 * 3),
        ("extra", ctypes.c_void_p),
        ("function", ctypes.c_void_p),
        ("blocks", ctypes.c_uint32 * 3),
        ("parameters", ctypes.c_void_p),
        ("shared_bytes", ctypes.c_uint32),
    )


class HipGraph(StreamGraph):
    """In a stream of HIP."""

    def _launch(self, kernel: int, step: Step, operands: int) -> LaunchParameters:
        launch = LaunchParameters(function=kernel, shared_bytes=step.bytes, extra=operands)
        launch.blocks[:], launch.threads[:] = [step.blocks, 1, 1], [step.threads, 1, 1]
        return launch

    def _add_copy(self, place: Place, target: int, source: int, size: int) -> tuple[int, None]:
        return self._added("hipGraphAddMemcpyNode1D", place, target, source, size, DEVICE_TO_DEVICE), None
