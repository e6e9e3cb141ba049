"""Loops of a program that are one kernel each (kernels/whole_loop.py): which are, and how large their blocks are.

Where the work of a trip is small, the time of a loop is that of starting its kernels, and of waiting for predicates.
One block of threads does such work in less. A loop is taken as a whole or not at all, outer loops before inner ones;
the numbers are in policy.py. Of inner loops it must be known how often they run: else nobody knew when the kernel ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.roofline import work_of
from stablehlo_py.backends.common.walk import STEPS, WITHOUT_CODE
from stablehlo_py.backends.gpu.kernels import KINDS, emit_kernel, whole_loop
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, Launch
from stablehlo_py.backends.gpu.kernels.whole_loop import Plan, WholeLoop
from stablehlo_py.backends.gpu.policy import ONE_BLOCK
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.dialect.calls import functions_of, main_function
from stablehlo_py.dialect.memory import INPUT, Slice, slices_of
from stablehlo_py.dialect.trips import trip_count
from stablehlo_py.dialect.types import is_tensor
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir

# Kinds whose barriers do not depend on the number of the block, so that several blocks can be side by side.
_UNIFORM = frozenset("column convolution dot fft in_place_update loop row sort top_k".split())
_UNIFORM_IF_ONE = _UNIFORM | {"reduce_window", "reduce_window_general"}  # of one block
_SCALARS = ("tensor.extract", "arith.index_cast", "arith.index_castui")
_BRANCHES = ("scf.if", "scf.index_switch")


def whole_loops(module: ir.Module, target: GpuTarget) -> dict[ir.Value, WholeLoop]:
    """The loops of a scheduled module that are kernels, by their first results."""
    chosen = _Choice(module, target)
    chosen.block(main_function(module).regions[0].blocks[0])
    return chosen.found


def only_inside(module: ir.Module, loops: Iterable[ir.Value]) -> set[str]:
    """The fusions that nothing calls but these loops."""
    inside, everywhere = list[str](), list[str]()
    for found, op in [(inside, loop.owner) for loop in loops] + [(everywhere, main_function(module))]:
        op.operation.walk(lambda each, found=found: _called(each, found))
    return {name for name in inside if inside.count(name) == everywhere.count(name)}


def _called(op: ir.Operation, found: list[str]) -> ir.WalkResult:
    if op.name == "func.call":
        found.append(op.attributes["callee"].value)
    return ir.WalkResult.ADVANCE


class _Whole(Exception):
    """A loop is no kernel."""


@dataclass
class _Cost:
    """Seconds of some steps in one block, and those that the host takes to start their kernels."""

    block: float = 0.0
    host: float = 0.0


@dataclass(frozen=True)
class _Fusion:
    kernel: GpuKernel
    kind: str
    block: float  # seconds


class _Choice:
    def __init__(self, module: ir.Module, target: GpuTarget) -> None:
        # Small blocks: threads that have nothing to do cost time at every barrier.
        self.target = replace(target, block=target.subgroup)
        self.module, self.functions = module, functions_of(module)
        self.slices = _slices(module)
        self.fusions: dict[str, _Fusion | None] = {}
        self.found: dict[ir.Value, WholeLoop] = {}

    def block(self, block: ir.Block) -> None:
        """Take the loops of a block, or those inside them."""
        for op in block.operations:
            whole = self._whole(op) if op.operation.name == "scf.while" and len(op.results) else None
            if whole is not None:
                self.found[op.results[0]] = whole
                continue
            for region in op.regions:
                for inner in region.blocks:
                    self.block(inner)

    def _whole(self, loop: ir.OpView) -> WholeLoop | None:
        """The kernel of a loop, if it pays."""
        try:
            one = _Loop(self, loop)
            cost = one.trip()
        except _Whole:
            return None
        trips = trip_count(loop, self.functions)
        host = cost.host + (ONE_BLOCK.wait if trips is None else 0.0)
        most_trips = min(int(ONE_BLOCK.longest / max(cost.block, 1e-9)), (1 << 31) - 1)
        threads = one.threads()
        if cost.block > host or most_trips < 1 or threads is None or trips == 0:
            return None
        kernels = {name: each.kernel for name, each in one.called.items()}
        plan = Plan(loop, f"while_{len(self.found)}", kernels, threads, most_trips)
        unchecked = whole_loop.emit(self.module, plan, self.slices, self.target.unchecked)
        if unchecked.shared_bytes > self.target.shared_bytes:
            return None
        is_checked = self.target is not self.target.unchecked  # then of what is taken alone
        return whole_loop.emit(self.module, plan, self.slices, self.target) if is_checked else unchecked

    def fusion(self, name: str) -> _Fusion | None:
        """A fusion as kernels of its own; None: there are none."""
        if name not in self.fusions:
            function = self.functions[name].opview
            try:
                kernel = emit_kernel(function, self.target.unchecked)
                # Machine code that another generator made is no part of ours.
                self.fusions[name] = None if kernel.module else _estimated(Fusion.read(function), kernel)
            except UnsupportedError:
                self.fusions[name] = None
        return self.fusions[name]


def _estimated(fusion: Fusion, kernel: GpuKernel) -> _Fusion:
    work, threads = work_of(fusion), sum(_threads(launch) for launch in kernel.launches)
    rate = ONE_BLOCK.rate if fusion.kind in KINDS else min(ONE_BLOCK.serial_rate * threads, ONE_BLOCK.rate)
    busy = max(work.bytes / ONE_BLOCK.bandwidth, work.flops / rate if work.flops else 0.0)
    return _Fusion(kernel, fusion.kind, busy + ONE_BLOCK.phase * len(kernel.launches))


def _is_uniform(kind: str, launch: Launch) -> bool:
    return kind in (_UNIFORM_IF_ONE if launch.blocks == 1 else _UNIFORM)


def _threads(launch: Launch) -> int:
    return launch.blocks * launch.threads


class _Loop:
    """What a loop would be as one kernel.

    Attributes:
        called: the fusions that it calls.
    """

    def __init__(self, choice: _Choice, loop: ir.OpView) -> None:
        self.choice, self.loop = choice, loop
        self.called: dict[str, _Fusion] = {}
        self.launches = 0
        self.scalars: set[ir.Value] = set()  # predicates and indices that it reads itself

    def trip(self) -> _Cost:
        """Of a trip. Raises _Whole: it cannot be a kernel."""
        return _sum(self._block(region.blocks[0]) for region in self.loop.regions)

    def threads(self) -> int | None:
        """Of the block; None: its kernels do not go together."""
        launches = [(each.kind, launch) for each in self.called.values() for launch in each.kernel.launches]
        alone = {launch.threads for kind, launch in launches if launch.meets and not _is_uniform(kind, launch)}
        threads = max((launch.threads for _, launch in launches), default=self.choice.target.subgroup)
        most = min(ONE_BLOCK.threads, self.choice.target.most_threads)
        while not alone and 2 * threads <= most and any(_threads(launch) > threads for _, launch in launches):
            threads *= 2
        fitting = alone <= {threads} and all(threads % launch.threads == 0 for _, launch in launches)
        return threads if fitting else None

    def _block(self, block: ir.Block) -> _Cost:
        return _sum(map(self._op, block.operations))

    def _op(self, op: ir.OpView) -> _Cost:
        name = op.operation.name
        if any(not is_tensor(value) and value not in self.scalars for value in op.operands):
            raise _Whole  # the host has read it
        if name in STEPS:
            return self._step(op)
        if name in _SCALARS:
            self.scalars.update(op.results)
        elif name in _BRANCHES:
            ways = [self._block(region.blocks[0]) for region in op.regions if len(region.blocks)]
            least = min(way.host for way in ways) if len(ways) > 1 else 0.0
            return _Cost(max(way.block for way in ways), least + ONE_BLOCK.wait)
        elif name == "scf.while":
            trips = trip_count(op, self.choice.functions)
            if trips is None:
                raise _Whole
            trip = _sum(self._block(region.blocks[0]) for region in op.regions)
            return _Cost(trips * trip.block, trips * trip.host)
        elif name not in WITHOUT_CODE:
            raise _Whole
        return _Cost()

    def _step(self, op: ir.OpView) -> _Cost:
        if op.operation.name == "hlo.copy":
            self._count(1)
            moved = 2 * int(slices_of(op)[0].size)
            return _Cost(moved / ONE_BLOCK.bandwidth + ONE_BLOCK.phase, ONE_BLOCK.launch)
        name = op.attributes["callee"].value
        found = self.choice.fusion(name)
        if found is None:
            raise _Whole
        self.called[name] = found
        self._count(len(found.kernel.launches))
        return _Cost(found.block, ONE_BLOCK.launch * len(found.kernel.launches))

    def _count(self, launches: int) -> None:
        self.launches += launches
        if self.launches > ONE_BLOCK.kernels:
            raise _Whole


def _sum(costs: Iterable[_Cost]) -> _Cost:
    total = _Cost()
    for cost in costs:
        total = _Cost(total.block + cost.block, total.host + cost.host)
    return total


def _slices(module: ir.Module) -> Mapping[ir.Value, Slice]:
    """Where all values of `@main` lie."""
    main = main_function(module)
    found = {each: Slice(INPUT, number, 0, 0) for number, each in enumerate(main.regions[0].blocks[0].arguments)}

    def visit(op: ir.Operation) -> ir.WalkResult:
        places = slices_of(op)
        found.update(zip(op.results, places, strict=False))
        if op.name == "scf.while":
            for region in op.regions:
                found.update(zip(region.blocks[0].arguments, places, strict=True))
        return ir.WalkResult.ADVANCE

    main.operation.walk(visit)
    return found
