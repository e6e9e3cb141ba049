"""Calls and copies on GPUs: native code (code.py).

A device of a driver does what it is asked for in order. So the calling thread asks for a call at once, under the lock
of the device: what the program reads is written before, whoever writes it, and memory that is freed meanwhile is that
of later results. The job then holds events alone, and goes to the queue of the device, whose thread waits for the
driver and ends the event of the job, with the error of what it depends on, else with its own.

A `DRIVER` (fields.py) is what native code knows of the device: the functions of backends/gpu/driver/asking.py.
"""

from __future__ import annotations

from stablehlo_py.codegen.builder import I1, I32, I64, PTR, Value
from stablehlo_py.pjrt.code import Native
from stablehlo_py.pjrt.execution import EXECUTABLE, device_of, each, planned, table
from stablehlo_py.pjrt.fields import COPY, DRIVER, JOB, LEAVING, MISSING, PLAN, RELEASING


def functions(state: int) -> list[Native]:
    """Of calls and copies on GPUs."""
    return [
        *(_ask(state), _let_go(state), _job_await(state), _first_error(state), _driver_error(state), _watch(state)),
        *(_begin_copy(state), _copy_back(state), _copy_there(state)),
    ]


def _lock(f: Native, driver: Value) -> None:
    """Take a driver's lock. Who has it may be waiting for Python's, so nobody waits for it who has that."""
    mutex = f.get(PTR, driver, DRIVER["lock"])
    status = f.call("pthread_mutex_trylock", [mutex], I32, external=True)

    def wait() -> None:
        python = f.call("leave_python", [], PTR)
        f.call("pthread_mutex_lock", [mutex], I32, external=True)
        f.call("enter_python", [python])

    f.if_(f.no(f.is_zero(status)), wait)


def _unlock(f: Native, driver: Value) -> None:
    f.call("pthread_mutex_unlock", [f.get(PTR, driver, DRIVER["lock"])], I32, external=True)


def _ask(state: int) -> Native:
    """ptr ask(args, job): ask the driver for a call, and let its thread end it. An error, or null."""
    f = Native("ask", state, [("args", PTR), ("job", PTR)])
    plan, driver = f.get(PTR, f.job, JOB["plan"]), f.get(PTR, f.job, JOB["driver"])
    executable = f.get(PTR, f.args, EXECUTABLE)
    queue = f.field(device_of(f, executable, 0), "device", "queue", PTR)
    f.call("queue_room", [queue])
    asked = [
        f.get(PTR, driver, DRIVER["given"]),
        planned(f, plan, "entry", PTR),
        f.at(f.job, JOB["call"]),
        planned(f, plan, "replay", PTR),
        f.at(f.job, JOB["handle"]),
    ]
    _lock(f, driver)
    status = f.call_pointer(f.get(PTR, driver, DRIVER["ask"]), asked, I64)
    (error,) = f.if_(f.is_zero(status), f.null, lambda: f.call("driver_error", [driver, executable, status], PTR))
    _unlock(f, driver)

    def fail() -> Value:
        f.call("job_drop", [f.job])
        return error

    def go_on() -> Value:
        f.call("hand_out", [f.args, f.job])
        f.call("let_go", [f.job])
        f.call("queue_push", [queue, f.job])
        return f.null()

    f.ret(f.if_(f.is_zero(status), go_on, fail)[0])
    return f


def _let_go(state: int) -> Native:
    """void let_go(job): give back the memory of a job that the device was asked for."""
    f = Native("let_go", state, [("job", PTR)], None)
    plan = f.get(PTR, f.job, JOB["plan"])
    for name, number in (("holds", "num_inputs"), ("made", "num_outputs")):
        entries = table(f, f.job, plan, name)

        def give_back(index: Value, entries: Value = entries) -> None:
            f.call("storage_drop", [f.load(PTR, entries, index)])
            f.store(f.null(), entries, index)

        each(f, planned(f, plan, number), give_back)
    f.ret()
    return f


