"""Strided views: what reshapes, transposes, slices and broadcasts make of memory, and what they make of a result on
its way out (dialect/index_map.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stablehlo_py.codegen.types import Element, element
from stablehlo_py.dialect.formats import FORMATS
from stablehlo_py.dialect.index_map import VIEW_OPS, Digits, Layout, digits_of, merge_digits, regroup_digits, view
from stablehlo_py.dialect.ops import record_of
from stablehlo_py.dialect.types import i64s, shape, symints
from stablehlo_py.mlir import ir


@dataclass(frozen=True)
class View:
    """A fusion input and where the elements of a view of it lie; `element`: as it is stored; `rounded`: what its
    numbers are rounded to, if they are."""

    argument: int
    layout: Layout
    element: Element
    rounded: Element | None = None


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


def view_of(value: ir.Value, accumulator: Element, *, rounds: bool = False) -> View | None:
    """The view that a chain of shape ops and widening conversions makes of a fusion input; None when it is not one.
    `rounds`: one conversion may also be from the accumulator's type of floats to a narrower one."""
    if isinstance(value, ir.BlockArgument) or not isinstance(value.owner, (ir.Operation, ir.OpView)):
        argument = ir.BlockArgument(value)
        return View(argument.arg_number, Layout.dense(shape(value)), element(value))
    op = value.owner.operation
    name = op.name.removeprefix("hlo.")
    inner = view_of(op.operands[0], accumulator, rounds=rounds) if name in VIEW_OPS or name == "convert" else None
    if inner is None:
        return None
    if name == "convert":
        of = element(value)
        if rounds and inner.element == accumulator and not inner.rounded and _widens(of, accumulator, accumulator):
            return replace(inner, rounded=of)
        return inner if not inner.rounded and _widens(inner.element, of, accumulator) else None
    layout = view(inner.layout, name, {key: symints(op, key) for key in VIEW_OPS[name]}, shape(value))
    return None if layout is None else replace(inner, layout=layout)


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
