"""Floats to whole numbers as arithmetic on lanes, for processors without instructions for it: compilers call a function
for each lane there. To the same bits: zeros keep their sign, and a NaN stays one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stablehlo_py.codegen.values import F32, F64, Value

if TYPE_CHECKING:
    from stablehlo_py.codegen.operations import Operations

KINDS = frozenset(("ceil", "floor", "round", "roundeven", "trunc"))
# From here on, every number is whole; and in x + this, below it, the processor rounds x to a whole number.
_WHOLE = {F32: 2.0**23, F64: 2.0**52}
_BELOW_HALF = {F32: 0.5 - 2.0**-25, F64: 0.5 - 2.0**-54}


def rounded(f: Operations, kind: str, a: Value) -> Value:
    """A number of `KINDS`, as LLVM's intrinsics define them, of f32 or f64 lanes."""
    element = a.type.element
    size, whole = f.intrinsic("fabs", a), f.const(_WHOLE[element], a.type)
    if kind == "roundeven":
        result = _nearest(f, size, whole)
    elif kind == "trunc":
        result = _down(f, size, whole)
    elif kind == "round":  # halves away from zero: what is below half of the way goes down
        result = _down(f, f.fadd(size, f.const(_BELOW_HALF[element], a.type)), whole)
    else:
        nearest = f.intrinsic("copysign", _nearest(f, size, whole), a)
        one, zero = f.const(1.0, a.type), f.const(0.0, a.type)
        if kind == "floor":
            result = f.fsub(nearest, f.select(f.cmp("ogt", nearest, a), one, zero))
        else:
            result = f.fadd(nearest, f.select(f.cmp("olt", nearest, a), one, zero))
    result = f.intrinsic("copysign", result, a)
    return f.select(f.cmp("olt", size, whole), result, a)


def _nearest(f: Operations, size: Value, whole: Value) -> Value:
    """The nearest whole number, of a number that is not negative: ties to even."""
    return f.fsub(f.fadd(size, whole), whole)


def _down(f: Operations, size: Value, whole: Value) -> Value:
    """The next lower whole number, of a number that is not negative."""
    nearest = _nearest(f, size, whole)
    above = f.cmp("ogt", nearest, size)
    return f.fsub(nearest, f.select(above, f.const(1.0, size.type), f.const(0.0, size.type)))
