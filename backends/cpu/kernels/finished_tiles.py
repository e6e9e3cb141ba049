"""What happens to the sums of a tile once they are complete: epilogues get them, vector by vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeGuard

from stablehlo_py.backends.common.contraction import Axis, Operand
from stablehlo_py.backends.cpu.kernels.common import fetch_lines
from stablehlo_py.codegen.builder import Function, Index, ScalarType, Value
from stablehlo_py.codegen.index import Affine, address, affine_of, linearize, scalar
from stablehlo_py.codegen.types import interleave, widen_mask

Parts = tuple[Value, ...]  # the value of an element: one vector, or real and imaginary parts


class Epilogue(Protocol):
    """What happens to finished elements."""

    @property
    def inline(self) -> bool:
        """Cheap enough to be repeated for every vector of a tile."""

    @property
    def long(self) -> bool:
        """Takes so long for a vector that loops around it do not count."""

    @property
    def reads_results(self) -> bool:
        """Whether it reads memory that it stores to, so that no element may be given to it twice."""

    @property
    def reads_elements(self) -> bool:
        """Whether it reads an element of an array for each element of the product."""

    @property
    def pure(self) -> Operand | None:
        """The one output, whose elements depend on nothing but theirs of the product; None: there is no such."""

    def store(self, f: Function, place: Sequence[Affine], value: Parts, lanes: int, mask: Value | None) -> None:
        """Consume neighbouring elements of the result; place: an index per outer axis, then m, then n (with lanes)."""

    def fetch(self, f: Function, place: Sequence[Affine], count: int) -> None:
        """Have memory ready for so many neighbouring elements of the result, which will be stored later."""


@dataclass(frozen=True)
class StoreTo:
    """Stores sums to memory, as they are: position = origin . strides of C."""

    operand: Operand
    axes: tuple[Axis, ...]
    inline: bool = True
    long: bool = False
    reads_results: bool = False
    reads_elements: bool = False

    @property
    def pure(self) -> Operand | None:
        return self.operand

    def address(self, f: Function, place: Sequence[Affine]) -> Value:
        """Of an element."""
        at = linearize(f, place, [axis.c for axis in self.axes])
        pointer, offset = address(f, f.parameters[self.operand.pointer], at, self.operand.element.storage)
        return f.gep(pointer, offset + self.operand.offset, self.operand.element.storage)

    def store(self, f: Function, place: Sequence[Affine], value: Parts, lanes: int, mask: Value | None) -> None:
        at = linearize(f, place, [axis.c for axis in self.axes])
        pointer, offset = address(f, getattr(f, self.operand.pointer), at, self.operand.element.storage, len(value))
        offset += self.operand.offset
        whole = interleave(f, *value) if len(value) == 2 else value[0]
        f.store(whole, pointer, offset, widen_mask(f, mask, len(value)) if mask else None)

    def fetch(self, f: Function, place: Sequence[Affine], count: int) -> None:
        at = f.iadd(scalar(f, linearize(f, place, [axis.c for axis in self.axes])), self.operand.offset)
        fetch_lines(f, getattr(f, self.operand.pointer), at, self.operand.element.storage, count)


def keeps_sums(epilogue: Epilogue, type_: ScalarType) -> TypeGuard[StoreTo]:
    """Whether sums of that type lie in the result as they are, in rows of neighbours."""
    return isinstance(epilogue, StoreTo) and epilogue.operand.element.storage == type_ and epilogue.axes[-1].c == 1


def each_vector(f: Function, epilogue: Epilogue, vectors: int, alike: int, emit: Callable[[Index], None]) -> None:
    """`emit(number)` for the vectors of a row: once for the first ones, which are `alike`, where that is long code."""
    looped = alike if epilogue.long else 0
    f.loop(0, looped, 1, emit)
    for number in range(looped, vectors):
        emit(number)


def emit_tile(
    f: Function,
    sums: Sequence[Value],
    vectors: int,
    epilogue: Epilogue,
    skip: Index | None,
    emit: Callable[[Affine, Index, Value], None],
    alike: int,
) -> None:
    """`emit(row, number of the vector, vector)` for the rows of a tile but the first `skip`, which another one has. So
    many vectors of a row are `alike`: stored without a mask."""
    height = len(sums) // vectors
    if skip is None and (epilogue.inline or (height == 1 and not epilogue.long)):
        for position, value in enumerate(sums):
            emit(Affine(position // vectors), position % vectors, value)
        return
    # A long epilogue is emitted once, and rows are left out: the tile goes through a buffer in the L1 cache.
    type_ = sums[0].type
    lanes, element = type_.lanes, type_.element
    buffer = f.alloca(height * vectors * lanes, element)
    for position, value in enumerate(sums):
        f.store(value, buffer, position * lanes, align=min(64, lanes * element.bits // 8))

    def row_loop(row: Index) -> None:
        def one(v: Index) -> None:
            offset = f.iadd(f.imul(row, vectors * lanes), f.imul(v, lanes))
            emit(affine_of(row, height - 1), v, f.load(type_, buffer, offset))

        each_vector(f, epilogue, vectors, alike, one)

    f.loop(skip or 0, height, 1, row_loop, nonempty=True)
