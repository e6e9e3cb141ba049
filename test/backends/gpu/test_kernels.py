"""Every template of the GPUs at several shapes, run on an OpenCL device, next to the CPU's kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import stablehlo_py as shlo
from stablehlo_py.backends.common.fusion import fusions
from stablehlo_py.backends.gpu.kernels import emit_kernel
from stablehlo_py.backends.gpu.target import NAMED
from stablehlo_py.codegen.emitters.gpu import SpirvEmitter
from stablehlo_py.codegen.values import F32, I32, Type, Value
from stablehlo_py.compiler import run_stages
from stablehlo_py.frontend.load import load
from stablehlo_py.mlir import ir

OPTIONS = shlo.Options(cache_dir=None, threads=1)
RANDOM = np.random.default_rng(0)


def floats(*sizes: int, dtype: str = "float32") -> np.ndarray:
    """Normally distributed numbers."""
    return RANDOM.standard_normal(sizes).astype(dtype)


@pytest.fixture(autouse=True)
def _device(real_device: object) -> None:
    """Skips where there is no device."""


def check(function: Callable[..., object], *arrays: np.ndarray, kind: str, tolerance: float = 1e-5) -> None:
    """A function of JAX gives what the CPU's program gives, the same bits in every call, by a kernel of a kind."""
    text = jax.jit(function).lower(*arrays).as_text()
    executable = shlo.compile(text, target="opencl", options=OPTIONS)
    assert kind in executable.report()
    wanted = shlo.compile(text, options=OPTIONS)(*arrays)
    first, again = executable(*arrays), executable(*arrays)
    for a, b, c in zip(first, again, wanted, strict=True):
        assert a.tobytes() == b.tobytes()
        np.testing.assert_allclose(
            a.astype(np.complex128), c.astype(np.complex128), rtol=tolerance, atol=tolerance * 30, equal_nan=True
        )


@pytest.mark.parametrize("sizes", [(1,), (7, 3), (300, 300), (5, 1, 64)])
def test_elementwise(sizes: tuple[int, ...]) -> None:
    check(lambda x, y: (jnp.exp(x) * y, x > y, jnp.flip(x, 0)), floats(*sizes), floats(*sizes), kind="loop")


@pytest.mark.parametrize("off", [-1, 0, 1])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_quotients_by_an_estimate(monkeypatch: pytest.MonkeyPatch, dtype: str, off: int) -> None:
    """Of a reciprocal that is off by an ulp: they are the same as by a division, at every argument."""

    def estimate(emitter: SpirvEmitter, name: str, operands: Sequence[Value], result: Type) -> str:
        one, ulps = Value(emitter.constant(0x3F800000, F32), F32), Value(emitter.constant(off, I32), I32)
        reciprocal = Value(emitter.binary("fdiv", one, *operands), F32)
        moved = Value(emitter.binary("add", Value(emitter.bitcast(reciprocal, I32), I32), ulps), I32)
        return emitter.bitcast(moved, F32)

    text = jax.jit(lambda x: (jnp.tanh(x), lax.erf(x))).lower(jax.ShapeDtypeStruct((1 << 16,), dtype)).as_text()
    x = np.arange(1 << 16, dtype=np.uint16).view(jnp.dtype(dtype))
    wanted = shlo.compile(text, target="opencl", options=OPTIONS)(x)
    monkeypatch.setattr(SpirvEmitter, "estimate_reciprocal", "estimate")
    monkeypatch.setattr(SpirvEmitter, "target_intrinsic", estimate)
    for found, expected in zip(shlo.compile(text, target="opencl", options=OPTIONS)(x), wanted, strict=True):
        is_number = ~np.isnan(expected)
        np.testing.assert_array_equal(found.view(np.uint16)[is_number], expected.view(np.uint16)[is_number])
        assert np.isnan(found[~is_number]).all()


@pytest.mark.parametrize("sizes", [(4, 64), (16, 1024), (256, 1024)])
def test_indices_of_several_trips(sizes: tuple[int, int]) -> None:
    """LLVM once computed indices modulo 2^9 in integers of 9 bits, which SPIR-V does not have."""
    check(lambda x: lax.associative_scan(jnp.add, x, axis=1), floats(*sizes), kind="loop", tolerance=0)


