"""The gradient of attention as one kernel of the CPU, next to JAX's XLA, which computes it op by op."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_functions import SCORES, attend, written_out
from masked_attention import MASKS, masked, with_gradients
from one_kernel import cpus_here

import stablehlo_py as shlo
from stablehlo_py.backends.common.scores_masked import MaskedPlaces
from stablehlo_py.backends.cpu.kernels import scores
from stablehlo_py.backends.cpu.kernels.scores_band import Skipping

RANDOM = np.random.default_rng(0)
TOLERANCES = {"float64": 1e-13, "float32": 4e-6}  # of the largest result


def floats(*sizes: int, dtype: str = "float32") -> np.ndarray:
    """Normally distributed numbers."""
    return RANDOM.standard_normal(sizes).astype(dtype)


def compiled(function: Callable[..., Any], *arrays: np.ndarray, **options: Any) -> shlo.Executable:
    """A function of JAX, whose sums over scores are one kernel, and which has no other products."""
    text = jax.jit(function).lower(*arrays).as_text()
    executable = shlo.compile(text, options=shlo.Options(cache_dir=None, **{"threads": 1, **options}))
    kinds = Counter(re.findall(r'hlo\.fusion = "(\w+)"', executable.stages["scheduled"]))
    assert (kinds["scores"], kinds["dot"]) == (1, 0), kinds
    return executable


def check(function: Callable[..., Any], *arrays: np.ndarray, **options: Any) -> list[np.ndarray]:
    """A function of JAX gives what XLA gives, NaN where that has NaN."""
    results = compiled(function, *arrays, **options)(*arrays)
    for found, wanted in zip(results, map(np.asarray, jax.tree.leaves(jax.jit(function)(*arrays))), strict=True):
        numbers = np.abs(wanted[np.isfinite(wanted)])
        tolerance = TOLERANCES[str(wanted.dtype)] * max(1.0, float(numbers.max(initial=0.0)))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance)
    return list(results)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("queries", "keys", "depth"), [(200, 200, 16), (130, 300, 40), (33, 1200, 20), (1200, 33, 7), (257, 200, 136)]
)
def test_lengths_and_depths(queries: int, keys: int, depth: int, causal: bool) -> None:
    q, k, v, g = (floats(2, length, 3, depth) for length in (queries, keys, keys, queries))
    check(with_gradients(partial(attend, is_causal=causal)), q, k, v, g)


@pytest.mark.parametrize("cpu", cpus_here("avx512", "avx2", "x86-64", "generic"))
def test_other_cpus(cpu: str) -> None:
    """Vectors of other widths, with masks and without; fewer registers; columns that are not whole vectors."""
    q, k, v, g, bias = *(floats(1, 205, 2, 19) for _ in range(4)), floats(1, 2, 205, 205)
    check(with_gradients(lambda q, k, v: attend(q, k, v, bias=bias, is_causal=True)), q, k, v, g, cpu=cpu)


def test_float64() -> None:
    with jax.enable_x64(True):
        check(with_gradients(written_out), *(floats(2, 200, 40, dtype="float64") for _ in range(4)))


@pytest.mark.parametrize("heads", [1, 2])
def test_fewer_heads_of_keys(heads: int) -> None:
    """Sums over queries are those of several heads."""
    q, k, v, g = (floats(2, 210, each, 32) for each in (4, heads, heads, 4))
    check(with_gradients(partial(attend, is_causal=True)), q, k, v, g)


def test_operands_that_lie_otherwise() -> None:
    """Keys that depth comes first of, values with columns first; results that are transposed."""
    q, k, v, g = floats(2, 3, 24, 210), floats(2, 3, 24, 200), floats(2, 3, 17, 200), floats(2, 3, 210, 17)
    check(with_gradients(lambda q, k, v: written_out(q.mT, k.mT, v.mT)), q, k, v, g)


def test_work_on_scores() -> None:
    q, k, v, g = (floats(2, 200, 2, 24) for _ in range(4))
    mask, bias = RANDOM.random((2, 1, 200, 200)) > 0.4, floats(1, 2, 200, 200)
    check(with_gradients(lambda q, k, v: attend(q, k, v, mask=mask, bias=bias)), q, k, v, g)
    check(with_gradients(lambda q, k, v: attend(q, k, v, bias=bias, local_window_size=(50, 3))), q, k, v, g)
    for name in ("soft cap", "slope"):
        check(
            with_gradients(lambda q, k, v, name=name: written_out(q, k, v, SCORES[name])),
            *(x[:, :, 0] for x in (q, k, v, g)),
        )


@pytest.mark.parametrize("causal", [False, True])
def test_a_softmax_that_is_computed_again(causal: bool) -> None:
    """Its maximum and its sum are reductions of this kernel, one after the other."""
    q, k, v, g = (floats(1, 230, 2, 16) for _ in range(4))
    check(with_gradients(jax.checkpoint(partial(attend, is_causal=causal))), q, k, v, g)


@pytest.mark.parametrize("argument", [0, 1, (0, 1)])
def test_gradients_of_some_arguments(argument: int | tuple[int, ...]) -> None:
    """Sums over one side only; a loss of which no gradient is read before attention."""
    q, k, v = (floats(1, 210, 2, 16) for _ in range(3))

    def loss(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return (attend(q, k, v, is_causal=True) * q).sum()

    text = jax.jit(jax.grad(loss, argument)).lower(q, k, v).as_text()
    results = shlo.compile(text, options=shlo.Options(cache_dir=None, threads=1))(q, k, v)
    for found, wanted in zip(results, jax.tree.leaves(jax.grad(loss, argument)(q, k, v)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-5)


@pytest.mark.parametrize("heads", [1, 3, 9])
def test_threads_change_no_bit(heads: int) -> None:
    """Also where few batches are shared out, and their parts added."""
    arrays = [floats(1, 400, heads, 16) for _ in range(4)]
    function = with_gradients(partial(attend, is_causal=True))
    one, *others = (compiled(function, *arrays, threads=threads)(*arrays) for threads in (1, 2, 4))
    for other in others:
        assert [each.tobytes() for each in other] == [each.tobytes() for each in one]
    check(function, *arrays)


# --- tiles that are left out -----------------------------------------------------------------------------------------


def skipped(function: Callable[..., Any], *arrays: np.ndarray) -> list[np.ndarray]:
    """Tiles are left out, which changes no bit, and results are XLA's."""
    results = check(function, *arrays)
    executable = compiled(function, *arrays)
    assert "_largest" in executable.stages["kernels"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scores, "skipping", lambda *of: None)
        every = compiled(function, *arrays)(*arrays)
    for found, wanted in zip(results, every, strict=True):
        assert np.where(np.isnan(found), 0, found).tobytes() == np.where(np.isnan(wanted), 0, wanted).tobytes()
    return results


