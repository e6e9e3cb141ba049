"""Engines in child processes that may crash or hang: that is an answer, and the next module gets a new child.

Children are forked from a server that has imported MLIR once (multiprocessing's forkserver), so a new one costs a few
milliseconds.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType

import numpy as np

from stablehlo_py.debug.engines import ENGINES
from stablehlo_py.debug.settings import Settings, Source, context
from stablehlo_py.errors import ShloError, UnsupportedError
from stablehlo_py.processes import die_with_parent

TIMEOUT_S = 120.0
# An engine hangs when it takes this many times its time limit.
PATIENCE = 5
# Modules that share a context.
CONTEXT_MODULES = 250
# What stands for a failure of the engine or of the module, next to "ok".
FAILURES = ("unsupported", "error", "crash", "timeout")


@dataclass(frozen=True)
class Answer:
    """What became of a module: "ok" with its results, or one of FAILURES with a line of explanation."""

    status: str
    results: tuple[np.ndarray, ...] = ()
    detail: str = ""

    @property
    def ok(self) -> bool:
        """Whether there are results."""
        return self.status == "ok"


def answer_of(engine: str, module: Source, inputs: Sequence[np.ndarray], settings: Settings) -> Answer:
    """Run an engine in this process; whatever it raises is an answer."""
    try:
        return Answer("ok", tuple(ENGINES[engine](module, inputs, settings)))
    except UnsupportedError as error:
        return Answer("unsupported", detail=str(error))
    except ShloError as error:
        return Answer("error", detail=str(error))
    except Exception as error:  # any failure of an engine is an answer
        lines = str(error).strip().splitlines()
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f" ({Path(where.filename).name}:{where.lineno})"
        return Answer("error", detail=f"{type(error).__name__}: {lines[0] if lines else ''}{place}")


def _serve(connection: Connection, stderr: str) -> None:
    """The child: answer requests until the parent closes the connection."""
    die_with_parent()  # the server, which ends when the one that started it does
    descriptor = os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's: it ends its children
    for number in itertools.count(1):
        try:
            request = connection.recv()
        except EOFError:
            return
        connection.send(answer_of(*request))
        if number % CONTEXT_MODULES == 0:
            context.cache_clear()


class Worker(AbstractContextManager["Worker"]):
    """A child process that answers for one engine, started when first asked and again after it died."""

    def __init__(self, engine: str, timeout_s: float = TIMEOUT_S) -> None:
        self.engine, self.timeout_s = engine, timeout_s
        self._directory = tempfile.TemporaryDirectory(prefix="shlo-worker-")
        self._stderr = Path(self._directory.name, "stderr")
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None
        self._asked_at = 0.0

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _start(self) -> Connection:
        if self._connection is None:
            server = multiprocessing.get_context("forkserver")
            server.set_forkserver_preload(["stablehlo_py", "stablehlo_py.compiler", "stablehlo_py.debug.engines"])
            connection, child = server.Pipe()
            process = server.Process(target=_serve, args=(child, str(self._stderr)), daemon=True)
            process.start()  # ended at exit, if a signal comes before it is known here
            self._connection, self._process = connection, process
            child.close()
        return self._connection

    def ask(self, module: Source, inputs: Sequence[np.ndarray], settings: Settings) -> None:
        """Send a module; `answer` waits for what becomes of it."""
        self._asked_at = time.monotonic()
        request = self.engine, module, tuple(inputs), settings
        try:
            self._start().send(request)
        except (BrokenPipeError, ConnectionResetError):  # it died after its last answer
            self.close()
            self._start().send(request)

    def answer(self) -> Answer:
        """The answer to the last `ask`."""
        assert self._connection is not None
        assert self._process is not None
        remaining = self._asked_at + self.timeout_s - time.monotonic()
        try:
            if self._connection.poll(max(0.0, remaining)):
                return self._connection.recv()
        except (EOFError, ConnectionResetError):
            self._process.join(5)
            code = self._process.exitcode
            words = self._last_words()
            self.close()
            name = signal.Signals(-code).name if code is not None and code < 0 else f"status {code}"
            return Answer("crash", detail=f"{self.engine} ended its process ({name}){': ' if words else ''}{words}")
        self.close()
        return Answer("timeout", detail=f"{self.engine} gave no answer in {self.timeout_s:g} s")

    def run(self, module: Source, inputs: Sequence[np.ndarray], settings: Settings | None = None) -> Answer:
        """`ask`, then `answer`."""
        self.ask(module, inputs, settings or Settings())
        return self.answer()

    def run_patiently(self, module: Source, inputs: Sequence[np.ndarray], settings: Settings | None = None) -> Answer:
        """`run` with PATIENCE times the time: what is slow on a busy machine does not hang."""
        timeout, self.timeout_s = self.timeout_s, PATIENCE * self.timeout_s
        try:
            return self.run(module, inputs, settings)
        finally:
            self.timeout_s = timeout

    def _last_words(self) -> str:
        lines = self._stderr.read_text(errors="replace").strip().splitlines() if self._stderr.exists() else []
        return lines[-1][:300] if lines else ""

    def processor_s(self) -> float:
        """Seconds of processor time that the child has used, 0 where there is none."""
        if self._process is None:
            return 0.0
        with suppress(OSError):  # it has just ended
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return 0.0

    def close(self) -> None:
        """End the child."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._connection = self._process = None


class Workers(AbstractContextManager["Workers"]):
    """A worker per engine, made when needed; a context manager that ends them all."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self.timeout_s = timeout_s
        self._workers: dict[str, Worker] = {}

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for worker in self._workers.values():
            worker.close()

    def __getitem__(self, engine: str) -> Worker:
        if engine not in self._workers:
            self._workers[engine] = Worker(engine, self.timeout_s)
        return self._workers[engine]

    def run(
        self, engine: str, module: Source, inputs: Sequence[np.ndarray], settings: Settings | None = None
    ) -> Answer:
        """What an engine answers."""
        return self[engine].run(module, inputs, settings)
