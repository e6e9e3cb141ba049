"""Kernels of ops that are a fusion by themselves: sort, top_k, scatter, windows, general reductions.

A case is a JAX function of one such op; its kernel runs alone, whole and in uneven pieces, between guard bytes
(test/helpers/one_kernel.py), and is compared with what JAX computes, or with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.export
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from one_kernel import compile_kernel, run_kernel

from stablehlo_py.backends.cpu.target import BASELINE, CpuTarget, host_target
from stablehlo_py.compiler import run_stages
from stablehlo_py.frontend.load import load
from stablehlo_py.options import Options

RNG = np.random.default_rng(11)
TARGETS = list(dict.fromkeys((host_target(), BASELINE)))
every_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
bf16 = ml_dtypes.bfloat16


def random(*sizes: int, dtype: object = np.float32) -> np.ndarray:
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return RNG.integers(0, 2, sizes).astype(bool)
    if dtype.kind in "iu":
        return RNG.integers(-50 if dtype.kind == "i" else 0, 50, sizes).astype(dtype)
    if dtype.kind == "c":
        return (RNG.standard_normal(sizes) + 1j * RNG.standard_normal(sizes)).astype(dtype)
    return RNG.standard_normal(sizes).astype(dtype)


def whole(*sizes: int, dtype: object = np.float32) -> np.ndarray:
    """Small whole numbers: sums are exact in any order, ties are frequent."""
    return RNG.integers(-4 if np.dtype(dtype).kind != "u" else 0, 5, sizes).astype(dtype)


def fusion_of(source: object) -> tuple[str, list[int]]:
    """The text of the one fusion that a module consists of, and which of @main's arguments it takes."""
    module = run_stages(load(source), "", "fused", Options())
    fusions = [op for op in module.body.operations if "hlo.fusion" in op.attributes]
    main = next(op for op in module.body.operations if op.attributes["sym_name"].value == "main")
    block = main.regions[0].blocks[0]
    calls = [op for op in block.operations if op.operation.name == "func.call"]
    assert (len(fusions), len(calls)) == (1, 1), f"the case is more than one kernel:\n{module}"
    returned = list(list(block.operations)[-1].operands)
    assert list(calls[0].results) == returned
    order = [list(block.arguments).index(operand) for operand in calls[0].operands]
    return str(fusions[0]), order


def kernel(
    source: Callable[..., object] | str, *arrays: np.ndarray, target: CpuTarget | None = None
) -> list[np.ndarray]:
    """Results of the kernel of a JAX function or a module's text."""
    if callable(source):
        with jax.enable_x64(True):
            specs = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]
            source = jax.export.export(jax.jit(source))(*specs)
    text, order = fusion_of(source)
    return run_kernel(text, [arrays[number] for number in order], target or host_target())


def check(
    function: Callable[..., object], *arrays: np.ndarray, tolerance: float = 0.0, target: CpuTarget | None = None
) -> None:
    """The kernel of a function gives what JAX gives; floats within |a-b| <= tolerance * max(1, |b|)."""
    with jax.enable_x64(True):
        expected = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(function)(*arrays))]
    for ours, theirs in zip(kernel(function, *arrays, target=target), expected, strict=True):
        assert ours.dtype == theirs.dtype
        agree(ours, theirs, tolerance)


def agree(ours: np.ndarray, theirs: np.ndarray, tolerance: float) -> None:
    if tolerance:
        wide = np.complex128 if ours.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(ours.astype(wide), theirs.astype(wide), rtol=tolerance, atol=tolerance)
    elif ours.dtype.kind == "V":
        np.testing.assert_array_equal(ours.astype(np.float64), theirs.astype(np.float64))
    else:
        np.testing.assert_array_equal(ours, theirs)


# --- sort ------------------------------------------------------------------------------------------------------------

SPECIAL = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-3, -6e4]


