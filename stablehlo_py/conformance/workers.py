"""Worker processes that survive what they run: a crash or a timeout is an outcome, and the worker is replaced."""

from __future__ import annotations

import importlib
import multiprocessing
import multiprocessing.connection
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
    """What became of a job. status: done (then `value` is what the task returned), crash, timeout (then it says
    why)."""

    job: Any
    status: str
    value: Any
    seconds: float


def serve(connection: multiprocessing.connection.Connection, task: Task, stderr: str) -> None:
    """The worker process: serves jobs until the parent closes the connection."""
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
        try:
            ready = self.connection.poll(120) and self.connection.recv() == "ready"
        except EOFError:
            ready = False
        if not ready:
            raise RuntimeError(f"{task.module}.{task.factory}{task.arguments} does not start: {self.last_words()}")

    def give(self, job: Any) -> None:
        self.job, self.started = job, time.monotonic()
        self.connection.send(job)

    def last_words(self) -> str:
        lines = Path(self.stderr).read_text(errors="replace").strip().splitlines()
        return " | ".join(lines[-3:])[:600]

    def end(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()

    def outcome(self, timeout: float) -> Outcome | None:
        """What became of the job, or None while it runs."""
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
        return None


def run(jobs: Sequence[Any], task: Task, workers: int, timeout: float) -> Iterator[Outcome]:
    """Run jobs on worker processes; outcomes come in order of completion. Raises RuntimeError when a worker does not
    start."""
    waiting = list(jobs)[::-1]
    with tempfile.TemporaryDirectory() as scratch:
        started = 0
        busy: list[Worker] = []

        def start() -> Worker:
            nonlocal started
            started += 1
            return Worker(task, scratch, started)

        try:
            for _ in range(min(workers, len(jobs))):
                busy.append(start())
                busy[-1].give(waiting.pop())
            while busy:
                multiprocessing.connection.wait([worker.connection for worker in busy], timeout=0.5)
                for number, current in reversed(list(enumerate(busy))):
                    outcome = current.outcome(timeout)
                    if outcome is None:
                        continue
                    yield outcome
                    if outcome.status in ("crash", "timeout"):
                        current.end()
                        if waiting:
                            current = busy[number] = start()
                    if waiting:
                        current.give(waiting.pop())
                    else:
                        current.end()
                        del busy[number]
        finally:
            for remaining in busy:
                remaining.end()
