"""Tables of rules: what some part of the compiler does with an op, by the op's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])


class Rules(dict[str, F]):
    """A table from names of ops to functions of one type.

    Names are given without `prefix`, and stand in the table with it:

        SHAPES: Rules[Shape] = Rules("stablehlo.")

        @SHAPES.rule("transpose")
        def transpose(op: ir.Operation) -> tuple[int, ...]: ...
    """

    def __init__(self, prefix: str = "") -> None:
        super().__init__()
        self.prefix = prefix

    def rule(self, *names: str) -> Callable[[F], F]:
        """A decorator that enters a function under these names."""

        def register(function: F) -> F:
            self.enter(function, *names)
            return function

        return register

    def enter(self, function: F, *names: str) -> None:
        """Enter a function under these names. Raises ValueError for a name that has a rule."""
        for name in names:
            key = self.prefix + name
            if key in self:
                raise ValueError(f"two rules for {key}")
            self[key] = function
