"""Calls of programs: native code (code.py).

A call on one device is a job: a block that holds what the program reads and writes, until it is over. The calling
thread runs a cheap program at once, where all that it reads is there; all others go to the queue of the device, whose
thread runs them in the order in which they came. So a queued program that reads what a later one overwrites (a donated
argument) runs before it. A call on several devices is a job for each (processes.py). On a GPU the calling thread asks
the driver, and the thread of the queue waits for it (device_calls.py). What does not fit this (another number of
arguments, deleted ones, programs that call Python, no memory that was kept) is Python's (`Client._execute`), which also
says what is wrong.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from stablehlo_py.codegen.builder import I1, I32, I64, PTR, Index, ScalarType, Value
from stablehlo_py.pjrt.code import Native
from stablehlo_py.pjrt.events import is_over
from stablehlo_py.pjrt.fields import (
    CALL,
    DONE,
    DRIVER,
    ERROR_BYTES,
    FAILED_BEFORE,
    FAILED_BETWEEN,
    FAILED_BYTES,
    INPUTS,
    JOB,
    NEXT,
    OWN,
    PENDING,
    PLAN,
    PYTHON,
    REFERENCES,
    RESULT,
    RESULT_BYTES,
)
from stablehlo_py.pjrt.layouts import is_row_major
from stablehlo_py.runtime.callbacks import MESSAGE_BYTES, SITE_BYTES
from stablehlo_py.runtime.entry import FAILED, Call

# In the arguments of LoadedExecutable_Execute.
EXECUTABLE, OPTIONS, ARGUMENTS, _DEVICES, COUNT, _OUTPUTS, EVENTS, _DEVICE = range(16, 80, 8)
_INTERNAL = 13  # absl::StatusCode


def functions(state: int) -> list[Native]:
    """Of calls."""
    return [
        *(_execute(state), _job_new(state), _hold_inputs(state), _make_outputs(state)),
        *(_start(state), _hand_out(state), _results(state), _job_run(state)),
        *(_job_drop(state), _failure(state)),
    ]


def planned(f: Native, plan: Value, name: str, type_: ScalarType = I64) -> Value:
    """A field of a plan."""
    return f.get(type_, plan, PLAN[name])


def table(f: Native, job: Value, plan: Value, name: str) -> Value:
    """The address of one of the tables of a job."""
    return f.at(job, planned(f, plan, name))


def each(f: Native, number: Value, body: Callable[[Value], None]) -> None:
    """body(i) for so many."""

    def trip(index: Value) -> None:
        body(index)

    f.loop(0, number, 1, trip)


def result_of(f: Native, plan: Value, number: Value) -> Value:
    """The description of a result."""
    return f.at(planned(f, plan, "results", PTR), f.binary("mul", number, f.const(RESULT_BYTES)))


# --- a call -----------------------------------------------------------------------------------------------------------


def _execute(state: int) -> Native:
    f = Native("LoadedExecutable_Execute", state)
    executable = f.get(PTR, f.args, EXECUTABLE)
    plan = f.field(executable, "executable", "plan", PTR)

    def python() -> Value:
        return in_python(f, device_of(f, executable, 0))

    def native() -> Value:
        driver = planned(f, plan, "driver", PTR)
        device = f.get(I64, f.args, _DEVICE)
        own = f.load(I64, f.field(executable, "executable", "devices", PTR))
        devices = planned(f, plan, "devices")
        fits = f.both(
            f.cmp("eq", f.get(I64, f.args, _DEVICES), devices),
            f.cmp("eq", f.get(I64, f.args, COUNT), planned(f, plan, "num_inputs")),
            f.either(f.is_zero(device), f.cmp("eq", device, own)),
            f.is_zero(f.field(executable, "executable", "deleted")),
            f.no(f.is_forked()),
            f.no(is_lost(f, driver)),
        )
        alone = f.both(f.cmp("eq", devices, f.const(1)), f.is_zero(planned(f, plan, "grid")))

        def hold() -> Value:
            job = f.call("job_new", [plan, f.const(0)], PTR)
            ready = f.call("hold_inputs", [f.args, job], I32)
            alive = f.cmp("sge", ready, f.const(0, I32))
            (made,) = f.if_(
                alive,
                lambda: f.is_not_zero(f.call("make_outputs", [f.args, job], I32)),
                lambda: f.const(False, I1),
            )

            def give_up() -> Value:
                f.call("job_drop", [job])
                return python()

            def start() -> Value:
                f.call("donate", [f.args, job])
                return f.call("start", [f.args, job, ready], PTR)

            return f.if_(made, start, give_up)[0]

        def several() -> Value:
            done = f.is_not_zero(f.call("execute_processes", [f.args], I32))
            return f.if_(done, f.null, python)[0]

        def run() -> Value:
            return f.if_(alone, hold, several)[0]

        return f.if_(fits, run, python)[0]

    (error,) = f.if_(f.is_null(plan), python, native)
    f.ret(error)
    return f


def in_python(f: Native, device: Value) -> Value:
    """What Python's function of this name, on the platform of a device, returns."""
    return f.call_pointer(f.get(PTR, f.field(device, "device", "python", PTR), PYTHON[f.name]), [f.args], PTR)


