"""One walk of a conversion: rules are applied to ops, and what they refuse is collected."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stablehlo_py.dialect.types import user_location
from stablehlo_py.errors import Problem, UnsupportedError
from stablehlo_py.legalize.rules import Results, Unsupported
from stablehlo_py.mlir import ir


class Conversion:
    """Applies rules; `replace` lets the uses of a result use another value."""

    def __init__(self, replace: Callable[[ir.Value, ir.Value], None]) -> None:
        self.replace = replace
        self.problems: list[Problem] = []

    def apply(self, op: ir.OpView, rule: Callable[[ir.OpView], Results]) -> bool:
        """Put what the rule makes in the op's place; True when the op is gone."""
        operation = op.operation
        try:
            with ir.InsertionPoint(op), operation.location:
                replacements = rule(op)
        except Unsupported as problem:
            self.report(op, problem)
            return False
        if replacements is None:
            return False
        if isinstance(replacements, ir.Value):
            replacements = (replacements,)
        for result, replacement in zip(operation.results, replacements, strict=True):
            self.replace(result, replacement)
        self.erase(operation)
        return True

    def erase(self, op: ir.Operation) -> None:
        """Erase an op whose results nobody uses any more."""
        op.erase()

    def report(self, op: ir.OpView, problem: Unsupported) -> None:
        """Collect why an op cannot be converted."""
        operation = op.operation
        location = user_location(operation.location)
        self.problems.append(Problem(problem.reason, location, operation.name, problem.remedy))


def raise_problems(problems: Sequence[Problem], what: str = "") -> None:
    """Raise UnsupportedError for ops (`what`: on which values) that cannot be compiled, if there are any."""
    if problems:
        count = len(problems)
        raise UnsupportedError(f"{count} op{'s' if count > 1 else ''}{what} cannot be compiled", problems=problems)
