"""A run of cases on a target: those of every op and type, and golden ones; what is in the journal is not run again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stablehlo_py.conformance import golden_cases
from stablehlo_py.conformance.cases import Row
from stablehlo_py.conformance.excuses import excuses
from stablehlo_py.conformance.journal import Journal
from stablehlo_py.conformance.runner import Finding, check_in
from stablehlo_py.conformance.workers import Pool, Task

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

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"{self.status} is no status")

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from others."""
        return self.op, self.type, self.case


def run_rows(rows: Sequence[Row], target: str, pool: Pool, journal: Journal[Result]) -> Iterator[list[Result]]:
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


def run_golden(
    jobs: Sequence[golden_cases.Job], target: str, pool: Pool, journal: Journal[Result]
) -> Iterator[list[Result]]:
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
