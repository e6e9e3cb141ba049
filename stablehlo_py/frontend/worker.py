"""The child process that reads modules for `isolate`: one after the other, each under limits of its own.

A request is a description of a source and its bytes; the reply is the module as MLIR bytecode, or the error.

The child ends with its parent, which holds the other end of a pipe that nothing is written to: its end is a SIGIO. The
socket of the requests is not used for that: its signals come for data too, and may come after they were read.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import io
import json
import os
import resource
import select
import signal
import socket
import traceback
from dataclasses import asdict
from typing import Any, NoReturn

from stablehlo_py.dialect.context import make_context
from stablehlo_py.errors import ShloError
from stablehlo_py.frontend.frames import LENGTH, LIFE, frame
from stablehlo_py.frontend.nesting import check_module
from stablehlo_py.frontend.parse import parse, readable_names
from stablehlo_py.frontend.source import Format, Source
from stablehlo_py.mlir import bytecode, ir

# Contexts keep every attribute that they have seen: a new one after so many bytes or modules.
_CONTEXT_BYTES, _CONTEXT_MODULES = 1 << 20, 100
# Less than a thread of the parent has: recursion that passes here passes there.
_STACK_BYTES = 4 << 20
_PR_SET_DUMPABLE = 4


def serve(channel: socket.socket, life: int) -> None:
    """Answer requests until the parent closes its end of the channel, or of the pipe `life`."""
    _confine()
    _end_with_parent(life)
    stream = channel.makefile("rwb")
    context, seen, modules = make_context(), 0, 0
    while (header := _chunk(stream)) is not None:
        request = json.loads(header)
        _limit(resource.RLIMIT_AS, _address_space() + request["memory"])
        data = _chunk(stream)
        if data is None:
            return
        signal.setitimer(signal.ITIMER_PROF, request["cpu_s"])
        reply, payload = _answer(request, data, context)
        signal.setitimer(signal.ITIMER_PROF, 0)
        stream.write(frame(reply, payload))
        stream.flush()
        seen, modules = seen + len(data), modules + 1
        del data, payload
        if seen > _CONTEXT_BYTES or modules >= _CONTEXT_MODULES:
            _limit(resource.RLIMIT_AS, resource.RLIM_INFINITY)
            context, seen, modules = make_context(), 0, 0


def _end_with_parent(life: int) -> None:
    """From here on, this process ends wherever it is when the parent does. Signals without a handler end a process."""
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([life], [], [], 0)[0]:  # the parent ended before the line above
        os._exit(0)


def _chunk(stream: io.BufferedIOBase | io.BufferedRWPair) -> bytes | None:
    prefix = stream.read(LENGTH.size)
    if len(prefix) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(prefix)
    return stream.read(length)


def _confine() -> None:
    """Limits and signals that hold for the whole life of the child."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0)  # a crash leaves no core file, whatever collects them
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_STACK, _STACK_BYTES)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's: it ends its child
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGPROF):
        signal.signal(number, signal.SIG_DFL)


def _limit(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    if hard != resource.RLIM_INFINITY:
        value = hard if value == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, hard))


def _address_space() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _answer(request: dict[str, Any], data: bytes, context: ir.Context) -> tuple[dict[str, Any], bytes]:
    version = tuple(request["version"]) if request["version"] else None
    source = Source(request["name"], data, Format[request["format"]], version)
    context.allow_unregistered_dialects = request["any_dialect"]
    try:
        module = parse(source, context)
        with readable_names(source):
            check_module(module)
        return {}, bytecode(module)
    except ShloError as error:
        single = len(error.problems) == 1 and error.problems[0].reason == error.reason
        problems = [asdict(problem) for problem in error.problems]
        return {"error": {"code": error.code, "reason": error.reason, "single": single, "problems": problems}}, b""
    except MemoryError:
        return {"out_of_memory": True}, b""
    except Exception:
        return {"defect": traceback.format_exc()}, b""


def serve_forked(channel: socket.socket, stderr: int, life: int) -> NoReturn:
    """The rest of a process that was forked to serve."""
    status = 1
    try:
        gc.disable()  # what belongs to the parent is not finalized here
        serve(_keep_only(channel, stderr, life), life)
        status = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)


def _keep_only(channel: socket.socket, stderr: int, life: int) -> socket.socket:
    """Close every file of the parent: somebody may wait for their end."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, source in enumerate((nothing, stderr, stderr)):
        os.dup2(source, number)
    kept = channel.detach()
    begin = 3
    for number in (*sorted((kept, life)), os.sysconf("SC_OPEN_MAX")):
        os.closerange(begin, number)
        begin = number + 1
    return socket.socket(fileno=kept)


def main() -> None:
    """The whole of a process that was spawned to serve."""
    serve(socket.socket(fileno=os.dup(0)), LIFE)