def _job_await(state: int) -> Native:
    """ptr job_await(job): wait until what the device was asked for is done; the error of what it depends on, else its
    own, or null."""
    f = Native("job_await", state, [("job", PTR)])
    plan, driver = f.get(PTR, f.job, JOB["plan"]), f.get(PTR, f.job, JOB["driver"])
    events = table(f, f.job, plan, "events")

    def await_(index: Value, found: Value) -> list[Value]:
        event = f.load(PTR, events, index)
        (error,) = f.if_(f.is_null(event), f.null, lambda: f.call("event_await", [event], PTR))
        return [f.call("first_error", [f.pointer(found), error], I64)]

    (found,) = f.loop(0, planned(f, plan, "num_inputs"), 1, await_, [f.const(0)])
    waiting = [f.get(PTR, driver, DRIVER["given"]), f.get(PTR, f.job, JOB["handle"])]
    status = f.call_pointer(f.get(PTR, driver, DRIVER["wait"]), waiting, I64)
    (own,) = f.if_(f.is_zero(status), f.null, lambda: f.call("driver_error", [driver, f.null(), status], PTR))
    f.ret(f.pointer(f.call("first_error", [f.pointer(found), own], I64)))
    return f


def _first_error(state: int) -> Native:
    """i64 first_error(a, b): the first of two errors that is one, and a reference to the other given back."""
    f = Native("first_error", state, [("a", PTR), ("b", PTR)], I64)
    f.ret_if(f.is_null(f.a), f.number(f.b))
    f.if_(f.no(f.is_null(f.b)), lambda: f.call("error_drop", [f.b]))
    f.ret(f.number(f.a))
    return f


def _driver_error(state: int) -> Native:
    """ptr driver_error(driver, executable, status): the error of a status of the driver, which Python makes; of a call
    of an executable, or of a command (null). Not when the interpreter ends, nor in a forked child."""
    f = Native("driver_error", state, [("driver", PTR), ("executable", PTR), ("status", I64)])
    f.atomic_add(f.cell(RELEASING), f.const(1))
    over = f.either(f.is_not_zero(f.atomic_load(I32, f.cell(LEAVING))), f.is_forked())

    def missing() -> Value:
        error = f.shared(MISSING)
        f.refer(error)
        return error

    def ask() -> Value:
        return f.call_pointer(f.get(PTR, f.driver, DRIVER["failed"]), [f.executable, f.status], PTR)

    (error,) = f.if_(over, missing, ask)
    f.atomic_add(f.cell(RELEASING), f.const(-1))
    f.ret(error)
    return f


def _watch(state: int) -> Native:
    """ptr watch(driver, plan, handle): a job for what Python has asked the driver for, without memory and events
    by now (`Blocks.watch`)."""
    f = Native("watch", state, [("driver", PTR), ("plan", PTR), ("handle", PTR)])
    job = f.call("job_new", [f.plan, f.const(0)], PTR)
    f.put(f.driver, job, JOB["driver"])
    f.put(f.handle, job, JOB["handle"])
    holds = table(f, job, f.plan, "holds")
    f.set_memory(holds, 0, f.binary("sub", f.get(I64, f.plan, PLAN["job_bytes"]), f.get(I64, f.plan, PLAN["holds"])))
    f.put(f.call("event_new", [f.const(2)], PTR), job, JOB["event"])
    f.ret(job)
    return f


# --- copies -----------------------------------------------------------------------------------------------------------


