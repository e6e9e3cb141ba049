"""Operations along each axis of arrays that no cache of a core holds, next to themselves along the other axes: one that
takes several times as long along one axis reads its rows in an order that is bad for caches. And next to XLA, which
has most of these cliffs, too, but not all.

    python benchmarks/bench_axes.py                          # all: what takes 2.5 times as long as along the best axis
    python benchmarks/bench_axes.py 'cum*' --types f32 bf16 --above 0
    python benchmarks/bench_axes.py --xla 1.05               # also what takes longer than 1.05 times XLA's time
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import time
from collections.abc import Callable
from typing import Any

os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # before jax counts its threads

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

import stablehlo_py as shlo  # noqa: E402
from stablehlo_py.suite.measure import interleaved  # noqa: E402

TYPES: dict[str, Any] = {
    "f32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "f64": np.float64,
    "i8": np.int8,
    "c64": np.complex64,
}
SHAPES = ((2048, 4096), (1000, 1000), (60, 400, 128), (4000, 96, 10))
INTEGERS, COMPLEX = ("i8",), ("c64",)


def window(x: jax.Array, axis: int) -> jax.Array:
    """Sums of five neighbours along the axis."""
    sizes = [5 if number == axis else 1 for number in range(x.ndim)]
    return lax.reduce_window(x, np.zeros((), x.dtype), lax.add, sizes, [1] * x.ndim, "SAME")


def padded(x: jax.Array, axis: int) -> jax.Array:
    """Three zeros before, four behind."""
    return jnp.pad(x, [(3, 4) if number == axis else (0, 0) for number in range(x.ndim)])


def every_third(x: jax.Array, axis: int) -> jax.Array:
    """A slice."""
    return lax.slice_in_dim(x, 1, None, 3, axis)


def taken(x: jax.Array, axis: int) -> jax.Array:
    """A gather in a random order."""
    return jnp.take(x, np.random.default_rng(0).permutation(x.shape[axis]), axis)


def scanned(x: jax.Array, axis: int) -> jax.Array:
    """A recursive filter: `lax.scan`."""
    rows = jnp.moveaxis(x, axis, 0)
    return lax.scan(lambda carry, row: ((carry + row) * np.asarray(0.5, x.dtype),) * 2, rows[0], rows)[1]


def product(x: jax.Array, axis: int) -> jax.Array:
    """With a vector, along the axis."""
    return jnp.tensordot(x, jnp.ravel(x)[: x.shape[axis]], ([axis], [0]))


# Names -> function of an array and an axis. All types have these, those of numbers the next, those of floats the last.
ANY: dict[str, Callable[[jax.Array, int], Any]] = {
    "sum": lambda x, axis: x.sum(axis),
    "product-sum": lambda x, axis: (x * x).sum(axis),
    "any": lambda x, axis: (x == 3).any(axis),
    "cumsum": lambda x, axis: jnp.cumsum(x, axis, dtype=x.dtype),
    "cumprod": lambda x, axis: jnp.cumprod(x, axis, dtype=x.dtype),
    "flip": lambda x, axis: jnp.flip(x, axis),
    "roll": lambda x, axis: jnp.roll(x, 5, axis),
    "difference": lambda x, axis: jnp.diff(x, axis=axis),
    "pad": padded,
    "slice": every_third,
    "repeat": lambda x, axis: jnp.repeat(x, 2, axis),
    "concatenate": lambda x, axis: jnp.concatenate([x, x * x], axis),
    "take": taken,
    "broadcast": lambda x, axis: x + jnp.expand_dims(lax.index_in_dim(x, 0, axis, keepdims=False), axis),
    "matrix-vector": product,
}
ORDERED: dict[str, Callable[[jax.Array, int], Any]] = {
    "max": lambda x, axis: x.max(axis),
    "argmax": lambda x, axis: x.argmax(axis),
    "cummax": lambda x, axis: lax.cummax(x, axis),
    "window": window,
    "sort": lambda x, axis: jnp.sort(x, axis),
    "scan": scanned,
}
FLOATS: dict[str, Callable[[jax.Array, int], Any]] = {
    "exp-sum": lambda x, axis: jnp.exp(x).sum(axis),
    "tanh-product": lambda x, axis: (1 + jnp.tanh(x) * 1e-3).prod(axis),
    "mean": lambda x, axis: x.mean(axis),
    "variance": lambda x, axis: x.var(axis),
    "norm": lambda x, axis: jnp.linalg.norm(x, axis=axis),
    "logsumexp": lambda x, axis: jax.nn.logsumexp(x, axis),
    "softmax": lambda x, axis: jax.nn.softmax(x, axis),
    "log-softmax": lambda x, axis: jax.nn.log_softmax(x, axis),
    "standardize": lambda x, axis: jax.nn.standardize(x, axis),
    "cumsum-exp": lambda x, axis: jnp.cumsum(jnp.exp(x), axis),
    "cumlogsumexp": lambda x, axis: lax.cumlogsumexp(x, axis),
    "window-exp": lambda x, axis: window(jnp.exp(x), axis),
    "gradient-of-max": lambda x, axis: jax.grad(lambda x: x.max(axis).sum())(x),
    "gradient-of-softmax": lambda x, axis: jax.grad(lambda x: (jax.nn.softmax(x, axis) ** 2).sum())(x),
    "gradient-of-cumsum": lambda x, axis: jax.grad(lambda x: (jnp.cumsum(x, axis) ** 2).sum())(x),
}


def operations(name: str) -> dict[str, Callable[[jax.Array, int], Any]]:
    """Those of a type."""
    found = ANY if name in COMPLEX else ANY | ORDERED
    return found if name in (*COMPLEX, *INTEGERS) else found | FLOATS


def seconds(
    function: Callable[[jax.Array, int], Any], x: np.ndarray, *, beside_xla: bool
) -> tuple[list[float], list[float]]:
    """Of a call with one thread, along each axis, in turns; and those / XLA's, which are measured if asked for."""
    calls: list[Callable[[], Any]] = []
    on_device, ratios = jax.device_put(x), []
    for axis in range(x.ndim):
        jitted = jax.jit(lambda x, axis=axis: function(x, axis))
        options = shlo.Options(threads=1, cache_dir=None)
        executable = shlo.compile(jax.export.export(jitted)(x), options=options)
        calls.append(lambda executable=executable: executable(x))
        if beside_xla:
            of_xla = jitted.lower(on_device).compile()
            pair = [calls[-1], lambda of_xla=of_xla: jax.block_until_ready(of_xla(on_device))]
            ratios.append(1 / interleaved(pair, 3, 0.2, time.process_time)[1][1])
    return interleaved(calls, 3, 0.3, time.process_time)[0], ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", default=["*"], help="names of operations")
    parser.add_argument("--types", nargs="+", choices=TYPES, default=list(TYPES))
    parser.add_argument(
        "--above", type=float, default=2.5, help="print what takes more than so many times the best axis"
    )
    parser.add_argument(
        "--xla", type=float, metavar="RATIO", help="print what takes more than so many times XLA's time"
    )
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    beside = " [/ XLA's]" if options.xla is not None else ""
    print(f"{'operation':22} {'type':5} {'shape':16} nanoseconds an element{beside}, by axis")
    for name in options.types:
        for shape in SHAPES:
            x = (np.random.default_rng(0).standard_normal(shape) * 9).astype(TYPES[name])
            for each, function in operations(name).items():
                if any(fnmatch.fnmatch(each, pattern) for pattern in options.patterns):
                    times, ratios = seconds(function, x, beside_xla=options.xla is not None)
                    if max(times) > options.above * min(times) or max(ratios, default=0) > (options.xla or 0):
                        peers = [f" [{ratio:5.2f}]" for ratio in ratios] or [""] * x.ndim
                        row = " ".join(f"{1e9 * own / x.size:8.2f}{xla}" for own, xla in zip(times, peers, strict=True))
                        print(f"{each:22} {name:5} {'x'.join(map(str, shape)):16} {row}", flush=True)


if __name__ == "__main__":
    main()
