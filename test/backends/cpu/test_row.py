"""Row kernels against NumPy: softmax, layer norm, plain reductions; long, short and odd rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from one_kernel import build_fusion, compile_kernel, here, run_kernel

from stablehlo_py.backends.cpu.target import AVX2, AVX512, AVX512_BF16, BASELINE, CpuTarget
from stablehlo_py.dialect import build
from stablehlo_py.mlir import ir

WITHOUT_GATHERS = replace(AVX512, gathers=False)
TARGETS = here(AVX2, AVX512, WITHOUT_GATHERS)
SIZES = [
    (1, 1),
    (3, 5),
    (4, 16),
    (7, 100),
    (64, 512),
    (100, 10),
    (33, 3),
    (2, 1000),
    (20, 768),
    (16, 1),
    (40, 17),
    (1, 70000),
    (0, 5),
    (5, 0),
]


@pytest.fixture(params=TARGETS, ids=lambda target: target.name)
def target(request):
    return request.param


def normal(*sizes: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(sizes).astype(np.float32)


def number(value: float, element: str = "f32") -> ir.Value:
    from stablehlo_py.dialect.constants import numpy_dtype

    type_ = ir.Type.parse(element)
    return build.constant(np.asarray(value).astype(numpy_dtype(type_)), type_)


def reduce(x: ir.Value, kind: str, init: float, element: str = "f32", dimensions: tuple[int, ...] = (1,)) -> ir.Value:
    sizes = [size for dimension, size in enumerate(x.type.shape) if dimension not in dimensions]
    result = build.tensor(sizes, ir.Type.parse(element))
    return build.value("reduce", result, x, number(init, element), kind=kind, dimensions=dimensions)


def over_rows(value: ir.Value, sizes: tuple[int, int]) -> ir.Value:
    return build.broadcast(value, sizes, [0])


def softmax(x: ir.Value) -> ir.Value:
    sizes = tuple(x.type.shape)
    shifted = build.like("subtract", x, over_rows(reduce(x, "maximum", -math.inf), sizes))
    powers = build.like("exponential", shifted)
    return build.like("divide", powers, over_rows(reduce(powers, "add", 0.0), sizes))


def layer_norm(x: ir.Value, weight: ir.Value, bias: ir.Value) -> ir.Value:
    sizes = rows, columns = tuple(x.type.shape)

    def all_rows(value: float) -> ir.Value:
        return build.broadcast(number(value), (rows,), [])

    share = 1.0 / max(columns, 1)
    mean = build.like("multiply", reduce(x, "add", 0.0), all_rows(share))
    centered = build.like("subtract", x, over_rows(mean, sizes))
    variance = build.like("multiply", reduce(build.like("multiply", centered, centered), "add", 0.0), all_rows(share))
    scale = build.like("rsqrt", build.like("add", variance, all_rows(1e-5)))
    scaled = build.like(
        "multiply", build.like("multiply", centered, over_rows(scale, sizes)), build.broadcast(weight, sizes, [1])
    )
    return build.like("add", scaled, build.broadcast(bias, sizes, [1]))


@pytest.mark.parametrize("sizes", SIZES)
def test_softmax(sizes: tuple[int, int], target) -> None:
    x = normal(*sizes) * 5
    result = run_kernel(build_fusion("row", [f"tensor<{sizes[0]}x{sizes[1]}xf32>"], softmax), [x], target)[0]
    if x.size:
        powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        np.testing.assert_allclose(result, powers / powers.sum(1, keepdims=True), rtol=2e-5, atol=1e-30)


def logsumexp(x: ir.Value) -> ir.Value:
    return build.like("log", reduce(build.like("exponential", x), "add", 0.0))


def shares(x: ir.Value) -> ir.Value:
    return build.like("divide", x, over_rows(reduce(x, "add", 0.0), tuple(x.type.shape)))


def attraction(x: ir.Value) -> ir.Value:
    """Sums to the power of -1.5."""
    squared = reduce(build.like("multiply", x, x), "add", 0.0)
    return build.like("divide", build.like("rsqrt", squared), squared)


@pytest.mark.parametrize(
    ("body", "columns", "in_lanes"),
    [(logsumexp, 16, True), (shares, 16, False), (shares, 5, True), (attraction, 6, True)],
)
def test_short_rows_are_in_lanes_where_that_is_faster(body: Callable, columns: int, in_lanes: bool) -> None:
    """A function of each row takes all lanes then, and so do divisions, but elements of a column are loaded one by
    one, or transposed."""
    text = build_fusion("row", [f"tensor<64x{columns}xf32>"], body)
    kernel = compile_kernel(text, AVX512).kernel
    assert (kernel.phases[0].iterations == 64 // 16) == in_lanes


@pytest.mark.parametrize(("columns", "squares"), [(5, False), (8, True), (11, True)])
def test_arguments_with_rows_in_lanes_are_read_in_squares(columns: int, squares: bool) -> None:
    kernel = compile_kernel(build_fusion("row", [f"tensor<64x{columns}xf32>"], logsumexp), AVX512).kernel
    assert ("masked.gather" not in "".join(kernel.functions.values())) == squares


@pytest.mark.parametrize("body", [logsumexp, shares])
@pytest.mark.parametrize("columns", range(2, 18))
def test_short_rows(body: Callable, columns: int, target) -> None:
    x = np.abs(normal(67, columns)) + 1
    result = run_kernel(build_fusion("row", [f"tensor<67x{columns}xf32>"], body), [x], target)[0]
    expected = x / x.sum(1, keepdims=True) if body is shares else np.log(np.exp(x).sum(1))
    np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize("columns", [2, 3, 5])
@pytest.mark.parametrize("rows", [(4, 16), (4, 19), (3, 40), (9, 7), (2, 3, 33)])
def test_short_rows_with_gaps_between_them(rows: tuple[int, ...], columns: int, target) -> None:
    """Rows are in lanes by loops over their dimensions, where one is long enough, and by divisions."""
    sizes = (*rows, columns)
    whole = (*rows[:-1], rows[-1] + 1, columns)
    x = normal(*whole)

    def body(x: ir.Value) -> ir.Value:
        starts = [0] * (len(rows) - 1) + [1, 0]
        part = build.value(
            "slice", build.tensor(sizes, ir.F32Type.get()), x, start=starts, limit=whole, strides=[1] * len(whole)
        )
        squared = reduce(build.like("multiply", part, part), "add", 0.0, dimensions=(len(rows),))
        return build.like("divide", part, build.broadcast(build.like("sqrt", squared), sizes, range(len(rows))))

    inputs = [f"tensor<{'x'.join(map(str, whole))}xf32>"]
    part = x[..., 1:, :]
    expected = part / np.sqrt((part.astype(np.float64) ** 2).sum(-1, keepdims=True))
    text = build_fusion("row", inputs, body)
    np.testing.assert_allclose(run_kernel(text, [x], target)[0], expected, rtol=1e-6)
    kernel = compile_kernel(text, AVX512).kernel
    if rows[-1] >= 16:
        assert kernel.phases[0].iterations == math.prod(rows[:-1]) * -(-rows[-1] // 16)


@pytest.mark.parametrize("sizes", SIZES)
def test_layer_norm(sizes: tuple[int, int], target) -> None:
    rows, columns = sizes
    arrays = [normal(*sizes), normal(columns, seed=1), normal(columns, seed=2)]
    text = build_fusion(
        "row", [f"tensor<{rows}x{columns}xf32>", f"tensor<{columns}xf32>", f"tensor<{columns}xf32>"], layer_norm
    )
    result = run_kernel(text, arrays, target)[0]
    if columns:
        x = arrays[0].astype(np.float64)
        centered = x - x.mean(1, keepdims=True)
        expected = centered / np.sqrt((centered**2).mean(1, keepdims=True) + 1e-5) * arrays[1] + arrays[2]
        np.testing.assert_allclose(result, expected, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", SIZES)
def test_several_reductions_at_once(sizes: tuple[int, int], target) -> None:
    x = normal(*sizes)

    def body(x: ir.Value) -> list[ir.Value]:
        total, largest = reduce(build.like("multiply", x, x), "add", 2.0), reduce(x, "maximum", -math.inf)
        return [build.like("add", total, largest), largest]

    results = run_kernel(build_fusion("row", [f"tensor<{sizes[0]}x{sizes[1]}xf32>"], body), [x], target)
    largest = x.max(1, initial=-np.inf)
    np.testing.assert_array_equal(results[1], largest)
    np.testing.assert_allclose(results[0], 2 + (x.astype(np.float64) ** 2).sum(1) + largest, rtol=1e-5)


def test_a_row_bias_splits_the_row(target) -> None:
    """Rows of 6 x 40, with a vector that repeats every 40 columns."""

    def body(x: ir.Value, w: ir.Value) -> ir.Value:
        shifted = build.like("add", x, build.broadcast(w, (5, 6, 40), [2]))
        total = reduce(shifted, "add", 0.0, dimensions=(1, 2))
        return build.like("divide", shifted, build.broadcast(total, (5, 6, 40), [0]))

    x, w = normal(5, 6, 40) + 3, normal(40, seed=1)
    result = run_kernel(build_fusion("row", ["tensor<5x6x40xf32>", "tensor<40xf32>"], body), [x, w], target)[0]
    shifted = x.astype(np.float64) + w
    np.testing.assert_allclose(result, shifted / shifted.sum((1, 2), keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("columns", [7, 40, 300])
@pytest.mark.parametrize("place", [0, 3, -1])
def test_nan_spreads_through_maximum(columns: int, place: int, target) -> None:
    x = normal(3, columns)
    x[1, place] = np.nan
    result = run_kernel(
        build_fusion("row", [f"tensor<3x{columns}xf32>"], lambda x: reduce(x, "maximum", -math.inf)), [x], target
    )[0]
    np.testing.assert_array_equal(result, x.max(1))


@pytest.mark.parametrize("kind", ["maximum", "minimum"])
@pytest.mark.parametrize("columns", [7, 16, 40, 75, 300])
@pytest.mark.parametrize("element", ["f32", "f64", "bf16"])
def test_extremes_order_zeros_and_keep_nan(element: str, columns: int, kind: str) -> None:
    """One value that stands out, at each place of a row, among zeros, infinities and NaN of either sign."""
    dtype = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16}[element]
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, -math.nan, 1.0, -1.0]
    pairs = [(other, one) for other in special for one in special]
    places = {0, 1, columns // 2, columns - 2, columns - 1}
    x = np.array([np.insert(np.full(columns - 1, a), place, b) for a, b in pairs for place in places]).astype(dtype)
    larger = max if kind == "maximum" else min
    init = -math.inf if kind == "maximum" else math.inf
    text = build_fusion("row", [f"tensor<{len(x)}x{columns}x{element}>"], lambda x: reduce(x, kind, init, element))
    ordered = [larger(a, b, key=lambda each: (each, math.copysign(1, each))) for a, b in pairs for _ in places]
    nan = [math.isnan(a) or math.isnan(b) for a, b in pairs for _ in places]
    bits = set[bytes]()
    for target in (*TARGETS, *here(BASELINE, AVX512_BF16)):
        (result,) = run_kernel(text, [x], target)
        bits.add(result.tobytes())
        result = result.astype(np.float64)
        np.testing.assert_array_equal(result, np.where(nan, math.nan, ordered))
        signs = np.signbit(result) == np.signbit(ordered)
        assert np.all(signs | nan), target.name
    assert len(bits) == 1  # of the same NaN


@pytest.mark.parametrize("columns", [5, 13, 129])
@pytest.mark.parametrize(
    ("element", "dtype", "kind", "init", "function"),
    [
        ("i32", np.int32, "add", 3, np.add),
        ("i8", np.int8, "maximum", -128, np.maximum),
        ("ui8", np.uint8, "minimum", 255, np.minimum),
        ("i64", np.int64, "multiply", 1, np.multiply),
        ("f64", np.float64, "add", 0, np.add),
        ("i1", np.bool_, "or", False, np.logical_or),
        ("i1", np.bool_, "and", True, np.logical_and),
        ("ui32", np.uint32, "xor", 5, np.bitwise_xor),
        ("complex<f32>", np.complex64, "add", 0, np.add),
        ("bf16", ml_dtypes.bfloat16, "maximum", -1e30, np.maximum),
        ("f16", np.float16, "add", 0, np.add),
    ],
)
def test_element_types(element, dtype, kind, init, function, columns, target) -> None:
    x = (np.random.default_rng(0).standard_normal((37, columns)) * 3).astype(dtype)
    text = build_fusion("row", [f"tensor<37x{columns}x{element}>"], lambda x: reduce(x, kind, init, element))
    result = run_kernel(text, [x], target)[0]
    wide = {np.float16: np.float32, ml_dtypes.bfloat16: np.float32}.get(dtype, dtype)
    expected = function(function.reduce(x.astype(wide), axis=1), np.asarray(init, wide)).astype(dtype)
    if np.dtype(dtype).kind in "fc" or dtype is ml_dtypes.bfloat16:
        exact = np.complex128 if np.dtype(dtype).kind == "c" else np.float64
        np.testing.assert_allclose(
            result.astype(exact),
            expected.astype(exact),
            rtol=2e-3 if dtype is np.float16 else 1e-5,
            atol=1e-2 if dtype is np.float16 else 1e-5,
        )
    else:
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("sizes", [(6, 64), (6, 37), (40, 10), (33, 7)])
def test_in_place(sizes: tuple[int, int], target) -> None:
    x = normal(*sizes)
    text = build_fusion("row", [f"tensor<{sizes[0]}x{sizes[1]}xf32>"], softmax, {"hlo.inplace": [0, 0]})
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(run_kernel(text, [x], target)[0], powers / powers.sum(1, keepdims=True), rtol=3e-6)


@pytest.mark.parametrize("element", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("columns", [15, 16, 17, 31, 33, 52, 100, 301])
def test_the_last_vector_in_place_overlaps_and_has_the_same_bits(columns: int, element: str, target) -> None:
    """It is computed before the others are written. A mask reached into the next row, which waited for it."""
    dtype = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16}[element]
    x = normal(40, columns).astype(dtype)

    def centered(x: ir.Value) -> ir.Value:
        return build.like("subtract", x, over_rows(reduce(x, "add", 0.0, element), (40, columns)))

    types = [f"tensor<40x{columns}x{element}>"]
    in_place = build_fusion("row", types, centered, {"hlo.inplace": [0, 0]})
    result, expected = (run_kernel(text, [x], target)[0] for text in (in_place, build_fusion("row", types, centered)))
    assert result.tobytes() == expected.tobytes()
    if columns >= target.lanes(32):
        assert "masked.store" not in "".join(compile_kernel(in_place, target).kernel.functions.values())


def test_exponentials_are_kept_not_recomputed() -> None:
    kernel = compile_kernel(build_fusion("row", ["tensor<64x512xf32>"], softmax), TARGETS[-1]).kernel
    assert kernel.private_bytes == 512 * 4
    assert kernel.phases[0].iterations == 64


def test_short_rows_in_lanes_are_gathered_once() -> None:
    """A column's elements are apart in memory: what a later pass reads is kept."""
    kernel = compile_kernel(build_fusion("row", ["tensor<64x5xf32>"], shares), AVX512).kernel
    assert "".join(kernel.functions.values()).count("masked.gather") == 1
    assert kernel.private_bytes == 5 * 16 * 4


