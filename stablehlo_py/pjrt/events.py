"""Events and errors: native code (code.py).

An event is over once. Then it has called who waits for it (`Event_OnReady`), with the error of what it stands for, and
calls others at once. Errors have references, since each who asks for one destroys it.
"""

from __future__ import annotations

from stablehlo_py.codegen.builder import I8, I32, I64, PTR, Value
from stablehlo_py.pjrt.code import OBJECT, Native, closing, drop
from stablehlo_py.pjrt.fields import (
    CALLING,
    CLOSED,
    DONE,
    EVENT_BYTES,
    FORKED_ERROR,
    NEXT,
    OWN,
    REFERENCES,
    STOPPED,
)

_CALLBACK, _ARGUMENT = 8, 16  # of who waits, behind the link to the next one
_WAITER_BYTES = 24


def functions(state: int) -> list[Native]:
    """Of events and errors."""
    return [
        *(_event_new(state), _event_refer(state), drop(state, "event", _end_event), _event_error(state)),
        *(_event_complete(state), _event_await(state), drop(state, "error", Native.discard)),
        _call_back(state),
        # From now on no other thread calls back. When the interpreter has ended.
        closing(state, "stop", STOPPED, CALLING),
        *(_destroy(state, "Event_Destroy", "event_drop"), _destroy(state, "Error_Destroy", "error_drop")),
        *(_is_ready(state), _on_ready(state), _ready_event(state)),
        *(_answer(state, "Event_Error", "event_error"), _answer(state, "Event_Await", "event_await")),
    ]


def is_over(f: Native, event: Value) -> Value:
    """Whether an event is over, by now."""
    return f.is_not_zero(f.atomic_load(I32, f.place(event, "event", "over")))


def _event_new(state: int) -> Native:
    """ptr event_new(references): an event that is not over."""
    f = Native("event_new", state, [("references", I64)])
    block = f.allocate(EVENT_BYTES)
    f.count(1)
    f.put(f.const(OWN), block, NEXT)
    f.put(f.references, block, REFERENCES)
    f.set_field(f.const(0), block, "event", "waiters")
    f.set_field(f.const(0, I32), block, "event", "over")
    f.set_field(f.const(0), block, "event", "error")
    f.ret(block)
    return f


def _event_refer(state: int) -> Native:
    """void event_refer(event): one reference more."""
    f = Native("event_refer", state, [("event", PTR)], None)
    f.refer(f.event)
    f.ret()
    return f


def _end_event(f: Native, event: Value) -> None:
    f.count(-1)
    f.call("error_drop", [f.field(event, "event", "error", PTR)])
    f.free(event)


def _event_error(state: int) -> Native:
    """ptr event_error(event): a reference to its error, or null. In a forked child, events that were not over end with
    an error: the thread that would end them is the parent's."""
    f = Native("event_error", state, [("event", PTR)])
    own = f.field(f.event, "event", "error", PTR)
    (error,) = f.if_(is_over(f, f.event), lambda: own, lambda: f.shared(FORKED_ERROR))
    f.if_(f.no(f.is_null(error)), lambda: f.refer(error))
    f.ret(error)
    return f


def _event_complete(state: int) -> Native:
    """void event_complete(event, error): it is over; takes over a reference to the error."""
    f = Native("event_complete", state, [("event", PTR), ("error", PTR)], None)
    f.set_field(f.number(f.error), f.event, "event", "error")
    f.atomic_store(f.const(1, I32), f.place(f.event, "event", "over"))
    f.wake(f.place(f.event, "event", "over"))
    first = f.atomic_exchange(f.place(f.event, "event", "waiters"), f.const(CLOSED))

    def call(waiter: Value) -> list[Value]:
        node = f.pointer(waiter)
        following = f.get(I64, node, NEXT)
        callback, argument = f.get(PTR, node, _CALLBACK), f.get(PTR, node, _ARGUMENT)
        f.free(node)
        f.call("call_back", [callback, f.event, argument])
        return [following]

    f.while_([first], f.is_not_zero, call)
    f.ret()
    return f


