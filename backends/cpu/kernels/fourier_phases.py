"""The phases of a Fourier transform as they are made, and those around its passes: copies, scaling, chirps. All work on
contiguous runs of a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels.base import Kernel, Part, phase, phase_function
from stablehlo_py.backends.cpu.kernels.fourier import Array
from stablehlo_py.backends.cpu.kernels.fourier_stage import Exchange, multiply, pair, scaled, swapped
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.complex import Pair
from stablehlo_py.codegen.tables import table_among
from stablehlo_py.codegen.types import PARTS, element
from stablehlo_py.dialect.symint import IntLike, is_known, size_hint

CHUNK = 4096  # elements of an iteration, where there are few rows
ENOUGH_ROWS = 16
Body = Callable[[Function, Index, Index, int, Value | None], None]  # (f, row, first element, lanes, mask)


class Phases:
    """The phases of a kernel under construction.

    Attributes:
        of: the complex element type.
        lanes: lanes of a full vector of its parts.
    """

    def __init__(self, fusion: Fusion, target: CpuTarget) -> None:
        self.fusion, self.target = fusion, target
        values = (*fusion.inputs, *fusion.outputs)
        self.of = next(element(value) for value in values if element(value).is_complex)
        self.part = PARTS[self.of.name]
        self.lanes = target.lanes(self.part.bits)
        self.tables: dict[str, str] = {}
        self._parts: list[Part] = []
        self._scalars: IntLike = 0
        self._private = 0

    def kernel(self) -> Kernel:
        """The finished kernel."""
        shared = self._scalars * self.part.bytes
        return Kernel.of(*self._parts, shared_bytes=shared, private_bytes=self._private, tables=self.tables)

    def name(self, suffix: str) -> str:
        """A name that no other phase or table of the program has."""
        return f"{self.fusion.name}.{suffix}{len(self._parts)}"

    def table(self, suffix: str, numbers: np.ndarray) -> Callable[[Function], Value]:
        """Add a read-only table; the result gives its address in a function."""
        name = table_among(self.tables, self.name(suffix), numbers, self.part.storage, self.target.emitter())
        return lambda f: f.address_of(name)

    def room(self, count: IntLike) -> Array:
        """Shared scratch for complex numbers."""
        start = self._scalars
        self._scalars += -(-2 * count // 16) * 16
        return Array("shared", start)

    def phase(self, suffix: str, iterations: IntLike, cost: float, body: Callable[[Function], None]) -> Part:
        """Add a phase, and return it; `body` emits the loop over begin..end."""
        f = phase_function(self.fusion, self.target, f".{suffix}{len(self._parts)}")
        body(f)
        part = phase(f, iterations, cost)
        self.repeat(part)
        return part

    def chunk_of(self, rows: IntLike, count: IntLike) -> IntLike:
        """How many of a row's elements are an iteration: all of them where that makes enough iterations."""
        return max(count, 1) if is_known(rows, count) and rows >= ENOUGH_ROWS else CHUNK

    def repeat(self, part: Part) -> None:
        """Add a phase that is there already, once more."""
        self._parts.append(part)


