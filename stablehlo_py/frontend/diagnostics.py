"""MLIR's diagnostics about a source, as Problems at the user's line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from stablehlo_py.dialect.locations import describe
from stablehlo_py.errors import LoadError, Problem
from stablehlo_py.frontend.source import DAMAGED, Format, Source

_OP = re.compile(r"'([a-z_]\w*(?:\.\w+)+)' op (.+)", re.DOTALL)
_OP_NAME = re.compile(r'"?((?:stablehlo|chlo)\.[a-z_0-9-]+)')
_NO_RESULT_TYPES = "failed to infer returned types"
_PLACEHOLDER = re.compile(r'"-":(\d+):(\d+)')
_OTHER_DIALECT = re.compile(
    r"Dialect `([^']+)' not found|dialect '([^']+)' is unknown|#\"(\w+)\"<.*unregistered dialect", re.DOTALL
)
_TOO_SHORT = re.compile(r"attempting to (parse|skip) .*(remain|at the end of the bytecode)")
_OTHER_MLIR = f"{DAMAGED}; if another version of MLIR wrote it, write a portable artifact, which every version reads"


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
        return DAMAGED
    if source.format is Format.BYTECODE:
        return _OTHER_MLIR
    if message.startswith("custom op"):
        return "StableHLO text starts with 'module' or 'func.func', and op names with 'stablehlo.'"
    return None
