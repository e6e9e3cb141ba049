"""Loops without carries that carry nothing, and branches that are decided.

    %r:2 = scf.while (%i = %c0, %w = %x) { ... scf.condition ... } do { ^(%i, %w): ... scf.yield %j, %w }
        ==>  %r = scf.while (%i = %c0) { ... } do { ^(%i): ...with %x for %w ... scf.yield %j }

- A carry that every iteration hands on unchanged is the value that it started with.
- Two carries that start equal and are yielded equal are one.
- A carry whose result nobody reads, and which feeds only itself and others like it, goes.
- `scf.while` whose predicate is constantly false, `scf.if` and `scf.index_switch` with a constant predicate are
  replaced by what they do.
- A result of a branch that is one outer value in every branch is that value; results without uses are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect.edit import terminator
from stablehlo_py.mlir import ir
from stablehlo_py.passes._loops import Loop, scalar_value, without_carries
from stablehlo_py.passmanager.effects import has_uses, is_pure
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RulePass, RuleSet

LOOPS = RuleSet("simplify-loops")
_BRANCHES = ("scf.if", "scf.index_switch")


@dataclass(frozen=True)
class SimplifyLoops(RulePass):
    """Drops invariant, equal and dead loop carries; inlines branches and loops whose predicate is constant."""

    name: ClassVar[str] = "simplify-loops"
    makes: ClassVar[tuple[str, ...]] = ()
    table: ClassVar[RuleSet] = LOOPS


def _remove(rewriter: Rewriter, loop: Loop, removed: set[int]) -> Replacement:
    results = without_carries(rewriter, loop, removed)
    for old, new in zip(loop.op.results, results, strict=True):
        if new is not None:
            rewriter.replace_uses(old, new)
    rewriter.erase(loop.op)
    return True


# --- carries ---------------------------------------------------------------------------------------------------------


@LOOPS.rule("scf.while", where="the predicate is constant")
def while_never(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "while (false) -> initial values"
    loop = Loop.of(op)
    return list(op.operands) if loop is not None and scalar_value(loop.condition.operands[0]) == 0 else None


@LOOPS.rule("scf.while", where="yielded as it came, or as it started")
def while_invariant_carry(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "carry that does not change -> its initial value"
    loop = Loop.of(op)
    if loop is None:
        return None
    inits, values, removed = list(op.operands), list(loop.yielded.operands), set()
    for i, (init, value) in enumerate(zip(inits, values, strict=True)):
        if value in (loop.after.arguments[i], init):
            removed.add(i)
    if not removed:
        return None
    for i in removed:
        for each in (loop.before.arguments[i], loop.after.arguments[i], op.results[i]):
            rewriter.replace_uses(each, inits[i])
    # The condition forwards the initial value now; without_carries drops it.
    return _remove(rewriter, loop, removed)


@LOOPS.rule("scf.while", where="the same initial value and the same yielded value")
def while_equal_carries(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "two equal carries -> one"
    loop = Loop.of(op)
    if loop is None:
        return None
    first: dict[tuple[ir.Value, ir.Value], int] = {}
    equal: dict[int, int] = {}
    for i, pair in enumerate(zip(op.operands, loop.yielded.operands, strict=True)):
        if (k := first.setdefault(pair, i)) != i:
            equal[i] = k
    if not equal:
        return None
    for i, k in equal.items():
        for values in (loop.before.arguments, loop.after.arguments, op.results):
            rewriter.replace_uses(values[i], values[k])
    return _remove(rewriter, loop, set(equal))


@LOOPS.rule("scf.while", where="nobody reads the result, and only dead carries depend on it")
def while_dead_carry(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "carry that nobody reads -> dropped"
    loop = Loop.of(op)
    if loop is None:
        return None
    dead: dict[int, set[int]] = {}
    for i, result in enumerate(op.results):
        if any(True for _ in result.uses) or len(list(loop.before.arguments[i].uses)) != 1:
            continue
        feeds = _carries_fed(loop, loop.after.arguments[i])
        if feeds is not None:
            dead[i] = feeds
    while live := [i for i, feeds in dead.items() if not feeds <= dead.keys()]:
        for i in live:
            del dead[i]
    if not dead:
        return None
    # Cut the cycles: what computed the yielded values becomes dead code.
    yielded = list(loop.yielded.operands)
    for i in dead:
        if isinstance(yielded[i], ir.OpResult):
            rewriter.set_operand(loop.yielded, i, op.operands[i])
    for i in dead:
        rewriter.replace_uses(loop.after.arguments[i], op.operands[i])
    return _remove(rewriter, loop, set(dead))


def _carries_fed(loop: Loop, value: ir.Value) -> set[int] | None:
    """Carries whose next value depends on a value of the loop's body; None when something with a side effect depends on
    it."""
    feeds: set[int] = set()
    pending, seen = [value], {value}
    while pending:
        for use in pending.pop().uses:
            user = use.owner.operation
            if user == loop.yielded:
                feeds.add(use.operand_number)
                continue
            while user.block != loop.after:
                user = user.parent.operation
            if not is_pure(user):
                return None
            for result in user.results:
                if result not in seen:
                    seen.add(result)
                    pending.append(result)
    return feeds


# --- branches --------------------------------------------------------------------------------------------------------


@LOOPS.rule(*_BRANCHES, where="the predicate is constant")
def branch_decided(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "if (constant) -> the branch's body"
    number = scalar_value(op.operands[0])
    if number is None:
        return None
    if op.name == "scf.if":
        region = op.regions[0 if number else 1]
        if not len(region.blocks):
            return []
    else:
        cases = list(op.attributes["cases"])
        region = op.regions[cases.index(number) + 1 if number in cases else 0]
    return rewriter.inline_region(region, [])


@LOOPS.rule(*_BRANCHES, where="a value from outside")
def branch_equal_results(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "result that is one value in all branches -> that value"
    if not len(op.results) or any(not len(region.blocks) for region in op.regions):
        return None
    ends = [terminator(region.blocks[0]) for region in op.regions]
    changed = False
    for i, result in enumerate(op.results):
        values = [end.operands[i] for end in ends]
        if any(value != values[0] for value in values[1:]) or not any(True for _ in result.uses):
            continue
        # Equal in two regions: it can only come from outside of both, unless there is one region.
        if len(ends) > 1:
            rewriter.replace_uses(result, values[0])
            changed = True
    return changed


@LOOPS.rule(*_BRANCHES)
def branch_unused_results(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "results without uses -> dropped"
    kept = [i for i, result in enumerate(op.results) if any(True for _ in result.uses)]
    if len(kept) == len(op.results) or not has_uses(op):
        return None
    types = [op.results[i].type for i in kept]
    attributes = {"cases": op.attributes["cases"]} if op.name == "scf.index_switch" else {}
    new = rewriter.create(op.name, types, list(op.operands), attributes, regions=len(op.regions))
    for old_region, new_region in zip(op.regions, new.regions, strict=True):
        block = old_region.blocks[0]
        block.append_to(new_region)
        end = terminator(block)
        rewriter.create("scf.yield", [], [end.operands[i] for i in kept], ip=ir.InsertionPoint(end))
        rewriter.erase(end)
    for i, result in zip(kept, new.results, strict=True):
        rewriter.replace_uses(op.results[i], result)
    rewriter.erase(op)
    return True
