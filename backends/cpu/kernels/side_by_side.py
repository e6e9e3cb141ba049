"""Many short rows that are keys and nothing else, sorted side by side: a row is a lane of vectors, what rows have in a
place is a vector, and a network exchanges places without looking at what they hold.

The network is Batcher's: Knuth, The Art of Computer Programming, vol. 3, 5.2.2, algorithm M. It is not stable, and need
not be: equal keys are the same bits. A group in which elements differ that have one key (zeros of both signs, NaN) is
left to its caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from stablehlo_py.backends.common.comparators import key_values, restored
from stablehlo_py.backends.cpu.kernels.records import Order, row_base
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I32, I64, Function, Index, ScalarType, Value, vector
from stablehlo_py.codegen.tables import constant_table
from stablehlo_py.codegen.types import Element, Lanes, element, to_bits
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.mlir import ir

LONGEST = 256  # records of a row: vectors of them, and the exchanges, lie in near caches
EXCHANGE_NS, MOVE_NS = 1.2, 0.4  # of a group; of an element, there and back, where lanes are not neighbours


def lanes_of(order: Order, rows: IntLike, size: int, target: CpuTarget) -> int:
    """How many rows are sorted at once; 0: there are not enough of them, or they are no such rows."""
    lanes = target.lanes(_bits(order))
    if lanes == 1 or order.carries or order.restored is None or size > LONGEST or not is_known(rows):
        return 0
    return 2 * lanes if rows >= 4 * lanes else lanes if rows >= lanes else 0


def _bits(order: Order) -> int:
    """Of a key in memory."""
    return max(8, order.bits)


def exchanges(size: int) -> Iterator[tuple[int, int]]:
    """The places of which the lesser key goes to the first one, in order."""
    top = 1 << max(0, (size - 1).bit_length() - 1)
    p = top
    while p:
        q, r, d = top, 0, p
        while True:
            yield from ((i, i + d) for i in range(size - d) if i & p == r)
            if q == p:
                break
            d, q, r = q - p, q >> 1, p
        p >>= 1


def rows_of(f: Function, group: Value, lanes: int, rows: int) -> list[Index]:
    """The numbers of the rows of a group; the last group has the last row several times."""
    return [f.imin(f.iadd(f.imul(group, lanes), lane), rows - 1) for lane in range(lanes)]


def load(f: Function, of: Element, base: Value, places: Sequence[Index]) -> Value:
    """Real elements from these places: a lane each."""
    return types.decoded(f, of, f.joined([f.load(of.storage, base, place) for place in places]))


def store(f: Function, of: Element, value: Lanes, base: Value, places: Sequence[Index]) -> None:
    """Lanes to these places."""
    for lane, place in enumerate(places):
        types.store(f, of, types.each(lambda part, lane=lane: f.extract(part, lane), value), base, place)


class SideBySide:
    """Sorts groups of `lanes` rows of an op's operand. Each row has `size` elements, `stride` apart; `mixed` sorts one
    row, of a number, another way.

    Attributes:
        groups: of all rows. The last one has its last row several times.
        used: bytes of private scratch, from `scratch` on.
        cost: nanoseconds for a group.
        tables: that the kernel reads.
    """

    def __init__(
        self,
        f: Function,
        op: ir.OpView,
        order: Order,
        lanes: int,
        sizes: tuple[int, IntLike, int],
        pointers: tuple[Value, Value],
        scratch: Value,
    ) -> None:
        self.f, self.op, self.key, self.lanes = f, op, order.keys[0], lanes
        self.of, self.classes = element(op.operands[0]), order.classes
        self.size, self.stride, self.rows = sizes
        self.source, self.target = pointers
        self.scratch = scratch
        self.vector = vector(lanes, ScalarType(f"i{_bits(order)}", _bits(order)))
        self.groups = -(-self.rows // lanes)
        self.used = self.size * lanes * _bits(order) // 8
        self.neighbours = is_known(self.stride) and self.stride % lanes == 0
        network = np.array([*exchanges(self.size)], np.int64) * lanes
        self.count = len(network)
        self.tables = {f"{f.name}.network": constant_table(f"{f.name}.network", network, I32, f.emit)}
        moves = 0 if self.neighbours else MOVE_NS * lanes * self.size
        self.cost = self.size + moves + EXCHANGE_NS * self.count

    def sort(self, group: Value, mixed: Callable[[Value], None]) -> None:
        """Emit the sort of a group."""
        f, first = self.f, self.f.imul(group, self.lanes)
        rows = [first] if self.neighbours else rows_of(f, group, self.lanes, self.rows)
        bases = [row_base(f, row, self.size, self.stride) for row in rows]
        differs = self._read(bases)

        def exchanged() -> None:
            f.loop(0, self.count, 1, self._exchange)
            f.loop(0, self.size, 1, lambda place: self._write(bases, place))

        if differs is None:
            exchanged()
            return
        last = f.imin(f.iadd(first, self.lanes), self.rows)
        f.if_(differs, lambda: f.loop(first, last, 1, mixed), exchanged, unlikely=True)

    def _places(self, bases: list[Index], place: Value) -> list[Index]:
        return [self.f.iadd(base, self.f.imul(place, self.stride)) for base in bases]

    def _read(self, bases: list[Index]) -> Value | None:
        """Make the keys of all places. Whether some do not give back their elements; None: all do."""
        f = self.f

        def one(place: Value, *found: Value) -> list[Value]:
            at = self._places(bases, place)
            near = self.neighbours
            given = (
                types.load(f, self.of, self.source, at[0], self.lanes) if near else load(f, self.of, self.source, at)
            )
            (keys,) = key_values(f, self.op, [self.key], [given])
            f.store(keys, self.scratch, f.imul(place, self.lanes))
            if not found:
                return []
            back = restored(f, self.key, keys)
            assert isinstance(given, Value)
            assert isinstance(back, Value)
            return [f.binary("or", found[0], f.binary("xor", to_bits(f, self.of, given), to_bits(f, self.of, back)))]

        if not self.classes:
            f.loop(0, self.size, 1, one)
            return None
        none = f.const(0, vector(self.lanes, ScalarType(f"i{self.of.bits}", self.of.bits)))
        (found,) = f.loop(0, self.size, 1, one, [none])
        different = f.reduce_lanes("or", found)
        return f.cmp("ne", different, f.const(0, different.type))

    def _exchange(self, number: Value) -> None:
        f = self.f
        table = f.gep(f.address_of(f"{f.name}.network"), f.imul(number, 2), I32)
        low, high = (f.cast("zext", f.load(I32, table, part), I64) for part in (0, 1))
        one, other = (f.load(self.vector, self.scratch, at) for at in (low, high))
        f.store(f.intrinsic("umin", one, other), self.scratch, low)
        f.store(f.intrinsic("umax", one, other), self.scratch, high)

    def _write(self, bases: list[Index], place: Value) -> None:
        f, at = self.f, self._places(bases, place)
        value = restored(f, self.key, f.load(self.vector, self.scratch, f.imul(place, self.lanes)))
        if self.neighbours:
            types.store(f, self.of, value, self.target, at[0])
        else:
            store(f, self.of, value, self.target, at)
