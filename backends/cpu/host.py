"""How native code meets the interpreter, emitted as native code by our own builder.

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

import llvmlite.binding as llvm

from stablehlo_py.backends.common.loops import ANSWER, ASKED
from stablehlo_py.backends.cpu import interrupt
from stablehlo_py.backends.cpu.objects import NativeCode, Unit, compile_units, once
from stablehlo_py.backends.cpu.target import host_target
from stablehlo_py.codegen.builder import I8, I32, PTR, Function, Value
from stablehlo_py.runtime.memory import Block

_HANDLER = "shlo.handler"  # what a closure calls; bound whenever one is linked


class _Block(ctypes.Structure):
    """What `shlo_enter` calls, with what, and what that returned."""

    returned: int

    _fields_ = (("entry", ctypes.c_void_p), ("call", ctypes.c_void_p), ("returned", ctypes.c_int32))


_ENTRY, _CALL, _RETURNED = (getattr(_Block, name).offset for name, _ in _Block._fields_)


def _enter_function() -> Function:
    """i32 shlo_enter(block): call a program's entry without the GIL. What it returned is in the block, too."""
    f = Function("shlo_enter", [("block", PTR)], host_target().emitter(), result=I32)
    saved = f.call("PyEval_SaveThread", [], PTR, external=True)
    entry, call = (f.load(PTR, f.gep(f.block, offset, I8)) for offset in (_ENTRY, _CALL))
    returned = f.call_pointer(entry, [call], I32)
    f.store(returned, f.gep(f.block, _RETURNED, I8))
    f.call("PyEval_RestoreThread", [saved], external=True)
    f.ret(returned)
    return f


def _call_function() -> Function:
    """i32 shlo_call_python(function, argument): function(address of the argument) of Python. 0, or 1 when an exception
    is set in this thread."""
    f = Function("shlo_call_python", [("function", PTR), ("argument", PTR)], host_target().emitter(), result=I32)
    state = f.call("PyGILState_Ensure", [], I32, external=True)
    number = f.call("PyLong_FromVoidPtr", [f.argument], PTR, external=True)

    def call() -> Value:
        result = f.call("PyObject_CallOneArg", [f.function, number], PTR, external=True)
        f.call("Py_DecRef", [number], external=True)
        return result

    (result,) = f.if_(f.is_null(number), f.null, call)
    status = f.cast("zext", f.is_null(result), I32)
    f.call("Py_DecRef", [result], external=True)  # which passes null
    f.call("PyGILState_Release", [state], external=True)
    f.ret(status)
    return f


def _closure_function() -> Function:
    """i32 shlo_closure(argument): shlo_call_python with the object that it is linked with."""
    f = Function("shlo_closure", [("argument", PTR)], host_target().emitter(), result=I32)
    f.declare(_HANDLER)
    status = f.call("shlo_call_python", [f.address_of(_HANDLER), f.argument], I32, external=True)
    f.ret(status)
    return f


@once
def _code() -> NativeCode:
    functions = [_enter_function(), _call_function(), *interrupt.functions(host_target())]
    code = NativeCode([compile_units([Unit.of(*functions)])])
    llvm.add_symbol("shlo_call_python", code.address("shlo_call_python"))
    return code


@once
def _closure_object() -> bytes:
    return compile_units([Unit.of(_closure_function())])


@once
def _enter() -> Callable[[int], int]:
    return ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(_code().address("shlo_enter"))


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


@once
def call_python() -> int:
    """The address of `i32 shlo_call_python(PyObject *function, void *argument)`, for `Guarded` programs."""
    return _code().address("shlo_call_python")


class _Interrupts:
    """The blocks that may end loops (interrupt.py): of Python's main thread, and of other threads, whose loops nothing
    ends. They live as long as the process: a thread sleeps on them."""

    def __init__(self) -> None:
        self._block, self._quiet = Block(interrupt.SIGNALS_BYTES), Block(interrupt.SIGNALS_BYTES)
        self._address, self._quiet_address = self._block.address, self._quiet.address
        self._answer = _code().address("shlo_answer_signals")
        self.reset()
        for immortal in (self._block, self._quiet, _code()):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(immortal))

    def reset(self) -> None:
        """In a forked child the thread is not there, and the main thread is the one that forked."""
        self._main = threading.main_thread().ident
        for block in (self._block, self._quiet):
            ctypes.memset(block.address, 0, interrupt.SIGNALS_BYTES)
        ctypes.c_void_p.from_address(self._block.address + ANSWER).value = self._answer
        ctypes.c_int64.from_address(self._block.address + interrupt.PERIOD + 8).value = interrupt.PERIOD_NANOSECONDS
        # The first loop asks, and so starts the thread.
        ctypes.c_int32.from_address(self._block.address + ASKED).value = 1

    def of_this_thread(self) -> int:
        """The address of the block for a call of this thread."""
        return self._address if get_ident() == self._main else self._quiet_address


@once
def interrupts() -> _Interrupts:
    """The blocks of this process."""
    made = _Interrupts()
    os.register_at_fork(after_in_child=made.reset)
    return made


class Closure:
    """A function of Python as a C function `int32_t (const void *)` at `address`, for `Guarded` programs. It gets
    the address as an int; the C function returns 1 if it raises. One is linked at a time: the caller sees to it."""

    def __init__(self, function: Callable[[int], object]) -> None:
        self._function = function
        call_python()  # which it calls
        llvm.add_symbol(_HANDLER, id(function))
        self._code = NativeCode([_closure_object()])
        self.address = self._code.address("shlo_closure")
