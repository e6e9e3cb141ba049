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


def test_solves_of_whole_groups_of_rows_are_one() -> None:
    """Blocks of a factorization: x a^-T for more and more rows."""
    sizes = (64, 128, 256)
    arguments = ", ".join(f"%x{i}: tensor<{rows}x32xf32>" for i, rows in enumerate(sizes))
    results = ", ".join(f"tensor<{rows}x32xf32>" for rows in sizes)
    lines = [
        f'%y{i} = "stablehlo.triangular_solve"(%a, %x{i}) {{left_side = false, lower = true, unit_diagonal = false, '
        f"transpose_a = #stablehlo<transpose TRANSPOSE>}} : (tensor<32x32xf32>, tensor<{rows}x32xf32>) "
        f"-> tensor<{rows}x32xf32>"
        for i, rows in enumerate(sizes)
    ]
    values = ", ".join(f"%y{i}" for i in range(len(sizes)))
    program = f"func.func @main(%a: tensor<32x32xf32>, {arguments}) -> ({results}) {{\n" + "\n".join(lines)
    executable = shlo.compile(f"{program}\nreturn {values} : {results}\n}}", options=shlo.Options(opt_level=1))
    kernels = executable.stages["kernels"]
    assert sum(line.startswith("llvm.func @fusion") and line.endswith("{") for line in kernels.splitlines()) == 1
    a = (np.tril(RNG.standard_normal((32, 32))) * 0.1 + np.eye(32)).astype(np.float32)
    arrays = [RNG.standard_normal((rows, 32)).astype(np.float32) for rows in sizes]
    for array, result in zip(arrays, executable(a, *arrays), strict=True):
        np.testing.assert_allclose(np.asarray(result) @ a.T, array, rtol=1e-3, atol=1e-4)
