"""Equations between sizes: what operands of one shape say about the dimensions of the arguments."""

from __future__ import annotations

import math
from dataclasses import dataclass

from stablehlo_py.dialect.symint import SPECIALIZE, IntLike, SymInt, is_known, substitute, symbol, symbols
from stablehlo_py.errors import UnsupportedError


@dataclass(frozen=True)
class Equation:
    """`symbol == value` has to hold in a call; where `unless_one` is a size, that may also be 1, which this compilation
    assumes it is not."""

    symbol: str
    value: IntLike
    unless_one: IntLike | None
    op: str
    location: str | None


class Equations:
    """A growing set of solved equations. `changed` says whether one was added since it was last cleared."""

    def __init__(self) -> None:
        self.solved: list[Equation] = []
        self.changed = False
        self._values: dict[str, IntLike] = {}
        # Elements of arguments that are dimensions or steps: the least that the first op takes, the op, where it is.
        self._positive: dict[str, tuple[int, str, str | None]] = {}

    def value(self, argument: int, element: int) -> IntLike:
        """The symbol of an element of an integer argument: positive once it is known to be that."""
        name = f"{argument}_{element}"
        return self.reduced(symbol(("v" if name in self._positive else "x") + name))

    def is_positive(self, size: IntLike, least: int, op: str, location: str | None) -> None:
        """Learn that an op takes `least` (0 or 1) or more for a size: an element of an argument is positive then, as
        far as one program goes."""
        text = str(size)
        if not text.startswith(("x", "v")) or text not in symbols(size):
            return
        known = self._positive.get(text[1:])
        if known is None or known[0] < least:
            self._positive[text[1:]] = least, op, location
            self.changed = True

    @property
    def positive(self) -> list[tuple[str, int, str, str | None]]:
        """What was learned: symbols of any sign, the least value, the op and its location."""
        return [(f"x{name}", *said) for name, said in self._positive.items()]

    def reduced(self, number: IntLike) -> IntLike:
        """The number with everything replaced that an equation was solved for."""
        return substitute(number, self._values) if self._values else number

    def unite(self, a: IntLike, b: IntLike, *, unless_one: IntLike | None, op: str, location: str | None) -> IntLike:
        """Let two sizes be equal (see `Equation`); returns what both are.

        Raises:
            UnsupportedError: they never are, or the equation cannot be solved for a symbol.
        """
        a, b = self.reduced(a), self.reduced(b)
        if a == b:
            return a
        found = solve(a - b)
        if found is None:
            raise UnsupportedError(
                f"needs the sizes {a} and {b} to be equal, which cannot be decided before the call",
                op=op,
                location=location,
                remedy=SPECIALIZE,
            )
        self._replace(*found)
        self.solved.append(Equation(*found, unless_one, op, location))
        return self.reduced(a)

    def learn(self, a: IntLike, b: IntLike) -> None:
        """Use that two sizes are equal, where that can be solved for a symbol. Who says so checks it."""
        a, b = self.reduced(a), self.reduced(b)
        found = solve(a - b) if a != b else None
        if found is not None:
            self._replace(*found)

    def _replace(self, name: str, value: IntLike) -> None:
        self._values = {known: substitute(old, {name: value}) for known, old in self._values.items()}
        self._values[name] = value
        self.changed = True


def solve(zero: IntLike) -> tuple[str, IntLike] | None:
    """A symbol and its value, from an expression that is zero: one that occurs once, linearly, alone in its term."""
    if is_known(zero):
        return None
    assert isinstance(zero, SymInt)
    scale = math.gcd(*(coefficient for _, coefficient in zero.terms))
    candidates = []
    for atoms, coefficient in zero.terms:
        if len(atoms) != 1 or atoms[0].function or abs(coefficient) != scale:
            continue
        (symbol,) = atoms
        term = SymInt({(symbol,): coefficient})
        rest = zero - term
        if symbol.text not in symbols(rest):
            candidates.append((symbol.text, -(rest // coefficient)))
    if not candidates:
        return _divided(zero)
    # Values of arguments are replaced by dimensions, and later ones by earlier ones.
    return max(candidates, key=lambda found: (is_known(found[1]), found[0][0] != "d", found[0]), default=None)


def _divided(zero: IntLike) -> tuple[str, IntLike] | None:
    """Of n == k * floordiv(n, k), as of a dimension "2*b": n is k times a symbol of its own."""
    assert isinstance(zero, SymInt)
    for atom in (atom for atoms, _ in zero.terms for atom in atoms if atom.function == "floordiv"):
        whole, factor = atom.arguments
        name = str(whole)
        if is_known(factor) and name in symbols(whole):
            multiple = factor * symbol(f"{name}_{factor}")
            if substitute(zero, {name: multiple}) == 0:
                return name, multiple
    return None
