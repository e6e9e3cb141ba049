"""Rows of a sort whose comparator is a known order, as records: the keys as one unsigned integer, and what moves along.

What moves is the element of a second operand, or the record's place in the row, by which the elements of all other
operands are gathered in the end. What a key says of its own operand need not move. How records are sorted is what
derives from `RecordSorter` says: by their digits (radix.py), or by partitions (quick.py).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from stablehlo_py.backends.common.comparators import (
    Key,
    compared_operands,
    key_values,
    restored,
    restored_operand,
    sort_keys,
)
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I8, I32, I64, Function, Index, ScalarType, Value, VectorType, vector
from stablehlo_py.codegen.types import Element, Lanes, element, to_bits
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.mlir import ir

LONGEST_ROW = 1 << 31  # places are i32
KEY_BITS = 64  # of a record
BLOCK = 64  # records that are made, and then counted


@dataclass(frozen=True)
class Order:
    """What moves in a sort of records.

    Attributes:
        keys: most significant first.
        restored: the operand whose elements the keys give back; None: there is none.
        classes: its values of which only one comes back: "zero", "nan".
        moved: the operand whose elements move along; None: there is none, or places move.
        gathered: operands that are gathered by the places of the records.
    """

    keys: tuple[Key, ...]
    restored: int | None
    classes: frozenset[str]
    moved: int | None
    gathered: tuple[int, ...]

    @property
    def bits(self) -> int:
        return sum(key.bits for key in self.keys)

    @property
    def carries(self) -> bool:
        """Whether anything moves along."""
        return self.moved is not None or bool(self.gathered)


def order_of(op: ir.OpView, size: IntLike) -> Order | None:
    """What moves in the sort of a row of this size; None where the comparator is no known order, or too wide."""
    keys = sort_keys(op)
    if keys is None or not is_known(size) or not 2 <= size < LONGEST_ROW:
        return None
    operand, classes = (restored_operand(keys[0]) if len(keys) == 1 else None) or (None, frozenset[str]())
    others = [number for number in range(len(op.operands)) if number != operand]
    elements = [element(op.operands[number]) for number in others]
    moved = others[0] if len(others) == 1 and elements[0].bytes <= 4 and not elements[0].is_complex else None
    order = Order(tuple(keys), operand, classes, moved, tuple(others) if moved is None else ())
    return order if order.bits <= KEY_BITS else None


def row_base(f: Function, row: Index, size: IntLike, stride: IntLike) -> Index:
    """Where the row of this number begins, of rows of `size` elements that are `stride` apart."""
    return f.iadd(f.imul(f.idiv(row, stride), size * stride), f.irem(row, stride))


def joined_keys(f: Function, op: ir.OpView, order: Order, record: Sequence[Lanes]) -> Value:
    """All keys of records of the sort's operands as one integer."""
    value, *rest = key_values(f, op, order.keys, record)
    if not rest:
        return value
    whole = I32 if order.bits <= 32 else I64
    value = f.cast("zext", value, whole)
    for key, following in zip(order.keys[1:], rest, strict=True):
        moved = f.binary("shl", value, f.const(key.bits, value.type))
        value = f.binary("or", moved, f.cast("zext", following, whole))
    return value


