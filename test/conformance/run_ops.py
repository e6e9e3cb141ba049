"""Run the per-op cases of stablehlo_py/conformance/ops: `python test/conformance/run_ops.py [options]`.

Every op of StableHLO and CHLO is tried with every class of element types that the specification allows, and compared
with the reference interpreter, XLA and others (stablehlo_py/conformance). `--write --golden FILE` makes
docs/conformance.md anew (conformance_page.py). Exit status 0 when everything is right or named, with its reason, in
its exceptions.txt.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import mmap
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import conformance_page

from stablehlo_py.conformance import runner
from stablehlo_py.conformance.cases import CLASS_OF, REPRESENTATIVES, Row, rows, specified, types_of
from stablehlo_py.conformance.excuses import excuses
from stablehlo_py.conformance.runner import Finding


def ops_of_the_wheel() -> set[str]:
    """Every op of the StableHLO and CHLO dialects that is registered. The bindings cannot list them, so the names in
    the library's strings are asked for one by one."""
    from stablehlo_py.dialect.context import make_context
    from stablehlo_py.mlir import capi

    context = make_context()
    with (
        Path(capi()._library._name).open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as library,
    ):
        names = {name.decode() for name in re.findall(rb"(?:stablehlo|chlo)\.[a-z_0-9-]+", library)}
    return {name for name in names if context.is_registered_operation(name)}


# --- the command ------------------------------------------------------------------------------------------------------


def chosen(op: str, types: Sequence[str]) -> list[Row]:
    """The rows of the ops that fit a pattern, of these types."""
    return [row for row in rows() if row.type in types and fnmatch.fnmatchcase(row.op, op)]


def run(asked: Sequence[Row], options: argparse.Namespace) -> list[Finding]:
    """What became of every function of the rows: recorded earlier, or found now."""
    known = {}
    for path in options.recorded:
        for line in path.read_text().splitlines():
            record = json.loads(line)
            known[_key(record)] = record
    recorded, missing = [], []
    for row in asked:
        place = (row.section.family, row.section.number, row.op, row.type)
        records = [known.get((*place, name)) for name in row.functions]
        if None in records:
            missing.append(row)
        else:
            recorded += [Finding(row, r["function"], r["status"], r["detail"]) for r in records if r]
    return recorded + runner.check(missing, options.workers, options.timeout)


def _key(record: dict[str, Any]) -> tuple[str, int, str, str, str]:
    return record["family"], record["section"], record["op"], record["type"], record["function"]


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", default="*", help="run the ops whose name fits this pattern")
    parser.add_argument("--types", help="element types, classes or groups, with spaces between")
    parser.add_argument("--all-types", action="store_true", help="every element type, not one of each class")
    parser.add_argument("--workers", type=int, default=2, help="worker processes")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for one module")
    parser.add_argument("--output", type=Path, help="write one JSON line for each function")
    parser.add_argument("--recorded", type=Path, action="append", default=[], help="take these outputs, run the rest")
    parser.add_argument("--write", action="store_true", help="write docs/conformance.md; needs --golden")
    parser.add_argument("--golden", type=Path, action="append", help="what run.py --output wrote; may be repeated")
    options = parser.parse_args(argv)
    if options.write and (options.op != "*" or options.types or not options.golden):
        parser.error("--write is for all ops and classes of types, and needs --golden")
    every = tuple(CLASS_OF) if options.all_types else REPRESENTATIVES
    types = types_of(options.types) if options.types else every
    excused = excuses()
    findings = run(chosen(options.op, types), options)
    if options.output:
        options.output.write_text("".join(json.dumps(_record(finding)) + "\n" for finding in findings))
    open_ = [f for f in findings if f.status != "ok" and not any(excuse.covers(f) for excuse in excused)]
    for finding in open_:
        print(f"{finding.status}: {finding.row.name} {finding.function}: {' '.join(finding.detail.split())[:300]}")
    if options.write:
        results = [json.loads(line) for path in options.golden for line in path.read_text().splitlines()]
        table = conformance_page.cells(findings, excused, specified())
        conformance_page.PAGE.write_text(conformance_page.page(table, excused, results, types))
    right = sum(finding.status == "ok" for finding in findings)
    print(f"{right} passed, {len(open_)} failed, {len(findings) - right - len(open_)} skipped")
    return 1 if open_ else 0


def _record(finding: Finding) -> dict[str, object]:
    row = finding.row
    return {
        "op": row.op,
        "type": row.type,
        "family": row.section.family,
        "section": row.section.number,
        "function": finding.function,
        "status": finding.status,
        "detail": finding.detail,
    }


if __name__ == "__main__":
    sys.exit(main())
