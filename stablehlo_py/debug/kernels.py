"""Which kernel is wrong: every fusion of a program by itself, next to its evaluation in NumPy.

The program is followed in NumPy at stage `fused`, so each fusion gets the operands that it has there; its kernel is
then compiled alone, and run in a child process. Memory that values share, and the program around the kernels, are not
part of that: if every kernel is right by itself, one of those is to blame.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stablehlo_py.debug.compare import Difference
from stablehlo_py.debug.disturbed import Disturbed
from stablehlo_py.debug.engines import MAX_STEPS, at_stage
from stablehlo_py.debug.sensitivity import Sensitivity
from stablehlo_py.debug.settings import Noise, Settings, Source
from stablehlo_py.debug.workers import Workers
from stablehlo_py.dialect.attributes import FUSION
from stablehlo_py.dialect.calls import module_of_call
from stablehlo_py.dialect.interpret import Interpreter
from stablehlo_py.dialect.locations import describe
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import bytecode, ir

# What makes every op a fusion of its own.
APART = ("fuse", "outline-loops", "outline-batches")


@dataclass(frozen=True)
class WrongKernel:
    """A fusion whose kernel gives another answer than its evaluation in NumPy, given the same operands.

    Attributes:
        name, kind: of the fusion.
        ops: the names of its ops, each once.
        lines: where the user wrote them.
        finding: how the answer differs, or why there is none.
    """

    name: str
    kind: str
    ops: tuple[str, ...]
    lines: tuple[str, ...]
    finding: Difference | str


class _Recorder(Interpreter):
    """Keeps the operands of the first and of the last call of every fusion: a loop may begin with zeros."""

    def __init__(self, module: ir.Module) -> None:
        super().__init__(module, MAX_STEPS)
        self.calls: dict[str, list[Sequence[np.ndarray]]] = {}

    def call(self, op: ir.Operation, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        calls = self.calls.setdefault(op.attributes["callee"].value, [])
        calls[1:] = [operands]  # the first stays
        return super().call(op, operands)


def wrong_kernels(
    workers: Workers,
    source: Source,
    inputs: Sequence[np.ndarray],
    settings: Settings,
    progress: Callable[[str], None],
    ops: Collection[str] | None = None,
    stop_after: int = 4,
) -> list[WrongKernel]:
    """The fusions whose kernels are wrong by themselves, in program order, `stop_after` of them at most. `ops`: only
    fusions that hold one of these. Empty where NumPy cannot evaluate the program.

    Raises:
        ShloError: the module does not compile up to the stage `fused`.
    """
    shapes = tuple(array.shape for array in inputs)
    module = at_stage("fused", source, shapes, settings.entry, settings.options, settings.pass_files, settings.target)
    found: list[WrongKernel] = []
    with module.context, ir.Location.unknown():
        recorder = _Recorder(module)
        progress("the fusions, in NumPy")
        try:
            recorder.function(recorder.functions["main"], inputs)
        except UnsupportedError:
            return []
        for number, (name, calls) in enumerate(recorder.calls.items()):
            function = recorder.functions[name]
            if ops is not None and not set(_ops_of(function)) & set(ops):
                continue
            progress(f"kernel {number + 1}/{len(recorder.calls)} by itself")
            finding = _finding(workers, module, function, calls, settings)
            if finding is not None:
                kind = function.attributes[FUSION].value
                found.append(WrongKernel(name, kind, _ops_of(function), _lines_of(function), finding))
                if len(found) == stop_after:
                    break
    return found


def _finding(
    workers: Workers,
    module: ir.Module,
    function: ir.Operation,
    calls: Sequence[Sequence[np.ndarray]],
    settings: Settings,
) -> Difference | str | None:
    """How the kernel of a fusion is wrong on the operands of one of its calls."""
    alone = bytecode(module_of_call(function))
    for operands in calls:
        operands = [np.ascontiguousarray(each).reshape(np.shape(each)) for each in operands]
        expected = Interpreter(module, MAX_STEPS).function(function, operands)
        answer = workers.run("kernel", alone, operands, replace(settings, entry=None))
        if answer.status == "unsupported":
            return None
        if not answer.ok:
            return f"{answer.status}: {answer.detail}"

        def sample(noise: Noise | None, operands: Sequence[np.ndarray] = operands) -> Sequence[np.ndarray]:
            machine = Interpreter(module, MAX_STEPS) if noise is None else Disturbed(module, noise, MAX_STEPS)
            return machine.function(function, operands)

        for verdict in Sensitivity([sample]).judge(answer.results, expected):
            if verdict.status == "differs":
                return verdict.difference
    return None


def _body(function: ir.Operation) -> list[ir.Operation]:
    block = function.regions[0].blocks[0]
    return [view.operation for view in block.operations][:-1]


def _ops_of(function: ir.Operation) -> tuple[str, ...]:
    free = ("hlo.constant", "hlo.broadcast", "hlo.reshape")
    names = dict.fromkeys(op.name for op in _body(function))
    return tuple(name for name in names if name not in free) or tuple(names)


def _lines_of(function: ir.Operation) -> tuple[str, ...]:
    lines = (describe(op.location) for op in _body(function) if op.name not in ("hlo.constant", "hlo.broadcast"))
    return tuple(dict.fromkeys(line for line in lines if line))
