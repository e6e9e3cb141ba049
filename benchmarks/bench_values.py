"""Elementwise functions and softmax of unusual numbers next to the same of usual ones: large, tiny, denormal, zeros,
infinities, as masks and dead units have them. Prints what takes several times as long, and XLA's time / ours there.

    python benchmarks/bench_values.py                              # all functions, f32 and f64
    python benchmarks/bench_values.py 'soft*' sigmoid --above 1.3
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
import numpy as np  # noqa: E402

import stablehlo_py as shlo  # noqa: E402
from stablehlo_py.suite.measure import interleaved  # noqa: E402

COUNT, ROW = 20_000, 100
FUNCTIONS: dict[str, Callable[[jax.Array], Any]] = {
    "exp": jnp.exp,
    "exp2": jnp.exp2,
    "expm1": jnp.expm1,
    "log": lambda x: jnp.log(abs(x)),
    "log1p": lambda x: jnp.log1p(abs(x)),
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "silu": jax.nn.silu,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu-tanh": jax.nn.gelu,
    "softplus": jax.nn.softplus,
    "elu": jax.nn.elu,
    "erf": jax.scipy.special.erf,
    "erfc": jax.scipy.special.erfc,
    "sin": jnp.sin,
    "tan": jnp.tan,
    "atan": jnp.arctan,
    "sinh": jnp.sinh,
    "asinh": jnp.arcsinh,
    "sqrt": lambda x: jnp.sqrt(abs(x)),
    "rsqrt": lambda x: jax.lax.rsqrt(abs(x)),
    "cbrt": jnp.cbrt,
    "power": lambda x: abs(x) ** 1.5,
    "remainder": lambda x: jnp.fmod(x, 1.7),
    "lgamma": jax.scipy.special.gammaln,
    "logaddexp": lambda x: jnp.logaddexp(x, 2 - x),
    "softmax": lambda x: jax.nn.softmax(x.reshape(-1, ROW)),
    "logsumexp": lambda x: jax.nn.logsumexp(x.reshape(-1, ROW), 1),
    "standardize": lambda x: jax.nn.standardize(x.reshape(-1, ROW)),
}


def values(dtype: np.dtype) -> dict[str, np.ndarray]:
    """Arrays by what is unusual about them, of which the first one has nothing."""
    rng = np.random.default_rng(0)
    usual, half = (rng.standard_normal(COUNT) * 3).astype(dtype), rng.random(COUNT) < 0.5
    denormal = 1e-40 if dtype == np.float32 else 1e-310
    factors = {"x 33": 33, "x 3333": 3333, "x 1e-30": 1e-30, "denormal": denormal, "all zero": 0}
    fills = {"zeros": 0, "-1e9": -1e9, "1e9": 1e9, "inf": np.inf, "-inf": -np.inf, "nan": np.nan}
    scaled = {name: (usual * np.float64(factor)).astype(dtype) for name, factor in factors.items()}
    filled = {f"half {name}": np.where(half, usual, fill).astype(dtype) for name, fill in fills.items()}
    return {"usual": usual, **scaled, **filled}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", default=["*"], help="names of functions")
    parser.add_argument("--types", nargs="+", choices=("float32", "float64"), default=("float32", "float64"))
    parser.add_argument("--above", type=float, default=2.0, help="print what takes more than so many times the usual")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    for name in (each for each in FUNCTIONS if any(fnmatch.fnmatch(each, wanted) for wanted in options.patterns)):
        for dtype in map(np.dtype, options.types):
            arrays, jitted = values(dtype), jax.jit(FUNCTIONS[name])
            exported, lowered = jax.export.export(jitted)(arrays["usual"]), jitted.lower(arrays["usual"])
            executable = shlo.compile(exported, options=shlo.Options(threads=1, cache_dir=None))
            of_xla, calls = lowered.compile(), list[Callable[[], Any]]()
            for x in arrays.values():
                on_device = jax.device_put(x)
                calls.append(lambda x=x, executable=executable: executable(x))
                calls.append(lambda x=on_device, of_xla=of_xla: jax.block_until_ready(of_xla(x)))
            seconds = interleaved(calls, 3, 0.01, time.process_time)[0]
            ours, xlas = seconds[::2], seconds[1::2]
            slow = [
                f"{what} {here / ours[0]:.2f} ({there / here:.2f})"
                for what, here, there in zip(arrays, ours, xlas, strict=True)
                if here > options.above * ours[0]
            ]
            if slow:
                print(f"{name:12} {dtype.name} {1e9 * ours[0] / COUNT:6.2f} ns: {', '.join(slow)}", flush=True)


if __name__ == "__main__":
    main()
