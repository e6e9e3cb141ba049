"""Shape operations as index arithmetic: the place in the result becomes a place in the operand.

Dimensions that an operation moves together stay one digit, so a broadcast over leading dimensions of a flat loop is a
remainder, and a slice of the leading dimension is a constant offset."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import I32, Value
from stablehlo_py.codegen.conversions import convert
from stablehlo_py.codegen.elemental.core import NEAR, RULES, Elemental
from stablehlo_py.codegen.index import (
    ZERO,
    Affine,
    Delinearized,
    DryRun,
    add,
    added_lanes,
    both,
    delinearize,
    digits,
    divmod_,
    linear_index,
    scalar,
    scale,
    total,
    vector_of,
)
from stablehlo_py.codegen.types import ELEMENTS, Lanes, constant, each, element, level_of, parts, select, splat
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.constants import splat as number_of
from stablehlo_py.dialect.symint import IntLike, always_at_most, always_less, is_known, maximum, minimum
from stablehlo_py.dialect.types import i64, i64s, shape, symints, user_location
from stablehlo_py.dialect.window import dilated
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir

MAX_INLINE_CONSTANT = 64
MAX_BRANCHES = 8  # pieces of a concatenate that are branched to
MAX_PIECE_OPS = 6  # that compute one of them
MIN_VECTORS = 4  # vectors that such a piece has in the mean


def runs(count: int, joined: Callable[[int], bool]) -> list[range]:
    """Ranges of dimensions; dimension d continues the run of d - 1 if joined(d)."""
    result: list[range] = []
    for dimension in range(count):
        if result and joined(dimension):
            result[-1] = range(result[-1].start, dimension + 1)
        else:
            result.append(range(dimension, dimension + 1))
    return result


def products(sizes: Sequence[IntLike], groups: Sequence[range]) -> list[IntLike]:
    """Elements of each run of dimensions."""
    return [math.prod(sizes[dimension] for dimension in group) for group in groups]


# --- rearrangements --------------------------------------------------------------------------------------------------


@RULES.rule("reshape", "copy", "stablehlo.optimization_barrier")
def _reshape(e: Elemental, op: ir.OpView, place: Delinearized) -> Lanes:
    return e.value(op.operands[0], place)


@RULES.rule("broadcast")
def _broadcast(e: Elemental, op: ir.OpView, place: Delinearized) -> Lanes:
    source = {dimension: number for number, dimension in enumerate(i64s(op, "dimensions"))}
    if not source:
        return e.value(op.operands[0], ())
    sizes = shape(op.results[0])

    def joined(dimension: int) -> bool:
        here, before = source.get(dimension, -1), source.get(dimension - 1, -1)
        return here == before + 1 if here >= 0 and before >= 0 else here == before

    groups = runs(len(sizes), joined)
    counts = products(sizes, groups)
    indices = delinearize(e.f, place, counts, e.lanes)
    kept = [
        (source[group[0]], count, index)
        for group, count, index in zip(groups, counts, indices, strict=True)
        if group[0] in source
    ]
    kept.sort(key=lambda entry: entry[0])
    return e.value(op.operands[0], digits((count, index) for _, count, index in kept))


@RULES.rule("transpose")
def _transpose(e: Elemental, op: ir.OpView, place: Delinearized) -> Lanes:
    sizes, permutation = shape(op.results[0]), i64s(op, "permutation")
    groups = runs(len(sizes), lambda dimension: permutation[dimension] == permutation[dimension - 1] + 1)
    counts = products(sizes, groups)
    indices = delinearize(e.f, place, counts, e.lanes)
    moved = sorted(zip(groups, counts, indices, strict=True), key=lambda entry: permutation[entry[0][0]])
    return e.value(op.operands[0], digits((count, index) for _, count, index in moved))


@RULES.rule("reverse")
def _reverse(e: Elemental, op: ir.OpView, place: Delinearized) -> Lanes:
    sizes, reversed_ = shape(op.results[0]), set(i64s(op, "dimensions"))
    groups = runs(len(sizes), lambda dimension: (dimension in reversed_) == (dimension - 1 in reversed_))
    counts = products(sizes, groups)
    turned = []
    for group, count, index in zip(groups, counts, delinearize(e.f, place, counts, e.lanes), strict=True):
        if group[0] in reversed_:
            index = add(e.f, scale(e.f, index, -1), count - 1)
        turned.append((count, index))
    return e.value(op.operands[0], digits(turned))


# --- windows ---------------------------------------------------------------------------------------------------------


def whole_suffix(sizes: Sequence[IntLike], whole: Callable[[int], bool], steps: Callable[[int], bool]) -> list[range]:
    """Runs in which only the first dimension may be partial: what follows it is taken whole, so the run is one range of
    memory.
    """
    return runs(len(sizes), lambda dimension: whole(dimension) and steps(dimension - 1))


def _sliced(
    e: Elemental, op: ir.OpView, place: Delinearized, starts: Sequence[Affine], strides: Sequence[IntLike]
) -> Lanes:
    """The operand at starts + place * strides."""
    source, result = shape(op.operands[0]), shape(op.results[0])
    # The dimension before a whole one must step by 1, and so must all of the run: a whole dimension always does.
    groups = whole_suffix(source, lambda d: source[d] == result[d], lambda d: strides[d] == 1)
    moved = []
    for group, index in zip(groups, delinearize(e.f, place, products(result, groups), e.lanes), strict=True):
        first, inner = group[0], math.prod(source[dimension] for dimension in group[1:])
        index = add(e.f, scale(e.f, index, strides[first]), scale(e.f, starts[first], inner))
        moved.append((source[first] * inner, index))
    return e.value(op.operands[0], digits(moved))


@RULES.rule("slice")
def _slice(e: Elemental, op: ir.OpView, place: Delinearized) -> Lanes:
    sizes = shape(op.results[0])
    strides = [1 if size == 1 else stride for size, stride in zip(sizes, symints(op, "strides"), strict=True)]
    return _sliced(e, op, place, [Affine(start) for start in symints(op, "start")], strides)


def start_indices(
    e: Elemental, values: Sequence[ir.Value], sizes: Sequence[IntLike], window: Sequence[IntLike]
) -> list[Affine]:
    """Scalar start indices, clamped so that the window fits."""
    return [
        e.index_value(value, (), 0, size - part) if size != part else Affine(0)
        for value, size, part in zip(values, sizes, window, strict=True)
    ]


@RULES.rule("dynamic_slice")
def _dynamic_slice(e: Elemental, op: ir.OpView, place: Delinearized) -> Lanes:
    source, result = shape(op.operands[0]), shape(op.results[0])
    starts = start_indices(e, list(op.operands)[1:], source, result)
    return _sliced(e, op, place, starts, [1] * len(result))


def _rows(
    e: Elemental, place: Delinearized, sizes: Sequence[IntLike], groups: Sequence[range]
) -> tuple[list[Affine], Delinearized]:
    """An index for each run of dimensions, and the last digits of `place` that are whole parts of its rows: whether a
    row is inside does not depend on these."""
    inner = math.prod(sizes[dimension] for dimension in groups[-1][1:]) if groups else 1
    count = len(place)
    part: IntLike = 1
    while count and is_known(inner, place[count - 1][0]) and inner % (part * place[count - 1][0]) == 0:
        count, part = count - 1, part * place[count - 1][0]
    counts = products(sizes, groups)
    counts[-1:] = [each // part for each in counts[-1:]]
    return delinearize(e.f, place[:count], counts, e.lanes), place[count:]


def _where_inside(
    e: Elemental,
    value: ir.Value,
    places: Iterable[tuple[IntLike, Affine, Value | None]],
    otherwise: Callable[[], Lanes],
) -> Lanes:
    """A value at (size, index, condition or None) of every digit; `otherwise` where an index is not in [0, size), or a
    condition does not hold. Where all lanes have one condition it is a branch: nothing is read in vain."""
    at: list[tuple[IntLike, Affine]] = []
    condition: Value | None = None
    predicate: Value | None = None
    branch: Value | None = None
    for size, index, first in places:
        if first is not None and first.type.lanes < e.lanes and not isinstance(e.f, DryRun):
            branch = both(e.f, branch, first)
        else:
            condition, predicate = both(e.f, condition, first), both(e.f, predicate, first)
        safe, holds, needs = e.clamped(index, size)
        # Which loops lead to what is inside says what they are split by.
        at.append((size, index if isinstance(e.f, DryRun) else safe))
        if not isinstance(holds, bool):
            condition, predicate = both(e.f, condition, holds), both(e.f, predicate, needs)
        elif not holds:
            return otherwise()

    def inside() -> Lanes:
        with e.predicated(predicate):
            return e.value(value, digits(at))

    def chosen() -> Lanes:
        return e.choose(True if condition is None else condition, inside, otherwise)

    if branch is None:
        return chosen()
    results = e.f.if_(
        branch, lambda: parts(splat(e.f, chosen(), e.lanes)), lambda: parts(splat(e.f, otherwise(), e.lanes))
    )
    return (results[0], results[1]) if len(results) > 1 else results[0]


@RULES.rule("dynamic_update_slice")
def _dynamic_update_slice(e: Elemental, op: ir.OpView, place: Delinearized) -> Lanes:
    operand, update = op.operands[0], op.operands[1]
    sizes, window = shape(operand), shape(update)
    if 0 in window:
        return e.value(operand, place)
    starts = start_indices(e, list(op.operands)[2:], sizes, window)
    groups = whole_suffix(sizes, lambda d: sizes[d] == window[d], lambda d: True)
    indices, rows = _rows(e, place, sizes, groups)

    def places() -> Iterator[tuple[IntLike, Affine, Value | None]]:
        for group, index in zip(groups, indices, strict=True):
            inner = math.prod(sizes[dimension] for dimension in group[1:])
            inner = inner // total(rows) if group is groups[-1] else inner
            start = scale(e.f, starts[group[0]], inner)
            yield window[group[0]] * inner, add(e.f, index, scale(e.f, start, -1)), None
        yield from ((size, index, None) for size, index in rows)

    return _where_inside(e, update, places(), lambda: e.value(operand, place))


@RULES.rule("pad")
def _pad(e: Elemental, op: ir.OpView, place: Delinearized) -> Lanes:
    operand, padding = op.operands[0], op.operands[1]
    sizes, result = shape(operand), shape(op.results[0])
    interior = symints(op, "interior")
    if 0 in sizes:
        return e.value(padding, ())
    # Beyond the operand's far end an edge makes no difference, but index arithmetic might leave i64.
    low = [
        minimum(maximum(edge, -dilated(size, step + 1)), extent)
        for edge, size, step, extent in zip(symints(op, "low"), sizes, interior, result, strict=True)
    ]

    def whole(d: int) -> bool:
        return sizes[d] == result[d] and low[d] == 0 and interior[d] == 0

    groups = whole_suffix(sizes, whole, lambda d: interior[d] == 0)
    indices, rows = _rows(e, place, result, groups)
    apart = int(interior[-1]) + 1 if sizes and _lies_apart(e, indices, interior[-1] + 1) else 1
    rest = ZERO  # how far the first lane is behind an element of the operand, where these are spread

    def places() -> Iterator[tuple[IntLike, Affine, Value | None]]:
        nonlocal rest
        for group, index in zip(groups, indices, strict=True):
            first, inner = group[0], math.prod(sizes[dimension] for dimension in group[1:])
            inner = inner // total(rows) if group is groups[-1] else inner
            shifted, on_grid = add(e.f, index, -low[first] * inner), None
            if apart > 1 and group is groups[-1]:
                shifted, rest = _nearest(e, shifted, apart)
            elif interior[first]:
                shifted, on_grid = grid(e, shifted, interior[first] + 1)
            yield sizes[first] * inner, shifted, on_grid
        yield from ((size, index, None) for size, index in rows)

    found = _where_inside(e, operand, places(), lambda: e.value(padding, ()))
    return found if apart == 1 else _spread(e, found, e.value(padding, ()), apart, rest)


def _lies_apart(e: Elemental, indices: Sequence[Affine], step: IntLike) -> bool:
    """Whether lanes run along a dimension with interior padding of a few elements: those of the operand, which lie side
    by side, are loaded as they are and spread."""
    *others, index = indices
    runs_along = index.contiguous and e.lanes > 1 and all(other.uniform for other in others)
    return is_known(step) and 1 < step <= NEAR and runs_along and e.predicate is None


def _nearest(e: Elemental, index: Affine, step: IntLike) -> tuple[Affine, Affine]:
    """The element of the operand at or before the first lane, followed by the next ones; how far before."""
    low, _ = index.bounds(e.lanes)
    lift = -(-maximum(-low, 0) // step)
    quotient, rest = divmod_(e.f, add(e.f, index._replace(lane=0), lift * step), step, 1)
    return add(e.f, quotient, -lift)._replace(lane=1), rest


def _spread(e: Elemental, found: Lanes, padding: Lanes, step: int, rest: Affine) -> Lanes:
    """Elements that lie side by side, with padding between them; the first one `rest` before the first lane."""
    f, lanes = e.f, e.lanes
    found, between = splat(f, found, lanes), splat(f, padding, lanes)
    behind = scalar(f, rest)
    result: Lanes | None = None
    for number in range(step):
        order = [lane // step if lane % step == 0 else lanes for lane in range(number, number + lanes)]
        moved = each(lambda a, b, order=order: f.shuffle(a, b, order), found, between)
        if not isinstance(behind, Value):
            if behind == number:
                return moved
            continue
        result = moved if result is None else _either(e, f.cmp("eq", behind, f.const(number)), moved, result)
    assert result is not None
    return result


def grid(e: Elemental, index: Affine, step: IntLike) -> tuple[Affine, Value | None]:
    """(index // step, whether index is a multiple of step and not negative) for interior padding."""
    f = e.f
    low, _ = index.bounds(e.lanes)
    # Shift by a multiple of the step that makes the dividend non-negative, divide, shift back.
    lift = -(-maximum(-low, 0) // step)
    quotient, remainder = divmod_(f, add(f, index, lift * step), step, e.lanes)
    quotient = add(f, quotient, -lift)
    if remainder.is_constant and remainder.constant == 0:
        return quotient, None
    value = f.index(scalar(f, remainder)) if remainder.uniform else vector_of(f, remainder, e.lanes)
    with f.at_level(value.level):
        return quotient, f.cmp("eq", value, f.const(0, value.type))


@RULES.rule("stablehlo.concatenate")
def _concatenate(e: Elemental, op: ir.OpView, place: Delinearized) -> Lanes:
    sizes, dimension = shape(op.results[0]), i64(op, "dimension")
    inner = math.prod(sizes[dimension + 1 :])
    outer = math.prod(sizes[:dimension])
    above, index = delinearize(e.f, place, (outer, sizes[dimension] * inner), e.lanes)
    pieces = []
    offset: IntLike = 0
    for operand in op.operands:
        count = shape(operand)[dimension] * inner
        if count:
            pieces.append((operand, count, offset))
        offset += count

    def chosen() -> Lanes:
        found: list[tuple[Value | bool, Lanes]] = []
        for number, (operand, count, start) in enumerate(pieces):
            safe, holds, predicate = e.clamped(add(e.f, index, -start), count)
            if number == len(pieces) - 1:
                holds = True
            if holds is not False:
                inside = isinstance(e.f, DryRun) and e.f.within_operands
                at = add(e.f, index, -start) if inside else safe
                with e.predicated(predicate):
                    found.append((holds, e.value(operand, digits([(outer, above), (count, at)]))))
            if holds is True:
                break
        _, result = found.pop()
        for condition, value in reversed(found):
            result = _either(e, condition, value, result)
        return result

    def whole(number: int) -> Lanes:
        operand, count, start = pieces[number]
        return e.value(operand, digits([(outer, above), (count, add(e.f, index, -start))]))

    least, most = index.bounds(e.lanes)
    for number, (_, count, start) in enumerate(pieces):
        if always_at_most(start, least) and always_less(most, start + count):
            return whole(number)
    if e.lanes > 1 and len(pieces) > 1 and not isinstance(e.f, DryRun):
        shared = _shared_piece(e, op, place, pieces)
        if shared is not None:
            return shared
    if _mostly_whole(e, op, index, pieces):
        results = _branch(e, e.f.index(scalar(e.f, index)), pieces, whole, chosen, 0)
        return (results[0], results[1]) if element(op.results[0]).is_complex else results[0]
    return chosen()


def _either(e: Elemental, condition: Value | bool, value: Lanes, other: Lanes) -> Lanes:
    return e.choose(condition, lambda: value, lambda: other)


Pieces = Sequence[tuple[ir.Value, IntLike, IntLike]]  # operand, its share of the row, where that begins


def _shared_piece(e: Elemental, op: ir.OpView, place: Delinearized, pieces: Pieces) -> Lanes | None:
    """The element where all lanes lie in one row of what is joined, and so in one piece: a branch to that. None where
    they need not."""
    f, sizes, dimension = e.f, shape(op.results[0]), i64(op, "dimension")
    groups = [range(dimension), range(dimension, len(sizes))]
    (above, index), rows = _rows(e, place, sizes, groups)
    if not rows or not index.uniform or not above.uniform:
        return None
    outer, part = math.prod(sizes[:dimension]), total(rows)
    at = f.index(scalar(f, index))

    def taken(number: int) -> list[Value]:
        operand, count, start = pieces[number]
        within = (count // part, add(f, index, -(start // part)))
        value = e.value(operand, digits([(outer, above), within, *rows]))
        return list(parts(splat(f, value, e.lanes)))

    def before(end: IntLike, number: int, others: Callable[[], list[Value]]) -> list[Value]:
        return f.if_(f.cmp("slt", at, f.index(end)), partial(taken, number), others)

    chosen = partial(taken, len(pieces) - 1)
    for number, (_, count, start) in reversed([*enumerate(pieces[:-1])]):
        chosen = partial(before, (start + count) // part, number, chosen)
    results = chosen()
    return (results[0], results[1]) if element(op.results[0]).is_complex else results[0]


def _mostly_whole(e: Elemental, op: ir.OpView, index: Affine, pieces: Pieces) -> bool:
    """Do most vectors lie within one piece, and are the pieces cheap enough to be emitted twice?"""
    cheap = len(pieces) <= MAX_BRANCHES and all(_few_ops(e, operand, MAX_PIECE_OPS) >= 0 for operand, _, _ in pieces)
    long = not always_less(sum(count for _, count, _ in pieces), MIN_VECTORS * e.lanes * len(pieces))
    return cheap and long and len(pieces) > 1 and e.lanes > 1 and index.contiguous and not isinstance(e.f, DryRun)


def _few_ops(e: Elemental, value: ir.Value, budget: int) -> int:
    """What is left of a budget of ops once the value is computed from memory; negative if they are too many."""
    if e.is_stored(value) or budget < 0:
        return budget
    budget -= 1
    for operand in value.owner.operands:
        budget = _few_ops(e, operand, budget)
    return budget


def _branch(
    e: Elemental,
    first: Value,
    pieces: Pieces,
    whole: Callable[[int], Lanes],
    mixed: Callable[[], Lanes],
    number: int,
) -> list[Value]:
    """A branch to the one piece, from `number` on, that holds all lanes, which is read without masks; `mixed` across
    borders."""
    f = e.f
    if number == len(pieces):
        return list(parts(splat(f, mixed(), e.lanes)))
    _, count, start = pieces[number]
    if always_less(count, e.lanes):
        return _branch(e, first, pieces, whole, mixed, number + 1)
    inside = f.cmp("sle", first, f.index(start + count - e.lanes))
    if number:
        inside = f.binary("and", inside, f.cmp("sge", first, f.index(start)))
    return f.if_(
        inside,
        lambda: parts(splat(f, whole(number), e.lanes)),
        lambda: _branch(e, first, pieces, whole, mixed, number + 1),
    )


# --- sources ---------------------------------------------------------------------------------------------------------


@RULES.rule("iota")
def _iota(e: Elemental, op: ir.OpView, place: Delinearized) -> Lanes:
    sizes, dimension = shape(op.results[0]), i64(op, "dimension")
    split = (math.prod(sizes[:dimension]), sizes[dimension], math.prod(sizes[dimension + 1 :]))
    index = delinearize(e.f, place, split, e.lanes)[1]
    return index_lanes(e, index, op.results[0])


def index_lanes(e: Elemental, index: Affine, like: ir.Value) -> Lanes:
    """An index as values of the element type of a tensor: a scalar where all lanes agree."""
    f, of = e.f, element(like)
    low, high = index.bounds(e.lanes)
    if index.is_constant and is_known(index.constant):
        return arith.rounded(f, of, constant(f, of, int(index.constant)))
    if not always_at_most(-(1 << 31), low) or not always_less(high, 1 << 31):
        number, source = vector_of(f, index, 1 if index.uniform else e.lanes), ELEMENTS["i64"]
    else:
        source = ELEMENTS["i32"]
        start = f.index(scalar(f, index))
        with f.at_level(max(start.level, index.level)):
            number = f.cast("trunc", start, I32)
            if not index.uniform:
                number = f.splat(number, e.lanes)
                if index.lane:
                    steps = f.const_lanes([int(index.lane * lane) for lane in range(e.lanes)], I32)
                    number = f.binary("add", number, steps)
                if index.vector is not None:
                    number = f.binary("add", number, f.cast("trunc", added_lanes(f, index), I32))
    with f.at_level(level_of(number)):
        return arith.rounded(f, of, convert(f, source, of, number))


@RULES.rule("const_size")
def _size(e: Elemental, op: ir.OpView, place: Delinearized) -> Lanes:
    sizes, index = symints(op, "value"), linear_index(e.f, place)
    if len(sizes) > 1 and not index.is_constant:
        raise UnsupportedError("has elements that are not known before the call", op=op.name)
    return index_lanes(e, Affine(sizes[index.constant]), op.results[0])


@RULES.rule("constant")
def _constant(e: Elemental, op: ir.OpView, place: Delinearized) -> Lanes:
    f, of, scalar_number = e.f, element(op.results[0]), number_of(op.results[0])
    if scalar_number is not None:  # as most are: no array is made for it
        return constant(f, of, scalar_number)
    numbers = constant_value(op)
    if not any(numbers.strides):  # a splat
        return constant(f, of, _number(numbers[(0,) * numbers.ndim]))
    numbers = numbers.reshape(-1)
    if numbers.size > MAX_INLINE_CONSTANT:
        raise UnsupportedError(
            f"a constant of {numbers.size} elements inside a fusion",
            op=op.name,
            location=user_location(op.location),
            remedy="large constants must be inputs of fusions: run constant-outlining before code generation",
        )
    index = delinearize(f, place, (numbers.size,), e.lanes)[0]
    if index.is_constant:
        return constant(f, of, _number(numbers[index.constant]))
    lanes = 1 if index.uniform else e.lanes
    places = f.index(scalar(f, index)) if lanes == 1 else vector_of(f, index, lanes)
    with f.at_level(places.level):
        result = constant(f, of, _number(numbers[0]), lanes)
        for number in range(1, numbers.size):
            here = f.cmp("eq", places, f.const(number, places.type))
            result = select(f, here, constant(f, of, _number(numbers[number]), lanes), result)
    return splat(f, result, lanes)


def _number(entry: np.generic) -> complex | float | int | bool:
    if entry.dtype.kind == "c":
        return complex(entry)
    if entry.dtype.kind == "b":
        return bool(entry)
    return int(entry) if entry.dtype.kind in "iu" or "int" in entry.dtype.name else float(entry)
