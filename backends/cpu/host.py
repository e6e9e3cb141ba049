"""How native code meets the interpreter, as the runtime sees it; the code is in calls.py.

Calls from native code into Python do not go through callbacks of ctypes: those print an exception that leaves the
Python function, drop it, and give the native code an undefined result. An exception may leave it at any point, its
first line included: signal handlers run between any two instructions, and memory and recursion have ends.

So Python is called as C extensions call it. `shlo_call_python` calls an object; a null result is failure, whatever
the reason, and the exception stays where Python keeps it: set in the thread. The program returns at once, up to
`shlo_enter`, which ctypes calls as a function of Python's own API (`PYFUNCTYPE`): it raises what is set.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from threading import get_ident

from stablehlo_py.backends.cpu import helpers
from stablehlo_py.backends.cpu.layout import MAIN, PERIOD, PERIOD_NANOSECONDS, QUIET, SIGNALS_BYTES
from stablehlo_py.backends.cpu.native import NativeCode, once
from stablehlo_py.runtime.entry import ANSWER, ASKED
from stablehlo_py.runtime.memory import Block

HANDLER = "shlo.handler"  # what a closure calls; bound whenever one is linked


class _Block(ctypes.Structure):
    """What `shlo_enter` calls, with what, and what that returned."""

    returned: int

    _fields_ = (("entry", ctypes.c_void_p), ("call", ctypes.c_void_p), ("returned", ctypes.c_int32))


ENTRY, CALL, RETURNED = (getattr(_Block, name).offset for name, _ in _Block._fields_)


@once
def _enter() -> Callable[[int], int]:
    return ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(helpers.code(helpers.CALLS).address("shlo_enter"))


class Guarded:
    """A program's entry and what it is called with; for programs that call Python or loop."""

    __slots__ = ("_address", "_block", "_enter")

    def __init__(self, entry: int, call: int) -> None:
        self._enter = _enter()
        self._block = _Block(entry, call)
        self._address = ctypes.addressof(self._block)

    def run(self) -> tuple[int, BaseException | None]:
        """What the entry returned, and the exception that ended it, which may also be that of a signal handler around
        the call."""
        try:
            return self._ended(self._enter(self._address)), None
        except BaseException as raised:
            return self._ended(self._block.returned), raised

    def _ended(self, returned: int) -> int:
        if returned:
            self._block.returned = 0  # an exception may come before the next call begins
        return returned


def call_python() -> int:
    """The address of `i32 shlo_call_python(PyObject *function, void *argument)`, for `Guarded` programs."""
    return helpers.code(helpers.CALLS).address("shlo_call_python")


class _Interrupts:
    """The blocks that may end loops (py): of Python's main thread, and of other threads, whose loops nothing
    ends. They live as long as the process: a thread sleeps on them."""

    def __init__(self) -> None:
        self._block, self._quiet = Block(SIGNALS_BYTES), Block(SIGNALS_BYTES)
        self.address, self._quiet_address = self._block.address, self._quiet.address
        self._answer = helpers.code(helpers.CALLS).address("shlo_answer_signals")
        self.reset()
        for immortal in (self._block, self._quiet, helpers.code(helpers.CALLS)):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(immortal))

    def reset(self) -> None:
        """In a forked child the thread is not there, and the main thread is the one that forked."""
        self._main = threading.main_thread().ident
        for block in (self._block, self._quiet):
            ctypes.memset(block.address, 0, SIGNALS_BYTES)
        values = {ANSWER: self._answer, PERIOD + 8: PERIOD_NANOSECONDS, MAIN: self._main, QUIET: self._quiet_address}
        for offset, value in values.items():
            ctypes.c_uint64.from_address(self.address + offset).value = value or 0
        # The first loop asks, and so starts the thread.
        ctypes.c_int32.from_address(self.address + ASKED).value = 1

    def of_this_thread(self) -> int:
        """The address of the block for a call of this thread."""
        return self.address if get_ident() == self._main else self._quiet_address


@once
def interrupts() -> _Interrupts:
    """The blocks of this process."""
    made = _Interrupts()
    os.register_at_fork(after_in_child=made.reset)
    return made


class Closure:
    """A function of Python as a C function `int32_t (const void *)` at `address`, for `Guarded` programs. It gets
    the address as an int; the C function returns 1 if it raises."""

    def __init__(self, function: Callable[[int], object]) -> None:
        self._function = function
        symbols = {HANDLER: id(function), "shlo_call_python": call_python()}
        self._code = NativeCode([helpers.content(helpers.CLOSURE)], symbols)
        self.address = self._code.address("shlo_closure")
