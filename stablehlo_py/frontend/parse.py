"""From the bytes of a source to a verified StableHLO module, with every diagnostic as a Problem at the user's line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from stablehlo_py.boundary import UNREADABLE, is_unreadable
from stablehlo_py.dialect.locations import describe
from stablehlo_py.errors import LoadError, Problem, VersionError
from stablehlo_py.frontend.nesting import check_text
from stablehlo_py.frontend.source import Format, Source
from stablehlo_py.frontend.text import parse_text
from stablehlo_py.mlir import Diagnostic, MLIRError, diagnostics, errors_of, ir, stablehlo

_OP = re.compile(r"'([a-z_]\w*(?:\.\w+)+)' op (.+)", re.DOTALL)
_OP_NAME = re.compile(r'"?((?:stablehlo|chlo)\.[a-z_0-9-]+)')
_NO_RESULT_TYPES = "failed to infer returned types"
_PLACEHOLDER = re.compile(r'"-":(\d+):(\d+)')
_OTHER_DIALECT = re.compile(
    r"Dialect `([^']+)' not found|dialect '([^']+)' is unknown|#\"(\w+)\"<.*unregistered dialect", re.DOTALL
)
_TOO_SHORT = re.compile(r"attempting to (parse|skip) .*(remain|at the end of the bytecode)")
_DAMAGED = "the file was cut off or damaged: export or copy it again"
_OTHER_MLIR = f"{_DAMAGED}; if another version of MLIR wrote it, write a portable artifact, which every version reads"


def parse(source: Source, context: ir.Context) -> ir.Module:
    """Parse and verify `source` in `context`; Shardy's annotations are set aside (see `shardy`).

    Raises VersionError for a portable artifact of a version outside the supported range, LoadError for anything else
    that cannot be read, UnsupportedError for computations on shards with a sharding that is not known.
    """
    check_version(source)
    check_text(source)
    with readable_names(source):
        return _parse(source, context)


@contextmanager
def readable_names(source: Source) -> Iterator[None]:
    """Names in damaged files that are no text are errors of the source."""
    try:
        yield
    except (UnicodeError, RuntimeError) as error:
        if not is_unreadable(error):
            raise
        raise LoadError(UNREADABLE, location=source.name, remedy=_DAMAGED) from error


def _parse(source: Source, context: ir.Context) -> ir.Module:
    try:
        return _parse_plainly(source, context)
    except LoadError as error:
        # This copy of MLIR has no Shardy dialect; jaxlib's has. And bytecode of one MLIR is not always bytecode of
        # another. Few modules need this: it is not imported for the others.
        from stablehlo_py.frontend import shardy

        if b"sdy" not in source.data and (source.format is not Format.BYTECODE or not shardy.can_strip()):
            raise
        refused = error
    try:
        stripped, annotations = shardy.strip(source)
    except LoadError:
        if b"sdy" in source.data:
            raise
        raise refused from None
    module = _parse_plainly(stripped, context)
    if annotations:
        shardy.attach(module, annotations)
    return module


def check_version(source: Source) -> None:
    """Raise VersionError when a portable artifact is newer or older than what this StableHLO reads."""
    if source.version is None:
        return
    version = ".".join(map(str, source.version))
    newest, oldest = stablehlo.get_current_version(), stablehlo.get_minimum_version()
    if source.version > _numbers(newest):
        raise VersionError(
            f"the artifact is for StableHLO {version}, this compiler reads up to {newest}",
            location=source.name,
            remedy=f"upgrade stablehlo-py and torch-mlir, or write the artifact for StableHLO {newest} or older "
            "(the target version of serialize_portable_artifact)",
        )
    if source.version < _numbers(oldest):
        raise VersionError(
            f"the artifact is for StableHLO {version}, this compiler reads {oldest} and newer",
            location=source.name,
            remedy="export the model again with a current framework",
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _parse_plainly(source: Source, context: ir.Context) -> ir.Module:
    with diagnostics(context) as collected:
        try:
            if source.format is not Format.TEXT:
                # Reads plain bytecode too, and upgrades VHLO in either.
                return stablehlo.deserialize_portable_artifact(context, source.data)
            return parse_text(ir, source.data.decode(), source.name, context)
        except (MLIRError, ValueError) as error:
            unexplained = Diagnostic(ir.DiagnosticSeverity.ERROR, str(error), ir.Location.unknown(context))
            raise load_error(source, errors_of(error, collected) or [unexplained]) from None


def parse_again(source: Source, bytecode: bytes, context: ir.Context) -> ir.Module:
    """The module that was in `source`, from bytecode that MLIR wrote of it. MLIR writes some of what it does not read,
    as types of impossible sizes: raises LoadError."""
    with diagnostics(context) as collected:
        try:
            return ir.Module.parse(bytecode, context)
        except MLIRError as error:
            raise load_error(source, errors_of(error, collected)) from None


def load_error(source: Source, found: Iterable[Any]) -> LoadError:
    """A LoadError with one Problem per diagnostic; `found` are error diagnostics of any copy of MLIR's bindings."""
    # This one only says that there was another.
    findings = [each for each in found if not each.message.startswith("failed to deserialize portable artifact")]
    problems = _named(source, [_problem(source, each) for each in findings])
    problems = problems or [Problem("the content is damaged", source.name)]
    return LoadError(f"{source.name} is not a valid StableHLO module", problems=problems)


