"""Every template makes machine code for every machine: a fusion of each kind, in all kinds of elements."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from device_kernels import device_kernels
from jax import lax

from stablehlo_py.backends.common.fusion import fusions
from stablehlo_py.backends.common.llvm_ir import llvm_ir
from stablehlo_py.backends.cpu.kernels import KINDS
from stablehlo_py.backends.gpu.compile import _text
from stablehlo_py.backends.gpu.machine_code import machine_code
from stablehlo_py.backends.gpu.ptx import assemble, find_tool
from stablehlo_py.backends.gpu.target import AMDGCN, NAMED, NVPTX64, OPENCL, GpuTarget
from stablehlo_py.backends.gpu.usage import of_object, of_ptxas
from stablehlo_py.compiler import run_stages
from stablehlo_py.dialect.attributes import FUSION
from stablehlo_py.dialect.ops.grid import TRANSFERS
from stablehlo_py.frontend.load import load

Case = tuple[Any, ...]  # the function, then sizes and elements of each argument
# Kinds that wait for others, call functions of the host, or that no policy of a GPU forms; templates of custom calls.
ELSEWHERE = {*TRANSFERS, "exchange", "random_state", "custom_call", "straight_line", "straight_line_loop"}
ELSEWHERE |= {"batched_loop", "sparse_product", "tridiagonal_perturbed"}

NVIDIA = [target for target in NAMED.values() if target.architecture is NVPTX64]


def _gradient_of_attention(q: jax.Array, k: jax.Array) -> object:
    return jax.grad(lambda q, k: (jax.nn.softmax(q @ k.T) @ k).sum(), (0, 1))(q, k)


def _products(x: jax.Array) -> object:
    """Of two operands: complex products, so the combiner is none of the simple ones."""

    def product(a: tuple[jax.Array, ...], b: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]

    return lax.reduce((x, x + 1), (jnp.float32(1), jnp.float32(0)), product, (1,))


def _windows(x: jax.Array) -> object:
    """Of two operands, with a combiner that is none of the simple ones."""

    def larger(a: tuple[jax.Array, ...], b: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        first = a[0] > b[0]
        return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])

    return lax.reduce_window((x, x * 2), (jnp.float32(0), jnp.float32(1)), larger, (2, 3), (1, 2), "VALID")


def _pool_gradient(x: jax.Array) -> object:
    def pooled(x: jax.Array) -> jax.Array:
        return lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID").sum()

    return jax.grad(pooled)(x)


def _bits(state: jax.Array) -> object:
    return lax.rng_bit_generator(state, (5, 7), algorithm=lax.RandomAlgorithm.RNG_PHILOX)


HALF = (200, 64), (64, 300)
F, SQUARE = ((12, 40), "f4"), ((3, 9, 9), "f4")
CASES: dict[str, Case] = {
    "loop": (lambda x, y: jnp.tanh(x) + y.T[::-1], F, ((40, 12), "f4")),
    "loop-f16": (lambda x: jnp.exp(x) * 2, ((9,), "f2")),
    "loop-bf16": (lambda x: jnp.maximum(x.astype(jnp.bfloat16), 0) + jnp.bfloat16(1), F),
    "loop-f8": (lambda x: x.astype(jnp.float8_e4m3fn).astype(jnp.float32), F),
    "loop-f64": (lambda x: jnp.power(x, jnp.sin(x)), ((9,), "f8")),
    "loop-c64": (lambda x: jnp.exp(x) / (x + 1), ((9,), "c8")),
    "loop-i8": (lambda x, y: (x + y) // 3, ((9,), "i1"), ((9,), "i1")),
    "loop-i64": (lambda x: lax.population_count(x) * lax.clz(x) % 7, ((9,), "i8")),
    "loop-bool": (lambda x, y: jnp.where(x, y, ~x & y), ((9,), "?"), ((9,), "?")),
    "gather": (lambda x, i: x[i], F, ((5,), "i4")),
    "row": (jax.nn.softmax, F),
    "row-bf16": (lambda x: x.astype(jnp.bfloat16).sum(1), F),
    "row-c64": (lambda x: x.sum(1), ((5, 33), "c8")),
    "row-bool": (lambda x: x.any(1), ((5, 33), "?")),
    "attention": (lambda q, k: jax.nn.softmax(q @ k.T) @ k, F, ((50, 40), "f4")),
    "attention-f16": (lambda q, k: jax.nn.softmax(q @ k.T) @ k, ((70, 16), "f2"), ((80, 16), "f2")),
    "attention-f64": (lambda q, k: jax.nn.softmax(q @ k.T) @ k, ((5, 40), "f8"), ((50, 40), "f8")),
    "scores": (_gradient_of_attention, F, ((50, 40), "f4")),
    "column": (lambda x: x.sum(0), F),
    "column-f16": (lambda x: x.max(0), ((70, 5), "f2")),
    "dot": (lambda x, y: jax.nn.relu(x @ y), F, ((40, 6), "f4")),
    "dot-bf16": (lambda x, y: x.astype(jnp.bfloat16) @ y.astype(jnp.bfloat16), F, ((40, 6), "f4")),
    "dot-tiles": (lambda x, y: jax.nn.relu(x @ y), ((70, 40), "f4"), ((40, 52), "f4")),
    "dot-tiles-f64": (lambda x, y: x @ y.T, ((70, 40), "f8"), ((52, 40), "f8")),
    "dot-tiles-bf16": (lambda x, y: jnp.tanh(x @ y), (HALF[0], jnp.bfloat16), (HALF[1], jnp.bfloat16)),
    "dot-tiles-f16": (lambda x, y: x.T @ y.T, ((64, 200), "f2"), ((72, 64), "f2")),
    "dot-split": (lambda x, y: jax.nn.relu(x @ y), ((40, 1030), "f4"), ((1030, 40), "f4")),
    "dot-split-bf16": (lambda x, y: x @ y, ((40, 2048), jnp.bfloat16), ((2048, 72), jnp.bfloat16)),
    "dot-i8": (lambda x, y: lax.dot(x, y, preferred_element_type=jnp.int32), ((4, 9), "i1"), ((9, 5), "i1")),
    "dot-c64": (jnp.matmul, ((4, 9), "c8"), ((9, 5), "c8")),
    "convolution": (
        lambda x, w: lax.conv_general_dilated(x, w, (2, 2), "SAME"),
        ((1, 3, 8, 8), "f4"),
        ((4, 3, 3, 3), "f4"),
    ),
    "in_place_update": (lambda x, y, i: lax.dynamic_update_slice(x + 1, y, (i, i)), F, ((2, 40), "f4"), ((), "i4")),
    "reduce_general": (_products, F),
    "reduce_window": (lambda x: jnp.cumsum(x, 1), F),
    "reduce_window-2": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (3, 3), (1, 1), "SAME"), F),
    "reduce_window_general": (_windows, F),
    "select_and_scatter": (_pool_gradient, F),
    "scatter": (lambda x, i, y: x.at[i].add(y), F, ((5,), "i4"), ((5, 40), "f4")),
    "sort": (lambda x: jnp.sort(x, 0), F),
    "sort-2": (lambda x, y: lax.sort((x, y), num_keys=2), F, ((12, 40), "i4")),
    "top_k": (lambda x: lax.top_k(x, 3), F),
    "fft": (jnp.fft.fft, ((3, 12), "c8")),
    "fft-real": (lambda x: jnp.fft.irfft(jnp.fft.rfft(x)), ((3, 14), "f4")),
    "fft-f64": (jnp.fft.fft, ((2, 7), "c16")),
    "rng_bit_generator": (_bits, ((2,), "u8")),
    "cholesky": (lambda x: lax.linalg.cholesky(x, symmetrize_input=False), SQUARE),
    "triangular_solve": (lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True), SQUARE, SQUARE),
}


def test_roundings_to_bf16_are_an_instruction() -> None:
    ptx = made("loop-bf16", NAMED["sm_90"])[1].decode()
    assert "cvt.rn.bf16x2.f32" in ptx
    assert "0x7FFF" not in ptx and "32767" not in ptx


@cache
def module(name: str) -> object:
    """A case, scheduled: by the policy that all GPUs have."""
    function, *arguments = CASES[name]
    with jax.enable_x64(True):
        specs = [jax.ShapeDtypeStruct(sizes, np.dtype(dtype)) for sizes, dtype in arguments]
        exported = jax.export.export(jax.jit(function))(*specs)
    return run_stages(load(exported), "", "scheduled", target="opencl")


@cache
def made(name: str, target: GpuTarget) -> tuple[list[str], bytes]:
    """Names of the kernels of a case, and their code."""
    kernels = device_kernels(module(name), target)
    symbols = [launch.symbol for kernel in kernels.values() for launch in kernel.launches]
    assert symbols
    return symbols, machine_code(llvm_ir(_text(kernels), target.architecture), target)


@pytest.mark.every(3)
@pytest.mark.parametrize("target", [OPENCL, *NAMED.values()], ids=lambda target: target.name)
@pytest.mark.parametrize("name", CASES)
def test_machine_code(name: str, target: GpuTarget) -> None:
    """SPIR-V, PTX, and code of AMD with what its kernels take."""
    symbols, code = made(name, target)
    assert all(symbol.encode() in code for symbol in symbols)
    if target.architecture is AMDGCN:
        usage = of_object(code)
        assert sorted(usage) == sorted(symbols)
        assert all(0 < each.registers <= 512 and 0 < each.scalars <= 128 for each in usage.values())
        assert all(each.shared <= target.shared_bytes for each in usage.values())


@pytest.mark.every(4)
@pytest.mark.skipif(not find_tool("ptxas"), reason="ptxas is not installed")
@pytest.mark.parametrize("target", NVIDIA, ids=lambda target: target.name)
@pytest.mark.parametrize("name", CASES)
def test_ptxas_accepts(name: str, target: GpuTarget) -> None:
    symbols, code = made(name, target)
    binary, report = assemble(code, target.name)
    usage = of_ptxas(report)
    assert binary.startswith(b"\x7fELF") and sorted(usage) == sorted(symbols)
    assert all(0 < each.registers <= target.registers and each.shared <= target.shared_bytes for each in usage.values())


def test_every_kind_has_a_case() -> None:
    seen = {function.attributes[FUSION].value for name in CASES for function in fusions(module(name))}
    assert set(KINDS) - ELSEWHERE - seen == set(), "kinds without a case"
    assert not seen & ELSEWHERE
