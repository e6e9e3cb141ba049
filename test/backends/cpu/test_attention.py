"""Attention as one kernel of the CPU, next to JAX's XLA, which computes it op by op."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_functions import SCORES, attend, divided_late, written_out
from flax import linen
from masked_attention import MASKS, Function, masked
from one_kernel import cpus_here

import stablehlo_py as shlo
from stablehlo_py.backends.cpu.kernels import attention_lanes
from stablehlo_py.backends.cpu.kernels.attention_band import Skipping
from stablehlo_py.compiler import run_stages

OPTIONS = shlo.Options(cache_dir=None, threads=1)
RANDOM = np.random.default_rng(0)
# Of results of about 1: weights have the absolute errors of scores, of which some are about 10.
TOLERANCES = {"float64": 1e-13, "float32": 5e-6}


def floats(*sizes: int, dtype: str = "float32") -> np.ndarray:
    """Normally distributed numbers."""
    return RANDOM.standard_normal(sizes).astype(dtype)


def compiled(function: Callable[..., Any], *arrays: np.ndarray, **options: Any) -> shlo.Executable:
    """A function of JAX, which has one kernel of attention."""
    text = jax.jit(function).lower(*arrays).as_text()
    executable = shlo.compile(text, options=shlo.Options(cache_dir=None, **{"threads": 1, **options}))
    assert "1 attention" in executable.report(), executable.report()
    return executable


def check(
    function: Callable[..., Any], *arrays: np.ndarray, others: int = 0, scores: float = 1.0, **options: Any
) -> np.ndarray:
    """A function of JAX becomes one kernel, besides so many others, and gives what XLA gives, NaN where that has
    NaN. `scores`: how many times 10 they are, of whose rounding weights have the errors."""
    executable = compiled(function, *arrays, **options)
    assert f"{others + 1} distinct" in executable.report(), executable.report()
    (found,) = executable(*arrays)
    wanted = np.asarray(jax.jit(function)(*arrays))
    tolerance = TOLERANCES[str(wanted.dtype)] * scores
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    return found


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("queries", "keys", "depth"),
    [(64, 64, 16), (100, 100, 40), (33, 200, 64), (130, 33, 128), (64, 97, 256), (600, 500, 24)],
)
def test_lengths_and_depths(queries: int, keys: int, depth: int, causal: bool) -> None:
    q, k, v = floats(2, queries, 3, depth), floats(2, keys, 3, depth), floats(2, keys, 3, depth)
    check(lambda q, k, v: attend(q, k, v, is_causal=causal), q, k, v)


@pytest.mark.parametrize("cpu", cpus_here("avx512", "avx2", "x86-64", "generic"))
def test_other_cpus(cpu: str) -> None:
    """Vectors of other widths, with masks and without; fewer registers."""
    q, k, v, bias = floats(1, 70, 2, 19), floats(1, 131, 2, 19), floats(1, 131, 2, 19), floats(1, 2, 70, 131)
    check(lambda q, k, v, bias: attend(q, k, v, bias=bias, is_causal=True), q, k, v, bias, cpu=cpu)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("cpu", cpus_here("avx512", "avx2", "x86-64"))
def test_numbers_of_16_bits(cpu: str, dtype: str) -> None:
    """Products of f32; test_attention_unit.py has others."""
    q, k, v = (floats(2, n, 24).astype(jnp.dtype(dtype)) for n in (70, 131, 131))

    def function(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        scores = jnp.einsum("hqd,hkd->hqk", q, k, preferred_element_type=jnp.float32)
        return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores).astype(v.dtype), v)

    (found,) = compiled(function, q, k, v, cpu=cpu)(q, k, v)
    wanted = function(*(each.astype(np.float32) for each in (q, k, v)))
    np.testing.assert_allclose(found.astype(np.float32), wanted, rtol=2**-7, atol=2**-6)


def test_float64() -> None:
    with jax.enable_x64(True):
        check(written_out, *(floats(2, 70, 40, dtype="float64") for _ in range(3)))


@pytest.mark.parametrize("heads", [1, 2, 8])
def test_fewer_heads_of_keys(heads: int) -> None:
    """Read where they lie, and copied once where there are many tiles."""
    for queries in (70, 600):
        q, k, v = floats(2, queries, 8, 32), floats(2, 300, heads, 32), floats(2, 300, heads, 32)
        check(attend, q, k, v)
    repeats = 8 // heads
    check(lambda q, k, v: attend(q, jnp.repeat(k, repeats, 2), jnp.repeat(v, repeats, 2)), q, k, v, others=heads == 2)


@pytest.mark.parametrize("queries", [70, 600])
def test_operands_that_lie_otherwise(queries: int) -> None:
    """Keys that depth comes first of, values with columns first, queries of numbers of the depth; merged batches."""
    q, k, v = floats(2, 3, 24, queries), floats(2, 3, 24, 90), floats(2, 3, 17, 90)
    check(lambda q, k, v: written_out(q.mT, k.mT, v.mT), q, k, v)
    check(lambda q, k, v: written_out(*(x.mT.reshape(6, x.shape[3], -1) for x in (q, k, v))), q, k, v)
    check(lambda q, k, v: jnp.einsum("bhkq,bhdk->qdbh", jax.nn.softmax(k.mT @ q, 2), v), q, k, v, others=1, scores=2)


def test_masks_and_biases() -> None:
    q, k, v = (floats(2, 77, 4, 32) for _ in range(3))
    mask, bias = RANDOM.random((2, 1, 77, 77)) > 0.4, floats(1, 4, 77, 77)
    check(lambda q, k, v, mask: attend(q, k, v, mask=mask), q, k, v, mask)
    check(lambda q, k, v, bias: attend(q, k, v, bias=bias, is_causal=True), q, k, v, bias)
    check(lambda q, k, v, bias: attend(q, k, v, bias=bias, local_window_size=(9, 3)), q, k, v, bias)
    check(lambda q, k, v, mask: attend(q, k, v, mask=mask), q, k, v, mask[:, :, :1])


def test_flax() -> None:
    """Padding is a mask that is computed, and its scores are the least number."""
    q, k, v, lengths = floats(2, 77, 4, 32), floats(2, 77, 4, 32), floats(2, 77, 4, 32), np.array([77, 50], np.int32)

    def function(q: jax.Array, k: jax.Array, v: jax.Array, lengths: jax.Array) -> jax.Array:
        there = jnp.arange(77) < lengths[:, None]
        mask = linen.combine_masks(linen.make_attention_mask(there, there), linen.make_causal_mask(there))
        return linen.dot_product_attention(q, k, v, mask=mask)

    (found,) = compiled(function, q, k, v, lengths)(q, k, v, lengths)
    np.testing.assert_allclose(found, jax.jit(function)(q, k, v, lengths), rtol=5e-6, atol=5e-6)


@pytest.mark.parametrize("name", ["soft cap", "slope"])
def test_work_on_scores(name: str) -> None:
    arrays = [floats(3, 70, 24) for _ in range(3)]
    (found,) = compiled(lambda q, k, v: written_out(q, k, v, SCORES[name]), *arrays)(*arrays)
    np.testing.assert_allclose(found, written_out(*arrays, SCORES[name]), rtol=5e-6, atol=5e-6)


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


def test_scores_of_any_size() -> None:
    """What grows from tile to tile, and what is far below the largest."""
    q, k, v = floats(70, 16), floats(300, 16), floats(300, 16)
    check(written_out, q * 30, k * np.linspace(0, 9, 300, dtype="f4")[:, None], v, scores=100)
    check(written_out, q - 100, k + 100, v, scores=1000)


def test_two_heads_of_one_size() -> None:
    """Equal sizes of different dimensions are not taken for each other."""
    q, k, v = floats(48, 48, 48), floats(48, 48, 48), floats(48, 48, 48)
    functions: list[Callable[..., Any]] = [
        lambda q, k, v: jnp.einsum("bqk,kbd->qbd", jax.nn.softmax(jnp.einsum("qbd,bkd->bqk", q, k)), v),
        lambda q, k, v: jnp.einsum("kbd,bkq->bdq", v, jax.nn.softmax(jnp.einsum("bkd,qbd->bkq", k, q), 1)),
        lambda q, k, v: jnp.einsum("bkq,kbd->bqd", jax.nn.softmax(jnp.einsum("qbd,bkd->bkq", q, k), 1), v),
    ]
    for function in functions:
        check(function, q, k, v, scores=4)


def test_threads_change_no_bit() -> None:
    q, k, v = (floats(1, 500, 3, 32) for _ in range(3))
    for function in (attend, partial(attend, is_causal=True)):
        one, two, four = (compiled(function, q, k, v, threads=threads)(q, k, v)[0] for threads in (1, 2, 4))
        assert one.tobytes() == two.tobytes() == four.tobytes()


# --- tiles that are left out -----------------------------------------------------------------------------------------


def skipped(function: Function, *arrays: np.ndarray) -> np.ndarray:
    """Tiles are left out, which changes no bit, and results are XLA's."""
    executable = compiled(function, *arrays)
    (found,) = executable(*arrays)
    assert "_finite" in executable.stages["kernels"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_lanes, "skipping", lambda *of: None)
        (every,) = compiled(function, *arrays)(*arrays)
    assert np.where(np.isnan(found), 0, found).tobytes() == np.where(np.isnan(every), 0, every).tobytes()
    np.testing.assert_allclose(found, jax.jit(function)(*arrays), rtol=5e-6, atol=5e-6)
    return found


