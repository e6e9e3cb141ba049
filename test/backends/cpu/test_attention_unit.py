"""Attention of bf16 on AMX, and by instructions that multiply pairs: kernels as they are where the machine has these,
and everywhere by other instructions."""

from __future__ import annotations

import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from attention_functions import attend
from emulated_tiles import EMULATED, EMULATED_DOTS, emulate
from masked_attention import MASKS
from one_kernel import Compiled, compile_kernel, here

import stablehlo_py as shlo
from stablehlo_py.backends.cpu.kernels import attention_lanes
from stablehlo_py.backends.cpu.target import AMX, AVX512, AVX512_BF16, CpuTarget
from stablehlo_py.compiler import run_stages

Function = Callable[..., jax.Array]
BF16 = ml_dtypes.bfloat16
RNG = np.random.default_rng(0)
NAMES = {EMULATED: "emulated", AMX: "tiles", EMULATED_DOTS: "emulated-pairs", AVX512_BF16: "pairs"}
# A row of a tile is a vector, as on all processors with tiles.
TILES = [EMULATED] if here(AVX512) else []
TARGETS = [*TILES, EMULATED_DOTS, *here(AMX, AVX512_BF16)]


@pytest.fixture(params=TARGETS, ids=NAMES.__getitem__)
def target(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> CpuTarget:
    if request.param in (EMULATED, EMULATED_DOTS):
        emulate(monkeypatch)
    return request.param


def numbers(*sizes: int) -> np.ndarray:
    return RNG.standard_normal(sizes).astype(BF16)


def compiled(function: Function, arrays: list[np.ndarray], target: CpuTarget) -> Compiled:
    """The kernel of the attention of a function."""
    text = jax.jit(function).lower(*arrays).as_text()
    module = run_stages(shlo.load(text), "", "fused", target="cpu")
    functions = [str(each) for each in module.body.operations]
    (found,) = [each for each in functions if 'hlo.fusion = "attention"' in each]
    return compile_kernel(f"module {{\n{found}\n}}", target)


def of_scores(q: jax.Array, k: jax.Array, v: jax.Array, mask: float | None = None, seen: str = "causal") -> jax.Array:
    """Of [heads, places, depth] each, as the program rounds; `mask`: the score of what is not seen."""
    scores = jnp.einsum("hqd,hkd->hqk", q, k, preferred_element_type=jnp.float32) / q.shape[-1] ** 0.5
    if mask is not None:
        i, j = (jax.lax.broadcasted_iota(jnp.int32, scores.shape[1:], d) for d in range(2))
        scores = jnp.where(MASKS[seen](i, j), scores, mask)
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores).astype(v.dtype), v)


def run(kernel: Compiled, arrays: list[np.ndarray], pieces: int = 1) -> np.ndarray:
    """Its result, of arrays whose sizes it may have split."""
    sizes = [size for size, _ in kernel.inputs]
    return kernel.run([each.reshape(size) for each, size in zip(arrays, sizes, strict=True)], pieces)[0]


def check(function: Function, arrays: list[np.ndarray], target: CpuTarget) -> np.ndarray:
    """What f32 gives, but for the roundings of weights and of the result; the same bits for any pieces of the work."""
    kernel = compiled(function, arrays, target)
    assert re.search(r"tdpbf16ps|dpbf16ps", "".join(kernel.kernel.functions.values())) or target in (
        EMULATED,
        EMULATED_DOTS,
    )
    found, in_pieces = run(kernel, arrays), run(kernel, arrays, 3)
    assert found.tobytes() == in_pieces.tobytes()
    wanted = np.asarray(
        jax.jit(function)(*(each.astype(np.float32) if each.dtype == BF16 else each for each in arrays))
    )
    np.testing.assert_allclose(found.astype(np.float32).reshape(wanted.shape), wanted, rtol=2**-7, atol=2**-6)
    return found


@pytest.mark.every(2)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("queries", "keys", "depth", "columns"),
    [(64, 64, 64, 64), (33, 100, 40, 24), (130, 385, 32, 70), (70, 33, 128, 16), (600, 300, 31, 33), (96, 129, 64, 48)],
)
def test_sizes(queries: int, keys: int, depth: int, columns: int, causal: bool, target: CpuTarget) -> None:
    arrays = [numbers(2, queries, depth), numbers(2, keys, depth), numbers(2, keys, columns)]
    check(lambda q, k, v: of_scores(q, k, v, -np.inf if causal else None), arrays, target)


@pytest.mark.parametrize("turned", ["keys", "values", "queries"])
def test_operands_that_lie_otherwise(turned: str, target: CpuTarget) -> None:
    arrays = {"queries": numbers(3, 70, 48), "keys": numbers(3, 90, 48), "values": numbers(3, 90, 40)}
    arrays[turned] = np.ascontiguousarray(arrays[turned].swapaxes(1, 2))

    def function(**arrays: jax.Array) -> jax.Array:
        q, k, v = (x.mT if name == turned else x for name, x in arrays.items())
        return of_scores(q, k, v)

    check(lambda q, k, v: function(queries=q, keys=k, values=v), list(arrays.values()), target)


@pytest.mark.parametrize("queries", [70, 600])
def test_heads_beside_each_other(queries: int, target: CpuTarget) -> None:
    """As JAX has them, with fewer of keys than of queries."""
    arrays = [numbers(2, queries, 4, 32), numbers(2, 150, 2, 32), numbers(2, 150, 2, 32)]
    check(lambda q, k, v: attend(q, k, v, is_causal=True), arrays, target)


@pytest.mark.parametrize("name", [name for name in MASKS if "known" not in name])  # that one is an operand
def test_masks_by_indices(name: str, target: CpuTarget) -> None:
    """Tiles that are left out change no bit."""
    value = -1e30 if "window" in name else -np.inf
    arrays = [numbers(2, 150, 16), numbers(2, 300, 16), numbers(2, 300, 16)]
    function = lambda q, k, v: of_scores(q, k, v, value, name)  # noqa: E731
    found = check(function, arrays, target)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_lanes, "skipping", lambda *of: None)
        every = run(compiled(function, arrays, target), arrays)
    assert np.nan_to_num(found).tobytes() == np.nan_to_num(every).tobytes()


def test_what_is_not_finite(target: CpuTarget) -> None:
    """Of a row, a key or a value, and nowhere else."""
    q, k, v = numbers(2, 40, 32), numbers(2, 150, 32), numbers(2, 150, 32)
    q[0, 3], v[1, 149, 7] = np.nan, np.inf
    found = run(compiled(lambda q, k, v: of_scores(q, k, v, -np.inf), [q, k, v], target), [q, k, v]).astype(np.float32)
    assert np.isnan(found[0, 3]).all() and np.isnan(found[1, :, 7]).all()
    found[0, 3], found[1, :, 7] = 0, 0
    assert np.isfinite(found).all()
