"""The programs of bench_cliffs.py: every operation over types, axes and ranks, and programs with many of something."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

Case: TypeAlias = tuple[str, Callable[..., Any], tuple[np.ndarray, ...]]

RNG = np.random.default_rng(0)
TYPES: dict[str, Any] = {
    "f32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "f64": np.float64,
    "i8": np.int8,
    "i64": np.int64,
    "b": np.bool_,
    "c64": np.complex64,
    "f16": np.float16,
    "i16": np.int16,
    "i32": np.int32,
    "u64": np.uint64,
}
ORDERED = [name for name in TYPES if name not in ("b", "c64")]
FUNCTIONS = """exp log sin cos tan tanh sinh cosh arcsin arccos arctan arcsinh arctanh sqrt cbrt expm1 log1p floor round
sign exp2 log2""".split()
SPECIAL = "erf erfinv gammaln digamma i0e i1e logit expit entr".split()


def array(name: str, *sizes: int) -> np.ndarray:
    """Numbers around zero, or from zero on."""
    values = RNG.standard_normal(sizes) * 9
    values = abs(values) if name == "u64" else values
    return values > 0 if name == "b" else values.astype(TYPES[name])


def of_axes(name: str) -> Iterator[Case]:
    """What moves and reduces along axes, of rows that are shorter than a vector."""
    x, places = array(name, 12, 30, 40, 24), RNG.integers(0, 12, 9, np.int32)
    for order in ((0, 2, 1, 3), (3, 2, 1, 0), (1, 0, 2, 3), (0, 1, 3, 2), (2, 0, 3, 1)):
        yield f"transpose-{order}", lambda x, order=order: jnp.transpose(x, order), (x,)
    for axes in (0, 1, 2, 3, (0, 2), (1, 3), (0, 1, 2), (0, 3)):
        yield f"sum-{axes}", lambda x, axes=axes: x.sum(axes), (x,)
        if name != "c64":
            yield f"max-{axes}", lambda x, axes=axes: x.max(axes), (x,)
    for axis in (0, 2, 3):
        moved: dict[str, Callable[..., Any]] = {
            "cumsum": lambda x, axis=axis: jnp.cumsum(x, axis),
            "flip": lambda x, axis=axis: jnp.flip(x, axis),
            "roll": lambda x, axis=axis: jnp.roll(x, 3, axis),
            "pad": lambda x, axis=axis: jnp.pad(x, [(2, 3) if i == axis else (0, 0) for i in range(4)]),
            "slice": lambda x, axis=axis: lax.slice_in_dim(x, 1, 11, 2, axis),
            "repeat": lambda x, axis=axis: jnp.repeat(x, 3, axis),
        }
        if name != "c64":
            moved["argmax"] = lambda x, axis=axis: x.argmax(axis)
            moved["sort"] = lambda x, axis=axis: jnp.sort(x, axis)
            moved["argsort"] = lambda x, axis=axis: jnp.argsort(x, axis)
        for what, function in moved.items():
            yield f"{what}-{axis}", function, (x,)
        yield f"take-{axis}", lambda x, k, axis=axis: jnp.take(x, k, axis), (x, places)
    yield "tile", lambda x: jnp.tile(x, (1, 2, 1, 2)), (x,)
    yield "tril", jnp.tril, (x,)
    yield "equal", lambda x: (x == x[:1]).all(-1), (x,)


def of_matrices(name: str) -> Iterator[Case]:
    """Gathers, scatters and products."""
    x, at = array(name, 500, 300), RNG.integers(0, 300, (2, 9000), np.int32)
    rows = at[0, :200]
    yield "gather", lambda x, at: x[at[0], at[1]], (x, at)
    yield "scatter", lambda x, at: x.at[at[0], at[1]].set(x[0, 0]), (x, at)
    yield "scatter-rows", lambda x, k: x.at[k].set(x[:200]), (x, rows)
    if name == "b":
        return
    yield "scatter-add", lambda x, k: x.at[k].add(x[:200]), (x, rows)
    yield "dot", lambda x, y: x @ y.T, (x, array(name, 260, 300))
    yield "dot-vector", lambda x, y: x @ y, (x, array(name, 300))
    yield "vector-dot", lambda x, y: y @ x, (x, array(name, 500))
    yield "outer", jnp.outer, (array(name, 400), array(name, 400))
    yield "batch-dot", lambda x, y: x @ y, (array(name, 50, 20, 30), array(name, 50, 30, 10))
    yield "prod", lambda x: x.prod(0), (x,)
    yield "abs", abs, (x,)


def of_integers(name: str) -> Iterator[Case]:
    """Arithmetic of integers."""
    x = array(name, 500, 300)
    yield "floordiv", lambda x: x // (abs(x) + 1), (x,)
    yield "mod", lambda x: x % 7, (x,)
    yield "shift", lambda x: (x << 2) ^ (x >> 1), (x,)
    yield "popcount", lax.population_count, (x,)
    yield "power", lambda x: x**3, (x,)
    yield "remainder", lambda x, y: lax.rem(x, y | 1), (x, x[::-1])
    yield "divide", lambda x, y: lax.div(x, y | 1), (x, x[::-1])
    yield "shift-by", lambda x: lax.shift_right_logical(x, x & 7), (x,)
    yield "leading-zeros", lax.clz, (x,)
    yield "to-f32-scaled", lambda x: x.astype(jnp.float32) * 0.5, (x,)


def of_floats(name: str) -> Iterator[Case]:
    """Functions, convolutions and windows."""
    x, image = array(name, 500, 300), array(name, 2, 20, 20, 16)
    functions = {each: getattr(jnp, each) for each in FUNCTIONS}
    functions |= {each: getattr(jax.scipy.special, each) for each in SPECIAL}
    for each, function in functions.items():
        yield each, lambda x, function=function: function(abs(x) * 0.01 + 0.1), (x,)
    yield "power", lambda x: abs(x) ** x.dtype.type(1.7), (x,)
    yield "arctan2", lambda x: jnp.arctan2(x, x[::-1]), (x,)
    yield "remainder", lambda x: x % x.dtype.type(3), (x,)
    yield "nextafter", lambda x: jnp.nextafter(x, x[::-1]), (x,)
    yield "reduce-precision", lambda x: lax.reduce_precision(x, 5, 4), (x,)
    yield "logsumexp", lambda x: jax.nn.logsumexp(x, 0), (x,)
    yield "softmax", lambda x: jax.nn.softmax(x, 1), (x,)
    yield "variance", lambda x: x.var(1), (x,)
    layouts = ("NHWC", "HWIO", "NHWC")
    for what, kernel, options in (
        ("", (3, 3, 16, 16), {}),
        ("-dilated", (3, 3, 16, 16), {"rhs_dilation": (2, 2)}),
        ("-transposed", (3, 3, 16, 16), {"lhs_dilation": (2, 2)}),
        ("-depthwise", (3, 3, 1, 16), {"feature_group_count": 16}),
    ):
        yield (
            f"convolution{what}",
            lambda x, w, options=options: lax.conv_general_dilated(
                x, w, (1, 1), [(1, 1), (1, 1)], dimension_numbers=layouts, **options
            ),
            (image, array(name, *kernel)),
        )
    window = (1, 3, 3, 1)
    yield "max-pool", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, window, (1, 2, 2, 1), "SAME"), (image,)
    yield "mean-pool", lambda x: lax.reduce_window(x, 0.0, lax.add, window, (1, 1, 1, 1), "SAME"), (image,)


def of_odd_shapes(name: str) -> Iterator[Case]:
    """Many dimensions, prime sizes and sizes of one; windows, edges and pieces that fill no vector."""
    deep, thin, flat = array(name, 7, 3, 5, 11, 13), array(name, 4, 1, 6, 5, 1, 60), array(name, 211, 307)
    pieces, middle = [array(name, 999, width) for width in (3, 5, 1, 7)], array(name, 7, 1, 5, 1, 13)
    short, zero = array(name, 3001, 7), np.zeros((), TYPES[name])
    yield "deep-transpose", lambda x: x.transpose(4, 1, 3, 0, 2), (deep,)
    yield "deep-swap", lambda x: x.swapaxes(1, 3), (deep,)
    yield "deep-middle", lambda x, y: x | y if name == "b" else x + y, (deep, middle)
    yield "thin-transpose", lambda x: x.transpose(5, 1, 0, 4, 3, 2), (thin,)
    yield "prime-transpose", jnp.transpose, (flat,)
    yield "reshape-transpose", lambda x: x.T.reshape(-1, 211), (flat,)
    for dimension in range(2):
        yield f"strides-{dimension}", lambda x, d=dimension: lax.slice_in_dim(x, 1, None, 3, d), (flat,)
        yield f"backwards-{dimension}", lambda x, d=dimension: jnp.flip(x, d)[::2, ::3], (flat,)
        edges = ((-1, 4, 2), (3, -2, 0)) if dimension else ((2, 1, 0), (-3, 5, 1))
        yield f"interior-{dimension}", lambda x, z, edges=edges: lax.pad(x, z, edges), (flat, zero)
    yield "concatenate-narrow", lambda *a: jnp.concatenate(a, 1), tuple(pieces)
    yield "concatenate-middle", lambda x, y: jnp.concatenate([x, x, y[:, :, :2]], 2), (deep, deep)
    yield "columns", lambda x: (x[:, 2], x[:, 5]), (short,)
    yield "shuffle-columns", lambda x: x[:, np.array([3, 0, 6, 1])], (short,)
    yield (
        "gather-windows",
        lambda x, k: jax.vmap(lambda i: lax.dynamic_slice(x, (i, i), (3, 5)))(k),
        (
            flat,
            RNG.integers(0, 200, 500, np.int32),
        ),
    )
    yield "along-rows", lambda x, k: jnp.take_along_axis(x, k, 1), (flat, RNG.integers(0, 300, (211, 99), np.int32))
    yield "along-columns", lambda x, k: jnp.take_along_axis(x, k, 0), (flat, RNG.integers(0, 200, (99, 307), np.int32))
    yield "one-of-row", lambda x, k: jnp.take_along_axis(x, k, 1), (short, RNG.integers(0, 7, (3001, 1), np.int32))
    yield "mask", lambda x, z: jnp.where(lax.broadcasted_iota(np.int32, x.shape, 1) < 99, x, z), (flat, zero)
    yield "band", lambda x: jnp.triu(jnp.tril(x, 5), -3), (flat,)
    yield "diagonal", lambda x: jnp.diagonal(x), (flat,)
    yield "where-rows", lambda x, y: jnp.where((x[:, :1] == x[:, 1:2]), x, y[:1]), (flat, flat)
    yield "window-set", lambda x, y: lax.dynamic_update_slice(x, y[:7, :11], (3, 5)), (flat, flat)
    yield "columns-set", lambda x, y: x.at[:, 2:5].set(y[:, :3]), (short, short)
    yield "strides-set", lambda x, y: x.at[::2, 1::3].set(y[::2, 1::3]), (flat, flat)
    yield "slices-loop", lambda x: lax.fori_loop(0, 99, lambda i, c: c.at[i].set(x[i + 1]), x), (flat,)
    yield "columns-loop", lambda x: lax.fori_loop(0, 99, lambda i, c: c.at[:, i].set(x[:, i + 1]), x), (flat,)
    for other in TYPES:
        if other != name and not (name == "c64" and other != "c64"):
            yield f"to-{other}", lambda x, of=TYPES[other]: x.astype(of), (flat,)


def of_ordered(name: str) -> Iterator[Case]:
    """Reductions, windows, sorts and segments of numbers that have an order."""
    deep, flat, short = array(name, 7, 3, 5, 11, 13), array(name, 211, 307), array(name, 3001, 7)
    image, to = array(name, 2, 23, 19, 5), RNG.integers(0, 50, 3001, np.int32)
    for axes in (1, 3, (1, 3), (0, 4), (0, 2, 4)):
        yield f"deep-sum-{axes}", lambda x, axes=axes: x.sum(axes), (deep,)
        yield f"deep-max-{axes}", lambda x, axes=axes: x.max(axes), (deep,)
    for axis in (0, 1):
        yield f"argmin-flat-{axis}", lambda x, axis=axis: x.argmin(axis), (flat,)
        yield f"cumsum-flat-{axis}", lambda x, axis=axis: jnp.cumsum(x, axis), (flat,)
        yield f"cummax-{axis}", lambda x, axis=axis: lax.cummax(x, axis), (flat,)
        yield f"cumprod-reverse-{axis}", lambda x, axis=axis: lax.cumprod(x, axis, reverse=True), (flat,)
    yield "sum-short", lambda x: x.sum(1), (short,)
    yield "max-short", lambda x: x.max(1), (short,)
    yield "prod-short", lambda x: x.prod(1), (short,)
    yield "argmax-short", lambda x: x.argmax(1), (short,)
    yield "sort-short", lambda x: jnp.sort(x, 1), (short,)
    yield "argsort-short", lambda x: jnp.argsort(x, 1), (short,)
    yield "top-3", lambda x: lax.top_k(x, 3), (flat,)
    yield "top-2-short", lambda x: lax.top_k(x, 2), (short,)
    yield "minmax", lambda x: (x.min(1), x.max(1), x.sum(1)), (flat,)
    yield "segment-sum", lambda x, k: jax.ops.segment_sum(x, k, 50), (short, to)
    yield "segment-max", lambda x, k: jax.ops.segment_max(x[:, 0], k, 50), (short, to)
    yield "histogram", lambda x, k: jnp.zeros(50, x.dtype).at[k].add(x[:, 0]), (short, to)
    yield "searchsorted", lambda x, y: jnp.searchsorted(jnp.sort(x[0]), y[:, 0]), (flat, short)
    yield "clip", lambda x: jnp.clip(x, x.dtype.type(1), x.dtype.type(5)), (flat,)
    yield "count-less", lambda x: (x < x[:, :1]).sum(1), (flat,)
    yield "any-less", lambda x: (x < x[:1]).any(0), (flat,)
    least = -np.inf if jnp.issubdtype(TYPES[name], np.floating) else jnp.iinfo(TYPES[name]).min
    most_of = np.asarray(least, TYPES[name])
    for what, window, strides, dilation in (
        ("odd", (1, 3, 5, 1), (1, 1, 1, 1), (1, 1, 1, 1)),
        ("dilated", (1, 3, 3, 1), (1, 2, 1, 1), (1, 2, 3, 1)),
        ("channels", (1, 1, 1, 3), (1, 1, 1, 1), (1, 1, 1, 1)),
    ):
        for kind, start, combine in (("max", most_of, lax.max), ("sum", np.zeros((), TYPES[name]), lax.add)):
            yield (
                f"{kind}-window-{what}",
                lambda x, start=start, combine=combine, window=window, strides=strides, dilation=dilation: (
                    lax.reduce_window(x, start, combine, window, strides, "VALID", window_dilation=dilation)
                ),
                (image,),
            )
    layouts, numbers = ("NHWC", "HWIO", "NHWC"), array(name, 2, 17, 13, 12)
    for what, kernel, options in (
        ("groups", (3, 5, 4, 9), {"feature_group_count": 3}),
        ("batch-groups", (3, 3, 12, 6), {"batch_group_count": 2}),
        ("odd", (3, 2, 12, 7), {"rhs_dilation": (1, 3)}),
        ("multiplier", (3, 3, 1, 24), {"feature_group_count": 12}),
    ):
        yield (
            f"convolution-{what}",
            lambda x, w, options=options: lax.conv_general_dilated(
                x, w, (1, 2), [(0, 2), (2, 1)], dimension_numbers=layouts, **options
            ),
            (numbers, array(name, *kernel)),
        )
    signal, taps = array(name, 3, 500, 5), array(name, 7, 5, 3)
    yield (
        "convolution-line",
        lambda x, w: lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")),
        (signal, taps),
    )


def of_points(name: str) -> Iterator[Case]:
    """Arrays whose last dimension is short: points, rotations, pixels, and what geometry and images do with them."""
    count, height, width = 20000, 240, 320
    x, y, turns, matrices = (array(name, count, *sizes) for sizes in ((3,), (3,), (4,), (3, 3)))
    weights, image, mask = array(name, count), array(name, height, width, 3), array(name, height, width)
    corners, cells = RNG.integers(0, count, (count, 3), np.int32), array(name, 64, 64, 3)

    def rotations(q: Any) -> Any:
        w, x, y, z = (q[:, part] for part in range(4))
        rows = ((1 - y * y - z * z, x * y - z * w, x * z + y * w), (x * y + z * w, 1 - x * x - z * z, y * z - x * w))
        return jnp.stack([jnp.stack(row, -1) for row in (*rows, (x * z - y * w, y * z + x * w, 1 - x * x - y * y))], -2)

    yield "norm", lambda x: jnp.sqrt((x * x).sum(-1)), (x,)
    yield "normalize", lambda x: x / (1 + (x * x).sum(-1, keepdims=True)), (x,)
    yield "cross", jnp.cross, (x, y)
    yield "dot", lambda x, y: (x * y).sum(-1), (x, y)
    yield "rotate-each", lambda m, x: jnp.einsum("nij,nj->ni", m, x), (matrices, x)
    yield "rotations", rotations, (turns,)
    yield "transpose-each", lambda m: m.transpose(0, 2, 1), (matrices,)
    yield "trace-each", lambda m: jnp.trace(m, axis1=1, axis2=2), (matrices,)
    yield "outer-each", lambda x: x[:, :, None] * x[:, None, :], (x,)
    yield "append-one", lambda x: jnp.concatenate([x, jnp.ones((count, 1), x.dtype)], -1), (x,)
    yield "scale-each", lambda x, w: x * w[:, None] + x[0], (x, weights)
    yield "add-to-column", lambda x: x.at[:, 1].add(1), (x,)
    yield "set-column", lambda x, w: x.at[:, 2].set(w), (x, weights)
    yield "two-columns", lambda x: x.at[:, :2].multiply(2), (x,)
    yield "order-columns", lambda x: x[:, np.array([2, 0, 1])], (x,)
    yield "differences", lambda x: x[1:] - x[:-1], (x,)
    yield "corners", lambda v, f: jnp.cross(v[f[:, 1]] - v[f[:, 0]], v[f[:, 2]] - v[f[:, 0]]), (x, corners)
    yield "sort-each", lambda x: jnp.sort(x, -1), (x,)
    yield "running-sum", lambda x: jnp.cumsum(x, -1), (x,)
    yield "scan-of-points", lambda x: lax.associative_scan(jnp.add, x), (x[:2000],)
    yield "neighbours", lambda x: x.at[1:-1].add((x[2:] - x[:-2]) * 2), (cells,)
    yield "inner-neighbours", lambda x: x.at[1:, :-1].add(x[:-1, 1:]).at[:, 1:].add(x[:, :-1] * 3), (cells,)
    yield "slices-norm", lambda x: jnp.sqrt(((x[:, 1:] - x[:, :-1]) ** 2).sum(-1)), (cells,)
    yield "gray", lambda i: i[..., 0] * 3 + i[..., 1] * 6 + i[..., 2], (image,)
    yield "mirror", lambda i: i[:, ::-1], (image,)
    yield "other-channels", lambda i: i[..., ::-1], (image,)
    yield "planes", lambda i: i.transpose(2, 0, 1), (image,)
    yield "crop", lambda i: i[17:200, 31:300], (image,)
    yield "edges", lambda i: jnp.pad(i, ((1, 1), (1, 1), (0, 0)), mode="edge"), (image,)
    yield "reflected", lambda i: jnp.pad(i, ((2, 2), (2, 2), (0, 0)), mode="reflect"), (image,)
    yield "twice", lambda i: jnp.repeat(jnp.repeat(i, 2, 0), 2, 1), (image,)
    yield "blend", lambda a, m: a * m[..., None] + a[::-1] * (1 - m[..., None]), (image, mask)
    yield "less-mean", lambda i, m: (i - m) * (m + 1), (image, x[0])
    yield "depth", lambda i: i.reshape(120, 2, 160, 2, 3).transpose(0, 2, 1, 3, 4).reshape(120, 160, 12), (image,)
    yield "patches", lambda i: i.reshape(15, 16, 20, 16, 3).transpose(0, 2, 1, 3, 4).reshape(300, 768), (image,)
    yield "slope", lambda i: (i[2:, 1:-1] - i[:-2, 1:-1]) + (i[1:-1, 2:] - i[1:-1, :-2]), (image,)


def of_many(count: int) -> Iterator[Case]:
    """Programs with so many operands, results, pieces, updates, branches or steps."""
    arrays = tuple(array("f32", 32, 32) for _ in range(count))
    x, stack, weights = array("f32", 64, 64), np.stack(arrays), array("f32", 32, 32) * np.float32(0.1)
    line, places = array("f32", 4096), RNG.integers(0, 900, count, np.int32)
    each = range(count)

    def folded(step: Callable[[Any, int], Any]) -> Callable[[Any], Any]:
        def function(x: Any) -> Any:
            for number in each:
                x = step(x, number)
            return x

        return function

    yield "sum", lambda *a: sum(a), arrays
    for axis in (0, 1, -1):
        yield f"stack-{axis}", lambda *a, axis=axis: jnp.stack(a, axis), arrays
    yield "sum-of-stack", lambda *a: jnp.stack(a).sum(0), arrays
    yield "concatenate-columns", lambda *a: jnp.concatenate(a, 1), arrays
    yield "norm", lambda *a: jnp.sqrt(sum(jnp.sum(x * x) for x in a)), arrays
    yield "stacked-sums", lambda *a: jnp.stack([x.sum() for x in a]), arrays
    yield "element-of-stack", lambda k, *a: jnp.stack(a)[k], (np.asarray(3, np.int32), *arrays)
    yield "unstack-compute-stack", lambda x: jnp.stack([jnp.tanh(x[i]) * i for i in each]), (stack,)
    yield "unstack-dot-stack", lambda x, w: jnp.stack([x[i] @ w for i in each]), (stack, weights)
    yield "split", lambda x: jnp.split(x, count), (stack,)
    yield "set-rows", folded(lambda x, i: x.at[i].set(x[0] * i)), (stack,)
    yield "select-chain", folded(lambda x, i: jnp.where(x > i, x * i, x)), (line,)
    yield "results", lambda x: [x * i for i in each], (x,)
    yield "sums", lambda x: [(x * i).sum() for i in each], (x,)
    yield "row-maxima", lambda x: [(x * i).max(1) for i in each], (x,)
    yield (
        "switch",
        lambda k, x: lax.switch(k, [lambda x, i=i: x * i + 1 for i in each], x),
        (np.asarray(5, np.int32), x),
    )
    yield "carries", lambda *a: lax.fori_loop(0, 10, lambda i, c: tuple(x + 1 for x in c), a), arrays
    yield "rotated-carries", lambda *a: lax.fori_loop(0, 10, lambda i, c: c[1:] + c[:1], a), arrays
    yield "network", lambda x, w: folded(lambda x, i: jnp.tanh(x @ w))(x), (array("f32", 8, 32), weights)
    yield "slices", lambda x, k: jnp.stack([lax.dynamic_slice(x, (k[i],), (16,)) for i in each]), (line, places)
    yield "windows", lambda x: sum(x[i : i + 4096 - count] for i in each), (line,)
    yield "rolls", lambda x: sum(jnp.roll(x, i, 1) for i in each), (x,)
    yield "sines", folded(lambda x, i: jnp.sin(x)), (line,)
    yield "flips", folded(lambda x, i: x[::-1] * 0.5 + i), (x,)
    yield "transposes", folded(lambda x, i: x.T * 0.5 + i), (x,)
    yield "stencil", folded(lambda x, i: (jnp.roll(x, 1, 0) + jnp.roll(x, -1, 1)) * 0.5), (x,)
    yield "one-hots", lambda x: sum(jax.nn.one_hot(x[0].astype(jnp.int32) + i, 64) * i for i in each), (x,)
    yield "sort-operands", lambda *a: lax.sort(a[:24], num_keys=1), arrays


def families(name: str) -> list[Callable[[str], Iterator[Case]]]:
    """Those that are of this type, by type."""
    found = [of_axes, of_matrices, of_odd_shapes]
    found += [of_ordered] if name in ORDERED else []
    found += [of_integers] if name in ("i8", "i16", "i32", "i64", "u64") else []
    found += [of_points] if name in ("f32", "f64", "i8", "bf16") else []
    return found + ([of_floats] if name in ("f32", "bf16", "f64", "f16") else [])
