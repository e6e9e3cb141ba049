"""Windows that move along the last dimension, for many neighbouring output positions at once.

Lane i holds output position `column + i`. Place k of the window meets operand elements `stride` apart: one load for
stride 1, two and a shuffle for stride 2, else a gather. Vectors whose windows leave the operand take a second path, in
which loads have masks and the lanes outside keep what they have.
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
UNROLLED = 8  # places of a window


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

            if not isinstance(window.width, int) or window.width > UNROLLED:
                return pack(fold(f, 0, window.width, 1, values, body))
            held = values
            for number in range(window.width):
                held = body(number, held)
            return pack(held)

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
        f, at = self.f, self.f.iadd(row, spot)
        if self.window.stride > 2:
            places = self._offsets(at)
            loaded = [types.gather(f, of, base, places) for of, base in zip(self.elements, self.inputs, strict=True)]
        else:
            loaded = self._loaded(at, [None] * self.window.stride)
        return self.combine([*values, *loaded])

    def _loaded(self, at: Index, masks: Sequence[Value | None]) -> list[Lanes]:
        """What lanes `stride`, 1 or 2, apart meet from `at` on, of each operand: by as many loads, under these
        masks."""
        f = self.f
        result: list[Lanes] = []
        for of, base in zip(self.elements, self.inputs, strict=True):
            loads = [
                types.load(f, of, base, f.iadd(at, part * self.lanes), self.lanes, mask)
                for part, mask in enumerate(masks)
            ]
            result.append(loads[0] if len(loads) == 1 else types.each(self._evens, *loads))
        return result

    def _partial(self, row: Index, spot: Index, values: list[Lanes]) -> list[Lanes]:
        """Lanes outside the operand keep their values."""
        f = self.f
        places = self._offsets(spot)
        inside = self._inside(places)
        if self.window.stride > 2:
            offsets = f.select(inside, self._offsets(f.iadd(row, spot)), f.const(0, places.type))
            loaded = [types.gather(f, of, base, offsets) for of, base in zip(self.elements, self.inputs, strict=True)]
        else:
            parts = [f.iadd(spot, part * self.lanes) for part in range(self.window.stride)]
            loaded = self._loaded(f.iadd(row, spot), [self._inside(self._offsets(part, 1)) for part in parts])
        combined = self.combine([*values, *loaded])
        return [types.select(f, inside, new, old) for new, old in zip(combined, values, strict=True)]

    def _evens(self, low: Value, high: Value) -> Value:
        return self.f.shuffle(low, high, range(0, 2 * self.lanes, 2))

    def _inside(self, places: Value) -> Value:
        """Which places of a row of the operand are there."""
        f, size = self.f, self.window.size
        begun = f.cmp("sge", places, f.const(0, places.type))
        return f.binary("and", begun, f.cmp("slt", places, f.const(size, places.type)))

    def _offsets(self, start: Index, stride: IntLike | None = None) -> Value:
        """Places from `start` on, `stride` apart (None: the window's)."""
        f, stride = self.f, self.window.stride if stride is None else stride
        steps = f.const_lanes([int(lane * stride) for lane in range(self.lanes)], I64)
        return f.binary("add", f.splat(f.index(start), self.lanes), steps)
