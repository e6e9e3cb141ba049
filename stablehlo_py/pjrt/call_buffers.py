"""What functions of jax.experimental.buffer_callback get: the memory of a call's arguments and results, as it is, and
what they may ask of the call. jaxlib has classes for this that only its own calls can make."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.experimental.buffer_callback import ExecutionStage

from stablehlo_py.runtime.callbacks import Call, arrays_of
from stablehlo_py.runtime.dlpack import exported


class ExecutionContext:
    """Of a call on the host."""

    stage = ExecutionStage.EXECUTE

    @property
    def stream(self) -> int:
        """Raises JaxRuntimeError: the host has no streams."""
        raise jax.errors.JaxRuntimeError("UNIMPLEMENTED: XLA FFI GPU context is not available: this is no GPU")


class Buffer:
    """The memory of an argument or a result, as long as the call."""

    def __init__(self, array: np.ndarray, writeable: bool) -> None:
        self._array = array
        self.shape, self.dtype, self.ndim, self.writeable = array.shape, array.dtype, array.ndim, writeable

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        seen = self._array.view()
        seen.flags.writeable = self.writeable
        return np.array(seen, dtype, copy=copy)

    def __dlpack__(self, **asked: Any) -> object:
        # Capsules of older versions cannot say that memory is only to be read, so NumPy makes none of such arrays.
        says_so = (asked.get("max_version") or (0,)) >= (1,)
        return exported(np.asarray(self) if says_so else self._array, **asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def buffers_of(address: int) -> tuple[list[Buffer], list[Buffer]]:
    """Of the call whose structure is at an address: of its arguments and of its results."""
    operands, results = arrays_of(Call.from_address(address))
    return [Buffer(each, writeable=False) for each in operands], [Buffer(each, writeable=True) for each in results]