@pytest.mark.parametrize("name", MASKS)
def test_masks_by_indices(name: str) -> None:
    value = -1e30 if "window" in name else -np.inf
    skipped(masked(MASKS[name], value), floats(150, 2, 8), floats(230, 2, 8), floats(230, 2, 8))


@pytest.mark.parametrize("value", [-1e30, -50.0, 3.0, np.inf, np.nan])
def test_scores_that_are_no_higher_than_the_mask(value: float) -> None:
    """Of queries that see no key, or see keys whose scores are about as low as the mask: masked ones count."""
    q, k, v = floats(150, 2, 8), floats(230, 2, 8), floats(230, 2, 8)
    q[20:30] = 0
    q[100], k[:, :, 0] = [-4e29] + [0] * 7, np.abs(k[:, :, 0]) + 10
    q[101], q[102] = -np.inf, np.nan
    found = skipped(masked(lambda i, j: i - j >= 5, value), q, k, v)
    if value == -1e30:  # all weights are the same
        np.testing.assert_allclose(found[:5], np.broadcast_to(v.mean(0), (5, 2, 8)), atol=1e-5)


@pytest.mark.parametrize(("value", "mask"), [(np.inf, -np.inf), (-np.inf, -1e30), (np.nan, -1e30)])
def test_values_that_are_not_finite(value: float, mask: float) -> None:
    """Zero times these is NaN, also where a query does not see the key."""
    q, k, v = floats(130, 2, 8), floats(230, 2, 8), floats(230, 2, 8)
    v[229, 1, 7] = value
    found = skipped(masked(MASKS["causal"], mask), q, k, v)
    assert np.isnan(found[:, 1, 7]).all() and np.isnan(found).sum() == 130


def test_tiles_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that no query of a tile sees are not read: what is NaN there does not come into the results, where nothing
    looks whether values are finite."""
    q, k, v = (floats(256, 2, 8) for _ in range(3))
    k[200:] = np.nan
    monkeypatch.setattr(
        Skipping, "counted", lambda self, f, rows, copy, lanes: f.const(0.0, rows.arithmetic.accumulator)
    )
    function = masked(lambda i, j: i >= j, -np.inf)
    (found,) = compiled(lambda q, k, v: function(q, k, jnp.where(jnp.isnan(k), k, v)), q, k, v)(q, k, v)
    assert np.isfinite(found[:128]).all()


# --- what is no attention of this kernel -----------------------------------------------------------------------------


@pytest.mark.parametrize(("queries", "keys"), [(1, 100), (40, 8)])
def test_what_products_compute_faster(queries: int, keys: int) -> None:
    q, k = (jax.ShapeDtypeStruct((n, 2, 16), jnp.float32) for n in (queries, keys))
    text = jax.jit(lambda q, k, v: attend(q[None], k[None], v[None])).lower(q, k, k).as_text()
    fused = str(run_stages(shlo.load(text), "", "fused", target="cpu"))
    assert 'hlo.fusion = "attention"' not in fused
