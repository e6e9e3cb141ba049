"""The queue of a device, and copies, which are jobs as calls are: native code (code.py).

A queue has one thread, which starts with its first job. It takes all jobs that there are, and runs them in the order in
which they came. It needs no Python, and is not waited for when the process ends.

Programs on several devices put a job into each queue, which may wait for each other. That no two wait in a circle needs
all queues to have their jobs in one order: all are put into queues under one lock, ORDER.
"""

from __future__ import annotations

from collections.abc import Callable

from stablehlo_py.backends.cpu.pool import WAKE, futex, spin_then
from stablehlo_py.codegen.builder import I1, I32, I64, PTR, Value
from stablehlo_py.pjrt.code import Native
from stablehlo_py.pjrt.fields import (
    HANDLE,
    JOB,
    JOBS,
    MOST_PENDING,
    NEXT,
    ORDER,
    PENDING,
    PUSHED,
    SLEEPERS,
    STARTED,
    WAITERS,
)

_SIG_SETMASK, _SIGNAL_WORDS = 2, 16


def functions(state: int) -> list[Native]:
    """Of queues."""
    return [
        _push(state),
        _room(state),
        _leave_python(state),
        _enter_python(state),
        _start(state),
        _worker(state),
        _finish(state),
        _drain(state),
    ]


def _push(state: int) -> Native:
    """void queue_push(queue, job): waits while too many are in the queue."""
    f = Native("queue_push", state, [("queue", PTR), ("job", PTR)], None)
    f.call("queue_room", [f.queue])
    runs = f.is_not_zero(f.call("queue_start", [f.queue], I32))

    def hand_over() -> None:
        f.lock(f.cell(ORDER))
        put(f, f.queue, f.job)
        f.unlock(f.cell(ORDER))
        wake_worker(f, f.queue)

    def run() -> None:  # the system has no thread; the next job tries again
        f.atomic_add(f.at(f.queue, PENDING), f.const(1, I32))
        f.call("job_finish", [f.queue, f.job])

    f.if_(runs, hand_over, run)
    f.ret()
    return f


def put(f: Native, queue: Value, job: Value) -> None:
    """Put a job into a queue, whose thread has started; under the lock ORDER."""
    f.atomic_add(f.at(queue, PENDING), f.const(1, I32))
    f.push(f.at(queue, JOBS), job)
    f.atomic_add(f.at(queue, PUSHED), f.const(1, I32))


def wake_worker(f: Native, queue: Value) -> None:
    """Wake the thread of a queue, if it sleeps."""
    asleep = f.is_not_zero(f.atomic_load(I32, f.at(queue, SLEEPERS)))
    f.if_(asleep, lambda: futex(f, f.at(queue, PUSHED), WAKE, f.const(1, I32)))


def _room(state: int) -> Native:
    """void queue_room(queue): wait while too many jobs are in it. Who waits may have Python's lock, which jobs may need
    to say what failed."""
    f = Native("queue_room", state, [("queue", PTR)], None)

    def is_full(number: Value) -> Value:
        return f.cmp("sge", number, f.const(MOST_PENDING, I32))

    def wait() -> None:
        python = f.call("leave_python", [], PTR)
        _wait_while(f, f.queue, is_full)
        f.call("enter_python", [python])

    f.if_(is_full(f.atomic_load(I32, f.at(f.queue, PENDING))), wait)
    f.ret()
    return f


def _leave_python(state: int) -> Native:
    """ptr leave_python(): let other threads run Python, if this one may now; what `enter_python` takes, or null."""
    f = Native("leave_python", state, [])

    def may() -> Value:
        return f.is_not_zero(f.call("PyGILState_Check", [], I32, external=True))

    there = f.is_not_zero(f.call("Py_IsInitialized", [], I32, external=True))
    (runs,) = f.if_(there, may, lambda: f.const(False, I1))
    f.ret(f.if_(runs, lambda: f.call("PyEval_SaveThread", [], PTR, external=True), f.null)[0])
    return f


def _enter_python(state: int) -> Native:
    """void enter_python(left): wait until this thread may run Python again, if it could before."""
    f = Native("enter_python", state, [("left", PTR)], None)
    f.if_(f.no(f.is_null(f.left)), lambda: f.call("PyEval_RestoreThread", [f.left], external=True))
    f.ret()
    return f


def _start(state: int) -> Native:
    """i32 queue_start(queue): see that its thread runs: 1, or 0 where the system has none."""
    f = Native("queue_start", state, [("queue", PTR)], I32)
    first = f.compare_exchange(f.at(f.queue, STARTED), f.const(0, I32), f.const(1, I32))
    f.ret(f.if_(first, lambda: _started(f), lambda: f.const(1, I32))[0])
    return f


