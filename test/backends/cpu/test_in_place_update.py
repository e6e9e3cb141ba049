"""Update kernels against NumPy, in place and not."""

from __future__ import annotations

import numpy as np
import pytest
from one_kernel import build_fusion, compile_kernel, here, run_kernel

from stablehlo_py.backends.cpu.target import AVX2, AVX512
from stablehlo_py.dialect import build
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import ir

TARGETS = here(AVX2, AVX512)
IN_PLACE = [None, {"hlo.inplace": [0, 0]}]


@pytest.fixture(params=TARGETS, ids=lambda target: target.name)
def target(request):
    return request.param


def normal(*sizes: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(sizes).astype(np.float32)


@pytest.mark.parametrize("attributes", IN_PLACE)
@pytest.mark.parametrize("window", [(4, 20), (1, 40), (10, 40), (3, 7), (0, 5)])
@pytest.mark.parametrize("starts", [(0, 0), (9, -5), (2, 100)])
def test_update(starts: tuple[int, int], window: tuple[int, int], attributes, target) -> None:
    x, u = normal(10, 40), normal(*window, seed=1)
    expected = x.copy()
    row, column = (min(max(start, 0), size - part) for start, size, part in zip(starts, x.shape, window, strict=True))
    expected[row : row + window[0], column : column + window[1]] = u + u

    def body(x: ir.Value, u: ir.Value, i: ir.Value, j: ir.Value) -> ir.Value:
        return build.value("dynamic_update_slice", x.type, x, build.like("add", u, u), i, j)

    inputs = ["tensor<10x40xf32>", f"tensor<{window[0]}x{window[1]}xf32>", "tensor<i32>", "tensor<i32>"]
    text = build_fusion("in_place_update", inputs, body, attributes)
    arrays = [x, u, *(np.array(start, np.int32) for start in starts)]
    np.testing.assert_array_equal(run_kernel(text, arrays, target)[0], expected)


@pytest.mark.parametrize("sizes", [(1, 333), (7, 45), (3, 5)], ids=str)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", [np.int8, np.float32])
def test_masks_are_for_the_last_vector_of_a_row(dtype: type, threads: int, sizes: tuple[int, int], target) -> None:
    """Stores of some bytes are no instruction of AVX2."""
    (rows, columns), x = sizes, (9 * normal(sizes[0], sizes[1] + 3)).astype(dtype)

    def body(x: ir.Value, u: ir.Value) -> ir.Value:
        zero, three = (build.constant(np.int32(number), ir.Type.parse("i32")) for number in (0, 3))
        return build.value("dynamic_update_slice", x.type, x, build.like("negate", u), zero, three)

    name = "i8" if dtype is np.int8 else "f32"
    types = [f"tensor<{rows}x{width}x{name}>" for width in (columns + 3, columns)]
    compiled = compile_kernel(build_fusion("in_place_update", types, body, {"hlo.inplace": [0, 0]}), target)
    update = (9 * normal(*sizes, seed=1)).astype(dtype)
    np.testing.assert_array_equal(compiled.run([x.copy(), update], threads)[0], np.concatenate([x[:, :3], -update], 1))
    assert columns < 45 or all("llvm.store" in code for code in compiled.kernel.functions.values())


@pytest.mark.parametrize("attributes", IN_PLACE)
def test_update_computed_from_the_operand(attributes, target) -> None:
    x = normal(10, 40)

    def body(x: ir.Value, i: ir.Value) -> ir.Value:
        moved = build.value(
            "slice", build.tensor((3, 40), ir.F32Type.get()), x, start=[1, 0], limit=[4, 40], strides=[1, 1]
        )
        zero = build.constant(np.int32(0), ir.Type.parse("i32"))
        return build.value("dynamic_update_slice", x.type, x, build.like("negate", moved), i, zero)

    text = build_fusion("in_place_update", ["tensor<10x40xf32>", "tensor<i32>"], body, attributes)
    expected = np.concatenate([x[:2], -x[1:4], x[5:]])
    np.testing.assert_array_equal(run_kernel(text, [x, np.array(2, np.int32)], target)[0], expected)


@pytest.mark.parametrize("attributes", IN_PLACE)
@pytest.mark.parametrize("known", [False, True])
def test_update_computed_from_what_it_overwrites(known: bool, attributes, target) -> None:
    x = normal(10, 40)

    def body(x: ir.Value, i: ir.Value) -> ir.Value:
        zero, two = (build.constant(np.int32(number), ir.Type.parse("i32")) for number in (0, 2))
        type_ = build.tensor((3, 40), ir.F32Type.get())
        old = (
            build.value("slice", type_, x, start=[2, 0], limit=[5, 40], strides=[1, 1])
            if known
            else build.value("dynamic_slice", type_, x, i, zero, sizes=[3, 40])
        )
        return build.value("dynamic_update_slice", x.type, x, build.like("negate", old), two if known else i, zero)

    text = build_fusion("in_place_update", ["tensor<10x40xf32>", "tensor<i32>"], body, attributes)
    expected = np.concatenate([x[:2], -x[2:5], x[5:]])
    np.testing.assert_array_equal(run_kernel(text, [x, np.array(2, np.int32)], target)[0], expected)
    assert compile_kernel(text, target).kernel.shared_bytes == 0


@pytest.mark.parametrize("attributes", IN_PLACE)
def test_one_element_of_a_vector(attributes, target) -> None:
    x = normal(100)

    def body(x: ir.Value, u: ir.Value, i: ir.Value) -> ir.Value:
        return build.value("dynamic_update_slice", x.type, x, build.reshape(u, (1,)), i)

    text = build_fusion("in_place_update", ["tensor<100xf32>", "tensor<f32>", "tensor<i64>"], body, attributes)
    expected = x.copy()
    expected[42] = 7
    np.testing.assert_array_equal(
        run_kernel(text, [x, np.float32(7).reshape(()), np.array(42, np.int64)], target)[0], expected
    )


@pytest.mark.parametrize("attributes", IN_PLACE)
@pytest.mark.parametrize("window", [(5, 8, 3), (6, 9, 3), (4, 10, 3), (1, 2, 3), (6, 9, 2)])
@pytest.mark.parametrize("element, dtype", [("f32", np.float32), ("f64", np.float64), ("i8", np.int8)])
def test_a_window_is_as_long_as_its_whole_dimensions_go_on(element, dtype, window, attributes, target) -> None:
    """`x.at[1:, 2:].add(u * row)`, where u has all of the last dimension: one range of memory for each first index."""
    x, u, row = ((4 * normal(*sizes)).astype(dtype) for sizes in ((6, 10, 3), window, window[-1:]))
    starts = [size - part for size, part in zip(x.shape, window, strict=True)]
    inside = tuple(slice(start, None) for start in starts)
    expected = x.copy()
    expected[inside] += u * row

    def body(x: ir.Value, u: ir.Value, row: ir.Value) -> ir.Value:
        old = build.value("slice", u.type, x, start=starts, limit=x.type.shape, strides=[1] * 3)
        new = build.like("add", old, build.like("multiply", u, build.broadcast(row, window, [2])))
        at = (build.constant(np.int32(start), ir.Type.parse("i32")) for start in starts)
        return build.value("dynamic_update_slice", x.type, x, new, *at)

    inputs = [f"tensor<{'x'.join(map(str, sizes))}x{element}>" for sizes in ((6, 10, 3), window, window[-1:])]
    text = build_fusion("in_place_update", inputs, body, attributes)
    np.testing.assert_array_equal(run_kernel(text, [x, u, row], target)[0], expected)


def test_a_row_goes_on_through_whole_dimensions() -> None:
    def body(x: ir.Value, u: ir.Value) -> ir.Value:
        zero, one = (build.constant(np.int32(number), ir.Type.parse("i32")) for number in (0, 1))
        return build.value("dynamic_update_slice", x.type, x, u, zero, one, zero)

    text = build_fusion("in_place_update", ["tensor<64x64x3xf32>", "tensor<64x63x3xf32>"], body, IN_PLACE[1])
    assert compile_kernel(text, TARGETS[0]).kernel.phases[0].iterations == 64


def test_in_place_writes_only_the_update() -> None:
    def body(x: ir.Value, u: ir.Value, i: ir.Value) -> ir.Value:
        return build.value("dynamic_update_slice", x.type, x, u, i)

    inputs = ["tensor<1000000xf32>", "tensor<16xf32>", "tensor<i32>"]
    kernel = compile_kernel(build_fusion("in_place_update", inputs, body, IN_PLACE[1]), TARGETS[0]).kernel
    assert len(kernel.phases) == 1
    assert kernel.shared_bytes == 0


def test_other_roots_are_refused() -> None:
    with pytest.raises(InternalError, match="no dynamic_update_slice"):
        compile_kernel(build_fusion("in_place_update", ["tensor<4xf32>"], lambda x: build.like("abs", x)), TARGETS[0])
