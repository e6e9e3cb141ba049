"""The rewrite driver: tables of rules, applied over all ops of a module until none matches.

A rule is a function of the matched op and a `Rewriter`, named and registered in a `RuleSet`::

    RULES = RuleSet("simplify")

    @RULES.rule("hlo.add", where="y is zero and x is not a float (-0 + 0 is +0)")
    def add_zero(op, rewriter):
        "x + 0 -> x"
        if is_zero(op.operands[1]) and not is_float(op.operands[0]):
            return op.operands[0]

    @RULES.pair("hlo.negate", "hlo.negate")
    def negate_negate(op, inner, rewriter):
        "-(-x) -> x"
        return inner.operands[0]

    statistics = apply_rules(module, RULES, disable=("add-zero",))

What a rule returns:

* ``None`` or ``False``: no match; the rule must not have changed anything;
* a value, or a sequence of one value per result: the op's replacement; the driver replaces the uses and erases the op;
* ``True``: the rule changed the program in place (attributes, operands by `Rewriter.set_operand`), or called
  `Rewriter.replace` / `Rewriter.erase` itself.

New ops are made with the `Rewriter` (`create`, `value`, `like`, `constant`, `splat`, `broadcast`, `reshape`,
`transpose`); they land before the matched op, with its location, and are visited in turn. An op whose results are
unused and that has no side effect is erased. Ops in nested regions (`scf.while`, `stablehlo.reduce` ...) are visited
like all others.

Rules get `ir.Operation` objects. The bindings do not notice when an op dies by another handle: a rule must not keep
ops from one call to the next, and must erase ops through the `Rewriter` only.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import ClassVar, TypeAlias

from stablehlo_py.dialect import sharding
from stablehlo_py.dialect.attributes import SHARDING
from stablehlo_py.dialect.build import AttributeValue, Builder, attribute
from stablehlo_py.dialect.constants import splat
from stablehlo_py.dialect.locations import describe
from stablehlo_py.dialect.sharding import is_sharded
from stablehlo_py.dialect.symint import GuardError
from stablehlo_py.dialect.types import inside, module_of, named, operations
from stablehlo_py.errors import InternalError, OptionError
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.passmanager.effects import IMPURE, PURE, effect_kind, has_uses, is_pure
from stablehlo_py.passmanager.suggest import near_miss

Replacement: TypeAlias = bool | ir.Value | Sequence[ir.Value] | None
RuleFunction: TypeAlias = Callable[[ir.Operation, "Rewriter"], Replacement]
PairFunction: TypeAlias = Callable[[ir.Operation, ir.Operation, "Rewriter"], Replacement]


@dataclass(frozen=True)
class Rule:
    """One rewrite: `function` is tried on every op named in `roots` whose operands may match; `doc` is "pattern ->
    replacement", `where` its side condition.

    Attributes:
        needs: the names of ops one of which makes an operand, that of this `number` unless it is None.
        only: the names of ops one of which makes every operand.
        constants: numbers of one of which the second operand is a splat. Empty sets ask for nothing.
        nested: an op of the same name makes the first operand.
    """

    name: str
    roots: tuple[str, ...]
    function: RuleFunction
    doc: str = ""
    where: str = ""
    needs: frozenset[str] = frozenset()
    number: int | None = None
    only: frozenset[str] = frozenset()
    constants: Container[complex] = frozenset()
    nested: bool = False

    def may_match(self, root: str, makers: Sequence[str]) -> bool:
        """Whether ops of these names may make the operands of one named `root`; "" stands for none."""
        if self.nested and makers[0] != root:
            return False
        if self.only and not self.only.issuperset(makers):
            return False
        if self.number is not None:
            return makers[self.number] in self.needs
        return not self.needs or not self.needs.isdisjoint(makers)


class RuleTable(dict[str, tuple[Rule, ...]]):
    """Rules by root op name, in order."""

    def __init__(self, rules: Mapping[str, tuple[Rule, ...]]) -> None:
        super().__init__(rules)
        self._matching: dict[tuple[str, tuple[str, ...]], tuple[Rule, ...]] = {}

    def candidates(self, name: str, makers: tuple[str, ...]) -> tuple[Rule, ...]:
        """Those of an op whose operands ops of these names make. Kept for all programs, as ops of few operands are
        always the same."""
        key = name, makers
        found = self._matching.get(key)
        if found is None:
            found = tuple([rule for rule in self[name] if rule.may_match(name, makers)])
            if len(makers) <= _FEW_OPERANDS and len(self._matching) < _MOST_KEPT:
                self._matching[key] = found
        return found


_FEW_OPERANDS, _MOST_KEPT = 4, 1 << 13


@dataclass
class RuleSet:
    """An ordered table of rules; sets add with `+`. Rule names are unique within a set."""

    name: str
    rules: list[Rule] = field(default_factory=list)
    _tables: dict[tuple[int, tuple[str, ...]], RuleTable] = field(default_factory=dict, repr=False)

    def rule(
        self,
        *roots: str,
        name: str | None = None,
        where: str = "",
        needs: str | Iterable[str] = (),
        number: int | None = None,
        only: str | Iterable[str] = (),
        constants: Container[complex] = frozenset(),
        nested: bool = False,
    ) -> Callable[[RuleFunction], RuleFunction]:
        """Decorator: register a function for the op names `roots`. The rule's name is the function's in kebab-case,
        its `doc` the docstring's first line. `needs`, `number`, `only`, `constants` and `nested` are those of `Rule`:
        hints that save calls, as most ops meet no pattern at all."""

        def register(function: RuleFunction) -> RuleFunction:
            rule_name = name or function.__name__.strip("_").replace("_", "-")
            doc = (function.__doc__ or "").strip().split("\n")[0]
            some, every = (frozenset((names,) if isinstance(names, str) else names) for names in (needs, only))
            self.add(Rule(rule_name, roots, function, doc, where, some, number, every, constants, nested))
            return function

        return register

    def pair(self, root: str, maker: str, where: str = "") -> Callable[[PairFunction], PairFunction]:
        """Decorator, as `rule`, of a pattern of two ops: the function gets one named `root` and the one named `maker`
        that makes its first operand."""

        def register(function: PairFunction) -> PairFunction:
            @wraps(function)
            def matched(op: ir.Operation, rewriter: Rewriter) -> Replacement:
                inner = defining(op.operands[0], maker)
                return None if inner is None else function(op, inner, rewriter)

            self.rule(root, where=where, needs=maker, number=0)(matched)
            return function

        return register

    def add(self, rule: Rule) -> None:
        """Append a rule. Raises ValueError for a second rule of one name."""
        if any(other.name == rule.name for other in self.rules):
            raise ValueError(f"rule set '{self.name}' already has a rule '{rule.name}'")
        self.rules.append(rule)

    def __add__(self, other: RuleSet) -> RuleSet:
        result = RuleSet(f"{self.name}+{other.name}", list(self.rules))
        for rule in other.rules:
            result.add(rule)
        return result

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def table(self, disable: Iterable[str] = ()) -> RuleTable:
        """Rules by root op name, in order, without the disabled ones. Raises OptionError for an unknown name."""
        key = len(self.rules), tuple(disable)
        if key not in self._tables:
            self._tables[key] = self._table(set(key[1]))
        return self._tables[key]

    def _table(self, off: set[str]) -> RuleTable:
        for unknown in sorted(off - {rule.name for rule in self.rules}):
            remedy = near_miss(unknown, [rule.name for rule in self.rules])
            raise OptionError(f"rule set '{self.name}' has no rule '{unknown}' to disable", remedy=remedy)
        table: dict[str, list[Rule]] = {}
        for rule in self.rules:
            if rule.name not in off:
                for root in rule.roots:
                    table.setdefault(root, []).append(rule)
        return RuleTable({root: tuple(rules) for root, rules in table.items()})


@dataclass(frozen=True)
class RulePass(Pass):
    """Base of passes that apply a table of rules until none matches: `table`, or, where options decide, what `rules`
    gives. `disable` takes names of rules. One that `sweeps` erases dead ops of any name, which it has to look for."""

    idempotent: ClassVar[bool] = True
    sweeps: ClassVar[bool] = True
    table: ClassVar[RuleSet]
    disable: tuple[str, ...] = ()

    def rules(self) -> RuleSet:
        """The table that is applied."""
        return self.table

    def tables(self) -> dict[str, RuleSet]:
        """Its parts, by the names of the passes that apply one alone."""
        return {}

    def roots(self) -> Iterable[str] | None:
        return self.rules().table(self.disable)

    def settles(self, module: ir.Module) -> tuple[str, ...]:
        """Dead calls of pure functions stay."""
        return ("dce",) if self.sweeps and len(module.body.operations) == 1 else ()

    def run(self, module: ir.Module) -> bool | None:
        return apply_rules(module, self.rules(), disable=self.disable, sweep=self.sweeps).changed


@dataclass
class Statistics:
    """What a run did: rewrites per rule name, ops erased as dead, ops visited (revisits included)."""

    rewrites: dict[str, int] = field(default_factory=dict)
    erased: int = 0
    visited: int = 0

    @property
    def total(self) -> int:
        """Number of rewrites by all rules."""
        return sum(self.rewrites.values())

    @property
    def changed(self) -> bool:
        """True when the module is not what it was."""
        return bool(self.rewrites) or self.erased > 0


def defining(value: ir.Value, name: str | None = None) -> ir.Operation | None:
    """The op that makes a value, if it is one of that name (or any, for None); None for block arguments."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    op = owner.operation
    return op if name is None or op.name == name else None


