"""cuFFT: its functions, and the plan of a Fourier transform."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from stablehlo_py.backends.gpu.driver.library import SMALLER
from stablehlo_py.backends.gpu.libraries.plan import STREAM, WORKSPACE, At, plan_of, pointer
from stablehlo_py.backends.gpu.libraries.vendor import Handle, VendorLibrary
from stablehlo_py.runtime.library_calls import LibraryTransform

_STATUS = _INT = ctypes.c_int32
_ADDRESS, _LONG = ctypes.c_void_p, ctypes.c_int64
_ARRAY = (_ADDRESS, _LONG, _LONG, _INT)  # sizes, steps, type
# What is used of cufftXt.h.
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cufftGetVersion": (_STATUS, _ADDRESS),
    "cufftCreate": (_STATUS, _ADDRESS),
    "cufftDestroy": (_STATUS, _INT),
    "cufftSetAutoAllocation": (_STATUS, _INT, _INT),
    "cufftXtMakePlanMany": (_STATUS, _INT, _INT, _ADDRESS, *_ARRAY, *_ARRAY, _LONG, _ADDRESS, _INT),
    "cufftSetStream": (_STATUS, _INT, _ADDRESS),
    "cufftSetWorkArea": (_STATUS, _INT, _ADDRESS),
    "cufftXtExec": (_STATUS, _INT, _ADDRESS, _ADDRESS, _INT),
}

# Numbers of the headers: cudaDataType_t (library_types.h), cufftResult and directions (cufft.h).
DATA_TYPES = {np.dtype(name): number for name, number in zip("f4 f8 c8 c16".split(), (0, 1, 4, 5), strict=True)}
FORWARD, INVERSE = -1, 1
ALLOC_FAILED = 2
STATUSES = {
    1: "CUFFT_INVALID_PLAN",
    ALLOC_FAILED: "CUFFT_ALLOC_FAILED",
    3: "CUFFT_INVALID_TYPE",
    4: "CUFFT_INVALID_VALUE",
    5: "CUFFT_INTERNAL_ERROR",
    6: "CUFFT_EXEC_FAILED",
    7: "CUFFT_SETUP_FAILED",
    8: "CUFFT_INVALID_SIZE",
    9: "CUFFT_UNALIGNED_DATA",
    11: "CUFFT_INVALID_DEVICE",
    13: "CUFFT_NO_WORKSPACE",
    14: "CUFFT_NOT_IMPLEMENTED",
    16: "CUFFT_NOT_SUPPORTED",
    17: "CUFFT_MISSING_DEPENDENCY",
}
_REFUSALS = (3, 8, 14, 16)


class CufftLibrary(VendorLibrary):
    """The functions of cuFFT."""

    driver, package, variable = "cuFFT", "nvidia-cufft", "SHLO_CUFFT_LIBRARY"
    file, releases, least = "libcufft.so", {13: 12, 12: 11}, (11, 0)
    functions = FUNCTIONS
    lacking = {ALLOC_FAILED: SMALLER}  # noqa: RUF012

    @property
    def version(self) -> tuple[int, int, int]:
        """E.g. (11, 4, 0)."""
        found = ctypes.c_int32()
        self.call("cufftGetVersion", ctypes.byref(found))
        return found.value // 1000, found.value // 100 % 10, found.value % 100

    def status_text(self, status: int) -> str:
        """Its name and number."""
        return f"{STATUSES.get(status, 'an unknown status')} ({status})"


class Cufft(Handle[CufftLibrary, LibraryTransform]):
    """Fourier transforms by cuFFT."""

    kind = CufftLibrary

    def make(self, call: LibraryTransform) -> np.ndarray | None:
        place, size = ctypes.c_int32(), ctypes.c_size_t()
        self.library.call("cufftCreate", ctypes.byref(place))
        plan = self.own("cufftDestroy", place.value)
        self.library.call("cufftSetAutoAllocation", plan, 0)
        lengths = (_LONG * len(call.lengths))(*call.lengths)
        # Without sizes of the arrays, these are dense, and steps are not looked at.
        operand, result = ((None, 1, 0, DATA_TYPES[dtype]) for dtype in (call.operand, call.result))
        of = DATA_TYPES[call.result]
        operands = [plan, len(lengths), lengths, *operand, *result, call.batch, ctypes.byref(size), of]
        status = self.library.status("cufftXtMakePlanMany", *operands)
        if status in _REFUSALS:
            return None
        if status:
            raise self.library.failure(status, "cufftXtMakePlanMany")
        if size.value > call.workspace_bytes:
            return None
        direction = INVERSE if call.inverse else FORWARD
        return plan_of(
            [
                (self.address("cufftSetStream"), [plan, At(STREAM)]),
                (self.address("cufftSetWorkArea"), [plan, At(WORKSPACE)]),
                (self.address("cufftXtExec"), [plan, pointer(0), pointer(1), direction]),
            ]
        )
