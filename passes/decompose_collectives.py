"""Collectives become exchanges of memory between processes, and ordinary ops before and after them.

Before::

    %0 = "hlo.all_reduce"(%x) {kind = "add", groups = array<i64: 0, 1>, ...} : (tensor<4xf32>) -> tensor<4xf32>

After::

    %0 = "hlo.exchange"(%process, %x) {kind = "gather", ...} : (tensor<2xi64>, tensor<4xf32>) -> tensor<2x4xf32>
    %1 = "hlo.add"(%0[0], %0[1])

So the only kernels that communicate copy memory, and reductions run as all other arithmetic does, vectorized and fused.
They combine operands in the order of the group, whatever the order of arrival: results are the same bits in every
process and every run. A large all_reduce lets every member reduce one part and then gathers the parts (Rabenseifner,
Optimization of Collective Reduction Operations, 2004): each element is combined once, not once in each process.

What an exchange and the ids of replica and partition depend on is `process`, an argument that is added to the function
(docs/architecture.md, Process grid). A backend whose library has collectives leaves the pass out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from stablehlo_py.dialect import build
from stablehlo_py.dialect.attributes import BARRIERS
from stablehlo_py.dialect.edit import replace_op
from stablehlo_py.dialect.grid import Groups, function_of, grid_of, groups_of, looked_up, padded, pairs_of, process
from stablehlo_py.dialect.ops import records
from stablehlo_py.dialect.ops.grid import NOBODY
from stablehlo_py.dialect.scalar_regions import on_tensors
from stablehlo_py.dialect.types import element_type, i64, num_elements, operations, shape, text
from stablehlo_py.mlir import ir
from stablehlo_py.passes.policy import policy_of
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.targets import DEFAULT_TARGET

Combine = Callable[[ir.Value, ir.Value], ir.Value]


@dataclass(frozen=True)
class DecomposeCollectives(Pass):
    """Make exchanges of memory, and local ops, of collectives."""

    name: ClassVar[str] = "decompose-collectives"
    required: ClassVar[bool] = True
    shared_reduction: int = field(
        default=0,
        metadata={"help": "elements from which on the members of a group share the work of an all_reduce; 0: target's"},
    )
    target: str = DEFAULT_TARGET

    def roots(self) -> Iterable[str]:
        return RULES

    def run(self, module: ir.Module) -> None:
        for op in [op.opview for op in operations(module.operation) if op.name in RULES]:
            with ir.InsertionPoint(op), op.location:
                values = RULES[op.operation.name](self, op)
            replace_op(op, values)

    # --- reductions --------------------------------------------------------------------------------------------------

    def all_reduce(self, op: ir.OpView) -> list[ir.Value]:
        """Everything in every process, or a part in each of them, by size."""
        groups, combine = groups_of(op), _combiner(op)
        shared = self.shared_reduction or policy_of(self.target).costs.shared_reduction
        sizes = {len(group) for group in groups}
        if sizes == {1}:
            return list(op.operands)
        return [
            self._shared(op, groups, operand, combine)
            if len(sizes) == 1 and num_elements(operand) >= shared
            else _fold(op, groups, _exchange(op, "gather", groups, operand), combine)
            for operand in op.operands
        ]

    @staticmethod
    def _shared(op: ir.OpView, groups: Groups, operand: ir.Value, combine: Combine) -> ir.Value:
        """Each member reduces one part of the flat operand; the parts are gathered."""
        count, width, element = num_elements(operand), len(groups[0]), element_type(operand)
        part = -(-count // width)
        flat = build.reshape(operand, [count])
        if part * width != count:
            zero = build.splat(0, build.tensor([], element))
            flat = build.made("pad", flat, zero, low=[0], high=[part * width - count], interior=[0])
        blocks = _exchange(op, "blocks", groups, build.reshape(flat, [width, part]))
        reduced = _fold(op, groups, blocks, combine)
        gathered = build.reshape(_exchange(op, "gather", groups, reduced), [part * width])
        return build.reshape(build.slice_(gathered, [0], [count]), shape(operand))

    def reduce_scatter(self, op: ir.OpView) -> list[ir.Value]:
        """Each member gets its block from all others, and combines them."""
        groups, operand = groups_of(op), op.operands[0]
        if len(groups[0]) == 1:
            return [operand]
        dimension = i64(op, "dimension" if "dimension" in op.attributes else "scatter_dimension")
        blocks = _exchange(op, "blocks", groups, _split(operand, dimension, len(groups[0])))
        return [_fold(op, groups, blocks, _combiner(op))]

    # --- moves -------------------------------------------------------------------------------------------------------

    def all_gather(self, op: ir.OpView) -> list[ir.Value]:
        """The stack of operands, its first dimension moved into the one that grows."""
        groups = groups_of(op)
        if len(groups[0]) == 1:
            return [op.operands[0]]
        return [_joined(_exchange(op, "gather", groups, op.operands[0]), i64(op, "dimension"))]

    def all_to_all(self, op: ir.OpView) -> list[ir.Value]:
        """Blocks of one dimension go to the members, theirs are joined along another."""
        groups = groups_of(op)
        count = len(groups[0])
        if count == 1:
            return [op.operands[0]]
        blocks = _split(op.operands[0], i64(op, "split_dimension"), count)
        return [_joined(_exchange(op, "blocks", groups, blocks), i64(op, "concat_dimension"))]

    def collective_broadcast(self, op: ir.OpView) -> list[ir.Value]:
        """A permutation in which the first of each group is everybody's source."""
        groups = groups_of(op)
        return [_permuted(op, groups, _by_process(op, groups, lambda group: group[0], NOBODY))]

    def collective_permute(self, op: ir.OpView) -> list[ir.Value]:
        """Processes that exchange something, directly or not, are one group."""
        linked = pairs_of(op)
        sources = [NOBODY] * grid_of(op).processes
        for source, target in linked:
            sources[target] = source
        return [_permuted(op, _components(linked), sources)]

    # --- the process that runs ---------------------------------------------------------------------------------------

    def replica_id(self, op: ir.OpView) -> list[ir.Value]:
        """The number of the process, by the number of partitions."""
        grid = grid_of(op)
        return [_digit(op, "divide", grid.replicas, grid.partitions)]

    def partition_id(self, op: ir.OpView) -> list[ir.Value]:
        """What is left of the number of the process."""
        grid = grid_of(op)
        return [_digit(op, "remainder", grid.partitions, grid.replicas)]


