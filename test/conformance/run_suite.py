"""Run the operations of the suite next to their references: `python test/conformance/run_suite.py JOURNAL [options]`.

An operation is right if its results are within its tolerance of the reference's, and the same to the last bit in a
second call. The journal has a line of JSON for each; what is in it is not run again, and an operation that ended the
process is called a crash there. Exit status 0 when everything is right.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import stablehlo_py as shlo
from stablehlo_py import suite


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("journal", type=Path, help="what has run, and is to be added to")
    parser.add_argument("--target", default="cpu", help="backend (default: cpu)")
    parser.add_argument("--filter", default="*", help="run the operations whose name fits this pattern")
    options = parser.parse_args(argv)
    options.journal.touch()
    known = [json.loads(line)["name"] for line in options.journal.read_text().splitlines()]
    for name in fnmatch.filter(suite.names("operations"), options.filter):
        if name not in known:
            _record(options.journal, name, options.target)
    results = [json.loads(line) for line in options.journal.read_text().splitlines()]
    wrong = [result for result in results if result["status"] != "right"]
    for result in wrong:
        print(f"{result['status']}: {result['name']}: {' '.join(result.get('detail', '').split())[:400]}")
    print(f"{len(results) - len(wrong)} of {len(results)} operations are right on {options.target}")
    return 1 if wrong else 0


def _record(journal: Path, name: str, target: str) -> None:
    """Run an operation; until it has ended, its line says that it crashed."""
    with journal.open("r+") as lines:
        lines.seek(0, 2)
        place = lines.tell()
        lines.write(json.dumps({"name": name, "status": "crash"}) + "\n")
        lines.flush()
        started = time.monotonic()
        found = outcome(name, target)
        lines.seek(place)
        lines.truncate()
        lines.write(json.dumps({"name": name, **found, "seconds": round(time.monotonic() - started, 2)}) + "\n")


def outcome(name: str, target: str) -> dict[str, Any]:
    """What became of an operation: status (right, wrong, unsupported, error) and detail."""
    try:
        model = suite.build(name)
        arrays, expected = model.arrays(), suite.reference(model)
        executable = shlo.compile(suite.export(model), target=target, options=shlo.Options(threads=1, cache_dir=None))
        first, again = ([np.array(result) for result in executable(*arrays)] for _ in range(2))
    except shlo.UnsupportedError as error:
        return {"status": "unsupported", "detail": "; ".join(problem.reason for problem in error.problems)}
    except Exception as error:  # any failure of a compiler under test is a result
        return {"status": "error", "detail": f"{type(error).__name__}: {error}"}
    if any(a.tobytes() != b.tobytes() for a, b in zip(first, again, strict=True)):
        return {"status": "wrong", "detail": "other bits in a second call"}
    difference = max((suite.largest_difference(a, b) for a, b in zip(first, expected, strict=True)), default=0.0)
    right = difference <= model.tolerance
    return {"status": "right" if right else "wrong", "detail": f"{difference:.2g} of {model.tolerance:.2g}"}


if __name__ == "__main__":
    sys.exit(main())
