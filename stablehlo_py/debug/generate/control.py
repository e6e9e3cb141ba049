"""Loops and branches, with families of the whole table in their regions."""

from __future__ import annotations

import numpy as np

from stablehlo_py.debug.generate.draft import Draft, NothingFits, require
from stablehlo_py.debug.generate.families import Made, family, table
from stablehlo_py.debug.ops import compared, constant, create
from stablehlo_py.mlir import MLIRError, ir

MAX_DEPTH = 2


def add_ops(d: Draft, count: int) -> list[ir.Value]:
    """Draw families until `count` have made values; those are returned, and in the pool."""
    families = table(d.kind, bool(d.depth))
    weights = np.array([each.weight for each in families])
    weights /= weights.sum()
    made: list[ir.Value] = []
    successes = 0
    for _ in range(4 * count):
        if successes == count:
            break
        chosen = families[int(d.random.choice(len(families), p=weights))]
        try:
            result = chosen.draw(d)
        except (NothingFits, MLIRError):  # or the specification forbids it; what it has made so far is dead code
            continue
        values = [result] if isinstance(result, ir.Value) else result
        successes += 1
        made += values
        d.pool += values
    return made


def inside(d: Draft, block: ir.Block, arguments: list[ir.Value], wanted: list[ir.Type], count: int) -> None:
    """Fill a block with ops; it returns values of the wanted types: late ones that fit, else new ones."""
    point, pool = d.point, d.pool
    d.point, d.pool, d.depth = ir.InsertionPoint(block), [*pool, *arguments], d.depth + 1
    try:
        add_ops(d, count)
        returned = []
        for type_ in wanted:
            fitting = [value for value in d.pool[len(pool) :] if value.type == type_]
            if fitting and d.chance(0.9):
                returned.append(fitting[-1 - d.whole(0, min(2, len(fitting)))])
            else:
                returned.append(d.argument(list(type_.shape), type_.element_type))
        d.make("return", returned, [], {})
    finally:
        d.point, d.pool, d.depth = point, pool, d.depth - 1


@family(2)
def while_(d: Draft) -> Made:
    """A counted loop over a few values; the count is known, or comes from an input."""
    require(d.depth < MAX_DEPTH)
    carried = d.values("bsufc")
    bound = d.constant(d.whole(0, 5), d.i32)
    if not d.depth and d.chance(0.3):
        bound = d.given(d.whole(0, 5), d.i32)
    values = [d.constant(0, d.i32), *carried]
    types = [value.type for value in values]
    made = d.make("while", values, types, {}, regions=2)
    condition, step = (made.regions[number].blocks.append(*types) for number in range(2))
    test = compared("LT", condition.arguments[0], bound, ir.InsertionPoint(condition))
    ir.Operation.create("stablehlo.return", operands=[test], ip=ir.InsertionPoint(condition))
    inside(d, step, list(step.arguments), types[1:], d.whole(1, 5))
    _count(step, d.i32)
    return list(made.results)[1:]


def _count(block: ir.Block, i32: ir.Type) -> None:
    """Return the first argument plus one, before what the block returns already."""
    last = list(block.operations)[-1].operation
    point = ir.InsertionPoint(last)
    following = create("add", point, block.arguments[0], constant(1, i32, point))
    ir.Operation.create("stablehlo.return", operands=[following, *last.operands], ip=point)
    last.erase()


@family(1.5)
def branches(d: Draft) -> Made:
    """`if`, or `case` with an index that may be out of range."""
    require(d.depth < MAX_DEPTH)
    shaped = d.values("bsufc")
    types = [value.type for value in shaped]
    if d.chance(0.5):
        decides, name, count = d.fresh((), ir.IntegerType.get_signless(1)), "if", 2
    else:
        decides, name, count = d.constant(d.whole(-1, 4), d.i32), "case", d.whole(1, 4)
        if not d.depth:
            decides = d.given(d.whole(-1, 4), d.i32)
    made = d.make(name, [decides], types, {}, regions=count)
    for region in made.regions:
        block = region.blocks.append()
        inside(d, block, [], types, d.whole(1, 4))
    return list(made.results)