def is_lost(f: Native, driver: Value) -> Value:
    """Whether a DRIVER, if it is one, is that of a lost device."""

    def look() -> Value:
        return f.is_not_zero(f.load(I64, f.get(PTR, driver, DRIVER["given"])))

    return f.if_(f.is_null(driver), lambda: f.const(False, I1), look)[0]


def _job_new(state: int) -> Native:
    """ptr job_new(plan, device): a job for the device of that number, among those of the program."""
    f = Native("job_new", state, [("plan", PTR), ("device", I64)])
    job = f.allocate(planned(f, f.plan, "job_bytes"))
    f.put(f.plan, job, JOB["plan"])
    f.put(f.device, job, JOB["number"])
    f.put(planned(f, f.plan, "driver"), job, JOB["driver"])
    for name in ("owner", "event", "scratch", "failure", "grid", "handle"):
        f.put(f.const(0), job, JOB[name])
    f.ret(job)
    return f


def row_of(f: Native, offset: int) -> Value:
    """The list of arguments, or of results, of the device of a job."""
    return f.load(PTR, f.get(PTR, f.args, offset), f.get(I64, f.job, JOB["number"]))


def _hold_inputs(state: int) -> Native:
    """i32 hold_inputs(args, job): enter the arguments; a negative number where one is deleted, has another size,
    or lies in memory otherwise; else whether all of them are there by now."""
    f = Native("hold_inputs", state, [("args", PTR), ("job", PTR)], I32)
    plan = f.get(PTR, f.job, JOB["plan"])
    number = planned(f, plan, "num_inputs")
    holds, events = table(f, f.job, plan, "holds"), table(f, f.job, plan, "events")
    sizes, orders = planned(f, plan, "sizes", PTR), planned(f, plan, "orders", PTR)
    inputs = f.at(f.job, INPUTS)
    begin = f.binary("sub", planned(f, plan, "events"), planned(f, plan, "holds"))
    driver = f.get(I64, f.job, JOB["driver"])
    f.set_memory(holds, 0, f.binary("add", begin, f.binary("shl", number, f.const(3))))
    f.ret_if(f.is_zero(number), f.const(1, I32))
    row = row_of(f, ARGUMENTS)

    def enter(index: Value, outcome: Value) -> list[Value]:
        buffer = f.load(PTR, row, index)
        lock = f.place(buffer, "buffer", "lock")
        f.lock(lock)
        good = f.both(
            f.is_zero(f.field(buffer, "buffer", "deleted")),
            f.cmp("eq", f.field(buffer, "buffer", "bytes"), f.load(I64, sizes, index)),
            _lies_as(f, buffer, f.load(I64, orders, index)),
        )

        def hold() -> Value:
            storage = f.field(buffer, "buffer", "storage", PTR)
            f.refer(storage)
            f.store(storage, holds, index)
            there = f.cmp("eq", f.field(storage, "storage", "start"), driver)  # a device may have been lost
            return f.either(f.is_zero(driver), there)

        (good,) = f.if_(good, hold, lambda: f.const(False, I1))
        f.unlock(lock)
        f.store(f.field(buffer, "buffer", "data"), inputs, index)
        event = f.field(buffer, "buffer", "event", PTR)

        def wait() -> Value:
            f.refer(event)
            f.store(event, events, index)
            return f.const(False, I1)

        def look() -> Value:
            clean = f.both(is_over(f, event), f.is_zero(f.field(event, "event", "error")))
            return f.if_(clean, lambda: f.const(True, I1), wait)[0]

        (there,) = f.if_(f.is_null(event), lambda: f.const(True, I1), look)
        outcome = f.select(there, outcome, f.binary("and", outcome, f.const(-2, I32)))
        return [f.select(good, outcome, f.binary("or", outcome, f.const(-4, I32)))]

    (outcome,) = f.loop(0, number, 1, enter, [f.const(1, I32)])
    f.ret(outcome)
    return f


