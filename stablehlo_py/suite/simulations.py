"""Programs of graphics and physics, whose loops are around wide arithmetic; and a Gaussian process."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from stablehlo_py.suite.registry import Model, Rng, Size, normal, register


def _length(v: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.square(v).sum(-1) + 1e-12)


@register("ray-marcher")
def ray_marcher(size: Size, rng: Rng) -> Model:
    """Full: 160x120 rays, 48 steps through a field of distances (a ball, a torus, a floor); normals are gradients."""
    width, height, steps = (160, 120, 48) if size == "full" else (8, 6, 8)

    def distance(p: Any, at: jax.Array) -> jax.Array:
        ball = _length(at - p["ball"]) - 0.8
        ring = _length(at[..., jnp.array([0, 2])] - p["torus"][jnp.array([0, 2])]) - 0.9
        torus = jnp.sqrt(ring**2 + (at[..., 1] - p["torus"][1]) ** 2 + 1e-12) - 0.3
        floor = at[..., 1] + 1
        nearest = jnp.stack([ball, torus, floor])
        return -0.1 * jax.nn.logsumexp(-10 * nearest, axis=0)  # a smooth minimum

    def function(p: Any, eye: jax.Array) -> jax.Array:
        y, x = jnp.meshgrid(jnp.linspace(0.75, -0.75, height), jnp.linspace(-1, 1, width), indexing="ij")
        rays = jnp.stack([x, y, jnp.full_like(x, 1.2)], -1)
        rays = (rays / _length(rays)[..., None]).reshape(-1, 3)

        def march(_: int, far: jax.Array) -> jax.Array:
            return far + 0.9 * distance(p, eye + far[:, None] * rays)

        far = jnp.minimum(lax.fori_loop(0, steps, march, jnp.zeros(len(rays))), 20)
        hit = eye + far[:, None] * rays
        normals = jax.vmap(jax.grad(lambda at: distance(p, at)))(hit)
        light = p["light"] / _length(p["light"])
        shade = 0.2 + 0.8 * jax.nn.relu(normals @ light)
        return (shade * jnp.exp(-0.1 * far - 4 * jnp.abs(distance(p, hit)))).reshape(height, width)

    parameters = {
        "ball": np.array([-0.8, 0, 4], np.float32) + 0.1 * normal(rng, 3),
        "torus": np.array([0.9, -0.5, 4], np.float32) + 0.1 * normal(rng, 3),
        "light": np.array([0.5, 1, -0.7], np.float32) + 0.1 * normal(rng, 3),
    }
    notes = "rays along an edge step past it by a rounding error"
    return Model(function, parameters, (0.1 * normal(rng, 3),), tolerance=2e-2, notes=notes)


@register("fluid")
def fluid(size: Size, rng: Rng) -> Model:
    """Full: 10 steps of a fluid of 128x128 cells (Stam 1999): advection by gathers, 20 of Jacobi's iterations."""
    cells, steps, iterations, dt = (128, 10, 20, 0.5) if size == "full" else (8, 2, 4, 0.5)

    def around(x: jax.Array, axis: int) -> tuple[jax.Array, jax.Array]:
        return jnp.roll(x, -1, axis), jnp.roll(x, 1, axis)

    def carried(field: jax.Array, velocity: jax.Array) -> jax.Array:
        y, x = jnp.meshgrid(jnp.arange(cells), jnp.arange(cells), indexing="ij")
        from_ = [(grid - dt * v) % cells for grid, v in zip((y, x), velocity, strict=True)]
        low = [jnp.floor(each).astype(jnp.int32) for each in from_]
        (ty, tx), (y0, x0) = [each - jnp.floor(each) for each in from_], [each % cells for each in low]
        y1, x1 = (y0 + 1) % cells, (x0 + 1) % cells
        upper = field[y0, x0] * (1 - tx) + field[y0, x1] * tx
        lower = field[y1, x0] * (1 - tx) + field[y1, x1] * tx
        return upper * (1 - ty) + lower * ty

    def without_divergence(velocity: jax.Array) -> jax.Array:
        divergence = sum((a - b) / 2 for a, b in (around(velocity[axis], axis) for axis in (0, 1)))

        def relax(_: int, pressure: jax.Array) -> jax.Array:
            return (sum(sum(around(pressure, axis)) for axis in (0, 1)) - divergence) / 4

        pressure = lax.fori_loop(0, iterations, relax, jnp.zeros((cells, cells)))
        slopes = [(a - b) / 2 for a, b in (around(pressure, axis) for axis in (0, 1))]
        return velocity - jnp.stack(slopes)

    def function(_: Any, velocity: jax.Array, smoke: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(_: int, state: Any) -> Any:
            velocity, smoke = state
            velocity = jnp.stack([carried(each, velocity) for each in velocity])
            velocity = without_divergence(velocity.at[0].add(-0.1 * dt * smoke))
            return velocity, carried(smoke, velocity)

        return lax.fori_loop(0, steps, step, (velocity, smoke))

    notes = "rounding errors move where cells are read"
    inputs = (normal(rng, 2, cells, cells), rng.random((cells, cells), np.float32))
    return Model(function, {}, inputs, tolerance=1e-3, notes=notes)


@register("cloth")
def cloth(size: Size, rng: Rng) -> Model:
    """Full: a cloth of 64x64 masses, springs to 8 neighbours, 100 steps, a ball that it falls on; and the gradient of
    where it lies by where the ball is."""
    masses, steps = (64, 100) if size == "full" else (5, 4)
    springs = ((0, 1), (1, 0), (1, 1), (1, -1))

    def forces(x: jax.Array) -> jax.Array:
        total = jnp.zeros_like(x)
        for down, right in springs:
            rest = 0.05 * float(np.hypot(down, right))
            first = x[: masses - down, max(0, -right) : masses - max(0, right)]
            second = x[down:, max(0, right) : masses - max(0, -right)]
            apart = second - first
            size = _length(apart)[..., None]
            pull = 400.0 * (size - rest) * apart / size
            total = total.at[: masses - down, max(0, -right) : masses - max(0, right)].add(pull)
            total = total.at[down:, max(0, right) : masses - max(0, -right)].add(-pull)
        return total

    def end(ball: jax.Array, x: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(state: Any, _: None) -> tuple[Any, None]:
            x, v = state
            v = 0.999 * (v + 0.002 * (forces(x) + jnp.array([0, -9.8, 0])))
            v = v.at[0, 0].set(0).at[0, -1].set(0)
            x = x + 0.002 * v
            away = x - ball
            size = _length(away)[..., None]
            return (jnp.where(size < 0.5, ball + 0.5 * away / size, x), v), None

        (x, _), _ = lax.scan(step, (x, v), None, length=steps)
        return jnp.square(x).mean(), x

    def function(_: Any, ball: jax.Array, x: jax.Array, v: jax.Array) -> Any:
        (_, x), slope = jax.value_and_grad(end, has_aux=True)(ball, x, v)
        return x, slope

    y, x = np.meshgrid(np.arange(masses), np.arange(masses), indexing="ij")
    start = 0.05 * np.stack([x, np.zeros_like(x), y], -1).astype(np.float32)
    middle = start.mean((0, 1)) - np.array([0, 0.55, 0], np.float32)
    inputs = (middle, start, 0.5 * normal(rng, masses, masses, 3))
    return Model(function, {}, inputs, tolerance=1e-3, notes="springs are stiff: rounding errors swing")


@register("gaussian-process")
def gaussian_process(size: Size, rng: Rng) -> Model:
    """Full: the likelihood of 512 points of 4 features and its gradient by 6 parameters, and 128 predictions."""
    points, features, others = (512, 4, 128) if size == "full" else (9, 2, 3)

    def kernel(p: Any, a: jax.Array, b: jax.Array) -> jax.Array:
        a, b = a * jnp.exp(p["scales"]), b * jnp.exp(p["scales"])
        apart = jnp.square(a).sum(1)[:, None] + jnp.square(b).sum(1) - 2 * a @ b.T
        return jnp.exp(p["height"] - 0.5 * jnp.maximum(apart, 0))

    def factor(p: Any, x: jax.Array) -> jax.Array:
        return jnp.linalg.cholesky(kernel(p, x, x) + jnp.exp(p["noise"]) * jnp.eye(points))

    def solved(lower: jax.Array, y: jax.Array) -> jax.Array:
        return jax.scipy.linalg.cho_solve((lower, True), y)

    def loss(p: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        lower = factor(p, x)
        return 0.5 * y @ solved(lower, y) + jnp.log(jnp.diagonal(lower)).sum()

    def function(p: Any, x: jax.Array, y: jax.Array, at: jax.Array) -> Any:
        value, slopes = jax.value_and_grad(loss)(p, x, y)
        lower, shared = factor(p, x), kernel(p, at, x)
        spread = jnp.diagonal(kernel(p, at, at)) - (shared * solved(lower, shared.T).T).sum(1)
        return value / points, jax.tree.map(lambda slope: slope / points, slopes), shared @ solved(lower, y), spread

    x, at = normal(rng, points, features), normal(rng, others, features)
    y = np.sin(x.sum(1)) + 0.1 * normal(rng, points)
    parameters = {"scales": 0.1 * normal(rng, features), "height": np.float32(0.1), "noise": np.float32(-2)}
    return Model(function, parameters, (x, y, at), tolerance=1e-3, notes="the matrix has a condition of some thousands")
