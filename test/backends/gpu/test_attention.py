"""Attention as one kernel, run on an OpenCL device, next to the CPU's kernels, which compute it op by op."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_functions import SCORES, attend, divided_late, written_out
from device_kernels import device_text
from flax import linen

import stablehlo_py as shlo
from stablehlo_py.backends.gpu.backend import OpenClBackend
from stablehlo_py.backends.gpu.target import OPENCL, SM_90
from stablehlo_py.codegen.matrix_units import MATRIX_UNITS
from stablehlo_py.compiler import run_stages

OPTIONS = shlo.Options(cache_dir=None, threads=1)
RANDOM = np.random.default_rng(0)
# Of results of about 1: weights have the absolute errors of scores, of which some are about 10.
TOLERANCES = {"float64": 1e-13, "float32": 5e-6, "bfloat16": 1e-2, "float16": 2e-3}


@pytest.fixture(autouse=True)
def _device(real_device: object) -> None:
    """Skips where there is no device."""


def floats(*sizes: int, dtype: str = "float32") -> np.ndarray:
    """Normally distributed numbers."""
    return RANDOM.standard_normal(sizes).astype(jnp.dtype(dtype))


def check(function: Callable[..., Any], *arrays: np.ndarray, others: int = 0) -> None:
    """A function of JAX becomes one kernel, attention, besides so many others, and gives what the CPU's program gives,
    the same bits in every call. NaN where that has NaN."""
    text = jax.jit(function).lower(*arrays).as_text()
    executable = shlo.compile(text, target="opencl", options=OPTIONS)
    report = executable.report().splitlines()[0]
    assert f"{others + 1} distinct" in report and "1 attention" in report, report
    (first,), (again,), (wanted,) = (
        executable(*arrays),
        executable(*arrays),
        shlo.compile(text, options=OPTIONS)(*arrays),
    )
    assert first.tobytes() == again.tobytes()
    # Of bfloat16 and a result of float32, too, the scores are bfloat16's: another order of a sum rounds some otherwise.
    tolerance = max(TOLERANCES.get(str(array.dtype), 0) for array in (*arrays, wanted))
    np.testing.assert_allclose(first.astype("f8"), wanted.astype("f8"), rtol=tolerance, atol=tolerance)


MMA = tuple(name for name in MATRIX_UNITS if name.startswith("mma"))


@pytest.fixture
def matrix_units(monkeypatch: pytest.MonkeyPatch, exchanged_through_memory: None) -> None:
    """Kernels for NVIDIA's units, which exchange registers instead."""
    target = replace(OPENCL, matrix_units=MMA, shared_bytes=96 << 10)
    monkeypatch.setattr(OpenClBackend, "target", lambda self, options: target)


@pytest.mark.every(2)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("queries", "keys", "depth"), [(64, 64, 16), (100, 100, 40), (17, 200, 64), (130, 33, 128), (64, 70, 256)]
)
def test_lengths_and_depths(queries: int, keys: int, depth: int, causal: bool) -> None:
    q, k, v = floats(2, queries, 3, depth), floats(2, keys, 3, depth), floats(2, keys, 3, depth)
    check(lambda q, k, v: attend(q, k, v, is_causal=causal), q, k, v)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_types_of_16_bits(dtype: str) -> None:
    q, k, v = (floats(2, 70, 4, 32, dtype=dtype) for _ in range(3))
    if dtype == "bfloat16":  # JAX's function lowers float16 for GPUs only
        check(lambda q, k, v: attend(q, k, v, is_causal=True), q, k, v)
    q, k, v = (floats(2, 4, 70, 32, dtype=dtype) for _ in range(3))
    check(written_out, q, k, v)  # softmax in this type, too


def test_float64() -> None:
    with jax.enable_x64(True):
        check(written_out, *(floats(2, 70, 40, dtype="float64") for _ in range(3)))


@pytest.mark.parametrize("heads", [1, 2, 8])
@pytest.mark.parametrize("queries", [1, 70])
def test_fewer_heads_of_keys(heads: int, queries: int) -> None:
    q, k, v = floats(2, queries, 8, 32), floats(2, 300, heads, 32), floats(2, 300, heads, 32)
    check(attend, q, k, v)
    if heads < 8:  # repeated: read where they lie
        repeats = 8 // heads
        check(lambda q, k, v: attend(q, jnp.repeat(k, repeats, 2), jnp.repeat(v, repeats, 2)), q, k, v)


