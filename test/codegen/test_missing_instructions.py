"""What processors without an instruction compute instead, against processors and libraries that have it: fused
multiply-add, rounding to whole numbers, and f16 to f32 and back."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable

import numpy as np
import pytest

from stablehlo_py.backends.cpu.native import NativeCode
from stablehlo_py.backends.cpu.objects import Unit, compile_units
from stablehlo_py.backends.cpu.target import GENERIC, CpuTarget, baseline_target
from stablehlo_py.codegen import fused, half, rounding
from stablehlo_py.codegen.builder import F16, F32, F64, I64, PTR, Function, ScalarType, Value, vector

LANES = 4
LIBM = ctypes.CDLL("libm.so.6")
TYPES: dict[str, ScalarType] = {"f2": F16, "f4": F32, "f8": F64}


def mapped(make: Callable[..., Value], result: str, *arrays: np.ndarray, target: CpuTarget = GENERIC) -> np.ndarray:
    """make(f, ...) on all elements, a few lanes at a time; there are a multiple of them."""
    count = arrays[0].size
    assert count % LANES == 0
    names = [f"in{number}" for number in range(len(arrays))]
    f = Function("mapped", [*((name, PTR) for name in names), ("out", PTR), ("count", I64)], target.emitter())
    types = [vector(LANES, TYPES[array.dtype.str[1:]]) for array in arrays]

    def step(at: Value) -> None:
        values = [f.load(type_, f.parameters[name], at) for name, type_ in zip(names, types, strict=True)]
        f.store(make(f, *values), f.out, at)

    f.loop(0, f.count, LANES, step)
    f.ret()
    code = NativeCode([compile_units([Unit.of(f)])])
    found = np.empty(count, result)
    pointers = [array.ctypes.data for array in (*arrays, found)]
    types_of_call = [*[ctypes.c_void_p] * len(pointers), ctypes.c_int64]
    ctypes.CFUNCTYPE(None, *types_of_call)(code.address("mapped"))(*pointers, count)
    return found


def same_bits(ours: np.ndarray, right: np.ndarray) -> None:
    """But for the payloads of NaN."""
    numbers = ~np.isnan(right)
    np.testing.assert_array_equal(np.isnan(ours), ~numbers)
    bits = f"u{right.dtype.itemsize}"
    np.testing.assert_array_equal(ours[numbers].view(bits), right[numbers].view(bits))


def triples(dtype: str, widest: int) -> list[np.ndarray]:
    """Three numbers each: of all magnitudes, such that sums cancel, such that results lie at the middle of two numbers,
    and special ones."""
    rng, count = np.random.default_rng(0), 4096

    def spread() -> np.ndarray:
        return rng.standard_normal(count) * 2.0 ** rng.integers(-widest, widest, count)

    a, b, c = (spread().astype(dtype) for _ in range(3))
    cancels = (-(a.astype("f8") * b.astype("f8"))).astype(dtype)
    near = (cancels * (1 + rng.integers(-3, 4, count) * np.finfo(dtype).eps)).astype(dtype)
    ones = (1 + rng.integers(0, 16, count) * np.finfo(dtype).eps).astype(dtype)
    tiny = (rng.standard_normal(count) * np.finfo(dtype).eps / 2 ** rng.integers(0, 30, count)).astype(dtype)
    middles = (2.0 ** -rng.integers(20, 60, count)).astype(dtype)
    special = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 3.0], dtype)
    grid = [part.ravel() for part in np.meshgrid(special, special, special)]
    rows = [(a, b, c), (a, b, cancels), (a, b, near), (ones, ones, tiny), (ones, middles, ones), tuple(grid)]
    return [np.concatenate(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize(("dtype", "function", "widest"), [("f4", "fmaf", 60), ("f8", "fma", 200)])
def test_multiply_add_rounds_once(dtype: str, function: str, widest: int) -> None:
    arrays = triples(dtype, widest)
    number = {"f4": ctypes.c_float, "f8": ctypes.c_double}[dtype]
    routine = LIBM[function]
    routine.restype, routine.argtypes = number, [number] * 3
    right = np.array([routine(*map(float, row)) for row in zip(*arrays, strict=True)], dtype)
    same_bits(mapped(fused.multiply_add, dtype, *arrays), right)


def test_multiply_add_beyond_the_reach_of_splitting() -> None:
    """Two roundings, and no NaN."""
    a = np.array([2.0**1000, 1e308, -(2.0**1020), 2.0**1000])
    b, c = np.array([2.0, 0.5, 1.0, 2.0**30]), np.array([1.0, 1e307, 2.0**1020, 1.0])
    found = mapped(fused.multiply_add, "f8", a, b, c)
    assert found.tolist() == [2.0**1001, 1e308 * 0.5 + 1e307, 0.0, math.inf]


def test_targets_without_the_instruction_take_it() -> None:
    a = np.array([1 + 2.0**-30] * LANES)
    squares = mapped(lambda f, a: f.fma(a, a, f.const(-1.0, a.type)), "f8", a, target=baseline_target())
    assert squares.tolist() == [2.0**-29 + 2.0**-60] * LANES


ROUNDINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "round": lambda x: np.copysign(np.trunc(np.abs(x).astype(np.longdouble) + 0.5), x).astype(x.dtype),
    "roundeven": np.rint,
    "trunc": np.trunc,
}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("kind", ROUNDINGS)
def test_whole_numbers(kind: str, dtype: str) -> None:
    rng, last = np.random.default_rng(0), {"f4": 23, "f8": 52}[dtype]
    halves_ = np.arange(-40, 40) / 2
    random = rng.standard_normal(4096) * 2.0 ** rng.integers(-70, 70, 4096)
    edges = 2.0 ** np.array([last - 2, last - 1, last, last + 1, -1, -30, -140])
    numbers = np.concatenate([halves_, random, edges, edges + 0.5, [0.0, -0.0, np.inf, np.nan, 0.5]]).astype(dtype)
    numbers = np.concatenate([numbers, np.nextafter(numbers, np.inf), np.nextafter(numbers, -np.inf)])
    numbers = np.concatenate([numbers, -numbers])
    numbers = np.concatenate([numbers, np.zeros(-len(numbers) % LANES, dtype)]).astype(dtype)
    same_bits(mapped(lambda f, a: rounding.rounded(f, kind, a), dtype, numbers), ROUNDINGS[kind](numbers))


def halves() -> np.ndarray:
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def test_every_f16_is_an_f32() -> None:
    found, right = mapped(half.widened, "f4", halves()), halves().astype(np.float32)
    same_bits(found, right)
    nans = np.isnan(right)
    payloads = halves()[nans].view(np.uint16).astype(np.uint32)
    expected = (payloads & 0x8000) << 16 | 0x7FC00000 | (payloads & 0x3FF) << 13
    np.testing.assert_array_equal(found[nans].view(np.uint32), expected)


def test_every_f32_becomes_the_nearest_f16() -> None:
    """Each f16, the middles between them, their neighbours, and random bits."""
    exact = halves().astype(np.float32).view(np.uint32)
    middles = exact[:, None] + np.array([0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF], np.uint32)
    random = np.random.default_rng(0).integers(0, 1 << 32, 1 << 16, dtype=np.uint32)
    numbers = np.concatenate([middles.ravel(), random]).view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        right = numbers.astype(np.float16)
    same_bits(mapped(half.narrowed, "f2", numbers), right)
