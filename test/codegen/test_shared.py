"""Code that rarely runs is in functions that the kernels of a program share: it gives the same bits there."""

from __future__ import annotations

import re

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.backends.cpu.target import NAMED
from stablehlo_py.codegen.builder import F32, F64, PTR, Function, vector
from stablehlo_py.codegen.math import trigonometric

_SIZES = (1, 5, 40, 4096)  # scalars, masked and whole vectors, loops


def _angles(count: int, dtype: type[np.floating]) -> np.ndarray:
    """Of all sizes, so that every way of reducing them is taken, in vectors whose other lanes take another one."""
    rng = np.random.default_rng(3)
    exponents = rng.uniform(-10.0, float(np.finfo(dtype).maxexp) - 2.0, count)
    exponents[::3] = rng.uniform(-2.0, 10.0, len(exponents[::3]))
    angles = np.exp2(exponents).astype(dtype) * rng.choice([-1.0, 1.0], count).astype(dtype)
    angles[1::7] = np.inf
    return angles


def _program(element: str) -> shlo.Executable:
    types = [f"tensor<{size}x{element}>" for size in _SIZES]
    arguments = ", ".join(f"%x{i}: {type_}" for i, type_ in enumerate(types))
    lines = [
        line
        for i, type_ in enumerate(types)
        for line in (
            f"%s{i} = stablehlo.sine %x{i} : {type_}",
            f"%c{i} = stablehlo.cosine %x{i} : {type_}",
            f"%t{i} = stablehlo.tan %x{i} : {type_}",
        )
    ]
    values = [f"%{name}{i}" for i in range(len(types)) for name in "sct"]
    results = ", ".join(type_ for type_ in types for _ in range(3))
    body = "\n".join([*lines, f"return {', '.join(values)} : {results}"])
    return shlo.compile(
        f"func.func @main({arguments}) -> ({results}) {{\n{body}\n}}", options=shlo.Options(opt_level=1)
    )


@pytest.mark.parametrize(("element", "dtype"), [("f32", np.float32), ("f64", np.float64)])
def test_angles_have_the_same_bits_in_every_kernel(element: str, dtype: type[np.floating]) -> None:
    """A kernel of one element has the code as scalars, others call functions: for vectors, and for what is left."""
    executable = _program(element)
    angles = _angles(max(_SIZES), dtype)
    found = [np.asarray(result) for result in executable(*(angles[:size] for size in _SIZES))]
    for function in range(3):
        whole = found[3 * len(_SIZES) - 3 + function]
        for number, size in enumerate(_SIZES):
            np.testing.assert_array_equal(found[3 * number + function], whole[:size])
    finite = np.isfinite(angles)
    assert np.isnan(found[-3][~finite]).all()
    if dtype is np.float32:
        np.testing.assert_allclose(found[-3][finite], np.sin(angles[finite].astype(np.float64)), rtol=3e-7, atol=1e-40)
    kernels = executable.stages["kernels"]
    assert len(re.findall(rf"@shlo_angle_\d+x{element}\(", kernels)) > 1
    defined = [line.partition("(")[0] for line in kernels.splitlines() if line.endswith("{") and "@shlo_angle" in line]
    assert len(defined) == len(set(defined))


@pytest.mark.parametrize("element", [F32, F64])
def test_kernels_that_share_it_are_short(element: object) -> None:
    """Without such functions, half of the code of a sine is for huge angles."""

    def length(*, shares: bool) -> int:
        target = NAMED["avx512"]
        f = Function("f", [("x", PTR)], target.emitter())
        f.common = {} if shares else None
        type_ = vector(target.lanes(element.bits), element)  # type: ignore[attr-defined,arg-type]
        f.store(trigonometric.sin(f, f.load(type_, f.x)), f.x)
        return f.length

    assert length(shares=True) < 0.5 * length(shares=False)
