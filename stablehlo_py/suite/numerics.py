"""Loops and branches around little arithmetic: ODE solvers, Newton's method, cond and switch."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stablehlo_py.suite.registry import Model, Rng, Size, normal, register


def _lorenz(state: jax.Array) -> jax.Array:
    x, y, z = state[..., 0], state[..., 1], state[..., 2]
    return jnp.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - (8.0 / 3.0) * z], -1)


@register("lorenz")
def lorenz(size: Size, rng: Rng) -> Model:
    """Full: 1000 Runge-Kutta 4 steps of 0.002 of the Lorenz system."""
    steps, dt = (1000, 0.002) if size == "full" else (20, 0.002)

    def function(_: Any, state: jax.Array) -> jax.Array:
        def body(carry: Any) -> Any:
            i, s = carry
            k1 = _lorenz(s)
            k2 = _lorenz(s + 0.5 * dt * k1)
            k3 = _lorenz(s + 0.5 * dt * k2)
            k4 = _lorenz(s + dt * k3)
            return i + 1, s + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)

        return jax.lax.while_loop(lambda carry: carry[0] < steps, body, (0, state))[1]

    notes = "chaotic: a rounding error grows about e^0.9 a unit of time"
    return Model(function, {}, (1 + normal(rng, 3),), tolerance=1e-3, notes=notes)


# Dormand and Prince, "A family of embedded Runge-Kutta formulae", 1980: stages, fifth-order weights, error weights.
_STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


@register("dormand-prince")
def dormand_prince(size: Size, rng: Rng) -> Model:
    """Full: van der Pol oscillators, batch 32, to time 10, adaptive Dormand-Prince 5(4), tolerance 1e-4."""
    batch, end, tolerance = (32, 10.0, 1e-4) if size == "full" else (3, 1.0, 1e-3)

    def field(y: jax.Array) -> jax.Array:
        return jnp.stack([y[..., 1], (1.0 - y[..., 0] ** 2) * y[..., 1] - y[..., 0]], -1)

    def function(_: Any, start: jax.Array) -> tuple[jax.Array, jax.Array]:
        def body(carry: Any) -> Any:
            t, y, k1, dt, steps = carry
            dt = jnp.minimum(dt, end - t)
            slopes = [k1]
            for row in _STAGES:
                stage = y + dt * sum(w * k for w, k in zip(row, slopes, strict=True) if w != 0.0)
                slopes.append(field(stage))
            error = dt * sum(w * k for w, k in zip(_ERROR, slopes, strict=True) if w != 0.0)
            scale = tolerance * (1.0 + jnp.maximum(jnp.abs(y), jnp.abs(stage)))
            norm = jnp.sqrt(jnp.mean(jnp.square(error / scale)))
            accept = norm <= 1.0
            factor = jnp.clip(0.9 * jnp.maximum(norm, 1e-6) ** -0.2, 0.2, 5.0)
            t = jnp.where(accept, t + dt, t)
            return t, jnp.where(accept, stage, y), jnp.where(accept, slopes[-1], k1), dt * factor, steps + 1

        def unfinished(carry: Any) -> jax.Array:
            return (carry[0] < end - 1e-6) & (carry[4] < 10_000)

        carry = (jnp.float32(0), start, field(start), jnp.float32(0.01), jnp.int32(0))
        t, y, *_rest = jax.lax.while_loop(unfinished, body, carry)
        return t, y

    inputs = (1 + 0.5 * normal(rng, batch, 2),)
    notes = "step sizes follow rounding; the solution holds to the solver's own tolerance"
    return Model(function, {}, inputs, tolerance=1e-3, notes=notes)


@register("newton")
def newton(size: Size, rng: Rng) -> Model:
    """Full: 4096 roots of a Kepler equation, and gradients of 64 two-dimensional systems solved to convergence."""
    roots, systems = (4096, 64) if size == "full" else (16, 3)

    def kepler(mean: jax.Array, eccentricity: jax.Array) -> jax.Array:
        def body(carry: Any) -> Any:
            i, x, _ = carry
            step = (x - eccentricity * jnp.sin(x) - mean) / (1.0 - eccentricity * jnp.cos(x))
            return i + 1, x - step, jnp.max(jnp.abs(step))

        def unfinished(carry: Any) -> jax.Array:
            return (carry[2] > 1e-5) & (carry[0] < 50)

        return jax.lax.while_loop(unfinished, body, (0, mean, jnp.float32(jnp.inf)))[1]

    def residual(v: jax.Array, target: jax.Array) -> jax.Array:
        return jnp.stack([v[0] + 0.25 * jnp.tanh(v[1]), v[1] + 0.25 * v[0] ** 2 / (1 + v[0] ** 2)]) - target

    def system(target: jax.Array) -> jax.Array:
        def body(_: int, v: jax.Array) -> jax.Array:
            jacobian, value = jax.jacfwd(residual)(v, target), residual(v, target)
            determinant = jacobian[0, 0] * jacobian[1, 1] - jacobian[0, 1] * jacobian[1, 0]
            adjugate = jnp.array([[jacobian[1, 1], -jacobian[0, 1]], [-jacobian[1, 0], jacobian[0, 0]]])
            return v - adjugate @ value / determinant

        return jax.lax.fori_loop(0, 8, body, target)

    def function(_: Any, mean: jax.Array, eccentricity: jax.Array, targets: jax.Array) -> tuple[jax.Array, jax.Array]:
        return kepler(mean, eccentricity), jax.vmap(system)(targets)

    mean = (rng.random(roots) * 2 * np.pi).astype(np.float32)
    eccentricity = (rng.random(roots) * 0.8).astype(np.float32)
    inputs = (mean, eccentricity, normal(rng, systems, 2))
    return Model(function, {}, inputs, tolerance=2e-5, notes="stops at a tolerance of 1e-5")


@register("branches")
def branches(size: Size, rng: Rng) -> Model:
    """Full: 200 steps, each chooses one of 4 updates of a 64x64 matrix by lax.switch, with a lax.cond inside."""
    steps, width = (200, 64) if size == "full" else (10, 5)

    def function(_: Any, x: jax.Array, codes: jax.Array) -> tuple[jax.Array, jax.Array]:
        options = [
            lambda a: jnp.tanh(a @ a.T * (1.0 / width)),
            lambda a: a[::-1] * 0.5,
            lambda a: jax.lax.cond(a.sum() > 0, lambda b: b - b.mean(), lambda b: jnp.roll(b, 1, axis=0), a),
            lambda a: jnp.sort(a, axis=-1),
        ]

        def body(carry: jax.Array, code: jax.Array) -> tuple[jax.Array, jax.Array]:
            carry = jax.lax.switch(code, options, carry)
            return carry, jnp.max(carry)

        return jax.lax.scan(body, x, codes)

    inputs = (normal(rng, width, width), rng.integers(-1, 6, steps, np.int32))
    return Model(function, {}, inputs)