@pytest.mark.parametrize("name", MASKS)
def test_masks_by_indices(name: str) -> None:
    value = -1e30 if "window" in name else -np.inf
    skipped(with_gradients(masked(MASKS[name], value)), *(floats(each, 2, 8) for each in (180, 230, 230, 180)))


@pytest.mark.parametrize("value", [-1e30, -50.0, 3.0])
def test_scores_that_are_no_higher_than_the_mask(value: float) -> None:
    """Of queries that see no key, or see keys whose scores are about as low as the mask: masked ones count."""
    q, k, v, g = (floats(each, 2, 8) for each in (180, 230, 230, 180))
    q[20:30] = 0
    skipped(with_gradients(masked(lambda i, j: i - j >= 5, value)), q, k, v, g)


def test_operands_that_are_large() -> None:
    """Zero times what is not finite is NaN, also where a query does not see the key; products overflow."""
    arrays = [floats(200, 2, 8) for _ in range(4)]
    function = with_gradients(masked(MASKS["causal"], -1e30))
    executable = compiled(function, *arrays)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scores, "skipping", lambda *of: None)
        through_all = compiled(function, *arrays)
    for operand, value in itertools.product(range(4), [np.inf, np.nan, 1e30]):
        given = [each.copy() for each in arrays]
        given[operand][150, 1, 3] = value
        for found, wanted in zip(executable(*given), through_all(*given), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_tiles_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that no query of a tile sees are not read: what is NaN there does not come into the results of other
    queries, where nothing looks whether operands are finite."""
    q, k, v, g = (floats(256, 2, 8) for _ in range(4))
    k[200:] = np.nan
    monkeypatch.setattr(
        Skipping, "_holds", lambda self, tile, limit: tile.f.cmp("eq", tile.f.const(0), tile.f.const(0))
    )
    monkeypatch.setattr(MaskedPlaces, "magnitudes", lambda *of: [])
    _, of_queries, *_ = compiled(with_gradients(masked(lambda i, j: i >= j)), q, k, v, g)(q, k, v, g)
    assert np.isfinite(of_queries[:128]).all()


# --- what is left as products ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "dtype"), [(128, "float32"), (256, "bfloat16")])
def test_what_products_compute_faster(length: int, dtype: str) -> None:
    shape = jax.ShapeDtypeStruct((1, length, 2, 16), jnp.dtype(dtype))
    text = jax.jit(with_gradients(attend)).lower(*[shape] * 4).as_text()
    executable = shlo.compile(text, options=shlo.Options(cache_dir=None, threads=1))
    assert 'hlo.fusion = "scores"' not in executable.stages["scheduled"]


def test_what_reads_a_row_elsewhere() -> None:
    """The gradient of the scores is a result, too: an array of all scores is there anyway."""
    q, k, v, bias, g = *(floats(1, 200, 2, 16) for _ in range(3)), floats(1, 2, 200, 200), floats(1, 200, 2, 16)
    function = with_gradients(lambda q, k, v, bias: attend(q, k, v, bias=bias))
    text = jax.jit(function).lower(q, k, v, bias, g).as_text()
    executable = shlo.compile(text, options=shlo.Options(cache_dir=None, threads=1))
    assert 'hlo.fusion = "scores"' not in executable.stages["scheduled"]
    for found, wanted in zip(executable(q, k, v, bias, g), jax.jit(function)(q, k, v, bias, g), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-5)
