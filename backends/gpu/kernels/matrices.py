"""What the routines of linear algebra are written with: numbers, real or complex, and column-major matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from stablehlo_py.backends.common.loops import fold
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.region import field_arithmetic, subtract_product
from stablehlo_py.codegen.types import PARTS, Element, Lanes


class Numbers:
    """Arithmetic on scalars of one type of floats or complex numbers.

    Attributes:
        real: the type of their parts.
        zero, one: numbers of the type.
        eps, least: of the parts: twice the unit roundoff, the smallest normal number.
    """

    def __init__(self, f: Function, of: Element) -> None:
        self.f, self.of, self.real = f, of, PARTS.get(of.name, of)
        self.zero, self.one = (types.constant(f, of, number) for number in (0, 1))
        limits = np.finfo(np.float32 if of.compute.bits == 32 else np.float64)
        self.eps, self.least = float(limits.eps), float(limits.tiny)

    def number(self, value: float) -> Value:
        """A real constant."""
        return self.f.const(value, self.of.compute)

    def of_parts(self, values: Sequence[Value]) -> Lanes:
        """A number of its part or parts."""
        return (values[0], values[1]) if self.of.is_complex else values[0]

    def of_real(self, value: Value) -> Lanes:
        """A number that is real."""
        return (value, self.number(0)) if self.of.is_complex else value

    def sum(self, a: Lanes, b: Lanes) -> Lanes:
        return field_arithmetic(self.f, "add", a, b)

    def difference(self, a: Lanes, b: Lanes) -> Lanes:
        return field_arithmetic(self.f, "subtract", a, b)

    def times(self, a: Lanes, b: Lanes) -> Lanes:
        return field_arithmetic(self.f, "multiply", a, b)

    def divided(self, a: Lanes, b: Lanes) -> Lanes:
        return field_arithmetic(self.f, "divide", a, b)

    def minus(self, c: Lanes, a: Lanes, b: Lanes) -> Lanes:
        """c - a b."""
        return subtract_product(self.f, c, a, b)

    def plus(self, c: Lanes, a: Lanes, b: Lanes) -> Lanes:
        """c + a b."""
        return subtract_product(self.f, c, self.negative(a), b)

    def negative(self, a: Lanes) -> Lanes:
        return types.each(self.f.fneg, a)

    def conjugate(self, a: Lanes) -> Lanes:
        return (a[0], self.f.fneg(a[1])) if isinstance(a, tuple) else a

    def scaled(self, a: Lanes, by: Value) -> Lanes:
        """a times a real number."""
        return types.each(lambda part: self.f.fmul(part, by), a)

    def over_real(self, a: Lanes, by: Value) -> Lanes:
        """a divided by a real number."""
        return types.each(lambda part: self.f.fdiv(part, by), a)

    def square(self, a: Lanes) -> Value:
        """|a|^2."""
        squares = [self.f.fmul(part, part) for part in types.parts(a)]
        return squares[0] if len(squares) == 1 else self.f.fadd(*squares)

    def size(self, a: Lanes) -> Value:
        """The larger one of |re| and |im|."""
        sizes = [self.f.intrinsic("fabs", part) for part in types.parts(a)]
        return sizes[0] if len(sizes) == 1 else self.larger(*sizes)

    def one_norm(self, a: Lanes) -> Value:
        """|re| + |im|, by which LAPACK chooses pivots."""
        sizes = [self.f.intrinsic("fabs", part) for part in types.parts(a)]
        return sizes[0] if len(sizes) == 1 else self.f.fadd(*sizes)

    def larger(self, a: Value, b: Value) -> Value:
        """NaN where one of them is."""
        return self.f.intrinsic("maximum", a, b)

    def hypotenuse(self, *sides: Value) -> Value:
        """The root of the sum of squares of real numbers, where that does not overflow."""
        f = self.f
        lengths = [f.intrinsic("fabs", side) for side in sides]
        longest = lengths[0]
        for length in lengths[1:]:
            longest = self.larger(longest, length)
        divisor = f.select(f.cmp("oeq", longest, self.number(0)), self.number(1), longest)
        total = self.number(0)
        for length in lengths:
            ratio = f.fdiv(length, divisor)
            total = f.fadd(total, f.fmul(ratio, ratio))
        return f.fmul(divisor, f.intrinsic("sqrt", total))

    def fold(
        self, low: Index, high: Index, start: Sequence[Lanes], body: Callable[[Value, list[Lanes]], list[Lanes]]
    ) -> list[Lanes]:
        """A loop that carries numbers."""
        return fold(self.f, low, high, 1, start, body)


@dataclass(frozen=True)
class Matrix:
    """A column-major matrix of rows x columns at `base`, `leading` elements from column to column.

    `reversed`: it is read from its last element to its first, so its lower triangle is the upper one in memory.
    `adjoint`: it is the conjugate transpose of what lies in memory; rows and columns are those of the view.
    """

    x: Numbers
    base: Value
    rows: int
    columns: int
    leading: int
    reversed: bool = False
    adjoint: bool = False

    def _at(self, row: Index, column: Index) -> Index:
        f = self.x.f
        if self.reversed:
            row, column = f.isub(self.rows - 1, row), f.isub(self.columns - 1, column)
        if self.adjoint:
            row, column = column, row
        return f.iadd(f.imul(column, self.leading), row)

    def get(self, row: Index, column: Index) -> Lanes:
        """An element."""
        value = types.load(self.x.f, self.x.of, self.base, self._at(row, column))
        return self.x.conjugate(value) if self.adjoint else value

    def set(self, row: Index, column: Index, value: Lanes) -> None:
        """Store an element."""
        value = self.x.conjugate(value) if self.adjoint else value
        types.store(self.x.f, self.x.of, value, self.base, self._at(row, column))

    def each(self, body: Callable[[Index, Index], None], rows: int | None = None, columns: int | None = None) -> None:
        """`body(row, column)` for all elements, or those of the first rows and columns."""
        f, most = self.x.f, self.rows if rows is None else rows
        f.loop(0, self.columns if columns is None else columns, 1, lambda j: f.loop(0, most, 1, lambda i: body(i, j)))

    def fill(self, value: Callable[[Index, Index], Lanes]) -> None:
        """Every element becomes value(row, column)."""
        self.each(lambda i, j: self.set(i, j, value(i, j)))

    def unit(self, row: Index, column: Index) -> Lanes:
        """The element of a unit matrix."""
        f = self.x.f
        return types.select(f, f.cmp("eq", f.index(row), f.index(column)), self.x.one, self.x.zero)


@dataclass(frozen=True)
class Reals:
    """An array of real numbers at `base`; `last`: the number of its last element, where it is read from that one on."""

    x: Numbers
    base: Value
    last: int | None = None

    def _at(self, number: Index) -> Index:
        return number if self.last is None else self.x.f.isub(self.last, number)

    def get(self, number: Index) -> Value:
        """An element."""
        return self.x.f.load(self.x.of.compute, self.base, self._at(number))

    def set(self, number: Index, value: Value) -> None:
        """Store an element."""
        self.x.f.store(value, self.base, self._at(number))
