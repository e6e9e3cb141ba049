"""Integers of eight bits and less: every op on every pair of values, every conversion, bits regrouped."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from one_kernel import build_fusion, here, run_kernel

from stablehlo_py.backends.cpu.target import AVX2, AVX512
from stablehlo_py.dialect import build
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.context import make_context
from stablehlo_py.dialect.evaluate import elementwise
from stablehlo_py.dialect.rounding import codes
from stablehlo_py.mlir import ir

TARGETS = here(AVX2, AVX512)
TYPES = ("i2", "i4", "i8", "ui2", "ui4", "ui8")
ALL = (*TYPES, "i16", "i32", "i64", "ui16", "ui32", "ui64")
every_type = pytest.mark.parametrize("name", TYPES)


def dtype_of(name: str) -> np.dtype:
    with make_context():
        return numpy_dtype(ir.Type.parse(name))


def bounds(name: str) -> tuple[int, int, int]:
    """(bits, least, greatest)."""
    info = ml_dtypes.iinfo(dtype_of(name))
    return info.bits, int(info.min), int(info.max)


def wrapped(numbers: np.ndarray, name: str) -> np.ndarray:
    """Integers modulo two to the width of the type."""
    bits, low, _ = bounds(name)
    return (numbers - low) % (1 << bits) + low


def run(inputs: list[tuple[str, np.ndarray]], steps: list[tuple[str, str, dict[str, str]]], target) -> list[np.ndarray]:
    """One kernel with the results of all ops (op, element of the result, attributes) on the same operands."""
    size = inputs[0][1].size

    def body(*values: ir.Value) -> list[ir.Value]:
        return [
            build.value(op, build.tensor([size], ir.Type.parse(result)), *values, **attributes)
            for op, result, attributes in steps
        ]

    types = [f"tensor<{size}x{name}>" for name, _ in inputs]
    return run_kernel(build_fusion("loop", types, body), [array for _, array in inputs], target)


def _divided(x: int, y: int) -> int:
    return -1 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _remainder(x: int, y: int) -> int:
    return x if y == 0 else x - _divided(x, y) * y


def _power(x: int, y: int) -> int:
    if y < 0:
        return {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)
    return pow(x, y, 1 << 64)


BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": _divided,
    "remainder": _remainder,
    "power": _power,
    "maximum": max,
    "minimum": min,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
}
DIRECTIONS = {"EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater}


def shifts(name: str) -> dict[str, Callable[[int, int], int]]:
    """Shifts by the width or more, the amount read as unsigned, give zeros or the sign."""
    bits, _, _ = bounds(name)
    size = 1 << bits

    def signed(x: int) -> int:
        return (x + size // 2) % size - size // 2

    return {
        "shift_left": lambda x, y: x << (y % size) if y % size < bits else 0,
        "shift_right_logical": lambda x, y: (x % size) >> (y % size),
        "shift_right_arithmetic": lambda x, y: signed(x) >> min(y % size, bits),
    }


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@every_type
def test_all_pairs(name: str, target) -> None:
    _, low, high = bounds(name)
    values = np.arange(low, high + 1)
    x, y = np.repeat(values, values.size), np.tile(values, values.size)
    functions = BINARY | shifts(name)
    steps = [(op, name, {}) for op in functions] + [("compare", "i1", {"direction": each}) for each in DIRECTIONS]
    dtype = dtype_of(name)
    results = run([(name, x.astype(dtype)), (name, y.astype(dtype))], steps, target)
    for (op, function), result in zip(functions.items(), results, strict=False):
        exact = np.array([function(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)], object)
        np.testing.assert_array_equal(result.astype(np.int64), wrapped(exact, name).astype(np.int64), op)
        folded = elementwise(f"hlo.{op}", x.astype(dtype), y.astype(dtype))
        assert folded.dtype == dtype
        np.testing.assert_array_equal(folded.astype(np.int64), result.astype(np.int64), op)
    for direction, result in zip(DIRECTIONS, results[len(functions) :], strict=True):
        np.testing.assert_array_equal(result, DIRECTIONS[direction](x, y), direction)


@every_type
def test_all_values(name: str) -> None:
    bits, low, high = bounds(name)
    x = np.arange(low, high + 1)
    ones = [(number % (1 << bits)).bit_count() for number in x.tolist()]
    unary = {
        "negate": -x,
        "abs": np.abs(x),
        "sign": np.sign(x),
        "not": ~x,
        "popcnt": np.array(ones),
        "count_leading_zeros": np.array([bits - (number % (1 << bits)).bit_length() for number in x.tolist()]),
    }
    steps = [(op, name, {}) for op in unary] + [("convert", other, {}) for other in (*ALL, "f32", "f64", "i1")]
    results = run([(name, x.astype(dtype_of(name)))], steps, TARGETS[-1])
    for (op, exact), result in zip(unary.items(), results, strict=False):
        np.testing.assert_array_equal(result.astype(np.int64), wrapped(exact, name), op)
        folded = elementwise(f"hlo.{op}", x.astype(dtype_of(name)))
        np.testing.assert_array_equal(folded.astype(np.int64), result.astype(np.int64), op)
    *converted, f32, f64, truth = results[len(unary) :]
    for other, result in zip(ALL, converted, strict=True):
        expected = [int(number) for number in wrapped(x.astype(object), other)]
        assert [int(number) for number in result] == expected
    np.testing.assert_array_equal(f32, x)
    np.testing.assert_array_equal(f64, x)
    np.testing.assert_array_equal(truth, x != 0)


@pytest.mark.parametrize("name", ["i2", "ui4"])
def test_unused_bits_are_ignored(name: str) -> None:
    """What the bits above the type's hold in an argument does not matter; in results they are zero."""
    bits, _, _ = bounds(name)
    x = np.arange(256, dtype=np.uint8)
    same, wide = run([(name, x.view(dtype_of(name)))], [("copy", name, {}), ("convert", "i32", {})], TARGETS[0])
    np.testing.assert_array_equal(same.view(np.uint8), x % (1 << bits))
    np.testing.assert_array_equal(wide, wrapped(x.astype(np.int64), name))


