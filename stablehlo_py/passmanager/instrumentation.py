"""What can be watched while a pipeline runs: the module around passes, times, validity; and a report on failure."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from stablehlo_py.boundary import as_shlo_error, is_expected, is_unreadable
from stablehlo_py.errors import InternalError
from stablehlo_py.files import writable_directory, write_whole
from stablehlo_py.interrupts import checkpoint
from stablehlo_py.mlir import MLIRError, bytecode, ir
from stablehlo_py.passmanager.registry import loaded_files
from stablehlo_py.passmanager.timing import BETWEEN, Laps


class _Every(frozenset[str]):
    """The set of all pass names."""

    def __contains__(self, name: object) -> bool:
        return True

    def __bool__(self) -> bool:
        return True


EVERY_PASS: Collection[str] = _Every()


@dataclass
class Instrumentation:
    """Hooks around every pass of the pipelines that run with it. One instance may serve several pipelines: numbers
    and times go on.

    `print_before` and `print_after` hold pass names or are `EVERY_PASS`. `dump_dir` receives a numbered file per
    pass. With `keep_input` the module before each pass is kept (as bytecode, 0.2 us per op), so that a failure can be
    reported with it. `printer` turns a module into text. `source` is the input's name for the command that reproduces
    a failure.
    """

    print_before: Collection[str] = ()
    print_after: Collection[str] = ()
    print_after_change: bool = False
    verify_each: bool = False
    timing: Laps | None = None
    dump_dir: Path | None = None
    keep_input: bool = True
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    printer: Callable[[ir.Module], str] = str
    source: str | None = None
    seen: set[str] = field(default_factory=set)
    _files: int = 0

    @property
    def per_pass(self) -> bool:
        """True when something happens between two passes, so that none may be run together with another."""
        return bool(
            self.print_before
            or self.print_after
            or self.print_after_change
            or self.verify_each
            or self.timing is not None
            or self.dump_dir
            or self.keep_input
        )

    def around(
        self,
        run: Callable[[], None],
        label: str,
        text: Callable[[], str],
        pipeline: Callable[[], str],
        module: ir.Module,
    ) -> None:
        """Run one pass: `label` names it, `text` gives it in pipeline syntax, `pipeline` the pipeline up to and
        including it.

        ShloError passes through; memory and stack that ran out, and names that are no text, are errors of their own
        (boundary.py); any other exception becomes an InternalError with the report, chained.
        """
        checkpoint()
        self.seen.add(label)
        if label in self.print_before:
            self._print("before", label, module)
        kept = bytecode(module) if self.keep_input else None
        before = self.printer(module) if self.print_after_change else None
        if self.timing is not None:
            self.timing.lap(BETWEEN)
        try:
            run()
        except Exception as error:
            if is_expected(error):
                raise
            if isinstance(error, (MemoryError, RecursionError)) or is_unreadable(error):
                raise as_shlo_error(error, f"pass '{label}' failed") from error
            raise self._report(
                f"pass '{label}' failed: {_first_line(error)}", text(), pipeline(), kept, module
            ) from error
        if self.timing is not None:
            self.timing.lap(label)
        if label in self.print_after or (before is not None and before != self.printer(module)):
            self._print("after", label, module)
        if self.verify_each:
            self._verify(label, text(), pipeline(), kept, module)
        if self.dump_dir is not None:
            self.dump(label, self.printer(module))

    def dump(self, label: str, text: str, suffix: str = "mlir") -> Path:
        """Write `text` to the next numbered file of `dump_dir`. Raises ResourceError."""
        assert self.dump_dir is not None
        safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in label)[:60]
        path = writable_directory(self.dump_dir, "dump") / f"{self._files:02d}-{safe}.{suffix}"
        self._files += 1
        write_whole(path, text)
        return path

    def _print(self, when: str, label: str, module: ir.Module) -> None:
        self.stream.write(f"// -----// IR {when} {label} //----- //\n{self.printer(module).rstrip()}\n\n")

    def _verify(self, label: str, text: str, pipeline: str, kept: bytes | None, module: ir.Module) -> None:
        try:
            module.operation.verify()
        except MLIRError as error:
            reason = f"pass '{label}' left a module that does not verify: {_first_line(error)}"
            raise self._report(reason, text, pipeline, kept, module) from error

    def _report(self, reason: str, text: str, pipeline: str, kept: bytes | None, module: ir.Module) -> InternalError:
        """The error for a failed pass, with what reproduces it."""
        remedy = [f"pipeline: {pipeline}"]
        if self.dump_dir is not None and kept is not None:
            before = self.printer(ir.Module.parse(kept, context=module.context))
            path = self.dump(f"before-{text.partition('{')[0]}", before)
            remedy += [f"module before the pass: {path}", f"reproduce: {_command(text, str(path))}"]
        else:
            remedy.append(f"reproduce: {_command(pipeline, self.source or 'INPUT')}")
            remedy.append("--dump-stages DIR writes the module before the pass")
        return InternalError(reason, remedy="\n        ".join(remedy))


def _command(pipeline: str, path: str) -> str:
    files = "".join(f"--load-pass {shlex.quote(str(file))} " for file in loaded_files())
    return f"shlo-opt {files}--pass-pipeline={shlex.quote(pipeline)} {shlex.quote(path)}"


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # An MLIRError starts with a title ("Failure while executing pass pipeline:"); the diagnostic follows.
    message = lines[1] if isinstance(error, MLIRError) and len(lines) > 1 else lines[0] if lines else ""
    return message if isinstance(error, MLIRError) else f"{type(error).__name__}: {message}"
