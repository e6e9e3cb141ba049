"""Complex transforms along any axes.

An axis at a time, innermost first. A transform along an axis is one phase (fourier.py); a long one, or one without
enough neighbours to fill vectors, is two phases: with n = n1 n2, transforms of length n1 over columns, a
multiplication, transforms of length n2 over rows (Bailey's four-step method). A length with a large prime factor is a
convolution of a length without one (of a prime length Rader's, fourier_prime.py, else Bluestein's). Lengths are static:
every factor is in a read-only table, computed in extended precision.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels.base import Part
from stablehlo_py.backends.cpu.kernels.fourier import (
    LARGEST_RADIX,
    Array,
    LaneTransform,
    prime_factors,
    radices,
    require_table,
)
from stablehlo_py.backends.cpu.kernels.fourier_phases import Chirp, Phases, copy, parts, product
from stablehlo_py.backends.cpu.kernels.fourier_prime import PrimeTransform, is_served
from stablehlo_py.backends.cpu.kernels.fourier_stage import FORWARD, Exchange, roots
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.dialect.symint import IntLike, is_known

SCRATCH = 1 << 19  # bytes of scratch that a group of lanes should not exceed: half of a usual L2 cache


class Transforms(Phases):
    """Complex transforms, as phases of a kernel under construction.

    Attributes:
        primes: whether lanes are transforms, those of a prime length too.
    """

    primes = True

    def __init__(self, fusion: Fusion, target: CpuTarget) -> None:
        super().__init__(fusion, target)
        self._between: dict[IntLike, Array] = {}  # scratch between two passes, by its size
        self._made: dict[tuple[object, ...], Part] = {}  # the phases of passes, by what they do

    def axes(
        self,
        source: Array,
        target: Array,
        sizes: tuple[IntLike, ...],
        count: int,
        inverse: bool,
        scale: float,
        skip: int = 0,
    ) -> None:
        """Transforms along the last `count` dimensions, without the very last `skip` of them.

        The inverse is multiplied by `scale`. Source and target may be one array where an inner dimension is larger
        than one."""
        scale = scale if inverse else 1.0
        chosen = [axis for axis in range(len(sizes) - 1 - skip, len(sizes) - count - 1, -1) if sizes[axis] > 1]
        for axis in chosen:
            outer, inner = math.prod(sizes[:axis]), math.prod(sizes[axis + 1 :])
            # Between axes, parts stay exchanged.
            exchange = Exchange(inverse and axis == chosen[0], inverse and axis == chosen[-1])
            self.along(source, target, outer, int(sizes[axis]), inner, exchange, scale)
            source, scale = target, 1.0
        if source != target:
            copy(self, source, target, math.prod(sizes), scale)

    def along(
        self,
        source: Array,
        target: Array,
        outer: IntLike,
        n: int,
        inner: IntLike,
        exchange: Exchange = FORWARD,
        scale: float = 1.0,
    ) -> None:
        """Transforms of length n > 1; element j of one lies at (o n + j) inner + i. In place only where inner > 1."""
        if prime_factors(n)[-1] > LARGEST_RADIX:
            if self._prime(source, target, outer, n, inner, exchange, scale):
                return
            self._bluestein(source, target, outer, n, inner, exchange, scale)
            return
        if inner > 1:
            lanes = self._fitting(n, self.lanes)
            lanes = min(lanes, 1 << (inner - 1).bit_length() if source == target else 1 << (inner.bit_length() - 1))
            self._transform("columns", source, target, n, outer, inner, lanes, exchange=exchange, scale=scale)
            return
        halves = self._halves(n, outer)
        if halves:
            self._four_steps(source, target, outer, halves, exchange, scale)
            return
        lanes = self._lanes_of_rows(n, outer)
        self._transform(
            "rows",
            source,
            target,
            n,
            1,
            outer,
            lanes,
            source_rows=True,
            target_rows=True,
            exchange=exchange,
            scale=scale,
        )

    def _prime(
        self, source: Array, target: Array, outer: IntLike, n: int, inner: IntLike, exchange: Exchange, scale: float
    ) -> bool:
        """Transforms of a prime length by Rader's convolutions, where these have at least half of a vector's lanes:
        they are half as long as chirps'."""
        wide = inner > 1
        count = inner if wide else outer
        lanes = self._fitting(n, self.lanes)
        if not (self.primes and is_served(n) and isinstance(count, int)) or 2 * min(lanes, count) < self.lanes:
            return False
        self._transform(
            "prime",
            source,
            target,
            n,
            outer if wide else 1,
            count,
            min(lanes, 1 << (count.bit_length() - 1)),
            kind=PrimeTransform,
            source_rows=not wide,
            target_rows=not wide,
            exchange=exchange,
            scale=scale,
        )
        return True

    def _halves(self, n: int, rows: IntLike) -> tuple[int, int] | None:
        """The lengths of the two passes that transforms of rows are done in; None: it is one pass."""
        lanes = self._fitting(n, self.lanes)
        known = is_known(rows)  # else there may be fewer rows than lanes
        return _split(n, self.target.registers) if not known or lanes < self.lanes or rows < self.lanes else None

    def _lanes_of_rows(self, n: int, rows: IntLike) -> int:
        """How many rows one pass takes at a time."""
        return min(self._fitting(n, self.lanes), 1 << (rows.bit_length() - 1)) if is_known(rows) else 1

    def _fitting(self, n: int, lanes: int) -> int:
        while lanes > 1 and 4 * n * lanes * self.part.bytes > SCRATCH:
            lanes //= 2
        return lanes

    def _four_steps(
        self, source: Array, target: Array, rows: IntLike, halves: tuple[int, int], exchange: Exchange, scale: float
    ) -> None:
        n1, n2 = halves
        size = rows * n1 * n2
        between = self._between.get(size) or self.room(size)
        self._between[size] = between
        entering, leaving = Exchange(entering=exchange.entering), Exchange(leaving=exchange.leaving)
        first, second = (min(self.lanes, 1 << (width.bit_length() - 1)) for width in (n2, n1))
        self._transform("columns", source, between, n1, rows, n2, first, exchange=entering, twist=n1 * n2)
        self._transform("rows", between, target, n2, rows, n1, second, source_rows=True, exchange=leaving, scale=scale)

    def _transform(
        self,
        suffix: str,
        source: Array,
        target: Array,
        n: int,
        outer: IntLike,
        width: IntLike,
        lanes: int,
        *,
        kind: type[LaneTransform] = LaneTransform,
        **options: Any,
    ) -> None:
        key = kind, source, target, n, outer, width, lanes, *sorted(options.items())
        if key in self._made:
            self.repeat(self._made[key])
            return
        transform = kind(
            self.name(suffix),
            self.of,
            n,
            outer,
            width,
            lanes,
            self.target.registers,
            source,
            target,
            tables=self.tables,
            **options,
        )
        self._private = max(self._private, transform.private_bytes)
        self._made[key] = self.phase(suffix, transform.iterations, transform.cost, transform.emit)

    def _bluestein(
        self, source: Array, target: Array, outer: IntLike, n: int, inner: IntLike, exchange: Exchange, scale: float
    ) -> None:
        # With c_j = exp(-pi i j^2 / n): X_k = c_k sum_j (x_j c_j) conj(c_{k-j}), a cyclic convolution of length m.
        m, rows = 1 << (2 * n - 2).bit_length(), outer * inner
        require_table(m, n)
        squares = np.arange(n) ** 2 % (2 * n)
        chirp = roots(2 * n, squares)
        kernel = np.zeros(m, np.complex128)
        kernel[:n] = chirp.conj()
        kernel[m - n + 1 :] = chirp[:0:-1].conj()
        padded = self.room(rows * m)
        # Both transforms are one function where they are done in place: in two passes, or by whole groups of rows.
        in_place = self._halves(m, rows) or (is_known(rows) and rows % self._lanes_of_rows(m, rows) == 0)
        spectra = padded if in_place else self.room(rows * m)
        chirps = Chirp(self, self.table("chirps", parts(chirp)), n, m, outer, inner, exchange)
        chirps.enter(source, padded)
        self.along(padded, spectra, rows, m, 1)
        product(self, spectra, self.table("kernels", parts(np.fft.fft(kernel) / m)), rows, m)
        self.along(spectra, padded, rows, m, 1)  # the inverse one, with the same code
        chirps.leave(padded, target, scale)


def _split(n: int, registers: int) -> tuple[int, int] | None:
    """Two factors of n, as equal as possible, in the order in which they take less code; None where that is not worth
    it."""
    if n < 16:
        return None
    small = next(factor for factor in range(math.isqrt(n), 0, -1) if n % factor == 0)
    if small <= 3:
        return None
    return min((small, n // small), (n // small, small), key=lambda halves: _numbers(halves, registers))


def _numbers(halves: tuple[int, int], registers: int) -> int:
    """Of all stages that are different code in passes of these lengths: columns are read and written, rows written."""
    columns, rows = (radices(n, registers) for n in halves)
    return sum((columns[0], columns[-1], rows[-1], *{*columns[1:-1], *rows[:-1]}))