def test_lanes_are_loaded_one_by_one_where_that_is_faster() -> None:
    """A column's elements are a known number of elements apart: loads need no addresses from a vector."""
    text = build_fusion("row", ["tensor<64x5xf32>"], shares)
    code = "".join(compile_kernel(text, WITHOUT_GATHERS).kernel.functions.values())
    assert "masked.gather" not in code
    x = np.abs(normal(64, 5)) + 1
    for target in here(WITHOUT_GATHERS):
        np.testing.assert_allclose(run_kernel(text, [x], target)[0], x / x.sum(1, keepdims=True), rtol=1e-6)


def first_of_the_largest(x: ir.Value) -> ir.Value:
    sizes = tuple(x.type.shape)
    is_largest = build.compare(x, over_rows(reduce(x, "maximum", -np.inf), sizes), "EQ")
    none = build.broadcast(number(1e9), sizes, [])
    places = build.value("iota", build.tensor(sizes, ir.F32Type.get()), dimension=1)
    return reduce(build.value("select", x.type, is_largest, places, none), "minimum", np.inf)


@pytest.mark.parametrize(
    ("columns", "with_gathers", "without"), [(12, True, True), (20, False, True), (32, False, False)]
)
def test_rows_of_half_empty_vectors_are_in_lanes(columns: int, with_gathers: bool, without: bool) -> None:
    """A row of 20 is two vectors along it, the second one nearly empty: one row per lane, where loads cost little."""
    text = build_fusion("row", [f"tensor<160x{columns}xf32>"], first_of_the_largest)
    for target, in_lanes in ((AVX512, with_gathers), (WITHOUT_GATHERS, without)):
        assert (compile_kernel(text, target).kernel.phases[0].iterations == 10) == in_lanes
    x = normal(160, columns)
    for target in TARGETS:
        np.testing.assert_array_equal(run_kernel(text, [x], target)[0], x.argmax(1))


