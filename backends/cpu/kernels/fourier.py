"""Fourier transforms lane by lane: every lane of a vector is a transform of its own.

Stockham's autosort algorithm of mixed radix (Van Loan, Computational Frameworks for the Fast Fourier Transform, 1.7
and 2): no reordering pass, every load and store a full vector. The inverse is the forward transform with real and
imaginary parts exchanged on the way in and out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from stablehlo_py.backends.cpu.kernels.transposing import load_rows, store_rows
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I8, Function, Index, Value, vector
from stablehlo_py.codegen.complex import Pair, add, subtract
from stablehlo_py.codegen.math import muladd
from stablehlo_py.codegen.tables import constant_table
from stablehlo_py.codegen.types import PARTS, Element, Lanes
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.errors import UnsupportedError

Read = Callable[[int], Pair]  # element number `base + static` for a base that is bound already
Write = Callable[[int, Pair], None]

LARGEST_RADIX = 31  # a length with a larger prime factor goes through a convolution (Bluestein)
MOST_FACTORS = 1 << 24  # entries of a table: seconds of compilation, and 128 MB of a program
_LINE = 64


def require_table(entries: IntLike, n: int) -> None:
    """Raise UnsupportedError where a transform of length n needs a table of too many factors."""
    if entries > MOST_FACTORS:
        raise UnsupportedError(
            f"a transform of length {n} needs a table of {entries} factors; the limit is {MOST_FACTORS}",
            op="hlo.fft",
            remedy=f"use a length without prime factors above {LARGEST_RADIX}, or a shorter one",
        )


def prime_factors(n: int) -> list[int]:
    """Prime factors in ascending order."""
    factors, divisor = [], 2
    while divisor * divisor <= n:
        while n % divisor == 0:
            factors.append(divisor)
            n //= divisor
        divisor += 1
    return factors + ([n] if n > 1 else [])


def radices(n: int, registers: int) -> list[int]:
    """The radices of the stages of a transform of length n, powers of two first. Radix 8 needs 32 registers."""
    odd = [factor for factor in prime_factors(n) if factor != 2]
    twos = (n & -n).bit_length() - 1
    if registers < 32:
        return [4] * (twos // 2) + [2] * (twos % 2) + odd
    if twos < 3:
        return [[], [2], [4]][twos] + odd
    fours = {0: 0, 1: 2, 2: 1}[twos % 3]
    return [8] * ((twos - 2 * fours) // 3) + [4] * fours + odd


def roots(n: int, numerators: Sequence[int] | np.ndarray) -> np.ndarray:
    """exp(-2 pi i t / n), rounded to f64 from extended precision; exact at multiples of a quarter turn."""
    t = np.asarray(numerators, np.int64) % n
    quarters = (8 * t + n) // (2 * n)
    angle = (4 * t - quarters * n).astype(np.longdouble) * (np.arccos(np.longdouble(-1)) / 2) / n
    turned = np.array([1, -1j, -1, 1j])[quarters % 4]
    return turned * (np.cos(angle).astype(np.float64) - 1j * np.sin(angle).astype(np.float64))


def interleaved(numbers: np.ndarray) -> np.ndarray:
    """Complex numbers as real, imaginary, real ..."""
    return np.ascontiguousarray(numbers, np.complex128).reshape(-1).view(np.float64)


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


# --- memory ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Array:
    """Complex numbers in memory: a pointer parameter of the phase, and how many scalars in they begin."""

    pointer: str
    start: IntLike = 0

    def address(self, f: Function, of: Element) -> Value:
        """Where they begin."""
        return f.gep(f.parameters[self.pointer], self.start, of.storage)


@dataclass
class LaneTransform:
    """Transforms of one length, `lanes` at a time: `outer` times `width` of them.

    Transform w of outer number o has its element j at `(o n + j) width + w`, or, where `source_rows` or `target_rows`
    is set, at `(o width + w) n + j`. Source and target may be one array if neither is; else the last group begins early
    enough to be full, and repeats what another did.

    Attributes:
        name: prefix of the tables' names.
        of: complex<f32> or complex<f64>.
        scale: factor of the result.
        twist: the length N of the transform that this one is the first half of: the result of (j, w) is multiplied by
            exp(-2 pi i j w / N).
        tables: collects the read-only tables.
    """

    name: str
    of: Element
    n: int
    outer: IntLike
    width: IntLike
    lanes: int
    registers: int
    source: Array
    target: Array
    source_rows: bool = False
    target_rows: bool = False
    inverse: bool = False
    scale: float = 1.0
    twist: int = 0
    tables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.part = PARTS[self.of.name].compute
        self.stages = radices(self.length, self.registers)
        self.blocks = -(-self.width // self.lanes)
        self.masked = self.source == self.target and self.width % self.lanes != 0
        size = 2 * self.n * self.lanes * self.part.bits // 8
        self.buffer_bytes = -(-size // _LINE) * _LINE

    @property
    def length(self) -> int:
        """Of the transforms that are done in stages."""
        return self.n

    @property
    def iterations(self) -> IntLike:
        """Groups of lanes."""
        return self.outer * self.blocks

    @property
    def private_bytes(self) -> int:
        """Scratch of a thread: two buffers."""
        return 2 * self.buffer_bytes

    @property
    def cost(self) -> float:
        """Nanoseconds for one group, roughly."""
        return self.n * (2.0 + 0.6 * sum(min(radix, 6) for radix in self.stages))

    def emit(self, f: Function) -> None:
        """The loop over begin..end."""
        buffers = [f.private, f.gep(f.private, self.buffer_bytes, I8)]
        twiddles = self._twiddles(f)
        twist = self._twist_tables(f) if self.twist else None
        f.loop(f.begin, f.end, 1, lambda number: self._group(f, number, buffers, twiddles, twist))

    # --- tables ------------------------------------------------------------------------------------------------------

    def _table(self, f: Function, suffix: str, numbers: np.ndarray) -> Value:
        name = f"{self.name}.{suffix}"
        self.tables[name] = constant_table(name, numbers, self.part, f.emit)
        return f.address_of(name)

    def _twiddles(self, f: Function) -> list[Value | None]:
        """Per stage, for p < m and 0 < k < radix: exp(-2 pi i p k / (m radix)); none for the last stage (m = 1)."""
        found: list[Value | None] = []
        left = self.length
        require_table(left, self.n)
        for number, radix in enumerate(self.stages):
            m = left // radix
            p, k = np.arange(m).reshape(-1, 1), np.arange(1, radix).reshape(1, -1)
            found.append(self._table(f, f"twiddle{number}", interleaved(roots(left, p * k))) if m > 1 else None)
            left = m
        return found

    def _twist_tables(self, f: Function) -> tuple[Value | None, Value]:
        """exp(-2 pi i j w / N) with w = start + lane, as a product: (by block and j, or None for one block; by j and
        lane)."""
        require_table(self.blocks * self.n, self.twist)
        j = np.arange(self.n).reshape(1, -1)
        starts = [min(block * self.lanes, self.width - self.lanes) for block in range(self.blocks)]
        base = None
        if self.blocks > 1:
            base = self._table(f, "base", interleaved(roots(self.twist, np.array(starts).reshape(-1, 1) * j)))
        within = roots(self.twist, j.reshape(-1, 1) * np.arange(self.lanes).reshape(1, -1))
        return base, self._table(f, "within", np.stack([within.real, within.imag], 1))

    # --- one group of lanes ------------------------------------------------------------------------------------------

    def _group(
        self,
        f: Function,
        number: Value,
        buffers: list[Value],
        twiddles: list[Value | None],
        twist: tuple[Value | None, Value] | None,
    ) -> None:
        outer, block, start, mask = self._place(f, number)
        if self.source_rows:
            self._rows(f, self.source, outer, start, buffers[0], load=True)

        def finished(at: Index, value: Pair) -> Pair:
            if twist:
                base, within = twist
                place = f.imul(at, 2 * self.lanes)
                type_ = vector(self.lanes, self.part)
                imaginary = f.load(type_, within, f.iadd(place, self.lanes))
                value = multiply(f, value, (f.load(type_, within, place), imaginary))
                if base is not None:
                    value = multiply(f, value, self._scalar(f, base, f.iadd(f.imul(block, self.n), at)))
            if self.scale != 1.0:
                scale = f.const(self.scale, value[0].type)
                value = f.fmul(value[0], scale), f.fmul(value[1], scale)
            return swapped(value, self.inverse)

        def reader(stage: int, base: Index) -> Read:
            if stage:
                return self._buffered_read(f, buffers[stage % 2], base)
            if self.source_rows:
                read = self._buffered_read(f, buffers[0], base)
            else:
                read = self._column_read(f, outer, start, base, mask)
            return lambda j: swapped(read(j), self.inverse)

        def writer(stage: int, base: Index) -> Write:
            last = stage == len(self.stages) - 1
            if last and not self.target_rows:
                write = self._column_write(f, outer, start, base, mask)
            else:
                write = self._buffered_write(f, buffers[(stage + 1) % 2], base)
            return (lambda j, value: write(j, finished(f.iadd(base, j), value))) if last else write

        self._pass(f, twiddles, reader, writer)
        if self.target_rows:
            self._rows(f, self.target, outer, start, buffers[len(self.stages) % 2], load=False)

    def _place(self, f: Function, number: Value) -> tuple[Index, Index, Index, Value | None]:
        """Of a group: outer number, block, first of the transforms, and which of its lanes are in the array."""
        outer, block = f.idiv(number, self.blocks), f.irem(number, self.blocks)
        start = f.imul(block, self.lanes)
        if not self.masked:
            start = f.imin(start, self.width - self.lanes)
        return outer, block, start, f.tail_mask(f.isub(self.width, start), self.lanes) if self.masked else None

    def _pass(
        self,
        f: Function,
        twiddles: Sequence[Value | None],
        reader: Callable[[int, Index], Read],
        writer: Callable[[int, Index], Write],
    ) -> None:
        """All stages; `reader` and `writer` take the number of a stage."""
        left, step = self.length, 1
        for stage, radix in enumerate(self.stages):
            left //= radix
            self._stage(f, radix, left, step, twiddles[stage], partial(reader, stage), partial(writer, stage))
            step *= radix

    def _stage(
        self,
        f: Function,
        radix: int,
        m: int,
        step: int,
        twiddles: Value | None,
        reader: Callable[[Index], Read],
        writer: Callable[[Index], Write],
    ) -> None:
        """From element q + step (p + m k) to element q + step (radix p + k), for p < m, q < step, k < radix."""

        def phase(p: Index) -> None:
            factors = []
            if twiddles is not None:
                factors = [self._scalar(f, twiddles, f.iadd(f.imul(p, radix - 1), k - 1)) for k in range(1, radix)]

            def one(q: Index) -> None:
                read = reader(f.iadd(q, f.imul(p, step)))
                y = butterfly(f, [read(step * m * k) for k in range(radix)])
                if factors:
                    y = [y[0], *(multiply(f, value, factor) for value, factor in zip(y[1:], factors, strict=True))]
                write = writer(f.iadd(q, f.imul(p, step * radix)))
                for k, value in enumerate(y):
                    write(step * k, value)

            f.loop(0, step, 1, one)

        f.loop(0, m, 1, phase)

    def _scalar(self, f: Function, table: Value, number: Index) -> Pair:
        at = f.gep(table, f.imul(number, 2), self.part)
        return f.splat(f.load(self.part, at), self.lanes), f.splat(f.load(self.part, at, 1), self.lanes)

    # --- scratch: element j is a vector of real parts, then one of imaginary parts -----------------------------------

    @property
    def _align(self) -> int:
        return min(_LINE, self.lanes * self.part.bits // 8)

    def _buffered_read(self, f: Function, buffer: Value, base: Index) -> Read:
        pointer, type_ = f.gep(buffer, f.imul(base, 2 * self.lanes), self.part), vector(self.lanes, self.part)

        def read(j: int) -> Pair:
            real = f.load(type_, pointer, 2 * j * self.lanes, align=self._align)
            return real, f.load(type_, pointer, (2 * j + 1) * self.lanes, align=self._align)

        return read

    def _buffered_write(self, f: Function, buffer: Value, base: Index) -> Write:
        pointer = f.gep(buffer, f.imul(base, 2 * self.lanes), self.part)

        def write(j: int, value: Pair) -> None:
            for part in range(2):
                f.store(value[part], pointer, (2 * j + part) * self.lanes, align=self._align)

        return write

    # --- arrays ------------------------------------------------------------------------------------------------------

    def _column(self, f: Function, array: Array, outer: Index, start: Index, base: Index) -> Value:
        """Address of element `base` of the group's transforms where these lie side by side."""
        element = f.iadd(f.imul(f.iadd(f.imul(outer, self.n), base), self.width), start)
        return f.gep(array.address(f, self.of), f.imul(element, 2), self.part)

    def _column_read(self, f: Function, outer: Index, start: Index, base: Index, mask: Value | None) -> Read:
        pointer = self._column(f, self.source, outer, start, base)
        return lambda j: pair(types.load(f, self.of, pointer, j * self.width, self.lanes, mask))

    def _column_write(self, f: Function, outer: Index, start: Index, base: Index, mask: Value | None) -> Write:
        pointer = self._column(f, self.target, outer, start, base)
        return lambda j, value: types.store(f, self.of, value, pointer, j * self.width, mask)

    def _rows(self, f: Function, array: Array, outer: Index, start: Index, buffer: Value, *, load: bool) -> None:
        """Between rows of memory and scratch."""
        first = f.imul(f.iadd(f.imul(outer, self.width), start), self.n)
        pointer = f.gep(array.address(f, self.of), f.imul(first, 2), self.part)
        if load:
            put = self._buffered_write
            load_rows(f, self.of, pointer, self.n, self.lanes, lambda j, value: put(f, buffer, j)(0, pair(value)))
        else:
            store_rows(f, self.of, pointer, self.n, self.lanes, lambda j: self._buffered_read(f, buffer, j)(0))
