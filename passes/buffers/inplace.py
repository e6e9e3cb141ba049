"""Which outputs of a fusion may be written over which of its inputs.

Allowed is what stays right when every iteration of the kernel reads all its elements before it writes its own: the
input is read at the index that is written and nowhere else. In a row fusion the output must also need every
reduction, so that it is written in the last phase, after the others have read the input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from stablehlo_py.dialect.attributes import FUSION
from stablehlo_py.dialect.constants import splat
from stablehlo_py.dialect.custom_call import aliases
from stablehlo_py.dialect.ops import Work, record_of
from stablehlo_py.dialect.ops.indexing import clamp_start
from stablehlo_py.dialect.symint import IntLike, largest
from stablehlo_py.dialect.types import byte_size, element_type, i64s, num_elements, shape, symints
from stablehlo_py.mlir import ir
from stablehlo_py.passes._matchers import same_scalar


@dataclass(frozen=True)
class InPlace:
    """Pairs (input, output) that may share memory; `must`: the pair of an `in_place_update`, which is written in place
    or not at all."""

    may: frozenset[tuple[int, int]]
    must: tuple[int, int] | None = None


NOWHERE = InPlace(frozenset())
#: From the body of a fusion, its block and its ops, to the pairs: a backend has one for every kind whose kernels can.
InPlaceRule = Callable[[ir.Block, list[ir.Operation]], InPlace]


def in_place(function: ir.Operation, rules: Mapping[str, InPlaceRule]) -> InPlace:
    """The pairs of a fusion function, by the rule of its kind."""
    rule = rules.get(function.attributes[FUSION].value)
    block = function.regions[0].blocks[0]
    return rule(block, [view.operation for view in block.operations]) if rule else NOWHERE


def updated_input(function: ir.Operation, rules: Mapping[str, InPlaceRule]) -> int | None:
    """The input that a fusion function is always written over (`updated`)."""
    if rules.get(function.attributes[FUSION].value) is not updated:
        return None
    must = in_place(function, rules).must
    return None if must is None else must[0]


def element_by_element(block: ir.Block, ops: list[ir.Operation]) -> InPlace:
    """Every iteration reads its elements before it writes its own."""
    alike = _alike(block, ops)
    same = _read_in_place(block, ops) if alike else ()
    return InPlace(frozenset(pair for pair in alike if pair[0] in same))


def row_by_row(block: ir.Block, ops: list[ir.Operation]) -> InPlace:
    """The same within a row, whose last phase writes what needs every reduction, and has the size of its operands."""
    pairs = element_by_element(block, ops).may
    if not pairs:
        return NOWHERE
    full = largest(num_elements(op.operands[0]) for op in ops if op.name == "hlo.reduce")
    late = {output for output in _last_phase(ops) if num_elements(ops[-1].operands[output]) == full}
    return InPlace(frozenset(pair for pair in pairs if pair[1] in late))


def all_at_once(elements: int) -> InPlaceRule:
    """The rule of kinds that read all inputs of at most so many elements before they write."""

    def rule(block: ir.Block, ops: list[ir.Operation]) -> InPlace:
        few = [num_elements(argument) <= elements for argument in block.arguments]
        return InPlace(frozenset(pair for pair in _alike(block, ops) if few[pair[0]]))

    return rule


def _alike(block: ir.Block, ops: list[ir.Operation]) -> list[tuple[int, int]]:
    """Pairs with the same number of elements of the same size."""
    inputs = [_size(value.type) for value in block.arguments]
    outputs = [_size(value.type) for value in ops[-1].operands]
    return [(i, o) for i, size in enumerate(inputs) for o, other in enumerate(outputs) if size == other]


def _size(type_: ir.Type) -> tuple[IntLike, int]:
    return num_elements(type_), byte_size(element_type(type_))


def updated(block: ir.Block, ops: list[ir.Operation]) -> InPlace:
    """An update is written into its operand, or that is copied first."""
    pairs = overwritten(block, ops).may
    return InPlace(pairs, next(iter(pairs), None))


def overwritten(block: ir.Block, ops: list[ir.Operation]) -> InPlace:
    """An update or a scatter may be written into its operand, if nothing else reads that, or an update is computed from
    the elements that it overwrites."""
    hero = next(op for op in ops if op.name in ("hlo.dynamic_update_slice", "stablehlo.scatter"))
    inputs = list(block.arguments)
    target = hero.operands[0]
    if target not in inputs or len(hero.results) != 1:
        return NOWHERE
    if len(list(target.uses)) != 1 and (hero.name == "stablehlo.scatter" or update_reads(hero) == ELSEWHERE):
        return NOWHERE
    return InPlace(frozenset(((inputs.index(target), 0),)))


def update_reads(update: ir.Operation) -> int:
    """How ops of its block compute the update of a `dynamic_update_slice` from the tensor that it overwrites: `NOT`,
    only `IN_PLACE`, where every element of the update takes the place of the one that it is computed from, or
    `ELSEWHERE`, too. Its result is not read, nor are its starts."""
    found: dict[ir.Value, int] = {}
    for view in update.block.operations:
        op = view.operation
        if op == update:
            break
        state = reading(op, update, [found.get(operand, NOT) for operand in op.operands])
        found.update((result, state) for result in op.results)
    return ELSEWHERE if update.operands[1] == update.operands[0] else found.get(update.operands[1], NOT)


#: How a value is computed from the tensor that an update overwrites (`update_reads`).
NOT, IN_PLACE, ELSEWHERE = range(3)


def reading(op: ir.Operation, update: ir.Operation, below: Iterable[int]) -> int:
    """The same of one op, whose operands are computed as `below` says."""
    found = max(below, default=NOT)
    if found == IN_PLACE and not _keeps_order(op):
        return ELSEWHERE
    if update.operands[0] in op.operands:
        return max(found, IN_PLACE if _reads_window(op, update) else ELSEWHERE)
    return found


def _reads_window(op: ir.Operation, update: ir.Operation) -> bool:
    """Does a slice read just the elements that the update overwrites?"""
    full, (_, window, *starts) = shape(update.operands[0]), update.operands
    sizes = shape(window)
    if op.name not in ("hlo.dynamic_slice", "hlo.slice") or shape(op.result) != sizes:
        return False
    moved = [dimension for dimension, size in enumerate(sizes) if size != full[dimension]]
    if op.name == "hlo.dynamic_slice":
        return all(same_scalar(op.operands[1 + dimension], starts[dimension]) for dimension in moved)
    first, numbers = symints(op, "start"), [splat(starts[dimension]) for dimension in moved]
    return set(i64s(op, "strides")) <= {1} and all(
        isinstance(number, int) and clamp_start(number, sizes[dimension], full[dimension]) == first[dimension]
        for dimension, number in zip(moved, numbers, strict=True)
    )


def aliased(block: ir.Block, ops: list[ir.Operation]) -> InPlace:
    """The pairs that the call itself names, where the operand is read nowhere else."""
    (call,) = ops[:-1]
    inputs = list(block.arguments)
    named = [(call.operands[operand], result) for result, operand in aliases(call)]
    return InPlace(frozenset((inputs.index(value), result) for value, result in named if len(list(value.uses)) == 1))


def carried(block: ir.Block, ops: list[ir.Operation]) -> InPlace:
    """A loop may update what it carries where that lies, if nothing else reads the initial value."""
    loop = next(op for op in ops if op.name == "scf.while")
    initial = list(loop.operands)
    inputs = {
        initial.index(value): number
        for number, value in enumerate(block.arguments)
        if value in initial and len(list(value.uses)) == 1
    }
    outputs = {list(loop.results).index(value): number for number, value in enumerate(ops[-1].operands)}
    return InPlace(frozenset((number, outputs[carry]) for carry, number in inputs.items() if carry in outputs))


def _read_in_place(block: ir.Block, ops: list[ir.Operation]) -> set[int]:
    """Inputs that are only read at the index of the output, in row-major order."""
    here: set[ir.Value] = set(ops[-1].operands)
    elsewhere: set[ir.Value] = set()
    for op in reversed(ops[:-1]):
        result, operands = op.results[0], list(op.operands)
        if op.name == "hlo.reduce":
            # Full-shaped values under a row reduction are read where they are.
            here.add(operands[0])
            elsewhere.update(operands[1:])
            continue
        if result in here:
            (here if _keeps_order(op) else elsewhere).update(operands)
        if result in elsewhere:
            elsewhere.update(operands)
    return {number for number, value in enumerate(block.arguments) if value in here and value not in elsewhere}


def _keeps_order(op: ir.Operation) -> bool:
    name = op.name
    if name in ("hlo.broadcast", "hlo.bitcast_convert"):
        return num_elements(op.operands[0]) == num_elements(op.results[0])
    record = record_of(name)
    return name == "hlo.reshape" or (record is not None and record.work is Work.ELEMENTS)


def _last_phase(ops: list[ir.Operation]) -> set[int]:
    """Outputs that depend on every reduction of a row fusion."""
    reductions = [op.results[0] for op in ops if op.name == "hlo.reduce"]
    needs: dict[ir.Value, set[int]] = {}
    for op in ops[:-1]:
        found: set[int] = set()
        for operand in op.operands:
            found |= needs.get(operand, set())
        if op.name == "hlo.reduce":
            found = found | {reductions.index(op.results[0])}
        for result in op.results:
            needs[result] = found
    every = len(reductions)
    return {number for number, value in enumerate(ops[-1].operands) if len(needs.get(value, set())) == every}
