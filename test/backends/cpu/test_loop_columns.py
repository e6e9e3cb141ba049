"""Loop kernels whose results have few columns, which are vectors side by side."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from loop_kernel import check, normal, type_of
from one_kernel import build_fusion, compile_kernel, here

from stablehlo_py.backends.cpu.target import AVX2, AVX512
from stablehlo_py.dialect import build
from stablehlo_py.dialect.types import shape
from stablehlo_py.mlir import ir


@pytest.fixture(params=here(AVX2, AVX512, replace(AVX512, gathers=False)), ids=lambda target: target.name)
def target(request):
    return request.param


@pytest.mark.every(4)
@pytest.mark.parametrize("columns", [2, 3, 4, 5])
@pytest.mark.parametrize("rows", [5, 16, 37, 64])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, ml_dtypes.bfloat16, np.float64])
def test_few_columns(rows: int, columns: int, dtype: type, target) -> None:
    """What is spread over columns, over rows, and columns in another order."""

    def body(x, scale, shift):
        sizes = (rows, columns)
        spread = [build.broadcast(scale, sizes, [0]), build.broadcast(shift, sizes, [1])]
        return [
            build.like("add", build.like("multiply", build.like("reverse", x, dimensions=[1]), spread[0]), spread[1])
        ]

    arrays = [normal(rows, columns, dtype=dtype), normal(rows, dtype=dtype), normal(columns, dtype=dtype)]
    check(body, lambda x, scale, shift: x[:, ::-1] * scale[:, None] + shift, arrays, target, tolerance=1e-2)


def test_few_columns_are_vectors_side_by_side(target) -> None:
    """No lane is loaded by itself, and what is spread is computed once."""

    def body(x: ir.Value, scale: ir.Value) -> ir.Value:
        return build.like("multiply", x, build.broadcast(build.like("sqrt", scale), (64, 3), [0]))

    kernel = compile_kernel(build_fusion("loop", ["tensor<64x3xf32>", "tensor<64xf32>"], body), target).kernel
    text = "".join(kernel.functions.values())
    assert "gather" not in text and text.count("sqrt") == 1 and text.count("load") <= 10


@pytest.mark.parametrize("rows", [5, 37, 64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_few_columns_of_pieces(rows: int, dtype: type, target) -> None:
    """A stack of stacks: each of nine columns is a piece of its own."""

    def body(x: ir.Value, y: ir.Value) -> ir.Value:
        def joined(values: list[ir.Value], sizes: tuple[int, ...], dimension: int) -> ir.Value:
            return build.stablehlo.concatenate([build.reshape(value, sizes) for value in values], dimension)

        columns = [x, y, build.like("add", x, y), build.like("subtract", x, y), build.like("negate", y)]
        stacks = [joined(columns[number : number + 3], (rows, 1), 1) for number in range(3)]
        return joined(stacks, (rows, 1, 3), 1)

    def expected(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        columns = [x, y, x + y, x - y, -y]
        return np.stack([np.stack(columns[number : number + 3], -1) for number in range(3)], -2)

    check(body, expected, [(9 * normal(rows, seed=seed)).astype(dtype) for seed in range(2)], target)


@pytest.mark.parametrize("rows", [5, 16, 37])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.complex64])
@pytest.mark.parametrize("order", [(1, 2, 3, 0), (2, 1, 3, 0), (3, 2, 0, 1)])
def test_columns_of_joined_arrays(rows: int, dtype: type, order: tuple[int, ...], target) -> None:
    """Stacks of stacks whose dimensions are exchanged: places in the pieces are no loops'."""

    def body(x: ir.Value) -> ir.Value:
        def stack(x: ir.Value) -> ir.Value:
            sizes = (1, *shape(x))
            square = build.like("multiply", x, x)
            return build.stablehlo.concatenate([build.reshape(each, sizes) for each in (x, square)], 0)

        return build.transpose(stack(stack(x)), order)

    def expected(x: np.ndarray) -> np.ndarray:
        stacks = np.stack([x, x * x])
        return np.stack([stacks, stacks * stacks]).transpose(order)

    check(body, expected, [(3 * normal(3, rows)).astype(dtype)], target, tolerance=1e-4)


