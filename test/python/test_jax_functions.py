"""The breadth of JAX: public functions of jax.numpy, jax.lax, jax.scipy, jax.nn, jax.random and jax.image, exported,
compiled by us, and compared with XLA's results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import jax.scipy as jsp
import jax.scipy.special as special
import numpy as np
import pytest
from jax import lax, nn, random
from jax.numpy import fft, linalg

import stablehlo_py as shlo
from stablehlo_py.debug.compare import difference_of

RNG = np.random.default_rng(11)
TOLERANCE = 1e-4  # of the largest element


def normal(*sizes: int) -> np.ndarray:
    return RNG.standard_normal(sizes).astype(np.float32)


def positive(*sizes: int) -> np.ndarray:
    return np.abs(normal(*sizes)) + np.float32(0.1)


def unit(*sizes: int) -> np.ndarray:
    """Between 0 and 1, away from both."""
    return RNG.uniform(0.05, 0.95, sizes).astype(np.float32)


def whole(below: int, *sizes: int) -> np.ndarray:
    return RNG.integers(0, below, sizes).astype(np.int32)


def complex_(*sizes: int) -> np.ndarray:
    return normal(*sizes) + 1j * normal(*sizes)


def definite(n: int) -> np.ndarray:
    a = normal(n, n)
    return a @ a.T + n * np.eye(n, dtype=np.float32)


def along_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: function(x, axis=1)


Case = tuple[Any, ...]  # the function, then its arguments


def elementwise() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for name in (
        "abs sin cos tan sinh cosh tanh arcsin arctan arcsinh exp exp2 expm1 floor ceil trunc rint sign square cbrt "
        "reciprocal negative isnan isfinite signbit nan_to_num deg2rad sinc i0 modf frexp"
    ).split():
        cases[name] = (getattr(jnp, name), normal(7, 5) if name in ("modf", "frexp") else unit(7, 5))
    for name in "log log2 log10 log1p sqrt arccosh".split():
        cases[name] = (getattr(jnp, name), positive(7, 5) + 1)
    for name in (
        "add subtract multiply divide power arctan2 hypot maximum minimum fmax fmin fmod remainder floor_divide "
        "logaddexp logaddexp2 copysign nextafter heaviside float_power divmod"
    ).split():
        cases[name] = (getattr(jnp, name), positive(4, 5), positive(4, 5))
    for name in "bitwise_and bitwise_or bitwise_xor left_shift right_shift gcd lcm".split():
        cases[name] = (getattr(jnp, name), whole(30, 9) + 1, whole(5, 9) + 1)
    for name in "angle exp log sqrt tanh arcsin arccosh arctan abs sign".split():
        cases[f"complex-{name}"] = (getattr(jnp, name), complex_(5))
    return cases | {
        "ldexp": (jnp.ldexp, normal(5), whole(8, 5)),
        "complex-power": (jnp.power, complex_(5), complex_(5)),
        "population_count": (lax.population_count, whole(1000, 9)),
        "clz": (lax.clz, whole(1000, 9)),
        "bitcast": (lambda x: lax.bitcast_convert_type(x, jnp.int16), normal(5)),
        "reduce_precision": (lambda x: lax.reduce_precision(x, 5, 7), normal(5)),
        "float8": (lambda x: x.astype(jnp.float8_e4m3fn).astype(jnp.float32), normal(9)),
        "int4": (lambda x: (x.astype(jnp.int4) + jnp.int4(3)).astype(jnp.int32), whole(7, 9)),
        "select": (lambda x: jnp.select([x > 1, x > 0], [x, x * 2], -1.0), normal(9)),
        "piecewise": (lambda x: jnp.piecewise(x, [x < 0, x > 1], [lambda v: -v, jnp.sin, jnp.cos]), normal(9)),
    }


def special_functions() -> dict[str, Case]:
    names = (
        "gammaln digamma erf erfc erfinv expit logit ndtr ndtri log_ndtr i0e i1 i1e entr gamma factorial spence exp1 "
        "expi fresnel"
    )
    cases: dict[str, Case] = {name: (getattr(special, name), unit(9)) for name in names.split()}
    for name in "gammainc gammaincc betaln xlogy xlog1py rel_entr".split():
        cases[name] = (getattr(special, name), positive(9), positive(9))
    return cases | {
        "betainc": (special.betainc, positive(9), positive(9), unit(9)),
        "zeta": (special.zeta, positive(9) + 2, positive(9) + 1),
        "polygamma": (special.polygamma, np.arange(1, 6, dtype=np.int32), positive(5) + 1),
        "multigammaln": (lambda x: special.multigammaln(x, 3), positive(9) + 3),
        "logsumexp": (special.logsumexp, normal(5, 6)),
        "hyp1f1": (special.hyp1f1, positive(5), positive(5), unit(5)),
        "bessel_jn": (lambda z: special.bessel_jn(z, v=3), positive(5)),
        "norm.logpdf": (jsp.stats.norm.logpdf, normal(5)),
        "t.logpdf": (jsp.stats.t.logpdf, normal(5), positive(5)),
        "gaussian_kde": (lambda x, p: jsp.stats.gaussian_kde(x)(p), normal(20), normal(5)),
    }


def reductions() -> dict[str, Case]:
    names = "sum prod mean std var max min argmax argmin any all median cumsum cumprod nansum nanmean ptp"
    cases: dict[str, Case] = {name: (along_rows(getattr(jnp, name)), normal(6, 9)) for name in names.split()}

    def larger(a: tuple[jax.Array, jax.Array], b: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return jnp.maximum(a[0], b[0]), jnp.where(a[0] >= b[0], a[1], b[1])

    return cases | {
        "cummax": (along_rows(lax.cummax), normal(6, 9)),
        "quantile": (lambda x: jnp.quantile(x, jnp.array([0.1, 0.5, 0.9])), normal(50)),
        "histogram": (lambda x: jnp.histogram(x, bins=7), normal(99)),
        "bincount": (lambda x: jnp.bincount(x, length=9), whole(9, 50)),
        "reduce-with-index": (
            lambda x, i: lax.reduce((x, i), (-jnp.inf, jnp.int32(0)), larger, (1,)),
            normal(4, 9),
            whole(9, 4, 9),
        ),
        "max-pool": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 3), (1, 2), "SAME"), normal(7, 8)),
        "dilated-pool": (
            lambda x: lax.reduce_window(
                x, 0.0, lax.add, (2, 3), (1, 2), ((1, 1), (0, 2)), base_dilation=(2, 1), window_dilation=(1, 2)
            ),
            normal(7, 8),
        ),
        "max-pool-gradient": (
            jax.grad(lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID") ** 2).sum()),
            normal(8, 8),
        ),
        "cov": (jnp.cov, normal(3, 9)),
        "trapezoid": (jnp.trapezoid, normal(9)),
    }


def sorting_and_indexing() -> dict[str, Case]:
    rows = whole(9, 4)
    cases: dict[str, Case] = {
        f"pad-{mode}": (lambda x, mode=mode: jnp.pad(x, ((1, 2), (2, 1)), mode=mode), normal(5, 6))
        for mode in "constant edge linear_ramp maximum mean median minimum reflect symmetric wrap".split()
    }
    return cases | {
        "sort": (jnp.sort, normal(4, 30)),
        "argsort": (lambda x: jnp.argsort(x, axis=0), normal(30, 3)),
        "lexsort": (lambda a, b: jnp.lexsort((a, b)), whole(3, 20), whole(3, 20)),
        "partition": (lambda x: jnp.partition(x, 4), normal(20)),
        "top_k": (lambda x: lax.top_k(x, 4), normal(3, 20)),
        "approx_max_k": (lambda x: lax.approx_max_k(x, 4), normal(3, 128)),
        "unique": (lambda x: jnp.unique(x, size=6, return_index=True, return_counts=True), whole(6, 30)),
        "nonzero": (lambda x: jnp.nonzero(x > 0, size=5), normal(20)),
        "searchsorted": (lambda a, v: jnp.searchsorted(jnp.sort(a), v), normal(30), normal(9)),
        "digitize": (lambda x: jnp.digitize(x, jnp.linspace(-1, 1, 7)), normal(20)),
        "interp": (lambda x: jnp.interp(x, jnp.linspace(-1, 1, 7), jnp.arange(7.0)), normal(20)),
        "take_along_axis": (lambda x, i: jnp.take_along_axis(x, i, 1), normal(4, 9), whole(9, 4, 3)),
        "roll": (lambda x: jnp.roll(x, (2, 3), (0, 1)), normal(5, 6)),
        "isin": (jnp.isin, whole(9, 5), whole(9, 5)),
        "packbits": (lambda x: jnp.packbits(x > 3), whole(7, 20)),
        "unpackbits": (lambda x: jnp.unpackbits(x.astype(jnp.uint8)), whole(255, 5)),
        "at-set": (lambda x, i: x.at[i].set(7.0), normal(9, 3), rows),
        "at-add": (lambda x, i: x.at[i, 1].add(1.0), normal(9, 3), rows),
        "at-multiply": (lambda x, i: x.at[i].multiply(2.0), normal(9, 3), rows),
        "at-min": (lambda x, i: x.at[i].min(0.0), normal(9, 3), rows),
        "at-apply": (lambda x: x.at[jnp.array([1, 4])].apply(jnp.sin), normal(9, 3)),
        "at-get-fill": (lambda x: x.at[jnp.array([1, 40, -3])].get(mode="fill", fill_value=-1.0), normal(9, 3)),
        "at-drop": (lambda x: x.at[jnp.array([1, 40, -30])].set(1.0, mode="drop"), normal(9, 3)),
        "segment_sum": (lambda x, i: jax.ops.segment_sum(x, i, 5), normal(20, 3), whole(5, 20)),
        "segment_max": (lambda x, i: jax.ops.segment_max(x, i, 5), normal(20), whole(5, 20)),
        "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, i), (3, 2)), normal(7, 8), np.int32(6)),
        "dynamic_update_slice": (
            lambda x, u, i: lax.dynamic_update_slice(x, u, (i, jnp.int32(0))),
            normal(7, 8),
            normal(2, 3),
            np.int32(6),
        ),
    }


def products_and_solvers() -> dict[str, Case]:
    low, spd = lambda a: jnp.tril(a) + 5 * jnp.eye(4), definite(5)
    hermitian = (lambda c: c @ c.conj().T + 6 * np.eye(4, dtype=np.complex64))(complex_(4, 4))
    int8 = partial(lax.dot, preferred_element_type=jnp.int32)
    return {
        "einsum": (
            lambda a, b, c: jnp.einsum("bij,bjk,kl->bil", a, b, c),
            normal(2, 3, 4),
            normal(2, 4, 5),
            normal(5, 2),
        ),
        "tensordot": (lambda a, b: jnp.tensordot(a, b, [[1, 0], [0, 2]]), normal(3, 4, 5), normal(4, 2, 3)),
        "kron": (jnp.kron, normal(2, 3), normal(3, 2)),
        "dot-int8": (int8, whole(100, 5, 6).astype(np.int8), whole(100, 6, 4).astype(np.int8)),
        "ragged_dot": (lax.ragged_dot, normal(10, 4), normal(3, 4, 5), np.array([3, 5, 2], np.int32)),
        "cholesky": (linalg.cholesky, definite(6)),
        "cholesky-complex": (linalg.cholesky, hermitian),
        "qr": (linalg.qr, normal(6, 4)),
        "svd-values": (lambda x: linalg.svd(x, compute_uv=False), normal(6, 4)),
        "svd": (lambda x: (lambda u, s, v: (u * s) @ v)(*linalg.svd(x, full_matrices=False)), normal(6, 4)),
        "eigh": (lambda x: linalg.eigh(x)[0], spd),
        "eigvals": (lambda x: jnp.sort(jnp.abs(linalg.eigvals(x))), normal(5, 5)),
        "inv": (linalg.inv, spd),
        "slogdet": (linalg.slogdet, normal(5, 5)),
        "solve": (linalg.solve, spd, normal(5, 2)),
        "lstsq": (lambda a, b: linalg.lstsq(a, b)[0], normal(7, 3), normal(7)),
        "pinv": (linalg.pinv, normal(5, 3)),
        "matrix_power": (lambda x: linalg.matrix_power(x, 5), normal(4, 4)),
        "nuclear-norm": (lambda x: linalg.norm(x, ord="nuc"), normal(5, 4)),
        "lu": (jsp.linalg.lu, normal(5, 5)),
        "expm": (jsp.linalg.expm, normal(4, 4) * np.float32(0.3)),
        "sqrtm": (lambda a: jsp.linalg.sqrtm(a).real, definite(4)),
        "schur": (lambda a: jnp.abs(jsp.linalg.schur(a)[0].diagonal()), definite(4)),
        "polar": (jsp.linalg.polar, normal(4, 4)),
        "hessenberg": (jsp.linalg.hessenberg, normal(5, 5)),
        "eigh_tridiagonal": (lambda d, e: jsp.linalg.eigh_tridiagonal(d, e, eigvals_only=True), normal(6), normal(5)),
        "solve_triangular": (
            lambda a, b: jsp.linalg.solve_triangular(low(a), b, lower=True),
            normal(4, 4),
            normal(4, 2),
        ),
        "tridiagonal_solve": (lax.linalg.tridiagonal_solve, normal(6), positive(6) + 4, normal(6), normal(6, 2)),
        "cholesky-gradient": (jax.grad(lambda x: linalg.cholesky(x).sum()), definite(4)),
        "eigh-gradient": (jax.grad(lambda x: linalg.eigh(x)[0][0]), definite(4)),
        "svd-gradient": (jax.grad(lambda x: linalg.svd(x, compute_uv=False).sum()), normal(4, 3)),
        "conjugate-gradients": (lambda a, b: jsp.sparse.linalg.cg(lambda v: a @ v, b)[0], spd, normal(5)),
        "gmres": (lambda a, b: jsp.sparse.linalg.gmres(lambda v: a @ v, b)[0], spd, normal(5)),
    }


def signals_and_images() -> dict[str, Case]:
    real = ("rfft", "rfft2", "rfftn", "ihfft")
    names = "fft ifft rfft irfft hfft ihfft fft2 ifft2 fftn rfft2 irfft2 rfftn"
    cases: dict[str, Case] = {
        name: (getattr(fft, name), normal(6, 8) if name in real else complex_(6, 8)) for name in names.split()
    }
    return cases | {
        "dct": (jsp.fft.dct, normal(4, 9)),
        "idctn": (jsp.fft.idctn, normal(4, 9)),
        "convolve": (jnp.convolve, normal(20), normal(5)),
        "convolve2d": (jsp.signal.convolve2d, normal(9, 8), normal(3, 3)),
        "fftconvolve": (jsp.signal.fftconvolve, normal(9, 8), normal(3, 3)),
        "stft": (lambda x: jsp.signal.stft(x, nperseg=16), normal(128)),
        "istft": (lambda x: jsp.signal.istft(jsp.signal.stft(x, nperseg=16)[2], nperseg=16), normal(128)),
        "welch": (lambda x: jsp.signal.welch(x, nperseg=32), normal(128)),
        "detrend": (jsp.signal.detrend, normal(40)),
        "resize-bicubic": (lambda x: jax.image.resize(x, (7, 9, 3), "bicubic"), normal(5, 6, 3)),
        "resize-lanczos3": (lambda x: jax.image.resize(x, (3, 4, 3), "lanczos3"), normal(5, 6, 3)),
        "resize-nearest": (lambda x: jax.image.resize(x, (10, 13), "nearest"), normal(5, 6)),
        "map_coordinates": (
            lambda x, c: jsp.ndimage.map_coordinates(x, [c[0], c[1]], order=1, mode="reflect"),
            normal(6, 7),
            positive(2, 9),
        ),
    }


def convolutions() -> dict[str, Case]:
    convolve = lax.conv_general_dilated
    depthwise = partial(convolve, feature_group_count=8, dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return {
        "1d": (lambda x, w: convolve(x, w, (2,), "SAME"), normal(2, 3, 16), normal(4, 3, 5)),
        "2d": (lambda x, w: convolve(x, w, (1, 1), "VALID"), normal(2, 3, 9, 9), normal(4, 3, 3, 3)),
        "3d": (lambda x, w: convolve(x, w, (1, 1, 1), "SAME"), normal(1, 2, 5, 5, 5), normal(3, 2, 3, 3, 3)),
        "complex": (lambda x, w: convolve(x, w, (1, 1), "SAME"), complex_(1, 2, 5, 5), complex_(3, 2, 3, 3)),
        "depthwise": (lambda x, w: depthwise(x, w, (1, 1), "SAME"), normal(2, 9, 9, 8), normal(3, 3, 1, 8)),
        "groups": (
            lambda x, w: convolve(x, w, (1, 1), "SAME", feature_group_count=2),
            normal(2, 4, 9, 9),
            normal(6, 2, 3, 3),
        ),
        "batch-groups": (
            lambda x, w: convolve(x, w, (1, 1), "SAME", batch_group_count=2),
            normal(4, 3, 9, 9),
            normal(6, 3, 3, 3),
        ),
        "dilated": (
            lambda x, w: convolve(x, w, (1, 1), ((2, 1), (0, 3)), (2, 2), (1, 3)),
            normal(2, 3, 9, 9),
            normal(4, 3, 3, 3),
        ),
        "transposed": (lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), normal(2, 9, 9, 3), normal(3, 3, 3, 4)),
        "gradient": (
            jax.grad(lambda w, x: (convolve(x, w, (2, 2), "SAME") ** 2).sum()),
            normal(4, 3, 3, 3),
            normal(2, 3, 9, 9),
        ),
        "patches": (lambda x: lax.conv_general_dilated_patches(x, (3, 3), (1, 1), "SAME"), normal(2, 3, 7, 7)),
    }


def neural_networks() -> dict[str, Case]:
    names = (
        "relu relu6 sigmoid softplus sparse_plus silu mish leaky_relu elu celu selu gelu hard_sigmoid hard_silu "
        "hard_tanh log_sigmoid soft_sign squareplus softmax log_softmax standardize glu"
    )
    cases: dict[str, Case] = {name: (getattr(nn, name), normal(4, 8)) for name in names.split()}
    heads = tuple(normal(2, 6, 2, 4) for _ in range(3))
    return cases | {
        "gelu-exact": (lambda x: nn.gelu(x, approximate=False), normal(4, 8)),
        "one_hot": (lambda i: nn.one_hot(i, 7), whole(7, 5)),
        "attention": (nn.dot_product_attention, *heads),
        "attention-causal": (lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=True), *heads),
    }


def random_numbers() -> dict[str, Case]:
    sizes = (3, 5)
    makers: dict[str, Callable[[jax.Array], Any]] = {
        "bits": lambda k: random.bits(k, sizes),
        "uniform": lambda k: random.uniform(k, sizes),
        "normal": lambda k: random.normal(k, sizes),
        "randint": lambda k: random.randint(k, sizes, 0, 100),
        "permutation": lambda k: random.permutation(k, 17),
        "choice": lambda k: random.choice(k, 20, (5,), replace=False),
        "categorical": lambda k: random.categorical(k, jnp.zeros((4, 6))),
        "gamma": lambda k: random.gamma(k, 2.5, sizes),
        "beta": lambda k: random.beta(k, 2.0, 3.0, sizes),
        "poisson": lambda k: random.poisson(k, 4.0, sizes),
        "binomial": lambda k: random.binomial(k, 10, 0.3, sizes),
        "dirichlet": lambda k: random.dirichlet(k, jnp.ones(4), (2,)),
        "gumbel": lambda k: random.gumbel(k, sizes),
        "laplace": lambda k: random.laplace(k, sizes),
        "t": lambda k: random.t(k, 3.0, sizes),
        "truncated_normal": lambda k: random.truncated_normal(k, -1, 1, sizes),
        "multivariate_normal": lambda k: random.multivariate_normal(k, jnp.zeros(3), jnp.eye(3)),
        "geometric": lambda k: random.geometric(k, 0.3, sizes),
        "wald": lambda k: random.wald(k, 2.0, sizes),
        "split": lambda k: random.key_data(random.split(k, 4)),
        "fold_in": lambda k: random.key_data(random.fold_in(k, 7)),
    }
    threefry, philox = np.array([3, 7], np.uint32), np.array([1, 2, 3, 4], np.uint32)

    def seeded(maker: Callable[[jax.Array], Any], implementation: str) -> Callable[[jax.Array], Any]:
        return lambda data: maker(random.wrap_key_data(data, impl=implementation))

    cases: dict[str, Case] = {name: (seeded(maker, "threefry2x32"), threefry) for name, maker in makers.items()}
    for implementation in ("rbg", "unsafe_rbg"):
        cases[f"normal-{implementation}"] = (seeded(makers["normal"], implementation), philox)
    return cases


def control_flow() -> dict[str, Case]:
    def doubled(v: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return v[0] * 2 + 1, v[1] + v[0]

    def cube_root(x: jax.Array) -> jax.Array:
        def newton(f: Callable[[jax.Array], jax.Array], start: jax.Array) -> jax.Array:
            return lax.fori_loop(0, 30, lambda _, v: v - f(v) / (3 * v**2), start)

        return lax.custom_root(lambda y: y**3 - x, jnp.ones_like(x), newton, lambda g, y: y / g(1.0))

    def steps_of(x: jax.Array) -> jax.Array:
        return lax.while_loop(lambda v: v < 50, lambda v: v * 1.5 + 1, x)

    return {
        "scan": (lambda x: lax.scan(lambda c, v: (c * 0.9 + v, c.sum() + v), jnp.zeros(3), x), normal(10, 3)),
        "associative_scan": (lambda x: lax.associative_scan(jnp.add, x, reverse=True), normal(11, 3)),
        "fori_loop": (lambda x: lax.fori_loop(0, 7, lambda i, v: v.at[i].add(i * 1.0), x), normal(9)),
        "while_loop": (lambda x: lax.while_loop(lambda v: v[0] < 100, doubled, (jnp.abs(x), x)), normal()),
        "cond": (lambda p, x: lax.cond(p > 0, jnp.sin, lambda v: v * 2, x), normal(), normal(4)),
        "switch": (lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.exp], x), np.int32(2), normal(4)),
        "while_loop-batched": (jax.vmap(steps_of), positive(7)),
        "cond-batched": (jax.vmap(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x)), whole(2, 5) > 0, normal(5)),
        "map-in-batches": (lambda x: lax.map(jnp.sin, x, batch_size=3), normal(10, 4)),
        "custom_root": (cube_root, positive()),
        "hessian": (jax.hessian(lambda x: (jnp.sin(x) @ x) ** 2), normal(4)),
        "jacrev": (jax.jacrev(jnp.cumprod), normal(4)),
        "jvp-of-inverse": (lambda x, t: jax.jvp(linalg.inv, (x,), (t,)), definite(3), normal(3, 3)),
        "checkpoint": (jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum())), normal(5)),
        "scan-gradient": (
            jax.grad(lambda x: lax.scan(lambda c, v: (jnp.tanh(c * v), c), 1.0, x)[0] + x[0]),
            normal(9),
        ),
        "sort-gradient": (jax.grad(lambda x: (jnp.sort(x) ** 2 * jnp.arange(9.0)).sum()), normal(9)),
    }


GROUPS = (
    elementwise,
    special_functions,
    reductions,
    sorting_and_indexing,
    products_and_solvers,
    signals_and_images,
    convolutions,
    neural_networks,
    random_numbers,
    control_flow,
)
CASES = {f"{group.__name__}/{name}": case for group in GROUPS for name, case in group().items()}


@pytest.mark.parametrize("name", CASES)
def test_function(name: str) -> None:
    function, *arguments = CASES[name]
    with jax.default_matmul_precision("highest"):
        expected = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(function)(*arguments))]
        results = shlo.compile(jax.export.export(jax.jit(function))(*arguments))(*arguments)
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
        if wanted.dtype.kind in "biu":
            np.testing.assert_array_equal(result, wanted)
        else:
            assert difference_of(result, wanted) <= TOLERANCE
