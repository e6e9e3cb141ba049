"""Reductions over a short last dimension of what is repeated run over the dimension before it.

    %0 = hlo.broadcast %a {[0, 2]}       (%a: [m, 3])      %0 = hlo.broadcast %a {[0, 1]}
    %1 = hlo.broadcast %b {[1, 2]}       (%b: [n, 3])      %1 = hlo.broadcast (hlo.transpose %b) {[1, 2]}
    %2 = hlo.subtract %0, %1             [m, n, 3]         %2 = hlo.subtract %0, %1             [m, 3, n]
    %3 = hlo.reduce (%2 * %2) {[2]}                        %3 = hlo.reduce (%2 * %2) {[1]}

So distances between points are written. Neighbours in memory are then the numbers of one sum, too few for a vector, and
the next sum begins some numbers further on. With the dimensions exchanged a vector holds as many sums, and the next one
of %b. What is transposed is one of the small tensors that are repeated; the large one is in no memory.

A sum adds up the same numbers in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect.build import tensor
from stablehlo_py.dialect.constants import splat
from stablehlo_py.dialect.ops import Work, record_of
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.dialect.types import element_type, i64s, num_elements, shape, text
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RulePass, RuleSet, defining

REDUCTIONS = RuleSet("move-short-reductions")
_MOST_SUMMED = 24  # numbers of a sum: longer ones fill vectors
_LEAST_SUMS = 8  # side by side, and times that a number is repeated
_MOST_OPS = 16


@dataclass(frozen=True)
class MoveShortReductions(RulePass):
    """Exchanges the last two dimensions of what reductions read, where it is computed from smaller tensors."""

    name: ClassVar[str] = "move-short-reductions"
    sweeps: ClassVar[bool] = False
    table: ClassVar[RuleSet] = REDUCTIONS


@REDUCTIONS.rule("hlo.reduce", where="over a short last dimension; x is elementwise work on repeated tensors")
def short_reduction(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "reduce(x, last) -> reduce(x with the last two dimensions exchanged, the one before)"
    x, init = op.operands
    sizes = shape(x)
    last = len(sizes) - 1
    if list(i64s(op, "dimensions")) != [last] or last < 2 or not is_known(*sizes):
        return None
    if not 1 < sizes[last] <= _MOST_SUMMED or sizes[last - 1] < _LEAST_SUMS:
        return None
    ops = _work_of(x)
    if ops is None:
        return None
    exchanged = _Exchange(rewriter, sizes).values(ops)[x]
    return rewriter.made("reduce", exchanged, init, kind=text(op, "kind"), dimensions=[last - 1])


def _work_of(x: ir.Value) -> list[ir.Operation] | None:
    """The ops that compute a value from smaller tensors, each behind those that it reads; None: there are others, or
    somebody else reads what they compute, or there is nothing to exchange."""
    found: dict[ir.Operation, None] = {}
    if not _find(x, found, set()):
        return None
    last = x.type.rank - 1
    if any(use.owner.operation not in found for op in found if op.result != x for use in op.result.uses):
        return None
    is_turned = any(_is_repeated(op) and {last - 1, last} <= set(i64s(op, "dimensions")) for op in found)
    return list(found) if is_turned else None


def _find(value: ir.Value, found: dict[ir.Operation, None], seen: set[ir.Operation]) -> bool:
    """Whether a value is computed so; the ops are noted."""
    op = defining(value)
    if op is None or op in seen:
        return op is not None
    seen.add(op)
    is_repeated = _is_repeated(op)
    if len(seen) > _MOST_OPS or not (is_repeated or _is_elementwise(op)):
        return False
    if not is_repeated and not all(_find(operand, found, seen) for operand in op.operands):
        return False
    found[op] = None
    return True


def _is_repeated(op: ir.Operation) -> bool:
    if op.name != "hlo.broadcast":
        return False
    return splat(op.result) is not None or num_elements(op.operands[0]) * _LEAST_SUMS <= num_elements(op.result)


def _is_elementwise(op: ir.Operation) -> bool:
    record = record_of(op.name)
    return (
        record is not None
        and record.work is Work.ELEMENTS
        and len(op.results) == 1
        and len(op.operands) > 0
        and all(shape(operand) == shape(op.result) for operand in op.operands)
    )


@dataclass
class _Exchange:
    """Makes values of some sizes with their last two dimensions exchanged."""

    rewriter: Rewriter
    sizes: tuple[IntLike, ...]

    def values(self, ops: list[ir.Operation]) -> dict[ir.Value, ir.Value]:
        """Of ops, by what they were."""
        made: dict[ir.Value, ir.Value] = {}
        *outer, before, last = self.sizes
        sizes = [*outer, last, before]
        for op in ops:
            if op.name == "hlo.broadcast":
                made[op.result] = self._repeated(op, sizes)
            else:
                result = tensor(sizes, element_type(op.result))
                made[op.result] = self.rewriter.again(op, [made[operand] for operand in op.operands], result)
        return made

    def _repeated(self, op: ir.Operation, sizes: list[IntLike]) -> ir.Value:
        last = len(sizes) - 1
        places = [{last: last - 1, last - 1: last}.get(place, place) for place in i64s(op, "dimensions")]
        order = sorted(range(len(places)), key=places.__getitem__)
        return self.rewriter.broadcast(self.rewriter.transpose(op.operands[0], order), sizes, sorted(places))
