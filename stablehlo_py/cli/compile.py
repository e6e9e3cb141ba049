"""`shlo-compile`: a StableHLO module to an executable artifact that loads again without compiling, or to a library for
programs without Python."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from stablehlo_py.cli.common import (
    EXIT_STATUS_HELP,
    TARGET_OPTIONS,
    add_options,
    options_of,
    read_input,
    run_tool,
    shown_progress,
)
from stablehlo_py.errors import EXIT_OK, OptionError, shown
from stablehlo_py.options import Options

if TYPE_CHECKING:
    from stablehlo_py.aot import Build


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="shlo-compile",
        description="Compile a StableHLO module (portable artifact, jax.export file, MLIR bytecode or text) to an "
        "executable artifact. Load it with stablehlo_py.load_executable(PATH), or run it with shlo-run PATH. With "
        "--emit it becomes a library and a C header, which need no Python and no runtime.",
        epilog=EXIT_STATUS_HELP,
    )
    add_options(parser, "module")
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="where to write the artifact (default: MODULE with .shloexe); of a library, its folder and the model's "
        "name: out/libmlp makes out/libmlp.a and out/mlp.h",
    )
    add_options(parser, *TARGET_OPTIONS, "--entry", "--replicas", "--partitions")
    parser.add_argument("--threads", metavar="N", help=_THREADS)
    add_options(parser, "--opt-level", "--disable", "--graphs", "--isolate")
    parser.add_argument(
        "--cache-dir",
        metavar="DIR",
        help="directory of compiled programs to reuse; 'default': this user's cache directory",
    )
    parser.add_argument("--dump-stages", metavar="DIR", help="write the text of every stage into DIR")
    parser.add_argument("--quiet", action="store_true", help="print nothing on success")
    _add_library_options(parser.add_argument_group("libraries (docs/aot.md)"))
    return parser


_THREADS = (
    "threads that a call may use (default: all CPUs); of a library: off (default), own or callback, and how many at "
    "most, as own:4 (default: 8)"
)


def _add_library_options(group: argparse._ArgumentGroup) -> None:
    """Those of --emit. Choices are checked by what they are passed to."""
    group.add_argument(
        "--emit", metavar="KIND", help="write a library: object, static, shared, or c for source code in C99"
    )
    group.add_argument("--name", help="the model's name, which its symbols begin with (default: that of the output)")
    group.add_argument(
        "--target-triple",
        metavar="TRIPLE",
        help="system and object format, as LLVM writes them (default: the usual one of --cpu)",
    )
    group.add_argument(
        "--constants", metavar="WHERE", help="embed (default), or file: in NAME.safetensors, which the caller maps"
    )
    group.add_argument(
        "--bindings",
        metavar="LANG,...",
        default="",
        help="also c++, rust, python, go, cmake, pkg-config (default: none)",
    )
    group.add_argument(
        "--emit-test",
        action="store_true",
        help="also NAME_test.c, a program with random inputs and what this machine's results for them are",
    )
    group.add_argument("--size-report", action="store_true", help="say what takes space")


def _run(arguments: argparse.Namespace) -> int:
    return _run_artifact(arguments) if arguments.emit is None else _run_library(arguments)


def _run_artifact(arguments: argparse.Namespace) -> int:
    from stablehlo_py.api import compile_program
    from stablehlo_py.runtime import artifact

    _refuse_library_options(arguments)
    arguments.threads = _count(arguments.threads)
    content = read_input(arguments.module)
    options = _options(arguments)
    source: str | bytes = content if arguments.module == "-" else arguments.module
    with shown_progress(arguments.quiet):
        program = compile_program(source, arguments.target, arguments.entry, options, keep_stages=True)
    output = _output(arguments)
    digest = artifact.save(program, output)
    if not arguments.quiet:
        print(program.report)
        print(f"wrote {output} ({output.stat().st_size / 1024:.0f} KiB)")
        print(f"SHA-256: {digest}")
    return EXIT_OK


def _options(arguments: argparse.Namespace) -> Options:
    cache = {"cache_dir": arguments.cache_dir} if arguments.cache_dir else {}
    return options_of(arguments, dump_dir=arguments.dump_stages, **cache)


def _run_library(arguments: argparse.Namespace) -> int:
    from stablehlo_py import aot

    folder, name = _place(arguments)
    threads, _, most = (arguments.threads or "off").partition(":")
    if threads.isdecimal():
        reason = f"--threads {threads} does not say whose threads a library uses"
        raise OptionError(reason, remedy=f"write --threads own:{threads} or callback:{threads}, or leave it out")
    arguments.threads = _count(most or None)
    content = read_input(arguments.module)
    cpus = tuple(filter(None, (arguments.cpu or "").split(",")))
    if len(cpus) > 1:
        arguments.cpu = None
    given = {"triple": arguments.target_triple, "constants": arguments.constants}
    bindings = tuple(each.strip() for each in arguments.bindings.split(",") if each.strip())
    with shown_progress(arguments.quiet):
        build = aot.compile(
            content if arguments.module == "-" else arguments.module,
            name,
            emit=arguments.emit,
            target=arguments.target,
            threads=threads,
            cpus=cpus if len(cpus) > 1 else (),
            bindings=bindings,
            entry=arguments.entry,
            options=_options(arguments),
            **{option: value for option, value in given.items() if value is not None},
        )
        if arguments.emit_test:
            build = _with_test(build, arguments, content)
    written = build.write(folder)
    if arguments.size_report:
        print(build.size_report)
    if not arguments.quiet:
        for path in written:
            print(f"wrote {path} ({path.stat().st_size / 1024:.0f} KiB)")
        print(f"link with: {' '.join(build.links)}")
    return EXIT_OK


def _with_test(build: Build, arguments: argparse.Namespace, content: bytes) -> Build:
    """The library with a test: random inputs, and what this machine computes of them."""
    from stablehlo_py.api import compile
    from stablehlo_py.debug.inputs import random_inputs

    specs = build.library.program.inputs
    shapes = [tuple(_OPEN_SIZE if size is None else size for size in spec.shape) for spec in specs]
    inputs = random_inputs(content, [spec.dtype for spec in specs], shapes, arguments.entry, 0)
    options = Options(isolate=arguments.isolate, opt_level=arguments.opt_level, cpu=_runnable(arguments.cpu))
    executable = compile(content, entry=arguments.entry, options=options)
    return build.with_test(inputs, list(executable(*inputs)))


def _runnable(cpu: str | None) -> str | None:
    """The CPU description, where this machine has what it asks for: then results have the same bits."""
    from stablehlo_py.backends.cpu.features import missing_features
    from stablehlo_py.backends.cpu.target import host_target, named_target, required_features, runs_here

    target = named_target(cpu, host_target())
    return cpu if runs_here(target) and not missing_features(required_features(target)) else None


_OPEN_SIZE = 4  # of symbolic dimensions in a test


def _place(arguments: argparse.Namespace) -> tuple[Path, str]:
    """The folder of a library, and the name of the model."""
    from stablehlo_py.aot.names import name_of_file

    if arguments.output is None and arguments.module == "-":
        raise OptionError("there is no name for the library", remedy="pass --output when the module comes from stdin")
    path = Path(arguments.output if arguments.output is not None else Path(arguments.module).stem)
    return path.parent, arguments.name or name_of_file(path.stem if path.suffix in _SUFFIXES else path.name)


_SUFFIXES = (".o", ".a", ".so", ".c", ".wasm", ".lib")


def _count(threads: str | None) -> int | None:
    if threads is None:
        return None
    if not threads.isdecimal():
        raise OptionError(f"--threads is {shown(threads)}", remedy="pass a number; with --emit, off, own or callback")
    return int(threads)


def _refuse_library_options(arguments: argparse.Namespace) -> None:
    given = [
        f"--{name.replace('_', '-')}"
        for name in ("name", "target_triple", "constants", "bindings", "emit_test", "size_report")
        if getattr(arguments, name)
    ]
    if given:
        raise OptionError(f"{', '.join(given)} is for libraries", remedy="pass --emit object, static, shared or c too")


def _output(arguments: argparse.Namespace) -> Path:
    if arguments.output:
        return Path(arguments.output)
    if arguments.module == "-":
        raise OptionError("there is no name for the artifact", remedy="pass --output when the module comes from stdin")
    return Path(arguments.module).with_suffix(".shloexe")


main = partial(run_tool, _parser, _run)


if __name__ == "__main__":
    sys.exit(main())
