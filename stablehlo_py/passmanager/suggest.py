"""Near misses for names that are typed by people."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from stablehlo_py.errors import elided


def nearest(name: str, known: Iterable[str]) -> str | None:
    """A remedy for an unknown name: "did you mean ...?" with the nearest known ones, None where there is none."""
    close = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.6)
    return "did you mean " + " or ".join(f"'{candidate}'" for candidate in close) + "?" if close else None


def near_miss(name: str, known: Iterable[str]) -> str:
    """A remedy for an unknown name: the nearest known ones, else the first of all."""
    candidates = sorted(known)
    return nearest(name, candidates) or (f"known names: {elided(candidates)}" if candidates else "there are none")
