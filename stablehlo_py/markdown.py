"""Tables of the pages that tools write, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_BAR = "\\|"  # in a cell


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table, whose last line is ended, too."""
    head, *body = (f"| {' | '.join(str(cell).replace('|', _BAR) for cell in line)} |\n" for line in (columns, *rows))
    return f"{head}|{'---|' * len(columns)}\n{''.join(body)}"
