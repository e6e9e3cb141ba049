"""Who ends a loop that is not to go on (`end_if_asked`), emitted as native code by our own builder.

Processes of a grid have its header for a block, and end when it has failed. For calls of Python's main thread there is
one block, which ends them when the handler of a signal raises, as Ctrl-C does. Python's own handlers only note that a
signal came, so someone has to look: the answer takes the GIL and lets Python run the handlers. A thread that we start
sets the i32 again a while after each answer, and only then: it sleeps where no loop runs.
"""

from __future__ import annotations

from stablehlo_py.backends.cpu.layout import NEVER, PERIOD, REQUESTS, STARTED
from stablehlo_py.backends.cpu.pool import WAIT, WAKE, futex
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import I8, I32, I64, PTR, Function, Value
from stablehlo_py.runtime.entry import ASKED

_SIG_SETMASK, _SIGNAL_WORDS = 2, 16


def _answer_function(target: CpuTarget) -> Function:
    """i32 shlo_answer_signals(block): let Python run handlers of signals. 0, or -1 when one has raised."""
    f = Function("shlo_answer_signals", [("block", PTR)], target.emitter(), result=I32)
    state = f.call("PyGILState_Ensure", [], I32, external=True)
    status = f.call("PyErr_CheckSignals", [], I32, external=True)
    f.call("PyGILState_Release", [state], external=True)

    def ask_again_later() -> None:
        f.atomic_store(f.const(0, I32), f.gep(f.block, ASKED, I8))
        first = f.compare_exchange(f.gep(f.block, STARTED, I8), f.const(0, I32), f.const(1, I32))
        f.if_(first, lambda: _start(f))
        f.atomic_add(f.gep(f.block, REQUESTS, I8), f.const(1, I32))
        futex(f, f.gep(f.block, REQUESTS, I8), WAKE, f.const(1, I32))

    f.if_(f.cmp("eq", status, f.const(0, I32)), ask_again_later)
    f.ret(status)
    return f


def _start(f: Function) -> None:
    """Start the thread. It inherits the mask: signals are Python's main thread's to handle."""
    handle, every, before = f.alloca(1, I64), f.alloca(_SIGNAL_WORDS, I64), f.alloca(_SIGNAL_WORDS, I64)
    f.set_memory(every, -1, 8 * _SIGNAL_WORDS)
    f.call("pthread_sigmask", [f.const(_SIG_SETMASK, I32), every, before], I32, external=True)
    thread = f.address_of("shlo_ask_later")
    status = f.call("pthread_create", [handle, f.null(), thread, f.block], I32, external=True)
    f.call("pthread_sigmask", [f.const(_SIG_SETMASK, I32), before, f.null()], I32, external=True)

    def refused() -> None:  # then loops ask at every trip, which is slow and right
        f.atomic_store(f.const(0, I32), f.gep(f.block, STARTED, I8))
        f.atomic_store(f.const(1, I32), f.gep(f.block, ASKED, I8))

    def started() -> None:
        f.call("pthread_detach", [f.load(I64, handle)], I32, external=True)

    f.if_(f.cmp("eq", status, f.const(0, I32)), started, refused)


def _thread_function(target: CpuTarget) -> Function:
    """void *shlo_ask_later(block): the thread that sets ASKED a while after each request."""
    f = Function("shlo_ask_later", [("block", PTR)], target.emitter(), result=PTR)
    address = f.gep(f.block, REQUESTS, I8)

    def trip(seen: Value) -> list[Value]:
        requests = f.atomic_load(I32, address)

        def sleep() -> Value:
            futex(f, address, WAIT, seen)
            return seen

        def ask() -> Value:
            futex(f, f.gep(f.block, NEVER, I8), WAIT, f.const(0, I32), f.gep(f.block, PERIOD, I8))
            f.atomic_store(f.const(1, I32), f.gep(f.block, ASKED, I8))
            return requests

        return f.if_(f.cmp("eq", requests, seen), sleep, ask)

    f.while_([f.const(0, I32)], lambda seen: f.cmp("eq", seen, seen), trip)
    f.ret(f.null())
    return f


def functions(target: CpuTarget) -> list[Function]:
    """The functions of the main thread's block; `shlo_answer_signals` is its answer."""
    return [_answer_function(target), _thread_function(target)]
