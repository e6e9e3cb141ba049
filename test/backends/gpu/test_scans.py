"""Scans, scatters and windows, run on an OpenCL device, next to the CPU's kernels: to the last bit for integers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from device_kernels import device_kernels
from jax import lax

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.backends.cpu.target import baseline_target
from stablehlo_py.backends.gpu.compile import lower
from stablehlo_py.backends.gpu.target import SM_90
from stablehlo_py.compiler import run_stages

OPTIONS = shlo.Options(cache_dir=None, threads=1)
RANDOM = np.random.default_rng(0)


def numbers(dtype: str, *sizes: int) -> np.ndarray:
    """Of a type, some of them negative."""
    return (RANDOM.standard_normal(sizes) * 3).astype(dtype)


def check(function: Callable[..., object], *arrays: np.ndarray, tolerance: float = 1e-4) -> None:
    """A function of JAX gives what the CPU's program gives, the same bits in every call."""
    text = jax.jit(function).lower(*arrays).as_text()
    executable = shlo.compile(text, target="opencl", options=OPTIONS)
    wanted = shlo.compile(text, options=OPTIONS)(*arrays)
    for a, b, c in zip(executable(*arrays), executable(*arrays), wanted, strict=True):
        assert a.tobytes() == b.tobytes()
        if a.dtype.kind in "biu":
            np.testing.assert_array_equal(a, c)
        else:
            wide = a.astype(np.complex128), c.astype(np.complex128)
            np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance * 30, equal_nan=True)


@pytest.fixture
def device(real_device: object) -> None:
    """Skips where there is no device."""


