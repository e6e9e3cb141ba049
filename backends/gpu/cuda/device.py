"""Devices of CUDA: which there are, and one with its stream, its memory and the programs that are loaded for it."""

from __future__ import annotations

import array
import ctypes
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stablehlo_py.backends.gpu.capability import needs, require_capability
from stablehlo_py.backends.gpu.cuda import conditions
from stablehlo_py.backends.gpu.cuda.description import DeviceDescription, describe
from stablehlo_py.backends.gpu.cuda.graph import CudaGraph
from stablehlo_py.backends.gpu.cuda.library import (
    INVALID_IMAGE,
    INVALID_PTX,
    JIT_COMPILATION_DISABLED,
    NO_BINARY_FOR_GPU,
    UNSUPPORTED_PTX_VERSION,
    CudaLibrary,
    library,
)
from stablehlo_py.backends.gpu.cuda.stream import CudaStream
from stablehlo_py.backends.gpu.driver.device import Device, Opened
from stablehlo_py.backends.gpu.driver.stream import Module
from stablehlo_py.backends.gpu.driver.stream_library import dotted
from stablehlo_py.backends.gpu.driver.stream_memory import StreamMemory
from stablehlo_py.backends.gpu.driver.structure import Block
from stablehlo_py.errors import LoadError

if TYPE_CHECKING:
    from stablehlo_py.backends.gpu.cuda.asking import CudaAsking

_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6  # CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
_LOG_BYTES = 16 << 10
_SHARED_BYTES, _DYNAMIC_SHARED_BYTES = 1, 8  # CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, _MAX_DYNAMIC_SHARED_SIZE_BYTES
_BLOCKING = "CUDA_LAUNCH_BLOCKING"


class CudaDevice(Device[CudaLibrary, DeviceDescription]):
    """A device of CUDA, in the driver's order, which CUDA_VISIBLE_DEVICES sets. Its context lives as long as what was
    made of it."""

    kind = "cuda"
    queue: CudaStream
    memory: StreamMemory
    library = staticmethod(library)
    _setter: Built | None = None  # the module of the kernel that sets conditions

    @staticmethod
    def descriptions(library: CudaLibrary) -> list[DeviceDescription]:
        """As `Device.descriptions`."""
        return [describe(library, number) for number in range(library.number("cuDeviceGetCount"))]

    def _open(self, library: CudaLibrary) -> None:
        found = self.description
        self.queue = CudaStream(library, found.handle, self.name)
        self.memory = StreamMemory(self.queue, found.handle, found.global_bytes, found.has_pools)

    def asking(self) -> CudaAsking:
        """As `Device.asking`."""
        from stablehlo_py.backends.gpu.cuda.asking import CudaAsking

        return CudaAsking(self.queue)

    def require(self, features: Sequence[str]) -> list[str]:
        """Those of a program's features that are not a GPU's. Raises LoadError: it is for another GPU."""
        require_capability(features, self.description.capability, self.description.name)
        mine = needs(features)
        return [name for name in features if name not in mine]

    def build(self, binary: bytes) -> Built:
        """A module of machine code (a cubin) or of PTX, which the driver compiles.

        Raises:
            LoadError: the driver does not take the module; the message has what its compiler says.
            ResourceError: the device lacks memory, or is lost.
        """
        stream, name = self.queue, f"{self.description.name} ({self.description.architecture})"
        log = ctypes.create_string_buffer(_LOG_BYTES)
        options = (ctypes.c_int32 * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        module = ctypes.c_void_p()
        # PTX is text that ends with 0.
        image = ctypes.create_string_buffer(binary)
        status = stream.status("cuModuleLoadDataEx", ctypes.byref(module), image, len(options), options, values)
        version = dotted(self.description.driver_version)
        reasons = {
            INVALID_IMAGE: f"the program is no code that the driver takes for {name}",
            NO_BINARY_FOR_GPU: f"the program has no machine code for {name}",
            INVALID_PTX: f"the driver does not compile the program for {name}",
            UNSUPPORTED_PTX_VERSION: f"the driver, for CUDA {version}, is too old for the PTX of the program",
            JIT_COMPILATION_DISABLED: "the driver is told not to compile PTX (CUDA_DISABLE_PTX_JIT)",
        }
        if status in reasons:
            said = log.value.decode(errors="replace").strip()
            raise LoadError(
                f"{reasons[status]}: {said or stream.library.status_text(status)}",
                remedy="update NVIDIA's driver, or compile the model again, for this device",
            )
        stream.check(status, "cuModuleLoadDataEx")
        return Built(stream, module.value or 0, self.description.shared_opt_in_bytes)

    def graph(self, steps: array.array[int], kernels: Sequence[int], block: Block) -> CudaGraph | None:
        """As `Device.graph`; none where the driver is told to say which kernel fails, which it does for launches, where
        it has no conditions, and where a loop would be ended as it takes long."""
        conditionals = block.conditionals
        if os.environ.get(_BLOCKING) == "1" or (conditionals and not self._has_conditions):
            return None
        if any(each.is_loop for each in conditionals) and self.description.has_timeout:
            return None
        if conditionals and self._setter is None:
            self._setter = self.build(conditions.PTX.encode())
        return CudaGraph(self.queue, steps, kernels, block, self.memory, self._setter if conditionals else None)

    @property
    def _has_conditions(self) -> bool:
        has = self.queue.library.has
        return self.description.driver_version >= conditions.NEEDED_VERSION and all(map(has, conditions.FUNCTIONS))


class Built(Module):
    """A module that a device has loaded. It owns its handle."""

    def __init__(self, stream: CudaStream, module: int, shared_bytes: int) -> None:
        super().__init__(stream, module)
        self._shared_bytes = shared_bytes

    def kernel(self, name: str) -> int:
        """As `Module.kernel`: it may have as much dynamic shared memory as the device has beside its own."""
        stream, kernel = self._stream, super().kernel(name)
        own = stream.made("cuFuncGetAttribute", _SHARED_BYTES, kernel, of=ctypes.c_int32)
        stream.call("cuFuncSetAttribute", kernel, _DYNAMIC_SHARED_BYTES, max(0, self._shared_bytes - own))
        return kernel


DEVICES = Opened(CudaDevice)
