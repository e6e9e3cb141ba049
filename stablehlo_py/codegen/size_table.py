"""The table of sizes that a call fills before it runs: which expression is where, and the code that computes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stablehlo_py.codegen.values import I64, Index, Value
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
    """Emits the value of sizes from the values of symbols, each expression once."""

    def __init__(self, f: Function, symbols: dict[str, Value]) -> None:
        self.f = f
        self._symbols = symbols
        self._atoms: dict[Atom, Index] = {}

    def number(self, number: Number) -> Index:
        """The value of a size."""
        if is_known(number):
            return number
        assert isinstance(number, Size)
        f = self.f
        total: Index = 0
        for atoms, coefficient in number.terms:
            term: Index = coefficient
            for atom in atoms:
                term = f.imul(term, self._atom(atom))
            total = f.iadd(total, term)
        return total

    def _atom(self, atom: Atom) -> Index:
        if atom not in self._atoms:
            self._atoms[atom] = self._function(atom) if atom.function else self._symbols[atom.text]
        return self._atoms[atom]

    def _function(self, atom: Atom) -> Index:
        f = self.f
        arguments = [f.index(self.number(argument)) for argument in atom.arguments]
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
        """Rounded towards minus infinity, but for truncdiv; by zero it is 0 (a check of the call refuses that)."""
        f = self.f
        zero = f.const(0)
        divisor = f.select(f.cmp("eq", b, zero), f.const(1), b)
        quotient = f.binary("sdiv", a, divisor)
        if function == "truncdiv":
            return quotient
        rest = f.binary("srem", a, divisor)
        opposite = f.cmp("slt", f.binary("xor", rest, divisor), zero)
        inexact = f.binary("and", f.cmp("ne", rest, zero), opposite)
        if function == "mod":
            return f.select(inexact, f.binary("add", rest, divisor), rest)
        return f.binary("sub", quotient, f.cast("zext", inexact, I64))
