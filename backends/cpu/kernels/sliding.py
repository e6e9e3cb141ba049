"""Windows that move along the last dimension, for many neighbouring output positions at once.

Lane i holds output position `column + i`. Place k of the window meets operand elements `stride` apart: one load for
stride 1, two and a shuffle for stride 2, else a gather. Where windows leave their row, lanes outside keep what they
have: neighbours in memory are loaded for them. At the ends of the operand, where there are none, loads have masks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stablehlo_py.backends.common.loops import fold, pack, unpack
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I1, I64, Function, Index, Value
from stablehlo_py.codegen.elemental import NEAR
from stablehlo_py.codegen.index import Affine, Variable, inside
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
    """One row of operands under a window. `inputs` and `elements`: the operands' pointers and element types; each has
    `count` elements."""

    f: Function
    window: Window
    lanes: int
    inputs: Sequence[Value]
    elements: Sequence[Element]
    combine: Combiner
    count: IntLike

    @property
    def _reach(self) -> IntLike:
        """From the first element of a load to the last one of a vector's windows."""
        return (self.lanes - 1) * self.window.stride + (self.window.width - 1) * self.window.dilation + self._spare

    def between_ends(self, first: Index, last: Index, outputs: IntLike) -> Value:
        """Whether loads for so many outputs need no masks, where windows meet rows that begin at these places and
        between them."""
        f, window = self.f, self.window
        end = (outputs - self.lanes) * window.stride - window.low + self._reach
        begins = f.cmp("sge", f.index(f.isub(first, window.low)), f.const(0))
        return f.binary("and", begins, f.cmp("slt", f.index(f.iadd(last, end)), f.index(self.count)))

    def fold(self, row: Index, column: Index, values: list[Lanes], *, between_ends: bool) -> list[Lanes]:
        """The values, combined with what the windows at `column`.. meet in the row that begins at `row`."""
        f, window, reach = self.f, self.window, self._reach
        first = f.isub(f.imul(column, window.stride), window.low)

        def within(start: Index, size: IntLike) -> Value:
            begins = f.cmp("sge", f.index(start), f.const(0))
            return f.binary("and", begins, f.cmp("slt", f.index(f.iadd(start, reach)), f.index(size)))

        def over(step: Callable[[Index, list[Lanes]], list[Lanes]], most: int) -> list[Value]:
            def body(number: Index, held: list[Lanes]) -> list[Lanes]:
                return step(f.iadd(first, f.imul(number, window.dilation)), held)

            if not isinstance(window.width, int) or window.width > most:
                return pack(fold(f, 0, window.width, 1, values, body))
            held = values
            for number in range(window.width):
                held = body(number, held)
            return pack(held)

        def near() -> list[Value]:
            return over(lambda spot, held: self._partial(row, spot, held, masked=False), UNROLLED)

        def at_an_end() -> list[Value]:
            return over(lambda spot, held: self._partial(row, spot, held, masked=True), 1)

        def partly() -> list[Value]:
            if window.stride > 2:
                return at_an_end()
            if between_ends:
                return near()
            return f.if_(within(f.iadd(row, first), self.count), near, at_an_end)

        whole = within(first, window.size)
        results = f.if_(whole, lambda: over(lambda spot, held: self._whole(row, spot, held), UNROLLED), partly)
        return unpack(results, values)

    @property
    def _spare(self) -> int:
        """Elements after the last one that a load takes along."""
        return 1 if self.window.stride == 2 else 0

    def _whole(self, row: Index, spot: Index, values: list[Lanes]) -> list[Lanes]:
        """All lanes lie in the operand."""
        at = self.f.iadd(row, spot)
        if self.window.stride > 2:
            loaded = [self._apart(of, base, at) for of, base in zip(self.elements, self.inputs, strict=True)]
        else:
            loaded = self._loaded(at, [None] * self.window.stride)
        return self.combine([*values, *loaded])

    def _apart(self, of: Element, base: Value, at: Index) -> Lanes:
        """What lanes `stride` apart meet from `at` on: by no gather, which takes longer."""
        f, stride = self.f, self.window.stride
        if not of.is_complex and stride <= NEAR:
            return types.load_apart(f, of, base, at, [int(lane * stride) for lane in range(self.lanes)])
        return types.load_steps(f, of, base, f.imul(at, 2) if of.is_complex else at, self.lanes, stride)

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

    def _partial(self, row: Index, spot: Index, values: list[Lanes], *, masked: bool) -> list[Lanes]:
        """Lanes outside the row of the operand keep their values; if `masked`, they read nothing."""
        f, stride, inside = self.f, self.window.stride, self._inside(spot, self.window.stride)
        if not isinstance(inside, Value):
            return self._whole(row, spot, values) if inside else values
        if stride > 2:
            places = self._offsets(f.iadd(row, spot))
            offsets = f.select(inside, places, f.const(0, places.type))
            loaded = [types.gather(f, of, base, offsets) for of, base in zip(self.elements, self.inputs, strict=True)]
        else:
            parts = [self._inside(f.iadd(spot, part * self.lanes), 1) if masked else None for part in range(stride)]
            loaded = self._loaded(f.iadd(row, spot), [self._mask(part) for part in parts])
        combined = self.combine([*values, *loaded])
        return [types.select(f, inside, new, old) for new, old in zip(combined, values, strict=True)]

    def _evens(self, low: Value, high: Value) -> Value:
        return self.f.shuffle(low, high, range(0, 2 * self.lanes, 2))

    def _inside(self, start: Index, stride: IntLike) -> Value | bool:
        """Which places from `start` on, so far apart, are in a row of the operand."""
        window, place = self.window, Affine(0, lane=stride)
        if isinstance(start, Value):
            most = window.size + abs(int(window.high)) + int(window.width * window.dilation) + 2 * self.lanes
            place = place._replace(terms=((Variable(start, -int(window.low), most), 1),))
        else:
            place = place._replace(constant=start)
        return inside(self.f, place, window.size, self.lanes)

    def _mask(self, part: Value | bool | None) -> Value | None:
        """For a load; None: it needs none."""
        if isinstance(part, bool):
            return None if part else self.f.const_lanes([0] * self.lanes, I1)
        return part

    def _offsets(self, start: Index) -> Value:
        """Places from `start` on."""
        f = self.f
        steps = f.const_lanes([int(lane * self.window.stride) for lane in range(self.lanes)], I64)
        return f.binary("add", f.splat(f.index(start), self.lanes), steps)
