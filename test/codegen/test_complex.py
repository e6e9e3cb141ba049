"""Errors of complex functions relative to the size of the result, and of the parts where they are computed exactly."""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from one_kernel import here, run_kernel

from stablehlo_py.accuracy.formats import FORMATS, exact_ulp
from stablehlo_py.backends.cpu.target import AVX2, AVX512

TARGETS = here(AVX2, AVX512)
every_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
every_type = pytest.mark.parametrize("dtype", [np.complex64, np.complex128])


def evaluate(op: str, target: object, *arrays: np.ndarray) -> np.ndarray:
    element = {8: "complex<f32>", 16: "complex<f64>"}[arrays[0].dtype.itemsize]
    tensor = f"tensor<{arrays[0].size}x{element}>"
    names = [f"%a{number}" for number in range(len(arrays))]
    parameters = ", ".join(f"{name}: {tensor}" for name in names)
    text = f"""
    func.func private @fusion({parameters}) -> {tensor} attributes {{hlo.fusion = "loop"}} {{
      %0 = "hlo.{op}"({", ".join(names)}) : ({", ".join([tensor] * len(names))}) -> {tensor}
      return %0 : {tensor}
    }}"""
    return run_kernel(text, arrays, target)[0]


def absolute(z: np.ndarray, target: object) -> np.ndarray:
    part = "f32" if z.dtype == np.complex64 else "f64"
    text = f"""
    func.func private @fusion(%z: tensor<{z.size}xcomplex<{part}>>) -> tensor<{z.size}x{part}>
        attributes {{hlo.fusion = "loop"}} {{
      %0 = "hlo.abs"(%z) : (tensor<{z.size}xcomplex<{part}>>) -> tensor<{z.size}x{part}>
      return %0 : tensor<{z.size}x{part}>
    }}"""
    return run_kernel(text, (z,), target)[0]


def samples(dtype: type) -> np.ndarray:
    rng = np.random.default_rng(0)
    spread = [
        (rng.standard_normal(200) + 1j * rng.standard_normal(200)) * scale for scale in (1e-6, 1e-3, 0.1, 1, 5, 20)
    ]
    circle = np.exp(1j * rng.uniform(0, 2 * np.pi, 300))
    return np.concatenate([*spread, circle, circle - 1]).astype(dtype)


def expm1(z: np.ndarray) -> np.ndarray:
    real = np.expm1(z.real) * np.cos(z.imag) - 2 * np.sin(z.imag / 2) ** 2
    return real + 1j * np.exp(z.real) * np.sin(z.imag)


CASES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float]] = {
    "cosine": (np.cos, 3.0),
    "exponential": (np.exp, 3.0),
    "exponential_minus_one": (expm1, 4.0),
    "log": (np.log, 3.0),
    "logistic": (lambda z: 1 / (1 + np.exp(-z)), 6.0),
    "rsqrt": (lambda z: 1 / np.sqrt(z), 4.0),
    "sine": (np.sin, 3.0),
    "sqrt": (np.sqrt, 3.0),
    "tan": (np.tan, 5.0),
    "tanh": (np.tanh, 5.0),
}


@every_target
@every_type
@pytest.mark.parametrize("op", CASES)
def test_error(op: str, dtype: type, target: object) -> None:
    function, limit = CASES[op]
    z = samples(dtype)
    exact = function(z.astype(np.clongdouble))
    error = np.abs(evaluate(op, target, z) - exact) / np.abs(exact) / np.finfo(dtype).eps
    assert np.nanmax(error) < limit


SPECIAL = np.array([0, -0.0, 1, -2, np.inf, -np.inf, np.nan])
SPECIAL_COMPLEX = np.array([complex(real, imaginary) for real in SPECIAL for imaginary in SPECIAL])


@every_target
@every_type
def test_absolute_value_of_special_numbers(dtype: type, target: object) -> None:
    """C99's hypot: infinite if a part is, else NaN if a part is, also where the other is zero."""
    z = SPECIAL_COMPLEX.astype(dtype)
    np.testing.assert_array_equal(absolute(z, target), np.hypot(z.real, z.imag))


