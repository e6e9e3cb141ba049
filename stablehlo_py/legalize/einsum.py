"""einsum and unary_einsum, ops from before version 1.0, expanded into diagonals, sums, one product and a transpose."""

from __future__ import annotations

import string

from stablehlo_py.dialect import build
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import element_type, is_bool, rank, shape, text
from stablehlo_py.legalize.contraction import dot
from stablehlo_py.legalize.rules import Unsupported, rule
from stablehlo_py.mlir import ir


def _sum(operand: ir.Value, away: list[int]) -> ir.Value:
    """The sum over some dimensions; of booleans the disjunction."""
    element = element_type(operand)
    zero = build.splat(0, build.tensor([], element))
    return build.made("reduce", operand, zero, kind="or" if is_bool(element) else "add", dimensions=away)


def _diagonals(operand: ir.Value, labels: str) -> tuple[ir.Value, str]:
    """One dimension for every label: of dimensions with one label the elements whose indices are equal."""
    number = ir.IntegerType.get_signless(64)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first, again = labels.index(label), labels.rindex(label)
            sizes = shape(operand)
            rows, columns = (
                build.value("iota", build.tensor(sizes, number), dimension=place) for place in (first, again)
            )
            equal = build.compare(rows, columns, "EQ")
            diagonal = build.value("select", operand.type, equal, operand, build.splat(0, operand.type))
            operand = _sum(diagonal, [again])
            labels = labels[:again] + labels[again + 1 :]
    return operand, labels


def _sum_out(operand: ir.Value, labels: str, keep: set[str]) -> tuple[ir.Value, str]:
    """Sum over the dimensions whose label is not in `keep`."""
    away = [i for i, label in enumerate(labels) if label not in keep]
    return (_sum(operand, away) if away else operand), "".join(label for label in labels if label in keep)


def _equation(op: ir.OpView) -> tuple[list[str], str]:
    """Labels of every operand and of the result. An ellipsis becomes labels: of every operand the last ones of the
    longest ellipsis."""
    equation = text(op, "einsum_config").replace(" ", "")
    sources, arrow, target = equation.partition("->")
    labels = sources.split(",")
    if len(labels) != len(op.operands) or not arrow:
        raise Unsupported(f"has the equation {equation!r}", "write one list of labels for every operand, and '->'")
    widths = [
        rank(operand) - len(each.replace("...", "")) if "..." in each else 0
        for operand, each in zip(op.operands, labels, strict=True)
    ]
    unused = "".join(letter for letter in string.ascii_letters if letter not in equation)[: max(widths)]
    labels = [each.replace("...", unused[len(unused) - width :]) for each, width in zip(labels, widths, strict=True)]
    target = target.replace("...", unused)
    ranks = [rank(operand) for operand in op.operands]
    well_formed = [len(each) for each in labels] == ranks and len(set(target)) == len(target)
    if not well_formed or not set(target) <= set("".join(labels)):
        raise Unsupported(
            f"has the equation {equation!r}", "write one label for every dimension, and no label twice in the result"
        )
    _check_sizes(equation, op, [*labels, target])
    return labels, target


def _check_sizes(equation: str, op: ir.OpView, labels: list[str]) -> None:
    """One label, one size: upstream's verifier does not look."""
    sizes: dict[str, IntLike] = {}
    for value, each in zip((*op.operands, op.results[0]), labels, strict=True):
        for label, size in zip(each, shape(value), strict=True):
            if sizes.setdefault(label, size) != size:
                raise Unsupported(f"has the equation {equation!r}, and {label} is {sizes[label]} and {size}")


@rule("stablehlo.einsum")
def einsum(op: ir.OpView) -> ir.Value:
    """Labels in both operands and the result are batch dimensions, in both operands only are contracted."""
    labels, target = _equation(op)
    (lhs, left), (rhs, right) = (_diagonals(operand, each) for operand, each in zip(op.operands, labels, strict=True))
    lhs, left = _sum_out(lhs, left, set(right) | set(target))
    rhs, right = _sum_out(rhs, right, set(left) | set(target))
    batch = [label for label in left if label in right and label in target]
    contract = [label for label in left if label in right and label not in target]
    free = [label for label in left if label not in right] + [label for label in right if label not in left]
    dimensions = [([side.index(label) for label in group]) for group in (batch, contract) for side in (left, right)]
    product = dot(lhs, rhs, element_type(op.results[0]), (dimensions[0], dimensions[1]), (dimensions[2], dimensions[3]))
    order = batch + free
    return build.transpose(product, [order.index(label) for label in target])


@rule("stablehlo.unary_einsum")
def unary_einsum(op: ir.OpView) -> ir.Value:
    """A sum over the labels that go away, then a transpose."""
    (labels,), target = _equation(op)
    operand, labels = _diagonals(op.operands[0], labels)
    summed, labels = _sum_out(operand, labels, set(target))
    return build.transpose(summed, [labels.index(label) for label in target])
