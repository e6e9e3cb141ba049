"""Worker processes that survive what they run: a crash, a timeout, or too much memory is an outcome, and the worker is
replaced."""

from __future__ import annotations

import importlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from stablehlo_py.processes import die_with_parent

_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Task:
    """What a worker does with jobs: the function that `module.factory(*arguments)` returns in the worker's process.
    `folder` is where a module lies that is not installed."""

    module: str
    factory: str
    arguments: tuple[str, ...] = ()
    folder: str = ""


@dataclass(frozen=True)
class Outcome:
    """What became of a job. status: done (then `value` is what the task returned), crash, timeout, memory (then it says
    why)."""

    job: Any
    status: str
    value: Any
    seconds: float


def serve(connection: multiprocessing.connection.Connection, task: Task, stderr: str) -> None:
    """The worker process: serves jobs until the parent closes the connection."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which ends its workers
    os.dup2(os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    if task.folder:
        sys.path.insert(0, task.folder)
    function = getattr(importlib.import_module(task.module), task.factory)(*task.arguments)
    connection.send("ready")
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        connection.send(function(job))


class Worker:
    """A worker process as the parent sees it."""

    def __init__(self, task: Task, scratch: str, number: int) -> None:
        self.stderr = f"{scratch}/stderr-{number}"
        context = multiprocessing.get_context("spawn")
        self.connection, child = context.Pipe()
        self.process = context.Process(target=serve, args=(child, task, self.stderr))  # has children
        self.process.start()
        child.close()
        self.job: Any = None
        self.started = 0.0
        self.given = 0
        try:
            ready = self.connection.poll(120) and self.connection.recv() == "ready"
        except EOFError:
            ready = False
        if not ready:
            raise RuntimeError(f"{task.module}.{task.factory}{task.arguments} does not start: {self.last_words()}")

    def give(self, job: Any) -> None:
        self.job, self.started, self.given = job, time.monotonic(), self.given + 1
        self.connection.send(job)

    def last_words(self) -> str:
        lines = Path(self.stderr).read_text(errors="replace").strip().splitlines()
        return " | ".join(lines[-3:])[:600]

    def end(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()

    def memory(self) -> int:
        """Bytes of memory that the process has now; 0 where the system does not say."""
        try:
            return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * _PAGE
        except (OSError, IndexError):
            return 0

    def outcome(self, timeout: float, most: int | None = None) -> Outcome | None:
        """What became of the job, or None while it runs within so many seconds, and bytes of memory."""
        seconds = time.monotonic() - self.started
        if self.connection.poll():
            try:
                return Outcome(self.job, "done", self.connection.recv(), seconds)
            except EOFError:
                self.process.join(5)
                words = f"exit code {self.process.exitcode}: {self.last_words()}"
                return Outcome(self.job, "crash", words, seconds)
        if seconds > timeout:
            return Outcome(self.job, "timeout", f"no answer in {timeout:g} s", seconds)
        if most is not None and self.memory() > most:
            return Outcome(self.job, "memory", f"more than {most / 2**30:g} GiB of memory", seconds)
        return None


class Pool(AbstractContextManager["Pool"]):
    """Worker processes, which are kept from one list of jobs to the next.

    Args:
        workers: processes for each task.
        timeout: seconds for a job.
        memory: bytes that a worker may have, None: any number.
        jobs: so many a worker does before another takes its place, None: any number.
    """

    def __init__(self, workers: int, timeout: float, memory: int | None = None, jobs: int | None = None) -> None:
        self.workers, self.timeout, self.most, self.jobs = workers, timeout, memory, jobs
        self._scratch = tempfile.TemporaryDirectory()
        self._idle: dict[Task, list[Worker]] = {}
        self._busy: list[Worker] = []
        self._started = 0

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for worker in (*self._busy, *(each for idle in self._idle.values() for each in idle)):
            worker.end()
        self._scratch.cleanup()

    def _take(self, task: Task) -> Worker:
        """A worker that has nothing to do; it is a busy one now. Raises RuntimeError: it does not start."""
        idle = self._idle.setdefault(task, [])
        if not idle:
            self._started += 1
            idle.append(Worker(task, self._scratch.name, self._started))
        self._busy.append(idle.pop())
        return self._busy[-1]

    def run(self, jobs: Sequence[Any], task: Task) -> Iterator[Outcome]:
        """Run jobs; outcomes come in order of completion. Raises RuntimeError when a worker does not start."""
        waiting = list(jobs)[::-1]
        for _ in range(min(self.workers, len(jobs))):
            self._take(task).give(waiting.pop())
        while self._busy:
            multiprocessing.connection.wait([worker.connection for worker in self._busy], timeout=0.5)
            for worker in list(self._busy):
                outcome = worker.outcome(self.timeout, self.most)
                if outcome is None:
                    continue
                self._busy.remove(worker)
                if outcome.status == "done" and worker.given != self.jobs:
                    self._idle[task].append(worker)
                else:
                    worker.end()
                if waiting:
                    self._take(task).give(waiting.pop())
                yield outcome


def run(jobs: Sequence[Any], task: Task, workers: int, timeout: float) -> Iterator[Outcome]:
    """Run jobs on worker processes of their own, as `Pool.run` does."""
    with Pool(workers, timeout) as pool:
        yield from pool.run(jobs, task)
