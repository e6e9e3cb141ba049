"""docs/conformance.md: what became of every op with every class of types, and of the golden cases."""

from __future__ import annotations

import fnmatch
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from run import load_exceptions

from stablehlo_py import markdown
from stablehlo_py.conformance.cases import CLASS_OF, CLASSES, types_of
from stablehlo_py.conformance.runner import Finding
from stablehlo_py.debug.journal import Journal

EXCEPTIONS = Path(__file__).with_name("op_exceptions.txt")
PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
SUITE = Path(__file__).with_name("opencl-suite.jsonl")
PROGRAMS = Path(__file__).parents[1] / "debug" / "opencl.jsonl"
NOT_IN_THE_SPECIFICATION = "–"
_COMMAND = """<!-- test: not run, because it takes an hour and needs the golden cases; CI runs a part -->
```sh
python test/conformance/run.py DATA --output golden.jsonl
python test/conformance/run.py DATA --engine opencl --output test/conformance/opencl.jsonl --resume
python test/conformance/run_suite.py test/conformance/opencl-suite.jsonl --target opencl
shlo-fuzz --journal test/debug/opencl.jsonl --target opencl --count 200
python test/conformance/run_ops.py --write --all-types --golden golden.jsonl --golden test/conformance/opencl.jsonl
```"""
_FOLDERS = {"": "text", "quantized": "`quantized/`", "dynamic": "`dynamic/`"}


@dataclass(frozen=True)
class Excuse:
    """A line of op_exceptions.txt: `op[/function] types: reason`; the names may hold `*`."""

    op: str
    function: str
    types: tuple[str, ...]
    reason: str

    def covers(self, finding: Finding) -> bool:
        """A crash is never excused."""
        return (
            finding.status not in ("crash", "timeout")
            and finding.row.type in self.types
            and fnmatch.fnmatchcase(finding.row.op, self.op)
            and fnmatch.fnmatchcase(finding.function, self.function)
        )

    def covers_class(self, op: str, name: str) -> bool:
        """Whether a whole class of types is refused, by StableHLO's own verifier."""
        return self.function == "*" and fnmatch.fnmatchcase(op, self.op) and set(CLASSES[name]) <= set(self.types)


def excuses(path: Path = EXCEPTIONS) -> list[Excuse]:
    """The lines of op_exceptions.txt. Raises ValueError for one without a reason."""
    found = []
    for line in path.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        case, separator, reason = line.partition(": ")
        op, _, types = case.partition(" ")
        if not separator or not reason.strip() or not types.strip():
            raise ValueError(f"{path}: a line must read 'op[/function] types: reason': {line}")
        name, _, function = op.partition("/")
        found.append(Excuse(name, function or "*", types_of(types), reason.strip()))
    return found


def cells(
    findings: Iterable[Finding], excused: Sequence[Excuse], specified: Mapping[str, frozenset[str]]
) -> dict[str, dict[str, str]]:
    """For every op and class of types that is tried, or that the specification has: `pass`, `refused` or `differs` with
    the numbers of the reasons, or in bold what is wrong."""
    grouped: dict[str, dict[str, list[Finding]]] = defaultdict(lambda: defaultdict(list))
    for finding in findings:
        grouped[finding.row.op][CLASS_OF[finding.row.type]].append(finding)
    table = {op: {name: _cell(found, excused) for name, found in by.items()} for op, by in grouped.items()}
    for op, names in specified.items():
        for name in names - set(table.get(op, ())):
            table.setdefault(op, {})[name] = _untried(op, name, excused)
    return table


def _cell(findings: Sequence[Finding], excused: Sequence[Excuse]) -> str:
    notes, failures = set(), set()
    for finding in findings:
        if finding.status != "ok":
            number = next((n for n, excuse in enumerate(excused, 1) if excuse.covers(finding)), None)
            if number is None:
                failures.add(finding.status)
            else:
                notes.add(number)
    if failures:
        return f"**{', '.join(sorted(failures))}**"
    if not notes:
        return "pass"
    word = "refused" if all(finding.status == "refused" for finding in findings) else "differs"
    return f"{word} {' '.join(f'[{number}]' for number in sorted(notes))}"


def _untried(op: str, name: str, excused: Sequence[Excuse]) -> str:
    number = next((n for n, excuse in enumerate(excused, 1) if excuse.covers_class(op, name)), None)
    return "**not tried**" if number is None else f"refused [{number}]"


