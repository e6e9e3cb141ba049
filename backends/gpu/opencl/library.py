"""The OpenCL library of this machine: where it is found, its functions, and what its status numbers mean."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from stablehlo_py.backends.gpu.driver.library import SMALLER, Library
from stablehlo_py.errors import ResourceError
from stablehlo_py.runtime.memory import address_of

VARIABLE = "SHLO_OPENCL_LIBRARY"

_STATUS = _INT = ctypes.c_int32
_UINT, _BITS, _SIZE = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t
_HANDLE = _ADDRESS = ctypes.c_void_p
_WAITING = (_UINT, _ADDRESS, _ADDRESS)  # events to wait for: how many, which; where the event of the command goes
_QUERY = (_UINT, _SIZE, _ADDRESS, _ADDRESS)  # what is asked, room for the answer, where it goes, where its size goes

# What is used of OpenCL 3.0, sections 4 and 5: what a function returns, and its parameters. The last one of a function
# that makes something is where the status goes.
FUNCTIONS: Mapping[str, tuple[Any, ...]] = {
    "clGetPlatformIDs": (_STATUS, _UINT, _ADDRESS, _ADDRESS),
    "clGetDeviceIDs": (_STATUS, _HANDLE, _BITS, _UINT, _ADDRESS, _ADDRESS),
    "clGetDeviceInfo": (_STATUS, _HANDLE, *_QUERY),
    "clCreateContext": (_HANDLE, _ADDRESS, _UINT, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS),
    "clReleaseContext": (_STATUS, _HANDLE),
    "clCreateCommandQueueWithProperties": (_HANDLE, _HANDLE, _HANDLE, _ADDRESS, _ADDRESS),
    "clReleaseCommandQueue": (_STATUS, _HANDLE),
    "clFlush": (_STATUS, _HANDLE),
    "clFinish": (_STATUS, _HANDLE),
    "clCreateProgramWithIL": (_HANDLE, _HANDLE, _ADDRESS, _SIZE, _ADDRESS),
    "clBuildProgram": (_STATUS, _HANDLE, _UINT, _ADDRESS, ctypes.c_char_p, _ADDRESS, _ADDRESS),
    "clGetProgramBuildInfo": (_STATUS, _HANDLE, _HANDLE, *_QUERY),
    "clReleaseProgram": (_STATUS, _HANDLE),
    "clCreateKernel": (_HANDLE, _HANDLE, ctypes.c_char_p, _ADDRESS),
    "clReleaseKernel": (_STATUS, _HANDLE),
    "clSetKernelArg": (_STATUS, _HANDLE, _UINT, _SIZE, _ADDRESS),
    "clSetKernelArgSVMPointer": (_STATUS, _HANDLE, _UINT, _ADDRESS),
    "clSetKernelExecInfo": (_STATUS, _HANDLE, _UINT, _SIZE, _ADDRESS),
    "clEnqueueNDRangeKernel": (_STATUS, _HANDLE, _HANDLE, _UINT, _ADDRESS, _ADDRESS, _ADDRESS, *_WAITING),
    "clSVMAlloc": (_ADDRESS, _HANDLE, _BITS, _SIZE, _UINT),
    "clSVMFree": (None, _HANDLE, _ADDRESS),
    "clEnqueueSVMFree": (_STATUS, _HANDLE, _UINT, _ADDRESS, _ADDRESS, _ADDRESS, *_WAITING),
    "clEnqueueSVMMemcpy": (_STATUS, _HANDLE, _UINT, _ADDRESS, _ADDRESS, _SIZE, *_WAITING),
    "clEnqueueSVMMemFill": (_STATUS, _HANDLE, _ADDRESS, _ADDRESS, _SIZE, _SIZE, *_WAITING),
    "clEnqueueMarkerWithWaitList": (_STATUS, _HANDLE, *_WAITING),
    "clWaitForEvents": (_STATUS, _UINT, _ADDRESS),
    "clGetEventInfo": (_STATUS, _HANDLE, *_QUERY),
    "clRetainEvent": (_STATUS, _HANDLE),
    "clReleaseEvent": (_STATUS, _HANDLE),
}

# The names of statuses, from -1 and from -30 downwards.
_ERRORS = (
    "DEVICE_NOT_FOUND DEVICE_NOT_AVAILABLE COMPILER_NOT_AVAILABLE MEM_OBJECT_ALLOCATION_FAILURE OUT_OF_RESOURCES "
    "OUT_OF_HOST_MEMORY PROFILING_INFO_NOT_AVAILABLE MEM_COPY_OVERLAP IMAGE_FORMAT_MISMATCH IMAGE_FORMAT_NOT_SUPPORTED "
    "BUILD_PROGRAM_FAILURE MAP_FAILURE MISALIGNED_SUB_BUFFER_OFFSET EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST "
    "COMPILE_PROGRAM_FAILURE LINKER_NOT_AVAILABLE LINK_PROGRAM_FAILURE DEVICE_PARTITION_FAILED "
    "KERNEL_ARG_INFO_NOT_AVAILABLE"
)
_INVALID = (
    "VALUE DEVICE_TYPE PLATFORM DEVICE CONTEXT QUEUE_PROPERTIES COMMAND_QUEUE HOST_PTR MEM_OBJECT "
    "IMAGE_FORMAT_DESCRIPTOR IMAGE_SIZE SAMPLER BINARY BUILD_OPTIONS PROGRAM PROGRAM_EXECUTABLE KERNEL_NAME "
    "KERNEL_DEFINITION KERNEL ARG_INDEX ARG_VALUE ARG_SIZE KERNEL_ARGS WORK_DIMENSION WORK_GROUP_SIZE WORK_ITEM_SIZE "
    "GLOBAL_OFFSET EVENT_WAIT_LIST EVENT OPERATION GL_OBJECT BUFFER_SIZE MIP_LEVEL GLOBAL_WORK_SIZE PROPERTY "
    "IMAGE_DESCRIPTOR COMPILER_OPTIONS LINKER_OPTIONS DEVICE_PARTITION_COUNT PIPE_SIZE DEVICE_QUEUE SPEC_ID"
)
STATUS_NAMES = {
    0: "CL_SUCCESS",
    **{-1 - place: f"CL_{name}" for place, name in enumerate(_ERRORS.split())},
    **{-30 - place: f"CL_INVALID_{name}" for place, name in enumerate(_INVALID.split())},
    -72: "CL_MAX_SIZE_RESTRICTION_EXCEEDED",
    -1001: "CL_PLATFORM_NOT_FOUND_KHR",
}
_NUMBERS = {name: number for number, name in STATUS_NAMES.items()}
DEVICE_NOT_FOUND, DEVICE_NOT_AVAILABLE = _NUMBERS["CL_DEVICE_NOT_FOUND"], _NUMBERS["CL_DEVICE_NOT_AVAILABLE"]
BUILD_PROGRAM_FAILURE, INVALID_VALUE = _NUMBERS["CL_BUILD_PROGRAM_FAILURE"], _NUMBERS["CL_INVALID_VALUE"]
INVALID_KERNEL_NAME, NO_PLATFORM = _NUMBERS["CL_INVALID_KERNEL_NAME"], _NUMBERS["CL_PLATFORM_NOT_FOUND_KHR"]
# What the machine lacks, and what the user may do about it.
_LACKING = {
    **dict.fromkeys(
        [
            _NUMBERS[f"CL_{name}"]
            for name in ("MEM_OBJECT_ALLOCATION_FAILURE", "OUT_OF_RESOURCES", "OUT_OF_HOST_MEMORY")
        ],
        SMALLER,
    ),
    DEVICE_NOT_AVAILABLE: "the device was reset, removed or taken: call again when it is there",
    _NUMBERS["CL_COMPILER_NOT_AVAILABLE"]: "install the whole driver: its compiler is missing",
    _NUMBERS["CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"]: "the device may be out of memory, or was reset",
}
ALL_KINDS = 0xFFFFFFFF  # CL_DEVICE_TYPE_ALL


class OpenClLibrary(Library):
    """The functions of one library of OpenCL."""

    driver, oldest = "OpenCL", "2.1"
    install = f"install an OpenCL driver, or intel-opencl-rt and intel-cmplr-lib-rt; {VARIABLE} names another library"
    functions, lacking, lost = FUNCTIONS, _LACKING, frozenset({DEVICE_NOT_AVAILABLE})

    def begin(self) -> None:
        """Raises ResourceError: there is no platform."""
        self.platforms()

    def status_text(self, status: int) -> str:
        """Its name and number."""
        return f"{STATUS_NAMES.get(status, 'an unknown status')} ({status})"

    def make(self, name: str, *arguments: Any) -> int:
        """Call a function that makes something; its handle. Raises as `failure`."""
        status = _STATUS()
        handle = self.status(name, *arguments, ctypes.byref(status))
        if status.value or not handle:
            raise self.failure(status.value, name)
        return handle

    def ask(self, name: str, *arguments: Any, optional: bool = False) -> bytes:
        """The answer to a query; none to an optional one that the driver does not know. Raises as `failure`."""
        size = _SIZE()
        status = self.status(name, *arguments, 0, None, ctypes.byref(size))
        if status == INVALID_VALUE and optional:
            return b""
        if status:
            raise self.failure(status, name)
        answer = np.empty(size.value, np.uint8)
        self.call(name, *arguments, size, address_of(answer), None)
        return answer.tobytes()

    def platforms(self) -> list[int]:
        """Handles of the drivers. Raises ResourceError: there are none."""
        found = self._listed("clGetPlatformIDs", nothing=NO_PLATFORM)
        if not found:
            raise ResourceError(f"{self.path} finds no platform of OpenCL", remedy=self.install)
        return found

    def devices(self, platform: int) -> list[int]:
        """Handles of a driver's devices."""
        return self._listed("clGetDeviceIDs", platform, ALL_KINDS, nothing=DEVICE_NOT_FOUND)

    def _listed(self, name: str, *arguments: Any, nothing: int) -> list[int]:
        """What a function lists that says `nothing` where there is nothing."""
        count = _UINT()
        status = self.status(name, *arguments, 0, None, ctypes.byref(count))
        if status == nothing or not (status or count.value):
            return []
        if status:
            raise self.failure(status, name)
        handles = np.zeros(count.value, np.uintp)
        self.call(name, *arguments, count, address_of(handles), None)
        return handles.tolist()


def candidates() -> list[str]:
    """Libraries to try: the one that the environment names; else the system's loader, and the runtime for processors
    that comes as a Python package."""
    named = os.environ.get(VARIABLE)
    return [named] if named else ["libOpenCL.so.1", os.path.join(sys.prefix, "lib", "libintelocl.so")]


@cache
def library() -> OpenClLibrary:
    """The library of this process: the first that has a platform.

    Raises:
        ResourceError: there is none.
    """
    return OpenClLibrary.first(candidates())
