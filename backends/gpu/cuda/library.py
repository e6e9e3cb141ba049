"""CUDA's driver: where it is found, its functions, and what its status numbers mean."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

from stablehlo_py.backends.gpu.driver.library import SMALLER
from stablehlo_py.backends.gpu.driver.stream_library import (
    ADDRESS,
    HANDLE,
    INT,
    OUT_OF_MEMORY,
    SIGNATURES,
    SIZE,
    STATUS,
    TEXT,
    UINT,
    StreamLibrary,
    dotted,
    named,
)
from stablehlo_py.errors import InternalError, ResourceError, ShloError

VARIABLE = "SHLO_CUDA_LIBRARY"
NEEDED_VERSION = 12000  # of the driver: the first that knows all machines that code is generated for, but the newest

_VERSIONS = (
    *("StreamDestroy", "EventDestroy", "MemAlloc", "MemFree", "DeviceTotalMem"),  # second ones: of 64 bits
    *("GraphAddKernelNode", "GraphExecKernelNodeSetParams"),  # parameters with a kernel and a context
)
_NAMES = named(
    "cu",
    Synchronize="cuCtxSynchronize",
    GraphInstantiate="cuGraphInstantiateWithFlags",
    **{name: f"cu{name}_v2" for name in _VERSIONS},
)
# What is used of cuda.h, with the names that its macros stand for: what a function returns, and its parameters.
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    **{_NAMES[name]: signature for name, signature in SIGNATURES.items()},
    "cuDriverGetVersion": (STATUS, ADDRESS),
    "cuGetErrorName": (STATUS, STATUS, ADDRESS),
    "cuGetErrorString": (STATUS, STATUS, ADDRESS),
    "cuDevicePrimaryCtxRetain": (STATUS, ADDRESS, INT),
    "cuDevicePrimaryCtxRelease_v2": (STATUS, INT),
    "cuCtxPushCurrent_v2": (STATUS, HANDLE),
    "cuCtxPopCurrent_v2": (STATUS, ADDRESS),
    "cuModuleLoadDataEx": (STATUS, ADDRESS, ADDRESS, UINT, ADDRESS, ADDRESS),
    "cuGraphAddMemcpyNode": (STATUS, ADDRESS, HANDLE, ADDRESS, SIZE, ADDRESS, HANDLE),
    "cuGraphExecMemcpyNodeSetParams": (STATUS, HANDLE, HANDLE, ADDRESS, HANDLE),
    "cuFuncGetAttribute": (STATUS, ADDRESS, INT, HANDLE),
    "cuFuncSetAttribute": (STATUS, HANDLE, INT, INT),
}

# Of drivers for CUDA 12.3 and newer, but for the host's memory.
OPTIONAL: dict[str, tuple[Any, ...]] = {
    "cuGraphConditionalHandleCreate": (STATUS, ADDRESS, HANDLE, HANDLE, UINT, UINT),
    "cuGraphAddNode_v2": (STATUS, ADDRESS, HANDLE, ADDRESS, ADDRESS, SIZE, ADDRESS),
    "cuMemHostAlloc": (STATUS, ADDRESS, SIZE, UINT),
    "cuMemFreeHost": (STATUS, ADDRESS),
}

# Statuses, by their names in cuda.h.
STUB_LIBRARY, DEVICE_UNAVAILABLE, NO_DEVICE = 34, 46, 100
INVALID_IMAGE, NO_BINARY_FOR_GPU, INVALID_PTX = 200, 209, 218
JIT_COMPILER_NOT_FOUND, UNSUPPORTED_PTX_VERSION, JIT_COMPILATION_DISABLED = 221, 222, 223
# The context is no more: somebody has reset it.
_DESTROYED = (201, 709)  # INVALID_CONTEXT, CONTEXT_IS_DESTROYED
# A kernel has done what it must not: ILLEGAL_ADDRESS, ASSERT, HARDWARE_STACK_ERROR, ILLEGAL_INSTRUCTION,
# MISALIGNED_ADDRESS, INVALID_ADDRESS_SPACE, INVALID_PC, LAUNCH_FAILED, TENSOR_MEMORY_LEAK.
_FAULTS = (700, 710, 714, 715, 716, 717, 718, 719, 721)
# ECC_UNCORRECTABLE, NVLINK_UNCORRECTABLE, CONTAINED, LAUNCH_TIMEOUT, UNKNOWN
_HARDWARE, _TIMEOUT, _UNKNOWN = (214, 220, 226), 702, 999
_AGAIN = "call again: what was on the device is gone; where that fails too, start the process anew"
_INSTALL = f"install NVIDIA's driver; {VARIABLE} names another library"
_UPDATE = "update NVIDIA's driver"
_LACKING = {
    OUT_OF_MEMORY: SMALLER,
    STUB_LIBRARY: "this is the toolkit's stub: put the folder of the driver's libcuda.so.1 before it",
    36: _UPDATE,  # CALL_REQUIRES_NEWER_DRIVER
    DEVICE_UNAVAILABLE: "another process has the device for itself (nvidia-smi says which): choose another one",
    NO_DEVICE: "the driver finds no GPU: look at nvidia-smi, and at CUDA_VISIBLE_DEVICES",
    101: "choose another device",  # INVALID_DEVICE
    802: "the machine's fabric manager is not ready: start nvidia-fabricmanager",  # SYSTEM_NOT_READY
    803: "the driver's library and its kernel module are of different versions: restart the machine",
    804: _UPDATE,  # COMPAT_NOT_SUPPORTED_ON_DEVICE
    JIT_COMPILER_NOT_FOUND: "install the whole driver: its compiler (libnvidia-ptxjitcompiler.so.1) is missing",
    **dict.fromkeys(_DESTROYED, _AGAIN),
    **dict.fromkeys(_HARDWARE, "the hardware has failed: nvidia-smi -q says more; restart the process"),
    _TIMEOUT: "a kernel has taken longer than the display may wait: use a GPU without one, or a smaller batch",
    _UNKNOWN: _AGAIN,
}


class CudaLibrary(StreamLibrary):
    """The functions of CUDA's driver."""

    driver, oldest, install = "CUDA", "12.0", _INSTALL
    names, functions, optional, lacking = _NAMES, FUNCTIONS, OPTIONAL, _LACKING
    launch_end = 0  # CU_LAUNCH_PARAM_END
    change_copy = "cuGraphExecMemcpyNodeSetParams"
    dlpack_type, default_stream, refused_streams = 2, 1, (0,)  # kDLCUDA
    lost = frozenset((*_DESTROYED, *_FAULTS, *_HARDWARE, _TIMEOUT, _UNKNOWN))

    def begin(self) -> None:
        """Raises ResourceError: there is no device, or the driver is too old."""
        self.call("cuInit", 0)
        version = self.number("cuDriverGetVersion")
        if version < NEEDED_VERSION:
            raise ResourceError(
                f"{self.path} is a driver for CUDA {dotted(version)}, and {self.oldest} is needed", remedy=_UPDATE
            )

    def status_text(self, status: int) -> str:
        """Its name and number, and what the driver says of it."""
        name, text = (self._text(function, status) for function in ("cuGetErrorName", "cuGetErrorString"))
        return f"{name} ({status}): {text}" if name else f"an unknown status ({status})"

    def failure(self, status: int, what: str) -> ShloError:
        """As `Library.failure`; a fault of a kernel is ours."""
        error = super().failure(status, what)
        if status not in _FAULTS:
            return error
        remedy = "report it with the model; CUDA_LAUNCH_BLOCKING=1 in the environment tells which kernel it is"
        return InternalError(f"{error.reason}; what was on the device is gone", remedy=remedy)

    def _text(self, function: str, status: int) -> str:
        place = TEXT()
        self.status(function, status, ctypes.byref(place))
        return (place.value or b"").decode(errors="replace")


def candidates() -> list[str]:
    """Libraries to try: the one that the environment names, else the system's."""
    return [os.environ.get(VARIABLE) or "libcuda.so.1"]


@cache
def library() -> CudaLibrary:
    """The library of this process.

    Raises:
        ResourceError: there is none, or it has no device.
    """
    return CudaLibrary.first(candidates())