def compose(left: tuple[jax.Array, ...], right: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    """Of affine maps modulo 2^32, which does not commute: what is left comes first."""
    (a, b), (c, d) = left, right
    return a * c, b * c + d


SCANNED = {
    "one-element": ((1, 1), 1),
    "short-rows": ((3, 5), 1),
    "rows": ((5, 300), 1),
    "ragged-rows": ((2, 4099), 1),
    "many-rows": ((300, 70), 1),
    "long-rows": ((2, 30_000), 1),
    "ragged-long-row": ((1, 70_001), 1),
    "columns": ((100, 5, 33), 1),
    "long-columns": ((5001, 3), 0),
    "one-column": ((3, 40, 1), 1),
}


@pytest.mark.every(2)
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", SCANNED)
def test_scans(name: str, reverse: bool) -> None:
    sizes, axis = SCANNED[name]
    check(lambda x: lax.cumsum(x, axis, reverse=reverse), numbers("float32", *sizes))
    check(lambda x: lax.cumsum(x, axis, reverse=reverse), numbers("int32", *sizes))


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_products_of_complex_numbers(dtype: str) -> None:
    """Of one step of a block and of several: a driver's compiler mistook a factor in those of one."""
    with jax.enable_x64(True):
        for sizes in ((1, 17), (3, 60), (2, 4099), (60, 5)):
            turns = np.exp(1j * RANDOM.standard_normal(sizes)).astype(dtype)
            check(lambda x: lax.cumprod(x, 1), turns)
            check(lambda x: lax.cumprod(x, 0, reverse=True), turns)
        turns = np.exp(1j * RANDOM.standard_normal(69)).astype(dtype)
        check(lambda x, i, u: x.at[i].multiply(u, mode="drop"), turns[60:], indices(9, 60), turns[:60])


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("sizes", [(3, 5000), (5000, 3), (1, 40_000)])
def test_scans_of_many_types(sizes: tuple[int, int]) -> None:
    axis = int(np.argmax(sizes))
    for dtype in ("float16", "bfloat16", "int8", "uint8"):
        check(lambda x: lax.cummax(x, axis), np.abs(numbers("float32", *sizes)).astype(dtype))
    check(lambda x: lax.cumprod(x, axis), (numbers("float32", *sizes) * 0.01 + 1).astype("complex64"))
    check(lambda x: lax.cumlogsumexp(x, axis), numbers("float32", *sizes))


@pytest.mark.usefixtures("device")
def test_an_initial_value_is_taken_once() -> None:
    def function(x: jax.Array) -> jax.Array:
        return lax.reduce_window(x, np.int32(7), lax.add, (1, 20_000), (1, 1), [(0, 0), (19_999, 0)])

    check(function, numbers("int32", 2, 20_000))


@pytest.mark.usefixtures("device")
def test_a_scan_of_pairs_keeps_their_order() -> None:
    def scan(a: jax.Array, b: jax.Array) -> tuple[jax.Array, ...]:
        window, padding = (1, a.shape[1]), [(0, 0), (a.shape[1] - 1, 0)]
        return lax.reduce_window((a, b), (np.int32(1), np.int32(0)), compose, window, (1, 1), padding)

    for length in (5, 100, 20_000):
        check(scan, numbers("int32", 2, length), numbers("int32", 2, length))


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("kind", ["add", "max"])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_pooling(kind: str, padding: str) -> None:
    start, body = {"add": (0.0, lax.add), "max": (-np.inf, lax.max)}[kind]
    x = numbers("float32", 2, 13, 14, 3)
    check(lambda x: lax.reduce_window(x, start, body, (1, 3, 2, 1), (1, 2, 2, 1), padding), x)
    check(lambda x: lax.reduce_window(x, start, body, (1, 2, 2, 1), (1, 1, 1, 1), padding, None, (1, 2, 3, 1)), x)
    check(lambda x: lax.reduce_window(x, start, body, (1, 2, 2, 1), (1, 1, 1, 1), padding, (1, 2, 1, 1), None), x)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    ("padding", "sizes", "window", "strides"),
    [
        ("SAME", (2, 13, 14, 3), (1, 3, 3, 1), (1, 2, 2, 1)),
        ("VALID", (2, 3, 9, 8), (1, 1, 2, 2), (1, 1, 2, 2)),
        ("VALID", (50,), (3,), (1,)),
        ("VALID", (10, 11), (2, 2), (3, 3)),
        ([(3, 4)], (20,), (5,), (2,)),
    ],
)
def test_gradients_of_pooling(padding: Any, sizes: tuple[int, ...], window: Any, strides: Any) -> None:
    def loss(x: jax.Array) -> jax.Array:
        return (lax.reduce_window(x, -np.inf, lax.max, window, strides, padding) ** 2).sum()

    check(jax.grad(loss), numbers("float32", *sizes))


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    ("sizes", "axis"), [((3, 5), 1), ((5, 301), 1), ((300, 5), 0), ((2, 70_000), 1), ((70_000, 3), 0), ((2, 9, 4), 1)]
)
def test_argmax(sizes: tuple[int, ...], axis: int) -> None:
    x = numbers("float32", *sizes)
    check(lambda x: (jnp.argmax(x, axis), jnp.argmin(x, axis)), np.round(x))  # many are equal
    x.reshape(-1)[x.size // 2] = np.nan
    check(lambda x: jnp.argmax(x, axis), x)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_reductions_keep_the_order_of_elements(axes: tuple[int, ...]) -> None:
    def reduce(a: jax.Array, b: jax.Array) -> tuple[jax.Array, ...]:
        return lax.reduce((a, b), (np.int32(1), np.int32(0)), compose, axes)

    for sizes in ((4, 3, 50), (2, 300, 40), (1, 1, 1), (3, 0, 2)):
        check(reduce, numbers("int32", *sizes), numbers("int32", *sizes))


# --- scatter ---------------------------------------------------------------------------------------------------------

POINTS = {  # sizes of the operand, points
    "few": ((50, 8), 9),
    "rows": ((50, 8), 700),
    "many-of-a-row": ((3, 33), 3000),
    "most-rows-once": ((5000, 3), 1000),
    "elements": ((50,), 700),
    "histogram": ((10,), 20_000),
    "one-place": ((1,), 5000),
    "clusters": ((64, 16), 3000),
    "groups-of-places": ((300,), 3000),
    "wide-rows": ((5, 200), 200),
}


def indices(size: int, *sizes: int) -> np.ndarray:
    """Some are out of bounds."""
    return RANDOM.integers(-2, size + 2, sizes).astype(np.int32)


@pytest.mark.every(2)
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("how", ["add", "set", "min", "multiply"])
@pytest.mark.parametrize("name", POINTS)
def test_scatters(name: str, how: str) -> None:
    sizes, count = POINTS[name]

    def function(x: jax.Array, i: jax.Array, u: jax.Array) -> jax.Array:
        return getattr(x.at[i], how)(u, mode="drop")

    for dtype in ("int32", "float32"):
        updates = numbers(dtype, count, *sizes[1:]) if how != "multiply" else numbers("int32", count, *sizes[1:]) % 2
        check(function, numbers(dtype, *sizes), indices(sizes[0], count), updates.astype(dtype))


ROWS = lax.ScatterDimensionNumbers((1,), (0,), (0,))


def add_rows(x: jax.Array, i: jax.Array, u: jax.Array) -> jax.Array:
    """Rows, or what they begin with, that go to the rows of the operand that indices say."""
    return lax.scatter_add(x, i, u, ROWS)


@pytest.mark.parametrize(
    ("places", "width", "rows", "columns", "kernels"),
    [
        (64, 16, 20_000, 16, ["fusion_0_bins", "fusion_0"]),
        (8, 3, 100, 3, ["fusion_0"]),
        (8, 3, 900, 2, ["fusion_0_copy", "fusion_0_tiles"]),  # not whole rows
        (1 << 16, 64, 512, 64, ["fusion_0_copy", "fusion_0_tiles"]),  # many places
    ],
)
def test_updates_of_few_places_have_bins(places: int, width: int, rows: int, columns: int, kernels: list[str]) -> None:
    arrays = np.zeros((places, width), "f4"), np.zeros((rows, 1), "i4"), np.zeros((rows, columns), "f4")
    text = jax.jit(add_rows).lower(*arrays).as_text()
    names = compile_program(text, target="opencl", options=OPTIONS).kernels
    assert list(names)[:2] == kernels


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    ("columns", "rows", "places"),
    [(3, 900, 8), (32, 900, 8), (40, 33, 100), (33, 20, 3), (32, 35_000, 1), (34, 700, 90)],
)
def test_parts_of_rows(columns: int, rows: int, places: int) -> None:
    """Rows of many columns are combined in runs, most of them longer than a range where places are few."""
    for dtype in ("int32", "float32"):
        index = np.sort(indices(places, rows, 1), axis=None).reshape(-1, 1)
        check(add_rows, numbers(dtype, places, columns + 2), index, numbers(dtype, rows, columns))
        check(add_rows, numbers(dtype, places, columns + 2), index[::-1].copy(), numbers(dtype, rows, columns))


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dtype", ["bfloat16", "complex64", "int8"])
def test_runs_of_many_types(dtype: str) -> None:
    x, i, u = numbers("float32", 9, 34), indices(9, 100, 1), numbers("float32", 100, 32)
    check(add_rows, x.astype(dtype), i, u.astype(dtype), tolerance=3e-2 if dtype == "bfloat16" else 1e-4)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("count", [400, 4000])
