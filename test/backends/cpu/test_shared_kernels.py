"""Kernels of fusions whose shapes differ may have the same functions: a program has these once."""

from __future__ import annotations

import numpy as np

import stablehlo_py as shlo

RNG = np.random.default_rng(7)
SHAPES = ((40, 64), (64, 40), (80, 64))


def test_functions_that_differ_in_their_names_only_are_one() -> None:
    """Elementwise ones, in calls that each write the results of another number of elements."""
    arguments = ", ".join(f"%x{i}: tensor<{m}x{n}xf32>" for i, (m, n) in enumerate(SHAPES))
    results = ", ".join(f"tensor<{m}x{n}xf32>" for m, n in SHAPES)
    lines = [f"%y{i} = stablehlo.tanh %x{i} : tensor<{m}x{n}xf32>" for i, (m, n) in enumerate(SHAPES)]
    values = ", ".join(f"%y{i}" for i in range(len(SHAPES)))
    program = f"func.func @main({arguments}) -> ({results}) {{\n" + "\n".join(lines)
    executable = shlo.compile(f"{program}\nreturn {values} : {results}\n}}", options=shlo.Options(opt_level=1))
    kernels = executable.stages["kernels"]
    defined = [line for line in kernels.splitlines() if line.startswith("llvm.func @fusion") and line.endswith("{")]
    assert executable.stages["fused"].count("func.func private") == len(SHAPES)
    assert len(defined) < len(SHAPES)
    arrays = [RNG.standard_normal(shape).astype(np.float32) for shape in SHAPES]
    for array, result in zip(arrays, executable(*arrays), strict=True):
        np.testing.assert_allclose(np.asarray(result), np.tanh(array), rtol=1e-5)
