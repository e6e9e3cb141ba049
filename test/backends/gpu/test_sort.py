"""Sorts on GPUs: the CPU's results, bit by bit."""

from __future__ import annotations

import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.backends.gpu.kernels import merge

OPTIONS = shlo.Options(cache_dir=None, threads=1)
Array = np.ndarray


@pytest.fixture(autouse=True)
def _device(real_device: object) -> None:
    """Skips where there is no device."""


def is_same(text: str, *arguments: Array) -> None:
    """The program gives on both what is the same to the last bit, and on the GPU twice."""
    wanted = shlo.compile(text, options=OPTIONS)(*arguments)
    executable = shlo.compile(text, target="opencl", options=OPTIONS)
    for _ in range(2):
        for found, result in zip(executable(*arguments), wanted, strict=True):
            assert found.dtype == result.dtype
            assert found.tobytes() == result.tobytes()


def is_same_jax(function: Callable[..., object], *arguments: Array) -> None:
    """The same of a function of JAX."""
    with jax.enable_x64(True):
        is_same(jax.jit(function).lower(*arguments).as_text(), *arguments)


def numbers(dtype: str, size: tuple[int, ...], seed: int = 0) -> Array:
    """Many of which are equal; floats with zeros of both signs, infinities, NaN of both signs and denormals."""
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.integers(0, 2, size).astype(bool)
    if dtype.startswith(("int", "uint")):
        kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
        low, high = (int(f(kind)) for f in (lambda k: ml_dtypes.iinfo(k).min, lambda k: ml_dtypes.iinfo(k).max))
        found = random.integers(max(low, -9), min(high, 9), size, endpoint=True)
        return np.where(random.random(size) < 0.1, random.choice([low, high], size), found).astype(kind)
    if dtype.startswith("complex"):
        part = f"float{int(dtype[7:]) // 2}"
        found = np.empty(size, dtype)
        found.real, found.imag = numbers(part, size, seed), numbers(part, size, seed + 1)
        return found
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-40, -1e-40])
    found = random.standard_normal(size).round(1)
    return np.where(random.random(size) < 0.3, random.choice(special, size), found).astype(
        getattr(ml_dtypes, dtype, dtype)
    )


FLOATS = ("float32", "float64", "bfloat16", "float16")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int4", "uint4")
OTHERS = ("bool", "complex64", "complex128", "float8_e4m3fn")
#: One place, one thread, one block with several rows, one tile, several tiles.
SIZES = ((1,), (5,), (9, 33), (2048,), (3, 2049))


@pytest.mark.parametrize("dtype", (*FLOATS, *INTEGERS, *OTHERS))
def test_types(dtype: str) -> None:
    """Equal ones keep their order: their places move with them."""
    places = np.arange(2 * 2100, dtype=np.int32).reshape(2, 2100)
    is_same_jax(lambda *all: jax.lax.sort(all, num_keys=1), numbers(dtype, (2, 2100)), places)


@pytest.mark.parametrize("sizes", SIZES)
def test_rows(sizes: tuple[int, ...]) -> None:
    is_same_jax(jnp.sort, numbers("float32", sizes))


@pytest.mark.parametrize("sizes", [(2, 7), (33, 40), (40, 3, 5), (2100, 3)])
def test_the_first_dimension(sizes: tuple[int, ...]) -> None:
    is_same_jax(lambda x: jnp.argsort(x, axis=0), numbers("int16", sizes))


def test_descending() -> None:
    is_same_jax(lambda x: jnp.argsort(x, descending=True), numbers("float32", (2, 3000)))


@pytest.mark.parametrize("size", [100, 3000])
def test_two_keys_and_what_moves_with_them(size: int) -> None:
    a, b, c = numbers("float32", (2, size)), numbers("int8", (2, size), 1), numbers("float64", (2, size), 2)
    is_same_jax(lambda *all: jax.lax.sort(all, num_keys=2), a, b, c)
    is_same_jax(lambda *all: jax.lax.sort(all, num_keys=2, dimension=0), a.T, b.T, c.T)
    is_same_jax(lambda a, b: jnp.lexsort((b, a)), a[0], b[0])


@pytest.mark.parametrize("size", [100, 3000])
def test_much_that_moves_is_read_at_the_end(size: int) -> None:
    a, b, c = numbers("int8", (2, size)), numbers("complex128", (2, size), 1), numbers("float32", (2, size), 2)
    is_same_jax(lambda *all: jax.lax.sort(all, num_keys=1), a, b, c, c)
    is_same_jax(lambda *all: jax.lax.sort(all, num_keys=1, dimension=0), a.T, b.T, c.T)


def test_what_jax_makes_of_sorts() -> None:
    x = numbers("float32", (2500,))
    is_same_jax(lambda x: (jnp.median(x), jnp.nanmedian(x)), x)
    is_same_jax(lambda x: jnp.unique(x, size=50), x)
    is_same_jax(lambda x: jnp.unique(x, size=20, return_inverse=True, return_counts=True), numbers("int32", (300,)))


