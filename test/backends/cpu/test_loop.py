"""Loop kernels against NumPy: shape operations, gathers, transposes, tails, every target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from loop_kernel import ELEMENTS, check, normal, tensor, type_of
from one_kernel import build_fusion, compile_kernel, here, run_kernel

import stablehlo_py as shlo
from stablehlo_py.backends.cpu.target import AVX2, AVX512
from stablehlo_py.dialect import build
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import ir

WITHOUT_GATHERS = replace(AVX512, gathers=False)
TARGETS = here(AVX2, AVX512, WITHOUT_GATHERS)


@pytest.fixture(params=TARGETS, ids=lambda target: target.name)
def target(request):
    return request.param


def f32(number: float) -> ir.Value:
    return build.constant(np.float32(number), ir.F32Type.get())


@pytest.mark.parametrize("count", [1, 3, 7, 8, 16, 17, 100, 1000, 4099])
def test_flat(count: int, target) -> None:
    check(lambda x, y: build.like("add", x, y), np.add, [normal(count), normal(count, seed=1)], target)


@pytest.mark.parametrize("dtype", ELEMENTS)
def test_element_types(dtype: np.dtype, target) -> None:
    x = normal(5, 41, dtype=dtype)
    check(
        lambda x: build.transpose(build.like("reverse", x, dimensions=[1]), [1, 0]), lambda x: x[:, ::-1].T, [x], target
    )


def test_scalar_and_empty(target) -> None:
    check(lambda x: build.like("negate", x), np.negative, [np.float32(3).reshape(())], target)
    check(lambda x: build.like("negate", x), np.negative, [normal(0, 5)], target)


def test_several_results_of_different_shape(target) -> None:
    check(
        lambda x: (build.like("negate", x), build.reshape(build.like("abs", x), [35])),
        lambda x: (-x, np.abs(x).reshape(35)),
        [normal(5, 7)],
        target,
    )


def test_results_of_different_size_are_refused(target) -> None:
    text = build_fusion(
        "loop", ["tensor<4xf32>", "tensor<5xf32>"], lambda x, y: (build.like("abs", x), build.like("abs", y))
    )
    with pytest.raises(InternalError, match="differ in their number"):
        compile_kernel(text, target)


@pytest.mark.parametrize("sizes", [(4, 7), (64, 48), (3, 100), (1, 5), (50, 3), (9, 1)])
def test_broadcasts(sizes: tuple[int, int], target) -> None:
    rows, columns = sizes
    check(
        lambda x, y, z: build.like(
            "multiply", build.like("add", x, build.broadcast(y, sizes, [1])), build.broadcast(z, sizes, [0])
        ),
        lambda x, y, z: (x + y) * z[:, None],
        [normal(*sizes), normal(columns, seed=1), normal(rows, seed=2)],
        target,
    )


@pytest.mark.parametrize("channels", [1, 2, 3, 5, 32])
def test_short_innermost_dimension(channels: int, target) -> None:
    sizes = (2, 9, 7, channels)
    check(
        lambda x, y: build.like("multiply", x, build.broadcast(y, sizes, [3])),
        np.multiply,
        [normal(*sizes), normal(channels)],
        target,
    )


@pytest.mark.parametrize("sizes", [(64, 48), (5, 7), (100, 33), (16, 16), (257, 3), (8, 1000)])
def test_transpose(sizes: tuple[int, int], target) -> None:
    check(lambda x: build.transpose(x, [1, 0]), np.transpose, [normal(*sizes)], target)

    def fused(x: ir.Value, y: ir.Value) -> ir.Value:
        product = build.like("multiply", build.transpose(x, [1, 0]), y)
        return build.like("subtract", build.like("add", build.like("abs", product), y), build.transpose(x, [1, 0]))

    check(fused, lambda x, y: np.abs(x.T * y) + y - x.T, [normal(*sizes), normal(*sizes[::-1], seed=1)], target)


@pytest.mark.parametrize("sizes", [(64, 48), (5, 7), (133, 70)])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128, np.int8, np.int16])
def test_transpose_of_other_types(sizes: tuple[int, int], dtype: type, target) -> None:
    parts = [9 * normal(*sizes, seed=seed) for seed in range(4)]
    x, y = ((a + 1j * b if np.dtype(dtype).kind == "c" else a).astype(dtype) for a, b in (parts[:2], parts[2:]))
    check(lambda x, y: build.like("add", build.transpose(x, [1, 0]), y), lambda x, y: x.T + y, [x, y.T.copy()], target)


@pytest.mark.parametrize("permutation", [(0, 2, 1, 3), (0, 2, 3, 1), (3, 2, 1, 0), (1, 0, 3, 2), (0, 1, 3, 2)])
def test_transpose_of_four(permutation: tuple[int, ...], target) -> None:
    x = normal(3, 6, 20, 24)
    check(lambda x: build.transpose(x, permutation), lambda x: x.transpose(permutation), [x], target)
    flat = lambda x: build.reshape(build.transpose(x, permutation), (72, 120))  # noqa: E731
    check(flat, lambda x: x.transpose(permutation).reshape(72, 120), [x], target)


def test_slice_and_reverse(target) -> None:
    x = normal(10, 40)
    check(
        lambda x: build.value("slice", tensor((4, 13)), x, start=[2, 3], limit=[10, 29], strides=[2, 2]),
        lambda x: x[2:10:2, 3:29:2],
        [x],
        target,
    )
    check(
        lambda x: build.value("slice", tensor((3, 40)), x, start=[2, 0], limit=[5, 40], strides=[1, 1]),
        lambda x: x[2:5],
        [x],
        target,
    )
    check(lambda x: build.like("reverse", x, dimensions=[0, 1]), lambda x: x[::-1, ::-1], [x], target)


def padded(x: np.ndarray, low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> np.ndarray:
    spread = np.full([size + (size - 1) * inner for size, inner in zip(x.shape, interior, strict=True)], 7, x.dtype)
    spread[tuple(slice(None, None, inner + 1) for inner in interior)] = x
    grown = np.pad(spread, [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)], constant_values=7)
    crop = tuple(slice(max(-a, 0), size - max(-b, 0)) for a, b, size in zip(low, high, grown.shape, strict=True))
    return grown[crop]


@pytest.mark.parametrize(
    ("low", "high", "interior"),
    [
        ((2, 3), (3, 2), (0, 0)),
        ((2, 3), (-1, 2), (1, 1)),
        ((-2, -3), (1, 0), (0, 2)),
        ((1, 0), (1, 0), (0, 0)),
        ((0, 0), (0, 24), (0, 0)),
    ],
)
def test_pad(low, high, interior, target) -> None:
    x = normal(10, 40)
    shape = padded(x, low, high, interior).shape
    check(
        lambda x: build.like(
            "abs", build.value("pad", tensor(shape), x, f32(7), low=low, high=high, interior=interior)
        ),
        lambda x: np.abs(padded(x, low, high, interior)),
        [x],
        target,
    )


@pytest.mark.parametrize("sizes", [(400,), (397,), (3, 513), (3, 130)], ids=str)
@pytest.mark.parametrize("threads", [1, 5])
def test_rows_have_edges(sizes: tuple[int, ...], threads: int, target) -> None:
    x, edge = normal(*sizes), (0,) * (len(sizes) - 1)
    inner = (*sizes[:-1], sizes[-1] - 2)

    def body(x: ir.Value) -> ir.Value:
        ends = [*sizes[:-1], sizes[-1] - 1]
        inside = build.value("slice", tensor(inner), x, start=[*edge, 1], limit=ends, strides=[1] * len(sizes))
        padded = build.value("pad", x.type, inside, f32(7), low=[*edge, 1], high=[*edge, 1], interior=[0] * len(sizes))
        first = build.value(
            "slice",
            tensor((*sizes[:-1], 1)),
            x,
            start=[0] * len(sizes),
            limit=[*sizes[:-1], 1],
            strides=[1] * len(sizes),
        )
        rest = build.value(
            "slice",
            tensor((*sizes[:-1], sizes[-1] - 1)),
            x,
            start=[*edge, 1],
            limit=list(sizes),
            strides=[1] * len(sizes),
        )
        turned = build.stablehlo.concatenate([rest, first], len(sizes) - 1)
        return build.like("add", padded, turned)

    padded = np.full(sizes, 7, np.float32)
    padded[..., 1:-1] = x[..., 1:-1]
    compiled = compile_kernel(build_fusion("loop", [type_of(x)], body, None), target)
    (result,) = compiled.run([x], threads)
    np.testing.assert_array_equal(result, padded + np.roll(x, -1, -1))
    (code,) = compiled.kernel.functions.values()
    (inside,) = (block for block in code.split("\n^") if "llvm.fadd" in block and block.count("llvm.load") == 2)
    assert "masked" not in inside
    assert "select" not in inside


@pytest.mark.parametrize("low, high", [(3, 4), (5, 0), (0, 6), (-2, 9), (40, 3)])
@pytest.mark.parametrize("threads", [1, 5])
def test_rows_that_begin_and_end_with_padding(low: int, high: int, threads: int, target) -> None:
    """What is all inside is read without masks, however far inside it begins."""
    x, sizes = normal(3, 40, 13), (3, 40 + low + high, 13)
    padding = {"low": [0, low, 0], "high": [0, high, 0], "interior": [0, 0, 0]}

    def body(x: ir.Value) -> ir.Value:
        return build.like("negate", build.value("pad", tensor(sizes), x, f32(7), **padding))

    compiled = compile_kernel(build_fusion("loop", [type_of(x)], body), target)
    np.testing.assert_array_equal(*compiled.run([x], threads), -padded(x, (0, low, 0), (0, high, 0), (0, 0, 0)))
    (code,) = compiled.kernel.functions.values()
    blocks = [block for block in code.split("\n^") if "llvm.fneg" in block]
    assert any("llvm.load" in block and "masked" not in block and "select" not in block for block in blocks)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, ml_dtypes.bfloat16, np.complex64])
def test_pad_of_narrow_and_wide_elements(dtype: type, target) -> None:
    x = normal(6, 37, dtype=dtype)
    element = ELEMENTS[x.dtype]

    def body(x: ir.Value) -> ir.Value:
        padding = build.constant(np.asarray(7).astype(dtype), ir.Type.parse(element))
        return build.value("pad", tensor((8, 40), element), x, padding, low=[1, 2], high=[1, 1], interior=[0, 0])

    check(body, lambda x: padded(x, (1, 2), (1, 1), (0, 0)), [x], target)


@pytest.mark.parametrize("dimension", [0, 1])
@pytest.mark.parametrize(
    ("first", "second"), [((10, 40), (10, 40)), ((5, 64), (5, 64)), ((3, 7), (3, 7)), ((10, 0), (10, 0))]
)
def test_concatenate(dimension: int, first: tuple[int, int], second: tuple[int, int], target) -> None:
    pieces = [normal(*first), normal(*second, seed=1), normal(*first, seed=2)]
    shape = np.concatenate(pieces, dimension).shape

    def body(*values: ir.Value) -> ir.Value:
        negated = [build.like("negate", value) for value in values]
        return build.op("stablehlo.concatenate", [tensor(shape)], negated, {"dimension": dimension}).result

    check(body, lambda *arrays: -np.concatenate(arrays, dimension), pieces, target)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.bool_, ml_dtypes.bfloat16, np.complex64])
@pytest.mark.parametrize("count", [64, 37, 3])
def test_arrays_whose_elements_alternate(count: int, dtype: type, target) -> None:
    """Lanes of a vector take turns to read them, which is known where the sizes allow it."""
    x, y, element = normal(count, dtype=dtype), normal(count, dtype=dtype, seed=1), ELEMENTS[np.dtype(dtype)]

    def body(*values: ir.Value) -> ir.Value:
        rows = [build.reshape(value, [1, count]) for value in values]
        both = build.op("stablehlo.concatenate", [tensor((2, count), element)], rows, {"dimension": 0}).result
        return build.transpose(both, [1, 0])

    check(body, lambda *arrays: np.stack(arrays, 1), [x, y], target)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("step", [2, 3, -2])
def test_elements_that_are_apart_between_padding(step: int, dtype: type, target) -> None:
    x, element = normal(9, 35, dtype=dtype), ELEMENTS[np.dtype(dtype)]
    count, every = -(-35 // abs(step)), [1, abs(step)]

    def body(x: ir.Value) -> ir.Value:
        x = build.like("reverse", x, dimensions=[1]) if step < 0 else x
        taken = build.value("slice", tensor((9, count), element), x, start=[0, 0], limit=[9, 35], strides=every)
        zero = build.constant(np.asarray(0, dtype), ir.Type.parse(element))
        result = tensor((9, count + 8), element)
        return build.value("pad", result, taken, zero, low=[0, 5], high=[0, 3], interior=[0, 0])

    check(body, lambda x: np.pad(x[:, ::step], [(0, 0), (5, 3)]), [x], target)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.complex64])
def test_concatenates_of_pieces_of_a_concatenate(dtype: type, target) -> None:
    x, element = normal(6, 403, dtype=dtype), ELEMENTS[np.dtype(dtype)]

    def turned(value: ir.Value, dimension: int, by: int) -> ir.Value:
        """numpy.roll as JAX writes it."""
        size = x.shape[dimension]
        pieces = []
        for low, high in ((size - by, size), (0, size - by)):
            start, limit = [0, 0], list(x.shape)
            start[dimension], limit[dimension] = low, high
            sizes = [b - a for a, b in zip(start, limit, strict=True)]
            pieces.append(build.value("slice", tensor(sizes, element), value, start=start, limit=limit, strides=[1, 1]))
        return build.op("stablehlo.concatenate", [value.type], pieces, {"dimension": dimension}).result

    check(
        lambda x: turned(turned(x, 0, 2), 1, 301),
        lambda x: np.roll(np.roll(x, 2, 0), 301, 1),
        [x],
        target,
    )


@pytest.mark.parametrize("element", ["f32", "i32", "i64", "bf16", "f64", "ui8", "complex<f32>"])
def test_iota(element: str, target) -> None:
    check(
        lambda: tuple(build.value("iota", tensor((6, 50), element), dimension=dimension) for dimension in (0, 1)),
        lambda: (np.broadcast_to(np.arange(6)[:, None], (6, 50)), np.broadcast_to(np.arange(50), (6, 50))),
        [],
        target,
    )


def test_small_constant(target) -> None:
    table = np.arange(5, dtype=np.float32) ** 2
    check(
        lambda x: build.like("add", x, build.broadcast(build.constant(table, ir.F32Type.get()), (9, 5), [1])),
        lambda x: x + table,
        [normal(9, 5)],
        target,
    )


def test_reductions_inside(target) -> None:
    x = normal(10, 7, 33)
    check(
        lambda x: build.value("reduce", tensor((10, 33)), x, f32(0), kind="add", dimensions=[1]),
        lambda x: x.sum(1),
        [x],
        target,
        None,
        1e-5,
    )
    check(
        lambda x: build.value("reduce", tensor((7,)), x, f32(0), kind="maximum", dimensions=[0, 2]),
        lambda x: np.maximum(0, x.max((0, 2))),
        [x],
        target,
    )


def test_dot_inside(target) -> None:
    numbers = {"lhs_batch": [0], "rhs_batch": [0], "lhs_contract": [2], "rhs_contract": [1]}
    check(
        lambda x, y: build.value("dot", tensor((3, 10, 20)), x, y, **numbers),
        np.matmul,
        [normal(3, 10, 7), normal(3, 7, 20)],
        target,
        None,
        1e-4,
    )


@pytest.mark.parametrize(("row", "column"), [(3, 5), (100, -7), (-1, 39)])
def test_dynamic_slices(row: int, column: int, target) -> None:
    starts = [np.array(row, np.int32), np.array(column, np.int32)]
    top, left = min(max(row, 0), 6), min(max(column, 0), 20)

    def updated(x: np.ndarray, u: np.ndarray, *_: np.ndarray) -> np.ndarray:
        result = x.copy()
        result[top : top + 4, left : left + 20] = u
        return result

    check(
        lambda x, i, j: build.value("dynamic_slice", tensor((4, 20)), x, i, j, sizes=[4, 20]),
        lambda x, *_: x[top : top + 4, left : left + 20],
        [normal(10, 40), *starts],
        target,
    )
    check(
        lambda x, u, i, j: build.value("dynamic_update_slice", x.type, x, u, i, j),
        updated,
        [normal(10, 40), normal(4, 20, seed=1), *starts],
        target,
    )


def gather_attributes(offset, collapsed, batching, start_batching, index_map, vector_dim, window) -> dict[str, object]:
    return {
        "offset_dims": offset,
        "collapsed_slice_dims": collapsed,
        "operand_batching_dims": batching,
        "start_indices_batching_dims": start_batching,
        "start_index_map": index_map,
        "index_vector_dim": vector_dim,
        "slice_sizes": window,
    }


def test_gather_rows(target) -> None:
    indices = np.random.default_rng(1).integers(-3, 110, (6, 5)).astype(np.int32)
    attributes = gather_attributes([2], [0], [], [], [0], 2, [1, 40])
    check(
        lambda x, i: build.value("gather", tensor((6, 5, 40)), x, i, **attributes),
        lambda x, i: x[np.clip(i, 0, 99)],
        [normal(100, 40), indices],
        target,
    )


@pytest.mark.parametrize("width", [2, 3, 5, 8])
def test_short_windows_are_read_from_their_first_element_on(width: int, target) -> None:
    """One place is read for a window, not one for each of its elements; where much is computed, vectors are full."""
    indices = np.random.default_rng(1).integers(-3, 110, 30).astype(np.int32)
    attributes = gather_attributes([1], [0], [], [], [0], 1, [1, width])

    def windows(x: ir.Value, i: ir.Value) -> ir.Value:
        return build.like("negate", build.value("gather", tensor((30, width)), x, i, **attributes))

    def computed(x: ir.Value, i: ir.Value) -> ir.Value:
        return build.like("erf_inv", build.like("tanh", windows(x, i)))

    arrays = [normal(100, width), indices]
    check(windows, lambda x, i: -x[np.clip(i, 0, 99)], arrays, target)
    kernels = (
        compile_kernel(build_fusion("loop", list(map(type_of, arrays)), body), target).kernel
        for body in (windows, computed)
    )
    few, many = ("".join(kernel.functions.values()) for kernel in kernels)
    assert "gather" not in few
    assert few.count("load") == (2 if width in (2, 8) else 3)
    assert ("gather" if target.gathers else "lshr") in many or 2 * width >= target.lanes(32)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_rows_of_padding_read_nothing(dtype: type, target) -> None:
    """Rows between rows: all lanes of a vector are padding, or none is."""
    x = normal(5, 40).astype(dtype)

    def body(x: ir.Value) -> ir.Value:
        zero = build.constant(dtype(0), x.type.element_type)
        edges = {"low": [0, 0], "high": [0, 0], "interior": [2, 0]}
        return build.value("pad", tensor((13, 40), ELEMENTS[x_type]), x, zero, **edges)

    def expected(x: np.ndarray) -> np.ndarray:
        result = np.zeros((13, 40), dtype)
        result[::3] = x
        return result

    x_type = np.dtype(dtype)
    check(body, expected, [x], target)
    code = "".join(compile_kernel(build_fusion("loop", [type_of(x)], body), target).kernel.functions.values())
    assert "masked.load" not in code


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.int8])
@pytest.mark.parametrize("index, size", [(np.uint8, 256), (np.int32, 200), (np.int64, 30_000), (np.int32, 100_000)])
def test_numbers_of_a_table(index: type, size: int, dtype: type, target) -> None:
    """Places leave their vector in words of as many as fit, where loads of single lanes are faster than gathers."""
    low, high = (0, 256) if index == np.uint8 else (-9, size + 9)
    indices = np.random.default_rng(1).integers(low, high, 333).astype(index)
    attributes = gather_attributes([], [0], [], [], [0], 1, [1])

    def body(x: ir.Value, i: ir.Value) -> ir.Value:
        places = build.value("convert", tensor((333,), "i32"), i)
        taken = build.value(
            "gather", tensor((333,), ELEMENTS[np.dtype(dtype)]), x, build.reshape(places, (333, 1)), **attributes
        )
        return build.like("negate", taken)

    table = (8 * normal(size)).astype(dtype)
    check(body, lambda x, i: -x[np.clip(i, 0, size - 1)], [table, indices], target)
    code = compile_kernel(build_fusion("loop", [type_of(table), type_of(indices)], body), target).kernel.functions
    assert ("gather" in "".join(code.values())) == target.gathers


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.int8])
@pytest.mark.parametrize("columns", [10, 30])
def test_places_of_short_rows(columns: int, dtype: type, target) -> None:
    """They are the same for all rows, and read before them."""
    indices = np.random.default_rng(1).integers(-2, columns + 2, columns).astype(np.int32)
    attributes = gather_attributes([0], [1], [], [], [1], 1, [50, 1])

    def body(x: ir.Value, i: ir.Value) -> ir.Value:
        return build.like("negate", build.value("gather", x.type, x, build.reshape(i, (columns, 1)), **attributes))

    check(body, lambda x, i: -x[:, np.clip(i, 0, columns - 1)], [8 * normal(50, columns, dtype=dtype), indices], target)


def test_gather_along_an_axis(target) -> None:
    indices = np.random.default_rng(1).integers(0, 40, (30, 5)).astype(np.int32)
    attributes = gather_attributes([], [1], [0], [0], [1], 2, [1, 1])
    check(
        lambda x, i: build.value("gather", tensor((30, 5)), x, build.reshape(i, (30, 5, 1)), **attributes),
        lambda x, i: np.take_along_axis(x, i, 1),
        [normal(30, 40), indices],
        target,
    )


def test_gather_windows(target) -> None:
    starts = np.array([[0, 3], [8, 30], [50, -2]], np.int32)
    attributes = gather_attributes([1, 2], [], [], [], [0, 1], 1, [2, 9])

    def expected(x: np.ndarray, s: np.ndarray) -> np.ndarray:
        corners = np.clip(s, 0, [8, 31])
        return np.stack([x[a : a + 2, b : b + 9] for a, b in corners])

    check(
        lambda x, s: build.value("gather", tensor((3, 2, 9)), x, s, **attributes),
        expected,
        [normal(10, 40), starts],
        target,
    )


@pytest.mark.parametrize(
    ("source", "target_type", "ratio"), [(np.float32, "i8", 4), (np.int64, "i16", 4), (np.float32, "bf16", 2)]
)
def test_bitcast_to_narrower_and_back(source: type, target_type: str, ratio: int, target) -> None:
    x = np.abs(normal(5, 13, dtype=source)) + 1
    narrow = {"i8": np.int8, "i16": np.int16, "bf16": ml_dtypes.bfloat16}[target_type]
    split = build_fusion(
        "loop", [type_of(x)], lambda x: build.value("bitcast_convert", tensor((5, 13, ratio), target_type), x)
    )
    result = run_kernel(split, [x], target)[0]
    if target_type != "bf16":  # the low half of a float may be a signalling NaN as bf16
        assert result.tobytes() == x.view(narrow).tobytes()
        joined = build_fusion(
            "loop",
            [f"tensor<5x13x{ratio}x{target_type}>"],
            lambda y: build.value("bitcast_convert", tensor((5, 13), ELEMENTS[x.dtype]), y),
        )
        assert run_kernel(joined, [result], target)[0].tobytes() == x.tobytes()


@pytest.mark.parametrize("count", [64, 37, 5])
def test_in_place(count: int, target) -> None:
    check(
        lambda x, y: build.like("add", build.like("multiply", x, x), y),
        lambda x, y: x * x + y,
        [normal(3, count), normal(3, count, seed=1)],
        target,
        {"hlo.inplace": [0, 0]},
    )


def test_large_results_are_streamed(target) -> None:
    x = normal(1 << 21)
    text = build_fusion("loop", [type_of(x)], lambda x: build.like("add", x, x))
    compiled = compile_kernel(text, target)
    assert any("nontemporal" in function for function in compiled.kernel.functions.values())
    np.testing.assert_array_equal(compiled.run([x], 3)[0], x + x)


@pytest.mark.parametrize("sizes", [(1 << 21,), (4096, 513), (4096, 520)], ids=str)
def test_rows_that_are_read_backward(sizes: tuple[int, ...], target) -> None:
    """What goes around the cache is written from the end of a row."""
    x = normal(*sizes)
    last = len(sizes) - 1
    text = build_fusion("loop", [type_of(x)], lambda x: build.value("reverse", x.type, x, dimensions=[last]))
    compiled = compile_kernel(text, target)
    np.testing.assert_array_equal(compiled.run([x], 3)[0], np.flip(x, last))


@pytest.mark.parametrize("name", ["lgamma", "digamma", "erfc", "erf_inv", "sinh", "acos", "zeta"])
def test_expensive_functions_are_worth_threads(name: str) -> None:
    operands = ["tensor<100000xf32>"] * (2 if name == "zeta" else 1)
    text = build_fusion("loop", operands, lambda *xs: build.like(name, *xs))
    (phase,) = compile_kernel(text, TARGETS[-1]).kernel.phases
    assert phase.iterations >= 2 * phase.grain


def test_a_concatenation_may_have_more_operands_than_python_has_stack():
    """They were nested calls once; the program itself is not nested."""
    count, piece = 5000, np.arange(4, dtype=np.float32)
    types, values = ", ".join(["tensor<4xf32>"] * count), ", ".join(f"%{i % 2}" for i in range(count))
    (result,) = shlo.compile(
        f"""func.func @main(%0: tensor<4xf32>, %1: tensor<4xf32>) -> tensor<{4 * count}xf32> {{
          %r = stablehlo.concatenate {values}, dim = 0 : ({types}) -> tensor<{4 * count}xf32>
          return %r : tensor<{4 * count}xf32>
        }}"""
    )(piece, -piece)
    np.testing.assert_array_equal(result, np.tile(np.concatenate([piece, -piece]), count // 2))


@pytest.mark.skipif(AVX512 not in TARGETS, reason="needs AVX-512")
@pytest.mark.parametrize(("chained", "count", "pairs"), [(8, 512, True), (1, 512, False), (8, 500, False)])
def test_long_chains_are_computed_for_two_vectors_at_a_time(chained: int, count: int, pairs: bool) -> None:
    """With the bits of one at a time. Sums of as many independent functions are not."""

    def body(x: ir.Value) -> ir.Value:
        links = [x]
        for number in range(8):
            of = links[-1] if number < chained else build.like("negate", x)
            links.append(build.like("exponential", build.like("negate", of)))
        total = links[1]
        for link in links[2:]:
            total = build.like("add", total, link)
        return total

    x = normal(count)
    text = build_fusion("loop", [type_of(x)], body)
    results = [run_kernel(text, [x], target)[0].tobytes() for target in TARGETS]
    assert len(set(results)) == 1
    assert ("vector<32xf32>" in "".join(compile_kernel(text, AVX512).kernel.functions.values())) == pairs
