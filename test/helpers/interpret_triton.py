"""Run a kernel's source by Triton's interpreter:

    python interpret_triton.py SOURCE SYMBOL BLOCKS ARRAYS.npz RESULTS.npz

The arrays are named in0:fp32 and so on, by Triton's names of types; those of bf16 hold its bits."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import ml_dtypes
import numpy as np
import triton.language as tl
from triton.runtime import interpreter


class Builder(interpreter.InterpreterBuilder):
    """Triton's own multiplies the bits of bf16 as whole numbers, and rounds to it towards zero: machines round to
    nearest even, which is what `cvt.rn` says."""

    def create_dot(self, a: Any, b: Any, d: Any, *others: Any) -> Any:
        a, b = (self.create_fp_ext(each, tl.float32) if each.dtype == tl.bfloat16 else each for each in (a, b))
        return super().create_dot(a, b, d, *others)

    def create_fp_trunc(self, source: Any, of: Any) -> Any:
        if of.scalar != tl.bfloat16:
            return super().create_fp_trunc(source, of)
        return interpreter.TensorHandle(source.data.astype(ml_dtypes.bfloat16).view(np.uint16), tl.bfloat16)


interpreter.interpreter_builder.__class__ = Builder


class Reduction(interpreter.ReduceOps):
    """Triton's own combines by functions in Python element by element, which takes minutes: `larger` is a maximum that
    is NaN where one of its elements is."""

    def apply_impl(self, values: Any) -> Any:
        if getattr(getattr(self.combine_fn, "fn", None), "__name__", "") == "larger":
            return self.min_max(values[0], val_reduce_op=np.max, idx_reduce_op=None)
        return super().apply_impl(values)


interpreter.ReduceOps = Reduction


class Tensor:
    """As much of a tensor as the interpreter asks for."""

    def __init__(self, array: np.ndarray, dtype: str) -> None:
        self.array, self.dtype = array, dtype

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def untyped_storage(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def new_empty(self, *size: Any, device: str) -> Tensor:
        return Tensor(self.array, self.dtype)

    def set_(self, storage: Tensor, *place: Any) -> None:
        self.array = storage.array

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        return self.array.shape

    def stride(self) -> tuple[int, ...]:
        return self.array.strides

    def copy_(self, other: Tensor) -> None:
        assert other.array is self.array


def main(source: str, symbol: str, blocks: str, arrays: str, results: str) -> None:
    spec = importlib.util.spec_from_file_location("kernel", source)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = {name: np.array(array, order="C") for name, array in np.load(arrays).items()}
    tensors = [Tensor(array, name.split(":")[1]) for name, array in found.items()]
    getattr(module, symbol)[(int(blocks),)](*tensors)
    np.savez(results, **{name: array for name, array in found.items() if name.startswith("out")})


if __name__ == "__main__":
    main(*sys.argv[1:])