_NOT_READ = object()  # a constant that no rule has asked for


class _Resultless:
    """Key of an op without results; equal for one op only."""

    def __init__(self, op: ir.Operation) -> None:
        self.op = op

    def __hash__(self) -> int:
        return hash(self.op.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Resultless) and self.op == other.op


def key_of(op: ir.Operation) -> ir.Value | _Resultless:
    """A key that is equal for one op only, as long as that exists. `hash(op)` is computed from operands and attributes:
    it changes with them, and takes as long as they are many; a value's hash is its address."""
    results = op.results
    return results[0] if len(results) else _Resultless(op)


class Rewriter(Builder):
    """Builds and edits ops on behalf of the rule that is being tried, and keeps the driver's worklist true."""

    def __init__(self, sharded: bool = False) -> None:
        self._sharded = sharded
        # popitem() takes the op queued last. No entry ever outlives its op.
        self._pending: dict[ir.Value | _Resultless, ir.Operation] = {}
        self._op: ir.Operation | None = None
        self._point: ir.InsertionPoint | None = None
        self._location: ir.Location | None = None

    def at(self, op: ir.Operation) -> None:
        """From now on new ops land before this one, with its location: for rules that change more than the matched
        op."""
        self._op, self._point, self._location = op, None, None

    @property
    def location(self) -> ir.Location:
        """The matched op's location: every op that replaces it carries this one."""
        if self._location is None:
            assert self._op is not None
            self._location = self._op.location
        return self._location

    @property
    def insertion_point(self) -> ir.InsertionPoint:
        """Just before the matched op."""
        if self._point is None:
            assert self._op is not None
            self._point = ir.InsertionPoint(self._op)
        return self._point

    # --- building ----------------------------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        results: Sequence[ir.Type],
        operands: Sequence[ir.Value],
        attributes: Mapping[str, AttributeValue] | None = None,
        *,
        regions: int = 0,
        ip: ir.InsertionPoint | None = None,
    ) -> ir.Operation:
        """Create any op (full name, "hlo.add") before the matched op, or at `ip`; attribute values may be plain
        Python values."""
        converted = {key: attribute(value) for key, value in attributes.items()} if attributes else None
        op = ir.Operation.create(
            name,
            results=results,
            operands=operands,
            attributes=converted,
            regions=regions,
            loc=self.location,
            ip=ip or self.insertion_point,
        )
        self._pending[key_of(op)] = op
        return op

    # --- editing -----------------------------------------------------------------------------------------------------

    def requeue(self, op: ir.Operation) -> None:
        """Visit an op (again): for ops that a rule made without the rewriter."""
        key = key_of(op)
        self._pending.pop(key, None)
        self._pending[key] = op

    def requeue_users(self, value: ir.Value) -> None:
        """Visit every user of a value (again)."""
        pending = self._pending
        for use in value.uses:
            user = use.owner.operation
            pending[key_of(user)] = user

    def set_operand(self, op: ir.Operation, index: int, value: ir.Value) -> None:
        """Change one operand in place; the op is visited again, and what has lost a use."""
        old = op.operands[index]
        op.operands[index] = value
        self._requeue_definition(old)
        self._pending[key_of(op)] = op

    def compute_as(self, op: ir.Operation, type_: ir.Type, uses: Sequence[ir.OpOperand]) -> None:
        """Let an op, which has one result, compute it in another shape. Those `uses` of it get a reshape to that of
        before, which takes its sharding."""
        before, said = op.result.type, ""
        if self._sharded and SHARDING in op.attributes:
            (said,) = sharding.shardings_of(op)
            del op.attributes[SHARDING]
        op.result.set_type(type_)
        if uses:
            self.at(op)
            after = self.create("hlo.reshape", [before], [op.result], ip=ir.InsertionPoint.after(op)).result
            if said:
                sharding.take(after, said)
            for use in uses:
                self.set_operand(use.owner.operation, use.operand_number, after)

    def replace(self, op: ir.Operation, values: Sequence[ir.Value]) -> None:
        """Replace every result of any op by the value at its position, and erase the op."""
        for result, value in zip(op.results, values, strict=True):
            self.replace_uses(result, value)
        self.erase(op)

    def replace_uses(self, old: ir.Value, new: ir.Value) -> None:
        """Let the uses of a value use another one, which takes its sharding (docs/sharding.md)."""
        self.requeue_users(old)
        if self._sharded:
            sharding.replace(old, new)
        else:
            old.replace_all_uses_with(new)

    def erase(self, op: ir.Operation) -> None:
        """Erase any op without uses, with all it holds; what has lost a use is visited again."""
        lost = list(op.operands)
        self._pending.pop(key_of(op), None)
        inside: set[ir.Value | _Resultless] = set()
        if len(op.regions):
            inner = operations(op)
            inside.update(key_of(each) for each in inner)
            lost += [operand for each in inner for operand in each.operands]
            lost = [value for value in lost if not isinstance(value, ir.OpResult) or key_of(value.owner) not in inside]
            for key in inside:
                self._pending.pop(key, None)
        if self._op is not None and (op == self._op or key_of(self._op) in inside):
            self._op = None
        op.erase()
        for value in lost:
            self._requeue_definition(value)

    def _requeue_definition(self, value: ir.Value) -> None:
        """Visit the op that makes a value that has lost a use (again). Of an op without regions rules ask at most
        whether that was the last one but one."""
        if not isinstance(value, ir.OpResult):
            return
        owner, uses = value.owner.operation, value.uses
        several = next(uses, None) is not None and next(uses, None) is not None
        if not several or effect_kind(owner.name) != PURE:
            self._pending[key_of(owner)] = owner

    def inline_region(self, region: ir.Region, arguments: Sequence[ir.Value]) -> list[ir.Value]:
        """Move the ops of a one-block region before the matched op, its arguments replaced by `arguments`; the
        terminator is erased. Returns the values that the terminator had: the rule's replacement, for example of an
        `scf.if` whose condition is known."""
        assert self._op is not None
        block = region.blocks[0]
        for parameter, value in zip(block.arguments, arguments, strict=True):
            self.requeue_users(parameter)
            parameter.replace_all_uses_with(value)
        ops = [op.operation for op in block]
        for op in ops[:-1]:
            op.move_before(self._op)
            self._pending[key_of(op)] = op
        yielded = list(ops[-1].operands)
        self._pending.pop(key_of(ops[-1]), None)
        ops[-1].erase()
        return yielded


