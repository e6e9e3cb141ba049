"""A stage of Stockham's algorithm, and the scratch between stages.

A stage is a function that all transforms of a program call: its radix is part of it, and sizes are its arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stablehlo_py.backends.cpu.kernels.transposing import load_rows, store_rows
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import Function, Index, ScalarType, Value, vector
from stablehlo_py.codegen.complex import Pair, add, subtract
from stablehlo_py.codegen.math import muladd
from stablehlo_py.codegen.types import Element, Lanes

Read = Callable[[Index], Pair]  # element number `base + offset` for a base that is bound already
Write = Callable[[Index, Pair], None]

LINE = 64
LEAST_SHARED = 64  # numbers of a transform; stages of fewer are little more than calls of them


def roots(n: int, numerators: Sequence[int] | np.ndarray) -> np.ndarray:
    """exp(-2 pi i t / n), rounded to f64 from extended precision; exact at multiples of a quarter turn."""
    t = np.asarray(numerators, np.int64) % n
    quarters = (8 * t + n) // (2 * n)
    offsets = 4 * t - quarters * n  # in quarters of 1 / n of a turn, up to half of a quarter turn to both sides
    unit = math.gcd(4, n)  # of all offsets
    count = n // (2 * unit) + 1
    angles, places = (np.arange(count) * unit, abs(offsets) // unit) if count < t.size else (abs(offsets), ...)
    angle = angles.astype(np.longdouble) * (np.arccos(np.longdouble(-1)) / 2) / n
    cosine, sine = (function(angle).astype(np.float64)[places] for function in (np.cos, np.sin))
    turned = np.array([1, -1j, -1, 1j])[quarters % 4]
    return turned * (cosine - 1j * np.where(offsets < 0, -sine, sine))


# --- complex arithmetic on lanes -------------------------------------------------------------------------------------


def multiply(f: Function, a: Pair, b: Pair) -> Pair:
    """a b."""
    real = muladd(f, a[0], b[0], f.fneg(f.fmul(a[1], b[1])))
    return real, muladd(f, a[0], b[1], f.fmul(a[1], b[0]))


def pair(value: Lanes) -> Pair:
    """Lanes that are known to be complex."""
    assert isinstance(value, tuple)
    return value


def swapped(a: Pair, swap: bool = True) -> Pair:
    """The parts exchanged."""
    return (a[1], a[0]) if swap else a


def scaled(f: Function, a: Pair, scale: float) -> Pair:
    """A number times a real one."""
    if scale == 1.0:
        return a
    factor = f.const(scale, a[0].type)
    return f.fmul(a[0], factor), f.fmul(a[1], factor)


class Exchange(NamedTuple):
    """Whether real and imaginary parts are exchanged on the way into a transform, and on the way out. An inverse
    transform is a forward one with both."""

    entering: bool = False
    leaving: bool = False


FORWARD, INVERSE = Exchange(), Exchange(True, True)


def _turned(f: Function, a: Pair) -> Pair:
    """-i a."""
    return a[1], f.fneg(a[0])


# --- transforms of a few numbers in registers ------------------------------------------------------------------------


def butterfly(f: Function, x: Sequence[Pair]) -> list[Pair]:
    """The transform of len(x) numbers: 1, 2, 4, 8 or an odd prime."""
    count = len(x)
    if count == 1:
        return list(x)
    if count == 2:
        return [add(f, x[0], x[1]), subtract(f, x[0], x[1])]
    if count in (4, 8):
        even, odd = butterfly(f, x[0::2]), _rotated(f, butterfly(f, x[1::2]))
        pairs = list(zip(even, odd, strict=True))
        return [add(f, a, b) for a, b in pairs] + [subtract(f, a, b) for a, b in pairs]
    return _odd_butterfly(f, x)


def _rotated(f: Function, x: list[Pair]) -> list[Pair]:
    """x[k] exp(-pi i k / len(x)) for 2 or 4 numbers."""
    if len(x) == 2:
        return [x[0], _turned(f, x[1])]
    root = f.const(math.sqrt(0.5), x[0][0].type)

    def eighth(a: Pair) -> Pair:
        return f.fmul(f.fadd(a[0], a[1]), root), f.fmul(f.fsub(a[1], a[0]), root)

    return [x[0], eighth(x[1]), _turned(f, x[2]), eighth(_turned(f, x[3]))]


def _odd_butterfly(f: Function, x: Sequence[Pair]) -> list[Pair]:
    # x[k] and x[p - k] share their cosine, and their sine up to its sign: half of the products.
    p, half = len(x), len(x) // 2
    sums = [add(f, x[k], x[p - k]) for k in range(1, half + 1)]
    differences = [subtract(f, x[k], x[p - k]) for k in range(1, half + 1)]
    unit = roots(p, range(p))
    first = x[0]
    for one in sums:
        first = add(f, first, one)
    low: list[Pair] = []
    high: list[Pair] = []
    for j in range(1, half + 1):
        along, across = x[0], None
        for k in range(1, half + 1):
            cosine = f.const(unit[j * k % p].real, x[0][0].type)
            sine = f.const(-unit[j * k % p].imag, x[0][0].type)
            s, d = sums[k - 1], differences[k - 1]
            along = muladd(f, s[0], cosine, along[0]), muladd(f, s[1], cosine, along[1])
            if across is None:
                across = f.fmul(d[0], sine), f.fmul(d[1], sine)
            else:
                across = muladd(f, d[0], sine, across[0]), muladd(f, d[1], sine, across[1])
        assert across is not None
        low.append((f.fadd(along[0], across[1]), f.fsub(along[1], across[0])))
        high.append((f.fsub(along[0], across[1]), f.fadd(along[1], across[0])))
    return [first, *low, *high[::-1]]


# --- stages ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scratch:
    """Complex numbers between stages: element j is a vector of real parts, then one of imaginary parts."""

    lanes: int
    part: ScalarType

    @property
    def _align(self) -> int:
        return min(LINE, self.lanes * self.part.bits // 8)

    def read(self, f: Function, buffer: Value, base: Index) -> Read:
        """Reads numbers from `base` on."""
        pointer, type_ = f.gep(buffer, f.imul(base, 2 * self.lanes), self.part), vector(self.lanes, self.part)

        def read(j: Index) -> Pair:
            at = f.gep(pointer, f.imul(j, 2 * self.lanes), self.part)
            return f.load(type_, at, align=self._align), f.load(type_, at, self.lanes, align=self._align)

        return read

    def write(self, f: Function, buffer: Value, base: Index) -> Write:
        """Writes numbers from `base` on."""
        pointer = f.gep(buffer, f.imul(base, 2 * self.lanes), self.part)

        def write(j: Index, value: Pair) -> None:
            at = f.gep(pointer, f.imul(j, 2 * self.lanes), self.part)
            for part in range(2):
                f.store(value[part], at, part * self.lanes, align=self._align)

        return write

    def scalar(self, f: Function, table: Value, number: Index) -> Pair:
        """A number of a table in all lanes."""
        at = f.gep(table, f.imul(number, 2), self.part)
        return f.splat(f.load(self.part, at), self.lanes), f.splat(f.load(self.part, at, 1), self.lanes)

    def stage(
        self,
        f: Function,
        radix: int,
        sizes: tuple[Index, Index],
        twiddles: Value | None,
        reader: Callable[[Index], Read],
        writer: Callable[[Index], Write],
    ) -> None:
        """From element q + step (p + m k) to element q + step (radix p + k), for p < m, q < step, k < radix; `sizes`
        are m and step."""
        m, step = sizes
        distance = f.imul(m, step)

        def phase(p: Index) -> None:
            factors = []
            if twiddles is not None:
                of_phase = f.gep(twiddles, f.imul(p, 2 * (radix - 1)), self.part)
                factors = [self.scalar(f, of_phase, k) for k in range(radix - 1)]

            def one(q: Index) -> None:
                read = reader(f.iadd(q, f.imul(p, step)))
                y = butterfly(f, [read(f.imul(distance, k)) for k in range(radix)])
                if factors:
                    y = [y[0], *(multiply(f, value, factor) for value, factor in zip(y[1:], factors, strict=True))]
                write = writer(f.iadd(q, f.imul(p, f.imul(step, radix))))
                for k, value in enumerate(y):
                    write(f.imul(step, k), value)

            f.loop(0, step, 1, one)

        f.loop(0, m, 1, phase)


@dataclass(frozen=True)
class Ends:
    """What the last stage of a transform does to its results, which are numbers of a row: multiplies them by two
    tables' entries (of a number in all lanes, of each lane) and by a factor, and exchanges their parts."""

    scratch: Scratch
    base: Value | None = None
    within: Value | None = None
    scale: Value | None = None
    inverse: bool = False

    def finished(self, f: Function, at: Index, value: Pair) -> Pair:
        """Result number `at`."""
        lanes, part = self.scratch.lanes, self.scratch.part
        if self.within is not None:
            place = f.imul(at, 2 * lanes)
            imaginary = f.load(vector(lanes, part), self.within, f.iadd(place, lanes))
            value = multiply(f, value, (f.load(vector(lanes, part), self.within, place), imaginary))
        if self.base is not None:
            value = multiply(f, value, self.scratch.scalar(f, self.base, at))
        if self.scale is not None:
            scale = f.splat(self.scale, lanes)
            value = f.fmul(value[0], scale), f.fmul(value[1], scale)
        return swapped(value, self.inverse)


