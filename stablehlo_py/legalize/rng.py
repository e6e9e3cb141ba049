"""stablehlo.rng: numbers from Philox bits, whose state the process keeps (docs/random-numbers.md).

The specification leaves the generator open. Ours gives the same numbers wherever a program runs and however it is
optimized: every draw is a function of the executable's seed, the number of the call, the process, the op and how often
it has run in the call. `hlo.random_state` makes a Philox state of these; what is left is arithmetic.

The rule runs before CHLO is expanded, because it makes some.
"""

from __future__ import annotations

from stablehlo_py.dialect import build
from stablehlo_py.dialect.attributes import RANDOM_SITES
from stablehlo_py.dialect.grid import function_of, process
from stablehlo_py.dialect.ops.grid import STATE_WORDS
from stablehlo_py.dialect.stablehlo import keyword
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import is_float, is_unsigned, shape
from stablehlo_py.legalize.rules import Results, Unsupported, rule
from stablehlo_py.mlir import ir

_AROUND = frozenset({"func.func", "stablehlo.while", "stablehlo.if", "stablehlo.case", "scf.while", "scf.if"})


@rule("stablehlo.rng")
def rng(op: ir.OpView) -> Results:
    """Uniform numbers in [a, b), or normal ones with mean a and standard deviation b."""
    around = op.operation.parent
    while around.name != "func.func":
        if around.name not in _AROUND:
            raise Unsupported(
                f"draws random numbers in the body of '{around.name}', which runs in no particular order",
                "draw them before, as one tensor, and pass that as an operand",
            )
        around = around.operation.parent
    a, b, _ = op.operands
    result = op.results[0].type
    if not result.has_static_shape:
        raise Unsupported(f"gives {result}", "load the module with concrete argument shapes")
    draw = _Draw(op)
    if keyword(op.attributes["rng_distribution"]) == "NORMAL":
        return _normal(draw, a, b, result)
    return (_uniform if is_float(result.element_type) else _uniform_integer)(draw, a, b, result)


class _Draw:
    """The random bits of one op."""

    def __init__(self, op: ir.OpView) -> None:
        attributes = function_of(op).attributes
        site = attributes[RANDOM_SITES].value if RANDOM_SITES in attributes else 0
        attributes[RANDOM_SITES] = build.attribute(site + 1)
        word = ir.IntegerType.get_unsigned(64)
        state = build.tensor([STATE_WORDS], word)
        self.state = build.value("random_state", state, process(op), site=site)

    def bits(self, sizes: tuple[IntLike, ...], width: int) -> ir.Value:
        """Random words of `width` bits."""
        types = [self.state.type, build.tensor(sizes, ir.IntegerType.get_unsigned(width))]
        return build.op("hlo.rng_bit_generator", types, [self.state], {"algorithm": "PHILOX"}).results[1]


def _bits(operand: ir.Value, element: ir.Type) -> ir.Value:
    """The same bits as another element type."""
    type_ = build.tensor(shape(operand), element)
    return operand if type_ == operand.type else build.value("bitcast_convert", type_, operand)


def _computed_in(element: ir.Type) -> tuple[ir.Type, int, int]:
    """The float type that numbers are computed in, its bits of precision and its width."""
    return (ir.F64Type.get(), 53, 64) if element == ir.F64Type.get() else (ir.F32Type.get(), 24, 32)


def _uniform(draw: _Draw, a: ir.Value, b: ir.Value, result: ir.RankedTensorType) -> ir.Value:
    """a (1 - u) + b u for u = k / 2^precision, rounded, and kept in [a, b) where rounding leaves it. This way b - a
    may overflow, and with a = 0 the numbers are exact products."""
    element, sizes = result.element_type, shape(result)
    wide, precision, width = _computed_in(element)
    bits = draw.bits(sizes, width)
    k = build.like("shift_right_logical", bits, build.splat(width - precision, bits.type))
    k = build.convert(k, wide)
    u = build.like("multiply", k, build.splat(2.0**-precision, k.type))
    low, high = (build.broadcast(build.convert(bound, wide), sizes, []) for bound in (a, b))
    from_low = build.like("multiply", low, build.like("subtract", build.splat(1.0, u.type), u))
    x = build.convert(build.like("add", from_low, build.like("multiply", high, u)), element)
    last = build.op("chlo.next_after", [b.type], [b, a]).result
    x = build.like("maximum", x, build.broadcast(a, sizes, []))
    return build.like("minimum", x, build.broadcast(last, sizes, []))


def _normal(draw: _Draw, mean: ir.Value, deviation: ir.Value, result: ir.RankedTensorType) -> ir.Value:
    """mean + deviation sqrt(2) erf_inv(v), for the odd multiples v of 2^-precision in (-1, 1): symmetric, finite."""
    element, sizes = result.element_type, shape(result)
    wide, precision, width = _computed_in(element)
    bits = draw.bits(sizes, width)
    k = build.like("shift_right_logical", bits, build.splat(width - precision, bits.type))
    k = _bits(k, ir.IntegerType.get_signless(width))
    odd = build.like("add", build.like("add", k, k), build.splat(1 - 2**precision, k.type))
    v = build.convert(odd, wide)
    v = build.like("multiply", v, build.splat(2.0**-precision, v.type))
    z = build.like("multiply", build.op("chlo.erf_inv", [v.type], [v]).result, build.splat(2.0**0.5, v.type))
    mean, deviation = (build.broadcast(build.convert(each, wide), sizes, []) for each in (mean, deviation))
    return build.convert(build.like("add", mean, build.like("multiply", deviation, z)), element)


def _uniform_integer(draw: _Draw, a: ir.Value, b: ir.Value, result: ir.RankedTensorType) -> ir.Value:
    """a + floor(w (b - a) / 2^128) for w of 128 random bits: no number's probability is off by more than one part in
    2^64 (Lemire, Fast Random Integer Generation in an Interval, 2019, without its rejection). Of booleans, [a, b)
    holds a alone."""
    element, sizes = result.element_type, shape(result)
    word = ir.IntegerType.get_unsigned(64)
    wide = word if is_unsigned(element) else ir.IntegerType.get_signless(64)
    low, high = (build.convert(bound, wide) for bound in (a, b))
    span = build.broadcast(_bits(build.like("subtract", high, low), word), sizes, [])
    pairs = draw.bits((2, *sizes), 64)
    upper, lower = (build.row(pairs, number) for number in range(2))
    # (upper 2^64 + lower) span has 192 bits; its upper 64 are the offset from a.
    product = build.like("multiply", upper, span)
    middle = build.like("add", product, _mulhi(lower, span))
    carry = build.convert(build.compare(middle, product, "LT"), word)
    offset = _bits(build.like("add", _mulhi(upper, span), carry), wide)
    return build.convert(build.like("add", build.broadcast(low, sizes, []), offset), element)


def _mulhi(x: ir.Value, y: ir.Value) -> ir.Value:
    return build.op("chlo.mulhi", [x.type], [x, y]).result
