"""Matrix units where the machine has none, by exchanging registers: kernels for NVIDIA's units are executed so on any
OpenCL device with subgroups of 32, element for element. It is there to test them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from stablehlo_py.codegen.builder import I16, I32, I64, Function, Index, ScalarType, Value
from stablehlo_py.codegen.matrix_units import INNERS, MatrixUnit, SharedMatrix
from stablehlo_py.codegen.types import ELEMENTS, from_bits

LINE_BYTES = 128  # of a line of a SharedMatrix


def multiplied(
    f: Function,
    unit: MatrixUnit,
    thread: Index,
    left: Sequence[Sequence[Value]],
    right: Sequence[Sequence[Value]],
    sums: Sequence[Value],
) -> list[Value]:
    """`Function.matrix_multiply` of each square of rows with each one of columns, one after another: a driver takes
    minutes for kernels in which all are written out."""
    rows, columns = ([register for square in side for register in square] for side in (left, right))
    a, b, totals = (_kept(f, values) for values in (rows, columns, sums))

    def pair(number: Index) -> None:
        from_a = f.imul(f.idiv(number, len(right)), len(unit.a))
        from_b = f.imul(f.irem(number, len(right)), len(unit.b))
        first = f.imul(number, len(unit.sums))
        operands = (
            [f.load(of.type, place, f.iadd(at, register)) for register in range(count)]
            for of, place, at, count in (
                (rows[0], a, from_a, len(unit.a)),
                (columns[0], b, from_b, len(unit.b)),
                (sums[0], totals, first, len(unit.sums)),
            )
        )
        for position, total in enumerate(multiply(f, unit, thread, *operands)):
            f.store(total, totals, f.iadd(first, position))

    f.loop(0, _opaque(f, len(left) * len(right)), 1, pair)
    return [f.load(sums[0].type, totals, position) for position in range(len(sums))]


def _opaque(f: Function, count: int) -> Index:
    """A count that a driver does not know, so that it does not write out the loop: that would take it a minute."""
    return f.iadd(count, f.idiv(f.block_number(), 1 << 40))


def _kept(f: Function, values: Sequence[Value]) -> Value:
    """The address of values in memory of the thread."""
    place = f.alloca(len(values), values[0].type.element)
    for position, value in enumerate(values):
        f.store(value, place, position)
    return place


def multiply(
    f: Function, unit: MatrixUnit, thread: Index, a: Sequence[Value], b: Sequence[Value], sums: Sequence[Value]
) -> list[Value]:
    """`Function.matrix_multiply`; `thread` is the number in the subgroup."""
    outer, inner = f.idiv(thread, INNERS), f.irem(thread, INNERS)

    def add(other: Value, *totals: Value) -> list[Value]:
        results = []
        for (row, column), total in zip(unit.sums, totals, strict=True):
            for product in sorted({at for _, at in unit.a}):
                left = a[unit.a.index((row, product))]
                right = b[unit.b.index((0, product))]
                of_a = f.iadd(f.imul(outer, INNERS), other)
                of_b = f.iadd(f.imul(f.iadd(f.imul(inner, unit.sum_pack), column), INNERS), other)
                pairs = (
                    _elements(f, unit, of, _read(f, register, number))
                    for of, register, number in zip(unit.operands, (left, right), (of_a, of_b), strict=True)
                )
                for p, q in zip(*pairs, strict=True):
                    total = f.binary("add", f.binary("mul", p, q), total) if p.type == I32 else f.fma(p, q, total)
            results.append(total)
        return results

    return f.loop(0, _opaque(f, INNERS), 1, add, sums)


def warpgroup_multiply(
    f: Function, unit: MatrixUnit, thread: Index, a: SharedMatrix, b: SharedMatrix, sums: Sequence[Value]
) -> list[Value]:
    """`Function.warpgroup_multiply`; `thread` is the number in the four subgroups."""
    warp, lane = f.idiv(thread, unit.threads), f.irem(thread, unit.threads)
    outer, inner = f.idiv(lane, INNERS), f.irem(lane, INNERS)

    def add(k: Index, *totals: Value) -> list[Value]:
        left, right = unit.operands

        @cache  # a driver takes its time to compile what is written twice
        def element_of_a(row: int) -> Value:
            at = f.iadd(f.imul(warp, unit.rows), f.iadd(outer, row))
            return _shared_element(f, unit, a, left, at, k)

        @cache
        def element_of_b(column: int) -> Value:
            return _shared_element(f, unit, b, right, f.iadd(f.imul(inner, unit.sum_pack), column), k)

        results = []
        for number, total in enumerate(totals):
            block, (row, column) = number // len(unit.sums), unit.sums[number % len(unit.sums)]
            results.append(f.fma(element_of_a(row), element_of_b(unit.columns * block + column), total))
        return results

    return [_cut(f, unit, sum_) for sum_ in f.loop(0, _opaque(f, unit.depth), 1, add, sums)]


def _shared_element(f: Function, unit: MatrixUnit, matrix: SharedMatrix, of: str, row: Index, k: Index) -> Value:
    line, along = (k, row) if matrix.turned else (row, k)
    size = unit.bits // 8
    part, within = f.idiv(along, LINE_BYTES // size), f.irem(along, LINE_BYTES // size)
    groups = f.iadd(f.imul(f.idiv(line, 8), matrix.group_bytes), f.imul(f.irem(line, 8), LINE_BYTES))
    begin = f.iadd(f.imul(part, matrix.part_bytes), f.imul(matrix.offset, size))
    address = f.iadd(f.iadd(begin, groups), f.imul(within, size))
    swizzled = f.ixor(address, f.imul(f.irem(f.idiv(address, LINE_BYTES), 8), 16))
    held = ScalarType(f"i{unit.bits}", unit.bits)
    if unit.bits < 16:  # out of a word: where races are found, memory has two words for each of the narrowest accesses
        word = f.load(I32, matrix.base, f.idiv(swizzled, 4))
        by = f.cast("trunc", f.index(f.imul(f.irem(swizzled, 4), 8)), I32)
        bits = f.cast("trunc", f.binary("lshr", word, by), held)
    else:
        bits = f.load(held, matrix.base, f.idiv(swizzled, size))
    found = from_bits(f, ELEMENTS[of], bits)
    assert isinstance(found, Value)
    return found


def _cut(f: Function, unit: MatrixUnit, sum_: Value) -> Value:
    """A sum as the unit keeps it: towards zero."""
    if not unit.sum_bits:
        return sum_
    kept = f.const(-1 << (24 - unit.sum_bits), I32)
    return f.bitcast(f.binary("and", f.bitcast(sum_, I32), kept), sum_.type)


def load_matrices(
    f: Function, thread: Index, base: Value, offset: Index, count: int, *, transposed: bool
) -> list[Value]:
    """`Function.load_matrices`."""
    outer, inner = f.idiv(thread, INNERS), f.irem(thread, INNERS)
    narrow, found = f.cast("trunc", f.index(offset), I32), f.alloca(count, I32)

    def matrix(number: Index) -> None:
        rows, columns = (outer, f.imul(inner, 2))
        halves = []
        for half in range(2):
            row = f.iadd(columns, half) if transposed else rows
            column = rows if transposed else f.iadd(columns, half)
            begin = f.imul(f.cast("sext", _read(f, narrow, f.iadd(row, f.imul(number, 8))), I64), 2)
            halves.append(f.cast("zext", f.load(I16, base, f.iadd(begin, column)), I32))
        f.store(f.binary("or", halves[0], f.binary("shl", halves[1], f.const(16, I32))), found, number)

    f.loop(0, _opaque(f, count), 1, matrix)
    return [f.load(I32, found, number) for number in range(count)]


def _read(f: Function, a: Value, number: Index) -> Value:
    """`a` of the thread with that number."""
    at = f.cast("trunc", f.index(number), I32)
    if a.type.bits == 32:
        return f.subgroup_read(a, at)
    halves = [f.cast("trunc", f.binary("lshr", a, f.const(32 * half, a.type)), I32) for half in range(2)]
    low, high = (f.cast("zext", f.subgroup_read(half, at), I64) for half in halves)
    return f.binary("or", low, f.binary("shl", high, f.const(32, I64)))


def _elements(f: Function, unit: MatrixUnit, of: str, register: Value) -> list[Value]:
    """The elements of a register, in the type of the sums."""
    part = ScalarType(f"i{unit.bits}", unit.bits)
    if unit.rounded_to == "tf32":
        register = f.binary("and", register, f.const(-1 << 13, I32))
    found = list[Value]()
    for place in range(unit.pack):
        bits = f.binary("lshr", register, f.const(unit.bits * place, register.type)) if place else register
        bits = f.cast("trunc", bits, part) if unit.pack > 1 else bits
        value = f.cast("sext", bits, I32) if unit.total == "i32" else from_bits(f, ELEMENTS[of], bits)
        assert isinstance(value, Value)
        found.append(value)
    return found
