"""Between rows of memory and vectors across rows: element j of several rows as the lanes of one vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I64, Function, Index, ScalarType, Value, VectorType, vector
from stablehlo_py.codegen.types import Element, Lanes, each
from stablehlo_py.dialect.symint import IntLike, always_at_most, always_less, is_known

LEAST_LOOP = 4  # rows that a turn of a loop transposes


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


def half_transposed(f: Function, row: Callable[[int], Value], lanes: int) -> list[Value]:
    """Of as many rows as lanes the first half of the columns; row(number) gives the first half of a row. As
    `transposed`, but the first step is made of loads: two halves are the same instructions, and half of the code."""
    first = row(0)
    block = 128 // first.type.bits
    numbers = [line for line in range(lanes) if not line & block]
    joined = [(first if line == 0 else row(line), row(line | block)) for line in numbers]
    current = [f.shuffle(a, b, range(lanes)) for a, b in joined]
    distance = block
    while distance < len(current):
        current = _step(f, current, distance, [unit for unit in range(2 * lanes) if not unit & block], block, 1)
        distance *= 2
    current = [f.opaque(vector) for vector in current]
    return [vector for place in range(0, len(current), block) for vector in _turned(f, current[place : place + block])]


def columns_at_once(bits: int, lanes: int) -> int:
    """How many columns of rows of such elements are transposed at once: half of a square, of more than 128 bits."""
    return lanes // 2 if bits * lanes > 128 else lanes


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


def _halves_transposed(f: Function, rows: Sequence[Value]) -> list[tuple[Value, Value]]:
    """The columns of twice as many rows as a vector has complex numbers: each a vector of its first half and one of its
    second."""
    half = len(rows) // 2
    parts = ([f.opaque(column) for column in transposed(f, some, 2)] for some in (rows[:half], rows[half:]))
    return list(zip(*parts, strict=True))


def _turn_by_turn(f: Function, units: int, turn: Callable[..., list[Value]], start: Sequence[Value]) -> list[Value]:
    """Two turns, for each half of twice as many rows: turn(first row, what the turn before returned). A loop, where
    that makes the code much shorter."""
    if units < LEAST_LOOP:
        return turn(units, *turn(0, *start))
    return f.loop(0, 2 * units, units, turn, start)


def load_rows(
    f: Function, of: Element, pointer: Value, n: IntLike, lanes: int, put: Callable[[Index, int, Lanes], None]
) -> None:
    """put(j, number, vector) for every j + number < n, where lane l is that element of the row at pointer + l n
    elements."""

    def single(j: Index) -> None:
        at = f.gep(pointer, f.imul(j, of.bytes // (of.storage.bits // 8)), of.storage)
        if lanes == 1 or n == 1:  # of rows of one element, these are neighbours
            put(j, 0, types.load(f, of, at, 0, lanes))
        else:
            steps = f.binary("mul", f.lane_ids(lanes), f.splat(f.index(n), lanes)) if not is_known(n) else None
            put(j, 0, types.gather(f, of, at, steps or f.const_lanes([int(lane * n) for lane in range(lanes)], I64)))

    def columns(j: Index) -> None:
        for number, column in enumerate(_loaded(f, of, pointer, n, lanes, j)):
            put(j, number, column)

    many = lanes // 2 if of.is_complex else columns_at_once(of.storage.bits, lanes)
    _sweep(f, n, lanes, many, single, columns)


def store_rows(
    f: Function, of: Element, pointer: Value, n: IntLike, lanes: int, get: Callable[[Index, int], Lanes]
) -> None:
    """The opposite of `load_rows`: get(j, number) gives the vectors."""

    def single(j: Index) -> None:
        value = get(j, 0)
        if n == 1:
            types.store(f, of, value, pointer, 0)
            return
        for lane in range(lanes):
            one = each(lambda part, lane=lane: f.extract(part, lane) if lanes > 1 else part, value)
            types.store(f, of, one, pointer, f.iadd(j, lane * n))

    def columns(j: Index) -> None:
        _stored(f, of, pointer, n, lanes, j, [get(j, number) for number in range(many)])

    many = lanes // 2 if of.is_complex else _stored_at_once(of.storage.bits, lanes)
    _sweep(f, n, lanes, many, single, columns)


def _stored_at_once(bits: int, lanes: int) -> int:
    """How many columns of such elements are transposed at once when they are stored: 128 bits of a row, which take few
    shuffles and the least code; pairs would take more time than whole squares."""
    block = 128 // bits
    return block if 2 < block < lanes else lanes


def _loaded(f: Function, of: Element, pointer: Value, n: IntLike, lanes: int, j: Index) -> list[Lanes]:
    """Elements j.. of as many rows as lanes, those of an element in a vector."""
    if not of.is_complex:
        many, start = columns_at_once(of.storage.bits, lanes), f.gep(pointer, j, of.storage)

        def row(number: int) -> Value:
            value = types.load(f, of, start, number * n, many)
            assert isinstance(value, Value)
            return value

        return [*(half_transposed(f, row, lanes) if many < lanes else transposed(f, [*map(row, range(lanes))]))]
    units, type_ = lanes // 2, vector(lanes, of.storage)
    start = f.gep(pointer, f.imul(j, 2), of.storage)

    def turn(first: Index, *found: Value) -> list[Value]:
        here = f.gep(start, f.imul(first, 2 * n), of.storage)
        rows = [f.load(type_, here, 2 * number * n) for number in range(units)]
        return [*found[units:], *(f.opaque(column) for column in transposed(f, rows, 2))]

    nothing = f.const(0.0, type_)  # before the first turn
    found = _turn_by_turn(f, units, turn, [nothing] * lanes)
    return [*_parted(f, [*zip(found[:units], found[units:], strict=True)])]


def load_halves(f: Function, of: Element, pointer: Value, at: Index, lanes: int) -> list[Value]:
    """Complex numbers from part number `at` on, half of the lanes in a vector."""
    type_ = vector(lanes, of.storage)
    return [f.load(type_, pointer, at), f.load(type_, pointer, f.iadd(at, lanes))]


def transposed_halves(f: Function, rows: list[list[Value]]) -> list[tuple[Value, Value]]:
    """As `transposed`, of rows as `load_halves` gives them; the results are real and imaginary parts."""
    sides = (_halves_transposed(f, [row[side] for row in rows]) for side in range(2))
    return _parted(f, [column for columns in sides for column in columns])


def _parted(f: Function, columns: Sequence[tuple[Value, Value]]) -> list[tuple[Value, Value]]:
    """Real and imaginary parts of complex numbers in two vectors."""
    even, odd = (range(side, 2 * columns[0][0].type.lanes, 2) for side in range(2))
    return [(f.shuffle(a, b, even), f.shuffle(a, b, odd)) for a, b in columns]


def _stored(
    f: Function, of: Element, pointer: Value, n: IntLike, lanes: int, j: Index, columns: Sequence[Lanes]
) -> None:
    """The opposite of `_loaded`."""
    if not of.is_complex:
        start, many = f.gep(pointer, j, of.storage), len(columns)
        rows = [column for column in columns if isinstance(column, Value)]
        if many < lanes:
            pieces = [range(at, at + many) for at in range(0, lanes, many)]
            turned = _turned(f, rows)
            rows = [f.shuffle(row, row, piece) for piece in pieces for row in turned]
        else:
            rows = transposed(f, rows)
        for lane, row in enumerate(rows):
            types.store(f, of, row, start, lane * n)
        return
    units, start = lanes // 2, f.gep(pointer, f.imul(j, 2), of.storage)
    mixed = [lane // 2 + lanes * (lane % 2) for lane in range(2 * lanes)]
    pairs = [column for column in columns if isinstance(column, tuple)]
    halves = [f.opaque(f.shuffle(a, b, picked)) for picked in (mixed[:lanes], mixed[lanes:]) for a, b in pairs]

    def turn(first: Index, *left: Value) -> list[Value]:
        here = f.gep(start, f.imul(first, 2 * n), of.storage)
        for number, row in enumerate(transposed(f, left[:units], 2)):
            f.store(f.opaque(row), here, 2 * number * n)
        return [*left[units:], *left[units:]]

    _turn_by_turn(f, units, turn, halves)


def _sweep(
    f: Function, n: IntLike, lanes: int, many: int, single: Callable[[Index], None], columns: Callable[[Index], None]
) -> None:
    """So many columns that are transposed in registers, the last ones overlapping; short rows element by element."""

    def singles() -> None:
        f.loop(0, n, 1, single)

    def squares() -> None:
        f.loop(0, -(-n // many), 1, lambda block: columns(f.imin(f.imul(block, many), n - many)))

    if lanes == 1 or always_less(n, many):
        singles()
    elif always_at_most(many, n):
        squares()
    else:
        f.if_(f.cmp("slt", f.index(n), f.const(many)), singles, squares)