@dataclass(frozen=True)
class Stage:
    """A stage as a function: of numbers in scratch, or side by side in an array.

    Attributes:
        reads, writes: the complex type of the array that is read, by the first stage (step is 1), or written; None:
            scratch.
        inverse: parts are exchanged when an array is read, and of the results of the last stage.
        last: m is 1; it has no twiddle factors, and may have those of `Ends`.
        between, along, scaled: which of these: in all lanes, of each lane, a factor.
    """

    scratch: Scratch
    radix: int
    reads: Element | None = None
    writes: Element | None = None
    inverse: bool = False
    last: bool = False
    between: bool = False
    along: bool = False
    scaled: bool = False

    @property
    def symbol(self) -> str:
        """What the function is called."""
        flags = {
            "r": self.reads, "w": self.writes, "i": self.inverse, "l": self.last,
            "b": self.between, "a": self.along, "s": self.scaled,
        }  # fmt: skip
        kind = "".join(name for name, is_set in flags.items() if is_set)
        name = f"shlo_fft_{self.radix}_{self.scratch.lanes}x{self.scratch.part.text}"
        return f"{name}_{kind}" if kind else name

    def emit(self, f: Function, *arguments: Value) -> None:
        """From a source to a target, sizes m and step, then what of these is there: distances of numbers in the source
        and in the target, twiddle factors or the tables and the factor of `Ends`."""
        source, target, m, step, *others = arguments
        scratch, given = self.scratch, iter(others)
        source_step, target_step, twiddles, base, within, scale = (
            next(given) if there else None
            for there in (self.reads, self.writes, not self.last, self.between, self.along, self.scaled)
        )
        ends = Ends(scratch, base, within, scale, self.inverse)

        def place(array: Value, number: Index, stride: Value) -> Value:
            return f.gep(array, f.imul(f.imul(number, stride), 2), scratch.part)

        def reader(first: Index) -> Read:
            of = self.reads
            if of is None or source_step is None:
                return scratch.read(f, source, first)
            at, stride = place(source, first, source_step), source_step
            return lambda j: swapped(pair(types.load(f, of, at, f.imul(j, stride), scratch.lanes)), self.inverse)

        def writer(first: Index) -> Write:
            of, write = self.writes, scratch.write(f, target, first)
            if of is not None and target_step is not None:
                at, stride = place(target, first, target_step), target_step
                write = lambda j, value: types.store(f, of, value, at, f.imul(j, stride))  # noqa: E731
            if not self.last:
                return write
            return lambda j, value: write(j, ends.finished(f, f.iadd(first, j), value))

        sizes = 1 if self.last else m, 1 if self.reads else step
        scratch.stage(f, self.radix, sizes, twiddles, reader, writer)