@pytest.mark.parametrize("sizes", [(3, 5), (2, 1000), (1000, 33), (1, 100_000)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64", "int32"])
def test_rows(sizes: tuple[int, int], dtype: str) -> None:
    x = (floats(*sizes) * 3).astype(dtype)
    check(
        lambda x: x - jnp.sum(x, axis=1, keepdims=True), x, kind="row", tolerance=1e-4 if dtype != "float16" else 1e-2
    )


@pytest.mark.parametrize("sizes", [(3, 5), (4, 1000), (100, 333)])
def test_two_levels_of_reductions(sizes: tuple[int, int]) -> None:
    check(lambda x: jax.nn.softmax(x, axis=1), floats(*sizes), kind="row")
    check(lambda x: (x > 2.9).any(axis=1, keepdims=True) & (x > 0), floats(*sizes), kind="row")


@pytest.mark.parametrize(
    ("sizes", "axes"),
    [
        ((3, 5), (0,)),
        ((1000, 7), (0,)),
        ((5, 33, 40), (0, 1)),
        ((5, 33, 40), (0, 2)),
        ((70_000, 3), (0,)),
        ((3, 70_000), (1,)),
        ((300_000,), (0,)),
        ((513, 257), (0,)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bool", "complex64"])
def test_columns_and_long_rows(sizes: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> None:
    x = floats(*sizes)
    trailing = axes == tuple(range(len(sizes)))[-len(axes) :]
    kind = "row" if trailing else "column"  # few long rows are the work of the template of columns
    if dtype == "bool":
        check(lambda x: jnp.any(x > 2.9, axis=axes), x, kind=kind)
    else:
        check(lambda x: jnp.sum(x, axis=axes) * 2, x.astype(dtype), kind=kind, tolerance=1e-4)


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 64), (100, 70, 33), (33, 65, 9), (17, 500, 40), (512, 512, 128)])
def test_products(m: int, n: int, k: int) -> None:
    a, b, bias = floats(m, k), floats(k, n), floats(n)
    check(lambda a, b, bias: jax.nn.relu(a @ b + bias), a, b, bias, kind="dot")
    check(lambda a, b: b.T @ a.T, a, b, kind="dot")
    check(lambda a, b: (a @ b).astype("bfloat16"), a.astype("float16"), b.astype("float16"), kind="dot", tolerance=1e-2)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 5000), (1, 300, 64), (3, 70, 200), (4096, 1, 70), (1, 33, 4096)])
def test_products_of_few_rows(m: int, n: int, k: int) -> None:
    a, b = floats(m, k), floats(k, n)
    check(lambda a, b: jnp.exp(a @ b * 0.01), a, b, kind="dot")
    check(lambda a, b: a @ b.T, a, floats(n, k), kind="dot")
    check(lambda a, b: a @ b, a.astype("bfloat16"), b.astype("bfloat16"), kind="dot", tolerance=1e-2)


