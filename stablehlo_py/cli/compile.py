"""`shlo-compile`: a StableHLO module to an executable artifact that loads again without compiling."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from stablehlo_py.cli.common import (
    EXIT_STATUS_HELP,
    TARGET_OPTIONS,
    add_options,
    options_of,
    read_input,
    run_tool,
    shown_progress,
)
from stablehlo_py.errors import EXIT_OK, OptionError


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="shlo-compile",
        description="Compile a StableHLO module (portable artifact, jax.export file, MLIR bytecode or text) to an "
        "executable artifact. Load it with stablehlo_py.load_executable(PATH), or run it with shlo-run PATH.",
        epilog=EXIT_STATUS_HELP,
    )
    add_options(parser, "module")
    parser.add_argument(
        "-o", "--output", metavar="PATH", help="where to write the artifact (default: MODULE with .shloexe)"
    )
    add_options(parser, *TARGET_OPTIONS, "--entry", "--threads", "--replicas", "--partitions")
    add_options(parser, "--opt-level", "--disable", "--graphs", "--isolate")
    parser.add_argument(
        "--cache-dir",
        metavar="DIR",
        help="directory of compiled programs to reuse; 'default': this user's cache directory",
    )
    parser.add_argument("--dump-stages", metavar="DIR", help="write the text of every stage into DIR")
    parser.add_argument("--quiet", action="store_true", help="print nothing on success")
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from stablehlo_py.api import compile_program
    from stablehlo_py.runtime import artifact

    content = read_input(arguments.module)
    cache = {"cache_dir": arguments.cache_dir} if arguments.cache_dir else {}
    options = options_of(arguments, dump_dir=arguments.dump_stages, **cache)
    source: str | bytes = content if arguments.module == "-" else arguments.module
    with shown_progress(arguments.quiet):
        program = compile_program(source, target=arguments.target, entry=arguments.entry, options=options)
    output = _output(arguments)
    digest = artifact.save(program, output)
    if not arguments.quiet:
        print(program.report)
        print(f"wrote {output} ({output.stat().st_size / 1024:.0f} KiB)")
        print(f"SHA-256: {digest}")
    return EXIT_OK


def _output(arguments: argparse.Namespace) -> Path:
    if arguments.output:
        return Path(arguments.output)
    if arguments.module == "-":
        raise OptionError("there is no name for the artifact", remedy="pass --output when the module comes from stdin")
    return Path(arguments.module).with_suffix(".shloexe")


main = partial(run_tool, _parser, _run)


if __name__ == "__main__":
    sys.exit(main())