def first_above_two(x: ir.Value) -> ir.Value:
    sizes = tuple(x.type.shape)
    places = build.tensor(sizes, ir.IntegerType.get_signless(32))
    last = build.splat(2**31 - 1, build.tensor([], places.element_type))
    iota, none = build.value("iota", places, dimension=1), build.broadcast(last, sizes, [])
    above = build.compare(x, build.broadcast(number(2.0), sizes, []), "GT")
    choice = build.value("select", places, above, iota, none)
    result = build.tensor(sizes[:1], places.element_type)
    return build.value("reduce", result, choice, last, kind="minimum", dimensions=[1])


@pytest.mark.parametrize("columns", [256, 300, 1001])
def test_a_row_is_walked_to_the_first_match(target: CpuTarget, columns: int) -> None:
    """It may be in any vector, or missing."""
    text = build_fusion("row", [f"tensor<{columns + 1}x{columns}xf32>"], first_above_two)
    assert "vector.reduce.or" in "".join(compile_kernel(text, target).kernel.functions.values())
    x = np.zeros((columns + 1, columns), np.float32)
    for row in range(columns):
        x[row, row] = x[row, row + (columns - row) // 2] = 3
    expected = np.append(np.arange(columns), 2**31 - 1)
    np.testing.assert_array_equal(run_kernel(text, [x], target)[0], expected)


@pytest.mark.parametrize("rows", [64, 37])
@pytest.mark.parametrize("columns", [2, 3, 4])
def test_rows_of_few_columns_are_read_and_written_whole(rows: int, columns: int) -> None:
    """Vectors go from the first row's element to the last one's; shuffles give each column its lanes."""
    text = build_fusion("row", [f"tensor<{rows}x{columns}xf32>"], shares)
    code = "".join(compile_kernel(text, AVX512).kernel.functions.values())
    assert "masked.gather" not in code
    assert "extractelement" not in code
    x = np.abs(normal(rows, columns)) + 1
    for target in TARGETS:
        np.testing.assert_allclose(run_kernel(text, [x], target)[0], x / x.sum(1, keepdims=True), rtol=1e-6)


def test_cheap_values_are_recomputed() -> None:
    text = build_fusion("row", ["tensor<64x512xf32>", "tensor<512xf32>", "tensor<512xf32>"], layer_norm)
    assert compile_kernel(text, TARGETS[-1]).kernel.private_bytes == 0


def test_few_long_rows_are_split() -> None:
    kernel = compile_kernel(
        build_fusion("row", ["tensor<2x1000000xf32>"], lambda x: reduce(x, "add", 0.0)), TARGETS[-1]
    ).kernel
    assert len(kernel.phases) == 2
    assert kernel.phases[0].iterations > 16


def test_quotients_that_two_passes_read_are_kept(target) -> None:
    x, y = normal(40, 256), normal(256, seed=1) + 4

    def body(x: ir.Value, y: ir.Value) -> ir.Value:
        quotient = build.like("divide", x, build.broadcast(y, [40, 256], [1]))
        largest = over_rows(reduce(quotient, "maximum", -math.inf), (40, 256))
        return build.like("subtract", quotient, largest)

    fusion = build_fusion("row", ["tensor<40x256xf32>", "tensor<256xf32>"], body)
    assert sum(text.count("fdiv") for text in compile_kernel(fusion, target).kernel.functions.values()) == 1
    (result,) = run_kernel(fusion, [x, y], target)
    np.testing.assert_allclose(result, x / y - (x / y).max(1, keepdims=True), rtol=1e-5, atol=1e-6)


def test_elements_far_apart_are_summed_in_one_accumulator() -> None:
    def summed(stride: int) -> str:
        size = 512 * stride

        def body(x: ir.Value) -> ir.Value:
            picked = build.tensor([2, 512], ir.F32Type.get())
            part = build.value("slice", picked, x, start=[0, 0], limit=[2, size], strides=[1, stride])
            return reduce(part, "add", 0.0)

        text = build_fusion("row", [f"tensor<2x{size}xf32>"], body)
        x = normal(2, size)
        np.testing.assert_allclose(run_kernel(text, [x], TARGETS[0])[0], x[:, ::stride].sum(1), rtol=1e-3, atol=1e-3)
        return "".join(compile_kernel(text, WITHOUT_GATHERS).kernel.functions.values())

    assert summed(1).count("fadd") - summed(65).count("fadd") == 2 * 3
