"""Calls of programs on several devices: native code (code.py).

Such a call is a job for each device, put into the queues of all at once. Where the processes communicate, the jobs
share a block of memory: what those of a process grid share (backends/cpu/layout.py), and behind which events the caller
waits. Their call ends as a whole: the event of each device is over when all have ended, with the first error of one.
Processes that wait look themselves whether all do so for ever.

A cheap program whose processes do not wait for each other is run by the thread that calls, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable

from stablehlo_py.backends.cpu import layout
from stablehlo_py.codegen.builder import I1, I32, I64, PTR, Value
from stablehlo_py.pjrt import queue
from stablehlo_py.pjrt.code import Native
from stablehlo_py.pjrt.execution import EVENTS, EXECUTABLE, answer, device_of, each, finish_error, is_idle, planned
from stablehlo_py.pjrt.fields import (
    CALL,
    DONE,
    ERROR_BYTES,
    FIRST_ERROR,
    GRID,
    INPUTS,
    JOB,
    LEFT,
    ORDER,
    SHARED_EVENTS,
)


def functions(state: int) -> list[Native]:
    """Of programs on several devices."""
    return [
        *(_execute(state), _run_here(state), _enqueue(state), _share(state), _enter(state)),
        *(_process_end(state), _grid_failure(state)),
    ]


def _of_grid(f: Native, plan: Value, name: str) -> Value:
    return f.get(I64, planned(f, plan, "grid", PTR), GRID[name])


def _execute(state: int) -> Native:
    """i32 execute_processes(args): a call on all devices of a program; 0 where Python has to make it."""
    f = Native("execute_processes", state, [("args", PTR)], I32)
    executable = f.get(PTR, f.args, EXECUTABLE)
    plan = f.field(executable, "executable", "plan", PTR)
    devices = planned(f, plan, "devices")
    jobs = f.allocate(f.binary("shl", devices, f.const(3)))

    def hold(index: Value, alive: Value, ready: Value) -> list[Value]:
        job = f.call("job_new", [plan, index], PTR)
        f.store(job, jobs, index)
        held = f.call("hold_inputs", [f.args, job], I32)
        return [f.both(alive, f.cmp("sge", held, f.const(0, I32))), f.both(ready, f.is_not_zero(held))]

    alive, ready = f.loop(0, devices, 1, hold, [f.const(True, I1), f.const(True, I1)])

    def make(index: Value, good: Value) -> list[Value]:
        def attempt() -> Value:
            made = f.is_not_zero(f.call("make_outputs", [f.args, f.load(PTR, jobs, index)], I32))
            started = f.is_not_zero(f.call("queue_start", [_queue(f, executable, index)], I32))
            return f.both(made, started)

        return f.if_(good, attempt, lambda: f.const(False, I1))

    (good,) = f.loop(0, devices, 1, make, [alive])
    shares = f.is_not_zero(planned(f, plan, "grid"))
    (grid,) = f.if_(f.both(good, shares), lambda: f.call("grid_new", [plan], PTR), f.null)
    good = f.both(good, f.no(f.both(shares, f.is_null(grid))))

    def give_up() -> Value:
        each(f, devices, lambda index: f.call("job_drop", [f.load(PTR, jobs, index)]))
        return f.const(0, I32)

    def start() -> Value:
        each(f, devices, lambda index: f.call("donate", [f.args, f.load(PTR, jobs, index)]))
        f.if_(shares, lambda: each(f, devices, lambda index: f.call("enter_grid", [f.load(PTR, jobs, index), grid])))

        def idle(index: Value, found: Value) -> list[Value]:
            return [f.both(found, is_idle(f, device_of(f, executable, index)))]

        (all_idle,) = f.loop(0, devices, 1, idle, [f.const(True, I1)])
        at_once = f.both(
            ready,
            f.is_not_zero(planned(f, plan, "inline")),
            f.either(f.is_zero(planned(f, plan, "donates")), all_idle),
        )

        def here() -> None:
            each(f, devices, lambda index: f.call("run_here", [f.args, f.load(PTR, jobs, index)]))
            f.free(grid)

        f.if_(at_once, here, lambda: f.call("enqueue_processes", [f.args, jobs]))
        return f.const(1, I32)

    (done,) = f.if_(good, start, give_up)
    f.free(jobs)
    f.ret(done)
    return f


def _queue(f: Native, executable: Value, number: Value) -> Value:
    return f.field(device_of(f, executable, number), "device", "queue", PTR)


def _run_here(state: int) -> Native:
    """void run_here(args, job): run a job, and make its results, which have its error."""
    f = Native("run_here", state, [("args", PTR), ("job", PTR)], None)
    plan, number = f.get(PTR, f.job, JOB["plan"]), f.get(I64, f.job, JOB["number"])
    error = f.call("job_run", [f.job], PTR)

    def done() -> None:
        f.call("results", [f.args, f.job, f.null()])
        answer(f, f.shared(DONE), number)

    def failed() -> None:
        asked = f.select(f.is_null(f.get(PTR, f.args, EVENTS)), f.const(1), f.const(2))
        event = f.call("event_new", [f.binary("add", asked, planned(f, plan, "num_outputs"))], PTR)
        f.call("event_complete", [event, error])
        f.call("results", [f.args, f.job, event])
        answer(f, event, number)
        f.call("event_drop", [event])

    f.if_(f.is_null(error), done, failed)
    f.call("job_drop", [f.job])
    f.ret()
    return f


def _enqueue(state: int) -> Native:
    """void enqueue_processes(args, jobs): put the jobs of a call into the queues of their devices."""
    f = Native("enqueue_processes", state, [("args", PTR), ("jobs", PTR)], None)
    executable = f.get(PTR, f.args, EXECUTABLE)
    plan = f.field(executable, "executable", "plan", PTR)
    devices = planned(f, plan, "devices")

    def of_queues(body: Callable[[Value, Value], None]) -> None:
        each(f, devices, lambda index: body(_queue(f, executable, index), f.load(PTR, f.jobs, index)))

    def prepare(device_queue: Value, job: Value) -> None:
        f.call("hand_out", [f.args, job])
        grid = f.get(PTR, job, JOB["grid"])

        def share() -> None:
            f.store(f.get(PTR, job, JOB["event"]), f.at(grid, SHARED_EVENTS), f.get(I64, job, JOB["number"]))

        f.if_(f.no(f.is_null(grid)), share)
        f.call("queue_room", [device_queue])

    of_queues(prepare)
    f.lock(f.cell(ORDER))
    of_queues(lambda device_queue, job: queue.put(f, device_queue, job))
    f.unlock(f.cell(ORDER))
    each(f, devices, lambda index: queue.wake_worker(f, _queue(f, executable, index)))
    f.ret()
    return f


# --- what processes share ---------------------------------------------------------------------------------------------


def _share(state: int) -> Native:
    """ptr grid_new(plan): what the processes of a call share; null where there is no memory."""
    f = Native("grid_new", state, [("plan", PTR)])
    size, devices = _of_grid(f, f.plan, "bytes"), planned(f, f.plan, "devices")
    grid = f.call("aligned_alloc", [f.const(64), size], PTR, external=True)
    f.ret_if(f.is_null(grid), grid)
    f.set_memory(grid, 0, size)
    f.put(devices, grid, LEFT)
    header, records, inputs, barriers = (
        f.at(grid, _of_grid(f, f.plan, name)) for name in ("header", "records", "inputs", "barriers")
    )
    f.put(_of_grid(f, f.plan, "end"), header, layout.END)
    f.put(f.const(layout.NAP_NANOSECONDS), header, layout.NAP + 8)
    f.put(records, header, layout.RECORDS)
    f.put(barriers, header, layout.BARRIERS)
    f.put(devices, header, layout.PROCESSES)

    def enter(number: Value) -> None:
        record = f.at(records, f.binary("mul", number, f.const(layout.RECORD_BYTES)))
        process = f.at(inputs, f.binary("mul", number, f.const(layout.PROCESS_BYTES)))
        f.put(header, record, layout.HEADER)
        f.put(_of_grid(f, f.plan, "num_sites"), record, layout.SITE)
        f.put(number, process, layout.NUMBER)
        f.put(record, process, layout.RECORD)

    each(f, devices, enter)
    f.ret(grid)
    return f


def _enter(state: int) -> Native:
    """void enter_grid(job, grid): let a job be a process of a grid."""
    f = Native("enter_grid", state, [("job", PTR), ("grid", PTR)], None)
    plan, number = f.get(PTR, f.job, JOB["plan"]), f.get(I64, f.job, JOB["number"])
    inputs = f.at(f.grid, _of_grid(f, plan, "inputs"))
    process = f.at(inputs, f.binary("mul", number, f.const(layout.PROCESS_BYTES)))
    f.store(process, f.at(f.job, INPUTS), planned(f, plan, "num_inputs"))
    f.put(f.at(f.grid, _of_grid(f, plan, "header")), f.job, CALL["interrupt"])
    f.put(f.grid, f.job, JOB["grid"])
    f.ret()
    return f


def _process_end(state: int) -> Native:
    """void process_end(plan, grid, process, error): a process has ended; takes over a reference to its error. With the
    last one the call is over."""
    parameters = [("plan", PTR), ("grid", PTR), ("process", I64), ("error", PTR)]
    f = Native("process_end", state, parameters, None)
    failed = f.at(f.at(f.grid, _of_grid(f, f.plan, "header")), layout.FAILED)
    first_error = f.at(f.grid, FIRST_ERROR)
    # It waits for what never comes, for those that look whether all do.
    record = f.at(
        f.at(f.grid, _of_grid(f, f.plan, "records")), f.binary("mul", f.process, f.const(layout.RECORD_BYTES))
    )
    own = f.at(record, layout.HEADER)

    def give_up() -> None:
        first = f.compare_exchange(first_error, f.const(0), f.number(f.error))
        f.if_(first, lambda: None, lambda: f.call("error_drop", [f.error]))
        f.compare_exchange(failed, f.const(0, I32), f.const(layout.STOPPED, I32))

    f.if_(f.no(f.is_null(f.error)), give_up)
    f.put(f.cast("zext", f.load(I32, own), I64), record, layout.WAIT_VALUE)
    f.atomic_store(f.number(own), f.at(record, layout.WAIT_ADDRESS))

    def end() -> None:
        noticed = f.atomic_load(I32, failed)
        said = f.load(PTR, first_error)
        unsaid = f.both(f.is_null(said), f.is_not_zero(noticed))
        (error,) = f.if_(unsaid, lambda: f.call("grid_failure", [f.plan, f.grid], PTR), lambda: said)

        def complete(number: Value) -> None:
            event = f.load(PTR, f.at(f.grid, SHARED_EVENTS), number)
            f.if_(f.no(f.is_null(error)), lambda: f.refer(error))
            f.call("event_complete", [event, error])
            f.call("event_drop", [event])

        each(f, planned(f, f.plan, "devices"), complete)
        f.call("error_drop", [error])
        f.free(f.grid)

    before = f.atomic_add(f.at(f.grid, LEFT), f.const(-1))
    f.if_(f.cmp("eq", before, f.const(1)), end)
    f.ret()
    return f


def _grid_failure(state: int) -> Native:
    """ptr grid_failure(plan, grid): the error of processes that could not go on: what one of them noticed, and where
    all are."""
    f = Native("grid_failure", state, [("plan", PTR), ("grid", PTR)])
    header, records = (f.at(f.grid, _of_grid(f, f.plan, name)) for name in ("header", "records"))
    devices, sites = planned(f, f.plan, "devices"), _of_grid(f, f.plan, "num_sites")
    failures, labels, texts = (f.pointer(_of_grid(f, f.plan, name)) for name in ("failures", "labels", "sites"))
    block = f.allocate(f.binary("add", _of_grid(f, f.plan, "message_bytes"), f.const(ERROR_BYTES)))
    code = f.cast("zext", f.get(I32, header, layout.FAILED), I64)
    noticed = f.binary("add", f.binary("mul", code, devices), f.get(I64, header, layout.AT))

    def written(end: Value, texts: Value, number: Value) -> Value:
        return f.call("stpcpy", [end, f.load(PTR, texts, number)], PTR, external=True)

    def place(number: Value, end: Value) -> list[Value]:
        record = f.at(records, f.binary("mul", number, f.const(layout.RECORD_BYTES)))
        site = f.get(I64, record, layout.SITE)
        known = f.select(f.cmp("ult", site, sites), site, sites)
        return [f.number(written(written(f.pointer(end), labels, number), texts, known))]

    start = written(f.at(block, ERROR_BYTES), failures, noticed)
    (end,) = f.loop(0, devices, 1, place, [f.number(start)])
    finish_error(f, block, f.pointer(end))
    f.ret(block)
    return f
