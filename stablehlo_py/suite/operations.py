"""Single operations at sizes where each takes its time: what finds the one op that is much slower than under XLA.

The sizes were fixed before anything was tuned for them; `small` and `full` are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn, random
from jax.numpy import fft, linalg
from jax.scipy import special

from stablehlo_py.suite.registry import Model, Rng, Size, normal, register

Maker = Callable[[np.random.Generator], np.ndarray]
Case = tuple[Any, ...]  # the function, then what makes each of its arguments

MILLION = 1_000_000


def f32(*sizes: int, scale: float = 1.0) -> Maker:
    """Normal numbers."""
    return lambda rng: normal(rng, *sizes) * np.float32(scale)


def positive(*sizes: int) -> Maker:
    """Absolute values of normal numbers, and a tenth."""
    return lambda rng: np.abs(normal(rng, *sizes)) + np.float32(0.1)


def i32(below: int, *sizes: int) -> Maker:
    """Integers from 0."""
    return lambda rng: rng.integers(0, below, sizes).astype(np.int32)


def i8(*sizes: int) -> Maker:
    """Integers of a byte."""
    return lambda rng: rng.integers(-128, 128, sizes).astype(np.int8)


def c64(*sizes: int, scale: float = 1.0) -> Maker:
    """Complex normal numbers."""
    return lambda rng: (normal(rng, *sizes) + 1j * normal(rng, *sizes)) * np.float32(scale)


def ascending(count: int) -> Maker:
    """Sorted normal numbers."""
    return lambda rng: np.sort(normal(rng, count))


def definite(*sizes: int) -> Maker:
    """Symmetric positive definite matrices."""

    def make(rng: np.random.Generator) -> np.ndarray:
        a = normal(rng, *sizes)
        return a @ a.swapaxes(-1, -2) + sizes[-1] * np.eye(sizes[-1], dtype=np.float32)

    return make


def scalar(number: int) -> Maker:
    """An index."""
    return lambda _: np.array(number, np.int32)


def key(_: np.random.Generator) -> np.ndarray:
    """The data of a threefry key."""
    return np.array([1, 2], np.uint32)


def seeded(function: Callable[[jax.Array], Any]) -> Callable[[jax.Array], Any]:
    """The function of a key as one of its data."""
    return lambda data: function(random.wrap_key_data(data))


ELEMENTWISE: dict[str, Case] = {
    "exp": (jnp.exp, f32(MILLION)),
    "log1p": (jnp.log1p, positive(MILLION)),
    "tanh": (jnp.tanh, f32(MILLION)),
    "sin": (jnp.sin, f32(MILLION)),
    "erf": (special.erf, f32(MILLION)),
    "gelu": (lambda x: nn.gelu(x, approximate=False), f32(MILLION)),
    "power": (jnp.power, positive(MILLION), f32(MILLION)),
    "atan2": (jnp.arctan2, f32(MILLION), f32(MILLION)),
    "cbrt": (jnp.cbrt, f32(MILLION)),
    "remainder": (jnp.fmod, f32(MILLION), positive(MILLION)),
    "integer-division": (jnp.floor_divide, i32(MILLION, MILLION), lambda rng: rng.integers(1, 99, MILLION, np.int32)),
    "popcount": (lax.population_count, i32(1 << 30, MILLION)),
    "lgamma": (special.gammaln, positive(100_000)),
    "digamma": (special.digamma, positive(100_000)),
    "erf_inv": (lambda x: special.erfinv(jnp.sin(x)), f32(MILLION)),
    "igamma": (special.gammainc, positive(10_000), positive(10_000)),
    "complex-exp": (jnp.exp, c64(100_000)),
    "float16-tanh": (lambda x: jnp.tanh(x.astype(jnp.float16) * 2), f32(MILLION)),
    "to-float8": (lambda x: x.astype(jnp.float8_e4m3fn), f32(MILLION)),
    "where": (lambda x, y: jnp.where(x > 0, x, y), f32(1000, 1000), f32(1000, 1000)),
    "broadcast-add": (lambda x, y: x[:, None] + y[None], f32(1000), f32(1000)),
    "iota-add": (lambda x: x + jnp.arange(1e6), f32(MILLION)),
}

REDUCTIONS: dict[str, Case] = {
    "sum": (jnp.sum, f32(1000, 1000)),
    "sum-rows": (lambda x: x.sum(1), f32(1000, 1000)),
    "sum-columns": (lambda x: x.sum(0), f32(1000, 1000)),
    "sum-middle": (lambda x: x.sum(1), f32(100, 100, 100)),
    "sum-outer-and-inner": (lambda x: x.sum((0, 2)), f32(100, 100, 100)),
    "product-rows": (lambda x: x.prod(1), f32(1000, 1000)),
    "minimum-integers": (lambda x: x.min(1), i32(99, 1000, 1000)),
    "any": (lambda x: (x > 3).any(1), f32(1000, 1000)),
    "argmax-rows": (lambda x: jnp.argmax(x, 1), f32(1000, 1000)),
    "argmax-columns": (lambda x: jnp.argmax(x, 0), f32(1000, 1000)),
    "variance": (lambda x: x.var(0), f32(1000, 1000)),
    "logsumexp": (lambda x: nn.logsumexp(x, 1), f32(1000, 1000)),
    "median": (lambda x: jnp.median(x, 1), f32(1000, 100)),
    "cumsum-rows": (lambda x: jnp.cumsum(x, 1), f32(1024, 1024)),
    "cumsum-columns": (lambda x: jnp.cumsum(x, 0), f32(1024, 1024)),
    "cummax": (lambda x: lax.cummax(x, 1), f32(1024, 1024)),
    "associative-scan": (lambda x: lax.associative_scan(jnp.add, x, axis=1), f32(256, 1024)),
    "max-pool-2x2": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        f32(8, 112, 112, 64),
    ),
    "max-pool-3x3": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
        f32(1, 112, 112, 64),
    ),
    "sum-pool-channels-first": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 1, 3, 3), (1, 1, 1, 1), "SAME"),
        f32(1, 64, 56, 56),
    ),
    "window-of-101": (lambda x: lax.reduce_window(x, 0.0, lax.add, (101,), (1,), "SAME"), f32(100_000)),
    "max-pool-gradient": (
        jax.grad(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID").sum()),
        f32(4, 112, 112, 32),
    ),
    "squared-distances": (lambda a, b: ((a[:, None] - b[None]) ** 2).sum(-1), f32(192, 192), f32(192, 192)),
}

MOVEMENT: dict[str, Case] = {
    "transpose": (lambda x: x.T + 0, f32(1024, 1024)),
    "transpose-bfloat16": (lambda x: x.astype(jnp.bfloat16).T + 0, f32(1024, 1024)),
    "rotate-dimensions": (lambda x: x.transpose(2, 0, 1) + 0, f32(100, 100, 100)),
    "split-heads": (lambda x: x.transpose(0, 2, 1, 3) + 0, f32(8, 128, 12, 64)),
    "reverse": (lambda x: x[:, ::-1] + 0, f32(1000, 1000)),
    "strided-slice": (lambda x: x[::2, ::3] + 0, f32(2000, 1500)),
    "pad": (lambda x: jnp.pad(x, ((3, 3), (5, 5))), f32(1000, 1000)),
    "concatenate": (lambda x, y: jnp.concatenate([x, y], 1), f32(1000, 500), f32(1000, 500)),
    "tile": (lambda x: jnp.tile(x, (3, 3)), f32(400, 400)),
    "kron": (jnp.kron, f32(32, 32), f32(32, 32)),
    "one-hot": (lambda i: nn.one_hot(i, 1000), i32(1000, 1000)),
    "resize-bilinear": (lambda x: jax.image.resize(x, (1, 448, 448, 3), "bilinear"), f32(1, 224, 224, 3)),
    "dynamic-update-slice": (
        lambda x, u, i: lax.dynamic_update_slice(x, u, (i, jnp.int32(0))),
        f32(1000, 1000),
        f32(10, 1000),
        scalar(5),
    ),
}

INDEXING: dict[str, Case] = {
    "gather-rows": (lambda x, i: x[i], f32(50_000, 64), i32(50_000, 20_000)),
    "gather-elements": (lambda x, i: x[i], f32(MILLION), i32(MILLION, MILLION)),
    "take-along-rows": (lambda x, i: jnp.take_along_axis(x, i, 1), f32(1000, 1000), i32(1000, 1000, 1000)),
    "scatter-add": (lambda x, i, u: x.at[i].add(u), f32(10_000), i32(10_000, MILLION), f32(MILLION)),
    "scatter-rows": (lambda x, i, u: x.at[i].add(u), f32(50_000, 64), i32(50_000, 20_000), f32(20_000, 64)),
    "scatter-set": (lambda x, i: x.at[i].set(1.0), f32(MILLION), i32(MILLION, 100_000)),
    "segment-sum": (lambda x, i: jax.ops.segment_sum(x, i, 100), f32(100_000, 16), i32(100, 100_000)),
    "interpolate": (lambda x: jnp.interp(x, jnp.linspace(-3, 3, 1000), jnp.linspace(0, 1, 1000)), f32(100_000)),
    "search-sorted": (jnp.searchsorted, ascending(100_000), f32(100_000)),
    "histogram": (lambda x: jnp.histogram(x, bins=100)[1], f32(100_000)),
    "bincount": (lambda x: jnp.bincount(x, length=1000), i32(1000, MILLION)),
    "unique": (lambda x: jnp.unique(x, size=1000), i32(1000, 100_000)),
    "nonzero": (lambda x: jnp.nonzero(x > 0, size=60_000), f32(100_000)),
}

SORTING: dict[str, Case] = {
    "sort": (jnp.sort, f32(MILLION)),
    "argsort": (jnp.argsort, f32(MILLION)),
    "sort-rows": (lambda x: jnp.sort(x, axis=1), f32(1000, 1000)),
    "sort-columns": (lambda x: jnp.sort(x, axis=0), f32(1000, 1000)),
    "sort-integers": (jnp.sort, i32(1 << 30, MILLION)),
    "top-8": (lambda x: lax.top_k(x, 8), f32(64, 50_000)),
    "top-100": (lambda x: lax.top_k(x, 100), f32(MILLION)),
}

PRODUCTS: dict[str, Case] = {
    "matmul-512": (jnp.matmul, f32(512, 512), f32(512, 512)),
    "matmul-1024": (jnp.matmul, f32(1024, 1024), f32(1024, 1024)),
    "matmul-bfloat16": (
        lambda a, b: a.astype(jnp.bfloat16) @ b.astype(jnp.bfloat16),
        f32(512, 512, scale=0.1),
        f32(512, 512, scale=0.1),
    ),
    "matmul-int8": (lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32), i8(512, 512), i8(512, 512)),
    "matmul-complex": (jnp.matmul, c64(256, 256), c64(256, 256)),
    "matmul-10000-of-6": (jnp.matmul, f32(10_000, 6, 6), f32(10_000, 6, 6)),
    "matmul-tall": (jnp.matmul, f32(100_000, 16), f32(16, 16)),
    "matmul-inner": (lambda a, b: a.T @ b, f32(100_000, 16), f32(100_000, 16)),
    "vocabulary": (lambda x, w: x @ w.T, f32(128, 768), f32(50_257, 768)),
    "matrix-vector": (jnp.matmul, f32(2000, 2000), f32(2000)),
    "vector-matrix": (jnp.matmul, f32(2000), f32(2000, 2000)),
    "inner-product": (jnp.dot, positive(MILLION), positive(MILLION)),  # of one sign: no sum cancels
    "outer-product": (jnp.outer, f32(1000), f32(1000)),
    "attention-scores": (
        lambda q, k: jnp.einsum("bhqd,bhkd->bhqk", q, k),
        f32(4, 12, 128, 64),
        f32(4, 12, 128, 64),
    ),
}


def _convolve(*, dimensions: str = "NHWC", strides: int = 1, **options: Any) -> Callable[[jax.Array, jax.Array], Any]:
    kernel = {"NHWC": "HWIO", "NHC": "HIO", "NDHWC": "DHWIO", "NCHW": "OIHW", "NCH": "OIH"}[dimensions]
    numbers, steps = (dimensions, kernel, dimensions), (strides,) * (len(dimensions) - 2)
    return lambda x, w: lax.conv_general_dilated(x, w, steps, "SAME", dimension_numbers=numbers, **options)


CONVOLUTIONS: dict[str, Case] = {
    "3x3": (_convolve(), f32(1, 56, 56, 64), f32(3, 3, 64, 64)),
    "3x3-channels-first": (_convolve(dimensions="NCHW"), f32(1, 64, 56, 56), f32(64, 64, 3, 3)),
    "1x1": (_convolve(), f32(1, 56, 56, 64), f32(1, 1, 64, 256)),
    "7x7-strided": (_convolve(strides=2), f32(1, 224, 224, 3), f32(7, 7, 3, 64)),
    "dilated": (_convolve(rhs_dilation=(2, 2)), f32(1, 56, 56, 64), f32(3, 3, 64, 64)),
    "groups": (_convolve(feature_group_count=4), f32(1, 56, 56, 64), f32(3, 3, 16, 64)),
    "depthwise": (_convolve(feature_group_count=32), f32(1, 112, 112, 32), f32(3, 3, 1, 32)),
    "depthwise-channels-first": (
        _convolve(dimensions="NCHW", feature_group_count=32),
        f32(1, 32, 112, 112),
        f32(32, 1, 3, 3),
    ),
    "1d": (_convolve(dimensions="NHC"), f32(4, 1000, 64), f32(7, 64, 64)),
    "1d-window-of-501": (_convolve(dimensions="NCH"), f32(1, 1, 100_000), f32(1, 1, 501, scale=0.1)),
    "3d": (_convolve(dimensions="NDHWC"), f32(1, 16, 32, 32, 16), f32(3, 3, 3, 16, 16)),
    "transposed": (lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), f32(1, 56, 56, 64), f32(4, 4, 64, 32)),
    "transposed-stride-256": (lambda x, w: lax.conv_transpose(x, w, (256,), "SAME"), f32(1, 128, 64), f32(512, 64, 32)),
    "weights-gradient": (
        jax.grad(lambda w, x: (_convolve()(x, w) ** 2).mean()),
        f32(3, 3, 32, 32, scale=0.1),
        f32(4, 56, 56, 32),
    ),
}

TRANSFORMS: dict[str, Case] = {
    "fft-262144": (fft.fft, c64(1 << 18)),
    "fft-1000-rows-of-1024": (fft.fft, c64(1000, 1024)),
    "fft-prime": (fft.fft, c64(100, 1009)),
    "fft-3d": (fft.fftn, c64(64, 64, 64)),
    "rfft2": (fft.rfft2, f32(512, 512)),
    "irfft": (fft.irfft, c64(1000, 513)),
    "cholesky-512": (linalg.cholesky, definite(512, 512)),
    "cholesky-5000-of-8": (linalg.cholesky, definite(5000, 8, 8)),
    "triangular-solve": (
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
        definite(512, 512),
        f32(512, 512),
    ),
    "qr": (lambda x: jnp.abs(linalg.qr(x)[1]), f32(512, 512)),
    "svd": (lambda x: linalg.svd(x, compute_uv=False), f32(200, 200)),
    "eigh": (linalg.eigvalsh, definite(200, 200)),
    "inverse": (linalg.inv, definite(300, 300)),
    "solve": (linalg.solve, definite(512, 512), f32(512, 8)),
    "solve-5000-of-6": (linalg.solve, definite(5000, 6, 6), f32(5000, 6, 1)),
    "determinants-5000-of-6": (linalg.det, f32(5000, 6, 6)),
}

RANDOM: dict[str, Case] = {
    "uniform": (seeded(lambda k: random.uniform(k, (MILLION,))), key),
    "normal": (seeded(lambda k: random.normal(k, (MILLION,))), key),
    "permutation": (seeded(lambda k: random.permutation(k, 100_000)), key),
    "gamma": (seeded(lambda k: random.gamma(k, 2.5, (10_000,))), key),
}


def _mixed(carry: tuple[jax.Array, ...], _: Any) -> tuple[tuple[jax.Array, ...], None]:
    count = len(carry)
    return tuple(v * 0.99 + carry[(i + 1) % count] * 0.01 for i, v in enumerate(carry)), None


def _stencil(x: jax.Array) -> jax.Array:
    for _ in range(3):
        x = (x + jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) + jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1)) / 5
    return x


def _attracted(positions: jax.Array) -> jax.Array:
    apart = positions[None] - positions[:, None]
    return positions + 1e-3 * (apart / ((apart**2).sum(-1, keepdims=True) + 0.1) ** 1.5).sum(1)


LOOPS: dict[str, Case] = {
    "scan-of-60-scalars": (lambda x: lax.scan(_mixed, tuple(x), None, length=614)[0], f32(60)),
    "recurrence": (
        lambda h, w, x: lax.scan(lambda h, x: (jnp.tanh(h @ w + x), h), h, x)[1],
        f32(1, 64),
        f32(64, 64, scale=0.1),
        f32(200, 1, 64),
    ),
    "update-in-loop": (lambda x: lax.fori_loop(0, 1000, lambda i, v: v.at[i].add(1.0), x), f32(1000)),
    "vectors-in-loop": (lambda x: lax.fori_loop(0, 100, lambda _, v: jnp.sin(v), x), f32(10_000)),
    "batched-while": (
        jax.vmap(lambda x: lax.while_loop(lambda v: v < 1e6, lambda v: v * 1.125 + 1, x)),
        positive(10_000),
    ),
    "stencil": (_stencil, f32(512, 512)),
    "n-body": (lambda p: lax.fori_loop(0, 10, lambda _, q: _attracted(q), p), f32(256, 3)),
    "mandelbrot": (
        lambda c: lax.fori_loop(0, 50, lambda _, z: z * z + c, jnp.zeros_like(c)),
        c64(200, 200, scale=0.1),
    ),
}

GROUPS = {
    "elementwise": ELEMENTWISE,
    "reduction": REDUCTIONS,
    "movement": MOVEMENT,
    "indexing": INDEXING,
    "sorting": SORTING,
    "product": PRODUCTS,
    "convolution": CONVOLUTIONS,
    "transform": TRANSFORMS,
    "random": RANDOM,
    "loop": LOOPS,
}
# Where rounding errors of sums, or of a loop's earlier iterations, are larger than one in a hundred thousand.
TOLERANCES = {"product/matmul-bfloat16": 3e-2, "elementwise/float16-tanh": 2e-3, "loop/n-body": 1e-3}


def _enter(name: str, function: Callable[..., Any], makers: tuple[Maker, ...]) -> None:
    @register(name, suite="operations")
    def build(size: Size, rng: Rng) -> Model:
        inputs = tuple(make(rng) for make in makers)
        return Model(lambda _, *arrays: function(*arrays), {}, inputs, TOLERANCES.get(name, 1e-4))


for _group, _cases in GROUPS.items():
    for _name, (_function, *_makers) in _cases.items():
        _enter(f"{_group}/{_name}", _function, tuple(_makers))
