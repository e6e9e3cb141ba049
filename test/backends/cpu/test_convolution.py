"""Kernels of kind `convolution` against jax.lax: strides, padding, dilations, groups, layouts, gradients, epilogues,
targets."""

from __future__ import annotations

import numpy as np
import pytest
from convolutions import Case, fusion_text
from one_kernel import compile_kernel, here, run_kernel

from stablehlo_py.backends.common.contraction import Axis, Operand
from stablehlo_py.backends.cpu.kernels.tiling import normalize
from stablehlo_py.backends.cpu.target import AVX2, AVX512, BASELINE, CpuTarget
from stablehlo_py.codegen.types import ELEMENTS
from stablehlo_py.dialect import build
from stablehlo_py.mlir import ir

RNG = np.random.default_rng(11)
TARGETS = here(AVX512, AVX2)
BEST = here(AVX512, AVX2, BASELINE)[0]


CASES = [
    Case("same", (2, 9, 11, 5), (3, 3, 5, 18), padding=((1, 1), (1, 1))),
    Case("valid", (1, 8, 8, 16), (3, 2, 16, 40)),
    Case("pointwise", (2, 7, 7, 24), (1, 1, 24, 33)),
    Case("strided", (1, 15, 13, 6), (3, 3, 6, 8), strides=(2, 3), padding=((0, 1), (2, 1))),
    Case("first layer", (1, 32, 32, 3), (7, 7, 3, 20), strides=(2, 2), padding=((3, 3), (3, 3))),
    Case("wide", (1, 5, 40, 32), (3, 3, 32, 64), padding=((1, 1), (1, 1))),
    Case("seven", (2, 7, 7, 40), (3, 3, 40, 70), padding=((1, 1), (1, 1))),
    Case("kernel dilated", (1, 12, 12, 4), (3, 3, 4, 5), rhs_dilation=(2, 3), padding=((2, 2), (3, 3))),
    Case("transposed", (1, 6, 5, 4), (4, 3, 4, 7), lhs_dilation=(2, 3), padding=((2, 2), (1, 2))),
    Case("transposed, cut", (1, 6, 5, 4), (2, 2, 4, 7), lhs_dilation=(3, 2), padding=((-2, 1), (1, -3))),
    Case("transposed, even", (1, 6, 5, 4), (4, 4, 4, 20), lhs_dilation=(2, 2), padding=((3, 3), (1, 1))),
    Case("transposed, far apart", (2, 4, 3, 4), (16, 3, 4, 6), lhs_dilation=(16, 5), padding=((15, 15), (2, 2))),
    Case(
        "transposed, strided", (1, 6, 5, 4), (3, 3, 4, 7), (("NHWC", "HWIO", "NHWC")), (2, 1), ((1, 1), (1, 1)), (3, 2)
    ),
    Case("transposed, depthwise", (1, 6, 5, 9), (3, 3, 1, 9), lhs_dilation=(2, 2), padding=((1, 2), (1, 2)), groups=9),
    Case(
        "transposed, nchw",
        (2, 5, 6, 7),
        (8, 5, 3, 3),
        ("NCHW", "OIHW", "NCHW"),
        lhs_dilation=(2, 2),
        padding=((1, 2), (1, 2)),
    ),
    Case("transposed, one feature", (1, 9, 1, 1), (3, 1, 1, 1), lhs_dilation=(2, 1), padding=((0, 3), (0, 0))),
    Case(
        "transposed, depthwise of columns",
        (1, 1, 9, 5),
        (1, 3, 1, 5),
        ("NHWC", "HWIO", "CNHW"),
        lhs_dilation=(1, 2),
        groups=5,
    ),
    Case("cut", (1, 9, 9, 4), (2, 2, 4, 7), padding=((-2, 1), (1, -3))),
    Case("grouped", (1, 8, 8, 12), (3, 3, 4, 18), groups=3, padding=((1, 1), (1, 1))),
    Case("depthwise", (2, 9, 10, 37), (3, 3, 1, 37), groups=37, padding=((1, 1), (1, 1))),
    Case("depthwise, strided", (1, 12, 12, 8), (5, 5, 1, 8), groups=8, strides=(2, 2), padding=((2, 2), (2, 2))),
    Case("depthwise, in slabs", (2, 48, 50, 72), (3, 3, 1, 72), groups=72, padding=((1, 1), (1, 1))),
    Case(
        "depthwise, in strided slabs",
        (1, 94, 61, 64),
        (5, 3, 1, 64),
        groups=64,
        strides=(2, 1),
        padding=((2, 3), (0, 1)),
        rhs_dilation=(1, 2),
    ),
    Case("depthwise, two for one", (1, 8, 8, 6), (3, 3, 1, 12), groups=6, padding=((1, 1), (1, 1))),
    Case("batch groups", (6, 8, 8, 4), (3, 3, 4, 9), batch_groups=3),
    Case("batch groups, depthwise", (16, 9, 9, 3), (4, 4, 3, 16), batch_groups=16),
    Case("nchw", (2, 6, 10, 17), (9, 6, 3, 3), ("NCHW", "OIHW", "NCHW"), padding=((1, 1), (1, 1))),
    Case("nchw, strided", (2, 6, 10, 17), (9, 6, 3, 3), ("NCHW", "OIHW", "NCHW"), strides=(2, 2)),
    Case("nchw, depthwise", (1, 8, 9, 20), (8, 1, 3, 3), ("NCHW", "OIHW", "NCHW"), groups=8),
    Case("mixed", (6, 10, 2, 17), (9, 3, 6, 3), ("CHNW", "OHIW", "HWNC"), padding=((1, 0), (0, 1))),
    Case("odd order", (6, 2, 10, 17), (9, 3, 6, 3), ("CNHW", "OHIW", "NHCW"), padding=((1, 0), (0, 1)), strides=(1, 2)),
    Case("one dimension", (2, 30, 5), (4, 5, 6), ("NWC", "WIO", "NWC"), (2,), ((3, 0),), (1,), (1,)),
    Case(
        "three dimensions",
        (1, 5, 6, 7, 3),
        (2, 3, 2, 3, 9),
        ("NDHWC", "DHWIO", "NDHWC"),
        (1, 2, 1),
        ((1, 0), (1, 1), (0, 1)),
        (1, 1, 1),
        (1, 1, 1),
    ),
    Case(
        "input gradient",
        (2, 8, 8, 12),
        (3, 3, 5, 12),
        ("NHWC", "HWOI", "NHWC"),
        padding=((1, 1), (1, 1)),
        lhs_dilation=(2, 2),
    ),
    Case("kernel gradient", (3, 10, 10, 4), (3, 8, 8, 6), ("CHWN", "IHWO", "HWNC"), padding=((0, 0), (0, 0))),
    Case(
        "kernel gradient, strided",
        (3, 11, 11, 4),
        (3, 5, 5, 6),
        ("CHWN", "IHWO", "HWNC"),
        padding=((0, 0), (0, 0)),
        rhs_dilation=(2, 2),
    ),
    Case("f64", (1, 6, 6, 5), (3, 3, 5, 9), dtype="f8", padding=((1, 1), (1, 1))),
    Case("complex", (1, 6, 6, 5), (3, 3, 5, 9), dtype="c8", padding=((1, 1), (1, 1))),
    Case("complex, nchw", (1, 5, 6, 6), (9, 5, 3, 3), ("NCHW", "OIHW", "NCHW"), dtype="c8", padding=((1, 1), (1, 1))),
    Case("integers", (1, 6, 6, 5), (3, 3, 5, 9), dtype="i4", padding=((1, 1), (1, 1))),
    Case("half", (1, 6, 6, 5), (3, 3, 5, 9), dtype="f2", padding=((1, 1), (1, 1))),
]


