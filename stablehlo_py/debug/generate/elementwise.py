"""Ops that work element by element: two tables, of names with the classes of types that the specification allows."""

from __future__ import annotations

from stablehlo_py.debug.generate.contractions import moderate
from stablehlo_py.debug.generate.draft import Draft, found, letter, letter_of, require, sizes
from stablehlo_py.debug.generate.families import Made, family
from stablehlo_py.debug.ops import order
from stablehlo_py.mlir import ir

# Classes of types: b i1, s u integers, f floats, 8 floats of 8 bits, c complex.
UNARY = {
    "abs": "sfc", "cbrt": "f", "ceil": "f8", "cosine": "fc", "count_leading_zeros": "su", "exponential": "fc",
    "exponential_minus_one": "f", "floor": "f8", "imag": "c", "is_finite": "f", "log": "fc", "log_plus_one": "f",
    "logistic": "f", "negate": "sufc8", "not": "bsu", "popcnt": "su", "real": "c", "round_nearest_afz": "f",
    "round_nearest_even": "f", "rsqrt": "f", "sign": "sfc", "sine": "fc", "sqrt": "fc", "tan": "f", "tanh": "fc",
}  # fmt: skip
BINARY = {
    "add": "bsufc8", "and": "bsu", "atan2": "f", "divide": "sufc", "maximum": "bsuf8", "minimum": "bsuf8",
    "multiply": "bsufc8", "or": "bsu", "power": "fsu", "remainder": "suf", "shift_left": "su",
    "shift_right_arithmetic": "su", "shift_right_logical": "su", "subtract": "sufc8", "xor": "bsu",
}  # fmt: skip
DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")


@family(9)
def unary(d: Draft) -> Made:
    """One of UNARY."""
    x = d.value("bsufc8")
    return d.op(d.one_of([name for name, letters in UNARY.items() if letter(x) in letters]), x)


@family(9)
def binary(d: Draft) -> Made:
    """One of BINARY."""
    x = d.value("bsufc8")
    name = d.one_of([name for name, letters in BINARY.items() if letter(x) in letters])
    return d.op(name, x, defined(d, name, d.like(x)))


def defined(d: Draft, name: str, y: ir.Value) -> ir.Value:
    """The right operand of an op, kept from what the specification leaves open for integers: division by zero, shifts
    by too much, powers that overflow."""
    if letter(y) not in "su":
        return y
    if name in ("divide", "remainder"):
        return d.op("or", y, d.splat(1, y))
    if name.startswith("shift"):
        return d.op("and", y, d.splat(y.type.element_type.width - 1, y))
    return d.op("and", y, d.splat(1, y)) if name == "power" else y


@family(2)
def compare(d: Draft) -> Made:
    """A comparison, of floats sometimes in their total order."""
    x = d.value("bsufc8")
    y, kind = d.like(x), letter(x)
    direction = d.one_of(DIRECTIONS[:2] if kind == "c" else DIRECTIONS)
    return d.op("compare", x, y, **order(direction, kind == "f" and d.chance(0.05)))


@family(2)
def select(d: Draft) -> Made:
    """A choice by elements, or of whole tensors."""
    x = d.value("bsufc8e")
    bool_ = ir.IntegerType.get_signless(1)
    predicate = d.like(x, bool_) if d.chance(0.8) else d.fresh((), bool_)
    return d.op("select", predicate, x, d.like(x))


@family(1.5)
def clamp(d: Draft) -> Made:
    """Bounds of the value's shape, or scalars. The lower one need not be lower."""
    x = d.value("bsuf8")
    element = x.type.element_type
    low, high = (d.like(x) if d.chance(0.4) else d.fresh((), element) for _ in range(2))
    return d.op("clamp", low, x, high)


@family(3)
def convert(d: Draft) -> Made:
    """Any type to any other. Floats are brought into the range of an integer first: the rest is not specified."""
    x = d.value("bsufc8e")
    names = ("f32", "f64", "bf16", "f16", "i32", "i8", "ui8", "i64", "i1", "ui32", "i4", "complex<f32>", "i16")
    element = d.element() if d.chance(0.5) else ir.Type.parse(d.one_of(names))
    if letter(x) == "c" and letter_of(element) != "c":
        x = d.op("real", x)
    if letter(x) == "e" and letter_of(element) in "su":
        x = d.op("convert", x, results=[d.tensor(sizes(x), ir.F32Type.get())])
    if letter(x) in "f8" and letter_of(element) in "su":
        x = within(d, x, element)
    return d.op("convert", x, results=[d.tensor(sizes(x), element)])


def within(d: Draft, x: ir.Value, element: ir.Type) -> ir.Value:
    """NaN becomes 0, and everything is brought into what the integer type surely holds."""
    width = element.width - (0 if element.is_unsigned else 1)
    top = float(2 ** min(width, 6) - 1)
    x = d.op("select", d.compare("EQ", x, x), x, d.splat(0.0, x))
    return d.op("clamp", d.splat(0.0 if element.is_unsigned else -top, x), x, d.splat(top, x))


@family(1)
def complex_parts(d: Draft) -> Made:
    """A complex number of two floats."""
    x = found(d.pick(lambda value: str(value.type.element_type) in ("f32", "f64")))
    return d.op("complex", x, d.like(x))


@family(1)
def bits(d: Draft) -> Made:
    """The bits of integers as another type of that width, also with another number of elements."""
    x = d.value("su")
    element = x.type.element_type
    same = {8: ["i8", "ui8"], 16: ["f16", "bf16", "i16"], 32: ["f32", "i32", "ui32"], 64: ["f64", "i64"]}
    require(element.width in same)
    if d.chance(0.3) and element.width > 8:
        half = ir.Type.parse({16: "i8", 32: "i16", 64: "i32"}[element.width])
        return d.op("bitcast_convert", x, results=[d.tensor([*sizes(x), 2], half)])
    target = ir.Type.parse(d.one_of(same[element.width]))
    return d.op("bitcast_convert", x, results=[d.tensor(sizes(x), target)])


@family(0.7)
def reduce_precision(d: Draft) -> Made:
    """Fewer bits of exponent and mantissa."""
    x = d.value("f")
    exponent, mantissa = (ir.IntegerAttr.get(d.i32, d.whole(low, high)) for low, high in ((2, 9), (0, 12)))
    return d.op("reduce_precision", x, exponent_bits=exponent, mantissa_bits=mantissa)


@family(1)
def iota(d: Draft) -> Made:
    """Counting along a dimension."""
    element = d.element()
    require(letter_of(element) not in "b8e")
    shape = d.shape(d.whole(1, 4))
    return d.op("iota", results=[d.tensor(shape, element)], iota_dimension=d.whole(0, len(shape)))


@family(3)
def squash(d: Draft) -> Made:
    """Bring floats back to moderate numbers, NaN to 1, so that later ops see something else."""
    x = d.value("f")
    return moderate(d, x)
