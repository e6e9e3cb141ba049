"""Twenty programs whose time is that of a loop, and the gradient of each: networks over time, filters, stencils,
particles, iterations of linear algebra, dynamic programming.

A program `NAME` returns what its loop leaves; `NAME-gradient` the derivatives of the mean of its squares by all inputs
of floats, in reverse mode: the loop's values are kept, and another loop goes back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from stablehlo_py.suite.registry import Model, Rng, Size, normal, register

Function: TypeAlias = Callable[..., Any]
Program: TypeAlias = tuple[Function, tuple[np.ndarray, ...]]  # and its inputs
TOLERANCE = 1e-4


def program(
    name: str, small: tuple[int, ...], full: tuple[int, ...], tolerance: float = TOLERANCE, notes: str = ""
) -> Callable[[Callable[..., Program]], Callable[..., Program]]:
    """Decorator: register a program and its gradient; what is decorated takes random numbers and sizes."""

    def enter(make: Callable[..., Program]) -> Callable[..., Program]:
        def entered(called: str, of: Callable[[Function, tuple[np.ndarray, ...]], Function]) -> None:
            @register(called, suite="loops")
            def build(size: Size, rng: Rng) -> Model:
                function, inputs = make(rng, *(full if size == "full" else small))
                made = of(function, inputs)
                return Model(lambda _, *arrays: made(*arrays), {}, inputs, tolerance, notes)

        entered(name, lambda function, _: function)
        entered(f"{name}-gradient", _gradient)
        return make

    return enter


def _gradient(function: Function, inputs: tuple[np.ndarray, ...]) -> Function:
    def loss(*arrays: jax.Array) -> jax.Array:
        return sum(jnp.square(jnp.abs(leaf)).mean() for leaf in jax.tree.leaves(function(*arrays)))

    return jax.grad(loss, [number for number, array in enumerate(inputs) if array.dtype == np.float32])


def _scaled(rng: Rng, *shape: int) -> np.ndarray:
    return normal(rng, *shape) / np.float32(np.sqrt(shape[0]))


# --- networks over time -----------------------------------------------------------------------------------------------


@program("lstm-batch-1", small=(1, 5, 6), full=(1, 100, 128))
@program("lstm-batch-32", small=(3, 5, 6), full=(32, 100, 128))
def lstm(rng: Rng, batch: int, steps: int, width: int) -> Program:
    """Inputs and state of one width."""

    def function(x: jax.Array, w: jax.Array, u: jax.Array, b: jax.Array) -> jax.Array:
        def step(state: Any, x: jax.Array) -> Any:
            h, c = state
            i, f, g, o = jnp.split(x @ w + h @ u + b, 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        start = jnp.zeros((batch, width))
        return lax.scan(step, (start, start), x)[1]

    weights = (_scaled(rng, width, 4 * width), _scaled(rng, width, 4 * width), 0.1 * normal(rng, 4 * width))
    return function, (normal(rng, steps, batch, width), *weights)


@program("gru-batch-8", small=(2, 5, 6), full=(8, 100, 128))
def gru(rng: Rng, batch: int, steps: int, width: int) -> Program:
    """Inputs and state of one width."""

    def function(x: jax.Array, w: jax.Array, u: jax.Array) -> jax.Array:
        def step(h: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            (xr, xz, xn), (hr, hz, hn) = jnp.split(x @ w, 3, axis=-1), jnp.split(h @ u, 3, axis=-1)
            z = jax.nn.sigmoid(xz + hz)
            return (1 - z) * jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn) + z * h, None

        return lax.scan(step, jnp.zeros((batch, width)), x)[0]

    return function, (normal(rng, steps, batch, width), _scaled(rng, width, 3 * width), _scaled(rng, width, 3 * width))


@program("state-space", small=(7, 2, 3), full=(512, 64, 16))
def state_space(rng: Rng, steps: int, width: int, states: int) -> Program:
    """Diagonal and complex (Gupta et al. 2022), step by step."""

    def function(x: jax.Array, decay: jax.Array, turn: jax.Array, into: jax.Array, out_of: jax.Array) -> jax.Array:
        factor = jnp.exp(lax.complex(-jnp.exp(decay), turn))

        def step(h: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
            h = factor * h + into * x[:, None]
            return h, (h * out_of).sum(-1).real

        return lax.scan(step, jnp.zeros((width, states), jnp.complex64), x)[1]

    inputs = (normal(rng, steps, width), 0.1 * normal(rng, width, states) - 3, 2 * normal(rng, width, states))
    return function, (*inputs, normal(rng, width, states), normal(rng, width, states))


# --- filters ----------------------------------------------------------------------------------------------------------


@program("kalman-filter", small=(4,), full=(500,))
def kalman_filter(rng: Rng, steps: int) -> Program:
    """Position and speed in a plane; two numbers are observed at a time."""

    def function(seen: jax.Array, noise: jax.Array) -> jax.Array:
        move = jnp.eye(4) + 0.1 * jnp.eye(4, k=2)
        look = jnp.eye(2, 4)

        def step(state: Any, seen: jax.Array) -> Any:
            x, p = state
            x, p = move @ x, move @ p @ move.T + noise[0] ** 2 * jnp.eye(4)
            s = look @ p @ look.T + (noise[1] ** 2 + 0.1) * jnp.eye(2)
            determinant = s[0, 0] * s[1, 1] - s[0, 1] * s[1, 0]
            inverse = jnp.array([[s[1, 1], -s[0, 1]], [-s[1, 0], s[0, 0]]]) / determinant
            gain = p @ look.T @ inverse
            x = x + gain @ (seen - look @ x)
            return (x, p - gain @ look @ p), x

        return lax.scan(step, (jnp.zeros(4), jnp.eye(4)), seen)[1]

    seen = np.cumsum(0.1 * normal(rng, steps, 2), axis=0, dtype=np.float32)
    return function, (seen, np.array([0.3, 0.5], np.float32))


@program("recursive-filter", small=(9, 2), full=(4000, 8))
def recursive_filter(rng: Rng, steps: int, channels: int) -> Program:
    """Two sections of second order (biquads) over samples."""

    def function(x: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
        def step(state: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
            for section in range(2):
                s1, s2 = state[section]
                y = b[section, 0] * x + s1
                s1, s2 = b[section, 1] * x - a[section, 0] * y + s2, b[section, 2] * x - a[section, 1] * y
                state, x = state.at[section].set(jnp.stack([s1, s2])), y
            return state, x

        return lax.scan(step, jnp.zeros((2, 2, channels)), x)[1]

    a = np.array([[-1.2, 0.5], [-0.8, 0.3]], np.float32)
    return function, (normal(rng, steps, channels), a, np.float32(0.3) * normal(rng, 2, 3))


@program("hidden-markov", small=(5, 3), full=(300, 32))
def hidden_markov(rng: Rng, steps: int, states: int) -> Program:
    """The forward algorithm in logarithms."""

    def function(moves: jax.Array, seen: jax.Array) -> jax.Array:
        moves = jax.nn.log_softmax(moves)

        def step(alpha: jax.Array, seen: jax.Array) -> tuple[jax.Array, None]:
            return jax.nn.logsumexp(alpha[:, None] + moves, axis=0) + seen, None

        alpha, _ = lax.scan(step, jnp.full(states, -np.log(states), jnp.float32), seen)
        return jax.nn.logsumexp(alpha) / steps

    return function, (normal(rng, states, states), normal(rng, steps, states))


# --- stencils ---------------------------------------------------------------------------------------------------------


@program("heat", small=(6, 3), full=(256, 100))
def heat(rng: Rng, cells: int, steps: int) -> Program:
    """Heat in a plane, whose edges stay as they are."""

    def function(x: jax.Array, rate: jax.Array) -> jax.Array:
        def step(_: int, x: jax.Array) -> jax.Array:
            around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
            return x.at[1:-1, 1:-1].add(rate * (around - 4 * x[1:-1, 1:-1]))

        return lax.fori_loop(0, steps, step, x)

    return function, (normal(rng, cells, cells), np.array(0.2, np.float32))


@program("reaction-diffusion", small=(5, 3), full=(128, 100))
def reaction_diffusion(rng: Rng, cells: int, steps: int) -> Program:
    """Gray and Scott's two substances on a torus."""

    def laplacian(x: jax.Array) -> jax.Array:
        return sum(jnp.roll(x, shift, axis) for axis in (0, 1) for shift in (1, -1)) - 4 * x

    def function(u: jax.Array, v: jax.Array, rates: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(_: int, state: Any) -> Any:
            u, v = state
            reaction = u * v * v
            u = u + 0.16 * laplacian(u) - reaction + rates[0] * (1 - u)
            return u, v + 0.08 * laplacian(v) + reaction - (rates[0] + rates[1]) * v

        return lax.fori_loop(0, steps, step, (u, v))

    u, v = rng.random((cells, cells), np.float32), 0.5 * rng.random((cells, cells), np.float32)
    return function, (u, v, np.array([0.035, 0.065], np.float32))


@program("wave", small=(8, 4), full=(4096, 500))
def wave(rng: Rng, cells: int, steps: int) -> Program:
    """A string, by leapfrog steps."""

    def function(x: jax.Array, speed: jax.Array) -> jax.Array:
        def step(state: Any, _: None) -> Any:
            before, now = state
            bent = jnp.pad(now[:-2] - 2 * now[1:-1] + now[2:], 1)
            return (now, 2 * now - before + speed**2 * bent), None

        return lax.scan(step, (x, x), None, length=steps)[0][1]

    return function, (np.cumsum(0.1 * normal(rng, cells), dtype=np.float32), np.array(0.7, np.float32))


# --- particles --------------------------------------------------------------------------------------------------------


@program("gravity", small=(4, 3), full=(128, 50))
def gravity(rng: Rng, bodies: int, steps: int) -> Program:
    """Every body pulls at every other one; leapfrog steps."""

    def function(x: jax.Array, v: jax.Array, mass: jax.Array) -> jax.Array:
        def step(_: int, state: Any) -> Any:
            x, v = state
            apart = x[None] - x[:, None]
            cubed = ((apart**2).sum(-1) + 0.05) ** -1.5
            v = v + 0.01 * jnp.einsum("ijk,ij,j->ik", apart, cubed, mass)
            return x + 0.01 * v, v

        return lax.fori_loop(0, steps, step, (x, v))[0]

    return function, (normal(rng, bodies, 3), normal(rng, bodies, 3), np.abs(normal(rng, bodies)) / np.float32(bodies))


@program("pendulums", small=(3, 4), full=(1024, 100), tolerance=1e-3, notes="chaotic: a rounding error grows")
def pendulums(rng: Rng, count: int, steps: int) -> Program:
    """Double pendulums, by steps of Runge and Kutta."""

    def slope(state: jax.Array) -> jax.Array:
        a, b, va, vb = state
        apart = a - b
        below = 3 - jnp.cos(2 * apart)
        first = -3 * 9.8 * jnp.sin(a) - 9.8 * jnp.sin(a - 2 * b)
        first = (first - 2 * jnp.sin(apart) * (vb**2 + va**2 * jnp.cos(apart))) / below
        second = 2 * va**2 + 2 * 9.8 * jnp.cos(a) + vb**2 * jnp.cos(apart)
        return jnp.stack([va, vb, first, 2 * jnp.sin(apart) * second / below])

    def function(start: jax.Array) -> jax.Array:
        def step(_: int, s: jax.Array) -> jax.Array:
            k1 = slope(s)
            k2 = slope(s + 0.005 * k1)
            k3 = slope(s + 0.005 * k2)
            return s + (0.01 / 6) * (k1 + 2 * k2 + 2 * k3 + slope(s + 0.01 * k3))

        return lax.fori_loop(0, steps, step, start)

    return function, (0.5 * normal(rng, 4, count),)


@program("random-walk", small=(3, 4), full=(256, 200))
def random_walk(rng: Rng, particles: int, steps: int) -> Program:
    """Langevin steps in a double well; every step draws its numbers."""

    def function(start: jax.Array, heat: jax.Array, key: jax.Array) -> jax.Array:
        def step(state: Any, _: None) -> Any:
            x, key = state
            key, own = jax.random.split(key)
            noise = jax.random.normal(own, x.shape)
            return (x - 0.01 * (x**3 - x) + jnp.sqrt(0.02 * heat) * noise, key), None

        return lax.scan(step, (start, jax.random.wrap_key_data(key)), None, length=steps)[0][0]

    return function, (normal(rng, particles, 2), np.array(0.5, np.float32), np.array([3, 5], np.uint32))


# --- iterations -------------------------------------------------------------------------------------------------------


@program("power-iteration", small=(5, 4), full=(256, 50))
def power_iteration(rng: Rng, size: int, steps: int) -> Program:
    """The largest eigenvalue of a symmetric matrix."""

    def function(a: jax.Array, x: jax.Array) -> jax.Array:
        def step(_: int, x: jax.Array) -> jax.Array:
            y = a @ x
            return y / jnp.sqrt((y * y).sum())

        x = lax.fori_loop(0, steps, step, x)
        return x @ (a @ x)

    a = _scaled(rng, size, size)
    return function, (a @ a.T + np.eye(size, dtype=np.float32), normal(rng, size))


@program("conjugate-gradients", small=(5, 4), full=(256, 30))
def conjugate_gradients(rng: Rng, size: int, steps: int) -> Program:
    """Of a positive definite matrix."""

    def function(a: jax.Array, b: jax.Array) -> jax.Array:
        def step(state: Any, _: None) -> Any:
            x, r, p, rr = state
            ap = a @ p
            rate = rr / (p @ ap)
            x, r = x + rate * p, r - rate * ap
            new = r @ r
            return (x, r, r + (new / rr) * p, new), None

        return lax.scan(step, (jnp.zeros_like(b), b, b, b @ b), None, length=steps)[0][0]

    a = _scaled(rng, size, size)
    return function, (3 * (a @ a.T) + np.eye(size, dtype=np.float32), normal(rng, size))


@program("sinkhorn", small=(4, 3), full=(256, 50))
def sinkhorn(rng: Rng, size: int, steps: int) -> Program:
    """Transport between two clouds (Cuturi 2013), in logarithms."""

    def function(a: jax.Array, b: jax.Array) -> jax.Array:
        costs = ((a[:, None] - b[None]) ** 2).sum(-1)

        def step(_: int, state: Any) -> Any:
            _, g = state
            f = -jax.nn.logsumexp((g - costs) / 0.5, axis=1) * 0.5
            return f, -jax.nn.logsumexp((f[:, None] - costs) / 0.5, axis=0) * 0.5

        f, g = lax.fori_loop(0, steps, step, (jnp.zeros(size), jnp.zeros(size)))
        return (jnp.exp((f[:, None] + g - costs) / 0.5) * costs).sum() / size

    return function, (normal(rng, size, 3), normal(rng, size, 3))


@program("newton-roots", small=(6, 4), full=(20_000, 20))
def newton_roots(rng: Rng, count: int, steps: int) -> Program:
    """Kepler's equation for many planets."""

    def function(mean: jax.Array, eccentricity: jax.Array) -> jax.Array:
        def step(_: int, x: jax.Array) -> jax.Array:
            return x - (x - eccentricity * jnp.sin(x) - mean) / (1 - eccentricity * jnp.cos(x))

        return lax.fori_loop(0, steps, step, mean)

    return function, ((6 * rng.random(count)).astype(np.float32), (0.7 * rng.random(count)).astype(np.float32))


@program("descent", small=(5, 4), full=(1000, 100))
def descent(rng: Rng, size: int, steps: int) -> Program:
    """Adam on Rosenbrock's function: a gradient inside of the loop."""

    def valley(x: jax.Array) -> jax.Array:
        return (5 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    def function(start: jax.Array, rate: jax.Array) -> jax.Array:
        def step(i: int, state: Any) -> Any:
            x, m, v = state
            slope = jax.grad(valley)(x)
            m, v = 0.9 * m + 0.1 * slope, 0.99 * v + 0.01 * slope**2
            return x - rate * m / (jnp.sqrt(v) + 0.1), m, v

        return lax.fori_loop(0, steps, step, (start, jnp.zeros(size), jnp.ones(size)))[0]

    return function, (0.5 * normal(rng, size), np.array(0.01, np.float32))


@program("page-rank", small=(5, 9, 3), full=(4096, 32_768, 30))
def page_rank(rng: Rng, nodes: int, edges: int, steps: int) -> Program:
    """Weights along edges are gathered and summed where they lead."""

    def function(weights: jax.Array, source: jax.Array, target: jax.Array) -> jax.Array:
        share = jax.nn.sigmoid(weights)
        total = jax.ops.segment_sum(share, source, nodes)
        share = share / jnp.maximum(total, 1e-3)[source]

        def step(_: int, rank: jax.Array) -> jax.Array:
            return 0.15 + 0.85 * jax.ops.segment_sum(rank[source] * share, target, nodes)

        return lax.fori_loop(0, steps, step, jnp.ones(nodes))

    source, target = (rng.integers(0, nodes, edges, np.int32) for _ in range(2))
    return function, (normal(rng, edges), source, target)


# --- dynamic programming ----------------------------------------------------------------------------------------------


@program("alignment", small=(4, 5), full=(128, 128))
def alignment(rng: Rng, rows: int, columns: int) -> Program:
    """Soft time warping (Cuturi and Blondel 2017): a loop over rows, in it one over columns."""

    def softmin(a: jax.Array, b: jax.Array, c: jax.Array) -> jax.Array:
        least = jnp.minimum(jnp.minimum(a, b), c)
        return least - jnp.log(jnp.exp(least - a) + jnp.exp(least - b) + jnp.exp(least - c))

    def function(x: jax.Array, y: jax.Array) -> jax.Array:
        costs = (x[:, None] - y[None]) ** 2

        def row(above: jax.Array, costs: jax.Array) -> tuple[jax.Array, None]:
            def column(left: jax.Array, now: Any) -> tuple[jax.Array, jax.Array]:
                cost, up, diagonal = now
                left = cost + softmin(left, up, diagonal)
                return left, left

            _, values = lax.scan(column, jnp.float32(1e4), (costs, above[1:], above[:-1]))
            return jnp.concatenate([jnp.full(1, 1e4), values]), None

        start = jnp.full(columns + 1, 1e4).at[0].set(0)
        return lax.scan(row, start, costs)[0][-1] / (rows + columns)

    return function, (normal(rng, rows), normal(rng, columns))


@program("best-path", small=(6, 4), full=(500, 64))
def best_path(rng: Rng, steps: int, states: int) -> Program:
    """Viterbi's algorithm: the maxima and where they come from, then the way back."""

    def function(moves: jax.Array, seen: jax.Array) -> tuple[jax.Array, jax.Array]:
        def forward(best: jax.Array, seen: jax.Array) -> tuple[jax.Array, jax.Array]:
            ways = best[:, None] + moves
            return ways.max(0) + seen, ways.argmax(0)

        best, came = lax.scan(forward, seen[0], seen[1:])

        def back(state: jax.Array, came: jax.Array) -> tuple[jax.Array, jax.Array]:
            return came[state], state

        _, path = lax.scan(back, best.argmax(), came, reverse=True)
        return best.max() / steps, path.astype(jnp.float32)

    return function, (normal(rng, states, states), normal(rng, steps, states))
