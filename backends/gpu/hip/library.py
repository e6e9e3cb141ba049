"""AMD's driver as HIP has it: where it is found, its functions, and what its status numbers mean."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from stablehlo_py.backends.gpu.driver.library import SMALLER
from stablehlo_py.backends.gpu.driver.stream_library import (
    ADDRESS,
    HANDLE,
    INT,
    OUT_OF_MEMORY,
    POINTER,
    SIGNATURES,
    SIZE,
    STATUS,
    TEXT,
    StreamLibrary,
    named,
)
from stablehlo_py.errors import InternalError, ShloError

VARIABLE = "SHLO_HIP_LIBRARY"

_NAMES = named(
    "hip",
    DeviceGetCount="hipGetDeviceCount",
    Synchronize="hipDeviceSynchronize",
    StreamCreate="hipStreamCreateWithFlags",
    EventCreate="hipEventCreateWithFlags",
    MemAlloc="hipMalloc",
    MemFree="hipFree",
    MemAllocFromPoolAsync="hipMallocFromPoolAsync",
    MemFreeAsync="hipFreeAsync",
    LaunchKernel="hipModuleLaunchKernel",
    GraphInstantiate="hipGraphInstantiateWithFlags",
)
# What is used of hip/hip_runtime_api.h, with the names that its macros stand for.
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    **{_NAMES[name]: signature for name, signature in SIGNATURES.items()},
    "hipMemcpyAsync": (STATUS, POINTER, POINTER, SIZE, INT, HANDLE),
    "hipMemcpyPeerAsync": (STATUS, POINTER, INT, POINTER, INT, SIZE, HANDLE),
    "hipGetErrorName": (TEXT, STATUS),
    "hipGetErrorString": (TEXT, STATUS),
    "hipRuntimeGetVersion": (STATUS, ADDRESS),
    "hipGetDevicePropertiesR0600": (STATUS, ADDRESS, INT),
    "hipGetDevice": (STATUS, ADDRESS),
    "hipSetDevice": (STATUS, INT),
    "hipModuleLoadData": (STATUS, ADDRESS, ADDRESS),
    "hipGraphAddMemcpyNode1D": (STATUS, ADDRESS, HANDLE, ADDRESS, SIZE, POINTER, POINTER, SIZE, INT),
    "hipGraphExecMemcpyNodeSetParams1D": (STATUS, HANDLE, HANDLE, POINTER, POINTER, SIZE, INT),
}

DEVICE_TO_DEVICE = 3  # hipMemcpyDeviceToDevice

# Statuses, by their names in hip_runtime_api.h.
INVALID_IMAGE, NO_BINARY_FOR_GPU, INVALID_KERNEL_FILE = 200, 209, 218
# A kernel has done what it must not: IllegalAddress, Assert, LaunchFailure.
_FAULTS = (700, 710, 719)
# ECCNotCorrectable; LaunchTimeOut; ContextIsDestroyed; Unknown, RuntimeOther
_HARDWARE, _TIMEOUT, _DESTROYED, _UNKNOWN = 214, 702, 709, (999, 1053)
_AGAIN = "call again; where that fails too, start the process anew"
_UPDATE = "update AMD's driver and ROCm"
_LOOK = "look at rocminfo, at HIP_VISIBLE_DEVICES, and whether you may open /dev/kfd and /dev/dri (group render)"
_LACKING = {
    OUT_OF_MEMORY: SMALLER,
    3: _LOOK,  # NotInitialized
    35: _UPDATE,  # InsufficientDriver
    100: _LOOK,  # NoDevice
    101: _LOOK,  # InvalidDevice
    303: _UPDATE,  # SharedObjectInitFailed
    801: _UPDATE,  # NotSupported
    1052: SMALLER,  # RuntimeMemory
    _HARDWARE: "the hardware has failed: rocm-smi says more; restart the process",
    _TIMEOUT: "a kernel has taken longer than the driver waits: use a smaller batch",
    **dict.fromkeys((_DESTROYED, *_UNKNOWN), _AGAIN),
}


class HipLibrary(StreamLibrary):
    """The functions of HIP."""

    driver, oldest = "HIP", "6.0"
    install = f"install AMD's driver and ROCm; {VARIABLE} names another library"
    names, functions, lacking = _NAMES, FUNCTIONS, _LACKING
    lost = frozenset((*_FAULTS, _HARDWARE, _TIMEOUT, _DESTROYED, *_UNKNOWN))
    copy_kinds = (4,)  # hipMemcpyDefault
    launch_end = 3  # HIP_LAUNCH_PARAM_END
    change_copy = "hipGraphExecMemcpyNodeSetParams1D"
    dlpack_type, default_stream, refused_streams = 10, 0, (1, 2)  # kDLROCM

    def begin(self) -> None:
        """Raises ResourceError: there is no device."""
        self.call("hipInit", 0)
        self.number("DeviceGetCount")

    def status_text(self, status: int) -> str:
        """Its name and number, and what the driver says of it."""
        name, text = (self.status(function, status) or b"" for function in ("hipGetErrorName", "hipGetErrorString"))
        return f"{name.decode(errors='replace')} ({status}): {text.decode(errors='replace')}"

    def failure(self, status: int, what: str) -> ShloError:
        """As `Library.failure`; a fault of a kernel is ours."""
        error = super().failure(status, what)
        if status not in _FAULTS:
            return error
        remedy = "report it with the model; AMD_SERIALIZE_KERNEL=3 in the environment tells which kernel it is"
        return InternalError(f"{error.reason}; what was on the device is gone", remedy=remedy)


def candidates() -> list[str]:
    """Libraries to try: the one that the environment names, else the system's, and that of ROCm's own folder."""
    named_one = os.environ.get(VARIABLE)
    folder = os.path.join(os.environ.get("ROCM_PATH", "/opt/rocm"), "lib")
    library = "libamdhip64.so"
    return [named_one] if named_one else [f"{library}.7", f"{library}.6", os.path.join(folder, library)]


@cache
def library() -> HipLibrary:
    """The library of this process.

    Raises:
        ResourceError: there is none, or it has no device.
    """
    return HipLibrary.first(candidates())
