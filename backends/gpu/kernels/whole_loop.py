"""A loop as one kernel of one block of threads: the kernels of its condition and of its body are parts of it (part.py),
one after another, as the host would start them.

Values lie where buffer assignment has put them, and go from part to part through memory. A barrier comes between two
parts where one of them writes what the other one reads or writes, so all threads take the same branches: they read the
same predicate. A kernel has a limit of trips; where a loop may take more, the kernel says whether the loop has ended,
and the next launch goes on with what the last one has left in memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from stablehlo_py.backends.common.walk import Walk
from stablehlo_py.backends.gpu.kernels import emit_kernel
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, Launch
from stablehlo_py.backends.gpu.kernels.part import Part, PartTarget, SharedMemory
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.builder import I8, I32, I64, Function, Index, ScalarType, Value
from stablehlo_py.dialect.attributes import DONATIONS
from stablehlo_py.dialect.calls import functions_of
from stablehlo_py.dialect.memory import INPUT, OUTPUT, Slice
from stablehlo_py.dialect.trips import trip_count
from stablehlo_py.dialect.types import byte_size, element_type, is_tensor
from stablehlo_py.mlir import ir

STATE_BYTES = 64  # of scratch memory, before that of the parts: an i32, whether the loop goes on
_SHARED, _SCRATCH = Slice(-1, 0, 0, 1), Slice(-2, 0, 0, 1)  # what all parts have of these

Buffer = tuple[int, int]  # space and number


@dataclass(frozen=True)
class WholeLoop:
    """A loop that is one kernel.

    Attributes:
        name, kernel: its pointers are those of `buffers`, in order.
        ends: whether one launch is the whole loop; else the state of the kernel says whether it is.
        shared_bytes: of the block.
    """

    name: str
    kernel: GpuKernel
    buffers: tuple[Buffer, ...]
    ends: bool
    shared_bytes: int


@dataclass(frozen=True)
class Plan:
    """How a loop becomes a kernel.

    Attributes:
        loop: the `scf.while`. name: the kernel's.
        kernels: of the fusions that it calls, as launches of their own, by name.
        threads: of the block, a multiple of those of every kernel.
        most_trips: of a launch.
    """

    loop: ir.OpView
    name: str
    kernels: Mapping[str, GpuKernel]
    threads: int
    most_trips: int


def emit(module: ir.Module, plan: Plan, slices: Mapping[ir.Value, Slice], target: GpuTarget) -> WholeLoop:
    """The kernel of a loop; `slices` are those of all values that it uses."""
    return _Writer(module, plan, slices, target).emit()


class _Writer(Walk[Value]):
    def __init__(self, module: ir.Module, plan: Plan, slices: Mapping[ir.Value, Slice], target: GpuTarget) -> None:
        super().__init__(module)
        self.slices.update(slices)
        self.plan, self.target, self.functions = plan, target, functions_of(module)
        self.buffers = tuple(dict.fromkeys(slices[value].buffer for value in _values(plan.loop)))
        names = {buffer: f"buffer{number}" for number, buffer in enumerate(self.buffers)}
        f = self.f = target.kernel(plan.name, [*names.values(), "scratch"], 1, plan.threads)
        self.bases = {buffer: f.parameters[name] for buffer, name in names.items()}
        self.shared = SharedMemory(f)
        self.order = _Order(f, _donated(module))
        self.called: dict[str, str] = {}  # functions, and what else parts come with
        self.tables: dict[str, str] = {}
        self.ends = True

    def emit(self) -> WholeLoop:
        """The kernel."""
        f, kernels = self.f, self.plan.kernels.values()
        self._while(self.plan.loop)
        f.ret()
        scratch = STATE_BYTES + max((kernel.scratch_bytes for kernel in kernels), default=0)
        functions = {**self.called, f.name: f.text()}
        kernel = GpuKernel((Launch.of(f),), functions, f.externals, self.tables, scratch, len(self.buffers) + 1)
        return WholeLoop(f.name, kernel, self.buffers, self.ends, self.shared.bytes)

    # --- steps -------------------------------------------------------------------------------------------------------

    def steps(self, ops: Sequence[ir.OpView]) -> None:
        for op in ops:
            if op.operation.name == "hlo.copy":
                self._copy(self.slices[op.operands[0]], self.slices[op.results[0]])
            else:
                self._call(op)

    def _pointer(self, place: Slice) -> Value:
        return self.f.gep(self.bases[place.buffer], place.offset, I8)

    def _copy(self, source: Slice, to: Slice) -> None:
        f, size = self.f, int(to.size)
        self.order.comes([source], [to])
        width = math.gcd(size, int(source.offset), int(to.offset), 8)
        of, (start, end) = ScalarType(f"i{8 * width}", 8 * width), map(self._pointer, (source, to))
        f.loop(f.thread_number(), size // width, self.plan.threads, lambda i: f.store(f.load(of, start, i), end, i))

    def _call(self, op: ir.OpView) -> None:
        name = op.attributes["callee"].value
        kernel = self.plan.kernels[name]
        reads, writes = ([self.slices[value] for value in values] for values in (op.operands, op.results))
        pointers = {f"in{number}": self._pointer(place) for number, place in enumerate(reads)}
        pointers |= {f"out{number}": self._pointer(place) for number, place in enumerate(writes)}
        pointers["scratch"] = self.f.gep(self.f.scratch, STATE_BYTES, I8)
        used = [_SCRATCH] if kernel.scratch_bytes else []
        for launch in kernel.launches:
            self.order.comes(reads, [*writes, *used, *([_SHARED] if launch.meets else [])])
            self._part(launch, self.functions[name].opview, pointers)

    def _part(self, launch: Launch, function: ir.OpView, pointers: Mapping[str, Value]) -> None:
        """The blocks of a launch, as many side by side as there are threads for."""
        f, beside = self.f, self.plan.threads // launch.threads

        def write(block: Index, exists: Value | None) -> None:
            part = Part(f, pointers, launch, block, exists, self.shared)
            made = emit_kernel(function, PartTarget.taking(part, self.target))
            own = {each.symbol for each in made.launches}
            self.called |= {name: text for name, text in made.functions.items() if name not in own}
            self.tables |= made.tables
            f.emit.declarations.update(made.externals)

        def blocks(first: Index) -> None:
            block = f.iadd(first, f.idiv(f.thread_number(), launch.threads)) if beside > 1 else first
            if launch.blocks % beside == 0:
                write(block, None)
            else:
                exists = f.cmp("slt", f.index(block), f.const(launch.blocks))
                if launch.meets:
                    write(f.imin(block, launch.blocks - 1), exists)
                else:
                    f.if_(exists, lambda: write(block, None))
            if again:
                f.barrier()  # the next blocks have the same shared memory

        again = launch.meets and launch.blocks > beside
        f.loop(0, launch.blocks, beside, blocks)
        if again:
            self.order.state = _Accesses()

    # --- control flow ------------------------------------------------------------------------------------------------

    def element(self, value: ir.Value) -> Value:
        self.order.comes([self.slices[value]], [])
        type_, f = element_type(value), self.f
        bits = 8 * byte_size(type_)
        loaded = f.load(ScalarType(f"i{bits}", bits), self._pointer(self.slices[value]))
        return f.cmp("ne", loaded, f.const(0, I8)) if type_.width == 1 else loaded

    def index(self, scalar: Value, *, unsigned: bool) -> Value:
        return self.f.cast("zext" if unsigned else "sext", scalar, I64)

    def equal(self, scalar: Value, number: int) -> Value:
        return self.f.cmp("eq", scalar, self.f.const(number))

    def branch(self, condition: Value, then: Callable[[], None], otherwise: Callable[[], None] | None) -> None:
        order, before = self.order, self.order.state
        after = []

        def way(steps: Callable[[], None]) -> None:
            order.state = before
            steps()
            after.append(order.state)

        self.f.if_(condition, lambda: way(then), (lambda: way(otherwise)) if otherwise else None)
        order.state = _Accesses.joined(after if otherwise else [before, *after])

    def in_one(self, op: ir.OpView) -> bool:
        """Loops of known trips, unless they are too many for one launch."""
        trips = trip_count(op, self.functions)
        if trips is None or (op == self.plan.loop and trips > self.plan.most_trips):
            return False
        self.order.meet()
        self.f.loop(0, trips, 1, lambda _: self._trip(lambda: self._block(op.regions[1].blocks[0])))
        return True

    def loop(self, condition: Callable[[], Value], body: Callable[[], None]) -> None:
        """The loop itself, up to so many trips."""
        f = self.f
        most = f.const(self.plan.most_trips, I32)
        self.ends = False
        left = _Accesses()

        def goes_on(trips: Value) -> Value:
            nonlocal left
            go = f.binary("and", condition(), f.cmp("slt", trips, most))
            left = self.order.state
            return go

        def trip(trips: Value) -> list[Value]:
            self._trip(body)
            return [f.binary("add", trips, f.const(1, I32))]

        (trips,) = f.while_([f.const(0, I32)], goes_on, trip)
        self.order.state = left
        first = f.cmp("eq", f.thread_number(), f.const(0))
        state = f.cast("zext", f.cmp("eq", trips, most), I32)
        f.if_(first, lambda: f.store(state, f.scratch))

    def _trip(self, body: Callable[[], None]) -> None:
        body()
        self.order.meet()


@dataclass(frozen=True)
class _Accesses:
    """What threads may have read and written since they met."""

    read: tuple[Slice, ...] = ()
    written: tuple[Slice, ...] = ()

    @classmethod
    def joined(cls, ways: Iterable[_Accesses]) -> _Accesses:
        """Of one of several ways."""
        each = list(ways)
        return cls(
            tuple(itertools.chain(*(way.read for way in each))), tuple(itertools.chain(*(way.written for way in each)))
        )


class _Order:
    """Barriers where they are needed.

    Attributes:
        state: what came since the last one.
    """

    def __init__(self, f: Function, same: Mapping[Buffer, Buffer]) -> None:
        self.f, self.same, self.state = f, same, _Accesses()

    def comes(self, reads: Sequence[Slice], writes: Sequence[Slice]) -> None:
        """The next step reads and writes this."""
        if self._meets(reads, self.state.written) or self._meets(writes, (*self.state.read, *self.state.written)):
            self.meet()
        self.state = _Accesses((*self.state.read, *reads), (*self.state.written, *writes))

    def meet(self) -> None:
        """Nothing comes before what others have done."""
        if self.state != _Accesses():
            self.f.barrier()
        self.state = _Accesses()

    def _meets(self, some: Iterable[Slice], others: Sequence[Slice]) -> bool:
        return any(self._overlap(a, b) for a in some for b in others)

    def _overlap(self, a: Slice, b: Slice) -> bool:
        if self.same.get(a.buffer, a.buffer) != self.same.get(b.buffer, b.buffer):
            return False
        return not a.size or not b.size or a.buffer != b.buffer or a.overlaps(b)


def _donated(module: ir.Module) -> dict[Buffer, Buffer]:
    """Outputs that are the buffers of inputs."""
    attributes = module.operation.attributes
    numbers = tuple(attributes[DONATIONS]) if DONATIONS in attributes else ()
    return {(OUTPUT, output): (INPUT, source) for source, output in zip(numbers[::2], numbers[1::2], strict=True)}


def _values(loop: ir.OpView) -> list[ir.Value]:
    """The tensors that steps of a loop read and write, and its predicates."""
    found = list[ir.Value]()

    def visit(op: ir.Operation) -> ir.WalkResult:
        found.extend(value for value in (*op.operands, *op.results) if is_tensor(value))
        return ir.WalkResult.ADVANCE

    loop.operation.walk(visit)
    return found
