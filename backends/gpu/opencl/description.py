"""What a device is like, as it says itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntFlag

from stablehlo_py.backends.gpu.opencl.library import OpenClLibrary
from stablehlo_py.errors import LoadError, UnsupportedError

# Parameters of clGetDeviceInfo (cl.h, cl_ext.h).
KIND, COMPUTE_UNITS, WORK_GROUP_SIZE, LARGEST_ALLOCATION = 0x1000, 0x1002, 0x1004, 0x1010
PARAMETER_BYTES, ALIGNMENT, GLOBAL_BYTES, LOCAL_BYTES = 0x1017, 0x1019, 0x101F, 0x1023
NAME, VENDOR, DRIVER_VERSION, VERSION, EXTENSIONS = 0x102B, 0x102C, 0x102D, 0x102F, 0x1030
SVM, IL_VERSION, SUB_GROUP_SIZES = 0x1053, 0x105B, 0x4108
_NEWER = (SVM, IL_VERSION, SUB_GROUP_SIZES)  # which not every version of OpenCL, and not every driver, knows

_KINDS = {1 << 1: "cpu", 1 << 2: "gpu", 1 << 3: "accelerator"}
NEEDED_VERSION = (2, 1)  # the first with clCreateProgramWithIL
NEEDED_PARAMETER_BYTES = 1024  # what the specification promises of all but embedded devices
F16, F64 = "cl_khr_fp16", "cl_khr_fp64"
_MEANINGS = {F16: "f16", F64: "f64"}  # of extensions, in the terms of models


class Svm(IntFlag):
    """Shared virtual memory: which there is (CL_DEVICE_SVM_CAPABILITIES)."""

    COARSE_GRAIN_BUFFER = 1
    FINE_GRAIN_BUFFER = 2
    FINE_GRAIN_SYSTEM = 4
    ATOMICS = 8


@dataclass(frozen=True)
class DeviceDescription:
    """What programs are made for.

    Attributes:
        handle: of the device, in this process.
        name, vendor, driver_version: as the driver calls them.
        version: of OpenCL, e.g. (3, 0); spirv_versions: e.g. ("1.0", "1.1").
        kind: "cpu", "gpu", "accelerator".
        extensions: names, e.g. "cl_khr_fp16".
        compute_units: what work-groups are shared out to; work_group_size: work-items of a work-group, at most.
        parameter_bytes: of the parameters of a kernel, at most.
        local_bytes: memory of a work-group; global_bytes: of the device; largest_allocation: bytes of one block.
        alignment: of blocks, in bytes.
        sub_group_sizes: those that a kernel may ask for; none where the driver alone decides.
        svm: the shared virtual memory that it has.
    """

    handle: int = field(repr=False, compare=False)
    name: str
    vendor: str
    driver_version: str
    version: tuple[int, int]
    spirv_versions: tuple[str, ...]
    kind: str
    extensions: frozenset[str]
    compute_units: int
    work_group_size: int
    parameter_bytes: int
    local_bytes: int
    global_bytes: int
    largest_allocation: int
    alignment: int
    sub_group_sizes: tuple[int, ...]
    svm: Svm

    @property
    def has_f16(self) -> bool:
        """Whether it computes with half floats."""
        return F16 in self.extensions

    @property
    def has_f64(self) -> bool:
        """Whether it computes with doubles."""
        return F64 in self.extensions

    @property
    def attributes(self) -> dict[str, str | int]:
        """What JAX tells of a device, as XLA calls it."""
        return {"device_vendor": self.vendor, "core_count": self.compute_units}

    def require(self) -> None:
        """Refuse a device on which programs cannot run.

        Raises:
            UnsupportedError: it names all that the device lacks.
        """
        missing = []
        if self.version < NEEDED_VERSION:
            missing.append(f"OpenCL {_dotted(NEEDED_VERSION)}: it has {_dotted(self.version)}")
        if not self.spirv_versions:
            missing.append("programs in SPIR-V (clCreateProgramWithIL)")
        if not self.svm & Svm.COARSE_GRAIN_BUFFER:
            missing.append("shared virtual memory (coarse-grained buffers)")
        if self.parameter_bytes < NEEDED_PARAMETER_BYTES:
            missing.append(f"kernels with {NEEDED_PARAMETER_BYTES} bytes of parameters: it has {self.parameter_bytes}")
        if missing:
            raise UnsupportedError(
                f"programs cannot run on {self.name} (driver {self.driver_version}), which lacks {'; '.join(missing)}",
                remedy="install a newer driver, or choose another device by its number",
            )

    def require_extensions(self, names: Iterable[str]) -> None:
        """Refuse a program that needs what the device lacks.

        Raises:
            LoadError: it names all of that.
        """
        missing = [
            f"{_MEANINGS[name]} ({name})" if name in _MEANINGS else name
            for name in names
            if name not in self.extensions
        ]
        if missing:
            raise LoadError(
                f"{self.name} lacks what this program computes with: {', '.join(missing)}",
                remedy="choose another device, or convert the model to types that it has, e.g. f32",
            )


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def describe(opencl: OpenClLibrary, handle: int) -> DeviceDescription:
    """Ask a device. Raises ResourceError as `Library.ask`."""

    def answer(parameter: int) -> bytes:
        return opencl.ask("clGetDeviceInfo", handle, parameter, optional=parameter in _NEWER)

    def text(parameter: int) -> str:
        return answer(parameter).partition(b"\0")[0].decode(errors="replace").strip()

    def number(parameter: int) -> int:
        return int.from_bytes(answer(parameter), "little")

    version = re.search(r"(\d+)\.(\d+)", text(VERSION))
    return DeviceDescription(
        handle=handle,
        name=text(NAME),
        vendor=text(VENDOR),
        driver_version=text(DRIVER_VERSION),
        version=(int(version[1]), int(version[2])) if version else (1, 0),
        spirv_versions=tuple(re.findall(r"SPIR-V_(\d+\.\d+)", text(IL_VERSION))),
        kind=next((name for bit, name in _KINDS.items() if number(KIND) & bit), "accelerator"),
        extensions=frozenset(text(EXTENSIONS).split()),
        compute_units=number(COMPUTE_UNITS),
        work_group_size=number(WORK_GROUP_SIZE),
        parameter_bytes=number(PARAMETER_BYTES),
        local_bytes=number(LOCAL_BYTES),
        global_bytes=number(GLOBAL_BYTES),
        largest_allocation=number(LARGEST_ALLOCATION),
        alignment=number(ALIGNMENT) // 8,
        sub_group_sizes=tuple(memoryview(answer(SUB_GROUP_SIZES)).cast("P").tolist()),
        svm=Svm(number(SVM)),
    )
