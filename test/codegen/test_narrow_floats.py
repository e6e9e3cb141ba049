"""The floats of eight bits and less, every code and every pair of codes, against ml_dtypes and exact rounding."""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
import pytest
from one_kernel import build_fusion, here, run_kernel

from stablehlo_py.backends.cpu.target import AVX2, AVX512
from stablehlo_py.dialect import build
from stablehlo_py.dialect.constants import element_name
from stablehlo_py.dialect.elements import reduce_precision, total_order_key
from stablehlo_py.dialect.evaluate import elementwise
from stablehlo_py.dialect.rounding import cast
from stablehlo_py.mlir import ir

TARGETS = here(AVX2, AVX512)
DTYPES = {
    element_name(dtype): np.dtype(dtype)
    for dtype in (
        ml_dtypes.float4_e2m1fn,
        ml_dtypes.float6_e2m3fn,
        ml_dtypes.float6_e3m2fn,
        ml_dtypes.float8_e3m4,
        ml_dtypes.float8_e4m3,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e4m3b11fnuz,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e5m2fnuz,
        ml_dtypes.float8_e8m0fnu,
    )
}
SCALE = "f8E8M0FNU"
WIDER = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
INTEGERS = {
    "i2": np.dtype(ml_dtypes.int2),
    "ui2": np.dtype(ml_dtypes.uint2),
    "i4": np.dtype(ml_dtypes.int4),
    "ui4": np.dtype(ml_dtypes.uint4),
} | {f"{sign}{bits}": np.dtype(f"{sign[0]}{bits // 8}") for sign in ("i", "ui") for bits in (8, 16, 32, 64)}

every_float = pytest.mark.parametrize("element", DTYPES)
both_targets = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)

UNIT = object()
Step = tuple[str, Sequence[int], str, dict[str, object]]  # op, numbers of its operands, result element, attributes


def evaluate(inputs: Sequence[tuple[str, np.ndarray]], steps: Sequence[Step], target) -> list[np.ndarray]:
    """One kernel with a result for every step on the inputs."""
    (size,) = {array.size for _, array in inputs}

    def body(*values: ir.Value) -> list[ir.Value]:
        made = []
        for op, numbers, result, attributes in steps:
            given = {name: ir.UnitAttr.get() if value is UNIT else value for name, value in attributes.items()}
            type_ = build.tensor([size], ir.Type.parse(result))
            made.append(build.value(op, type_, *(values[number] for number in numbers), **given))
        return made

    types = [f"tensor<{size}x{element}>" for element, _ in inputs]
    return run_kernel(build_fusion("loop", types, body), [array for _, array in inputs], target)


def all_codes(element: str) -> np.ndarray:
    dtype = DTYPES[element]
    return np.arange(1 << ml_dtypes.finfo(dtype).bits, dtype=np.uint8).view(dtype)


def all_pairs(element: str) -> tuple[np.ndarray, np.ndarray]:
    codes = all_codes(element)
    return np.repeat(codes, codes.size), np.tile(codes, codes.size)


def agree(result: np.ndarray, expected: np.ndarray, signs: bool = True) -> None:
    """Equal numbers (and signs of zeros), NaN at the same places."""
    with np.errstate(invalid="ignore"):
        result, expected = (np.asarray(array).astype(np.float64) for array in (result, expected))
    np.testing.assert_array_equal(result, expected)
    if signs:
        zeros = expected == 0
        np.testing.assert_array_equal(np.signbit(result[zeros]), np.signbit(expected[zeros]))


# --- exact rounding --------------------------------------------------------------------------------------------------


@functools.cache
def grid(dtype: np.dtype) -> tuple[list[float], int]:
    """All finite magnitudes in order of their codes, and a power-of-two one after them; how many are finite."""
    bits = ml_dtypes.finfo(dtype).bits
    count = 1 << (bits - (element_name(dtype) != SCALE))
    with np.errstate(invalid="ignore"):
        codes = np.arange(count, dtype=f"u{dtype.itemsize}").view(dtype).astype(np.float64)
    finite = [float(number) for number in codes if math.isfinite(number)]
    beyond = 2 * finite[-1] if element_name(dtype) == SCALE else 2 * finite[-1] - finite[-2]
    return [*finite, beyond], len(finite)


