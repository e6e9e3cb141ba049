"""One damaged module after the other, compiled as the API does by default.

It may be compiled, or refused with an error of `stablehlo_py.errors` that is not an internal one. Whatever else happens
is a finding: the process ends, does not answer, or another exception comes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from stablehlo_py.debug.fuzz import Outcome
from stablehlo_py.debug.settings import Settings
from stablehlo_py.debug.workers import Answer, Worker
from stablehlo_py.errors import InternalError
from stablehlo_py.files import writable_directory, write_whole

COMPILED, REFUSED = "compiled", "refused"
HANG_S = 5.0
_INTERNAL = f"error[{InternalError.code}]"


class Inputs(Protocol):
    """Where the inputs come from; `Corpus` is one."""

    def damaged(self, kind: str, number: int) -> bytes:
        """The input of a number."""


@dataclass
class HostileFuzzer:
    """Compiles the inputs of one kind (as of `mutations.KINDS`).

    Attributes:
        worker: of the engine "compiler", or of "caller".
        folder: where the inputs of findings are written; None: nowhere.
    """

    corpus: Inputs
    kind: str
    worker: Worker
    folder: Path | None = None

    def run(self, numbers: Sequence[int]) -> Iterator[Outcome]:
        """The outcomes of these inputs. The next one is made while the worker compiles the last one."""
        following = self.corpus.damaged(self.kind, numbers[0]) if numbers else b""
        for position, number in enumerate(numbers):
            data = following
            self.worker.ask(data, (), Settings())
            if position + 1 < len(numbers):
                following = self.corpus.damaged(self.kind, numbers[position + 1])
            yield self._outcome(number, data, self.worker.answer())

    def _outcome(self, number: int, data: bytes, answer: Answer) -> Outcome:
        if answer.status == "timeout":
            answer = self.worker.run_patiently(data, ())
            if self.worker.processor_s() > HANG_S:
                answer = Answer("timeout", detail=f"{self.worker.processor_s():.0f} s of processor time")
        if answer.ok:
            return Outcome(number, COMPILED)
        if answer.status in ("error", "unsupported") and answer.detail.startswith("error[") and not is_internal(answer):
            return Outcome(number, REFUSED)
        if self.folder is not None:
            suffix = "mlirbc" if self.kind == "bytecode" else "mlir"
            write_whole(writable_directory(self.folder, "findings") / f"{self.kind}-{number}.{suffix}", data)
        status = "error" if answer.status == "error" else "crash"
        return Outcome(number, status, answer.detail[:1000].replace("\n", " "))


def is_internal(answer: Answer) -> bool:
    """Whether an error is a defect of the compiler."""
    return answer.detail.startswith(_INTERNAL)
