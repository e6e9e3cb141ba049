"""Fourier transforms of a prime length n where n - 1 has small prime factors only: cyclic convolutions (C. M. Rader,
"Discrete Fourier transforms when the number of data samples is prime", Proceedings of the IEEE 56, 1968).

With a primitive root g of the prime n, the numbers x[g^p], p < n - 1, convolved with exp(-2 pi i g^-q / n) are the
results at g^-q, but for x[0], which each of them has once. That takes two transforms of length n - 1, where a chirp's
convolution (Bluestein) takes two of at least 2 n - 1.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from stablehlo_py.backends.cpu.kernels.fourier import LARGEST_RADIX, LaneTransform, Places, interleaved, prime_factors
from stablehlo_py.backends.cpu.kernels.fourier_stage import Read, Write, multiply, roots, swapped
from stablehlo_py.codegen.builder import I32, I64, Function, Index, Value
from stablehlo_py.codegen.complex import Pair, add, subtract


def is_served(n: int) -> bool:
    """Whether n is such a prime."""
    return prime_factors(n) == [n] and prime_factors(n - 1)[-1] <= LARGEST_RADIX


def _primitive_root(n: int) -> int:
    """The least one of a prime."""
    factors = set(prime_factors(n - 1))
    return next(g for g in range(2, n) if all(pow(g, (n - 1) // factor, n) != 1 for factor in factors))


class PrimeTransform(LaneTransform):
    """`LaneTransform` of such a length; it is never the first half of another one."""

    @property
    def length(self) -> int:
        """Of the convolution."""
        return self.n - 1

    @property
    def cost(self) -> float:
        """That of both transforms, roughly."""
        return 2.0 * super().cost

    def emit(self, f: Function) -> None:
        """The loop over begin..end."""
        root = _primitive_root(self.n)
        powers = np.array([pow(root, k, self.n) for k in range(self.length)])
        inverses = np.roll(powers[::-1], 1)
        kernel = np.fft.fft(roots(self.n, inverses)) / self.length
        self._spectrum = self._table(f, "spectrum", interleaved(kernel))
        self._from, self._to = (self._table(f, *named, I32) for named in (("from", powers), ("to", inverses)))
        super().emit(f)

    def _group(
        self,
        f: Function,
        number: Value,
        buffers: list[Value],
        twiddles: list[Value | None],
        twist: tuple[Value | None, Value] | None,
    ) -> None:
        outer, _, start, mask = self._place(f, number)
        if self.source_rows:
            self._rows(f, self.source, outer, start, buffers[0], load=True)
        count = len(self.stages)

        def entry(table: Value, at: Index) -> Value:
            return f.cast("sext", f.load(I32, table, at), I64)

        def given(at: Index) -> Pair:
            if self.source_rows:
                return self.scratch.read(f, buffers[0], at)(0)
            return swapped(self._column_read(f, outer, start, at, mask)(0), self.exchange.entering)

        def finish(at: Index, value: Pair) -> None:
            if self.target_rows:
                self.scratch.write(f, buffers[0], at)(0, value)
            else:
                self._column_write(f, outer, start, at, mask)(0, self._result(f, value))

        def reader(done: int, stage: int, base: Index) -> Read:
            if done + stage:
                return self.scratch.read(f, buffers[(done + stage) % 2], base)
            return lambda j: given(entry(self._from, f.iadd(base, j)))

        def writer(done: int, stage: int, base: Index) -> Write:
            write = self.scratch.write(f, buffers[(done + stage + 1) % 2], base)
            if stage < count - 1:
                return write
            if done:
                return lambda j, value: finish(entry(self._to, f.iadd(base, j)), swapped(value))
            # The second transform is an inverse one: of numbers with real and imaginary parts exchanged.
            return lambda j, value: write(
                j, swapped(multiply(f, value, self.scratch.scalar(f, self._spectrum, f.iadd(base, j))))
            )

        def places(done: int, stage: int) -> Places | None:
            number = done + stage
            if number == 0 or stage == count - 1:
                return None
            return (buffers[number % 2], None), (buffers[(number + 1) % 2], None), None

        first = given(0)
        self._pass(f, twiddles, partial(reader, 0), partial(writer, 0), partial(places, 0))
        # The spectrum of the kernel begins with -1 / (n - 1), that of the numbers with their sum. What is added to the
        # first product is added to every result.
        middle = buffers[count % 2]
        product = swapped(self.scratch.read(f, middle, 0)(0))
        length = f.const(float(self.length), product[0].type)
        total = subtract(f, first, (f.fmul(product[0], length), f.fmul(product[1], length)))
        self.scratch.write(f, middle, 0)(0, swapped(add(f, product, first)))
        self._pass(f, twiddles, partial(reader, count), partial(writer, count), partial(places, count))
        finish(0, total)
        if self.target_rows:
            self._rows(f, self.target, outer, start, buffers[0], load=False)