def nearest(number: float | int, dtype: np.dtype) -> float:
    """The value of the format next to a number, exactly: ties to even, overflow as the format has it."""
    name = element_name(dtype)
    negative = math.copysign(1, number) < 0
    if name == SCALE and (number != number or number <= 0):
        return math.nan
    if number != number:
        return math.nan if not name.endswith("FN") or name[1] == "8" else 0.0
    numbers, finite = grid(dtype)
    magnitude = abs(number)
    below = bisect.bisect_right(numbers, magnitude) - 1
    if below < 0:
        chosen = 0
    elif below >= finite:
        chosen = finite
    else:
        middle = (numbers[below] + numbers[below + 1]) / 2
        odd = name == SCALE or below % 2 == 1
        chosen = below + (magnitude > middle or (magnitude == middle and odd))
    if chosen == finite:
        limit = float(np.array(np.inf).astype(np.float32).astype(dtype).astype(np.float64))
        return math.copysign(limit, number) if limit == limit else limit
    zero_only = name.endswith("FNUZ") and chosen == 0
    return -numbers[chosen] if negative and not zero_only else numbers[chosen]


def boundaries(dtype: np.dtype, source: np.dtype) -> np.ndarray:
    """Values and middles of a format, what lies next to them in the source type, extremes and random bits."""
    numbers, _ = grid(dtype)
    with np.errstate(all="ignore"):
        exact = np.array(numbers, source)
        middles = exact[1:] / 2 + exact[:-1] / 2
        few = max(1, len(numbers) // 500)
        points = np.concatenate([exact[::few], middles[::few], exact[-2:], middles[-1:]])
        around = [points, np.nextafter(points, np.inf), np.nextafter(points, -np.inf)]
        wide = np.dtype(f"u{source.itemsize}")
        random = np.random.default_rng(0).integers(0, np.iinfo(wide).max, 2000, wide, endpoint=True).view(source)
        special = np.array([0.0, np.inf, np.nan, np.finfo(source).max, np.finfo(source).tiny, 1e-45], source)
    positive = np.concatenate([*around, special, random])
    return np.concatenate([positive, -positive])


@both_targets
@pytest.mark.parametrize("source", ["f32", "f64"])
@pytest.mark.parametrize("element", [*DTYPES, *WIDER])
def test_rounding(element: str, source: str, target) -> None:
    """f64 too is rounded once: next to a middle f32 would be the middle."""
    dtype = (DTYPES | WIDER)[element]
    x = boundaries(dtype, np.dtype(source.replace("f", "float")))
    (result,) = evaluate([(source, x)], [("convert", [0], element, {})], target)
    expected = [nearest(float(number), dtype) for number in x]
    agree(result, expected, signs=element[1] not in "46")  # there the zero of a NaN has no sign to speak of
    agree(cast(x, dtype), result)


@pytest.mark.parametrize("element", [*DTYPES, *WIDER])
def test_integers_to_floats(element: str) -> None:
    dtype = (DTYPES | WIDER)[element]
    inputs, count = [], 600
    points = [number for number in grid(dtype)[0] if number < 2**64]
    middles = [(a + b) / 2 for a, b in itertools.pairwise(points)]
    for name, integer in INTEGERS.items():
        info = ml_dtypes.iinfo(integer)
        whole = {int(x) + step for x in (*points, *middles) if x >= 2 for step in (-1, 0, 1)}
        whole |= {sign * (2**bits + step) for bits in range(64) for step in (-1, 0, 1) for sign in (-1, 1)}
        numbers = sorted(number for number in whole | {0, 1} if info.min <= number <= info.max)
        picked = [numbers[i * len(numbers) // count] for i in range(count)]
        exact = np.array(picked, object).astype(np.uint64 if info.min == 0 else np.int64)
        inputs.append((name, exact.astype(integer)))
    results = evaluate(inputs, [("convert", [n], element, {}) for n in range(len(inputs))], TARGETS[-1])
    for (_, x), result in zip(inputs, results, strict=True):
        agree(result, [nearest(int(number), dtype) for number in x], signs=False)
        agree(cast(x.astype(np.int64) if x.dtype.kind == "V" else x, dtype), result, signs=False)


# --- codes -----------------------------------------------------------------------------------------------------------


@both_targets
@every_float
def test_decoding(element: str, target) -> None:
    x = all_codes(element)
    wide, again, double = evaluate(
        [(element, x)], [("convert", [0], "f32", {}), ("copy", [0], element, {}), ("convert", [0], "f64", {})], target
    )
    agree(wide, x.astype(np.float32))
    agree(double, x.astype(np.float64))
    np.testing.assert_array_equal(again.view(np.uint8), x.view(np.uint8))  # NaN payloads too


@every_float
def test_floats_to_integers(element: str) -> None:
    x = all_codes(element)
    steps = [("convert", [0], name, {}) for name in INTEGERS]
    *results, truth = evaluate([(element, x)], [*steps, ("convert", [0], "i1", {})], TARGETS[-1])
    for result, dtype in zip(results, INTEGERS.values(), strict=True):
        info = ml_dtypes.iinfo(dtype)
        whole = [0 if math.isnan(n) else int(max(min(n, 2.0**65), -(2.0**65))) for n in x.astype(np.float64)]
        assert [int(n) for n in result] == [max(int(info.min), min(int(info.max), n)) for n in whole]
    np.testing.assert_array_equal(truth, x.astype(np.float32) != 0)


@every_float
def test_other_floats(element: str) -> None:
    x = all_codes(element)
    others = DTYPES | WIDER
    results = evaluate([(element, x)], [("convert", [0], name, {}) for name in others], TARGETS[0])
    for result, dtype in zip(results, others.values(), strict=True):
        agree(result, [nearest(float(number), dtype) for number in x.astype(np.float64)], signs=False)


@every_float
def test_bits(element: str) -> None:
    x = all_codes(element)
    if element[1] == "6":
        other = "f6E2M3FN" if element == "f6E3M2FN" else "f6E3M2FN"
        (result,) = evaluate([(element, x)], [("bitcast_convert", [0], other, {})], TARGETS[-1])
        np.testing.assert_array_equal(result.view(np.uint8), x.view(np.uint8))
        return
    integers = ("i4", "ui4") if element[1] == "4" else ("i8", "ui8")
    results = evaluate([(element, x)], [("bitcast_convert", [0], name, {}) for name in integers], TARGETS[-1])
    back = evaluate(
        list(zip(integers, results, strict=True)), [("bitcast_convert", [n], element, {}) for n in (0, 1)], TARGETS[0]
    )
    for array in (*results, *back):
        np.testing.assert_array_equal(array.view(np.uint8), x.view(np.uint8))


# --- arithmetic ------------------------------------------------------------------------------------------------------


def _extremum(function: Callable[..., np.ndarray], zero: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda x, y: np.where((x == 0) & (y == 0), zero(x, y), function(x, y))


BINARY: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "remainder": np.fmod,
    "maximum": _extremum(np.maximum, lambda x, y: x + y),
    "minimum": _extremum(np.minimum, lambda x, y: -(-x - y)),
}
DIRECTIONS = {"EQ": np.equal, "NE": np.not_equal, "LT": np.less, "GE": np.greater_equal}


@every_float
def test_all_pairs(element: str) -> None:
    x, y = all_pairs(element)
    left, right = x.astype(np.float32), y.astype(np.float32)
    steps: list[Step] = [(op, [0, 1], element, {}) for op in BINARY]
    steps += [("compare", [0, 1], "i1", {"direction": direction}) for direction in DIRECTIONS]
    steps.append(("compare", [0, 1], "i1", {"direction": "LT", "total_order": UNIT}))
    *results, ordered = evaluate([(element, x), (element, y)], steps, TARGETS[-1])
    with np.errstate(all="ignore"):
        for op, result in zip(BINARY, results, strict=False):
            agree(result, cast(BINARY[op](left, right), x.dtype), signs=element[1] not in "46")
            agree(elementwise(f"hlo.{op}", x, y), result, signs=element[1] not in "46")
    for direction, result in zip(DIRECTIONS, results[len(BINARY) :], strict=True):
        np.testing.assert_array_equal(result, DIRECTIONS[direction](left, right))
    np.testing.assert_array_equal(ordered, total_order_key(x) < total_order_key(y))


def _to_integer(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: math.copysign(function(x), x) if math.isfinite(x) else x


def _away(x: float) -> float:
    return math.floor(abs(x) + 0.5)


def _guarded(function: Callable[..., float], pole: float = math.nan) -> Callable[..., float]:
    def evaluated(*operands: float) -> float:
        if any(math.isnan(operand) for operand in operands):
            return math.nan
        try:
            return function(*operands)
        except OverflowError:
            return math.inf
        except (ValueError, ZeroDivisionError):
            return pole if operands[0] == 0 or (operands[0] == -1 and function is math.log1p) else math.nan

    return evaluated


UNARY: dict[str, Callable[[float], float]] = {
    "abs": abs,
    "ceil": _to_integer(math.ceil),
    "floor": _to_integer(math.floor),
    "negate": lambda x: -x,
    "round_nearest_afz": _to_integer(_away),
    "round_nearest_even": _to_integer(round),
    "sign": lambda x: x if x == 0 or math.isnan(x) else math.copysign(1, x),
    "cbrt": lambda x: math.copysign(abs(x) ** (1 / 3), x) if math.isfinite(x) else x,
    "cosine": _guarded(math.cos),
    "exponential": _guarded(math.exp),
    "exponential_minus_one": _guarded(math.expm1),
    "log": _guarded(math.log, -math.inf),
    "log_plus_one": _guarded(math.log1p, -math.inf),
    "logistic": lambda x: 0.0 if x < -700 else 1 / (1 + math.exp(-x)),
    "rsqrt": lambda x: math.copysign(math.inf, x) if x == 0 else _guarded(lambda y: 1 / math.sqrt(y))(x),
    "sine": _guarded(math.sin),
    "sqrt": _guarded(math.sqrt),
    "tan": _guarded(math.tan),
    "tanh": _guarded(math.tanh),
}
EXACT = ("abs", "ceil", "floor", "negate", "round_nearest_afz", "round_nearest_even", "sign", "sqrt")
LARGEST_ARGUMENT = 2.0**20  # of trigonometric functions: what is beyond has no digits of its argument left


@every_float
def test_functions(element: str) -> None:
    """The f32 value rounded: next to the middle of two numbers either may be right."""
    x = all_codes(element)
    numbers = [float(number) for number in x.astype(np.float64)]
    names = [name for name in UNARY if element != SCALE or name != "negate"]
    steps = [(name, [0], element, {}) for name in names]
    *results, finite = evaluate([(element, x)], [*steps, ("is_finite", [0], "i1", {})], TARGETS[-1])
    for name, result in zip(names, results, strict=True):
        exact = [UNARY[name](number) for number in numbers]
        slack = 0.0 if name in EXACT else 2.0**-21
        low, high = ([nearest(number * (1 + sign * slack), x.dtype) for number in exact] for sign in (-1, 1))
        near = [
            number
            for number in range(x.size)
            if name not in ("cosine", "sine", "tan") or abs(numbers[number]) < LARGEST_ARGUMENT
        ]
        if name in EXACT:
            with np.errstate(all="ignore"):
                agree(elementwise(f"hlo.{name}", x), result)
        for place in near:
            got = float(result[place])
            fits = got in (low[place], high[place]) or (got != got and low[place] != low[place])
            assert fits, (name, numbers[place], got, exact[place])
    np.testing.assert_array_equal(finite, np.isfinite(numbers))


@every_float
def test_reduce_precision(element: str) -> None:
    x = all_codes(element)
    formats = [(8, 23), (5, 2), (4, 3), (4, 1), (3, 1), (2, 0), (1, 1)]
    steps: list[Step] = [
        ("reduce_precision", [0], element, {"exponent_bits": e, "mantissa_bits": m}) for e, m in formats
    ]
    for result, (exponent_bits, mantissa_bits) in zip(
        evaluate([(element, x)], steps, TARGETS[-1]), formats, strict=True
    ):
        agree(result, reduce_precision(x, exponent_bits, mantissa_bits))


def test_reduce_precision_to_another_type() -> None:
    """Fewer bits of f8E5M2 are the bits of f8E4M3 (IEEE formats), where neither is denormal."""
    x = all_codes("f8E5M2")
    (result,) = evaluate(
        [("f8E5M2", x)], [("reduce_precision", [0], "f8E5M2", {"exponent_bits": 4, "mantissa_bits": 1})], TARGETS[0]
    )
    for number, reduced in zip(x.astype(np.float64), result.astype(np.float64), strict=True):
        if number != number:
            assert reduced != reduced
        elif abs(number) < 1.75 * 2.0**-7:  # what rounds to 2^-6 stays
            assert reduced == 0
        elif abs(number) >= 224:  # half way from 1.5 * 2^7 to 2^8
            assert reduced == math.copysign(math.inf, number)
        else:
            power = 2.0 ** (math.frexp(number)[1] - 2)
            assert reduced == round(number / power) * power
