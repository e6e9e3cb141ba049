"""The record of a fuzzing campaign: a file of JSON lines that a stopped run goes on from.

Lines are checkpoints `{"version", "from", "to", "date", "counts"}` (counts of programs by status since the last one),
outcomes that are not "same" `{"seed", "status", "detail" ...}`, and explanations `{"seed", "explanation"}`.
"""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from stablehlo_py.debug.fuzz import FINDINGS, Outcome
from stablehlo_py.debug.generate import VERSION
from stablehlo_py.errors import LoadError, ResourceError

CHECKPOINT = 100  # programs


@dataclass
class Summary:
    """What a journal says: programs by status, findings by seed, and which of them are explained."""

    counts: Counter[str] = field(default_factory=Counter)
    first: int | None = None
    following: int = 0
    date: str = ""
    findings: dict[int, dict[str, Any]] = field(default_factory=dict)
    others: list[dict[str, Any]] = field(default_factory=list)
    explanations: dict[int, str] = field(default_factory=dict)

    @property
    def programs(self) -> int:
        """Programs that were run."""
        return self.counts.total()

    @property
    def unexplained(self) -> list[int]:
        """Seeds of findings without an explanation."""
        return [seed for seed in self.findings if seed not in self.explanations]


class Journal:
    """A journal file; without one nothing is recorded."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._counts: Counter[str] = Counter()
        self._from: int | None = None
        self._to = 0

    def read(self) -> Summary:
        """Everything in the file so far. Raises ResourceError, LoadError."""
        summary = Summary()
        for line in self._lines():
            if "counts" in line:
                summary.counts.update(line["counts"])
                summary.first = line["from"] if summary.first is None else min(summary.first, line["from"])
                summary.following = max(summary.following, line["to"])
                summary.date = line["date"]
            elif "explanation" in line:
                summary.explanations[line["seed"]] = line["explanation"]
            elif line["status"] in FINDINGS:
                summary.findings[line["seed"]] = line
            else:
                summary.others.append(line)
        return summary

    def _lines(self) -> Iterator[dict[str, Any]]:
        if self.path is None or not self.path.exists():
            return
        for number, text in enumerate(self.path.read_text().splitlines(), 1):
            try:
                line = json.loads(text)
            except json.JSONDecodeError as error:
                raise LoadError(
                    f"not a line of a journal: {error.msg}",
                    location=f"{self.path}:{number}",
                    remedy="delete the line, or give another --journal",
                ) from error
            if line.get("version", VERSION) != VERSION:
                raise LoadError(
                    f"the journal is of version {line['version']} of the generator, this is {VERSION}",
                    location=f"{self.path}:{number}",
                    remedy="begin another journal: a seed means another program now",
                )
            yield line

    def add(self, outcome: Outcome) -> None:
        """Record an outcome."""
        self._from = outcome.seed if self._from is None else self._from
        self._to = outcome.seed + 1
        self._counts[outcome.status] += 1
        if outcome.status != "same":
            self._write({key: value for key, value in asdict(outcome).items() if value or key == "seed"})
        if outcome.is_finding or self._counts.total() >= CHECKPOINT:
            self.checkpoint()

    def explain(self, seed: int, explanation: str) -> None:
        """Record why a finding is none. Raises LoadError for a seed that is no finding."""
        if seed not in self.read().findings:
            raise LoadError(
                f"the journal has no finding with seed {seed}", remedy="explain the seeds that --summary lists"
            )
        self._write({"seed": seed, "explanation": explanation})

    def checkpoint(self) -> None:
        """Write the counts since the last checkpoint."""
        if self._from is None:
            return
        self._write(
            {
                "version": VERSION,
                "from": self._from,
                "to": self._to,
                "date": datetime.date.today().isoformat(),
                "counts": dict(self._counts),
            }
        )
        self._counts, self._from = Counter(), None

    def _write(self, line: dict[str, Any]) -> None:
        if self.path is None:
            return
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise ResourceError(f"{self.path} cannot be written: {error.strerror}", remedy="check the path") from error
