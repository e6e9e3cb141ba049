"""What a call of a program with dynamic dimensions must hold to: `hlo.checks` of the module."""

from __future__ import annotations

from dataclasses import dataclass

from stablehlo_py.dialect.size import Number, equal, minimum, symbol, symbols
from stablehlo_py.dialect.size_text import parse_sizes, sizes_text
from stablehlo_py.mlir import ir
from stablehlo_py.passes.symbolic.equations import Equation

CHECKS = "hlo.checks"


@dataclass(frozen=True)
class Check:
    """What must hold in a call: `condition` is 1 where it does.

    Attributes:
        required: a call where it does not hold is an error with `message`; else this program cannot serve it.
        message: what is wrong; "{0}", "{1}" ... stand for `values`.
        op, location: who needs it.
    """

    condition: Number
    required: bool
    message: str
    values: tuple[Number, ...]
    op: str
    location: str


def solved(equation: Equation) -> Check:
    """The check that a solved equation asks for."""
    name, value = equation.symbol, equation.value
    message = f"{describe_symbol(name)} is {{0}}, and must be {{1}} ({value_in_words(value)})"
    condition = equal(symbol(name), value)
    where = equation.location or ""
    return Check(condition, equation.required, message, (symbol(name), value), equation.op, where)


def value_in_words(value: Number) -> str:
    """What a size is, for a person: the names of the symbols are spelled out where it is one."""
    text = str(value)
    return describe_symbol(text) if text in symbols(value) else text


def bounded(name: str, bound: int) -> Check:
    """The check that a bounded dimension asks for."""
    size = symbol(name)
    message = f"{describe_symbol(name)} is {{0}}, and the model bounds it by {bound}"
    return Check(equal(minimum(size, bound), size), True, message, (size,), "", "")


def describe_symbol(name: str) -> str:
    """A symbol in words."""
    argument, position, *divisor = name[1:].split("_")
    share = f", divided by {divisor[0]}" if divisor else ""
    return f"{'dimension' if name[0] == 'd' else 'element'} {position} of argument {argument}{share}"


def checks_of(module: ir.Module) -> list[Check]:
    """The checks that `symbolize` left on a module."""
    if CHECKS not in module.operation.attributes:
        return []
    found = []
    for entry in module.operation.attributes[CHECKS]:
        condition, *values = parse_sizes(entry["sizes"].value)
        message, op, location = (entry[name].value for name in ("message", "op", "location"))
        found.append(Check(condition, entry["required"].value, message, tuple(values), op, location))
    return found


def attribute_of(check: Check) -> ir.DictAttr:
    """A check as an entry of the module's list."""
    return ir.DictAttr.get(
        {
            "sizes": ir.StringAttr.get(sizes_text((check.condition, *check.values))),
            "required": ir.BoolAttr.get(check.required),
            "message": ir.StringAttr.get(check.message),
            "op": ir.StringAttr.get(check.op),
            "location": ir.StringAttr.get(check.location),
        }
    )
