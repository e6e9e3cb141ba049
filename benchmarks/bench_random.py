"""Random programs of a few steps next to XLA on one core: the other benchmarks have what somebody thought of, this one
has operations after each other, on shapes that are no multiples of anything. Prints those that take longer than under
XLA, with their steps; a seed is the same program every time.

    python benchmarks/bench_random.py 0 500                 # seeds 0 to 499
    python benchmarks/bench_random.py 117 1 --above 0       # one of them, whatever it takes
    python benchmarks/bench_random.py 0 500 --gradients     # of the sum of squares, where they are floats
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable
from typing import Any, TypeAlias

os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # before jax counts its threads

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

import stablehlo_py as shlo  # noqa: E402
from stablehlo_py.suite.measure import interleaved  # noqa: E402

Step: TypeAlias = Callable[[jax.Array], jax.Array]
Draw: TypeAlias = Callable[[np.random.Generator, tuple[int, ...], np.dtype], tuple[str, Step]]

TYPES: dict[str, Any] = {
    "f32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "i8": np.int8,
    "i32": np.int32,
    "f64": np.float64,
    "c64": np.complex64,
}
TYPE_WEIGHTS = (0.5, 0.12, 0.12, 0.1, 0.08, 0.08)
ELEMENTS = (1 << 11, 1 << 18)  # of the argument
MOST_ELEMENTS = 1 << 20  # of any array
STEPS = (2, 3, 4, 5)


class Refused(Exception):
    """The step does not fit the array."""


def require(condition: bool) -> None:
    if not condition:
        raise Refused


def axis_of(rng: np.random.Generator, shape: tuple[int, ...], least: int = 2) -> int:
    """A dimension of so many places at least."""
    fitting = [axis for axis, size in enumerate(shape) if size >= least]
    require(bool(fitting))
    return int(rng.choice(fitting))


def whole(rng: np.random.Generator, low: int, high: int) -> int:
    return int(rng.integers(low, high + 1))


# --- steps -----------------------------------------------------------------------------------------------------------


def elementwise(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> tuple[str, Step]:
    simple: dict[str, Step] = {
        "x * x + x": lambda x: x * x + x,
        "3 * x - 1": lambda x: 3 * x - 1,
        "where(x == 1, x + 2, x)": lambda x: jnp.where(x == 1, x + 2, x),
    }
    ordered: dict[str, Step] = {
        "maximum(x, 0)": lambda x: jnp.maximum(x, 0),
        "where(x > 1, 1, -x)": lambda x: jnp.where(x > 1, 1, -x),
    }
    floats: dict[str, Step] = {
        "exp(-x * x)": lambda x: jnp.exp(-x * x),
        "x / (1 + abs(x))": lambda x: x / (1 + abs(x)),
        "sqrt(abs(x))": lambda x: jnp.sqrt(abs(x)),
    }
    chosen = simple
    if not jnp.issubdtype(dtype, jnp.complexfloating):
        chosen = chosen | ordered
    if jnp.issubdtype(dtype, jnp.floating):
        chosen = chosen | floats
    name = str(rng.choice(list(chosen)))
    return name, chosen[name]


def converted(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> tuple[str, Step]:
    require(not jnp.issubdtype(dtype, jnp.complexfloating))
    to = str(rng.choice(["f32", "bf16", "i8", "i32"]))
    return f"as {to}", lambda x: x.astype(TYPES[to])


def reshaped(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> tuple[str, Step]:
    factors = [factor for size in shape for factor in prime_factors(size)]
    rng.shuffle(factors)
    sizes = [1] * whole(rng, 1, 4)
    for factor in factors:
        sizes[int(rng.integers(len(sizes)))] *= factor
    return f"reshape {sizes}", lambda x: x.reshape(sizes)


def prime_factors(number: int) -> list[int]:
    found, divisor = [], 2
    while number > 1:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    return found


def transposed(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> tuple[str, Step]:
    require(len(shape) > 1)
    order = [int(axis) for axis in rng.permutation(len(shape))]
    return f"transpose {order}", lambda x: x.transpose(order)


def sliced(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> tuple[str, Step]:
    axis = axis_of(rng, shape, 4)
    start, stride = whole(rng, 0, 3), whole(rng, 1, 3)
    return f"slice {start}::{stride} of {axis}", lambda x: lax.slice_in_dim(x, start, None, stride, axis)


def padded(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> tuple[str, Step]:
    pads = [(0, 0, 0)] * len(shape)
    pads[axis_of(rng, shape)] = whole(rng, -1, 4), whole(rng, 0, 4), whole(rng, 0, 1)
    return f"pad {pads}", lambda x: lax.pad(x, np.zeros((), x.dtype), pads)


def moved(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> tuple[str, Step]:
    axis, by = axis_of(rng, shape), whole(rng, 1, 5)
    steps: dict[str, Step] = {
        f"flip {axis}": lambda x: jnp.flip(x, axis),
        f"roll {by} along {axis}": lambda x: jnp.roll(x, by, axis),
        f"difference along {axis}": lambda x: jnp.diff(x, axis=axis),
        f"concatenate x, x + 1 along {axis}": lambda x: jnp.concatenate([x, x + 1], axis),
        f"stack x, x * x before {axis}": lambda x: jnp.stack([x, x * x], axis),
        f"repeat {by} along {axis}": lambda x: jnp.repeat(x, by, axis),
        f"tile {by} along {axis}": lambda x: jnp.tile(x, [by if each == axis else 1 for each in range(x.ndim)]),
    }
    name = str(rng.choice(list(steps)))
    return name, steps[name]


def gathered(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> tuple[str, Step]:
    axis = axis_of(rng, shape)
    places = rng.integers(0, shape[axis], whole(rng, 1, 2 * shape[axis]))
    return f"take {len(places)} along {axis}", lambda x: jnp.take(x, places, axis)


def scattered(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> tuple[str, Step]:
    count = whole(rng, 1, 2 * shape[0])
    places = rng.integers(0, count, shape[0])
    return f"add to {count} places", lambda x: jnp.zeros((count, *x.shape[1:]), x.dtype).at[places].add(x)


def updated(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> tuple[str, Step]:
    axis = axis_of(rng, shape, 4)
    low, high = whole(rng, 0, 2), shape[axis] - whole(rng, 0, 1)
    inner = (*[slice(None)] * axis, slice(low, high))
    return f"x.at[{low}:{high} of {axis}].add(2 x)", lambda x: (x + 1).at[inner].add(2 * x[inner])


def reduced(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> tuple[str, Step]:
    axis = axis_of(rng, shape)
    by: dict[str, Callable[..., Any]] = {"sum": jnp.sum, "mean of squares": lambda x, axis: (x * x).mean(axis)}
    if not jnp.issubdtype(dtype, jnp.complexfloating):
        by |= {"max": jnp.max, "argmax": jnp.argmax, "any": lambda x, axis: (x > 1).any(axis)}
    name = str(rng.choice(list(by)))
    return f"{name} along {axis}", lambda x: by[name](x, axis=axis).astype(x.dtype)


def normalized(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> tuple[str, Step]:
    axis = axis_of(rng, shape)
    steps: dict[str, Step] = {f"less the sum along {axis}": lambda x: x - x.sum(axis, keepdims=True).astype(x.dtype)}
    if jnp.issubdtype(dtype, jnp.floating):
        steps |= {
            f"softmax along {axis}": lambda x: jax.nn.softmax(x, axis),
            f"standardize along {axis}": lambda x: jax.nn.standardize(x, axis),
        }
    name = str(rng.choice(list(steps)))
    return name, steps[name]


def cumulative(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> tuple[str, Step]:
    axis = axis_of(rng, shape)
    return f"cumsum along {axis}", lambda x: jnp.cumsum(x, axis, dtype=x.dtype)


def windowed(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> tuple[str, Step]:
    axis, width, stride = axis_of(rng, shape, 8), whole(rng, 2, 5), whole(rng, 1, 2)
    sizes, strides = ([by if each == axis else 1 for each in range(len(shape))] for by in (width, stride))
    zero = np.zeros((), dtype)
    return (
        f"sums of {width}, every {stride}, along {axis}",
        lambda x: lax.reduce_window(x, zero, lax.add, sizes, strides, "SAME"),
    )


def product(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> tuple[str, Step]:
    axis, columns = axis_of(rng, shape), whole(rng, 1, 40)
    require(shape[axis] <= 512)
    weights = rng.integers(-2, 3, (shape[axis], columns)).astype(dtype)
    return f"product with {columns} columns along {axis}", lambda x: jnp.tensordot(x, weights, ([axis], [0]))


def ordered(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> tuple[str, Step]:
    require(not jnp.issubdtype(dtype, jnp.complexfloating) and rng.random() < 0.3)
    axis = axis_of(rng, shape)
    return f"sort along {axis}", lambda x: jnp.sort(x, axis)


def looped(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> tuple[str, Step]:
    require(1 < shape[0] <= 200 and rng.random() < 0.5)
    return "scan", lambda x: lax.scan(lambda carry, row: ((carry + row) * np.asarray(0.5, row.dtype),) * 2, x[0], x)[1]


def spread(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> tuple[str, Step]:
    axis = axis_of(rng, shape)
    return (
        f"x + x[0 of {axis}]",
        lambda x: x + jnp.expand_dims(lax.index_in_dim(x, 0, axis, keepdims=False), axis),
    )


DRAWS: tuple[Draw, ...] = (
    elementwise,
    elementwise,
    converted,
    reshaped,
    transposed,
    sliced,
    padded,
    moved,
    moved,
    gathered,
    scattered,
    updated,
    reduced,
    normalized,
    cumulative,
    windowed,
    product,
    ordered,
    looped,
    spread,
)


# --- programs --------------------------------------------------------------------------------------------------------


def program(seed: int) -> tuple[str, Callable[[jax.Array], jax.Array], np.ndarray]:
    """Its steps, the function and an argument."""
    rng = np.random.default_rng(seed)
    name = str(rng.choice(list(TYPES), p=TYPE_WEIGHTS))
    shape = random_shape(rng)
    x = (rng.standard_normal(shape) * 3).astype(TYPES[name])
    value = jax.ShapeDtypeStruct(shape, x.dtype)
    names, steps = [f"{name}{list(shape)}"], []
    for _ in range(int(rng.choice(STEPS))):
        while True:
            draw = DRAWS[int(rng.integers(len(DRAWS)))]
            try:
                said, step = draw(rng, value.shape, value.dtype)
                after = jax.eval_shape(step, value)
                require(0 < math.prod(after.shape) <= MOST_ELEMENTS and len(after.shape) > 0)
            except Refused:
                continue
            break
        names.append(said)
        steps.append(step)
        value = jax.ShapeDtypeStruct(after.shape, after.dtype)

    def function(x: jax.Array) -> jax.Array:
        for step in steps:
            x = step(x)
        return x

    return "; ".join(names), function, x


def gradient_of(function: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    """Of the sum of the squares of what a function makes of floats."""

    def total(x: jax.Array) -> jax.Array:
        return jnp.sum(function(x).astype(np.float32) ** 2)

    return jax.grad(total)


def random_shape(rng: np.random.Generator) -> tuple[int, ...]:
    """Of one to four dimensions, some short; products lie between the `ELEMENTS`."""
    while True:
        sizes = [int(2 ** rng.uniform(0.5, 12)) for _ in range(whole(rng, 1, 4))]
        if ELEMENTS[0] <= math.prod(sizes) <= ELEMENTS[1]:
            return tuple(sizes)


def measured(function: Callable[[jax.Array], jax.Array], x: np.ndarray) -> tuple[float, float]:
    """Processor seconds of a call, and ours / XLA's."""
    jitted = jax.jit(function)
    executable = shlo.compile(jax.export.export(jitted)(x), options=shlo.Options(threads=1, cache_dir=None))
    of_xla, on_device = jitted.lower(x).compile(), jax.device_put(x)
    calls = [lambda: executable(x), lambda: jax.block_until_ready(of_xla(on_device))]
    (ours, _), (_, ratio) = interleaved(calls, 3, 0.03, time.process_time)
    return ours, 1 / ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=int, help="the first seed")
    parser.add_argument("count", type=int, help="how many")
    parser.add_argument("--above", type=float, default=1.1, help="print what takes more than so many times XLA's time")
    parser.add_argument("--gradients", action="store_true", help="measure gradients of programs of floats")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    ratios = []
    for seed in range(options.first, options.first + options.count):
        said, function, x = program(seed)
        if options.gradients:
            if not jnp.issubdtype(x.dtype, jnp.floating):
                continue
            function = gradient_of(function)
        ours, ratio = measured(function, x)
        if ratio > options.above:  # once more: a process in the way
            ours, ratio = min((ours, ratio), measured(function, x), key=lambda pair: pair[1])
        ratios.append(ratio)
        if ratio > options.above:
            print(f"{seed:6} {1e6 * ours:10.1f} us {ratio:6.2f}  {said}", flush=True)
    print(f"{len(ratios)} programs, geometric mean of our time / XLA's {np.exp(np.mean(np.log(ratios))):.3f}")


if __name__ == "__main__":
    main()
