"""Building helpers for hlo ops, by `ir.Operation.create` (2 us an op; the generated classes take 15).

Every function takes the insertion point and location from the surrounding `with` (as the bindings do) and returns the
result value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from stablehlo_py.dialect.constants import from_numpy, numpy_dtype
from stablehlo_py.dialect.ops.record import record_of
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.dialect.symint_text import sizes_text
from stablehlo_py.dialect.types import DYNAMIC, element_type, is_complex, shape
from stablehlo_py.dialect.verify import Conditions
from stablehlo_py.mlir import ir

AttributeValue: TypeAlias = "bool | int | str | Sequence[IntLike] | ir.Attribute"


@dataclass(frozen=True)
class Form:
    """An op as hlo has it, which may be none yet.

    Attributes:
        name: of the hlo op, without the dialect.
        operands: those that it has there.
        attributes: as hlo has them.
    """

    name: str
    operands: list[ir.Value]
    attributes: Mapping[str, ir.Attribute]


def tensor(sizes: Sequence[IntLike], element: ir.Type) -> ir.RankedTensorType:
    """The type `tensor<sizes x element>`; SymInts among the sizes become its encoding."""
    if is_known(*sizes):
        return ir.RankedTensorType.get(list(sizes), element)
    known = [size if is_known(size) else DYNAMIC for size in sizes]
    return ir.RankedTensorType.get(known, element, ir.StringAttr.get(sizes_text(sizes)))


def attribute(value: AttributeValue) -> ir.Attribute:
    """The house form of an attribute: bool, i64, string, or `array<i64>` (text where it holds SymInts)."""
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
    attributes: Mapping[str, AttributeValue] | None = None,
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


class Builder:
    """Makes ops of one dialect, hlo, each by `create`."""

    dialect = "hlo"

    def create(
        self,
        name: str,
        results: Sequence[ir.Type],
        operands: Sequence[ir.Value],
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> ir.Operation:
        """Create any op, by its full name."""
        return op(name, results, operands, attributes)

    def value(self, name: str, result: ir.Type, *operands: ir.Value, **attributes: AttributeValue) -> ir.Value:
        """Create `hlo.<name>` with one result and return it: `value("slice", type, x, start=..., limit=...,
        strides=...)`."""
        return self.create(f"{self.dialect}.{name}", [result], operands, attributes).result

    def like(self, name: str, *operands: ir.Value, **attributes: AttributeValue) -> ir.Value:
        """An op whose result has the first operand's type: `like("add", x, y)`."""
        return self.value(name, operands[0].type, *operands, **attributes)

    def made(
        self, name: str, *operands: ir.Value, element: ir.Type | None = None, **attributes: AttributeValue
    ) -> ir.Value:
        """An op whose result has the shape that its record's rule gives, and elements of the first operand's type, or
        of another one."""
        form = Form(name, list(operands), {key: attribute(each) for key, each in attributes.items()})
        record = record_of(f"hlo.{name}")
        assert record is not None and record.shapes is not None
        (sizes,) = record.shapes(Conditions(), form, *map(shape, operands))
        return self.value(name, tensor(sizes, element or element_type(operands[0])), *operands, **form.attributes)

    def again(
        self,
        op: ir.Operation,
        operands: Sequence[ir.Value],
        result: ir.Type | None = None,
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> ir.Value:
        """An op with a record once more, on other operands; `result` is the type of its result and `attributes` are
        those that differ."""
        record = record_of(op.name)
        assert record is not None
        kept = {name: op.attributes[name] for name in (*record.attributes, *record.options) if name in op.attributes}
        return self.create(op.name, [result or op.result.type], list(operands), kept | dict(attributes or {})).result

    def concatenate(self, operands: Sequence[ir.Value], dimension: int) -> ir.Value:
        """`stablehlo.concatenate`; one operand is returned as it is."""
        if len(operands) == 1:
            return operands[0]
        sizes = list(shape(operands[0]))
        sizes[dimension] = sum(shape(operand)[dimension] for operand in operands)
        result = tensor(sizes, element_type(operands[0]))
        return self.create("stablehlo.concatenate", [result], operands, {"dimension": dimension}).result

    def compare(self, x: ir.Value, y: ir.Value, direction: str, **attributes: AttributeValue) -> ir.Value:
        """`hlo.compare`."""
        return self.value(
            "compare", tensor(shape(x), ir.IntegerType.get_signless(1)), x, y, direction=direction, **attributes
        )

    def constant(self, array: np.ndarray | np.generic, element: ir.Type) -> ir.Value:
        """`hlo.constant` from a NumPy array (ml_dtypes included)."""
        array = np.asarray(array)
        return self.value("constant", tensor(array.shape, element), value=from_numpy(array, element))

    def splat(self, number: float | IntLike | bool | complex, type_: ir.RankedTensorType) -> ir.Value:
        """A scalar constant broadcast to a tensor type (the normal form of a splat)."""
        scalar = self.constant(np.asarray(number).astype(numpy_dtype(type_.element_type)), type_.element_type)
        return self.value("broadcast", type_, scalar, dimensions=[]) if type_.rank else scalar

    def parts(self, operand: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Real and imaginary parts of complex numbers."""
        part = tensor(shape(operand), element_type(operand).element_type)
        return self.value("real", part, operand), self.value("imag", part, operand)

    # These return the operand itself where nothing changes.

    def conjugate(self, operand: ir.Value) -> ir.Value:
        """The complex conjugates; of real numbers the numbers."""
        if not is_complex(element_type(operand)):
            return operand
        real, imaginary = self.parts(operand)
        return self.value("complex", operand.type, real, self.like("negate", imaginary))

    def convert(self, operand: ir.Value, element: ir.Type) -> ir.Value:
        """`hlo.convert` to elements of another type."""
        if element_type(operand) == element:
            return operand
        return self.value("convert", tensor(shape(operand), element), operand)

    def broadcast(self, operand: ir.Value, sizes: Sequence[IntLike], dimensions: Sequence[int]) -> ir.Value:
        """`hlo.broadcast`."""
        if tuple(sizes) == shape(operand):
            return operand
        return self.value("broadcast", tensor(sizes, element_type(operand)), operand, dimensions=list(dimensions))

    def reshape(self, operand: ir.Value, sizes: Sequence[IntLike]) -> ir.Value:
        """`hlo.reshape`."""
        if tuple(sizes) == shape(operand):
            return operand
        return self.value("reshape", tensor(sizes, element_type(operand)), operand)

    def transpose(self, operand: ir.Value, permutation: Sequence[int]) -> ir.Value:
        """`hlo.transpose`."""
        if list(permutation) == list(range(len(permutation))):
            return operand
        sizes = shape(operand)
        type_ = tensor([sizes[dimension] for dimension in permutation], element_type(operand))
        return self.value("transpose", type_, operand, permutation=list(permutation))

    def slice(
        self, operand: ir.Value, start: Sequence[IntLike], limit: Sequence[IntLike], strides: Sequence[IntLike] = ()
    ) -> ir.Value:
        """`hlo.slice`."""
        strides = strides or [1] * len(start)
        edges = zip(start, limit, strides, shape(operand), strict=True)
        if all((first, end) == (0, size) and (step == 1 or size == 1) for first, end, step, size in edges):
            return operand
        return self.made("slice", operand, start=start, limit=limit, strides=strides)

    def row(self, operand: ir.Value, number: int) -> ir.Value:
        """operand[number]."""
        _, *sizes = shape(operand)
        return self.reshape(self.slice(operand, [number, *[0] * len(sizes)], [number + 1, *sizes]), sizes)


class _StableHlo(Builder):
    dialect = "stablehlo"


#: Makes ops of StableHLO, where those have the attributes of hlo's or get them by name.
stablehlo = _StableHlo()
_BUILDER = Builder()
value, like, made, again, constant, splat = (
    _BUILDER.value,
    _BUILDER.like,
    _BUILDER.made,
    _BUILDER.again,
    _BUILDER.constant,
    _BUILDER.splat,
)
broadcast, reshape, transpose = _BUILDER.broadcast, _BUILDER.reshape, _BUILDER.transpose
parts, conjugate = _BUILDER.parts, _BUILDER.conjugate
slice_, row, compare, convert = _BUILDER.slice, _BUILDER.row, _BUILDER.compare, _BUILDER.convert
