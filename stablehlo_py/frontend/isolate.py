"""Reading in a child process: what a hostile or damaged file does to MLIR's parser and verifier, it does there.

The child (`worker`) is started at the first use, kept for the next ones, and replaced when it dies. It verifies the
module and writes it as bytecode, which is parsed here: bytecode that MLIR itself wrote a moment ago.

Every request has limits of memory and processor time that grow with the source; a child that exceeds them is ended by
the kernel. Starting one costs a quarter of a second, since it imports MLIR. A command-line tool forks itself instead,
which costs a few milliseconds: it has no threads yet, and nothing in memory that a child should not have.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from stablehlo_py import errors
from stablehlo_py.errors import InternalError, LoadError, Problem, ResourceError, ShloError
from stablehlo_py.frontend.frames import LENGTH, LIFE, frame
from stablehlo_py.interrupts import checkpoint
from stablehlo_py.processes import python_command

if TYPE_CHECKING:  # the tools' help does without MLIR
    from stablehlo_py.frontend.source import Source

# What reading may take (docs/errors.md): bytes of memory, seconds of processor time.
MEMORY_BASE, MEMORY_PER_BYTE = 1 << 30, 64
CPU_BASE_S, CPU_PER_MB_S = 2.0, 1.0
# Processor time ends a child that computes; on a busy machine that takes longer. This ends one that is stuck.
_WALL_BASE_S, _WALL_PER_CPU = 20.0, 5.0
_TICK_S = 0.1  # how soon Ctrl-C is answered
_ERRORS = {each.code: each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, ShloError)}
_FROM_OUTSIDE = frozenset((signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGKILL))
_TRUST = "if you trust it, read it in this process: Options(isolate=False), --no-isolate"


class _Ended(Exception):
    """The child closed its end, or has ended."""


class Worker:
    """The child process, as its parent sees it. Threads may share one; they are served one after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = 0
        self._channel: socket.socket | None = None
        self._stderr = self._life = -1  # files; the child ends where the latter is closed
        self.may_fork = False

    def read(self, source: Source, any_dialect: bool = False) -> bytes:
        """The module in `source`, verified, as MLIR bytecode. With `any_dialect` it may hold ops that nobody knows.

        Raises what `parse.parse` and `nesting.check_module` raise; LoadError when the source makes the child crash or
        exceed a limit; ResourceError when there can be no child.
        """
        while not self._lock.acquire(timeout=_TICK_S):
            checkpoint()
        try:
            try:
                return self._ask(source, any_dialect)
            except _Ended:  # by somebody else's signal, perhaps long ago
                return self._ask(source, any_dialect, again=True)
        finally:
            self._lock.release()

    def _ask(self, source: Source, any_dialect: bool, again: bool = False) -> bytes:
        cpu_s = CPU_BASE_S + CPU_PER_MB_S * len(source.data) / 1e6
        memory = MEMORY_BASE + MEMORY_PER_BYTE * len(source.data)
        request = {
            "name": source.name,
            "format": source.format.name,
            "version": source.version,
            "any_dialect": any_dialect,
            "cpu_s": cpu_s,
            "memory": memory,
        }
        self.start()
        words_before = os.fstat(self._stderr).st_size
        deadline = time.monotonic() + _WALL_BASE_S + _WALL_PER_CPU * cpu_s
        answered = False
        try:
            self._send(frame(request, source.data), deadline)
            header, payload = json.loads(self._chunk(deadline)), self._chunk(deadline)
            answered = True
        except (_Ended, TimeoutError) as error:
            words = os.pread(self._stderr, 1000, words_before).decode(errors="replace")
            ended = self._reap() if isinstance(error, _Ended) else -signal.SIGPROF
            if ended < 0 and -ended in _FROM_OUTSIDE and not again:
                raise
            raise _death(source, ended, words, cpu_s, memory) from None
        finally:
            if not answered:
                self.close()
        if "out_of_memory" in header:
            raise _too_much(source, memory)
        if "defect" in header:
            raise InternalError(f"reading the module failed: {header['defect'].strip()}", location=source.name)
        if "error" in header:
            raise _error(header["error"])
        return payload

    # --- the process -------------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """The child's process id; 0: it has not been started, or has ended."""
        return self._pid

    def start(self) -> None:
        """Start the child, if it is not there. Raises ResourceError."""
        if self._pid and self._is_gone():
            self.close()
        if self._pid:
            return
        # Not attributes yet: a forked child drops those (`forget`).
        ours = theirs = None
        stderr = life = our_life = -1
        try:
            ours, theirs = socket.socketpair()
            life, our_life = os.pipe()
            stderr = os.memfd_create("stderr of a child")
            forks = self.may_fork and threading.active_count() == 1
            self._pid = _fork(theirs, stderr, life) if forks else _spawn(theirs, stderr, life)
        except OSError as error:
            if ours is not None:
                ours.close()
            _close(our_life, stderr)
            raise ResourceError(
                f"cannot start a child process: {error.strerror}", remedy=f"close other processes; {_TRUST}"
            ) from error
        finally:
            if theirs is not None:
                theirs.close()
            _close(life)
        ours.settimeout(_TICK_S)
        self._channel, self._stderr, self._life = ours, stderr, our_life

    def _is_gone(self) -> bool:
        """Whether the child has ended; forgets its number then, which may become another process's."""
        try:
            gone = os.waitpid(self._pid, os.WNOHANG)[0] != 0
        except ChildProcessError:  # somebody else has waited for it
            gone = True
        if gone:
            self._pid = 0
        return gone

    def _reap(self) -> int:
        """Wait for the child. Its exit status, or minus the number of a signal."""
        pid, self._pid = self._pid, 0
        try:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        except ChildProcessError:
            return -signal.SIGKILL

    def close(self) -> None:
        """End the child."""
        if self._pid and not self._is_gone():
            os.kill(self._pid, signal.SIGKILL)
            self._reap()
        self.forget()

    def forget(self) -> None:
        """Drop the child without a word: in a process that was forked it is somebody else's."""
        if self._channel is not None:
            self._channel.close()
        _close(self._stderr, self._life)
        self._pid, self._channel, self._stderr, self._life = 0, None, -1, -1

    # --- the channel -------------------------------------------------------------------------------------------------

    def _send(self, data: bytes, deadline: float) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._patiently(partial(self._socket.send, rest, socket.MSG_NOSIGNAL), deadline) :]

    def _chunk(self, deadline: float) -> bytes:
        (length,) = LENGTH.unpack(self._receive(LENGTH.size, deadline))
        return self._receive(length, deadline)

    def _receive(self, length: int, deadline: float) -> bytes:
        data = bytearray(length)
        rest = memoryview(data)
        while rest:
            count = self._patiently(partial(self._socket.recv_into, rest), deadline)
            if count == 0:
                raise _Ended
            rest = rest[count:]
        return bytes(data)

    @property
    def _socket(self) -> socket.socket:
        assert self._channel is not None
        return self._channel

    @staticmethod
    def _patiently(transfer: Callable[[], int], deadline: float) -> int:
        """How many bytes it moved, once it moves some. Raises TimeoutError after the deadline."""
        while True:
            try:
                return transfer()
            except TimeoutError:
                checkpoint()
                if time.monotonic() > deadline:
                    raise
            except OSError:
                raise _Ended from None


