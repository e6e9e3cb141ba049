"""What rows of a loop kernel have in common, and the loops that go through them."""

from __future__ import annotations

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from loop_kernel import ELEMENTS, check, normal, tensor, type_of
from one_kernel import build_fusion, compile_kernel, here, run_kernel

from stablehlo_py.backends.cpu.target import AVX2, AVX512, BASELINE, CpuTarget
from stablehlo_py.dialect import build
from stablehlo_py.mlir import ir


@pytest.mark.skipif(not here(AVX512), reason="needs AVX-512")
@pytest.mark.parametrize(("columns", "loops"), [(64, 1), (128, 1), (72, 2), (256, 2)])
def test_it_stays_in_registers(columns: int, loops: int) -> None:
    def body(x: ir.Value, a: ir.Value) -> ir.Value:
        return build.like("add", x, build.broadcast(a, [40, columns], [1]))

    random = np.random.default_rng(0)
    x, a = (random.standard_normal(sizes).astype(np.float32) for sizes in ((40, columns), (columns,)))
    types = [f"tensor<40x{columns}xf32>", f"tensor<{columns}xf32>"]
    compiled = compile_kernel(build_fusion("loop", types, body), AVX512)
    np.testing.assert_array_equal(compiled.run([x, a])[0], x + a)
    assert "".join(compiled.kernel.functions.values()).count("llvm.cond_br") == loops


TYPES = {
    "i1": np.bool_,
    "i8": np.int8,
    "ui16": np.uint16,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f32": np.float32,
    "i32": np.int32,
    "f64": np.float64,
    "ui64": np.uint64,
    "complex<f32>": np.complex64,
    "complex<f64>": np.complex128,
}


@pytest.mark.parametrize("target", here(AVX2, AVX512), ids=lambda target: target.name)
@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("sizes", [(3, 1, 2, 5, 24), (2, 3, 7, 2, 13), (9, 30, 4, 2, 24), (2, 3, 5, 3, 200)], ids=str)
def test_rows_of_many_dimensions(sizes: tuple[int, ...], element: str, target: CpuTarget) -> None:
    """Dimensions that nothing merges are loops, in whose order rows are read and written."""
    order = (2, 1, 0, 3, 4)
    turned = [sizes[dimension] for dimension in order]
    tiled = [*turned[:3], 3, *turned[3:]]

    def body(x: ir.Value) -> ir.Value:
        of = ir.Type.parse(element)
        moved = build.value("transpose", build.tensor(turned, of), x, permutation=list(order))
        back = build.value("reverse", moved.type, moved, dimensions=[1])
        return build.value("broadcast", build.tensor(tiled, of), back, dimensions=[0, 1, 2, 4, 5])

    x = np.random.default_rng(0).integers(0, 2 if element == "i1" else 99, sizes).astype(TYPES[element])
    text = build_fusion("loop", [f"tensor<{'x'.join(map(str, sizes))}x{element}>"], body)
    (result,) = run_kernel(text, [x], target)
    np.testing.assert_array_equal(result, np.broadcast_to(np.flip(x.transpose(order), 1)[:, :, :, None], tiled))


@pytest.mark.parametrize("target", here(BASELINE, AVX2, AVX512), ids=lambda target: target.name)
@pytest.mark.parametrize("element", ["i8", "bf16", "f32", "f64", "complex<f32>"])
@pytest.mark.parametrize("columns", [4, 5, 7, 10, 12, 15, 20, 30, 36])
@pytest.mark.parametrize("rows", [(3, 96), (97,), (2, 32)], ids=str)
def test_short_rows_that_have_something_in_common(
    rows: tuple[int, ...], columns: int, element: str, target: CpuTarget
) -> None:
    """A scale for each column, an offset for each row: several rows fill some vectors, where their number allows it."""
    sizes, random = [*rows, columns], np.random.default_rng(0)

    def body(x: ir.Value, scale: ir.Value, offset: ir.Value) -> ir.Value:
        scaled = build.like("multiply", x, build.broadcast(scale, sizes, [len(rows)]))
        return build.like("add", scaled, build.broadcast(offset, sizes, list(range(len(rows)))))

    x, scale, offset = (random.integers(-5, 5, of).astype(TYPES[element]) for of in (sizes, (columns,), rows))
    types = [f"tensor<{'x'.join(map(str, each.shape))}x{element}>" for each in (x, scale, offset)]
    (result,) = run_kernel(build_fusion("loop", types, body), [x, scale, offset], target)
    np.testing.assert_array_equal(result, x * scale + offset[..., None])


