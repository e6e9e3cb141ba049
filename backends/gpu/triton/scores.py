"""Ops between the products of attention as lines of Triton, over a tile of scores or of results.

A variable holds values by the tile's indices (batch, query, key or column), whatever the order of dimensions in the
program, so transposes of what depends on the first product are no code. Where elements of an operand lie is found by
axes (passes/fusing/attention.py): for each dimension of a value, the dimensions of the first product that it goes
through.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from stablehlo_py.backends.gpu.triton.expressions import Index, Refused, Tile, type_of
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.index_map import Digits, Layout, regroup_digits
from stablehlo_py.dialect.types import i64, i64s, shape
from stablehlo_py.mlir import ir
from stablehlo_py.passes.fusing.attention import Axes


class ScoreTile(Tile):
    """Of values along some of the dimensions of both products.

    Args:
        inputs, indices: as of a Tile.
        labels: the dimensions that each index goes through, the last one fastest.
        sizes: of each dimension.
    """

    def __init__(
        self,
        inputs: Sequence[ir.Value],
        indices: Sequence[Index],
        labels: Sequence[Sequence[int]],
        sizes: Mapping[int, int],
    ) -> None:
        super().__init__(inputs, indices)
        self._labels, self._sizes = labels, sizes
        self._axes: Axes = ()
        self._made: dict[tuple[ir.Value, Axes], str] = {}

    def at(self, value: ir.Value, axes: Axes) -> str:
        """The variable that holds a value of these axes. Raises Refused."""
        before, self._axes = self._axes, axes
        try:
            return self.value(value)
        finally:
            self._axes = before

    def address_at(self, layout: Layout, axes: Axes, across: Sequence[Index]) -> tuple[str, str]:
        """As `Tile.address`, of a value of these axes. Raises Refused."""
        before, self._axes = self._axes, axes
        try:
            return self.address(layout, across)
        finally:
            self._axes = before

    def value(self, value: ir.Value) -> str:
        """As `Tile.value`, by the axes that are asked for."""
        if value in self._known:
            return self._known[value]
        if (value, self._axes) not in self._made:
            self._made[value, self._axes] = self.kept(self._expression(value))
        return self._made[value, self._axes]

    def kept(self, expression: str) -> str:
        """A variable that holds what an expression gives."""
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        return name

    def place(self, layout: Layout) -> Sequence[Digits]:
        """As `Tile.place`."""
        if len(layout.dimensions) != len(self._axes):
            raise Refused("a value whose dimensions are not those of scores")
        kept = [digits for digits, part in zip(layout.dimensions, self._axes, strict=True) if part is not None]
        flat = [label for part in self._axes for label in part or ()]
        found = regroup_digits(kept, [self._sizes[label] for label in flat])
        if found is None:
            raise Refused("a view across dimensions of scores")
        digits = dict(zip(flat, found, strict=True))
        for label in set(flat).difference(*self._labels):
            if any(stride for _, stride in digits[label]):
                raise Refused("a value along keys, where a row is asked for")
        return [
            tuple(digit for label in labels for digit in digits.get(label, ((self._sizes[label], 0),)))
            for labels in self._labels
        ]

    def computed(self, op: ir.OpView) -> str:
        """As `Tile.computed`."""
        name = op.operation.name
        if name == "hlo.iota":
            return self._iota(op)
        if name in ("hlo.transpose", "hlo.reshape", "hlo.broadcast"):
            return self.at(op.operands[0], self._below(op))
        return super().computed(op)

    def _iota(self, op: ir.OpView) -> str:
        of, sizes, along = element(op.results[0]), shape(op.results[0]), i64(op, "dimension")
        layout = Layout(0, tuple(((int(size), int(d == along)),) for d, size in enumerate(sizes)))
        address, _ = self.address(layout)
        number = f"(tl.full((1, 1), 0, tl.int32) + {address})"
        if of.is_float and (of.bits < 32 or max(map(int, sizes)) > 1 << 24):
            raise Refused(f"numbers of type {of.name} that are rounded")
        return number if of.name == "i32" else f"{number}.to({type_of(of).name})"

    def _below(self, op: ir.OpView) -> Axes:
        """The axes of a view's operand, where its result has those that are asked for."""
        axes, sizes = self._axes, [int(size) for size in shape(op.operands[0])]
        if op.operation.name == "hlo.transpose":
            return tuple(part for _, part in sorted(zip(i64s(op, "permutation"), axes, strict=True), key=_first))
        if op.operation.name == "hlo.broadcast":
            whole = shape(op.results[0])
            along = i64s(op, "dimensions")
            return tuple(axes[d] if int(whole[d]) == size else () for d, size in zip(along, sizes, strict=True))
        return self.reshaped(axes, [int(size) for size in shape(op.results[0])], sizes)

    def reshaped(self, axes: Axes, source: Sequence[int], target: Sequence[int]) -> Axes:
        """The axes of a value of one shape in another one. Raises Refused."""
        if any(part is None and size != 1 for part, size in zip(axes, source, strict=True)):
            raise Refused("a reshape across dimensions of scores")
        flat = [label for part in axes for label in part or ()]
        found = []
        for size in target:
            part: list[int] = []
            while flat and math.prod(self._sizes[label] for label in part) < size:
                part.append(flat.pop(0))
            if math.prod(self._sizes[label] for label in part) != size:
                raise Refused("a reshape across dimensions of scores")
            found.append(tuple(part))
        if flat:
            raise Refused("a reshape across dimensions of scores")
        return tuple(found)


def _first(pair: tuple[int, object]) -> int:
    return pair[0]
