"""Special values of the elementary functions, and that their bits depend on nothing but the argument. Their errors are
in test_accuracy.py."""

from __future__ import annotations

import numpy as np
import pytest
from one_kernel import compile_kernel, here, run_kernel
from scipy import special

import stablehlo_py
from stablehlo_py.backends.cpu.target import AVX2, AVX512
from stablehlo_py.options import Options

TARGETS = here(AVX2, AVX512)
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


CASES = {
    "exponential": np.exp,
    "exponential_minus_one": np.expm1,
    "log": np.log,
    "log_plus_one": np.log1p,
    "tanh": np.tanh,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "sine": np.sin,
    "cosine": np.cos,
    "tan": np.tan,
    "erf": special.erf,
    "cbrt": np.cbrt,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "bessel_i1e": lambda x: np.copysign(special.i1e(x), x),
    "digamma": lambda x: np.where((x <= 0) & (x == np.floor(x)), np.nan, special.psi(x)),
    "erf_inv": lambda x: np.copysign(special.erfinv(x), x),
    "lgamma": lambda x: np.where(np.isinf(x), np.inf, special.gammaln(x)),
}


def same(result: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
    least = np.finfo(result.dtype).smallest_subnormal  # half of it may round either way
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=least, equal_nan=True)
    zeros = expected == 0
    np.testing.assert_array_equal(np.signbit(result[zeros]), np.signbit(expected[zeros]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", CASES)
def test_special_values(op: str, dtype: type) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, 3e38, -3e38, 100.0, -100.0], dtype)
    with np.errstate(all="ignore"):
        expected = CASES[op](x.astype(np.float64)).astype(dtype)
    same(evaluate(op, x), expected)


@pytest.mark.skipif(AVX512 not in TARGETS, reason="needs AVX-512")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exponentials_are_scaled_by_one_instruction(dtype: type) -> None:
    """With the bits of two products, denormal numbers included."""
    end = 160 if dtype is np.float32 else 1200
    x = np.concatenate([np.linspace(-end, end, SAMPLES), [np.inf, -np.inf, np.nan, 0.0, -0.0]]).astype(dtype)
    by_target = [evaluate("exponential", x, target=target) for target in (AVX2, AVX512)]
    assert by_target[0].tobytes() == by_target[1].tobytes()
    kernel = compile_kernel(kernel_text("exponential", f"f{8 * x.itemsize}", x.size), AVX512).kernel
    assert ".scalef." in "".join(kernel.functions.values())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_huge_angles(dtype: type) -> None:
    x = np.array([3.4e4, 1e6, 1e9, 1e15, 3e38, -1e20, 2.5e12, 0.5], dtype)
    with np.errstate(all="ignore"):
        same(evaluate("sine", x), np.sin(x.astype(np.float64)).astype(dtype))
        same(evaluate("cosine", x), np.cos(x.astype(np.float64)).astype(dtype))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("op", ["sine", "cosine", "tan"])
def test_angles_beside_multiples_of_half_pi(op: str, target) -> None:
    """Of sizes that are reduced in f32, in f64, and by digits."""
    multiples = np.rint(np.exp(np.random.default_rng(3).uniform(np.log(1e4), np.log(2.0**44), SAMPLES)))
    x = (multiples * np.longdouble(np.pi / 2)).astype(np.float32)
    exact = CASES[op](x.astype(np.float64))
    errors = np.abs(evaluate(op, x, target=target) - exact) / np.spacing(np.abs(exact).astype(np.float32))
    assert errors.max() < 1


def test_only_huge_angles_are_reduced_by_digits() -> None:
    """A branch in a branch: f32 has a way between."""
    texts = [
        "".join(compile_kernel(kernel_text("sine", of, 64), AVX2).kernel.functions.values()) for of in ("f32", "f64")
    ]
    assert texts[0].count("cond_br") == texts[1].count("cond_br") + 1


