"""What rounding may do to a program: differences that it explains accuse nobody, all others stay differences."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stablehlo_py.cli import compare
from stablehlo_py.debug.engines import ENGINES
from stablehlo_py.debug.sensitivity import Sensitivity, moved_inputs
from stablehlo_py.debug.settings import Noise, Settings

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((6, 8)).astype(np.float32)


def exported(function, *arrays: np.ndarray) -> bytes:  # type: ignore[no-untyped-def]
    return bytes(jax.export.export(jax.jit(function), platforms=["cpu"])(*arrays).mlir_module_serialized)


def sensitivity(module: bytes, *inputs: np.ndarray) -> Sensitivity:
    """Sampled in this process."""

    def sample(noise: Noise | None) -> list[np.ndarray]:
        return ENGINES["hlo"](module, inputs, Settings(noise=noise))

    return Sensitivity([sample])


def status(module: bytes, inputs: list[np.ndarray], change: float) -> str:
    """The verdict on our result when it is moved by `change`."""
    (right,) = ENGINES["hlo"](module, inputs, Settings())
    moved = (right.astype(np.float64) + change).astype(right.dtype)
    (verdict,) = sensitivity(module, *inputs).judge([moved], [right])
    return verdict.status


def test_a_difference_that_rounding_explains() -> None:
    # A sine of large numbers: an error of one unit in the last place of the exponential moves it by 0.01.
    module = exported(lambda x: jnp.sin(jnp.exp(x)), X)
    steep = [np.full((6, 8), 11.5, np.float32)]
    assert status(module, steep, 1e-5) == "agrees"
    assert status(module, steep, 0.01) == "within rounding"
    assert status(module, steep, 0.9) == "differs"
    assert status(module, [X], 0.01) == "differs"


def test_a_chaotic_result_is_ill_conditioned() -> None:
    module = exported(lambda x: jax.lax.fori_loop(0, 200, lambda _, y: 3.9 * y * (1 - y), x), X)
    assert status(module, [np.full((6, 8), 0.3, np.float32)], 0.5) == "cannot tell"


def test_a_flipped_integer_is_within_rounding_where_rounding_flips_it() -> None:
    module = exported(lambda x: (jnp.tanh(x) > np.float32(np.tanh(0.5))).astype(np.int32), X)
    ties, far = np.full((6, 8), 0.5, np.float32), np.full((6, 8), 2, np.float32)
    assert status(module, [ties], 1) == "within rounding"
    assert status(module, [far], 1) == "differs"


def test_one_tie_does_not_excuse_all_elements() -> None:
    module = exported(lambda x: (jnp.tanh(x) > np.float32(np.tanh(0.5))).astype(np.int32), X)
    one = np.full((6, 8), 2, np.float32)
    one[0, 0] = 0.5
    assert status(module, [one], 1) == "differs"


def test_what_is_computed_exactly_is_not_disturbed() -> None:
    module = exported(lambda x: jnp.floor(jnp.arange(48, dtype=np.float32).reshape(6, 8) * 0.5 + 0.5) + 0 * x, X)
    (movement,) = sensitivity(module, X).movements(0) or []
    assert movement.largest == 0


def test_moved_inputs_move_floats_by_an_ulp() -> None:
    moved = moved_inputs([X, np.arange(3), X.astype(np.complex64)], Noise(0))
    eps = np.finfo(np.float32).eps
    assert 0 < np.abs(moved[0] / X - 1).max() <= 2 * eps
    np.testing.assert_array_equal(moved[1], np.arange(3))
    assert moved[2].dtype == np.complex64


def test_what_cannot_be_evaluated_in_numpy_is_sampled_otherwise() -> None:
    sampled = Sensitivity([lambda _: None, lambda noise: [X if noise is None else X * np.float32(1.5)]])
    (movement,) = sampled.movements(0) or []
    assert movement.largest == pytest.approx(np.abs(X).max() / 2)
    assert Sensitivity([lambda _: None]).judge([X + 1], [X])[0].status == "differs"


def test_comparison_accuses_nobody_of_rounding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = exported(lambda x: jnp.sin(jnp.exp(x)), X)
    steep = np.full((6, 8), 11.5, np.float32)
    ours = ENGINES["hlo"](module, [steep], Settings())
    monkeypatch.setattr(compare, "ask_oracles", lambda *_: ({"jax": [ours[0] + np.float32(0.01)]}, {}))
    assert compare.compare(["jax"], module, None, [steep], ours, None) == 0
    out = capsys.readouterr().out
    assert "result 0 against jax: within rounding" in out
    assert "rounding alone moves this result by" in out
    assert compare.compare(["jax"], module, None, [steep], ours, 1e-3) == 1  # a tolerance of one's own is the only one


# --- the evaluation in NumPy that this rests on ----------------------------------------------------------------------


def _pooled_gradient(x: jax.Array) -> jax.Array:
    def pooled(x: jax.Array) -> jax.Array:
        windows = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (3, 2), (2, 2), ((1, 1), (0, 0)))
        return (windows * jnp.arange(12, dtype=np.float32).reshape(3, 4)).sum()

    return jax.grad(pooled)(x)


def _windows_partly_outside(x: jax.Array) -> jax.Array:
    numbers = jax.lax.ScatterDimensionNumbers((1, 2), (), (0, 1))
    updates = jnp.ones((5, 3, 2), np.float32)
    return jax.lax.scatter_add(x, I - 1, updates, numbers, mode=jax.lax.GatherScatterMode.FILL_OR_DROP)


I = np.array([[2, 1], [0, 7], [2, 1], [5, 0], [9, 1]])  # noqa: E741


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.sort(x, 0),
        lambda x: jax.lax.sort((jnp.round(x), x, jnp.arange(48).reshape(6, 8)), num_keys=1, is_stable=True),
        lambda x: jnp.argmax(x, 1),
        lambda x: jnp.argmin(jnp.round(x), 0),
        lambda x: jax.lax.top_k(jnp.round(x), 3),
        lambda x: x.at[I[:, 0], I[:, 1]].add(jnp.arange(5, dtype=np.float32)),
        lambda x: x.at[I[:, 0]].multiply(2.0, mode="drop"),
        lambda x: x.at[I[:, 0]].set(0.5, mode="drop"),
        lambda x: jnp.cumsum(x, 1),
        lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.add, (2, 3), (1, 2), "SAME", window_dilation=(2, 1)),
        lambda x: jax.lax.reduce_window(x, 1.0, lambda a, b: a * b + a, (2, 1), (2, 1), "VALID"),
        lambda x: jax.lax.reduce(x, np.float32(0), lambda a, b: jnp.maximum(a, b) + 1, (1,)),
        _windows_partly_outside,
        _pooled_gradient,
    ],
)
def test_ops_with_regions_are_evaluated(function) -> None:  # type: ignore[no-untyped-def]
    module = exported(function, X)
    expected = jax.tree.leaves(jax.jit(function)(X))
    for stage in ("hlo", "fused"):
        for a, b in zip(ENGINES[stage](module, [X], Settings()), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
            assert a.dtype == b.dtype
