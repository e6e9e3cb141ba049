"""cuSOLVER: its functions, and the plan of a factorization. It keeps matrices by columns: a lower factor that lies by
rows is the upper one of the transposed matrix."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from stablehlo_py.backends.gpu.driver.library import SMALLER
from stablehlo_py.backends.gpu.libraries.cufft import DATA_TYPES
from stablehlo_py.backends.gpu.libraries.plan import STREAM, WORKSPACE, Argument, At, plan_of, pointer
from stablehlo_py.backends.gpu.libraries.vendor import Handle, VendorLibrary
from stablehlo_py.runtime.library_calls import LibraryCholesky
from stablehlo_py.runtime.memory import address_of

_STATUS = _ENUM = ctypes.c_int32
_HANDLE = _ADDRESS = ctypes.c_void_p
_LONG, _SIZE = ctypes.c_int64, ctypes.c_size_t
_FACTORIZED = (_HANDLE, _HANDLE, _ENUM, _LONG, _ENUM, _ADDRESS, _LONG, _ENUM)
# What is used of cusolverDn.h.
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cusolverGetVersion": (_STATUS, _ADDRESS),
    "cusolverDnCreate": (_STATUS, _ADDRESS),
    "cusolverDnDestroy": (_STATUS, _HANDLE),
    "cusolverDnSetStream": (_STATUS, _HANDLE, _ADDRESS),
    "cusolverDnCreateParams": (_STATUS, _ADDRESS),
    "cusolverDnDestroyParams": (_STATUS, _HANDLE),
    "cusolverDnXpotrf_bufferSize": (_STATUS, *_FACTORIZED, _ADDRESS, _ADDRESS),
    "cusolverDnXpotrf": (_STATUS, *_FACTORIZED, _ADDRESS, _SIZE, _ADDRESS, _SIZE, _ADDRESS),
}

# Numbers of the headers: cublasFillMode_t (cublas_api.h), cusolverStatus_t (cusolver_common.h).
LOWER, UPPER = 0, 1
NOT_INITIALIZED, ALLOC_FAILED, ARCH_MISMATCH = 1, 2, 4
STATUSES = {
    NOT_INITIALIZED: "CUSOLVER_STATUS_NOT_INITIALIZED",
    ALLOC_FAILED: "CUSOLVER_STATUS_ALLOC_FAILED",
    3: "CUSOLVER_STATUS_INVALID_VALUE",
    ARCH_MISMATCH: "CUSOLVER_STATUS_ARCH_MISMATCH",
    6: "CUSOLVER_STATUS_EXECUTION_FAILED",
    7: "CUSOLVER_STATUS_INTERNAL_ERROR",
    9: "CUSOLVER_STATUS_NOT_SUPPORTED",
}
_REFUSALS = (3, 9)
ALIGNMENT = 256  # of the workspace behind what says how each matrix went


class CusolverLibrary(VendorLibrary):
    """The functions of cuSOLVER."""

    driver, package, variable = "cuSOLVER", "nvidia-cusolver", "SHLO_CUSOLVER_LIBRARY"
    file, releases, least = "libcusolver.so", {13: 12, 12: 11}, (11, 4)
    functions = FUNCTIONS
    lacking = {ALLOC_FAILED: SMALLER}  # noqa: RUF012

    @property
    def version(self) -> tuple[int, int, int]:
        """E.g. (11, 7, 0)."""
        found = ctypes.c_int32()
        self.call("cusolverGetVersion", ctypes.byref(found))
        return found.value // 1000, found.value // 100 % 10, found.value % 100

    def status_text(self, status: int) -> str:
        """Its name and number."""
        return f"{STATUSES.get(status, 'an unknown status')} ({status})"


class Cusolver(Handle[CusolverLibrary, LibraryCholesky]):
    """Factorizations by cuSOLVER, whose results are the same from run to run unless it is told otherwise."""

    kind = CusolverLibrary
    _handle = _parameters = 0

    def begin(self) -> None:
        place = ctypes.c_void_p()
        status = self.library.status("cusolverDnCreate", ctypes.byref(place))
        if status in (NOT_INITIALIZED, ARCH_MISMATCH):
            self.refuse(status)
            return
        if status:
            raise self.library.failure(status, f"cusolverDnCreate on {self.queue.device}")
        self._handle = place.value or 0
        place = ctypes.c_void_p()
        self.library.call("cusolverDnCreateParams", ctypes.byref(place))
        self._parameters = place.value or 0

    def end(self) -> None:
        self.library.release("cusolverDnDestroyParams", self._parameters)
        self.library.release("cusolverDnDestroy", self._handle)

    def make(self, call: LibraryCholesky) -> np.ndarray | None:
        of, n = DATA_TYPES[call.dtype], call.size
        head: list[Argument] = [self._handle, self._parameters, UPPER if call.lower else LOWER, n, of]
        on_device, on_host = _SIZE(), _SIZE()
        sizes = [ctypes.byref(on_device), ctypes.byref(on_host)]
        status = self.library.status("cusolverDnXpotrf_bufferSize", *head, None, n, of, *sizes)
        if status in _REFUSALS:
            return None
        if status:
            raise self.library.failure(status, "cusolverDnXpotrf_bufferSize")
        behind = -(-4 * call.batch // ALIGNMENT) * ALIGNMENT
        if behind + on_device.value > call.workspace_bytes:
            return None
        host = np.zeros(max(1, on_host.value), np.uint8)
        self.kept.append(host)
        calls: list[tuple[int, Sequence[Argument]]] = [
            (self.address("cusolverDnSetStream"), [self._handle, At(STREAM)])
        ]
        for number in range(call.batch):
            matrix = pointer(1, number * n * n * call.dtype.itemsize)
            work: list[Argument] = [At(WORKSPACE, behind), on_device.value, address_of(host), on_host.value]
            arguments = [*head, matrix, n, of, *work, At(WORKSPACE, 4 * number)]
            calls.append((self.address("cusolverDnXpotrf"), arguments))
        return plan_of(calls)