def test_masks_and_biases() -> None:
    q, k, v = (floats(2, 70, 4, 32) for _ in range(3))
    mask, bias = RANDOM.random((2, 1, 70, 70)) > 0.4, floats(1, 4, 70, 70)
    check(lambda q, k, v, mask: attend(q, k, v, mask=mask), q, k, v, mask)
    check(lambda q, k, v, bias: attend(q, k, v, bias=bias, is_causal=True), q, k, v, bias)
    check(lambda q, k, v, bias: attend(q, k, v, bias=bias, local_window_size=(9, 3)), q, k, v, bias)
    lengths = np.array([50, 7], np.int32)
    check(lambda q, k, v, n: attend(q, k, v, key_value_seq_lengths=n), q, k, v, lengths)
    mask = RANDOM.random((2, 1, 1, 70)) > 0.4
    check(lambda q, k, v, mask: linen.dot_product_attention(q, k, v, mask=mask), q, k, v, mask, others=1)


QUERIES, KEYS, LENGTHS = (2, 40, 4, 16), (2, 70, 2, 16), jax.ShapeDtypeStruct((2,), jnp.int32)
FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "scale": {"scale": 2.0},
    "bias": {"bias": jax.ShapeDtypeStruct((1, 4, 40, 70), jnp.bfloat16)},
    "mask": {"mask": jax.ShapeDtypeStruct((2, 1, 40, 70), jnp.bool_)},
    "causal": {"is_causal": True},
    "window": {"local_window_size": 7},
    "causal window": {"local_window_size": (7, 0), "is_causal": True},
    "lengths of queries": {"query_seq_lengths": LENGTHS},
    "lengths of keys": {"key_value_seq_lengths": LENGTHS},
    "lengths, causal": {"query_seq_lengths": LENGTHS, "key_value_seq_lengths": LENGTHS, "is_causal": True},
    "with the logarithms of the sums": {"return_residual": True},
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_jax(name: str) -> None:
    """All are one kernel, but that which returns the sums, too; keys have half as many heads as queries."""
    arrays = {key: each for key, each in FORMS[name].items() if isinstance(each, jax.ShapeDtypeStruct)}
    options = {key: each for key, each in FORMS[name].items() if key not in arrays}
    q, k, v = (jax.ShapeDtypeStruct(sizes, jnp.bfloat16) for sizes in (QUERIES, KEYS, KEYS))
    text = jax.jit(lambda q, k, v, arrays: attend(q, k, v, **arrays, **options)).lower(q, k, v, arrays).as_text()
    fused = str(run_stages(shlo.load(text), "", "fused", target="opencl"))
    is_matched = name != "with the logarithms of the sums"
    assert fused.count('hlo.fusion = "attention"') == is_matched
    assert ('hlo.fusion = "dot"' in fused) != is_matched


@pytest.mark.parametrize("name", SCORES)
def test_work_on_scores(name: str) -> None:
    arrays = (floats(3, 70, 24) for _ in range(3))
    check(lambda q, k, v: written_out(q, k, v, SCORES[name]), *arrays)


@pytest.mark.parametrize("name", ["jax", "guarded", "unguarded"])
def test_rows_that_are_masked(name: str) -> None:
    """Empty rows, infinite and undefined scores: NaN, or what a guard says."""
    q, k, v = floats(40, 2, 16), floats(100, 2, 16), floats(100, 2, 16)
    mask = RANDOM.random((40, 100)) > 0.5
    mask[[3, 17]] = False
    mask[5], mask[9] = True, True
    q[5, 0, 0], q[9, 1, 3], k[4] = np.inf, np.nan, np.abs(k[4])
    functions = {
        "jax": lambda q, k, v, mask: attend(q[None], k[None], v[None], mask=mask[None, None]),
        "guarded": divided_late,
        "unguarded": lambda q, k, v, mask: written_out(
            q.transpose(1, 0, 2), k.transpose(1, 0, 2), v.transpose(1, 0, 2), lambda x: jnp.where(mask, x, -jnp.inf)
        ),
    }
    check(functions[name], q, k, v, mask)


@pytest.mark.parametrize("queries", [1, 3])
def test_parts_of_the_keys(queries: int) -> None:
    """Few queries and many keys: two launches. A part may have no finite score."""
    q, k, v = floats(2, queries, 4, 40), floats(2, 900, 2, 40), floats(2, 900, 2, 40)
    for length in (300, 0):
        mask = np.broadcast_to(np.arange(900) < length, (queries, 900))
        check(divided_late, q[0], np.repeat(k[0], 2, 1), np.repeat(v[0], 2, 1), mask)
    text = jax.jit(attend).lower(q, k, v).as_text()
    executable = shlo.compile(text, target="opencl", options=OPTIONS)
    assert executable.stages["kernels"].count("spir_kernelcc") == 2
    check(attend, q, k, v)


def test_scores_of_any_size() -> None:
    """What grows from tile to tile, and what is far below the largest."""
    q, k, v = floats(70, 16), floats(300, 16), floats(300, 16)
    check(written_out, q * 30, k * np.linspace(0, 9, 300, dtype="f4")[:, None], v)
    check(written_out, q - 100, k + 100, v)


