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

import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

Answer = tuple[str, Any]
Run = Callable[["Job"], Sequence[np.ndarray]]
GRID_REFERENCE = Path(__file__).parents[1] / "grid" / "reference.py"
SAME = "conformance.same"  # a custom call whose result is its operand


@dataclass(frozen=True)
class Job:
    """A module, and the arguments of every process that runs it."""

    number: int
    module: str
    arguments: list[list[np.ndarray]]


def task(engine: str) -> Callable[[Job], Answer]:
    """What a worker does with a job: ("results", arrays of all processes), or ("refused" or "error", message)."""
    from stablehlo_py.errors import UnsupportedError

    run = {"shlo": _shlo, "reference": _reference, "jax": _jax, "evaluate": _evaluate}[engine]()

    def answer(job: Job) -> Answer:
        try:
            return "results", list(run(job))
        except UnsupportedError as error:
            return "refused", str(error)
        except Exception as error:  # whatever a compiler under test raises is a result
            return "error", f"{type(error).__name__}: {error}"

    return answer


def _shlo() -> Run:
    import stablehlo_py as shlo

    shlo.register_custom_call(SAME, lambda x: x.copy())

    def run(job: Job) -> Sequence[np.ndarray]:
        replicas = len(job.arguments)
        options = shlo.Options(threads=1, cache_dir=None, num_replicas=replicas if replicas > 1 else None)
        executable = shlo.compile(job.module, options=options)
        if replicas > 1:
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
    import engines

    xla = engines.make("xla")
    return lambda job: xla(job.module, job.arguments[0])


def _evaluate() -> Run:
    from stablehlo_py.debug.engines import ENGINES
    from stablehlo_py.debug.settings import Settings

    return lambda job: ENGINES["hlo"](job.module, job.arguments[0], Settings())


def _reference() -> Run:
    import engines

    interpreter, grid = engines.make("reference"), load_module("grid_reference", GRID_REFERENCE)

    def run(job: Job) -> Sequence[np.ndarray]:
        text = _plain(job.module)
        if len(job.arguments) == 1:
            return interpreter(text, job.arguments[0])
        request = grid.Request(text, len(job.arguments), 1, job.arguments)
        return [array for results in grid.evaluate(request) for array in results]

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


def load_module(name: str, path: Path) -> ModuleType:
    """A file beside other tests as a module."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