@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "complex64", "int8", "bool", "int64"])
def test_scatters_of_many_types(dtype: str, count: int) -> None:
    with jax.enable_x64(True):
        x, i, u = numbers("float32", 30, 5) > 0, indices(30, count), numbers("float32", count, 5) > 0
        how = "max" if dtype in ("bool", "bfloat16") else "add"
        check(lambda x, i, u: getattr(x.at[i], how)(u, mode="drop"), x.astype(dtype), i, u.astype(dtype))


@pytest.mark.usefixtures("device")
def test_scatters_with_other_bodies_are_in_order() -> None:
    text = """
        func.func @main(%x: tensor<40x5xi32>, %i: tensor<300x1xi32>, %u: tensor<300x5xi32>) -> tensor<40x5xi32> {
          %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
            update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
            index_vector_dim = 1>}> ({
            ^bb0(%old: tensor<i32>, %new: tensor<i32>):
              %square = stablehlo.multiply %old, %old : tensor<i32>
              %sum = stablehlo.add %square, %new : tensor<i32>
              stablehlo.return %sum : tensor<i32>
          }) : (tensor<40x5xi32>, tensor<300x1xi32>, tensor<300x5xi32>) -> tensor<40x5xi32>
          return %0 : tensor<40x5xi32>
        }"""
    x, i, u = numbers("int32", 40, 5), indices(40, 300, 1), numbers("int32", 300, 5)
    (found,) = shlo.compile(text, target="opencl", options=OPTIONS)(x, i, u)
    wanted = x.copy()
    for row, update in zip(i[:, 0], u, strict=True):
        if 0 <= row < 40:
            wanted[row] = wanted[row] * wanted[row] + update
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("windows", ["whole", "partial"])
@pytest.mark.parametrize("count", [1, 5, 100])
def test_windows_that_overlap(windows: str, count: int) -> None:
    of = lax.ScatterDimensionNumbers((1, 2), (), (0,))
    x, i, u = numbers("int32", 40, 6), indices(40, count, 1), numbers("int32", count, 4, 5)
    text = jax.jit(lambda x, i, u: lax.scatter_add(x, i, u, of)).lower(x, i, u).as_text()
    options = shlo.Options(cache_dir=None, threads=1, scatter_windows=windows)
    (found,) = shlo.compile(text, target="opencl", options=options)(x, i, u)
    (wanted,) = shlo.compile(text, options=options)(x, i, u)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.usefixtures("device")
