"""A contraction as phases of a kernel: packing where it pays, then the compute phase."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from stablehlo_py.backends.common.contraction import Contraction, Operand
from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels.arithmetic import Arithmetic
from stablehlo_py.backends.cpu.kernels.base import Kernel, Part, SharedFunction, finished, phase_function
from stablehlo_py.backends.cpu.kernels.depthwise import Prepare, SharedLanes, shared_lanes
from stablehlo_py.backends.cpu.kernels.finished_tiles import Epilogue, keeps_sums
from stablehlo_py.backends.cpu.kernels.gemm import Gemm, Rooms
from stablehlo_py.backends.cpu.kernels.gemv import LaneSums, RowStream
from stablehlo_py.backends.cpu.kernels.matrix_unit import ROW_BYTES, UnitProduct
from stablehlo_py.backends.cpu.kernels.packing import emit_pack_a, emit_pack_b, pack_iterations
from stablehlo_py.backends.cpu.kernels.shared_tile import shares_tiles
from stablehlo_py.backends.cpu.kernels.symmetric import Mirror, is_symmetric
from stablehlo_py.backends.cpu.kernels.tile_packing import TilePacking
from stablehlo_py.backends.cpu.kernels.tile_sums import emit_unit_product
from stablehlo_py.backends.cpu.kernels.tiling import (
    TALLEST,
    Plan,
    Problem,
    Split,
    make_plan,
    symbolic_plan,
    with_even_shares,
    with_one_height,
)
from stablehlo_py.backends.cpu.kernels.units import fitting_unit
from stablehlo_py.backends.cpu.kernels.vector_sums import emit_row_sums, emit_vector_product
from stablehlo_py.backends.cpu.kernels.vector_unit import VectorProduct
from stablehlo_py.backends.cpu.policy_costs import COSTS
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import Function, Value
from stablehlo_py.codegen.types import ELEMENTS, Element
from stablehlo_py.dialect.symint import HINT, IntLike, bounds, equal, is_known, less, select, size_hint

# Where the number of rows comes with the call there is code for one row, for few, such as 8, and for more than 28, the
# tallest tile, such as 4096. Packing B pays for the latter: it is read often.
FEW_ROWS, MOST_FEW_ROWS, MANY_ROWS = 8, TALLEST, 4096

# Products of few columns: sums of at least so many vectors, of at least so many rows.
NARROW_DEPTH, NARROW_ROWS = 16, 64


class Scratch:
    """Hands out 64-byte aligned pieces of the kernel's scratch, `shared` by all threads or `private` to each."""

    def __init__(self, pointer: str) -> None:
        self.pointer = pointer
        self.bytes: IntLike = 0

    def take(self, count: IntLike, element: Element) -> Operand:
        """Room for `count` scalars."""
        size = element.storage.bits // 8
        start = self.bytes
        self.bytes += -(-count * size // 64) * 64 + 64  # a full vector may be written past the last panel
        return Operand(self.pointer, start // size, element)


@dataclass
class KernelBuilder:
    """The phases of a kernel under construction. `shared`: the functions that they call and other kernels may, too;
    None: they call none."""

    fusion: Fusion
    target: CpuTarget

    def __post_init__(self) -> None:
        self.parts: list[Part] = []
        self.scratch = Scratch("shared")
        self.private = Scratch("private")
        self.shared: set[SharedFunction] | None = set() if self.target.shares_functions else None
        self._variant = ""
        self._condition: IntLike = 1

    @contextmanager
    def only(self, variant: str, condition: IntLike) -> Iterator[None]:
        """Within it, phases have iterations only in calls where `condition` is 1, not 0. `variant` is in their
        names."""
        before = self._variant, self._condition
        self._variant, self._condition = variant, condition
        try:
            yield
        finally:
            self._variant, self._condition = before

    def phase(
        self, suffix: str, iterations: IntLike, cost: float, emit: Callable[[Function], None], least: int = 1
    ) -> None:
        """Add a phase: `emit` writes the body, with its loop over begin..end. A thread has at least a grain of work,
        and `least` iterations."""
        f = phase_function(self.fusion, self.target, "".join(f"_{part}" for part in (self._variant, suffix) if part))
        emit(f)
        grain = max(least, min(size_hint(iterations), COSTS.grain(cost)))
        self.parts.append(finished(f, select(self._condition, iterations, 0), cost, grain))

    def kernel(self) -> Kernel:
        """Of the phases."""
        shared = sorted(self.shared or (), key=lambda function: function.symbol)
        common = {function.symbol: function.text(self.target) for function in shared}
        rooms = self.scratch.bytes, self.private.bytes
        return Kernel.of(*self.parts, shared_bytes=rooms[0], private_bytes=rooms[1], common=common)


def with_best_lanes(contraction: Contraction, arithmetic: Arithmetic) -> Contraction:
    """The contraction, its lanes moved to an axis that A, B and C share where that is what vectorizes (depthwise
    convolutions)."""
    shared = None if arithmetic.complex else shared_lanes(contraction)
    return shared or contraction


def emit_product(
    builder: KernelBuilder,
    contraction: Contraction,
    arithmetic: Arithmetic,
    epilogue: Epilogue,
    prepare: Prepare | None = None,
) -> None:
    """Add the phases of a contraction (one from `with_best_lanes`) to a kernel; the epilogue's axes are its outer, m,
    n. `prepare`: of one whose lanes are shared."""
    if contraction.n.a and contraction.n.b:
        shared = SharedLanes(contraction, arithmetic, epilogue, builder.target, prepare)
        builder.phase("", shared.iterations, shared.cost, shared.emit)
    elif not is_known(contraction.m.size):
        _emit_by_rows(builder, contraction, arithmetic, epilogue)
    elif not contraction.is_known:
        plan = symbolic_plan(contraction, arithmetic, builder.target, HINT, 1)
        _emit_gemm(builder, contraction, arithmetic, epilogue, plan)
    elif unit := fitting_unit(contraction, arithmetic, builder.target):
        _emit_on_unit(builder, unit.product(contraction, epilogue, arithmetic.accumulator))
    elif is_narrow(contraction, arithmetic, builder.target):
        _emit_narrow(builder, contraction, arithmetic, epilogue)
    elif not _emit_few_rows(builder, contraction, arithmetic, epilogue):
        plan = make_plan(contraction, arithmetic, builder.target)
        plan = with_even_shares(plan, Problem(contraction, plan, arithmetic), builder.target)
        _emit_gemm(builder, contraction, arithmetic, epilogue, plan)


def is_narrow(contraction: Contraction, arithmetic: Arithmetic, target: CpuTarget) -> bool:
    """Whether a product has too few columns for half a vector, and long sums along which A is contiguous: vectors run
    along them, once B is transposed."""
    lanes, n = target.lanes(arithmetic.accumulator.bits), contraction.n
    return (
        contraction.is_known
        and not arithmetic.complex
        and len(contraction.k) == 1
        and contraction.k[0].a == 1
        and contraction.k[0].b != 1
        and 1 < n.size <= lanes // 2
        and contraction.depth >= NARROW_DEPTH * lanes
        and contraction.m.size >= NARROW_ROWS
        and not any(axis.b for axis in contraction.outer)
    )


def _emit_narrow(builder: KernelBuilder, contraction: Contraction, arithmetic: Arithmetic, epilogue: Epilogue) -> None:
    """Add the phases of a product that `is_narrow`: its columns are the few rows."""
    few = contraction.swapped()
    (k,), m = few.k, few.m
    size = int(m.size)
    problem = Problem(few, replace(make_plan(few, arithmetic, builder.target), rows=Split(size, size)), arithmetic)
    room = builder.scratch.take(problem.packed_size("a"), arithmetic.element)

    def pack(f: Function) -> None:
        f.loop(f.begin, f.end, 1, lambda number: emit_pack_a(problem, room, f, number))

    builder.phase("pack", size, float(int(k.size)), pack)
    few = replace(few, a=room, m=replace(m, a=k.size), k=(replace(k, a=1),))
    phase = LaneSums(few, arithmetic, epilogue, builder.target, swapped=True)
    builder.phase("", phase.iterations, phase.cost, phase.emit)


def _emit_few_rows(
    builder: KernelBuilder, contraction: Contraction, arithmetic: Arithmetic, epilogue: Epilogue
) -> bool:
    """Add the phase of a product that is bound by reading B, if it is one."""
    for few_rows in (RowStream, LaneSums) if contraction.is_known else ():
        if few_rows.fits(contraction, arithmetic, builder.target):
            phase = few_rows(contraction, arithmetic, epilogue, builder.target)
            builder.phase("", phase.iterations, phase.cost, phase.emit)
            return True
    return False


def _emit_by_rows(builder: KernelBuilder, contraction: Contraction, arithmetic: Arithmetic, epilogue: Epilogue) -> None:
    """Add the phases for a number of rows that a call brings along: code for one row, for few, for many. Those that a
    call has no use for get no iterations."""

    def plan(rows: int, least: int) -> Plan:
        return symbolic_plan(contraction, arithmetic, builder.target, rows, least)

    m = contraction.m
    least, _ = bounds(m.size)
    one: IntLike = 0
    if least <= 1:
        single = replace(contraction, m=replace(m, size=1))
        with builder.only("one", equal(m.size, 1)):
            one = equal(m.size, 1) if _emit_few_rows(builder, single, arithmetic, epilogue) else 0
    if least <= MOST_FEW_ROWS:
        with builder.only("few", less(m.size, MOST_FEW_ROWS + 1) - one):
            _emit_gemm(builder, contraction, arithmetic, epilogue, plan(FEW_ROWS, 1))
    with builder.only("many", less(MOST_FEW_ROWS, m.size)):
        _emit_gemm(builder, contraction, arithmetic, epilogue, plan(MANY_ROWS, MOST_FEW_ROWS + 1))


def _emit_gemm(
    builder: KernelBuilder, contraction: Contraction, arithmetic: Arithmetic, epilogue: Epilogue, plan: Plan
) -> None:
    problem = Problem(contraction, plan, arithmetic)
    stores_twice = epilogue.inline and not problem.in_chunks
    of_one_height = with_one_height(plan, stores_twice)
    # Tiles of one height are little code in the kernel, too.
    in_place = of_one_height is plan and keeps_sums(epilogue, arithmetic.accumulator)
    shares = builder.shared is not None and shares_tiles(
        problem, from_registers=stores_twice, in_place=in_place, reads_elements=epilogue.reads_elements
    )
    if not shares and not arithmetic.complex and not (stores_twice and epilogue.reads_results):
        problem = Problem(contraction, plan := of_one_height, arithmetic)
    sums = builder.private.take(problem.sums_size, arithmetic.element) if problem.in_chunks else None
    rooms = replace(_pack(builder, problem), sums=sums)
    output = None if arithmetic.complex or not is_symmetric(contraction, problem.panel) else epilogue.pure
    levels, half = builder.target.tile_levels, output is not None
    gemm = Gemm(problem, epilogue, rooms, builder.shared, calls_tiles=shares, tile_levels=levels, half=half)
    builder.phase("", gemm.iterations, gemm.cost, gemm.emit, gemm.least_range)
    if output is not None:
        mirror = Mirror(contraction, output, plan.lanes)
        builder.phase("mirror", mirror.iterations, mirror.cost, mirror.emit)


def _emit_on_unit(builder: KernelBuilder, product: UnitProduct) -> None:
    """The phases of a product on a matrix unit, or by instructions like one: packing, then computing."""
    i32 = ELEMENTS["i32"]
    b = product.contraction.b
    product.shared_packing = builder.shared
    packs_b = not product.streams_b and not b.tiled
    sides = [side for side, packed in (("b", packs_b), ("a", product.packs_a)) if packed]
    rooms = {side: builder.scratch.take(product.size_of(side), i32) for side in sides}
    product.room_a, product.room_b = rooms.get("a"), rooms.get("b")
    if b.tiled:
        product.room_b = Operand(b.pointer, 0, i32)
    elif product.streams_b:
        product.room_b = builder.private.take(product.region_size, i32)
    product.sums = builder.private.take(product.sums_size, i32)
    for side in sides:
        iterations = product.pack_iterations(side)
        cost = 0.5 * product.size_of(side) / iterations

        def pack(f: Function, side: str = side) -> None:
            packing = TilePacking(f, product, side)
            f.loop(f.begin, f.end, 1, lambda number: packing.emit(number, rooms[side]))

        builder.phase(f"pack_{side}", iterations, cost, pack)
    if isinstance(product, VectorProduct):
        if product.flips:
            product.room_sums = builder.scratch.take(product.sum_iterations, i32)
            cost = 5 + int(product.contraction.depth) / ROW_BYTES
            builder.phase("sums", product.sum_iterations, cost, lambda f: emit_row_sums(f, product))
        emit: Callable[[Function], None] = partial(emit_vector_product, product=product, shared=builder.shared)
    else:
        emit = partial(emit_unit_product, product=product)
    builder.phase("", product.iterations, product.cost, emit, product.least_range)


def _pack(builder: KernelBuilder, problem: Problem) -> Rooms:
    """Add the phase that packs what the plan says, panels of B first, but those that each have one user; where they
    are."""
    plan, element = problem.plan, problem.arithmetic.element
    rooms = Rooms()
    emitters: list[tuple[IntLike, Callable[[Function, Value], None]]] = []
    elements: IntLike = 0

    def room(side: str) -> Operand:
        nonlocal elements
        copies = math.prod(axis.size for axis in problem.contraction.outer if getattr(axis, side))
        elements += copies * problem.packed_size(side)
        return builder.scratch.take(copies * problem.packed_size(side), element)

    if plan.keeps_panel:
        rooms = replace(rooms, panel=builder.private.take(problem.panel_size, element))
    elif plan.pack_b and plan.pack_inside != 0:
        share = problem.panel_size // problem.contraction.k[0].size * plan.chunk
        rooms = replace(rooms, inside=plan.pack_inside, panel=builder.private.take(share, element))
    if plan.pack_b and plan.pack_inside != 1 and not plan.keeps_panel:
        panels_b = room("b")
        rooms = replace(rooms, b=panels_b)
        pack_b = partial(emit_pack_b, problem, panels_b)
        emitters.append((pack_iterations(problem, "b"), pack_b))
    if plan.pack_a:
        panels_a = room("a")
        rooms = replace(rooms, a=panels_a)
        pack_a = partial(emit_pack_a, problem, panels_a)
        emitters.append((pack_iterations(problem, "a"), pack_a))
    if not emitters:
        return rooms
    panels = sum(count for count, _ in emitters)
    first, emit_first = emitters[0]
    if rooms.b:
        first = select(plan.pack_inside, 0, first)

    def emit(f: Function) -> None:
        def one(number: Value) -> None:
            if len(emitters) == 1:
                emit_first(f, number)
                return
            rest = f.index(f.isub(number, first))
            f.if_(f.cmp("slt", number, f.index(first)), lambda: emit_first(f, number), lambda: emitters[1][1](f, rest))

        f.loop(f.begin, f.end, 1, one)

    iterations = first + sum(count for count, _ in emitters[1:])
    builder.phase("pack", iterations, COSTS.pack_ns * size_hint(elements) / size_hint(panels), emit)
    return rooms