def sweep(
    plan: Phases,
    suffix: str,
    rows: IntLike,
    low: int,
    high: IntLike,
    body: Body,
    lanes: int | None = None,
    *,
    in_place: bool = False,
    once: Callable[[Function, Index], None] | None = None,
) -> None:
    """A phase that does elements low <= k < high of every row, `lanes` at a time: the last ones with some before them
    once more, under a mask where there are not as many, or where `body` reads what it writes (`in_place`). `once` is
    done once a row, too."""
    lanes = lanes or plan.lanes
    size = plan.chunk_of(rows, high - low)
    chunks = max(1, -(-(high - low) // size))
    enough = isinstance(high, int) and high - low >= lanes
    even = lanes == 1 or (isinstance(high, int) and (high - low) % lanes == size % lanes == 0)

    def emit(f: Function) -> None:
        def chunk(number: Value) -> None:
            row, part = f.idiv(number, chunks), f.irem(number, chunks)
            first = f.iadd(f.imul(part, size), low)
            last = f.imin(f.iadd(first, size), high)
            if once and isinstance(part, Value):
                f.if_(f.cmp("eq", part, f.const(0)), lambda: once(f, row))
            elif once:  # a row is one chunk
                once(f, row)
            if even:
                f.loop(first, last, lanes, lambda k: body(f, row, k, lanes, None))
                return
            if enough and not in_place:
                before = f.isub(last, lanes)
                f.loop(first, last, lanes, lambda k: body(f, row, f.imin(k, before), lanes, None))
                return
            full = f.isub(last, f.irem(f.isub(last, first), lanes))
            f.loop(first, full, lanes, lambda k: body(f, row, k, lanes, None))
            mask = f.tail_mask(f.isub(last, full), lanes)
            f.if_(f.cmp("slt", f.index(full), f.index(last)), lambda: body(f, row, full, lanes, mask))

        f.loop(f.begin, f.end, 1, chunk)

    plan.phase(suffix, rows * chunks, min(size_hint(high) - low, size_hint(size)) * 0.5, emit)


def parts(numbers: np.ndarray) -> np.ndarray:
    """Complex numbers as an array of real parts and one of imaginary parts."""
    return np.concatenate([numbers.real, numbers.imag])


def table_load(f: Function, plan: Phases, base: Value, count: int, k: Index, lanes: int, mask: Value | None) -> Pair:
    """Entries k.. of a table that holds `count` real parts, then the imaginary ones."""
    real, imaginary = (types.load(f, plan.part, base, f.iadd(k, part * count), lanes, mask) for part in range(2))
    assert isinstance(real, Value)
    assert isinstance(imaginary, Value)
    return real, imaginary


def copy(plan: Phases, source: Array, target: Array, count: IntLike, scale: float) -> None:
    """target = scale * source."""

    def body(f: Function, row: Index, k: Index, lanes: int, mask: Value | None) -> None:
        value = pair(types.load(f, plan.of, source.address(f, plan.of), k, lanes, mask))
        types.store(f, plan.of, scaled(f, value, scale), target.address(f, plan.of), k, mask)

    sweep(plan, "copy", 1, 0, count, body)


# --- Bluestein's chirps ----------------------------------------------------------------------------------------------

Table = Callable[[Function], Value]


def product(plan: Phases, array: Array, table: Table, rows: IntLike, m: int) -> None:
    """Every row times the table, with its parts exchanged: an inverse transform's numbers for a forward one."""

    def body(f: Function, row: Index, k: Index, lanes: int, mask: Value | None) -> None:
        at, base = f.iadd(f.imul(row, m), k), array.address(f, plan.of)
        value = pair(types.load(f, plan.of, base, at, lanes, mask))
        value = multiply(f, value, table_load(f, plan, table(f), m, k, lanes, mask))
        types.store(f, plan.of, swapped(value), base, at, mask)

    sweep(plan, "product", rows, 0, m, body, in_place=True)


@dataclass(frozen=True)
class Chirp:
    """Between the numbers of transforms, element j of one at (o n + j) inner + i, and rows of m that begin with them,
    times the chirp."""

    plan: Phases
    table: Table
    n: int
    m: int
    outer: IntLike
    inner: IntLike
    exchange: Exchange

    def enter(self, source: Array, rows: Array) -> None:
        """n numbers times the chirp, then zeros."""
        plan, n, m = self.plan, self.n, self.m

        def body(f: Function, row: Index, k: Index, lanes: int, mask: Value | None) -> None:
            value = pair(types.load(f, plan.of, source.address(f, plan.of), self._place(f, row, k), lanes, mask))
            chirp = table_load(f, plan, self.table(f), n, k, lanes, mask)
            value = multiply(f, swapped(value, self.exchange.entering), chirp)
            types.store(f, plan.of, value, rows.address(f, plan.of), f.iadd(f.imul(row, m), k), mask)

        def rest(f: Function, row: Index, k: Index, lanes: int, mask: Value | None) -> None:
            zero = types.constant(f, plan.of, 0.0, lanes)
            types.store(f, plan.of, zero, rows.address(f, plan.of), f.iadd(f.imul(row, m), k), mask)

        self._sweep("chirp", body)
        sweep(plan, "zeros", self.outer * self.inner, n, m, rest)

    def leave(self, rows: Array, target: Array, scale: float) -> None:
        """The first n numbers of every row, with parts exchanged, times the chirp and the scale, to their place."""
        plan, n, m = self.plan, self.n, self.m

        def body(f: Function, row: Index, k: Index, lanes: int, mask: Value | None) -> None:
            value = pair(types.load(f, plan.of, rows.address(f, plan.of), f.iadd(f.imul(row, m), k), lanes, mask))
            value = multiply(f, swapped(value), table_load(f, plan, self.table(f), n, k, lanes, mask))
            value = swapped(scaled(f, value, scale), self.exchange.leaving)
            types.store(f, plan.of, value, target.address(f, plan.of), self._place(f, row, k), mask)

        self._sweep("chirped", body)

    def _sweep(self, suffix: str, body: Body) -> None:
        lanes = self.plan.lanes if self.inner == 1 else 1
        sweep(self.plan, suffix, self.outer * self.inner, 0, self.n, body, lanes)

    def _place(self, f: Function, row: Index, k: Index) -> Index:
        outer, i = f.idiv(row, self.inner), f.irem(row, self.inner)
        return f.iadd(f.imul(f.iadd(f.imul(outer, self.n), k), self.inner), i)