@pytest.mark.parametrize(
    ("sizes", "dimension"),
    [
        ((1,), 0),
        ((7,), 0),
        ((8,), 0),
        ((9,), 0),
        ((1000,), 0),
        ((5, 33), 1),
        ((33, 5), 0),
        ((3, 17, 4), 1),
        ((4, 0), 1),
        ((0, 4), 1),
        ((2, 1), 1),
    ],
)
def test_sort_shapes(sizes: tuple[int, ...], dimension: int) -> None:
    check(lambda x: lax.sort(x, dimension), random(*sizes))


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64, np.float16, bf16, np.float64, bool]
)
def test_sort_types(dtype: object) -> None:
    x = random(3, 40, dtype=dtype)
    if np.dtype(dtype).kind in "iu":
        x[0, :2] = np.iinfo(dtype).min, np.iinfo(dtype).max
    check(lambda x: lax.sort(x, 1), x)


@pytest.mark.parametrize("dtype", [np.float16, bf16, np.float32, np.float64])
def test_sort_puts_nan_last(dtype: object) -> None:
    x = np.array(SPECIAL * 3, dtype)
    RNG.shuffle(x)
    check(lambda x: lax.sort(x), x)


def test_sort_of_several_operands_is_stable() -> None:
    keys, second = whole(4, 300, dtype=np.int32), whole(4, 300)
    number = np.broadcast_to(np.arange(300, dtype=np.int32), keys.shape).copy()
    check(lambda k, n: lax.sort((k, n), dimension=1, num_keys=1, is_stable=True), keys, number)
    check(lambda k, s, n: lax.sort((k, s, n), dimension=1, num_keys=2), keys, second, number)
    payload = random(4, 300, dtype=np.complex64)
    check(lambda k, p, b: lax.sort((k, p, b), dimension=1, num_keys=1), keys, payload, keys > 0)


def test_sort_by_any_comparator() -> None:
    x = whole(200, dtype=np.int32)
    text = """func.func @main(%x: tensor<200xi32>) -> tensor<200xi32> {
      %r = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({
        ^bb0(%a: tensor<i32>, %b: tensor<i32>):
          %p = stablehlo.abs %a : tensor<i32>
          %q = stablehlo.abs %b : tensor<i32>
          %c = stablehlo.compare GT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
      }) : (tensor<200xi32>) -> tensor<200xi32>
      return %r : tensor<200xi32>
    }"""
    (result,) = kernel(text, x)
    np.testing.assert_array_equal(result, x[np.argsort(-np.abs(x), kind="stable")])


# --- top_k -----------------------------------------------------------------------------------------------------------


def check_top_k(x: np.ndarray, k: int, order: np.ndarray) -> None:
    values, indices = kernel(lambda x: lax.top_k(x, k), x)
    # Reversed twice, so that ties are in order of index.
    expected = order.shape[-1] - 1 - np.argsort(order[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    np.testing.assert_array_equal(indices, expected[..., :k])
    assert values.tobytes() == np.take_along_axis(x, expected[..., :k], -1).tobytes()


@pytest.mark.parametrize(
    ("sizes", "k"),
    [
        ((50,), 1),
        ((50,), 7),
        ((50,), 50),
        ((5, 1000), 3),
        ((5, 1000), 32),
        ((5, 1000), 33),
        ((5, 200), 150),
        ((5, 199), 35),
        ((3, 4000), 100),
        ((2, 2000), 500),
        ((2, 3, 9), 4),
        ((4, 5), 0),
        ((0, 5), 2),
    ],
)
def test_top_k_shapes(sizes: tuple[int, ...], k: int) -> None:
    x = random(*sizes)
    check_top_k(x, k, x)


@pytest.mark.parametrize("k", [5, 40])
@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, np.float16, bf16, np.float64]
)
def test_top_k_types_and_ties(dtype: object, k: int) -> None:
    x = whole(3, 230, dtype=dtype)
    if np.dtype(dtype).kind in "iu":
        x[0, 5:7] = np.iinfo(dtype).min, np.iinfo(dtype).max
    else:
        x[x == 0] = 1  # -0 comes before +0: see the test of total order
    check_top_k(x, k, x.astype(np.float64) if np.dtype(dtype).kind not in "iu" else x)


@pytest.mark.parametrize("k", [4, 20, 60])
def test_top_k_of_an_ascending_row(k: int) -> None:
    x = np.arange(700, dtype=np.float32)
    check_top_k(x, k, x)
    x[:] = np.uint32(0xFFFFFFFF).view(np.float32)  # the lowest float of all
    check_top_k(x, k, np.zeros(700))


