"""What the arguments of a case hold: the same numbers every time."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Spec:
    """An argument of `@main`."""

    sizes: tuple[int, ...]
    dtype: np.dtype
    range: tuple[int, int] | None
    is_part: bool
    seed: int  # the same whether a function is alone in its module or not


def values_of(spec: Spec, kind: str) -> np.ndarray:
    """What an argument holds.

    `small`: whole numbers from -4 to 4, so that sums and products are exact in every order. `ternary`: -1, 0 and 1.
    `normal`: random numbers around 0. `special`: normal ones of all sizes, and zeros, infinities, NaN, subnormals, the
    greatest and the smallest values among them. `positive`, `unit`: special ones of (0, inf), of [-1, 1]. The parts of
    complex numbers are never special: what infinities in them mean differs between all implementations.
    """
    rng = np.random.default_rng(spec.seed)
    if spec.is_part and kind in ("special", "positive", "unit"):
        kind = "normal"
    count = int(np.prod(spec.sizes))
    if spec.range is not None:
        flat = rng.integers(spec.range[0], spec.range[1], count, endpoint=True)
    elif kind in ("small", "ternary"):
        limit = 4 if kind == "small" else 1
        flat = rng.integers(-limit, limit, count, endpoint=True)
    elif spec.dtype == np.bool_:
        flat = rng.integers(0, 1, count, endpoint=True)
    else:
        return _scattered(spec.dtype, count, kind, rng).reshape(spec.sizes)
    if spec.dtype.kind == "u" or spec.dtype.name.startswith("uint"):
        flat = np.abs(flat) if spec.range is None else np.maximum(flat, 0)
    if "e8m0" in spec.dtype.name:  # has positive numbers only
        flat = np.where(flat == 0, 1, np.abs(flat)) if spec.range is None else np.maximum(flat, 0)
    if spec.dtype == np.bool_:
        flat = flat % 2
    elif _is_integer(spec.dtype):
        info = ml_dtypes.iinfo(spec.dtype)
        flat = np.clip(flat, info.min, info.max)
    return flat.astype(np.float64 if spec.dtype.kind == "V" else spec.dtype).astype(spec.dtype).reshape(spec.sizes)


def _is_integer(dtype: np.dtype) -> bool:
    return dtype.kind in "iu" or dtype.name.lstrip("u").startswith("int")


def _scattered(dtype: np.dtype, count: int, kind: str, rng: np.random.Generator) -> np.ndarray:
    return (_integers if _is_integer(dtype) else _floats)(dtype, count, kind, rng)


def _integers(dtype: np.dtype, count: int, kind: str, rng: np.random.Generator) -> np.ndarray:
    info = ml_dtypes.iinfo(dtype)
    low = 1 if kind == "positive" else int(info.min)
    special = [each for each in (0, 1, int(info.max), int(info.min), -1, 2, 7) if low <= each <= int(info.max)]
    values = rng.integers(low, int(info.max), count, endpoint=True, dtype=np.uint64 if low >= 0 else np.int64)
    if kind != "normal":
        values = np.concatenate([np.array(special, values.dtype), values])[:count]
    rng.shuffle(values)
    return values.astype(dtype)


def _floats(dtype: np.dtype, count: int, kind: str, rng: np.random.Generator) -> np.ndarray:
    info = ml_dtypes.finfo(dtype)
    special: list[float] = []
    if kind == "unit":
        special = [0.0, -0.0, 1.0, -1.0, 0.5, float("nan")]
        numbers = rng.uniform(-1, 1, count)
    elif kind == "positive":
        special = [1.0, 0.5, 2.0, float(info.max), float(info.smallest_subnormal)]
        numbers = np.exp(rng.uniform(-3, 3, count))
    elif kind == "normal":
        numbers = rng.standard_normal(count)
    else:
        inf, nan = float("inf"), float("nan")
        special = [0.0, -0.0, inf, -inf, nan, 1.0, -1.0, 0.5, -0.5, 2.5, -3.5]
        special += [float(info.max), float(info.min), float(info.smallest_normal), float(info.smallest_subnormal)]
        numbers = rng.standard_normal(count) * np.exp(rng.uniform(-4, 4, count))
    values = np.where(rng.random(count) < 0.5, rng.choice(special or [0.0], count), numbers) if special else numbers
    values = np.concatenate([special, values])[:count]
    rng.shuffle(values)
    if "e8m0" in dtype.name:
        values = np.where(values == 0, 1, np.abs(values))
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(dtype)
