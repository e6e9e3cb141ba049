"""A model in a shared library that stablehlo-py wrote, called from Python: ctypes and NumPy, and ml_dtypes where a
tensor is of a type that NumPy has not."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

_ABI = 1
_THREADS_BYTES = 4096
_STATUS = (
    *("no error", "a custom call failed", "the interrupt ended the call", "the library needs a newer loader"),
    *("the workspace is too small", "the dimensions do not fit the model", "the constants are not those of the model"),
    "an address is null",
)
_FAILED, _SIZES, _CONSTANTS = 1, 5, 6
# The element types of shlo_custom_call.h, from 1 on.
_DTYPES = (
    *("bool", "int2", "int4", "int8", "int16", "int32", "int64", "uint2", "uint4", "uint8", "uint16", "uint32"),
    *("uint64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128", "float8_e4m3fn"),
    *("float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz", "float8_e4m3", "float8_e3m4"),
    *("float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"),
)


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("bytes", ctypes.c_int64),
        ("alias", ctypes.c_int64),
    )


class _Symbol(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int64) for name in ("argument", "position", "divisor", "of_shape"))


class _Model(ctypes.Structure):
    """shlo_model of shlo_model.h."""

    _fields_ = (
        ("abi", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        ("name", ctypes.c_char_p),
        ("hash", ctypes.c_char_p),
        ("target", ctypes.c_char_p),
        ("argument_count", ctypes.c_int32),
        ("result_count", ctypes.c_int32),
        ("arguments", ctypes.POINTER(_Tensor)),
        ("results", ctypes.POINTER(_Tensor)),
        ("workspace_bytes", ctypes.c_int64),
        ("workspace_alignment", ctypes.c_int64),
        ("call", ctypes.c_void_p),
        ("table_slots", ctypes.c_int64),
        ("symbol_count", ctypes.c_int64),
        ("symbols", ctypes.POINTER(_Symbol)),
        ("sizes", ctypes.c_void_p),
        ("constant_count", ctypes.c_int64),
        ("constants", ctypes.c_void_p),
        ("threads_start", ctypes.c_void_p),
        ("threads_stop", ctypes.c_void_p),
        ("parallel_for", ctypes.c_void_p),
    )


class _Call(ctypes.Structure):
    """shlo_call of shlo_call.h."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        *(
            (name, ctypes.c_void_p)
            for name in "inputs outputs workspace constants sizes interrupt parallel_for parallel_context".split()
        ),
        ("stream", ctypes.c_void_p),
        ("error", ctypes.c_void_p),
    )


_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_TABLE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_FIND = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
_START = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
_STOP = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Tensor(NamedTuple):
    """An argument or a result: name, shape (None: any size that fits the model), dtype."""

    name: str
    shape: tuple[int | None, ...]
    dtype: np.dtype