def _begin_copy(state: int) -> Native:
    """ptr begin_copy(driver, target, source, size, handle): ask the driver for a copy between addresses, of the device
    or of the host; where its event goes. An error, or null. JAX may call with Python's lock, and the driver may return
    only when the copy is done."""
    parameters = [("driver", PTR), ("target", PTR), ("source", PTR), ("size", I64), ("handle", PTR)]
    f = Native("begin_copy", state, parameters)
    f.store(f.null(), f.handle)
    f.ret_if(f.is_zero(f.size), f.null())
    asked = [f.get(PTR, f.driver, DRIVER["given"]), f.target, f.source, f.size, f.handle]
    python = f.call("leave_python", [], PTR)
    _lock(f, f.driver)
    status = f.call_pointer(f.get(PTR, f.driver, DRIVER["copy"]), asked, I64)
    (error,) = f.if_(f.is_zero(status), f.null, lambda: f.call("driver_error", [f.driver, f.null(), status], PTR))
    _unlock(f, f.driver)
    f.call("enter_python", [python])
    f.ret(error)
    return f


def _copy_job(f: Native, driver: Value, handle: Value, device: Value, table_: str, entry: Value, event: Value) -> None:
    """Let the thread of a device end a copy, whose job has an entry in one of its tables; its event is stored."""
    plan = f.cell(COPY)
    job = f.call("watch", [driver, plan, f.load(PTR, handle)], PTR)
    f.store(entry, table(f, job, plan, table_))
    f.store(f.get(PTR, job, JOB["event"]), event)
    f.call("queue_push", [f.field(device, "device", "queue", PTR), job])


def _copy_back(state: int) -> Native:
    """ptr copy_back(buffer, held, offset, target, size, event): copy bytes of a buffer to the host; stores an event,
    with a reference. Takes over the reference to its storage. An error, or null."""
    parameters = [("buffer", PTR), ("held", PTR), ("offset", I64), ("target", PTR), ("size", I64), ("event", PTR)]
    f = Native("copy_back", state, parameters)
    handle, driver = f.alloca(1, PTR), f.field(f.held, "storage", "start", PTR)
    source = f.at(f.field(f.held, "storage", "address", PTR), f.offset)
    error = f.call("begin_copy", [driver, f.target, source, f.size, handle], PTR)
    f.call("storage_drop", [f.held])
    f.ret_if(f.no(f.is_null(error)), error)
    before = f.field(f.buffer, "buffer", "event", PTR)
    f.if_(f.no(f.is_null(before)), lambda: f.refer(before))
    _copy_job(f, driver, handle, f.field(f.buffer, "buffer", "device", PTR), "events", before, f.event)
    f.ret(f.null())
    return f


def _copy_there(state: int) -> Native:
    """ptr copy_there(device, driver, data, stays, size, event): new memory of a device with bytes of the host; stores
    the event after which they are there, with a reference. Bytes that may change when this returns are copied first;
    others the driver copies, and they stay where they are until the event. Null where Python has to do it."""
    parameters = [("device", PTR), ("driver", PTR), ("data", PTR), ("stays", I1), ("size", I64), ("event", PTR)]
    f = Native("copy_there", state, parameters)
    storage = f.call("storage_on", [f.driver, f.size], PTR)
    f.ret_if(f.is_null(storage), f.null())
    handle = f.alloca(1, PTR)

    def asked(data: Value) -> Value:
        address = f.field(storage, "storage", "address", PTR)
        error = f.call("begin_copy", [f.driver, address, data, f.size, handle], PTR)
        f.call("error_drop", [error])
        return f.is_null(error)

    def staged() -> list[Value]:
        copy = f.call("storage_new", [f.size], PTR)

        def fill() -> Value:
            place = f.field(copy, "storage", "address", PTR)
            f.copy_memory(place, f.data, f.size)
            return asked(place)

        return [copy, *f.if_(f.is_null(copy), lambda: f.const(False, I1), fill)]

    held, done = f.if_(f.stays, lambda: [f.null(), asked(f.data)], staged)

    def give_up() -> Value:
        f.call("storage_drop", [storage])
        f.call("storage_drop", [held])
        return f.null()

    def go_on() -> Value:
        _copy_job(f, f.driver, handle, f.device, "holds", held, f.event)
        return storage

    f.ret(f.if_(done, go_on, give_up)[0])
    return f