#: The methods are named as the ops are.
RULES: dict[str, Callable[[DecomposeCollectives, ir.OpView], list[ir.Value]]] = {
    record.name: getattr(DecomposeCollectives, record.mnemonic)
    for record in records()
    if hasattr(DecomposeCollectives, record.mnemonic)
}


def _combiner(op: ir.OpView) -> Combine:
    """How the op combines two whole tensors."""
    if "kind" in op.attributes:
        kind = text(op, "kind")
        return lambda left, right: build.like(kind, left, right)
    block = op.regions[0].blocks[0]
    return lambda left, right: on_tensors(block, (left, right), shape(left))[0]


# --- ops -------------------------------------------------------------------------------------------------------------


def _exchange(op: ir.OpView, kind: str, groups: Groups, operand: ir.Value, sources: Sequence[int] = ()) -> ir.Value:
    """The exchange in which groups meet."""
    members, width = padded(groups)
    result = build.tensor([width, *shape(operand)], element_type(operand)) if kind == "gather" else operand.type
    return build.value(
        "exchange",
        result,
        process(op),
        operand,
        kind=kind,
        sources=list(sources),
        groups=members,
        width=width,
        processes=grid_of(op).processes,
        barrier=_barrier(op, groups),
        origin=op.operation.name if op.operation.name.startswith("stablehlo.") else text(op, "origin"),
    )


def _barrier(op: ir.OpView, groups: Groups) -> int:
    """The number of the barrier at which these groups meet. Ops with equal groups share one: a process is at one op at
    a time, and all reach them in one order."""
    function = function_of(op)
    known = list(function.attributes[BARRIERS]) if BARRIERS in function.attributes else []
    key = ir.StringAttr.get(repr(groups))
    if key not in known:
        known.append(key)
        function.attributes[BARRIERS] = ir.ArrayAttr.get(known)
    return known.index(key)


def _permuted(op: ir.OpView, groups: Groups, sources: list[int]) -> ir.Value:
    """The operand of the sources; zero where there is none."""
    operand = op.operands[0]
    if all(source == NOBODY for source in sources):
        return build.splat(0, operand.type)
    if sources == list(range(len(sources))):
        return operand
    return _exchange(op, "permute", groups, operand, sources)


def _fold(op: ir.OpView, groups: Groups, stack: ir.Value, combine: Combine) -> ir.Value:
    """The stacked operands of a group combined in its order; padding takes no part."""
    width = shape(stack)[0]
    total = build.row(stack, 0)
    if all(len(group) == width for group in groups):
        for member in range(1, width):
            total = combine(total, build.row(stack, member))
        return total
    count = looked_up(_by_process(op, groups, len, 0), _process_number(op))
    for member in range(1, width):
        present = build.compare(count, build.splat(member, count.type), "GT")
        everywhere = build.broadcast(present, shape(total), [])
        total = build.value("select", total.type, everywhere, combine(total, build.row(stack, member)), total)
    return total


def _split(operand: ir.Value, dimension: int, count: int) -> ir.Value:
    """[..., d, ...] as `count` blocks along a new first dimension, [count, ..., d / count, ...]."""
    sizes = list(shape(operand))
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


# --- numbers of processes --------------------------------------------------------------------------------------------


def _by_process(op: ir.OpView, groups: Groups, what: Callable[[list[int]], int], otherwise: int) -> list[int]:
    numbers = [otherwise] * grid_of(op).processes
    for group in groups:
        for member in group:
            numbers[member] = what(group)
    return numbers


def _components(links: Iterable[tuple[int, int]]) -> Groups:
    """Processes that are linked, directly or through others, in ascending order."""
    of: dict[int, list[int]] = {}
    for one, other in links:
        left, right = of.setdefault(one, [one]), of.setdefault(other, [other])
        if left is not right:
            left += right
            of.update(dict.fromkeys(right, left))
    return [sorted(group) for number, group in sorted(of.items()) if number == min(group)]


def _process_number(op: ir.OpView) -> ir.Value:
    """The number of this process, tensor<i64>."""
    return build.row(process(op), 0)


def _digit(op: ir.OpView, how: str, count: int, others: int) -> ir.Value:
    """The number of the replica, or of the partition, as the op's result has it."""
    type_ = op.results[0].type
    if count == 1:
        return build.splat(0, type_)
    number = _process_number(op)
    if others > 1:
        number = build.like(how, number, build.splat(grid_of(op).partitions, number.type))
    return build.value("convert", type_, number)