@pytest.mark.parametrize("k", [4, 20, 60])
def test_top_k_orders_floats_totally(k: int) -> None:
    x = np.array([*SPECIAL, 1e-40, -1e-40] * 30, np.float32)
    RNG.shuffle(x)
    bits = x.view(np.int32)
    check_top_k(x, k, bits ^ ((bits >> 31) & 0x7FFFFFFF))


# --- scatter ---------------------------------------------------------------------------------------------------------


def scattered(
    combine: Callable[..., jax.Array],
    numbers: lax.ScatterDimensionNumbers,
    mode: lax.GatherScatterMode = lax.GatherScatterMode.FILL_OR_DROP,
) -> Callable[..., jax.Array]:
    return lambda x, i, u: combine(x, i, u, numbers, mode=mode)


ROWS = lax.ScatterDimensionNumbers(
    update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
)
POINTS = lax.ScatterDimensionNumbers(
    update_window_dims=(), inserted_window_dims=(0, 1), scatter_dims_to_operand_dims=(0, 1)
)
COLUMNS = lax.ScatterDimensionNumbers(
    update_window_dims=(0,), inserted_window_dims=(1,), scatter_dims_to_operand_dims=(1,)
)


@every_target
@pytest.mark.parametrize(
    ("width", "index_type"), [(1, np.int32), (3, np.int64), (8, np.int32), (37, np.uint32), (130, np.int8)]
)
def test_scatter_rows_with_indices_out_of_bounds(width: int, index_type: type, target: CpuTarget) -> None:
    low = 0 if np.dtype(index_type).kind == "u" else -2
    indices = RNG.integers(low, 13, (20, 1)).astype(index_type)
    indices[:2, 0] = np.iinfo(index_type).max, np.iinfo(index_type).min
    check(scattered(lax.scatter_add, ROWS), whole(10, width), indices, whole(20, width), target=target)


@pytest.mark.parametrize("combine", [lax.scatter_add, lax.scatter_max])
@pytest.mark.parametrize("width", [16, 24, 64, 128])
def test_rows_of_whole_vectors_are_scattered_without_masks(combine: Callable[..., jax.Array], width: int) -> None:
    x, updates = random(10, width), random(20, width)
    updates[3, 5] = updates[11, 0] = np.nan
    indices = RNG.integers(0, 10, (20, 1)).astype(np.int32)
    check(scattered(combine, ROWS), x, indices, updates)
    text, _ = fusion_of(jax.export.export(jax.jit(scattered(combine, ROWS)))(x, indices, updates))
    assert "masked" not in "".join(compile_kernel(text, host_target()).kernel.functions.values())


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint16, np.int32, np.int64, np.float16, bf16, np.float64, np.complex64, bool]
)
def test_scatter_types(dtype: object) -> None:
    x, updates = random(9, 21, dtype=dtype), random(6, 21, dtype=dtype)
    indices = np.array([[8], [0], [3], [9], [-1], [5]], np.int32)  # no index twice: the last of several may win
    check(scattered(lax.scatter, ROWS), x, indices, updates)


@pytest.mark.parametrize("combine", [lax.scatter_add, lax.scatter_mul, lax.scatter_min, lax.scatter_max])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float32, np.float64])
def test_scatter_combiners(combine: Callable[..., jax.Array], dtype: object) -> None:
    indices = RNG.integers(-1, 8, (25, 2)).astype(np.int32)
    check(scattered(combine, POINTS), whole(7, 6, dtype=dtype), indices, whole(25, dtype=dtype))


def test_scatter_into_columns() -> None:
    indices = RNG.integers(0, 12, (9, 1)).astype(np.int32)
    check(scattered(lax.scatter_add, COLUMNS), whole(5, 10), indices, whole(5, 9))


def test_scatter_of_windows() -> None:
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=(1, 2), inserted_window_dims=(), scatter_dims_to_operand_dims=(1, 0)
    )
    indices = np.stack([RNG.integers(0, 5, 8), RNG.integers(0, 7, 8)], 1).astype(np.int32)
    check(scattered(lax.scatter_add, numbers), whole(9, 20), indices, whole(8, 3, 16))


