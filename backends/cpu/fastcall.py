"""Calls of programs from Python in native code, emitted by our own builder (dispatch.py says when it is used).

`shlo_fastcall` is a function of Python's C API, as `METH_FASTCALL` calls it. `self` is the array that holds the
dispatch (layout.py). Arguments that are arrays of NumPy's as the program wants them, dense and of its types and sizes,
are passed as they lie; results are arrays of NumPy's. In every other case it returns None and has done nothing: then
Python's own way converts, allocates, or says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable

from stablehlo_py.backends.cpu import layout
from stablehlo_py.backends.cpu.pool import STARTED
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import I1, I8, I32, I64, PTR, Function, ScalarType, Value
from stablehlo_py.runtime.entry import FIELDS, OK


def _field(f: Function, base: Value, offset: int, type_: ScalarType = PTR) -> Value:
    return f.load(type_, f.gep(base, offset, I8))


def _of_call(f: Function, name: str) -> Value:
    """The address of a field of `shlo_call`."""
    return f.gep(f.frame, 8 * FIELDS.index(name), I8)


def _is(f: Function, pointer: Value) -> Value:
    return f.binary("xor", f.is_null(pointer), f.const(1, I1))


def _no(f: Function) -> Value:
    return f.const(0, I1)


def _both(f: Function, first: Value, second: Callable[[], Value]) -> Value:
    return f.if_(first, second, lambda: _no(f))[0]


def _entry_function(target: CpuTarget) -> Function:
    """PyObject *shlo_fastcall(self, arguments, count): the results as a tuple, None, or null: a signal's handler has
    raised."""
    f = Function("shlo_fastcall", [("self", PTR), ("arguments", PTR), ("count", I64)], target.emitter(), result=PTR)
    dispatch = _field(f, f.self, layout.DATA)
    frames = _field(f, dispatch, layout.FRAMES)
    end = _field(f, frames, layout.LENGTH, I64)
    last = f.binary("sub", end, f.const(1))

    def call() -> Value:
        frame = f.call("PyList_GetItem", [frames, last], PTR, external=True)
        f.call("Py_IncRef", [frame], external=True)
        f.call("PyList_SetSlice", [frames, last, end, f.null()], I32, external=True)
        address = f.call("PyLong_AsVoidPtr", [frame], PTR, external=True)
        results = f.call("shlo_fastcall_with", [dispatch, f.arguments, address], PTR)
        f.call("PyList_Append", [frames, frame], I32, external=True)
        f.call("Py_DecRef", [frame], external=True)
        return results

    fits = f.cmp("eq", f.count, _field(f, dispatch, layout.INPUT_COUNT, I64))
    (results,) = f.if_(f.binary("and", fits, f.cmp("sge", last, f.const(0))), call, f.null)
    f.ret_if(_is(f, results), results)
    f.ret_if(_is(f, f.call("PyErr_Occurred", [], PTR, external=True)), results)
    none = _field(f, dispatch, layout.NONE)
    f.call("Py_IncRef", [none], external=True)
    f.ret(none)
    return f


def _call_function(target: CpuTarget) -> Function:
    """PyObject *shlo_fastcall_with(dispatch, arguments, frame): the results of a call with this `shlo_call`, or null:
    it cannot be made here, or an exception is set."""
    parameters = [("dispatch", PTR), ("arguments", PTR), ("frame", PTR)]
    f = Function("shlo_fastcall_with", parameters, target.emitter(), result=PTR)
    pool = _field(f, f.dispatch, layout.POOL)
    asleep = _both(f, _is(f, pool), lambda: f.cmp("eq", _field(f, pool, STARTED, I64), f.const(0)))
    f.ret_if(asleep, f.null())
    inputs = f.load(PTR, _of_call(f, "inputs"))
    f.ret_if(f.binary("xor", _takes_arguments(f, inputs), f.const(1, I1)), f.null())
    count = _field(f, f.dispatch, layout.OUTPUT_COUNT, I64)
    results = f.call("PyTuple_New", [count], PTR, external=True)
    made = _both(f, _is(f, results), lambda: _makes_results(f, results, count, inputs))

    def run() -> Value:
        signals = _field(f, f.dispatch, layout.SIGNALS)
        f.if_(_is(f, signals), lambda: _let_interrupt(f, signals))
        saved = f.call("PyEval_SaveThread", [], PTR, external=True)
        status = f.call_pointer(_field(f, f.dispatch, layout.PROGRAM), [f.frame], I32)
        f.call("PyEval_RestoreThread", [saved], external=True)
        raised = f.call("PyErr_Occurred", [], PTR, external=True)
        return f.binary("and", f.cmp("eq", status, f.const(OK, I32)), f.is_null(raised))

    def give_up() -> Value:  # memory ran out: Python's own way says so
        f.call("PyErr_Clear", [], external=True)
        return _no(f)

    f.ret_if(f.if_(made, run, give_up)[0], results)
    f.call("Py_DecRef", [results], external=True)  # which passes null
    f.ret(f.null())
    return f


def _let_interrupt(f: Function, signals: Value) -> None:
    """Of this thread the block that may end loops."""
    thread = f.call("PyThread_get_thread_ident", [], I64, external=True)
    is_main = f.cmp("eq", thread, _field(f, signals, layout.MAIN, I64))
    f.store(f.select(is_main, signals, _field(f, signals, layout.QUIET)), _of_call(f, "interrupt"))


def _takes_arguments(f: Function, inputs: Value) -> Value:
    """Whether all are as the program wants them; `inputs` is filled with where they lie."""
    records = _field(f, f.dispatch, layout.INPUTS)

    def takes(number: Value) -> Value:
        record = f.gep(records, f.imul(number, layout.INPUT_BYTES), I8)
        argument = f.load(PTR, f.arguments, number)

        def fits() -> Value:
            pairs = ((layout.DTYPE, layout.OF_DTYPE, PTR), (layout.RANK, layout.OF_RANK, I32))
            right = [
                f.cmp("eq", _field(f, argument, at, of), _field(f, record, wanted, of)) for at, wanted, of in pairs
            ]
            wanted = f.const(layout.DENSE, I32)
            flags = f.binary("and", _field(f, argument, layout.FLAGS, I32), wanted)
            return f.binary("and", f.binary("and", *right), f.cmp("eq", flags, wanted))

        def same_sizes() -> Value:
            sizes = _field(f, argument, layout.SIZES), _field(f, record, layout.OF_SIZES)
            count = f.imul(f.cast("zext", _field(f, record, layout.OF_RANK, I32), I64), 8)
            f.store(_field(f, argument, layout.DATA), inputs, number)
            return f.cmp("eq", f.call("memcmp", [*sizes, f.index(count)], I32, external=True), f.const(0, I32))

        is_array = f.cmp("eq", _field(f, argument, layout.TYPE), _field(f, f.dispatch, layout.ARRAY_TYPE))
        return _both(f, _both(f, is_array, fits), same_sizes)

    count = _field(f, f.dispatch, layout.INPUT_COUNT, I64)
    return f.loop(0, count, 1, lambda number, good: _both(f, good, lambda: takes(number)), [f.const(1, I1)])[0]


def _makes_results(f: Function, results: Value, count: Value, inputs: Value) -> Value:
    """Whether there is memory for all. A donated argument is copied to its result, and lies there for the program."""
    records, outputs = _field(f, f.dispatch, layout.OUTPUTS), f.load(PTR, _of_call(f, "outputs"))

    def makes(number: Value) -> Value:
        record = f.gep(records, f.imul(number, layout.OUTPUT_BYTES), I8)
        array = f.call("shlo_new_array", [f.dispatch, record], PTR)

        def enter() -> Value:
            data, source = _field(f, array, layout.DATA), _field(f, record, layout.OF_SOURCE, I64)
            f.store(data, outputs, number)

            def copy() -> None:
                f.copy_memory(data, f.load(PTR, inputs, source), _field(f, record, layout.OF_BYTES, I64))
                f.store(data, inputs, source)

            f.if_(f.cmp("sge", source, f.const(0)), copy)
            f.call("PyTuple_SetItem", [results, number, array], I32, external=True)
            return f.const(1, I1)

        return _both(f, _is(f, array), enter)

    return f.loop(0, count, 1, lambda number, good: _both(f, good, lambda: makes(number)), [f.const(1, I1)])[0]


def _array_function(target: CpuTarget) -> Function:
    """PyObject *shlo_new_array(dispatch, output): an uninitialized array for a result, or null. A large one lies in
    memory that the pool keeps, of which some must be free."""
    f = Function("shlo_new_array", [("dispatch", PTR), ("output", PTR)], target.emitter(), result=PTR)
    kept = _field(f, f.output, layout.OF_KEPT)
    (memory,) = f.if_(_is(f, kept), lambda: _free_memory(f, kept), f.null)
    f.ret_if(f.binary("and", _is(f, kept), f.is_null(memory)), f.null())
    f.call("Py_IncRef", [memory], external=True)  # from here on nobody else finds it free
    (data,) = f.if_(_is(f, memory), lambda: _field(f, memory, layout.DATA), f.null)
    dtype, rank = _field(f, f.output, layout.OF_DTYPE), _field(f, f.output, layout.OF_RANK, I32)
    f.call("Py_IncRef", [dtype], external=True)
    flags = f.select(f.is_null(memory), f.const(0, I32), f.const(layout.DENSE | layout.WRITEABLE, I32))
    type_, sizes = _field(f, f.dispatch, layout.ARRAY_TYPE), _field(f, f.output, layout.OF_SIZES)
    make = _field(f, f.dispatch, layout.NEW_FROM_DESCR)
    array = f.call_pointer(make, [type_, dtype, rank, sizes, f.null(), data, flags, f.null()], PTR)

    def own() -> None:
        f.call_pointer(_field(f, f.dispatch, layout.SET_BASE_OBJECT), [array, memory], I32)

    def release() -> None:
        f.call("Py_DecRef", [memory], external=True)

    def settle() -> None:
        f.if_(_is(f, array), own, release)

    f.if_(_is(f, memory), settle)
    f.ret(array)
    return f


def _free_memory(f: Function, kept: Value) -> Value:
    """The first to which nothing but its list refers; null: there is none."""
    length = _field(f, kept, layout.LENGTH, I64)

    def goes_on(number: Value, found: Value) -> Value:
        return f.binary("and", f.is_null(found), f.cmp("slt", number, length))

    def look(number: Value, found: Value) -> list[Value]:
        memory = f.call("PyList_GetItem", [kept, number], PTR, external=True)
        is_free = f.cmp("eq", _field(f, memory, layout.REFERENCES, I32), f.const(1, I32))
        return [f.binary("add", number, f.const(1)), f.select(is_free, memory, found)]

    return f.while_([f.const(0), f.null()], goes_on, look)[1]


def functions(target: CpuTarget) -> list[Function]:
    """`shlo_fastcall`, and what it calls."""
    return [_entry_function(target), _call_function(target), _array_function(target)]
