"""The worker processes of the per-op cases: our compiler, and what says the right results.

An oracle is a word of a section's `oracle:` line:

    reference   StableHLO's reference interpreter; of quantized ops upstream's expansion into arithmetic
    jax         XLA:CPU
    wide        the same functions on f64, by one of these two, rounded to the type: what functions should give that
                both compute in the type itself, step by step (and XLA without denormal numbers); of sums and products
                of small integers, the functions on 32 bits, modulo the width
    exact       the references of shlo-accuracy, of f64: nothing else is exact to its last bits
    evaluate    our NumPy evaluation of hlo ops, which shares legalization with the compiler, but no kernels
    integers    the integer arithmetic that our legalization makes of quantized ops, by the reference interpreter or XLA
    arguments   the results are the arguments
    true        the functions check themselves: every result is true
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Answer = tuple[str, Any]
Run = Callable[["Job"], Sequence[np.ndarray]]
ORACLES = __name__
CONTEXT_MODULES = 250  # that share a context
_TARGET = "target:"
SAME = "conformance.same"  # a custom call whose result is its operand


@dataclass(frozen=True)
class Job:
    """A module, and the arguments of every process that runs it."""

    number: int
    module: str
    arguments: list[list[np.ndarray]]


def task(engine: str) -> Callable[[Job], Answer]:
    """What a worker does with a job: ("results", arrays of all processes), or ("refused" or "error", message). The
    engine is an oracle, or a target (`of_target`)."""
    from stablehlo_py.debug.settings import context
    from stablehlo_py.errors import UnsupportedError

    run = _ENGINES[engine]() if engine in _ENGINES else _target(engine.removeprefix(_TARGET))
    answered = itertools.count(1)

    def answer(job: Job) -> Answer:
        if next(answered) % CONTEXT_MODULES == 0:
            context.cache_clear()
        try:
            return "results", list(run(job))
        except UnsupportedError as error:
            return "refused", str(error)
        except Exception as error:  # whatever a compiler under test raises is a result
            return "error", f"{type(error).__name__}: {error}"

    return answer


def of_target(name: str) -> str:
    """The engine that is this compiler, for a target."""
    return f"{_TARGET}{name}"


def _target(name: str) -> Run:
    import stablehlo_py as shlo
    from stablehlo_py.debug.settings import context
    from stablehlo_py.frontend.load import load

    shlo.register_custom_call(SAME, lambda x: x.copy())

    def run(job: Job) -> Sequence[np.ndarray]:
        replicas = len(job.arguments)
        options = shlo.Options(threads=1, cache_dir=None, num_replicas=replicas if replicas > 1 else None)
        module = load(job.module, context=context(), isolate=False)  # this process may crash already
        executable = shlo.compile(module, target=name, options=options)
        if replicas > 1:  # what has an infeed is a grid of one process
            assert isinstance(executable, shlo.GridExecutable)
            grid = executable.call_grid([[arguments] for arguments in job.arguments])
            return [array for (results,) in grid for array in results]
        with _echo(executable) if "stablehlo.infeed" in job.module else _silence():
            return executable(*job.arguments[0])

    return run


@contextmanager
def _silence() -> Iterator[None]:
    yield


@contextmanager
def _echo(executable: Any) -> Iterator[None]:
    """What the program gives to the outfeed comes back by the infeed."""
    from stablehlo_py.errors import CommunicationError

    def serve() -> None:
        try:
            while True:
                executable.infeed.put(*executable.outfeed.get())
        except CommunicationError:
            return  # closed: the call is over

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        executable.outfeed.close()
        thread.join()


def _jax() -> Run:
    os.environ["JAX_PLATFORMS"] = "cpu"
    return _engine("jax")


def _evaluate() -> Run:
    return _engine("hlo")


def _engine(name: str) -> Run:
    from stablehlo_py.debug.engines import ENGINES
    from stablehlo_py.debug.settings import Settings

    return lambda job: ENGINES[name](job.module, job.arguments[0], Settings())


def _reference() -> Run:
    from stablehlo_py.conformance.grid_reference import reference_on_grid

    interpreter = _engine("reference")

    def run(job: Job) -> Sequence[np.ndarray]:
        plain = replace(job, module=_plain(job.module))
        if len(job.arguments) == 1:
            return interpreter(plain)
        grid = reference_on_grid(plain.module, len(job.arguments), 1, job.arguments)
        return [array for results in grid for array in results]

    return run


def _plain(text: str) -> str:
    """The module without what the interpreter does not know: calls of quantized functions, most quantized ops,
    dynamic shapes that follow from constants, promotion in ops."""
    from stablehlo_py.debug.promotions import convert_all_operands
    from stablehlo_py.dialect.context import make_context
    from stablehlo_py.mlir import ir, run_upstream
    from stablehlo_py.passes.infer_symbolic_shapes import InferSymbolicShapes

    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        run_upstream(module, "func.func(stablehlo-legalize-composite-to-call),inline,symbol-dce")
        InferSymbolicShapes().run(module)
        convert_all_operands(module)
        if "!quant" in text:
            run_upstream(module, "func.func(stablehlo-legalize-quant-to-math)")
        return str(module)


def on_integers(text: str) -> str:
    """The module without quantized tensors."""
    from stablehlo_py.dialect.context import make_context
    from stablehlo_py.legalize.quantized.driver import legalize_quantized
    from stablehlo_py.mlir import ir, run_upstream

    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        run_upstream(module, "inline,symbol-dce")
        legalize_quantized(module)
        return str(module)


_ENGINES = {"reference": _reference, "jax": _jax, "evaluate": _evaluate}