def test_scatter_with_batches() -> None:
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=(2,),
        inserted_window_dims=(1,),
        scatter_dims_to_operand_dims=(1,),
        operand_batching_dims=(0,),
        scatter_indices_batching_dims=(0,),
    )
    indices = RNG.integers(0, 6, (3, 5, 1)).astype(np.int32)
    check(scattered(lax.scatter_add, numbers), whole(3, 6, 17), indices, whole(3, 5, 17))


@pytest.mark.parametrize(("rows", "count", "width"), [(4, 0, 5), (4, 3, 0), (0, 3, 5)])
def test_scatter_of_nothing(rows: int, count: int, width: int) -> None:
    indices = np.zeros((count, 1), np.int32)
    check(scattered(lax.scatter_add, ROWS), whole(rows, width), indices, whole(count, width))


def test_scatter_of_several_operands() -> None:
    text = """func.func @main(%x: tensor<6x5xf32>, %y: tensor<6x5xi32>, %i: tensor<4x1xi64>, %u: tensor<4x5xf32>,
                              %v: tensor<4x5xi32>) -> (tensor<6x5xf32>, tensor<6x5xi32>) {
      %r:2 = "stablehlo.scatter"(%x, %y, %i, %u, %v) <{scatter_dimension_numbers = #stablehlo.scatter<
          update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
          index_vector_dim = 1>}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):
          %larger = stablehlo.compare GT, %c, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
          %p = stablehlo.select %larger, %c, %a : tensor<i1>, tensor<f32>
          %q = stablehlo.select %larger, %d, %b : tensor<i1>, tensor<i32>
          stablehlo.return %p, %q : tensor<f32>, tensor<i32>
      }) : (tensor<6x5xf32>, tensor<6x5xi32>, tensor<4x1xi64>, tensor<4x5xf32>, tensor<4x5xi32>)
        -> (tensor<6x5xf32>, tensor<6x5xi32>)
      return %r#0, %r#1 : tensor<6x5xf32>, tensor<6x5xi32>
    }"""
    x, y = random(6, 5), random(6, 5, dtype=np.int32)
    i, u, v = np.array([[2], [7], [2], [0]]), random(4, 5), random(4, 5, dtype=np.int32)
    p, q = kernel(text, x, y, i, u, v)
    expected_p, expected_q = x.copy(), y.copy()
    for row, values, numbers in zip(i[:, 0], u, v, strict=True):
        if row < 6:
            larger = values > expected_p[row]
            expected_p[row][larger], expected_q[row][larger] = values[larger], numbers[larger]
    np.testing.assert_array_equal(p, expected_p)
    np.testing.assert_array_equal(q, expected_q)


# --- windows ---------------------------------------------------------------------------------------------------------


def pooled(
    initial: object, combine: Callable[..., jax.Array], window: Sequence[int], **options: object
) -> Callable[[jax.Array], jax.Array]:
    def function(x: jax.Array) -> jax.Array:
        arguments = {"window_strides": (1,) * len(window), "padding": "VALID", **options}
        return lax.reduce_window(x, np.asarray(initial, x.dtype), combine, tuple(window), **arguments)

    return function


