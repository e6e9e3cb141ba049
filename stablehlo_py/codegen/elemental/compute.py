"""Operations of `Elemental` that read several places of their operands: gathers, small reductions and contractions,
width casts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import Function, ScalarType, Value, vector
from stablehlo_py.codegen.conversions import convert
from stablehlo_py.codegen.elemental.core import RULES, Elemental
from stablehlo_py.codegen.elemental.shape import products, runs
from stablehlo_py.codegen.index import (
    Affine,
    Delinearized,
    DryRun,
    add,
    affine,
    delinearize,
    digits,
    scalar,
    scale,
    vector_of,
)
from stablehlo_py.codegen.types import (
    Element,
    Known,
    Lanes,
    constant,
    element,
    from_bits,
    lane_count,
    parts,
    splat,
    to_bits,
)
from stablehlo_py.dialect.attributes import IN_BOUNDS
from stablehlo_py.dialect.symint import IntLike, always_at_most
from stablehlo_py.dialect.types import i64, i64s, shape, symints, text
from stablehlo_py.mlir import ir

# --- gather ----------------------------------------------------------------------------------------------------------


@RULES.rule("gather")
def _gather(e: Elemental, op: ir.OpView, place: Delinearized) -> Lanes:
    operand, starts = op.operands[0], op.operands[1]
    sizes, start_sizes, result = shape(operand), shape(starts), shape(op.results[0])
    offset_dims, collapsed = i64s(op, "offset_dims"), i64s(op, "collapsed_slice_dims")
    batching, start_batching = i64s(op, "operand_batching_dims"), i64s(op, "start_indices_batching_dims")
    index_map, vector_dim, window = i64s(op, "start_index_map"), i64(op, "index_vector_dim"), symints(op, "slice_sizes")
    batch_dims = [d for d in range(len(result)) if d not in offset_dims]
    start_dims = [d for d in range(len(start_sizes)) if d != vector_dim]
    owner = dict(zip(batch_dims, start_dims, strict=True))  # result dimension -> dimension of the start indices
    kept = [d for d in range(len(sizes)) if d not in collapsed and d not in batching]
    offsets = dict(zip(offset_dims, kept, strict=True))  # result dimension -> operand dimension

    def joined(d: int) -> bool:
        if d in owner and d - 1 in owner:
            together = owner[d] == owner[d - 1] + 1
            return together and owner[d] not in start_batching and owner[d - 1] not in start_batching
        if d in offsets and d - 1 in offsets:
            whole = window[offsets[d]] == sizes[offsets[d]] and offsets[d] not in index_map
            return whole and offsets[d] == offsets[d - 1] + 1
        return False

    groups = runs(len(result), joined)
    indices = delinearize(e.f, place, products(result, groups), e.lanes)
    by_start: dict[int, tuple[IntLike, Affine]] = {}
    by_operand: dict[int, tuple[IntLike, Affine]] = {}  # first operand dimension of a run -> (inner elements, index)
    for group, index in zip(groups, indices, strict=True):
        if group[0] in owner:
            count = math.prod(result[d] for d in group)
            by_start[owner[group[0]]] = (count, index)
        else:
            first = offsets[group[0]]
            by_operand[first] = (math.prod(sizes[offsets[d]] for d in group[1:]), index)

    def start(number: int, highest: IntLike) -> Affine:
        """Component `number` of the start index vector of this place, clamped to [0, highest]."""
        if highest == 0:
            return Affine(0)
        entries = dict(by_start)
        if vector_dim < len(start_sizes):
            entries[vector_dim] = (start_sizes[vector_dim], Affine(number))
        at = digits([entries[dimension] for dimension in sorted(entries)])
        return e.index_value(starts, at, 0, highest, in_bounds=IN_BOUNDS in op.attributes)

    merged = {offsets[d] for group in groups if group[0] in offsets for d in group[1:]}
    places: list[tuple[IntLike, Affine]] = []
    for dimension, size in enumerate(sizes):
        if dimension in merged:
            continue
        inner, index = by_operand.get(dimension, (1, Affine(0)))
        if dimension in batching:
            index = by_start[start_batching[batching.index(dimension)]][1]
        elif dimension in index_map:
            index = add(e.f, index, scale(e.f, start(index_map.index(dimension), size - window[dimension]), inner))
        places.append((size * inner, index))
    return e.value(operand, digits(places))


# --- reductions and contractions -------------------------------------------------------------------------------------


def loops(e: Elemental, counts: Sequence[IntLike], start: Lanes, body: Callable[[list[Affine], Lanes], Lanes]) -> Lanes:
    """Nested loops over `counts` with one accumulator; few iterations are unrolled."""
    f = e.f
    if not counts:
        return body([], start)
    if always_at_most(math.prod(counts), e.unrolled):
        result = start
        for number in range(math.prod(counts)):
            result = body([Affine(index) for index in _unravel(number, counts)], result)
        return result
    if isinstance(f, DryRun):
        return body([affine(f.unknown(f.index(0).type), count) for count in counts], start)
    return _nest(f, counts, [], start, body)


def _nest(
    f: Function,
    counts: Sequence[IntLike],
    indices: list[Affine],
    carried: Lanes,
    body: Callable[[list[Affine], Lanes], Lanes],
) -> Lanes:
    """Loops over the counts that come after those of `indices`."""
    if len(indices) == len(counts):
        return body(indices, carried)
    count = counts[len(indices)]

    def step(index: Value, *carry: Value) -> Sequence[Value]:
        packed = (carry[0], carry[1]) if len(carry) > 1 else carry[0]
        return parts(_nest(f, counts, [*indices, affine(index, count)], packed, body))

    results = f.loop(0, count, 1, step, parts(carried))
    return (results[0], results[1]) if len(results) > 1 else results[0]


def _unravel(number: int, counts: Sequence[IntLike]) -> Iterator[IntLike]:
    stride = math.prod(counts)
    for count in counts:
        stride //= count
        yield number // stride % count


@RULES.rule("reduce")
def _reduce(e: Elemental, op: ir.OpView, place: Delinearized) -> Lanes:
    f, operand, kind = e.f, op.operands[0], text(op, "kind")
    of = element(operand)
    sizes, reduced = shape(operand), set(i64s(op, "dimensions"))
    groups = runs(len(sizes), lambda d: (d in reduced) == (d - 1 in reduced))
    counts = products(sizes, groups)
    inner = [count for group, count in zip(groups, counts, strict=True) if group[0] in reduced]
    outer = [count for group, count in zip(groups, counts, strict=True) if group[0] not in reduced]
    kept = delinearize(f, place, outer, e.lanes)
    start = e.value(op.operands[1], ())
    if 0 in sizes:
        return start
    with e.summed(kept, start) as lanes:

        def step(indices: list[Affine], total: Lanes) -> Lanes:
            moving, fixed = iter(indices), iter(kept)
            at = [
                (count, next(moving if group[0] in reduced else fixed))
                for group, count in zip(groups, counts, strict=True)
            ]
            return e.combine(kind, of, total, splat(f, e.value(operand, digits(at)), lanes))

        return arith.rounded(f, of, loops(e, inner, splat(f, start, lanes), step))


@RULES.rule("dot")
def _dot(e: Elemental, op: ir.OpView, place: Delinearized) -> Lanes:
    f = e.f
    lhs, rhs, of = op.operands[0], op.operands[1], element(op.results[0])
    batch, contract = i64s(op, "lhs_batch"), i64s(op, "lhs_contract")
    rhs_batch, rhs_contract = i64s(op, "rhs_batch"), i64s(op, "rhs_contract")
    left_free = [d for d in range(len(shape(lhs))) if d not in batch + contract]
    right_free = [d for d in range(len(shape(rhs))) if d not in rhs_batch + rhs_contract]
    indices = delinearize(f, place, shape(op.results[0]), e.lanes)
    counts = [shape(lhs)[d] for d in contract]
    shared = len(batch)
    of_left = dict(zip((*batch, *left_free), indices, strict=False))
    of_right = dict(
        zip((*rhs_batch, *right_free), [*indices[:shared], *indices[shared + len(left_free) :]], strict=True)
    )
    with e.summed(indices) as lanes:
        if 0 in counts:
            return splat(f, arith.rounded(f, of, constant(f, of, 0)), lanes)

        def step(moving: list[Affine], total: Lanes) -> Lanes:
            left = of_left | dict(zip(contract, moving, strict=True))
            right = of_right | dict(zip(rhs_contract, moving, strict=True))
            return e.combine("add", of, total, product(e, of, ((lhs, left), (rhs, right)), lanes))

        return arith.rounded(f, of, loops(e, counts, arith.identity(f, "add", of, lanes), step))


def product(e: Elemental, of: Element, sides: Sequence[tuple[ir.Value, dict[int, Affine]]], lanes: int) -> Lanes:
    """The product of elements of two values, each with an index for every dimension, in the type `of` of their sum."""
    values = [e.value(side, digits((size, index[d]) for d, size in enumerate(shape(side)))) for side, index in sides]
    a, b = (
        splat(e.f, convert(e.f, element(side), of, value), lanes)
        for (side, _), value in zip(sides, values, strict=True)
    )
    return e.combine("multiply", of, a, b)


# --- bits ------------------------------------------------------------------------------------------------------------


@RULES.rule("bitcast_convert")
def _bitcast_convert(e: Elemental, op: ir.OpView, place: Delinearized) -> Lanes:
    source, target = element(op.operands[0]), element(op.results[0])
    wide, narrow = _width(source), _width(target)
    if wide == narrow:
        return e.elementwise(op, [e.value(op.operands[0], place)])
    return (
        _bitcast_split(e, op, place, wide // narrow) if wide > narrow else _bitcast_join(e, op, place, narrow // wide)
    )


def _width(of: Element) -> int:
    return of.bits * (2 if of.is_complex else 1)


def _bitcast_split(e: Elemental, op: ir.OpView, place: Delinearized, ratio: int) -> Lanes:
    """One element of `ratio` narrower ones: the last result dimension says which bits."""
    f, operand = e.f, op.operands[0]
    source, target = element(operand), element(op.results[0])
    count = math.prod(shape(operand))
    above, which = delinearize(f, place, (count, ratio), e.lanes)
    whole: Known = e.value(operand, digits([(count, above)]))
    if isinstance(f, DryRun):
        part: Known = splat(f, parts(whole)[0], 1)
        return (part, part) if target.is_complex else part
    lanes = lane_count(whole) if which.uniform else e.lanes
    number = f.index(scalar(f, which)) if which.uniform else vector_of(f, which, lanes)
    number = f.splat(number, lanes) if number.type.lanes != lanes else number
    pieces = [_bits(f, source, part) for part in parts(splat(f, whole, lanes))]
    if not target.is_complex:
        return _piece(f, pieces, target, number)
    number = f.binary("mul", number, f.const(2, number.type))
    return _piece(f, pieces, target, number), _piece(
        f, pieces, target, f.binary("add", number, f.const(1, number.type))
    )


def _bits(f: Function, of: Element, part: Value) -> Value:
    """Lanes, or parts of complex ones, as integers."""
    if of.is_complex:
        return f.bitcast(part, vector(part.type.lanes, ScalarType(f"i{of.bits}", of.bits)))
    return to_bits(f, of, part)


def _from_bits(f: Function, of: Element, bits: Value) -> Value:
    return f.bitcast(bits, vector(bits.type.lanes, of.compute)) if of.is_complex else from_bits(f, of, bits)


def _piece(f: Function, whole: Sequence[Value], target: Element, number: Value) -> Value:
    """The piece of this number, of as many bits as the target's (parts), from one or two integers."""
    width = whole[0].type.element
    bits, each = whole[0], width.bits // target.bits
    if len(whole) == 2:
        bits = f.select(f.cmp("uge", number, f.const(each, number.type)), whole[1], whole[0])
        number = f.binary("and", number, f.const(each - 1, number.type))
    amount = f.binary("mul", number, f.const(target.bits, number.type))
    amount = f.cast("trunc", amount, width) if width.bits < 64 else amount
    piece = f.binary("lshr", bits, amount)
    if width.bits > target.bits:
        piece = f.cast("trunc", piece, ScalarType(f"i{target.bits}", target.bits))
    return _from_bits(f, target, piece)


