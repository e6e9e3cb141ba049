"""How a CPU runs a program (backends/common/program.py): a phase worth more than one thread is handed to the pool,
everything else is a direct call. A program of a grid has its process as one more input.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from stablehlo_py.backends.common.fusion import fusions
from stablehlo_py.backends.common.program import Call, Calls, NativeProgram, arena_bytes, repeated, step_name
from stablehlo_py.backends.cpu import grid, layout
from stablehlo_py.backends.cpu.callers import HEAD, Callers, declare, kernel_address
from stablehlo_py.backends.cpu.kernels.base import Kernel, Phase
from stablehlo_py.backends.cpu.policy_costs import COSTS
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.backends.cpu.tiles import are_permitted
from stablehlo_py.codegen.builder import I1, I8, I32, I64, PTR, Function, Value
from stablehlo_py.codegen.size_table import SizeTable
from stablehlo_py.codegen.target import X86_64
from stablehlo_py.dialect.alignment import aligned
from stablehlo_py.dialect.attributes import FUSION, UNREAD
from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.memory import FreeMemory, Slice, free_memory, slices_of
from stablehlo_py.dialect.symint import IntLike, is_known, largest, maximum, minimum, size_hint
from stablehlo_py.dialect.types import tensor_bytes, text, user_location
from stablehlo_py.mlir import ir
from stablehlo_py.runtime.entry import ENDED, FAILED, NO_TILES

CHUNKS_PER_THREAD = 4
UNEQUAL = 1.05  # shares so much longer than the shortest count as equal
OPERANDS = 512  # few kernels have more
COMPACT_STEPS = 8  # outside of loops; from so many on, kernels are called by functions that they share (callers.py)
MOST_COMPACT = 8  # phases of such a kernel; of more, most repeat, and are a loop
LIGHT_BYTES = 1 << 16  # of all values together
LIGHT_STEPS = 64
# Kinds that read all of their operands, but for slices and gathers within; bytes that no core reads in the time of a
# light program.
WHOLE = ("column", "dot", "reduce_general", "row", "sort", "top_k")
MOST_READ = int(COSTS.light_ns * 100)


def may_be_light(module: ir.Module) -> bool:
    """Whether a program may be light (`CpuProgram.is_light`), as far as can be seen before its kernels are written."""
    ops = main_function(module).regions[0].blocks[0].operations
    if len(ops) > LIGHT_STEPS:
        return False
    places = set()
    for op in ops:
        if op.operation.name == "scf.while":
            return False
        places.update(slices_of(op))
    if not all(isinstance(place.size, int) for place in places) or _bytes(places) >= LIGHT_BYTES:
        return False
    return not any(_reads_much(function) for function in fusions(module))


def _reads_much(function: ir.OpView) -> bool:
    """Whether a fusion goes through operands of so many bytes that a light program has no time for them."""
    arguments = function.regions[0].blocks[0].arguments
    return text(function, FUSION) in WHOLE and any(size_hint(tensor_bytes(value)) > MOST_READ for value in arguments)


def _bytes(places: Set[Slice]) -> int:
    """Of all places together; a view's is that of its operand."""
    return sum(int(place.size) for place in places)


@dataclass(frozen=True)
class Scratch:
    """Where in the arena the scratch of a kernel lies, in places where nothing lives at its calls: what threads share,
    then so many bytes for each."""

    shared: IntLike
    private: IntLike
    private_bytes: IntLike

    @classmethod
    def of(cls, kernel: Kernel, free: FreeMemory, threads: int) -> Scratch:
        """Of a kernel that so many threads run."""
        shared, private = aligned(kernel.shared_bytes), aligned(kernel.private_bytes)
        begin = free.place_for(shared + private * threads)
        return cls(begin, begin + shared, private)

    def end(self, threads: int) -> IntLike:
        """Where that of so many threads ends."""
        return self.private + self.private_bytes * threads


