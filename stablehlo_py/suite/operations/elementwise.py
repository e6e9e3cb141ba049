"""Operations on each element: of every type, from what fits the nearest cache to what fits none."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import scipy.special
from jax import lax, nn
from jax.scipy import special

from stablehlo_py.suite.operations.cases import (
    DRAM,
    L1,
    L2,
    MILLION,
    alike,
    bf16,
    c64,
    case,
    divisors,
    enter,
    f16,
    f32,
    f64,
    i8,
    i32,
    positive,
    truth,
    u8,
    within,
)


def _polynomial(_: Any, x: Any) -> Any:
    y = x
    for coefficient in (0.5, -0.3, 0.2, 0.1, -0.7, 0.4, 0.9):
        y = y * x + coefficient
    return y


def _chain_of_selects(m: Any, x: Any) -> Any:
    y = x
    for number in range(6):
        y = m.where(x > number - 3, y * 0.5, y + 0.25)
    return y


def _quantized(m: Any, x: Any) -> Any:
    return m.clip(m.round(x * 50), -128, 127)


FLOATS = {
    "exp": alike("exp", f32(MILLION)),
    "exp-l1": alike("exp", f32(L1)),
    "exp-dram": alike("exp", f32(DRAM)),
    "exp2": alike("exp2", f32(MILLION)),
    "expm1": alike("expm1", f32(MILLION)),
    "log": alike("log", positive(MILLION)),
    "log-l1": alike("log", positive(L1)),
    "log1p": alike("log1p", positive(MILLION)),
    "log2": alike("log2", positive(MILLION)),
    "tanh": alike("tanh", f32(MILLION)),
    "tanh-l1": alike("tanh", f32(L1)),
    "sin": alike("sin", f32(MILLION)),
    "sin-large": alike("sin", f32(MILLION, scale=1e5)),
    "cos": alike("cos", f32(MILLION)),
    "tan": alike("tan", within(MILLION)),
    "asin": alike("arcsin", within(MILLION)),
    "acos": alike("arccos", within(MILLION)),
    "atan": alike("arctan", f32(MILLION)),
    "sinh": alike("sinh", f32(MILLION)),
    "cosh": alike("cosh", f32(MILLION)),
    "asinh": alike("arcsinh", f32(MILLION)),
    "acosh": alike(lambda m, x: m.arccosh(x + 1), positive(MILLION)),
    "atanh": alike("arctanh", within(MILLION)),
    "sqrt-l2": alike("sqrt", positive(L2)),
    "rsqrt": case(lax.rsqrt, positive(MILLION), torch="rsqrt", numpy=lambda x: 1 / np.sqrt(x)),
    "cbrt": case(jnp.cbrt, f32(MILLION), numpy=np.cbrt),
    "erf": case(special.erf, f32(MILLION), torch="erf", numpy=scipy.special.erf),
    "erfc": case(special.erfc, f32(MILLION), torch="erfc", numpy=scipy.special.erfc),
    "erf_inv": case(special.erfinv, within(MILLION), torch="erfinv", numpy=scipy.special.erfinv),
    "lgamma": case(special.gammaln, positive(100_000), torch="lgamma", numpy=scipy.special.gammaln),
    "digamma": case(special.digamma, positive(100_000), torch="digamma", numpy=scipy.special.digamma),
    "igamma": case(
        special.gammainc,
        positive(10_000),
        positive(10_000),
        torch="special.gammainc",
        numpy=scipy.special.gammainc,
    ),
    "bessel-i0e": case(special.i0e, f32(MILLION), torch="special.i0e", numpy=scipy.special.i0e),
    "power": case(jnp.power, positive(MILLION), f32(MILLION), torch="pow", numpy=np.power),
    "cube": alike(lambda m, x: x**3, f32(MILLION)),
    "atan2": alike("arctan2", f32(MILLION), f32(MILLION)),
    "hypot": alike("hypot", f32(MILLION), f32(MILLION)),
    "logaddexp": alike("logaddexp", f32(MILLION), f32(MILLION)),
    "remainder": alike("fmod", f32(MILLION), positive(MILLION)),
    "round": alike("round", f32(MILLION)),
    "add-l1": alike("add", f32(L1), f32(L1)),
    "add-l2": alike("add", f32(L2), f32(L2)),
    "add-dram": alike("add", f32(DRAM), f32(DRAM)),
    "scale-add-dram": alike(lambda m, x, y: x * 0.5 + y, f32(DRAM), f32(DRAM)),
    "divide": alike("divide", f32(MILLION), positive(MILLION)),
    "maximum": alike("maximum", f32(MILLION), f32(MILLION)),
    "clip": alike(lambda m, x: m.clip(x, -1, 1), f32(MILLION)),
    "polynomial": alike(_polynomial, f32(MILLION)),
    "where": alike(lambda m, x, y: m.where(x > 0, x, y), f32(1000, 1000), f32(1000, 1000)),
    "chain-of-selects": alike(_chain_of_selects, f32(MILLION)),
    "broadcast-add": alike(lambda m, x, y: x[:, None] + y[None], f32(1000), f32(1000)),
    "broadcast-column": alike(lambda m, x, y: x * y[:, None], f32(4096, 4096), f32(4096)),
    "broadcast-row": alike(lambda m, x, y: x * y, f32(4096, 4096), f32(4096)),
    "iota-add": alike(lambda m, x: x + m.arange(x.shape[0], dtype=m.float32), f32(MILLION)),
}

ACTIVATIONS = {
    "relu-l2": case(nn.relu, f32(L2), torch="relu", numpy=lambda x: np.maximum(x, 0)),
    "sigmoid": case(nn.sigmoid, f32(MILLION), torch="sigmoid", numpy=scipy.special.expit),
    "softplus": case(
        nn.softplus, f32(MILLION), torch="nn.functional.softplus", numpy=lambda x: np.logaddexp(x, np.float32(0))
    ),
    "silu": case(nn.silu, f32(MILLION), torch="nn.functional.silu", numpy=lambda x: x * scipy.special.expit(x)),
    "gelu": case(
        lambda x: nn.gelu(x, approximate=False),
        f32(MILLION),
        torch="nn.functional.gelu",
        numpy=lambda x: 0.5 * x * (1 + scipy.special.erf(x * np.float32(0.5**0.5))),
    ),
    "gelu-tanh": case(nn.gelu, f32(MILLION), torch=lambda t, x: t.nn.functional.gelu(x, approximate="tanh")),
    "elu": case(nn.elu, f32(MILLION), torch="nn.functional.elu"),
}

TYPES = {
    "integer-division": alike("floor_divide", i32(MILLION, MILLION), divisors(MILLION)),
    "integer-remainder": alike("remainder", i32(MILLION, MILLION), divisors(MILLION)),
    "integer-multiply-add": alike(lambda m, x, y: x * y + x, i32(1000, MILLION), i32(1000, MILLION)),
    "integer-xor-shift": alike(lambda m, x: (x ^ (x >> 7)) & 1023, i32(1 << 30, MILLION)),
    "popcount": case(lax.population_count, i32(1 << 30, MILLION), numpy=np.bitwise_count),
    "logical": alike(lambda m, x, y: (x & ~y) | (y ^ x), truth(MILLION), truth(MILLION)),
    "int8-add": alike("add", i8(4 * MILLION), i8(4 * MILLION)),
    "int8-maximum": alike("maximum", i8(4 * MILLION), i8(4 * MILLION)),
    "int8-to-f32": case(
        lambda x: x.astype(jnp.float32) * 0.1,
        i8(MILLION),
        torch=lambda t, x: x.to(t.float32) * 0.1,
        numpy=lambda x: x.astype(np.float32) * np.float32(0.1),
    ),
    "f32-to-int8": case(
        lambda x: _quantized(jnp, x).astype(jnp.int8),
        f32(MILLION),
        torch=lambda t, x: _quantized(t, x).to(t.int8),
        numpy=lambda x: _quantized(np, x).astype(np.int8),
        tolerance=1.0 / 64,  # of an exact half, to which side
    ),
    "image-to-f32": case(
        lambda x: x.astype(jnp.float32) / 255,
        u8(8, 224, 224, 3),
        torch=lambda t, x: x.to(t.float32) / 255,
        numpy=lambda x: x.astype(np.float32) / 255,
    ),
    "int32-to-f32": case(
        lambda x: x.astype(jnp.float32),
        i32(1 << 24, MILLION),
        torch=lambda t, x: x.to(t.float32),
        numpy=lambda x: x.astype(np.float32),
    ),
    "f32-to-bf16-dram": case(
        lambda x: x.astype(jnp.bfloat16),
        f32(DRAM),
        torch=lambda t, x: x.to(t.bfloat16),
        numpy=lambda x: x.astype(ml_dtypes.bfloat16),
    ),
    "to-float8": case(
        lambda x: x.astype(jnp.float8_e4m3fn), f32(MILLION), numpy=lambda x: x.astype(ml_dtypes.float8_e4m3fn)
    ),
    "bf16-add": alike("add", bf16(MILLION), bf16(MILLION), tolerance=1e-2),
    "bf16-exp": alike("exp", bf16(MILLION), tolerance=1e-2),
    "bf16-gelu": case(
        nn.gelu, bf16(MILLION), torch=lambda t, x: t.nn.functional.gelu(x, approximate="tanh"), tolerance=2e-2
    ),
    "f16-add": alike("add", f16(MILLION), f16(MILLION), tolerance=2e-3),
    "float16-tanh": case(
        lambda x: jnp.tanh(x.astype(jnp.float16) * 2),
        f32(MILLION),
        torch=lambda t, x: t.tanh(x.to(t.float16) * 2),
        numpy=lambda x: np.tanh(x.astype(np.float16) * 2),
        tolerance=2e-3,
    ),
    "f64-add-dram": alike("add", f64(DRAM // 2), f64(DRAM // 2), tolerance=1e-12),
    "f64-exp": alike("exp", f64(MILLION), tolerance=1e-12),
    "f64-log1p": alike(lambda m, x: m.log1p(m.abs(x)), f64(MILLION), tolerance=1e-12),
    "f64-sin": alike("sin", f64(MILLION), tolerance=1e-12),
    "f64-tanh": alike("tanh", f64(MILLION), tolerance=1e-12),
    "f64-power": alike(lambda m, x, y: (m.abs(x) + 0.1) ** y, f64(MILLION), f64(MILLION), tolerance=1e-10),
    "complex-exp": alike("exp", c64(100_000)),
    "complex-multiply-add": alike(lambda m, x, y: x * y + x, c64(MILLION), c64(MILLION)),
    "complex-divide": alike("divide", c64(100_000), c64(100_000), tolerance=1e-3),
    "complex-abs": alike("abs", c64(MILLION)),
    "complex-sqrt": alike("sqrt", c64(100_000)),
}

enter("elementwise", FLOATS | ACTIVATIONS | TYPES)
