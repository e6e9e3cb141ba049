"""Devices of HIP: which there are, and one with its stream, its memory and the programs that are loaded for it."""

from __future__ import annotations

import array
import ctypes
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stablehlo_py.backends.gpu.capability import needs, require_processor
from stablehlo_py.backends.gpu.driver.device import Device, Opened
from stablehlo_py.backends.gpu.driver.stream import Module
from stablehlo_py.backends.gpu.driver.stream_memory import StreamMemory
from stablehlo_py.backends.gpu.driver.structure import Block
from stablehlo_py.backends.gpu.hip.description import DeviceDescription, describe
from stablehlo_py.backends.gpu.hip.graph import HipGraph
from stablehlo_py.backends.gpu.hip.library import (
    INVALID_IMAGE,
    INVALID_KERNEL_FILE,
    NO_BINARY_FOR_GPU,
    HipLibrary,
    library,
)
from stablehlo_py.backends.gpu.hip.stream import HipStream
from stablehlo_py.errors import LoadError

if TYPE_CHECKING:
    from stablehlo_py.backends.gpu.hip.asking import HipAsking

_SERIALIZE = "AMD_SERIALIZE_KERNEL"


class HipDevice(Device[HipLibrary, DeviceDescription]):
    """A GPU of AMD, in the driver's order, which HIP_VISIBLE_DEVICES sets."""

    kind = "rocm"
    queue: HipStream
    memory: StreamMemory
    library = staticmethod(library)

    @staticmethod
    def descriptions(library: HipLibrary) -> list[DeviceDescription]:
        """As `Device.descriptions`."""
        return [describe(library, number) for number in range(library.number("DeviceGetCount"))]

    def _open(self, library: HipLibrary) -> None:
        found = self.description
        self.queue = HipStream(library, found.handle, self.name)
        self.memory = StreamMemory(self.queue, found.handle, found.global_bytes, found.has_pools)

    def asking(self) -> HipAsking:
        """As `Device.asking`."""
        from stablehlo_py.backends.gpu.hip.asking import HipAsking

        return HipAsking(self.queue)

    def require(self, features: Sequence[str]) -> list[str]:
        """Those of a program's features that are not a GPU's. Raises LoadError: it is for another GPU."""
        require_processor(features, self.description.processor, self.description.name)
        mine = needs(features)
        return [name for name in features if name not in mine]

    def build(self, binary: bytes) -> Module:
        """A code object.

        Raises:
            LoadError: the driver does not take it.
            ResourceError: the device lacks memory, or is lost.
        """
        stream, module = self.queue, ctypes.c_void_p()
        image = ctypes.create_string_buffer(binary)  # the driver reads it for as long as the module is loaded
        status = stream.status("hipModuleLoadData", ctypes.byref(module), image)
        if status in (INVALID_IMAGE, NO_BINARY_FOR_GPU, INVALID_KERNEL_FILE):
            name = f"{self.description.name} ({self.description.architecture})"
            raise LoadError(
                f"the program is no code that the driver takes for {name}: {stream.library.status_text(status)}",
                remedy="update ROCm, or compile the model again, for this device",
            )
        stream.check(status, "hipModuleLoadData")
        return Module(stream, module.value or 0, image)

    def graph(self, steps: array.array[int], kernels: Sequence[int], block: Block) -> HipGraph | None:
        """As `Device.graph`; none where the driver is told to say which kernel fails, which it does for launches."""
        is_told = os.environ.get(_SERIALIZE, "0") != "0"
        return None if is_told else HipGraph(self.queue, steps, kernels, block)


DEVICES = Opened(HipDevice)
