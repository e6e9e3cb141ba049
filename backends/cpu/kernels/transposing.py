"""Between rows of memory and vectors across rows: element j of several rows as the lanes of one vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I64, Function, Index, ScalarType, Value, VectorType, vector
from stablehlo_py.codegen.types import Element, Lanes, each
from stablehlo_py.dialect.symint import IntLike, always_at_most, always_less, is_known


def exchange_lanes(f: Function, a: Value, b: Value, distance: int) -> tuple[Value, Value]:
    """One step of a transpose: lanes with the bit `distance` set change places with their partners in the other
    vector."""
    lanes = a.type.lanes
    low = [lane if not lane & distance else lanes + (lane ^ distance) for lane in range(lanes)]
    high = [lane | distance if not lane & distance else lanes + lane for lane in range(lanes)]
    return f.shuffle(a, b, low), f.shuffle(a, b, high)


def transposed(f: Function, rows: Sequence[Value], parts: int = 1) -> list[Value]:
    """As many vectors as units of so many lanes, a power of two: unit j of vector i becomes unit i of vector j, by log2
    steps.

    The shuffles of a step are those that processors have without a vector of lane numbers: the lower and the upper
    halves of two vectors, the even and the odd 128 bits, and of each 128 bits the lower and the upper halves,
    alternately. LLVM tries to combine all shuffles up to an opaque value, which would take most of a kernel's time.
    """
    units = len(rows)
    block = max(1, min(units, 128 // (rows[0].type.bits * parts)))
    blocks = units // block
    current = list(rows)
    distance = block
    while distance < units:
        piece = units // 2 if distance == block else block
        current = _step(f, current, distance, [unit for unit in range(2 * units) if not unit & piece], piece, parts)
        distance *= 2
    if block < units:
        current = [f.opaque(vector) for vector in current]
    # The steps parted units by the bits of their numbers in another order than they set those of the vectors' numbers.
    across = [2 * place % blocks + 2 * place // blocks for place in range(blocks)]
    turned = [_turned(f, current[place * block : (place + 1) * block], parts) for place in across]
    return [vector for some in turned for vector in some]


def _turned(f: Function, rows: Sequence[Value], parts: int = 1) -> list[Value]:
    """The transposes of the squares of which the vectors consist, each as wide as there are vectors."""
    block, units = len(rows), rows[0].type.lanes // parts
    current, distance = list(rows), 1
    while distance < block:
        low = [
            vector * units + start + unit
            for start in [at + half for at in range(0, units, block) for half in range(0, block // 2, distance)]
            for vector in range(2)
            for unit in range(distance)
        ]
        current = _step(f, current, distance, low, block // 2, parts)
        distance *= 2
    bits = block.bit_length() - 1
    return [current[int(f"{place:0{bits}b}"[::-1], 2)] for place in range(block)]


def transposed_in_memory(f: Function, row: Callable[[Index], Value], lanes: int, element: ScalarType) -> Value:
    """The address of a transposed square of more vectors than there are registers: row(number) gives them. In two
    loops: squares of 128 bits a side are transposed, then they change places."""
    block = 128 // element.bits
    between, result = (f.alloca(lanes * lanes, element) for _ in range(2))

    def turn(number: Index) -> None:
        first = f.imul(number, block)
        for line, column in enumerate(_turned(f, [row(f.iadd(first, line)) for line in range(block)])):
            f.store(column, between, f.imul(f.iadd(first, line), lanes))

    def gather(line: Index) -> None:
        places = [f.imul(f.iadd(line, number * block), lanes) for number in range(lanes // block)]
        columns = transposed(f, [f.load(VectorType(lanes, element), between, place) for place in places], block)
        for place, column in zip(places, columns, strict=True):
            f.store(column, result, place)

    f.loop(0, lanes // block, 1, turn)
    f.loop(0, block, 1, gather)
    return result


def _step(
    f: Function, vectors: Sequence[Value], distance: int, low: Sequence[int], between: int, parts: int
) -> list[Value]:
    """Of pairs of vectors at a distance the units `low`, and those that are `between` further."""
    result = list(vectors)
    lower, upper = ([(unit + by) * parts + part for unit in low for part in range(parts)] for by in (0, between))
    for i, a in enumerate(vectors):
        if not i & distance:
            b = vectors[i | distance]
            result[i], result[i | distance] = f.shuffle(a, b, lower), f.shuffle(a, b, upper)
    return result


def _quarters(f: Function, vectors: list[list[Value]]) -> list[list[Value]]:
    """The transpose of a square of complex numbers, each row a vector of its first half and one of its second."""
    half = len(vectors) // 2
    turned: list[list[Value]] = [[] for _ in vectors]
    for side in range(2):
        for rows in (vectors[:half], vectors[half:]):
            for number, column in enumerate(transposed(f, [row[side] for row in rows], 2), side * half):
                turned[number].append(f.opaque(column))
    return turned


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
        for lane, column in enumerate(_loaded(f, of, pointer, n, lanes, j)):
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
        _stored(f, of, pointer, n, j, [get(f.iadd(j, lane)) for lane in range(lanes)])

    _sweep(f, n, lanes, single, square)


def _loaded(f: Function, of: Element, pointer: Value, n: IntLike, lanes: int, j: Index) -> list[Lanes]:
    """Elements j.. of as many rows, those of an element in a vector."""
    if not of.is_complex:
        whole = [types.load(f, of, pointer, f.iadd(j, lane * n), lanes) for lane in range(lanes)]
        return list(transposed(f, [row for row in whole if isinstance(row, Value)]))
    rows = [load_halves(f, of, pointer, f.imul(f.iadd(j, lane * n), 2), lanes) for lane in range(lanes)]
    columns: list[Lanes] = [*transposed_halves(f, rows)]
    return columns


def load_halves(f: Function, of: Element, pointer: Value, at: Index, lanes: int) -> list[Value]:
    """Complex numbers from part number `at` on, half of the lanes in a vector."""
    type_ = vector(lanes, of.storage)
    return [f.load(type_, pointer, at), f.load(type_, pointer, f.iadd(at, lanes))]


def transposed_halves(f: Function, rows: list[list[Value]]) -> list[tuple[Value, Value]]:
    """As `transposed`, of rows as `load_halves` gives them; the results are real and imaginary parts."""
    lanes, columns = len(rows), _quarters(f, rows)
    return [(f.shuffle(a, b, range(0, 2 * lanes, 2)), f.shuffle(a, b, range(1, 2 * lanes, 2))) for a, b in columns]


def _stored(f: Function, of: Element, pointer: Value, n: IntLike, j: Index, columns: Sequence[Lanes]) -> None:
    """The opposite of `_loaded`."""
    lanes = len(columns)
    if not of.is_complex:
        for lane, row in enumerate(transposed(f, [column for column in columns if isinstance(column, Value)])):
            types.store(f, of, row, pointer, f.iadd(j, lane * n))
        return
    mixed = [lane // 2 + lanes * (lane % 2) for lane in range(2 * lanes)]
    pairs = [column for column in columns if isinstance(column, tuple)]
    halves = [[f.shuffle(a, b, mixed[:lanes]), f.shuffle(a, b, mixed[lanes:])] for a, b in pairs]
    for lane, sides in enumerate(_quarters(f, [[f.opaque(half) for half in column] for column in halves])):
        at = f.imul(f.iadd(j, lane * n), 2)
        for side, half in enumerate(sides):
            f.store(half, pointer, f.iadd(at, side * lanes))


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
