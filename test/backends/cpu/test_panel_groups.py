"""Groups of B's panels: one function of a program makes them, whatever sizes and strides are, with the bits of kernels
that do it themselves."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from emulated_tiles import EMULATED, EMULATED_DOTS, emulate
from one_kernel import build_fusion, compile_kernel

from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.dialect import build
from stablehlo_py.mlir import ir

RNG = np.random.default_rng(6)
ELEMENTS = {"bf16": ml_dtypes.bfloat16, "i8": np.int8, "ui8": np.uint8}
TARGETS = {"tiles": EMULATED, "dots": EMULATED_DOTS}


def product_of(m: int, n: int, k: int, element: str, after: str | None = None) -> str:
    def body(x: ir.Value, y: ir.Value) -> ir.Value:
        sums = ir.F32Type.get() if element == "bf16" else ir.IntegerType.get_signless(32)
        sums = ir.IntegerType.get_unsigned(32) if element == "ui8" else sums
        axes = {"lhs_batch": [], "rhs_batch": [], "lhs_contract": [1], "rhs_contract": [0]}
        result = build.value("dot", build.tensor((m, n), sums), x, y, **axes)
        return build.like(after, result) if after else result

    return build_fusion("dot", [f"tensor<{m}x{k}x{element}>", f"tensor<{k}x{n}x{element}>"], body)


@pytest.mark.every(2)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize(
    "sizes", [(80, 64, 256), (300, 75, 130), (20, 96, 517), (50, 160, 530), (128, 680, 192)], ids=str
)
def test_bits(sizes: tuple[int, int, int], element: str, target: CpuTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed before and on the way, whole panels and parts, whole steps and parts."""
    emulate(monkeypatch)
    m, n, k = sizes
    arrays = [(3 * RNG.standard_normal(shape)).astype(np.int8).astype(ELEMENTS[element]) for shape in ((m, k), (k, n))]
    text = product_of(m, n, k, element)
    own, calls = (compile_kernel(text, replace(target, shares_functions=shares)) for shares in (False, True))
    assert not own.kernel.common
    assert any(symbol.startswith("shlo_groups_") for symbol in calls.kernel.common)
    assert own.run(arrays, 1)[0].tobytes() == calls.run(arrays, 1)[0].tobytes()


def test_bytes_of_two_panels_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By tiles, whose processors fetch ahead themselves: a cache line of each row; the last panel by itself."""
    emulate(monkeypatch)
    target = replace(EMULATED, shares_functions=True)
    common = compile_kernel(product_of(128, 96, 256, "i8"), target).kernel.common
    assert {symbol for symbol in common if symbol.startswith("shlo_groups_")} == {
        "shlo_groups_4_64",
        "shlo_groups_4_32",
    }
    assert not any("prefetch" in text for text in common.values())
    assert "shlo_groups_2_32" in compile_kernel(product_of(128, 96, 256, "bf16"), target).kernel.common


def test_products_share_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several sizes."""
    emulate(monkeypatch)
    kernels = [
        compile_kernel(product_of(m, n, k, "i8"), EMULATED_DOTS).kernel
        for m, n, k in ((80, 64, 256), (100, 128, 512), (640, 96, 384))
    ]
    groups = [
        {symbol: text for symbol, text in kernel.common.items() if symbol.startswith("shlo_groups_")}
        for kernel in kernels
    ]
    assert groups[0] and all(each == groups[0] for each in groups)
    assert all("prefetch" in text for text in groups[0].values()), "rows of the next call come meanwhile"


@pytest.mark.parametrize(("after", "calls"), [("tanh", True), ("negate", False)])
def test_short_sums_are_called_where_they_pass_through_memory(
    after: str, calls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An epilogue that is not repeated for each vector reads them from there."""
    emulate(monkeypatch)
    text = product_of(80, 64, 32, "bf16", after)
    kernel = compile_kernel(text, EMULATED_DOTS).kernel
    assert any(symbol.startswith("shlo_dots_") for symbol in kernel.common) == calls


def test_the_last_strip_has_no_code_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has fewer rows, in the same loops: 22 strips of 14 rows, or 21 and one of 6."""
    emulate(monkeypatch)
    even, odd = (
        compile_kernel(product_of(m, 64, 256, "i8"), EMULATED_DOTS).kernel.functions["fusion"] for m in (308, 300)
    )
    calls = [line.partition("(")[0] for line in odd.splitlines() if "@shlo_dots_" in line]
    assert len(set(calls)) == len(calls) == 2
    assert odd.count("llvm.store") == even.count("llvm.store")
