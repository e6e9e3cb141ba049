"""Models exported with a symbolic batch: the one program for all batches next to the program specialized to each.

python benchmarks/bench_dynamic.py [word in the name ...]

Calls of both are interleaved, on one core; the fastest of each counts. The table is that of docs/dynamic-shapes.md.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial

os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # before jax counts its threads

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import stablehlo_py  # noqa: E402

BATCHES = (1, 8, 64)
ROUNDS, SECONDS = 10, 0.2  # of each program in a round: short ones, since others may use the machine

Model = Callable[[jax.Array], jax.Array]


def weights(random: np.random.Generator, *sizes: int) -> np.ndarray:
    """Small random weights."""
    return (random.standard_normal(sizes) * 0.05).astype(np.float32)


def perceptron(random: np.random.Generator) -> Model:
    """784 -> 512 -> 512 -> 10."""
    layers = [weights(random, *sizes) for sizes in ((784, 512), (512, 512), (512, 10))]

    def run(x: jax.Array) -> jax.Array:
        for layer in layers[:-1]:
            x = jax.nn.relu(x @ layer)
        return x @ layers[-1]

    return run


def transformer(random: np.random.Generator, width: int = 256, heads: int = 8, depth: int = 4) -> Model:
    """Pre-norm blocks with attention among the tokens of one sequence."""
    shapes = {**dict.fromkeys("qkvo", (width, width)), "up": (width, 4 * width), "down": (4 * width, width)}
    blocks = [{name: weights(random, *sizes) for name, sizes in shapes.items()} for _ in range(depth)]

    def normalized(x: jax.Array) -> jax.Array:
        return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

    def run(x: jax.Array) -> jax.Array:
        batch, tokens, _ = x.shape
        for block in blocks:
            y = normalized(x)
            q, k, v = ((y @ block[name]).reshape(batch, tokens, heads, -1).swapaxes(1, 2) for name in "qkv")
            scores = jax.nn.softmax(q @ k.swapaxes(2, 3) / np.sqrt(width / heads))
            x = x + (scores @ v).swapaxes(1, 2).reshape(batch, tokens, width) @ block["o"]
            x = x + jax.nn.gelu(normalized(x) @ block["up"]) @ block["down"]
        return x

    return run


MODELS: dict[str, tuple[Callable[[np.random.Generator], Model], tuple[int, ...]]] = {
    "perceptron": (perceptron, (784,)),
    "transformer, 1 token": (transformer, (1, 256)),
    "transformer, 64 tokens": (transformer, (64, 256)),
}


def fastest(run: Callable[[], object]) -> float:
    """Seconds of the fastest call."""
    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def compared(*programs: Callable[[], tuple[np.ndarray, ...]]) -> list[float]:
    """Microseconds of each of two programs that agree."""
    np.testing.assert_allclose(*(program()[0] for program in programs), rtol=1e-3, atol=1e-3)
    times = [[fastest(program) for program in programs] for _ in range(ROUNDS)]
    return [1e6 * min(column) for column in zip(*times, strict=True)]


def main() -> None:
    """Print a row for each model and batch."""
    print("| model | batch | one program, us | specialized, us | ratio |\n|---|---:|---:|---:|---:|")
    for name, (make, sizes) in MODELS.items():
        if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
            continue
        random = np.random.default_rng(0)
        spec = jax.ShapeDtypeStruct((*jax.export.symbolic_shape("batch"), *sizes), jnp.float32)
        exported = jax.export.export(jax.jit(make(random)))(spec)
        options = stablehlo_py.Options(threads=1, dynamic="once", cache_dir=None)
        once = stablehlo_py.compile(exported, options=options)
        assert isinstance(once, stablehlo_py.SymbolicExecutable)
        for batch in BATCHES:
            x = random.standard_normal((batch, *sizes)).astype(np.float32)
            special = once.specialize(x.shape)
            ours, theirs = compared(partial(once.call, [once.put(x)]), partial(special.call, [special.put(x)]))
            print(f"| {name} | {batch} | {ours:.0f} | {theirs:.0f} | {ours / theirs:.2f} |", flush=True)


if __name__ == "__main__":
    main()
