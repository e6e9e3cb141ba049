"""Operands of the products of attention as they lie in memory: copies along the outer dimensions, in each some rows
(queries or keys) of consecutive elements (of the depth, or of the result's columns).

    keys [batch, places, heads, depth]      copies: batch x heads; rows: places, heads x depth apart; elements: 1 apart
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stablehlo_py.backends.common.attention import AttentionProgram
from stablehlo_py.backends.common.contraction import Operand
from stablehlo_py.backends.common.loops import offset, unravel, vectors
from stablehlo_py.backends.common.views import view_of
from stablehlo_py.backends.cpu.kernels.arithmetic import Arithmetic, memory_element
from stablehlo_py.backends.cpu.kernels.product import KernelBuilder
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.dialect.index_map import Digits, merge_digits
from stablehlo_py.dialect.types import i64s
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import ir

Axes = tuple[int, ...]  # dimensions of the first product


@dataclass(frozen=True)
class Rows:
    """An operand.

    Attributes:
        operand: where its first element lies; arithmetic: how elements are read.
        outer: for each of its outer dimensions, those of the first product that it goes through, and its digits.
        rows, elements: the digits along both.
    """

    operand: Operand
    arithmetic: Arithmetic
    outer: tuple[tuple[Axes, Digits], ...]
    rows: Digits
    elements: Digits

    @property
    def count(self) -> int:
        """How many rows a copy has."""
        return math.prod(int(size) for size, _ in self.rows)

    @property
    def width(self) -> int:
        """How many elements a row has."""
        return math.prod(int(size) for size, _ in self.elements)

    @property
    def copies(self) -> int:
        """How many copies differ: those along a dimension of stride 0 are one."""
        return math.prod(size for size, _ in self._distinct)

    @property
    def _distinct(self) -> list[tuple[int, int]]:
        return [(int(size), int(stride)) for _, digits in self.outer for size, stride in digits if stride]

    @property
    def row_stride(self) -> int:
        """Scalars from row to row."""
        return self._stride(self.rows)

    @property
    def stride(self) -> int:
        """Scalars from element to element."""
        return self._stride(self.elements)

    @staticmethod
    def _stride(digits: Digits) -> int:
        ((_, stride),) = digits or ((1, 0),)
        return int(stride)

    @property
    def is_strided(self) -> bool:
        """Whether one stride leads from row to row, and one from element to element."""
        return len(self.rows) <= 1 and len(self.elements) <= 1

    @property
    def is_near(self) -> bool:
        """Whether elements lie side by side, and so do rows: else they would meet in few sets of the cache."""
        return self.is_strided and self.stride == 1 and self.row_stride == self.width

    def number(self, f: Function, at: Mapping[int, Index], sizes: Sequence[int]) -> Index:
        """Which copy belongs to a place of the first product's outer dimensions, which have these sizes."""
        total: Index = 0
        for axes, digits in self.outer:
            flat: Index = 0
            for label in axes:
                flat = f.iadd(f.imul(flat, sizes[label]), at[label])
            for (size, stride), digit in zip(digits, unravel(f, flat, [size for size, _ in digits]), strict=True):
                total = f.iadd(f.imul(total, size), digit) if stride else total
        return total

    def copy(self, f: Function, number: Index) -> Value:
        """Where a copy begins."""
        digits = unravel(f, number, [size for size, _ in self._distinct])
        return self.operand.at(f, digits, [stride for _, stride in self._distinct])

    def place(self, f: Function, row: Index, element: Index) -> Index:
        """Where an element of a copy is, in scalars."""
        parts = []
        for digits, number in ((self.rows, row), (self.elements, element)):
            parts.append(offset(f, unravel(f, number, [size for size, _ in digits]), [stride for _, stride in digits]))
        return f.iadd(*parts)

    def packed(self, room: Operand, pitch: int) -> Rows:
        """The same operand, where `emit_pack` has put it: copies and rows one after the other, these so many elements
        apart."""
        step, outer = self.copies * self.count * pitch, list[tuple[Axes, Digits]]()
        for axes, digits in self.outer:
            dense = []
            for size, stride in digits:
                step //= int(size) if stride else 1
                dense.append((int(size), step if stride else 0))
            outer.append((axes, tuple(dense)))
        rows, elements = ((self.count, pitch),), ((pitch, 1),)
        return Rows(room, self.arithmetic, tuple(outer), rows, elements)

    def emit_pack(self, f: Function, row: Index, room: Operand, lanes: int, pitch: int) -> None:
        """Copy a row, numbered over all copies; behind it are zeros."""
        source = self.copy(f, f.idiv(row, self.count))
        inside = f.irem(row, self.count)
        target = room.at(f, (row,), (pitch,))
        storage = self.operand.element.storage

        def put(at: Index, count: int, mask: Value | None = None) -> None:
            start = f.gep(source, self.place(f, inside, at), storage)
            f.store(self.arithmetic.load(f, self.operand, start, 0, count, mask), target, at, mask)

        if len(self.elements) == 1 and self.stride == 1:
            vectors(f, self.width, lanes, lambda at, mask: put(at, lanes, mask))
        else:
            f.loop(0, self.width, 1, lambda at: put(at, 1))
        for at in range(self.width, pitch):
            f.store(f.const(0, self.arithmetic.accumulator), target, at)


