"""The table of sizes that a call fills before it runs: which expression is where, and the code that computes it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from stablehlo_py.codegen.values import I64, Value
from stablehlo_py.dialect.polynomial import Atom
from stablehlo_py.dialect.size import Number, Size, is_known
from stablehlo_py.errors import InternalError

if TYPE_CHECKING:
    from stablehlo_py.codegen.builder import Function


class SizeTable:
    """Numbers the sizes that code reads; the slots of one program."""

    def __init__(self) -> None:
        self.slots: dict[Size, int] = {}

    def slot(self, size: Size) -> int:
        """The position of a size in the table of i64 numbers."""
        return self.slots.setdefault(size, len(self.slots))


class SizeCode:
    """Emits the value of sizes from the values of symbols, each expression once.

    Attributes:
        undefined: an i1, whether a value so far is none of i64, or a quotient by zero. Such values are arbitrary.
    """

    def __init__(self, f: Function, symbols: dict[str, Value]) -> None:
        self.f = f
        self.undefined: Value = f.cmp("ne", f.const(0), f.const(0))
        self._symbols = symbols
        self._atoms: dict[Atom, Value] = {}

    def number(self, number: Number) -> Value:
        """The value of a size."""
        if is_known(number):
            return self._known(number)
        assert isinstance(number, Size)
        total: Value | None = None
        for atoms, coefficient in number.terms:
            factors = [self._atom(atom) for atom in atoms]
            if coefficient != 1 or not factors:
                factors.insert(0, self._known(coefficient))
            term = functools.reduce(lambda a, b: self._checked("smul", a, b), factors)
            total = term if total is None else self._checked("sadd", total, term)
        assert total is not None
        return total

    def _known(self, number: int) -> Value:
        if -(1 << 63) <= number < 1 << 63:
            return self.f.const(number)
        self._note(self.f.cmp("eq", self.f.const(0), self.f.const(0)))
        return self.f.const(0)

    def _checked(self, name: str, a: Value, b: Value) -> Value:
        value, overflows = self.f.checked(name, a, b)
        self._note(overflows)
        return value

    def _note(self, undefined: Value) -> None:
        self.undefined = self.f.binary("or", self.undefined, undefined)

    def _atom(self, atom: Atom) -> Value:
        if atom not in self._atoms:
            self._atoms[atom] = self._function(atom) if atom.function else self._symbols[atom.text]
        return self._atoms[atom]

    def _function(self, atom: Atom) -> Value:
        f = self.f
        arguments = [self.number(argument) for argument in atom.arguments]
        a, b = arguments[:2]
        if atom.function in ("max", "min"):
            return f.intrinsic(f"s{atom.function}", a, b)
        if atom.function in ("eq", "lt"):
            return f.cast("zext", f.cmp({"eq": "eq", "lt": "slt"}[atom.function], a, b), I64)
        if atom.function == "select":
            return f.select(f.cmp("ne", a, f.const(0)), b, arguments[2])
        if atom.function in ("floordiv", "mod", "truncdiv"):
            return self._division(atom.function, a, b)
        raise InternalError(f"no code for the size {atom.text}")

    def _division(self, function: str, a: Value, b: Value) -> Value:
        """Rounded towards minus infinity, but for truncdiv. What the processor has no quotient for is undefined."""
        f = self.f
        zero = f.const(0)
        overflows = f.binary("and", f.cmp("eq", a, f.const(-(1 << 63))), f.cmp("eq", b, f.const(-1)))
        undefined = f.binary("or", f.cmp("eq", b, zero), overflows)
        self._note(undefined)
        divisor = f.select(undefined, f.const(1), b)
        quotient = f.binary("sdiv", a, divisor)
        if function == "truncdiv":
            return quotient
        rest = f.binary("srem", a, divisor)
        opposite = f.cmp("slt", f.binary("xor", rest, divisor), zero)
        inexact = f.binary("and", f.cmp("ne", rest, zero), opposite)
        if function == "mod":
            return f.select(inexact, f.binary("add", rest, divisor), rest)
        return f.binary("sub", quotient, f.cast("zext", inexact, I64))
