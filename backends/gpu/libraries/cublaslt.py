"""cuBLASLt: where it is found, its functions, and the plan of a product (plan.py). A bias for each column of ours is
its bias for each row of the transposed result."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from stablehlo_py.backends.gpu.driver.library import SMALLER, Library
from stablehlo_py.backends.gpu.driver.queue import Queue
from stablehlo_py.backends.gpu.libraries.plan import PLAN
from stablehlo_py.dialect.alignment import ACCESS_ALIGNMENT
from stablehlo_py.element_types import ELEMENT_TYPES
from stablehlo_py.errors import ResourceError, ShloError
from stablehlo_py.runtime.memory import address_of
from stablehlo_py.runtime.products import LibraryProduct, StoredMatrix

VARIABLE = "SHLO_CUBLASLT_LIBRARY"
OLDEST, RELEASES = 12, (13, 12)  # of CUDA's, by the names of libraries; the newest first

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


class CublasLtLibrary(Library):
    """The functions of cuBLASLt."""

    driver, oldest = "cuBLASLt", f"{OLDEST}.0"
    install = f"pip install nvidia-cublas, or install the CUDA toolkit; {VARIABLE} names another library"
    functions, lost = FUNCTIONS, frozenset[int]()
    lacking = {ALLOC_FAILED: SMALLER}  # noqa: RUF012, Library says that it is a class's

    def begin(self) -> None:
        """Raises ResourceError: it is too old."""
        if self.version < (OLDEST, 0, 0):
            raise ResourceError(f"{self.path} is {self.name}, and {self.oldest} is needed", remedy=self.install)

    @property
    def version(self) -> tuple[int, int, int]:
        """E.g. (12, 9, 1)."""
        number = self.status("cublasLtGetVersion")
        return number // 10000, number // 100 % 100, number % 100

    @property
    def name(self) -> str:
        """With its version."""
        return f"{self.driver} {'.'.join(map(str, self.version))}"

    def status_text(self, status: int) -> str:
        """Its name and number."""
        name = self.status("cublasLtGetStatusName", status)
        return f"{(name or b'an unknown status').decode(errors='replace')} ({status})"


def candidates(driver_version: int) -> Iterator[str]:
    """Libraries to try with a driver for this version of CUDA (e.g. 12040): the one that the environment names; else
    the system's, then those of NVIDIA's packages for this Python. A library of a later release needs a later driver."""
    if named := os.environ.get(VARIABLE):
        yield named
        return
    packages = find_spec("nvidia")
    folders = [Path(place) for place in (packages.submodule_search_locations or ())] if packages else []
    for release in RELEASES:
        if release <= driver_version // 1000:
            name = f"libcublasLt.so.{release}"
            yield name
            yield from sorted(str(path) for folder in folders for path in folder.glob(f"*/lib/{name}"))


@cache
def library(driver_version: int) -> CublasLtLibrary:
    """The library of this process. Raises ResourceError: there is none."""
    return CublasLtLibrary.first(candidates(driver_version))


class CublasLt:
    """A handle of the library in the context of a queue, and the plans that were made with it. It owns them all.

    Attributes:
        refusal: why the library does not work with this driver or device; empty: it does.

    Raises:
        ResourceError: there is no memory.
        InternalError: the library has failed.
    """

    _handle = 0
    refusal = ""

    def __init__(self, found: CublasLtLibrary, queue: Queue) -> None:
        self.library = found
        self._queue = queue
        self._made: list[tuple[str, int]] = []  # what frees it, and the handle
        self._kept: list[np.ndarray] = []  # what plans point to
        with queue.current:
            place = ctypes.c_void_p()
            status = found.status("cublasLtCreate", ctypes.byref(place))
        if status in (NOT_INITIALIZED, ARCH_MISMATCH):
            self.refusal = f"{found.name} ({found.path}) refuses {queue.device}: {found.status_text(status)}"
        elif status:
            raise found.failure(status, f"cublasLtCreate on {queue.device}")
        else:
            self._handle = place.value or 0

    def __del__(self, at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
        if self.library.is_inherited or at_exit():
            return
        for function, handle in reversed(self._made):
            self.library.release(function, handle)
        if self._handle and not self._queue.is_lost:  # with the context it is gone
            with suppress(ShloError), self._queue.current:  # which may be lost by now
                self.library.release("cublasLtDestroy", self._handle)

    def plan(self, product: LibraryProduct) -> np.ndarray | None:
        """The plan of a product, which lives as long as this object; None: the library refuses it. The first algorithm
        that it names is taken, once for all calls. Raises ResourceError, InternalError."""
        with self._queue.current:
            made = len(self._made)
            plan = self._plan(product)
            if plan is None:
                for function, handle in reversed(self._made[made:]):
                    self.library.release(function, handle)
                del self._made[made:]
            return plan

    def _plan(self, product: LibraryProduct) -> np.ndarray | None:
        compute = COMPUTE_TF32 if product.tf32 else COMPUTE_TYPES[product.sums]
        description = self._new("cublasLtMatmulDesc", compute, DATA_TYPES[product.sums])
        left, right = product.b, product.a
        for attribute, matrix in ((TRANSPOSE_A, left), (TRANSPOSE_B, right)):
            if matrix.by_columns:
                self._set("cublasLtMatmulDesc", description, attribute, np.int32(TRANSPOSED))
        epilogue = ACTIVATIONS[product.activation] | (BIAS if product.has_bias else 0)
        self._set("cublasLtMatmulDesc", description, EPILOGUE, np.int32(epilogue or DEFAULT))
        if product.has_bias:  # an address that is no less aligned than those of calls
            self._set("cublasLtMatmulDesc", description, BIAS_POINTER, np.uint64(ACCESS_ALIGNMENT))
        layouts = [self._layout(matrix, product.batch) for matrix in (left, right, product.result)]
        algorithm = self._algorithm([description, *layouts, layouts[-1]], product.workspace_bytes)
        if algorithm is None:
            return None
        alpha, beta = (np.array([factor], product.sums) for factor in (product.alpha, product.beta))
        address = self.library.address
        values = {
            "multiply": address("cublasLtMatmul"),
            "set": address("cublasLtMatmulDescSetAttribute"),
            "handle": self._handle,
            "description": description,
            "alpha": address_of(alpha),
            "left": layouts[0],
            "right": layouts[1],
            "beta": address_of(beta),
            "result": layouts[2],
            "algorithm": address_of(algorithm),
            "workspace": product.workspace_bytes,
            "bias_attribute": BIAS_POINTER,
        }
        plan = np.array([values[name] for name in PLAN], np.int64)
        self._kept += [alpha, beta, algorithm, plan]
        return plan

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
        self._made.append((f"{kind}Destroy", place.value or 0))
        return place.value or 0

    def _set(self, kind: str, handle: int, attribute: int, value: np.generic) -> None:
        array = np.array([value])
        self.library.call(f"{kind}SetAttribute", handle, attribute, address_of(array), array.nbytes)
