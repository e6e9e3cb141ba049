"""Elementwise ops without attributes: one element of each operand makes one of the result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from stablehlo_py.dialect import elements
from stablehlo_py.dialect.ops.record import Array, Identity, Record, Rounds, Value, always, of_reals, op
from stablehlo_py.dialect.rounding import is_integer_dtype
from stablehlo_py.dialect.types import element_type, is_bool, is_complex
from stablehlo_py.dialect.verify import Check, operand_elements, require
from stablehlo_py.mlir import ir


def pointwise(
    name: str,
    types_: str,
    doc: str,
    function: Value,
    *,
    operands: int = 1,
    result: Check | None = None,
    combiner: Identity | None = None,
    **facts: Any,
) -> Record:
    """Define an elementwise op without attributes, and register its record.

    Args:
        types_: element types of the operands, a key of `verify.ELEMENT_CLASSES`.
        doc: one sentence, for docs/hlo-dialect.md.
        function: NumPy's, of as many arrays as there are operands.
        operands: 1 or 2.
        result: checks the result's element type, where that may be another one than the operands'.
        combiner: the identity element, of commutative and associative ops: what reductions combine with.
        facts: the other fields of the record.
    """
    names = ("operand",) if operands == 1 else ("lhs", "rhs")
    signature = f"{name}({', '.join(f'{each}: T' for each in names)}) -> (result: {'any' if result else 'T'})"
    if combiner is not None:
        facts |= {"commutative": True, "associative": True, "identity": combiner}
    return op(
        signature,
        doc,
        checks=(operand_elements(types_), *((result,) if result else ())),
        elements=types_,
        elementwise=True,
        function=elements.for_all_types(function),
        **facts,
    )


# --- what the verifiers check of results -----------------------------------------------------------------------------


def _part_type(op: ir.OpView) -> None:
    """real, imag, abs: of complex numbers a part, else the same type."""
    source, result = element_type(op.operands[0]), element_type(op.results[0])
    expected = source.element_type if is_complex(source) else source
    require(result == expected, f"result elements must be {expected}")


def _complex_result(op: ir.OpView) -> None:
    """complex: two parts make a complex number."""
    result = element_type(op.results[0])
    require(
        is_complex(result) and result.element_type == element_type(op.operands[0]),
        "result must be complex of the operands' type",
    )


def boolean_result(op: ir.OpView) -> None:
    """Predicates give i1."""
    require(is_bool(element_type(op.results[0])), "result elements must be i1")


# Facts about ops of truth values and of the order of numbers.
_CHOICE: dict[str, Any] = {"exact": of_reals, "rounds": Rounds.NEVER, "relational": True}

# --- one operand -----------------------------------------------------------------------------------------------------

pointwise(
    "abs",
    "number",
    "Absolute value; of complex numbers the modulus, a real number.",
    lambda x: x if x.dtype.kind == "u" else np.abs(x),
    result=_part_type,
    exact=of_reals,
    rounds=Rounds.NEVER,
    complex_ulps=4,
)
pointwise("acos", "float", "Arc cosine.", np.arccos, flops=80, ulps=8)
pointwise("acosh", "float", "Inverse hyperbolic cosine.", np.arccosh, flops=80, ulps=16)
pointwise("asin", "float", "Arc sine.", np.arcsin, flops=80, ulps=8)
pointwise("asinh", "float", "Inverse hyperbolic sine.", np.arcsinh, flops=80, ulps=16)
pointwise("atanh", "float", "Inverse hyperbolic tangent.", np.arctanh, flops=80, ulps=16)
pointwise(
    "bessel_i1e",
    "float",
    "Modified Bessel function of the first kind and order 1, times e^-|operand|.",
    elements.special("i1e"),
    flops=100,
    ulps=16,
)
pointwise("cbrt", "float or complex", "Cube root.", np.cbrt, flops=30, ulps=4)
pointwise("ceil", "float", "Least integer that is not smaller.", np.ceil, exact=of_reals, rounds=Rounds.IN_BYTES)
pointwise("cosh", "float or complex", "Hyperbolic cosine.", np.cosh, flops=60, ulps=8)
pointwise("cosine", "float or complex", "Cosine.", np.cos, flops=30, ulps=4)
pointwise(
    "count_leading_zeros",
    "integer",
    "Number of zero bits before the first one.",
    elements.count_leading_zeros,
    flops=2,
    exact=of_reals,
)
pointwise(
    "digamma",
    "float",
    "Derivative of the logarithm of the gamma function.",
    elements.special("psi"),
    flops=400,
    ulps=32,
)
pointwise("erf", "float", "Error function.", elements.through_f64(math.erf), flops=30, ulps=8)
pointwise("erf_inv", "float", "Inverse of the error function.", elements.special("erfinv"), flops=60, ulps=16)
pointwise(
    "erfc",
    "float",
    "One minus the error function, accurate where that is small.",
    elements.through_f64(math.erfc),
    flops=100,
    ulps=16,
)
pointwise("exponential", "float or complex", "e to the operand.", np.exp, flops=14, ulps=4)
pointwise(
    "exponential_minus_one",
    "float or complex",
    "e to the operand, minus one, accurate near zero.",
    np.expm1,
    flops=18,
    ulps=4,
)
pointwise("floor", "float", "Greatest integer that is not greater.", np.floor, exact=of_reals, rounds=Rounds.IN_BYTES)
pointwise(
    "imag",
    "complex",
    "Imaginary part.",
    lambda x: x.imag if x.dtype.kind == "c" else np.zeros_like(x),
    result=_part_type,
    exact=always,
    rounds=Rounds.NEVER,
)
pointwise(
    "is_finite",
    "float",
    "True where neither infinite nor NaN.",
    np.isfinite,
    result=boolean_result,
    exact=of_reals,
    rounds=Rounds.NEVER,
)
pointwise(
    "lgamma",
    "float",
    "Logarithm of the absolute value of the gamma function.",
    elements.special("gammaln"),
    flops=400,
    ulps=32,
)
pointwise("log", "float or complex", "Natural logarithm.", np.log, flops=16, ulps=4)
pointwise(
    "log_plus_one",
    "float or complex",
    "Natural logarithm of one plus the operand, accurate near zero.",
    np.log1p,
    flops=20,
    ulps=4,
)
pointwise("logistic", "float or complex", "1 / (1 + e to minus the operand).", elements.logistic, flops=20, ulps=4)
pointwise(
    "negate",
    "number with a negative",
    "Minus the operand; integers wrap around.",
    np.negative,
    exact=always,
    rounds=Rounds.IN_BYTES,
)
pointwise("not", "integer or i1", "Bitwise complement; of i1 logical.", elements.logical(np.bitwise_not), **_CHOICE)
pointwise("popcnt", "integer", "Number of one bits.", elements.popcnt, flops=2, exact=of_reals, rounds=Rounds.NEVER)
pointwise(
    "real",
    "complex",
    "Real part.",
    lambda x: x.real if x.dtype.kind == "c" else x,
    result=_part_type,
    exact=always,
    rounds=Rounds.NEVER,
)
pointwise(
    "round_nearest_afz",
    "float",
    "Nearest integer, halves away from zero.",
    elements.round_nearest_afz,
    flops=2,
    exact=of_reals,
    rounds=Rounds.IN_BYTES,
)
pointwise(
    "round_nearest_even", "float", "Nearest integer, halves to even.", np.rint, exact=of_reals, rounds=Rounds.IN_BYTES
)
pointwise(
    "rsqrt",
    "float or complex",
    "One over the square root.",
    lambda x: (1 / np.sqrt(x)).astype(x.dtype),
    flops=6,
    ulps=2,
)
pointwise(
    "sign",
    "number",
    "-1, 0 or 1; zeros keep their sign, NaN stays, complex numbers go to the unit circle.",
    elements.sign,
    exact=of_reals,
    rounds=Rounds.IN_BYTES,
    complex_ulps=8,
)
pointwise("sine", "float or complex", "Sine.", np.sin, flops=30, ulps=4)
pointwise("sinh", "float or complex", "Hyperbolic sine.", np.sinh, flops=80, ulps=8)
pointwise("sqrt", "float or complex", "Square root.", np.sqrt, flops=6, exact=of_reals, complex_ulps=8)
pointwise("tan", "float or complex", "Tangent.", np.tan, flops=40, ulps=8)
pointwise("tanh", "float or complex", "Hyperbolic tangent.", np.tanh, flops=18, ulps=6)

# --- two operands ----------------------------------------------------------------------------------------------------


binary = partial(pointwise, operands=2)


def _power_is_exact(op: ir.Operation, operands: Sequence[Array]) -> bool:
    return is_integer_dtype(operands[0].dtype) and not bool((operands[1] < 0).any())


binary(
    "add",
    "number",
    "Sum; integers wrap around.",
    lambda x, y: x + y,
    exact=always,
    combiner=Identity(-0.0, -0.0, lambda low, high: 0),
)
binary(
    "and",
    "integer or i1",
    "Bitwise and; of i1 logical.",
    elements.logical(np.bitwise_and),
    **_CHOICE,
    combiner=Identity(None, 0.0, lambda low, high: -1 if low < 0 else high),
    absorbing=lambda low, high: 0,
    idempotent=True,
)
binary("atan2", "float or complex", "Angle of the point (rhs, lhs).", np.arctan2, flops=40, ulps=4)
binary(
    "complex",
    "float",
    "Complex number of a real and an imaginary part.",
    elements.complex_,
    result=_complex_result,
    exact=always,
    rounds=Rounds.NEVER,
)
binary(
    "divide",
    "number",
    "Quotient; of integers truncated, all ones for a zero divisor.",
    elements.divide,
    flops=6,
    exact=of_reals,
    complex_ulps=8,
)
binary(
    "maximum",
    "number",
    "Greater one; NaN if one is NaN; complex numbers in lexicographic order.",
    elements.maximum,
    **_CHOICE,
    combiner=Identity(-math.inf, -math.inf, lambda low, high: low),
    absorbing=lambda low, high: high,
    idempotent=True,
)
binary(
    "minimum",
    "number",
    "Smaller one; NaN if one is NaN; complex numbers in lexicographic order.",
    elements.minimum,
    **_CHOICE,
    combiner=Identity(math.inf, math.inf, lambda low, high: high),
    absorbing=lambda low, high: low,
    idempotent=True,
)
binary(
    "multiply",
    "number",
    "Product; integers wrap around.",
    lambda x, y: x * y,
    exact=of_reals,
    combiner=Identity(1.0, 0.0, lambda low, high: 1),
    absorbing=lambda low, high: 0,
    complex_ulps=4,
)
binary(
    "or",
    "integer or i1",
    "Bitwise or; of i1 logical.",
    elements.logical(np.bitwise_or),
    **_CHOICE,
    combiner=Identity(None, 0.0, lambda low, high: 0),
    absorbing=lambda low, high: -1 if low < 0 else high,
    idempotent=True,
)
binary(
    "power",
    "number",
    "lhs to the rhs; of integers 0, 1 or -1 for negative exponents.",
    elements.power,
    flops=40,
    exact=_power_is_exact,
    ulps=16,
)
binary(
    "remainder",
    "real number",
    "Remainder with the dividend's sign; of integers the dividend for a zero divisor.",
    elements.remainder,
    flops=12,
    exact=of_reals,
    rounds=Rounds.IN_BYTES,
)
binary(
    "shift_left",
    "integer",
    "lhs shifted left by rhs bits; zero from the width on.",
    elements.logical_shift(np.left_shift),
    exact=of_reals,
)
binary(
    "shift_right_arithmetic",
    "integer",
    "lhs shifted right, repeating the sign bit.",
    elements.shift_right_arithmetic,
    exact=of_reals,
)
binary(
    "shift_right_logical",
    "integer",
    "lhs shifted right, zeros enter; zero from the width on.",
    elements.logical_shift(np.right_shift),
    exact=of_reals,
)
binary("subtract", "number", "Difference; integers wrap around.", lambda x, y: x - y, exact=always)
binary(
    "xor",
    "integer or i1",
    "Bitwise exclusive or; of i1 logical.",
    elements.logical(np.bitwise_xor),
    **_CHOICE,
    combiner=Identity(None, 0.0, lambda low, high: 0),
)
binary(
    "zeta",
    "float",
    "Hurwitz's zeta function, the sum of (rhs + k) to -lhs for k = 0, 1, 2, ...",
    elements.special("zeta"),
    flops=2000,
    ulps=64,
)
