"""The table of op families: a function that adds ops of a family to a draft, and how often it is drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from stablehlo_py.debug.generate.draft import Draft
from stablehlo_py.mlir import ir

# Values for the pool; None where no value fits.
Made: TypeAlias = ir.Value | list[ir.Value] | None


@dataclass(frozen=True)
class Family:
    """One line of the table. `in_regions`: it may stand in the body of a loop or branch."""

    name: str
    weight: float
    draw: Callable[[Draft], Made]
    in_regions: bool = True


FAMILIES: list[Family] = []


def family(weight: float, *, in_regions: bool = True) -> Callable[[Callable[[Draft], Made]], Callable[[Draft], Made]]:
    """Decorator: enter a function into the table, under its name."""

    def register(draw: Callable[[Draft], Made]) -> Callable[[Draft], Made]:
        FAMILIES.append(Family(draw.__name__, weight, draw, in_regions))
        return draw

    return register