def _named(source: Source, problems: Sequence[Problem]) -> list[Problem]:
    """Upstream's shape functions say what is wrong, but not of which op: a second error at the same place names it, or
    the text does."""
    named: list[Problem] = []
    for problem in problems:
        if problem.reason == _NO_RESULT_TYPES and named and named[-1].location == problem.location:
            named[-1] = replace(named[-1], op=named[-1].op or problem.op)
        else:
            named.append(problem if problem.op else replace(problem, op=_op_at(source, problem.location)))
    return named


def _op_at(source: Source, location: str | None) -> str | None:
    """The op whose name stands at a place in the text."""
    place = re.fullmatch(re.escape(source.name) + r":(\d+):(\d+)", location or "")
    if source.format is not Format.TEXT or not place:
        return None
    lines = source.data.decode(errors="replace").splitlines()
    line, column = int(place[1]) - 1, int(place[2]) - 1
    found = _OP_NAME.match(lines[line], column) if line < len(lines) else None
    return found[1] if found else None


def _problem(source: Source, diagnostic: Any) -> Problem:
    message = diagnostic.message.strip()
    named = _OP.match(message)
    reason, op = (named[2], named[1]) if named else (message, None)
    if source.format is not Format.TEXT and not named and not _OTHER_DIALECT.search(message):
        early = _TOO_SHORT.match(message)
        reason = f"the {source.format.value} {'ends too early' if early else 'is damaged'}: {message}"
    return Problem(reason, _location(source, diagnostic.location), op, _remedy(source, message))


def _location(source: Source, location: Any) -> str:
    placeholder = _PLACEHOLDER.search(str(location))
    if placeholder and source.format is Format.TEXT:
        return f"{source.name}:{placeholder[1]}:{placeholder[2]}"
    return describe(location) or source.name


def _remedy(source: Source, message: str) -> str | None:
    foreign = _OTHER_DIALECT.search(message)
    if foreign:
        name = next(filter(None, foreign.groups()))
        return f"lower '{name}' to StableHLO before loading: modules may hold stablehlo, chlo and func ops"
    if source.format is Format.ARTIFACT:
        return _DAMAGED
    if source.format is Format.BYTECODE:
        return _OTHER_MLIR
    if message.startswith("custom op"):
        return "StableHLO text starts with 'module' or 'func.func', and op names with 'stablehlo.'"
    return None
