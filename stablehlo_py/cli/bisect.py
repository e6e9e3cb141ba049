"""`shlo-bisect`: which stage, pass and rule changes a model's answer."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stablehlo_py.cli import debugging
from stablehlo_py.cli.common import EXIT_STATUS_HELP, run_tool, status_line
from stablehlo_py.errors import EXIT_MISMATCH, EXIT_OK

if TYPE_CHECKING:
    from stablehlo_py.debug.bisect import Blame

_DESCRIPTION = """Find which stage, pass and rewrite rule makes a model's answer differ from an oracle's.

The model is compiled and run again and again, in child processes, with passes and rules left out, until the smallest
set is found without which the answer is right. A crash of the compiler, or of its code, counts as a wrong answer."""

_EPILOG = f"""examples:
  shlo-bisect model.mlir                          random inputs, against StableHLO's interpreter
  shlo-bisect model.bin --input x.npy --oracle jax
  shlo-bisect small.mlir --oracle opt0            against this compiler without optimization

A large model goes faster when shlo-reduce has made it small first. docs/wrong-answers.md walks the whole way.

{EXIT_STATUS_HELP} (1: the answer is wrong, and what is to blame was printed)"""


def build_parser() -> argparse.ArgumentParser:
    """The command line of `shlo-bisect`."""
    parser = debugging.tool_parser("shlo-bisect", _DESCRIPTION, _EPILOG)
    parser.add_argument("module", help="the model's file, or - for standard input")
    debugging.add_case_options(parser)
    debugging.add_oracle_options(parser)
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from stablehlo_py.debug.bisect import bisect
    from stablehlo_py.debug.workers import Workers

    source, inputs = debugging.read_case(arguments)
    with status_line("bisecting") as show, Workers(arguments.timeout) as workers:
        blame = bisect(
            workers,
            source,
            inputs,
            arguments.oracle,
            debugging.settings(arguments),
            arguments.tolerance,
            show,
        )
    _print(blame, arguments.oracle)
    return EXIT_MISMATCH if blame.found else EXIT_OK


def _print(blame: Blame, oracle: str) -> None:
    if not blame.found:
        print(f"no difference: the answer is that of {oracle}")
        return
    print(blame.failure or "\n".join(f"ours and {oracle}: {each}" for each in blame.differences))
    for stage, verdict in blame.stages.items():
        print(f"stage {stage}: {verdict}")
    if blame.rules:
        print(f"to blame: {_list('rule', blame.rules)} of {_list('pass', blame.passes)} (stage {blame.stage})")
        print(f"  the answer is right with disable={blame.rules!r}")
    elif blame.passes:
        print(f"to blame: {_list('pass', blame.passes)} (stage {blame.stage})")
        print(f"  the answer is right with disable={blame.passes!r}")
    elif blame.stage == "hlo":
        print("to blame: legalization (stage hlo), or the evaluation of hlo in NumPy if the optimized code is right")
    else:
        print("to blame: code generation: the answer is wrong without any pass that can be left out")


def _list(kind: str, names: Sequence[str]) -> str:
    plural = {"rule": "rules", "pass": "passes"}[kind] if len(names) > 1 else kind
    return f"{plural} {', '.join(names)}"


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `shlo-bisect`."""
    return run_tool(build_parser(), _run, argv)


if __name__ == "__main__":
    sys.exit(main())
