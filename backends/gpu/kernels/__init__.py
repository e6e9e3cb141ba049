"""Kernel templates of the GPUs: `kernels/<kind>.py`, or the file that `KINDS` says, generates the code of fusions of
that kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.gpu.kernels.base import Candidate, GpuKernel, pointers_of
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.errors import OptionError
from stablehlo_py.mlir import ir

#: Kinds that have a template of their own; what others compute, each thread does for some iterations (serial.py).
KINDS = {
    kind: kind
    for kind in """attention cholesky column dot fft in_place_update loop reduce_general reduce_window row
    scatter scores select_and_scatter sort top_k triangular_solve""".split()
} | {
    "convolution": "dot",
    "reduce_window_general": "reduce_window",  # several operands, or a combiner of the user's own
}
CHOOSING = frozenset(("attention", "dot"))  # templates that have `candidates`, not `emit`


def candidates(function: ir.OpView, target: GpuTarget) -> Iterator[Candidate]:
    """The kernels that a fusion function may have, first the one that its template chooses.

    Raises:
        UnsupportedError: there is no template for its kind.
    """
    fusion = Fusion.read(function)

    def finished(candidate: Candidate) -> Candidate:
        def emit() -> GpuKernel:
            made = candidate.emit()
            unused = made.module.unused_pointers if made.module else 0
            return replace(made, pointers=len(pointers_of(fusion)) + unused, plan=candidate.plan)

        return Candidate(candidate.plan, emit)

    return map(finished, _candidates(function, fusion, target))


def _candidates(function: ir.OpView, fusion: Fusion, target: GpuTarget) -> Iterator[Candidate]:
    if fusion.kind not in KINDS:
        from stablehlo_py.backends.gpu.kernels import serial

        return iter([Candidate("", lambda: serial.emit(function, target))])
    template = import_module(f"{__name__}.{KINDS[fusion.kind]}")
    if KINDS[fusion.kind] in CHOOSING:
        return template.candidates(fusion, target)
    return iter([Candidate("", lambda: template.emit(fusion, target))])


def emit_kernel(function: ir.OpView, target: GpuTarget, plan: str | None = None) -> GpuKernel:
    """Generate the kernel of a fusion function, by a plan (None: the one that its template chooses).

    Raises:
        UnsupportedError: there is no template for its kind.
        OptionError: it has no such plan.
    """
    for candidate in candidates(function, target):
        if plan in (None, candidate.plan):
            return candidate.emit()
    name = function.attributes["sym_name"].value
    raise OptionError(f"the kernel of '{name}' has no plan '{plan}' on {target.name}", remedy="tune the program again")
