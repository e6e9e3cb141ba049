"""Parsing in a child process: corrupt bytecode can crash MLIR's parser, and a crash must not take the user's process
with it.

The parent sends sources to `python -m stablehlo_py.frontend.isolate` and gets verified MLIR bytecode or errors back,
in order. Requests and replies are frames: a JSON header and a payload, each after its length (8 bytes,
little-endian). When the child dies, the source that it was reading is to blame, and the rest goes to a new child.
"""

from __future__ import annotations

import io
import json
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from stablehlo_py import errors
from stablehlo_py.errors import LoadError, Problem, ResourceError, ShloError
from stablehlo_py.frontend.source import Format, Source

TIMEOUT_S = 120.0
_LENGTH = struct.Struct("<Q")
_ERRORS = {each.code: each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, ShloError)}


def parse_isolated(source: Source, timeout_s: float = TIMEOUT_S) -> bytes:
    """Parse and verify `source` in a child process; the module as MLIR bytecode. Raises what `parse.parse` raises,
    and LoadError when the child crashes or takes longer than `timeout_s` seconds."""
    (reply,) = parse_all([source], timeout_s)
    if isinstance(reply, ShloError):
        raise reply
    return reply


def parse_all(sources: Sequence[Source], timeout_s: float = TIMEOUT_S) -> list[bytes | ShloError]:
    """`parse_isolated` for many sources in as few child processes as possible: bytecode or the error, per source.

    `timeout_s` limits each child process.
    """
    replies: list[bytes | ShloError] = []
    while len(replies) < len(sources):
        rest = sources[len(replies) :]
        request = b"".join(_frame(_describe(source), source.data) for source in rest)
        output, death = _run_child(request, timeout_s)
        for header, payload in _frames(io.BytesIO(output)):
            replies.append(_error(header["error"]) if "error" in header else payload)
        if len(replies) < len(sources):
            name = sources[len(replies)].name
            remedy = "the file is damaged: export or copy it again"
            replies.append(LoadError(f"MLIR's parser {death} while reading it", location=name, remedy=remedy))
    return replies


def _run_child(request: bytes, timeout_s: float) -> tuple[bytes, str]:
    """What a child wrote before it ended, and how it ended."""
    root = str(Path(errors.__file__).parent.parent)
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-m", "stablehlo_py.frontend.isolate"]
    try:
        done = subprocess.run(command, input=request, capture_output=True, timeout=timeout_s, env=environment)
    except subprocess.TimeoutExpired as expired:
        return expired.output or b"", f"took longer than {timeout_s:g} s"
    except OSError as error:
        remedy = "load without isolate=True (a corrupt file can then end the process)"
        raise ResourceError(f"cannot start a child process: {error.strerror}", remedy=remedy) from error
    if done.returncode > 0:  # not a crash: the child could not start or has a defect
        raise errors.InternalError(
            f"the isolated parser failed: {done.stderr.decode(errors='replace').strip()[-2000:]}",
            remedy=f"run: {' '.join(command)}",
        )
    return done.stdout, f"crashed ({_signal(-done.returncode)})" if done.returncode else "ended early"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        return f"signal {number}"


def _describe(source: Source) -> dict[str, Any]:
    return {"name": source.name, "format": source.format.name, "path": source.path, "version": source.version}


def _frame(header: dict[str, Any], payload: bytes) -> bytes:
    encoded = json.dumps(header).encode()
    return b"".join((_LENGTH.pack(len(encoded)), encoded, _LENGTH.pack(len(payload)), payload))


def _frames(stream: BinaryIO) -> Iterator[tuple[dict[str, Any], bytes]]:
    """All complete frames of a stream."""
    while True:
        header = _chunk(stream)
        payload = _chunk(stream) if header is not None else None
        if header is None or payload is None:
            return
        yield json.loads(header), payload


def _chunk(stream: BinaryIO) -> bytes | None:
    prefix = stream.read(_LENGTH.size)
    if len(prefix) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(prefix)
    data = stream.read(length)
    return data if len(data) == length else None


def _error(fields: dict[str, Any]) -> ShloError:
    problems = [Problem(**each) for each in fields["problems"]]
    if fields["single"]:
        only = problems[0]
        return _ERRORS[fields["code"]](only.reason, location=only.location, op=only.op, remedy=only.remedy)
    return _ERRORS[fields["code"]](fields["reason"], problems=problems)


def _answer(header: dict[str, Any], data: bytes) -> bytes:
    from stablehlo_py.frontend.parse import parse
    from stablehlo_py.mlir import make_context

    version = tuple(header["version"]) if header["version"] else None
    source = Source(header["name"], data, Format[header["format"]], header["path"], version)
    try:
        module = parse(source, make_context())
    except ShloError as error:
        single = len(error.problems) == 1 and error.problems[0].reason == error.reason
        problems = [asdict(problem) for problem in error.problems]
        fields = {"code": error.code, "reason": error.reason, "single": single, "problems": problems}
        return _frame({"error": fields}, b"")
    bytecode = io.BytesIO()
    module.operation.write_bytecode(bytecode)
    return _frame({}, bytecode.getvalue())


def main() -> None:
    """The child: frames from stdin to stdout. Anything else that is printed goes to stderr."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for header, data in _frames(sys.stdin.buffer):
        replies.write(_answer(header, data))
        replies.flush()


if __name__ == "__main__":
    main()
