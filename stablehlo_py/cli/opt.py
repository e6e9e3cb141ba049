"""`shlo-opt`: run passes or whole stages over a module and print what comes out. The guide is docs/shlo-opt.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from stablehlo_py.cli import common
from stablehlo_py.errors import EXIT_MISMATCH, EXIT_OK, OptionError, ShloError
from stablehlo_py.passmanager.timing import Laps, process_start

if TYPE_CHECKING:
    from stablehlo_py.backends.base import Backend
    from stablehlo_py.mlir import ir
    from stablehlo_py.passmanager.instrumentation import Instrumentation

_SEPARATOR = "// -----"
_EVERY = "*"
_WATCH = ("--print-ir-before", "--print-ir-after")
_EXAMPLES = f"""examples:
  shlo-opt model.mlir                                  parse, verify, print
  shlo-opt --compile-to=optimized model.mlir           the module after all target-independent passes
  shlo-opt --compile-to=fused --pretty model.mlirbc    what runs as one kernel, in a form for reading
  shlo-opt --pass-pipeline='builtin.module(inline,legalize-to-hlo,cse)' model.mlir
  shlo-opt --load-pass my_pass.py --pass-pipeline=my-pass model.mlir
  shlo-opt --compile-to=optimized --print-ir-after=peephole --timing model.mlir
  shlo-opt --compile-to=scheduled --dump-stages out/ model.mlir

{common.EXIT_STATUS_HELP}"""


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="shlo-opt",
        description="Run passes, or all passes up to a stage, over a module and print the result.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "input",
        nargs="?",
        default="-",
        help="MLIR text of any dialect that the compiler speaks, MLIR bytecode, a StableHLO portable artifact or a "
        "serialized jax.export; default: stdin",
    )
    parser.add_argument("-o", dest="output", default="-", metavar="FILE", help="where the result goes; default: stdout")
    _add_work(parser.add_argument_group("what to run (default: nothing; the module is parsed, verified and printed)"))
    _add_watching(parser.add_argument_group("what to watch (goes to stderr)"))
    _add_form(parser.add_argument_group("form of the output"))
    _add_testing(parser.add_argument_group("for tests"))
    return parser


def _add_work(group: argparse._ArgumentGroup) -> None:
    pipeline = "passes in MLIR's syntax: 'builtin.module(inline,fold{max-elements=64},...)'"
    group.add_argument("--pass-pipeline", metavar="PIPELINE", help=pipeline)
    group.add_argument(
        "--compile-to", metavar="STAGE", help="run the compiler up to a stage (see docs/architecture.md)"
    )
    group.add_argument("--compile-from", metavar="STAGE", default="", help="the stage that the input is at already")
    group.add_argument("--list-passes", action="store_true", help="list our passes with their options, and end")
    common.add_options(group, "--opt-level", help="of --compile-to; 0: only what lowering needs (default: 1)")
    common.add_options(group, "--disable", help="passes and rules that --compile-to leaves out")
    common.add_options(group, "--load-pass", *common.TARGET_OPTIONS)


def _add_watching(group: argparse._ArgumentGroup) -> None:
    for option, when in zip(_WATCH, ("before", "after"), strict=True):
        text = f"print the module {when} PASS (=PASS,...), or every pass"
        group.add_argument(option, metavar="PASS", action="append", default=[], help=text)
    change = "print the module after each pass that changed it"
    group.add_argument("--print-ir-after-change", action="store_true", help=change)
    dump = "write the module after every pass and stage to numbered files"
    group.add_argument("--dump-stages", metavar="DIR", help=dump)
    group.add_argument("--timing", action="store_true", help="print where the time went: each pass, and all the rest")
    verify = "verify after each pass (default: on)"
    group.add_argument("--verify-each", action=argparse.BooleanOptionalAction, default=True, help=verify)


def _add_form(group: argparse._ArgumentGroup) -> None:
    pretty = "a compact form for reading: '%%3 = add %%1, %%2 : f32[4,8]'"
    group.add_argument("--pretty", action="store_true", help=pretty)
    group.add_argument("--mlir-print-debuginfo", action="store_true", help="print source locations")
    elide = "cut constants of more than N elements (the result cannot be parsed)"
    group.add_argument("--elide", metavar="N", type=int, help=elide)
    group.add_argument("--emit-bytecode", action="store_true", help="write MLIR bytecode")


def _add_testing(group: argparse._ArgumentGroup) -> None:
    split = f"the input is several modules, between lines '{_SEPARATOR}'"
    group.add_argument("--split-input-file", action="store_true", help=split)
    verify = "check errors against comments: // expected-error@+1 {{part of the message}}"
    group.add_argument("--verify-diagnostics", action="store_true", help=verify)
    common.add_options(group, "--isolate")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    # Without "=PASS" these mean every pass; argparse would take the word that follows.
    laps = Laps(process_start() if argv is None else None)
    return common.run_tool(
        build_parser, partial(_run, laps), argv, lambda word: f"{word}={_EVERY}" if word in _WATCH else word
    )


def _run(laps: Laps, arguments: argparse.Namespace) -> int:
    _check(arguments)
    from stablehlo_py.passmanager import registry

    for path in arguments.load_pass:
        registry.load_pass_file(path)
    if arguments.list_passes:
        print(_pass_list())
        return EXIT_OK
    name = "<stdin>" if arguments.input == "-" else arguments.input
    data = common.read_input(arguments.input)
    pieces = _split(data) if arguments.split_input_file else [data]
    tool = _Tool(arguments, name, laps)
    outputs: list[str | bytes] = []
    failed = False
    for piece in pieces:
        if arguments.verify_diagnostics:
            report, output = tool.verify(piece)
            for line in report:
                print(line, file=sys.stderr)
            failed |= bool(report)
        else:
            output = tool.process(piece)
        if output is not None:
            outputs.append(output)
    common.write_output(arguments.output, _joined(outputs))
    tool.finish()
    return EXIT_MISMATCH if failed else EXIT_OK


def _check(arguments: argparse.Namespace) -> None:
    if arguments.pass_pipeline is not None and arguments.compile_to is not None:
        remedy = "run shlo-opt twice, the second time on the first's output"
        raise OptionError("--pass-pipeline and --compile-to are given", remedy=remedy)
    if arguments.compile_from and arguments.compile_to is None:
        raise OptionError("--compile-from needs --compile-to", remedy="add --compile-to=STAGE")
    if arguments.emit_bytecode and (arguments.pretty or arguments.split_input_file):
        remedy = "drop --pretty and --split-input-file"
        raise OptionError("--emit-bytecode writes one module in binary form", remedy=remedy)


def _pass_list() -> str:
    from stablehlo_py.passmanager import registry

    described = [registry.describe_pass(registry.get_pass(name)) for name in registry.list_passes()]
    tail = "MLIR's and StableHLO's own passes can be used too: --pass-pipeline='canonicalize,func.func(cse)'"
    return "\n\n".join([*described, tail])


def _split(data: bytes) -> list[bytes]:
    """The modules of a file, each behind as many empty lines as lines come before it: its locations are the file's."""
    pieces, lines_before = [], 0
    piece: list[bytes] = []
    for line in data.split(b"\n"):
        if line.strip() == _SEPARATOR.encode():
            pieces.append(b"\n" * lines_before + b"\n".join(piece))
            lines_before += len(piece) + 1
            piece = []
        else:
            piece.append(line)
    return [*pieces, b"\n" * lines_before + b"\n".join(piece)]