def _lies_as(f: Native, buffer: Value, order: Value) -> Value:
    """Whether the dimensions of an array lie in an order, whose address is that; 0: whether it is row-major."""
    own = f.field(buffer, "buffer", "minor_to_major")
    return f.select(f.is_zero(order), is_row_major(f, buffer), f.cmp("eq", own, order))


def _make_outputs(state: int) -> Native:
    """i32 make_outputs(args, job): memory of results that are not donated, and of the workspace. 0 where there is no
    memory, or an argument cannot be donated."""
    f = Native("make_outputs", state, [("args", PTR), ("job", PTR)], I32)
    plan = f.get(PTR, f.job, JOB["plan"])
    made, outputs = table(f, f.job, plan, "made"), table(f, f.job, plan, "outputs")
    donates = f.is_not_zero(planned(f, plan, "donates"))
    driver = planned(f, plan, "driver", PTR)
    on_host = f.is_null(driver)
    (twice,) = f.if_(
        donates, lambda: f.is_not_zero(f.call("donates_twice", [f.args, f.job], I32)), lambda: f.const(False, I1)
    )
    f.ret_if(twice, f.const(0, I32))

    def make(index: Value, good: Value) -> list[Value]:
        result = result_of(f, plan, index)
        source, size = f.get(I64, result, RESULT["donated"]), f.get(I64, result, RESULT["bytes"])
        wanted = f.cmp("sge", source, f.const(0))

        def donated() -> Value:
            return f.is_not_zero(f.call("is_donated", [f.args, f.job, source], I32))

        (taken,) = f.if_(wanted, donated, lambda: f.const(False, I1))

        def on_device() -> Value:  # Python copies arguments that are kept
            return f.if_(wanted, f.null, lambda: f.call("storage_on", [driver, size], PTR))[0]

        def allocate() -> Value:
            (storage,) = f.if_(on_host, lambda: f.call("storage_new", [size], PTR), on_device)
            f.store(storage, made, index)

            def enter() -> None:
                f.store(f.field(storage, "storage", "address"), outputs, index)

            there = f.no(f.is_null(storage))
            f.if_(there, enter)
            return there

        (there,) = f.if_(taken, lambda: f.const(True, I1), allocate)
        return [f.both(good, there)]

    (good,) = f.loop(0, planned(f, plan, "num_outputs"), 1, make, [f.const(True, I1)])
    workspace = planned(f, plan, "workspace")

    def own() -> list[Value]:
        place = f.binary("add", f.number(f.job), f.binary("add", workspace, f.const(63)))
        return [f.binary("and", place, f.const(-64)), f.const(True, I1)]

    def allocated() -> list[Value]:
        storage = f.call("storage_new", [planned(f, plan, "workspace_bytes")], PTR)
        f.put(storage, f.job, JOB["scratch"])
        there = f.no(f.is_null(storage))
        (address,) = f.if_(there, lambda: f.field(storage, "storage", "address"), lambda: f.const(0))
        return [address, there]

    def of_host() -> list[Value]:
        return f.if_(f.is_not_zero(workspace), own, allocated)

    address, there = f.if_(on_host, of_host, lambda: [planned(f, plan, "arena"), f.const(True, I1)])
    f.ret_if(f.no(f.both(good, there)), f.const(0, I32))
    values = {
        "size": f.const(ctypes.sizeof(Call)),
        "inputs": f.number(f.at(f.job, INPUTS)),
        "outputs": f.number(outputs),
        "workspace": address,
        "error": f.number(f.at(f.job, JOB["failure"])),
    }
    for name in CALL:
        known = ("constants", "interrupt", "parallel_for", "parallel_context", "stream")
        value = values.get(name) or (planned(f, plan, name) if name in known else f.const(0))
        f.put(value, f.job, CALL[name])
    f.ret(f.const(1, I32))
    return f


# --- running ----------------------------------------------------------------------------------------------------------


def device_of(f: Native, executable: Value, number: Index) -> Value:
    """A device of an executable."""
    return f.load(PTR, f.field(executable, "executable", "devices", PTR), number)


def is_idle(f: Native, device: Value) -> Value:
    """Whether nothing is in the queue of a device."""
    return f.is_zero(f.atomic_load(I32, f.at(f.field(device, "device", "queue", PTR), PENDING)))


def answer(f: Native, event: Value, number: Index) -> None:
    """Give the caller the event of a device, where it asks for it."""
    events = f.get(PTR, f.args, EVENTS)
    f.if_(f.no(f.is_null(events)), lambda: f.store(event, events, number))


