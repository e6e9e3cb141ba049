"""Products of small integers, whose operands are copied as pairs: exact in every layout, type and instruction set."""

from __future__ import annotations

import jax
import ml_dtypes
import numpy as np
import pytest
from dots import Dot, types_of
from one_kernel import build_fusion, compile_kernel, here, run_kernel

from stablehlo_py.backends.cpu.target import AVX2, AVX512, AVX512_VNNI, BASELINE, GENERIC, CpuTarget
from stablehlo_py.dialect import build
from stablehlo_py.mlir import ir

TARGETS = here(AVX512_VNNI, AVX512, AVX2, BASELINE, GENERIC)


DOTS = [
    Dot("plain", (20, 64), (64, 48)),
    Dot("odd", (13, 63), (63, 37)),
    Dot("two", (8, 2), (2, 8)),
    Dot("three", (9, 3), (3, 17)),
    Dot("weights transposed", (20, 65), (33, 65), ((1,), (1,))),
    Dot("both transposed", (66, 20), (33, 66), ((0,), (1,))),
    Dot("input transposed, odd", (65, 20), (65, 33), ((0,), (0,))),
    Dot("batched", (3, 20, 31), (3, 31, 40), ((2,), (1,)), ((0,), (0,))),
    Dot("batch in the middle", (20, 3, 31), (31, 40, 3), ((2,), (0,)), ((1,), (2,))),
    Dot("two contracted", (20, 5, 7), (5, 7, 40), ((1, 2), (0, 1))),
    Dot("two contracted, crossed", (20, 5, 7), (7, 40, 5), ((2, 1), (0, 2))),
    Dot("extreme shorts", (20, 64), (64, 48), dtypes=(np.int16, np.int16)),
    Dot("mixed", (20, 33), (33, 48), dtypes=(np.int16, np.int8)),
    Dot("unsigned", (20, 33), (33, 48), dtypes=(np.uint8, np.int8)),
    Dot("four bits", (20, 33), (33, 48), dtypes=(ml_dtypes.int4, ml_dtypes.uint4)),
    Dot("large", (70, 300), (300, 130)),
]


@pytest.mark.every(2)
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("case", DOTS, ids=lambda case: case.name)
def test_dots_are_exact(case: Dot, target: CpuTarget) -> None:
    arrays = case.arrays()
    (result,) = run_kernel(case.text(arrays), arrays, target)
    np.testing.assert_array_equal(result, case.expected(*arrays))


def test_the_extreme_pair_wraps() -> None:
    """(-32768)^2 twice is 2^31."""
    case = Dot("extreme", (8, 2), (2, 16), dtypes=(np.int16, np.int16))
    arrays = [np.full(array.shape, -32768, np.int16) for array in case.arrays()]
    for target in TARGETS:
        (result,) = run_kernel(case.text(arrays), arrays, target)
        assert (result == -(2**31)).all()


@pytest.mark.parametrize(
    ("case", "copied"),
    [
        (Dot("enough", (8, 64), (64, 8)), True),
        (Dot("few rows", (7, 64), (64, 48)), False),
        (Dot("unsigned shorts", (20, 64), (64, 48), dtypes=(np.uint16, np.int8)), False),
        (Dot("ints", (20, 64), (64, 48), dtypes=(np.int32, np.int32)), False),
    ],
    ids=lambda case: case.name if isinstance(case, Dot) else "",
)
def test_who_is_copied(case: Dot, copied: bool) -> None:
    arrays = case.arrays()
    kernel = compile_kernel(case.text(arrays), AVX2).kernel
    assert any("pairs" in phase.symbol for phase in kernel.phases) == copied
    assert ("llvm.x86.avx2.pmadd.wd" in "".join(kernel.functions.values())) == copied