def _joined(outputs: Sequence[str | bytes]) -> str | bytes:
    if len(outputs) == 1 and isinstance(outputs[0], bytes):
        return outputs[0]
    return f"{_SEPARATOR}\n".join(each if isinstance(each, str) else each.decode() for each in outputs)


class _Tool:
    """What is done to each module, with the command line's options."""

    def __init__(self, arguments: argparse.Namespace, name: str, laps: Laps) -> None:
        self.arguments, self.name = arguments, name
        self.laps = laps
        self.options = common.options_of(arguments)
        self.stages = self._stages()
        self.instrumentation = self._instrumentation()
        if arguments.timing:
            self._import_passes()
            laps.lap("start and imports")

    def _import_passes(self) -> None:
        """What the first pass of each kind would import while it is timed."""
        from stablehlo_py.compiler import stage_pipeline
        from stablehlo_py.passmanager.pipeline import Pipeline

        Pipeline.parse(self.arguments.pass_pipeline or "")
        for stage in self.stages:
            if stage not in self.backend.stages:
                stage_pipeline(stage, self.options, self.backend)

    def _stages(self) -> list[str]:
        """What --compile-to leads through."""
        from stablehlo_py.compiler import stages_between

        start, stop = self.arguments.compile_from, self.arguments.compile_to
        return [] if stop is None else stages_between(start, stop, self.backend)

    @cached_property
    def backend(self) -> Backend:
        """The backend of --target."""
        from stablehlo_py.backends.base import get_backend

        return get_backend(self.arguments.target)

    def _instrumentation(self) -> Instrumentation:
        from stablehlo_py.passmanager.instrumentation import EVERY_PASS, Instrumentation

        def names(values: list[str]) -> frozenset[str]:
            listed = frozenset(name for value in values for name in value.split(","))
            return EVERY_PASS if _EVERY in listed else listed  # type: ignore[return-value]

        arguments = self.arguments
        return Instrumentation(
            print_before=names(arguments.print_ir_before),
            print_after=names(arguments.print_ir_after),
            print_after_change=arguments.print_ir_after_change,
            verify_each=arguments.verify_each,
            timing=self.laps if arguments.timing else None,
            dump_dir=Path(arguments.dump_stages) if arguments.dump_stages else None,
            printer=self.text,
            source=self.name,
        )

    def text(self, module: ir.Module) -> str:
        """The module in the form that the options ask for."""
        if self.arguments.pretty:
            from stablehlo_py.cli.pretty import pretty

            return pretty(module)
        limit = self.arguments.elide
        asm = module.operation.get_asm(
            enable_debug_info=self.arguments.mlir_print_debuginfo, large_elements_limit=limit
        )
        return asm if asm.endswith("\n") else asm + "\n"

    def process(self, data: bytes) -> str | bytes:
        """Parse, run, print. Raises ShloError."""
        from stablehlo_py.dialect.context import make_context
        from stablehlo_py.frontend.load import read_module
        from stablehlo_py.frontend.source import identify

        context = make_context()
        with context:
            module = read_module(identify(data, self.name), context, self.arguments.isolate)
            self.laps.lap("parse")
            if self.instrumentation.dump_dir is not None:
                self.instrumentation.dump("input", self.text(module))
            result: ir.Module | str = module
            if self.arguments.compile_to is not None:
                result = self._compile(module)
            elif self.arguments.pass_pipeline is not None:
                from stablehlo_py.passmanager.pipeline import Pipeline

                assert self.backend  # its own passes have names from here on
                Pipeline.parse(self.arguments.pass_pipeline).run(module, self.instrumentation)
            if isinstance(result, str):
                return result
            if self.arguments.emit_bytecode:
                from stablehlo_py.mlir import bytecode

                return bytecode(result)
            return self.text(result)

    def verify(self, data: bytes) -> tuple[list[str], str | bytes | None]:
        """`process` under --verify-diagnostics: what differs from the expectations, and the output if there is one."""
        from stablehlo_py.cli import expected

        wanted = expected.expectations(data.decode(errors="replace"))
        try:
            output, found = self.process(data), []
        except ShloError as error:
            output, found = None, expected.of_error(error, self.name)
        return expected.compare(wanted, found, self.name), output

    def _compile(self, module: ir.Module) -> ir.Module | str:
        """The module (or the text of a backend's stage) at --compile-to; every stage on the way goes to
        --dump-stages."""
        from stablehlo_py import compiler

        start, target = self.arguments.compile_from, self.arguments.target
        if not start:
            from stablehlo_py.dialect.census import Census
            from stablehlo_py.frontend.declared import check_declared, may_declare
            from stablehlo_py.frontend.entry import select_entry
            from stablehlo_py.frontend.gspmd import translate
            from stablehlo_py.frontend.shards import expand

            select_entry(module)
            translate(module, check_declared(module, Census.of(module, may_declare).ops))
            expand(module)
        result: ir.Module | str = module
        for stage in self.stages:
            with self._parts_of(stage):
                result = compiler.run_stages(
                    module, start, stage, self.options, instrumentation=self.instrumentation, target=target
                )
            start = stage
            if self.instrumentation.dump_dir is not None:
                text = result if isinstance(result, str) else self.text(result)
                self.instrumentation.dump(f"stage-{stage}", text, compiler.suffix_of(stage, self.backend))
        return result

    @contextmanager
    def _parts_of(self, stage: str) -> Iterator[None]:
        """A lap for each part that a backend announces on the way to one of its own stages."""
        from stablehlo_py import progress

        if stage not in self.backend.stages:
            yield
            return
        parts = ["codegen"]

        def at(what: str) -> None:
            if what.partition(" ")[0] != "kernels":
                self.laps.lap(parts[-1])
                parts.append(what)

        with progress.listening(at):
            yield
        self.laps.lap(parts[-1])

    def finish(self) -> None:
        """What is said after the last module."""
        instrumentation = self.instrumentation
        if self.arguments.timing:
            self.laps.lap("print and write")
            print(self.laps.report(), file=sys.stderr)
        for name in sorted({*instrumentation.print_before, *instrumentation.print_after} - instrumentation.seen):
            print(f"note: no pass '{name}' ran, so it printed nothing", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
