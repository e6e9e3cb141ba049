"""The sums of a strip by instructions that add up groups (vector_unit.py): as part of a kernel, and as a function that
all products of a program with such strips call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from stablehlo_py.backends.cpu.kernels.matrix_unit import TILE
from stablehlo_py.backends.cpu.kernels.panel_groups import flipped
from stablehlo_py.backends.cpu.kernels.vector_unit import VectorUnit
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.backends.cpu.weight_tiles import PANEL, SIDE
from stablehlo_py.codegen.builder import F32, I8, I16, I32, I64, PTR, Function, Index, ScalarType, Value, VectorType

UNROLLED = 32  # multiplications of a turn of the innermost loop, about


@dataclass(frozen=True)
class VectorTile:
    """What the code depends on.

    Attributes:
        height: rows of the strip. columns: where its vectors begin in a panel.
        instruction, group, signs: of the unit.
        flips: B's bytes get the other sign after they are loaded.
    """

    height: int
    columns: tuple[int, ...]
    instruction: str
    group: int
    signs: tuple[bool, ...]
    flips: bool

    @staticmethod
    def of(unit: VectorUnit, height: int, columns: Sequence[int], *, flips: bool) -> VectorTile:
        """For a strip of so many rows of a product."""
        return VectorTile(height, tuple(columns), unit.instruction, unit.group, unit.signs, flips)

    def unit(self, target: CpuTarget) -> VectorUnit:
        """What multiplies."""
        return VectorUnit(I16 if self.group == 2 else I8, self.group, self.instruction, target, self.signs)

    @property
    def accumulator(self) -> ScalarType:
        """The scalar of its sums."""
        return I32 if self.signs else F32

    @property
    def unrolled(self) -> int:
        """Groups of a turn of the innermost loop."""
        each = self.height * len(self.columns)
        return next(count for count in (16, 8, 4, 2, 1) if count * each <= UNROLLED or count == 1)

    def groups(
        self,
        f: Function,
        unit: VectorUnit,
        a: Callable[[int], Value],
        b: Value,
        count: Index,
        sums: Sequence[Value],
        *,
        whole: bool,
    ) -> list[Value]:
        """`sums` with the products of `count` groups of a step, which are a `whole` number of turns of the loop.
        `a(row)`: where a row of A is then, `b`: where the panel is."""
        at_b = [column // SIDE * TILE + column % SIDE for column in self.columns]

        def group(number: Index, *sums: Value) -> list[Value]:
            factors = []
            for at in at_b:
                factor = f.load(VectorType(unit.lanes, I32), f.gep(b, f.iadd(f.imul(number, SIDE), at), I32))
                factors.append(flipped(f, factor) if self.flips else factor)
            result = []
            for row in range(self.height):
                left = f.splat(f.load(I32, f.gep(a(row), number, I32), align=unit.scalar.bits // 8), unit.lanes)
                for factor, value in zip(factors, sums[row * len(factors) :], strict=False):
                    result.append(unit.multiply(f, left, factor, value))
            return result

        def several(number: Index, *sums: Value) -> list[Value]:
            values = list(sums)
            for more in range(self.unrolled):
                values = group(f.iadd(number, more), *values)
            return values

        if whole:
            return f.loop(0, count, self.unrolled, several, sums, nonempty=True)
        most = f.imul(f.idiv(count, self.unrolled), self.unrolled)
        return f.loop(most, count, 1, group, f.loop(0, most, self.unrolled, several, sums))

    # --- as a function -----------------------------------------------------------------------------------------------

    @property
    def symbol(self) -> str:
        """The name of its function."""
        signs = "".join("u" if unsigned else "s" for unsigned in self.signs) + "x" * self.flips
        name = self.instruction.removeprefix("llvm.x86.").replace(".", "_")
        return "_".join(filter(None, ("shlo_dots", str(self.height), *map(str, self.columns), name, signs)))

    def text(self, target: CpuTarget) -> str:
        """Its code."""
        return _text(self, target)

    def call(self, f: Function, sums: Value, a: Value, row: Index, b: Value, steps: tuple[Value, Index]) -> None:
        """Add the products of some steps to the sums, whose rows are a panel wide. Of A: where the strip begins, and
        the bytes from a row to the next; of B: where the first step is; `steps`: a table of bytes from there to each
        step of A and of groups in it, and how many there are."""
        table, count = steps
        f.call(self.symbol, [sums, a, f.index(row), b, table, f.index(count)], external=True)


@lru_cache(maxsize=512)
def _text(tile: VectorTile, target: CpuTarget) -> str:
    """void(sums, a, row, b, table, steps)"""
    parameters = [("sums", PTR), ("a", PTR), ("row", I64), ("b", PTR), ("table", PTR), ("steps", I64)]
    f = Function(tile.symbol, parameters, target.emitter(), noalias=("sums",))
    unit, type_ = tile.unit(target), VectorType(target.lanes(32), tile.accumulator)
    places = [row * PANEL + column for row in range(tile.height) for column in tile.columns]
    sums = [f.load(type_, f.sums, place) for place in places]

    def step(k: Index, *sums: Value) -> list[Value]:
        a = f.gep(f.a, f.load(I64, f.table, f.imul(k, 2)), I8)
        b = f.gep(f.b, f.imul(k, 2 * TILE), I32)
        count = f.load(I64, f.table, f.iadd(f.imul(k, 2), 1))
        rows = [f.gep(a, f.imul(f.row, row), I8) for row in range(tile.height)]
        return tile.groups(f, unit, rows.__getitem__, b, count, sums, whole=tile.unrolled == 1)

    for place, value in zip(places, f.loop(0, f.steps, 1, step, sums, nonempty=True), strict=True):
        f.store(value, f.sums, place)
    f.ret()
    return f.text()