@every_target
@every_type
def test_quotients_of_infinities_and_by_zero(dtype: type, target: object) -> None:
    """C99 Annex G.5.1: finite by infinite is zero, infinite by finite and anything by zero infinite."""
    a, b = (part.astype(dtype).ravel() for part in np.meshgrid(SPECIAL_COMPLEX, SPECIAL_COMPLEX))
    quotient = evaluate("divide", target, a, b)
    infinite = np.isinf(quotient.real) | np.isinf(quotient.imag)
    infinite_a, infinite_b = (np.isinf(x.real) | np.isinf(x.imag) for x in (a, b))
    assert np.all(quotient[np.isfinite(a) & infinite_b] == 0)
    assert np.all(infinite[infinite_a & np.isfinite(b)])
    assert np.all(infinite[(b == 0) & (a != 0) & ~np.isnan(a)])
    assert np.all(np.isnan(quotient[infinite_a & infinite_b]))


@every_target
def test_the_signs_of_quotients_are_those_of_directions(target: object) -> None:
    a = np.array([1j, complex(np.inf, 1), -2], np.complex64)
    b = np.array([complex(np.inf, -np.inf), 2, -0.0], np.complex64)
    parts = evaluate("divide", target, a, b).view(np.float32).tolist()
    assert str(parts) == "[-0.0, 0.0, inf, nan, inf, nan]"


@every_target
def test_logarithms_near_the_unit_circle(target: object) -> None:
    """log |a| is tiny there: both parts must be right, not only their sum of squares."""
    angle = np.random.default_rng(1).uniform(0.1, 3.0, 500)
    a = np.exp(1j * angle).astype(np.complex64)
    wide = a.astype(np.clongdouble)
    size = np.log1p((wide.real - 1) * (wide.real + 1) + wide.imag**2) / 2
    np.testing.assert_allclose(evaluate("log", target, a).real, size.astype(np.float32), rtol=1e-6, atol=0)
    b = (wide - 1).astype(np.complex64)
    wide = b.astype(np.clongdouble)
    size = np.log1p(wide.real * (wide.real + 2) + wide.imag**2) / 2
    np.testing.assert_allclose(evaluate("log_plus_one", target, b).real, size.astype(np.float32), rtol=1e-6, atol=0)


@every_target
def test_power_of_single_precision_is_exact_but_for_rounding(target: object) -> None:
    rng = np.random.default_rng(2)
    a, b = ((rng.standard_normal(500) + 1j * rng.standard_normal(500)).astype(np.complex64) * 3 for _ in range(2))
    exact = (a.astype(np.complex128) ** b.astype(np.complex128)).astype(np.complex64)
    ours = evaluate("power", target, a, b)
    np.testing.assert_allclose(ours, exact, rtol=2e-7, atol=0)


def distance(result: complex, exact: mpmath.mpc) -> float:
    """In ulps of the larger part (f64)."""
    unit = max(exact_ulp(part, FORMATS["f64"]) for part in (exact.real, exact.imag))
    return float(abs(result - exact) / unit)


