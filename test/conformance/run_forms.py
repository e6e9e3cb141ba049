"""Try valid programs of every op with one to three things changed: `python test/conformance/run_forms.py [options]`.

Types, shapes, attributes, operands, results, regions and names of ops change, of the programs of form_cases.py. The
compiler as users have it must refuse the program with a ShloError that is no InternalError, or compile it; then a call
with random arguments must give results, or such an error. With a journal (docs/fuzzing.md) a campaign goes on where
the last one ended.
"""

from __future__ import annotations

import argparse
import resource
import sys
from pathlib import Path

if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

from form_cases import VERSION, Forms

from stablehlo_py.cli.fuzz import campaign
from stablehlo_py.debug.hostile import HANG_S, HostileFuzzer
from stablehlo_py.debug.journal import Journal
from stablehlo_py.debug.workers import Worker

KIND = "forms"
MEMORY = 6 << 30  # of a child's address space


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--seed", type=int, help="the first program (default: 0, or where the journal ends)")
    add("--count", type=int, help="programs to run (default: 1000, without limit with --seconds)")
    add("--seconds", type=float, help="stop after this time")
    add("--journal", type=Path, help="record of the campaign, read and continued")
    add("--findings", type=Path, help="a folder for the programs of findings")
    add("--print", dest="show", action="store_true", help="print every program and what became of it")
    options = parser.parse_args(argv)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))  # children inherit it
    forms = Forms()
    with Worker("caller", HANG_S) as worker:
        fuzzer = HostileFuzzer(forms, KIND, worker, options.findings)
        journal = Journal(options.journal, VERSION)
        return campaign(options, fuzzer.run, journal, lambda seed: forms.damaged(KIND, seed).decode())


if __name__ == "__main__":
    sys.exit(main())