def _call_back(state: int) -> Native:
    """void call_back(callback, event, argument): unless the process ends. Then this thread stops here, since what the
    callback would find may not be there any more."""
    f = Native("call_back", state, [("callback", PTR), ("event", PTR), ("argument", PTR)], None)
    f.atomic_add(f.cell(CALLING), f.const(1))
    stopped = f.is_not_zero(f.atomic_load(I32, f.cell(STOPPED)))

    def stop() -> None:
        f.atomic_add(f.cell(CALLING), f.const(-1))

        def nap() -> list[Value]:
            f.sleep(f.cell(STOPPED), f.const(1, I32))
            return []

        f.while_([], lambda: f.is_not_zero(f.atomic_load(I32, f.cell(STOPPED))), nap)

    f.if_(stopped, stop)
    f.call_pointer(f.callback, [f.call("event_error", [f.event], PTR), f.argument])
    f.atomic_add(f.cell(CALLING), f.const(-1))
    f.ret()
    return f


def _event_await(state: int) -> Native:
    """ptr event_await(event): sleep until it is over; a reference to its error, or null."""
    f = Native("event_await", state, [("event", PTR)])
    place = f.place(f.event, "event", "over")

    def sleep() -> list[Value]:
        f.sleep(place, f.const(0, I32))
        return []

    f.while_([], lambda: f.no(f.either(is_over(f, f.event), f.is_forked())), sleep)
    f.ret(f.call("event_error", [f.event], PTR))
    return f


# --- of the API -------------------------------------------------------------------------------------------------------


def _destroy(state: int, name: str, drop: str) -> Native:
    f = Native(name, state)
    f.call(drop, [f.get(PTR, f.args, OBJECT)])
    f.ret(f.null())
    return f


def _answer(state: int, name: str, function: str) -> Native:
    f = Native(name, state)
    f.ret(f.call(function, [f.get(PTR, f.args, OBJECT)], PTR))
    return f


def _is_ready(state: int) -> Native:
    f = Native("Event_IsReady", state)
    ready = f.either(is_over(f, f.get(PTR, f.args, OBJECT)), f.is_forked())
    f.put(f.cast("zext", ready, I8), f.args, OBJECT + 8)
    f.ret(f.null())
    return f


def _on_ready(state: int) -> Native:
    f = Native("Event_OnReady", state)
    event, callback, argument = (f.get(PTR, f.args, OBJECT + 8 * number) for number in range(3))
    over = f.either(is_over(f, event), f.is_forked())

    def call() -> None:
        f.call_pointer(callback, [f.call("event_error", [event], PTR), argument])

    def wait() -> None:
        node, head = f.allocate(_WAITER_BYTES), f.place(event, "event", "waiters")
        f.put(callback, node, _CALLBACK)
        f.put(argument, node, _ARGUMENT)

        def attempt(_: Value) -> list[Value]:
            first = f.atomic_load(I64, head)
            f.put(first, node, NEXT)
            closed = f.cmp("eq", first, f.const(CLOSED))

            def enter() -> Value:
                return f.select(f.compare_exchange(head, first, f.number(node)), f.const(1), f.const(0))

            return f.if_(closed, lambda: f.const(2), enter)

        (outcome,) = f.while_([f.const(0)], f.is_zero, attempt)

        def late() -> None:
            f.free(node)
            call()

        f.if_(f.cmp("eq", outcome, f.const(2)), late)

    f.if_(over, call, wait)
    f.ret(f.null())
    return f


def _ready_event(state: int) -> Native:
    f = Native("Buffer_ReadyEvent", state)
    own = f.field(f.get(PTR, f.args, OBJECT), "buffer", "event", PTR)
    event = f.select(f.is_null(own), f.shared(DONE), own)
    f.refer(event)
    f.put(event, f.args, OBJECT + 8)
    f.ret(f.null())
    return f