def _started(f: Native) -> Value:
    """Start the thread: 1, or 0 where the system has none. It inherits the mask: signals are Python's main thread's."""
    every, before = f.alloca(_SIGNAL_WORDS, I64), f.alloca(_SIGNAL_WORDS, I64)
    f.set_memory(every, -1, 8 * _SIGNAL_WORDS)
    mask = f.const(_SIG_SETMASK, I32)
    f.call("pthread_sigmask", [mask, every, before], I32, external=True)
    arguments = [f.at(f.queue, HANDLE), f.null(), f.address_of("queue_worker"), f.queue]
    status = f.call("pthread_create", arguments, I32, external=True)
    f.call("pthread_sigmask", [mask, before, f.null()], I32, external=True)

    def detach() -> Value:
        f.call("pthread_detach", [f.get(I64, f.queue, HANDLE)], I32, external=True)
        return f.const(1, I32)

    def refused() -> Value:  # the caller runs the job; the next one tries again
        f.atomic_store(f.const(0, I32), f.at(f.queue, STARTED))
        return f.const(0, I32)

    return f.if_(f.is_zero(status), detach, refused)[0]


def _worker(state: int) -> Native:
    """void *queue_worker(void *queue): the thread."""
    f = Native("queue_worker", state, [("queue", PTR)])
    head, pushed, sleepers = (f.at(f.queue, offset) for offset in (JOBS, PUSHED, SLEEPERS))

    def work() -> Value:
        return f.is_not_zero(f.atomic_load(I64, head))

    def sleep() -> None:
        f.atomic_add(sleepers, f.const(1, I32))
        number = f.atomic_load(I32, pushed)  # who pushes after this changes it
        f.if_(f.no(work()), lambda: f.sleep(pushed, number))
        f.atomic_add(sleepers, f.const(-1, I32))

    def take() -> list[Value]:
        spin_then(f, work, sleep)
        last = f.atomic_exchange(head, f.const(0))

        def turn(job: Value, behind: Value) -> list[Value]:
            before = f.get(I64, f.pointer(job), NEXT)
            f.put(behind, f.pointer(job), NEXT)
            return [before, job]

        _, first = f.while_([last, f.const(0)], lambda job, _: f.is_not_zero(job), turn)

        def run(job: Value) -> list[Value]:
            following = f.get(I64, f.pointer(job), NEXT)
            f.call("job_finish", [f.queue, f.pointer(job)])
            return [following]

        f.while_([first], f.is_not_zero, run)
        return []

    f.while_([], lambda: f.cmp("eq", f.const(0), f.const(0)), take)
    f.ret(f.null())
    return f


def _finish(state: int) -> Native:
    """void job_finish(queue, job): run it, and end its event, which is for the last process to do where several share
    one call. What it held is free by then."""
    f = Native("job_finish", state, [("queue", PTR), ("job", PTR)], None)
    error = f.call("job_run", [f.job], PTR)
    event, owner = f.get(PTR, f.job, JOB["event"]), f.get(PTR, f.job, JOB["owner"])
    plan, grid = f.get(PTR, f.job, JOB["plan"]), f.get(PTR, f.job, JOB["grid"])
    number, shares = f.get(I64, f.job, JOB["number"]), f.no(f.is_null(grid))
    f.call("job_drop", [f.job])
    f.if_(shares, lambda: f.call("process_end", [plan, grid, number, error]))
    f.if_(f.no(f.is_null(owner)), lambda: f.if_last(owner, lambda: f.discard(owner)))
    before = f.atomic_add(f.at(f.queue, PENDING), f.const(-1, I32))

    def complete() -> None:
        f.call("event_complete", [event, error])
        f.call("event_drop", [event])

    f.if_(shares, lambda: None, complete)
    full = f.cmp("sge", before, f.const(MOST_PENDING, I32))
    awaited = f.is_not_zero(f.atomic_load(I32, f.at(f.queue, WAITERS)))
    ends = f.either(full, f.cmp("eq", before, f.const(1, I32)))
    f.if_(f.both(ends, awaited), lambda: f.wake(f.at(f.queue, PENDING)))
    f.ret()
    return f


def _wait_while(f: Native, queue: Value, condition: Callable[[Value], Value]) -> None:
    """Sleep while a condition on how many jobs are pending holds."""
    pending, waiters = f.at(queue, PENDING), f.at(queue, WAITERS)

    def sleep() -> list[Value]:
        f.atomic_add(waiters, f.const(1, I32))
        number = f.atomic_load(I32, pending)
        f.if_(condition(number), lambda: f.sleep(pending, number))
        f.atomic_add(waiters, f.const(-1, I32))
        return []

    def goes_on() -> Value:
        return f.both(condition(f.atomic_load(I32, pending)), f.no(f.is_forked()))

    f.while_([], goes_on, sleep)


def _drain(state: int) -> Native:
    """void queue_drain(queue): sleep until all of its jobs are over."""
    f = Native("queue_drain", state, [("queue", PTR)], None)
    _wait_while(f, f.queue, f.is_not_zero)
    f.ret()
    return f