def apply_rules(
    root: ir.Module | ir.Operation | ir.OpView,
    rules: RuleSet,
    *,
    disable: Iterable[str] = (),
    stop_after: int | None = None,
    max_rewrites: int | None = None,
    sweep: bool = True,
) -> Statistics:
    """Apply `rules` to every op under `root` until none matches, and erase pure ops without uses; without `sweep` those
    that it makes, and those that rules are about.

    `disable` names rules to leave out; `stop_after` ends the run after that many rewrites (to bisect which one is
    wrong). `max_rewrites` (default: 1,000 + 64 per op) bounds the run: beyond it InternalError names the rules that
    undo each other.
    """
    table = rules.table(disable)
    anchor = root.operation
    driver, statistics = Rewriter(is_sharded(module_of(anchor))), Statistics()
    seeds = _seeds(anchor, table) if sweep else named(anchor, table)
    driver._pending = {key_of(op): op for op in reversed(seeds)}
    limit = max_rewrites if max_rewrites is not None else 1000 + 64 * len(seeds)
    with ir.Location.unknown(anchor.context):  # rules make types, whose verifiers need a place to report to
        _drain(driver, table, statistics, limit, stop_after, rules.name)
    return statistics


def _seeds(anchor: ir.Operation, table: Container[str]) -> list[ir.Operation]:
    """What rules are about, and what is dead: the rest needs no visit while it has uses; losing the last one queues
    it."""
    return [op for name, op in inside(anchor) if name in table or (effect_kind(name) != IMPURE and not has_uses(op))]


