"""How native code meets the interpreter, emitted as native code by our own builder (host.py says why)."""

from __future__ import annotations

from stablehlo_py.backends.cpu.host import CALL, ENTRY, HANDLER, RETURNED
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import I8, I32, PTR, Function, Value


def _enter_function(target: CpuTarget) -> Function:
    """i32 shlo_enter(block): call a program's entry without the GIL. What it returned is in the block, too."""
    f = Function("shlo_enter", [("block", PTR)], target.emitter(), result=I32)
    saved = f.call("PyEval_SaveThread", [], PTR, external=True)
    entry, call = (f.load(PTR, f.gep(f.block, offset, I8)) for offset in (ENTRY, CALL))
    returned = f.call_pointer(entry, [call], I32)
    f.store(returned, f.gep(f.block, RETURNED, I8))
    f.call("PyEval_RestoreThread", [saved], external=True)
    f.ret(returned)
    return f


def _call_function(target: CpuTarget) -> Function:
    """i32 shlo_call_python(function, argument): function(address of the argument) of Python. 0, or 1 when an exception
    is set in this thread."""
    f = Function("shlo_call_python", [("function", PTR), ("argument", PTR)], target.emitter(), result=I32)
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


def functions(target: CpuTarget) -> list[Function]:
    """Calls of programs, and of Python by programs."""
    return [_enter_function(target), _call_function(target)]


def closure_functions(target: CpuTarget) -> list[Function]:
    """i32 shlo_closure(argument): shlo_call_python with the object that it is linked with."""
    f = Function("shlo_closure", [("argument", PTR)], target.emitter(), result=I32)
    f.declare(HANDLER)
    status = f.call("shlo_call_python", [f.address_of(HANDLER), f.argument], I32, external=True)
    f.ret(status)
    return [f]
