"""Devices: which there are, and one with its queue, its memory and the programs that are built for it."""

from __future__ import annotations

import ctypes
import re
import threading

from stablehlo_py import forks
from stablehlo_py.backends.gpu.opencl.description import DeviceDescription, describe
from stablehlo_py.backends.gpu.opencl.library import (
    BUILD_PROGRAM_FAILURE,
    INVALID_KERNEL_NAME,
    INVALID_VALUE,
    Library,
    library,
)
from stablehlo_py.backends.gpu.opencl.memory import OpenClMemory
from stablehlo_py.backends.gpu.opencl.queue import Queue
from stablehlo_py.errors import LoadError, ResourceError, elided

_BUILD_LOG = 0x1183  # CL_PROGRAM_BUILD_LOG
_FAULT = re.compile("error|exception|fail|undefined|unresolved|not found", re.IGNORECASE)  # what a log is read for
_KINDS = ("gpu", "accelerator", "cpu")  # the order of devices


def devices(opencl: Library | None = None) -> list[DeviceDescription]:
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

    def __init__(self, number: int = 0, opencl: Library | None = None) -> None:
        opencl = opencl or library()
        found = devices(opencl)
        if not 0 <= number < len(found):
            names = [f"opencl:{place} {each.name}" for place, each in enumerate(found)]
            raise ResourceError(
                f"there is no device opencl:{number}: {opencl.path} finds {elided(names) or 'none'}",
                remedy="choose one of them" if found else "install the driver of a device",
            )
        self.description = found[number]
        self.description.require()
        self.queue = Queue(opencl, self.description.handle, f"opencl:{number}")
        self.memory = OpenClMemory(self.queue, self.description)

    def build(self, binary: bytes, options: str = "") -> Built:
        """Machine code of a module in SPIR-V.

        Args:
            binary: the module.
            options: of clBuildProgram.

        Raises:
            LoadError: the device cannot run the module; the message has what its driver's log says of faults.
            ResourceError: the device lacks memory, or is lost.
        """
        queue, device = self.queue, ctypes.c_void_p(self.description.handle)
        refusals = {INVALID_VALUE: f"the program is no SPIR-V that {self.description.name} takes"}
        program = queue.make("clCreateProgramWithIL", queue.context, binary, len(binary), refusals=refusals)
        built = Built(queue, program)
        status = queue.opencl.status(
            "clBuildProgram", built.program, 1, ctypes.byref(device), options.encode(), None, None
        )
        if status == BUILD_PROGRAM_FAILURE:
            log = queue.opencl.ask("clGetProgramBuildInfo", built.program, device, _BUILD_LOG)
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

    def __init__(self, queue: Queue, program: int) -> None:
        self.program = program
        self._queue = queue
        self._kernels: dict[str, int] = {}
        self._lock = threading.Lock()

    def __del__(self) -> None:
        for kernel in self._kernels.values():
            self._queue.opencl.release("clReleaseKernel", kernel)
        self._queue.opencl.release("clReleaseProgram", self.program)

    def kernel(self, name: str) -> int:
        """The handle of a kernel, the same for all who ask. Its arguments are those of whoever sets them last: one
        thread at a time sets them and enqueues it.

        Raises:
            LoadError: the program has no such kernel.
            ResourceError: the device lacks memory, or is lost.
        """
        self._queue.opencl.require()
        refusals = {INVALID_KERNEL_NAME: f"the program has no kernel '{name}'"}
        with self._lock:
            if name not in self._kernels:
                made = self._queue.make("clCreateKernel", self.program, name.encode(), refusals=refusals)
                self._kernels[name] = made
            return self._kernels[name]


_devices: dict[int, Device] = {}
_lock = forks.Lock()


def device(number: int = 0) -> Device:
    """A device of this process: the same for all, a new one after it was lost.

    Raises:
        ResourceError: there is no such device, it cannot be had, or this process was forked from one that used it.
        UnsupportedError: programs cannot run on it.
    """
    opencl = library()
    opencl.require()
    with _lock:
        made = _devices.get(number)
        if made is None or made.queue.is_lost:
            made = _devices[number] = Device(number, opencl)
        return made
