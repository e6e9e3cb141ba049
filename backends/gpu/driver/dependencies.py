"""Which steps of a program have to wait for which: the edges of its graph.

Two steps are in order where one writes a byte that the other one reads or writes. Bytes count, not values: the arena
gives the same ones to values that do not live at the same time, and all kernels have their scratch memory in one place.
Addresses are those of one call, and the order is that of every call: a result lies in memory that nothing else has, or
in a donated input, which is no other input.

A block behind a condition has an order of its own, and is one step of the block that it is in: it accesses what its
steps do. That a condition is set before it is asked for is an edge like any other: it is a byte which no memory has.
"""

from __future__ import annotations

import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from stablehlo_py.backends.gpu.driver.recording import COPY, Step
from stablehlo_py.backends.gpu.driver.structure import Block, Condition, Conditional, Setting, block_of
from stablehlo_py.runtime.accesses import Accesses

Range = tuple[int, int]  # the first byte, and the one behind the last
_CONDITIONS = 1 << 64  # the first byte that is a condition


@dataclass
class _Touched:
    """What something reads and writes. None: it is not known."""

    read: list[Range] | None = field(default_factory=list)
    written: list[Range] = field(default_factory=list)

    def add(self, other: _Touched) -> None:
        if other.read is None:
            self.read = None
        if self.read is not None and other.read is not None:
            self.read += other.read
            self.written += other.written


def dependencies(numbers: array.array[int], accesses: Sequence[Accesses | None]) -> Block:
    """The steps, with edges: for each, the numbers of those that it waits for, but for those that these wait for
    themselves.

    Args:
        numbers: the steps as native code wrote them (recording.py).
        accesses: by the number of a kernel; None: not known, the kernel is in order with all other steps.
    """
    block = block_of(numbers)
    _connect(block, numbers, accesses)
    return block


def _connect(block: Block, numbers: array.array[int], accesses: Sequence[Accesses | None]) -> _Touched:
    """Find the edges of a block. What it accesses."""
    order, everything = Order(), _Touched()
    for node in block.nodes:
        if isinstance(node, Conditional):
            touched = _connect(node.body, numbers, accesses)
            touched.add(_Touched([_place(node.condition)]))
        else:
            touched = _touched(node, numbers, accesses)
        if touched.read is None:
            order.add_unknown()
        else:
            order.add(touched.read, touched.written)
        everything.add(touched)
    block.before = order.before
    return everything


def _touched(node: Step | Setting, numbers: array.array[int], accesses: Sequence[Accesses | None]) -> _Touched:
    step = node.step if isinstance(node, Setting) else node
    operands = numbers[step.operands : step.operands + step.count]
    if isinstance(node, Setting):
        return _Touched(_ranges(operands, [step.bytes]), [_place(condition) for condition in node.conditions])
    found = _copied(step.bytes) if step.kernel == COPY else accesses[step.kernel]
    return (
        _Touched(None) if found is None else _Touched(_ranges(operands, found.read), _ranges(operands, found.written))
    )


def _place(condition: Condition) -> Range:
    return _CONDITIONS + condition.number, _CONDITIONS + condition.number + 1


def _copied(size: int) -> Accesses:
    """Of a copy, whose operands are target and source."""
    return Accesses((0, size), (size, 0))


def _ranges(operands: Iterable[int], sizes: Iterable[int]) -> list[Range]:
    return [(address, address + size) for address, size in zip(operands, sizes, strict=True)]


class Order:
    """Steps that were added one after the other, each behind those whose bytes it needs.

    Attributes:
        before: for each step, those that it waits for, the last one first.
    """

    def __init__(self) -> None:
        self.before: list[list[int]] = []
        self._ancestors: list[int] = []  # of each step, a bit for every step that has ended before it begins
        self._unknown: int | None = None  # the last step of which nothing is known
        self._forget()

    def add(self, read: Iterable[Range], written: Iterable[Range]) -> None:
        """A step that accesses these bytes."""
        number = len(self.before)
        reads, writes = ([each for each in ranges if each[0] < each[1]] for ranges in (read, written))
        last: set[int] = set()
        for begin, end in reads:
            last.update(*(self._writers[place] for place in self._places(begin, end)))
        for begin, end in writes:
            last.update(*(self._writers[place] | self._readers[place] for place in self._places(begin, end)))
        if not last and self._unknown is not None:
            last = {self._unknown}
        self._append(last)
        for begin, end in reads:
            for place in self._places(begin, end):
                self._readers[place] = self._readers[place] | {number}
        for begin, end in writes:
            places = self._places(begin, end)
            both = slice(places.start, places.stop)
            self._begins[both], self._writers[both], self._readers[both] = [begin], [frozenset({number})], [frozenset()]

    def add_unknown(self) -> None:
        """A step that may access everything: all before it have ended when it begins, all others wait for it."""
        number = len(self.before)
        self._append(range(self._unknown or 0, number))
        self._unknown = number
        self._forget()

    def _forget(self) -> None:
        """No step that was added before has to be waited for."""
        # Memory in parts: where each begins, which step wrote it last, and which ones have read it since.
        self._begins = [0]
        self._writers: list[frozenset[int]] = [frozenset()]
        self._readers: list[frozenset[int]] = [frozenset()]

    def _append(self, last: Iterable[int]) -> None:
        """A step that waits for these, and for those among them only that none of the others has waited for."""
        kept, ended = [], 0
        for number in sorted(last, reverse=True):
            if not ended >> number & 1:
                kept.append(number)
                ended |= self._ancestors[number] | 1 << number
        self.before.append(kept)
        self._ancestors.append(ended)

    def _places(self, begin: int, end: int) -> range:
        """Which parts of memory these bytes are, once parts begin where they begin and end."""
        return range(self._cut(begin), self._cut(end))

    def _cut(self, address: int) -> int:
        """The place of the part that begins at an address."""
        place = bisect_right(self._begins, address) - 1
        if self._begins[place] == address:
            return place
        self._begins.insert(place + 1, address)
        self._writers.insert(place + 1, self._writers[place])
        self._readers.insert(place + 1, self._readers[place])
        return place + 1
