"""The table of op families: a function that adds ops of a family to a draft, and how often it is drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from stablehlo_py.debug.generate.draft import Draft
from stablehlo_py.mlir import ir

# Values for the pool. A family raises NothingFits where it makes none.
Made: TypeAlias = ir.Value | list[ir.Value]


@dataclass(frozen=True)
class Family:
    """One line of the table. `in_regions`: it may stand in the body of a loop or branch. `only`: in programs of this
    kind only ("grid")."""

    name: str
    weight: float
    draw: Callable[[Draft], Made]
    in_regions: bool = True
    only: str = ""


FAMILIES: list[Family] = []


def family(
    weight: float, *, in_regions: bool = True, only: str = ""
) -> Callable[[Callable[[Draft], Made]], Callable[[Draft], Made]]:
    """Decorator: enter a function into the table, under its name."""

    def register(draw: Callable[[Draft], Made]) -> Callable[[Draft], Made]:
        FAMILIES.append(Family(draw.__name__, weight, draw, in_regions, only))
        return draw

    return register


# Families that make sense of shapes in which a size is dynamic: they look at no size, or at known ones.
SYMBOLIC = frozenset(
    "unary binary compare select clamp convert complex_parts squash transpose reduce reverse sort map_ "
    "reduce_precision optimization_barrier special_function tuples call".split()
)

# Families that no oracle runs on a grid: NumPy computes them for the reference interpreter on one process only
# (`numpy_ops.py`). Two more are rewritten for it by now, but seeds keep their meaning: `annotation`,
# `broadcasting_select`.
NOT_ON_GRIDS = frozenset(
    "annotation batch_norm broadcasting_select cholesky fft rng_bit_generator torch_index_select "
    "triangular_solve".split()
)


def table(kind: str, in_region: bool) -> list[Family]:
    """The families of a kind of program, by name: what a seed means must not depend on the order of imports."""
    fitting = [
        each
        for each in FAMILIES
        if (each.in_regions or not in_region)
        and each.only in ("", kind)
        and (kind != "symbolic" or each.name in SYMBOLIC)
        and (kind != "grid" or each.name not in NOT_ON_GRIDS)
    ]
    return sorted(fitting, key=lambda each: each.name)
