"""Collectives become the exchange of whole tensors between processes, and ordinary hlo ops before and after it.

    all_reduce(x)  ->  s = hlo.all_gather(x); x' = s[0]; x' = computation(x', s[1]); ...

So the only kernels that communicate copy memory, and reductions run as all other arithmetic does, vectorized and fused.
They combine operands in the order of the group, whatever the order of arrival: results are the same bits in every
process and every run. A large all_reduce lets every member reduce one part and then gathers the parts (Rabenseifner,
Optimization of Collective Reduction Operations, 2004): each element is combined once, not once in each process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stablehlo_py.dialect import build
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.ops import Work, record_of
from stablehlo_py.dialect.ops.grid import NOBODY
from stablehlo_py.dialect.types import element_type, i64, is_bool, num_elements, shape
from stablehlo_py.legalize.elementwise import ON_BOOLEANS
from stablehlo_py.legalize.grid import (
    Groups,
    channel,
    communicate,
    components,
    grid_of,
    groups_of_one_kind,
    groups_with_partitions,
    looked_up,
    pairs,
    process_number,
)
from stablehlo_py.legalize.regions import combined, promoted
from stablehlo_py.legalize.rules import Results, Unsupported, block_of, rule
from stablehlo_py.mlir import ir

ZEROS = "hlo.zeros"  # on an op whose operands were quantized: the zero point of every result
# From this many elements on, the members of a group share the work of an all_reduce.
SHARED_REDUCTION = 1 << 14
Combine = Callable[[ir.Value, ir.Value], ir.Value]


@rule("stablehlo.replica_id", "stablehlo.partition_id")
def process_id(op: ir.OpView) -> ir.Value:
    """A digit of the process's number; zero where there is one replica, or one partition."""
    grid = grid_of(op)
    replica = op.operation.name == "stablehlo.replica_id"
    type_ = op.results[0].type
    if (grid.replicas if replica else grid.partitions) == 1:
        return build.splat(0, type_)
    number = process_number(op)
    partitions = build.splat(grid.partitions, number.type)
    return build.value("convert", type_, build.like("divide" if replica else "remainder", number, partitions))


# --- reductions ------------------------------------------------------------------------------------------------------


@rule("stablehlo.all_reduce")
def all_reduce(op: ir.OpView) -> Results:
    """Every operand by itself: the computation combines two elements of one tensor."""
    groups = _of_all(op, groups_with_partitions(op))
    combine = _computation(op)
    return [_all_reduce(op, groups, promoted(operand, combined(op)[0]), combine) for operand in op.operands]


@rule("stablehlo.cross-replica-sum")
def cross_replica_sum(op: ir.OpView) -> ir.Value:
    """What all_reduce came from: it adds."""
    name = ON_BOOLEANS["add"] if is_bool(element_type(op.operands[0])) else "add"
    groups = _of_all(op, groups_with_partitions(op))
    return _all_reduce(op, groups, op.operands[0], lambda left, right: build.like(name, left, right))


def _all_reduce(op: ir.OpView, groups: Groups, operand: ir.Value, combine: Combine) -> ir.Value:
    sizes = {len(group) for group in groups}
    if sizes == {1}:
        return operand
    if len(sizes) == 1 and num_elements(operand) >= SHARED_REDUCTION:
        return _shared_all_reduce(op, groups, operand, combine)
    return _fold(op, groups, communicate(op, "all_gather", groups, operand), combine)