class RecordSorter(ABC):
    """Sorts rows of `size` records, which lie in `sources`, into `targets`. `lanes`: of vectors, for rows whose
    elements are neighbours.

    Attributes:
        counted: how many records are counted at a time, soon after they are made, a power of two; 0: none are.
        masked: the last records of a row, which fill no vector, are one under a mask. Nothing moves along then.
    """

    counted = 0
    masked = False

    def __init__(
        self,
        f: Function,
        op: ir.OpView,
        order: Order,
        size: int,
        stride: IntLike,
        pointers: Sequence[Sequence[Value]],
        lanes: int,
    ) -> None:
        self.f, self.op, self.order, self.size, self.stride = f, op, order, size, stride
        self.lanes = lanes if stride == 1 else 1
        self.sources, self.targets = pointers
        self.elements = [element(value) for value in op.operands]
        self.packed = order.carries and order.bits <= 32  # keys and what they carry are one integer
        self.apart = order.carries and not self.packed
        self.word = I32 if order.bits <= 32 and not self.packed else I64
        self.shift = 32 if self.packed else 0
        self.used = 0
        self.rooms = [self.records_room() for _ in range(self.private_rooms())]
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """What one way to sort needs besides."""

    def room(self, size: int) -> Value:
        """So many bytes of private scratch."""
        self.used += -(-size // 64) * 64
        return self.f.gep(self.f.private, self.used - -(-size // 64) * 64, I8)

    def private_rooms(self) -> int:
        """How many memories of the records of a row lie in private scratch."""
        return 2

    def records_room(self) -> list[Value]:
        """Memory for the records of a row: keys, and what moves apart from them."""
        sizes = [self.word.bits // 8, *([4] if self.apart else [])]
        return [self.room(each * self.size) for each in sizes]

    @abstractmethod
    def begin(self, base: Index) -> None:
        """What precedes the records of a row."""

    @abstractmethod
    def count(self, start: Index, many: int) -> None:
        """Count so many records, which have been made."""

    @abstractmethod
    def in_order(self) -> list[Value]:
        """Sort the records, which lie in the first of the rooms; returns where they are then."""

    def sort(self, base: Index) -> None:
        """Emit the sort of the row that begins at `base`."""
        f = self.f
        self.begin(base)
        inexact = self._records(base, self.lanes)
        columns = self.in_order()
        if inexact is None:
            self._put(columns, base, self.lanes)
            return
        differs = f.cmp("ne", inexact, f.const(0, inexact.type))
        classes = sorted(self.order.classes)

        def first() -> list[Value]:
            return [self._first(columns[0], math.nan if each == "nan" else 0.0) for each in classes]

        places = f.if_(differs, first, lambda: [f.const(0) for _ in classes], unlikely=True)
        self._put(columns, base, self.lanes)  # which may be where the records are
        f.if_(differs, lambda: self._put_classes(classes, places, base), unlikely=True)

    # --- records ---------------------------------------------------------------------------------------------------

    def _records(self, base: Index, lanes: int) -> Value | None:
        """Make all records and count their digits. Returns an integer that is zero if the keys give back every element
        of their operand exactly; None where they always do."""
        f, order = self.f, self.order
        start: list[Value] = []
        if order.restored is not None and order.classes:
            bits = self.elements[order.restored].bits
            start = [f.const(0, ScalarType(f"i{bits}", bits))]
        # Blocks and vectors end together: no code is there twice.
        together = max(lanes, self.counted)
        whole = self.size // together * together

        def vectors(low: Index, high: Index, found: Sequence[Value]) -> list[Value]:
            return f.loop(low, high, lanes, lambda i, *seen: self._make(i, base, lanes, seen), found, nonempty=True)

        def block(low: Value, *found: Value) -> list[Value]:
            high = f.iadd(low, BLOCK)
            high = f.imin(high, whole) if whole % BLOCK else high
            made = vectors(low, high, found)
            f.loop(low, high, self.counted, lambda i: self.count(i, self.counted), nonempty=True)
            return made

        def one(i: Index, *found: Value) -> list[Value]:
            made = self._make(i, base, 1, found)
            if self.counted:
                self.count(i, 1)
            return made

        wide = [f.const(0, vector(lanes, each.type.element)) for each in start]
        wide = f.loop(0, whole, BLOCK, block, wide) if self.counted else vectors(0, whole, wide)
        if self._ends_with_mask(lanes):
            wide = self._make(whole, base, lanes, wide, f.tail_mask(self.size - whole, lanes))
            return f.reduce_lanes("or", wide[0]) if start else None
        last = f.loop(whole, self.size, 1, one, start)
        return f.binary("or", f.reduce_lanes("or", wide[0]), last[0]) if start else None

    def _ends_with_mask(self, lanes: int) -> bool:
        return self.masked and lanes > 1 and self.size % lanes > 0

    def _make(
        self, i: Index, base: Index, lanes: int, found: Sequence[Value], mask: Value | None = None
    ) -> list[Value]:
        """The records from number `i` on, a vector of them, or those of its lanes that a mask has."""
        f, order = self.f, self.order
        at = f.iadd(base, f.imul(i, self.stride))
        read = compared_operands(self.op)
        record = [
            types.load(f, of, source, at, lanes, mask) if number in read else types.constant(f, of, 0, lanes)
            for number, (of, source) in enumerate(zip(self.elements, self.sources, strict=True))
        ]
        keys = joined_keys(f, self.op, order, record)
        word = f.cast("zext", keys, self.word)
        if order.carries:
            carried = self._carried(i, at, lanes)
            if self.packed:
                word = f.binary("or", f.binary("shl", word, f.const(32, word.type)), f.cast("zext", carried, I64))
            else:
                f.store(carried, self.rooms[0][1], i)
        f.store(word, self.rooms[0][0], i, mask)
        if not found:
            return []
        assert order.restored is not None
        of, given = self.elements[order.restored], record[order.restored]
        back = restored(f, self.order.keys[0], keys)
        assert isinstance(given, Value)
        assert isinstance(back, Value)
        differs = f.binary("xor", to_bits(f, of, given), to_bits(f, of, back))
        if mask is not None:
            differs = f.select(mask, differs, f.const(0, differs.type))
        return [f.binary("or", found[0], differs)]

    def _carried(self, i: Index, at: Index, lanes: int) -> Value:
        """What moves along, in 32 bits."""
        f, moved = self.f, self.order.moved
        if moved is not None:
            integer = _integer(self.elements[moved])
            return f.cast("zext", f.load(vector(lanes, integer), self.sources[moved], at), I32)
        first = f.splat(f.cast("trunc", f.index(i), I32), lanes)
        return f.binary("add", first, f.lane_ids(lanes, I32)) if lanes > 1 else first

    # --- results ---------------------------------------------------------------------------------------------------

    def _put(self, columns: Sequence[Value], base: Index, lanes: int) -> None:
        """Write the sorted row."""
        f, order = self.f, self.order

        def put(i: Index, lanes: int, mask: Value | None = None) -> None:
            at = f.iadd(base, f.imul(i, self.stride))
            word = self._load_keys(columns[0], i, lanes, mask)
            if order.restored is not None:
                key = f.binary("lshr", word, f.const(self.shift, word.type)) if self.shift else word
                value = restored(f, order.keys[0], key)
                types.store(f, self.elements[order.restored], value, self.targets[order.restored], at, mask)
            if order.moved is not None:
                carried = f.load(vector(lanes, I32), columns[1], i) if self.apart else word
                f.store(f.cast("trunc", carried, _integer(self.elements[order.moved])), self.targets[order.moved], at)

        def gather(i: Index) -> None:
            at = f.iadd(base, f.imul(i, self.stride))
            # The lower half of a packed record is what it carries.
            place = f.load(I32, columns[1], i) if self.apart else f.cast("trunc", f.load(I64, columns[0], i), I32)
            source = f.iadd(base, f.imul(f.cast("zext", place, I64), self.stride))
            for number in order.gathered:
                of = self.elements[number]
                types.store(f, of, types.load(f, of, self.sources[number], source), self.targets[number], at)

        if order.restored is not None or order.moved is not None:
            whole = self.size // lanes * lanes
            f.loop(0, whole, lanes, lambda i: put(i, lanes))
            if self._ends_with_mask(lanes):
                put(whole, lanes, f.tail_mask(self.size - whole, lanes))
            else:
                f.loop(whole, self.size, 1, lambda i: put(i, 1))
        if order.gathered:
            f.loop(0, self.size, 1, gather)

    def _load_keys(self, keys: Value, i: Index, lanes: int, mask: Value | None) -> Value:
        f = self.f
        if mask is None:
            return f.load(vector(lanes, self.word), keys, i)
        type_ = VectorType(lanes, self.word)
        return f.masked_load(type_, keys, i, mask, f.const(0, type_))

    def _put_classes(self, classes: Sequence[str], first: Sequence[Value], base: Index) -> None:
        """Write the elements that are equal but differ in bits, in the order that they came in."""
        f, number = self.f, self.order.restored
        assert number is not None
        of, source, target = self.elements[number], self.sources[number], self.targets[number]

        def element_(i: Value, *places: Value) -> list[Value]:
            value = types.load(f, of, source, f.iadd(base, f.imul(i, self.stride)))
            assert isinstance(value, Value)
            following = []
            for each, place in zip(classes, places, strict=True):
                is_one = f.cmp("uno", value, value) if each == "nan" else f.cmp("oeq", value, f.const(0.0, value.type))

                def put(place: Value = place) -> None:
                    types.store(f, of, value, target, f.iadd(base, f.imul(place, self.stride)))

                f.if_(is_one, put)
                following.append(f.binary("add", place, f.cast("zext", is_one, I64)))
            return following

        f.loop(0, self.size, 1, element_, first)

    def _first(self, words: Value, number: float) -> Value:
        """How many records precede those whose element is this number."""
        f, restored_ = self.f, self.order.restored
        record = [types.constant(f, of, number if at == restored_ else 0) for at, of in enumerate(self.elements)]
        wanted = f.cast("zext", joined_keys(f, self.op, self.order, record), self.word)

        def halve(low: Value, high: Value) -> list[Value]:
            middle = f.binary("lshr", f.binary("add", low, high), f.const(1))
            found = f.load(self.word, words, middle)
            key = f.binary("lshr", found, f.const(self.shift, self.word)) if self.shift else found
            precedes = f.cmp("ult", key, wanted)
            above = f.binary("add", middle, f.const(1))
            return [f.select(precedes, above, low), f.select(precedes, high, middle)]

        return f.while_([f.const(0), f.const(self.size)], lambda low, high: f.cmp("slt", low, high), halve)[0]


def _integer(of: Element) -> ScalarType:
    """As wide as an element in memory."""
    return ScalarType(f"i{of.storage.bits}", of.storage.bits)
