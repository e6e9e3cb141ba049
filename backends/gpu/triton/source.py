"""Pieces of Triton's sources that all generators write."""

from __future__ import annotations

from collections.abc import Sequence


def function(name: str, parameters: str, lines: Sequence[str]) -> str:
    """A function that Triton compiles."""
    return "\n".join(["@triton.jit", f"def {name}({parameters}):", *(f"    {line}" for line in lines)]) + "\n"


def tuple_of(names: Sequence[str]) -> str:
    """Python's text of a tuple of them."""
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"