# Rows in one group and in several, which may share their last ones; neighbours of 16 bytes, of fewer, and none.
@pytest.mark.every(2)
@pytest.mark.parametrize(("rows", "long", "depth"), [(2, 256, 128), (7, 100, 96), (9, 130, 65), (20, 24, 640)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_narrow_products(rows: int, long: int, depth: int, dtype: str) -> None:
    few, right, left = ((3 * floats(*sizes)).astype(dtype) for sizes in ((rows, depth), (depth, long), (long, depth)))
    more = floats(rows, long).astype(dtype)

    def product(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.matmul(a, b, preferred_element_type="int32" if dtype == "int8" else None)

    close = 3e-2 if dtype == "bfloat16" else 1e-4
    check(lambda a, b, c: product(a, b) + c * 2, few, right, more, kind="dot", tolerance=close)
    check(lambda a, b: product(a, b.T), few, left, kind="dot", tolerance=close)
    check(lambda a, b: product(b, a.T), few, left, kind="dot", tolerance=close)
    check(lambda a, b: product(b.T, a.T * 2), few, right, kind="dot", tolerance=close)


def test_few_results_with_very_long_sums_have_several_blocks_each() -> None:
    """As gradients of small filters."""
    a, b = floats(9, 1 << 15), floats(1 << 15, 5)
    module = load(jax.jit(jnp.matmul).lower(a, b).as_text(), isolate=False)
    with module.context, ir.Location.unknown():
        run_stages(module, "", "scheduled", OPTIONS, target="cuda")
        (function,) = fusions(module)
        first, second = emit_kernel(function, NAMED["sm_90"]).launches
    assert first.blocks >= 64 and second.blocks == 1
    check(jnp.matmul, a, b, kind="dot", tolerance=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_a_product_of_vectors(dtype: str) -> None:
    """Its result has no dimension."""
    a, b = (3 * floats(300)).astype(dtype), (3 * floats(300)).astype(dtype)
    check(
        lambda a, b: jnp.dot(a, b, preferred_element_type="int32" if dtype == "int8" else "float32"), a, b, kind="dot"
    )


def test_batches_of_narrow_products() -> None:
    a, b = floats(3, 2, 5, 80), floats(3, 2, 80, 40)
    check(lambda a, b: a @ b, a, b, kind="dot", tolerance=1e-4)
    check(lambda a, b: jnp.exp(a) @ b.astype("float32"), a[:, :, :1], b.astype("bfloat16"), kind="dot", tolerance=1e-4)


def test_many_small_products_are_in_tiles() -> None:
    """A thread for a result would read what lies far from what its neighbours read."""
    a, b = floats(130, 17, 32), floats(130, 20, 32)
    check(lambda a, b: jnp.einsum("bij,bkj->bik", a, b), a, b, kind="dot", tolerance=1e-4)
    text = jax.jit(lambda a, b: jnp.einsum("bij,bkj->bik", a, b)).lower(a, b).as_text()
    assert "scalar 32x32x32" in str(shlo.compile(text, target="opencl", options=OPTIONS).stages["plans"])


def test_an_epilogue_over_its_operand() -> None:
    """A donated argument whose place the result takes: each element is read once, before it is written."""
    a, b, c = floats(9, 64), floats(64, 100), floats(9, 100)
    text = jax.jit(lambda a, b, c: a @ b + c, donate_argnums=2).lower(a, b, c).as_text()
    (found,) = shlo.compile(text, target="opencl", options=OPTIONS)(a, b, c.copy())
    np.testing.assert_allclose(found, a @ b + c, rtol=1e-4, atol=1e-4)


CONVOLUTIONS = {
    "strided": {"window_strides": (2, 1)},
    "dilated": {"rhs_dilation": (2, 2), "padding": "VALID"},
    "transposed": {"lhs_dilation": (2, 2), "padding": [(1, 1), (2, 0)]},
    "groups": {"feature_group_count": 2},
    "batch-groups": {"batch_group_count": 2},
    "depthwise": {"feature_group_count": 32},
}


@pytest.mark.parametrize("layout", [("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")], ids=lambda each: each[0])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str, layout: tuple[str, str, str]) -> None:
    options: dict[str, Any] = {"window_strides": (1, 1), "padding": "SAME"} | CONVOLUTIONS[name]
    features = 32 // options.get("feature_group_count", 1)
    sizes = {"N": 2, "C": 32, "H": 9, "W": 10}, {"O": 64, "I": features, "H": 3, "W": 3}
    x, kernel = (floats(*(of[d] for d in dims)) for of, dims in zip(sizes, layout, strict=False))

    def convolved(x: jax.Array, kernel: jax.Array) -> jax.Array:
        return jnp.tanh(lax.conv_general_dilated(x * 2, kernel, dimension_numbers=layout, **options) * 0.1)

    check(convolved, x, kernel, kind="convolution")


def test_gradients_of_convolutions() -> None:
    """The kernel turned around, holes in the input, windows as large as the input."""

    def loss(x: jax.Array, kernel: jax.Array) -> jax.Array:
        return (lax.conv(x, kernel, (2, 2), "SAME") ** 2).sum()

    check(jax.grad(loss, (0, 1)), floats(2, 16, 9, 10), floats(32, 16, 3, 3), kind="convolution", tolerance=1e-4)


def test_long_transforms() -> None:
    """Their tables are longer than one constant of SPIR-V."""
    check(lambda x: jnp.fft.fft(x) * 0.01, floats(1 << 16).astype("complex64"), kind="fft", tolerance=1e-4)


def test_batches_of_products_of_views() -> None:
    a, b = floats(3, 4, 40, 16), floats(3, 50, 4, 16)
    check(lambda a, b: jnp.einsum("bhqd,bkhd->bhqk", a, b) * 0.5, a, b, kind="dot")
    check(lambda a, b: jnp.einsum("bhqd,bkhd->bhqk", a, b), a.astype("int32"), b.astype("int32"), kind="dot")
