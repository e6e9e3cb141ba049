"""Windows that move along the last dimension, for many neighbouring output positions at once.

Lane i holds output position `column + i`. Place k of the window meets operand elements `stride` apart: one load for
stride 1, two and a shuffle for stride 2, else a gather. Vectors whose windows leave the operand take a second path, in
which the lanes outside keep what they have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stablehlo_py.backends.common.loops import fold, pack, unpack
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I64, Function, Index, Value
from stablehlo_py.codegen.region import Combiner
from stablehlo_py.codegen.types import Element, Lanes
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.window import Window

MIN_LANES = 4


def sliding_lanes(window: Window, outputs: IntLike, lanes: int) -> int:
    """How many output positions go into a vector; 1 where scalar code is better."""
    while lanes > outputs:
        lanes //= 2
    return lanes if lanes >= MIN_LANES and window.base_dilation == 1 and window.size else 1


@dataclass(frozen=True)
class Sliding:
    """One row of operands under a window. `inputs` and `elements`: the operands' pointers and element types."""

    f: Function
    window: Window
    lanes: int
    inputs: Sequence[Value]
    elements: Sequence[Element]
    combine: Combiner

    def fold(self, row: Index, column: Index, values: list[Lanes]) -> list[Lanes]:
        """The values, combined with what the windows at `column`.. meet in the row that begins at `row`."""
        f, window = self.f, self.window
        first = f.isub(f.imul(column, window.stride), window.low)
        reach = (self.lanes - 1) * window.stride + (window.width - 1) * window.dilation + self._spare
        begins, ends = (
            f.cmp("sge", f.index(first), f.const(0)),
            f.cmp("slt", f.index(f.iadd(first, reach)), f.const(window.size)),
        )

        def over(step: Callable[[Index, list[Lanes]], list[Lanes]]) -> list[Value]:
            def body(number: Index, held: list[Lanes]) -> list[Lanes]:
                return step(f.iadd(first, f.imul(number, window.dilation)), held)

            return pack(fold(f, 0, window.width, 1, values, body))

        results = f.if_(
            f.binary("and", begins, ends),
            lambda: over(lambda spot, held: self._whole(row, spot, held)),
            lambda: over(lambda spot, held: self._partial(row, spot, held)),
        )
        return unpack(results, values)

    @property
    def _spare(self) -> int:
        """Elements after the last one that a load takes along."""
        return 1 if self.window.stride == 2 else 0

    def _whole(self, row: Index, spot: Index, values: list[Lanes]) -> list[Lanes]:
        """All lanes lie in the operand."""
        f, stride = self.f, self.window.stride
        at = f.iadd(row, spot)
        loaded: list[Lanes] = []
        for of, base in zip(self.elements, self.inputs, strict=True):
            if stride == 1:
                loaded.append(types.load(f, of, base, at, self.lanes))
            elif stride == 2:
                low, high = (types.load(f, of, base, f.iadd(at, half * self.lanes), self.lanes) for half in range(2))
                loaded.append(types.each(self._evens, low, high))
            else:
                loaded.append(types.gather(f, of, base, self._offsets(at)))
        return self.combine([*values, *loaded])

    def _partial(self, row: Index, spot: Index, values: list[Lanes]) -> list[Lanes]:
        """Lanes outside the operand keep their values."""
        f = self.f
        places = self._offsets(spot)
        inside = f.binary(
            "and",
            f.cmp("sge", places, f.const(0, places.type)),
            f.cmp("slt", places, f.const(self.window.size, places.type)),
        )
        offsets = f.select(inside, self._offsets(f.iadd(row, spot)), f.const(0, places.type))
        loaded = [types.gather(f, of, base, offsets) for of, base in zip(self.elements, self.inputs, strict=True)]
        combined = self.combine([*values, *loaded])
        return [types.select(f, inside, new, old) for new, old in zip(combined, values, strict=True)]

    def _evens(self, low: Value, high: Value) -> Value:
        return self.f.shuffle(low, high, range(0, 2 * self.lanes, 2))

    def _offsets(self, start: Index) -> Value:
        f = self.f
        steps = f.const_lanes([int(lane * self.window.stride) for lane in range(self.lanes)], I64)
        return f.binary("add", f.splat(f.index(start), self.lanes), steps)
