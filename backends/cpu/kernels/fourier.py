"""Fourier transforms lane by lane: every lane of a vector is a transform of its own.

Stockham's autosort algorithm of mixed radix (Van Loan, Computational Frameworks for the Fast Fourier Transform, 1.7
and 2): no reordering pass, every load and store a full vector. The inverse is the forward transform with real and
imaginary parts exchanged on the way in and out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np

from stablehlo_py.backends.cpu.kernels.fourier_stage import (
    FORWARD,
    LEAST_SHARED,
    LINE,
    Ends,
    Exchange,
    Read,
    Rows,
    Scratch,
    Stage,
    Write,
    pair,
    roots,
    scaled,
    swapped,
)
from stablehlo_py.backends.cpu.kernels.shared_function import call_piece
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I8, Function, Index, ScalarType, Value
from stablehlo_py.codegen.complex import Pair
from stablehlo_py.codegen.tables import table_among
from stablehlo_py.codegen.types import PARTS, Element
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.errors import UnsupportedError

LARGEST_RADIX = 31  # a length with a larger prime factor goes through a convolution (Bluestein)
Place: TypeAlias = "tuple[Value, IntLike | None]"  # where numbers begin; their distance in an array, None: scratch
Places: TypeAlias = "tuple[Place, Place, Ends | None]"  # from where to where, and what the last stage does
MOST_FACTORS = 1 << 24  # entries of a table: seconds of compilation, and 128 MB of a program


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
    """The radices of the stages of a transform of length n, powers of two first. Radix 8 needs 32 registers; the first
    and the last stage, which have code of their own, take radix 4 where there are two of it."""
    odd = [factor for factor in prime_factors(n) if factor != 2]
    twos = (n & -n).bit_length() - 1
    if registers < 32:
        return [4] * (twos // 2) + [2] * (twos % 2) + odd
    if twos < 3:
        return [[], [2], [4]][twos] + odd
    fours = {0: 0, 1: 2, 2: 1}[twos % 3]
    return [4] * (fours - 1) + [8] * ((twos - 2 * fours) // 3) + [4] * min(fours, 1) + odd


def interleaved(numbers: np.ndarray) -> np.ndarray:
    """Complex numbers as real, imaginary, real ..."""
    return np.ascontiguousarray(numbers, np.complex128).reshape(-1).view(np.float64)


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
    exchange: Exchange = FORWARD
    scale: float = 1.0
    twist: int = 0
    tables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.part = PARTS[self.of.name].compute
        self.stages = radices(self.length, self.registers)
        self.scratch = Scratch(self.lanes, self.part)
        self.blocks = -(-self.width // self.lanes)
        self.masked = self.source == self.target and self.width % self.lanes != 0
        size = 2 * self.n * self.lanes * self.part.bits // 8
        self.buffer_bytes = -(-size // LINE) * LINE
        self._only_calls = True  # a group's work is done by functions, which take most of a microsecond

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
        f.emit.is_optimized = not self._only_calls

    # --- tables ------------------------------------------------------------------------------------------------------

    def _table(self, f: Function, suffix: str, numbers: np.ndarray, element: ScalarType | None = None) -> Value:
        # Passes of the same length have the same factors.
        name = table_among(self.tables, f"{self.name}.{suffix}", numbers, element or self.part, f.emit)
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

        ends = self._ends(f, block, twist)

        def reader(stage: int, base: Index) -> Read:
            if stage or self.source_rows:
                return self.scratch.read(f, buffers[stage % 2], base)
            read = self._column_read(f, outer, start, base, mask)
            return lambda j: swapped(read(j), self.exchange.entering)

        def writer(stage: int, base: Index) -> Write:
            last = stage == len(self.stages) - 1
            if last and not self.target_rows:
                write = self._column_write(f, outer, start, base, mask)
            else:
                write = self.scratch.write(f, buffers[(stage + 1) % 2], base)
            return (lambda j, value: write(j, ends.finished(f, f.iadd(base, j), value))) if last else write

        def places(stage: int) -> Places | None:
            source: Place = buffers[stage % 2], None
            target: Place = buffers[(stage + 1) % 2], None
            if stage == 0 and not self.source_rows:
                source = self._column(f, self.source, outer, start, 0), self.width
            if stage == len(self.stages) - 1 and not self.target_rows:
                target = self._column(f, self.target, outer, start, 0), self.width
            is_masked = mask is not None and (source[1] is not None or target[1] is not None)
            return None if is_masked else (source, target, ends)

        self._pass(f, twiddles, reader, writer, places)
        if self.target_rows:
            self._rows(f, self.target, outer, start, buffers[len(self.stages) % 2], load=False)

    def _ends(self, f: Function, block: Index, twist: tuple[Value | None, Value] | None) -> Ends:
        if self.target_rows:  # the same is done where rows are written
            return Ends(self.scratch)
        base, within = twist or (None, None)
        if base is not None:
            base = f.gep(base, f.imul(block, 2 * self.n), self.part)
        scale = None if self.scale == 1.0 else f.const(self.scale, self.part)
        return Ends(self.scratch, base, within, scale, self.exchange.leaving)

    def _result(self, f: Function, value: Pair) -> Pair:
        """A result as it is written to memory."""
        return swapped(scaled(f, value, self.scale), self.exchange.leaving)

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
        places: Callable[[int], Places | None],
    ) -> None:
        """All stages; `reader` and `writer` take the number of a stage. `places` says of one that may be a function
        where its numbers are."""
        left, step = self.length, 1
        for stage, radix in enumerate(self.stages):
            left //= radix
            found = places(stage) if f.common is not None and self.length >= LEAST_SHARED else None
            if found is None:
                self._only_calls = False
                sizes, factors = (left, step), twiddles[stage]
                self.scratch.stage(f, radix, sizes, factors, partial(reader, stage), partial(writer, stage))
            else:
                self._call(f, radix, (left, step), twiddles[stage], *found)
            step *= radix

    def _call(
        self,
        f: Function,
        radix: int,
        sizes: tuple[int, int],
        factors: Value | None,
        source: Place,
        target: Place,
        ends: Ends | None,
    ) -> None:
        """A stage as a function."""
        reads, writes = (None if distance is None else self.of for _, distance in (source, target))
        if factors is not None:
            given: list[Value | None] = [factors]
            stage = Stage(self.scratch, radix, reads, writes, self.exchange.entering and reads is not None)
        else:
            assert ends is not None
            given = [ends.base, ends.within, ends.scale]
            flags = (value is not None for value in given)
            stage = Stage(self.scratch, radix, reads, writes, ends.inverse, True, *flags)
        distances = [f.index(distance) for _, distance in (source, target) if distance is not None]
        values = [value for value in given if value is not None]
        call_piece(f, stage, [source[0], target[0], *map(f.const, sizes), *distances, *values], apart=True)

    # --- arrays ------------------------------------------------------------------------------------------------------

    def _column(self, f: Function, array: Array, outer: Index, start: Index, base: Index) -> Value:
        """Address of element `base` of the group's transforms where these lie side by side."""
        element = f.iadd(f.imul(f.iadd(f.imul(outer, self.n), base), self.width), start)
        return f.gep(array.address(f, self.of), f.imul(element, 2), self.part)

    def _column_read(self, f: Function, outer: Index, start: Index, base: Index, mask: Value | None) -> Read:
        pointer = self._column(f, self.source, outer, start, base)
        return lambda j: pair(types.load(f, self.of, pointer, f.imul(j, self.width), self.lanes, mask))

    def _column_write(self, f: Function, outer: Index, start: Index, base: Index, mask: Value | None) -> Write:
        pointer = self._column(f, self.target, outer, start, base)
        return lambda j, value: types.store(f, self.of, value, pointer, f.imul(j, self.width), mask)

    def _rows(self, f: Function, array: Array, outer: Index, start: Index, buffer: Value, *, load: bool) -> None:
        """Between rows of memory and scratch, with what happens to numbers on the way."""
        first = f.imul(f.iadd(f.imul(outer, self.width), start), self.n)
        pointer = f.gep(array.address(f, self.of), f.imul(first, 2), self.part)
        is_scaled = not load and self.scale != 1.0
        rows = Rows(self.scratch, self.of, self.n, load, self.exchange[0 if load else 1], is_scaled)
        arguments = [pointer, buffer, *([f.const(self.scale, self.part)] if is_scaled else [])]
        if self.length >= LEAST_SHARED:
            call_piece(f, rows, arguments, apart=True)
        else:
            self._only_calls = False
            rows.emit(f, *arguments)