@dataclass(frozen=True)
class Rows:
    """The numbers of rows of memory, n each, on their way into scratch (`load`) or out of it, as a function. Parts
    are exchanged where it says so; results may be multiplied by a factor."""

    scratch: Scratch
    of: Element
    n: int
    load: bool
    exchange: bool = False
    scaled: bool = False

    @property
    def symbol(self) -> str:
        """What the function is called."""
        kind = ("r" if self.load else "w") + "i" * self.exchange + "s" * self.scaled
        return f"shlo_fft_rows_{self.n}_{self.scratch.lanes}x{self.scratch.part.text}_{kind}"

    def emit(self, f: Function, *arguments: Value) -> None:
        """Of the rows from an address on, to or from scratch, times the factor."""
        rows, buffer, *scale = arguments
        scratch, lanes = self.scratch, self.scratch.lanes

        def put(j: Index, number: int, value: Lanes) -> None:
            scratch.write(f, buffer, j)(number, swapped(pair(value), self.exchange))

        def get(j: Index, number: int) -> Lanes:
            return Ends(scratch, scale=next(iter(scale), None), inverse=self.exchange).finished(
                f, number, scratch.read(f, buffer, j)(number)
            )

        if self.load:
            load_rows(f, self.of, rows, self.n, lanes, put)
        else:
            store_rows(f, self.of, rows, self.n, lanes, get)
