"""A run of cases on a target: those of every op and type, and golden ones; what is in the journal is not run again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stablehlo_py.conformance import golden_cases
from stablehlo_py.conformance.cases import Row
from stablehlo_py.conformance.excuses import excuses
from stablehlo_py.conformance.runner import Finding, check_in
from stablehlo_py.conformance.workers import Pool, Task
from stablehlo_py.errors import LoadError, ResourceError
from stablehlo_py.files import write_whole

ROWS = 16  # after so many the journal is written
GOLDEN = "golden"  # the type of golden cases
# What a case may be, best first. The first is right; of the next three nothing is held against the target.
STATUSES = ("ok", "refused", "differs", "unchecked", "wrong", "error", "memory", "timeout", "crash")
FAILURES = STATUSES[4:]
_OF_GOLDEN = {"passed": "ok", "mismatch": "wrong", "unsupported": "refused"}


@dataclass(frozen=True)
class Result:
    """What became of a case: one function of an op for a type, or a golden case (then `op` is its operation). `status`
    is one of STATUSES: differs, where what is expected is known to be one of several ideas (ops/exceptions.txt,
    ops/golden_exceptions.txt), and unchecked, where nothing says the right result."""

    op: str
    type: str
    case: str
    status: str
    detail: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from others."""
        return self.op, self.type, self.case


class Journal:
    """Results as lines of JSON, for a run that was ended and goes on. Without a path nothing is kept.

    Raises:
        ResourceError: the file cannot be read or written.
        LoadError: it is no journal, or one of another target.
    """

    def __init__(self, path: Path | None, target: str) -> None:
        self._path, self._target = path, target
        self.known = {result.key: result for result in self._read()}
        if path is not None:  # without a line that was cut off
            write_whole(path, "".join(map(self._line, self.known.values())))

    def add(self, results: Iterable[Result]) -> None:
        """Keep results."""
        results = list(results)
        self.known.update((result.key, result) for result in results)
        if self._path is None:
            return
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write("".join(map(self._line, results)))
        except OSError as error:
            raise _no_journal(self._path, error) from error

    def _line(self, result: Result) -> str:
        return json.dumps({"target": self._target, **asdict(result)}) + "\n"

    def _read(self) -> Iterator[Result]:
        if self._path is None or not self._path.exists():
            return
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines(keepends=True)
        except (OSError, UnicodeDecodeError) as error:
            raise _no_journal(self._path, error) from error
        for number, line in enumerate(lines, 1):
            if not line.endswith("\n"):
                return  # the run was ended while it wrote this
            where = f"{self._path}:{number}"
            try:
                record: dict[str, Any] = json.loads(line)
                target, result = record.pop("target"), Result(**record)
                known = result.status in STATUSES
            except (ValueError, TypeError, KeyError, AttributeError):
                known, target = False, self._target
            if not known:
                raise LoadError("not a line of a journal", location=where, remedy="give another --journal")
            if target != self._target:
                reason = f"the journal is of the target '{target}', not of '{self._target}'"
                raise LoadError(reason, location=where, remedy="give another --journal")
            yield result


def _no_journal(path: Path, error: OSError | UnicodeDecodeError) -> ResourceError:
    reason = error.strerror if isinstance(error, OSError) else "it is no text"
    return ResourceError(f"the journal {path} cannot be used: {reason}", remedy="give another --journal")


def run_rows(rows: Sequence[Row], target: str, pool: Pool, journal: Journal) -> Iterator[list[Result]]:
    """Results of rows, some rows at a time."""
    excused = excuses()

    def result(finding: Finding) -> Result:
        status, row = finding.status, finding.row
        if status not in ("ok", "refused") and any(excuse.covers(finding) for excuse in excused):
            status = "differs"
        return Result(row.op, row.type, _case(row, finding.function), status, finding.detail)

    missing = []
    for row in rows:
        keys = [(row.op, row.type, _case(row, name)) for name in row.functions]
        if all(key in journal.known for key in keys):
            yield [journal.known[key] for key in keys]
        else:
            missing.append(row)
    for start in range(0, len(missing), ROWS):
        results = [result(finding) for finding in check_in(pool, missing[start : start + ROWS], target)]
        journal.add(results)
        yield results


def _case(row: Row, function: str) -> str:
    return f"{row.section.family}#{row.section.number}/{function}"


def run_golden(jobs: Sequence[golden_cases.Job], target: str, pool: Pool, journal: Journal) -> Iterator[list[Result]]:
    """Results of golden cases, one at a time."""
    keys = {job.name: (golden_cases.operation_of(job.name), GOLDEN, job.name) for job in jobs}
    exceptions, missing = golden_cases.load_exceptions(), []
    for job in jobs:
        if keys[job.name] in journal.known:
            yield [journal.known[keys[job.name]]]
        else:
            missing.append(job)
    for outcome in pool.run(missing, Task(golden_cases.__name__, "of_target", (target,))):
        status, detail = outcome.value if outcome.status == "done" else (outcome.status, outcome.value)
        if status == "mismatch" and outcome.job.name in exceptions:
            status, detail = "differs", exceptions[outcome.job.name]
        result = Result(*keys[outcome.job.name], _OF_GOLDEN.get(status, status), detail)
        journal.add([result])
        yield [result]
