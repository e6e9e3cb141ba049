"""Convolutions on AMX, and by instructions of vectors that add up groups: kernels as they are where the machine has
these, and everywhere by other instructions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from convolutions import Case, fusion_text
from emulated_tiles import EMULATED, EMULATED_DOTS, emulate
from one_kernel import compile_kernel, here

from stablehlo_py.backends.cpu.target import AMX, AVX512_BF16, CpuTarget
from stablehlo_py.dialect import build
from stablehlo_py.mlir import ir

SAME = ((1, 1), (1, 1))
CASES = [
    Case("same", (1, 9, 20, 32), (3, 3, 32, 40), padding=SAME),
    Case("short lines", (1, 7, 7, 64), (3, 3, 64, 70), padding=SAME),
    Case("several images", (3, 14, 14, 32), (3, 3, 32, 32), padding=SAME),
    Case("channels that fill no step", (1, 10, 20, 13), (3, 3, 13, 20), padding=SAME),
    Case("valid", (1, 8, 20, 64), (3, 2, 64, 40)),
    Case("pointwise", (2, 7, 9, 64), (1, 1, 64, 33)),
    Case("strided", (1, 21, 39, 32), (3, 3, 32, 24), strides=(2, 2), padding=SAME),
    Case("first layer", (1, 40, 40, 5), (7, 7, 5, 20), strides=(2, 2), padding=((3, 3), (3, 3))),
    Case("kernel dilated", (1, 12, 20, 32), (3, 3, 32, 16), rhs_dilation=(2, 3), padding=((2, 2), (3, 3))),
    Case("transposed", (1, 6, 20, 32), (4, 4, 32, 20), lhs_dilation=(2, 2), padding=((3, 3), (1, 1))),
    Case("transposed, odd", (1, 20, 20, 32), (3, 3, 32, 20), lhs_dilation=(2, 2), padding=((2, 1), (2, 1))),
    Case("grouped", (1, 8, 24, 96), (3, 3, 32, 60), groups=3, padding=SAME),
    Case("nchw", (2, 32, 10, 18), (20, 32, 3, 3), ("NCHW", "OIHW", "NCHW"), padding=SAME),
    Case("two chunks, several strips", (1, 12, 20, 160), (3, 3, 160, 32), padding=SAME),
]


@pytest.fixture(
    params=[EMULATED, EMULATED_DOTS, *here(AMX, AVX512_BF16)],
    ids={EMULATED: "emulated", AMX: "tiles", EMULATED_DOTS: "emulated-dots", AVX512_BF16: "dots"}.__getitem__,
)
def target(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> CpuTarget:
    if request.param in (EMULATED, EMULATED_DOTS):
        emulate(monkeypatch)
    return request.param


@pytest.mark.every(2)
@pytest.mark.parametrize("type_", ["bf16", "i8"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_convolution(case: Case, type_: str, target: CpuTarget) -> None:
    """Elements stay as they are in the padded copy, and results are the same in any pieces."""
    random = np.random.default_rng(0)
    if type_ == "i8":
        arrays = [random.integers(-128, 128, size).astype(np.int8) for size in (case.lhs, case.rhs)]
    else:
        arrays = [random.standard_normal(size).astype(ml_dtypes.bfloat16) for size in (case.lhs, case.rhs)]
    expected = case.reference(*arrays)
    text = fusion_text(case, arrays, expected.shape, result="i32" if type_ == "i8" else "bf16")
    compiled = compile_kernel(text, target)
    assert target is not AMX or compiled.kernel.uses_tiles
    (result,), (in_pieces,) = compiled.run(arrays), compiled.run(arrays, 3)
    assert result.tobytes() == in_pieces.tobytes()
    if type_ == "i8":
        np.testing.assert_array_equal(result, expected)
    else:
        magnitudes = case.reference(*(np.abs(array.astype(np.float32)) for array in arrays))
        error = np.abs(result.astype(np.float64) - expected)
        assert (error <= 2.0**-22 * magnitudes + 2.0**-8 * np.abs(expected)).all()


def test_epilogue(target: CpuTarget) -> None:
    """A bias and a residual, where the padding's columns are rows of the product that are no pixels."""
    case = Case("same", (2, 9, 14, 32), (3, 3, 32, 40), padding=SAME)
    random = np.random.default_rng(1)
    sizes = (case.lhs, case.rhs, (40,), (2, 9, 14, 40))
    arrays = [random.standard_normal(size).astype(ml_dtypes.bfloat16) for size in sizes]

    def epilogue(value: ir.Value, bias: ir.Value, residual: ir.Value) -> ir.Value:
        return build.like("add", build.like("add", value, build.broadcast(bias, sizes[3], [3])), residual)

    compiled = compile_kernel(fusion_text(case, arrays, sizes[3], epilogue), target)
    (result,) = compiled.run(arrays, 2)
    wide = [array.astype(np.float64) for array in arrays]
    expected = case.reference(*arrays[:2]) + wide[2] + wide[3]
    assert np.abs(result.astype(np.float64) - expected).max() <= 2.0**-6 * np.abs(expected).max()
