"""How native code asks OpenCL."""

from __future__ import annotations

from stablehlo_py.backends.gpu.driver.asking import Asking
from stablehlo_py.backends.gpu.driver.queue import LOST
from stablehlo_py.backends.gpu.opencl.queue import EXECUTION_STATUS, OpenClQueue
from stablehlo_py.codegen.builder import I32, I64, PTR, Function, Value

#: The functions of the driver, by their fields.
FUNCTIONS = {
    "retain": "clRetainEvent",
    "release": "clReleaseEvent",
    "flush": "clFlush",
    "copy": "clEnqueueSVMMemcpy",
    "wait": "clWaitForEvents",
    "ask": "clGetEventInfo",
}


class OpenClAsking(Asking):
    """In a queue in order. `last` is where the event of the last command of a program is."""

    fields = (LOST, "queue", "last", *FUNCTIONS)

    def __init__(self, queue: OpenClQueue) -> None:
        addresses = {field: queue.library.address(name) for field, name in FUNCTIONS.items()}
        super().__init__(queue, {"queue": queue.handle, "last": queue.last.buffer_info()[0], **addresses})

    @classmethod
    def enter(cls, f: Function, before: Value) -> Value:
        """Nothing: threads have no device."""
        return f.const(0)

    @classmethod
    def leave(cls, f: Function, before: Value) -> None:
        """Nothing."""

    @classmethod
    def _flush(cls, f: Function) -> None:
        """Else who only looks may never see it ready. What is wrong now the event will say, too."""
        cls.call(f, "flush", [cls.field(f, "queue")])

    @classmethod
    def record(cls, f: Function, event: Value) -> Value:
        """The event of the last command of a program, 0: of none."""
        last = f.load(PTR, cls.field(f, "last"))
        f.store(last, event)

        def retain() -> Value:
            status = cls.call(f, "retain", [last])
            cls._flush(f)
            return status

        return f.if_(f.is_null(last), lambda: f.const(0), retain)[0]

    @classmethod
    def emit_copy(cls, f: Function) -> Value:
        """clEnqueueSVMMemcpy."""
        none, zero = f.null(), f.const(0, I32)
        status = cls.call(f, "copy", [cls.field(f, "queue"), zero, f.target, f.source, f.bytes, zero, none, f.event])
        cls._flush(f)
        return status

    @classmethod
    def leave_behind(cls, f: Function) -> None:
        """clReleaseEvent."""
        cls.call(f, "release", [f.event])

    @classmethod
    def emit_wait(cls, f: Function) -> Value:
        """clWaitForEvents; of a command that failed it says only that one did."""
        place, said = f.alloca(1, PTR), f.alloca(1, I32)
        f.store(f.event, place)
        status = cls.call(f, "wait", [f.const(1, I32), place])

        def own() -> Value:
            f.store(f.const(0, I32), said)
            cls.call(f, "ask", [f.event, f.const(EXECUTION_STATUS, I32), f.const(4), said, f.null()])
            of_command = f.cast("sext", f.load(I32, said), I64)
            return f.select(f.cmp("slt", of_command, f.const(0)), of_command, status)

        (status,) = f.if_(f.cmp("eq", status, f.const(0)), lambda: status, own)
        cls.call(f, "release", [f.event])
        return status
