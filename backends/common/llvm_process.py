"""llvmlite's LLVM, which has all targets, in processes of their own: LLVM ends the process where it cannot select an
instruction, and that must not be the user's.

One process waits for work and forks for each piece: so each gets LLVM as it is at its start, whatever was compiled
before, and may set options of LLVM.
"""

from __future__ import annotations

import atexit
import os
import pickle
import struct
import subprocess
import tempfile
import traceback
from collections.abc import Callable
from typing import IO

from stablehlo_py import forks
from stablehlo_py.errors import InternalError, ResourceError, UnsupportedError
from stablehlo_py.processes import die_with_parent, python_command

_LAST_WORDS = 1 << 12  # bytes of what a process says before LLVM ends it


def in_process_of_llvm(target: str, work: Callable[..., bytes | None], *arguments: object, attempts: int = 1) -> bytes:
    """What `work(*arguments)` makes there, where llvmlite's targets are initialized. Thread-safe.

    Args:
        target: the machine that LLVM generates code for, as messages name it.
        work: a function of a module; None as its result: it is to be tried again, where memory lies in another way. It
            raises RuntimeError for what LLVM reports.
        attempts: how often it is tried before that is an error.

    Raises:
        UnsupportedError: LLVM has no code for something; the message is LLVM's own.
        InternalError: LLVM reported something else.
        ResourceError: there can be no other process.
    """
    request = pickle.dumps((work, arguments, attempts))
    with _lock:
        answer = _asked(request)
        if answer is None:  # somebody has ended the process, perhaps long ago
            answer = _asked(request)
    if answer is None:
        raise ResourceError(
            "the process that compiles kernels was ended twice", remedy="free memory, or compile a smaller model"
        )
    made, problem = pickle.loads(answer)
    if made is None:
        raise UnsupportedError(
            f"LLVM cannot generate code for {target}: {problem}", remedy="report it with the model's StableHLO"
        )
    if problem:
        raise InternalError(f"LLVM refused the generated code for {target}: {problem}")
    return made


_lock = forks.Lock()
_process: subprocess.Popen[bytes] | None = None  # waits for modules


def _asked(request: bytes) -> bytes | None:
    """The answer of the process that waits for modules; None where it ended without one."""
    global _process
    if _process is None:
        _process = _started()
    answer = None
    try:
        assert _process.stdin is not None and _process.stdout is not None
        _send(_process.stdin, request)
        answer = _receive(_process.stdout)
    except BrokenPipeError:
        pass
    finally:
        if answer is None:  # Ctrl-C, perhaps: the next request must not get what is left of this one's answer
            _end()
    return answer


def _started() -> subprocess.Popen[bytes]:
    # Raw pipes: they have no locks, which a forked child may find held. In a session of its own: Ctrl-C of a terminal
    # is for this process to answer.
    pipe = subprocess.PIPE
    try:
        command = python_command(f"from {__name__} import serve; serve()")
        return subprocess.Popen(command, 0, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        reason = f"cannot start the process that compiles kernels: {error.strerror}"
        raise ResourceError(reason, remedy="close other processes") from error


@atexit.register
def _end() -> None:
    """End the process, if there is one."""
    global _process
    process, _process = _process, None
    if process is not None:
        with process:
            process.kill()


def _forget() -> None:
    """In a forked child: the process is the parent's, and ends when the parent closes the pipe."""
    global _process
    if _process is not None:
        assert _process.stdin is not None and _process.stdout is not None
        _process.stdin.close()
        _process.stdout.close()
        _process.returncode = 0  # not this one's to wait for
        _process = None


os.register_at_fork(after_in_child=_forget)


# --- in the other process --------------------------------------------------------------------------------------------


def serve() -> None:
    """Do what comes in until there is no more."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    with open(0, "rb", buffering=0) as requests, open(1, "wb", buffering=0) as written:
        while (request := _receive(requests)) is not None:
            *_, attempts = pickle.loads(request)  # imports what children would import each
            said = "what it makes is damaged"
            for attempt in range(attempts):
                answer, last_words = _forked(request, attempt)
                if answer is not None:
                    break
                said = last_words or said
            _send(written, pickle.dumps((None, said)) if answer is None else answer)


def _forked(request: bytes, attempt: int) -> tuple[bytes | None, str]:
    """The answer of a process of its own, None where it ended without one; what it said of that. Every attempt has
    memory laid out in another way."""
    with tempfile.TemporaryFile() as errors:
        answer = _answer_of_child(request, attempt, errors.fileno())
        errors.seek(0)
        said = errors.read(_LAST_WORDS).decode(errors="replace")
    return answer, said.strip().removeprefix("LLVM ERROR: ")


def _answer_of_child(request: bytes, attempt: int, errors: int) -> bytes | None:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            die_with_parent()
            os.dup2(errors, 2)
            unused = [bytearray(977 * attempt) for _ in range(97 * attempt)]
            with open(writing, "wb", buffering=0) as stream:
                answer = _answer(*pickle.loads(request))
                if answer is not None:
                    _send(stream, answer)
            del unused
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb", buffering=0) as stream:
        answer = _receive(stream)
    os.waitpid(child, 0)
    return answer


def _answer(work: Callable[..., bytes | None], arguments: tuple[object, ...], attempts: int) -> bytes | None:
    """What was made, and what LLVM reported; None: to be tried again."""
    try:
        made = work(*arguments)
    except RuntimeError as error:  # llvmlite's, for all that LLVM reports
        return pickle.dumps((b"", str(error)))
    return None if made is None else pickle.dumps((made, ""))


def _send(stream: IO[bytes], content: bytes) -> None:
    rest = memoryview(struct.pack("<q", len(content)) + content)
    while rest:
        rest = rest[stream.write(rest) :]


def _receive(stream: IO[bytes]) -> bytes | None:
    """None: there is no more."""
    head = _read(stream, 8)
    return None if head is None else _read(stream, struct.unpack("<q", head)[0])


def _read(stream: IO[bytes], size: int) -> bytes | None:
    """So many bytes; None: the stream ends before."""
    content = bytearray()
    while len(content) < size:
        part = stream.read(size - len(content))
        if not part:
            return None
        content += part
    return bytes(content)
