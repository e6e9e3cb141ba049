"""CUDA's driver: where it is found, its functions, and what its status numbers mean."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

from stablehlo_py.backends.gpu.driver.library import SMALLER, Library
from stablehlo_py.errors import InternalError, ResourceError, ShloError

VARIABLE = "SHLO_CUDA_LIBRARY"
NEEDED_VERSION = 12000  # of the driver: the first that knows all machines that code is generated for, but the newest

_STATUS = _INT = _DEVICE = ctypes.c_int32
_UINT, _SIZE, _POINTER = ctypes.c_uint32, ctypes.c_size_t, ctypes.c_uint64  # _POINTER: to memory of a device
_HANDLE = _ADDRESS = ctypes.c_void_p
_TEXT = ctypes.c_char_p

# What is used of cuda.h, with the names that its macros stand for: what a function returns, and its parameters.
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (_STATUS, _UINT),
    "cuDriverGetVersion": (_STATUS, _ADDRESS),
    "cuGetErrorName": (_STATUS, _STATUS, _ADDRESS),
    "cuGetErrorString": (_STATUS, _STATUS, _ADDRESS),
    "cuDeviceGetCount": (_STATUS, _ADDRESS),
    "cuDeviceGet": (_STATUS, _ADDRESS, _INT),
    "cuDeviceGetName": (_STATUS, _ADDRESS, _INT, _DEVICE),
    "cuDeviceGetPCIBusId": (_STATUS, _ADDRESS, _INT, _DEVICE),
    "cuDeviceTotalMem_v2": (_STATUS, _ADDRESS, _DEVICE),
    "cuDeviceGetAttribute": (_STATUS, _ADDRESS, _INT, _DEVICE),
    "cuDevicePrimaryCtxRetain": (_STATUS, _ADDRESS, _DEVICE),
    "cuDevicePrimaryCtxRelease_v2": (_STATUS, _DEVICE),
    "cuCtxPushCurrent_v2": (_STATUS, _HANDLE),
    "cuCtxPopCurrent_v2": (_STATUS, _ADDRESS),
    "cuCtxSynchronize": (_STATUS,),
    "cuStreamCreate": (_STATUS, _ADDRESS, _UINT),
    "cuStreamDestroy_v2": (_STATUS, _HANDLE),
    "cuStreamSynchronize": (_STATUS, _HANDLE),
    "cuStreamWaitEvent": (_STATUS, _HANDLE, _HANDLE, _UINT),
    "cuEventCreate": (_STATUS, _ADDRESS, _UINT),
    "cuEventRecord": (_STATUS, _HANDLE, _HANDLE),
    "cuEventQuery": (_STATUS, _HANDLE),
    "cuEventSynchronize": (_STATUS, _HANDLE),
    "cuEventDestroy_v2": (_STATUS, _HANDLE),
    "cuMemAlloc_v2": (_STATUS, _ADDRESS, _SIZE),
    "cuMemFree_v2": (_STATUS, _POINTER),
    "cuMemPoolCreate": (_STATUS, _ADDRESS, _ADDRESS),
    "cuMemPoolDestroy": (_STATUS, _HANDLE),
    "cuMemPoolSetAttribute": (_STATUS, _HANDLE, _INT, _ADDRESS),
    "cuMemPoolTrimTo": (_STATUS, _HANDLE, _SIZE),
    "cuMemAllocFromPoolAsync": (_STATUS, _ADDRESS, _SIZE, _HANDLE, _HANDLE),
    "cuMemFreeAsync": (_STATUS, _POINTER, _HANDLE),
    "cuPointerGetAttribute": (_STATUS, _ADDRESS, _INT, _POINTER),
    "cuMemcpyAsync": (_STATUS, _POINTER, _POINTER, _SIZE, _HANDLE),
    "cuMemcpyPeerAsync": (_STATUS, _POINTER, _HANDLE, _POINTER, _HANDLE, _SIZE, _HANDLE),
    "cuModuleLoadDataEx": (_STATUS, _ADDRESS, _ADDRESS, _UINT, _ADDRESS, _ADDRESS),
    "cuModuleUnload": (_STATUS, _HANDLE),
    "cuModuleGetFunction": (_STATUS, _ADDRESS, _HANDLE, _TEXT),
    "cuGraphCreate": (_STATUS, _ADDRESS, _UINT),
    "cuGraphAddKernelNode_v2": (_STATUS, _ADDRESS, _HANDLE, _ADDRESS, _SIZE, _ADDRESS),
    "cuGraphAddMemcpyNode": (_STATUS, _ADDRESS, _HANDLE, _ADDRESS, _SIZE, _ADDRESS, _HANDLE),
    "cuGraphInstantiateWithFlags": (_STATUS, _ADDRESS, _HANDLE, ctypes.c_uint64),
    "cuGraphExecKernelNodeSetParams_v2": (_STATUS, _HANDLE, _HANDLE, _ADDRESS),
    "cuGraphExecMemcpyNodeSetParams": (_STATUS, _HANDLE, _HANDLE, _ADDRESS, _HANDLE),
    "cuGraphLaunch": (_STATUS, _HANDLE, _HANDLE),
    "cuGraphExecDestroy": (_STATUS, _HANDLE),
    "cuGraphDestroy": (_STATUS, _HANDLE),
    "cuFuncGetAttribute": (_STATUS, _ADDRESS, _INT, _HANDLE),
    "cuFuncSetAttribute": (_STATUS, _HANDLE, _INT, _INT),
    "cuLaunchKernel": (_STATUS, _HANDLE, *[_UINT] * 7, _HANDLE, _ADDRESS, _ADDRESS),
}

# Statuses, by their names in cuda.h.
OUT_OF_MEMORY, NOT_READY = 2, 600
STUB_LIBRARY, DEVICE_UNAVAILABLE, NO_DEVICE = 34, 46, 100
INVALID_IMAGE, NO_BINARY_FOR_GPU, INVALID_PTX = 200, 209, 218
JIT_COMPILER_NOT_FOUND, UNSUPPORTED_PTX_VERSION, JIT_COMPILATION_DISABLED, NOT_FOUND = 221, 222, 223, 500
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


class CudaLibrary(Library):
    """The functions of CUDA's driver."""

    driver, oldest, install = "CUDA", "12.0", _INSTALL
    functions, lacking = FUNCTIONS, _LACKING
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

    def number(self, name: str, *arguments: Any, of: Any = _INT) -> int:
        """What a function stores at its first argument. Raises as `failure`."""
        place = of()
        self.call(name, ctypes.byref(place), *arguments)
        return place.value or 0

    def _text(self, function: str, status: int) -> str:
        place = _TEXT()
        self.status(function, status, ctypes.byref(place))
        return (place.value or b"").decode(errors="replace")


def dotted(version: int) -> str:
    """A version of CUDA as people write it: 12040 is 12.4."""
    return f"{version // 1000}.{version % 1000 // 10}"


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
