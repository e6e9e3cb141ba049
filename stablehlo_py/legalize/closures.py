"""Closure conversion of the bodies of reductions, sorts and scatters: they use no value from outside.

Constants are copied into the body (`regions.isolate`); any other scalar `c` becomes one more operand of the op,
repeated to the shape of the others:

    reduce(x, init) { (a, b) -> f(a, b, c) }
    reduce(x, broadcast(c), init, c) { (a, d, b, _) -> f(a, b, d), d }

The result of that operand is not used.
"""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect import build
from stablehlo_py.dialect.attributes import SHARDING
from stablehlo_py.dialect.edit import inline_block, terminator
from stablehlo_py.dialect.regions import captured_values, replace_operands
from stablehlo_py.dialect.types import rank, shape
from stablehlo_py.legalize.regions import copyable, isolate
from stablehlo_py.legalize.rules import Results, Unsupported, block_of
from stablehlo_py.mlir import ir


def free_scalars(op: ir.OpView) -> list[ir.Value]:
    """What the regions of `op` use from outside, except for constants; each value once, in order of use. Raises
    Unsupported for what is no scalar."""
    found = [value for value in captured_values(op) if not copyable(value)]
    if any(map(rank, found)):
        raise Unsupported("uses a tensor from outside in its body", "use scalars there, or a while loop")
    return found


def closed(op: ir.OpView, *groups: int) -> Results:
    """The results that a rule answers for an op that stays StableHLO: those of the op itself, its body closed, or of
    one that has more operands, and so more results.

    `groups` are the ends of the groups of operands that get one more operand for each scalar. With two groups the body
    combines an element of each; with one it compares two elements of every operand.
    """
    scalars = free_scalars(op)
    if not scalars:
        isolate(op)
        return None
    operands: list[ir.Value] = []
    begin = 0
    for end in groups:
        sizes = shape(op.operands[end - 1])
        operands += [*list(op.operands)[begin:end], *(build.broadcast(scalar, sizes, []) for scalar in scalars)]
        begin = end
    sizes = shape(op.results[0])  # what a result of such an operand has
    types = [result.type for result in op.results]
    types += [build.tensor(sizes, scalar.type.element_type) for scalar in scalars]
    attributes = {name: op.attributes[name] for name in op.attributes if name != SHARDING}
    new = build.op(op.operation.name, types, operands, attributes, regions=1).opview
    _move_body(block_of(op), new.regions[0], scalars, combines=len(groups) > 1)
    isolate(new)
    return list(new.results)[: len(op.results)]


def _move_body(old: ir.Block, region: ir.Region, scalars: Sequence[ir.Value], combines: bool) -> None:
    """Move a body to an op that has the scalars as operands, too. It takes accumulators and elements, and what a
    scalar's operand accumulates is the scalar; or it takes pairs of elements."""
    types, more = [argument.type for argument in old.arguments], [scalar.type for scalar in scalars]
    first, count = len(types) // 2 if combines else len(types), len(scalars)
    if combines:
        block = region.blocks.append(*types[:first], *more, *types[first:], *more)
        inner = list(block.arguments)[first : first + count]
    else:
        block = region.blocks.append(*types, *(type_ for type_ in more for _ in range(2)))
        inner = list(block.arguments)[first::2]
    arguments = list(block.arguments)
    taken = arguments[:first] + (arguments[first + count : 2 * first + count] if combines else [])
    values = inline_block(old, taken, block)
    with ir.InsertionPoint(block), terminator(old).location:
        build.op("stablehlo.return", [], [*values, *(inner if combines else [])])
    for inside in block.operations:
        replace_operands(inside, dict(zip(scalars, inner, strict=True)))
