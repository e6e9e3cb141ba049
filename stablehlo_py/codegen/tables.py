"""Read-only tables of numbers that generated code reads: globals of the llvm dialect."""

from __future__ import annotations

import numpy as np

from stablehlo_py.codegen.builder import ScalarType

_NUMPY = {"f32": "<f4", "f64": "<f8", "i32": "<i4", "i64": "<i8"}


def constant_table(name: str, numbers: np.ndarray, element: ScalarType) -> str:
    """The text of a private global `name` that holds the numbers, row-major, aligned to 64 bytes. `Function.address_of`
    gives its address in any function of the same kernel."""
    data = np.ascontiguousarray(numbers, _NUMPY[element.text])
    body = f'dense<"0x{data.tobytes().hex().upper()}"> : tensor<{data.size}x{element.text}>'
    attributes = "{addr_space = 0 : i32, alignment = 64 : i64}"
    return f"llvm.mlir.global private constant @{name}({body}) {attributes} : !llvm.array<{data.size} x {element.text}>"
