"""Building helpers for hlo ops, by `ir.Operation.create` (2 us an op; the generated classes take 15).

Every function takes the insertion point and location from the surrounding `with` (as the bindings do) and returns the
result value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stablehlo_py.dialect.constants import from_numpy
from stablehlo_py.dialect.size import IntLike, is_known
from stablehlo_py.dialect.size_text import sizes_text
from stablehlo_py.dialect.types import DYNAMIC, element_type, shape
from stablehlo_py.mlir import ir


def tensor(sizes: Sequence[IntLike], element: ir.Type) -> ir.RankedTensorType:
    """The type `tensor<sizes x element>`; Sizes among the sizes become its encoding."""
    if is_known(*sizes):
        return ir.RankedTensorType.get(list(sizes), element)
    known = [size if is_known(size) else DYNAMIC for size in sizes]
    return ir.RankedTensorType.get(known, element, ir.StringAttr.get(sizes_text(sizes)))


def attribute(value: bool | int | str | Sequence[IntLike] | ir.Attribute) -> ir.Attribute:
    """The house form of an attribute: bool, i64, string, or `array<i64>` (text where it holds Sizes)."""
    if isinstance(value, ir.Attribute):
        return value
    if isinstance(value, bool):
        return ir.BoolAttr.get(value)
    if isinstance(value, int):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
    if isinstance(value, str):
        return ir.StringAttr.get(value)
    numbers = list(value)
    return ir.DenseI64ArrayAttr.get(numbers) if is_known(*numbers) else ir.StringAttr.get(sizes_text(numbers))


def op(
    name: str,
    results: Sequence[ir.Type],
    operands: Sequence[ir.Value],
    attributes: Mapping[str, bool | int | str | Sequence[IntLike] | ir.Attribute] | None = None,
    *,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
    regions: int = 0,
) -> ir.Operation:
    """Create any op; attribute values may be plain Python values."""
    converted = {key: attribute(value) for key, value in (attributes or {}).items()}
    return ir.Operation.create(
        name, results=list(results), operands=list(operands), attributes=converted, regions=regions, loc=loc, ip=ip
    )


def value(
    name: str, result: ir.Type, *operands: ir.Value, **attributes: bool | int | str | Sequence[IntLike] | ir.Attribute
) -> ir.Value:
    """Create `hlo.<name>` with one result and return it: `value("slice", type, x, start=..., limit=...,
    strides=...)`."""
    return op(f"hlo.{name}", [result], operands, attributes).result


def like(name: str, *operands: ir.Value, **attributes: bool | int | str | Sequence[IntLike] | ir.Attribute) -> ir.Value:
    """An op whose result has the first operand's type: `like("add", x, y)`."""
    return value(name, operands[0].type, *operands, **attributes)


def constant(array: np.ndarray | np.generic, element: ir.Type) -> ir.Value:
    """`hlo.constant` from a NumPy array (ml_dtypes included)."""
    array = np.asarray(array)
    return value("constant", tensor(array.shape, element), value=from_numpy(array, element))


def broadcast(operand: ir.Value, sizes: Sequence[IntLike], dimensions: Sequence[int]) -> ir.Value:
    """`hlo.broadcast`; returns the operand itself when nothing changes."""
    if tuple(sizes) == shape(operand):
        return operand
    return value("broadcast", tensor(sizes, element_type(operand)), operand, dimensions=list(dimensions))


def splat(number: float | int | bool | complex, type_: ir.RankedTensorType) -> ir.Value:
    """A scalar constant broadcast to a tensor type (the normal form of a splat)."""
    from stablehlo_py.dialect.constants import numpy_dtype

    scalar = constant(np.asarray(number).astype(numpy_dtype(type_.element_type)), type_.element_type)
    return broadcast(scalar, shape(type_), [])


def reshape(operand: ir.Value, sizes: Sequence[IntLike]) -> ir.Value:
    """`hlo.reshape`; returns the operand itself when nothing changes."""
    if tuple(sizes) == shape(operand):
        return operand
    return value("reshape", tensor(sizes, element_type(operand)), operand)


def transpose(operand: ir.Value, permutation: Sequence[int]) -> ir.Value:
    """`hlo.transpose`; returns the operand itself for the identity."""
    if list(permutation) == list(range(len(permutation))):
        return operand
    sizes = shape(operand)
    result = tensor([sizes[dimension] for dimension in permutation], element_type(operand))
    return value("transpose", result, operand, permutation=list(permutation))
