"""`chlo.next_after` of small formats that upstream's expansion does not serve: of 4 and 6 bits, for which it takes
integers of 6 bits that StableHLO lacks, and of 8 bits without -0 or without signs, whose codes it misreads."""

from __future__ import annotations

from stablehlo_py.dialect import build
from stablehlo_py.dialect.formats import FORMATS, FloatFormat, Specials
from stablehlo_py.dialect.types import element_type, shape
from stablehlo_py.legalize.rules import Results, rule
from stablehlo_py.mlir import ir


@rule("chlo.next_after")
def next_after(op: ir.OpView) -> Results:
    """The operand, if they are equal; else the number next to it on the way to the other operand."""
    x, y = op.operands
    format_ = FORMATS[str(element_type(x))]
    if format_.specials is Specials.FINITE:
        return _in_f32(x, y, format_)
    return _by_code(x, y, format_) if format_.specials in (Specials.FNUZ, Specials.SCALE) else None


def _by_code(x: ir.Value, y: ir.Value, format_: FloatFormat) -> ir.Value:
    """Codes as integers in the order of the numbers, one more or less."""
    byte, word = (
        build.tensor(shape(x), type_) for type_ in (ir.IntegerType.get_unsigned(8), ir.IntegerType.get_signless(32))
    )
    zero, one, sign = (build.splat(number, word) for number in (0, 1, 128))
    code = build.value("convert", word, build.value("bitcast_convert", byte, x))
    if format_.specials is Specials.FNUZ:
        negative = build.compare(code, sign, "GT")
        code = build.value("select", word, negative, build.like("subtract", sign, code), code)
    upward = build.compare(x, y, "LT")
    code = build.like("add", code, build.value("select", word, upward, one, build.like("negate", one)))
    if format_.specials is Specials.FNUZ:
        negative = build.compare(code, zero, "LT")
        code = build.value("select", word, negative, build.like("subtract", sign, code), code)
    moved = build.value("bitcast_convert", x.type, build.value("convert", byte, code))
    same, known = (build.compare(x, y, direction) for direction in ("EQ", "NE"))
    for each in (x, y):
        known = build.like("and", known, build.compare(each, each, "EQ"))
    # Equal numbers, or a NaN and something.
    return build.value("select", x.type, known, moved, build.value("select", x.type, same, y, build.like("add", x, y)))


def _in_f32(x: ir.Value, y: ir.Value, format_: FloatFormat) -> ir.Value:
    """In f32, whose bits below the exponent and mantissa of the format are zero: once the exponent is biased as in the
    format, the code of a number is the upper bits of the f32, subnormal numbers included.

    Only for formats without NaN: there is always a next number on the way to another one.
    """
    single, word = (build.tensor(shape(x), each) for each in (ir.F32Type.get(), ir.IntegerType.get_signless(32)))
    from_, to = (build.value("convert", single, each) for each in (x, y))
    zero, bias, unused = build.splat(0.0, single), 2.0 ** (format_.bias - 127), 23 - format_.mantissa_bits
    is_zero = build.compare(from_, zero, "EQ")
    side = build.value("select", single, is_zero, to, from_)  # of zero that the result is on
    negative = build.compare(side, zero, "LT")
    below = build.compare(from_, to, "LT")
    grows = build.like("or", is_zero, build.like("xor", below, negative))
    code = build.value(
        "bitcast_convert", word, build.like("multiply", build.like("abs", from_), build.splat(bias, single))
    )
    one = build.splat(1 << unused, word)
    code = build.like("add", code, build.value("select", word, grows, one, build.like("negate", one)))
    size = build.like("multiply", build.value("bitcast_convert", single, code), build.splat(1 / bias, single))
    moved = build.value("select", single, negative, build.like("negate", size), size)
    same = build.compare(from_, to, "EQ")
    return build.value("convert", x.type, build.value("select", single, same, to, moved))
