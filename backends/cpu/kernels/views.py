"""Strided views: what reshapes, transposes, slices and broadcasts make of memory, and what they make of a result on
its way out.

A dimension of a view is a list of digits `(size, stride)`, slowest first: a dimension that was merged from two by a
reshape has two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stablehlo_py.codegen.index import row_major_strides
from stablehlo_py.codegen.types import Element, element
from stablehlo_py.dialect.formats import FORMATS
from stablehlo_py.dialect.ops import record_of
from stablehlo_py.dialect.types import i64s, shape
from stablehlo_py.mlir import ir

Digits = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class View:
    """A strided look at a fusion input: element (i, j, ...) lies at offset + the sum of digit * stride. `element`: as
    it is stored."""

    argument: int
    offset: int
    dimensions: tuple[Digits, ...]
    element: Element


def digits_of(sizes: Sequence[int]) -> tuple[Digits, ...]:
    """The digits of a dense row-major tensor."""
    return tuple(
        ((size, stride),) if size != 1 else () for size, stride in zip(sizes, row_major_strides(sizes), strict=True)
    )


def merge_digits(digits: Digits) -> Digits:
    """Neighbouring digits that step evenly become one."""
    result: list[tuple[int, int]] = []
    for size, stride in digits:
        if size == 1:
            continue
        if result and result[-1][1] == stride * size:
            size *= result.pop()[0]
        result.append((size, stride))
    return tuple(result)


def regroup_digits(dimensions: Sequence[Digits], sizes: Sequence[int]) -> tuple[Digits, ...] | None:
    """The digits under another shape; None where a new dimension cuts a digit unevenly."""
    pending = list(merge_digits(tuple(digit for digits in dimensions for digit in digits)))
    result: list[Digits] = []
    for wanted in reversed(sizes):
        taken: list[tuple[int, int]] = []
        # Not an order: what is typically 1 may be more in a call.
        while pending and wanted not in (0, 1):
            size, stride = pending.pop()
            if wanted % size == 0:
                taken.append((size, stride))
                wanted //= size
            elif size % wanted == 0:
                taken.append((wanted, stride))
                pending.append((size // wanted, stride * wanted))
                wanted = 1
            else:
                return None
        if wanted not in (0, 1):
            return None
        result.append(merge_digits(tuple(taken[::-1])))
    return tuple(result[::-1])


def refine(*sides: Digits) -> list[tuple[int, ...]] | None:
    """Common digits of several readings of one dimension: (size, stride of each side ...), slowest first; None if they
    do not fit."""
    stacks = [list(merge_digits(side)) for side in sides]
    result: list[tuple[int, ...]] = []
    while all(stacks):
        size = min(stack[-1][0] for stack in stacks)
        strides = []
        for stack in stacks:
            whole, stride = stack.pop()
            if whole % size:
                return None
            if whole != size:
                stack.append((whole // size, stride * size))
            strides.append(stride)
        result.append((size, *strides))
    return result[::-1]


def _widens(source: Element, target: Element, accumulator: Element) -> bool:
    """Whether a conversion can be left to the load, which converts straight to the accumulator's type."""
    if source.is_complex or target.is_complex or target.kind == "bool":
        return False
    if source.kind == "float":
        return target.is_float and FORMATS[target.name].holds(FORMATS[source.name]) and accumulator.bits >= target.bits
    if target.is_float:
        digits = source.bits - (not source.unsigned)
        exact = FORMATS[target.name].holds_integers(-(1 << digits) if not source.unsigned else 0, (1 << digits) - 1)
        return accumulator.is_float and (exact or accumulator == target) and accumulator.bits >= target.bits
    return target.bits > source.bits and (source.unsigned or not target.unsigned) and accumulator.bits >= target.bits


def view_of(value: ir.Value, accumulator: Element) -> View | None:
    """The view that a chain of shape ops and widening conversions makes of a fusion input; None when it is not one."""
    if isinstance(value, ir.BlockArgument) or not isinstance(value.owner, (ir.Operation, ir.OpView)):
        argument = ir.BlockArgument(value)
        return View(argument.arg_number, 0, digits_of(shape(value)), element(value))
    op = value.owner
    name = op.name if isinstance(op, ir.Operation) else op.operation.name
    if name not in _RULES:
        return None
    inner = view_of(op.operands[0], accumulator)
    return _RULES[name](op, inner, accumulator) if inner else None


