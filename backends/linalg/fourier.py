"""Fourier transforms: along one dimension after the other, a sum of products with a table of roots of unity.

The sums are in f64 whatever the operand has: they are as long as the dimension."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stablehlo_py.backends.linalg.contraction import narrowed
from stablehlo_py.backends.linalg.rules import RULES
from stablehlo_py.backends.linalg.tensors import Tensor, TensorFunction, identity
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import Value
from stablehlo_py.codegen.types import ELEMENTS, Element, Lanes, constant, each, element, parts
from stablehlo_py.dialect.types import i64s, static_shape, text
from stablehlo_py.mlir import ir

_WIDE, _REAL = ELEMENTS["complex<f64>"], ELEMENTS["f64"]


@RULES.rule("hlo.fft")
def _fft(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    (x,), kind, lengths = tensors, text(op, "kind"), i64s(op, "length")
    sizes, of = static_shape(op.results[0]), element(op.results[0])
    if 0 in (*sizes, *x.sizes):
        return [f.empty(sizes, of)]
    rank = len(sizes)
    axes = list(range(rank - len(lengths), rank))
    x = _wide(f, x)
    # The real side is the first or the last one.
    for axis in reversed(axes) if kind != "IRFFT" else axes:
        length = lengths[axis - axes[0]]
        real = kind == "IRFFT" and axis == rank - 1
        x = _along(f, x, axis, sizes[axis], length, inverse=kind in ("IFFT", "IRFFT"), real=real)
    return [narrowed(f, x, of)]


def _wide(f: TensorFunction, x: Tensor) -> Tensor:
    if x.of.name == _WIDE.name:
        return x

    def widen(a: Lanes) -> Lanes:
        real, imaginary = a if isinstance(a, tuple) else (a, None)
        zero = f.const(0.0, _REAL.compute)
        return f.cast("fpext", real, _REAL.compute), f.cast("fpext", imaginary, _REAL.compute) if imaginary else zero

    return f.each_element(x.sizes, _WIDE, [x], widen)


def _along(f: TensorFunction, x: Tensor, axis: int, count: int, length: int, *, inverse: bool, real: bool) -> Tensor:
    """`count` elements of the transform of `length` elements along an axis. `real`: of the operand there is the half
    that determines the rest, and of the result the real part."""
    sizes, rank = [*x.sizes[:axis], count, *x.sizes[axis + 1 :]], len(x.sizes)
    angles = 2 * np.pi * np.arange(length) / length
    roots = np.cos(angles) + (1j if inverse else -1j) * np.sin(angles)
    weights = np.ones(x.sizes[axis])
    if real:  # all but the first element, and the middle one of an even length, stand for two
        weights[1 : (length + 1) // 2] = 2
    weights = weights / length if inverse else weights
    of = _REAL if real else _WIDE
    table, factors = _constant(f, roots, _WIDE), _constant(f, weights, _REAL)
    kept = [f"d{number}" for number in range(rank)]
    summed = [*kept[:axis], f"d{rank}", *kept[axis + 1 :]]

    def body(a: Lanes, factor: Value, total: Lanes) -> list[Lanes]:
        *at, j = f.indices(rank + 1)
        root = f.element(table, [f.irem(f.imul(at[axis], j), length)])
        product = arith.combine(f, "multiply", _WIDE, a, root)
        scaled = each(lambda part: f.fmul(part, factor), product)
        return [arith.combine(f, "add", of, total, parts(scaled)[0] if real else scaled)]

    zero = f.filled(constant(f, of, 0), sizes, of)
    (result,) = f.generic(
        [(x, ", ".join(summed)), (factors, f"d{rank}")],
        [(zero, identity(rank))],
        "p" * rank + "r",
        body,
        reads_outputs=True,
    )
    return result


def _constant(f: TensorFunction, numbers: np.ndarray, of: Element) -> Tensor:
    data, type_ = numbers.tobytes().hex().upper(), f.empty_type(numbers.shape, of)
    return f.tensor(f'arith.constant dense<"0x{data}"> : {type_}', numbers.shape, of)
