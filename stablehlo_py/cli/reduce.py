"""`shlo-reduce`: the smallest module that still shows what is wrong."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from stablehlo_py.cli import debugging
from stablehlo_py.cli.common import EXIT_STATUS_HELP, add_options, run_tool, status_line, write_output
from stablehlo_py.errors import EXIT_OK, OptionError

if TYPE_CHECKING:
    from stablehlo_py.debug.edits import Case
    from stablehlo_py.debug.reduce import Shows
    from stablehlo_py.debug.settings import Settings
    from stablehlo_py.debug.workers import Workers

_DESCRIPTION = """Reduce a module to the smallest one that still shows what is wrong: MLIR in, MLIR out.

What must be kept is found out first: a crash of the compiler or of its code, an error, or an answer that differs from
the oracle's. Results, ops, regions, sizes and the variety of the inputs are then taken away, as long as it is shown.
The inputs of the reduced module are written next to it (OUTPUT with .npz in place of .mlir)."""

_EPILOG = f"""examples:
  shlo-reduce model.mlir -o small.mlir                   an answer that is not StableHLO's interpreter's
  shlo-reduce model.bin --oracle jax --input x.npy -o small.mlir
  shlo-reduce model.mlir --error 'dot' -o small.mlir     an error whose message holds 'dot'
  shlo-reduce model.mlir --script ./is-bad.sh -o small.mlir

A script gets the paths of a module and of its inputs (.npz), and ends with status 0 where it shows what you look for.

{EXIT_STATUS_HELP}"""


def build_parser() -> argparse.ArgumentParser:
    """The command line of `shlo-reduce`."""
    parser = debugging.tool_parser("shlo-reduce", _DESCRIPTION, _EPILOG)
    add_options(parser, "module")
    parser.add_argument("-o", "--output", default="-", metavar="FILE.mlir", help="default: standard output")
    keep = parser.add_argument_group("what must be kept (default: what the module shows)")
    keep.add_argument("--error", metavar="TEXT", help="a failure of our compiler whose message holds TEXT")
    keep.add_argument("--script", metavar="COMMAND", help="whatever makes COMMAND end with status 0")
    budget = "seconds to spend; the best so far is then the answer (default: %(default)g)"
    parser.add_argument("--seconds", type=float, default=600.0, metavar="S", help=budget)
    constants = "write the inputs into the module, as constants"
    parser.add_argument("--constants", action="store_true", help=constants)
    debugging.add_case_options(parser)
    debugging.add_oracle_options(parser)
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from stablehlo_py.debug.edits import with_constant_inputs
    from stablehlo_py.debug.reduce import Reduction, case_of, save_inputs
    from stablehlo_py.debug.workers import Workers

    source, inputs = debugging.read_case(arguments)
    settings = debugging.settings(arguments)
    with status_line("reducing") as show, Workers(arguments.timeout) as workers:
        case = case_of(source, inputs, arguments.entry)
        before = case.ops
        shows = _interesting(arguments, workers, case, settings)
        reduction = Reduction(shows, workers, arguments.oracle, arguments.seconds, show)
        case = reduction.run(case)
    print(f"{before} ops became {case.ops}, in {reduction.questions} tries", file=sys.stderr)
    write_output(arguments.output, with_constant_inputs(case) if arguments.constants else case.module)
    if arguments.output != "-" and case.inputs and not arguments.constants:
        path = Path(arguments.output).with_suffix(".npz")
        save_inputs(path, case)
        print(f"its inputs: {path}", file=sys.stderr)
    return EXIT_OK


def _interesting(arguments: argparse.Namespace, workers: Workers, case: Case, settings: Settings) -> Shows:
    from stablehlo_py.debug.reduce import Failure, Script, what_is_wrong

    if arguments.error is None and arguments.script is None:
        return what_is_wrong(workers, case, arguments.oracle, settings, arguments.tolerance)
    shows: Shows = Script(arguments.script) if arguments.script else Failure(workers, None, arguments.error, settings)
    if not shows(case):
        wanted = f"{arguments.script} does not end with status 0" if arguments.script else "it does not fail like that"
        raise OptionError(f"there is nothing to reduce: {wanted}", remedy="check with the whole module first")
    return shows


main = partial(run_tool, build_parser, _run)


if __name__ == "__main__":
    sys.exit(main())
