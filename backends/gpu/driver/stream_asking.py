"""How native code asks drivers with streams: for calls of programs, for copies, and to wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from stablehlo_py.backends.gpu.driver.asking import Asking
from stablehlo_py.backends.gpu.driver.queue import LOST
from stablehlo_py.backends.gpu.driver.stream import DISABLE_TIMING, SPARE, Stream
from stablehlo_py.backends.gpu.driver.stream_library import StreamLibrary
from stablehlo_py.codegen.builder import I1, I32, I64, PTR, Function, Value

#: The functions of the driver, by their fields.
FUNCTIONS = {
    "create": "EventCreate",
    "record": "EventRecord",
    "synchronize": "EventSynchronize",
    "destroy": "EventDestroy",
    "copy": "MemcpyAsync",
    "start_graph": "GraphLaunch",
}


class StreamAsking(Asking):
    """In a stream.

    Attributes:
        library: whose functions they are.
    """

    fields: ClassVar[tuple[str, ...]] = (LOST, "stream", *FUNCTIONS, *SPARE)
    library: ClassVar[type[StreamLibrary]]
    has_graphs = True

    def __init__(self, stream: Stream, values: Mapping[str, int]) -> None:
        addresses = {field: stream.library.address(name) for field, name in FUNCTIONS.items()}
        super().__init__(stream, {"stream": stream.handle, **addresses, **values})

    @classmethod
    def record(cls, f: Function, event: Value) -> Value:
        """`EventRecord` of an event that nobody has, or a new one."""
        spare = cls._take(f)
        f.store(spare, event)

        def create() -> Value:
            return cls.call(f, "create", [event, f.const(DISABLE_TIMING, I32)])

        (status,) = f.if_(f.cmp("eq", spare, f.const(0)), create, lambda: f.const(0))
        (status,) = f.if_(
            f.cmp("eq", status, f.const(0)),
            lambda: cls.call(f, "record", [f.load(PTR, event), cls.field(f, "stream")]),
            lambda: status,
        )
        f.if_(f.cmp("ne", status, f.const(0)), lambda: cls._drop(f, event))
        return status

    @classmethod
    def _drop(cls, f: Function, event: Value) -> None:
        """Of an event that is not recorded."""
        cls._give(f, f.load(I64, event))
        f.store(f.const(0), event)

    @classmethod
    def start_graph(cls, f: Function, graph: Value) -> Value:
        """`GraphLaunch`."""
        return cls.call(f, "start_graph", [graph, cls.field(f, "stream")])

    @classmethod
    def emit_copy(cls, f: Function) -> Value:
        """`MemcpyAsync`, which knows by an address whether it is the host's."""
        kinds = [f.const(kind, I32) for kind in cls.library.copy_kinds]
        status = cls.call(f, "copy", [f.target, f.source, f.bytes, *kinds, cls.field(f, "stream")])
        return f.if_(f.cmp("eq", status, f.const(0)), lambda: cls.record(f, f.event), lambda: status)[0]

    @classmethod
    def leave_behind(cls, f: Function) -> None:
        """It is destroyed with the stream."""
        cls._keep(f, f.cast("ptrtoint", f.event, I64))

    @classmethod
    def emit_wait(cls, f: Function) -> Value:
        """`EventSynchronize`."""
        status = cls.call(f, "synchronize", [f.event])
        cls._give(f, f.cast("ptrtoint", f.event, I64))
        return status

    @classmethod
    def _search(cls, f: Function, attempt: Callable[[Value], Value]) -> Value:
        """attempt(where a spare event is) until that is not 0; the last answer."""
        first = cls.place(f, SPARE[0])

        def goes_on(number: Value, found: Value) -> Value:
            more = f.cmp("slt", number, f.const(len(SPARE)))
            return f.binary("and", more, f.cmp("eq", found, f.const(0)))

        def look(number: Value, found: Value) -> list[Value]:
            del found
            return [f.binary("add", number, f.const(1)), attempt(f.gep(first, number, I64))]

        return f.while_([f.const(0), f.const(0)], goes_on, look)[1]

    @classmethod
    def _take(cls, f: Function) -> Value:
        """A spare event, 0: there is none. Another thread gives some back meanwhile."""
        return cls._search(f, lambda place: f.atomic_exchange(place, f.const(0)))

    @classmethod
    def _give(cls, f: Function, event: Value) -> None:
        """Keep an event for the next call, or destroy it."""
        pointer = f.cast("inttoptr", event, PTR)
        f.if_(f.cmp("eq", cls._keep(f, event), f.const(0)), lambda: cls._destroy(f, pointer))

    @classmethod
    def _keep(cls, f: Function, event: Value) -> Value:
        """Keep an event for the next call; 0: there is no room."""

        def keep(place: Value) -> Value:
            kept: Value = f.compare_exchange(place, f.const(0), event)
            assert kept.type is I1
            return f.cast("zext", kept, I64)

        return cls._search(f, keep)

    @classmethod
    def _destroy(cls, f: Function, event: Value) -> None:
        cls.call(f, "destroy", [event])
