"""Real transforms: those of even length are complex ones of half the length, with a phase before or after."""

from __future__ import annotations

import numpy as np

from stablehlo_py.backends.cpu.kernels.fourier import Array, require_table
from stablehlo_py.backends.cpu.kernels.fourier_axes import Transforms
from stablehlo_py.backends.cpu.kernels.fourier_phases import parts, sweep, table_load
from stablehlo_py.backends.cpu.kernels.fourier_stage import multiply, pair, roots, scaled
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.complex import Pair
from stablehlo_py.codegen.types import Lanes
from stablehlo_py.dialect.symint import IntLike


def forward(plan: Transforms, source: Array, target: Array, rows: IntLike, n: int) -> None:
    """Rows of n reals to rows of n // 2 + 1 complex numbers."""
    if n % 2 or n < 4:
        _forward_odd(plan, source, target, rows, n)
        return
    # The row read as n/2 complex numbers z: its transform Z is that of the even elements plus i times that of the odd.
    half = n // 2
    packed = plan.room(rows * half)
    plan.along(source, packed, rows, half, 1)
    table = plan.table("roots", parts(_roots(n, half) / 2))

    def body(f: Function, row: Index, k: Index, lanes: int, mask: Value | None) -> None:
        base, to = f.imul(row, half), f.iadd(f.imul(row, half + 1), k)
        one, other = _mirrored(f, plan, packed, f.iadd(base, k), f.isub(f.iadd(base, half), k), lanes, mask)
        even, odd = _even_odd(f, one, other)
        # X = even/2 - i w odd/2; the table holds w/2.
        turned = multiply(f, odd, table_load(f, plan, table(f), half, k, lanes, mask))
        quarter = f.const(0.5, even[0].type)
        value = f.fadd(f.fmul(even[0], quarter), turned[1]), f.fsub(f.fmul(even[1], quarter), turned[0])
        types.store(f, plan.of, value, target.address(f, plan.of), to, mask)

    def ends(f: Function, row: Index) -> None:
        first = pair(types.load(f, plan.of, packed.address(f, plan.of), f.imul(row, half)))
        zero, to = f.const(0.0, first[0].type), f.imul(row, half + 1)
        types.store(f, plan.of, (f.fadd(*first), zero), target.address(f, plan.of), to)
        types.store(f, plan.of, (f.fsub(*first), zero), target.address(f, plan.of), f.iadd(to, half))

    sweep(plan, "unpack", rows, 1, half, body, once=ends)


def inverse(plan: Transforms, source: Array, target: Array, rows: IntLike, n: int, scale: float) -> None:
    """Rows of n // 2 + 1 complex numbers to rows of n reals. Imaginary parts that must be zero are not read."""
    if n % 2 or n < 4:
        _inverse_odd(plan, source, target, rows, n, scale)
        return
    # With Z = even + i conj(w) odd, the inverse transform of Z is the forward one of Z in reverse order, so that a
    # program with transforms in both directions has one of them. Number k of it is Z[half - k], or
    # conj(even - i conj(w) odd).
    half = n // 2
    packed = plan.room(rows * half)
    table = plan.table("roots", parts(scale * _roots(n, half).conj()))

    def body(f: Function, row: Index, k: Index, lanes: int, mask: Value | None) -> None:
        base = f.imul(row, half + 1)
        one, other = _mirrored(f, plan, source, f.iadd(base, k), f.isub(f.iadd(base, half), k), lanes, mask)
        even, odd = _even_odd(f, one, other)
        even = scaled(f, even, scale)
        turned = multiply(f, odd, table_load(f, plan, table(f), half, k, lanes, mask))
        value = f.fadd(even[0], turned[1]), f.fsub(turned[0], even[1])
        types.store(f, plan.of, value, packed.address(f, plan.of), f.iadd(f.imul(row, half), k), mask)

    def first(f: Function, row: Index) -> None:
        base, pointer = f.imul(row, half + 1), source.address(f, plan.of)
        low, high = (pair(types.load(f, plan.of, pointer, f.iadd(base, k)))[0] for k in (0, half))
        value = scaled(f, (f.fadd(low, high), f.fsub(low, high)), scale)
        types.store(f, plan.of, value, packed.address(f, plan.of), f.imul(row, half))

    sweep(plan, "pack", rows, 1, half, body, once=first)
    plan.along(packed, target, rows, half, 1)