def test_powers_of_f32_need_no_f64_and_no_division() -> None:
    text = "".join(compile_kernel(kernel_text("power", "f32", 64, 2), AVX2).kernel.functions.values())
    assert "fpext" not in text and "fdiv" not in text


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_power_of_minus_five_halves_is_roots_and_quotients(dtype: type) -> None:
    element = {4: "f32", 8: "f64"}[np.dtype(dtype).itemsize]
    numbers = pattern_samples(dtype, 1 << 12)[: 1 << 12]
    numbers[:12] = [0.0, -0.0, np.inf, -np.inf, np.nan, -1, 1, 1e-40, 3e38, 1e-20, 1e18, 1e-17]
    text = f"""
    func.func private @fusion(%a: tensor<4096x{element}>) -> tensor<4096x{element}>
        attributes {{hlo.fusion = "loop"}} {{
      %0 = "hlo.constant"() {{value = dense<-2.5> : tensor<{element}>}} : () -> tensor<{element}>
      %1 = "hlo.broadcast"(%0) {{dimensions = array<i64>}} : (tensor<{element}>) -> tensor<4096x{element}>
      %2 = "hlo.power"(%a, %1) : (tensor<4096x{element}>, tensor<4096x{element}>) -> tensor<4096x{element}>
      return %2 : tensor<4096x{element}>
    }}"""
    assert "fptosi" not in "".join(compile_kernel(text, AVX2).kernel.functions.values())  # no exponential
    with np.errstate(all="ignore"):
        same(run_kernel(text, [numbers], AVX2)[0], np.power(numbers.astype(np.longdouble), -2.5).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rare_powers_leave_their_neighbours_alone(dtype: type) -> None:
    x, y = np.linspace(0.1, 8, 512, dtype=dtype), np.linspace(-9, 9, 512, dtype=dtype)
    disturbed = x.copy()
    disturbed[::8] = np.resize(np.array([-1.5, 0.0, -0.0, np.inf, -np.inf, np.nan], dtype), 64)
    usual, beside = evaluate("power", x, y), evaluate("power", disturbed, y)
    kept = np.arange(x.size) % 8 != 0
    assert usual[kept].tobytes() == beside[kept].tobytes()
    with np.errstate(all="ignore"):
        same(beside, np.power(disturbed.astype(np.float64), y.astype(np.float64)).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("op", "reference"), [("power", np.power), ("atan2", np.arctan2), ("remainder", np.fmod)])
def test_special_pairs(op: str, reference, dtype: type) -> None:
    numbers = np.array(
        [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, np.inf, -np.inf, np.nan, 1e30, -7.25], dtype
    )
    x, y = (grid.reshape(-1).copy() for grid in np.meshgrid(numbers, numbers))
    with np.errstate(all="ignore"):
        same(evaluate(op, x, y), reference(x.astype(np.float64), y.astype(np.float64)).astype(dtype))


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_an_arc_tangent_is_the_angle_of_a_point_at_1_and_takes_less(element: str) -> None:
    tensor = f"tensor<4096x{element}>"
    known = f"""
    func.func private @fusion(%y: {tensor}) -> {tensor} attributes {{hlo.fusion = "loop"}} {{
      %x = "hlo.constant"() {{value = dense<1.0> : {tensor}}} : () -> {tensor}
      %0 = "hlo.atan2"(%y, %x) : ({tensor}, {tensor}) -> {tensor}
      return %0 : {tensor}
    }}"""
    unknown = kernel_text("atan2", element, 4096, 2)
    sizes = [len("".join(compile_kernel(text, AVX2).kernel.functions.values())) for text in (known, unknown)]
    assert sizes[0] < 0.8 * sizes[1]
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.41421357, 2.4142137, 1e-40, 1e30, 3e38]
    y = np.resize(np.concatenate([ends, np.linspace(-5, 5, 2001)]), 4096)
    y = y.astype({"f32": np.float32, "f64": np.float64}[element])
    results = [run_kernel(known, [y], AVX2)[0], run_kernel(unknown, [y, np.ones_like(y)], AVX2)[0]]
    usual = ~np.isnan(y)
    assert results[0][usual].tobytes() == results[1][usual].tobytes()
    assert np.isnan(results[0][~usual]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zeta_at_its_poles_and_on_the_left(dtype: type) -> None:
    inf, nan = np.inf, np.nan
    cases = [
        *((s, q, float(special.zeta(s, q))) for s in (2.0, 3.0, 60.0) for q in (-0.5, -1.5, -20.5, -1000.25)),
        *((2.0, q, inf) for q in (0.0, -1.0, -7.0)),
        *((3.0, q, nan) for q in (0.0, -1.0, -7.0)),
        *((2.5, -0.5, nan), (1.0, 3.0, inf), (0.5, 3.0, nan), (nan, 3.0, nan), (2.0, nan, nan)),
        *((2.0, inf, 0.0), (inf, 1.0, 1.0), (inf, 2.0, 0.0), (inf, 0.5, inf), (2.0, 2.0**100, 2.0**-100)),
    ]
    s, q, expected = (np.array(column, dtype) for column in zip(*cases, strict=True))
    same(evaluate("zeta", s, q), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_remainder_is_exact(dtype: type) -> None:
    rng = np.random.default_rng(6)
    x = (rng.standard_normal(SAMPLES) * np.exp(rng.uniform(-10, 20, SAMPLES))).astype(dtype)
    y = (rng.standard_normal(SAMPLES) * np.exp(rng.uniform(-5, 5, SAMPLES))).astype(dtype)
    np.testing.assert_array_equal(evaluate("remainder", x, y), np.fmod(x, y))


@pytest.mark.parametrize("op", ["sine", "cosine", "tan", "remainder", "lgamma", "digamma"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_rare_argument_leaves_its_neighbours_alone(op: str, dtype: type) -> None:
    x = np.linspace(0.1, 80.0, 512, dtype=dtype)
    disturbed = x.copy()
    disturbed[::8] = 1e30
    rest = [np.full_like(x, 0.7)] if op == "remainder" else []
    usual, beside = evaluate(op, x, *rest), evaluate(op, disturbed, *rest)
    kept = np.arange(x.size) % 8 != 0
    assert usual[kept].tobytes() == beside[kept].tobytes()


def pattern_samples(dtype: type, count: int) -> np.ndarray:
    """Numbers of all sizes, infinities and NaNs."""
    bits = np.random.default_rng(11).integers(0, 2 ** (8 * dtype().itemsize), count, dtype=np.uint64)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 88.0, -104.0, 710.0, 1e-40], dtype)
    return np.concatenate([special, bits.astype(f"u{dtype().itemsize}").view(dtype)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", [*CASES, "power", "atan2", "remainder"])
def test_scalars_and_vectors_of_any_width_give_the_same_bits(op: str, dtype: type) -> None:
    x = pattern_samples(dtype, 500)
    operands = [x, x[::-1].copy()] if op in ("power", "atan2", "remainder") else [x]
    results = [evaluate(op, *operands, target=target) for target in TARGETS]
    element = {4: "f32", 8: "f64"}[x.itemsize]
    scalar = compile_kernel(kernel_text(op, element, 1, len(operands)), AVX2)
    scalars = np.concatenate([scalar.run([side[i : i + 1] for side in operands])[0] for i in range(24)])
    for result in results:
        np.testing.assert_array_equal(result, results[0])
        np.testing.assert_array_equal(result[:24], scalars)


@pytest.mark.parametrize("first", ["acos", "acosh", "asin", "asinh", "atanh", "digamma", "lgamma"])
def test_functions_of_a_rounded_f64_need_no_library(first: str) -> None:
    """LLVM rounds an f64 to f16 by a library function, where it finds that two roundings, and a sign, come from one."""
    names = [f"chlo.{name}" for name in "asin asinh bessel_i1e erf erf_inv sinh tan".split()]
    names += [f"stablehlo.{name}" for name in "cbrt log_plus_one sign tanh round_nearest_afz".split()]
    lines = [
        f"%{number} = {name} %x : tensor<f16>{' -> tensor<f16>' if name.startswith('chlo') else ''}"
        for number, name in enumerate(names)
    ]
    types = ", ".join(["tensor<f16>"] * len(names))
    text = f"""func.func @main(%a: tensor<f16>) -> ({types}) {{
      %x = chlo.{first} %a : tensor<f16> -> tensor<f16>
      {chr(10).join(lines)}
      return {", ".join(f"%{number}" for number in range(len(names)))} : {types}
    }}"""
    results = stablehlo_py.compile(text, options=Options(threads=1, cache_dir=None))(np.float16(0.25))
    assert all(result.dtype == np.float16 for result in results)
