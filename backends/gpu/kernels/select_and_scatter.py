"""Select-and-scatter (the gradient of max pooling). Spec: section select_and_scatter. Nothing is scattered: a kernel
finds the element that each window selects, a thread for a window; then a thread for each element of the result combines
the source values of the windows that contain it and selected it, in the order of the windows."""

from __future__ import annotations

import math
from collections.abc import Callable

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import fold, pack, unpack, unravel
from stablehlo_py.backends.common.windows import over_window
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, numbered_kernel
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I32, I64, Function, Index, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import affine_of
from stablehlo_py.codegen.region import combiner
from stablehlo_py.codegen.types import Known, Lanes, element
from stablehlo_py.dialect.index_map import row_major_strides
from stablehlo_py.dialect.types import shape
from stablehlo_py.dialect.window import Window, windows_of


def emit(fusion: Fusion, target: GpuTarget) -> GpuKernel:
    """The two kernels."""
    return _SelectAndScatter(fusion, target).emit()


class _SelectAndScatter:
    def __init__(self, fusion: Fusion, target: GpuTarget) -> None:
        self.fusion, self.target = fusion, target
        self.op = fusion.op("stablehlo.select_and_scatter")
        self.windows = windows_of(self.op)
        self.sizes, self.places = ([int(size) for size in shape(self.op.operands[i])] for i in range(2))
        self.strides, self.count = row_major_strides(self.sizes), math.prod(self.sizes)
        self.number = I32 if self.count < 1 << 31 else I64  # the type of what is selected: an element, or -1

    def emit(self) -> GpuKernel:
        """What windows select is in scratch memory."""
        if self.count == 0:
            return GpuKernel((), {})
        windows = math.prod(self.places)
        kernels = [self._threads(f"{self.fusion.name}.select", windows, self._select)] if windows else []
        kernels.append(self._threads(self.fusion.name, self.count, self._gather))
        return GpuKernel.of(*kernels, scratch_bytes=windows * self.number.bits // 8)

    def _threads(self, name: str, count: int, one: Callable[[Elemental, Value], None]) -> Function:
        """A kernel in which threads take numbers."""

        def body(f: Function, number: Value) -> None:
            one(Elemental(f, self.fusion, self.target, 1), number)

        return numbered_kernel(self.fusion, self.target, name, count, body)

    def _select(self, e: Elemental, window: Value) -> None:
        """Which element a window selects."""
        f, operand = e.f, self.op.operands[0]
        select = combiner(f, self.op, 0)

        def step(at: Index, values: list[Known]) -> list[Lanes]:
            best, where = values
            value = e.value(operand, ((self.count, affine_of(at, self.count - 1)),))
            better: Known = select([best, value])[0]
            keep = f.binary("and", better, f.cmp("sge", where, f.const(0, self.number)))
            here = f.cast("trunc", f.index(at), self.number)
            return [types.select(f, keep, best, value), f.select(keep, where, here)]

        start: list[Lanes] = [types.constant(f, element(operand), 0), f.const(-1, self.number)]
        place = unravel(f, window, self.places)
        _, where = over_window(f, self.windows, place, self.strides, start, step)
        assert isinstance(where, Value)
        f.store(where, f.scratch, window)

    def _gather(self, e: Elemental, number: Value) -> None:
        """An element of the result."""
        f, of = e.f, element(self.op.results[0])
        mine = f.cast("trunc", number, self.number)
        total = self._over(e, unravel(f, number, self.sizes), 0, 0, mine, [e.value(self.op.operands[2], ())])
        e.write(of, f.parameters["out0"], ((self.count, affine_of(number, self.count - 1)),), total[0])

    def _over(
        self, e: Elemental, place: list[Index], dimension: int, window: Index, mine: Value, total: list[Lanes]
    ) -> list[Lanes]:
        """The total with what windows add that contain an element, from a dimension on."""
        f = e.f
        if dimension == len(self.sizes):
            return self._added(e, window, mine, total)

        def inside(index: Index, held: list[Lanes]) -> list[Lanes]:
            number = f.iadd(f.imul(window, self.places[dimension]), index)
            return self._over(e, place, dimension + 1, number, mine, held)

        low, high = _containing(f, self.windows[dimension], place[dimension], self.places[dimension])
        return fold(f, low, high, 1, total, inside)

    def _added(self, e: Elemental, window: Index, mine: Value, total: list[Lanes]) -> list[Lanes]:
        """The total with the source value of a window that selected the element."""
        f, source, count = e.f, self.op.operands[1], math.prod(self.places)
        selects = f.cmp("eq", f.load(self.number, f.scratch, window), mine)

        def add() -> list[Value]:
            value = e.value(source, ((count, affine_of(window, count - 1)),))
            return pack(combiner(f, self.op, 1)([*total, value]))

        return unpack(f.if_(selects, add, lambda: pack(total)), total)


def _containing(f: Function, window: Window, index: Index, places: int) -> tuple[Index, Index]:
    """From where up to where windows contain an index."""
    if window.trivial:
        return index, f.iadd(index, 1)
    first = f.iadd(index, window.low - window.width + window.stride)
    low = f.idiv(f.imax(first, 0), window.stride)
    high = f.idiv(f.imax(f.iadd(index, window.low + window.stride), 0), window.stride)
    return low, f.imin(high, places)
