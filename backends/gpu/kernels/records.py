"""What kernels that order rows of records have in common: what a row is, where its records come from and go to, and
arrays of records in shared and scratch memory.

A record is what is moved together: an element of each operand that the comparator reads, and either an element of each
other operand or the record's first place in its row, by which the last kernel reads those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I8, I32, Function, Index, Value
from stablehlo_py.codegen.types import ELEMENTS, Element, Lanes

Record = list[Lanes]
Before = Callable[[Record, Record], Value]

PLACE = ELEMENTS["i32"]
BANKS = 32  # of shared memory, four bytes wide
ALIGNMENT = 256  # bytes, of columns in scratch memory


@dataclass(frozen=True)
class Column:
    """One part of all records: elements of the input `source`, or (None) the place in the row."""

    of: Element
    source: str | None


@dataclass(frozen=True)
class Output:
    """A result: a part of the records by number, or the elements of the input `gathered` at the places that this part
    has."""

    of: Element
    parameter: str
    column: int
    gathered: str | None = None


@dataclass(frozen=True)
class Ordering:
    """Rows to be ordered. All have `size` records, whose neighbours in memory are `stride` elements apart; the first
    `keep` of each row are results (all of them, unless the stride is 1).

    Attributes:
        before: makes, in a function, what says whether one record must precede another.
        keys: makes, in a function, the unsigned integers of a record that compare as `before` says, most significant
            first; None where there are none.
        key_bits: their widths.
    """

    fusion: Fusion
    target: GpuTarget
    rows: int
    size: int
    stride: int
    keep: int
    columns: tuple[Column, ...]
    outputs: tuple[Output, ...]
    before: Callable[[Function], Before]
    keys: Callable[[Function, Record], list[Value]] | None
    key_bits: tuple[int, ...]

    @cached_property
    def record_bytes(self) -> int:
        """Of a record."""
        return sum(column.of.bytes for column in self.columns)

    def tile(self, most: int, shared_bytes: int) -> int:
        """How many records, a power of two up to `most`, fit in so many bytes of shared memory."""
        while most and shared_places(most) * self.record_bytes > shared_bytes:
            most //= 2
        return most

    def _place(self, f: Function, row: Index, place: Index) -> Index:
        """The number of an element of the operands."""
        row, place = f.bounded(row, 0, self.rows - 1), f.bounded(place, 0, self.size - 1)
        outer, inner = f.idiv(row, self.stride), f.irem(row, self.stride)
        first = f.iadd(f.imul(outer, self.size * self.stride), inner)
        return f.iadd(first, f.imul(place, self.stride))

    def fetch(self, f: Function, row: Index, place: Index) -> Record:
        """A record of the operands."""
        at = self._place(f, row, place)
        return [
            f.cast("trunc", f.index(place), I32)
            if column.source is None
            else types.load(f, column.of, f.parameters[column.source], at)
            for column in self.columns
        ]

    def put(self, f: Function, row: Index, place: Index, record: Record) -> None:
        """Write the results of one place of a row, if there are any."""
        if self.keep == self.size:
            self._write(f, row, record, self._place(f, row, place))
            return
        at = f.iadd(f.imul(f.bounded(row, 0, self.rows - 1), self.keep), f.index(place))
        f.if_(f.cmp("slt", f.index(place), f.const(self.keep)), lambda: self._write(f, row, record, at))

    def _write(self, f: Function, row: Index, record: Record, at: Index) -> None:
        for output in self.outputs:
            part = record[output.column]
            if output.gathered is not None:
                assert isinstance(part, Value)
                source = self._place(f, row, f.cast("zext", part, f.index(0).type.element))
                part = types.load(f, output.of, f.parameters[output.gathered], source)
            types.store(f, output.of, part, f.parameters[output.parameter], at)


class Records:
    """Arrays of the parts of records."""

    def __init__(self, f: Function, columns: Sequence[Column], bases: Sequence[Value], *, skewed: bool) -> None:
        self.f, self.columns, self.bases, self.skewed = f, columns, bases, skewed

    @classmethod
    def shared(cls, f: Function, columns: Sequence[Column], count: int) -> Records:
        """In shared memory. Every 32 records leave a place free, so that threads that access records some powers of two
        apart use different banks."""
        places = shared_places(count)
        bases = [f.shared_memory(places * (2 if column.of.is_complex else 1), column.of.storage) for column in columns]
        return cls(f, columns, bases, skewed=True)

    @classmethod
    def scratch(cls, f: Function, columns: Sequence[Column], count: int, offset: Index) -> Records:
        """In scratch memory, from so many bytes on."""
        bases = []
        for column in columns:
            bases.append(f.gep(f.scratch, offset, I8))
            offset = f.iadd(offset, aligned_bytes(column.of.bytes * count))
        return cls(f, columns, bases, skewed=False)

    def load(self, at: Index) -> Record:
        """One record."""
        at = self._skew(at)
        return [types.load(self.f, each.of, base, at) for each, base in zip(self.columns, self.bases, strict=True)]

    def store(self, at: Index, record: Record) -> None:
        """Write one record."""
        at = self._skew(at)
        for column, base, part in zip(self.columns, self.bases, record, strict=True):
            types.store(self.f, column.of, part, base, at)

    def _skew(self, at: Index) -> Index:
        return self.f.iadd(at, self.f.idiv(at, BANKS)) if self.skewed else at


def shared_places(count: int) -> int:
    """Places of so many records in shared memory."""
    return count + count // BANKS


def aligned_bytes(size: int) -> int:
    """Bytes of a column in scratch memory."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def scratch_bytes(columns: Sequence[Column], count: int) -> int:
    """Of so many records in scratch memory."""
    return sum(aligned_bytes(column.of.bytes * count) for column in columns)


def chosen(f: Function, condition: Value, a: Record, b: Record) -> Record:
    """condition ? a : b."""
    return [types.select(f, condition, x, y) for x, y in zip(a, b, strict=True)]


def rows_of(sizes: Sequence[int], dimension: int) -> tuple[int, int]:
    """How many rows lie along a dimension, and how far apart their neighbours are."""
    size = sizes[dimension] if sizes else 1
    return math.prod(sizes) // (size or 1), math.prod(sizes[dimension + 1 :]) if sizes else 1