def arrays_of(case: Case) -> list[np.ndarray]:
    if case.dtype == "i4":
        return [RNG.integers(-9, 9, size).astype(case.dtype) for size in (case.lhs, case.rhs)]
    if case.dtype == "c8":
        return [
            (RNG.standard_normal(size) + 1j * RNG.standard_normal(size)).astype(case.dtype)
            for size in (case.lhs, case.rhs)
        ]
    return [RNG.standard_normal(size).astype(case.dtype) for size in (case.lhs, case.rhs)]


def close(result: np.ndarray, expected: np.ndarray, dtype: str) -> None:
    if dtype == "i4":
        np.testing.assert_array_equal(result, expected)
        return
    tolerance = {"f8": 1e-13, "f2": 2e-3}.get(dtype, 2e-6) * max(1.0, np.abs(expected).max())
    assert np.abs(result - expected).max() <= tolerance


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_convolution(case: Case, target: CpuTarget) -> None:
    arrays = arrays_of(case)
    expected = case.reference(*arrays)
    (result,) = run_kernel(fusion_text(case, arrays, expected.shape), arrays, target)
    close(result, expected, case.dtype)


EPILOGUES = ["same", "depthwise", "depthwise, in slabs", "nchw", "nchw, strided", "grouped", "transposed"]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogue(name: str, target: CpuTarget) -> None:
    """Scale and shift per channel, residual, relu."""
    case = next(case for case in CASES if case.name == name)
    arrays = arrays_of(case)
    expected = case.reference(*arrays)
    feature = case.layout[2].index("C")
    scale, shift = (RNG.standard_normal(expected.shape[feature]).astype("f4") for _ in range(2))
    residual = RNG.standard_normal(expected.shape).astype("f4")

    def epilogue(value: ir.Value, scale_: ir.Value, shift_: ir.Value, residual_: ir.Value) -> ir.Value:
        spread = [build.broadcast(v, expected.shape, [feature]) for v in (scale_, shift_)]
        normed = build.like("add", build.like("multiply", value, spread[0]), spread[1])
        return build.like("maximum", build.like("add", normed, residual_), build.splat(0.0, value.type))

    along = [1] * expected.ndim
    along[feature] = -1
    wanted = np.maximum(expected * scale.reshape(along) + shift.reshape(along) + residual, 0)
    further = [*arrays, scale, shift, residual]
    (result,) = run_kernel(fusion_text(case, further, expected.shape, epilogue), further, target)
    close(result, wanted, "f4")