WINDOWS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, object]]] = {
    "same": ((2, 9, 11, 37), (1, 3, 3, 1), {"window_strides": (1, 2, 2, 1), "padding": "SAME"}),
    "channels_first": ((2, 5, 9, 11), (1, 1, 2, 3), {"window_strides": (1, 1, 2, 1)}),
    "one_dimension": ((40,), (7,), {"window_strides": (3,)}),
    "window_dilation": ((3, 20, 8), (1, 3, 1), {"window_dilation": (1, 4, 1), "padding": ((0, 0), (2, 5), (0, 0))}),
    "base_dilation": ((3, 10, 8), (1, 4, 1), {"base_dilation": (1, 3, 1), "padding": ((0, 0), (3, 1), (0, 0))}),
    "both_dilations": (
        (6, 10),
        (2, 3),
        {"base_dilation": (2, 3), "window_dilation": (3, 2), "padding": ((4, 1), (0, 7))},
    ),
    "negative_padding": ((12, 16), (3, 1), {"padding": ((-2, 1), (0, 0))}),
    "negative_padding_dilated": ((12, 5), (2, 2), {"base_dilation": (2, 2), "padding": ((-3, -1), (1, -2))}),
    "dilated_last": ((5, 9), (1, 1), {"base_dilation": (1, 2), "padding": ((0, 0), (1, 0))}),
    "wide_padding": ((4, 3), (3, 3), {"padding": ((5, 5), (4, 4))}),
    "empty_operand": ((0, 4), (1, 2), {"padding": ((1, 1), (0, 0))}),
    "empty_result": ((2, 4), (3, 1), {}),
    "scalar_window": ((5, 5), (1, 1), {"window_strides": (2, 3)}),
    "sliding": ((3, 70), (1, 5), {"padding": "SAME"}),
    "sliding_by_two": ((2, 3, 70), (1, 3, 3), {"window_strides": (1, 2, 2), "padding": "SAME"}),
    "sliding_by_three": ((3, 90), (2, 4), {"window_strides": (1, 3), "padding": "SAME"}),
    "sliding_dilated": ((70,), (4,), {"window_dilation": (3,), "padding": ((2, 5),)}),
    "sliding_within": ((90,), (3,), {"window_strides": (2,), "padding": ((-3, -2),)}),
    "sliding_far_out": ((20,), (3,), {"padding": ((40, 40),)}),
    "short_rows": ((7, 4, 10), (1, 1, 5), {"padding": "SAME"}),
    "short_rows_by_two": ((12, 22), (3, 3), {"window_strides": (1, 2), "padding": "SAME"}),
    "short_rows_by_three": ((9, 40), (1, 4), {"window_strides": (1, 3), "padding": "SAME"}),
    "short_rows_dilated": ((9, 14), (1, 4), {"window_dilation": (1, 3), "padding": ((0, 0), (4, 5))}),
    "short_rows_far_out": ((9, 5), (1, 3), {"padding": ((0, 0), (11, 9))}),
    "cumulative_rows": ((5, 40), (1, 40), {"padding": ((0, 0), (39, 0))}),
    "cumulative_columns": ((3, 12, 37), (1, 12, 1), {"padding": ((0, 0), (11, 0), (0, 0))}),
    "cumulative_backwards": ((3, 12, 37), (1, 12, 1), {"padding": ((0, 0), (0, 11), (0, 0))}),
    "cumulative_wide": ((6, 9), (8, 1), {"padding": ((7, 0), (0, 0))}),
    "cumulative_and_more": ((6, 9), (6, 3), {"padding": ((5, 0), (0, 0))}),
}


@pytest.mark.every(2)
@every_target
@pytest.mark.parametrize("name", WINDOWS)
def test_reduce_window_shapes(name: str, target: CpuTarget) -> None:
    sizes, window, options = WINDOWS[name]
    check(pooled(0, lax.add, window, **options), whole(*sizes), target=target)
    check(pooled(-np.inf, lax.max, window, **options), random(*sizes), target=target)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, np.float16, bf16, np.float64])
@pytest.mark.parametrize("sizes", [(6, 7), (5, 10), (4, 70)], ids=str)
def test_reduce_window_types(dtype: object, sizes: tuple[int, int]) -> None:
    for combine in (lax.add, lax.min) if np.dtype(dtype).itemsize > 1 else (lax.max, lax.mul):
        check(pooled(1, combine, (2, 3), padding="SAME"), whole(*sizes, dtype=dtype))


@pytest.mark.parametrize("dtype", [np.float16, bf16])
@pytest.mark.parametrize("width", [600, 6000])
def test_windows_of_narrow_floats_round_once(dtype: object, width: int) -> None:
    padding = ((width - 1, 0),) if width == 6000 else "VALID"
    (result,) = kernel(pooled(0, lax.add, (width,), padding=padding), np.ones(6000, dtype))
    assert result[-1] == np.asarray(width, dtype)


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float16, bf16, np.float64, np.complex64])
@pytest.mark.parametrize("sizes", [(7, 21), (21,)])
def test_cumulative_types(dtype: object, sizes: tuple[int, ...]) -> None:
    first = sizes[0] - 1, 0
    padding = (first, (0, 0))[: len(sizes)]
    check(pooled(0, lax.add, (sizes[0], 1)[: len(sizes)], padding=padding), whole(*sizes, dtype=dtype))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_reduce_window_of_complex_numbers(dtype: object) -> None:
    check(pooled(0, lax.add, (2, 3), padding="SAME"), whole(6, 7, dtype=dtype))