def _drain(
    driver: Rewriter,
    table: RuleTable,
    statistics: Statistics,
    limit: int,
    stop_after: int | None,
    rule_set: str,
) -> None:
    pending, rewrites = driver._pending, 0
    while pending:
        key, op = pending.popitem()
        statistics.visited += 1
        name = op.name
        driver.at(op)
        if not _is_used(key) and effect_kind(name) != IMPURE and _is_dead(op, name):
            driver.erase(op)
            statistics.erased += 1
            continue
        if name not in table:
            continue
        constant: object = _NOT_READ
        for rule in table.candidates(name, _makers(op)):
            if rule.constants:
                if constant is _NOT_READ:
                    constant = splat(op.operands[1])
                if constant not in rule.constants:
                    continue
            if rewrites == stop_after:
                return
            try:
                replacement = rule.function(op, driver)
            except GuardError:  # whether it may be applied depends on dynamic dimensions
                continue
            if replacement is None or replacement is False:
                continue
            _commit(driver, op, rule, replacement)
            statistics.rewrites[rule.name] = statistics.rewrites.get(rule.name, 0) + 1
            rewrites += 1
            if rewrites > limit:
                raise _does_not_end(driver._op, rule_set, statistics, rule)
            break


def _makers(op: ir.Operation) -> tuple[str, ...]:
    # An OpView has its operation's name; only a block has none.
    return tuple([operand.owner.name if isinstance(operand, ir.OpResult) else "" for operand in op.operands])


