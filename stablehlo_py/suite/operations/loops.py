"""Loops, and random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn, random

from stablehlo_py.suite.operations.cases import (
    L2,
    MILLION,
    Case,
    Maker,
    c64,
    case,
    enter,
    f32,
    i32,
    key,
    positive,
    seeded,
    truth,
)

RANDOM = {
    "bits": case(seeded(lambda k: random.bits(k, (MILLION,))), key),
    "uniform": case(seeded(lambda k: random.uniform(k, (MILLION,))), key),
    "uniform-l2": case(seeded(lambda k: random.uniform(k, (L2,))), key),
    "normal": case(seeded(lambda k: random.normal(k, (MILLION,))), key),
    "integers": case(seeded(lambda k: random.randint(k, (MILLION,), 0, 1000)), key),
    "bernoulli": case(seeded(lambda k: random.bernoulli(k, 0.9, (MILLION,))), key),
    "exponential": case(seeded(lambda k: random.exponential(k, (MILLION,))), key),
    "categorical": case(lambda d, x: random.categorical(random.wrap_key_data(d), x), key, f32(1000, 100)),
    "permutation": case(seeded(lambda k: random.permutation(k, 100_000)), key),
    "gamma": case(seeded(lambda k: random.gamma(k, 2.5, (10_000,))), key),
}


def _repeated(count: int, step: Callable[..., Any], *makers: Maker, tolerance: float = 1e-4) -> Case:
    """The first argument after `count` steps; a step takes the module, it, and the others."""

    def by(module: Any, x: Any, *others: Any) -> Any:
        for _ in range(count):
            x = step(module, x, *others)
        return x

    def by_jax(x: Any, *others: Any) -> Any:
        return lax.fori_loop(0, count, lambda _, y: step(jnp, y, *others), x)

    return case(by_jax, *makers, torch=by, numpy=lambda *arguments: by(np, *arguments), tolerance=tolerance)


def _mixed(carry: tuple[jax.Array, ...], _: Any) -> tuple[tuple[jax.Array, ...], None]:
    count = len(carry)
    return tuple(v * 0.99 + carry[(i + 1) % count] * 0.01 for i, v in enumerate(carry)), None


def _smoothed(m: Any, x: Any) -> Any:
    return (x + m.roll(x, 1, 0) + m.roll(x, -1, 0) + m.roll(x, 1, 1) + m.roll(x, -1, 1)) / 5


def _attracted(_: Any, positions: Any) -> Any:
    apart = positions[None] - positions[:, None]
    return positions + 1e-3 * (apart / ((apart**2).sum(-1)[..., None] + 0.1) ** 1.5).sum(1)


def _moved_centers(x: Any, centers: Any) -> Any:
    nearest = jnp.argmin(((x[:, None] - centers[None]) ** 2).sum(-1), 1)
    member = nn.one_hot(nearest, centers.shape[0])
    return member.T @ x / (member.sum(0)[:, None] + 1e-6)


def _torch_centers(t: Any, x: Any, centers: Any) -> Any:
    for _ in range(10):
        nearest = ((x[:, None] - centers[None]) ** 2).sum(-1).argmin(1)
        member = t.nn.functional.one_hot(nearest, centers.shape[0]).float()
        centers = member.T @ x / (member.sum(0)[:, None] + 1e-6)
    return centers


def _lived(m: Any, x: Any) -> Any:
    around = sum(m.roll(m.roll(x, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
    return m.where((around == 3) | ((x == 1) & (around == 2)), 1, 0)


def _escaped(m: Any, z: Any, c: Any) -> Any:
    return m.where(m.abs(z) < 2, z * z + c, z)


def _balanced(_: Any, x: Any) -> Any:
    x = x / x.sum(0)[None]
    return x / x.sum(1)[:, None]


def _cell(h: Any, x: Any, u: Any, sigmoid: Any, tanh: Any) -> Any:
    """A gated unit whose inputs were multiplied before."""
    size = h.shape[1]
    gates = h @ u
    keep = sigmoid(x[:, :size] + gates[:, :size])
    return keep * h + (1 - keep) * tanh(x[:, size:] + gates[:, size:])


def _gated(x: Any, h: Any, w: Any, u: Any) -> Any:
    return lax.scan(lambda h, x: (_cell(h, x @ w, u, nn.sigmoid, jnp.tanh), None), h, x)[0]


def _torch_gated(t: Any, x: Any, h: Any, w: Any, u: Any) -> Any:
    for inputs in x @ w:
        h = _cell(h, inputs, u, t.sigmoid, t.tanh)
    return h


def _torch_recurrence(t: Any, h: Any, w: Any, x: Any) -> Any:
    states = []
    for each in x:
        states.append(h)
        h = t.tanh(h @ w + each)
    return t.stack(states)


LOOPS = {
    "scan-of-60-scalars": case(lambda x: lax.scan(_mixed, tuple(x), None, length=614)[0], f32(60)),
    "recurrence": case(
        lambda h, w, x: lax.scan(lambda h, x: (jnp.tanh(h @ w + x), h), h, x)[1],
        f32(1, 64),
        f32(64, 64, scale=0.1),
        f32(200, 1, 64),
        torch=_torch_recurrence,
    ),
    "gated-unit": case(
        _gated,
        f32(50, 8, 64),
        f32(8, 128),
        f32(64, 256, scale=0.1),
        f32(128, 256, scale=0.1),
        torch=_torch_gated,
    ),
    "gated-unit-gradient": case(
        jax.grad(lambda u, x, h, w: (_gated(x, h, w, u) ** 2).mean()),
        f32(128, 256, scale=0.1),
        f32(50, 8, 64),
        f32(8, 128),
        f32(64, 256, scale=0.1),
        torch=lambda t, u, x, h, w: t.func.grad(lambda u: (_torch_gated(t, x, h, w, u) ** 2).mean())(u),
    ),
    "linear-recurrence": case(
        lambda a, x: lax.scan(lambda h, s: ((h := s[0] * h + s[1]), h), jnp.zeros(256), (a, x))[1],
        f32(512, 256, scale=0.3),
        f32(512, 256),
    ),
    "update-in-loop": case(lambda x: lax.fori_loop(0, 1000, lambda i, v: v.at[i].add(1.0), x), f32(1000)),
    "vectors-in-loop": _repeated(100, lambda m, v: m.sin(v), f32(10_000)),
    "batched-while": case(
        jax.vmap(lambda x: lax.while_loop(lambda v: v < 1e6, lambda v: v * 1.125 + 1, x)), positive(10_000)
    ),
    "stencil": _repeated(3, _smoothed, f32(512, 512)),
    "life": _repeated(20, _lived, i32(2, 256, 256)),
    "n-body": _repeated(10, _attracted, f32(256, 3), tolerance=1e-3),
    "mandelbrot": case(
        lambda c: lax.fori_loop(0, 50, lambda _, z: z * z + c, jnp.zeros_like(c)),
        c64(200, 200, scale=0.05),
        torch=lambda t, c: _iterated(t.zeros_like(c), c),
        numpy=lambda c: _iterated(np.zeros_like(c), c),
    ),
    "julia-with-selects": _repeated(30, _escaped, c64(200, 200, scale=0.3), c64(200, 200, scale=0.3), tolerance=1e-2),
    "k-means": case(
        lambda x, c: lax.fori_loop(0, 10, lambda _, each: _moved_centers(x, each), c),
        f32(10_000, 8),
        f32(16, 8),
        torch=_torch_centers,
        tolerance=1e-2,
    ),
    "balancing": _repeated(20, _balanced, positive(256, 256)),
    "power-iteration": _repeated(
        50, lambda m, v, a: (w := a @ v) / m.sqrt((w * w).sum()), positive(256), positive(256, 256)
    ),
    "masked-sum": case(
        lambda x, y: lax.scan(lambda s, each: (s + jnp.where(each[0], each[1], 0.0), None), jnp.zeros(64), (x, y))[0],
        truth(1000, 64),
        f32(1000, 64),
    ),
}


def _iterated(z: Any, c: Any) -> Any:
    for _ in range(50):
        z = z * z + c
    return z


enter("random", RANDOM)
enter("loop", LOOPS)