def test_reduce_window_of_several_operands() -> None:
    def best(a: tuple[jax.Array, jax.Array], b: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        first = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])

    def function(x: jax.Array, i: jax.Array) -> tuple[jax.Array, ...]:
        start = (np.float32(-np.inf), np.int32(0))
        return lax.reduce_window((x, i), start, best, (3, 2), (2, 2), "VALID")

    def running(x: jax.Array, i: jax.Array) -> tuple[jax.Array, ...]:
        start = (np.float32(-np.inf), np.int32(0))
        return lax.reduce_window((x, i), start, best, (13, 1), (1, 1), ((12, 0), (0, 0)))

    x = whole(13, 20)
    for each in (function, running):
        check(each, x, np.arange(x.size, dtype=np.int32).reshape(x.shape))


# --- select_and_scatter ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "window", "strides", "padding"),
    [
        ((2, 9, 11, 37), (1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
        ((2, 8, 8, 3), (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        ((1, 4, 9, 7), (1, 1, 3, 2), (1, 1, 1, 3), "SAME"),
        ((30,), (4,), (2,), "VALID"),
        ((3, 5), (1, 1), (1, 1), "VALID"),
        ((0, 6), (1, 2), (1, 2), "VALID"),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, bf16])
def test_gradient_of_max_pooling(
    sizes: tuple[int, ...], window: tuple[int, ...], strides: tuple[int, ...], padding: str, dtype: object
) -> None:
    function = pooled(-np.inf, lax.max, window, window_strides=strides, padding=padding)
    x = whole(*sizes, dtype=dtype)  # ties: the first of the window is taken
    shape = jax.eval_shape(function, x).shape
    g = whole(*shape, dtype=dtype)
    pads = lax.padtype_to_pads(sizes, window, strides, padding)
    (result,) = kernel(select_and_scatter_text(x, g, window, strides, pads), x, g)
    with jax.enable_x64(True):
        agree(result, np.asarray(jax.vjp(function, x)[1](g)[0]), 0.0)


def select_and_scatter_text(
    x: np.ndarray, g: np.ndarray, window: Sequence[int], strides: Sequence[int], pads: Sequence[tuple[int, int]]
) -> str:
    element = {"float32": "f32", "float64": "f64", "bfloat16": "bf16"}[x.dtype.name]
    big, small = ("tensor<" + "".join(f"{size}x" for size in array.shape) + f"{element}>" for array in (x, g))
    scalar = f"tensor<{element}>"
    return f"""func.func @main(%x: {big}, %g: {small}) -> {big} {{
      %zero = stablehlo.constant dense<0.0> : {scalar}
      %r = "stablehlo.select_and_scatter"(%x, %g, %zero) <{{
          window_dimensions = array<i64: {", ".join(map(str, window))}>,
          window_strides = array<i64: {", ".join(map(str, strides))}>,
          padding = dense<{[list(pair) for pair in pads]}> : tensor<{len(pads)}x2xi64>}}> ({{
        ^bb0(%a: {scalar}, %b: {scalar}):
          %c = stablehlo.compare GE, %a, %b : ({scalar}, {scalar}) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
      }}, {{
        ^bb0(%a: {scalar}, %b: {scalar}):
          %s = stablehlo.add %a, %b : {scalar}
          stablehlo.return %s : {scalar}
      }}) : ({big}, {small}, {scalar}) -> {big}
      return %r : {big}
    }}"""


def test_select_and_scatter_of_scalars() -> None:
    x, g = np.array(2, np.float32), np.array(3, np.float32)
    text = select_and_scatter_text(x, g, (), (), ())
    text = text[: text.index("<{")] + text[text.index("}>") + 2 :]  # no dimension, no attributes
    (result,) = kernel(text, x, g)
    assert result == 3


def test_select_and_scatter_with_an_initial_value_from_memory() -> None:
    x, g, start = whole(4, 6, 33), whole(2, 3, 33), np.array(100, np.float32)
    pads = [(0, 0)] * 3
    text = select_and_scatter_text(x, g, (2, 2, 1), (2, 2, 1), pads)
    zero = next(line for line in text.splitlines() if "%zero =" in line)
    text = text.replace(zero, "")
    text = text.replace("(%x:", "(%zero: tensor<f32>, %x:", 1)
    function = pooled(-np.inf, lax.max, (2, 2, 1), window_strides=(2, 2, 1))
    (result,) = kernel(text, start, x, g)
    np.testing.assert_array_equal(result, 100 + np.asarray(jax.vjp(function, x)[1](g)[0]))


# --- general reductions ----------------------------------------------------------------------------------------------


def arg_best(dimensions: tuple[int, ...]) -> Callable[..., object]:
    def best(a: tuple[jax.Array, jax.Array], b: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        first = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])

    def function(x: jax.Array, i: jax.Array) -> object:
        lowest = np.asarray(-np.inf if np.issubdtype(x.dtype, np.floating) else np.iinfo(x.dtype).min, x.dtype)
        return lax.reduce((x, i), (lowest, np.int32(2**31 - 1)), best, dimensions)

    return function


@every_target
@pytest.mark.parametrize(
    ("sizes", "dimensions"),
    [
        ((7, 1000), (1,)),
        ((1000, 37), (0,)),
        ((6, 5, 9), (1,)),
        ((50,), (0,)),
        ((5, 6, 70), (0, 2)),
        ((5, 6, 70), (0, 1)),
        ((4, 3, 2), (0, 1, 2)),
        ((3, 33), (1,)),
        ((3, 0), (1,)),
        ((0, 3), (1,)),
        ((40, 1), (1,)),
    ],
)
def test_argmax(sizes: tuple[int, ...], dimensions: tuple[int, ...], target: CpuTarget) -> None:
    x = whole(*sizes)
    check(arg_best(dimensions), x, np.arange(x.size, dtype=np.int32).reshape(sizes), target=target)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.float64])
