"""Devices: which there are, and one with its queue, its memory and the programs that are built for it."""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Sequence

from stablehlo_py.backends.gpu.driver.device import Opened, no_device
from stablehlo_py.backends.gpu.opencl.description import DeviceDescription, describe
from stablehlo_py.backends.gpu.opencl.library import (
    BUILD_PROGRAM_FAILURE,
    INVALID_KERNEL_NAME,
    INVALID_VALUE,
    OpenClLibrary,
    library,
)
from stablehlo_py.backends.gpu.opencl.memory import OpenClMemory
from stablehlo_py.backends.gpu.opencl.queue import OpenClQueue
from stablehlo_py.errors import LoadError

_EXTENSION = "cl_"  # how the names of extensions begin
# Divisions and square roots are right to the last bit, as on CPUs.
_BUILD_OPTIONS = b"-cl-fp32-correctly-rounded-divide-sqrt"
_BUILD_LOG = 0x1183  # CL_PROGRAM_BUILD_LOG
_FAULT = re.compile("error|exception|fail|undefined|unresolved|not found", re.IGNORECASE)  # what a log is read for
_KINDS = ("gpu", "accelerator", "cpu")  # the order of devices


def devices(opencl: OpenClLibrary | None = None) -> list[DeviceDescription]:
    """All devices of a library (None: of this process), GPUs first. Their places are their numbers.

    Raises:
        ResourceError: there is no library, or no platform.
    """
    opencl = opencl or library()
    found = [describe(opencl, handle) for platform in opencl.platforms() for handle in opencl.devices(platform)]
    return sorted(found, key=lambda each: _KINDS.index(each.kind))


class Device:
    """A device of a library (None: of this process), ready for work. Its context lives as long as what was made of it.

    Attributes:
        description: what it is like.
        queue: what it is asked for; memory: where arrays are.

    Raises:
        ResourceError: there is no such device, or it cannot be had.
        UnsupportedError: programs cannot run on it.
    """

    def __init__(self, number: int = 0, opencl: OpenClLibrary | None = None) -> None:
        opencl = opencl or library()
        found = devices(opencl)
        if not 0 <= number < len(found):
            raise no_device(number, "opencl", [each.name for each in found], opencl)
        self.description = found[number]
        self.description.require()
        self.queue = OpenClQueue(opencl, self.description.handle, f"opencl:{number}")
        self.memory = OpenClMemory(self.queue, self.description)

    def require(self, features: Sequence[str]) -> list[str]:
        """Those of a program's features that are no extensions of OpenCL. Raises LoadError: the device lacks one."""
        extensions = [name for name in features if name.startswith(_EXTENSION)]
        self.description.require_extensions(extensions)
        return [name for name in features if name not in extensions]

    def build(self, binary: bytes, *, optimized: bool = True) -> Built:
        """Machine code of a module in SPIR-V; unless `optimized`, sooner.

        Raises:
            LoadError: the device cannot run the module; the message has what its driver's log says of faults.
            ResourceError: the device lacks memory, or is lost.
        """
        queue, device = self.queue, ctypes.c_void_p(self.description.handle)
        refusals = {INVALID_VALUE: f"the program is no SPIR-V that {self.description.name} takes"}
        program = queue.make("clCreateProgramWithIL", queue.context, binary, len(binary), refusals=refusals)
        built = Built(queue, program)
        options = _BUILD_OPTIONS if optimized else _BUILD_OPTIONS + b" -cl-opt-disable"
        status = queue.library.status("clBuildProgram", built.program, 1, ctypes.byref(device), options, None, None)
        if status == BUILD_PROGRAM_FAILURE:
            log = queue.library.ask("clGetProgramBuildInfo", built.program, device, _BUILD_LOG)
            lines = log.partition(b"\0")[0].decode(errors="replace").strip().splitlines()
            said = "\n".join([line for line in lines if _FAULT.search(line)] or lines)
            raise LoadError(
                f"{self.description.name} does not build the program: {said or 'its driver does not say why'}",
                remedy="update the driver, or choose another device",
            )
        queue.check(status, "clBuildProgram")
        return built


class Built:
    """A program that a device has built. It owns its handles.

    Attributes:
        program: the handle.
    """

    def __init__(self, queue: OpenClQueue, program: int) -> None:
        self.program = program
        self._queue = queue
        self._kernels: dict[str, int] = {}
        self._lock = threading.Lock()

    def __del__(self) -> None:
        for kernel in self._kernels.values():
            self._queue.library.release("clReleaseKernel", kernel)
        self._queue.library.release("clReleaseProgram", self.program)

    def kernel(self, name: str) -> int:
        """The handle of a kernel, the same for all who ask. Its arguments are those of whoever sets them last: one
        thread at a time sets them and enqueues it.

        Raises:
            LoadError: the program has no such kernel.
            ResourceError: the device lacks memory, or is lost.
        """
        self._queue.library.require()
        refusals = {INVALID_KERNEL_NAME: f"the program has no kernel '{name}'"}
        with self._lock:
            if name not in self._kernels:
                made = self._queue.make("clCreateKernel", self.program, name.encode(), refusals=refusals)
                self._kernels[name] = made
            return self._kernels[name]


_devices: Opened[Device] = Opened()


def device(number: int = 0) -> Device:
    """A device of this process: the same for all, a new one after it was lost.

    Raises:
        ResourceError: there is no such device, it cannot be had, or this process was forked from one that used it.
        UnsupportedError: programs cannot run on it.
    """
    opencl = library()
    opencl.require()
    return _devices.get(number, lambda: Device(number, opencl))
