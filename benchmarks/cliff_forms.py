"""More programs of bench_cliffs.py, of what is made of operations: gradients, linear algebra, random numbers, Fourier
transforms, loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from cliff_programs import RNG, TYPES, Case, array
from jax import lax


def of_gradients(name: str) -> Iterator[Case]:
    """Gradients of what moves, reduces, sorts, searches and convolves; derivatives of second order; of many points."""
    x, short, line = array(name, 60, 70), array(name, 3001, 7), array(name, 4096)
    image, kernel, to = array(name, 2, 20, 20, 16), array(name, 3, 3, 16, 16), RNG.integers(0, 60, 300, np.int32)
    matrix, small = array(name, 70, 50), array(name, 12)
    cells = array(name, 64, 64, 3)
    functions: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
        "sort": (lambda x: jnp.sort(x, 1), x),
        "median": (lambda x: jnp.median(x, 1), x),
        "top-k": (lambda x: lax.top_k(x, 5)[0], x),
        "cumsum": (lambda x: jnp.cumsum(x, 1), x),
        "cumprod": (lambda x: jnp.cumprod(1 + x * 0.001, 1), x),
        "cummax": (lambda x: lax.cummax(x, 0), x),
        "cumlogsumexp": (lambda x: lax.cumlogsumexp(x, 1), x),
        "max": (lambda x: x.max(1), x),
        "max-columns": (lambda x: x.max(0), x),
        "prod": (lambda x: (1 + x * 0.001).prod(1), x),
        "norm": (lambda x: jnp.linalg.norm(x, axis=1), short),
        "variance": (lambda x: x.var(0), x),
        "softmax": (lambda x: jax.nn.softmax(x, 1), x),
        "softmax-short": (lambda x: jax.nn.softmax(x, 1), short),
        "log-softmax": (lambda x: jax.nn.log_softmax(x, 0), x),
        "logsumexp": (lambda x: jax.nn.logsumexp(x, 1), short),
        "standardize": (lambda x: jax.nn.standardize(x, 1), x),
        "take": (lambda x: x[to], x),
        "take-columns": (lambda x: x[:, to % 60], x),
        "take-along": (lambda x: jnp.take_along_axis(x, to[:60, None], 1), x),
        "pick": (lambda x: x[to[:60], to[60:120]], x),
        "slice-at": (lambda x: lax.dynamic_slice(x, (to[0], to[1]), (20, 30)), x),
        "strides": (lambda x: x[::2, 1::3], x),
        "flip": (lambda x: x[::-1, ::-1], x),
        "roll": (lambda x: jnp.roll(x, (3, 5), (0, 1)), x),
        "repeat": (lambda x: jnp.repeat(x, 3, 1), x),
        "tile": (lambda x: jnp.tile(x, (2, 3)), x),
        "reflect": (lambda x: jnp.pad(x, 3, mode="reflect"), x),
        "edge": (lambda x: jnp.pad(x, ((1, 1), (1, 1), (0, 0)), mode="edge"), cells),
        "concatenate": (lambda x: jnp.concatenate([x, x[:, ::-1], x * x], 1), x),
        "stack": (lambda x: jnp.stack([x, x * x], -1), x),
        "segment-sum": (lambda x: jax.ops.segment_sum(x[:, 0], jnp.tile(to, 11)[:3001], 60), short),
        "segment-max": (lambda x: jax.ops.segment_max(x, jnp.tile(to, 11)[:3001], 60), short),
        "where": (lambda x: jnp.where(x > 0, jnp.log1p(abs(x)), x), x),
        "clip": (lambda x: jnp.clip(x, -1, 1) * x, x),
        "interpolate": (lambda x: jnp.interp(jnp.linspace(0, 9, 500, dtype=x.dtype), jnp.arange(4096.0), x), line),
        "dot": (lambda x: jnp.tanh(x @ matrix), x),
        "gram": (lambda x: x @ x.T, x),
        "distances": (lambda x: ((x[:300, None] - x[None, :300]) ** 2).sum(-1), short),
        "einsum": (lambda x: jnp.einsum("ijk,ljk->il", x, x), cells),
        "kron": (lambda x: jnp.kron(x[:9, :8], x[:7, :6]), x),
        "convolve": (lambda x: jnp.convolve(x, small), line),
        "convolution": (
            lambda x: lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
            image,
        ),
        "convolution-strides": (
            lambda x: lax.conv_general_dilated(x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
            image,
        ),
        "max-pool": (lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), image),
        "mean-pool": (lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), image),
        "resize": (lambda x: jax.image.resize(x, (2, 40, 40, 16), "bilinear"), image),
        "batch-norm": (lambda x: (x - x.mean((0, 1, 2))) / (1 + x.var((0, 1, 2))), image),
        "set-rows": (lambda x: x.at[to[:20]].set(x[:20] * 2), x),
        "add-rows": (lambda x: x.at[to[:20]].add(x[:20] * x[1:21]), x),
        "multiply-columns": (lambda x: x.at[:, 3:7].multiply(x[:, 13:17]), x),
        "scan": (lambda x: lax.scan(lambda c, row: ((c * 0.5 + row).astype(x.dtype), c * row), x[0], x)[1], x),
        "associative-scan": (lambda x: lax.associative_scan(lambda a, b: a * 0.5 + b, x), x),
        "map": (lambda x: lax.map(lambda row: jnp.sin(row) * row.sum(), x), x),
        "neighbours": (lambda x: (x[1:, 1:] - x[:-1, :-1]) ** 2, cells),
        "stencil": (lambda x: jnp.roll(x, 1, 0) * jnp.roll(x, -1, 1), cells),
        "cross": (lambda x: jnp.cross(x[1:], x[:-1]), cells),
    }
    for what, (function, of) in functions.items():
        # A factor for each result, so that no gradient is of a plain sum.
        sample = jax.eval_shape(function, of)
        factors = array(name, *sample.shape)
        yield f"grad-{what}", jax.grad(lambda x, w, function=function: (function(x) * w).sum()), (of, factors)
    weights = array(name, 12, 12)

    def layers(x: Any, w: Any) -> Any:
        return jnp.tanh(jnp.tanh(x @ w) @ w).sum()

    yield "hessian", jax.hessian(layers), (small, weights)
    yield "jacobian-forward", jax.jacfwd(lambda x, w: jnp.tanh(x @ w)), (small, weights)
    yield "jacobian-backward", jax.jacrev(lambda x, w: jnp.tanh(x @ w)), (small, weights)
    yield "gradient-each", jax.vmap(jax.grad(layers), (0, None)), (array(name, 500, 12), weights)
    yield "hessian-each", jax.vmap(jax.hessian(layers), (0, None)), (array(name, 50, 12), weights)
    yield "weights-gradient-each", jax.vmap(jax.grad(layers, 1), (0, None)), (array(name, 100, 12), weights)


def of_linear_algebra(name: str) -> Iterator[Case]:
    """Factorizations, solutions and functions of one matrix and of many small ones."""
    functions: dict[str, Callable[..., Any]] = {
        "cholesky": lambda a, b: jnp.linalg.cholesky(a),
        "triangular": lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
        "solve": jnp.linalg.solve,
        "inverse": lambda a, b: jnp.linalg.inv(a),
        "determinant": lambda a, b: jnp.linalg.det(a),
        "log-determinant": lambda a, b: jnp.linalg.slogdet(a)[1],
        "qr": lambda a, b: jnp.linalg.qr(a)[1],
        "eigenvalues": lambda a, b: jnp.linalg.eigvalsh(a),
        "eigenvectors": lambda a, b: jnp.linalg.eigh(a)[1],
        "singular-values": lambda a, b: jnp.linalg.svd(a, compute_uv=False),
        "power-5": lambda a, b: jnp.linalg.matrix_power(a * 0.01, 5),
        "exponential": lambda a, b: jax.vmap(jax.scipy.linalg.expm)(a * 0.01),
        "grad-solve": lambda a, b: jax.grad(lambda a: jnp.linalg.solve(a, b).sum())(a),
        "grad-cholesky": lambda a, b: jax.grad(lambda a: jnp.linalg.cholesky(a).sum())(a),
        "grad-log-determinant": lambda a, b: jax.grad(lambda a: jnp.linalg.slogdet(a)[1].sum())(a),
    }
    for many, size in ((1000, 2), (1000, 3), (500, 4), (200, 8), (50, 16), (8, 40), (1, 100)):
        a, b = array(name, many, size, size) * 0.1, array(name, many, size, 2)
        a = (a @ a.transpose(0, 2, 1) + np.eye(size)).astype(a.dtype)
        for what, function in functions.items():
            yield f"{what}-{many}-of-{size}", function, (a, b)


def of_random(name: str) -> Iterator[Case]:
    """Random numbers of all distributions, and random orders."""
    key, of = np.array([3, 5], np.uint32), TYPES[name]
    positive = abs(array(name, 300, 30)) + of(0.1)
    draws: dict[str, Callable[..., Any]] = {
        "uniform": lambda k: jax.random.uniform(k, (300, 300), of),
        "normal": lambda k: jax.random.normal(k, (300, 300), of),
        "truncated": lambda k: jax.random.truncated_normal(k, -1, 1, (300, 300), of),
        "exponential": lambda k: jax.random.exponential(k, (300, 300), of),
        "gumbel": lambda k: jax.random.gumbel(k, (300, 300), of),
        "laplace": lambda k: jax.random.laplace(k, (300, 300), of),
        "cauchy": lambda k: jax.random.cauchy(k, (300, 300), of),
        "logistic": lambda k: jax.random.logistic(k, (300, 300), of),
        "gamma": lambda k: jax.random.gamma(k, of(2.5), (3000,), of),
        "beta": lambda k: jax.random.beta(k, of(2.5), of(1.5), (3000,), of),
        "dirichlet": lambda k: jax.random.dirichlet(k, np.ones(5, of), (300,), of),
        "t": lambda k: jax.random.t(k, of(3), (3000,), of),
        "orthogonal": lambda k: jax.random.orthogonal(k, 30, dtype=of),
        "ball": lambda k: jax.random.ball(k, 3, shape=(1000,), dtype=of),
        "bernoulli": lambda k: jax.random.bernoulli(k, 0.3, (300, 300)),
        "integers": lambda k: jax.random.randint(k, (300, 300), 0, 1000),
        "permutation": lambda k: jax.random.permutation(k, 5000),
        "shuffle": lambda k: jax.random.permutation(k, positive),
        "choice": lambda k: jax.random.choice(k, 5000, (1000,)),
        "choice-weighted": lambda k: jax.random.choice(k, 300, (100,), p=positive[:, 0] / positive[:, 0].sum()),
        "choice-distinct": lambda k: jax.random.choice(k, 5000, (100,), replace=False),
        "categorical": lambda k: jax.random.categorical(k, jnp.log(positive)),
        "poisson": lambda k: jax.random.poisson(k, 3.0, (3000,)),
        "binomial": lambda k: jax.random.binomial(k, 10, 0.3, (3000,)),
        "split": lambda k: jax.random.split(k, 1000),
        "normal-each": lambda k: jax.vmap(lambda k: jax.random.normal(k, (10,), of))(jax.random.split(k, 1000)),
        "mask": lambda k: jnp.where(jax.random.bernoulli(k, 0.9, (300, 30)), positive / 0.9, 0),
    }
    for what, draw in draws.items():
        yield f"random-{what}", draw, (key,)


def of_transforms(name: str) -> Iterator[Case]:
    """Fourier transforms of lengths of all kinds."""
    for many, size in ((100, 8), (100, 12), (100, 97), (30, 128), (10, 1000), (10, 1009), (3, 4096), (2, 15015)):
        x = array(name, many, size)
        z = x + TYPES["c64"](1j) * x[::-1] if name == "f32" else x + 1j * x[::-1]
        yield f"fft-{many}-of-{size}", jnp.fft.fft, (z,)
        yield f"ifft-{many}-of-{size}", jnp.fft.ifft, (z,)
        yield f"rfft-{many}-of-{size}", jnp.fft.rfft, (x,)
        yield f"irfft-{many}-of-{size}", lambda z, size=size: jnp.fft.irfft(z[:, : size // 2 + 1], size), (z,)
    image = array(name, 60, 90)
    yield "fft2", jnp.fft.fft2, (image,)
    yield "fft-columns", lambda x: jnp.fft.fft(x, axis=0), (image,)
    yield "power-spectrum", lambda x: abs(jnp.fft.rfft2(x)) ** 2, (image,)
    yield "filter", lambda x: jnp.fft.irfft2(jnp.fft.rfft2(x) * 0.5, x.shape), (image,)
    yield "short-time", lambda x: jax.scipy.signal.stft(x.reshape(-1), nperseg=128)[2], (image,)
    yield "fft-convolve", lambda x: jax.scipy.signal.fftconvolve(x, x[:9, :9]), (image,)
    yield "grad-fft", jax.grad(lambda x: abs(jnp.fft.fft(x)).sum()), (image,)


def of_sizes(name: str) -> Iterator[Case]:
    """Operations with a size of their own, which decides how they are computed: how many are kept, sorted, counted."""
    rng = np.random.default_rng(1)
    for size in (6, 40, 150, 700, 5000):
        x = array(name, 60_000 // size, size)
        yield f"sort-rows-of-{size}", jnp.sort, (x,)
        yield f"argsort-rows-of-{size}", jnp.argsort, (x,)
        yield f"sort-columns-of-{size}", lambda x: jnp.sort(x, 0), (x.T.copy(),)
        yield f"sort-pairs-of-{size}", lambda x, y: lax.sort((x, y), num_keys=1), (x, x[::-1])
        yield f"median-of-{size}", lambda x: jnp.median(x, 1), (x,)
        yield f"cumsum-of-{size}", lambda x: jnp.cumsum(x, 1), (x,)
        yield f"argmax-of-{size}", lambda x: x.argmax(1), (x,)
        for kept in (1, 4, 12, 33, 100, 300):
            if kept <= size:
                yield f"top-{kept}-of-{size}", lambda x, kept=kept: lax.top_k(x, kept), (x,)
        yield f"top-2-of-{size}-alone", lambda x: lax.top_k(x[0], 2), (x,)
    line, rows = array(name, 20_000), array(name, 2_000, 10)
    for many in (2, 10, 100, 3000):
        at = rng.integers(0, many, 20_000, np.int32)
        yield f"histogram-of-{many}", lambda k, many=many: jnp.bincount(k, length=many), (at,)
        yield f"segments-{many}", lambda x, k, many=many: jax.ops.segment_sum(x, k, many), (line, at)
        yield f"segment-rows-{many}", lambda x, k, many=many: jax.ops.segment_max(x, k, many), (rows, at[:2000])
        yield f"one-hot-{many}", lambda k, many=many: jax.nn.one_hot(k, many, dtype=TYPES[name]), (at[:1000],)
        yield f"take-{many}", lambda x, k: x[k], (line[:many], at)
        yield f"search-{many}", lambda x, v: jnp.searchsorted(x, v), (np.sort(line[:many]), line)
        yield f"unique-{many}", lambda x, many=many: jnp.unique(x, size=many), (at[:5000].astype(x.dtype),)
    for width in (2, 5, 16, 50):
        for axis in (0, 1):
            window = (width, 1) if axis == 0 else (1, width)
            yield (
                f"window-max-{width}-{axis}",
                lambda x, window=window: lax.reduce_window(x, x[0, 0], lax.max, window, (1, 1), "SAME"),
                (array(name, 200, 300),),
            )


def of_control(name: str) -> Iterator[Case]:
    """Loops with conditions, of lanes, in loops; branches of lanes and in loops; what gathers and writes as it goes."""
    x, line, small = array(name, 60, 70), array(name, 3000), array(name, 16)
    square = (array(name, 16, 16) * 0.01).astype(x.dtype)
    steps = RNG.integers(1, 40, 100, np.int32)
    half = x.dtype.type(0.5)

    def newton(a: Any) -> Any:
        return lax.while_loop(
            lambda s: (s[0] < 30) & (abs(s[1] * s[1] - a) > 0.01),
            lambda s: (s[0] + 1, half * (s[1] + a / s[1])),
            (0, a),
        )[1]

    def body(c: Any, row: Any) -> Any:
        return lax.cond(row[0] > 0, lambda: (c * half + row, c.sum()), lambda: (c - row, row.max()))

    yield "while", newton, (np.abs(line[:1])[0],)
    yield "while-lanes", jax.vmap(newton), (np.abs(line) + x.dtype.type(1),)
    yield "while-count-lanes", jax.vmap(lambda n: lax.fori_loop(0, n, lambda i, c: c * half + i, half)), (steps,)
    yield "scan-cond", lambda x: lax.scan(body, x[0], x), (x,)
    yield "scan-rows", lambda x: lax.scan(lambda c, row: (c * half + row, c.sum()), x[0], x), (x,)
    yield "scan-numbers", lambda x: lax.scan(lambda c, v: (c * half + v, c), half, x), (line,)
    yield "scan-reverse", lambda x: lax.scan(lambda c, v: (jnp.maximum(c, v), c), half, x, reverse=True), (line,)
    yield "scan-product", lambda x, w: lax.scan(lambda c, _: (jnp.tanh(c @ w), c), x, None, 100), (small, square)
    yield "scan-products", lambda x, w: lax.scan(lambda c, row: (c @ w + row, c[0]), x[0], x), (x[:, :16], square)
    yield (
        "scan-nested",
        lambda x: lax.scan(lambda c, row: lax.scan(lambda c, v: (c * half + v, c), c, row), half, x),
        (x,),
    )
    yield "map-rows", lambda x: lax.map(lambda row: jnp.sort(row)[:5], x), (x,)
    yield "map-batches", lambda x: lax.map(lambda row: row.sum() * row, x, batch_size=16), (x,)
    yield "cond-lanes", lambda x: jax.vmap(lambda v: lax.cond(v > 0, jnp.sin, jnp.cos, v))(x), (line,)
    yield (
        "switch-lanes",
        lambda x, k: jax.vmap(lambda v, k: lax.switch(k % 3, [jnp.sin, jnp.tanh, abs], v))(x, k),
        (line[:100], steps),
    )
    yield "write-row", lambda x: lax.fori_loop(1, 60, lambda i, c: c.at[i].set(c[i - 1] * half + x[i]), x), (x,)
    yield "write-number", lambda x: lax.fori_loop(1, 3000, lambda i, c: c.at[i].add(c[i - 1] * half), x), (line,)
    yield "write-pair", lambda x: lax.fori_loop(1, 60, lambda i, c: c.at[i, i].set(c[i - 1, i]), x), (x,)
    yield (
        "swap",
        lambda x: lax.fori_loop(0, 1500, lambda i, c: c.at[i].set(c[2999 - i]).at[2999 - i].set(c[i]), x),
        (line,),
    )
    yield (
        "walk",
        lambda x, k: lax.fori_loop(0, 1000, lambda i, c: (c[0] + x[c[1]], k[c[1] % 100] * 7), (half, 0)),
        (line, steps),
    )
    yield "bisect", lambda x, v: jnp.searchsorted(jnp.cumsum(abs(x)), v), (line, small)
    yield (
        "ring",
        lambda x: lax.fori_loop(0, 500, lambda i, c: jnp.concatenate([c[1:], (c[:1] + c[-1:]) * half]), x),
        (line[:300],),
    )
    yield (
        "power-iteration",
        lambda x, w: lax.fori_loop(0, 50, lambda i, v: w @ v / (1 + abs(v).max()), x),
        (small, square),
    )
    yield (
        "heat",
        lambda x: lax.fori_loop(0, 50, lambda i, c: c.at[1:-1, 1:-1].set(half * (c[2:, 1:-1] + c[:-2, 1:-1])), x),
        (x,),
    )
    yield (
        "life",
        lambda x: lax.fori_loop(0, 20, lambda i, c: sum(jnp.roll(c, s, a) for s in (1, -1) for a in (0, 1)) * half, x),
        (x,),
    )
    yield (
        "random-walk",
        lambda k, x: lax.scan(lambda c, k: (c + jax.random.normal(k, (16,), x.dtype), c), x, jax.random.split(k, 200)),
        (np.array([3, 5], np.uint32), small),
    )
    yield "grad-while", jax.grad(lambda x: lax.fori_loop(0, 20, lambda i, c: jnp.sin(c * x), x).sum()), (line,)
    yield (
        "grad-scan-numbers",
        jax.grad(lambda x: lax.scan(lambda c, v: (jnp.tanh(c * half + v), c), half, x)[1].sum()),
        (line,),
    )
    yield (
        "grad-scan-cond",
        jax.grad(lambda x: lax.scan(body, x[0], x)[1].sum()),
        (x,),
    )
    yield (
        "grad-scan-checkpoint",
        jax.grad(lambda x: lax.scan(jax.checkpoint(lambda c, r: (jnp.tanh(c + r), c.sum())), x[0], x)[1].sum()),
        (x,),
    )


def families(name: str) -> list[Callable[[str], Iterator[Case]]]:
    """Those that are of this type."""
    found = [of_gradients, of_control] if name in ("f32", "f64", "bf16") else []
    found += [of_sizes] if name in ("f32", "i32", "i8") else []
    return found + ([of_linear_algebra, of_random, of_transforms] if name in ("f32", "f64") else [])