def _roots(n: int, count: int) -> np.ndarray:
    require_table(count, n)
    return roots(n, np.arange(count))


def _mirrored(
    f: Function, plan: Transforms, array: Array, at: Index, opposite: Index, lanes: int, mask: Value | None
) -> tuple[Pair, Pair]:
    """Lanes forward from `at`, and lanes backward from `opposite`."""
    base = array.address(f, plan.of)
    one = types.load(f, plan.of, base, at, lanes, mask)
    back = list(range(lanes - 1, -1, -1))
    turned = f.shuffle(mask, mask, back) if mask else None
    other = types.load(f, plan.of, base, f.isub(opposite, lanes - 1), lanes, turned)
    return pair(one), pair(types.each(lambda part: f.shuffle(part, part, back) if lanes > 1 else part, other))


def _even_odd(f: Function, one: Pair, other: Pair) -> tuple[Pair, Pair]:
    """one + conj(other), one - conj(other)."""
    even = f.fadd(one[0], other[0]), f.fsub(one[1], other[1])
    return even, (f.fsub(one[0], other[0]), f.fadd(one[1], other[1]))


def _forward_odd(plan: Transforms, source: Array, target: Array, rows: IntLike, n: int) -> None:
    """As complex numbers without imaginary parts; the first half of the result."""
    count = n // 2 + 1
    wide = plan.room(rows * n)

    def widen(f: Function, row: Index, k: Index, lanes: int, mask: Value | None) -> None:
        at = f.iadd(f.imul(row, n), k)
        real = _real(types.load(f, plan.part, source.address(f, plan.of), at, lanes, mask))
        types.store(f, plan.of, (real, f.const(0.0, real.type)), wide.address(f, plan.of), at, mask)

    sweep(plan, "widen", rows, 0, n, widen)
    spectra = wide
    if n > 1:
        spectra = plan.room(rows * n)
        plan.along(wide, spectra, rows, n, 1)

    def narrow(f: Function, row: Index, k: Index, lanes: int, mask: Value | None) -> None:
        value = types.load(f, plan.of, spectra.address(f, plan.of), f.iadd(f.imul(row, n), k), lanes, mask)
        types.store(f, plan.of, value, target.address(f, plan.of), f.iadd(f.imul(row, count), k), mask)

    sweep(plan, "narrow", rows, 0, count, narrow)


def _inverse_odd(plan: Transforms, source: Array, target: Array, rows: IntLike, n: int, scale: float) -> None:
    """As a forward transform of the conjugates of the whole, Hermitian spectrum: its results are real."""
    count = n // 2 + 1
    wide = plan.room(rows * n)

    def widen(f: Function, row: Index, k: Index, _lanes: int, _mask: Value | None) -> None:
        value = pair(types.load(f, plan.of, source.address(f, plan.of), f.iadd(f.imul(row, count), k)))
        real, imaginary = scaled(f, value, scale)
        middle = f.cmp("eq", f.index(f.irem(f.iadd(k, k), n)), f.const(0))
        imaginary = f.select(middle, f.const(0.0, imaginary.type), imaginary)
        base, pointer = f.imul(row, n), wide.address(f, plan.of)
        mirrored = f.irem(f.isub(n, k), n)
        types.store(f, plan.of, (real, imaginary), pointer, f.iadd(base, mirrored))
        types.store(f, plan.of, (real, f.fneg(imaginary)), pointer, f.iadd(base, k))

    sweep(plan, "widen", rows, 0, count, widen, lanes=1)
    values = wide
    if n > 1:
        values = plan.room(rows * n)
        plan.along(wide, values, rows, n, 1)

    def narrow(f: Function, row: Index, k: Index, lanes: int, mask: Value | None) -> None:
        at = f.iadd(f.imul(row, n), k)
        real = pair(types.load(f, plan.of, values.address(f, plan.of), at, lanes, mask))[0]
        types.store(f, plan.part, real, target.address(f, plan.of), at, mask)

    sweep(plan, "narrow", rows, 0, n, narrow)


def _real(value: Lanes) -> Value:
    assert isinstance(value, Value)
    return value
