"""cuDNN: its functions, and the plan of a convolution."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stablehlo_py.backends.gpu.driver.library import SMALLER
from stablehlo_py.backends.gpu.libraries.plan import STREAM, WORKSPACE, Argument, At, plan_of, pointer
from stablehlo_py.backends.gpu.libraries.vendor import Handle, VendorLibrary
from stablehlo_py.element_types import ELEMENT_TYPES
from stablehlo_py.runtime.library_calls import FILTER, IMAGES, IN_WORKSPACE, RESULT, LibraryConvolution, Place
from stablehlo_py.runtime.memory import address_of

_STATUS = _ENUM = _INT = ctypes.c_int32
_SIZE, _HANDLE, _ADDRESS = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p
_ASKED = (_STATUS, *[_HANDLE] * 5, _INT, _ADDRESS, _ADDRESS)
_SIZED = (_STATUS, *[_HANDLE] * 5, _ENUM, _ADDRESS)
_RUN = (_STATUS, *[_ADDRESS] * 7, _ENUM, _ADDRESS, _SIZE, *[_ADDRESS] * 3)
# What is used of cudnn_graph.h, cudnn_ops.h and cudnn_cnn.h.
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cudnnGetVersion": (_SIZE,),
    "cudnnGetErrorString": (ctypes.c_char_p, _STATUS),
    "cudnnCreate": (_STATUS, _ADDRESS),
    "cudnnDestroy": (_STATUS, _HANDLE),
    "cudnnSetStream": (_STATUS, _HANDLE, _ADDRESS),
    "cudnnCreateTensorDescriptor": (_STATUS, _ADDRESS),
    "cudnnDestroyTensorDescriptor": (_STATUS, _HANDLE),
    "cudnnSetTensorNdDescriptor": (_STATUS, _HANDLE, _ENUM, _INT, _ADDRESS, _ADDRESS),
    "cudnnCreateFilterDescriptor": (_STATUS, _ADDRESS),
    "cudnnDestroyFilterDescriptor": (_STATUS, _HANDLE),
    "cudnnSetFilterNdDescriptor": (_STATUS, _HANDLE, _ENUM, _ENUM, _INT, _ADDRESS),
    "cudnnCreateConvolutionDescriptor": (_STATUS, _ADDRESS),
    "cudnnDestroyConvolutionDescriptor": (_STATUS, _HANDLE),
    "cudnnSetConvolutionNdDescriptor": (_STATUS, _HANDLE, _INT, *[_ADDRESS] * 3, _ENUM, _ENUM),
    "cudnnSetConvolutionGroupCount": (_STATUS, _HANDLE, _INT),
    "cudnnSetConvolutionMathType": (_STATUS, _HANDLE, _ENUM),
    "cudnnGetConvolutionForwardAlgorithm_v7": _ASKED,
    "cudnnGetConvolutionBackwardDataAlgorithm_v7": _ASKED,
    "cudnnGetConvolutionBackwardFilterAlgorithm_v7": _ASKED,
    "cudnnGetConvolutionForwardWorkspaceSize": _SIZED,
    "cudnnGetConvolutionBackwardDataWorkspaceSize": _SIZED,
    "cudnnGetConvolutionBackwardFilterWorkspaceSize": _SIZED,
    "cudnnConvolutionForward": _RUN,
    "cudnnConvolutionBackwardData": _RUN,
    "cudnnConvolutionBackwardFilter": _RUN,
}

# Numbers of the headers: cudnnDataType_t, cudnnTensorFormat_t, cudnnMathType_t, cudnnConvolutionMode_t,
# cudnnDeterminism_t, cudnnStatus_t.
DATA_TYPES = {ELEMENT_TYPES[name]: number for name, number in {"f32": 0, "f64": 1, "f16": 2, "bf16": 9}.items()}
NCHW, NHWC = 0, 1
DEFAULT_MATH, TENSOR_OP_MATH, FMA_MATH = 0, 1, 3
CROSS_CORRELATION = 1
DETERMINISTIC = 1
NOT_INITIALIZED, VERSION_MISMATCH, LOADING_FAILED = 1001, 1002, 1008
HOST_ALLOCATION_FAILED, DEVICE_ALLOCATION_FAILED = 4003, 4004
_WRONG, _UNSUPPORTED = 2000, 3000  # CUDNN_STATUS_BAD_PARAM, CUDNN_STATUS_NOT_SUPPORTED: whole categories
ASKED = 16  # algorithms, at most: the library has fewer, each of them for several types of arithmetic


@dataclass(frozen=True)
class Direction:
    """How one of the three is called: a part of names, which descriptors come in which order, and algorithms that
    may compute it. Those by products of matrices and directly are these: others, by Fourier's and Winograd's
    transforms, make infinities and NaN of one pixel those of its neighbours, and round more; some add atomically."""

    name: str
    order: tuple[str, str, str]
    algorithms: frozenset[int]


DIRECTIONS: Mapping[str, Direction] = {
    # CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, _IMPLICIT_PRECOMP_GEMM, _GEMM and _DIRECT; _BWD_DATA_ALGO_1;
    # _BWD_FILTER_ALGO_1.
    RESULT: Direction("Forward", (IMAGES, FILTER, RESULT), frozenset((0, 1, 2, 3))),
    IMAGES: Direction("BackwardData", (FILTER, RESULT, IMAGES), frozenset((1,))),
    FILTER: Direction("BackwardFilter", (IMAGES, RESULT, FILTER), frozenset((1,))),
}


class Performance(ctypes.Structure):
    """cudnnConvolutionFwdAlgoPerf_t, and those of the gradients."""

    _fields_ = (
        ("algorithm", ctypes.c_int32),
        ("status", ctypes.c_int32),
        ("time", ctypes.c_float),
        ("memory", ctypes.c_size_t),
        ("determinism", ctypes.c_int32),
        ("math", ctypes.c_int32),
        ("reserved", ctypes.c_int32 * 3),
    )


def _is_refusal(status: int) -> bool:
    return status // 1000 * 1000 in (_WRONG, _UNSUPPORTED)


class CudnnLibrary(VendorLibrary):
    """The functions of cuDNN."""

    driver, package, variable = "cuDNN", "nvidia-cudnn-cu13 (or -cu12)", "SHLO_CUDNN_LIBRARY"
    elsewhere = "install cuDNN"
    file, releases, least = "libcudnn.so", {12: 9}, (9, 0)
    functions = FUNCTIONS
    lacking = {HOST_ALLOCATION_FAILED: SMALLER, DEVICE_ALLOCATION_FAILED: SMALLER}  # noqa: RUF012

    @property
    def version(self) -> tuple[int, int, int]:
        """E.g. (9, 28, 1)."""
        number = self.status("cudnnGetVersion")
        major = 10000 if number >= 90000 else 1000  # until version 8
        return number // major, number % major // 100, number % 100

    def status_text(self, status: int) -> str:
        """Its name and number."""
        return f"{self.status('cudnnGetErrorString', status).decode(errors='replace')} ({status})"


class _RefusedError(Exception):
    """The library has no such convolution."""


class Cudnn(Handle[CudnnLibrary, LibraryConvolution]):
    """Convolutions by cuDNN. Of each one, the first of the algorithms that may compute it is taken, as the library puts
    them, once for all calls."""

    kind = CudnnLibrary
    plans_in_context = False
    _handle = 0

    def begin(self) -> None:
        place = ctypes.c_void_p()
        status = self.library.status("cudnnCreate", ctypes.byref(place))
        if status in (NOT_INITIALIZED, VERSION_MISMATCH, LOADING_FAILED) or _is_refusal(status):
            self.refuse(status)
        elif status:
            raise self.library.failure(status, f"cudnnCreate on {self.queue.device}")
        else:
            self._handle = place.value or 0

    def end(self) -> None:
        self.library.release("cudnnDestroy", self._handle)

    def make(self, call: LibraryConvolution) -> np.ndarray | None:
        try:
            return self._plan(call)
        except _RefusedError:
            return None

    def _plan(self, call: LibraryConvolution) -> np.ndarray | None:
        direction = DIRECTIONS[call.computes]
        descriptors = {name: self._tensor(call, name) for name in (IMAGES, RESULT)}
        descriptors[FILTER] = self._new("Filter")
        of, layout = DATA_TYPES[call.dtype], NHWC if call.channels_last else NCHW
        self._ask("cudnnSetFilterNdDescriptor", descriptors[FILTER], of, layout, *_counted(call.filter))
        convolution = self._convolution(call)
        first, second, third = (descriptors[name] for name in direction.order)
        operands = (first, second, convolution, third)
        room = call.workspace_bytes - call.own_bytes
        for found in self._algorithms(direction, operands):
            if found.memory > room or found.status or found.determinism != DETERMINISTIC:
                continue
            if self._math(call) != FMA_MATH:
                self._ask("cudnnSetConvolutionMathType", convolution, found.math)
            size = self._workspace(direction, operands, found.algorithm)
            if size is not None and size <= room:
                break
        else:
            return None
        factors = [np.array([factor], _sums(call.dtype)) for factor in (1, 0)]
        self.kept += factors
        alpha, beta = map(address_of, factors)
        x, y, z = (_at(call.places[name]) for name in direction.order)
        run: list[Argument] = [self._handle, alpha, first, x, second, y, convolution, found.algorithm]
        run += [At(WORKSPACE, call.own_bytes), room, beta, third, z]
        calls: list[tuple[int, Sequence[Argument]]] = [
            (self.address("cudnnSetStream"), [self._handle, At(STREAM)]),
            (self.address(f"cudnnConvolution{direction.name}"), run),
        ]
        return plan_of(calls)

    def _tensor(self, call: LibraryConvolution, name: str) -> int:
        tensor = call.images if name == IMAGES else call.result
        descriptor, (count, sizes) = self._new("Tensor"), _counted(tensor.sizes)
        of = DATA_TYPES[call.dtype]
        self._ask("cudnnSetTensorNdDescriptor", descriptor, of, count, sizes, _numbers(tensor.strides))
        return descriptor

    def _convolution(self, call: LibraryConvolution) -> int:
        descriptor, (count, padding) = self._new("Convolution"), _counted(call.padding)
        space = (padding, _numbers(call.strides), _numbers(call.dilation))
        sums = DATA_TYPES[_sums(call.dtype)]
        self._ask("cudnnSetConvolutionNdDescriptor", descriptor, count, *space, CROSS_CORRELATION, sums)
        self._ask("cudnnSetConvolutionGroupCount", descriptor, call.groups)
        self._ask("cudnnSetConvolutionMathType", descriptor, self._math(call))
        return descriptor

    @staticmethod
    def _math(call: LibraryConvolution) -> int:
        """Of f32, the default one rounds to TF32."""
        if call.dtype.itemsize == 2:
            return TENSOR_OP_MATH
        return DEFAULT_MATH if call.tf32 or call.dtype.itemsize == 8 else FMA_MATH

    def _algorithms(self, direction: Direction, operands: Sequence[int]) -> Iterator[Performance]:
        """Those that may compute it, the fastest first, as the library estimates."""
        found, count = (Performance * ASKED)(), ctypes.c_int32()
        name = f"cudnnGetConvolution{direction.name}Algorithm_v7"
        self._ask(name, self._handle, *operands, ASKED, ctypes.byref(count), ctypes.byref(found))
        return (each for each in found[: count.value] if each.algorithm in direction.algorithms)

    def _workspace(self, direction: Direction, operands: Sequence[int], algorithm: int) -> int | None:
        """Bytes that an algorithm needs; None: it does not compute that."""
        size = ctypes.c_size_t()
        name = f"cudnnGetConvolution{direction.name}WorkspaceSize"
        try:
            self._ask(name, self._handle, *operands, algorithm, ctypes.byref(size))
        except _RefusedError:
            return None
        return size.value

    def _new(self, kind: str) -> int:
        place = ctypes.c_void_p()
        self.library.call(f"cudnnCreate{kind}Descriptor", ctypes.byref(place))
        return self.own(f"cudnnDestroy{kind}Descriptor", place.value or 0)

    def _ask(self, name: str, *arguments: Any) -> None:
        """Call a function that may refuse. Raises _RefusedError."""
        status = self.library.status(name, *arguments)
        if _is_refusal(status):
            raise _RefusedError
        if status:
            raise self.library.failure(status, name)


def _sums(dtype: np.dtype) -> np.dtype:
    return ELEMENT_TYPES["f64"] if dtype.itemsize == 8 else ELEMENT_TYPES["f32"]


def _numbers(numbers: Sequence[int]) -> Any:
    return (ctypes.c_int32 * len(numbers))(*numbers)


def _counted(numbers: Sequence[int]) -> tuple[int, Any]:
    """How many, and the numbers."""
    return len(numbers), _numbers(numbers)


def _at(place: Place) -> At:
    return At(WORKSPACE, place.offset) if place.pointer == IN_WORKSPACE else pointer(place.pointer, place.offset)
