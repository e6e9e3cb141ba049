"""Column kernels against NumPy: reductions over any dimensions, split and whole."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from one_kernel import build_fusion, compile_kernel, here, run_kernel

from stablehlo_py.backends.cpu.kernels import column
from stablehlo_py.backends.cpu.target import AVX2, AVX512, CpuTarget
from stablehlo_py.dialect import build
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import ir

TARGETS = here(AVX2, AVX512)
CASES = [
    ((50, 60, 70), (1,)),
    ((50, 60, 70), (0,)),
    ((50, 60, 70), (0, 1)),
    ((5, 60, 7), (0, 2)),
    ((50, 64, 64), (0, 2)),
    ((5, 6, 7, 8), (1, 3)),
    ((5, 6, 7, 8), (0, 2)),
    ((3000, 64), (0,)),
    ((300, 2000), (0, 1)),
    ((70003,), (0,)),
    ((100000,), (0,)),
    ((50000, 3), (0,)),
    ((3, 50000), (0,)),
    ((1, 300000), (1,)),
    ((2, 300001), (1,)),
    ((100, 1000, 2), (1,)),
    ((1, 5), (0,)),
    ((5, 1), (0,)),
    ((1, 1), (0, 1)),
    ((7, 9), (0,)),
    ((1000, 1), (0,)),
    ((0, 4), (0,)),
    ((4, 0), (0,)),
    ((1, 8, 1, 40), (1, 2)),
]


@pytest.fixture(params=TARGETS, ids=lambda target: target.name)
def target(request):
    return request.param


def constant(value: float, element: str) -> ir.Value:
    type_ = ir.Type.parse(element)
    return build.constant(np.asarray(value).astype(numpy_dtype(type_)), type_)


def reduce(x: ir.Value, kind: str, init: float, dimensions: tuple[int, ...], element: str = "f32") -> ir.Value:
    sizes = [size for dimension, size in enumerate(x.type.shape) if dimension not in dimensions]
    result = build.tensor(sizes, ir.Type.parse(element))
    return build.value("reduce", result, x, constant(init, element), kind=kind, dimensions=dimensions)


def type_of(sizes: tuple[int, ...], element: str = "f32") -> str:
    return "tensor<" + "".join(f"{size}x" for size in sizes) + f"{element}>"


@pytest.mark.parametrize(("sizes", "dimensions"), CASES)
def test_two_reductions(sizes: tuple[int, ...], dimensions: tuple[int, ...], target) -> None:
    x = np.random.default_rng(0).standard_normal(sizes).astype(np.float32)

    def body(x: ir.Value) -> list[ir.Value]:
        squares = reduce(build.like("multiply", x, x), "add", 1.0, dimensions)
        return [squares, build.like("negate", reduce(x, "maximum", -math.inf, dimensions))]

    results = run_kernel(build_fusion("column", [type_of(sizes)], body), [x], target)
    np.testing.assert_allclose(results[0], 1 + (x.astype(np.float64) ** 2).sum(dimensions), rtol=1e-5)
    np.testing.assert_array_equal(results[1], -x.max(dimensions, initial=-np.inf))


@pytest.mark.parametrize("sizes", [(200, 40), (40000, 5), (3, 50)])
@pytest.mark.parametrize(
    ("element", "dtype", "kind", "init"),
    [
        ("f64", np.float64, "add", 0),
        ("i32", np.int32, "add", 7),
        ("i8", np.int8, "minimum", 127),
        ("ui16", np.uint16, "maximum", 0),
        ("i1", np.bool_, "or", False),
        ("complex<f32>", np.complex64, "add", 0),
        ("bf16", ml_dtypes.bfloat16, "maximum", -1e30),
        ("i64", np.int64, "xor", 1),
        ("f16", np.float16, "minimum", 6e4),
    ],
)
def test_element_types(element: str, dtype: type, kind: str, init: float, sizes: tuple[int, int], target) -> None:
    x = (np.random.default_rng(0).standard_normal(sizes) * 3).astype(dtype)
    text = build_fusion("column", [type_of(sizes, element)], lambda x: reduce(x, kind, init, (0,), element))
    result = run_kernel(text, [x], target)[0]
    function = {
        "add": np.add,
        "minimum": np.minimum,
        "maximum": np.maximum,
        "or": np.logical_or,
        "xor": np.bitwise_xor,
    }[kind]
    expected = function(function.reduce(x, axis=0), np.asarray(init).astype(dtype))
    if kind == "add" and np.dtype(dtype).kind in "fc":
        np.testing.assert_allclose(
            result, x.astype(np.complex128).sum(0), rtol=1e-3 if dtype is np.complex64 else 1e-9, atol=1e-2
        )
    else:
        np.testing.assert_array_equal(result, expected.astype(dtype))


def test_epilogue_and_a_broadcast_before(target) -> None:
    """Gradient of a bias: columns split by a vector that covers part of them."""

    def body(x: ir.Value, w: ir.Value, b: ir.Value) -> ir.Value:
        total = reduce(build.like("multiply", x, build.broadcast(w, (30, 6, 40), [2])), "add", 0.0, (0,))
        return build.like("add", total, build.broadcast(b, (6, 40), [0]))

    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(sizes).astype(np.float32) for sizes in ((30, 6, 40), (40,), (6,)))
    result = run_kernel(
        build_fusion("column", ["tensor<30x6x40xf32>", "tensor<40xf32>", "tensor<6xf32>"], body), [x, w, b], target
    )[0]
    np.testing.assert_allclose(result, (x.astype(np.float64) * w).sum(0) + b[:, None], rtol=1e-4, atol=1e-5)


def test_nan_spreads(target) -> None:
    x = np.zeros((1000, 65), np.float32)
    x[999, 64] = x[0, 0] = np.nan
    result = run_kernel(
        build_fusion("column", ["tensor<1000x65xf32>"], lambda x: reduce(x, "maximum", -math.inf, (0,))), [x], target
    )[0]
    np.testing.assert_array_equal(result, x.max(0))


def test_long_columns_are_split() -> None:
    kernel = compile_kernel(
        build_fusion("column", ["tensor<50176x64xf32>"], lambda x: reduce(x, "add", 0.0, (0,))), TARGETS[-1]
    ).kernel
    assert [phase.symbol for phase in kernel.phases] == ["fusion", "fusion.combine"]
    assert kernel.shared_bytes >= 64 * 4 * kernel.phases[0].iterations


def test_mixed_shapes_are_refused() -> None:
    text = build_fusion(
        "column",
        ["tensor<4x8xf32>", "tensor<2x8xf32>"],
        lambda x, y: [reduce(x, "add", 0.0, (0,)), reduce(y, "add", 0.0, (0,))],
    )
    with pytest.raises(InternalError, match="differ in shape"):
        compile_kernel(text, TARGETS[0])


@pytest.mark.parametrize(
    ("element", "dtype"),
    [("f32", np.float32), ("bf16", ml_dtypes.bfloat16), ("i32", np.int32), ("complex<f32>", np.complex64)],
)
@pytest.mark.parametrize("sizes", [(1, 300, 8192), (3, 41, 8300)], ids=["whole", "odd"])
def test_strips_change_no_bit(
    sizes: tuple[int, ...], element: str, dtype: type, target: CpuTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks that meet some rows one after the other, in place of all rows each; what follows the sum and what comes
    before it are computed in blocks, too."""
    x = (8 * np.random.default_rng(0).standard_normal(sizes)).astype(dtype)

    def body(value: ir.Value) -> list[ir.Value]:
        doubled = build.like("add", value, value)
        total = reduce(doubled, "add", 0, (1,), element)
        return [build.like("multiply", total, total)]

    text = build_fusion("column", [type_of(sizes, element)], body)
    code, found = compile_kernel(text, target).kernel.functions, run_kernel(text, [x], target)
    monkeypatch.setattr(column._KeptLanes, "_strip", lambda self, chunks: 1)
    assert compile_kernel(text, target).kernel.functions != code
    assert [each.tobytes() for each in run_kernel(text, [x], target)] == [each.tobytes() for each in found]


