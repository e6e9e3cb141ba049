"""Polynomials with integer coefficients, in a normal form: what a `SymInt` (size.py) is made of.

A polynomial is a mapping from products of atoms to coefficients, none of which is 0; the empty product is the constant
term. The normal form of sums of products is that of every computer algebra system; division is by the leading monomial,
as in long division of polynomials (Knuth, The Art of Computer Programming 2, 4.6.1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

INFINITE = math.inf


@dataclass(frozen=True)
class Atom:
    """What a polynomial is made of. `text` identifies it; `low` and `high` bound its value."""

    text: str
    function: str = ""  # of `arguments`; "" for a symbol
    arguments: tuple[Any, ...] = ()
    low: float = 1
    high: float = INFINITE

    def __lt__(self, other: Atom) -> bool:
        return self.text < other.text


Monomial: TypeAlias = tuple[Atom, ...]  # a product, sorted
Terms: TypeAlias = Mapping[Monomial, int]
CONSTANT: Monomial = ()


def ordered(terms: Terms) -> list[tuple[Monomial, int]]:
    """The terms, from the leading one on: by degree, then by name."""
    return sorted(terms.items(), key=lambda term: (-len(term[0]), [atom.text for atom in term[0]]))


def is_constant(terms: Terms) -> bool:
    """Whether no term has an atom."""
    return not terms.keys() - {CONSTANT}


def text_of(terms: Sequence[tuple[Monomial, int]]) -> str:
    """Ordered terms as text: "3*d0_0*d1_0-d0_0+1"."""
    parts = []
    for atoms, coefficient in terms:
        product = "*".join(atom.text for atom in atoms)
        if not atoms:
            parts.append(f"{coefficient:+d}")
        elif abs(coefficient) == 1:
            parts.append(("+" if coefficient > 0 else "-") + product)
        else:
            parts.append(f"{coefficient:+d}*{product}")
    return "".join(parts).removeprefix("+")


# --- arithmetic ------------------------------------------------------------------------------------------------------


def combined(a: Terms, b: Terms, factor: int = 1) -> dict[Monomial, int]:
    """a + factor * b."""
    result = dict(a)
    for monomial, coefficient in b.items():
        result[monomial] = result.get(monomial, 0) + factor * coefficient
    return {monomial: coefficient for monomial, coefficient in result.items() if coefficient}


def multiplied(a: Terms, b: Terms) -> dict[Monomial, int]:
    """a * b."""
    result: dict[Monomial, int] = {}
    for left, x in a.items():
        for right, y in b.items():
            monomial = tuple(sorted(left + right))
            result[monomial] = result.get(monomial, 0) + x * y
    return {monomial: coefficient for monomial, coefficient in result.items() if coefficient}


def divided(a: Terms, b: Terms) -> tuple[dict[Monomial, int], dict[Monomial, int]]:
    """(q, r) with a == q * b + r: what of a the leading term of b divides goes into q."""
    (leading, factor), *_ = ordered(b)
    by_number = is_constant(b)
    quotient: dict[Monomial, int] = {}
    kept: dict[Monomial, int] = {}
    rest = dict(a)
    while rest:
        (atoms, coefficient), *_ = ordered(rest)
        left = _without(atoms, leading)
        share = int(math.copysign(abs(coefficient) // abs(factor), coefficient * factor)) if left is not None else 0
        if left is None or share == 0 or (not by_number and coefficient % factor):
            stays = {atoms: coefficient}
        else:
            part = {left: share}
            quotient = combined(quotient, part)
            rest = combined(rest, multiplied(part, b), -1)
            # Of a division by a number, what is left of this term is smaller than the number.
            stays = {atoms: coefficient - share * factor} if by_number else {}
        kept, rest = combined(kept, stays), combined(rest, stays, -1)
    return quotient, kept


def _without(atoms: Monomial, divisor: Monomial) -> Monomial | None:
    left = list(atoms)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


# --- bounds ----------------------------------------------------------------------------------------------------------


def bounds_of(terms: Terms) -> tuple[float, float]:
    """Numbers that the value is between; infinite where there is none."""
    low = high = 0.0
    for atoms, coefficient in terms.items():
        ends = _product([(atom.low, atom.high) for atom in atoms])
        a, b = (_times(coefficient, end) for end in ends)
        low, high = low + min(a, b), high + max(a, b)
    return low, high


def close_bounds_of(terms: Terms) -> tuple[float, float]:
    """Bounds that also see that b*c - b is never negative: each symbol is written as its lowest value plus a rest."""
    low, high = bounds_of(terms)
    if is_constant(terms) or (low > -INFINITE and high < INFINITE):
        return low, high
    total: dict[Monomial, int] = {}
    for atoms, coefficient in terms.items():
        product: Terms = {CONSTANT: coefficient}
        for atom in atoms:
            product = multiplied(product, _rest(atom) if math.isfinite(atom.low) else {(atom,): 1})
        total = combined(total, product)
    a, b = bounds_of(total)
    return max(low, a), min(high, b)


def _rest(atom: Atom) -> Terms:
    """An atom as its lowest value and what is above."""
    return {(Atom(f"rest({atom.text})", low=0, high=atom.high - atom.low),): 1, CONSTANT: int(atom.low)}


def _product(factors: Iterable[tuple[float, float]]) -> tuple[float, float]:
    low, high = 1.0, 1.0
    for a, b in factors:
        ends = [_times(x, y) for x in (low, high) for y in (a, b)]
        low, high = min(ends), max(ends)
    return low, high


def _times(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b  # 0 * inf is a bound of 0 here
