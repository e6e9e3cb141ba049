"""Delta debugging: the smallest part of a list that still shows something."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


def minimize(items: Sequence[T], shows: Callable[[list[T]], bool]) -> list[T]:
    """A part of `items`, in order, that `shows` and of which no single item can be left out.

    `shows` holds for all items (the caller has seen it), and is asked about ever smaller parts: first halves, then
    quarters and what remains without them, and so on. This is ddmin (Zeller and Hildebrandt, "Simplifying and isolating
    failure-inducing input", 2002): a logarithmic number of questions where one item is to blame, at most a quadratic
    one. The empty list is asked about first.
    """
    kept = list(items)
    if not kept or shows([]):
        return []
    parts = 2
    while len(kept) > 1:
        parts = min(parts, len(kept))
        bounds = [len(kept) * number // parts for number in range(parts + 1)]
        chunks = [kept[begin:end] for begin, end in pairwise(bounds)]
        alone = next((chunk for chunk in chunks if shows(chunk)), None)
        if alone is not None:
            kept, parts = alone, 2
            continue
        # With two parts, what remains without one is the other, which was just asked about.
        without = None
        if parts > 2:
            rests = ([item for other in chunks if other is not chunk for item in other] for chunk in chunks)
            without = next((rest for rest in rests if shows(rest)), None)
        if without is not None:
            kept, parts = without, max(parts - 1, 2)
        elif parts == len(kept):
            break
        else:
            parts *= 2
    return kept
