"""Try every integer of every op at its extremes: `python test/conformance/run_extremes.py [options]`.

Each integer of a program's text (an attribute, an element of one, a size) and of its arguments is set to -2^63, -1, 0,
1, 2^31 and 2^63-1, of each program of extreme_cases.py, static and with sizes left open. The compiler, and then a call,
must refuse the program with a ShloError that is no InternalError, or give what the reference interpreter gives (where
it gives something: it may refuse, or end its process). Everything runs in child processes with limited memory.

With a journal a campaign that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import fnmatch
import itertools
import json
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from extreme_cases import Case, Program, cases, programs

from stablehlo_py.conformance.runner import difference_of
from stablehlo_py.debug.engines import MAY_LAST
from stablehlo_py.debug.settings import Settings
from stablehlo_py.debug.workers import Answer, Workers
from stablehlo_py.errors import LoadError, ShloError
from stablehlo_py.frontend.load import load

MEMORY = 6 << 30  # of a child's address space
HANG_S = 5.0  # of processor time
TIMEOUT_S = 60.0  # of a child that does not use the processor, or not alone
# What must not be. Beside these there is "parser": MLIR's parser or verifier ended its process, or takes for ever.
FINDINGS = ("crash", "hang", "raw", "internal", "wrong")
# Cases that both oracles answer, and neither is right, or nobody is.
_NO_ORACLE = (
    # An initial value that is not the identity of the body enters as often as an implementation likes.
    "*stablehlo.reduce affine: integer 2[01] *",
    # The number of elements is calculated in i64 by way of limit + stride, which overflows: one element is right.
    "*stablehlo.real_dynamic_slice constant_bounds: integer 1[23] * is 9223372036854775807",
)


def outcome(case: Case, workers: Workers) -> tuple[str, str]:
    """What became of a case: one of FINDINGS, "parser", "same", "unchecked" or "refused", and why."""
    ours, replicas, inputs = workers["ours"], case.program.replicas, case.inputs or ()
    used = ours.processor_s()
    answer = ours.run(case.text, inputs, Settings(grid=(replicas, 1) if replicas > 1 else None))
    if answer.status in ("crash", "timeout"):
        if answer.status == "timeout" and MAY_LAST.search(case.text):
            return "unchecked", answer.detail
        return ("parser" if _dies_in_parser(case.text) else _DEATHS[answer.status]), answer.detail
    if not MAY_LAST.search(case.text) and ours.processor_s() - used > HANG_S:
        return "hang", f"{ours.processor_s() - used:.0f} s of processor time; {answer.status} {answer.detail}"
    if not answer.ok:
        code = _CODE.match(answer.detail)
        status = "raw" if code is None else "internal" if code[1] == "internal" else "refused"
        return status, answer.detail
    if case.program.tolerance is None:
        return "unchecked", ""
    differences = ""
    for oracle in ("reference", "jax"):
        right = workers.run(oracle, case.text, inputs)
        if right.ok:
            differences = _differences(case.program, answer, right)
            if not differences:
                return "same", ""
    if differences and (_has_large_places(case) or any(fnmatch.fnmatchcase(case.name, each) for each in _NO_ORACLE)):
        return "unchecked", differences
    return ("wrong", differences) if differences else ("unchecked", right.detail)


def _has_large_places(case: Case) -> bool:
    """Whether both oracles may take unsigned starts or indices for negative ones."""
    unsigned = [array for array in case.inputs or () if array.dtype.kind == "u"]
    large = any((array >> (8 * array.dtype.itemsize - 1)).any() for array in unsigned)
    return large and re.search(r"stablehlo\.(gather|scatter|dynamic_\w*slice)\b", case.text) is not None


_DEATHS = {"crash": "crash", "timeout": "hang"}
_CODE = re.compile(r"error\[(\w+)\]")


def _differences(program: Program, ours: Answer, right: Answer) -> str:
    assert program.tolerance is not None
    found = []
    for mine, theirs in zip(ours.results, right.results, strict=True):
        magnitude = None
        if program.by_largest:
            size = np.abs(theirs.astype(np.complex128 if theirs.dtype.kind == "c" else np.float64))
            magnitude = np.full(size.shape, size.max(initial=0.0, where=np.isfinite(size)))
        found.append(difference_of(mine, theirs, program.tolerance, magnitude))
    return "; ".join(filter(None, found))


def _dies_in_parser(text: str) -> bool:
    """Whether reading the text is what ends the process, or takes for ever: the compiler reads it in a child."""
    try:
        load(text)
    except LoadError as error:
        return "MLIR crashed" in str(error) or "reading its" in str(error)
    except ShloError:
        pass
    return False


# --- the command ------------------------------------------------------------------------------------------------------


def chosen(pattern: str, every: int, offset: int = 0) -> Iterator[Case]:
    """The cases whose name fits a pattern, one of `every`."""
    program_pattern = pattern.partition(":")[0] if ":" in pattern else "*"
    fitting = (
        case
        for program in programs(program_pattern)
        for case in cases(program)
        if fnmatch.fnmatchcase(case.name, pattern)
    )
    yield from itertools.islice(fitting, offset, None, every)


def run(asked: Iterable[Case], journal: Path | None) -> Iterator[tuple[str, str, str]]:
    """(name, status, detail) of every case: recorded earlier, or found now and recorded."""
    known = {}
    if journal is not None and journal.exists():
        records = map(json.loads, journal.read_text().splitlines())
        known = {record["name"]: (record["status"], record["detail"]) for record in records}
    with Workers(TIMEOUT_S) as workers:
        for case in asked:
            if case.name not in known:
                status, detail = outcome(case, workers)
                known[case.name] = status, detail[:2000]
                if journal is not None:
                    line = json.dumps({"name": case.name, "status": status, "detail": detail[:2000]})
                    with journal.open("a") as file:
                        file.write(line + "\n")
            yield case.name, *known[case.name]


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="*", help="run the cases whose name fits this pattern")
    parser.add_argument("--every", type=int, default=1, help="run one case of so many")
    parser.add_argument("--offset", type=int, default=0, help="pass over so many cases first")
    parser.add_argument("--journal", type=Path, help="JSON lines of what is known; new outcomes are added")
    parser.add_argument("--again", nargs="*", default=(), help="outcomes of the journal to find anew, as 'crash raw'")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--show", action="store_true", help="print the text of findings")
    options = parser.parse_args(argv)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))  # children inherit it
    if options.journal and options.again:
        _forget(options.journal, options.again)
    counts: Counter[str] = Counter()
    end = time.monotonic() + options.seconds
    texts: dict[str, str] = {}

    def noted() -> Iterator[Case]:
        for case in chosen(options.filter, options.every, options.offset):
            if time.monotonic() > end:
                return
            texts.clear()
            texts[case.name] = case.text
            yield case

    for name, status, detail in run(noted(), options.journal):
        counts[status] += 1
        if status in FINDINGS:
            print(f"{status}: {name}: {' '.join(detail.split())[:400]}", flush=True)
            if options.show:
                print(texts[name], flush=True)
    print(f"{counts.total()} cases: " + ", ".join(f"{number} {status}" for status, number in sorted(counts.items())))
    return 1 if any(counts[status] for status in FINDINGS) else 0


def _forget(journal: Path, statuses: Sequence[str]) -> None:
    """Drop the outcomes of a journal that are to be found anew."""
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(line for line in lines if json.loads(line)["status"] not in statuses))


if __name__ == "__main__":
    sys.exit(main())