def _is_used(key: ir.Value | _Resultless) -> bool:
    # To ask for the results of an op again takes as long as to ask for the uses of one.
    return isinstance(key, ir.Value) and next(key.uses, None) is not None


def _is_dead(op: ir.Operation, name: str) -> bool:
    return not has_uses(op) and (effect_kind(name) == PURE or is_pure(op))


def _commit(driver: Rewriter, op: ir.Operation, rule: Rule, replacement: Replacement) -> None:
    if replacement is True:
        if driver._op is not None:
            driver.requeue(op)
            for result in op.results:
                driver.requeue_users(result)
        return
    values = [replacement] if isinstance(replacement, ir.Value) else list(replacement)  # type: ignore[arg-type]
    if len(values) != len(op.results):
        raise InternalError(
            f"rule '{rule.name}' returned {len(values)} values for {len(op.results)} results",
            location=describe(op.location),
            op=op.name,
        )
    for result, value in zip(op.results, values, strict=True):
        if result.type != value.type:
            raise InternalError(
                f"rule '{rule.name}' replaces a {result.type} by a {value.type}",
                location=describe(op.location),
                op=op.name,
            )
    driver.replace(op, values)


def _does_not_end(op: ir.Operation | None, rule_set: str, statistics: Statistics, rule: Rule) -> InternalError:
    counts = sorted(statistics.rewrites.items(), key=lambda item: -item[1])[:4]
    busiest = ", ".join(f"{name} ({count} times)" for name, count in counts)
    return InternalError(
        f"rules of '{rule_set}' do not come to an end; most often applied: {busiest}",
        location=describe(op.location) if op is not None else None,
        op=op.name if op is not None else None,
        remedy=f'disable one of them, for example disable=("{rule.name}",), and report the input as a defect',
    )
