"""f16 to f32 and back as arithmetic on lanes, for processors without an instruction for it: compilers call a function
for each lane there, which not every system has. Rounds to nearest even; a NaN keeps its sign and the upper bits of its
payload, and becomes quiet, as in processors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stablehlo_py.codegen.values import F16, F32, I16, I32, Value, vector

if TYPE_CHECKING:
    from stablehlo_py.codegen.operations import Operations

_MAGNITUDE, _INFINITY, _QUIET = 0x7FFFFFFF, 0x7F800000, 0x400000
_DROPPED = 23 - 10  # bits of the mantissa that f16 lacks
_REBIAS = (127 - 15) << 23
_SMALLEST_NORMAL = (127 - 14) << 23  # of f16, as bits of f32
_BEYOND = (127 + 16) << 23  # the first power of two that f16 has not


def widened(f: Operations, a: Value) -> Value:
    """f32 lanes of f16 lanes: exact."""
    words = vector(a.type.lanes, I32)
    code = f.cast("zext", f.bitcast(a, vector(a.type.lanes, I16)), I32)

    def number(value: int) -> Value:
        return f.const(value, words)

    def op(name: str, left: Value, right: int) -> Value:
        return f.binary(name, left, number(right))

    shifted = op("shl", op("and", code, 0x7FFF), _DROPPED)
    exponent = op("and", shifted, 0x7C00 << _DROPPED)
    normal = op("add", shifted, _REBIAS)
    special = op("or", shifted, _INFINITY)
    special = f.select(f.cmp("ugt", special, number(_INFINITY)), op("or", special, _QUIET), special)
    # Below the normal numbers the code counts multiples of the smallest one: as the last bits of a float they are
    # multiples of its last place.
    floats = vector(a.type.lanes, F32)
    anchor = f.bitcast(number(_SMALLEST_NORMAL), floats)
    counted = f.bitcast(f.fsub(f.bitcast(op("or", shifted, _SMALLEST_NORMAL), floats), anchor), words)
    result = f.select(f.cmp("eq", exponent, number(0)), counted, normal)
    result = f.select(f.cmp("eq", exponent, number(0x7C00 << _DROPPED)), special, result)
    return f.bitcast(f.binary("or", result, op("shl", op("and", code, 0x8000), 16)), floats)


def narrowed(f: Operations, a: Value) -> Value:
    """f16 lanes of f32 lanes: the nearest number."""
    words, floats = vector(a.type.lanes, I32), vector(a.type.lanes, F32)

    def number(value: int) -> Value:
        return f.const(value, words)

    def op(name: str, left: Value, right: int) -> Value:
        return f.binary(name, left, number(right))

    bits = f.bitcast(a, words)
    magnitude = op("and", bits, _MAGNITUDE)
    # To nearest, ties to even: half of the last place less one, and one more where the last place is odd. Carries go
    # into the exponent, up to infinity.
    odd = op("and", op("lshr", magnitude, _DROPPED), 1)
    normal = op("add", magnitude, (1 << (_DROPPED - 1)) - 1 - _REBIAS)
    normal = op("lshr", f.binary("add", normal, odd), _DROPPED)
    # In x + c the processor rounds x to multiples of c's last place, which is that of f16 below its normal numbers.
    anchor = _SMALLEST_NORMAL + (_DROPPED << 23)
    anchored = f.fadd(f.bitcast(magnitude, floats), f.bitcast(number(anchor), floats))
    counted = op("sub", f.bitcast(anchored, words), anchor)
    payload = op("or", op("and", op("lshr", magnitude, _DROPPED), 0x3FF), 0x7E00)
    special = f.select(f.cmp("ugt", magnitude, number(_INFINITY)), payload, number(0x7C00))
    result = f.select(f.cmp("ult", magnitude, number(_SMALLEST_NORMAL)), counted, normal)
    result = f.select(f.cmp("uge", magnitude, number(_BEYOND)), special, result)
    code = f.binary("or", result, op("and", op("lshr", bits, 16), 0x8000))
    return f.bitcast(f.cast("trunc", code, I16), vector(a.type.lanes, F16))