@pytest.mark.parametrize(("dtype", "size"), [("float16", (2, 5000)), ("float32", (1, 70_000)), ("uint16", (3, 4097))])
def test_long_rows(dtype: str, size: tuple[int, ...]) -> None:
    places = np.arange(int(np.prod(size)), dtype=np.int32).reshape(size)
    is_same_jax(lambda *all: jax.lax.sort(all, num_keys=1), numbers(dtype, size), places)


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_digits_of_every_width(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By digits, though the rows are short."""
    monkeypatch.setattr(merge, "moves", lambda _: 1 << 30)
    is_same_jax(lambda x: jax.lax.sort((-x, x), num_keys=1), numbers(dtype, (2, 2500)))
    a, b = numbers("int4", (2, 2500)), numbers("bool", (2, 2500), 1)
    is_same_jax(lambda *all: jax.lax.sort(all, num_keys=2), b, a, np.arange(5000.0).reshape(2, 2500) * 1j)


@pytest.mark.parametrize(
    ("dtype", "size", "k"),
    [
        ("float32", (3, 7), 3),
        ("float16", (2, 2048), 2048),
        ("bfloat16", (3, 5000), 10),
        ("float32", (2, 3000), 1000),
        ("int8", (2, 5000), 2900),
        ("uint64", (1, 3000), 2000),
        ("float8_e4m3fn", (3, 2100), 4),
        ("float32", (1, 70_000), 40),
    ],
)
def test_top_k(dtype: str, size: tuple[int, ...], k: int) -> None:
    """Of one tile, of several, twice over, and as a sort; equal ones by their places."""
    is_same_jax(lambda x: jax.lax.top_k(x, k), numbers(dtype, size))


def kernels(function: Callable[..., object], *arguments: Array) -> set[str]:
    """The kinds of kernels of a program, by their names' ends."""
    text = jax.jit(function).lower(*arguments).as_text()
    stage = shlo.compile(text, target="opencl", options=OPTIONS).stages["kernels"]
    return set(re.findall(r"@fusion_0_(\w+?)\d*\(", stage))


def test_which_way_rows_are_sorted() -> None:
    """By what moves fewer bytes: 32 bits take 12 accesses of a record by digits."""
    assert kernels(jnp.sort, np.zeros(2048, np.float32)) == set()
    assert kernels(jnp.sort, np.zeros(4096, np.float32)) == {"tiles", "search"}
    assert kernels(jnp.sort, np.zeros(30_000, np.float32)) == {"tiles", "search", "merge"}
    assert kernels(jnp.sort, np.zeros(70_000, np.float32)) == {"sums", "count", "move"}
    assert kernels(lambda x: jax.lax.sort((x, x), num_keys=2), np.zeros(4096, np.int8)) == {"tiles", "search"}
    assert kernels(jnp.sort, np.zeros(4096, np.int8)) == {"sums", "count"}


SORT = """
func.func @main(%x: {type}, %y: {type}) -> ({type}, {type}) {{
  %0:2 = "stablehlo.sort"(%x, %y) <{{dimension = 0 : i64, is_stable = false}}> ({{
  ^bb0(%a: {one}, %b: {one}, %c: {one}, %d: {one}):
    {body}
    stablehlo.return %p : tensor<i1>
  }}) : ({type}, {type}) -> ({type}, {type})
  return %0#0, %0#1 : {type}, {type}
}}"""


def test_a_comparator_that_has_no_place_for_nan() -> None:
    """All records are there afterwards, NaN last."""
    one, type_ = "tensor<f32>", "tensor<5000xf32>"
    text = SORT.format(type=type_, one=one, body=COMPARATORS["not a total order"].format(one=one))
    x, places = numbers("float32", (5000,)), np.arange(5000, dtype=np.float32)
    found, moved = shlo.compile(text, target="opencl", options=OPTIONS)(x, places)
    wanted = np.argsort(x, kind="stable")
    assert moved.tobytes() == places[wanted].tobytes()
    assert found.tobytes() == x[wanted].tobytes()


COMPARATORS = {
    "not a total order": "%p = stablehlo.compare LT, %a, %b, FLOAT : ({one}, {one}) -> tensor<i1>",
    "not strict": "%p = stablehlo.compare GE, %a, %b, FLOAT : ({one}, {one}) -> tensor<i1>",
    "total order": "%p = stablehlo.compare GT, %a, %b, TOTALORDER : ({one}, {one}) -> tensor<i1>",
    "sides exchanged": "%p = stablehlo.compare GT, %b, %a, TOTALORDER : ({one}, {one}) -> tensor<i1>",
    "of two operands": """%s = stablehlo.add %a, %c : {one}
    %t = stablehlo.add %b, %d : {one}
    %p = stablehlo.compare LT, %s, %t, TOTALORDER : ({one}, {one}) -> tensor<i1>""",
    "two keys without equality": """%q = stablehlo.compare LT, %a, %b, FLOAT : ({one}, {one}) -> tensor<i1>
    %r = stablehlo.compare GE, %b, %a, FLOAT : ({one}, {one}) -> tensor<i1>
    %s = stablehlo.compare LT, %c, %d, FLOAT : ({one}, {one}) -> tensor<i1>
    %t = stablehlo.compare LE, %a, %b, FLOAT : ({one}, {one}) -> tensor<i1>
    %u = stablehlo.and %s, %t : tensor<i1>
    %v = stablehlo.and %u, %r : tensor<i1>
    %p = stablehlo.or %q, %v : tensor<i1>""",
}


@pytest.mark.parametrize("name", COMPARATORS)
@pytest.mark.parametrize("size", [60, 5000])
def test_comparators(name: str, size: int) -> None:
    one, type_ = "tensor<f32>", f"tensor<{size}xf32>"
    text = SORT.format(type=type_, one=one, body=COMPARATORS[name].format(one=one))
    random = np.random.default_rng(0)
    x, y = (random.standard_normal(size).round(1).astype(np.float32) for _ in range(2))
    if name == "not strict":  # equal ones come in any order
        x = y = x + 0.0
    is_same(text, x, y)