def test_argmax_types(dtype: object) -> None:
    x = whole(9, 80, dtype=dtype)
    check(arg_best((1,)), x, np.arange(x.size, dtype=np.int32).reshape(x.shape))


def test_reduction_of_complex_numbers_with_a_body() -> None:
    def function(x: jax.Array, y: jax.Array) -> object:
        both = lambda a, b: (a[0] + b[0], a[1] * b[1])  # noqa: E731
        return lax.reduce((x, y), (np.complex64(0), np.float32(1)), both, (1,))

    check(function, whole(6, 9, dtype=np.complex64), whole(6, 9))


@every_target
@pytest.mark.parametrize("sizes", [(3, 67), (2, 16), (2, 3, 35)])
def test_elements_keep_their_order(sizes: tuple[int, ...], target: CpuTarget) -> None:
    """Composition of x -> a x + b: associative, not commutative, and wrong under any other order."""
    text = """func.func @main(%a: tensor<{s}xi32>, %b: tensor<{s}xi32>) -> (tensor<{r}xi32>, tensor<{r}xi32>) {{
      %i = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.constant dense<0> : tensor<i32>
      %r:2 = stablehlo.reduce(%a init: %i), (%b init: %j) across dimensions = [{d}]
          : (tensor<{s}xi32>, tensor<{s}xi32>, tensor<i32>, tensor<i32>) -> (tensor<{r}xi32>, tensor<{r}xi32>)
        reducer(%p: tensor<i32>, %x: tensor<i32>) (%q: tensor<i32>, %y: tensor<i32>) {{
        %s = stablehlo.multiply %p, %x : tensor<i32>
        %t = stablehlo.multiply %q, %x : tensor<i32>
        %u = stablehlo.add %t, %y : tensor<i32>
        stablehlo.return %s, %u : tensor<i32>, tensor<i32>
      }}
      return %r#0, %r#1 : tensor<{r}xi32>, tensor<{r}xi32>
    }}"""
    dimensions = ", ".join(map(str, range(1, len(sizes))))
    a, b = (RNG.integers(-3, 4, sizes).astype(np.int32) * 2 + 1 for _ in range(2))
    product, total = np.ones(sizes[0], np.int32), np.zeros(sizes[0], np.int32)
    for x, y in zip(a.reshape(sizes[0], -1).T, b.reshape(sizes[0], -1).T, strict=True):
        product, total = product * x, total * x + y
    module = text.format(s="x".join(map(str, sizes)), r=sizes[0], d=dimensions)
    for ours, theirs in zip(kernel(module, a, b, target=target), (product, total), strict=True):
        np.testing.assert_array_equal(ours, theirs)
