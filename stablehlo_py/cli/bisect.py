"""`shlo-bisect`: which stage, pass, rule or kernel changes a model's answer."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from stablehlo_py.cli import debugging
from stablehlo_py.cli.common import EXIT_STATUS_HELP, add_options, run_tool, status_line
from stablehlo_py.errors import EXIT_MISMATCH, EXIT_OK

if TYPE_CHECKING:
    from stablehlo_py.debug.bisect import Blame
    from stablehlo_py.debug.sensitivity import Verdict

_DESCRIPTION = """Find which stage, pass, rewrite rule or kernel makes a model's answer differ from an oracle's.

A difference that rounding explains is none: the model is run with errors of the size of rounding, and the answer may
differ as far as these move it. What is left is tracked down: stages are evaluated in NumPy, kernels are run by
themselves, and the model is compiled with passes and rules left out, until the smallest set is found without which the
answer is right. A crash of the compiler, or of its code, counts as a wrong answer."""

_EPILOG = f"""examples:
  shlo-bisect model.mlir                          random inputs
  shlo-bisect model.bin --input x.npy --oracle jax
  shlo-bisect small.mlir --oracle opt0            against this compiler without optimization

A large model goes faster when shlo-reduce has reduced it first. docs/wrong-answers.md walks the whole way.

{EXIT_STATUS_HELP} (1: the answer is wrong, and what is to blame was printed)"""


def build_parser() -> argparse.ArgumentParser:
    """The command line of `shlo-bisect`."""
    parser = debugging.tool_parser("shlo-bisect", _DESCRIPTION, _EPILOG)
    add_options(parser, "module")
    debugging.add_case_options(parser)
    debugging.add_oracle_options(parser, None)
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from stablehlo_py.debug.bisect import bisect
    from stablehlo_py.debug.oracles import PATIENCE_S, Choice, choose
    from stablehlo_py.debug.workers import Workers

    source, inputs = debugging.read_case(arguments)
    choice = choose(source, inputs, arguments.entry) if arguments.oracle is None else Choice((arguments.oracle,))
    with status_line("bisecting") as show, Workers(arguments.timeout) as workers:
        if arguments.oracle is None:
            workers["reference"].timeout_s = min(arguments.timeout, 3 * PATIENCE_S)  # others can be asked
        blame = bisect(
            workers,
            source,
            inputs,
            choice.names,
            debugging.settings(arguments),
            arguments.tolerance,
            show,
        )
    _print(blame)
    return EXIT_MISMATCH if blame.found else EXIT_OK


def _print(blame: Blame) -> None:
    oracle = blame.oracle
    print(blame.failure or "\n".join(_words(each, oracle) for each in blame.verdicts if each.difference), end="")
    if blame.failure or any(each.difference for each in blame.verdicts):
        print()
    if not blame.found:
        explained = any(each.difference for each in blame.verdicts)
        print(f"nothing to blame: {'rounding explains it' if explained else f'the answer is that of {oracle}'}")
        return
    for stage, verdict in blame.stages.items():
        print(f"{'' if stage == 'opt0' else 'stage '}{stage}: {verdict}")
    if blame.oracle_alone:
        print(f"to blame: the oracle: {blame.oracle_alone} gives what we give, {oracle} disagrees with both")
    elif blame.stage == "hlo":
        print("to blame: legalization (stage hlo), or the evaluation of hlo in NumPy if the optimized code is right")
    elif blame.kernels:
        _print_kernels(blame)
    elif blame.disable:
        rules = f"{_list('rule', blame.rules)} of " if blame.rules else ""
        passes = [f"{rules}{_list('pass', blame.passes)}"] if blame.passes else []
        parts = [f"part {part} of pass {owner}" for part, owner in blame.parts]
        print(f"to blame: {' and '.join(passes + parts)} (stage {blame.stage})")
        print(f"  the answer is right with disable={blame.disable!r}")
    else:
        print("to blame: code generation: the answer is wrong without any pass that can be left out, every kernel that")
        print("  NumPy can evaluate is right by itself: it is the program around them, or one of the others")


def _words(verdict: Verdict, oracle: str) -> str:
    words = {"within rounding": " (within rounding)", "cannot tell": " (ill-conditioned: cannot tell)"}
    return f"ours and {oracle}: {verdict}{words.get(verdict.status, '')}"


def _print_kernels(blame: Blame) -> None:
    """The kernels that are wrong by themselves, and what of them is by itself."""
    for each in blame.kernels:
        ops, where = ", ".join(op.partition(".")[2] for op in each.ops), f", from {', '.join(each.lines[:3])}"
        print(
            f"to blame: code generation, the kernel of @{each.name} ({each.kind}: {ops}){where if each.lines else ''}"
        )
        print(f"  by itself: {each.finding}")
    kinds = ", ".join(dict.fromkeys(each.kind for each in blame.kernels))
    alone = dict.fromkeys((op.partition(".")[2], each.kind) for each in blame.ops for op in each.ops)
    if alone:
        print(f"  wrong as an op of its own, too: {', '.join(f'{op} (kernel {kind})' for op, kind in alone)}")
    else:
        print(f"  each op is right as a fusion of its own: what puts them together is wrong, the template of {kinds}")


def _list(kind: str, names: Sequence[str]) -> str:
    plural = {"rule": "rules", "pass": "passes"}[kind] if len(names) > 1 else kind
    return f"{plural} {', '.join(names)}"


main = partial(run_tool, build_parser, _run)


if __name__ == "__main__":
    sys.exit(main())
