"""Devices: which there are, and one with its queue, its memory and the programs that are built for it."""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stablehlo_py.backends.gpu.driver.device import Device, Opened
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

if TYPE_CHECKING:
    from stablehlo_py.backends.gpu.opencl.asking import OpenClAsking

_EXTENSION = "cl_"  # how the names of extensions begin
# Divisions and square roots are right to the last bit, as on CPUs.
_BUILD_OPTIONS = b"-cl-fp32-correctly-rounded-divide-sqrt"
_BUILD_LOG = 0x1183  # CL_PROGRAM_BUILD_LOG
_FAULT = re.compile("error|exception|fail|undefined|unresolved|not found", re.IGNORECASE)  # what a log is read for
_KINDS = ("gpu", "accelerator", "cpu")  # the order of devices


class OpenClDevice(Device[OpenClLibrary, DeviceDescription]):
    """A device of OpenCL, of all platforms, GPUs first. Its context lives as long as what was made of it."""

    kind = "opencl"
    queue: OpenClQueue
    memory: OpenClMemory
    library = staticmethod(library)

    @staticmethod
    def descriptions(library: OpenClLibrary) -> list[DeviceDescription]:
        """As `Device.descriptions`. Raises ResourceError: there is no platform."""
        found = [describe(library, handle) for platform in library.platforms() for handle in library.devices(platform)]
        return sorted(found, key=lambda each: _KINDS.index(each.kind))

    def _open(self, library: OpenClLibrary) -> None:
        self.queue = OpenClQueue(library, self.description.handle, self.name)
        self.memory = OpenClMemory(self.queue, self.description)

    def asking(self) -> OpenClAsking:
        """As `Device.asking`."""
        from stablehlo_py.backends.gpu.opencl.asking import OpenClAsking

        return OpenClAsking(self.queue)

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


DEVICES = Opened(OpenClDevice)
