"""Between rows of memory and vectors across rows: element j of several rows as the lanes of one vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I64, Function, Index, Value
from stablehlo_py.codegen.types import Element, Lanes, each
from stablehlo_py.dialect.symint import IntLike, always_at_most, always_less, is_known


def exchange_lanes(f: Function, a: Value, b: Value, distance: int) -> tuple[Value, Value]:
    """One step of a transpose: lanes with the bit `distance` set change places with their partners in the other
    vector."""
    lanes = a.type.lanes
    low = [lane if not lane & distance else lanes + (lane ^ distance) for lane in range(lanes)]
    high = [lane | distance if not lane & distance else lanes + lane for lane in range(lanes)]
    return f.shuffle(a, b, low), f.shuffle(a, b, high)


def transposed(f: Function, rows: Sequence[Value]) -> list[Value]:
    """As many vectors as lanes, a power of two: lane j of vector i becomes lane i of vector j, by log2 steps
    of shuffles (Eklundh's method: blocks off the diagonal change places, the largest first)."""
    current = list(rows)
    distance = len(rows) // 2
    while distance:
        for i in range(len(rows)):
            if not i & distance:
                current[i], current[i | distance] = exchange_lanes(f, current[i], current[i | distance], distance)
        distance //= 2
    return current


def _square(f: Function, rows: list[Lanes]) -> list[Lanes]:
    first = rows[0]
    if not isinstance(first, tuple):
        return list(transposed(f, [row for row in rows if isinstance(row, Value)]))
    parts = [transposed(f, [row[part] for row in rows if isinstance(row, tuple)]) for part in range(2)]
    return list(zip(*parts, strict=True))


def load_rows(
    f: Function, of: Element, pointer: Value, n: IntLike, lanes: int, put: Callable[[Index, Lanes], None]
) -> None:
    """put(j, vector) for every j < n, where lane l is element j of the row at pointer + l n elements."""

    def single(j: Index) -> None:
        at = f.gep(pointer, f.imul(j, of.bytes // (of.storage.bits // 8)), of.storage)
        if lanes == 1:
            put(j, types.load(f, of, at, 0))
        else:
            steps = f.binary("mul", f.lane_ids(lanes), f.splat(f.index(n), lanes)) if not is_known(n) else None
            put(j, types.gather(f, of, at, steps or f.const_lanes([int(lane * n) for lane in range(lanes)], I64)))

    def square(block: Index) -> None:
        j = f.imin(f.imul(block, lanes), n - lanes)
        columns = _square(f, [types.load(f, of, pointer, f.iadd(j, lane * n), lanes) for lane in range(lanes)])
        for lane, column in enumerate(columns):
            put(f.iadd(j, lane), column)

    _sweep(f, n, lanes, single, square)


def store_rows(f: Function, of: Element, pointer: Value, n: IntLike, lanes: int, get: Callable[[Index], Lanes]) -> None:
    """The opposite of `load_rows`: get(j) gives the vectors."""

    def single(j: Index) -> None:
        value = get(j)
        for lane in range(lanes):
            one = each(lambda part, lane=lane: f.extract(part, lane) if lanes > 1 else part, value)
            types.store(f, of, one, pointer, f.iadd(j, lane * n))

    def square(block: Index) -> None:
        j = f.imin(f.imul(block, lanes), n - lanes)
        for lane, row in enumerate(_square(f, [get(f.iadd(j, lane)) for lane in range(lanes)])):
            types.store(f, of, row, pointer, f.iadd(j, lane * n))

    _sweep(f, n, lanes, single, square)


def _sweep(
    f: Function, n: IntLike, lanes: int, single: Callable[[Index], None], square: Callable[[Index], None]
) -> None:
    """Squares that are transposed in registers, the last one overlapping; short rows element by element."""

    def singles() -> None:
        f.loop(0, n, 1, single)

    def squares() -> None:
        f.loop(0, -(-n // lanes), 1, square)

    if lanes == 1 or always_less(n, lanes):
        singles()
    elif always_at_most(lanes, n):
        squares()
    else:
        f.if_(f.cmp("slt", f.index(n), f.const(lanes)), singles, squares)
