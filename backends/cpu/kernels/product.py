"""A contraction as phases of a kernel: packing where it pays, then the compute phase."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from stablehlo_py.backends.cpu.kernels.arithmetic import Arithmetic
from stablehlo_py.backends.cpu.kernels.base import Phase
from stablehlo_py.backends.cpu.kernels.contraction import Contraction, Operand
from stablehlo_py.backends.cpu.kernels.depthwise import SharedLanes, shared_lanes
from stablehlo_py.backends.cpu.kernels.gemm import Epilogue, Gemm
from stablehlo_py.backends.cpu.kernels.gemv import LaneSums, RowStream
from stablehlo_py.backends.cpu.kernels.packing import emit_pack_a, emit_pack_b, emit_panel, pack_iterations
from stablehlo_py.backends.cpu.kernels.tiling import Plan, make_plan, symbolic_plan
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import Function, Value
from stablehlo_py.codegen.types import Element
from stablehlo_py.dialect.size import estimate

MAKE_THREADS_PAY = 20_000.0  # nanoseconds of work that a range given to a thread should have


class Scratch:
    """Hands out 64-byte aligned pieces of the kernel's scratch, `shared` by all threads or `private` to each."""

    def __init__(self, pointer: str) -> None:
        self.pointer = pointer
        self.bytes = 0

    def take(self, count: int, element: Element) -> Operand:
        """Room for `count` scalars."""
        size = element.storage.bits // 8
        start = self.bytes
        self.bytes += -(-count * size // 64) * 64 + 64  # a full vector may be written past the last panel
        return Operand(self.pointer, start // size, element)


@dataclass
class KernelBuilder:
    """The phases of a kernel under construction. `make(symbol)` opens a function with the phase signature."""

    name: str
    make: Callable[[str], Function]
    target: CpuTarget

    def __post_init__(self) -> None:
        self.functions: list[Function] = []
        self.phases: list[Phase] = []
        self.scratch = Scratch("shared")
        self.private = Scratch("private")

    def phase(self, suffix: str, iterations: int, cost: float, emit: Callable[[Function], None]) -> None:
        """Add a phase: `emit` writes the whole body, with its loop over begin..end and its return."""
        symbol = f"{self.name}_{suffix}" if suffix else self.name
        f = self.make(symbol)
        emit(f)
        self.functions.append(f)
        grain = max(1, min(estimate(iterations), math.ceil(MAKE_THREADS_PAY / max(cost, 0.1))))
        self.phases.append(Phase(symbol, iterations, grain, cost))


def with_best_lanes(contraction: Contraction, arithmetic: Arithmetic) -> Contraction:
    """The contraction, its lanes moved to an axis that A, B and C share where that is what vectorizes (depthwise
    convolutions)."""
    shared = None if arithmetic.complex or not contraction.is_known else shared_lanes(contraction)
    return shared or contraction


def emit_product(
    builder: KernelBuilder,
    contraction: Contraction,
    arithmetic: Arithmetic,
    epilogue: Epilogue,
    plan: Plan | None = None,
) -> None:
    """Add the phases of a contraction (one from `with_best_lanes`) to a kernel; the epilogue's axes are its outer, m,
    n."""
    if contraction.n.a and contraction.n.b:
        shared = SharedLanes(contraction, arithmetic, epilogue, builder.target)
        builder.phase("", shared.iterations, shared.cost, shared.emit)
        return
    if plan is None and not contraction.is_known:
        plan = symbolic_plan(contraction, arithmetic, builder.target)
    for few_rows in (RowStream, LaneSums):
        if plan is None and few_rows.fits(contraction, arithmetic, builder.target):
            phase = few_rows(contraction, arithmetic, epilogue, builder.target)
            builder.phase("", phase.iterations, phase.cost, phase.emit)
            return
    plan = plan or make_plan(contraction, arithmetic, builder.target)
    gemm = Gemm(contraction, plan, arithmetic, epilogue)
    if gemm.in_chunks:
        gemm.sums = builder.private.take(gemm.sums_size, gemm.arithmetic.element)
    _pack(builder, gemm)
    builder.phase("", gemm.iterations, gemm.cost, gemm.emit)


def _pack(builder: KernelBuilder, gemm: Gemm) -> None:
    """Add the phase that packs what the plan says, panels of B first, but those that each have one user; tell `gemm`
    where they are."""
    emitters: list[tuple[int, Callable[[Function, Value], None]]] = []
    elements = 0

    def room(side: str) -> Operand:
        nonlocal elements
        copies = math.prod(axis.size for axis in gemm.contraction.outer if getattr(axis, side))
        elements += copies * gemm.packed_size(side)
        return builder.scratch.take(copies * gemm.packed_size(side), gemm.arithmetic.element)

    if gemm.plan.pack_b and gemm.plan.pack_inside:
        share = gemm.panel_size // gemm.contraction.k[0].size * gemm.plan.chunk
        gemm.packed_b = builder.private.take(share, gemm.arithmetic.element)
        gemm.pack_panel = lambda f, *where: emit_panel(f, gemm, *where)
    elif gemm.plan.pack_b:
        gemm.packed_b = panels_b = room("b")
        emitters.append((pack_iterations(gemm, "b"), lambda f, number: emit_pack_b(f, gemm, number, panels_b)))
    if gemm.plan.pack_a:
        gemm.packed_a = panels_a = room("a")
        emitters.append((pack_iterations(gemm, "a"), lambda f, number: emit_pack_a(f, gemm, number, panels_a)))
    if not emitters:
        return
    first, emit_first = emitters[0]

    def emit(f: Function) -> None:
        def one(number: Value) -> None:
            if len(emitters) == 1:
                emit_first(f, number)
                return
            rest = f.index(f.isub(number, first))
            f.if_(f.cmp("slt", number, f.const(first)), lambda: emit_first(f, number), lambda: emitters[1][1](f, rest))

        f.loop(f.begin, f.end, 1, one)
        f.ret()

    iterations = sum(count for count, _ in emitters)
    builder.phase("pack", iterations, 0.3 * elements / iterations, emit)