def _convert(op: ir.OpView, inner: View, accumulator: Element) -> View | None:
    return inner if _widens(inner.element, element(op.results[0]), accumulator) else None


def _reshape(op: ir.OpView, inner: View, accumulator: Element) -> View | None:
    dimensions = regroup_digits(inner.dimensions, shape(op.results[0]))
    return View(inner.argument, inner.offset, dimensions, inner.element) if dimensions is not None else None


def _transpose(op: ir.OpView, inner: View, accumulator: Element) -> View | None:
    return View(
        inner.argument, inner.offset, tuple(inner.dimensions[d] for d in i64s(op, "permutation")), inner.element
    )


def _broadcast(op: ir.OpView, inner: View, accumulator: Element) -> View | None:
    sizes, mapped = shape(op.results[0]), i64s(op, "dimensions")
    dimensions = [inner.dimensions[mapped.index(d)] if d in mapped else ((size, 0),) for d, size in enumerate(sizes)]
    return View(inner.argument, inner.offset, tuple(dimensions), inner.element)


def _slice(op: ir.OpView, inner: View, accumulator: Element) -> View | None:
    offset, dimensions = inner.offset, []
    limits = zip(i64s(op, "start"), i64s(op, "strides"), shape(op.results[0]), shape(op.operands[0]), strict=True)
    for digits, (start, step, size, whole) in zip(inner.dimensions, limits, strict=True):
        if size == whole and start == 0:
            dimensions.append(digits)
            continue
        if len(digits) > 1:
            return None
        stride = digits[0][1] if digits else 0
        offset += start * stride
        dimensions.append(((size, stride * step),) if size != 1 else ())
    return View(inner.argument, offset, tuple(dimensions), inner.element)


def _reverse(op: ir.OpView, inner: View, accumulator: Element) -> View | None:
    offset, dimensions = inner.offset, list(inner.dimensions)
    for dimension in i64s(op, "dimensions"):
        offset += sum((size - 1) * stride for size, stride in dimensions[dimension])
        dimensions[dimension] = tuple((size, -stride) for size, stride in dimensions[dimension])
    return View(inner.argument, offset, tuple(dimensions), inner.element)


_RULES = {
    "hlo.convert": _convert,
    "hlo.reshape": _reshape,
    "hlo.transpose": _transpose,
    "hlo.broadcast": _broadcast,
    "hlo.slice": _slice,
    "hlo.reverse": _reverse,
}


def is_elementwise(op: ir.OpView) -> bool:
    """Ops whose operands all have the result's shape and that compute element by element."""
    record = record_of(op.operation.name)
    return record is not None and record.elementwise


def output_digits(ops: Sequence[ir.OpView], outputs: Sequence[ir.Value], root: ir.OpView) -> tuple[Digits, ...] | None:
    """Where the elements of `root`'s result go in the outputs: its dimensions as digits over output element numbers.

    None when outputs disagree, or when a path from the root to an output is more than elementwise ops, reshapes and
    transposes.
    """
    depends = {root.results[0]}
    for op in ops:
        if any(operand in depends for operand in op.operands):
            depends.update(op.results)
    known: dict[ir.Value, tuple[Digits, ...]] = {}

    def meet(value: ir.Value, digits: tuple[Digits, ...] | None) -> bool:
        if digits is None:
            return False
        digits = tuple(map(merge_digits, digits))
        return known.setdefault(value, digits) == digits

    sizes = {shape(output) for output in outputs}
    if len(sizes) != 1:
        return None
    for output in outputs:
        if output not in depends or not meet(output, digits_of(shape(output))):
            return None
    for op in reversed(ops):
        result = op.results[0]
        if op == root or result not in depends:
            continue
        if result not in known:
            return None  # reaches no output: dead code, or a use this analysis does not see
        name, operand = op.operation.name, op.operands[0]
        if is_elementwise(op):
            fits = all(meet(each, known[result]) for each in op.operands if each in depends)
        elif name == "hlo.reshape":
            fits = meet(operand, regroup_digits(known[result], shape(operand)))
        elif name == "hlo.transpose":
            order = i64s(op, "permutation")
            back: list[Digits] = [()] * len(order)
            for dimension, source in enumerate(order):
                back[source] = known[result][dimension]
            fits = meet(operand, tuple(back))
        else:
            return None
        if not fits:
            return None
    return known.get(root.results[0])
