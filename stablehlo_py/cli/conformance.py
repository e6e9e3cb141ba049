"""`shlo-conformance`: every op with every element type on a target, and a table of what became of them."""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import tarfile
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from stablehlo_py.cli import debugging
from stablehlo_py.cli.common import EXIT_STATUS_HELP, add_options, positive, progress_bars, run_tool
from stablehlo_py.errors import EXIT_MISMATCH, EXIT_OK, OptionError, ResourceError
from stablehlo_py.files import write_whole
from stablehlo_py.options import available_threads

if TYPE_CHECKING:
    from stablehlo_py.conformance.campaign import Result
    from stablehlo_py.conformance.cases import Row
    from stablehlo_py.conformance.golden_cases import Job

_DESCRIPTION = """Run programs of every op of StableHLO and CHLO with every element type on a target.

They come with their arguments, always the same. The right results are those of StableHLO's reference interpreter, of
XLA where JAX is installed, of wider types, or of the dialect's own evaluation in NumPy. Every case runs in a child
process, with a limit of time and memory: a crash is a result. With --golden, StableHLO's golden cases run too."""

_EPILOG = f"""examples:
  shlo-conformance --target abacus --journal abacus.jsonl --markdown abacus.md --json abacus.json
  shlo-conformance --target abacus --op 'stablehlo.reduce*' --types 'f32 i32'
  shlo-conformance --target abacus --at-least 95 --golden stablehlo/testdata
  shlo-conformance --every 50                             a first look

{EXIT_STATUS_HELP} (1: fewer cases are right than --at-least says; without
it: some are neither right nor refused)"""
_SHOWN = 20  # of what is not right


def build_parser() -> argparse.ArgumentParser:
    """The command line of `shlo-conformance`."""
    parser = debugging.tool_parser("shlo-conformance", _DESCRIPTION, _EPILOG)
    add = parser.add_argument
    add_options(parser, "--target")
    add("--op", default="*", metavar="PATTERN", help="only ops whose name fits, as 'stablehlo.reduce*'")
    add("--types", metavar="TYPES", help="element types or classes of them, with spaces between: 'f32 int half'")
    add("--all-types", action="store_true", help="every element type (default: one of each class)")
    add("--golden", type=Path, metavar="DATA", help="StableHLO's golden cases too: stablehlo/testdata, or its .tar.xz")
    add("--every", type=positive, default=1, metavar="N", help="one of N cases (default: all)")
    add("--at-least", type=float, metavar="P", help="per cent of the cases that have to be right")
    add("--journal", type=Path, metavar="FILE", help="keep results, and go on where a run was ended")
    add("--markdown", type=Path, metavar="FILE", help="write the table of ops and types")
    add("--json", type=Path, metavar="FILE", help="write it as data, with what every case that is not right says")
    workers = min(4, available_threads())
    add("--workers", type=positive, default=workers, metavar="N", help="child processes (default: %(default)s)")
    add_options(parser, "--timeout", default=60.0)
    add("--memory", type=float, default=8.0, metavar="GIB", help="memory of a child process (default: %(default)g GiB)")
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from stablehlo_py.conformance.campaign import Result, run_golden, run_rows
    from stablehlo_py.conformance.journal import Journal
    from stablehlo_py.conformance.report import Report, described
    from stablehlo_py.conformance.workers import Pool
    from stablehlo_py.targets import find_backend

    target = arguments.target
    find_backend(target)
    _require_numbers(arguments)
    rows, jobs = _rows(arguments), _golden(arguments)
    journal = Journal(arguments.journal, target, Result)
    results: list[Result] = []
    with Pool(arguments.workers, arguments.timeout, int(arguments.memory * 2**30)) as pool, progress_bars() as progress:
        task = progress.add_task("cases", total=sum(len(row.functions) for row in rows) + len(jobs))
        for found in chain(run_rows(rows, target, pool, journal), run_golden(jobs, target, pool, journal)):
            results += found
            progress.advance(task, len(found))
    report = Report(target, results)
    if arguments.markdown:
        write_whole(arguments.markdown, report.page())
    if arguments.json:
        write_whole(arguments.json, json.dumps(report.json(), indent=1) + "\n")
    for each in report.failures[:_SHOWN]:
        print(described(each))
    if len(report.failures) > _SHOWN:
        print(f"and {len(report.failures) - _SHOWN} more: --markdown and --json list all")
    print(report.line())
    if arguments.at_least is not None:
        return EXIT_OK if report.percent >= arguments.at_least else EXIT_MISMATCH
    return EXIT_MISMATCH if report.failures else EXIT_OK


def _require_numbers(arguments: argparse.Namespace) -> None:
    """Refuse numbers that cannot be. Raises OptionError."""
    if arguments.at_least is not None and not 0 <= arguments.at_least <= 100:
        raise OptionError(f"--at-least {arguments.at_least:g} is no percentage", remedy="give a number from 0 to 100")
    for name in ("timeout", "memory"):
        number = getattr(arguments, name)
        if not 0 < number < float("inf"):
            raise OptionError(f"--{name} {number:g} leaves nothing to run in", remedy="give a positive number")


def _rows(arguments: argparse.Namespace) -> list[Row]:
    """The ops and types that the options ask for. Raises OptionError: there are none."""
    from stablehlo_py.conformance.cases import CLASS_OF, CLASSES, REPRESENTATIVES, rows, types_of

    try:
        types = types_of(arguments.types) if arguments.types else REPRESENTATIVES
    except KeyError as error:
        known = " ".join((*CLASSES, *CLASS_OF))
        raise OptionError(str(error.args[0]), remedy=f"choose from {known}") from error
    types = tuple(CLASS_OF) if arguments.all_types else types
    found = [row for row in rows() if row.type in types and fnmatch.fnmatchcase(row.op, arguments.op)]
    if not found:
        raise OptionError(f"no op of these types fits '{arguments.op}'", remedy="give a pattern as 'stablehlo.reduce*'")
    return found[:: arguments.every]


def _golden(arguments: argparse.Namespace) -> list[Job]:
    """The golden cases that the options ask for. Raises ResourceError: there are none."""
    from stablehlo_py.conformance.golden_cases import find_jobs, unpacked

    if arguments.golden is None:
        return []
    try:
        with unpacked(arguments.golden) as folder:
            found = list(find_jobs(folder, "*", arguments.every))
    except (OSError, ValueError, tarfile.TarError) as error:
        raise ResourceError(f"{arguments.golden} cannot be read: {error}", remedy="give stablehlo/testdata") from error
    if not found:
        raise ResourceError(f"there are no golden cases below {arguments.golden}", remedy="give stablehlo/testdata")
    return found


main = partial(run_tool, build_parser, _run)


if __name__ == "__main__":
    sys.exit(main())
