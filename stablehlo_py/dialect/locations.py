"""From MLIR locations to the user's file and line.

The bindings expose no accessors for nested locations, so the printed form is read:
`loc("jit(f)/add"(callsite("f"("a.py":3:4 to :9) at "<module>"("a.py":9:1))))`. A call site prints the callee first,
so the first file is the innermost frame.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from stablehlo_py.errors import Problem, ShloError
from stablehlo_py.mlir import MLIRError, diagnostics, errors_of, ir

_QUOTED = r'"((?:[^"\\]|\\.)+)"'
_FILE = re.compile(_QUOTED + r":(\d+):(\d+)")
_NAME = re.compile(r"loc\(" + _QUOTED)
_IN_TEXT = re.compile(r'"-":([1-9]\d*):(\d+)')
_ESCAPE = re.compile(r"\\([0-9A-Fa-f]{2}|.)")
# Where installed libraries live: a layer's line inside flax says less than the line of the model that uses the layer.
_LIBRARY = re.compile(r"[/\\](site-packages|dist-packages)[/\\]")


def describe(location: ir.Location) -> str | None:
    """ "file:line:col" of the innermost frame in the user's own code, else of the innermost frame, else the quoted
    name, else None.

    MLIR's placeholder file "-" (text without a file name) counts as no file.
    """
    if isinstance(location, ir.UnknownLoc):
        return None
    printed = str(location)
    frames = [(_unescape(file), line, column) for file, line, column in _FILE.findall(printed) if file != "-"]
    if frames:
        user = next((frame for frame in frames if not _LIBRARY.search(frame[0])), frames[0])
        return ":".join(user)
    named = _NAME.search(printed)
    if named and named[1] != "-":
        return _unescape(named[1])
    position = _IN_TEXT.search(printed)
    return f"<text>:{position[1]}:{position[2]}" if position else None


@contextmanager
def diagnosed(context: ir.Context, error: ShloError) -> Iterator[None]:
    """Raise what MLIR reports within as an error like `error`, with a problem for each diagnostic, and its remedy."""
    with diagnostics(context) as collected:
        try:
            yield
        except MLIRError as raised:
            found = [(each.message, describe(each.location)) for each in errors_of(raised, collected)]
            problems = [Problem(*each, remedy=error.remedy) for each in found or [(str(raised), None)]]
            raise type(error)(error.reason, problems=problems) from raised


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if len(found[1]) == 2 else found[1], text)