def packed(builder: KernelBuilder, name: str, rows: Rows, lanes: int, pitch: int = 0) -> Rows:
    """An operand, copied by a phase of its own. `pitch`: elements from row to row, if these have more than they have;
    then they are zeros."""
    pitch = pitch or rows.width
    room = builder.scratch.take(rows.copies * rows.count * pitch, rows.arithmetic.element)

    def emit(f: Function) -> None:
        f.loop(f.begin, f.end, 1, lambda line: rows.emit_pack(f, line, room, lanes, pitch))

    builder.phase(f"pack_{name}", rows.copies * rows.count, rows.width / lanes + 2.0, emit)
    return rows.packed(room, pitch)


def rows_of(
    value: ir.Value, arithmetic: Arithmetic, parts: Mapping[int, Axes], side: int, inner: Sequence[int]
) -> Rows:
    """An operand as a view of an input. `parts`: the dimensions of the first product that each of its own goes through,
    of which `side` is that of the rows; `inner`: those of elements."""
    view = view_of(value, arithmetic.element)
    if view is None:
        raise InternalError("an operand of attention is no view of an input")
    digits = view.layout.dimensions
    operand = Operand(f"in{view.argument}", view.layout.offset, memory_element(view.element))
    outer = tuple(sorted((part, digits[d]) for d, part in parts.items() if part and part != (side,)))
    rows = merge_digits(tuple(digit for d, part in parts.items() if part == (side,) for digit in digits[d]))
    elements = merge_digits(tuple(digit for d in inner for digit in digits[d]))
    return Rows(operand, arithmetic, outer, rows, elements)


class Operands:
    """The queries, the keys and the columns of a program."""

    def __init__(self, program: AttentionProgram, arithmetic: Arithmetic) -> None:
        self.p, self.arithmetic = program, arithmetic
        found, first, second = program.found, program.op(program.found.first), program.op(program.found.second)
        self.queries = self._of_first(first, found.queries, self.row)
        self.keys = self._of_first(first, 1 - found.queries, self.key)
        self.columns = self._of_second(second)

    @property
    def row(self) -> int:
        """The dimension of the first product that tiles of queries go along."""
        return max(self.p.found.rows, key=lambda label: self.p.sizes[label])

    @property
    def key(self) -> int:
        """The dimension of the keys."""
        (key,) = self.p.found.keys
        return key

    def _of_first(self, op: ir.OpView, number: int, side: int) -> Rows:
        value, name = op.operands[number], ("lhs", "rhs")[number]
        batch, contract = i64s(op, f"{name}_batch"), i64s(op, f"{name}_contract")
        rank = len(ir.RankedTensorType(value.type).shape)
        free = [d for d in range(rank) if d not in batch and d not in contract]
        start = len(batch) if number == 0 else len(self.p.sizes) - len(free)
        labels = {d: position for position, d in enumerate(batch)} | {d: start + i for i, d in enumerate(free)}
        parts = {d: (label,) if self.p.sizes[label] != 1 else () for d, label in labels.items()}
        return rows_of(value, self.arithmetic, parts, side, contract)

    def _of_second(self, op: ir.OpView) -> Rows:
        found = self.p.found
        names = ("lhs", "rhs") if found.weights == 0 else ("rhs", "lhs")
        axes = found.axes[self.p.graph.nodes[found.second].producers[found.weights]]
        parts = dict[int, Axes]()
        for what in ("batch", "contract"):
            of_weights, of_columns = (i64s(op, f"{name}_{what}") for name in names)
            parts |= {c: axes[w] or () for w, c in zip(of_weights, of_columns, strict=True)}
        return rows_of(self.p.column_operand, self.arithmetic, parts, self.key, tuple(self.p.column_sizes))