def test_batches_of_scatters() -> None:
    x, i, u = numbers("int32", 6, 40, 5), indices(40, 6, 70), numbers("int32", 6, 70, 5)
    check(jax.vmap(lambda x, i, u: x.at[i].add(u)), x, i, u)
    check(jax.vmap(lambda x, i, u: x.at[i].set(u)), x, i, u)
    check(jax.vmap(lambda x, i, u: lax.dynamic_update_slice(x, u[:3], (i[0], 0))), x, i, u)


@pytest.mark.usefixtures("device")
def test_indices_that_no_operand_has() -> None:
    with jax.enable_x64(True):
        far = np.array([2**63 - 1, -(2**63), 2**32 + 1, -1, 3] * 5)
        check(lambda x, i: x.at[i].add(1, mode="drop"), numbers("int32", 9), far)


@pytest.mark.usefixtures("device")
def test_gradients_of_embeddings() -> None:
    def loss(table: jax.Array, tokens: jax.Array) -> jax.Array:
        return (table[tokens] ** 2).sum()

    tokens = indices(50, 4, 60) % 50
    tokens[:, 30:] = 7  # padding
    check(jax.grad(loss), numbers("float32", 50, 64), tokens)


# --- updates in place ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("device")
def test_updates_in_place() -> None:
    """Of what is computed elsewhere, of what is read from the operand itself, of another place in it."""
    x, u = numbers("float32", 4, 30, 16), numbers("float32", 4, 1, 16)

    def cache(x: jax.Array, u: jax.Array, n: jax.Array) -> jax.Array:
        return lax.fori_loop(0, n, lambda i, x: lax.dynamic_update_slice(x, u * i + x[:, :1], (0, i, 0)), x)

    def turned(x: jax.Array, n: jax.Array) -> jax.Array:
        def step(i: jax.Array, x: jax.Array) -> jax.Array:
            return lax.dynamic_update_slice(x, lax.dynamic_slice(x, (0, i, 0), (4, 3, 16))[:, ::-1], (0, i, 0))

        return lax.fori_loop(0, n, step, x)

    check(lambda x, u, i: lax.dynamic_update_slice(x, u * 2, (0, i, 0)), x, u, np.int32(40))
    check(cache, x, u, np.int32(7))
    check(turned, x, np.int32(20))
    check(lambda x: lax.scan(lambda total, y: (total + y, total * y), x[0], x), x)


