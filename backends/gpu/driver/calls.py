"""How the host's native function calls a driver: through a structure of functions and handles, `shlo_call.stream`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from stablehlo_py.backends.common.program import given
from stablehlo_py.backends.gpu.driver import recording
from stablehlo_py.backends.gpu.driver.queue import END, KERNELS, NEXT, STARTED, STATUS
from stablehlo_py.backends.gpu.driver.recording import FULL, STEP
from stablehlo_py.codegen.builder import I32, I64, PTR, Function, ScalarType, Value
from stablehlo_py.codegen.emitter import Emitter
from stablehlo_py.errors import InternalError

LAUNCH, COPY, WRITE_DOWN = "shlo_launch", "shlo_copy", "shlo_write_down"
READ, MARK = "shlo_read", "shlo_mark"
_WRITTEN = STEP[2:]


class Calls(ABC):
    """One driver's.

    Attributes:
        fields: of the structure, as the driver's queue has them (`Queue.fields`).
        has_graphs: whether steps are written down where that is asked for (recording.py).
        has_conditions: whether branches and loops are, of which only the device knows where they go.
    """

    fields: ClassVar[tuple[str, ...]]
    has_graphs: ClassVar[bool] = False
    has_conditions: ClassVar[bool] = False

    def functions(self, emitter: Callable[[], Emitter]) -> list[Function]:
        """Those that programs call:

        shlo_launch(caller, operands, kernel, blocks, threads of a block, bytes of dynamic shared memory, operands)
        shlo_copy(caller, target, source, bytes, whether to wait for it)
        shlo_read(caller, target, source, bytes, number): waits for a scalar, and copies it to the host; where it is
            written down, not
        shlo_mark(caller, BODY or END, scalar, way, ways): writes down where a body begins and ends
        """
        numbers = ("kernel", "blocks", "threads", "shared", "count")
        launch = self.function(LAUNCH, [("operands", PTR), *((name, I64) for name in numbers)], emitter())
        self.started(launch, launch.kernel)
        step = [launch.kernel, launch.blocks, launch.threads, launch.shared, launch.count]
        self._write_down(launch, launch.operands, step)
        self.launch(launch, launch.load(PTR, self.field(launch, KERNELS), launch.kernel))
        launch.ret()
        copy = self.function(COPY, [("target", PTR), ("source", PTR), ("bytes", I64), ("waits", I32)], emitter())
        both, none = copy.alloca(2, PTR), copy.const(0)
        copy.store(copy.target, both)
        copy.store(copy.source, both, 1)
        step = [copy.const(recording.COPY), none, none, copy.bytes, copy.const(2)]
        self._write_down(copy, both, step)
        self.copy(copy)
        copy.ret()
        marking = [self._read(emitter()), self._mark(emitter())] if self.has_conditions else []
        return [self._writer(emitter()), launch, copy, *marking] if self.has_graphs else [launch, copy]

    def _read(self, emitter: Emitter) -> Function:
        parameters = [("target", PTR), ("source", PTR), ("bytes", I64), ("number", I64)]
        f = self.function(READ, parameters, emitter)
        place, none = f.alloca(1, PTR), f.const(0)
        f.store(f.source, place)
        self._write_down(f, place, [f.const(recording.READ), f.number, none, f.bytes, f.const(1)])
        f.call(COPY, [f.caller, f.target, f.source, f.bytes, f.const(1, I32)])
        f.ret()
        return f

    def _mark(self, emitter: Emitter) -> Function:
        numbers = ("kind", "scalar", "way", "ways")
        f = self.function(MARK, [(name, I64) for name in numbers], emitter)
        step = [f.kind, f.scalar, f.way, f.ways, f.const(0)]

        def write() -> None:
            f.call(WRITE_DOWN, [f.caller, f.null(), *step], PTR)  # without operands there is nothing to change

        f.if_(self.is_written_down(f), write)
        f.ret()
        return f

    def is_written_down(self, f: Function) -> Value:
        """Whether steps are written down, and not asked for."""
        return f.cmp("ne", self.field(f, NEXT, I64), f.const(0))

    @abstractmethod
    def launch(self, f: Function, kernel: Value) -> None:
        """Emit what starts a kernel, which is given as a handle."""

    @abstractmethod
    def copy(self, f: Function) -> None:
        """Emit a copy."""

    @abstractmethod
    def reach(self, f: Function, number: int, addresses: Value, count: int) -> None:
        """Emit what tells the driver, where it has to know, of memory that a kernel finds by itself: its addresses, for
        the launches to come."""

    def change(self, f: Function, node: Value, parameters: Value) -> None:
        """Emit what gives a node of a graph other operands: of a launch they lie where it is written down, a copy has
        its `target` and `source`."""
        raise InternalError(f"a driver without graphs has no nodes to change in {f.name}")

    def field(self, f: Function, name: str, type_: ScalarType = PTR) -> Value:
        """A field of the structure."""
        return f.load(type_, self.place(f, name))

    def is_failed(self, f: Function) -> Value:
        """Whether the driver has failed: what comes after would work on what is not there."""
        return f.cmp("ne", self.field(f, STATUS, I64), f.const(0))

    def call(self, f: Function, name: str, operands: Sequence[Value]) -> None:
        """Call a function of the driver, and keep its first error."""
        self.keep(f, f.cast("sext", f.call_pointer(self.field(f, name), operands, I32), I64))

    def keep(self, f: Function, status: Value) -> None:
        """Keep an i64 that is a status, if it is the first that is not 0."""
        place = self.place(f, STATUS)
        before = f.load(I64, place)
        f.store(f.select(f.cmp("eq", before, f.const(0)), status, before), place)

    def started(self, f: Function, number: Value) -> None:
        """Say that the kernel of this number is started now."""
        f.store(f.index(f.iadd(number, 1)), self.place(f, STARTED))

    def _writer(self, emitter: Emitter) -> Function:
        """shlo_write_down(caller, operands, kernel, blocks, threads, bytes, count): the next step, where it is a node
        of a graph and has other operands than before, else null."""
        parameters = [("caller", PTR), ("operands", PTR), *((name, I64) for name in _WRITTEN)]
        f = Function(WRITE_DOWN, parameters, emitter, result=PTR, private=True)
        step = self.field(f, NEXT)
        places = f.gep(step, len(STEP), I64)
        after = f.gep(places, f.count, I64)
        is_full = f.cmp("ugt", f.cast("ptrtoint", after, I64), self.field(f, END, I64))
        f.if_(is_full, lambda: f.store(f.const(FULL), self.place(f, STATUS)))
        f.ret_if(is_full, f.null())
        for name in _WRITTEN:
            f.store(getattr(f, name), step, STEP.index(name))

        def write(i: Value, other: Value) -> Value:
            now, before = f.load(I64, f.operands, i), f.load(I64, places, i)
            f.store(now, places, i)
            return f.binary("or", other, f.binary("xor", now, before))

        (other,) = f.loop(0, f.count, 1, write, [f.const(0)])
        f.store(after, self.place(f, NEXT))
        is_same = f.cmp("eq", other, f.const(0))
        f.ret_if(is_same, f.null())
        f.ret(f.select(f.is_null(f.load(PTR, step)), f.null(), step))
        return f

    def _write_down(self, f: Function, operands: Value, numbers: Sequence[Value]) -> None:
        """Emit what writes a step down and returns, where that is asked for; a node that has other operands is
        changed."""
        if not self.has_graphs:
            return

        def write() -> None:
            step = f.call(WRITE_DOWN, [f.caller, operands, *numbers], PTR)
            f.ret_if(f.is_null(step))
            self.change(f, f.load(PTR, step), f.load(PTR, step, STEP.index("parameters")))

        is_asked = self.is_written_down(f)
        f.if_(is_asked, write)
        f.ret_if(is_asked)

    def function(self, name: str, parameters: Sequence[tuple[str, ScalarType]], emitter: Emitter) -> Function:
        """A function of a program, which does nothing once the driver has failed."""
        f = Function(name, [("caller", PTR), *parameters], emitter, private=True)
        f.ret_if(self.is_failed(f))
        return f

    def place(self, f: Function, name: str) -> Value:
        """Where a field is."""
        return f.gep(given(f, "stream"), self.fields.index(name), I64)