class NativeLibrary:
    """A model that is called with NumPy arrays and gives NumPy arrays. Calls are thread-safe.

    Args:
        path: of the shared library. name: of the model in it; None: as the file, without `lib`.
        constants: path of the file of constants, of a library that has one.
        threads: how many the library may start, where it has its own.

    Attributes:
        inputs, outputs: a `Tensor` for each. hash, target: what is in the library, and what for.

    Raises:
        ValueError: the file is no such library, or the file of constants is not its own. OSError: it cannot be loaded.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        name: str | None = None,
        constants: str | os.PathLike[str] | None = None,
        *,
        threads: int = 1,
    ) -> None:
        self._pool: tuple[int, int, np.ndarray] | None = None  # the function, its context, which is memory
        self._free: list[np.ndarray] = []  # workspaces
        file = Path(path).resolve()
        self._library = ctypes.CDLL(str(file))
        name = name or re.sub(r"\W", "_", file.name.partition(".")[0].removeprefix("lib"))
        try:
            self._model = _Model.in_dll(self._library, f"{name}_model")
        except ValueError:
            self._fail("load", f"{file} holds no model '{name}'", "pass its name, and a shared library with models")
        model = self._model
        if model.abi != _ABI:
            self._fail("load", f"{file} was written for version {model.abi} of the interface, this is {_ABI}")
        self.name, self.hash, self.target = name, model.hash.decode(), model.target.decode()
        self._arguments = [model.arguments[number] for number in range(model.argument_count)]
        self._results = [model.results[number] for number in range(model.result_count)]
        self.inputs = [self._described(each) for each in self._arguments]
        self.outputs = [self._described(each) for each in self._results]
        self._entry = _ENTRY(model.call)
        self._constants = self._found_constants(constants) if model.constant_count else None
        if threads > 1 and model.threads_start:
            block = _aligned(_THREADS_BYTES)
            self._pool = (model.parallel_for, block.ctypes.data, block)
            _START(model.threads_start)(self._pool[1], threads)

    def _fail(self, kind: str, reason: str, remedy: str = "") -> NoReturn:
        """Raise the error of a kind: "load", "argument" or "call"."""
        raise ValueError(f"{reason}: {remedy}" if remedy else reason)

    @staticmethod
    def _described(tensor: _Tensor) -> Tensor:
        sizes = tuple(size if size >= 0 else None for size in tensor.shape[: tensor.rank]) if tensor.rank else ()
        name = _DTYPES[tensor.dtype - 1]
        try:
            dtype = np.dtype(name)
        except TypeError:
            import ml_dtypes

            dtype = np.dtype(getattr(ml_dtypes, name))
        return Tensor(tensor.name.decode(), sizes, dtype)

    def _found_constants(self, path: str | os.PathLike[str] | None) -> ctypes.Array[ctypes.c_void_p]:
        if path is None:
            self._fail("load", f"the model '{self.name}' has its constants in a file", "pass constants=PATH")
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            # An empty file cannot be mapped; the mapping lives as long as this object.
            self._file = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else mmap.mmap(-1, 1)
        table = (ctypes.c_void_p * self._model.constant_count)()
        address = np.frombuffer(self._file, np.uint8).ctypes.data
        if _FIND(self._model.constants)(address, size, ctypes.addressof(table)):
            self._fail("load", f"{path} does not hold the constants of the model '{self.name}', or is damaged")
        return table

    def __call__(self, *arrays: object) -> tuple[np.ndarray, ...]:
        """Run. An argument whose memory a result has is copied first.

        Raises:
            ValueError: the arguments do not fit the model, or a custom call failed.
        """
        given = self._checked(arrays)
        table = self._sizes(given)
        outputs: list[np.ndarray] = []
        for tensor, spec in zip(self._results, self.outputs, strict=True):
            if tensor.alias >= 0:
                given[tensor.alias] = given[tensor.alias].copy()
                outputs.append(given[tensor.alias])
            else:
                sizes = tensor.shape[: tensor.rank] if tensor.rank else []
                outputs.append(np.empty([_size(size, table) for size in sizes], spec.dtype))
        needed = _size(self._model.workspace_bytes, table)
        workspace = self._workspace(needed)
        error, sources, places = ctypes.c_void_p(), _addresses(given), _addresses(outputs)
        call = _Call(ctypes.sizeof(_Call), ctypes.addressof(sources), ctypes.addressof(places), workspace.ctypes.data)
        call.error = ctypes.addressof(error)
        if self._constants is not None:
            call.constants = ctypes.addressof(self._constants)
        if table is not None:
            call.sizes = ctypes.addressof(table)
        if self._pool is not None:
            call.parallel_for, call.parallel_context = self._pool[:2]
        status = self._entry(ctypes.addressof(call))
        if status:
            said = _STATUS[status] if status < len(_STATUS) else f"status {status}"
            if status == _FAILED and error.value:
                where, message = _Error.from_address(error.value).where or b"", _Error.from_address(error.value).message
                said = f"{where.decode(errors='replace').partition(chr(10))[0]}: {message.decode(errors='replace')}"
            self._fail("call", said)
        self._free.append(workspace)
        return tuple(outputs)

    def _checked(self, arrays: Sequence[object]) -> list[np.ndarray]:
        if len(arrays) != len(self.inputs):
            self._fail("argument", f"got {len(arrays)} arguments, the model takes {len(self.inputs)}")
        found = []
        for array, spec in zip(arrays, self.inputs, strict=True):
            value = np.asarray(array, None if hasattr(array, "dtype") else spec.dtype)
            if value.dtype != spec.dtype:
                self._fail("argument", f"argument {spec.name} is {value.dtype}, the model wants {spec.dtype}")
            sizes = zip(value.shape, spec.shape, strict=False)
            if value.ndim != len(spec.shape) or any(wanted not in (None, size) for size, wanted in sizes):
                wanted = tuple("?" if size is None else size for size in spec.shape)
                self._fail("argument", f"argument {spec.name} has shape {value.shape}, the model wants {wanted}")
            found.append(np.require(value, requirements=("C", "ALIGNED")))
        return found

    def _sizes(self, arrays: Sequence[np.ndarray]) -> ctypes.Array[ctypes.c_int64] | None:
        model = self._model
        if not model.table_slots:
            return None
        symbols, table = (ctypes.c_int64 * max(1, model.symbol_count))(), (ctypes.c_int64 * model.table_slots)()
        for number in range(model.symbol_count):
            symbol = model.symbols[number]
            array = arrays[symbol.argument]
            value = array.shape[symbol.position] if symbol.of_shape else int(array.flat[symbol.position])
            symbols[number] = value // symbol.divisor
        _TABLE(model.sizes)(ctypes.addressof(symbols), ctypes.addressof(table))
        if table[model.table_slots - 1] != 1:
            shapes = ", ".join(str(array.shape) for array in arrays)
            self._fail("argument", f"arguments of shapes {shapes} do not fit the model")
        return table

    def _workspace(self, size: int) -> np.ndarray:
        """Of a call that has ended, where that is large enough."""
        try:
            found = self._free.pop()
        except IndexError:
            return _aligned(size)
        return found if len(found) >= size else _aligned(size)

    def __del__(self) -> None:
        pool = self.__dict__.get("_pool")
        if pool is not None:
            _STOP(self._model.threads_stop)(pool[1])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}, {len(self.inputs)} -> {len(self.outputs)}, {self.target}>"


class _Error(ctypes.Structure):
    """shlo_error of shlo_call.h."""

    _fields_ = (("where", ctypes.c_char_p), ("message", ctypes.c_char * 1016))


def _size(number: int, table: ctypes.Array[ctypes.c_int64] | None) -> int:
    """A size, which may be a slot of the table."""
    return number if number >= 0 or table is None else table[-1 - number]


def _addresses(arrays: Sequence[np.ndarray]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * max(1, len(arrays)))(*(array.ctypes.data for array in arrays))


def _aligned(size: int) -> np.ndarray:
    """Zeroed memory, at least 64 bytes, aligned to 64."""
    block = np.zeros(max(size, 64) + 64, np.uint8)
    begin = -block.ctypes.data % 64
    return block[begin : begin + max(size, 64)]
