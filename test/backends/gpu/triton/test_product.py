"""Products as Triton kernels: their sources executed by Triton's interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from triton_products import BF16, F16, floats, interpreted, needs_triton, products, whole

import stablehlo_py as shlo

CASES: dict[str, tuple[Callable[..., jax.Array], Sequence[np.ndarray]]] = {
    "f32": (jnp.matmul, [whole(64, 48), whole(48, 96)]),
    "bf16": (jnp.matmul, [whole(64, 64, of=BF16), whole(64, 64, of=BF16)]),
    "f16": (jnp.matmul, [whole(40, 72, of=F16), whole(72, 56, of=F16)]),
    "i8": (
        lambda a, b: jnp.matmul(a, b, preferred_element_type=jnp.int32),
        [whole(64, 80, of=np.int8), whole(80, 48, of=np.int8)],
    ),
    "sums of f32": (
        lambda a, b: jnp.matmul(a, b, preferred_element_type=jnp.float32),
        [floats(64, 64, of=BF16), floats(64, 64, of=BF16)],
    ),
    "one row": (jnp.matmul, [whole(1, 40), whole(40, 72)]),
    "edges": (jnp.matmul, [whole(33, 41, of=BF16), whole(41, 67, of=BF16)]),
    "turned left": (lambda a, b: a.T @ b, [whole(72, 40, of=BF16), whole(72, 64, of=BF16)]),
    "turned right": (lambda a, b: a @ b.T, [whole(40, 72, of=BF16), whole(64, 72, of=BF16)]),
    "turned both": (lambda a, b: a.T @ b.T, [whole(72, 40, of=BF16), whole(64, 72, of=BF16)]),
    "batch": (jnp.matmul, [whole(3, 40, 24), whole(3, 24, 72)]),
    "batches of two dimensions": (
        lambda a, b: jnp.einsum("bqhd,bkhd->bhqk", a, b),
        [whole(2, 40, 3, 16, of=BF16), whole(2, 48, 3, 16, of=BF16)],
    ),
    "several contracted": (lambda a, b: jnp.einsum("mab,abn->mn", a, b), [whole(40, 6, 8), whole(6, 8, 48)]),
    "rows of two dimensions": (lambda a, b: jnp.einsum("xyk,kn->xyn", a, b), [whole(6, 8, 40), whole(40, 48)]),
    "slice": (lambda a, b: a[4:44, 8:72] @ b, [whole(64, 80), whole(64, 48)]),
    "bias, relu": (
        lambda a, b, c: jax.nn.relu(a @ b + c),
        [whole(64, 64, of=BF16), whole(64, 64, of=BF16), floats(64, of=BF16)],
    ),
    "residual": (
        lambda a, b, c: (a @ b) * 0.125 + c[:, None],
        [whole(2, 3, 40, 24), whole(2, 3, 24, 48), whole(2, 40, 48)],
    ),
    "mixed types": (lambda a, b: a.astype(jnp.float32) @ b, [whole(40, 64, of=BF16), whole(64, 48)]),
    "division": (lambda a, b, c: (a @ b) / c, [whole(40, 40), whole(40, 40), floats(40, 40)]),
    "select": (
        lambda a, b, c: jnp.where(a @ b > c, jnp.sqrt(jnp.abs(c)), -(a @ b)),
        [whole(40, 40), whole(40, 40), floats(40, 40)],
    ),
}


@needs_triton
@pytest.mark.parametrize("name", CASES)
def test_interpreted(name: str, tmp_path: Path) -> None:
    """The interpreter computes what the CPU backend does: to the last bit where sums are exact."""
    function, arrays = CASES[name]
    text = jax.jit(function).lower(*(jax.ShapeDtypeStruct(each.shape, each.dtype) for each in arrays)).as_text()
    wanted = [np.asarray(each) for each in shlo.compile(text, options=shlo.Options(cache_dir=None, threads=1))(*arrays)]
    outputs = [np.full(each.shape, 77, each.dtype) for each in wanted]
    with products(function, arrays) as (*_, kernel):
        (found,) = interpreted(kernel, arrays, outputs, tmp_path)
    if name == "sums of f32":
        np.testing.assert_allclose(found, wanted[0], rtol=1e-5, atol=1e-5)
    else:
        assert found.tobytes() == wanted[0].tobytes()


@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (lambda a, b: jnp.tanh(a @ b), [whole(64, 64), whole(64, 64)]),  # Triton's is another one
        (jnp.matmul, [whole(64, 64, of=np.complex64), whole(64, 64, of=np.complex64)]),
        (lambda a, b, c: (a @ b) + c.astype(jnp.float32), [whole(64, 64), whole(64, 64), whole(64, 64, of=np.bool_)]),
        (lambda a, b: (a @ b).astype(jnp.int32), [whole(64, 64), whole(64, 64)]),
    ],
)
def test_what_has_no_triton(function: Callable[..., jax.Array], arrays: Sequence[np.ndarray]) -> None:
    with products(function, arrays) as found:
        assert not found


def test_sources_end_where_tiles_do(tmp_path: Path) -> None:
    """Masks are there where a tile goes beyond its array, and only there."""
    with products(jnp.matmul, [whole(128, 128, of=BF16), whole(128, 128, of=BF16)]) as (kernel, *_):
        assert "mask" not in kernel.source()
    with products(jnp.matmul, [whole(128, 128, of=BF16), whole(128, 120, of=BF16)]) as (kernel, *_):
        checks = [line for line in kernel.source().splitlines() if "mask=" in line]
    assert len(checks) == 2 and all("columns < 120" in line and "rows <" not in line for line in checks)
