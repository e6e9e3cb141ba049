"""`--verify-diagnostics`: comments in the input say which errors must be reported, and where.

    // expected-error@+1 {{recursion cannot be inlined}}
    call @main() : () -> ()

The form is MLIR's: `expected-error`; then `@+N`, `@-N`, `@above`, `@below`, `@LINE`, `@unknown`, or nothing for the
same line; then a part of the message (code, op, reason and remedy) in double braces. The compiler reports errors only:
MLIR's `expected-warning`, `-remark` and `-note` are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stablehlo_py.errors import OptionError, ShloError

_EXPECTED = re.compile(r"expected-error(?:@(?P<where>[+-]?\d+|above|below|unknown))?\s*\{\{(?P<text>.*?)\}\}")
_LOCATION = re.compile(r"(.*):(\d+):\d+$", re.DOTALL)


@dataclass(frozen=True)
class Found:
    """One reported error; `line` is None when it is not in the input file."""

    line: int | None
    message: str


@dataclass(frozen=True)
class Expectation:
    """One `expected-error` comment, at line `written`; it wants a message that contains `text` at `line`."""

    line: int | None
    text: str
    written: int


def of_error(error: ShloError, file: str) -> list[Found]:
    """The findings of an error, by their lines in `file`."""
    found = []
    for problem in error.problems:
        op = f"'{problem.op}': " if problem.op else ""
        help_ = f"\nhelp: {problem.remedy}" if problem.remedy else ""
        message = f"error[{error.code}]: {op}{problem.reason}{help_}"
        found.append(Found(line_in(problem.location, file), message))
    return found


def line_in(location: str | None, file: str) -> int | None:
    """The line of "file:line:col", if it is of this file."""
    match = _LOCATION.match(location or "")
    return int(match[2]) if match and match[1] == file else None


def expectations(text: str) -> list[Expectation]:
    """All `expected-error` comments of a text."""
    result = []
    for number, line in enumerate(text.split("\n"), 1):
        if "expected-" not in line:
            continue
        matches = list(_EXPECTED.finditer(line))
        if not matches and re.search(r"//.*expected-(error|warning|remark|note)\b", line):
            raise OptionError(
                f"line {number}: this expectation cannot be read",
                remedy="write // expected-error@+1 {{part of the message}}",
            )
        for match in matches:
            result.append(Expectation(_line(match["where"], number), match["text"], number))
    return result


def _line(where: str | None, number: int) -> int | None:
    if where is None:
        return number
    if where == "unknown":
        return None
    if where in ("above", "below"):
        return number + (1 if where == "below" else -1)
    return number + int(where) if where[0] in "+-" else int(where)


def compare(expected: Sequence[Expectation], found: Iterable[Found], file: str) -> list[str]:
    """What differs: a message per error that was not expected, and per expectation that was not met."""
    open_ = list(expected)
    report = []
    for each in found:
        met = next((e for e in open_ if e.line == each.line and e.text in each.message), None)
        if met is not None:
            open_.remove(met)
            continue
        place = f"{file}:{each.line}" if each.line else f"{file} (no line)"
        report.append(f"{place}: unexpected error: {each.message}")
    report += [f"{file}:{e.written}: expected error '{e.text}' was not reported" for e in open_]
    return report
