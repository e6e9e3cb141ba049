"""Every elementwise op on every element type, against NumPy (ml_dtypes for the small types)."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from one_kernel import build_fusion, compile_kernel, here, run_kernel

from stablehlo_py.backends.cpu.target import AVX2, AVX512
from stablehlo_py.dialect import build
from stablehlo_py.mlir import ir

TARGETS = here(AVX2, AVX512)
COUNT = 203  # not a multiple of any vector
DTYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "ui8": np.uint8,
    "ui16": np.uint16,
    "ui32": np.uint32,
    "ui64": np.uint64,
    "i4": ml_dtypes.int4,
    "ui4": ml_dtypes.uint4,
    "complex<f32>": np.complex64,
    "complex<f64>": np.complex128,
}
FLOATS = ["f32", "f64", "f16", "bf16"]
SIGNED = ["i8", "i16", "i32", "i64", "i4"]
UNSIGNED = ["ui8", "ui16", "ui32", "ui64", "ui4"]
COMPLEX = ["complex<f32>", "complex<f64>"]


def numbers(element: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    dtype = DTYPES[element]
    if element in COMPLEX:
        return (rng.standard_normal(COUNT) + 1j * rng.standard_normal(COUNT)).astype(dtype)
    if element in FLOATS:
        values = rng.standard_normal(COUNT) * 3
        values[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]
        return rng.permutation(values).astype(dtype)
    if element == "i1":
        return rng.integers(0, 2, COUNT).astype(bool)
    info = ml_dtypes.iinfo(dtype)
    values = rng.integers(
        int(info.min), int(info.max), COUNT, dtype=np.uint64 if info.min == 0 else np.int64, endpoint=True
    )
    values[:4] = [info.min, info.max, 0, 1]
    values[4:20] = values[4:20] // 2 % 8  # small ones, zeros among them
    return rng.permutation(values).astype(dtype)


def evaluate(op: str, arrays: list[np.ndarray], elements: list[str], result: str, target, **attributes) -> np.ndarray:
    inputs = [f"tensor<{COUNT}x{element}>" for element in elements]

    def body(*values: ir.Value) -> ir.Value:
        return build.value(op, build.tensor([COUNT], ir.Type.parse(result)), *values, **attributes)

    return run_kernel(build_fusion("loop", inputs, body), arrays, target)[0]


def agree(result: np.ndarray, expected: np.ndarray, tolerance: float = 0.0) -> None:
    wide = {"c": np.complex128, "i": object, "u": object, "b": bool}.get(result.dtype.kind, np.float64)
    if "int" in result.dtype.name:
        wide = object
    with np.errstate(all="ignore"):
        expected = np.asarray(expected).astype(result.dtype)
    if wide in (object, bool):
        np.testing.assert_array_equal(
            result.astype(np.int64) if wide is object else result,
            expected.astype(np.int64) if wide is object else expected,
        )
    else:
        np.testing.assert_allclose(result.astype(wide), expected.astype(wide), rtol=tolerance, atol=tolerance * 1e-3)


def both_targets(function):
    return pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)(function)


BINARY = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


@both_targets
@pytest.mark.parametrize("element", FLOATS + SIGNED + UNSIGNED)
@pytest.mark.parametrize("op", BINARY)
def test_binary(op: str, element: str, target) -> None:
    x, y = numbers(element, 1), numbers(element, 2)
    with np.errstate(all="ignore"):
        if element in ("i4", "ui4"):
            low, wrap = (-8 if element == "i4" else 0), BINARY[op](x.astype(np.int64), y.astype(np.int64))
            expected = (wrap - low) % 16 + low
        else:
            expected = BINARY[op](x, y)
    agree(evaluate(op, [x, y], [element] * 2, element, target), expected)


@both_targets
@pytest.mark.parametrize("element", ["i8", "i16", "i32", "ui8", "ui16", "ui32"])
def test_quotients_of_floats_are_those_of_integers(element: str, target) -> None:
    """Dividends are multiples of the divisors, and the numbers beside them: there a rounded quotient would differ."""
    rng, info = np.random.default_rng(0), np.iinfo(DTYPES[element])
    y = np.exp(rng.uniform(0, np.log(int(info.max)), COUNT)).astype(np.int64)
    near = info.max // y * y - rng.integers(0, 3, COUNT) * y + rng.integers(-1, 2, COUNT)
    x = np.clip(near, 0, info.max).astype(DTYPES[element])
    if info.min < 0:
        x, y = x * rng.choice([-1, 1], COUNT).astype(x.dtype), y * rng.choice([-1, 1], COUNT)
    y = y.astype(x.dtype)
    quotient = np.trunc(x.astype(np.longdouble) / y.astype(np.longdouble)).astype(x.dtype)
    agree(evaluate("divide", [x, y], [element] * 2, element, target), quotient)
    agree(evaluate("remainder", [x, y], [element] * 2, element, target), x - quotient * y)


@pytest.mark.parametrize("element", SIGNED + UNSIGNED)
@pytest.mark.parametrize("op", ["divide", "remainder"])
def test_integer_division_never_traps(op: str, element: str) -> None:
    x, y = numbers(element, 1), numbers(element, 2)
    expected = []
    for a, b in zip(x.astype(object), y.astype(object), strict=True):
        a, b = int(a), int(b)
        if b == 0:
            expected.append(-1 if op == "divide" else a)
        else:
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            expected.append(quotient if op == "divide" else a - quotient * b)
    bits = {"i4": 4, "ui4": 4}.get(element, x.dtype.itemsize * 8)
    low = -(1 << (bits - 1)) if element in SIGNED else 0
    wrapped = [(value - low) % (1 << bits) + low for value in expected]
    result = evaluate(op, [x, y], [element] * 2, element, TARGETS[-1])
    assert [int(value) for value in result] == wrapped


@pytest.mark.parametrize("number", [-1, 0, 2, 7])
@pytest.mark.parametrize("element", SIGNED + UNSIGNED)
@pytest.mark.parametrize("op", ["divide", "remainder"])
def test_division_by_a_known_integer(op: str, element: str, number: int) -> None:
    x = numbers(element, 1)
    divisor = np.full_like(x, np.asarray(number).astype(x.dtype))

    def body(x: ir.Value) -> ir.Value:
        one = build.constant(divisor[0], ir.Type.parse(element))
        return build.value(op, x.type, x, build.value("broadcast", x.type, one, dimensions=[]))

    text = build_fusion("loop", [f"tensor<{COUNT}x{element}>"], body)
    agree(run_kernel(text, [x], TARGETS[-1])[0], evaluate(op, [x, divisor], [element] * 2, element, TARGETS[-1]))
    if number > 0:  # nothing asks whether it is zero
        functions = compile_kernel(text, TARGETS[-1]).kernel.functions
        assert not any('llvm.icmp "eq"' in text for text in functions.values())


@both_targets
@pytest.mark.parametrize("element", FLOATS)
def test_division(element: str, target) -> None:
    x, y = numbers(element, 1), numbers(element, 2)
    with np.errstate(all="ignore"):
        agree(evaluate("divide", [x, y], [element] * 2, element, target), x / y)


@pytest.mark.parametrize("element", [*SIGNED, *UNSIGNED, "i1"])
@pytest.mark.parametrize("op", ["and", "or", "xor"])
def test_logic(op: str, element: str) -> None:
    x, y = numbers(element, 1), numbers(element, 2)
    function = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[op]
    if element in ("i4", "ui4"):
        expected = function(x.astype(np.int8), y.astype(np.int8))
    else:
        expected = function(x, y)
    agree(evaluate(op, [x, y], [element] * 2, element, TARGETS[0]), expected)


@pytest.mark.parametrize("element", ["i8", "i32", "i64", "ui16", "ui32", "ui64"])
@pytest.mark.parametrize("op", ["shift_left", "shift_right_logical", "shift_right_arithmetic"])
def test_shifts(op: str, element: str) -> None:
    x, width = numbers(element, 1), DTYPES[element](0).itemsize * 8
    by = np.random.default_rng(4).integers(0, min(2 * width, 127), COUNT).astype(x.dtype)
    expected = []
    for a, amount in zip(x.astype(object), by.astype(object), strict=True):
        bits = int(a) % (1 << width)
        signed = bits - (bits >> (width - 1) << width)
        value = {
            "shift_left": bits << int(amount),
            "shift_right_logical": bits >> int(amount),
            "shift_right_arithmetic": signed >> int(amount),
        }[op]
        low = -(1 << (width - 1)) if element in SIGNED else 0
        expected.append((value - low) % (1 << width) + low)
    assert [int(value) for value in evaluate(op, [x, by], [element] * 2, element, TARGETS[-1])] == expected


UNARY = {
    "abs": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "negate": np.negative,
    "round_nearest_even": np.rint,
    "sign": np.sign,
    "sqrt": np.sqrt,
}


@both_targets
@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("op", UNARY)
def test_float_unary(op: str, element: str, target) -> None:
    x = numbers(element, 3)
    with np.errstate(all="ignore"):
        agree(evaluate(op, [x], [element], element, target), UNARY[op](x))


@pytest.mark.parametrize("element", SIGNED)
@pytest.mark.parametrize("op", ["abs", "negate", "sign", "not"])
def test_integer_unary(op: str, element: str) -> None:
    x = numbers(element, 3)
    wide = x.astype(np.int64)
    with np.errstate(all="ignore"):
        expected = {"abs": np.abs(wide), "negate": -wide, "sign": np.sign(wide), "not": ~wide}[op]
    low = int(ml_dtypes.iinfo(x.dtype).min)
    span = int(ml_dtypes.iinfo(x.dtype).max) - low + 1
    wrapped = [(int(value) - low) % span + low for value in expected]
    assert [int(value) for value in evaluate(op, [x], [element], element, TARGETS[0])] == wrapped


def test_round_half_away_from_zero() -> None:
    x = np.resize(
        np.array([0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, -0.49999997, 8388609.0, np.inf, np.nan, -0.0], np.float32),
        COUNT,
    )
    with np.errstate(all="ignore"):
        expected = np.copysign(np.floor(np.abs(x.astype(np.float64)) + 0.5), x)
    agree(evaluate("round_nearest_afz", [x], ["f32"], "f32", TARGETS[-1]), expected)


@pytest.mark.parametrize("element", ["i8", "i32", "ui16", "i64"])
def test_bit_counts(element: str) -> None:
    x = numbers(element, 3)
    width = x.dtype.itemsize * 8
    bits = [int(value) % (1 << width) for value in x.astype(object)]
    assert [int(v) for v in evaluate("popcnt", [x], [element], element, TARGETS[-1])] == [b.bit_count() for b in bits]
    leading = [width - b.bit_length() for b in bits]
    assert [int(v) for v in evaluate("count_leading_zeros", [x], [element], element, TARGETS[-1])] == leading


@pytest.mark.parametrize("element", ["i32", "i8", "ui32"])
def test_integer_power(element: str) -> None:
    x = np.resize(np.array([0, 1, 2, 3, 5, 7, 1, 250 if element == "ui32" else -1, 2], DTYPES[element]), COUNT)
    y = np.resize(np.array([0, 1, 2, 3, 5] if element == "ui32" else [0, 1, 2, 3, 5, -1, -2], DTYPES[element]), COUNT)
    width = x.dtype.itemsize * 8
    expected = []
    for a, b in zip(x.astype(object), y.astype(object), strict=True):
        value = int(a) ** int(b) if b >= 0 else {1: 1, -1: -1 if b % 2 else 1}.get(int(a), 0)
        low = -(1 << (width - 1)) if element in SIGNED else 0
        expected.append((value - low) % (1 << width) + low)
    assert [int(v) for v in evaluate("power", [x, y], [element] * 2, element, TARGETS[-1])] == expected


DIRECTIONS = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


@both_targets
@pytest.mark.parametrize("element", [*FLOATS, "i8", "i32", "i64", "ui8", "ui64", "i1", "i4"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_compare(direction: str, element: str, target) -> None:
    x, y = numbers(element, 1), numbers(element, 2)
    y[::3] = x[::3]
    result = evaluate("compare", [x, y], [element] * 2, "i1", target, direction=direction)
    left, right = (a.astype(np.int8) if element == "i4" else a for a in (x, y))
    np.testing.assert_array_equal(result, DIRECTIONS[direction](left, right))


def test_total_order() -> None:
    x = np.array([-np.nan, -np.inf, -1.0, -1e-45, -0.0, 0.0, 1e-45, 1.0, np.inf, np.nan], np.float32)
    x[0] = np.array(0xFFC00000, np.uint32).view(np.float32)
    left, right = (np.resize(grid.reshape(-1), COUNT) for grid in np.meshgrid(x, x))
    places = {bits: place for place, bits in enumerate(x.view(np.uint32))}
    expected = [places[a] < places[b] for a, b in zip(left.view(np.uint32), right.view(np.uint32), strict=True)]
    unit = ir.UnitAttr.get

    def body(a: ir.Value, b: ir.Value) -> ir.Value:
        result = build.tensor([COUNT], ir.Type.parse("i1"))
        return build.op("hlo.compare", [result], [a, b], {"direction": "LT", "total_order": unit()}).result

    text = build_fusion("loop", [f"tensor<{COUNT}xf32>"] * 2, body)
    np.testing.assert_array_equal(run_kernel(text, [left, right], TARGETS[0])[0], expected)


def converted(x: np.ndarray, source: str, target: str) -> np.ndarray:
    dtype = DTYPES[target]
    if target == "i1":
        return x.astype(np.float64) != 0 if source in FLOATS else x.astype(object) != 0
    if source in FLOATS and target in SIGNED + UNSIGNED:
        info = ml_dtypes.iinfo(dtype)
        wide = [
            0 if np.isnan(v) else max(int(info.min), min(int(info.max), int(np.clip(v, -1e30, 1e30))))
            for v in x.astype(np.float64)
        ]
        return np.array(wide, object).astype(np.int64 if target != "ui64" else np.uint64).astype(dtype)
    with np.errstate(all="ignore"):
        if target in ("f16", "bf16") and source not in FLOATS:
            return x.astype(np.float32).astype(dtype)
        if target in ("i4", "ui4"):
            low = -8 if target == "i4" else 0
            return ((x.astype(object) - low) % 16 + low).astype(np.int64).astype(dtype)
        if "i4" in source:
            return x.astype(np.int8).astype(dtype)
        return x.astype(dtype)


@pytest.mark.parametrize("target", [*FLOATS, "i1", "i4", "ui4", "i8", "i32", "i64", "ui8", "ui32", "ui64"])
@pytest.mark.parametrize("source", [*FLOATS, "i1", "i4", "ui4", "i8", "i32", "i64", "ui8", "ui32", "ui64"])
def test_convert(source: str, target: str) -> None:
    x = numbers(source, 5)
    if source in FLOATS:
        x[:4] = np.array([1e30 if source != "f16" else 6e4, -1e30 if source != "f16" else -6e4, 200.7, -200.7]).astype(
            x.dtype
        )
    agree(evaluate("convert", [x], [source], target, TARGETS[-1]), converted(x, source, target))


@pytest.mark.parametrize("element", COMPLEX)
def test_complex_conversions(element: str) -> None:
    x = numbers(element, 5)
    part = "f32" if element == COMPLEX[0] else "f64"
    agree(evaluate("real", [x], [element], part, TARGETS[0]), x.real)
    agree(evaluate("imag", [x], [element], part, TARGETS[0]), x.imag)
    agree(evaluate("abs", [x], [element], part, TARGETS[0]), np.abs(x), 1e-6)
    agree(evaluate("complex", [x.real.copy(), x.imag.copy()], [part] * 2, element, TARGETS[-1]), x)
    agree(evaluate("convert", [x.real.copy()], [part], element, TARGETS[-1]), x.real + 0j)


COMPLEX_UNARY = {
    "exponential": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "sine": np.sin,
    "cosine": np.cos,
    "negate": np.negative,
    "log_plus_one": np.log1p,
    "exponential_minus_one": np.expm1,
    "tan": np.tan,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "sign": lambda x: x / np.abs(x),
}


@both_targets
@pytest.mark.parametrize("element", COMPLEX)
@pytest.mark.parametrize("op", COMPLEX_UNARY)
def test_complex_unary(op: str, element: str, target) -> None:
    x = numbers(element, 5)
    expected = COMPLEX_UNARY[op](x.astype(np.complex128))
    agree(evaluate(op, [x], [element], element, target), expected, 2e-5 if element == COMPLEX[0] else 1e-12)


@pytest.mark.parametrize("element", COMPLEX)
@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "divide", "power"])
def test_complex_binary(op: str, element: str) -> None:
    x, y = numbers(element, 5), numbers(element, 6)
    expected = {**BINARY, "divide": np.divide, "power": np.power}[op](x.astype(np.complex128), y.astype(np.complex128))
    agree(evaluate(op, [x, y], [element] * 2, element, TARGETS[-1]), expected, 3e-5 if element == COMPLEX[0] else 1e-12)


@pytest.mark.parametrize("element", FLOATS)
def test_is_finite(element: str) -> None:
    x = numbers(element, 5)
    np.testing.assert_array_equal(
        evaluate("is_finite", [x], [element], "i1", TARGETS[0]), np.isfinite(x.astype(np.float64))
    )


@pytest.mark.parametrize(("exponent", "mantissa", "dtype"), [(8, 7, ml_dtypes.bfloat16), (5, 10, np.float16)])
def test_reduce_precision(exponent: int, mantissa: int, dtype: type) -> None:
    x = (numbers("f32", 5) * 1000).astype(np.float32)
    x[:3] = [1e6, -1e38, 65504.0]
    with np.errstate(all="ignore"):
        expected = x.astype(dtype).astype(np.float32)
    result = evaluate(
        "reduce_precision", [x], ["f32"], "f32", TARGETS[0], exponent_bits=exponent, mantissa_bits=mantissa
    )
    agree(result, expected)


@pytest.mark.parametrize(
    ("source", "target"), [("f32", "i32"), ("i64", "f64"), ("bf16", "ui16"), ("i16", "f16"), ("ui8", "i8")]
)
def test_bitcast(source: str, target: str) -> None:
    x = numbers(source, 5)
    result = evaluate("bitcast_convert", [x], [source], target, TARGETS[0])
    assert result.tobytes() == x.tobytes() or np.isnan(x.astype(np.float64)).any()
    same_width = f"u{x.dtype.itemsize}"
    usable = ~np.isnan(x.astype(np.float64)) & ~np.isnan(result.astype(np.float64))
    np.testing.assert_array_equal(result.view(same_width)[usable], x.view(same_width)[usable])


@pytest.mark.parametrize("element", [*FLOATS, "i32", "i1", "i4", "complex<f32>"])
def test_select(element: str) -> None:
    p, x, y = numbers("i1", 4), numbers(element, 5), numbers(element, 6)
    result = evaluate("select", [p, x, y], ["i1", element, element], element, TARGETS[-1])
    expected = np.where(p, x, y) if element != "i4" else np.where(p, x.astype(np.int8), y.astype(np.int8))
    agree(result, expected)


def test_bf16_rounds_after_every_op() -> None:
    x, y = (np.random.default_rng(seed).standard_normal(COUNT).astype(ml_dtypes.bfloat16) for seed in (1, 2))

    def body(a: ir.Value, b: ir.Value) -> ir.Value:
        return build.like("add", build.like("multiply", a, b), b)

    result = run_kernel(build_fusion("loop", [f"tensor<{COUNT}xbf16>"] * 2, body), [x, y], TARGETS[0])[0]
    np.testing.assert_array_equal(result, x * y + y)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("name", ["subtract", "multiply"])
def test_nans_of_bf16_stay(name: str, target) -> None:
    """Those with any bits, and what infinities make."""
    bits = np.linspace(0x7F80, 0x7FFF, COUNT // 2).astype(np.uint16)
    x = np.resize(np.concatenate([bits, bits + 0x8000]), COUNT).view(ml_dtypes.bfloat16)
    for y in (x[::-1], np.ones_like(x), np.zeros_like(x)):
        with np.errstate(invalid="ignore"):
            expected = getattr(np, name)(x, y)
        result = evaluate(name, [x, np.ascontiguousarray(y)], ["bf16"] * 2, "bf16", target)
        np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
