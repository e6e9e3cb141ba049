"""Products that round their operands from f32 to bf16 as they pack them, or in a phase before: the bits of products of
operands that have been rounded."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from emulated_tiles import EMULATED, EMULATED_DOTS, emulate
from one_kernel import build_fusion, compile_kernel, here

from stablehlo_py.backends.cpu.target import AMX, AVX2, AVX512, AVX512_BF16, CpuTarget
from stablehlo_py.dialect import build
from stablehlo_py.mlir import ir

RNG = np.random.default_rng(11)
NATIVE = here(AVX2, AVX512, AVX512_BF16, AMX)
TARGETS = {"tiles": EMULATED, "dots": EMULATED_DOTS, **{target.name: target for target in NATIVE}}
UNITS = ("tiles", "dots")
BF16 = ml_dtypes.bfloat16
# Which operands are rounded, and which are turned.
WAYS = {
    "both": ((True, True), (False, False)),
    "both, turned": ((True, True), (True, True)),
    "weights": ((False, True), (False, False)),
}


def product_of(sizes: tuple[int, int, int], rounded: tuple[bool, bool], turned: tuple[bool, bool]) -> str:
    """C = A B of so many rows, columns and products; operands that are `rounded` come as f32, `turned` ones with the
    contracted dimension first (A) or last (B)."""
    m, n, k = sizes
    shapes = [(k, m) if turned[0] else (m, k), (n, k) if turned[1] else (k, n)]
    bf16 = ir.BF16Type.get

    def body(*operands: ir.Value) -> ir.Value:
        read = [
            build.value("convert", build.tensor(shape, bf16()), operand) if rounds else operand
            for operand, shape, rounds in zip(operands, shapes, rounded, strict=True)
        ]
        axes = {"lhs_contract": [int(not turned[0])], "rhs_contract": [int(turned[1])]}
        return build.value("dot", build.tensor((m, n), ir.F32Type.get()), *read, lhs_batch=[], rhs_batch=[], **axes)

    types = [f"tensor<{a}x{b}x{'f32' if r else 'bf16'}>" for (a, b), r in zip(shapes, rounded, strict=True)]
    return build_fusion("dot", types, body)


def operands_of(sizes: tuple[int, int, int], turned: tuple[bool, bool]) -> list[np.ndarray]:
    """Numbers that rounding changes, halves between two numbers of bf16, and some that are no numbers."""
    m, n, k = sizes
    a, b = (RNG.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    a.flat[:: max(3, a.size // 7)] = np.float32(1 + 2.0**-8)
    b.flat[:: max(3, b.size // 5)] = np.float32(-(1 + 3 * 2.0**-8))
    a.flat[-1], b.flat[-1] = np.inf, np.nan
    return [np.ascontiguousarray(each.T) if turn else each for each, turn in zip((a, b), turned, strict=True)]


@pytest.mark.every(3)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("which", WAYS, ids=WAYS)
@pytest.mark.parametrize("sizes", [(1, 64, 96), (16, 96, 517), (64, 160, 392), (300, 75, 130)], ids=str)
def test_bits(sizes: tuple[int, int, int], which: str, target: CpuTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed before and on the way, whole panels and parts, along memory and across it."""
    emulate(monkeypatch)
    rounded, turned = WAYS[which]
    arrays = operands_of(sizes, turned)
    narrow = [array.astype(BF16) for array in arrays]
    mixed = [wide if rounds else short for wide, short, rounds in zip(arrays, narrow, rounded, strict=True)]
    before = compile_kernel(product_of(sizes, (False, False), turned), target).run(narrow, 1)[0]
    kernel = compile_kernel(product_of(sizes, rounded, turned), replace(target, shares_functions=which == "both"))
    np.testing.assert_array_equal(kernel.run(mixed, 3)[0], before)


@pytest.mark.parametrize("name", UNITS)
def test_units_round_as_they_pack(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No phase writes what has been rounded."""
    emulate(monkeypatch)
    for rounded in ((True, True), (False, True)):
        kernel = compile_kernel(product_of((64, 160, 392), rounded, (False, False)), TARGETS[name]).kernel
        assert not any("operand" in phase.symbol for phase in kernel.phases)
    without = compile_kernel(product_of((64, 160, 392), (True, True), (False, False)), AVX2).kernel
    assert sum("operand" in phase.symbol for phase in without.phases) == 2
