"""The function that fills the table of sizes at the start of a call.

    void shlo_sizes(const int64_t *symbols, int64_t *table)

`symbols` are the dimensions and values of arguments that `DynamicLayout.symbols` lists. Behind the slots stands one
number more: 1 where every dimension is positive, every check of the call holds, and no number left i64 on the way.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from stablehlo_py.backends.common.description import results_of
from stablehlo_py.codegen.builder import I64, PTR, Function, Value
from stablehlo_py.codegen.emitter import Emitter
from stablehlo_py.codegen.size_table import SizeTable
from stablehlo_py.dialect.attributes import CHECKS
from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.polynomial import Atom
from stablehlo_py.dialect.symint import IntLike, SymInt, is_known, positive, symbols
from stablehlo_py.dialect.symint_text import sizes_text
from stablehlo_py.dialect.types import shape
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import ir
from stablehlo_py.passes.symbolic.checks import Check
from stablehlo_py.runtime.program import DynamicCheck, DynamicLayout, DynamicSymbol

ENTRY = "shlo_sizes"


def size_table(module: ir.Module) -> SizeTable | None:
    """A new table of sizes for a module with dynamic dimensions."""
    return SizeTable() if CHECKS in module.operation.attributes else None


def emit_sizes(
    module: ir.Module, table: SizeTable, arena: IntLike, checks: Sequence[Check], emitter: Emitter | None = None
) -> tuple[Function, DynamicLayout]:
    """The function, and where the runtime finds what it needs: the module's results, and an arena of that many bytes.
    Nothing may be added to the table afterwards."""

    def reference(number: IntLike) -> int:
        return -1 - table.slot(number) if isinstance(number, SymInt) else number

    shapes = tuple(tuple(map(reference, shape(type_))) for type_ in results_of(main_function(module)))
    arena_bytes = reference(arena)
    used = {name for size in (*table.slots, *(check.condition for check in checks)) for name in symbols(size)}
    names = sorted(name for name in used if positive(name) not in used - {name})
    f = Function(ENTRY, [("symbols", PTR), ("table", PTR)], emitter)
    values = {name: f.load(I64, f.symbols, position) for position, name in enumerate(names)}
    code = SizeCode(f, {name: values[name if name in values else positive(name)] for name in used})
    for size, slot in table.slots.items():
        f.store(code.number(size), f.table, slot)
    holds: Value = f.const(1)
    for name, value in values.items():
        if name == positive(name):
            holds = f.binary("and", holds, f.cast("zext", f.cmp("sgt", value, f.const(0)), I64))
    for check in checks:
        holds = f.binary("and", holds, code.number(check.condition))
    f.store(f.select(code.undefined, f.const(0), holds), f.table, len(table.slots))
    f.ret()
    described = tuple(
        DynamicCheck(check.kind, check.message, sizes_text((check.condition, *check.values)), check.op, check.location)
        for check in checks
    )
    layout = DynamicLayout(tuple(map(DynamicSymbol.named, names)), len(table.slots), shapes, arena_bytes, described)
    return f, layout


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

    def number(self, number: IntLike) -> Value:
        """The value of a size."""
        if is_known(number):
            return self._known(number)
        assert isinstance(number, SymInt)
        total: Value | None = None
        for atoms, coefficient in number.terms:
            factors = [self._atom(atom) for atom in atoms]
            if coefficient != 1 or not factors:
                factors.insert(0, self._known(coefficient))
            term = functools.reduce(lambda a, b: self._checked("smul", a, b), factors)
            total = term if total is None else self._checked("sadd", total, term)
        assert total is not None
        return total

    def _known(self, number: IntLike) -> Value:
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
