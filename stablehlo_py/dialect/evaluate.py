"""hlo ops evaluated on NumPy arrays: what constant folding computes with, and what tests compare against.

What an op makes of arrays is in its record (`dialect.ops`); `elements` says how its arithmetic is done. The small
floats compute in f32 and round once, as kernels do, which is exact for one add, multiply, divide or square root;
reductions of those of eight bits and less round only the result. Whole functions, loops included, are run by
`interpret`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from stablehlo_py.dialect.ops import record_of
from stablehlo_py.dialect.ops.reduction import Body
from stablehlo_py.dialect.types import user_location
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir

Array = np.ndarray


def can_evaluate(name: str) -> bool:
    """True when `evaluate_op` knows the op."""
    record = record_of(name)
    return record is not None and (record.function is not None or record.value is not None)


def elementwise(name: str, *operands: Array) -> Array:
    """The result of an elementwise op without attributes. Floats of eight bits and less are computed in f32 and
    rounded once; sub-byte integers wrap."""
    record = record_of(name)
    assert record is not None and record.function is not None, name
    return record.function(*operands)


def evaluate_op(op: ir.Operation, operands: Sequence[Array], body: Callable[[int], Body] | None = None) -> list[Array]:
    """The results of one op on arrays of its operands' shapes and dtypes; `body(n)` is its n-th region as a function of
    arrays of lanes. Results may be views of operands.

    Raises:
        UnsupportedError: the op has no evaluation, or a sort has long rows.
    """
    name = op.name
    record = record_of(name)
    with np.errstate(all="ignore"):
        if record is not None and record.function is not None:
            return [np.asarray(record.function(*operands))]
        if record is not None and record.value is not None:
            return [np.asarray(record.value(op, *operands))]
        if record is not None and record.region_value is not None and body is not None:
            return [np.asarray(result) for result in record.region_value(op, list(operands), body)]
    raise UnsupportedError(f"{name} cannot be interpreted", location=user_location(op.location), op=name)
