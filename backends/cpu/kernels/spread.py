"""Rows of few columns that are computed as they lie in memory, many rows a vector: what is the same for all columns, or
for all rows, is spread to its lanes by shuffles.

    normalized = (pixels - mean) * factors[:, None]    # of [rows, 3], [3] and [rows]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import ZERO, Affine, Delinearized, add, affine_of, linear_index, same, scale
from stablehlo_py.codegen.types import Lanes, element, level_of, parts, splat
from stablehlo_py.dialect.ops import Work, record_of
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import i64s, num_elements, shape
from stablehlo_py.mlir import ir

MOST_VECTORS = 12  # of what is the same for all rows: they stay in registers


def spread_over(fusion: Fusion, columns: int) -> list[ir.Value]:
    """Broadcasts of a fusion each of which goes over rows of so many columns, or over all rows; [] where anything else
    lies otherwise than in the result, or nothing lies as there."""
    found: dict[ir.Value, None] = {}
    seen: set[ir.Value] = set()
    pending = list(fusion.outputs)
    count = num_elements(fusion.outputs[0])
    lies_so = False
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if element(value).is_complex or num_elements(value) not in (1, count):
            return []
        if value in fusion.inputs:
            lies_so = lies_so or num_elements(value) == count
            continue
        op = value.owner
        if op.name == "hlo.broadcast" and i64s(op, "dimensions"):
            if not _is_spread(value, columns):
                return []
            found[value] = None
        elif op.name in ("hlo.constant", "hlo.reshape", "hlo.broadcast") or _is_elementwise(op):
            pending += op.operands
        else:
            return []
    over_rows = [value for value in found if not over_columns(value, columns)]
    return list(found) if lies_so and len(over_rows) * columns <= MOST_VECTORS else []


def _is_elementwise(op: ir.OpView) -> bool:
    record = record_of(op.name)
    return record is not None and record.work is Work.ELEMENTS


def _first_column(sizes: Sequence[IntLike], columns: int) -> int | None:
    """The dimension from which on the others are so many columns."""
    return next((first for first in range(len(sizes)) if math.prod(sizes[first:]) == columns), None)


def _is_spread(value: ir.Value, columns: int) -> bool:
    first = _first_column(shape(value), columns)
    if first is None:
        return False
    sides = {dimension < first for dimension in i64s(value.owner, "dimensions") if shape(value)[dimension] != 1}
    return len(sides) == 1


def over_columns(value: ir.Value, columns: int) -> bool:
    """Whether such a broadcast is the same for all columns, not for all rows."""
    first = _first_column(shape(value), columns)
    assert first is not None
    return any(dimension < first and shape(value)[dimension] != 1 for dimension in i64s(value.owner, "dimensions"))


def write_rows(
    e: Elemental, fusion: Fusion, place: Delinearized, sizes: tuple[int, int], spread: Sequence[ir.Value]
) -> None:
    """As many rows as there are lanes, which are rows at `place`; `sizes`: all rows, and columns."""
    f, (rows, columns) = e.f, sizes
    first = scale(f, linear_index(f, place)._replace(lane=0), columns)
    one = Elemental(f, fusion, e.target, 1)
    for number in range(columns):
        flat = add(f, first, number * e.lanes)._replace(lane=1)
        whole = Elemental(f, fusion, e.target, e.lanes)
        for value in spread:
            domain = (e, place) if over_columns(value, columns) else (one, ((rows, ZERO),))
            whole.bind(value, partial(_spread, value, *domain, columns, number, flat))
        whole.write_outputs(fusion.outputs, ((rows * columns, flat),))


def _spread(
    value: ir.Value,
    of: Elemental,
    place: Delinearized,
    columns: int,
    number: int,
    flat: Affine,
    e: Elemental,
    at: Delinearized,
) -> Lanes | None:
    """The `number`-th vector of a broadcast, which is `flat`: of what `of` computes at a place of its rows."""
    f, lanes = e.f, e.lanes
    if not same(f, linear_index(f, at), flat):
        return None
    numbers = range(number * lanes, (number + 1) * lanes)
    if of.lanes > 1:
        (found,) = parts(splat(f, of.value(value, (*place, (columns, ZERO))), lanes))
        with f.at_level(found.level):
            return f.shuffle(found, found, [lane // columns for lane in numbers])
    places = [(*place, (columns, affine_of(column, columns - 1))) for column in range(columns)]
    row = [part for each in places for part in parts(of.value(value, each))]
    with f.at_level(level_of(*row)):
        return f.joined([row[lane % columns] for lane in numbers])