def _start(state: int) -> Native:
    """ptr start(args, job, ready): run the job of a program on one device, or hand it to the queue, and make the
    buffers of its results. Returns an error, or null."""
    f = Native("start", state, [("args", PTR), ("job", PTR), ("ready", I32)])
    plan = f.get(PTR, f.job, JOB["plan"])
    device = device_of(f, f.get(PTR, f.args, EXECUTABLE), 0)
    on_device = f.no(f.is_null(planned(f, plan, "driver", PTR)))

    def ask() -> Value:
        return f.call("ask", [f.args, f.job], PTR)

    at_once = f.both(
        f.is_not_zero(f.ready),
        f.is_not_zero(planned(f, plan, "inline")),
        f.either(f.is_zero(planned(f, plan, "donates")), is_idle(f, device)),
    )

    def run() -> Value:
        error = f.call("job_run", [f.job], PTR)

        def done() -> None:
            f.call("results", [f.args, f.job, f.null()])
            answer(f, f.shared(DONE), 0)

        f.if_(f.is_null(error), done)
        f.call("job_drop", [f.job])
        return error

    def hand_over() -> Value:
        f.call("hand_out", [f.args, f.job])
        f.call("queue_push", [f.field(device, "device", "queue", PTR), f.job])
        return f.null()

    def on_host() -> Value:
        return f.if_(at_once, run, hand_over)[0]

    f.ret(f.if_(on_device, ask, on_host)[0])
    return f


def _hand_out(state: int) -> Native:
    """void hand_out(args, job): the buffers of the results of a job that is to be queued, and its event."""
    f = Native("hand_out", state, [("args", PTR), ("job", PTR)], None)
    plan, executable = f.get(PTR, f.job, JOB["plan"]), f.get(PTR, f.args, EXECUTABLE)
    # References of the job, of each buffer, and of the caller.
    asked = f.select(f.is_null(f.get(PTR, f.args, EVENTS)), f.const(1), f.const(2))
    event = f.call("event_new", [f.binary("add", asked, planned(f, plan, "num_outputs"))], PTR)
    f.put(event, f.job, JOB["event"])
    f.put(executable, f.job, JOB["owner"])
    f.refer(executable)
    f.call("results", [f.args, f.job, event])
    answer(f, event, f.get(I64, f.job, JOB["number"]))
    f.ret()
    return f


def _results(state: int) -> Native:
    """void results(args, job, event): the buffers of the results, and where the caller finds them."""
    f = Native("results", state, [("args", PTR), ("job", PTR), ("event", PTR)], None)
    device = device_of(f, f.get(PTR, f.args, EXECUTABLE), f.get(I64, f.job, JOB["number"]))
    plan = f.get(PTR, f.job, JOB["plan"])
    made, number = table(f, f.job, plan, "made"), planned(f, plan, "num_outputs")
    f.ret_if(f.is_zero(number))
    row = row_of(f, _OUTPUTS)

    def make(index: Value) -> None:
        result, storage = result_of(f, plan, index), f.load(PTR, made, index)
        f.refer(storage)
        values: Sequence[Value] = [
            f.cast("trunc", f.get(I64, result, RESULT["type"]), I32),
            f.get(I64, result, RESULT["rank"]),
            f.get(PTR, result, RESULT["dims"]),
            f.get(I64, result, RESULT["bytes"]),
        ]
        buffer = f.call("buffer_new", [*values, device, storage, f.event], PTR)
        memories = f.field(device, "device", "memories", PTR)
        f.set_field(f.load(I64, memories, f.get(I64, result, RESULT["memory"])), buffer, "buffer", "memory")
        f.set_field(f.get(I64, result, RESULT["order"]), buffer, "buffer", "minor_to_major")
        f.store(buffer, row, index)

    each(f, number, make)
    f.ret()
    return f


