"""What a run of the cases says of a target: marks, and a table of every op with every type, as Markdown and JSON."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from stablehlo_py import markdown
from stablehlo_py.conformance.campaign import FAILURES, GOLDEN, STATUSES, Result
from stablehlo_py.conformance.cases import TYPES
from stablehlo_py.errors import clipped

NOT_TRIED = "–"
DETAIL = 300  # characters of what a case says
_MEANINGS = {
    "refused": "compilation ends with an error that names the op",
    "differs": "another result than the expected one, which is known to be one of several",
    "unchecked": "nothing says the right result",
    "wrong": "another result",
    "error": "any other exception",
    "memory": "more memory than a case may take",
    "timeout": "no answer in time",
    "crash": "the end of the process",
}


class Report:
    """The results of a run, of one target."""

    def __init__(self, target: str, results: Iterable[Result]) -> None:
        self.target = target
        self.results = sorted(results, key=lambda result: result.key)
        self.counts = Counter(result.status for result in self.results)

    @property
    def percent(self) -> float:
        """Cases that are right, of those that count: all but those of which nothing is held against the target."""
        counted = len(self.results) - self.counts["differs"] - self.counts["unchecked"]
        return 100 * self.counts["ok"] / counted if counted else 100.0

    @property
    def failures(self) -> list[Result]:
        """What is neither right nor refused."""
        return [result for result in self.results if result.status in FAILURES]

    def line(self) -> str:
        """The marks in one line."""
        listed = ", ".join(f"{self.counts[status]} {status}" for status in STATUSES if self.counts[status])
        return f"{self.target}: {self.percent:.1f} % of {len(self.results)} cases are right ({listed or 'none'})"

    def table(self) -> dict[str, dict[str, Counter[str]]]:
        """By op and type, how many cases have each status."""
        found: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
        for result in self.results:
            found[result.op][result.type][result.status] += 1
        return {op: dict(by) for op, by in found.items()}

    def json(self) -> dict[str, Any]:
        """All of it as data."""
        return {
            "target": self.target,
            "percent": round(self.percent, 2),
            "counts": dict(self.counts),
            "table": {op: {name: dict(counts) for name, counts in by.items()} for op, by in self.table().items()},
            "not_right": [
                {"op": each.op, "type": each.type, "case": each.case, "status": each.status, "detail": each.detail}
                for each in self.results
                if each.status != "ok"
            ],
        }

    def page(self) -> str:
        """All of it as a page of Markdown."""
        table = self.table()
        ops = {op: by for op, by in table.items() if set(by) - {GOLDEN}}
        golden = {op: by[GOLDEN] for op, by in table.items() if GOLDEN in by}
        lines = [f"# Conformance of `{self.target}`", "", f"{self.line()}."]
        meanings = [f"- {status}: {said}." for status, said in _MEANINGS.items() if self.counts[status]]
        lines += ["", *meanings] if meanings else []
        if ops:
            tried = {name for by in ops.values() for name in by}
            types = [name for name in TYPES if name in tried]
            rows = ((f"`{op}`", *(cell(by.get(name)) for name in types)) for op, by in ops.items())
            columns = ("op", *(f"`{name}`" for name in types))
            lines += ["", "## Every op with every type", "", markdown.table(columns, rows).rstrip()]
        if golden:
            cells = ((f"`{op}`", cell(counts)) for op, counts in golden.items())
            lines += ["", "## StableHLO's golden cases", "", markdown.table(("operation", "cases"), cells).rstrip()]
        if self.failures:
            lines += ["", "## What is neither right nor refused", ""]
            lines += [f"- {described(each)}" for each in self.failures]
        return "\n".join(lines) + "\n"


def cell(counts: Counter[str] | None) -> str:
    """What became of the cases of an op and a type: one word, or several with numbers; failures are bold."""
    if not counts:
        return NOT_TRIED
    if set(counts) == {"ok"}:
        return "pass"
    if set(counts) == {"refused"}:
        return "refused"
    found: Sequence[str] = [status for status in STATUSES if counts[status]]
    words = (f"{counts[status]} {'pass' if status == 'ok' else status}" for status in found)
    text = ", ".join(words)
    return f"**{text}**" if any(status in FAILURES for status in found) else text


def described(result: Result) -> str:
    """A case that is not right, in a line."""
    detail = clipped(" ".join(result.detail.split()), DETAIL)
    return f"{result.status}: {result.op} {result.type} {result.case}: {detail}"
