"""What a call of a program with dynamic dimensions must hold to: `hlo.checks` of the module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stablehlo_py.dialect.attributes import CHECKS
from stablehlo_py.dialect.symint import IntLike, equal, less, minimum, symbol, symbols
from stablehlo_py.dialect.symint_text import parse_sizes, sizes_text
from stablehlo_py.errors import Problem
from stablehlo_py.mlir import ir
from stablehlo_py.passes.symbolic.equations import Equation

Kind = Literal["argument", "memory", "assumption"]
_TEXTS = ("kind", "message", "op", "location")


@dataclass(frozen=True)
class Check:
    """What must hold in a call: `condition` is 1 where it does.

    Attributes:
        kind: what a call is where it does not hold: "argument" and "memory", an error with `message`; "assumption",
            right, but not for this program.
        message: what is wrong; "{0}", "{1}" ... stand for `values`.
        op, location: who needs it.
    """

    condition: IntLike
    kind: Kind
    message: str
    values: tuple[IntLike, ...]
    op: str
    location: str

    def problem(self) -> Problem:
        """What is wrong in a call where it does not hold."""
        message = self.message
        for number, value in enumerate(self.values):
            message = message.replace(f"{{{number}}}", str(value))
        return Problem(message, self.location or None, self.op or None)


def solved(equation: Equation) -> list[Check]:
    """The checks that a solved equation asks for."""
    name, value = equation.symbol, equation.value
    message = f"{describe_symbol(name)} is {{0}}, and must be {{1}} ({value_in_words(value)})"
    share = next((text for text in symbols(value) if text.startswith(f"{name}_")), None)
    if share is not None:
        message = f"{describe_symbol(name)} is {{0}}, and must be a multiple of {share.rpartition('_')[2]}"
    condition, values, where = equal(symbol(name), value), (symbol(name), value), equation.location or ""
    if equation.unless_one is None:
        return [Check(condition, "argument", message, values, equation.op, where)]
    either = 1 - (1 - condition) * (1 - equal(equation.unless_one, 1))
    return [
        Check(either, "argument", message, values, equation.op, where),
        Check(condition, "assumption", message, values, equation.op, where),
    ]


def value_in_words(value: IntLike) -> str:
    """What a size is, for a person: the names of the symbols are spelled out where it is one."""
    text = str(value)
    return describe_symbol(text) if text in symbols(value) else text


def bounded(name: str, size: IntLike, bound: int) -> Check:
    """The check that a bounded dimension asks for, `size` of the symbol `name`."""
    message = f"{describe_symbol(name)} is {{0}}, and the model bounds it by {bound}"
    return Check(equal(minimum(size, bound), size), "argument", message, (size,), "", "")


def at_least(name: str, least: int, op: str, location: str | None) -> Check:
    """The check that an element of an argument asks for of which an op takes `least` or more."""
    size = symbol(name)
    message = f"{describe_symbol(name)} is {{0}}, and must be at least {least}"
    return Check(1 - less(size, least), "argument", message, (size,), op, location or "")


def describe_symbol(name: str) -> str:
    """A symbol in words."""
    argument, position, *divisor = name[1:].split("_")
    share = f", divided by {divisor[0]}" if divisor else ""
    return f"{'dimension' if name[0] == 'd' else 'element'} {position} of argument {argument}{share}"


def checks_of(module: ir.Module) -> list[Check]:
    """The checks that `infer-symbolic-shapes` left on a module."""
    if CHECKS not in module.operation.attributes:
        return []
    found = []
    for entry in module.operation.attributes[CHECKS]:
        condition, *values = parse_sizes(entry["sizes"].value)
        found.append(Check(condition, values=tuple(values), **{name: entry[name].value for name in _TEXTS}))
    return found


def attribute_of(check: Check) -> ir.DictAttr:
    """A check as an entry of the module's list."""
    texts = {"sizes": sizes_text((check.condition, *check.values)), **{name: getattr(check, name) for name in _TEXTS}}
    return ir.DictAttr.get({name: ir.StringAttr.get(text) for name, text in texts.items()})