def test_two_heads_of_one_size() -> None:
    """Equal sizes of different dimensions are not taken for each other."""
    q, k, v = floats(48, 48, 48), floats(48, 48, 48), floats(48, 48, 48)
    check(lambda q, k, v: jnp.einsum("bqk,kbd->qbd", jax.nn.softmax(jnp.einsum("qbd,bkd->bqk", q, k)), v), q, k, v)
    check(lambda q, k, v: jnp.einsum("kbd,bkq->bdq", v, jax.nn.softmax(jnp.einsum("bkd,qbd->bkq", k, q), 1)), q, k, v)
    check(lambda q, k, v: jnp.einsum("bkq,kbd->bqd", jax.nn.softmax(jnp.einsum("qbd,bkd->bkq", q, k), 1), v), q, k, v)


@pytest.mark.usefixtures("matrix_units")
@pytest.mark.parametrize(("queries", "keys"), [(70, 130), (1, 500)])
def test_matrix_units(queries: int, keys: int) -> None:
    q, k, v = (floats(1, n, h, 16, dtype="bfloat16") for n, h in ((queries, 2), (keys, 1), (keys, 1)))
    check(lambda q, k, v: attend(q, k, v, is_causal=queries == 70), q, k, v)


@pytest.mark.usefixtures("matrix_units")
def test_matrix_units_and_columns_that_fill_no_tile() -> None:
    check(written_out, *(floats(*sizes, dtype="float16") for sizes in ((70, 16), (70, 16), (70, 24))))


@pytest.mark.usefixtures("matrix_units")
def test_matrix_units_and_columns_that_fill_registers() -> None:
    """Queries stay in shared memory, and tiles have half as many keys."""
    check(written_out, *(floats(*sizes, dtype="bfloat16") for sizes in ((40, 160), (70, 160), (70, 144))))


@pytest.mark.usefixtures("matrix_units")
def test_matrix_units_and_work_on_operands_and_scores() -> None:
    q, k, v, bias = (floats(*sizes, dtype="float16") for sizes in ((70, 14), (64, 14), (64, 9), (1, 64)))

    def function(q: jax.Array, k: jax.Array, v: jax.Array, bias: jax.Array) -> jax.Array:
        return written_out(q * 2, jnp.abs(k), v, lambda x: jnp.where(bias > 0, jnp.tanh(x), -jnp.inf))

    check(function, q, k, v, bias, others=2)


def test_instructions_of_matrix_units() -> None:
    """Four subgroups and more have 16 queries each: for 64 keys, 128 columns and products two times 8 x 8 products of
    matrices, weights that go through no memory, and results that are stored 16 bytes at a time."""
    q = jax.ShapeDtypeStruct((4, 2048, 16, 128), jnp.bfloat16)
    text = jax.jit(lambda q, k, v: attend(q, k, v, is_causal=True)).lower(q, q, q).as_text()
    kernels = device_text(run_stages(shlo.load(text), "", "scheduled", target="cuda"), SM_90)
    assert kernels.count("llvm.nvvm.mma.m16n8k16.row.col.bf16") == 128
    assert kernels.count('"llvm.nvvm.ex2.approx.ftz.f"') == 32
    assert kernels.count("nvvm.barrier.cta.sync.aligned.all") == 8  # two of them for tiles that are left out
    stores = [line for line in kernels.rpartition("barrier.cta")[2].splitlines() if line.startswith("llvm.store")]
    assert len(stores) == 8 and all("vector<4xi32>" in line for line in stores)
    assert "llvm.nvvm.cp.async.cg.shared.global.16" in kernels
    assert "llvm.store" not in kernels.partition("llvm.nvvm.mma")[2].partition("llvm.nvvm.shfl")[0]


def weights_and_result(q: jax.Array, k: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
    weights = jax.nn.softmax(q @ k.T)
    return weights @ v, weights


def zeros_for_nan(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return jax.nn.softmax(q @ k.T, where=q @ k.T > 0) @ v


def over_queries(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return jax.nn.softmax(q @ k.T, axis=0) @ v


def another_maximum(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    scores = q @ k.T
    return jnp.exp(scores - jnp.max(scores * 2, axis=1, keepdims=True)) @ v


@pytest.mark.parametrize("function", [weights_and_result, zeros_for_nan, over_queries, another_maximum])
def test_what_is_not_attention(function: Callable[..., Any]) -> None:
    arrays = [floats(70, 32), floats(70, 32), floats(70, 32)]
    text = jax.jit(function).lower(*arrays).as_text()
    executable = shlo.compile(text, target="opencl", options=OPTIONS)
    assert "attention" not in executable.report()
    for found, wanted in zip(executable(*arrays), shlo.compile(text, options=OPTIONS)(*arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
