"""Small values held in registers, and how they move between them.

A value of up to SCALARS elements is a scalar per element. A larger one is packed, in row-major order, into vectors of
`WIDTH` lanes, the last one padded with anything. The width is one for all element types, so that elementwise ops pair
vectors one to one. Every data movement is a list of picks, one (value, element) per result element, and becomes
shuffles, inserts or nothing at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from stablehlo_py.backends.common.loops import tree
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.types import Element, Lanes

SCALARS = 4
WIDTH = 16


def chunk_width(elements: int) -> int:
    """Lanes of each chunk of a value with this many elements."""
    return 1 if elements <= SCALARS else WIDTH


@dataclass(frozen=True)
class Registers:
    """A value in registers: `chunks` of `chunk_width(elements)` lanes, in row-major order."""

    shape: tuple[int, ...]
    element: Element
    chunks: tuple[Lanes, ...]

    @cached_property
    def elements(self) -> int:
        return math.prod(self.shape)

    @cached_property
    def width(self) -> int:
        return chunk_width(self.elements)


def splat(f: Function, shape: tuple[int, ...], of: Element, scalar: Lanes) -> Registers:
    """One scalar everywhere."""
    elements = math.prod(shape)
    width = chunk_width(elements)
    return Registers(shape, of, (types.splat(f, scalar, width),) * -(-elements // width))


def elementwise(
    shape: tuple[int, ...], of: Element, operands: Sequence[Registers], rule: Callable[..., Lanes]
) -> Registers:
    """`rule` applied chunk by chunk; chunks that are the same objects (splats) are computed once."""
    return together(shape, of, operands, lambda rows: [rule(*row) for row in rows])


def together(
    shape: tuple[int, ...],
    of: Element,
    operands: Sequence[Registers],
    rule: Callable[[Sequence[tuple[Lanes, ...]]], Sequence[Lanes]],
) -> Registers:
    """The same by a rule for all rows of chunks that differ."""
    rows = list(zip(*(operand.chunks for operand in operands), strict=True))
    keys = [tuple(map(id, row)) for row in rows]
    different = dict(zip(keys, rows, strict=True))
    results = dict(zip(different, rule(list(different.values())), strict=True))
    return Registers(shape, of, tuple(results[key] for key in keys))


def scalar_at(f: Function, held: Registers, position: int) -> Lanes:
    """One element as a scalar."""
    chunk = held.chunks[position // held.width]
    if held.width == 1:
        return chunk
    return types.each(lambda part: f.extract(part, position % held.width), chunk)


Pick = tuple[Registers, int]


def collect(f: Function, shape: tuple[int, ...], of: Element, picks: Sequence[Pick]) -> Registers:
    """The value whose element i is element `picks[i][1]` of `picks[i][0]`."""
    width = chunk_width(len(picks))
    if width == 1:
        return Registers(shape, of, tuple(scalar_at(f, held, position) for held, position in picks))
    chunks = [_gathered(f, of, picks[start : start + width]) for start in range(0, len(picks), width)]
    return Registers(shape, of, tuple(chunks))


def _gathered(f: Function, of: Element, picks: Sequence[Pick]) -> Lanes:
    """One vector from picks of one chunk's lanes."""
    sources = list(dict.fromkeys((id(held), position // held.width) for held, position in picks))
    by_id = {id(held): held for held, _ in picks}
    chunks = [by_id[key].chunks[number] for key, number in sources]
    if len({id(chunk) for chunk in chunks}) == 1 and types.lane_count(chunks[0]) == 1:
        return types.splat(f, chunks[0], WIDTH)
    if all(types.lane_count(chunk) == 1 for chunk in chunks):
        return _inserted(f, of, [held.chunks[position] for held, position in picks])
    # Lanes come from vectors, two at a time; scalars among them are splat first.
    vectors = [types.splat(f, chunk, WIDTH) for chunk in chunks]
    wanted = [(sources.index((id(held), position // held.width)), position % held.width) for held, position in picks]
    # Any lane will do for the rest but the last one: where a register would be that lane repeated, and only its first
    # copy is stored, LLVM (torch-mlir 20261001) takes lane 0 for it in a umax of 64 bits.
    wanted += [wanted[0]] * (WIDTH - len(wanted))
    if len(vectors) == 1:
        return _shuffled(f, vectors[0], vectors[0], [lane for _, lane in wanted])
    result = _shuffled(
        f, vectors[0], vectors[1], [lane + WIDTH * source if source < 2 else 0 for source, lane in wanted]
    )
    for number in range(2, len(vectors)):
        lanes = [WIDTH + lane if source == number else i for i, (source, lane) in enumerate(wanted)]
        result = _shuffled(f, result, vectors[number], lanes)
    return result


def _shuffled(f: Function, a: Lanes, b: Lanes, lanes: list[int]) -> Lanes:
    if lanes == list(range(WIDTH)):
        return a
    return types.each(lambda left, right: f.shuffle(left, right, lanes), a, b)


def _inserted(f: Function, of: Element, scalars: Sequence[Lanes]) -> Lanes:
    """A vector from scalars; the most frequent one is splat, the others are inserted."""
    common = max(scalars, key=lambda scalar: sum(other is scalar for other in scalars))
    result = types.splat(f, common, WIDTH)
    for lane, scalar in enumerate(scalars):
        if scalar is not common:
            result = types.each(lambda into, one, lane=lane: f.insert(into, one, lane), result, scalar)
    return result


def load(f: Function, shape: tuple[int, ...], of: Element, pointer: Value, offset: Index = 0) -> Registers:
    """Consecutive elements from memory."""
    elements = math.prod(shape)
    width = chunk_width(elements)
    chunks = []
    for start in range(0, elements, width):
        rest = elements - start
        mask = f.tail_mask(rest, width) if rest < width else None
        chunks.append(types.load(f, of, pointer, f.iadd(offset, start), width, mask))
    return Registers(shape, of, tuple(chunks))


def store(f: Function, held: Registers, pointer: Value, offset: Index = 0) -> None:
    """Consecutive elements to memory."""
    for number, chunk in enumerate(held.chunks):
        start = number * held.width
        rest = held.elements - start
        mask = f.tail_mask(rest, held.width) if rest < held.width else None
        types.store(f, held.element, chunk, pointer, f.iadd(offset, start), mask)


def reduce_all(f: Function, held: Registers, start: Lanes, rule: Callable[[Lanes, Lanes], Lanes]) -> Lanes:
    """All elements and `start` combined in a fixed tree."""
    if held.width == 1:
        return tree([start, *held.chunks], rule)
    chunks = list(held.chunks)
    scalars: list[Lanes] = [start]
    first, rest = 0, held.elements % WIDTH
    last = chunks.pop() if rest else None
    while last is not None and first < rest:  # what the padded chunk holds, in pieces of 8, 4, 2 and 1 lanes
        size = 1 << (rest - first).bit_length() - 1
        scalars.append(_folded(f, last, first, size, rule))
        first += size
    if chunks:
        scalars.append(_folded(f, tree(chunks, rule), 0, WIDTH, rule))
    return tree(scalars, rule)


def _folded(f: Function, chunk: Lanes, first: int, size: int, rule: Callable[[Lanes, Lanes], Lanes]) -> Lanes:
    """`size` lanes, a power of two, from `first` on as one scalar: halves are combined, each in a vector of its own."""
    while size > 1:
        size //= 2
        low, high = _lanes(f, chunk, first, size), _lanes(f, chunk, first + size, size)
        chunk, first = rule(low, high), 0
    return chunk if types.lane_count(chunk) == 1 else _lanes(f, chunk, first, 1)


def _lanes(f: Function, chunk: Lanes, first: int, count: int) -> Lanes:
    """Neighbouring lanes of a vector."""
    if count == 1:
        return types.each(lambda part: f.extract(part, first), chunk)
    return types.each(lambda part: f.shuffle(part, part, list(range(first, first + count))), chunk)