# --- what makes them fast --------------------------------------------------------------------------------------------


def ptx(function: Callable[..., object], *specs: jax.ShapeDtypeStruct) -> dict[str, str]:
    """The kernels for a GPU, by name."""
    module = run_stages(shlo.load(jax.jit(function).lower(*specs).as_text()), "", "scheduled", target="opencl")
    text = lower(module, "ptx", SM_90, baseline_target())
    return {part.split("(")[0].strip(): part for part in text.split(".visible .entry ")[1:]}


def launched(function: Callable[..., object], *specs: jax.ShapeDtypeStruct) -> dict[str, int]:
    """The threads of each launch of the kernels for a GPU."""
    text = jax.jit(function).lower(*specs).as_text()
    module = run_stages(shlo.load(text), "", "scheduled", target="opencl")
    kernels = device_kernels(module, SM_90).values()
    return {each.symbol: each.blocks * each.threads for kernel in kernels for each in kernel.launches}


@pytest.mark.parametrize("reverse", [False, True])
def test_scans_access_sixteen_bytes(reverse: bool) -> None:
    kernels = ptx(lambda x: lax.cumsum(x, 1, reverse=reverse), jax.ShapeDtypeStruct((512, 4096), "float32"))
    (kernel,) = kernels.values()
    accesses = re.findall(r"\b(?:ld|st)\.global[.\w]*", kernel)
    assert len(accesses) == 4 and all(".v4" in each for each in accesses)


def test_long_scans_are_three_kernels() -> None:
    kernels = ptx(lambda x: lax.cumsum(x, 0), jax.ShapeDtypeStruct((1 << 20,), "float32"))
    assert sorted(kernels) == ["fusion_0", "fusion_0_prefixes", "fusion_0_totals"]


def test_rows_of_a_cache_are_for_many_threads() -> None:
    """A key of 8 heads of 128 numbers: a thread for each."""
    sizes = ((8, 2048, 128), "float32"), ((8, 1, 128), "float32"), ((), "int32")
    specs = [jax.ShapeDtypeStruct(*each) for each in sizes]

    def step(x: jax.Array, u: jax.Array, i: jax.Array) -> jax.Array:
        return lax.dynamic_update_slice(x, u, (0, i, 0))

    launches = launched(step, *specs)
    assert launches["fusion_1_write0"] == 8 * 128


def test_unique_updates_are_not_sorted() -> None:
    specs = [jax.ShapeDtypeStruct(*each) for each in (((900, 8), "float32"), ((500,), "int32"), ((500, 8), "float32"))]

    def launches(unique: bool) -> list[str]:
        kernels = ptx(lambda x, i, u: x.at[i].add(u, unique_indices=unique), *specs)
        return [name.removeprefix("fusion_1") for name in kernels if name.startswith("fusion_1")]

    assert sorted(launches(unique=True)) == ["", "_copy"]
    assert sorted(launches(unique=False)) == ["", "_bins"]


def test_many_updates_are_for_many_threads() -> None:
    """The gradient of an embedding of 1024 numbers: 256 ranges of the tokens, not a thread for each number alone."""
    sizes = (((32_000, 1024), "float32"), ((8192,), "int32"), ((8192, 1024), "float32"))
    specs = [jax.ShapeDtypeStruct(*each) for each in sizes]
    launches = launched(lambda x, i, u: x.at[i].add(u), *specs)
    assert launches["fusion_1_runs"] == 256 * 1024
    assert launches["fusion_1"] == 255 * 1024  # the last range has no tail