def test_several_short_rows_are_vectors_by_themselves() -> None:
    def body(x: ir.Value, scale: ir.Value) -> ir.Value:
        return build.like("multiply", x, build.broadcast(scale, [96, 10], [1]))

    text = build_fusion("loop", ["tensor<96x10xf32>", "tensor<10xf32>"], body)
    (function,) = compile_kernel(text, here(AVX2)[0]).kernel.functions.values()
    assert function.count("llvm.fmul") == 5
    assert function.count("llvm.cond_br") == 1
    assert "gather" not in function


@pytest.mark.every(2)
@pytest.mark.parametrize("target", here(AVX2, AVX512), ids=lambda target: target.name)
@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("interior", [1, 2, 3, 4])
def test_interior_padding_along_rows(interior: int, element: str, target: CpuTarget) -> None:
    """Elements are loaded side by side and spread; edges are added and cut off, rows have vectors without edges."""
    random, of = np.random.default_rng(0), TYPES[element]
    padding = np.asarray(1 if element == "i1" else 7, of)
    for rows, columns, low, high in ((3, 5, 0, 0), (2, 37, 3, -2), (1, 700, -1, 4), (4, 101, -5, -1), (2, 300, 2, 1)):
        x = random.integers(0, 2 if element == "i1" else 99, (rows, columns)).astype(of)
        wide = np.full((rows, columns + (columns - 1) * interior), padding, of)
        wide[:, :: interior + 1] = x
        wide = wide[:, max(-low, 0) : wide.shape[1] + min(high, 0)]
        expected = np.pad(wide, [(1, 0), (max(low, 0), max(high, 0))], constant_values=padding)

        def body(x: ir.Value, low: int = low, high: int = high, sizes: tuple[int, ...] = expected.shape) -> ir.Value:
            of = ir.Type.parse(element)
            edges = {"low": [1, low], "high": [0, high], "interior": [0, interior]}
            return build.value("pad", build.tensor(sizes, of), x, build.constant(padding, of), **edges)

        text = build_fusion("loop", [f"tensor<{rows}x{columns}x{element}>"], body)
        np.testing.assert_array_equal(run_kernel(text, [x], target)[0], expected)


def test_rows_of_a_transposed_tile_share_what_is_one_number() -> None:
    def body(condition: ir.Value, x: ir.Value) -> ir.Value:
        turned = build.value("transpose", x.type, x, permutation=[1, 0])
        return build.value("select", x.type, build.broadcast(condition, [64, 64], []), turned, x)

    text = build_fusion("loop", ["tensor<i1>", "tensor<64x64xf32>"], body)
    assert "".join(compile_kernel(text, AVX512).kernel.functions.values()).count("llvm.load %in0") == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.complex64])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("target", here(AVX2, AVX512, replace(AVX512, gathers=False)), ids=lambda target: target.name)
def test_many_elements_of_short_rows_that_are_apart(padded: bool, dtype: type, target: CpuTarget) -> None:
    """As an associative scan reads them: rows are added up whose numbers are multiples, with zeros between results."""
    x, element = normal(8 * 41, 3, dtype=dtype), ELEMENTS[np.dtype(dtype)]

    def body(x: ir.Value) -> ir.Value:
        every = [
            build.value("slice", tensor((41, 3), element), x, start=[k, 0], limit=[8 * 40 + k + 1, 3], strides=[8, 1])
            for k in range(8)
        ]
        total = every[0]
        for value in every[1:]:
            total = build.value("add", total.type, total, value)
        if not padded:
            return total
        zero = build.constant(np.asarray(0, dtype), ir.Type.parse(element))
        result = tensor((82, 3), element)
        return build.value("pad", result, total, zero, low=[1, 0], high=[0, 0], interior=[1, 0])

    def expected(x: np.ndarray) -> np.ndarray:
        total = sum(x[k::8] for k in range(8)).astype(dtype)
        return np.stack([np.zeros_like(total), total], 1).reshape(82, 3) if padded else total

    check(body, expected, [x], target)
    if dtype == np.int8:
        functions = compile_kernel(build_fusion("loop", [type_of(x)], body), target).kernel.functions
        assert not any(f"vector<{lanes}xi8>" in text for lanes in (32, 64) for text in functions.values())


