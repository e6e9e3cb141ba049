"""Give every value its slice of memory.

Before: `@main` of fusion calls and control flow in execution order. After: every op with tensor results carries
`hlo.slices`, four numbers for each result (docs/architecture.md, Memory), the module `hlo.arena_bytes` and
`hlo.free_memory`, and `hlo.copy` ops are where two values that must lie in one slice cannot be the same:

    %1 = call @fusion_0(%0) {hlo.slices = array<i64: 0, 0, 128, 4096>}      // arena, offset 128

Three things keep memory small: live ranges (values that are never live together lie on top of each other, largest
first), writing over an operand that nobody reads later (`hlo.inplace` on the fusion; the fusion is cloned where its
calls differ), and writing results straight into the output. Donated inputs (`tf.aliasing_output`,
`jax.buffer_donor` on arguments of `@main`) become the memory of an output where the input is dead by then:
`hlo.donations = array<i64: input, output, ...>` on the module lists those that do; the runtime hands the input's
buffer back as that output.

Relies on `fusion`. The order of ops is taken as it is (`schedule`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect.attributes import (
    ALIASING_OUTPUT,
    ARENA_BYTES,
    BUFFER_DONOR,
    DONATIONS,
    FREE_MEMORY,
    FUSION,
    INPLACE,
    SLICES,
)
from stablehlo_py.dialect.build import attribute
from stablehlo_py.dialect.locations import describe
from stablehlo_py.dialect.memory import ARENA, slices_of
from stablehlo_py.dialect.symint import IntLike, is_known, size_hint
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import ir
from stablehlo_py.passes._functions import functions
from stablehlo_py.passes.buffers.arena import Interval, assign_offsets, free_memory
from stablehlo_py.passes.buffers.copies import insert_copies
from stablehlo_py.passes.buffers.inplace import InPlace, in_place
from stablehlo_py.passes.buffers.liveness import Program
from stablehlo_py.passes.buffers.plan import Plan
from stablehlo_py.passes.buffers.slots import assign_slots
from stablehlo_py.passes.buffers.verify import verify_buffers
from stablehlo_py.passes.policy import policy_of
from stablehlo_py.passmanager.base import Pass, switch
from stablehlo_py.targets import DEFAULT_TARGET

_MAX_ROUNDS = 8


@dataclass(frozen=True)
class BufferAssignment(Pass):
    """Give every value a slice of the arena, an input, an output or a constant.

    Without `share` values that are live at different times do not lie on top of each other.
    """

    name: ClassVar[str] = "buffer-assignment"
    required: ClassVar[bool] = True
    inplace: bool = switch("in-place")
    share: bool = switch("shared-memory")
    verify: bool = False
    target: str = DEFAULT_TARGET

    def run(self, module: ir.Module) -> None:
        """Annotate the module. Raises InternalError when `verify` finds two live values in one place."""
        main, fusions = _main_and_fusions(module)
        rules = policy_of(self.target).fusion.in_place
        pairs = {name: in_place(function, rules) for name, function in fusions.items()}
        donors = _donors(main)
        for _ in range(_MAX_ROUNDS):
            plan = Plan(main, pairs, donors, self.inplace)
            if not plan.copies:
                break
            insert_copies(plan.copies)
        else:
            raise InternalError(
                "buffer assignment did not settle on a set of copies", remedy="report this with the module"
            )
        placed = _annotate(module, plan, self.share)
        _mark_in_place(module, plan, fusions, pairs)
        if self.share:
            _mark_free(module, plan, *placed)
        if self.verify:
            verify_buffers(module)


@dataclass(frozen=True)
class Entry:
    """One value in the arena: where it is, and from which to which position of the program."""

    value: str
    offset: IntLike
    size: IntLike
    first: int
    last: int
    source: str | None


def memory_plan(module: ir.Module) -> list[Entry]:
    """The arena of an assigned module, largest values first. `value` is the fusion (or op) that makes it, `source`
    the user's line."""
    main, fusions = _main_and_fusions(module)
    program = Program(main)
    entries = []
    for step in program.ops:
        if step.name == "hlo.reshape":
            continue
        for index, (number, place) in enumerate(zip(step.results, slices_of(step.op), strict=False)):
            if place.space != ARENA or program.number[step.op.results[index]] != number:
                continue
            value = program.values[number]
            name = step.callee or step.name
            kind = f"{name} ({fusions[name].attributes[FUSION].value})" if name in fusions else name
            entries.append(Entry(kind, place.offset, place.size, value.first, value.last, describe(step.op.location)))
    return sorted(entries, key=lambda entry: (-size_hint(entry.size), entry.first))


