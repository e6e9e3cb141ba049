"""How an operation is stated: the function for JAX, what makes its arguments, and the same for other libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from types import ModuleType
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import random

from stablehlo_py.suite.registry import Form, Model, Rng, Size, normal, register

Maker: TypeAlias = "Callable[[Rng, Size], np.ndarray]"

# Elements of f32 of which two arrays fill half of what a core has nearest, and of what it has next; and more than
# all caches of most machines hold.
L1, L2, DRAM = 1 << 12, 1 << 17, 1 << 24
MILLION = 1_000_000
_SMALL = 1 << 14


@dataclass(frozen=True)
class Case:
    """An operation.

    Attributes:
        function: of JAX arrays.
        makers: of its arguments.
        forms: what computes the same, by the peer: `numpy` takes arrays, `torch` the module and tensors.
        tolerance: `Model.tolerance`.
    """

    function: Callable[..., Any]
    makers: tuple[Maker, ...]
    forms: Mapping[str, Form]
    tolerance: float


def case(
    function: Callable[..., Any],
    *makers: Maker,
    torch: str | Form | None = None,
    numpy: Form | None = None,
    tolerance: float = 1e-4,
) -> Case:
    """With what else computes the same; text names a function of PyTorch."""
    forms = {"torch": _named(torch) if isinstance(torch, str) else torch, "numpy": numpy}
    return Case(function, makers, {name: form for name, form in forms.items() if form is not None}, tolerance)


def alike(form: str | Form, *makers: Maker, tolerance: float = 1e-4) -> Case:
    """What jax.numpy, NumPy and PyTorch write in the same way: a name, or a function of the module and arguments."""
    given = _named(form) if isinstance(form, str) else form

    def of(module: ModuleType) -> Form:
        return lambda *arguments: given(module, *arguments)

    return case(of(jnp), *makers, torch=given, numpy=of(np), tolerance=tolerance)


def _named(name: str) -> Form:
    return lambda module, *arguments: reduce(getattr, name.split("."), module)(*arguments)


def enter(group: str, cases: Mapping[str, Case]) -> None:
    """Register the cases of a group as models of the suite `operations`."""
    for name, each in cases.items():
        _enter(f"{group}/{name}", each)


def _enter(name: str, each: Case) -> None:
    @register(name, suite="operations")
    def build(size: Size, rng: Rng) -> Model:
        inputs = tuple(make(rng, size) for make in each.makers)
        return Model(lambda _, *arrays: each.function(*arrays), {}, inputs, each.tolerance, forms=each.forms)


# --- arguments --------------------------------------------------------------------------------------------------------


def cut(number: int, size: Size) -> int:
    """A dimension, or an index's bound: at the size `small`, halved until it is at most 16,384."""
    while size == "small" and number > _SMALL:
        number //= 2
    return number


def _cut(sizes: tuple[int, ...], size: Size) -> tuple[int, ...]:
    return tuple(cut(number, size) for number in sizes)


def f32(*sizes: int, scale: float = 1.0) -> Maker:
    """Normal numbers."""
    return lambda rng, size: normal(rng, *_cut(sizes, size)) * np.float32(scale)


def f64(*sizes: int) -> Maker:
    """Normal numbers in double precision."""
    return lambda rng, size: rng.standard_normal(_cut(sizes, size))


def f16(*sizes: int) -> Maker:
    """Normal numbers in half precision."""
    return lambda rng, size: normal(rng, *_cut(sizes, size)).astype(np.float16)


def bf16(*sizes: int, scale: float = 1.0) -> Maker:
    """Normal numbers in bfloat16."""
    return lambda rng, size: (normal(rng, *_cut(sizes, size)) * np.float32(scale)).astype(ml_dtypes.bfloat16)


def positive(*sizes: int) -> Maker:
    """Absolute values of normal numbers, and a tenth."""
    return lambda rng, size: np.abs(normal(rng, *_cut(sizes, size))) + np.float32(0.1)


def within(*sizes: int) -> Maker:
    """Uniform between -0.99 and 0.99."""
    return lambda rng, size: rng.uniform(-0.99, 0.99, _cut(sizes, size)).astype(np.float32)


def i32(below: int, *sizes: int) -> Maker:
    """Integers from 0."""
    return lambda rng, size: rng.integers(0, cut(below, size), _cut(sizes, size)).astype(np.int32)


def divisors(*sizes: int) -> Maker:
    """Integers from 1 to 98."""
    return lambda rng, size: rng.integers(1, 99, _cut(sizes, size)).astype(np.int32)


def permutation(count: int) -> Maker:
    """The numbers below a number, shuffled."""
    return lambda rng, size: rng.permutation(cut(count, size)).astype(np.int32)


def i8(*sizes: int) -> Maker:
    """Integers of a byte."""
    return lambda rng, size: rng.integers(-128, 128, _cut(sizes, size)).astype(np.int8)


def u8(*sizes: int) -> Maker:
    """Integers of a byte without sign."""
    return lambda rng, size: rng.integers(0, 256, _cut(sizes, size)).astype(np.uint8)


def truth(*sizes: int) -> Maker:
    """Booleans."""
    return lambda rng, size: rng.integers(0, 2, _cut(sizes, size)).astype(np.bool_)


def c64(*sizes: int, scale: float = 1.0) -> Maker:
    """Complex normal numbers."""

    def make(rng: Rng, size: Size) -> np.ndarray:
        real, imaginary = (normal(rng, *_cut(sizes, size)) for _ in range(2))
        return (real + 1j * imaginary) * np.float32(scale)

    return make


def c128(*sizes: int) -> Maker:
    """Complex normal numbers in double precision."""
    return lambda rng, size: rng.standard_normal(_cut(sizes, size)) + 1j * rng.standard_normal(_cut(sizes, size))


def ascending(count: int) -> Maker:
    """Sorted normal numbers."""
    return lambda rng, size: np.sort(normal(rng, cut(count, size)))


def definite(*sizes: int) -> Maker:
    """Symmetric positive definite matrices."""

    def make(rng: Rng, size: Size) -> np.ndarray:
        a = normal(rng, *_cut(sizes, size))
        return a @ a.swapaxes(-1, -2) + sizes[-1] * np.eye(sizes[-1], dtype=np.float32)

    return make


def scalar(number: int) -> Maker:
    """An index."""
    return lambda *_: np.array(number, np.int32)


def key(*_: Any) -> np.ndarray:
    """The data of a threefry key."""
    return np.array([1, 2], np.uint32)


def seeded(function: Callable[[jax.Array], Any]) -> Callable[[jax.Array], Any]:
    """The function of a key as one of its data."""
    return lambda data: function(random.wrap_key_data(data))
