"""What a device is like, as HIP says."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

from stablehlo_py.backends.gpu.driver.stream_library import dotted
from stablehlo_py.backends.gpu.hip.library import HipLibrary
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.options import GPUS

# hipDeviceAttribute_t of hip_runtime_api.h, from HIP 6.0 on.
THREADS, MULTIPROCESSORS, SHARED_BYTES, WARP, POOLS = 56, 63, 74, 87, 88
# hipDeviceProp_tR0600, whose layout is that of its function's name: its bytes, and where gcnArchName is in it.
PROPERTIES_BYTES, PROCESSOR_AT = 1472, 1160


@dataclass(frozen=True)
class DeviceDescription:
    """What programs are made for.

    Attributes:
        handle: of the device, in this process.
        name: as the driver calls it, e.g. "AMD Instinct MI300X"; bus: where it is, e.g. "0000:1b:00.0".
        architecture: the processor and how it is set, e.g. "gfx942:sramecc+:xnack-"; version: of HIP, e.g. 60342134.
        multiprocessors: what blocks are shared out to; threads: of a block, at most; warp: threads that run in step.
        shared_bytes: shared memory of a block; global_bytes: of the device.
        has_pools: whether memory may be allocated in the order of a stream.
    """

    handle: int = field(repr=False, compare=False)
    name: str
    bus: str
    architecture: str
    version: int
    multiprocessors: int
    threads: int
    warp: int
    shared_bytes: int
    global_bytes: int
    has_pools: bool

    @property
    def processor(self) -> str:
        """As LLVM calls it, e.g. "gfx942"."""
        return self.architecture.partition(":")[0]

    @property
    def attributes(self) -> dict[str, str | int]:
        """What JAX tells of a device, as XLA calls it."""
        return {
            "compute_capability": self.processor,
            "device_vendor": "Advanced Micro Devices, Inc",
            "core_count": self.multiprocessors,
        }

    def require(self) -> None:
        """Refuse a device for which no code is generated.

        Raises:
            UnsupportedError: it says what the device is.
        """
        if self.processor not in GPUS:
            known = ", ".join(name for name in GPUS if name.startswith("gfx"))
            raise UnsupportedError(
                f"programs cannot run on {self.name} (HIP {dotted(self.version, 10_000_000, 100_000)}), which is "
                f"{self.processor or 'unknown'}: there is code for {known}",
                remedy="choose another device by its number, or compile for target='cpu'",
            )


def describe(hip: HipLibrary, number: int) -> DeviceDescription:
    """Ask a device. Raises ResourceError, InternalError as `HipLibrary.failure`."""
    handle = hip.number("DeviceGet", number)
    properties = ctypes.create_string_buffer(2 * PROPERTIES_BYTES)
    hip.call("hipGetDevicePropertiesR0600", properties, handle)

    def attribute(which: int) -> int:
        return hip.number("DeviceGetAttribute", which, handle)

    return DeviceDescription(
        handle=handle,
        name=hip.text("DeviceGetName", handle),
        bus=hip.text("DeviceGetPCIBusId", handle),
        architecture=ctypes.string_at(ctypes.addressof(properties) + PROCESSOR_AT).decode(errors="replace"),
        version=hip.number("hipRuntimeGetVersion"),
        multiprocessors=attribute(MULTIPROCESSORS),
        threads=attribute(THREADS),
        warp=attribute(WARP),
        shared_bytes=attribute(SHARED_BYTES),
        global_bytes=hip.number("DeviceTotalMem", handle, of=ctypes.c_size_t),
        has_pools=bool(attribute(POOLS)),
    )