def _main_and_fusions(module: ir.Module) -> tuple[ir.Operation, dict[str, ir.Operation]]:
    programs, fusions = functions(module)
    if not programs:
        raise InternalError("there is no @main to assign memory to", remedy="run the pass on a whole program")
    return programs[0], fusions


def _donors(main: ir.Operation) -> dict[int, int | None]:
    """Donated arguments: number -> the output that it is meant for, None for any."""
    if "arg_attrs" not in main.attributes:
        return {}
    donors: dict[int, int | None] = {}
    for number, attributes in enumerate(main.attributes["arg_attrs"]):
        if ALIASING_OUTPUT in attributes:
            donors[number] = attributes[ALIASING_OUTPUT].value
        elif BUFFER_DONOR in attributes and attributes[BUFFER_DONOR].value:
            donors[number] = None
    return donors


def _annotate(module: ir.Module, plan: Plan, share: bool) -> tuple[list[Interval], list[IntLike]]:
    """Slices, the arena, donations. Returns what lies in the arena, and where."""
    program, classes = plan.program, plan.classes
    roots = sorted({classes.of(number) for number in range(len(program.values))})
    in_arena = [root for root in roots if classes.space[root] is None]
    ranges = [classes.range(root) if share else (0, 0) for root in in_arena]  # all at one time: side by side
    intervals = [Interval(program.values[root].bytes, *at) for root, at in zip(in_arena, ranges, strict=True)]
    known = is_known(*(interval.bytes for interval in intervals))
    offsets, total = assign_offsets(intervals) if known else assign_slots(intervals)
    place = {root: (ARENA, 0, offset) for root, offset in zip(in_arena, offsets, strict=True)}
    for step in program.ops:
        if not step.results or step.results[0] < 0:
            continue
        numbers: list[IntLike] = []
        for number in step.results:
            root = classes.of(number)
            space = classes.space[root]
            numbers += (*(place[root] if space is None else (*space, 0)), program.values[number].bytes)
        step.op.attributes[SLICES] = attribute(numbers)
    attributes = module.operation.attributes
    attributes[ARENA_BYTES] = attribute(total if known else [total])
    if plan.donations:
        attributes[DONATIONS] = ir.DenseI64ArrayAttr.get([number for pair in sorted(plan.donations) for number in pair])
    return intervals, list(offsets)


def _mark_in_place(module: ir.Module, plan: Plan, fusions: dict[str, ir.Operation], pairs: dict[str, InPlace]) -> None:
    """`hlo.inplace` on the fusions; calls that differ in it get a function of their own."""
    variants: dict[tuple[str, tuple[int, ...]], str] = {}
    used: set[str] = set()
    for step in plan.program.ops:
        if not (name := step.callee):
            continue
        shared = plan.pairs_of(step)
        variant = variants.get((name, shared))
        if variant is None:
            function = fusions[name]
            variant = name
            if name in used:
                serial = sum(known == name for known, _ in variants)
                variant = f"{name}_{serial}"
                while variant in fusions:
                    serial += 1
                    variant = f"{name}_{serial}"
                function = function.clone(ip=ir.InsertionPoint(module.body))
                function.attributes["sym_name"] = ir.StringAttr.get(variant)
                if INPLACE in function.attributes:
                    del function.attributes[INPLACE]
                fusions[variant] = function
            if shared:
                function.attributes[INPLACE] = ir.DenseI64ArrayAttr.get(shared)
            used.add(name)
            variants[(name, shared)] = variant
        if variant != name:
            step.op.attributes["callee"] = ir.FlatSymbolRefAttr.get(variant)
            step.callee = variant


def _mark_free(module: ir.Module, plan: Plan, intervals: list[Interval], offsets: list[IntLike]) -> None:
    """`hlo.free_memory` on the module, where sizes are known; all fusions have their last names."""
    if not is_known(*(interval.bytes for interval in intervals)):
        return
    calls: dict[str, list[int]] = {}
    for step in plan.program.ops:
        if step.callee:
            calls.setdefault(step.callee, []).append(step.start)
    arena = module.operation.attributes[ARENA_BYTES].value
    free = free_memory(intervals, offsets, calls)
    marked = {name: ir.DenseI64ArrayAttr.get(places) for name, places in free.items() if places != [arena]}
    if marked:
        module.operation.attributes[FREE_MEMORY] = ir.DictAttr.get(marked)
