"""Read-only tables of numbers that generated code reads. `Function.address_of` gives their addresses in any function of
the same kernel."""

from __future__ import annotations

import numpy as np

from stablehlo_py.codegen.emitter import Emitter
from stablehlo_py.codegen.emitters.llvm import LlvmEmitter
from stablehlo_py.codegen.values import ScalarType

_NUMPY = {"f32": "f4", "f64": "f8", "i16": "i2", "i32": "i4", "i64": "i8"}


def constant_table(
    name: str, numbers: np.ndarray, element: ScalarType, emitter: Emitter | type[Emitter] = LlvmEmitter
) -> str:
    """The text of a private table `name` that holds the numbers, row-major, aligned to 64 bytes."""
    return emitter.table(name, np.ascontiguousarray(numbers, _NUMPY[element.text]).reshape(-1), element)


def table_among(
    tables: dict[str, str], name: str, numbers: np.ndarray, element: ScalarType, emitter: Emitter | type[Emitter]
) -> str:
    """The name of a table with these numbers among those of a kernel: of one that is there, or of a new one."""
    text = constant_table(name, numbers, element, emitter)
    _, named, content = text.partition(name)  # languages may spell names their own way: there, tables stay as they are
    known = next((known for known, other in tables.items() if named and other.partition(known)[2] == content), None)
    if known is None:
        tables[name] = text
    return known or name
