"""How native code that is no program's asks a driver: for calls of programs, for copies, and to wait.

    i64 shlo_ask(given, entry, call, replay, event)         a call of a program; where its event is to be stored
    i64 shlo_begin_copy(given, target, source, bytes, event)    a copy between addresses, of the device or the host
    i64 shlo_await(given, event)                            sleep until an event is over, and give it back

Each returns the driver's first error, or 0. `given` is a structure of handles and functions of the driver, 64 bits
each; the first one, `lost`, is the status of a lost device, of which nothing is asked any more, else 0. Who asks holds
the queue's lock; who waits does not. An event of 0 is over. `replay` (null: there is none) says what a graph of the
program needs (`REPLAY`): its steps are written down, and it is started. Where the driver refuses that, which it does
before it is asked for anything, the steps are asked for one by one, from then on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from typing import ClassVar

from stablehlo_py.backends.common.program import given
from stablehlo_py.backends.cpu.native import NativeCode
from stablehlo_py.backends.cpu.objects import Unit, compile_units
from stablehlo_py.backends.cpu.target import baseline_target
from stablehlo_py.backends.gpu.driver.queue import COMMON, END, LOST, NEXT, STARTED, STATUS, Given, Queue
from stablehlo_py.backends.gpu.driver.recording import REPLAY
from stablehlo_py.codegen.builder import I1, I32, I64, PTR, Function, ScalarType, Value
from stablehlo_py.errors import InternalError

ASK, BEGIN_COPY, AWAIT = "shlo_ask", "shlo_begin_copy", "shlo_await"


class Asking(ABC):
    """The functions of one driver, with what they are given of one device.

    Args:
        values: of fields of that structure; the others are 0.

    Attributes:
        fields: of the structure. given: its address.
        has_graphs: whether the driver has.
        stages: whether the driver has read memory of the host that is not pinned when a copy of it begins.
        ask, copy, wait: where the functions are.
    """

    fields: ClassVar[tuple[str, ...]]
    has_graphs: ClassVar[bool] = False
    stages: ClassVar[bool] = False

    def __init__(self, queue: Queue, values: Mapping[str, int]) -> None:
        with queue.lock:
            if queue.given is None:
                queue.given = Given(self.fields, values)
        self.given = queue.given.address
        code = _code(type(self))
        self.ask, self.copy, self.wait = (code.address(name) for name in (ASK, BEGIN_COPY, AWAIT))

    @classmethod
    def functions(cls) -> list[Function]:
        """For the driver, whatever the device."""
        return [cls._ask(), cls._copy(), cls._await()]

    @classmethod
    def _ask(cls) -> Function:
        f = cls._function(ASK, [("entry", PTR), ("caller", PTR), ("replay", PTR), ("event", PTR)])
        before = cls._enter(f)

        started = cls._is_replayed(f) if cls.has_graphs else f.const(0, I1)
        (status,) = f.if_(started, lambda: f.const(0), lambda: cls._run(f))
        (status,) = f.if_(f.cmp("eq", status, f.const(0)), lambda: cls.record(f, f.event), lambda: status)
        cls.leave(f, before)
        f.ret(status)
        return f

    @classmethod
    def _run(cls, f: Function) -> Value:
        """The status of the program's entry, which is called."""
        places = [f.gep(given(f, "stream"), COMMON.index(name), I64) for name in (STATUS, STARTED)]
        f.store(f.const(0), places[1])
        f.call_pointer(f.entry, [f.caller], I32)  # it says in the structure what went wrong
        status = f.load(I64, places[0])
        f.store(f.const(0), places[0])
        return status

    @classmethod
    def _is_replayed(cls, f: Function) -> Value:
        """Whether there is a graph, and it was started."""
        no = f.const(0, I1)

        def attempt() -> Value:
            is_there = f.cmp("ne", f.load(I64, f.replay, REPLAY.index("steps")), f.const(0))
            return f.if_(is_there, lambda: cls._replayed(f), lambda: no)[0]

        return f.if_(f.is_null(f.replay), lambda: no, attempt)[0]

    @classmethod
    def _replayed(cls, f: Function) -> Value:
        """Whether the graph was started; else there is none from now on."""
        stream = given(f, "stream")
        for field, name in ((NEXT, "steps"), (END, "end")):
            f.store(f.load(I64, f.replay, REPLAY.index(name)), f.gep(stream, COMMON.index(field), I64))
        status = cls._run(f)
        f.store(f.const(0), f.gep(stream, COMMON.index(NEXT), I64))
        graph = f.load(PTR, f.replay, REPLAY.index("graph"))
        (status,) = f.if_(f.cmp("eq", status, f.const(0)), lambda: cls.start_graph(f, graph), lambda: status)
        started = f.cmp("eq", status, f.const(0))
        f.if_(f.cmp("ne", status, f.const(0)), lambda: f.store(f.const(0), f.replay, REPLAY.index("steps")))
        return started

    @classmethod
    def start_graph(cls, f: Function, graph: Value) -> Value:
        """Emit what starts a graph; its status."""
        raise InternalError("this driver has no graphs")

    @classmethod
    def _copy(cls) -> Function:
        f = cls._function(BEGIN_COPY, [("target", PTR), ("source", PTR), ("bytes", I64), ("event", PTR)])
        before = cls._enter(f)
        status = cls.emit_copy(f)
        cls.leave(f, before)
        f.ret(status)
        return f

    @classmethod
    def _await(cls) -> Function:
        f = cls._function(AWAIT, [("event", PTR)])
        f.ret_if(f.is_null(f.event), f.const(0))
        lost = cls.field(f, LOST, I64)
        is_lost = f.cmp("ne", lost, f.const(0))
        f.if_(is_lost, lambda: cls.leave_behind(f))
        f.ret_if(is_lost, lost)
        before = cls._enter(f)
        status = cls.emit_wait(f)
        cls.leave(f, before)
        f.ret(status)
        return f

    @classmethod
    def _function(cls, name: str, parameters: Sequence[tuple[str, ScalarType]]) -> Function:
        return Function(name, [("given", PTR), *parameters], baseline_target().emitter(), result=I64)

    @classmethod
    def _enter(cls, f: Function) -> Value:
        before, lost = f.alloca(1, PTR), cls.field(f, LOST, I64)
        f.ret_if(f.cmp("ne", lost, f.const(0)), lost)
        status = cls.enter(f, before)
        f.ret_if(f.cmp("ne", status, f.const(0)), status)
        return before

    @classmethod
    def place(cls, f: Function, name: str) -> Value:
        """Where a field is."""
        return f.gep(f.given, cls.fields.index(name), I64)

    @classmethod
    def field(cls, f: Function, name: str, type_: ScalarType = PTR) -> Value:
        """A field of the structure."""
        return f.load(type_, cls.place(f, name))

    @classmethod
    def call(cls, f: Function, name: str, operands: Sequence[Value]) -> Value:
        """The status of a function of the driver."""
        return f.cast("sext", f.call_pointer(cls.field(f, name), operands, I32), I64)

    @classmethod
    def unless(cls, f: Function, status: Value, name: str, operands: Sequence[Value]) -> Value:
        """A status, or that of a function that is called where it is 0."""
        return f.if_(f.cmp("eq", status, f.const(0)), lambda: cls.call(f, name, operands), lambda: status)[0]

    @classmethod
    @abstractmethod
    def enter(cls, f: Function, before: Value) -> Value:
        """Emit what makes the device the thread's; its status. There is room for a number of what was before."""

    @classmethod
    @abstractmethod
    def leave(cls, f: Function, before: Value) -> None:
        """Emit what puts back what was before."""

    @classmethod
    @abstractmethod
    def record(cls, f: Function, event: Value) -> Value:
        """Emit what stores an event behind all that programs have asked for; its status."""

    @classmethod
    @abstractmethod
    def emit_copy(cls, f: Function) -> Value:
        """Emit a copy, and what stores its event; its status."""

    @classmethod
    @abstractmethod
    def leave_behind(cls, f: Function) -> None:
        """Emit what gives back an event of a lost device."""

    @classmethod
    @abstractmethod
    def emit_wait(cls, f: Function) -> Value:
        """Emit what waits for an event, and gives it back; its status."""


@cache
def _code(asking: type[Asking]) -> NativeCode:
    """The functions of a driver, in this process."""
    return NativeCode([compile_units([Unit.of(*asking.functions())])])
