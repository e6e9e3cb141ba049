"""Programs on quantized tensors: against the specification's formulas in NumPy, and the reference interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import ml_dtypes
import numpy as np
import pytest

import stablehlo_py
from stablehlo_py.debug.workers import Worker

OPTIONS = stablehlo_py.Options(threads=1, cache_dir=None)
FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


@dataclass(frozen=True)
class Quantized:
    """The model of a quantized element type. Parameters along a dimension have shape [n, 1, ...] or the like."""

    storage: str
    expressed: str
    scale: float | tuple[float, ...]
    zero_point: int | tuple[int, ...] = 0
    bounds: tuple[int, int] | None = None
    dimension: int | None = None

    @property
    def dtype(self) -> np.dtype:
        width, unsigned = int(self.storage[1:]), self.storage[0] == "u"
        name = f"{'uint' if unsigned else 'int'}{width}"
        return np.dtype(getattr(ml_dtypes, name) if width < 8 else name)

    @property
    def range(self) -> tuple[int, int]:
        width, unsigned = int(self.storage[1:]), self.storage[0] == "u"
        return self.bounds or ((0, 2**width - 1) if unsigned else (-(2 ** (width - 1)), 2 ** (width - 1) - 1))

    def __str__(self) -> str:
        bounds = f"<{self.bounds[0]}:{self.bounds[1]}>" if self.bounds else ""
        head = f"!quant.uniform<{self.storage}{bounds}:{self.expressed}"
        if self.dimension is None:
            return f"{head}, {self.scale:.9e}:{self.zero_point}>"
        pairs = ", ".join(f"{s:.9e}:{z}" for s, z in zip(self.scale, self.zero_point, strict=True))
        return f"{head}:{self.dimension}, {{{pairs}}}>"

    def tensor(self, *sizes: int) -> str:
        return f"tensor<{''.join(f'{size}x' for size in sizes)}{self}>"

    def parameters(self, rank: int) -> tuple[np.ndarray, np.ndarray]:
        sizes = [] if self.dimension is None else [-1 if d == self.dimension else 1 for d in range(rank)]
        scale = np.asarray(self.scale, FLOATS[self.expressed]).reshape(sizes)
        return scale, np.asarray(self.zero_point, np.int64).reshape(sizes)

    def real(self, stored: np.ndarray) -> np.ndarray:
        """Specification, dequantize."""
        scale, zero_point = self.parameters(stored.ndim)
        return (stored.astype(np.int64) - zero_point).astype(scale.dtype) * scale

    def stored(self, real: np.ndarray) -> np.ndarray:
        """Specification, quantize; the clamp is where it is exact."""
        scale, zero_point = self.parameters(real.ndim)
        scaled = (real.astype(scale.dtype) / scale) + zero_point.astype(scale.dtype)
        rounded = np.nan_to_num(np.rint(scaled.astype(np.float64)), nan=0.0)
        return np.clip(rounded, *self.range).astype(np.int64).astype(self.dtype)

    def sample(self, random: np.random.Generator, *sizes: int) -> np.ndarray:
        low, high = self.range
        return random.integers(low, high, sizes, endpoint=True).astype(self.dtype)


def _run(module: str, *arguments: np.ndarray) -> Sequence[np.ndarray]:
    return stablehlo_py.compile(module, options=OPTIONS)(*arguments)


def _equal(results: Sequence[np.ndarray], expected: Sequence[np.ndarray], names: Sequence[str] = ()) -> None:
    assert len(results) == len(expected)
    for number, (result, right) in enumerate(zip(results, expected, strict=True)):
        assert result.dtype == right.dtype
        message = names[number] if names else f"result {number}"
        np.testing.assert_array_equal(result.astype(np.int64), right.astype(np.int64), message)


TYPES = [
    Quantized("i8", "f32", 0.1, -3),
    Quantized("i8", "f32", 0.02, 5, bounds=(-127, 127)),
    Quantized("u8", "f32", 0.1, 128),
    Quantized("u8", "f32", 0.1, 7, bounds=(1, 200)),
    Quantized("i2", "f32", 0.5, -1),
    Quantized("u2", "f32", 0.5, 1),
    Quantized("i4", "f32", 0.25, 2),
    Quantized("u4", "f32", 0.25, 3),
    Quantized("i16", "f32", 0.001, 100),
    Quantized("u16", "f32", 0.001, 40000),
    Quantized("i32", "f32", 1e-6, -7),
    Quantized("u32", "f32", 1e-6, 2**31),
    Quantized("i8", "f64", 0.1, -3),
    Quantized("i8", "f16", 0.1, -3),
    Quantized("i8", "bf16", 0.1, -3),
    Quantized("i16", "f64", 0.001, 100),
]
UNARY = {"abs": np.abs, "negate": np.negative, "floor": np.floor, "ceil": np.ceil, "sign": np.sign}
BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


@pytest.mark.parametrize("of", TYPES, ids=str)
def test_ops_are_dequantize_op_quantize(of):
    """Operands and result of three different scales."""
    other, result = replace(of, scale=of.scale * 0.7), replace(of, scale=of.scale * 1.3, zero_point=of.range[0] + 2)
    a, b, c = (each.tensor(3, 7) for each in (of, other, result))
    lines, names = [], [*UNARY, *BINARY, "requantize"]
    for name in UNARY:
        lines.append(f"%{name} = stablehlo.{name} %a : ({a}) -> {c}")
    for name in BINARY:
        lines.append(f"%{name} = stablehlo.{name} %a, %b : ({a}, {b}) -> {c}")
    lines.append(f"%requantize = stablehlo.uniform_quantize %a : ({a}) -> {c}")
    outputs, types = ", ".join(f"%{name}" for name in names), ", ".join([c] * len(names))
    body = "\n".join(lines)
    module = f"func.func @main(%a: {a}, %b: {b}) -> ({types}) {{\n{body}\nreturn {outputs} : {types}\n}}"
    random = np.random.default_rng(0)
    x, y = of.sample(random, 3, 7), other.sample(random, 3, 7)
    real_x, real_y = of.real(x), other.real(y)
    with np.errstate(all="ignore"):
        reals = [function(real_x) for function in UNARY.values()]
        reals += [function(real_x, real_y) for function in BINARY.values()]
        expected = [result.stored(real) for real in (*reals, real_x)]
    _equal(_run(module, x, y), expected, names)


@pytest.mark.parametrize("of", [TYPES[0], TYPES[3], TYPES[7], TYPES[9], TYPES[10], TYPES[11]], ids=str)
def test_one_type_computes_on_stored_integers(of):
    """Order and sums are exact, also where the expressed type cannot hold every stored integer."""
    t, scalar = of.tensor(3, 7), of.tensor()
    module = f"""func.func @main(%a: {t}, %b: {t}, %c: {scalar}) -> ({t}, {t}, {t}, {t}, {t}, tensor<3x7xi1>) {{
      %0 = stablehlo.maximum %a, %b : {t}
      %1 = stablehlo.minimum %a, %b : {t}
      %2 = stablehlo.clamp %c, %a, %c : ({scalar}, {t}, {scalar}) -> {t}
      %3 = stablehlo.add %a, %b : {t}
      %4 = stablehlo.subtract %a, %b : {t}
      %5 = stablehlo.compare LT, %a, %b, FLOAT : ({t}, {t}) -> tensor<3x7xi1>
      return %0, %1, %2, %3, %4, %5 : {t}, {t}, {t}, {t}, {t}, tensor<3x7xi1>
    }}"""
    random = np.random.default_rng(0)
    a, b, c = of.sample(random, 3, 7), of.sample(random, 3, 7), of.sample(random)
    x, y = a.astype(np.int64), b.astype(np.int64)
    exact = [np.maximum(x, y), np.minimum(x, y), np.full_like(x, c), x + y - of.zero_point, x - y + of.zero_point]
    expected = [np.clip(each, *of.range).astype(of.dtype) for each in exact]
    _equal(_run(module, a, b, c), [*expected, x < y])


CHANNELS = Quantized("i8", "f32", (0.02, 0.03, 0.01, 0.05), (0, 0, 0, 0), dimension=1)


def _nearest(result: np.ndarray, of: Quantized, multiples: np.ndarray) -> None:
    """Every stored integer is the one nearest to the exact value, given in multiples of the scale."""
    _, zero_point = of.parameters(multiples.ndim)
    exact = np.clip(multiples + zero_point, *of.range)
    assert result.dtype == of.dtype
    assert np.abs(result.astype(np.float64) - exact).max() <= 0.5 + 1e-3


PRODUCTS = {
    "static range": (Quantized("i8", "f32", 0.1, -3), Quantized("i8", "f32", 0.02), Quantized("i8", "f32", 0.4, 9)),
    "per axis": (Quantized("i8", "f32", 0.1, -3), CHANNELS, replace(CHANNELS, scale=(0.5, 0.6, 0.2, 0.9))),
    "unsigned": (Quantized("u8", "f32", 0.1, 128), Quantized("u8", "f32", 0.02), Quantized("u8", "f32", 3.0, 100)),
    "four bits": (Quantized("i4", "f32", 0.1, -3), Quantized("i4", "f32", 0.02), Quantized("i8", "f32", 0.02, 9)),
    "exact": (Quantized("i8", "f32", 0.1), Quantized("i8", "f32", 0.02), Quantized("i32", "f32", 0.002, 5)),
    "16 bits": (Quantized("i16", "f32", 0.1, 7), Quantized("i16", "f32", 0.02), Quantized("i16", "f32", 900.0, 9)),
    "32 bits": (Quantized("i8", "f32", 0.1), Quantized("i8", "f32", 0.02), Quantized("i32", "f32", 1e-7)),
    "f64": (Quantized("i8", "f64", 0.1, 3), Quantized("i8", "f64", 0.02), Quantized("i8", "f64", 0.4, 9)),
    "bf16": (Quantized("i8", "bf16", 0.125, 3), Quantized("i8", "bf16", 0.25), Quantized("i8", "bf16", 8.0, 9)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_dot(name):
    lhs, rhs, result = PRODUCTS[name]
    batch = rhs.dimension is None
    sizes = ((2, 5, 33), (2, 33, 4), (2, 5, 4)) if batch else ((5, 33), (33, 4), (5, 4))
    a, b, c = (of.tensor(*each) for of, each in zip((lhs, rhs, result), sizes, strict=True))
    numbers = "batching_dims = [0] x [0], contracting_dims = [2] x [1]" if batch else "contracting_dims = [1] x [0]"
    module = f"""func.func @main(%a: {a}, %b: {b}) -> {c} {{
      %0 = stablehlo.dot_general %a, %b, {numbers} : ({a}, {b}) -> {c}
      return %0 : {c}
    }}"""
    random = np.random.default_rng(0)
    x, y = lhs.sample(random, *sizes[0]), rhs.sample(random, *sizes[1])
    (stored,) = _run(module, x, y)
    left, right = (each.astype(np.int64) - of.parameters(each.ndim)[1] for each, of in ((x, lhs), (y, rhs)))
    scales = [of.parameters(stored.ndim)[0].astype(np.float64) for of in (lhs, rhs, result)]
    _nearest(stored, result, (left @ right) * (scales[0] * scales[1] / scales[2]))


CONVOLUTIONS = {
    "static range": (*PRODUCTS["static range"], "stride = [2, 1], pad = [[1, 1], [0, 2]]", (2, 1), ((1, 1), (0, 2)), 1),
    "exact": (*PRODUCTS["exact"], "pad = [[1, 1], [1, 1]]", (1, 1), ((1, 1), (1, 1)), 1),
    "16 bits": (*PRODUCTS["16 bits"], "pad = [[1, 1], [1, 1]]", (1, 1), ((1, 1), (1, 1)), 1),
    "grouped": (*PRODUCTS["unsigned"], "pad = [[1, 1], [1, 1]]", (1, 1), ((1, 1), (1, 1)), 2),
    "per axis": (
        Quantized("i8", "f32", 0.1, -3),
        replace(CHANNELS, dimension=3, zero_point=(1, -2, 0, 5)),
        replace(CHANNELS, dimension=3, scale=(0.5, 0.6, 0.2, 0.9), zero_point=(1, 2, 3, 4)),
        "pad = [[1, 1], [1, 1]]",
        (1, 1),
        ((1, 1), (1, 1)),
        1,
    ),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name):
    """Padding is a real zero, whatever the zero point."""
    lhs, rhs, result, window, strides, padding, groups = CONVOLUTIONS[name]
    random = np.random.default_rng(0)
    x, y = lhs.sample(random, 2, 7, 6, 6), rhs.sample(random, 3, 3, 6 // groups, 4)
    with jax.enable_x64(True):
        left, right = (each.astype(np.float64) - of.parameters(4)[1] for each, of in ((x, lhs), (y, rhs)))
        numbers = ("NHWC", "HWIO", "NHWC")
        sums = np.asarray(
            jax.lax.conv_general_dilated(
                left, right, strides, padding, dimension_numbers=numbers, feature_group_count=groups
            )
        )
    a, b, c = lhs.tensor(*x.shape), rhs.tensor(*y.shape), result.tensor(*sums.shape)
    module = f"""func.func @main(%a: {a}, %b: {b}) -> {c} {{
      %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {{{window}}}
        {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} : ({a}, {b}) -> {c}
      return %0 : {c}
    }}"""
    (stored,) = _run(module, x, y)
    scales = [of.parameters(4)[0].astype(np.float64) for of in (lhs, rhs, result)]
    _nearest(stored, result, sums * (scales[0] * scales[1] / scales[2]))


@pytest.mark.parametrize("expressed", ["f32", "f64", "bf16", "f16"])
def test_hybrid_products(expressed):
    """Weights without zero points (the dot) and with (a convolution)."""
    weights = replace(CHANNELS, expressed=expressed)
    b, kernel = weights.tensor(9, 4), replace(weights, dimension=2, zero_point=(1, 2, 3, 4))
    k, f, dtype = kernel.tensor(3, 2, 4), expressed, FLOATS[expressed]
    module = f"""func.func @main(%a: tensor<5x9x{f}>, %b: {b}, %x: tensor<1x8x2x{f}>, %k: {k})
        -> (tensor<5x4x{f}>, tensor<1x6x4x{f}>) {{
      %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<5x9x{f}>, {b}) -> tensor<5x4x{f}>
      %1 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {{}}
        {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : (tensor<1x8x2x{f}>, {k}) -> tensor<1x6x4x{f}>
      return %0, %1 : tensor<5x4x{f}>, tensor<1x6x4x{f}>
    }}"""
    random = np.random.default_rng(0)
    a, x = (random.standard_normal(sizes).astype(dtype) for sizes in ((5, 9), (1, 8, 2)))
    stored_b, stored_k = weights.sample(random, 9, 4), kernel.sample(random, 3, 2, 4)
    product, convolved = _run(module, a, stored_b, x, stored_k)
    assert product.dtype == convolved.dtype == dtype
    tolerance = 8 * float(ml_dtypes.finfo(dtype).eps)
    wide = [each.astype(np.float64) for each in (a, weights.real(stored_b), x, kernel.real(stored_k))]
    np.testing.assert_allclose(product.astype(np.float64), wide[0] @ wide[1], tolerance, tolerance * 10)
    with jax.enable_x64(True):
        expected = jax.lax.conv_general_dilated(*wide[2:], (1,), "VALID", dimension_numbers=("NHC", "HIO", "NHC"))
    np.testing.assert_allclose(convolved.astype(np.float64), expected, tolerance, tolerance * 10)


def test_reductions_sort_and_scatter():
    of = Quantized("i8", "f32", 0.5, 3)
    wide = Quantized("i32", "f32", 0.5, 3)
    t, s, w = of.tensor(4, 9), of.tensor(), wide.tensor()
    module = f"""func.func @main(%a: {t}, %i: {s}, %w: {w}, %at: tensor<3x1xi32>, %u: {of.tensor(3, 9)})
        -> ({of.tensor(4)}, {of.tensor(4)}, {wide.tensor(4)}, {of.tensor(4, 3)}, {t}, {t}) {{
      %0 = stablehlo.reduce(%a init: %i) applies stablehlo.add across dimensions = [1] : ({t}, {s}) -> {of.tensor(4)}
      %1 = stablehlo.reduce(%a init: %i) applies stablehlo.maximum across dimensions = [1]
        : ({t}, {s}) -> {of.tensor(4)}
      %2 = stablehlo.reduce(%a init: %w) across dimensions = [1] : ({t}, {w}) -> {wide.tensor(4)}
        reducer(%x: {w}, %y: {w}) {{
          %z = stablehlo.add %x, %y : {w}
          stablehlo.return %z : {w}
        }}
      %3 = "stablehlo.reduce_window"(%a, %i) ({{
        ^bb0(%x: {s}, %y: {s}):
          %z = stablehlo.add %x, %y : {s}
          stablehlo.return %z : {s}
      }}) {{window_dimensions = array<i64: 1, 3>, window_strides = array<i64: 1, 3>}} : ({t}, {s}) -> {of.tensor(4, 3)}
      %4 = "stablehlo.sort"(%a) ({{
        ^bb0(%x: {s}, %y: {s}):
          %z = stablehlo.compare LT, %x, %y, FLOAT : ({s}, {s}) -> tensor<i1>
          stablehlo.return %z : tensor<i1>
      }}) {{dimension = 1 : i64}} : ({t}) -> {t}
      %5 = "stablehlo.scatter"(%a, %at, %u) ({{
        ^bb0(%x: {s}, %y: {s}):
          %z = stablehlo.add %x, %y : {s}
          stablehlo.return %z : {s}
      }}) {{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
          scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}
        : ({t}, tensor<3x1xi32>, {of.tensor(3, 9)}) -> {t}
      return %0, %1, %2, %3, %4, %5
        : {of.tensor(4)}, {of.tensor(4)}, {wide.tensor(4)}, {of.tensor(4, 3)}, {t}, {t}
    }}"""
    random = np.random.default_rng(0)
    a, u = of.sample(random, 4, 9) // 4, of.sample(random, 3, 9)
    a[0] = 90  # its sum is out of range
    at = np.array([[0], [3], [1]], np.int32)
    x = a.astype(np.int64)
    scattered = x.copy()
    scattered[at[:, 0]] += u.astype(np.int64) - 3
    windows = (x - 3).reshape(4, 3, 3).sum(2) + (10 - 3) + 3
    expected = [
        np.clip((x - 3).sum(1) + (10 - 3) + 3, -128, 127).astype(np.int8),
        np.maximum(a.max(1), 10),
        ((x - 3).sum(1) + (10**6 - 3) + 3).astype(np.int32),
        np.clip(windows, -128, 127).astype(np.int8),
        np.sort(a, 1),
        np.clip(scattered, -128, 127).astype(np.int8),
    ]
    _equal(_run(module, a, np.int8(10), np.int32(10**6), at, u), expected)


ELEMENTARY = {
    "atan2": np.arctan2,
    "cbrt": np.cbrt,
    "cosine": np.cos,
    "exponential": np.exp,
    "exponential_minus_one": np.expm1,
    "log": np.log,
    "log_plus_one": np.log1p,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "power": np.power,
    "remainder": np.fmod,
    "round_nearest_afz": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "round_nearest_even": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sine": np.sin,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}


def test_elementary_functions():
    """The stored integer is the nearest to the exact value."""
    of, result = Quantized("i8", "f32", 1 / 32, -90), Quantized("i8", "f32", 1 / 64, -40)
    a, c = of.tensor(3, 67), result.tensor(3, 67)
    binary = {"atan2", "power", "remainder"}
    lines = [
        f"%{name} = stablehlo.{name} %a, %b : ({a}, {a}) -> {c}"
        if name in binary
        else f"%{name} = stablehlo.{name} %a : ({a}) -> {c}"
        for name in ELEMENTARY
    ]
    body, types = "\n".join(lines), ", ".join([c] * len(lines))
    outputs = ", ".join(f"%{name}" for name in ELEMENTARY)
    module = f"func.func @main(%a: {a}, %b: {a}) -> ({types}) {{\n{body}\nreturn {outputs} : {types}\n}}"
    random = np.random.default_rng(0)
    x, y = (replace(of, bounds=(-80, 127)).sample(random, 3, 67) for _ in range(2))  # positive, not zero
    real = [of.real(each).astype(np.float64) for each in (x, y)]
    for stored, (name, function) in zip(_run(module, x, y), ELEMENTARY.items(), strict=True):
        exact = function(*real[: 2 if name in binary else 1])
        _nearest(stored, result, exact / result.scale)


def test_batch_norm_and_cholesky():
    of = Quantized("i8", "f32", 1 / 16, -3)
    t, v, m = of.tensor(4, 3), of.tensor(3), of.tensor(3, 3)
    module = f"""func.func @main(%x: {t}, %s: {v}, %o: {v}, %m: {v}, %v: {v}, %a: {m}) -> ({t}, {m}) {{
      %0 = "stablehlo.batch_norm_inference"(%x, %s, %o, %m, %v) {{epsilon = 1.0e-2 : f32, feature_index = 1 : i64}}
        : ({t}, {v}, {v}, {v}, {v}) -> {t}
      %1 = "stablehlo.cholesky"(%a) {{lower = true}} : ({m}) -> {m}
      return %0, %1 : {t}, {m}
    }}"""
    random = np.random.default_rng(0)
    x, scale, offset, mean = of.sample(random, 4, 3) // 4, *(of.sample(random, 3) // 8 for _ in range(3))
    variance = np.array([20, 30, 40], np.int8)
    matrix = of.stored(np.array([[4, 1, 0.5], [1, 3, -1], [0.5, -1, 5]], np.float32))
    normalized, factor = _run(module, x, scale, offset, mean, variance, matrix)
    r = [of.real(each).astype(np.float64) for each in (x, scale, offset, mean, variance, matrix)]
    _nearest(normalized, of, ((r[0] - r[3]) / np.sqrt(r[4] + np.float32(1e-2)) * r[1] + r[2]) / of.scale)
    _nearest(factor, of, np.linalg.cholesky(r[5]) / of.scale)


MOVEMENT = """
func.func @f(%x: tensor<4x6xQ>) -> tensor<4x6xQ> {
  %0 = stablehlo.reverse %x, dims = [0] : tensor<4x6xQ>
  return %0 : tensor<4x6xQ>
}
func.func @main(%x: tensor<4x6xQ>, %u: tensor<2x2xQ>, %i: tensor<i32>, %p: tensor<i1>, %s: tensor<Q>)
    -> (tensor<2x2xQ>, tensor<4x6xQ>, tensor<8x6xQ>, tensor<2x3xQ>, tensor<2x4x6xQ>, tensor<24xQ>, tensor<6x8xQ>,
        tensor<2x3xQ>, tensor<2x2xQ>, tensor<4x6xQ>) {
  %r = func.call @f(%x) : (tensor<4x6xQ>) -> tensor<4x6xQ>
  %0 = stablehlo.dynamic_slice %x, %i, %i, sizes = [2, 2] : (tensor<4x6xQ>, tensor<i32>, tensor<i32>) -> tensor<2x2xQ>
  %1 = stablehlo.dynamic_update_slice %r, %u, %i, %i
    : (tensor<4x6xQ>, tensor<2x2xQ>, tensor<i32>, tensor<i32>) -> tensor<4x6xQ>
  %2 = stablehlo.concatenate %x, %r, dim = 0 : (tensor<4x6xQ>, tensor<4x6xQ>) -> tensor<8x6xQ>
  %3 = stablehlo.slice %x [0:4:2, 0:6:2] : (tensor<4x6xQ>) -> tensor<2x3xQ>
  %4 = stablehlo.select %p, %x, %r : tensor<i1>, tensor<4x6xQ>
  %t = stablehlo.tuple %4, %r : tuple<tensor<4x6xQ>, tensor<4x6xQ>>
  %5 = stablehlo.get_tuple_element %t[0] : (tuple<tensor<4x6xQ>, tensor<4x6xQ>>) -> tensor<4x6xQ>
  %b = stablehlo.optimization_barrier %5 : tensor<4x6xQ>
  %wide = stablehlo.constant dense<[2, 4, 6]> : tensor<3xi32>
  %6 = stablehlo.dynamic_broadcast_in_dim %b, %wide, dims = [1, 2] : (tensor<4x6xQ>, tensor<3xi32>) -> tensor<2x4x6xQ>
  %flat = stablehlo.constant dense<24> : tensor<1xi32>
  %7 = stablehlo.dynamic_reshape %x, %flat : (tensor<4x6xQ>, tensor<1xi32>) -> tensor<24xQ>
  %zero = stablehlo.constant dense<0> : tensor<2xi32>
  %one = stablehlo.constant dense<1> : tensor<2xi32>
  %two = stablehlo.constant dense<2> : tensor<2xi32>
  %end = stablehlo.constant dense<[4, 6]> : tensor<2xi32>
  %8 = stablehlo.dynamic_pad %x, %s, %one, %one, %zero
    : (tensor<4x6xQ>, tensor<Q>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<6x8xQ>
  %9 = stablehlo.real_dynamic_slice %x, %zero, %end, %two
    : (tensor<4x6xQ>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x3xQ>
  %10 = "stablehlo.select_and_scatter"(%x, %3, %s) ({
    ^bb0(%a: tensor<Q>, %c: tensor<Q>):
      %11 = stablehlo.compare GE, %a, %c : (tensor<Q>, tensor<Q>) -> tensor<i1>
      stablehlo.return %11 : tensor<i1>
  }, {
    ^bb0(%a: tensor<Q>, %c: tensor<Q>):
      %11 = stablehlo.maximum %a, %c : tensor<Q>
      stablehlo.return %11 : tensor<Q>
  }) {window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}
    : (tensor<4x6xQ>, tensor<2x3xQ>, tensor<Q>) -> tensor<4x6xQ>
  return %0, %1, %2, %3, %6, %7, %8, %9, %u, %10
    : tensor<2x2xQ>, tensor<4x6xQ>, tensor<8x6xQ>, tensor<2x3xQ>, tensor<2x4x6xQ>, tensor<24xQ>, tensor<6x8xQ>,
      tensor<2x3xQ>, tensor<2x2xQ>, tensor<4x6xQ>
}
"""


def test_movement_is_that_of_stored_integers():
    """The same program on i8 gives the same bytes."""
    of = Quantized("i8", "f32", 0.1, -3)
    random = np.random.default_rng(0)
    arguments = [of.sample(random, 4, 6), of.sample(random, 2, 2), np.int32(1), np.bool_(False), np.int8(7)]
    plain = MOVEMENT.replace("xQ", "xi8").replace("Q", "i8")
    _equal(_run(MOVEMENT.replace("Q", str(of)), *arguments), _run(plain, *arguments))


def test_control_flow_constants_and_iota():
    of = Quantized("u8", "f32", 0.5, 100)
    t = of.tensor(3)
    module = f"""func.func @main(%n: tensor<i32>, %p: tensor<i1>, %a: {t}) -> ({t}, {t}, tensor<3xi1>) {{
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %step = "stablehlo.constant"() {{value = dense<[101, 102, -1]> : tensor<3xi8>}} : () -> {t}
      %0:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, {t}
        cond {{
          %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %1 : tensor<i1>
        }} do {{
          %1 = stablehlo.add %x, %step : {t}
          %2 = stablehlo.add %i, %one : tensor<i32>
          stablehlo.return %2, %1 : tensor<i32>, {t}
        }}
      %3 = "stablehlo.if"(%p) ({{
          stablehlo.return %0#1 : {t}
        }}, {{
          %4 = stablehlo.iota dim = 0 : {t}
          stablehlo.return %4 : {t}
        }}) : (tensor<i1>) -> {t}
      %5 = stablehlo.is_finite %a : ({t}) -> tensor<3xi1>
      return %0#1, %3, %5 : {t}, {t}, tensor<3xi1>
    }}"""
    looped, chosen, finite = _run(module, np.int32(4), np.bool_(False), np.array([100, 0, 7], np.uint8))
    assert looped.tolist() == [104, 8, 255]
    assert chosen.tolist() == [100, 102, 104]
    assert finite.all()


REFERENCE = """
!a = !quant.uniform<i8:f32, 0.1:-30>
!b = !quant.uniform<i8:f32, 0.05:-20>
!c = !quant.uniform<i8:f32, 0.25:4>
!w = !quant.uniform<i8:f32, 0.02>
!p = !quant.uniform<i8:f32:1, {0.1:-30, 0.5:-20, 0.03:10}>
!r = !quant.uniform<i8:f32:1, {0.2:-20, 0.4:-30, 0.07:0}>
!s = !quant.uniform<i32:f32, 0.002>
func.func @main(%f: tensor<4x3xf32>, %x: tensor<4x3xi8>, %y: tensor<4x3xi8>, %z: tensor<3x5xi8>)
    -> (tensor<4x3xi8>, tensor<4x3xf32>, tensor<4x3xi8>, tensor<4x3xi8>, tensor<4x3xi8>, tensor<4x3xi8>,
        tensor<4x5xi32>, tensor<4x5xi8>, tensor<3x4xi8>, tensor<4x3xi8>) {
  %0 = stablehlo.uniform_quantize %f : (tensor<4x3xf32>) -> tensor<4x3x!p>
  %1 = stablehlo.bitcast_convert %0 : (tensor<4x3x!p>) -> tensor<4x3xi8>
  %2 = stablehlo.uniform_dequantize %0 : (tensor<4x3x!p>) -> tensor<4x3xf32>
  %3 = stablehlo.uniform_quantize %0 : (tensor<4x3x!p>) -> tensor<4x3x!r>
  %4 = stablehlo.bitcast_convert %3 : (tensor<4x3x!r>) -> tensor<4x3xi8>
  %5 = stablehlo.bitcast_convert %x : (tensor<4x3xi8>) -> tensor<4x3x!a>
  %6 = stablehlo.bitcast_convert %y : (tensor<4x3xi8>) -> tensor<4x3x!b>
  %7 = stablehlo.multiply %5, %6 : (tensor<4x3x!a>, tensor<4x3x!b>) -> tensor<4x3x!c>
  %8 = stablehlo.bitcast_convert %7 : (tensor<4x3x!c>) -> tensor<4x3xi8>
  %9 = stablehlo.tanh %5 : (tensor<4x3x!a>) -> tensor<4x3x!b>
  %10 = stablehlo.bitcast_convert %9 : (tensor<4x3x!b>) -> tensor<4x3xi8>
  %11 = stablehlo.bitcast_convert %y : (tensor<4x3xi8>) -> tensor<4x3x!a>
  %12 = stablehlo.add %5, %11 : tensor<4x3x!a>
  %13 = stablehlo.bitcast_convert %12 : (tensor<4x3x!a>) -> tensor<4x3xi8>
  %14 = stablehlo.bitcast_convert %z : (tensor<3x5xi8>) -> tensor<3x5x!w>
  %15 = stablehlo.dot_general %5, %14, contracting_dims = [1] x [0]
    : (tensor<4x3x!a>, tensor<3x5x!w>) -> tensor<4x5x!s>
  %16 = stablehlo.bitcast_convert %15 : (tensor<4x5x!s>) -> tensor<4x5xi32>
  %17 = stablehlo.uniform_quantize %15 : (tensor<4x5x!s>) -> tensor<4x5x!a>
  %18 = stablehlo.bitcast_convert %17 : (tensor<4x5x!a>) -> tensor<4x5xi8>
  %19 = stablehlo.transpose %5, dims = [1, 0] : (tensor<4x3x!a>) -> tensor<3x4x!a>
  %20 = stablehlo.bitcast_convert %19 : (tensor<3x4x!a>) -> tensor<3x4xi8>
  %21 = stablehlo.maximum %5, %11 : tensor<4x3x!a>
  %22 = stablehlo.bitcast_convert %21 : (tensor<4x3x!a>) -> tensor<4x3xi8>
  return %1, %2, %4, %8, %10, %13, %16, %18, %20, %22
    : tensor<4x3xi8>, tensor<4x3xf32>, tensor<4x3xi8>, tensor<4x3xi8>, tensor<4x3xi8>, tensor<4x3xi8>, tensor<4x5xi32>,
      tensor<4x5xi8>, tensor<3x4xi8>, tensor<4x3xi8>
}
"""


def test_against_the_reference_interpreter():
    random = np.random.default_rng(0)
    f = random.standard_normal((4, 3)).astype(np.float32) * 5
    f[0] = np.inf, -np.inf, np.nan
    stored = [random.integers(-128, 127, sizes, endpoint=True).astype(np.int8) for sizes in ((4, 3), (4, 3), (3, 5))]
    results = _run(REFERENCE, f, *stored)
    with Worker("reference") as reference:
        answer = reference.run(REFERENCE, [f, *stored])
    assert answer.ok, answer
    for result, right in zip(results, answer.results, strict=True):
        assert result.dtype == right.dtype
        np.testing.assert_array_equal(result, right)
