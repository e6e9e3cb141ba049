"""Values from outside that the bodies of reductions, sorts and scatters use.

The normal form has no such values. Constants are copied into the body (`regions.isolate`); any other scalar `c` becomes
one more operand of the op, repeated to the shape of the others, whose every element is `c`:

    reduce(x, init) { (a, b) -> f(a, b, c) }
    reduce(x, broadcast(c), init, c) { (a, d, b, _) -> f(a, b, d), d }

The result of that operand is not used.
"""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect import build
from stablehlo_py.dialect.attributes import SHARDING
from stablehlo_py.dialect.types import rank, shape
from stablehlo_py.legalize.regions import copyable, isolate
from stablehlo_py.legalize.rules import Results, Unsupported, block_of, terminator
from stablehlo_py.mlir import ir


def captured(op: ir.OpView) -> list[ir.Value]:
    """What the regions of `op` use from outside, except for constants; each value once, in order of use. Raises
    Unsupported for what is no scalar."""
    found: dict[ir.Value, None] = {}
    for region in op.regions:
        for block in region.blocks:
            _collect(block, set(), found)
    for value in found:
        if rank(value):
            raise Unsupported("uses a tensor from outside in its body", "use scalars there, or a while loop")
    return list(found)


def kept(op: ir.OpView, closed: ir.OpView) -> Results:
    """The results that a rule answers for an op that stays StableHLO, or that `closed` stands for now."""
    isolate(closed)
    return None if closed is op else list(closed.results)[: len(op.results)]


def _collect(block: ir.Block, inside: set[ir.Value], found: dict[ir.Value, None]) -> None:
    inside.update(block.arguments)
    for op in block.operations:
        operation = op.operation
        found.update(dict.fromkeys(v for v in operation.operands if v not in inside and not copyable(v)))
        inside.update(operation.results)
        for region in operation.regions:
            for nested in region.blocks:
                _collect(nested, inside, found)


def _repeated(scalars: Sequence[ir.Value], like: ir.Value) -> list[ir.Value]:
    return [build.broadcast(scalar, shape(like), []) for scalar in scalars]


def close_reduction(op: ir.OpView) -> ir.OpView:
    """A `reduce` or `reduce_window` whose body uses nothing from outside: the op itself, or one with more operands, and
    so with more results."""
    scalars = captured(op)
    count = len(op.operands) // 2
    if not scalars:
        return op
    operands, inits = list(op.operands)[:count], list(op.operands)[count:]
    new = _with_operands(op, [*operands, *_repeated(scalars, operands[0]), *inits, *scalars], scalars)
    _move_combiner(op, new, scalars)
    return new


def close_scatter(op: ir.OpView) -> ir.OpView:
    """The same for `scatter`."""
    scalars = captured(op)
    count = len(op.operands) // 2
    if not scalars:
        return op
    operands, indices = list(op.operands)[:count], op.operands[count]
    updates = list(op.operands)[count + 1 :]
    more, again = _repeated(scalars, operands[0]), _repeated(scalars, updates[0])
    new = _with_operands(op, [*operands, *more, indices, *updates, *again], scalars)
    _move_combiner(op, new, scalars)
    return new


def close_sort(op: ir.OpView) -> ir.OpView:
    """The same for `sort`."""
    scalars = captured(op)
    if not scalars:
        return op
    old = block_of(op)
    new = _with_operands(op, [*op.operands, *_repeated(scalars, op.operands[0])], scalars)
    pairs = [scalar.type for scalar in scalars for _ in range(2)]
    block = new.regions[0].blocks.append(*[argument.type for argument in old.arguments], *pairs)
    arguments = list(block.arguments)
    first = len(old.arguments)
    _move_body(old, block, arguments[:first], scalars, arguments[first::2])
    return new


def _with_operands(op: ir.OpView, operands: Sequence[ir.Value], scalars: Sequence[ir.Value]) -> ir.OpView:
    """A copy of `op` with other operands and without a body; every scalar gives a result of the first one's shape (what
    a result of that operand has)."""
    operation = op.operation
    sizes = shape(operation.results[0])
    types = [
        *(result.type for result in operation.results),
        *(build.tensor(sizes, scalar.type.element_type) for scalar in scalars),
    ]
    attributes = {name: operation.attributes[name] for name in operation.attributes if name != SHARDING}
    return build.op(operation.name, types, operands, attributes, regions=1).opview


def _move_combiner(op: ir.OpView, new: ir.OpView, scalars: Sequence[ir.Value]) -> None:
    """Move a body that combines (accumulators..., elements...); what a scalar's operand accumulates is the scalar."""
    old = block_of(op)
    count = len(old.arguments) // 2
    types = [argument.type for argument in old.arguments]
    more = [scalar.type for scalar in scalars]
    block = new.regions[0].blocks.append(*types[:count], *more, *types[count:], *more)
    arguments = list(block.arguments)
    second = count + len(more)
    inner = arguments[count:second]
    _move_body(old, block, [*arguments[:count], *arguments[second : second + count]], scalars, inner)
    last = terminator(block).operation
    with ir.InsertionPoint(last), last.location:
        build.op("stablehlo.return", [], [*last.operands, *inner])
    last.erase()


def _move_body(
    old: ir.Block,
    block: ir.Block,
    arguments: Sequence[ir.Value],
    scalars: Sequence[ir.Value],
    inner: Sequence[ir.Value],
) -> None:
    for argument, replacement in zip(old.arguments, arguments, strict=True):
        argument.replace_all_uses_with(replacement)
    for inside in list(old.operations):
        block.append(inside)
    replacements = dict(zip(scalars, inner, strict=True))
    _replace(block, replacements)


def _replace(block: ir.Block, replacements: dict[ir.Value, ir.Value]) -> None:
    for op in block.operations:
        operation = op.operation
        for number, operand in enumerate(operation.operands):
            if operand in replacements:
                operation.operands[number] = replacements[operand]
        for region in operation.regions:
            for nested in region.blocks:
                _replace(nested, replacements)