def _bitcast_join(e: Elemental, op: ir.OpView, place: Delinearized, ratio: int) -> Lanes:
    """One element out of the `ratio` narrower ones of the last operand dimension."""
    f, operand = e.f, op.operands[0]
    source, target = element(operand), element(op.results[0])
    count = math.prod(shape(op.results[0]))
    place = digits([(count, delinearize(f, place, (count,), e.lanes)[0])])
    values: list[Known] = [e.value(operand, (*place, (ratio, Affine(number)))) for number in range(ratio)]
    pieces = [part for value in values for part in parts(value)]
    if isinstance(f, DryRun):
        return (pieces[0], pieces[0]) if target.is_complex else pieces[0]
    if not target.is_complex:
        return _joined(f, source, target, pieces)
    half = len(pieces) // 2
    return _joined(f, source, target, pieces[:half]), _joined(f, source, target, pieces[half:])


def _joined(f: Function, source: Element, target: Element, pieces: Sequence[Value]) -> Value:
    lanes = max(lane_count(piece) for piece in pieces)
    wide = ScalarType(f"i{target.bits}", target.bits)
    total: Known = None
    for number, piece in enumerate(pieces):
        spread: Known = splat(f, piece, lanes)
        narrow = _bits(f, source, spread)
        narrow = f.cast("zext", narrow, wide) if target.bits > source.bits else narrow
        moved = f.binary("shl", narrow, f.const(number * source.bits, narrow.type)) if number else narrow
        total = moved if total is None else f.binary("or", total, moved)
    return _from_bits(f, target, total)
