"""Random programs of elementwise, broadcast, reduction and shape operations, compared with jax.jit.

Values are small whole numbers and every operation keeps them so: results are exact, whatever the order of sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import hypothesis
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from jax import lax

import stablehlo_py as shlo

MAX_ELEMENTS = 6000
LIMIT = 1 << 12  # values are folded back into this range, so that products stay exact in f32

sizes = st.sampled_from([1, 2, 3, 4, 7, 8, 16, 17, 33, 64])
shapes = st.lists(sizes, min_size=0, max_size=4).map(tuple).filter(lambda shape: math.prod(shape) <= MAX_ELEMENTS)


def folded(x: jax.Array) -> jax.Array:
    return lax.rem(x, jnp.asarray(LIMIT, x.dtype))


@st.composite
def steps(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Callable[[jax.Array], jax.Array], tuple[int, ...]]:
    """An operation on an array of this shape, and the shape of what it gives."""
    rank = len(shape)
    axis = draw(st.integers(0, rank - 1)) if rank else 0
    choices = ["scale", "clip", "compare", "reshape", "broadcast", "self_add"]
    if rank:
        choices += [
            "reduce",
            "reduce_max",
            "reduce_keep",
            "transpose",
            "slice",
            "reverse",
            "concatenate",
            "pad",
            "roll",
        ]
    kind = draw(st.sampled_from(choices))
    if kind == "scale":
        factor = draw(st.integers(-5, 5))
        return lambda x: folded(x * factor + 1), shape
    if kind == "clip":
        return lambda x: jnp.clip(x, -9, 7), shape
    if kind == "compare":
        return lambda x: jnp.where(x > 1, x, jnp.asarray(2, x.dtype) - x), shape
    if kind == "self_add":
        return lambda x: folded(x * jnp.sign(x) + x), shape
    if kind == "reshape":
        flat = math.prod(shape)
        divisors = [d for d in range(1, min(flat, 64) + 1) if flat % d == 0]
        first = draw(st.sampled_from(divisors))
        return lambda x: x.reshape(first, flat // first), (first, flat // first)
    if kind == "broadcast":
        size = draw(st.sampled_from([1, 2, 3, 5]))
        if math.prod(shape) * size > MAX_ELEMENTS:
            return lambda x: x, shape
        place = draw(st.integers(0, rank))
        wide = (*shape[:place], size, *shape[place:])
        return lambda x: jnp.broadcast_to(jnp.expand_dims(x, place), wide), wide
    if kind in ("reduce", "reduce_max", "reduce_keep"):
        axes = tuple(sorted(draw(st.sets(st.integers(0, rank - 1), min_size=1))))
        keep = kind == "reduce_keep"
        function = jnp.max if kind == "reduce_max" else jnp.sum
        kept = tuple(1 if d in axes else s for d, s in enumerate(shape) if keep or d not in axes)
        if keep:  # as in a normalization
            return lambda x: folded(x - jnp.sum(x, axes, keepdims=True)), shape
        return lambda x: folded(function(x, axes)), kept
    if kind == "transpose":
        order = draw(st.permutations(range(rank)))
        return lambda x: x.transpose(order), tuple(shape[d] for d in order)
    if kind == "slice":
        low = draw(st.integers(0, shape[axis] - 1))
        high = draw(st.integers(low + 1, shape[axis]))
        stride = draw(st.integers(1, 3))
        cut = len(range(low, high, stride))
        return lambda x: lax.slice_in_dim(x, low, high, stride, axis), (*shape[:axis], cut, *shape[axis + 1 :])
    if kind == "reverse":
        return lambda x: jnp.flip(x, axis), shape
    if kind == "roll":
        shift = draw(st.integers(-3, 3))
        return lambda x: x + jnp.roll(x, shift, axis), shape
    if kind == "pad":
        low, high, inner = draw(st.integers(-1, 3)), draw(st.integers(0, 3)), draw(st.integers(0, 1))
        padded = shape[axis] + (shape[axis] - 1) * inner + low + high
        if padded < 1 or math.prod(shape) // shape[axis] * padded > MAX_ELEMENTS:
            return lambda x: x, shape
        edges = [(low, high, inner) if d == axis else (0, 0, 0) for d in range(rank)]
        return lambda x: lax.pad(x, jnp.asarray(3, x.dtype), edges), (*shape[:axis], padded, *shape[axis + 1 :])
    if math.prod(shape) * 2 > MAX_ELEMENTS:
        return lambda x: x, shape
    return lambda x: jnp.concatenate([x, x + 1], axis), (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])


@st.composite
def programs(draw: st.DrawFn) -> tuple[Callable[..., tuple[jax.Array, ...]], list[np.ndarray], int, int]:
    """A function of one to three arrays with several results, its arguments, and the options to compile with."""
    dtype = draw(st.sampled_from([np.float32, np.int32]))
    arguments, chains = [], []
    generator = np.random.default_rng(draw(st.integers(0, 1000)))
    for _ in range(draw(st.integers(1, 3))):
        shape = draw(shapes)
        arguments.append(np.asarray(generator.integers(-4, 5, shape)).astype(dtype))
        chain = []
        for _ in range(draw(st.integers(1, 7))):
            step, shape = draw(steps(shape))
            chain.append(step)
        chains.append(chain)
    joined = draw(st.booleans())

    def function(*arrays: jax.Array) -> tuple[jax.Array, ...]:
        ends, results = [], []
        for array, chain in zip(arrays, chains, strict=True):
            for number, step in enumerate(chain):
                array = step(array)
                if number == len(chain) // 2:
                    results.append(array)
            ends.append(array)
        if joined:  # the chains meet
            ends = [folded(end + sum(folded(other.sum()) for other in ends)) for end in ends]
        return (*results, *ends)

    return function, arguments, draw(st.sampled_from([1, 2])), draw(st.sampled_from([0, 1, 1, 1]))


@hypothesis.settings(
    max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=list(hypothesis.HealthCheck)
)
@hypothesis.given(programs())
def test_random_programs(program: tuple[Callable[..., tuple[jax.Array, ...]], list[np.ndarray], int, int]) -> None:
    function, arguments, threads, opt_level = program
    specs = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arguments]
    exported = jax.export.export(jax.jit(function, keep_unused=True))(*specs)
    results = shlo.compile(exported, options=shlo.Options(threads=threads, opt_level=opt_level))(*arguments)
    expected = jax.jit(function)(*arguments)
    for ours, theirs in zip(results, expected, strict=True):
        np.testing.assert_array_equal(ours, np.asarray(theirs))