def _shared_all_reduce(op: ir.OpView, groups: Groups, operand: ir.Value, combine: Combine) -> ir.Value:
    """Each member reduces one part of the flat operand; the parts are gathered."""
    count, width, element = num_elements(operand), len(groups[0]), element_type(operand)
    part = -(-count // width)
    flat = build.reshape(operand, [count])
    if part * width != count:
        zero = build.splat(0, build.tensor([], element))
        missing = part * width - count
        padded_type = build.tensor([part * width], element)
        flat = build.value("pad", padded_type, flat, zero, low=[0], high=[missing], interior=[0])
    blocks = communicate(op, "all_to_all", groups, build.reshape(flat, [width, part]))
    gathered = build.reshape(communicate(op, "all_gather", groups, _fold(op, groups, blocks, combine)), [part * width])
    if part * width != count:
        gathered = build.value("slice", build.tensor([count], element), gathered, start=[0], limit=[count], strides=[1])
    return build.reshape(gathered, shape(operand))


def _fold(op: ir.OpView, groups: Groups, stack: ir.Value, combine: Combine) -> ir.Value:
    """The stacked operands of a group combined in its order; padding takes no part."""
    width = shape(stack)[0]
    total = _at(stack, 0)
    if all(len(group) == width for group in groups):
        for member in range(1, width):
            total = combine(total, _at(stack, member))
        return total
    sizes = _by_process(op, groups, len, 0)
    for member in range(1, width):
        present = _compared(op, sizes, member, "GT", total)
        total = build.value("select", total.type, present, combine(total, _at(stack, member)), total)
    return total


def _at(stack: ir.Value, position: int) -> ir.Value:
    """stack[position]."""
    sizes = shape(stack)
    start, limit = [0] * len(sizes), list(sizes)
    start[0], limit[0] = position, position + 1
    type_ = build.tensor([1, *sizes[1:]], element_type(stack))
    row = build.value("slice", type_, stack, start=start, limit=limit, strides=[1] * len(sizes))
    return build.reshape(row, sizes[1:])


def _by_process(op: ir.OpView, groups: Groups, what: Callable[[list[int]], int], otherwise: int) -> list[int]:
    numbers = [otherwise] * grid_of(op).processes
    for group in groups:
        for member in group:
            numbers[member] = what(group)
    return numbers


def _compared(op: ir.OpView, numbers: Sequence[int], with_: int, direction: str, like: ir.Value) -> ir.Value:
    """`numbers[process] <direction> with_`, as a predicate for every element of `like`."""
    found = looked_up(op, numbers)
    flag = build.tensor([], ir.IntegerType.get_signless(1))
    answer = build.value("compare", flag, found, build.splat(with_, found.type), direction=direction)
    return build.broadcast(answer, shape(like), [])


def _computation(op: ir.OpView) -> Combine:
    """The op's region, of scalars, as a function of two whole tensors.

    Raises (when called): Unsupported for an op that does not work element by element.
    """
    block = block_of(op)
    *body, last = block.operations

    def combine(left: ir.Value, right: ir.Value) -> ir.Value:
        sizes = shape(left)
        whole = dict(zip(block.arguments, (left, right), strict=True))

        def read(value: ir.Value) -> ir.Value:
            # What is defined outside is one number for all elements.
            return whole[value] if value in whole else build.broadcast(value, sizes, [])

        for inner in body:
            inner = inner.operation
            name = inner.name.removeprefix("hlo.")
            if name == "constant":
                number = constant_value(inner).reshape(-1)[0]
                whole[inner.result] = build.broadcast(build.constant(number, element_type(inner.result)), sizes, [])
            elif name in ("reshape", "broadcast", "transpose"):  # between scalars these change nothing
                whole[inner.result] = read(inner.operands[0])
            elif (record := record_of(inner.name)) is not None and record.work is Work.ELEMENTS:
                type_ = build.tensor(sizes, element_type(inner.result))
                attributes = {key: inner.attributes[key] for key in inner.attributes}
                whole[inner.result] = build.op(
                    inner.name, [type_], [read(operand) for operand in inner.operands], attributes
                ).result
            else:
                raise Unsupported(f"combines elements with '{inner.name}'", "combine them with elementwise ops")
        return read(last.operands[0])

    return combine


@rule("stablehlo.reduce_scatter")
def reduce_scatter(op: ir.OpView) -> ir.Value:
    """Each member gets its block from all others, and combines them."""
    groups = _equal(op, _of_all(op, groups_with_partitions(op)))
    operand = promoted(op.operands[0], combined(op)[0])
    if len(groups[0]) == 1:
        return operand
    dimension = i64(op, "scatter_dimension")
    blocks = _split(operand, dimension, len(groups[0]))
    return _fold(op, groups, communicate(op, "all_to_all", groups, blocks), _computation(op))


@rule("stablehlo.collective_reduce")
def collective_reduce(op: ir.OpView) -> Results:
    """What all_reduce gives, in the root of each group; zeros elsewhere. The root is the first member, or the one whose
    position the last operand holds."""
    groups = groups_with_partitions(op)
    combine = _computation(op)
    operands = list(op.operands)
    roots = operands.pop() if "has_dynamic_root" in op.attributes else None
    position = [-1] * grid_of(op).processes
    for group in groups:
        for place, member in enumerate(group):
            position[member] = place
    results = []
    for number, operand in enumerate(operands):
        total = _all_reduce(op, groups, promoted(operand, combined(op)[0]), combine)
        if roots is None:
            is_root = _compared(op, position, 0, "EQ", total)
        else:
            mine = build.value("convert", build.tensor([], element_type(roots)), looked_up(op, position))
            flag = build.tensor([], ir.IntegerType.get_signless(1))
            equal = build.value("compare", flag, mine, _at(roots, number), direction="EQ")
            is_root = build.broadcast(equal, shape(total), [])
        zero = build.splat(_zero(op, number), total.type)
        results.append(build.value("select", total.type, is_root, total, zero))
    return results


# --- moves -----------------------------------------------------------------------------------------------------------


@rule("stablehlo.all_gather")
def all_gather(op: ir.OpView) -> Results:
    """The stack of operands, its first dimension moved into the one that grows."""
    groups = _equal(op, _of_all(op, groups_with_partitions(op)))
    dimension = i64(op, "all_gather_dim")
    if len(groups[0]) == 1:
        return list(op.operands)
    return [_joined(communicate(op, "all_gather", groups, operand), dimension) for operand in op.operands]


@rule("stablehlo.all_to_all")
def all_to_all(op: ir.OpView) -> Results:
    """Blocks of one dimension go to the members, theirs are joined along another."""
    groups = _equal(op, _of_all(op, groups_of_one_kind(op)))
    split, concatenated, count = (i64(op, name) for name in ("split_dimension", "concat_dimension", "split_count"))
    if count != len(groups[0]):
        raise Unsupported(
            f"splits into {count} for groups of {len(groups[0])}", "make split_count the size of the groups"
        )
    if count == 1:
        return list(op.operands)
    return [
        _joined(communicate(op, "all_to_all", groups, _split(operand, split, count)), concatenated)
        for operand in op.operands
    ]


def _split(operand: ir.Value, dimension: int, count: int) -> ir.Value:
    """[..., d, ...] as `count` blocks along a new first dimension, [count, ..., d / count, ...]."""
    sizes = list(shape(operand))
    if sizes[dimension] % count:
        raise Unsupported(f"splits a dimension of {sizes[dimension]} into {count} blocks", "make it divisible")
    sizes[dimension : dimension + 1] = [count, sizes[dimension] // count]
    order = [dimension, *(d for d in range(len(sizes)) if d != dimension)]
    return build.transpose(build.reshape(operand, sizes), order)


def _joined(blocks: ir.Value, dimension: int) -> ir.Value:
    """[count, ..., d, ...] as [..., count * d, ...]: the inverse of `_split`."""
    count, *sizes = shape(blocks)
    order = list(range(1, len(sizes) + 1))
    order.insert(dimension, 0)
    sizes[dimension] *= count
    return build.reshape(build.transpose(blocks, order), sizes)


@rule("stablehlo.collective_broadcast")
def collective_broadcast(op: ir.OpView) -> Results:
    """A permutation in which the first of each group is everybody's source."""
    groups = groups_of_one_kind(op)
    sources = _by_process(op, groups, lambda group: group[0], -1)
    return [_permute(op, groups, sources, number) for number in range(len(op.operands))]


@rule("stablehlo.collective_permute")
def collective_permute(op: ir.OpView) -> Results:
    """Processes that exchange something, directly or not, are one group."""
    linked = pairs(op, across_partitions=channel(op) > 0)
    sources = [-1] * grid_of(op).processes
    for source, target in linked:
        sources[target] = source
    return [_permute(op, components(linked), sources, number) for number in range(len(op.operands))]


def _permute(op: ir.OpView, groups: Groups, sources: list[int], number: int) -> ir.Value:
    """Operand `number` of the sources; zero where there is none."""
    operand, zero = op.operands[number], _zero(op, number)
    if all(source == NOBODY for source in sources):
        return build.splat(zero, operand.type)
    if sources == list(range(len(sources))):
        return operand
    moved = communicate(op, "collective_permute", groups, operand, sources=sources)
    if zero == 0 or NOBODY not in sources:
        return moved
    arrives = _compared(op, sources, NOBODY, "NE", moved)
    return build.value("select", moved.type, arrives, moved, build.splat(zero, moved.type))


def _zero(op: ir.OpView, number: int) -> int:
    """What stands for zero in a result."""
    return op.attributes[ZEROS][number] if ZEROS in op.attributes else 0


# --- what groups must be ---------------------------------------------------------------------------------------------


def _of_all(op: ir.OpView, groups: Groups) -> Groups:
    """Groups that hold every process, as the specification wants them."""
    missing = set(range(grid_of(op).processes)) - {member for group in groups for member in group}
    if missing:
        raise Unsupported(
            f"leaves out {len(missing)} of {grid_of(op).processes} processes", "put every process into a group"
        )
    return groups


def _equal(op: ir.OpView, groups: Groups) -> Groups:
    if len({len(group) for group in groups}) > 1:
        raise Unsupported("has groups of different sizes, so its result has no shape", "use groups of one size")
    return groups
