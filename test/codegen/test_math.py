"""Errors of the elementary functions, in units in the last place, on samples of their whole range; and their special
values.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from stablehlo_py.backends.cpu.kernels.testing import run_kernel
from stablehlo_py.backends.cpu.target import AVX2, AVX512, host_target

TARGETS = [target for target in (AVX2, AVX512) if target.vector_bits <= host_target().vector_bits]
SAMPLES = 4001


def kernel_text(op: str, element: str, count: int, operands: int = 1) -> str:
    tensor = f"tensor<{count}x{element}>"
    types = ", ".join([tensor] * operands)
    arguments = ", ".join(f"%a{number}: {tensor}" for number in range(operands))
    names = ", ".join(f"%a{number}" for number in range(operands))
    return f"""
    func.func private @fusion({arguments}) -> {tensor} attributes {{hlo.fusion = "loop"}} {{
      %0 = "hlo.{op}"({names}) : ({types}) -> {tensor}
      return %0 : {tensor}
    }}"""


def evaluate(op: str, *arrays: np.ndarray, target=AVX2) -> np.ndarray:
    element = {4: "f32", 8: "f64"}[arrays[0].dtype.itemsize]
    return run_kernel(kernel_text(op, element, arrays[0].size, len(arrays)), arrays, target)[0]


def ulps(result: np.ndarray, exact: np.ndarray) -> float:
    """Largest error in units in the last place of the exact result, over places where it is a normal number."""
    tiny = np.finfo(result.dtype).tiny
    with np.errstate(all="ignore"):
        rounded = exact.astype(result.dtype)
        usable = np.isfinite(rounded) & (np.abs(rounded) >= tiny)
        spacing = np.spacing(np.abs(rounded[usable])).astype(exact.dtype)
        return float(np.max(np.abs(result[usable].astype(exact.dtype) - exact[usable]) / spacing, initial=0.0))


CASES = {
    "exponential": (np.exp, (-87.0, 88.7), (-708.0, 709.7), 1.5),
    "exponential_minus_one": (np.expm1, (-20.0, 88.7), (-50.0, 709.7), 2.5),
    "log": (np.log, (1e-38, 1e38), (1e-300, 1e300), 1.5),
    "log_plus_one": (np.log1p, (-0.99, 1e6), (-0.99, 1e6), 1.5),
    "tanh": (np.tanh, (-12.0, 12.0), (-25.0, 25.0), 4.0),
    "logistic": (lambda x: 1 / (1 + np.exp(-x)), (-80.0, 80.0), (-700.0, 700.0), 3.0),
    "sine": (np.sin, (-29000.0, 29000.0), (-9e7, 9e7), 1.5),
    "cosine": (np.cos, (-29000.0, 29000.0), (-9e7, 9e7), 1.5),
    "tan": (np.tan, (-1000.0, 1000.0), (-1e6, 1e6), 4.0),
    "erf": (special.erf, (-4.0, 4.0), (-5.0, 5.0), 5.0),
    "cbrt": (np.cbrt, (-1e30, 1e30), (-1e300, 1e300), 3.0),
    "sqrt": (np.sqrt, (0.0, 1e30), (0.0, 1e300), 0.51),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (1e-30, 1e30), (1e-300, 1e300), 1.5),
}


def samples(low: float, high: float, dtype: type) -> np.ndarray:
    """Half evenly spread, half by magnitude, so that small arguments are well covered."""
    rng = np.random.default_rng(7)
    even = rng.uniform(max(low, -1e18), min(high, 1e18), SAMPLES // 2)
    largest = max(abs(low), abs(high))
    magnitude = np.exp(rng.uniform(np.log(1e-30), np.log(largest), SAMPLES - even.size))
    signed = magnitude * rng.choice([-1.0, 1.0], magnitude.size)
    return np.clip(np.concatenate([even, signed]), low, high).astype(dtype)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", CASES)
def test_error(op: str, dtype: type, target) -> None:
    reference, single, double, bound = CASES[op]
    x = samples(*(single if dtype is np.float32 else double), dtype)
    precise = np.float64 if dtype is np.float32 or op == "erf" else np.longdouble
    with np.errstate(all="ignore"):
        exact = reference(x.astype(precise))
    assert ulps(evaluate(op, x, target=target), exact) <= bound


def same(result: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
    np.testing.assert_allclose(result, expected, rtol=1e-6, equal_nan=True)
    zeros = expected == 0
    np.testing.assert_array_equal(np.signbit(result[zeros]), np.signbit(expected[zeros]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", CASES)
def test_special_values(op: str, dtype: type) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, 3e38, -3e38, 100.0, -100.0], dtype)
    with np.errstate(all="ignore"):
        expected = CASES[op][0](x.astype(np.float64)).astype(dtype)
    expected[np.abs(expected) < np.finfo(dtype).tiny * (op in ("exponential", "logistic"))] = (
        0.0  # underflow may go to zero
    )
    result = evaluate(op, x)
    if op in ("sine", "cosine", "tan"):
        result, expected = result[[0, 1, 2, 3, 4, 5, 6, 10, 11]], expected[[0, 1, 2, 3, 4, 5, 6, 10, 11]]
    if op in ("exponential", "logistic"):
        result[np.abs(result) < np.finfo(dtype).tiny] = 0.0
    same(result, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_huge_angles(dtype: type) -> None:
    x = np.array([3.4e4, 1e6, 1e9, 1e15, 3e38, -1e20, 2.5e12, 0.5], dtype)
    with np.errstate(all="ignore"):
        same(evaluate("sine", x), np.sin(x.astype(np.float64)).astype(dtype))
        same(evaluate("cosine", x), np.cos(x.astype(np.float64)).astype(dtype))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_power(dtype: type, target) -> None:
    rng = np.random.default_rng(3)
    x = np.exp(rng.uniform(-20, 20, SAMPLES)).astype(dtype)
    y = rng.uniform(-4, 4, SAMPLES).astype(dtype)
    precise = np.float64 if dtype is np.float32 else np.longdouble
    assert ulps(evaluate("power", x, y, target=target), np.power(x.astype(precise), y.astype(precise))) <= 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("op", "reference"), [("power", np.power), ("atan2", np.arctan2), ("remainder", np.fmod)])
def test_special_pairs(op: str, reference, dtype: type) -> None:
    numbers = np.array(
        [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, np.inf, -np.inf, np.nan, 1e30, -7.25], dtype
    )
    x, y = (grid.reshape(-1).copy() for grid in np.meshgrid(numbers, numbers))
    with np.errstate(all="ignore"):
        same(evaluate(op, x, y), reference(x.astype(np.float64), y.astype(np.float64)).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_atan2(dtype: type) -> None:
    rng = np.random.default_rng(5)
    y = (rng.standard_normal(SAMPLES) * np.exp(rng.uniform(-5, 5, SAMPLES))).astype(dtype)
    x = rng.standard_normal(SAMPLES).astype(dtype)
    precise = np.float64 if dtype is np.float32 else np.longdouble
    assert ulps(evaluate("atan2", y, x), np.arctan2(y.astype(precise), x.astype(precise))) <= 3.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_remainder_is_exact(dtype: type) -> None:
    rng = np.random.default_rng(6)
    x = (rng.standard_normal(SAMPLES) * np.exp(rng.uniform(-10, 20, SAMPLES))).astype(dtype)
    y = (rng.standard_normal(SAMPLES) * np.exp(rng.uniform(-5, 5, SAMPLES))).astype(dtype)
    np.testing.assert_array_equal(evaluate("remainder", x, y), np.fmod(x, y))


@pytest.mark.parametrize("op", ["sine", "cosine", "tan", "remainder"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_rare_argument_leaves_its_neighbours_alone(op: str, dtype: type) -> None:
    x = np.linspace(0.1, 80.0, 512, dtype=dtype)
    disturbed = x.copy()
    disturbed[::8] = 1e30
    rest = [np.full_like(x, 0.7)] if op == "remainder" else []
    usual, beside = evaluate(op, x, *rest), evaluate(op, disturbed, *rest)
    kept = np.arange(x.size) % 8 != 0
    assert usual[kept].tobytes() == beside[kept].tobytes()
