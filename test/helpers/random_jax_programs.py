"""Random JAX programs from a seed: every op's operands are values that the program has made before.

`Program(seed)` draws inputs and ops; calling it traces the same ops again. Ops that find no
operands pass. Values are squashed now and then, so that programs neither overflow nor amplify rounding without bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Array = Any  # jax.Array, and tracers
Op = Callable[["Program"], Any]
OPS: list[Op] = []
SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 65)
LARGE = ((300, 700), (2049, 130), (64, 33, 65), (4, 31, 33, 24), (70001,))
FLOATS = (np.float32,) * 7 + (np.float64, jnp.bfloat16, np.float16)
INTEGERS = (np.int32, np.int32, np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64)
LIMIT, LARGE_LIMIT = 6000, 1 << 21


def op(function: Op) -> Op:
    """Register an op: it makes a value, a sequence of values, or None where it finds no operands."""
    OPS.append(function)
    return function


def is_float(x: Array) -> bool:
    return jnp.issubdtype(x.dtype, jnp.floating)


def is_integer(x: Array) -> bool:
    return jnp.issubdtype(x.dtype, jnp.integer)


class Program:
    """Callable on its `inputs`. `wide`: it needs jax_enable_x64."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random = np.random.default_rng(seed)
        self.large = random.random() < 0.15
        self.float = FLOATS[random.integers(len(FLOATS))]
        self.integer = INTEGERS[random.integers(len(INTEGERS))]
        self.wide = any(np.dtype(each).itemsize == 8 for each in (self.float, self.integer))
        self.limit = LARGE_LIMIT if self.large else LIMIT
        self.steps = int(random.integers(1, 7)) if self.large else int(random.integers(3, 22))
        common = self.sizes()
        self.inputs = []
        for number in range(int(random.integers(1, 5))):
            sizes = common if random.random() < 0.6 else self.sizes()
            dtype = self.float if number == 0 or random.random() < 0.7 else (self.integer, np.bool_)[random.integers(2)]
            self.inputs.append(self.drawn(sizes, dtype))
        self.pool: list[Array] = []

    def __call__(self, *inputs: Array) -> tuple[Array, ...]:
        """Trace the program."""
        self.random = np.random.default_rng(self.seed + (1 << 20))
        self.pool = [jnp.asarray(each) for each in inputs]
        made: list[Array] = []
        for _ in range(4 * self.steps):
            if len(made) >= self.steps:
                break
            made += list(self.values(OPS[self.random.integers(len(OPS))](self)))
        self.pool += made
        outputs = [*made[-1:], *(self.pick() for _ in range(int(self.random.integers(1, 4))))]
        return tuple(outputs)

    def values(self, result: Any) -> Iterator[Array]:
        """What an op has made, if it is not too large; now in the pool."""
        for value in () if result is None else result if isinstance(result, list | tuple) else [result]:
            if value.size <= self.limit:
                kept = jnp.tanh(value * 0.5) * 2 if is_float(value) and self.random.random() < 0.4 else value
                self.pool.append(kept)
                yield kept

    # --- drawing -----------------------------------------------------------------------------------------------------

    def sizes(self) -> tuple[int, ...]:
        """A shape."""
        if self.large:
            return LARGE[self.random.integers(len(LARGE))]
        sizes = tuple(int(self.random.choice(SIZES)) for _ in range(self.random.integers(5)))
        while math.prod(sizes) > self.limit:
            sizes = tuple(max(1, size // 2) for size in sizes)
        return sizes

    def drawn(self, sizes: Sequence[int], dtype: Any) -> np.ndarray:
        """An array of random elements."""
        if dtype == np.bool_:
            return np.asarray(self.random.random(sizes) < 0.5)
        if np.dtype(dtype).kind in "iu":
            low = 0 if np.dtype(dtype).kind == "u" else -9
            return np.asarray(self.random.integers(low, 30, sizes)).astype(dtype)
        return np.asarray(self.random.normal(size=sizes)).astype(dtype)

    def whole(self, low: int, high: int) -> int:
        """A number in [low, high)."""
        return int(self.random.integers(low, high))

    def one_of(self, *choices: Any) -> Any:
        """One of the arguments."""
        return choices[self.whole(0, len(choices))]

    def pick(self, fits: Callable[[Array], bool] = lambda x: True) -> Array | None:
        """A value that fits, rather a late one."""
        fitting = [value for value in self.pool if fits(value)]
        return fitting[int(len(fitting) * self.random.random() ** 0.5)] if fitting else None

    def floats(self, low: int = 0, high: int = 9, elements: int = LARGE_LIMIT) -> Array | None:
        """A float value of that rank."""
        return self.pick(lambda x: is_float(x) and low <= x.ndim <= high and 0 < x.size <= elements)

    def tensor(self, elements: int = LARGE_LIMIT) -> Array | None:
        """Any value with dimensions."""
        return self.pick(lambda x: x.ndim > 0 and 0 < x.size <= elements)

    def like(self, x: Array, dtype: Any = None) -> Array:
        """Another value of the same shape: from the pool, broadcast, or a constant."""
        dtype = dtype or x.dtype
        same = self.pick(lambda y: y.shape == x.shape and y.dtype == dtype and y is not x)
        if same is not None and self.random.random() < 0.8:
            return same
        return jnp.broadcast_to(jnp.asarray(self.drawn(x.shape[-1:], dtype)), x.shape)

    def axis(self, x: Array) -> int:
        """A dimension of x."""
        return self.whole(0, x.ndim)

    def axes(self, x: Array) -> tuple[int, ...]:
        """Some dimensions of x."""
        chosen = self.random.choice(x.ndim, self.whole(1, x.ndim + 1), replace=False)
        return tuple(sorted(map(int, chosen)))

    def indices(self, count: int, size: int) -> Array:
        """Indices, some of them out of bounds."""
        return jnp.asarray(self.random.integers(-size - 1, size + 2, count).astype(np.int32))


# --- element by element ----------------------------------------------------------------------------------------------

UNARY: tuple[Callable[[Array], Array], ...] = (
    jnp.exp, jnp.sin, jnp.cos, jnp.tanh, jnp.abs, jnp.negative, lax.logistic, lax.erf, jnp.expm1, jnp.square, lax.cbrt,
    jnp.arctan, jnp.sign, jnp.isfinite, jax.nn.relu, jax.nn.gelu, jax.nn.silu, jax.nn.softplus, jnp.arcsinh, jnp.exp2,
    lambda x: jnp.log(jnp.abs(x) + 0.5), lambda x: lax.rsqrt(jnp.abs(x) + 0.5), lambda x: lax.integer_pow(x, 3),
    lambda x: jnp.tan(x * 0.3), lambda x: jnp.clip(x, -0.7, 0.9), lambda x: lax.lgamma(jnp.abs(x) + 0.5),
)  # fmt: skip
BINARY: tuple[Callable[[Array, Array], Array], ...] = (
    jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.minimum, jnp.arctan2, jnp.hypot, jnp.less, jnp.logaddexp,
    lambda x, y: x / (jnp.abs(y) + 0.3), lambda x, y: jnp.where(x > 0, x, -y), lambda x, y: x * y + x,
    lambda x, y: (jnp.abs(x) + 0.1) ** jnp.clip(y, -2, 2),
    lambda x, y: lax.complex(x.astype(jnp.float32), y.astype(jnp.float32)),
)  # fmt: skip
WHOLE: tuple[Callable[[Array, Array], Array], ...] = (
    jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.bitwise_and, jnp.bitwise_xor, lax.div, lax.rem, jnp.less,
    lax.shift_left, lax.shift_right_logical, lax.shift_right_arithmetic, jnp.equal,
    lambda x, y: lax.population_count(x), lambda x, y: lax.clz(x),
)  # fmt: skip


@op
@op
def unary(p: Program) -> Any:
    x = p.floats()
    return None if x is None else p.one_of(*UNARY)(x)


@op
@op
def binary(p: Program) -> Any:
    x = p.floats()
    return None if x is None else p.one_of(*BINARY)(x, p.like(x))


@op
def whole(p: Program) -> Any:
    x = p.pick(is_integer)
    return None if x is None else p.one_of(*WHOLE)(x, p.like(x))


@op
def of_complex(p: Program) -> Any:
    x = p.pick(lambda x: jnp.issubdtype(x.dtype, jnp.complexfloating))
    if x is None:
        return None
    functions = (jnp.real, jnp.imag, jnp.abs, jnp.conj, jnp.square, lambda x: jnp.exp(x * 0.3), lambda x: x * p.like(x))
    return p.one_of(*functions)(x)


@op
def convert(p: Program) -> Any:
    x = p.pick(lambda x: not jnp.issubdtype(x.dtype, jnp.complexfloating))
    if x is None:
        return None
    dtype = p.one_of(p.float, p.integer, np.bool_, np.float32, np.int32)
    return jnp.clip(x.astype(np.float32), 0, 100).astype(dtype) if is_float(x) else x.astype(dtype)


@op
def select(p: Program) -> Any:
    x = p.pick(lambda x: x.size)
    return None if x is None else jnp.where(p.like(x, np.dtype(bool)), x, p.like(x))


# --- shapes ----------------------------------------------------------------------------------------------------------


@op
def reshape(p: Program) -> Any:
    x = p.tensor()
    if x is None:
        return None
    d = p.axis(x)
    factor = p.one_of(*(f for f in range(1, min(x.shape[d], 64) + 1) if x.shape[d] % f == 0))
    return p.one_of(x.reshape(-1), x.squeeze(), x.reshape((*x.shape[:d], factor, -1, *x.shape[d + 1 :])))


@op
def transpose(p: Program) -> Any:
    x = p.tensor()
    return None if x is None else jnp.transpose(x, tuple(map(int, p.random.permutation(x.ndim))))


@op
def cut(p: Program) -> Any:
    x = p.tensor()
    if x is None:
        return None
    start = [p.whole(0, size) if p.random.random() < 0.5 else 0 for size in x.shape]
    limit = [p.whole(low + 1, size + 1) for low, size in zip(start, x.shape, strict=True)]
    return lax.slice(x, start, limit, [p.one_of(1, 1, 2, 3) for _ in start])


@op
def pad(p: Program) -> Any:
    x = p.tensor()
    if x is None:
        return None
    edges = [(p.one_of(0, 1, 3, -1 if size > 2 else 0), p.one_of(0, 0, 2), p.one_of(0, 0, 0, 1)) for size in x.shape]
    return lax.pad(x, jnp.asarray(p.drawn((), x.dtype)) if x.dtype.kind != "c" else jnp.zeros((), x.dtype), edges)


@op
def concatenate(p: Program) -> Any:
    x = p.tensor()
    if x is None:
        return None
    d = p.axis(x)
    rest = (*x.shape[:d], *x.shape[d + 1 :])
    y = p.pick(lambda y: y.dtype == x.dtype and y.ndim == x.ndim and (*y.shape[:d], *y.shape[d + 1 :]) == rest)
    return jnp.concatenate([x, y, x][: p.one_of(2, 3)], d)


@op
def rearrange(p: Program) -> Any:
    x = p.tensor()
    if x is None:
        return None
    functions = (
        lambda: lax.rev(x, p.axes(x)),
        lambda: jnp.roll(x, p.whole(-3, 4), p.axis(x)),
        lambda: jnp.repeat(x, 2, p.axis(x)),
        lambda: jnp.broadcast_to(x[None], (3, *x.shape)),
        lambda: jnp.stack([x, p.like(x)], p.axis(x)) if x.dtype.kind != "c" else x.T,
    )
    return p.one_of(*functions)()


@op
def dynamic(p: Program) -> Any:
    x = p.tensor()
    if x is None or x.dtype.kind == "c":
        return None
    start = [jnp.int32(p.whole(-2, size + 2)) for size in x.shape]
    sizes = [p.whole(1, size + 1) for size in x.shape]
    if p.random.random() < 0.5:
        return lax.dynamic_slice(x, start, sizes)
    update = jnp.broadcast_to(jnp.asarray(p.drawn(sizes[-1:], x.dtype)), sizes)
    return lax.dynamic_update_slice(x, update, start)


@op
def gather(p: Program) -> Any:
    x = p.tensor(1 << 18)
    if x is None:
        return None
    d = p.axis(x)
    where = p.indices(p.one_of(1, 2, 13, 40), x.shape[d])
    return jnp.take(x, where, d, mode="clip") if p.random.random() < 0.7 else x[p.indices(5, x.shape[0])]


@op
def scatter(p: Program) -> Any:
    x = p.pick(lambda x: x.ndim and 0 < x.size <= 1 << 18 and x.dtype.kind not in "bc")
    if x is None:
        return None
    where = p.indices(p.one_of(1, 5, 40), x.shape[0])
    updates = jnp.broadcast_to(jnp.asarray(p.drawn(x.shape[1:], x.dtype)), (*where.shape, *x.shape[1:]))
    at = x.at[where]
    return p.one_of(at.add, at.min, at.max)(updates)


# --- reductions ------------------------------------------------------------------------------------------------------


@op
@op
def reduce(p: Program) -> Any:
    x = p.pick(lambda x: x.ndim and x.size and x.dtype.kind != "c")
    if x is None:
        return None
    functions: tuple[Callable[..., Array], ...] = (jnp.any, jnp.all)
    if x.dtype != bool:
        functions = (jnp.sum, jnp.max, jnp.min)
    if is_float(x):
        functions += (jnp.mean, jnp.var, jax.scipy.special.logsumexp)
    return p.one_of(*functions)(x, p.axes(x), keepdims=p.one_of(True, False))


@op
def along(p: Program) -> Any:
    x = p.pick(lambda x: x.ndim and x.size and x.dtype.kind not in "bc")
    if x is None:
        return None
    d = p.axis(x)
    functions = (
        lambda: jnp.sort(x, d),
        lambda: jnp.argsort(x, d),
        lambda: jnp.argmax(x, d),
        lambda: lax.top_k(x, p.whole(1, x.shape[-1] + 1)),
        lambda: lax.cumsum(jnp.tanh(x) if is_float(x) else x, d, reverse=p.one_of(True, False)),
        lambda: lax.cummax(x, d),
    )
    return p.one_of(*functions)()


@op
def normalize(p: Program) -> Any:
    x = p.floats(1)
    if x is None:
        return None
    d = p.axis(x)
    functions = (
        lambda: jax.nn.softmax(x, d),
        lambda: jax.nn.log_softmax(x, d),
        lambda: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1),
        lambda: (x - x.mean(0)) / jnp.sqrt(x.var(0) + 1),
        lambda: x / (jnp.abs(x).max(d, keepdims=True) + 1),
    )
    return p.one_of(*functions)()


@op
def window(p: Program) -> Any:
    x = p.floats(1, 4)
    if x is None:
        return None
    width = [min(p.one_of(1, 2, 3), size) for size in x.shape]
    steps = [p.one_of(1, 1, 2) for _ in width]
    edges = [(p.whole(0, each), p.whole(0, each)) for each in width]

    def pooled(x: Array) -> Array:
        return lax.reduce_window(x, -jnp.inf, lax.max, width, steps, edges)

    return pooled(x) if p.random.random() < 0.6 else jax.grad(lambda x: jnp.sin(pooled(x)).astype(np.float32).sum())(x)


# --- products --------------------------------------------------------------------------------------------------------


@op
@op
def dot(p: Program) -> Any:
    x = p.floats(1, 4) if p.random.random() < 0.85 else p.pick(lambda x: is_integer(x) and 0 < x.ndim < 5 and x.size)
    if x is None:
        return None
    order = list(map(int, p.random.permutation(x.ndim)))
    batch = p.whole(0, min(3, x.ndim))
    contracted = p.whole(1, min(3, x.ndim - batch + 1))
    kept = order[: batch + contracted]
    free = [p.one_of(1, 3, 8, 17, 33) for _ in range(p.whole(0, 3))]
    places = list(map(int, p.random.permutation(len(kept) + len(free))))
    sizes = [[*(x.shape[d] for d in kept), *free][place] for place in places]
    depth = math.prod(x.shape[d] for d in kept[batch:])
    if math.prod(sizes) > 20000 or x.size // depth * math.prod(free) > p.limit:
        return None
    y = jnp.asarray(p.drawn(sizes, x.dtype))
    sides = kept, [places.index(number) for number in range(len(kept))]
    numbers = tuple(tuple(side[batch:]) for side in sides), tuple(tuple(side[:batch]) for side in sides)
    z = lax.dot_general(x, y, numbers)
    return z / np.sqrt(depth).astype(z.dtype) if is_float(z) else z


@op
def convolution(p: Program) -> Any:
    x = p.floats(3, 4, 1 << 17)
    if x is None or x.dtype.itemsize == 2 or math.prod(x.shape[1:-1]) < 4:
        return None
    groups = p.one_of(1, 1, x.shape[-1])
    kernel = [p.one_of(1, 2, 3) for _ in x.shape[1:-1]]
    w = jnp.asarray(p.drawn((*kernel, x.shape[-1] // groups, groups * p.one_of(1, 3, 16)), x.dtype))
    steps = [p.one_of(1, 1, 2) for _ in kernel]
    names = "NHWC"[: x.ndim - 1] + "C", "HW"[: len(kernel)] + "IO", "NHWC"[: x.ndim - 1] + "C"

    def convolved(x: Array, w: Array) -> Array:
        return lax.conv_general_dilated(x, w, steps, "SAME", dimension_numbers=names, feature_group_count=groups)

    if x.size * math.prod(w.shape) > 1 << 25 or x.size * w.shape[-1] > p.limit * x.shape[-1]:
        return None
    if p.random.random() < 0.6:
        return convolved(x, w)
    return jax.grad(lambda x, w: jnp.sin(convolved(x, w)).sum(), (0, 1))(x, w)


# --- control flow ----------------------------------------------------------------------------------------------------


def step_of(p: Program, dtype: Any) -> Callable[[Array], Array]:
    """A contraction of values."""
    a, b = (jnp.asarray(number, dtype) for number in p.random.uniform(-0.8, 0.8, 2))
    return p.one_of(
        lambda x: jnp.tanh(x * a + b), lambda x: x * a + b, lambda x: jnp.sin(x) + a, lambda x: jnp.maximum(x, b) * a
    )


@op
def scan(p: Program) -> Any:
    x = p.pick(lambda x: is_float(x) and 0 < x.ndim < 4 and x.shape[0] <= 33 and 0 < x.size < 1 << 16)
    if x is None:
        return None
    step, start, half = step_of(p, x.dtype), jnp.zeros(x.shape[1:], x.dtype), jnp.asarray(0.5, x.dtype)
    reverse = p.one_of(True, False)
    if p.random.random() < 0.3:
        loss = lambda x: lax.scan(lambda c, v: (step(c * half + v), None), start, x)[0].astype(np.float32).sum()  # noqa: E731
        return jax.grad(loss)(x)
    (last, count), rows = lax.scan(
        lambda c, v: ((step(c[0] * half + v), c[1] + 1), c[0]), (start, jnp.int32(0)), x, reverse=reverse
    )
    return last, count, rows


@op
def loop(p: Program) -> Any:
    x = p.floats(0, 3, 1 << 16)
    if x is None:
        return None
    step, times = step_of(p, x.dtype), p.whole(0, 12)
    functions = (
        lambda: lax.fori_loop(0, times, lambda i, c: step(c) + i.astype(x.dtype) * jnp.asarray(0.1, x.dtype), x),
        lambda: lax.while_loop(lambda c: c[1] < times, lambda c: (step(c[0]), c[1] + 2), (x, 0)),
        lambda: lax.fori_loop(0, times, lambda i, c: lax.cond(i % 2 == 0, step, lambda c: c, c), x),
    )
    return p.one_of(*functions)()


@op
def branch(p: Program) -> Any:
    x = p.floats(0, 4)
    if x is None:
        return None
    step, other, number = step_of(p, x.dtype), p.like(x), p.pick(lambda x: is_integer(x) and x.size)
    chosen = jnp.int32(p.whole(-1, 4)) if number is None else number.reshape(-1)[0].astype(np.int32) % 4
    return lax.switch(chosen, [step, lambda x: x, lambda x: other], x)


@op
def mapped(p: Program) -> Any:
    x = p.pick(lambda x: is_float(x) and 0 < x.ndim < 4 and x.shape[0] <= 65 and 0 < x.size < 1 << 14)
    if x is None:
        return None
    step = step_of(p, x.dtype)
    functions = (
        lambda v: lax.cond(v.sum() > 0, step, lambda v: v, v),
        lambda v: lax.fori_loop(0, 3, lambda i, c: step(c), v),
        lambda v: jnp.sort(v.reshape(-1)),
    )
    return jax.vmap(p.one_of(*functions))(x)


@op
def gradient(p: Program) -> Any:
    x = p.floats(1, 4, 1 << 18)
    if x is None:
        return None
    y, d, where = p.like(x), p.axis(x), p.indices(7, 3)
    functions = (
        lambda x: jax.nn.softmax(x, d) * y,
        lambda x: jnp.tanh(x * y) + x,
        lambda x: jnp.take(x, where, d, mode="clip"),
        lambda x: jnp.cumsum(jnp.tanh(x), d),
        lambda x: jnp.where(x > y, x * x, y * x),
    )
    function = p.one_of(*functions)
    return jax.grad(lambda x: jnp.sum(jnp.sin(function(x)).astype(np.float32)))(x)


@op
def drawn_numbers(p: Program) -> Any:
    key = jax.random.key(p.whole(0, 1000))
    sizes = p.sizes()
    if math.prod(sizes) > 1 << 16:
        return None
    function = p.one_of(jax.random.uniform, jax.random.normal)
    return p.one_of(function(key, sizes, p.float), jax.random.bits(key, sizes))
