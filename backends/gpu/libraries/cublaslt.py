"""cuBLASLt: its functions, and the plan of a product. It keeps matrices by columns: what lies by rows is the transposed
matrix to it, so it is asked for result^T = b^T a^T, and a bias for each column of ours is one for each row of its."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from stablehlo_py.backends.gpu.driver.library import SMALLER
from stablehlo_py.backends.gpu.libraries.plan import STREAM, WORKSPACE, AddressOf, Argument, At, plan_of, pointer
from stablehlo_py.backends.gpu.libraries.vendor import Handle, VendorLibrary
from stablehlo_py.dialect.alignment import ACCESS_ALIGNMENT
from stablehlo_py.element_types import ELEMENT_TYPES
from stablehlo_py.runtime.library_calls import LibraryProduct, Place, StoredMatrix
from stablehlo_py.runtime.memory import address_of

_STATUS = _ENUM = ctypes.c_int32
_SIZE, _HANDLE, _ADDRESS = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p
# What is used of cublasLt.h.
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cublasLtGetVersion": (_SIZE,),
    "cublasLtGetStatusName": (ctypes.c_char_p, _STATUS),
    "cublasLtCreate": (_STATUS, _ADDRESS),
    "cublasLtDestroy": (_STATUS, _HANDLE),
    "cublasLtMatmulDescCreate": (_STATUS, _ADDRESS, _ENUM, _ENUM),
    "cublasLtMatmulDescDestroy": (_STATUS, _HANDLE),
    "cublasLtMatmulDescSetAttribute": (_STATUS, _HANDLE, _ENUM, _ADDRESS, _SIZE),
    "cublasLtMatrixLayoutCreate": (_STATUS, _ADDRESS, _ENUM, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64),
    "cublasLtMatrixLayoutDestroy": (_STATUS, _HANDLE),
    "cublasLtMatrixLayoutSetAttribute": (_STATUS, _HANDLE, _ENUM, _ADDRESS, _SIZE),
    "cublasLtMatmulPreferenceCreate": (_STATUS, _ADDRESS),
    "cublasLtMatmulPreferenceDestroy": (_STATUS, _HANDLE),
    "cublasLtMatmulPreferenceSetAttribute": (_STATUS, _HANDLE, _ENUM, _ADDRESS, _SIZE),
    "cublasLtMatmulAlgoGetHeuristic": (_STATUS, *[_HANDLE] * 7, ctypes.c_int, _ADDRESS, _ADDRESS),
    "cublasLtMatmul": (_STATUS, *[_ADDRESS] * 14, _SIZE, _HANDLE),
}

# Numbers of the headers: cudaDataType_t (library_types.h), cublasComputeType_t (cublas_api.h), the others (cublasLt.h).
_NUMBERS = {"f32": 0, "f64": 1, "f16": 2, "i8": 3, "i32": 10, "bf16": 14, "f8E4M3FN": 28, "f8E5M2": 29}
DATA_TYPES = {ELEMENT_TYPES[name]: number for name, number in _NUMBERS.items()}
COMPUTE_TYPES = {ELEMENT_TYPES[name]: number for name, number in {"f32": 68, "f64": 70, "i32": 72}.items()}
COMPUTE_TF32 = 77
TRANSPOSE_A, TRANSPOSE_B, EPILOGUE, BIAS_POINTER = 3, 4, 7, 8  # CUBLASLT_MATMUL_DESC_
BATCH_COUNT, BATCH_STRIDE = 5, 6  # CUBLASLT_MATRIX_LAYOUT_
WORKSPACE_BYTES, REDUCTION_SCHEMES, ALIGNMENTS = 1, 3, (5, 6, 7, 8)  # CUBLASLT_MATMUL_PREF_
DEFAULT, BIAS, ACTIVATIONS = 1, 4, {"": 0, "relu": 2, "gelu": 32}  # CUBLASLT_EPILOGUE_
TRANSPOSED = 1  # CUBLAS_OP_T
# Sums in parts are added up in their type and in an order: those "in place" are added as they come.
IN_COMPUTE_TYPE = 2  # CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
NOT_INITIALIZED, ALLOC_FAILED, INVALID_VALUE, ARCH_MISMATCH, NOT_SUPPORTED = 1, 3, 7, 8, 15  # CUBLAS_STATUS_
_REFUSALS = (INVALID_VALUE, ARCH_MISMATCH, NOT_SUPPORTED)


class Result(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int32),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int32 * 4),
    )


class CublasLtLibrary(VendorLibrary):
    """The functions of cuBLASLt."""

    driver, package, variable = "cuBLASLt", "nvidia-cublas", "SHLO_CUBLASLT_LIBRARY"
    file, releases, least = "libcublasLt.so", {13: 13, 12: 12}, (12, 0)
    functions = FUNCTIONS
    lacking = {ALLOC_FAILED: SMALLER}  # noqa: RUF012

    @property
    def version(self) -> tuple[int, int, int]:
        """E.g. (12, 9, 1)."""
        number = self.status("cublasLtGetVersion")
        return number // 10000, number // 100 % 100, number % 100

    def status_text(self, status: int) -> str:
        """Its name and number."""
        name = self.status("cublasLtGetStatusName", status)
        return f"{(name or b'an unknown status').decode(errors='replace')} ({status})"


class CublasLt(Handle[CublasLtLibrary, LibraryProduct]):
    """Products by cuBLASLt. Of each one, the first algorithm that it names is taken, once for all calls."""

    kind = CublasLtLibrary
    plans_in_context = False
    _handle = 0

    def begin(self) -> None:
        place = ctypes.c_void_p()
        status = self.library.status("cublasLtCreate", ctypes.byref(place))
        if status in (NOT_INITIALIZED, ARCH_MISMATCH):
            self.refuse(status)
        elif status:
            raise self.library.failure(status, f"cublasLtCreate on {self.queue.device}")
        else:
            self._handle = place.value or 0

    def end(self) -> None:
        self.library.release("cublasLtDestroy", self._handle)

    def make(self, call: LibraryProduct) -> np.ndarray | None:
        compute = COMPUTE_TF32 if call.tf32 else COMPUTE_TYPES[call.sums]
        description = self._new("cublasLtMatmulDesc", compute, DATA_TYPES[call.sums])
        left, right = call.b, call.a
        for attribute, matrix in ((TRANSPOSE_A, left), (TRANSPOSE_B, right)):
            if matrix.by_columns:
                self._set("cublasLtMatmulDesc", description, attribute, np.int32(TRANSPOSED))
        epilogue = ACTIVATIONS[call.activation] | (BIAS if call.bias else 0)
        self._set("cublasLtMatmulDesc", description, EPILOGUE, np.int32(epilogue or DEFAULT))
        if call.bias:  # an address that is no less aligned than those of calls
            self._set("cublasLtMatmulDesc", description, BIAS_POINTER, np.uint64(ACCESS_ALIGNMENT))
        layouts = [self._layout(matrix, call.batch) for matrix in (left, right, call.result)]
        algorithm = self._algorithm([description, *layouts, layouts[-1]], call.workspace_bytes)
        if algorithm is None:
            return None
        factors = [np.array([factor], call.sums) for factor in (call.alpha, call.beta)]
        self.kept += [*factors, algorithm]
        alpha, beta = map(address_of, factors)
        a, b, result = map(_at, call.places)
        # The library wants an addend's address, also where it is multiplied by 0.
        addend = result if call.addend is None else _at(call.addend)
        operands: list[Argument] = [self._handle, description, alpha, b, layouts[0], a, layouts[1], beta]
        operands += [addend, layouts[2], result, layouts[2], address_of(algorithm)]
        operands += [At(WORKSPACE), call.workspace_bytes, At(STREAM)]
        calls: list[tuple[int, Sequence[Argument]]] = [(self.address("cublasLtMatmul"), operands)]
        if call.bias:  # its address is an attribute
            setting = self.address("cublasLtMatmulDescSetAttribute")
            calls.insert(0, (setting, [description, BIAS_POINTER, AddressOf(_at(call.bias).base), 8]))
        return plan_of(calls)

    def _layout(self, matrix: StoredMatrix, batch: int) -> int:
        """Of the transposed matrix, if it lies by rows."""
        sizes = (matrix.rows, matrix.columns) if matrix.by_columns else (matrix.columns, matrix.rows)
        layout = self._new("cublasLtMatrixLayout", DATA_TYPES[matrix.dtype], *sizes, matrix.stride)
        if batch > 1:
            self._set("cublasLtMatrixLayout", layout, BATCH_COUNT, np.int32(batch))
            self._set("cublasLtMatrixLayout", layout, BATCH_STRIDE, np.int64(matrix.batch_stride))
        return layout

    def _algorithm(self, descriptions: Sequence[int], workspace_bytes: int) -> np.ndarray | None:
        """The first that the library names; None: it has none."""
        preference = self._new("cublasLtMatmulPreference")
        self._set("cublasLtMatmulPreference", preference, WORKSPACE_BYTES, np.uint64(workspace_bytes))
        self._set("cublasLtMatmulPreference", preference, REDUCTION_SCHEMES, np.uint32(IN_COMPUTE_TYPE))
        for attribute in ALIGNMENTS:
            self._set("cublasLtMatmulPreference", preference, attribute, np.uint32(ACCESS_ALIGNMENT))
        found, count = Result(), ctypes.c_int()
        name = "cublasLtMatmulAlgoGetHeuristic"
        operands = [self._handle, *descriptions, preference, 1, ctypes.byref(found), ctypes.byref(count)]
        status = self.library.status(name, *operands)
        if status and status not in _REFUSALS:
            raise self.library.failure(status, name)
        usable = not (status or found.state) and count.value and found.workspace <= workspace_bytes
        return np.array(found.algorithm, np.uint64) if usable else None

    def _new(self, kind: str, *arguments: int) -> int:
        place = ctypes.c_void_p()
        self.library.call(f"{kind}Create", ctypes.byref(place), *arguments)
        return self.own(f"{kind}Destroy", place.value or 0)

    def _set(self, kind: str, handle: int, attribute: int, value: np.generic) -> None:
        array = np.array([value])
        self.library.call(f"{kind}SetAttribute", handle, attribute, address_of(array), array.nbytes)


def _at(place: Place) -> At:
    return pointer(place.pointer, place.offset)
