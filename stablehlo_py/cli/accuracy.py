"""shlo-accuracy: largest errors of the elementary functions, in units in the last place."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from stablehlo_py.cli.common import EXIT_STATUS_HELP, add_options, run_tool, write_output
from stablehlo_py.errors import EXIT_MISMATCH, EXIT_OK, OptionError

if TYPE_CHECKING:  # mpmath, Arb and SciPy are imported when there is something to measure
    from stablehlo_py.accuracy.complex_functions import ComplexFunction
    from stablehlo_py.accuracy.functions import MathFunction
    from stablehlo_py.accuracy.journal import Journal
    from stablehlo_py.accuracy.measure import Measurement

TYPES = ("f32", "f64", "f16", "bf16", "c64", "c128")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(prog="shlo-accuracy", description=__doc__, epilog=EXIT_STATUS_HELP)
    result.add_argument("functions", nargs="*", help="functions to measure (all of them)")
    result.add_argument("--list", action="store_true", help="list the functions and end")
    result.add_argument("--types", default=",".join(TYPES), help="element types, separated by commas")
    result.add_argument("--stride", type=int, default=4099, metavar="N", help="measure f32 at every N-th bit pattern")
    result.add_argument("--exhaustive", action="store_true", help="measure f32 at all 2^32 bit patterns")
    result.add_argument("--samples", type=int, default=1 << 18, help="samples of f64, and of two arguments")
    result.add_argument("--complex-samples", type=int, default=1 << 14, help="samples of c64 and c128")
    result.add_argument(
        "--recheck", type=int, default=10_000, metavar="N", help="worst cases computed again in mpmath (default: 10000)"
    )
    result.add_argument("--journal", type=Path, metavar="FILE", help="keep results, and go on where a run was stopped")
    result.add_argument(
        "--results", type=Path, action="append", default=[], metavar="FILE", help="use what this journal has, too"
    )
    add_options(result, "--cpu")
    result.add_argument("--write", metavar="FILE", help="write the page with the best measurements of each function")
    return result


def _chosen(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    known = _names()
    for name in options.functions:
        if name not in known:
            raise OptionError(f"no function is named {name!r}", remedy=f"choose from: {', '.join(known)}")
    types = options.types.split(",")
    for name in types:
        if name not in TYPES:
            raise OptionError(f"--types has {name!r}", remedy=f"choose from: {', '.join(TYPES)}")
    if min(options.stride, options.samples, options.complex_samples, options.recheck) < 1:
        raise OptionError("--stride, --samples and --recheck count from 1", remedy="give a positive number")
    return options.functions or known, types


def _names() -> list[str]:
    from stablehlo_py.accuracy.complex_functions import COMPLEX_FUNCTIONS
    from stablehlo_py.accuracy.functions import FUNCTIONS

    return [*FUNCTIONS, *(name for name in COMPLEX_FUNCTIONS if name not in FUNCTIONS)]


def _measurements(options: argparse.Namespace, console: Console) -> Iterator[Measurement]:
    """One measurement after the other, from the journal where it has as good a one."""
    from stablehlo_py.accuracy.complex_functions import COMPLEX_FUNCTIONS, PARTS
    from stablehlo_py.accuracy.functions import FUNCTIONS
    from stablehlo_py.accuracy.journal import Journal

    names, types = _chosen(options)
    journal = Journal(options.journal, options.results)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        for name in names:
            for element in types:
                if element in PARTS:
                    if name in COMPLEX_FUNCTIONS:
                        yield _complex(COMPLEX_FUNCTIONS[name], element, options, journal)
                elif name in FUNCTIONS:
                    yield _real(FUNCTIONS[name], element, options, journal, bars)


def _complex(function: ComplexFunction, element: str, options: argparse.Namespace, journal: Journal) -> Measurement:
    from stablehlo_py.accuracy.complex_functions import RECHECKED, measure_complex

    compiled = function.compiled(element, options.cpu)
    known = journal.best(function.name, element, compiled.digest)
    # Samples at poles are not counted.
    if known is None or known.inputs < 0.8 * options.complex_samples:
        known = measure_complex(
            function,
            element,
            count=options.complex_samples,
            compiled=compiled,
            rechecked=min(options.recheck, RECHECKED),
        )
        journal.finish(known)
    return known


def _real(
    function: MathFunction, element: str, options: argparse.Namespace, journal: Journal, bars: Progress
) -> Measurement:
    from stablehlo_py.accuracy.formats import FORMATS
    from stablehlo_py.accuracy.measure import State, measure, stride_of

    of = FORMATS[element]
    compiled = function.compiled(element, options.cpu)
    stride = stride_of(function, element, 1 if options.exhaustive else options.stride)
    total = of.count if stride else options.samples
    known = journal.covers(function.name, element, compiled.digest, total // max(1, stride))
    if known is None:
        task = bars.add_task(f"{function.name} {element}", total=total)
        key = (function.name, element, compiled.digest, stride)

        def progress(state: State) -> None:
            bars.update(task, completed=state.position)
            journal.progress(*key, state)

        known = measure(
            function,
            element,
            stride=stride,
            count=options.samples,
            compiled=compiled,
            state=journal.resume(*key, of.bits),
            progress=progress,
            rechecked=options.recheck,
        )
        journal.finish(known)
        bars.remove_task(task)
    return journal.best(function.name, element, compiled.digest) or known


def tool(options: argparse.Namespace) -> int:
    """Measure, print, write."""
    for module, package in (("mpmath", "mpmath"), ("flint", "python-flint")):
        if find_spec(module) is None:
            raise OptionError(f"{package} is not installed", remedy="pip install 'stablehlo-py[test]'")
    from stablehlo_py.accuracy.report import COLUMNS, cells, markdown

    if options.list:
        print("\n".join(_names()))
        return EXIT_OK
    console = Console() if sys.stdout.isatty() else Console(width=160)
    results = []
    table = Table(*COLUMNS, box=SIMPLE)
    for measurement in _measurements(options, console):
        results.append(measurement)
        table.add_row(*cells(measurement), style="" if measurement.met else "red")
    console.print(table)
    if options.write:
        given = " ".join(["shlo-accuracy", *sys.argv[1:]])
        write_output(options.write, markdown(results, given))
    return EXIT_OK if all(measurement.met for measurement in results) else EXIT_MISMATCH


main = partial(run_tool, parser, tool)


if __name__ == "__main__":
    sys.exit(main())
