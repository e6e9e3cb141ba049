"""Operands whose contracted axis is the contiguous one: one function of a program makes their panels, whatever sizes
and strides are, with the bits of kernels that do it themselves."""

from __future__ import annotations

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from one_kernel import build_fusion, compile_kernel, here

import stablehlo_py as shlo
from stablehlo_py.backends.cpu.target import AVX2, AVX512, BASELINE, CpuTarget
from stablehlo_py.dialect import build
from stablehlo_py.mlir import ir

RNG = np.random.default_rng(5)
DTYPES = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "i1": np.bool_}


def product_of(m: int, n: int, k: int, element: str) -> str:
    def body(x: ir.Value, y: ir.Value) -> ir.Value:
        axes = {"lhs_batch": [], "rhs_batch": [], "lhs_contract": [1], "rhs_contract": [1]}
        return build.value("dot", build.tensor((m, n), x.type.element_type), x, y, **axes)

    return build_fusion("dot", [f"tensor<{m}x{k}x{element}>", f"tensor<{n}x{k}x{element}>"], body)


@pytest.mark.every(2)
@pytest.mark.parametrize("target", here(AVX512, AVX2, BASELINE), ids=lambda target: target.name)
@pytest.mark.parametrize("element", list(DTYPES))
@pytest.mark.parametrize("sizes", [(65, 33, 16), (400, 48, 1100), (30, 64, 7)], ids=str)
def test_bits(sizes: tuple[int, int, int], element: str, target: CpuTarget) -> None:
    m, n, k = sizes
    arrays = [(3 * RNG.standard_normal(shape)).astype(DTYPES[element]) for shape in ((m, k), (n, k))]
    text = product_of(m, n, k, element)
    own, calls = (
        compile_kernel(text, replace(target, shares_functions=shares)).run(arrays, 1)[0].tobytes()
        for shares in (False, True)
    )
    assert own == calls


def test_a_program_has_the_code_once() -> None:
    """For products of several sizes."""
    x, weights, last, lines = 96, [80, 112, 64], "x", []
    for i, (a, b) in enumerate(zip([x, *weights], weights, strict=False)):
        lines += [
            f"%d{i} = stablehlo.dot_general %{last}, %w{i}, contracting_dims = [1] x [1] : "
            f"(tensor<60x{a}xf32>, tensor<{b}x{a}xf32>) -> tensor<60x{b}xf32>",
            f"%t{i} = stablehlo.tanh %d{i} : tensor<60x{b}xf32>",
        ]
        last = f"t{i}"
    arguments = [f"%w{i}: tensor<{b}x{a}xf32>" for i, (a, b) in enumerate(zip([x, *weights], weights, strict=False))]
    result = f"tensor<60x{weights[-1]}xf32>"
    body = "\n".join([*lines, f"return %{last} : {result}"])
    program = f"func.func @main(%x: tensor<60x{x}xf32>, {', '.join(arguments)}) -> {result} {{\n{body}\n}}"
    kernels = shlo.compile(program).stages["kernels"]
    panels = re.findall(r"^llvm.func @(shlo_panel\w*).*\{$", kernels, re.MULTILINE)
    assert len(panels) == 1
    assert kernels.count(f"llvm.call @{panels[0]}(") >= len(weights)