REGROUPED = [
    ("i8", "i4"),
    ("ui8", "i2"),
    ("i16", "ui4"),
    ("i64", "i2"),
    ("f8E4M3FN", "ui2"),
    ("f8E5M2", "f4E2M1FN"),
    ("f32", "f4E2M1FN"),
    ("bf16", "f8E4M3"),
    ("f64", "f8E8M0FNU"),
    ("complex<f32>", "f8E5M2FNUZ"),
    ("i8", "i1"),
]


@pytest.mark.parametrize(("wide", "narrow"), REGROUPED)
def test_bits_regrouped(wide: str, narrow: str) -> None:
    """bitcast_convert to narrower elements (the low bits first) and back, against the bits in memory."""
    big, small = dtype_of(wide), dtype_of(narrow)
    raw = np.random.default_rng(0).integers(0, 256, 67 * big.itemsize, np.uint8)
    if wide == "complex<f32>" or wide[0] in "fb":  # signaling NaN would become quiet ones
        raw = np.where(np.arange(raw.size) % big.itemsize == big.itemsize - 1, raw & 0x3F, raw).astype(np.uint8)
    x = raw.view(big)
    width = 1 if narrow == "i1" else codes(np.zeros((), small))[1]
    ratio = 8 * big.itemsize // width
    expected = raw[:, None] >> np.arange(0, 8, width, dtype=np.uint8) & ((1 << width) - 1)

    def split(value: ir.Value) -> ir.Value:
        return build.value("bitcast_convert", build.tensor([x.size, ratio], ir.Type.parse(narrow)), value)

    def join(value: ir.Value) -> ir.Value:
        return build.value("bitcast_convert", build.tensor([x.size], ir.Type.parse(wide)), value)

    (pieces,) = run_kernel(build_fusion("loop", [f"tensor<{x.size}x{wide}>"], split), [x], TARGETS[-1])
    np.testing.assert_array_equal(pieces.view(np.uint8).reshape(-1), expected.reshape(-1))
    (back,) = run_kernel(build_fusion("loop", [f"tensor<{x.size}x{ratio}x{narrow}>"], join), [pieces], TARGETS[0])
    assert back.tobytes() == x.tobytes()
