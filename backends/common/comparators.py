"""What order the comparator of a sort is, where that can be proven: unsigned integers that compare as it says.

A comparator is known that compares one expression of each side by LT or GT, or several of them, the next one where the
one before is EQ:

    or(compare(X0, Y0, LT), and(compare(X0, Y0, EQ), compare(X1, Y1, GT) ...))

Y is X with the right side's elements instead of the left side's. Floats that are not compared in total order have no
place for NaN, so any will do: they come last, as the greatest, and the zeros are equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stablehlo_py.codegen.arith import sortable
from stablehlo_py.codegen.builder import I8, Function, ScalarType, Value
from stablehlo_py.codegen.region import combiner
from stablehlo_py.codegen.types import Element, Lanes, element, from_bits, to_bits
from stablehlo_py.dialect.comparator import mirrored
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.types import text
from stablehlo_py.mlir import ir

IEEE = frozenset(("bf16", "f16", "f32", "f64"))  # floats whose bits, but for the sign, are in order


@dataclass(frozen=True)
class Key:
    """One expression of a comparator: its value for the left side, in the body; its element type; whether greater ones
    come first; whether floats are in total order."""

    value: ir.Value
    of: Element
    descending: bool
    total_order: bool

    @property
    def bits(self) -> int:
        """Of the unsigned integer."""
        return self.of.bits


def sort_keys(op: ir.OpView) -> list[Key] | None:
    """The keys of a sort's comparator, most significant first; None where it is no known order."""
    *_, terminator = op.regions[0].blocks[0].operations
    return _keys(terminator.operands[0])


def _keys(value: ir.Value) -> list[Key] | None:
    compared = _compared(value, ("LT", "GT"))
    if compared is not None:
        return [compared]
    for less, equal_and_rest in _commuted(value, "hlo.or"):
        first = _compared(less, ("LT", "GT"))
        for equal, rest in _commuted(equal_and_rest, "hlo.and"):
            same = _compared(equal, ("EQ",))
            if first is None or same is None or (same.value, same.total_order) != (first.value, first.total_order):
                continue
            further = _keys(rest)
            if further is not None:
                return [first, *further]
    return None


def _commuted(value: ir.Value, name: str) -> list[tuple[ir.Value, ir.Value]]:
    """The operands of an op of this name, both ways round."""
    op = value.owner
    if isinstance(op, ir.Block) or op.name != name:
        return []
    a, b = op.operands
    return [(a, b), (b, a)]


def _compared(value: ir.Value, directions: Sequence[str]) -> Key | None:
    """What a comparison by one of these compares, where that is the same of both sides."""
    op = value.owner
    if isinstance(op, ir.Block) or op.name != "hlo.compare" or text(op, "direction") not in directions:
        return None
    a, b = op.operands
    of = element(a)
    if of.is_complex or (of.is_float and of.name not in IEEE):
        return None
    greater, total_order = text(op, "direction") == "GT", "total_order" in op.attributes
    if mirrored(a, b):
        return Key(a, of, greater, total_order)
    return Key(b, of, not greater, total_order) if mirrored(b, a) else None


def compared_operands(op: ir.OpView) -> set[int]:
    """The operands that the comparator of a sort reads."""
    return {argument.arg_number // 2 for argument in op.regions[0].blocks[0].arguments if list(argument.uses)}


def restored_operand(key: Key) -> tuple[int, frozenset[str]] | None:
    """The operand whose elements a key gives back (`restored`), and those of its values of which only one comes back:
    "zero" (both zeros are one key), "nan" (all NaN are). None where a key is no element, but computed."""
    value, classes = key.value, set[str]()
    while not isinstance(value.owner, ir.Block):
        one = _replaced(value)
        if one is None:
            return None
        kind, value = one
        classes.add(kind)
    if key.of.is_float and not key.total_order:
        classes = {"zero", "nan"}
    return ir.BlockArgument(value).arg_number // 2, frozenset(classes)


def _replaced(value: ir.Value) -> tuple[str, ir.Value] | None:
    """Of a selection that puts one zero or NaN in place of all: which, and what takes the place of others."""
    if value.owner.name != "hlo.select":
        return None
    condition, one, others = value.owner.operands
    test = condition.owner
    if isinstance(test, ir.Block) or test.name != "hlo.compare" or "total_order" in test.attributes:
        return None
    argument = others
    while not isinstance(argument.owner, ir.Block):
        if argument.owner.name != "hlo.select":
            return None
        argument = argument.owner.operands[2]
    tested, against = test.operands
    number, direction = _number(one), text(test, "direction")
    if number is None or tested != argument:
        return None
    if direction == "EQ" and number == 0 and _number(against) == 0:
        return "zero", others
    if direction == "NE" and math.isnan(number) and against == argument:
        return "nan", others
    return None


def _number(value: ir.Value) -> float | None:
    """Of a constant float."""
    if isinstance(value.owner, ir.Block) or value.owner.name != "hlo.constant" or not element(value).is_float:
        return None
    return float(constant_value(value.owner.opview).reshape(-1)[0])


def key_values(f: Function, op: ir.OpView, keys: Sequence[Key], record: Sequence[Lanes]) -> list[Value]:
    """The keys of a record of the sort's operands: unsigned integers, each as wide as its element type, at least 8
    bits."""
    both_sides = [each for each in record for _ in range(2)]
    found = combiner(f, op, results=[key.value for key in keys])(both_sides)
    return [_ordered(f, key, value) for key, value in zip(keys, found, strict=True)]


def _ordered(f: Function, key: Key, value: Lanes) -> Value:
    if key.of.is_float and not key.total_order:
        assert isinstance(value, Value)
        zero, nan = (f.const(number, value.type) for number in (0.0, math.nan))
        value = f.select(f.cmp("oeq", value, zero), zero, f.select(f.cmp("uno", value, value), nan, value))
    return ordered(f, key.of, value, descending=key.descending)


def precedes(f: Function, a: Sequence[Value], b: Sequence[Value]) -> Value:
    """Whether the keys of one record come before those of another."""
    *first, (x, y) = zip(a, b, strict=True)
    found = f.cmp("ult", x, y)
    for x, y in reversed(first):
        found = f.binary("or", f.cmp("ult", x, y), f.binary("and", f.cmp("eq", x, y), found))
    return found


def ordered(f: Function, of: Element, value: Lanes, *, descending: bool) -> Value:
    """An unsigned integer, of at least 8 bits, that compares as a value of an element type does, floats in total
    order."""
    assert isinstance(value, Value)
    bits = to_bits(f, of, value)
    if of.is_float:
        bits = sortable(f, bits)
    if not of.unsigned:
        bits = f.binary("xor", bits, f.const(1 << (of.bits - 1), bits.type))
    if descending:
        bits = f.binary("xor", bits, f.const(-1, bits.type))
    return f.cast("zext", bits, I8) if of.bits < 8 else bits


def restored(f: Function, key: Key, integer: Value) -> Lanes:
    """The elements whose keys these integers are."""
    return unordered(f, key.of, integer, descending=key.descending)


def unordered(f: Function, of: Element, integer: Value, *, descending: bool) -> Lanes:
    """The inverse of `ordered`."""
    bits = f.cast("trunc", integer, ScalarType(f"i{of.bits}", of.bits))
    if descending:
        bits = f.binary("xor", bits, f.const(-1, bits.type))
    if not of.unsigned:
        bits = f.binary("xor", bits, f.const(1 << (of.bits - 1), bits.type))
    return from_bits(f, of, sortable(f, bits) if of.is_float else bits)