@pytest.mark.parametrize("channels", [1, 3, 5])
@pytest.mark.parametrize("sizes", [(3, 40), (2, 9)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_repeated_groups(sizes: tuple[int, int], channels: int, dtype: type, target) -> None:
    """Twice each row, and twice each group of channels in it."""
    rows, columns = sizes
    x = (9 * normal(*sizes, channels)).astype(dtype)

    def body(x: ir.Value) -> ir.Value:
        spread = build.broadcast(x, (rows, 2, columns, 2, channels), [0, 2, 4])
        return build.reshape(spread, (2 * rows, 2 * columns, channels))

    check(body, lambda x: x.repeat(2, 0).repeat(2, 1), [x], target)


@pytest.mark.parametrize("columns", [5, 6, 10])
@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, ml_dtypes.bfloat16, np.complex64])
def test_repeated_rows(columns: int, times: int, dtype: type, target) -> None:
    """Several rows at once fill vectors, which are shuffled from what rows begin with."""
    x = (9 * normal(3, 64, columns)).astype(dtype)

    def body(x: ir.Value) -> ir.Value:
        return build.broadcast(x, (3, 64, times, columns), [0, 1, 3])

    check(body, lambda x: np.stack([x] * times, 2), [x], target)
    if x.dtype.itemsize <= 4:  # fewer lanes of f64 are gathered where that is faster
        (code,) = compile_kernel(build_fusion("loop", [type_of(x)], body), target).kernel.functions.values()
        assert "gather" not in code
        assert "udiv" not in code


@pytest.mark.parametrize("channels", [2, 3, 4, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.complex64])
def test_reversed_groups(channels: int, dtype: type, target) -> None:
    x = (9 * normal(6, 67, channels)).astype(dtype)
    check(lambda x: build.like("reverse", x, dimensions=[1]), lambda x: x[:, ::-1], [x], target)


@pytest.mark.every(4)
@pytest.mark.parametrize("columns", [2, 3, 5, 7])
@pytest.mark.parametrize("sizes", [(16,), (37,), (6, 40), (9, 7)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, ml_dtypes.bfloat16])
def test_whole_rows_next_to_what_is_spread(sizes: tuple[int, ...], columns: int, dtype: type, target) -> None:
    """Pixels times a weight each, less a number for each column, and a row's number that is computed."""
    whole, rows = (*sizes, columns), range(len(sizes))

    def body(x: ir.Value, weight: ir.Value, shift: ir.Value, last: ir.Value) -> ir.Value:
        scaled = build.like("multiply", x, build.broadcast(weight, whole, rows))
        moved = build.like("subtract", scaled, build.broadcast(shift, whole, [len(sizes)]))
        return build.like("add", moved, build.broadcast(build.like("abs", last), whole, [len(sizes) - 1]))

    def expected(x: np.ndarray, weight: np.ndarray, shift: np.ndarray, last: np.ndarray) -> np.ndarray:
        scaled = (x * weight[..., None]).astype(dtype)
        return ((scaled - shift).astype(dtype) + np.abs(last)[:, None]).astype(dtype)

    given = [normal(*part, dtype=dtype, seed=seed) for seed, part in enumerate((whole, sizes, (columns,), sizes[-1:]))]
    check(body, expected, given, target, tolerance=1e-2)


def test_bytes_next_to_numbers_for_columns(target) -> None:
    """`(pixels.astype(float32) - mean) * factor`: rows are read as they lie."""

    def body(x: ir.Value, mean: ir.Value, factor: ir.Value) -> ir.Value:
        numbers = build.value("convert", build.tensor((480, 3), ir.F32Type.get()), x)
        spread = [build.broadcast(each, (480, 3), [1]) for each in (mean, factor)]
        return build.like("multiply", build.like("subtract", numbers, spread[0]), spread[1])

    x = np.arange(480 * 3, dtype=np.uint8).reshape(480, 3)
    check(body, lambda x, mean, factor: (x - mean) * factor, [x, normal(3), normal(3, seed=1)], target)
    text = build_fusion("loop", ["tensor<480x3xui8>", "tensor<3xf32>", "tensor<3xf32>"], body)
    (function,) = compile_kernel(text, target).kernel.functions.values()
    assert function.count("uitofp") == 3 and "gather" not in function
