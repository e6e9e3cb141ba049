"""Sorts of few elements: a network of exchanges, which fuses with what makes the elements and what reads them."""

from __future__ import annotations

from collections.abc import Mapping

from stablehlo_py.dialect.build import tensor
from stablehlo_py.dialect.comparator import mirrored
from stablehlo_py.dialect.types import element_type, i64, shape, symints, text
from stablehlo_py.mlir import ir
from stablehlo_py.passes._matchers import ELEMENTWISE_OPS
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RuleSet, defining

SORT = RuleSet("sort")
_MOST_SORTED = 4  # elements that are all written: code for more is long
_MOST_READ = 2  # places of which something is read; the others' exchanges are dead
_MOST_OPS = 200  # of all exchanges, which are one body of code
_WIDTHS = {ir.F16Type: 16, ir.BF16Type: 16, ir.F32Type: 32, ir.F64Type: 64}
_TURNED = {"LT": "GT", "GT": "LT"}


@SORT.rule(
    "stablehlo.sort", where="up to 4 elements of the last dimension, or some of which 1 or 2 places are read, one key"
)
def sort_few(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "sort(x) -> concatenate of slices of x that were exchanged"
    sizes, block = shape(op.operands[0]), op.regions[0].blocks[0]
    at = i64(op, "dimension") % max(1, len(sizes)) if "dimension" in op.attributes else len(sizes) - 1
    if not sizes or not isinstance(sizes[at], int) or sizes[at] < 2:
        return None
    # Along other dimensions each piece of the result would be a loop of its own that goes through the whole network.
    is_last = all(size == 1 for size in sizes[at + 1 :])
    if not (is_last and sizes[at] <= _MOST_SORTED) and not _is_read_at_few(op, at):
        return None
    compare = defining(list(block.operations)[-1].operands[0], "hlo.compare")
    if compare is None or text(compare, "direction") not in _TURNED:
        return None
    (left, right), direction = compare.operands, text(compare, "direction")
    if mirrored(right, left):
        left, direction = right, _TURNED[direction]
    elif not mirrored(left, right):
        return None
    element, given = element_type(left), dict(zip(list(block.arguments)[::2], op.operands, strict=True))
    is_ordered = type(element) in _WIDTHS and "total_order" in compare.attributes
    has_key = is_ordered or left not in given
    exchanges = sizes[at] * (sizes[at] - 1) // 2
    if exchanges * (1 + 2 * (has_key + len(op.operands))) > _MOST_OPS or not _is_elementwise(left):
        return None
    if not is_ordered and not isinstance(element, ir.IntegerType):
        return None
    key = _of_all(left, given, rewriter)
    carried = [*op.operands, _in_order(key, rewriter)] if has_key else list(op.operands)
    columns = [[_column(x, at, place, rewriter) for place in range(sizes[at])] for x in carried]
    keys = columns[-1 if has_key else carried.index(key)]
    for turn in range(sizes[at]):  # only neighbours change places: it is stable
        for place in range(turn % 2, sizes[at] - 1, 2):
            swaps = rewriter.compare(keys[place + 1], keys[place], direction)
            for column in columns:
                one, other = column[place : place + 2]
                column[place] = rewriter.value("select", one.type, swaps, other, one)
                column[place + 1] = rewriter.value("select", one.type, swaps, one, other)
    return [rewriter.concatenate(column, at) for column in columns[: len(op.operands)]]


def _is_read_at_few(op: ir.Operation, at: int) -> bool:
    """Whether all that is read of the results is slices of very few places of that dimension."""
    users = [use.owner for result in op.results for use in result.uses]
    if any(user.name != "hlo.slice" for user in users):
        return False
    parts = [(symints(user, "start")[at], symints(user, "limit")[at]) for user in users]
    return all(limit - start == 1 for start, limit in parts) and len(set(parts)) <= _MOST_READ


def _is_elementwise(value: ir.Value) -> bool:
    """Whether a value of a comparator is computed from its arguments alone, by what works on tensors, too."""
    op = defining(value)
    if op is None or op.name == "hlo.constant":
        return True
    return op.name in ELEMENTWISE_OPS and all(map(_is_elementwise, op.operands))


def _of_all(value: ir.Value, given: Mapping[ir.Value, ir.Value], rewriter: Rewriter) -> ir.Value:
    """What a comparator computes of its arguments, of all elements of the tensors `given` for them."""
    op = defining(value)
    if op is None:
        return given[value]
    sizes = shape(next(iter(given.values())))
    if op.name == "hlo.constant":
        return rewriter.broadcast(rewriter.again(op, []), sizes, [])
    operands = [_of_all(operand, given, rewriter) for operand in op.operands]
    return rewriter.again(op, operands, tensor(sizes, element_type(value)))


def _in_order(key: ir.Value, rewriter: Rewriter) -> ir.Value:
    """Integers in the total order of floats: the bits, of negative ones all but the sign inverted."""
    width = _WIDTHS.get(type(element_type(key)))
    if width is None:
        return key
    bits = rewriter.value("bitcast_convert", tensor(shape(key), ir.IntegerType.get_signless(width)), key)
    signs = rewriter.like("shift_right_arithmetic", bits, rewriter.splat(width - 1, bits.type))
    mask = rewriter.like("and", signs, rewriter.splat((1 << width - 1) - 1, bits.type))
    return rewriter.like("xor", bits, mask)


def _column(x: ir.Value, at: int, place: int, rewriter: Rewriter) -> ir.Value:
    start, limit = [0] * x.type.rank, list(shape(x))
    start[at], limit[at] = place, place + 1
    return rewriter.slice(x, start, limit, [1] * x.type.rank)