def page(
    table: Mapping[str, Mapping[str, str]],
    excused: Sequence[Excuse],
    golden: Sequence[Mapping[str, Any]],
    types: Sequence[str],
) -> str:
    """The text of the page. `golden`: results of run.py; `types`: what was tried."""
    passed = sum(cell == "pass" for row in table.values() for cell in row.values())
    lines = [
        "# Conformance",
        "",
        "<!-- Generated by test/conformance/run_ops.py --write: change the files in test/conformance/. -->",
        "",
        f"{len(table)} ops with {sum(map(len, table.values()))} classes of element types: {passed} pass.",
        *_golden(golden),
        *on_opencl(),
        "",
        "## Every op, every class of types",
        "",
        "All forms of an op (the functions of `stablehlo_py/conformance/ops/*.mlir`) are run and compared with the "
        "reference interpreter, with XLA,",
        "or with what a section's `oracle` names (`stablehlo_py/conformance/oracles.py`).",
        "",
        "- `pass`: every form gives the right result.",
        "- `refused [n]`: compilation ends with an error that names the op and its line, for the reason below.",
        "- `differs [n]`: some form gives another result than the oracle, for the reason below.",
        f"- `{NOT_IN_THE_SPECIFICATION}`: not in the specification (of CHLO, and of ops that it lacks: not "
        "accepted by the verifier).",
        "",
        f"Types tried: {', '.join(f'`{name}`' for name in types if name != 'none')}. Ops without element types are "
        "under `none`.",
        "",
        markdown.table(
            ("op", *CLASSES),
            ((f"`{op}`", *(table[op].get(name, NOT_IN_THE_SPECIFICATION) for name in CLASSES)) for op in sorted(table)),
        ),
    ]
    lines += ["Reasons:", ""]
    lines += [f"{number}. {excuse.reason}" for number, excuse in enumerate(excused, 1)]
    lines += [
        "",
        "Every op also has an error test, a program that violates a constraint: `test/conformance/test_errors.py`, for "
        "CHLO and",
        "ops that the specification lacks `test/conformance/test_ops.py`.",
        "",
        "## How to make this page",
        "",
        _COMMAND,
        "",
        "DATA is the folder of StableHLO's golden cases (CONTRIBUTING.md). Single ops: `run_ops.py --op "
        "'stablehlo.reduce*' --types 'f32 i32'`;",
        "without `--all-types`, one element type of each class.",
    ]
    return "\n".join(lines) + "\n"


def _golden(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """The golden cases by folder and target, and those that do not pass."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for result in results:
        folder = result["case"].rpartition("/")[0].partition("/")[0]
        counts[folder, _target(result)][result["status"]] += 1
    rows = (
        (_FOLDERS.get(folder, f"`{folder}/`"), f"`{target}`", count["passed"], count.total())
        for (folder, target), count in sorted(counts.items())
    )
    lines = ["", "## StableHLO's golden cases", "", markdown.table(("cases", "target", "passed", "of"), rows).rstrip()]
    failed: dict[str, set[str]] = defaultdict(set)
    for result in results:
        if result["status"] != "passed":
            failed[result["case"]].add(_target(result))
    if failed:
        exceptions, targets = load_exceptions(), {target for _, target in counts}
        lines += ["", "Those that do not pass, on all targets or on one:", ""]
        for case, on in sorted(failed.items()):
            where = "" if on == targets else f" on {', '.join(sorted(on))}"
            lines.append(f"- `{case}`{where}: {exceptions.get(case, '**unexplained**')}")
    return lines


def on_opencl() -> list[str]:
    """What else was run on OpenCL, from the journals: operations of the suite, random programs."""
    operations = [json.loads(line) for line in SUITE.read_text().splitlines()]
    programs = Journal(PROGRAMS).read()
    counts = sum((each.counts for each in programs.campaigns), Counter[str]())
    right = sum(each["status"] == "right" for each in operations)
    rows = (
        ("operations of the suite, next to their references, bits the same in a second call", right, len(operations)),
        ("random programs", counts["same"], programs.programs),
    )
    lines = ["", "On `opencl` there are besides:", "", markdown.table(("", "right", "of"), rows).rstrip(), ""]
    lines.append("What is not right of these (docs/fuzzing.md says what the words mean):")
    lines.append("")
    reasons = Counter(f"{each['status']}: {each['detail']}" for each in operations if each["status"] != "right")
    for (_, status, reason), (number, _) in programs.others.items():
        reasons[f"{status}: {reason.removeprefix('error[unsupported]: ')}"] += number
    for key, finding in programs.findings.items():
        reasons[f"{finding['status']}: {programs.explanations.get(key, '**unexplained**')}"] += 1
    return lines + [f"- {number} {reason}" for reason, number in sorted(reasons.items())]


def _target(result: Mapping[str, Any]) -> str:
    """The target whose code gave a result of run.py."""
    return {"shlo": "cpu"}.get(result["engine"], result["engine"])
