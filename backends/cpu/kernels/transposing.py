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
    """As many vectors as lanes, a power of two: lane j of vector i becomes lane i of vector j, by log2 steps.

    The shuffles of a step are those that processors have without a vector of lane numbers: the lower and the upper
    halves of two vectors, the even and the odd 128 bits, and of each 128 bits the lower and the upper halves,
    alternately. LLVM tries to combine all shuffles up to an opaque value, which would take most of a kernel's time.
    """
    lanes = len(rows)
    block = min(lanes, 128 // rows[0].type.bits)
    blocks = lanes // block
    current = list(rows)
    distance = block
    while distance < lanes:
        piece = lanes // 2 if distance == block else block
        current = _step(f, current, distance, [lane for lane in range(2 * lanes) if not lane & piece], piece)
        distance *= 2
    if block < lanes:
        current = [f.opaque(vector) for vector in current]
    distance = 1
    while distance < block:
        low = [
            vector * lanes + start + lane
            for start in [at + half for at in range(0, lanes, block) for half in range(0, block // 2, distance)]
            for vector in range(2)
            for lane in range(distance)
        ]
        current = _step(f, current, distance, low, block // 2)
        distance *= 2
    # The steps parted lanes by the bits of their numbers in another order than they set those of the vectors' numbers.
    bits = block.bit_length() - 1
    within = [int(f"{place:0{bits}b}"[::-1], 2) for place in range(block)]
    across = [2 * place % blocks + 2 * place // blocks for place in range(blocks)]
    return [current[across[lane // block] * block + within[lane % block]] for lane in range(lanes)]


def _step(f: Function, vectors: Sequence[Value], distance: int, low: Sequence[int], between: int) -> list[Value]:
    """Of pairs of vectors at a distance the lanes `low`, and those that are `between` further."""
    result = list(vectors)
    for i, a in enumerate(vectors):
        if not i & distance:
            b = vectors[i | distance]
            result[i], result[i | distance] = f.shuffle(a, b, low), f.shuffle(a, b, [lane + between for lane in low])
    return result


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
