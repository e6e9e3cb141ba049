"""CHLO functions on floats below 32 bits: computed in f32 and rounded once.

Upstream expands CHLO into sums and products of StableHLO in the operand's own type, where every step would round to a
few bits (and expands some functions for f16 and wider only).

    %1 = chlo.acosh %0 : f8E5M2   ==>   %1 = stablehlo.convert %0 : f8E5M2 -> f32
                                        %2 = chlo.acosh %1 : f32
                                        %3 = stablehlo.convert %2 : f32 -> f8E5M2

And `next_after` of formats of 4 and 6 bits, which upstream expands to integers of 6 bits, which StableHLO lacks.
"""

from __future__ import annotations

from stablehlo_py.dialect import build
from stablehlo_py.dialect.formats import FORMATS, Specials
from stablehlo_py.dialect.types import element_type, is_float, shape
from stablehlo_py.legalize.rules import Results, rule
from stablehlo_py.mlir import ir

_FUNCTIONS = frozenset(
    f"chlo.{name}"
    for name in (
        "acos acosh asin asinh atan atanh bessel_i1e cosh digamma erf_inv erfc lgamma polygamma sinh zeta"
    ).split()
)


def compute_in_f32(function: ir.OpView) -> None:
    """Widen the operands of every such op in a function and narrow its result."""
    found: list[ir.Operation] = []

    def collect(op: ir.Operation) -> ir.WalkResult:
        if op.name in _FUNCTIONS and is_float(element_type(op.result)) and element_type(op.result).width < 32:
            found.append(op)
        return ir.WalkResult.ADVANCE

    function.operation.walk(collect)
    for op in found:
        with ir.InsertionPoint(op), op.location:
            wide = build.tensor(shape(op.result), ir.F32Type.get())
            operands = [build.op("stablehlo.convert", [wide], [operand]).result for operand in op.operands]
            exact = build.op(op.name, [wide], operands).result
            narrow = build.op("stablehlo.convert", [op.result.type], [exact]).result
        op.result.replace_all_uses_with(narrow)
        op.erase()


@rule("chlo.next_after")
def next_after(op: ir.OpView) -> Results:
    """In f32, whose bits below the exponent and mantissa of the format are zero: once the exponent is biased as in the
    format, the code of a number is the upper bits of the f32, subnormal numbers included.

    Only for formats without NaN: there is always a next number on the way to another one.
    """
    x, y = op.operands
    element = element_type(x)
    if FORMATS[str(element)].specials is not Specials.FINITE:
        return None
    format_ = FORMATS[str(element)]
    single, word = (build.tensor(shape(x), each) for each in (ir.F32Type.get(), ir.IntegerType.get_signless(32)))
    flags = build.tensor(shape(x), ir.IntegerType.get_signless(1))
    from_, to = (build.value("convert", single, each) for each in (x, y))
    zero, bias, unused = build.splat(0.0, single), 2.0 ** (format_.bias - 127), 23 - format_.mantissa_bits
    is_zero = build.value("compare", flags, from_, zero, direction="EQ")
    side = build.value("select", single, is_zero, to, from_)  # of zero that the result is on
    negative = build.value("compare", flags, side, zero, direction="LT")
    below = build.value("compare", flags, from_, to, direction="LT")
    grows = build.like("or", is_zero, build.like("xor", below, negative))
    code = build.value(
        "bitcast_convert", word, build.like("multiply", build.like("abs", from_), build.splat(bias, single))
    )
    one = build.splat(1 << unused, word)
    code = build.like("add", code, build.value("select", word, grows, one, build.like("negate", one)))
    size = build.like("multiply", build.value("bitcast_convert", single, code), build.splat(1 / bias, single))
    moved = build.value("select", single, negative, build.like("negate", size), size)
    same = build.value("compare", flags, from_, to, direction="EQ")
    return build.value("convert", x.type, build.value("select", single, same, to, moved))