@pytest.mark.parametrize(
    ("case", "copied"),
    [
        (Dot("weights", (20, 64), (64, 48)), {"a"}),
        (Dot("odd", (20, 63), (63, 48)), {"a", "b"}),
        (Dot("weights transposed", (20, 64), (48, 64), ((1,), (1,))), {"a", "b"}),
        (Dot("both transposed", (64, 20), (48, 64), ((0,), (1,))), {"a", "b"}),
        (Dot("input transposed", (64, 20), (64, 48), ((0,), (0,))), {"a"}),
        (Dot("batched", (3, 20, 32), (3, 32, 40), ((2,), (1,)), ((0,), (0,))), {"a"}),
    ],
    ids=lambda case: case.name if isinstance(case, Dot) else "",
)
def test_neighbours_are_joined_as_panels_are_packed(case: Dot, copied: set[str]) -> None:
    """Where B's lanes are neighbours in memory, and no row lacks a partner."""
    arrays = case.arrays()
    phases = compile_kernel(case.text(arrays), AVX2).kernel.phases
    assert {phase.symbol[-1] for phase in phases if "pairs" in phase.symbol} == copied
    for target in TARGETS:
        (result,) = run_kernel(case.text(arrays), arrays, target)
        np.testing.assert_array_equal(result, case.expected(*arrays))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_neighbours_of_the_left_operand_are_joined(target: CpuTarget) -> None:
    """Sums that lie transposed have its columns as lanes."""
    case = Dot("", (64, 48), (64, 20), ((0,), (0,)))
    arrays = case.arrays()

    def body(lhs: ir.Value, rhs: ir.Value) -> ir.Value:
        contract = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (0,), "rhs_contract": (0,)}
        product = build.value("dot", build.tensor((48, 20), ir.Type.parse("i32")), lhs, rhs, **contract)
        return build.value("transpose", build.tensor((20, 48), ir.Type.parse("i32")), product, permutation=(1, 0))

    text = build_fusion("dot", types_of(arrays), body)
    phases = compile_kernel(text, target).kernel.phases
    if target not in (GENERIC, AVX512_VNNI):
        assert {phase.symbol[-1] for phase in phases if "pairs" in phase.symbol} == {"b"}
    (result,) = run_kernel(text, arrays, target)
    np.testing.assert_array_equal(result, case.expected(*arrays).T)


CONVOLUTIONS = {
    "same": ((2, 9, 11, 6), (3, 3, 6, 18), {"padding": ((1, 1), (1, 1))}),
    "odd features": ((1, 8, 8, 5), (3, 2, 5, 19), {"padding": ((0, 1), (2, 0))}),
    "pointwise": ((2, 7, 7, 24), (1, 1, 24, 33), {}),
    "strided": ((1, 15, 13, 7), (3, 3, 7, 8), {"strides": (2, 3), "padding": ((0, 1), (2, 1))}),
    "first layer": ((1, 16, 16, 3), (7, 7, 3, 20), {"strides": (2, 2), "padding": ((3, 3), (3, 3))}),
    "kernel dilated": ((1, 12, 12, 4), (3, 3, 4, 9), {"rhs_dilation": (2, 3), "padding": ((2, 2), (3, 3))}),
    "transposed": ((1, 6, 5, 5), (4, 3, 5, 9), {"lhs_dilation": (2, 3), "padding": ((2, 2), (1, 2))}),
    "grouped": ((1, 9, 9, 8), (3, 3, 4, 16), {"padding": ((1, 1), (1, 1)), "groups": 2}),
    "one feature": ((1, 9, 9, 1), (3, 3, 1, 16), {}),
}


@pytest.mark.every(2)
@pytest.mark.parametrize("target", TARGETS[:2], ids=lambda target: target.name)
@pytest.mark.parametrize("dtype", [np.int8, np.int16])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_are_exact(name: str, dtype: type, target: CpuTarget) -> None:
    lhs, rhs, options = CONVOLUTIONS[name]
    options = {"strides": (1, 1), "padding": ((0, 0), (0, 0)), "lhs_dilation": (1, 1), "rhs_dilation": (1, 1)} | options
    groups = options.pop("groups", 1)
    random = np.random.default_rng(0)
    limit = 127 if dtype == np.int8 else 3000
    arrays = [random.integers(-limit, limit, sizes).astype(dtype) for sizes in (lhs, rhs)]
    with jax.enable_x64(True):
        expected = np.asarray(
            jax.lax.conv_general_dilated(
                *(array.astype(np.float64) for array in arrays),
                options["strides"],
                options["padding"],
                options["lhs_dilation"],
                options["rhs_dilation"],
                ("NHWC", "HWIO", "NHWC"),
                groups,
            )
        ).astype(np.int64)

    def body(x: ir.Value, y: ir.Value) -> ir.Value:
        return build.value(
            "convolution",
            build.tensor(expected.shape, ir.IntegerType.get_signless(32)),
            x,
            y,
            strides=options["strides"],
            padding=[edge for edges in options["padding"] for edge in edges],
            lhs_dilation=options["lhs_dilation"],
            rhs_dilation=options["rhs_dilation"],
            reversal=[0, 0],
            input_dims=[0, 3, 1, 2],
            kernel_dims=[2, 3, 0, 1],
            output_dims=[0, 3, 1, 2],
            feature_groups=groups,
            batch_groups=1,
        )

    (result,) = run_kernel(build_fusion("convolution", types_of(arrays), body), arrays, target)
    np.testing.assert_array_equal(result, expected.astype(np.int32))