@pytest.mark.parametrize(("element", "dtype"), [("f32", np.float32), ("f64", np.float64), ("bf16", ml_dtypes.bfloat16)])
@pytest.mark.parametrize("sizes", [(1, 18000, 96), (3, 700, 1000), (40, 340, 130)], ids=["chunks", "long", "short"])
def test_computed_rows_are_read_in_strips(
    sizes: tuple[int, ...], element: str, dtype: type, target: CpuTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of what is computed are narrow: each by itself would read a line of each row, of a page each."""
    x = np.random.default_rng(0).standard_normal(sizes).astype(dtype)

    def body(value: ir.Value) -> list[ir.Value]:
        return [reduce(build.like("exponential", value), "add", 0, (1,), element)]

    text = build_fusion("column", [type_of(sizes, element)], body)
    code, found = compile_kernel(text, target).kernel.functions, run_kernel(text, [x], target)
    monkeypatch.setattr(column._KeptLanes, "_strip", lambda self, chunks: 1)
    assert compile_kernel(text, target).kernel.functions != code
    assert [each.tobytes() for each in run_kernel(text, [x], target)] == [each.tobytes() for each in found]


@pytest.mark.parametrize("rows", [2, 3, 4, 5])
@pytest.mark.parametrize("columns", [64, 256, 700])
def test_few_rows_are_in_the_text(rows: int, columns: int, target: CpuTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    """One vector of columns after another, with the sums of rows one by one."""
    x = np.random.default_rng(0).standard_normal((30, rows, columns)).astype(np.float32)

    def body(x: ir.Value) -> list[ir.Value]:
        return [reduce(x, "add", 0.0, (1,), "f32"), reduce(x, "maximum", -np.inf, (1,), "f32")]

    text = build_fusion("column", [type_of(x.shape, "f32")], body)
    lines = [text.count("\n") for text in compile_kernel(text, target).kernel.functions.values()]
    found = run_kernel(text, [x], target)
    np.testing.assert_allclose(found[0], x.sum(1, dtype=np.float64), atol=1e-5)
    np.testing.assert_array_equal(found[1], x.max(1))
    monkeypatch.setattr(column._KeptLanes, "_is_short", lambda self: False)
    before = [text.count("\n") for text in compile_kernel(text, target).kernel.functions.values()]
    assert (lines < before) == (rows <= 4)
    assert [each.tobytes() for each in run_kernel(text, [x], target)] == [each.tobytes() for each in found]


@pytest.mark.parametrize(("columns", "fetched"), [(200, True), (1000, True), (1024, False), (3000, False)])
def test_rows_shorter_than_a_page_are_fetched(columns: int, fetched: bool, target: CpuTarget) -> None:
    """The processor follows a page to its end, not rows of some lines each."""
    x = np.random.default_rng(0).standard_normal((1 + (1 << 21) // columns, columns)).astype(np.float32)
    text = build_fusion("column", [type_of(x.shape, "f32")], lambda x: [reduce(x, "maximum", -np.inf, (0,), "f32")])
    compiled = compile_kernel(text, target)
    assert ("llvm.intr.prefetch" in "".join(compiled.kernel.functions.values())) == fetched
    np.testing.assert_array_equal(compiled.run([x])[0], x.max(0))