def bases_and_exponents() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Of powers with large exponents b log a, whose errors are those of the powers."""
    rng = np.random.default_rng(3)
    count = 60

    def normal(scale: float | np.ndarray) -> np.ndarray:
        return (rng.standard_normal(count) + 1j * rng.standard_normal(count)) * scale

    # 61.7 ulps with an exponent of one number.
    bad = complex(float.fromhex("-0x1.5423027e48ecp-1"), float.fromhex("0x1.58c78da28a62p-2"))
    bad_exponent = complex(float.fromhex("0x1.2ad487cf45b2ep+3"), float.fromhex("0x1.011dcbf22c6bcp+3"))
    circle = np.exp(2j * np.pi * rng.random(count))
    near_one = normal(2.0 ** rng.uniform(-60, -1, count))
    return {
        "the worst case once": (np.array([bad]), np.array([bad_exponent])),
        "usual": (normal(3), normal(3)),
        "of all sizes": (normal(2.0 ** rng.uniform(-1070, 1020, count)), normal(0.5)),
        "next to the unit circle": (circle * (1 + 2.0 ** rng.uniform(-52, -2, count)), normal(40)),
        "next to one": (1 + near_one, normal(10 / np.abs(near_one))),
        "roots of one": (circle, rng.integers(-(10**7), 10**7, count) + 0j),
        "Dirichlet series": (rng.integers(2, 1000, count) + 0j, -0.5 + 1e6j * rng.standard_normal(count)),
        "huge angles": (rng.integers(2, 1000, count) + 0j, 1e8j * rng.uniform(1, 2, count)),
        "real": (rng.uniform(-10, 10, count) + 0j, rng.uniform(-300, 300, count) + 0j),
        "whole": (rng.integers(1, 20, count) + 1j * rng.integers(-20, 20, count), rng.integers(-9, 9, count) + 0j),
    }


@every_target
def test_power_of_double_precision(target: object) -> None:
    cases = bases_and_exponents()
    a, b = (np.concatenate(arrays) for arrays in zip(*cases.values(), strict=True))
    results = iter(evaluate("power", target, a, b).tolist())
    worst = {}
    with mpmath.workprec(300):
        for name, (bases, exponents) in cases.items():
            errors = []
            for base, exponent in zip(bases.tolist(), exponents.tolist(), strict=True):
                exact, result = mpmath.exp(mpmath.mpc(exponent) * mpmath.log(base)), next(results)
                if 1e-290 < abs(exact) < 1e308:
                    errors.append(distance(result, exact))
            assert len(errors) > len(bases) / 3, name
            worst[name] = max(errors)
    assert worst.pop("huge angles") < 4
    assert max(worst.values()) < 2, worst


@every_target
def test_special_powers_are_the_same_in_both_precisions(target: object) -> None:
    """f32 goes through the plain formula, e^(b log a)."""
    a, b = (part.ravel() for part in np.meshgrid(SPECIAL_COMPLEX, SPECIAL_COMPLEX))
    with np.errstate(over="ignore", invalid="ignore"):
        single, double = (evaluate("power", target, a.astype(t), b.astype(t)) for t in (np.complex64, np.complex128))
    special = ~(np.isfinite(a) & np.isfinite(b)) | (a == 0) | (b == 0)
    for ours, plain in ((double.real, single.real), (double.imag, single.imag)):
        np.testing.assert_array_equal(ours[special], plain[special])
        signed = special & ~np.isnan(plain)
        np.testing.assert_array_equal(np.signbit(ours[signed]), np.signbit(plain[signed]))
        np.testing.assert_allclose(ours[~special], plain[~special], rtol=1e-6, atol=1e-5)


@every_target
def test_powers_of_real_numbers(target: object) -> None:
    """Those of positive ones are real; whole ones of others are but for the rounding of pi to twice the precision."""
    x = np.array([2.0, 0.5, 1.0, 1e-310, 1e300, 7.0])
    result = evaluate("power", target, x + 0j, np.full(x.size, 0.75 + 0j))
    np.testing.assert_allclose(result.real, x**0.75, rtol=3e-16)
    np.testing.assert_array_equal(result.imag, 0)
    base = np.array([-2.0, -2.0, 1j, 1j, -1j, -3.0])
    exponent = np.array([2.0, 3.0, 2.0, 3.0, 4.0, -1.0]) + 0j
    exact = np.array([4.0, -8.0, -1.0, -1j, 1.0, -1 / 3])
    result = evaluate("power", target, base, exponent)
    np.testing.assert_allclose(result, exact, rtol=3e-16)
    assert np.abs(result.imag[exact.imag == 0]).max() < 1e-30


@every_type
def test_exponentials_of_huge_angles(dtype: type) -> None:
    z = np.array([1e6j, 1 + 1e9j, -2 + 3e38j, 1e20j, 0.5j, 3 - 1e15j]).astype(dtype)
    np.testing.assert_allclose(evaluate("exponential", TARGETS[-1], z), np.exp(z), rtol=4 * np.finfo(dtype).eps)


@every_type
def test_tanh_far_from_the_imaginary_axis(dtype: type) -> None:
    z = np.array([25 + 1j, -30 + 2j, 25 + np.pi / 2 * 1j, 40 - 0.5j, -40.0 + 0j, 1000 + 3j, -1000 - 3j]).astype(dtype)
    ours = evaluate("tanh", TARGETS[-1], z)
    wide = z.astype(np.clongdouble)
    np.testing.assert_array_equal(ours.real, np.sign(z.real))
    fading = 2 * np.sin(2 * wide.imag) * np.exp(-2 * np.abs(wide.real))
    np.testing.assert_allclose(ours.imag, fading.astype(ours.real.dtype), rtol=1e-5, atol=float(np.finfo(dtype).tiny))


@every_type
def test_nothing_overflows_or_underflows_on_the_way(dtype: type) -> None:
    largest, least = float(np.finfo(dtype).max), float(np.finfo(dtype).smallest_subnormal)
    edge = np.log(largest) + 1
    cases: list[tuple[str, list[complex], complex]] = [
        ("sqrt", [complex(largest, largest)], np.sqrt(largest) * np.sqrt(complex(1, 1))),
        ("sqrt", [complex(4 * least, 0)], 2 * np.sqrt(least)),
        ("rsqrt", [complex(0, -largest)], np.sqrt(complex(0, 1)) / np.sqrt(largest)),
        ("cbrt", [complex(-largest, largest)], np.cbrt(largest) * complex(-1, 1) ** (1 / 3)),
        ("sign", [complex(largest, largest)], np.exp(0.25j * np.pi)),
        ("sign", [complex(least, -least)], np.exp(-0.25j * np.pi)),
        ("exponential", [complex(edge, 1.5)], complex(largest * (np.e * np.cos(1.5)), np.inf)),
        ("sine", [complex(1e-6, edge)], complex(largest * (0.5e-6 * np.e), np.inf)),
        ("cosh", [complex(edge, 1e-6)], complex(np.inf, largest * (0.5e-6 * np.e))),
        ("tanh", [complex(np.inf, np.inf)], 1),
        ("tanh", [complex(largest, 1)], 1),
        ("logistic", [complex(-largest, 3)], 0),
        ("logistic", [complex(largest, -3)], 1),
        ("divide", [complex(largest, largest), complex(largest, largest)], 1),
        ("divide", [complex(least, least), complex(least, -least)], 1j),
        ("power", [complex(0.5, 0), complex(largest, largest)], 0),
    ]
    for op, arguments, expected in cases:
        (ours,) = evaluate(op, TARGETS[-1], *(np.array([argument], dtype) for argument in arguments))
        parts, right = [ours.real, ours.imag], [complex(expected).real, complex(expected).imag]
        rounding = 1e-6 * max(abs(part) for part in right if np.isfinite(part))
        np.testing.assert_allclose(parts, right, rtol=1e-4, atol=rounding, err_msg=f"{op} {arguments}")


@pytest.mark.parametrize("element", ["complex<f32>", "complex<f64>"])
@pytest.mark.parametrize("size", [3, 400])
def test_a_scalar_constant_keeps_both_parts(element: str, size: int) -> None:
    import stablehlo_py

    text = f"""func.func @main() -> tensor<{size}x{element}> {{
      %0 = stablehlo.constant dense<(2.0, 1.0)> : tensor<{element}>
      %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<{element}>) -> tensor<{size}x{element}>
      return %1 : tensor<{size}x{element}>
    }}"""
    (result,) = stablehlo_py.compile(text, options=stablehlo_py.Options(cache_dir=None))()
    assert (result == 2 + 1j).all()


# What C99 (Annex G.6), or NumPy where C99 has no such function, says of numbers with a part that is no angle.
LARGE = 1e8
DECIDED: list[tuple[str, complex, complex]] = [
    *(("tanh", complex(x, y), complex(np.nan, np.nan)) for x in (LARGE, -LARGE, 1) for y in (np.inf, np.nan)),
    *(("tanh", complex(x, y), complex(np.sign(x), 0)) for x in (np.inf, -np.inf) for y in (np.inf, np.nan, 1)),
    ("tan", complex(-np.inf, LARGE), complex(np.nan, np.nan)),
    ("tan", complex(np.nan, LARGE), complex(np.nan, np.nan)),
    ("tan", complex(np.nan, np.inf), 1j),
    *(("logistic", complex(x, np.nan), complex(np.nan, np.nan)) for x in (LARGE, -LARGE)),
    ("logistic", complex(-np.inf, np.nan), 0),
    *(("exponential_minus_one", complex(-np.inf, y), complex(np.nan, np.nan)) for y in (np.inf, -np.inf, np.nan)),
    *(("exponential", complex(-LARGE, y), complex(np.nan, np.nan)) for y in (np.inf, -np.inf, np.nan)),
    *(("exponential", complex(-np.inf, y), 0) for y in (np.inf, -np.inf, np.nan)),
]


@every_target
@every_type
def test_infinite_and_undefined_angles_of_large_numbers(dtype: type, target: object) -> None:
    """They were lost where e^re merely underflows, or 1 - e^re is 1."""
    largest = float(np.finfo(dtype).max)
    cases = [*DECIDED, ("tanh", complex(largest, np.inf), complex(np.nan, np.nan))]
    for op in {op for op, _, _ in cases}:
        of = [(z, expected) for name, z, expected in cases if name == op]
        results = evaluate(op, target, np.array([z for z, _ in of], dtype))
        for (z, expected), result in zip(of, results.tolist(), strict=True):
            parts = [result.real, result.imag], [complex(expected).real, complex(expected).imag]
            np.testing.assert_array_equal(*parts, err_msg=f"{op} {z}")


# Where an implementation may choose: the parts that C99 leaves open ("unspecified", a sign or one of NaN and 0), and
# numbers of which NumPy's own formula is wrong.
OPEN: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "cosine": lambda z: ~np.isfinite(z),
    "cosh": lambda z: ~np.isfinite(z),
    "exponential": lambda z: (z.real == np.inf) & ~np.isfinite(z.imag),
    "exponential_minus_one": lambda z: (z.imag == 0) & ~(z.real < LARGE),
    "log_plus_one": lambda z: (z.real > 1e30) & (z.imag > 1e30),
    "sine": lambda z: ~np.isfinite(z),
    "sinh": lambda z: ~np.isfinite(z),
    "sqrt": lambda z: np.isinf(z.real) & np.isnan(z.imag),
    "tan": lambda z: (z.real == 0) & np.isnan(z.imag) | ~np.isfinite(z.real) & (z.imag == 0),
    "tanh": lambda z: (z.imag == 0) & np.isnan(z.real) | ~np.isfinite(z.imag) & (z.real == 0),
}
NUMPY = {
    "cosine": np.cos,
    "cosh": np.cosh,
    "exponential": np.exp,
    "exponential_minus_one": np.expm1,
    "log": np.log,
    "log_plus_one": np.log1p,
    "sine": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}


@every_type
@pytest.mark.parametrize("op", NUMPY)
def test_pairs_of_special_parts(op: str, dtype: type) -> None:
    """Infinite and NaN parts are where NumPy's are, finite ones the same numbers."""
    of = np.finfo(dtype)
    parts = [0.0, -0.0, 1, -1, of.smallest_subnormal, LARGE, -LARGE, of.max, np.inf, -np.inf, np.nan]
    z = np.array([complex(x, y) for x in parts for y in parts], dtype)
    ours = evaluate(op, TARGETS[-1], z)
    with np.errstate(all="ignore"):
        right = NUMPY[op](z)
        exact = np.where(np.isfinite(right), NUMPY[op](z.astype(np.clongdouble)), 0)
    chosen = OPEN[op](z) if op in OPEN else np.zeros(z.shape, bool)
    size = np.maximum(np.abs(exact), float(of.tiny))
    for mine, theirs, wide in ((ours.real, right.real, exact.real), (ours.imag, right.imag, exact.imag)):
        kinds = [np.where(np.isnan(part), 2, np.where(np.isinf(part), np.sign(part), 0)) for part in (mine, theirs)]
        np.testing.assert_array_equal(kinds[0][~chosen], kinds[1][~chosen])
        finite = ~chosen & np.isfinite(ours) & np.isfinite(right)
        assert np.all(np.abs(mine - wide)[finite] <= 1e-5 * size[finite] + float(of.smallest_subnormal))