def _close(*files: int) -> None:
    """Close those that were opened."""
    for file in files:
        if file >= 0:
            os.close(file)


def _fork(channel: socket.socket, stderr: int, life: int) -> int:
    """Go on as two processes, one of which serves."""
    from stablehlo_py.frontend import worker  # its imports are made once, for both

    pid = os.fork()
    if pid == 0:
        worker.serve_forked(channel, stderr, life)
    return pid


def _spawn(channel: socket.socket, stderr: int, life: int) -> int:
    """Start a Python that serves."""
    command = python_command("from stablehlo_py.frontend import worker; worker.main()")
    return os.posix_spawn(
        command[0],
        command,
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, channel.fileno(), 0),
            (os.POSIX_SPAWN_DUP2, stderr, 1),
            (os.POSIX_SPAWN_DUP2, stderr, 2),
            (os.POSIX_SPAWN_DUP2, life, LIFE),
        ],
        setsigmask=[signal.SIGINT],  # of a terminal: the parent answers it
    )


def _death(source: Source, ended: int, words: str, cpu_s: float, memory: int) -> ShloError:
    """The error about a source that ended its reader."""
    if ended >= 0:  # an exception outside of `_answer`: not the source's fault
        return InternalError(f"the process that reads modules ended with status {ended}: {words.strip()}")
    if -ended == signal.SIGPROF:
        return LoadError(
            f"reading its {len(source.data)} bytes takes more than {cpu_s:.1f} s",
            location=source.name,
            remedy=f"the file is damaged, or made to keep readers busy; {_TRUST}",
        )
    if "bad_alloc" in words or "out of memory" in words:
        return _too_much(source, memory)
    from stablehlo_py.frontend.nesting import too_deep

    place = too_deep(source)
    said = words.strip().splitlines()
    reason = f"MLIR crashed ({_signal(-ended)}{': ' if said else ''}{said[0][:200] if said else ''}) while reading it"
    nested = "its brackets are nested too deeply" if place else "it is damaged, or meets a defect of MLIR"
    return LoadError(reason, location=place or source.name, remedy=f"{nested}: correct it or export it again")


def _too_much(source: Source, memory: int) -> LoadError:
    return LoadError(
        f"reading its {len(source.data)} bytes takes more than {memory / 1e9:.1f} GB of memory",
        location=source.name,
        remedy=f"the file is damaged, or made to exhaust memory; {_TRUST}",
    )


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        return f"signal {number}"


def _error(fields: dict[str, Any]) -> ShloError:
    problems = [Problem(**each) for each in fields["problems"]]
    if fields["single"]:
        only = problems[0]
        return _ERRORS[fields["code"]](only.reason, location=only.location, op=only.op, remedy=only.remedy)
    return _ERRORS[fields["code"]](fields["reason"], problems=problems)


_worker = Worker()
atexit.register(_worker.close)


def _after_fork() -> None:
    global _worker
    _worker.forget()
    _worker = Worker()


os.register_at_fork(after_in_child=_after_fork)


def the_worker() -> Worker:
    """The worker of this process."""
    return _worker