@pytest.mark.parametrize("name", ["same", "transposed", "transposed, depthwise"])
def test_reversed_kernel(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    arrays = arrays_of(case)
    expected = case.reference(arrays[0], arrays[1][::-1, :])
    text = fusion_text(case, arrays, expected.shape).replace(
        "reversal = array<i64: 0, 0>", "reversal = array<i64: 1, 0>"
    )
    (result,) = run_kernel(text, arrays, BEST)
    close(result, expected, "f4")


def test_no_copy_without_padding() -> None:
    case = next(case for case in CASES if case.name == "valid")
    arrays = arrays_of(case)
    compiled = compile_kernel(fusion_text(case, arrays, case.reference(*arrays).shape), AVX512)
    assert [phase.symbol for phase in compiled.kernel.phases] == ["fusion_0"]


@pytest.mark.parametrize("name", ["depthwise, in slabs", "depthwise, in strided slabs"])
def test_a_large_depthwise_input_is_copied_slab_by_slab(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    arrays = arrays_of(case)
    expected = case.reference(*arrays)
    compiled = compile_kernel(fusion_text(case, arrays, expected.shape), BEST)
    assert compiled.kernel.shared_bytes == 0
    assert compiled.kernel.private_bytes < arrays[0].nbytes / 2
    for chunks in (1, 3):
        close(compiled.run(arrays, chunks)[0], expected, case.dtype)


@pytest.mark.parametrize("channels", [400, 401])
def test_a_long_kernel_is_packed_panel_by_panel(channels: int) -> None:
    case = Case("panels", (1, 5, 6, channels), (3, 3, channels, 200), padding=((1, 1), (1, 1)))
    arrays = arrays_of(case)
    expected = case.reference(*arrays)
    compiled = compile_kernel(fusion_text(case, arrays, expected.shape), BEST)
    assert compiled.kernel.shared_bytes + compiled.kernel.private_bytes < arrays[1].nbytes / 2
    for chunks in (1, 3, 7):  # whose ranges begin within panels, too
        close(compiled.run(arrays, chunks)[0], expected, case.dtype)


def test_few_panels_of_many_lines_are_worth_threads() -> None:
    """To pack a panel once more is little, next to what the lines of an image do with it."""
    case = Case("lines", (1, 32, 32, 128), (3, 3, 128, 128), padding=((1, 1), (1, 1)))
    arrays = arrays_of(case)
    phase = compile_kernel(fusion_text(case, arrays, case.reference(*arrays).shape), AVX512).kernel.phases[-1]
    assert phase.iterations == 64
    assert 1 < phase.grain <= 16


def test_rows_of_the_register_tile_are_near_each_other() -> None:
    f32 = ELEMENTS["f32"]
    images, columns = Axis(112, a=7168, c=3584), Axis(28, a=128, c=128)  # a pointwise convolution with stride 2
    found = normalize(
        [], [images, columns], [Axis(128, b=1, c=1)], [Axis(64, 1, 128)], Operand("a", 0, f32), Operand("b", 0, f32)
    )
    assert found.m == columns
    assert found.outer == (images,)
