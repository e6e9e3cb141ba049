"""Quotients by constants. Of bytes: two multiplications and an addition, in a fraction of a division's time."""

from __future__ import annotations

from functools import cache

import numpy as np

from stablehlo_py.codegen.builder import Function, Value
from stablehlo_py.codegen.math.basics import muladd
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.types import num_elements
from stablehlo_py.mlir import ir

_BITS = 8  # numerators have as many
_KEPT = 24 - _BITS  # bits of a number whose product with a numerator is exact in f32


def by_constant(f: Function, op: ir.OpView | ir.Operation, a: Value) -> Value | None:
    """The quotient of an op that divides f32 by a constant, rounded as a division rounds, where its first operand `a`
    was a byte; None: it is not so, or there is no such reciprocal."""
    dividend = op.operands[0].owner
    if not _is(dividend, "hlo.convert") or element(op.results[0]).name != "f32":
        return None
    of = element(dividend.operands[0])
    if of.kind != "int" or of.bits > _BITS:
        return None
    number = constant_of(op.operands[1])
    if number is None:
        return None
    least, most = (0, (1 << of.bits) - 1) if of.unsigned else (-(1 << of.bits - 1), (1 << of.bits - 1) - 1)
    parts = reciprocal(float(number), least, most)
    if parts is None:
        return None
    high, low = (f.const(part, a.type) for part in parts)
    return muladd(f, a, high, f.fmul(a, low))


def constant_of(value: ir.Value) -> float | int | None:
    """The number that all elements of a real tensor are, if its constant is in the fusion."""
    owner = value.owner
    if _is(owner, "hlo.broadcast"):
        owner = owner.operands[0].owner
    if not _is(owner, "hlo.constant") or num_elements(owner.results[0]) != 1:
        return None
    number: float | int = constant_value(owner).item()
    return number


def _is(owner: ir.Block | ir.Operation | ir.OpView, name: str) -> bool:
    return not isinstance(owner, ir.Block) and owner.operation.name == name


@cache
def reciprocal(divisor: float, least: int, most: int) -> tuple[float, float] | None:
    """Numbers (high, low) of f32 such that x * high + (x * low) is x / divisor, rounded once, for each integer x from
    `least` to `most` of up to 8 bits; None: there are none, or they are not found. The first product is exact, so that
    it does not matter whether it is fused with the sum."""
    with np.errstate(all="ignore"):
        exact = 1 / np.float64(np.float32(divisor))
        scale = np.ldexp(1.0, _KEPT - int(np.frexp(exact)[1]))
        high = np.float32(np.rint(exact * scale) / scale)
        low = np.float32(exact - high)
        numbers = np.arange(least, most + 1).astype(np.float32)
        found = (numbers * high + numbers * low).view(np.uint32)
        wanted = (numbers / np.float32(divisor)).view(np.uint32)
    return (float(high), float(low)) if np.isfinite(high) and np.array_equal(found, wanted) else None
