"""shlo-bench: correctness and speed of the suites of models and of single operations, next to XLA, and to other peers,
on the same cores."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from threading import Timer
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from stablehlo_py import suite
from stablehlo_py.backends.cpu.peaks import Peaks
from stablehlo_py.cli.common import add_options, progress_bars, run_tool
from stablehlo_py.errors import EXIT_INTERNAL, EXIT_MISMATCH, EXIT_OK, LoadError, OptionError, ResourceError
from stablehlo_py.files import write_whole
from stablehlo_py.markdown import table
from stablehlo_py.passmanager.suggest import near_miss
from stablehlo_py.suite.journal import Journal
from stablehlo_py.suite.measure import Measurement
from stablehlo_py.suite.operations_page import best_peer, operations_page
from stablehlo_py.suite.peers import PEERS, check_peers
from stablehlo_py.suite.performance_page import performance_page

# Seconds that the rounds of an operation take for each peer; the libraries that peers use read these variables.
_BUDGET = 0.5
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

ALL = "all"  # suites
BEGIN, END = "<!-- shlo-bench: begin -->", "<!-- shlo-bench: end -->"


@dataclass
class Results:
    """What one run of the tool measured: the peaks of the machine by number of threads, and each model."""

    machine: str
    peaks: list[Peaks]
    measurements: list[Measurement]

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def read(cls, path: Path) -> Results:
        """From a file that `--json` wrote. Raises LoadError: it is no such file."""
        try:
            found = json.loads(path.read_text())
            return cls(
                found["machine"],
                [Peaks.of(each) for each in found["peaks"]],
                [Measurement.of(each) for each in found["measurements"]],
            )
        except OSError as error:
            raise ResourceError(f"cannot read {path}: {error.strerror}", remedy="name a file that exists") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LoadError(
                f"{path} holds no measurements", remedy="compare with a file that shlo-bench --json wrote"
            ) from error


def measurements(
    models: Sequence[str], threads: int, options: argparse.Namespace, peaks: dict[int, Peaks]
) -> Iterator[Measurement]:
    """Measure the models, as the command line says, in one pinned child process; one that dies is the result of its
    model, or of the peer that it was at, and is replaced. `peaks`, by the number of threads, get the machine's."""
    waiting = list(models)
    given_up: dict[str, dict[str, str]] = {}
    while waiting:
        asked = ("size", "weights", "rounds", "target", "cpu", "device", "peers", "processor")
        request = {"models": waiting, "threads": threads, **{name: getattr(options, name) for name in asked}}
        request |= {"budget": _BUDGET if options.suite == "operations" else 0.0, "given_up": given_up}
        request["peaks"] = asdict(peaks[threads]) if threads in peaks else None
        ready, at = False, {}
        with _child(request) as child:
            assert child.stdout is not None
            timer: Timer | None = None
            try:
                for line in child.stdout:
                    if timer is not None:
                        timer.cancel()
                    at = entry = json.loads(line)
                    if "peaks" in entry:
                        ready = True
                        if entry["peaks"]:
                            peaks[threads] = Peaks.of(entry["peaks"])
                    elif "peer" in entry:
                        timer = Timer(PEERS[entry["peer"]].patience, child.kill)
                        timer.start()
                    elif "measurement" in entry:
                        waiting.remove(entry["measurement"]["model"])
                        yield Measurement.of(entry["measurement"])
            except BaseException:
                child.kill()
                raise
            finally:
                if timer is not None:
                    timer.cancel()
        if waiting:
            reason = f"the process ended with status {child.returncode}"
            if not ready:
                raise ResourceError(f"cannot measure: {reason} before the first model", remedy="see its message above")
            if "peer" in at:
                slow = child.returncode == -signal.SIGKILL
                why = f"takes more than {PEERS[at['peer']].patience:.0f} s" if slow else reason
                given_up.setdefault(at["model"], {})[at["peer"]] = why
                continue
            yield Measurement(waiting.pop(0), options.size, options.weights, threads, 0.0, error=reason)


def _child(request: Mapping[str, Any]) -> subprocess.Popen[str]:
    """A process that measures what a request says, and has as many threads in the libraries of peers."""
    environment = os.environ | dict.fromkeys(_THREADS, str(request["threads"]))
    command = [sys.executable, "-m", "stablehlo_py.suite.measure"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert child.stdin is not None
    json.dump(request, child.stdin)
    child.stdin.close()
    return child


def _milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:.3g}" if seconds < 1 else f"{seconds * 1e3:.0f}"


COLUMNS = (
    "model",
    "threads",
    "largest difference",
    "allowed",
    "run, ms",
    "XLA, ms",
    "XLA / ours",
    "of the bound",
    "compile, ms",
    "cached, ms",
    "XLA compile, ms",
    "XLA cached, ms",
)
NARROW = ("model", "threads", "largest difference", "run, ms", "XLA, ms", "XLA / ours")  # 80 characters
WIDE = 180  # characters that all columns take