class CpuProgram(NativeProgram):
    """The entry of a scheduled module, `kernels` by the name of their fusion function, and how much memory a call needs
    beyond the planned arena. `sites` are the ops that communicate, for messages."""

    def __init__(
        self,
        module: ir.Module,
        kernels: Mapping[str, Kernel],
        target: CpuTarget,
        threads: int,
        sizes: SizeTable | None = None,
    ) -> None:
        super().__init__(module, target.emitter, sizes)
        self.kernels = kernels
        self.threads = threads
        self._target = target
        planned, free = arena_bytes(module), free_memory(module)
        behind = FreeMemory((), planned)
        self.scratch = {name: Scratch.of(kernel, free.get(name, behind), threads) for name, kernel in kernels.items()}
        self.private_bytes = largest(scratch.private_bytes for scratch in self.scratch.values())
        self.arena_bytes = largest([aligned(planned), *(scratch.end(threads) for scratch in self.scratch.values())])
        self.sites: list[str] = []
        self._ns = 0.0  # what a call of each kernel takes, as the kernels estimate it
        self._callers = Callers(target.emitter, self.gather)
        self._ending = {name for name, each in kernels.items() if each.communicates or each.may_fail or each.loops}
        self._is_compact = not target.is_light and _steps_outside(self.main) >= COMPACT_STEPS
        self._compact: dict[str, Calls] = {}  # by name of the kernel
        self._contexts: dict[tuple[str, int], Value] = {}  # by function and size
        self._alone, self._parted = self._of_short_trips() if threads > 1 else (set[str](), set[str]())
        self._shares = threads > 1 and self._pays_for_threads()
        self.uses_tiles = any(kernel.uses_tiles for kernel in kernels.values())
        if self.uses_tiles:
            refused = self.f.binary("xor", are_permitted(self.f), self.f.const(1, I1))
            self.f.ret_if(refused, self.f.const(NO_TILES, I32))
        self.emit()
        is_optimized = target.is_light or self._has_short_steps()
        self.f.emit.is_optimized = is_optimized  # a step that runs once takes as long as its kernel
        for name, function in self._tabled.items():
            function.emit.is_optimized = is_optimized or not self._is_long(name)
        for caller in self._callers.functions.values():
            caller.emit.is_optimized = is_optimized

    @property
    def uses_pool(self) -> bool:
        """Whether any phase asks for threads."""
        return self._callers.uses_pool

    @property
    def is_light(self) -> bool:
        """Whether a call takes so little that nobody notices how good its code is: less than waking a thread."""
        if self.sizes or self.loops or self.table:
            return False
        return self._ns < COSTS.light_ns and _bytes(set(self.slices.values())) < LIGHT_BYTES

    @property
    def is_quick(self) -> bool:
        """Whether it is over so soon that nobody notices what code without optimization takes longer, up to 20 ns. On
        x86-64, where it was measured."""
        return self._target.architecture is X86_64 and self._ns < COSTS.quick_ns

    def _is_long(self, step: str) -> bool:
        """Whether a kernel takes so long that nobody notices how good the code is that calls it."""
        phases = self.kernels[step].phases if step in self.kernels else ()
        return sum(phase.nanoseconds for phase in phases) >= COSTS.light_ns

    def _has_short_steps(self) -> bool:
        """Whether the kernels of a loop are over so soon that the code that calls them counts."""
        left: dict[ir.Operation, float] = {}  # of a trip, beyond what makes so many calls not count

        def visit(op: ir.Operation) -> ir.WalkResult:
            if _is_made(op):
                taken = sum(phase.nanoseconds for phase in self.kernels[step_name(op)].phases)
                for loop in _loops_around(op):
                    left[loop] = left.get(loop, 0.0) + taken - COSTS.called_ns
            return ir.WalkResult.ADVANCE

        self.main.operation.walk(visit)
        return any(each < 0 for each in left.values())

    def helpers(self) -> Sequence[Function]:
        """What calls kernels, and hands phases to threads."""
        return [*self._callers.functions.values()]

    # --- kernels after which the program may have to end -------------------------------------------------------------

    def may_end(self, op: ir.OpView | ir.Operation) -> bool:
        """Kernels that fail, are ended, or wait for others."""
        return bool(self._ending) and op.name == "func.call" and step_name(op) in self._ending

    def step_or_end(self, op: ir.OpView) -> None:
        """Run a kernel. Where it fails, or is ended, return: its results are worth nothing, and a loop over them may
        never end."""
        kernel, f = self.kernels[step_name(op)], self.f
        if kernel.communicates:
            self._communicate(op, kernel.communicates)
            return
        record = f.gep(self.arena, self.scratch[step_name(op)].shared, I8)
        if kernel.loops:
            f.store(self.interrupt(), record)
        self.steps([op])
        left = f.cmp("ne", f.cast("ptrtoint", f.load(PTR, record), I64), f.const(0))
        if kernel.may_fail:
            f.if_(left, lambda: self._leave(record), unlikely=True)
        f.ret_if(left, f.const(FAILED if kernel.may_fail else ENDED, I32))

    def _leave(self, record: Value) -> None:
        """Tell a caller who asks where the record of a failure lies."""
        f, error = self.f, self.given("error")
        f.if_(f.cmp("ne", f.cast("ptrtoint", error, I64), f.const(0)), lambda: f.store(record, error))

    def _communicate(self, op: ir.OpView, name: str) -> None:
        """Say where this process is; run the kernel; return where the grid has failed."""
        f, arguments = self.f, self.main.regions[0].blocks[0].arguments
        record = grid.read(f, self.pointer(arguments[len(arguments) - 1]), layout.RECORD, PTR)
        f.store(f.const(len(self.sites)), grid.field(f, record, layout.SITE))
        self.sites.append(f"'{name}' at {user_location(op.location) or 'an unknown place'}")
        self.steps([op])
        f.ret_if(grid.has_failed(f, grid.read(f, record, layout.HEADER, PTR)), f.const(ENDED, I32))

    # --- phases ------------------------------------------------------------------------------------------------------

    def start(self, f: Function, kernel: str, pointers: Sequence[Value], arena: Value) -> None:
        """Emit the phases of a kernel."""
        scratch = self.scratch[kernel]
        values = [*pointers, *self.sizes, *(f.gep(arena, at, I8) for at in (scratch.shared, scratch.private))]
        phases = self._phases(kernel)
        if any(chunk for _, chunk in phases):
            self._fill_context(f, values, scratch.private_bytes)

        def run(phase: Phase, chunk: IntLike | None) -> None:
            iterations = f.index(phase.iterations)

            def alone() -> None:
                f.call(phase.symbol, [*values, f.const(0), iterations], external=True)

            def shared() -> None:
                context = self._context(f, len(values))
                f.store(kernel_address(f, phase.symbol, len(values)), context)
                self._callers.parallel(f, context, len(values), iterations, f.index(chunk or 0))

            if chunk is None:
                alone()
            elif is_known(phase.iterations):
                shared()
            else:
                f.if_(f.cmp("sge", iterations, f.const(2 * phase.grain)), shared, alone)

        repeated(f, phases, lambda each: run(*each))

    def is_tabled(self, op: ir.OpView | ir.Operation, calls: int) -> bool:
        """Of what is called often, and of kernels outside of loops where these are many."""
        return super().is_tabled(op, calls) or self._is_compact_step(op)

    def calls_of(self, op: ir.OpView, places: list[tuple[int, int]]) -> Calls:
        """Outside of loops, kernels are called by functions that they share. Scratch is two more operands."""
        if not self._is_compact_step(op):
            return super().calls_of(op, places)
        name = step_name(op)
        scratch = self.scratch[name]
        places += [(0, int(scratch.shared)), (0, int(scratch.private))]  # the arena is the first of all bases
        phases = self._phases(name)
        if name not in self._compact:
            self._compact[name] = tuple(self._shared_call(scratch, len(places), *each) for each in phases)
        return self._compact[name]

    def _shared_call(self, scratch: Scratch, count: int, phase: Phase, chunk: IntLike | None) -> Call:
        """What calls a phase with so many operands, and what it gets besides them."""
        declare(self.f, phase.symbol, count)
        own = phase.symbol, int(phase.iterations)
        if chunk is None:
            return self._callers.run(count), own
        return self._callers.share(count), (*own, int(chunk), int(scratch.private_bytes))

    def _is_compact_step(self, op: ir.OpView | ir.Operation) -> bool:
        is_call = op.operation.name == "func.call" and not self.may_end(op.operation)
        if not self._is_compact or not is_call or _in_loop(op):
            return False
        return step_name(op) not in self.kernels or len(self.kernels[step_name(op)].phases) <= MOST_COMPACT

    def _phases(self, kernel: str) -> list[tuple[Phase, IntLike | None]]:
        """The phases of a call of a kernel, with the iterations of a chunk of those that threads share."""
        phases = [phase for phase in self.kernels[kernel].phases if phase.iterations != 0]
        self._ns += sum(phase.nanoseconds for phase in phases)
        shares = self._shares and kernel not in self._alone
        chunk = self._part if kernel in self._parted else self._chunk
        return [(phase, chunk(phase) if shares else None) for phase in phases]

    def _chunk(self, phase: Phase) -> IntLike | None:
        """Iterations of a chunk when the phase is worth threads, else None. Depends on shapes and the thread count
        only."""
        iterations, most = phase.iterations, CHUNKS_PER_THREAD * self.threads
        if not isinstance(iterations, int):
            return -(-iterations // maximum(2, minimum(most, iterations // max(1, phase.grain))))
        if iterations < 2 * phase.grain:
            return None
        return _chunk_of(iterations, size_hint(phase.grain), self.threads)

    def _pays_for_threads(self) -> bool:
        """Whether a call pays for waking threads: its phases that ask for them take so long together, or are in a loop,
        where threads stay awake."""

        total, least = 0.0, COSTS.wake_ns

        def visit(op: ir.Operation) -> ir.WalkResult:
            nonlocal total, least
            if op.name == "scf.while":
                least = COSTS.asleep_ns
            is_shared = _is_made(op) and step_name(op) not in self._alone
            for phase in self.kernels[step_name(op)].phases if is_shared else ():
                if self._chunk(phase) is not None:
                    known = isinstance(phase.iterations, int) and not _in_loop(op)
                    total += int(phase.iterations) * phase.cost if known else math.inf
            return ir.WalkResult.ADVANCE

        self.main.operation.walk(visit)
        return total >= least

    def _of_short_trips(self) -> tuple[set[str], set[str]]:
        """The kernels of loops with short trips, in which what threads read and write would go from core to core in
        each trip: those that one thread does, where what asks for no threads has a large part, and those of which each
        thread does the same part in each trip."""
        steps: dict[ir.Operation, list[str]] = {}

        def visit(op: ir.Operation) -> ir.WalkResult:
            if _is_made(op) and (loop := _loop_of(op)) is not None:
                steps.setdefault(loop, []).append(step_name(op))
            return ir.WalkResult.ADVANCE

        self.main.operation.walk(visit)
        short = [names for names in steps.values() if self._is_short(names)]
        parted = {name for names in short if self._has_parts(names) for name in names}
        return {name for names in short if self._is_mixed(names) for name in names} - parted, parted

    def _is_short(self, names: Sequence[str]) -> bool:
        are_known = all(isinstance(phase.iterations, int) for name in names for phase in self.kernels[name].phases)
        return are_known and self._shared_ns(names)[0] < COSTS.short_trip_ns

    def _is_mixed(self, names: Sequence[str]) -> bool:
        shared, alone = self._shared_ns(names)
        return shared < COSTS.mixed_share * alone

    def _shared_ns(self, names: Sequence[str]) -> tuple[float, float]:
        """What the phases that ask for threads take, and what the others do."""
        phases = [phase for name in names for phase in self.kernels[name].phases]
        shared = sum(phase.nanoseconds for phase in phases if self._chunk(phase) is not None)
        return shared, sum(phase.nanoseconds for phase in phases) - shared

    def _has_parts(self, names: Sequence[str]) -> bool:
        """Whether threads can have parts of whatever takes time in a trip, the same iterations of each phase: what one
        writes it reads again, but for the edges of its part."""
        phases = [phase for name in names for phase in self.kernels[name].phases]
        lasting = [phase for phase in phases if phase.nanoseconds >= COSTS.quick_ns]
        counts = {phase.iterations for phase in lasting}
        return len(counts) == 1 and all(self._part(phase) is not None for phase in lasting)

    def _part(self, phase: Phase) -> int | None:
        """The iterations of one thread where all have equally many; None where that is less than half a grain."""
        iterations = int(phase.iterations)
        is_worth = phase.nanoseconds >= COSTS.grain_ns / 2 * self.threads
        return -(-iterations // self.threads) if is_worth and iterations >= self.threads else None

    def _fill_context(self, f: Function, values: Sequence[Value], private_bytes: IntLike) -> None:
        """Store the operands of a kernel where its task finds them."""
        context = self._context(f, len(values))
        f.store(f.index(private_bytes), context, 1)
        for position, value in enumerate(values):
            f.store(value, context, HEAD + position)

    def _context(self, f: Function, count: int) -> Value:
        """Memory for so many operands; the same for all kernels that a function calls, but for those with very many."""
        key = f.name, max(count, OPERANDS)
        if key not in self._contexts:
            self._contexts[key] = f.alloca(HEAD + key[1], PTR)
        return self._contexts[key]


def _steps_outside(main: ir.OpView) -> int:
    """Kernels that a program calls outside of loops and branches."""
    return sum(op.operation.name == "func.call" for op in main.regions[0].blocks[0].operations)


def _is_made(op: ir.Operation) -> bool:
    """Whether it is a call that a program makes."""
    return op.name == "func.call" and UNREAD not in op.attributes


def _in_loop(op: ir.OpView | ir.Operation) -> bool:
    return _loop_of(op) is not None


def _loop_of(op: ir.OpView | ir.Operation) -> ir.Operation | None:
    """The innermost loop around an op."""
    return next(_loops_around(op), None)


def _loops_around(op: ir.OpView | ir.Operation) -> Iterator[ir.Operation]:
    """The loops around an op, from within."""
    parent = op.operation.parent
    while parent is not None:
        if parent.name == "scf.while":
            yield parent
        parent = parent.operation.parent


def _chunk_of(iterations: int, grain: int, threads: int) -> int:
    """Iterations of a chunk: of the numbers of chunks that give threads equal shares the largest, so that who is late
    does less."""
    shares = iterations // max(1, grain)
    if shares < threads:
        return -(-iterations // max(2, shares))
    chunks = [-(-iterations // (threads * each)) for each in range(1, min(CHUNKS_PER_THREAD, shares // threads) + 1)]
    longest = [-(-iterations // (chunk * threads)) * chunk for chunk in chunks]  # what one of the threads does
    return min(chunk for chunk, share in zip(chunks, longest, strict=True) if share <= UNEQUAL * min(longest))
