"""docs/fuzzing.md: what all campaigns together have shown. A row for every campaign, kept from page to page."""

from __future__ import annotations

import re
from pathlib import Path

from stablehlo_py.debug.generate import VERSION
from stablehlo_py.debug.journal import Summary
from stablehlo_py.errors import LoadError, ResourceError

_HEAD = """# Random programs

`shlo-fuzz` draws StableHLO programs over all families of ops and types, compiles each with a random part of the passes
and rules left out, and compares with the reference interpreter and with JAX (with JAX alone where the interpreter
cannot run the program; `--jax-every` says how often both). What rounding may change is worked out for every program
(`stablehlo_py/debug/rounding.py`). This page is written by

    shlo-fuzz --journal JOURNAL --summary docs/fuzzing.md

after a campaign; each campaign is a row. *Unsupported* programs hold something that this compiler refuses with an error
that says so; *oracle alone* are those where one oracle stands against us and the other one; *no oracle* could run the
rest. Findings are crashes, other errors, and differences from every oracle.

| generator | seeds | date | programs | same | unsupported | oracle alone | no oracle | findings | unexplained |
|---|---|---|---|---|---|---|---|---|---|
"""
_ROW = re.compile(r"^\| (\d+) \| (\d+)-(\d+) \| .*\|$", re.MULTILINE)
_ENTRY = re.compile(r"^- seed (\d+), generator (\d+): .*$", re.MULTILINE)


def write_page(path: Path, summary: Summary) -> None:
    """Write the page with the row of this campaign, in the place of an earlier row with the same first seed.

    Raises:
        LoadError: the journal is empty. ResourceError: the page cannot be written.
    """
    if summary.first is None:
        raise LoadError("the journal holds no programs", remedy="run some first: shlo-fuzz --journal FILE --count 1000")
    old = path.read_text() if path.exists() else ""
    rows = {(int(match[1]), int(match[2])): match[0] for match in _ROW.finditer(old)}
    entries = {(int(match[2]), int(match[1])): match[0] for match in _ENTRY.finditer(old)}
    rows[VERSION, summary.first] = _row(summary)
    for seed, finding in summary.findings.items():
        why = summary.explanations.get(seed, "not explained yet")
        entries[VERSION, seed] = f"- seed {seed}, generator {VERSION}: {finding['status']}: {why}"
    text = _HEAD + "\n".join(rows[key] for key in sorted(rows)) + "\n"
    text += f"\nPrograms in all: {sum(_programs(row) for row in rows.values())}.\n\n## Findings\n\n"
    text += "\n".join(entries[key] for key in sorted(entries)) or "None."
    try:
        path.write_text(text + "\n")
    except OSError as error:
        raise ResourceError(f"{path} cannot be written: {error.strerror}", remedy="check the path") from error


def _row(summary: Summary) -> str:
    counts = summary.counts
    numbers = [counts[status] for status in ("same", "unsupported", "oracle alone", "no oracle")]
    cells = [VERSION, f"{summary.first}-{summary.following - 1}", summary.date, summary.programs, *numbers]
    return f"| {' | '.join(map(str, [*cells, len(summary.findings), len(summary.unexplained)]))} |"


def _programs(row: str) -> int:
    return int(row.split("|")[4])
