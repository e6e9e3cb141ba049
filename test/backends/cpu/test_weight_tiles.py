"""Constant weights that lie as tiles of AMX: products read them without packing, and give the same bits."""

from __future__ import annotations

import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from dots import types_of
from emulated_tiles import EMULATED, EMULATED_DOTS, emulate
from one_kernel import build_fusion, compile_kernel

import stablehlo_py as shlo
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.compiler import run_stages
from stablehlo_py.dialect import build
from stablehlo_py.dialect.types import shape
from stablehlo_py.mlir import ir
from stablehlo_py.options import CPUS

BYTES, FLOATS = np.dtype(np.int8), np.dtype(ml_dtypes.bfloat16)
Body = Callable[[ir.Value, ir.Value], ir.Value]


def arrays_of(rows: int, depth: int, columns: int, dtype: np.dtype) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.integers(-128, 128, sizes).astype(dtype) for sizes in ((rows, depth), (depth, columns))]


def tiled(array: np.ndarray) -> np.ndarray:
    group = 4 // array.dtype.itemsize
    depth, columns = array.shape
    split = array.reshape(depth // (16 * group), 16, group, columns // 32, 2, 16)
    return np.ascontiguousarray(split.transpose(3, 0, 4, 1, 5, 2))


def product(lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    """The dot of a matrix and another, which may be tiled."""
    if len(shape(rhs)) == 6:
        panels, steps, _, _, _, group = shape(rhs)
        turned = build.transpose(rhs, (1, 3, 5, 0, 2, 4))
        rhs = build.reshape(turned, (steps * 16 * group, panels * 32))
    sums = ir.Type.parse("f32" if isinstance(lhs.type.element_type, ir.BF16Type) else "i32")
    sizes = (shape(lhs)[0], shape(rhs)[1])
    numbers = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,)}
    return build.value("dot", build.tensor(sizes, sums), lhs, rhs, **numbers)


def by_heads(width: int) -> Body:
    """The product with its columns as heads, the first dimension of the result."""

    def body(lhs: ir.Value, rhs: ir.Value) -> ir.Value:
        sums = product(lhs, rhs)
        rows, columns = shape(sums)
        return build.transpose(build.reshape(sums, (rows, columns // width, width)), (1, 0, 2))

    return body


@pytest.mark.every(3)
@pytest.mark.parametrize("sizes", [(128, 256, 96), (37, 128, 64), (5, 512, 256), (160, 2304, 64)], ids=str)
@pytest.mark.parametrize(
    ("body", "in_place"),
    [(product, True), (by_heads(32), True), (by_heads(16), False)],
    ids=["plain", "whole panels", "halves of panels"],
)
@pytest.mark.parametrize("target", [EMULATED, EMULATED_DOTS], ids=["tiles", "dots"])
@pytest.mark.parametrize("dtype", [BYTES, FLOATS], ids=str)
def test_the_same_bits_without_packing(
    dtype: np.dtype,
    target: CpuTarget,
    body: Body,
    in_place: bool,
    sizes: tuple[int, int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    emulate(monkeypatch)
    lhs, rhs = arrays_of(*sizes, dtype)
    lhs = (lhs.astype(np.float32) / 128).astype(dtype) if dtype == FLOATS else lhs
    results = []
    for operands in ([lhs, rhs], [lhs, tiled(rhs)]):
        compiled = compile_kernel(build_fusion("dot", types_of(operands), body), target)
        results += [compiled.run(operands)[0], compiled.run(operands, 3)[0]]
    phases = [phase.symbol for phase in compiled.kernel.phases]
    assert any(name.endswith("pack_b") or "operand" in name for name in phases) != in_place
    expected = lhs.astype(np.float64) @ rhs.astype(np.float64)
    if body is not product:
        expected = expected.reshape(sizes[0], -1, results[0].shape[2]).transpose(1, 0, 2)
    for result in results:
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-3)
    assert all(result.tobytes() == results[2].tobytes() for result in results[2:])
    if in_place and sizes[0] >= 16:
        assert results[0].tobytes() == results[2].tobytes()


@pytest.mark.parametrize(
    ("dtype", "cpus"),
    [(BYTES, ("amx", "znver4", "avx512bf16", "avx512vnni", "avxvnni")), (FLOATS, ("amx", "znver4", "avx512bf16"))],
    ids=["bytes", "floats"],
)
def test_only_cpus_with_units_store_them_so(dtype: np.dtype, cpus: tuple[str, ...]) -> None:
    _, weights = arrays_of(16, 128, 64, dtype)
    result = jnp.int32 if dtype == BYTES else jnp.float32

    def function(x: jax.Array) -> jax.Array:
        return jnp.matmul(x, weights, preferred_element_type=result)

    text = jax.jit(function).lower(np.zeros((16, 128), dtype)).as_text()
    stored = []
    for cpu in CPUS:
        module = run_stages(shlo.load(text), "", "fused", shlo.Options(cpu=cpu))
        if re.search(r"hlo.constant.*tensor<\dx\dx2x16x16x[24]x", str(module)):
            stored.append(cpu)
    assert tuple(stored) == cpus