@pytest.mark.parametrize("target", here(AVX2, AVX512), ids=lambda target: target.name)
def test_a_transposed_tile_in_memory_has_code_for_half_of_its_columns(target: CpuTarget) -> None:
    def body(x: ir.Value, y: ir.Value) -> ir.Value:
        value = build.value("transpose", x.type, x, permutation=[1, 0])
        for op in ("add", "multiply", "subtract", "multiply"):
            value = build.value(op, x.type, value, y)
        return value

    text = build_fusion("loop", ["tensor<35x35xf32>"] * 2, body)
    whole = 16 * 4  # shuffles of a square of 16 x 16
    assert "".join(compile_kernel(text, AVX512).kernel.functions.values()).count("llvm.shufflevector") == whole // 2
    x, y = np.random.default_rng(1).standard_normal((2, 35, 35)).astype(np.float32)
    np.testing.assert_array_equal(run_kernel(text, [x, y], target)[0], ((x.T + y) * y - y) * y)


@pytest.mark.parametrize("target", here(AVX2, AVX512), ids=lambda target: target.name)
@pytest.mark.parametrize("element", ["i8", "bf16", "f32", "f64", "complex<f32>"])
@pytest.mark.parametrize("strides", [(2, 3), (2, 2), (1, 3), (3, 1)], ids=str)
@pytest.mark.parametrize("sizes", [(300, 401), (7, 5, 44), (1, 3, 19)], ids=str)
def test_what_is_reversed_along_several_dimensions_is_loops(
    sizes: tuple[int, ...], strides: tuple[int, int], element: str, target: CpuTarget
) -> None:
    """One division of a row's number is left, of a number; every lane had one."""
    steps = [*([1] * (len(sizes) - 2)), *strides]

    def body(x: ir.Value) -> ir.Value:
        start, counts = [0] * len(sizes), [-(-size // step) for size, step in zip(sizes, steps, strict=True)]
        type_ = build.tensor(counts, ir.Type.parse(element))
        cut = build.value("slice", type_, x, start=start, limit=list(sizes), strides=steps)
        return build.value("reverse", type_, cut, dimensions=list(range(len(sizes))))

    x = np.random.default_rng(0).integers(-99, 99, sizes).astype(TYPES[element])
    text = build_fusion("loop", [f"tensor<{'x'.join(map(str, sizes))}x{element}>"], body)
    (result,) = run_kernel(text, [x], target)
    np.testing.assert_array_equal(result, np.flip(x[tuple(slice(None, None, step) for step in steps)]))
    if sizes == (300, 401):
        functions = compile_kernel(text, target).kernel.functions.values()
        assert not any(re.search(r"llvm\.udiv .*vector", function) for function in functions)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
@pytest.mark.parametrize("shape", [(35, 40), (64, 16), (3, 48, 33)], ids=str)
@pytest.mark.parametrize("target", here(AVX2, AVX512), ids=lambda target: target.name)
def test_a_transposed_tile_in_registers_has_code_for_half_of_its_rows(
    target: CpuTarget, shape: tuple[int, ...], dtype: type
) -> None:
    order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]

    def body(x: ir.Value, y: ir.Value) -> ir.Value:
        value = build.value("transpose", y.type, x, permutation=order)
        return build.value("multiply", y.type, build.value("add", y.type, value, y), y)

    rng = np.random.default_rng(1)
    x = rng.integers(-9, 9, shape).astype(dtype)
    y = rng.integers(-9, 9, [shape[axis] for axis in order]).astype(dtype)
    text = build_fusion("loop", [type_of(x), type_of(y)], body)
    np.testing.assert_array_equal(run_kernel(text, [x, y], target)[0], (x.transpose(order) + y) * y)


def test_what_repeats_lines_of_a_tile_has_half_of_its_shuffles() -> None:
    def code(columns: int, computes: bool) -> str:
        def body(x: ir.Value, y: ir.Value) -> ir.Value:
            value = build.value("transpose", y.type, x, permutation=[1, 0])
            return build.value("add", y.type, value, y) if computes else value

        text = build_fusion("loop", [f"tensor<32x{columns}xf32>", f"tensor<{columns}x32xf32>"], body)
        return "".join(compile_kernel(text, AVX512).kernel.functions.values())

    whole = 16 * 4  # shuffles of a square of 16 x 16
    assert code(36, computes=True).count("llvm.shufflevector") == whole // 2
    assert code(36, computes=False).count("llvm.shufflevector") == whole
    assert code(1024, computes=True).count("llvm.shufflevector") == whole  # rows share a set of the cache
