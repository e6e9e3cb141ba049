"""cuSOLVER: its functions, and the plan of a factorization. It keeps matrices by columns, as LAPACK does: of Cholesky's
factors, whose matrices lie by rows, a lower one is the upper one of the transposed matrix."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from stablehlo_py.backends.gpu.driver.library import SMALLER
from stablehlo_py.backends.gpu.libraries.cufft import DATA_TYPES
from stablehlo_py.backends.gpu.libraries.plan import STREAM, WORKSPACE, Argument, At, plan_of, pointer
from stablehlo_py.backends.gpu.libraries.vendor import Handle, VendorLibrary
from stablehlo_py.runtime.library_calls import LibraryFactorization
from stablehlo_py.runtime.memory import address_of

_STATUS = _ENUM = ctypes.c_int32
_HANDLE = _ADDRESS = ctypes.c_void_p
_LONG, _SIZE = ctypes.c_int64, ctypes.c_size_t
_INT, _CHARACTER = ctypes.c_int32, ctypes.c_byte
_FACTORIZED = (_HANDLE, _HANDLE, _ENUM, _LONG, _ENUM, _ADDRESS, _LONG, _ENUM)
_MATRIX = (_INT, _INT, _ADDRESS, _INT)  # rows, columns, where it lies, elements from a column to the next
_HERMITIAN = (_ENUM, _ENUM, _INT, _ADDRESS, _INT, _ADDRESS)  # what is wanted, triangle, matrix, eigenvalues
_VECTORS = (_ADDRESS, _INT, _ADDRESS, _INT)
_WORK = (_ADDRESS, _INT)
# Routines of LAPACK -> parameters of what says how much memory they want, behind the handle, and of themselves.
_ROUTINES: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "getrf": (_MATRIX, (*_MATRIX, _ADDRESS, _ADDRESS, _ADDRESS)),
    "geqrf": (_MATRIX, (*_MATRIX, _ADDRESS, *_WORK, _ADDRESS)),
    "orgqr": ((_INT, *_MATRIX, _ADDRESS), (_INT, *_MATRIX, _ADDRESS, *_WORK, _ADDRESS)),
    "syevd": (_HERMITIAN, (*_HERMITIAN, *_WORK, _ADDRESS)),
    "gesvd": ((_INT, _INT), (_CHARACTER, _CHARACTER, *_MATRIX, _ADDRESS, *_VECTORS, *_WORK, _ADDRESS, _ADDRESS)),
}
_LETTERS = {np.dtype(name): letter for name, letter in zip("f4 f8 c8 c16".split(), "SDCZ", strict=True)}
_OF_COMPLEX = {"orgqr": "ungqr", "syevd": "heevd"}


def function_of(routine: str, dtype: np.dtype) -> str:
    """The function that is a routine of these elements."""
    name = _OF_COMPLEX.get(routine, routine) if dtype.kind == "c" else routine
    return f"cusolverDn{_LETTERS[dtype]}{name}"


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
    **{
        f"{function_of(routine, dtype)}{suffix}": (_STATUS, _HANDLE, *parameters)
        for routine, (asked, called) in _ROUTINES.items()
        for dtype in _LETTERS
        for suffix, parameters in (("_bufferSize", (*asked, _ADDRESS)), ("", called))
    },
}

# Numbers of the headers: cublasFillMode_t (cublas_api.h), cusolverEigMode_t, cusolverStatus_t (cusolver_common.h).
LOWER, UPPER = 0, 1
MODES = {"N": 0, "V": 1}
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


class Cusolver(Handle[CusolverLibrary, LibraryFactorization]):
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

    def make(self, call: LibraryFactorization) -> np.ndarray | None:
        return self._cholesky(call) if call.routine == "potrf" else self._factorization(call)

    def _cholesky(self, call: LibraryFactorization) -> np.ndarray | None:
        of, n = DATA_TYPES[call.dtype], call.rows
        head: list[Argument] = [self._handle, self._parameters, UPPER if call.lower else LOWER, n, of]
        on_device, on_host = _SIZE(), _SIZE()
        sizes = [ctypes.byref(on_device), ctypes.byref(on_host)]
        status = self.library.status("cusolverDnXpotrf_bufferSize", *head, None, n, of, *sizes)
        if status in _REFUSALS:
            return None
        if status:
            raise self.library.failure(status, "cusolverDnXpotrf_bufferSize")
        behind = call.rooms[-1]
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

    def _factorization(self, call: LibraryFactorization) -> np.ndarray | None:
        """One call a matrix: of those that take many at once, each has other limits and other results."""
        name, elements = function_of(call.routine, call.dtype), ctypes.c_int32()
        asked = [value if isinstance(value, int) else None for value in _sizes(call, _Matrix(call, 0))]
        status = self.library.status(f"{name}_bufferSize", self._handle, *asked, ctypes.byref(elements))
        if status in _REFUSALS:
            return None
        if status:
            raise self.library.failure(status, f"{name}_bufferSize")
        if call.rooms[-1] + elements.value * call.dtype.itemsize > call.workspace_bytes:
            return None
        calls: list[tuple[int, Sequence[Argument]]] = [
            (self.address("cusolverDnSetStream"), [self._handle, At(STREAM)])
        ]
        work = At(WORKSPACE, call.rooms[-1])
        for number in range(call.batch):
            arguments = _arguments(call, _Matrix(call, number), work, elements.value)
            calls.append((self.address(name), [self._handle, *arguments]))
        return plan_of(calls)


class _Matrix:
    """Where the operands and the results of one matrix of a batch are.

    Attributes:
        rows, columns: as the library has it.
        a: the matrix. info: how it went.
    """

    def __init__(self, call: LibraryFactorization, number: int) -> None:
        self._call, self._number = call, number
        self.rows, self.columns = (call.columns, call.rows) if call.is_wide else (call.rows, call.columns)
        size = call.rows * call.columns
        self.a = self.room(0, size) if call.is_wide else self.result(0, size)
        infos = {"getrf": 2, "syevd": 2, "gesvd": 4}
        self.info = At(WORKSPACE, 4 * number)
        if call.routine in infos:
            self.info = self.result(infos[call.routine], 1, 4)

    def result(self, result: int, count: int, size: int | None = None) -> At:
        """The part of a result that has so many elements a matrix, of so many bytes (None: of the matrix's)."""
        operands = 2 if self._call.routine == "orgqr" else 1
        return pointer(operands + result, self._bytes(count, size))

    def factors(self) -> At:
        """Of reflections, which are an operand."""
        return pointer(1, self._bytes(self._call.factors))

    def room(self, room: int, count: int) -> At:
        """As `result`, of a piece of the workspace behind the first one."""
        return At(WORKSPACE, self._call.rooms[room] + self._bytes(count))

    def real_result(self, result: int, count: int) -> At:
        """As `result`, of real numbers."""
        return self.result(result, count, self._call.dtype.itemsize // (2 if self._call.dtype.kind == "c" else 1))

    def _bytes(self, count: int, size: int | None = None) -> int:
        return self._number * count * (self._call.dtype.itemsize if size is None else size)


def _sizes(call: LibraryFactorization, matrix: _Matrix) -> list[Argument]:
    """What a function and what says how much memory that wants begin with, behind the handle."""
    m, n, a = matrix.rows, matrix.columns, matrix.a
    if call.routine == "gesvd":
        return [m, n]
    if call.routine == "syevd":
        triangle = LOWER if call.lower else UPPER
        return [MODES[call.vectors], triangle, n, a, n, matrix.real_result(1, n)]
    if call.routine == "orgqr":
        return [m, n, call.factors, a, m, matrix.factors()]
    return [m, n, a, m]


def _arguments(call: LibraryFactorization, matrix: _Matrix, work: At, elements: int) -> list[Argument]:
    """Those of a function behind the handle."""
    m, n, least = matrix.rows, matrix.columns, min(call.rows, call.columns)
    sizes = _sizes(call, matrix)
    if call.routine == "getrf":
        return [*sizes, work, matrix.result(1, least, 4), matrix.info]
    if call.routine == "geqrf":
        return [*sizes, matrix.result(1, least), work, elements, matrix.info]
    if call.routine != "gesvd":
        return [*sizes, work, elements, matrix.info]
    left: Argument = 0
    right: Argument = 0
    if call.vectors != "N":
        counts = m * (m if call.vectors == "A" else n), n * n
        at, first = (matrix.room, 1) if call.is_wide else (matrix.result, 2)
        left, right = (at(first + number, count) for number, count in enumerate(counts))
    jobs = [ord(call.vectors)] * 2
    return [*jobs, *sizes, matrix.a, m, matrix.real_result(1, n), left, m, right, n, work, elements, 0, matrix.info]
