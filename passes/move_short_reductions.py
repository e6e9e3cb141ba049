"""Reductions over a short last dimension of what is repeated run over the dimension before it.

    %0 = hlo.broadcast %a {[0, 2]}       (%a: [m, 3])      %0 = hlo.broadcast %a {[0, 1]}
    %1 = hlo.broadcast %b {[1, 2]}       (%b: [n, 3])      %1 = hlo.broadcast (hlo.transpose %b) {[1, 2]}
    %2 = hlo.subtract %0, %1             [m, n, 3]         %2 = hlo.subtract %0, %1             [m, 3, n]
    %3 = hlo.reduce (%2 * %2) {[2]}                        %3 = hlo.reduce (%2 * %2) {[1]}
    %4 = hlo.reduce (%2 * f(%3)) {[1]}                     %4 = hlo.reduce (%2 * f(%3)) {[2]}

So distances between points are written, and forces (%4). Neighbours in memory are then the numbers of one sum, too few
for a vector, and the next sum begins some numbers further on. With the dimensions exchanged a vector holds as many
sums, and the next one of %b. What is transposed is one of the small tensors that are repeated; the large ones are in no
memory, whatever reads them: reductions, and products with a vector, which become reductions.

A sum over the last dimension adds up the same numbers in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from stablehlo_py.dialect.build import tensor
from stablehlo_py.dialect.constants import splat
from stablehlo_py.dialect.ops import Work, record_of
from stablehlo_py.dialect.symint import is_known
from stablehlo_py.dialect.types import element_type, i64s, num_elements, shape, text
from stablehlo_py.mlir import ir
from stablehlo_py.passes.canonicalize_dot import DotNumbers, is_of_sums
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RulePass, RuleSet, defining

REDUCTIONS = RuleSet("move-short-reductions")
_MOST_SUMMED = 24  # numbers of a sum: longer ones fill vectors
_LEAST_SUMS = 8  # side by side, and times that a number is repeated
_MOST_OPS = 32
_READ = ("hlo.broadcast", "hlo.transpose")  # what the elementwise ops begin with


@dataclass(frozen=True)
class MoveShortReductions(RulePass):
    """Exchanges the last two dimensions of what reductions read, where it is computed from smaller tensors."""

    name: ClassVar[str] = "move-short-reductions"
    sweeps: ClassVar[bool] = False
    table: ClassVar[RuleSet] = REDUCTIONS


@REDUCTIONS.rule("hlo.reduce", where="over a short last dimension; x is elementwise work on repeated tensors")
def short_reduction(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "reduce(x, last) -> reduce(x with the last two dimensions exchanged, the one before), and so all that reads x"
    x = op.operands[0]
    sizes = shape(x)
    last = len(sizes) - 1
    if list(i64s(op, "dimensions")) != [last] or last < 2 or not is_known(*sizes):
        return None
    if not 1 < sizes[last] <= _MOST_SUMMED or sizes[last - 1] < _LEAST_SUMS:
        return None
    work = _Work(x)
    if not work.is_complete():
        return None
    _Exchange(rewriter, work).run()
    return True


@dataclass
class _Work:
    """The elementwise ops that are connected with a value, of its shape.

    Attributes:
        ops: them, and the broadcasts and transposes that they read, by results, each behind those that it reads.
        readers: what reads them: reductions, and products with a vector.
    """

    x: ir.Value
    ops: dict[ir.Value, ir.Operation] = field(default_factory=dict)
    readers: dict[ir.Value, ir.Operation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sizes = shape(self.x)
        self.last = len(self.sizes) - 1

    def is_complete(self) -> bool:
        """Find them. Whether they read nothing but smaller tensors, nobody else reads them, and there is something to
        exchange."""
        if not self._find(self.x, set()):
            return False
        followed: set[ir.Value] = set()
        while values := [value for value in self.ops if value not in followed]:
            followed.update(values)
            computed = [value for value in values if self.ops[value].name not in _READ]
            if not all(self._follow(use.owner.operation, value) for value in computed for use in value.uses):
                return False
        return any(self._is_turned(op) for op in self.ops.values()) and self._is_better()

    def _find(self, value: ir.Value, seen: set[ir.Value]) -> bool:
        """Whether a value is computed so; the ops are noted."""
        op = defining(value)
        if op is None or value in seen or value in self.ops:
            return op is not None
        seen.add(value)
        if len(self.ops) + len(seen) > _MOST_OPS:
            return False
        if op.name == "hlo.broadcast":
            if self._is_turned(op) and not _is_repeated(op):
                return False
        elif op.name == "hlo.transpose":
            if list(i64s(op, "permutation")) != [*range(self.last - 1), self.last, self.last - 1]:
                return False
        elif not (_is_elementwise(op) and all(self._find(operand, seen) for operand in op.operands)):
            return False
        self.ops[value] = op
        return True

    def _is_turned(self, broadcast: ir.Operation) -> bool:
        """Whether it is one of what has both of the dimensions that are exchanged."""
        is_broadcast = broadcast.name == "hlo.broadcast"
        return is_broadcast and {self.last - 1, self.last} <= set(i64s(broadcast, "dimensions"))

    def _follow(self, reader: ir.Operation, value: ir.Value) -> bool:
        """Whether a reader of one of them is one, too, or can read it with dimensions exchanged."""
        kept: list[int] | None
        if reader.name == "hlo.reduce":
            kept = self._kept(list(i64s(reader, "dimensions")))
        elif reader.name == "hlo.dot":
            kept = self._free(reader, value)
        else:
            return _is_elementwise(reader) and self._find(reader.result, set())
        if kept is None:
            return False
        self.readers[reader.result] = reader
        # What has both dimensions is transposed.
        return not {self.last - 1, self.last} <= set(kept) or _is_small(reader.result, value)

    def _kept(self, reduced: list[int]) -> list[int]:
        return [place for place in range(self.last + 1) if place not in reduced]

    def _free(self, dot: ir.Operation, value: ir.Value) -> list[int] | None:
        """The dimensions that the result of a product has; None: it is none with a vector."""
        numbers, which = DotNumbers.of(dot), [*dot.operands].index(value)
        other = dot.operands[1 - which]
        batch, contract = numbers.side(which)
        if other in self.ops or numbers.free(1 - which, other.type.rank) or not is_of_sums(dot):
            return None
        return self._kept(contract) if batch == [*range(len(batch))] else None

    def _is_better(self) -> bool:
        """Whether it is not the other way round what it will be."""
        *_, before, last = self.sizes
        sums = (set(i64s(each, "dimensions")) for each in self.readers.values() if each.name == "hlo.reduce")
        return before > last or not any({self.last - 1, self.last} & each == {self.last - 1} for each in sums)


def _is_repeated(broadcast: ir.Operation) -> bool:
    return splat(broadcast.result) is not None or _is_small(broadcast.operands[0], broadcast.result)


def _is_small(value: ir.Value, next_to: ir.Value) -> bool:
    return num_elements(value) * _LEAST_SUMS <= num_elements(next_to)


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
    """Makes the ops of some work, and what reads them, with the last two dimensions exchanged."""

    rewriter: Rewriter
    work: _Work
    made: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        *outer, before, last = self.work.sizes
        self.sizes = [*outer, last, before]

    def run(self) -> None:
        """Make them where those are that they replace."""
        for value, op in self.work.ops.items():
            self.rewriter.at(op)
            if op.name == "hlo.broadcast":
                self.made[value] = self._repeated(op.operands[0], i64s(op, "dimensions"))
            elif op.name == "hlo.transpose":
                self.made[value] = op.operands[0]  # it was exchanged
            else:
                result = tensor(self.sizes, element_type(value))
                self.made[value] = self.rewriter.again(op, [self.made[operand] for operand in op.operands], result)
        for reader in self.work.readers.values():
            self.rewriter.at(reader)
            reduced = self._reduced(reader) if reader.name == "hlo.reduce" else self._summed(reader)
            self.rewriter.replace(reader, [reduced])

    def _reduced(self, op: ir.Operation) -> ir.Value:
        x, init = op.operands
        return self._reduction(self.made[x], init, text(op, "kind"), i64s(op, "dimensions"))

    def _summed(self, dot: ir.Operation) -> ir.Value:
        """A product with a vector."""
        numbers, which = DotNumbers.of(dot), 0 if dot.operands[0] in self.made else 1
        ours, theirs = numbers.side(which), numbers.side(1 - which)
        places = dict(zip([*theirs[0], *theirs[1]], [*ours[0], *ours[1]], strict=True))
        other = self._repeated(dot.operands[1 - which], [places[each] for each in range(len(places))])
        products = self.rewriter.like("multiply", self.made[dot.operands[which]], other)
        zero = self.rewriter.splat(0, tensor((), element_type(dot.result)))
        return self._reduction(products, zero, "add", ours[1])

    def _reduction(self, x: ir.Value, init: ir.Value, kind: str, dimensions: Sequence[int]) -> ir.Value:
        places = sorted(map(self._place, dimensions))
        made = self.rewriter.made("reduce", x, init, kind=kind, dimensions=places)
        rank = made.type.rank
        if {self.work.last - 1, self.work.last} & set(places):
            return made
        return self.rewriter.transpose(made, [*range(rank - 2), rank - 1, rank - 2])

    def _repeated(self, small: ir.Value, dimensions: Sequence[int]) -> ir.Value:
        places = [self._place(each) for each in dimensions]
        order = sorted(range(len(places)), key=places.__getitem__)
        return self.rewriter.broadcast(self.rewriter.transpose(small, order), self.sizes, sorted(places))

    def _place(self, dimension: int) -> int:
        last = self.work.last
        return {last: last - 1, last - 1: last}.get(dimension, dimension)
