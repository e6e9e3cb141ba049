"""Near misses for names that are typed by people."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def near_miss(name: str, known: Iterable[str]) -> str:
    """A remedy for an unknown name: the nearest known ones, else all of them."""
    candidates = sorted(known)
    close = difflib.get_close_matches(name, candidates, n=3, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(f"'{candidate}'" for candidate in close) + "?"
    return "known names: " + ", ".join(candidates) if candidates else "there are none"
