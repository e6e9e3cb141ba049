"""What a device is like, as its driver says."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

from stablehlo_py.backends.gpu.capability import Capability
from stablehlo_py.backends.gpu.cuda.library import CudaLibrary
from stablehlo_py.backends.gpu.driver.stream_library import dotted
from stablehlo_py.errors import UnsupportedError

# CUdevice_attribute (cuda.h).
THREADS, SHARED_BYTES, WARP, MULTIPROCESSORS, TIMEOUT, UNIFIED_ADDRESSING = 1, 8, 10, 16, 17, 41
MAJOR, MINOR, SHARED_OPT_IN_BYTES, POOLS = 75, 76, 97, 115
NEEDED_CAPABILITY = (8, 0)  # the first machine that code is generated for


@dataclass(frozen=True)
class DeviceDescription:
    """What programs are made for.

    Attributes:
        handle: of the device, in this process.
        name: as the driver calls it, e.g. "NVIDIA H100 80GB HBM3"; bus: where it is, e.g. "0000:1b:00.0".
        capability: compute capability, e.g. (9, 0); driver_version: of CUDA that the driver is for, e.g. 12040.
        multiprocessors: what blocks are shared out to; threads: of a block, at most; warp: threads that run in step.
        shared_bytes: shared memory of a block; shared_opt_in_bytes: that a kernel may ask for.
        global_bytes: of the device.
        has_pools: whether memory may be allocated in the order of a stream; is_unified: whether an address says whose
            memory it is; has_timeout: whether what runs long is ended, as a display waits for it.
    """

    handle: int = field(repr=False, compare=False)
    name: str
    bus: str
    capability: Capability
    driver_version: int
    multiprocessors: int
    threads: int
    warp: int
    shared_bytes: int
    shared_opt_in_bytes: int
    global_bytes: int
    has_pools: bool
    is_unified: bool
    has_timeout: bool

    @property
    def architecture(self) -> str:
        """As NVIDIA's tools call it, e.g. "sm_90"."""
        return f"sm_{self.capability[0]}{self.capability[1]}"

    @property
    def attributes(self) -> dict[str, str | int]:
        """What JAX tells of a device, as XLA calls it."""
        capability = ".".join(map(str, self.capability))
        return {
            "compute_capability": capability,
            "device_vendor": "NVIDIA Corporation",
            "core_count": self.multiprocessors,
        }

    def require(self) -> None:
        """Refuse a device on which programs cannot run.

        Raises:
            UnsupportedError: it names all that the device lacks.
        """
        missing = []
        if self.capability < NEEDED_CAPABILITY:
            missing.append(
                f"compute capability {NEEDED_CAPABILITY[0]}.{NEEDED_CAPABILITY[1]}: it is {self.architecture}"
            )
        if not self.is_unified:
            missing.append("unified addressing")
        if missing:
            version = dotted(self.driver_version)
            raise UnsupportedError(
                f"programs cannot run on {self.name} (driver for CUDA {version}), which lacks {'; '.join(missing)}",
                remedy="choose another device by its number, or compile for target='cpu'",
            )


def describe(cuda: CudaLibrary, number: int) -> DeviceDescription:
    """Ask a device. Raises ResourceError, InternalError as `CudaLibrary.failure`."""
    handle = cuda.number("cuDeviceGet", number)

    def attribute(which: int) -> int:
        return cuda.number("cuDeviceGetAttribute", which, handle)

    return DeviceDescription(
        handle=handle,
        name=cuda.text("cuDeviceGetName", handle),
        bus=cuda.text("cuDeviceGetPCIBusId", handle),
        capability=(attribute(MAJOR), attribute(MINOR)),
        driver_version=cuda.number("cuDriverGetVersion"),
        multiprocessors=attribute(MULTIPROCESSORS),
        threads=attribute(THREADS),
        warp=attribute(WARP),
        shared_bytes=attribute(SHARED_BYTES),
        shared_opt_in_bytes=attribute(SHARED_OPT_IN_BYTES),
        global_bytes=cuda.number("cuDeviceTotalMem_v2", handle, of=ctypes.c_size_t),
        has_pools=bool(attribute(POOLS)),
        is_unified=bool(attribute(UNIFIED_ADDRESSING)),
        has_timeout=bool(attribute(TIMEOUT)),
    )
