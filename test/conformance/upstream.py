"""Run StableHLO's own tests of values: `python test/conformance/upstream.py FOLDER [options]`.

FOLDER is stablehlo/tests of the repository openxla/stablehlo, which this repository does not hold: the modules below
its folders `math` and `interpret` check themselves. As golden cases do (run.py), they run with real arguments, and the
checks are done here. Exit status 0 when every module passes or is named, with its reason, in upstream_exceptions.txt.
"""

from __future__ import annotations

import argparse
import fnmatch
import re
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import run

from stablehlo_py.suite import golden

EXCEPTIONS = Path(__file__).with_name("upstream_exceptions.txt")
FOLDERS = ("math", "interpret")
# The `check` dialect is a part of StableHLO's tools only: its ops in MLIR's generic form.
_WITH_CONSTANT = re.compile(r"check\.(\w+_const) (%[\w#]+),\s*(.*?) ?:\s*(tensor<[^\n]*>)$", re.MULTILINE | re.DOTALL)
_OF_TWO = re.compile(
    r"check\.(\w+) (%[\w#]+), (%[\w#]+)((?:, \w+ = \d+)*) : (tensor<[^\n]*?>)(?:, tensor<[^\n]*>)?$", re.MULTILINE
)


def jobs_of(folder: Path, pattern: str = "*") -> list[run.Job]:
    """The modules of all files, by name: `math/file` or `interpret/file#number`."""
    found = []
    for path in sorted(path for name in FOLDERS for path in (folder / name).rglob("*.mlir")):
        name = path.relative_to(folder).as_posix().removesuffix(".mlir")
        parts = golden.pieces(path.read_text())
        for number, text in enumerate(parts):
            own = f"{name}#{number}" if len(parts) > 1 else name
            if fnmatch.fnmatchcase(own, pattern):
                found.append(run.Job(own, generic(text)))
    return found


def generic(text: str) -> str:
    """A module in the form of a golden case: checks in generic form, inputs from a function called `inputs`."""
    text = _WITH_CONSTANT.sub(r'"check.\1"(\2) <{value = \3 : \4}> : (\4) -> ()', text)
    text = _OF_TWO.sub(r'"check.\1"(\2, \3) : (\5, \5) -> ()', text)
    return text.replace("@samples()", "@inputs()")


def is_excepted(result: run.Result, exceptions: dict[str, str]) -> bool:
    """Whether a failure is named; a pattern excuses what is refused or is no module with checks, never an answer."""
    if result.case in exceptions:
        return True
    patterns = [name for name in exceptions if "*" in name] if result.status in ("unsupported", "error") else []
    return any(fnmatch.fnmatchcase(result.case, pattern) for pattern in patterns)


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="stablehlo/tests")
    parser.add_argument("--workers", type=int, default=2, help="worker processes")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for one module")
    parser.add_argument("--filter", default="*", help="run the modules whose name fits this pattern")
    options = parser.parse_args(argv)
    jobs = jobs_of(options.folder, options.filter)
    if not jobs:
        print(f"error: no module below {options.folder} fits {options.filter!r}", file=sys.stderr)
        return 2
    exceptions = run.load_exceptions(EXCEPTIONS)
    results = sorted(run.run(jobs, "shlo", options.workers, options.timeout), key=lambda result: result.case)
    failed = [r for r in results if r.status != "passed" and not is_excepted(r, exceptions)]
    for result in failed:
        print(f"{result.status}: {result.case}: {' '.join(result.detail.split())[:400]}")
    for result in results:
        if result.case in exceptions and result.status == "passed":
            print(f"passes, so take it out of {EXCEPTIONS.name}: {result.case}")
    counts = Counter("passed" if r.status == "passed" else "failed" if r in failed else "skipped" for r in results)
    print(", ".join(f"{counts[name]} {name}" for name in ("passed", "failed", "skipped")))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
