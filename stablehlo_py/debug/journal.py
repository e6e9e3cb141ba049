"""The record of all fuzzing: a file of JSON lines that a stopped run goes on from.

Lines, all with the `version` of what made the programs (the generator, or the mutations of damaged modules):

- `{"from", "to", "date", "counts"}`: programs with seeds in [from, to), by status;
- `{"seed", "status", "detail", ...}`: an outcome that is not one of `COUNTED`;
- `{"status", "reason", "number", "seed"}`: so many outcomes that need no explanation, and the seed of one of them;
- `{"seed", "explanation"}`: why a finding is a false positive, or what became of it.

`compact` makes the file of a long campaign short: seeds are joined, and of outcomes that need no explanation only the
numbers are kept.
"""

from __future__ import annotations

import datetime
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from stablehlo_py.debug.fuzz import FINDINGS, Outcome
from stablehlo_py.debug.generate import VERSION
from stablehlo_py.errors import LoadError, ResourceError
from stablehlo_py.files import write_whole

CHECKPOINT = 100  # programs
# Outcomes that are as they should be: of these, numbers are kept.
COUNTED = ("same", "compiled", "refused")
# Of an error's text: where it starts, and what to do about it.
_FRAME = re.compile(r"^error\[\w+\]: [^:]*?(?=<text>)|<text>:\d+:\d+: |-:\d+:\d+: |\s*help: .*|from stack.*|=> .*")

Key = tuple[int, int]  # generator, seed


@dataclass
class Campaign:
    """Programs of one generator with seeds in [first, following)."""

    version: int
    first: int
    following: int
    date: str
    counts: Counter[str]


@dataclass
class Summary:
    """What a journal says.

    Attributes:
        campaigns: in the order of their generators and seeds; neighbours are joined.
        findings: the outcomes that are defects until explained, by generator and seed.
        others: of the rest that is not "same": how many, and the seed of one, by generator, status and reason.
        explanations: of findings.
        version: the present one.
    """

    version: int = VERSION
    campaigns: list[Campaign] = field(default_factory=list)
    findings: dict[Key, dict[str, Any]] = field(default_factory=dict)
    others: dict[tuple[int, str, str], tuple[int, int]] = field(default_factory=dict)
    explanations: dict[Key, str] = field(default_factory=dict)

    @property
    def programs(self) -> int:
        """Programs that were run."""
        return sum(campaign.counts.total() for campaign in self.campaigns)

    @property
    def following(self) -> int:
        """The first seed after those of the present generator."""
        return max((each.following for each in self.campaigns if each.version == self.version), default=0)

    @property
    def unexplained(self) -> list[Key]:
        """Findings without an explanation."""
        return [key for key in self.findings if key not in self.explanations]

    def count(self, campaign: Campaign) -> None:
        """Add a campaign, joined with the one that it continues."""
        before = next(
            (a for a in self.campaigns if (a.version, a.following) == (campaign.version, campaign.first)), None
        )
        if before is None:
            self.campaigns.append(campaign)
            self.campaigns.sort(key=lambda each: (each.version, each.first))
            return
        before.following, before.date = campaign.following, campaign.date
        before.counts.update(campaign.counts)


class Journal:
    """A journal file; without one nothing is recorded. `version`: of what makes the programs."""

    def __init__(self, path: Path | None, version: int = VERSION) -> None:
        self.path, self.version = path, version
        self._counts: Counter[str] = Counter()
        self._from: int | None = None
        self._to = 0

    def read(self) -> Summary:
        """Everything in the file so far. Raises ResourceError, LoadError."""
        summary = Summary(self.version)
        for line in self._lines():
            version = line["version"]
            if "counts" in line:
                summary.count(Campaign(version, line["from"], line["to"], line["date"], Counter(line["counts"])))
            elif "explanation" in line:
                summary.explanations[version, line["seed"]] = line["explanation"]
            elif line["status"] in FINDINGS:
                summary.findings[version, line["seed"]] = line
            else:
                key = version, line["status"], line.get("reason") or reason(line["status"], line)
                number, seed = summary.others.get(key, (0, line["seed"]))
                summary.others[key] = number + line.get("number", 1), seed
        return summary

    def _lines(self) -> Iterator[dict[str, Any]]:
        if self.path is None or not self.path.exists():
            return
        for number, text in enumerate(self.path.read_text().splitlines(), 1):
            try:
                line = json.loads(text)
                if not isinstance(line, dict) or "version" not in line:
                    raise ValueError("it has no version")
            except ValueError as error:
                raise LoadError(
                    f"not a line of a journal: {error}",
                    location=f"{self.path}:{number}",
                    remedy="delete the line, or give another --journal",
                ) from error
            yield line

    def add(self, outcome: Outcome) -> None:
        """Record an outcome."""
        self._from = outcome.seed if self._from is None else self._from
        self._to = outcome.seed + 1
        self._counts[outcome.status] += 1
        if outcome.status not in COUNTED:
            self._write({key: value for key, value in asdict(outcome).items() if value or key == "seed"})
        if outcome.is_finding or self._counts.total() >= CHECKPOINT:
            self.checkpoint()

    def explain(self, key: Key, explanation: str) -> None:
        """Record why a finding is a false positive, or what became of it. Raises LoadError for a seed without one."""
        version, seed = key
        if key not in self.read().findings:
            raise LoadError(
                f"the journal has no finding with seed {seed} of generator {version}",
                remedy="explain the seeds that --summary lists",
            )
        self._write({"version": version, "seed": seed, "explanation": explanation})

    def checkpoint(self) -> None:
        """Write the counts since the last checkpoint."""
        if self._from is None:
            return
        date = datetime.date.today().isoformat()
        self._write({"from": self._from, "to": self._to, "date": date, "counts": dict(self._counts)})
        self._counts, self._from = Counter(), None

    def compact(self) -> None:
        """Write the file anew, as short as what it says allows. Raises ResourceError, LoadError."""
        summary = self.read()
        lines: list[dict[str, Any]] = []
        for each in summary.campaigns:
            seeds = {"from": each.first, "to": each.following}
            lines.append({"version": each.version, **seeds, "date": each.date, "counts": dict(each.counts)})
        for (version, status, why), (number, seed) in sorted(summary.others.items()):
            lines.append({"version": version, "status": status, "reason": why, "number": number, "seed": seed})
        for key, finding in sorted(summary.findings.items()):
            explained = key in summary.explanations
            lines.append({name: value for name, value in finding.items() if name != "reduced" or not explained})
            if explained:
                lines.append({"version": key[0], "seed": key[1], "explanation": summary.explanations[key]})
        text = "".join(json.dumps(line) + "\n" for line in lines)
        if self.path is not None:
            write_whole(self.path, text)

    def _write(self, line: dict[str, Any]) -> None:
        if self.path is None:
            return
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps({"version": self.version, **line}) + "\n")
        except OSError as error:
            raise ResourceError(f"{self.path} cannot be written: {error.strerror}", remedy="check the path") from error


def reason(status: str, outcome: dict[str, Any]) -> str:
    """What outcomes that need no explanation are counted by: the oracle that disagrees with both, the first problem of
    an error."""
    if status == "oracle alone":
        return outcome.get("oracle", "")
    return _FRAME.sub("", outcome.get("detail", "")).strip()[:120]