def _job_run(state: int) -> Native:
    """ptr job_run(job): wait for what it reads, and run it, or for the driver that does; an error, or null."""
    f = Native("job_run", state, [("job", PTR)])
    plan, driver = f.get(PTR, f.job, JOB["plan"]), f.get(PTR, f.job, JOB["driver"])
    (error,) = f.if_(f.is_null(driver), f.null, lambda: f.call("job_await", [f.job], PTR))
    f.ret_if(f.no(f.is_null(driver)), error)
    events, number = table(f, f.job, plan, "events"), planned(f, plan, "num_inputs")

    def await_(index: Value, found: Value) -> list[Value]:
        del found
        event = f.load(PTR, events, index)
        (error,) = f.if_(f.is_null(event), f.null, lambda: f.call("event_await", [event], PTR))
        return [f.binary("add", index, f.const(1)), f.number(error)]

    def goes_on(index: Value, found: Value) -> Value:
        return f.both(f.cmp("slt", index, number), f.is_zero(found))

    _, error = f.while_([f.const(0), f.const(0)], goes_on, await_)

    def run() -> Value:
        f.if_(f.is_not_zero(planned(f, plan, "donates")), lambda: _copy_kept(f, plan))
        status = f.call_pointer(planned(f, plan, "entry", PTR), [f.at(f.job, JOB["call"])], I32)
        # What a process of a grid ended with because the grid has failed is for the grid to say.
        in_grid = f.no(f.is_null(f.get(PTR, f.job, JOB["grid"])))
        good = f.either(f.is_zero(status), f.both(in_grid, f.cmp("ne", status, f.const(FAILED, I32))))
        return f.if_(good, f.null, lambda: f.call("failure", [f.job], PTR))[0]

    (error,) = f.if_(f.is_zero(error), run, lambda: f.pointer(error))
    f.ret(error)
    return f


def _copy_kept(f: Native, plan: Value) -> None:
    """A program updates donated arguments in place. Those that are kept are copied to where the result is to be."""
    made, holds = table(f, f.job, plan, "made"), table(f, f.job, plan, "holds")
    inputs, outputs = f.at(f.job, INPUTS), table(f, f.job, plan, "outputs")

    def copy(index: Value) -> None:
        result = result_of(f, plan, index)
        source = f.get(I64, result, RESULT["donated"])

        def decide() -> None:
            differs = f.cmp("ne", f.load(I64, made, index), f.load(I64, holds, source))

            def own() -> None:
                target = f.load(PTR, outputs, index)
                f.copy_memory(target, f.load(PTR, inputs, source), f.get(I64, result, RESULT["bytes"]))
                f.store(target, inputs, source)

            f.if_(differs, own)

        f.if_(f.cmp("sge", source, f.const(0)), decide)

    each(f, planned(f, plan, "num_outputs"), copy)


def _job_drop(state: int) -> Native:
    """void job_drop(job): give back what it holds, and free it."""
    f = Native("job_drop", state, [("job", PTR)], None)
    plan = f.get(PTR, f.job, JOB["plan"])
    inputs, outputs = planned(f, plan, "num_inputs"), planned(f, plan, "num_outputs")
    for name, number, drop in (
        ("holds", inputs, "storage_drop"),
        ("events", inputs, "event_drop"),
        ("made", outputs, "storage_drop"),
    ):
        entries = table(f, f.job, plan, name)

        def give_back(index: Value, entries: Value = entries, drop: str = drop) -> None:
            f.call(drop, [f.load(PTR, entries, index)])

        each(f, number, give_back)
    f.call("storage_drop", [f.get(PTR, f.job, JOB["scratch"])])
    f.free(f.job)
    f.ret()
    return f


# --- what goes wrong --------------------------------------------------------------------------------------------------


def _failure(state: int) -> Native:
    """ptr failure(job): the error of a call that failed. Its record (runtime/callbacks.py) says which custom call it
    was, up to a newline, and what that says."""
    f = Native("failure", state, [("job", PTR)])
    record = f.get(PTR, f.job, JOB["failure"])
    site, said = f.load(PTR, record), f.at(record, SITE_BYTES)
    newline = f.alloca(1, I64)
    f.store(f.const(ord("\n")), newline)
    name_bytes = f.call("strcspn", [site, newline], I64, external=True)
    block = f.allocate(f.binary("add", name_bytes, f.const(ERROR_BYTES + MESSAGE_BYTES + FAILED_BYTES)))
    message = f.at(block, ERROR_BYTES)
    name = f.call("stpcpy", [message, f.shared(FAILED_BEFORE)], PTR, external=True)
    f.call("memcpy", [name, site, name_bytes], PTR, external=True)
    end = f.call("stpcpy", [f.at(name, name_bytes), f.shared(FAILED_BETWEEN)], PTR, external=True)
    end = f.call("stpcpy", [end, said], PTR, external=True)
    finish_error(f, block, end)
    f.ret(block)
    return f


def finish_error(f: Native, block: Value, end: Value) -> None:
    """Make an error of a block whose message, behind the error, ends there."""
    message = f.at(block, ERROR_BYTES)
    f.put(f.const(OWN), block, NEXT)
    f.put(f.const(1), block, REFERENCES)
    f.set_field(f.number(message), block, "error", "message")
    f.set_field(f.binary("sub", f.number(end), f.number(message)), block, "error", "size")
    f.set_field(f.const(_INTERNAL, I32), block, "error", "code")
