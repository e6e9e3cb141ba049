"""Products of a scan's inputs with weights become one product before the loop.

    scf.while ... do { %x = dynamic_slice %xs[%i, 0, 0] {sizes = [1, 2, 128]}; %y = hlo.dot %x, %w ... }
        ==>  %ys = hlo.dot %xs, %w
             scf.while ... do { %y = dynamic_slice %ys[%i, 0, 0] ... }

A step of few rows takes the time in which the weights are read, once for each step; the one product reads them once.
It pays where a step has few rows, and the weights do not stay in a first-level cache. Each row of the result is
computed once more only if the loop comes there as often: its trips are known, and as many as there are slices.

Relies on the normal form of loops, and on `licm`, which moves the weights out of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect import build
from stablehlo_py.dialect.regions import defined_values
from stablehlo_py.dialect.symint import is_known
from stablehlo_py.dialect.trips import trip_count
from stablehlo_py.dialect.types import num_elements, shape
from stablehlo_py.mlir import ir
from stablehlo_py.passes._loops import change_loops
from stablehlo_py.passes.canonicalize_dot import DotNumbers
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.passmanager.rewrite import defining


@dataclass(frozen=True)
class BatchProducts(Pass):
    """Computes products of a loop's slices before the loop. `least`, `large`: elements of weights that a first-level
    and a second-level cache do not keep; `rows`, `rows_of_large`: the most rows of a step for them; `max_growth`:
    elements written per element read."""

    name: ClassVar[str] = "batch-products"
    rows: int = 4
    rows_of_large: int = 16
    least: int = 1 << 13
    large: int = 1 << 18
    max_growth: int = 4

    def roots(self) -> tuple[str, ...]:
        return ("scf.while",)

    def run(self, module: ir.Module) -> bool:
        return change_loops(module, self._batch)

    def _batch(self, loop: ir.Operation) -> bool:
        products = [view.operation for view in loop.regions[1].blocks[0] if view.operation.name == "hlo.dot"]
        if not products:
            return False
        inside, moved = defined_values(loop), False
        for op in products:
            for side in (0, 1):
                sliced = _Sliced.of(op, side, inside)
                if sliced is not None and self._pays(sliced) and (trip_count(loop, {}) or 0) >= sliced.count:
                    sliced.batch(loop)
                    moved = True
                    break
        return moved

    def _pays(self, sliced: _Sliced) -> bool:
        values = sliced.source, sliced.weights, sliced.op.result
        if not all(is_known(size) for value in values for size in shape(value)):
            return False
        source, weights, step = map(num_elements, values)
        return (
            weights >= self.least
            and sliced.rows <= (self.rows_of_large if weights >= self.large else self.rows)
            and step * sliced.count <= self.max_growth * (source + weights)
        )


@dataclass
class _Sliced:
    """A product, one operand of which is a slice of one place along a dimension of a value from outside of a loop."""

    op: ir.Operation
    side: int
    slice: ir.Operation
    dimension: int  # of the slice's operand
    dropped: bool  # that dimension is not one of the product's operand

    @staticmethod
    def of(op: ir.Operation, side: int, inside: set[ir.Value]) -> _Sliced | None:
        """None where it is no such product."""
        operand, weights = op.operands[side], op.operands[1 - side]
        reshaped = defining(operand, "hlo.reshape")
        made = defining(reshaped.operands[0] if reshaped is not None else operand, "hlo.dynamic_slice")
        if made is None or operand not in inside or weights in inside or made.operands[0] in inside:
            return None
        sizes, window = shape(made.operands[0]), shape(made.result)
        (*cut,) = (d for d, (size, part) in enumerate(zip(sizes, window, strict=True)) if size != part)
        if len(cut) != 1 or window[cut[0]] != 1:
            return None
        (dimension,) = cut
        if reshaped is not None and shape(operand) != (*window[:dimension], *window[dimension + 1 :]):
            return None
        found = _Sliced(op, side, made, dimension, reshaped is not None)
        return found if found.dropped or dimension in found.numbers.free(side, len(window)) else None

    @property
    def source(self) -> ir.Value:
        """What is sliced."""
        return self.slice.operands[0]

    @property
    def weights(self) -> ir.Value:
        """The other operand."""
        return self.op.operands[1 - self.side]

    @property
    def count(self) -> int:
        """Of places along the dimension."""
        return int(shape(self.source)[self.dimension])

    @property
    def rows(self) -> int:
        """Elements of the slice for which weights are read once."""
        batch, contract = self.numbers.side(self.side)
        sizes = shape(self.op.operands[self.side])
        return math.prod(int(size) for d, size in enumerate(sizes) if d not in (*batch, *contract))

    @property
    def numbers(self) -> DotNumbers:
        return DotNumbers.of(self.op)

    def batch(self, loop: ir.Operation) -> None:
        """Replace the product by a slice of one before the loop."""
        op, numbers, rank = self.op, self.numbers, len(shape(self.source))
        if self.dropped:
            for dimensions in numbers.side(self.side):
                dimensions[:] = [d + (d >= self.dimension) for d in dimensions]
        place = len(numbers.lhs_batch) + numbers.free(self.side, rank).index(self.dimension)
        if self.side:
            place += len(numbers.free(0, len(shape(self.weights))))
        sizes = list(shape(op.result))
        sizes[place : place + (not self.dropped)] = [self.count]
        operands = [self.weights, self.weights]
        operands[self.side] = self.source
        element = op.result.type.element_type
        with ir.InsertionPoint(loop), op.location:
            product = build.again(op, operands, build.tensor(sizes, element), vars(numbers))
        with ir.InsertionPoint(op), op.location:
            zero, index = build.splat(0, self.slice.operands[1].type), self.slice.operands[1 + self.dimension]
            starts = [index if d == place else zero for d in range(len(sizes))]
            sizes[place] = 1
            part = build.value(
                "dynamic_slice", build.tensor(sizes, element), product, *starts, sizes=ir.DenseI64ArrayAttr.get(sizes)
            )
            part = build.reshape(part, shape(op.result)) if self.dropped else part
        op.result.replace_all_uses_with(part)
        op.erase()
