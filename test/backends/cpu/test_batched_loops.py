"""Loops over the items of a batch, each of which is one kernel, against JAX, on two targets and with two threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import stablehlo_py as shlo

RNG = np.random.default_rng(0)
TRIPS = 20
Step = Callable[[Any, Any], Any]


def numbers(*sizes: int) -> np.ndarray:
    return RNG.normal(size=sizes).astype(np.float32)


def _lorenz(p: jax.Array) -> jax.Array:
    x, y, z = p
    return p + 0.001 * jnp.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])


MASK = numbers(400)
TABLE, NUMBERS, ROW, COLUMN = numbers(TRIPS, 300), numbers(TRIPS), numbers(40), numbers(30)
# Name -> a trip, what is carried, whether the loop is one kernel.
LOOPS: dict[str, tuple[Step, Any, bool]] = {
    "elements": (lambda i, x: 3.7 * x * (1 - x), RNG.random(1000).astype(np.float32), True),
    "counter": (lambda i, x: x + i.astype(jnp.float32), numbers(777), True),
    "sums of rows": (lambda i, x: x / (1 + jnp.abs(x).sum(1, keepdims=True)), numbers(500, 3), True),
    "sums of columns": (lambda i, x: x / (1 + jnp.abs(x).sum(0, keepdims=True)), numbers(3, 500), True),
    "sums of many columns": (
        lambda i, s: (s[0] * 0.5 + s[1].sum(1), s[1] * 0.9),
        (numbers(300), numbers(300, 7)),
        True,
    ),
    "maxima of many rows": (lambda i, x: x - 0.1 * x.max(0), numbers(9, 300), True),
    "two that change places": (lambda i, s: (s[1] * 0.9, s[0] + 1), (numbers(300), numbers(300)), True),
    "two shapes": (
        lambda i, s: (s[0] + s[1].sum(1), s[1] * jnp.cos(s[0])[:, None]),
        (numbers(300), numbers(300, 4)),
        True,
    ),
    "complex": (lambda i, z: z * z * 0.5 + 0.1j, (0.3 * (numbers(400) + 1j * numbers(400))).astype(np.complex64), True),
    "bf16": (lambda i, x: x * jnp.bfloat16(0.5) + jnp.bfloat16(1), numbers(400).astype(ml_dtypes.bfloat16), True),
    "masks": (lambda i, s: (jnp.where(s[1], s[0] * 0.5, s[0] + 1), s[0] > 2), (MASK, MASK > 0), True),
    "bytes": (lambda i, x: x * 3 + i.astype(jnp.int8), RNG.integers(-9, 9, 700).astype(np.int8), True),
    "rows of a table": (lambda i, x: x * jnp.asarray(TABLE)[i], numbers(300), True),
    "numbers of a table": (lambda i, x: x * jnp.asarray(NUMBERS)[i], numbers(300), True),
    "few that are the same": (lambda i, s: (s[0] * s[1].sum() + s[1][0], s[1] * 0.5), (numbers(300), numbers(5)), True),
    "spread over rows": (lambda i, x: x * 0.5 + ROW, numbers(30, 40), True),
    "spread over columns": (lambda i, x: x * 0.5 + COLUMN[:, None] * i, numbers(30, 40), True),
    "swapped columns": (lambda i, x: jnp.stack([x[:, 1], x[:, 0] * 0.5], 1), numbers(300, 2), True),
    "random numbers": (
        lambda i, x: x + jax.random.normal(jax.random.fold_in(jax.random.key(0), i), (600,)),
        numbers(600),
        True,
    ),
    "vmap": (lambda i, x: jax.vmap(_lorenz)(x), numbers(512, 3), True),
    "reversed items": (lambda i, x: x[::-1] * 0.5, numbers(300), False),
    "neighbours": (lambda i, x: jnp.roll(x, 1) * 0.5, numbers(300), False),
    "mean": (lambda i, x: x - x.mean(), numbers(300), False),
    "many that are the same": (lambda i, s: (s[0] * s[1].sum(), s[1] * 0.5), (numbers(300), numbers(200)), False),
    "sums of a table": (lambda i, x: x + jnp.sin(jnp.asarray(TABLE) * i).sum(), numbers(300), False),
    "few items": (lambda i, x: x * 0.5, numbers(255), False),
}


@pytest.mark.every(2)
@pytest.mark.parametrize("cpu", [None, "generic"])
@pytest.mark.parametrize("name", LOOPS)
def test_loops_over_items(name: str, cpu: str | None) -> None:
    step, start, is_batched = LOOPS[name]
    leaves = jax.tree.leaves(start)

    def function(*leaves: jax.Array) -> Any:
        return lax.fori_loop(0, TRIPS, step, jax.tree.unflatten(jax.tree.structure(start), leaves))

    exported = jax.export.export(jax.jit(function))(*leaves).mlir_module_serialized
    results = []
    for threads in (1, 2):
        compiled = shlo.compile(exported, options=shlo.Options(threads=threads, cache_dir=None, cpu=cpu))
        assert ('"batched_loop"' in compiled.stages["fused"]) is is_batched
        results.append([np.asarray(result) for result in compiled(*leaves)])
    for one, two, wanted in zip(*results, jax.tree.leaves(jax.jit(function)(*leaves)), strict=True):
        assert one.tobytes() == two.tobytes()
        tolerance = 0.02 if one.dtype == ml_dtypes.bfloat16 else 2e-5
        np.testing.assert_allclose(one.astype(np.complex128), np.asarray(wanted).astype(np.complex128), tolerance, 1e-5)


def test_what_all_items_have_in_common_is_a_result() -> None:
    """The last of the blocks has it."""

    def function(x: jax.Array, v: jax.Array) -> Any:
        return lax.fori_loop(0, TRIPS, lambda i, s: (s[0] + s[1][1], s[1] * 0.5, s[2] + i), (x, v, jnp.int32(3)))

    x, v = numbers(20_000), numbers(3)
    exported = jax.export.export(jax.jit(function))(x, v).mlir_module_serialized
    compiled = shlo.compile(exported, options=shlo.Options(threads=2, cache_dir=None))
    assert '"batched_loop"' in compiled.stages["fused"]
    _, halves, count = compiled(x, v)
    np.testing.assert_array_equal(halves, v * np.float32(0.5**TRIPS))
    assert count == 3 + sum(range(TRIPS))


def test_loops_whose_trips_nobody_knows_stay_loops() -> None:
    """They may never end, and a kernel is not ended before it is done."""

    def function(x: jax.Array, most: jax.Array) -> Any:
        return lax.fori_loop(0, most, lambda i, x: x * 0.5, x)

    exported = jax.export.export(jax.jit(function))(numbers(300), np.int32(7)).mlir_module_serialized
    compiled = shlo.compile(exported, options=shlo.Options(cache_dir=None))
    assert '"batched_loop"' not in compiled.stages["fused"]


# Steps of the rows of an array along an axis, of which each row keeps to itself.
STEPS: list[Callable[[jax.Array, int, Any], jax.Array]] = [
    lambda x, axis, i: jnp.sin(x),
    lambda x, axis, i: x * 0.7 + 0.01 * i,
    lambda x, axis, i: jnp.where(x > 0, x, -0.5 * x),
    lambda x, axis, i: x / (1 + jnp.abs(x).sum(axis, keepdims=True)),
    lambda x, axis, i: jnp.flip(x, axis) * 0.9,
    lambda x, axis, i: jnp.roll(x, 1, axis) - x.max(axis, keepdims=True),
    lambda x, axis, i: jnp.where(x == x.min(axis, keepdims=True), 0.5 * x, x),
    lambda x, axis, i: jnp.stack([x, jnp.tanh(x)]).sum(0),
]


def test_what_stays_is_read_before_the_trips() -> None:
    """A row that is the same for all rows: its places are no neighbours where it begins anew within a vector."""
    x, row = numbers(40, 101), numbers(101)
    function = jax.jit(lambda x, row: lax.fori_loop(0, TRIPS, lambda _, x: x * row + 1, x))
    executable = shlo.compile(jax.export.export(function)(x, row), options=shlo.Options(threads=1, cache_dir=None))
    np.testing.assert_allclose(executable(x, row)[0], function(x, row), 1e-3, 1e-5)
    trips = [block for block in executable.stages["kernels"].split("\n^") if "llvm.fmul" in block]
    assert trips
    assert not any("llvm.load" in block or "gather" in block for block in trips)


@pytest.mark.parametrize("seed", range(16))
def test_random_loops_are_those_of_kernels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    items, few = int(rng.choice([256, 257, 320])), int(rng.choice([2, 3, 5, 8]))
    axis = int(rng.integers(2))
    x = rng.normal(size=(items, few) if axis else (few, items)).astype(np.float32)
    plan = rng.integers(len(STEPS), size=3)

    def trip(i: Any, state: Any) -> Any:
        x, sums = state
        for number in plan:
            x = STEPS[number](x, axis, i)
        return x, 0.5 * sums + x.sum(axis)

    def function(x: jax.Array, sums: jax.Array) -> Any:
        return lax.fori_loop(0, 12, trip, (x, sums))

    exported = jax.export.export(jax.jit(function))(x, x.sum(axis)).mlir_module_serialized
    results = []
    for disabled in ((), ("outline-batches",)):
        options = shlo.Options(threads=2, cache_dir=None, disable=disabled)
        compiled = shlo.compile(exported, options=options)
        assert ('"batched_loop"' in compiled.stages["fused"]) is (not disabled)
        results.append(compiled(x, x.sum(axis)))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, 1e-4, 1e-5)
