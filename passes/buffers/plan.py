"""Decide which values share memory and which must be copied.

`Plan` is made for a program as it stands: it unites what has to lie in one slice (carries, branches, results,
in-place updates) and lists the operands where that is impossible. The pass inserts a copy for each and plans again,
until nothing is left to copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stablehlo_py.dialect.memory import CONSTANT, INPUT, OUTPUT, WINDOW
from stablehlo_py.mlir import ir
from stablehlo_py.passes.buffers.inplace import NOWHERE, InPlace
from stablehlo_py.passes.buffers.liveness import Program, Step
from stablehlo_py.passes.buffers.sharing import Classes


@dataclass(frozen=True)
class Copy:
    """Operand `position` of an op has to be copied first. `source` names the carry whose slice is read, for the
    order of a yield's copies."""

    op: ir.Operation
    position: int
    carry: int = -1


class Plan:
    """Classes of values and the copies that are still missing. Without `reuse`, only updates are in place."""

    def __init__(
        self,
        function: ir.Operation,
        pairs: Mapping[str, InPlace],
        donors: Mapping[int, int | None],
        reuse: bool,
    ) -> None:
        self.program = Program(function)
        self.classes = Classes(self.program)
        self.copies: list[Copy] = []
        self.donations: list[tuple[int, int]] = []
        self._pairs = pairs
        self._at: dict[int, Step] = {step.start: step for step in self.program.ops}
        # First what leaves no choice, then inner before outer: a copy that is asked for must find a place in the
        # next round.
        for step in self.program.ops:
            if step.callee and self._in_place(step).must:
                self._update(step)
        for step in sorted(self.program.ops, key=lambda step: step.end):
            if step.name == "scf.while":
                self._loop(step)
            elif step.name in ("scf.if", "scf.index_switch"):
                self._branches(step)
        self._results(donors)
        if reuse and not self.copies:
            for step in self.program.ops:
                if step.callee:
                    self._reuse(step)

    def _in_place(self, step: Step) -> InPlace:
        return self._pairs.get(step.callee, NOWHERE)

    # --- structure ---------------------------------------------------------------------------------------------------

    def _can_hold(self, value: int) -> bool:
        """May the class of a value be written by others? Inputs, constants and windows may not."""
        space = self.classes.space[self.classes.of(value)]
        return space is None or space[0] not in (INPUT, CONSTANT, WINDOW)

    def _loop(self, step: Step) -> None:
        before, after = step.arguments
        body = step.regions[1]
        terminator = self.program.terminator(body)
        for index, result in enumerate(step.results):
            if before[index] == step.operands[index]:
                continue  # handed on unchanged: a view of its initial value
            for other in (after[index], result):
                united = self.classes.unite(before[index], other)
                assert united  # the call is not inside: `python -O` leaves asserts out
            initial = step.operands[index]
            if not self._can_hold(initial) or not self.classes.unite(initial, before[index]):
                self.copies.append(Copy(step.op, index))
        for index, result in enumerate(step.results):
            if before[index] == step.operands[index]:
                continue
            value = terminator.operands[index]
            inside = self.program.values[value].block is body
            if not inside or not self._can_hold(value) or value in after or not self._unite_at(value, result):
                carry = after.index(value) if value in after else -1
                self.copies.append(Copy(terminator.op, index, carry))

    def _branches(self, step: Step) -> None:
        for branch in step.regions:
            terminator = self.program.terminator(branch)
            for index, result in enumerate(step.results):
                value = terminator.operands[index]
                inside = self.program.values[value].block is branch
                if not inside or not self._can_hold(value) or not self.classes.unite(value, result):
                    self.copies.append(Copy(terminator.op, index))

    def _unite_at(self, value: int, other: int) -> bool:
        """Unite a value with what its maker may read in place."""
        meeting = self.program.values[value].first
        maker = self._at.get(meeting)
        allowed = maker is not None and maker.callee and self._meets(maker, value, other)
        return self.classes.unite(value, other, meeting if allowed else -1)

    def _meets(self, step: Step, result: int, other: int) -> bool:
        """Does every operand of the call that lies in the class of `other` have leave to be overwritten by `result`?"""
        if result not in step.results:
            return False
        output = step.results.index(result)
        pairs = self._in_place(step)
        shared = [
            position
            for position, operand in enumerate(step.operands)
            if operand >= 0 and self.classes.same(operand, other)
        ]
        return all((position, output) in pairs.may for position in shared)

    def _results(self, donors: Mapping[int, int | None]) -> None:
        terminator = self.program.terminator(self.program.main)
        taken: set[tuple[int, int]] = set()
        for output, value in enumerate(self.program.returned):
            if not self._can_hold(value) or self.classes.space[self.classes.of(value)] in taken:
                self.copies.append(Copy(terminator.op, output))
                continue
            donor = self._donor(output, value, donors)
            if donor is not None:
                self.donations.append((donor, output))
                space = (INPUT, donor)
            else:
                space = (OUTPUT, output)
            self.classes.space[self.classes.of(value)] = space
            taken.add(space)

    def _donor(self, output: int, value: int, donors: Mapping[int, int | None]) -> int | None:
        used = {donor for donor, _ in self.donations}
        for argument, target in donors.items():
            if argument in used or target not in (None, output):
                continue
            first = self.classes.range(value)[0]
            maker = self._at.get(first)
            entry = next(
                (
                    member
                    for member in self.classes.members[self.classes.of(value)]
                    if self.program.values[member].first == first
                ),
                value,
            )
            meets = maker is not None and (
                (maker.callee and self._meets(maker, entry, argument))
                or (
                    maker.name == "hlo.copy" and maker.operands[0] == argument
                )  # a copy onto itself, which does nothing
            )
            if self.classes.unite(argument, value, first if meets else -1):
                return argument
        return None

    # --- in place ----------------------------------------------------------------------------------------------------

    def _update(self, step: Step) -> None:
        """An in-place update and its operand are one value in memory, or the operand is copied first."""
        pair = self._in_place(step).must
        assert pair is not None
        target, result = step.operands[pair[0]], step.results[pair[1]]
        others = [operand for position, operand in enumerate(step.operands) if position != pair[0] and operand >= 0]
        clashes = any(self.classes.same(operand, target) for operand in others)
        if clashes or not self._can_hold(target) or not self.classes.unite(target, result, step.start):
            self.copies.append(Copy(step.op, pair[0]))

    def _reuse(self, step: Step) -> None:
        """Write results over operands that nobody reads later."""
        pairs = self._in_place(step)
        if pairs.must:
            return
        for position, output in sorted(pairs.may):
            operand, result = step.operands[position], step.results[output]
            if (
                self.program.values[operand].last != step.start
                or not self._can_hold(operand)
                or not self._can_hold(result)
            ):
                continue
            if not self.classes.same(operand, result) and self._meets(step, result, operand):
                self.classes.unite(operand, result, step.start)

    def pairs_of(self, step: Step) -> tuple[int, ...]:
        """input, output, ... of a call that share memory now."""
        found: list[int] = []
        results = [self.classes.of(result) for result in step.results]
        for position, operand in enumerate(step.operands):
            if operand >= 0 and (root := self.classes.of(operand)) in results:
                found += (at for output, each in enumerate(results) if each == root for at in (position, output))
        return tuple(found)