def row(m: Measurement) -> list[str]:
    """The cells of a measurement, under COLUMNS."""
    if m.error:
        text = " ".join(m.error.split())
        return [m.model, str(m.threads), f"failed: {text[:80]}", *["-"] * (len(COLUMNS) - 3)]
    difference = "-" if m.difference is None else f"{m.difference:.1e}" + ("" if m.correct else " (too large)")
    return [
        m.model,
        str(m.threads),
        difference,
        f"{m.tolerance:.0e}",
        _milliseconds(m.seconds),
        _milliseconds(m.xla_seconds),
        "-" if m.speedup is None else f"{m.speedup:.2f}",
        "-" if m.bound is None or not m.seconds else f"{m.bound / m.seconds:.0%}",
        *map(_milliseconds, (m.compile_seconds, m.compile_cached, m.xla_compile_seconds, m.xla_compile_cached)),
    ]


def machine(peers: Sequence[str] = ()) -> str:
    """The CPU's name, and the versions that the numbers depend on."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE)
        name = found[1] if found else name
    packages = dict.fromkeys(("jax", "llvmlite", "torch-mlir", *(PEERS[each].package for each in peers)))
    return f"{name}; {', '.join(f'{package} {version(package)}' for package in packages)}"


def markdown(results: Results, command: str, kind: str = "models") -> str:
    """What goes into the pages of docs: the command that made it, the peaks of the machine, and the tables."""
    peaks = "".join(f"- {each}\n" for each in results.peaks)
    head = f"`{command}` on {results.machine}.\n\n{peaks}\n" if peaks else f"`{command}` on {results.machine}.\n\n"
    if kind == "operations":
        return f"{BEGIN}\n{head}{operations_page(results.measurements)}{END}"
    if kind == ALL:
        return f"{BEGIN}\n{head}{performance_page(results.measurements, suite.class_of)}{END}"
    return f"{BEGIN}\n{head}{table(COLUMNS, map(row, results.measurements))}{END}"


def write_table(path: Path, table: str) -> None:
    """Put the table between the marks in a Markdown file. Raises ResourceError when the file has no marks."""
    text = path.read_text() if path.exists() else ""
    if BEGIN not in text or END not in text:
        raise ResourceError(f"{path} has no place for the table", remedy=f"add the lines {BEGIN} and {END} to it")
    head, _, rest = text.partition(BEGIN)
    write_whole(path, head + table + rest.partition(END)[2])


def show(results: Results, console: Console, wide: bool = False) -> None:
    """Print the peaks, and the table for a person: the columns of `NARROW`, or all of them."""
    for peaks in results.peaks:
        console.print(str(peaks), highlight=False)
    shown = COLUMNS if wide else NARROW
    table = Table(box=SIMPLE, pad_edge=False)
    for name in shown:
        # A name folds, and a heading between its words; a number does not.
        folds = name in ("model", "largest difference")
        table.add_column(name, overflow="fold", no_wrap=not folds, min_width=10 if folds else None)
    peers = any(m.peers for m in results.measurements)
    if peers:
        table.add_column("best peer / ours", overflow="fold")
    for m in results.measurements:
        cells = dict(zip(COLUMNS, row(m), strict=True)) | ({"largest difference": "failed"} if m.error else {})
        best = [best_peer(m)] if peers else []
        table.add_row(*(cells[name] for name in shown), *best, style="" if m.error is None and m.correct else "red")
    console.print(table)
    for m in results.measurements:
        if m.error:
            console.print(f"{m.model}, {m.threads} threads: {m.error}", style="red", markup=False)
        for name, peer in m.peers.items():
            if peer.error:
                console.print(f"{m.model}, {m.threads} threads: {name}: {peer.error}", markup=False)


def show_change(results: Results, before: Results, console: Console) -> None:
    """Print the times of both next to each other, where both measured a model with as many threads, and the geometric
    mean of their ratios."""
    old = {(m.model, m.threads): m for m in before.measurements}
    table = Table(box=SIMPLE, pad_edge=False)
    for name in ("model", "threads", "before, ms", "now, ms", "now / before", "XLA now / before"):
        table.add_column(name, overflow="fold", no_wrap=name != "model")
    ratios = []
    for m in results.measurements:
        other = old.get((m.model, m.threads))
        if other is None or not (m.seconds and other.seconds):
            continue
        ratios.append(m.seconds / other.seconds)
        xla = f"{m.xla_seconds / other.xla_seconds:.2f}" if m.xla_seconds and other.xla_seconds else "-"
        times = (_milliseconds(other.seconds), _milliseconds(m.seconds))
        table.add_row(m.model, str(m.threads), *times, f"{ratios[-1]:.2f}", xla)
    if not ratios:
        raise OptionError("the file to compare with measured none of these models", remedy="measure the same ones")
    console.print(table)
    console.print(f"geometric mean of now / before: {statistics.geometric_mean(ratios):.3f}", highlight=False)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(prog="shlo-bench", description=__doc__)
    result.add_argument("models", nargs="*", help="models to measure (all of the suite)")
    result.add_argument(
        "--suite", choices=("models", "loops", "operations", ALL), default="models", help="default: models"
    )
    result.add_argument("--list", action="store_true", help="list the suite's models and end")
    result.add_argument("--size", choices=("small", "full"), default="full")
    result.add_argument("--weights", choices=("argument", "constant"), default="argument")
    result.add_argument("--threads", default="1,2", help="numbers of threads, separated by commas (default: 1,2)")
    result.add_argument(
        "--processor", action="store_true", help="processor time, on a machine that does more (one thread only)"
    )
    result.add_argument(
        "--peers",
        default="",
        help=f"what else to measure, separated by commas: {', '.join(PEERS)} (default: XLA alone)",
    )
    result.add_argument("--rounds", type=int, default=11, help="interleaved rounds; 0 checks results only")
    add_options(result, "--target", "--cpu", "--device")
    result.add_argument("--wide", action="store_true", help="every column (lines of up to 180 characters)")
    result.add_argument("--write", type=Path, metavar="FILE", help="put the table into this Markdown file")
    result.add_argument("--json", type=Path, metavar="FILE", help="write the measurements as JSON")
    result.add_argument(
        "--journal", type=Path, metavar="FILE", help="add each measurement to this file; what is there is not repeated"
    )
    result.add_argument(
        "--measured", action="store_true", help="measure nothing: show, write and plot what the journal has"
    )
    result.add_argument(
        "--compare", type=Path, metavar="FILE", help="show what changed since this was written (--json)"
    )
    result.add_argument("--roofline", type=Path, metavar="FILE", help="plot all models under the machine's roofs (SVG)")
    return result


def _threads(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise OptionError(f"--threads cannot be {text!r}", remedy="use numbers from 1 up, as in --threads 1,2")
    return numbers


def _known(kind: str) -> dict[str, list[str]]:
    """The names of what is in a suite, or in all of them."""
    return {each: suite.names(each) for each in (suite.SUITES if kind == ALL else (kind,))}


def run(options: argparse.Namespace, console: Console) -> Results:
    """Measure what the options ask for, with a progress bar on a terminal; or find it in the journal."""
    kinds = _known(options.suite)
    known = [name for names in kinds.values() for name in names]
    for name in options.models:
        if name not in known:
            raise OptionError(f"no model is named {name!r}", remedy=near_miss(name, known))
    models = options.models or known
    threads = _threads(options.threads)
    journal = Journal(options.journal, "" if options.measured else machine(options.peers))
    results: list[Measurement] = []
    peaks = dict(journal.peaks)
    with progress_bars(console) as progress:
        for count in threads:
            peers = () if options.measured else options.peers
            found = journal.found(options.size, options.weights, count, peers, options.processor)
            results += [m for m in found if m.model in models]
            missing = [name for name in models if name not in {m.model for m in found} and not options.measured]
            task = progress.add_task(f"{count} thread{'s' * (count > 1)}", total=len(missing))
            for kind, names in kinds.items():
                some = argparse.Namespace(**{**vars(options), "suite": kind})
                for result in measurements([name for name in missing if name in names], count, some, peaks):
                    results.append(result)
                    journal.add(result, peaks.get(count))
                    progress.advance(task)
    order = {name: number for number, name in enumerate(models)}
    results.sort(key=lambda m: (order[m.model], m.threads))
    return Results(journal.machine, [peaks[count] for count in threads if count in peaks], results)


def _run(options: argparse.Namespace, command: str) -> int:
    """The exit status: 1 when a result is off, 5 when a model failed."""
    if find_spec("jax") is None or find_spec("flax") is None:
        raise OptionError("the model suite is not installed", remedy="pip install 'stablehlo-py[suite]'")
    options.peers = [name for name in options.peers.split(",") if name]
    if not options.measured:
        check_peers(options.peers)
    if options.processor and _threads(options.threads) != [1]:
        raise OptionError("processor time is that of all threads", remedy="add --threads 1")
    if options.measured and options.journal is None:
        raise OptionError("--measured shows a journal, and none is named", remedy="add --journal FILE")
    if options.list:
        print("\n".join(name for names in _known(options.suite).values() for name in names))
        return EXIT_OK
    if options.roofline and find_spec("matplotlib") is None:
        raise OptionError("matplotlib, which plots, is not installed", remedy="pip install 'stablehlo-py[suite]'")
    before = Results.read(options.compare) if options.compare else None
    console = Console(width=WIDE if options.wide else None)
    results = run(options, console)
    show(results, console, wide=options.wide)
    if options.write:
        write_table(options.write, markdown(results, command, options.suite))
    if options.json:
        write_whole(options.json, results.text())
    if options.roofline:
        from stablehlo_py.suite.roofline_plot import plot

        write_whole(options.roofline, plot(results.peaks, results.measurements))
    if before is not None:
        show_change(results, before, console)
    if any(m.error for m in results.measurements):
        return EXIT_INTERNAL
    return EXIT_OK if all(m.correct for m in results.measurements) else EXIT_MISMATCH


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `shlo-bench`."""
    command = " ".join(["shlo-bench", *(sys.argv[1:] if argv is None else argv)])
    return run_tool(parser, lambda options: _run(options, command), argv)


if __name__ == "__main__":
    sys.exit(main())
