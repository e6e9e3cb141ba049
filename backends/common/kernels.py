"""The kernels of a module: one for each distinct fusion, in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from typing import TypeVar

from stablehlo_py import progress
from stablehlo_py.backends.common.description import everywhere
from stablehlo_py.backends.common.fusion import fusions
from stablehlo_py.dialect.attributes import FUSION
from stablehlo_py.errors import Problem, UnsupportedError
from stablehlo_py.interrupts import checkpoint
from stablehlo_py.mlir import ir

Kernel = TypeVar("Kernel")


def kernels_of(
    module: ir.Module, emit: Callable[[ir.OpView], Kernel], machine: str, without: Container[str] = ()
) -> Iterator[tuple[str, Kernel]]:
    """What `emit` makes of each fusion function, with its name, as soon as it is made; of none `without` a kernel.

    Raises:
        UnsupportedError: at the end; it names every fusion that has no kernel for the `machine`, as messages call it.
    """
    failures: dict[str, Sequence[Problem]] = {}
    functions = [each for each in fusions(module) if each.attributes["sym_name"].value not in without]
    for number, function in enumerate(functions):
        checkpoint()
        progress.at("kernels", number, len(functions))
        name = function.attributes["sym_name"].value
        try:
            kernel = emit(function)
        except UnsupportedError as error:
            failures[name] = error.problems
            continue
        yield name, kernel
    if failures:
        problems = everywhere(module, failures)
        what = "1 part of the model has" if len(problems) == 1 else f"{len(problems)} parts of the model have"
        raise UnsupportedError(f"{what} no {machine} kernel", problems=problems)


def kinds_of(module: ir.Module) -> str:
    """How many kernels a module has, and of which kinds: a line of a report."""
    kinds = Counter(function.attributes[FUSION].value for function in fusions(module))
    listed = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    return f"kernels: {kinds.total()} distinct ({listed or 'none'})"
