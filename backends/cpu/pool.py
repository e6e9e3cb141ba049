"""The thread pool of compiled programs, emitted as native code by our own builder.

One job at a time: who comes while another call's job runs does its own alone. The caller works too. A job is `chunks`
calls of `task(context, begin, end, thread)`. All state hangs on one 64-bit ticket, generation in the high half and
chunks left in the low half: whoever decrements it owns a chunk, and because the job cannot end before that chunk is
counted as completed, the job's fields are stable when the owner reads them. Nobody ever waits for a thread that has not
taken a chunk, so a worker that sleeps (or does not exist, in a forked child) costs nothing but its help.

Workers and caller spin for a while, then sleep in a futex: unbounded spinning collapses on a busy machine. A worker
spins longer: the next job of a loop comes before it sleeps, so the caller need not wake it, which costs as much as a
short job takes.
"""

from __future__ import annotations

from collections.abc import Callable

from stablehlo_py.backends.cpu.layout import POOL_BYTES
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import I1, I8, I32, I64, PTR, Function, ScalarType, Value

# Layout of the pool in memory, in bytes. What is read together lies on one cache line: each takes 100 ns to come from
# another core. What different threads write lies on different ones.
TICKET, TASK, CONTEXT, ITERATIONS, CHUNK, CHUNKS, GOAL = 0, 8, 16, 24, 32, 40, 48
SLEEPERS = 64
COMPLETED, WAITING = 128, 132
STOP, STARTED = 192, 200  # whether the workers are to end; how many there are
TAKEN = 256  # whether a job of another call runs
WORKER_SLOTS, SLOT_BYTES = 1024, 24  # of every worker its argument, (pool, thread number), and its handle
MAX_THREADS = (POOL_BYTES - WORKER_SLOTS) // SLOT_BYTES

SPIN_NS = 15_000  # of who waits for something that is under way
WORKER_SPIN_NS = 50_000  # of a worker, for the next job
YIELD_NS = 2_000  # of spinning without letting others have the processor
MONOTONIC = 1  # CLOCK_MONOTONIC
WAIT, WAKE = 128, 129  # FUTEX_WAIT, FUTEX_WAKE with FUTEX_PRIVATE_FLAG


def _long(f: Function) -> ScalarType:
    """`long` of the system's C."""
    return I32 if f.architecture.pointer_bits == 32 else I64


def futex(f: Function, address: Value, operation: int, value: Value, timeout: Value | None = None) -> None:
    """The system call: sleep while the i32 at `address` is `value` (WAIT; at most `timeout`, the address of a
    timespec), or wake that many sleepers (WAKE)."""
    long = _long(f)
    arguments = [
        f.const(f.architecture.system_call("futex"), long),
        address,
        f.const(operation, long),
        f.cast("zext", value, long),
        timeout or f.null(),
        f.null(),
        f.const(0, long),
    ]
    f.call("syscall", arguments, long, external=True)


def _nanoseconds(f: Function, timespec: Value) -> Value:
    """What the clock shows; `timespec` is memory for it. How long a pause takes differs 40 times between processors."""
    f.call("clock_gettime", [f.const(MONOTONIC, I32), timespec], I32, external=True)
    long = _long(f)
    seconds, rest = (f.load(long, timespec, position) for position in range(2))
    if long == I32:
        seconds, rest = f.cast("sext", seconds, I64), f.cast("sext", rest, I64)
    return f.binary("add", f.binary("mul", seconds, f.const(1_000_000_000)), rest)


def spin_then(f: Function, ready: Callable[[], Value], sleep: Callable[[], None], nanoseconds: int = SPIN_NS) -> None:
    """Spin until ready() holds, for so long at most; then call sleep() and start again. After YIELD_NS others may have
    the processor: one of them may be what ready() waits for."""
    timespec = f.alloca(2, _long(f))

    def yield_() -> None:
        f.call("sched_yield", [], I32, external=True)

    def wait() -> None:
        def spin_or_sleep(begun: Value) -> list[Value]:
            f.pause()
            spun = f.binary("sub", _nanoseconds(f, timespec), begun)

            def sleep_and_restart() -> Value:
                sleep()
                return _nanoseconds(f, timespec)

            def go_on() -> Value:
                polite = f.cmp("sge", spun, f.const(YIELD_NS))
                f.if_(polite, yield_)
                return begun

            return f.if_(f.cmp("sge", spun, f.const(nanoseconds)), sleep_and_restart, go_on)

        start = _nanoseconds(f, timespec)
        f.while_([start], lambda _: f.binary("xor", ready(), f.const(1, I1)), spin_or_sleep)

    f.if_(f.binary("xor", ready(), f.const(1, I1)), wait)


def _field(f: Function, pool: Value, offset: int) -> Value:
    return f.gep(pool, offset, I8)


def _work(f: Function, pool: Value, thread: Value) -> None:
    """Take chunks until none is left."""
    ticket_address = _field(f, pool, TICKET)
    low = f.const(0xFFFFFFFF)

    def chunks_left(ticket: Value) -> Value:
        return f.cmp("ne", f.binary("and", ticket, low), f.const(0))

    def take(ticket: Value) -> list[Value]:
        taken = f.compare_exchange(ticket_address, ticket, f.binary("sub", ticket, f.const(1)))

        def run() -> None:
            chunk = f.load(I64, _field(f, pool, CHUNK))
            number = f.isub(f.load(I64, _field(f, pool, CHUNKS)), f.binary("and", ticket, low))
            begin = f.imul(number, chunk)
            end = f.imin(f.iadd(begin, chunk), f.load(I64, _field(f, pool, ITERATIONS)))
            task = f.load(PTR, _field(f, pool, TASK))
            context = f.load(PTR, _field(f, pool, CONTEXT))
            f.call_pointer(task, [context, f.index(begin), f.index(end), thread])
            goal = f.load(I32, _field(f, pool, GOAL))
            before = f.atomic_add(_field(f, pool, COMPLETED), f.const(1, I32))
            last = f.cmp("eq", f.binary("add", before, f.const(1, I32)), goal)

            def wake_caller() -> None:
                asleep = f.cmp("ne", f.atomic_load(I32, _field(f, pool, WAITING)), f.const(0, I32))
                f.if_(asleep, lambda: futex(f, _field(f, pool, COMPLETED), WAKE, f.const(1, I32)))

            f.if_(last, wake_caller)

        f.if_(taken, run)
        return [f.atomic_load(I64, ticket_address)]

    f.while_([f.atomic_load(I64, ticket_address)], chunks_left, take)


def _worker_function(target: CpuTarget) -> Function:
    """void *shlo_pool_worker(void *slot): slot is (pool, thread number)."""
    f = Function("shlo_pool_worker", [("slot", PTR)], target.emitter(), result=PTR)
    pool, thread = f.load(PTR, f.slot), f.load(I64, f.slot, 1)
    ticket_address, generation_address = _field(f, pool, TICKET), _field(f, pool, TICKET + 4)
    low = f.const(0xFFFFFFFF)

    def goes_on() -> Value:
        return f.cmp("eq", f.atomic_load(I32, _field(f, pool, STOP)), f.const(0, I32))

    def work_to_do() -> Value:
        work = f.cmp("ne", f.binary("and", f.atomic_load(I64, ticket_address), low), f.const(0))
        return f.binary("or", work, f.binary("xor", goes_on(), f.const(1, I1)))

    def sleep() -> None:
        f.atomic_add(_field(f, pool, SLEEPERS), f.const(1, I32))
        ticket = f.atomic_load(I64, ticket_address)
        # A job published after this load, or a request to stop, changes the generation, and the futex returns at once.
        idle = f.binary("and", f.cmp("eq", f.binary("and", ticket, low), f.const(0)), goes_on())
        generation = f.cast("trunc", f.binary("lshr", ticket, f.const(32)), I32)
        f.if_(idle, lambda: futex(f, generation_address, WAIT, generation))
        f.atomic_add(_field(f, pool, SLEEPERS), f.const(-1, I32))

    def job() -> list[Value]:
        spin_then(f, work_to_do, sleep, WORKER_SPIN_NS)
        _work(f, pool, thread)
        return []

    f.while_([], goes_on, job)
    f.ret(f.null())
    return f


def _run_function(target: CpuTarget) -> Function:
    """void shlo_pool_run(pool, task, context, iterations, chunk): run a job; returns when all of it is done."""
    f = Function(
        "shlo_pool_run",
        [("pool", PTR), ("task", PTR), ("context", PTR), ("iterations", I64), ("chunk", I64)],
        target.emitter(),
    )
    pool = f.pool
    chunks = f.index(f.idiv(f.iadd(f.iadd(f.iterations, f.chunk), -1), f.chunk))
    completed_address = _field(f, pool, COMPLETED)
    goal = f.binary("add", f.atomic_load(I32, completed_address), f.cast("trunc", chunks, I32))
    for value, offset in (
        (f.task, TASK),
        (f.context, CONTEXT),
        (f.iterations, ITERATIONS),
        (f.chunk, CHUNK),
        (chunks, CHUNKS),
        (goal, GOAL),
    ):
        f.store(value, _field(f, pool, offset))
    ticket_address = _field(f, pool, TICKET)
    generation = f.binary("lshr", f.atomic_load(I64, ticket_address), f.const(32))
    following = f.binary("shl", f.binary("add", generation, f.const(1)), f.const(32))
    f.atomic_store(f.binary("or", following, chunks), ticket_address)
    asleep = f.cmp("ne", f.atomic_load(I32, _field(f, pool, SLEEPERS)), f.const(0, I32))
    f.if_(asleep, lambda: futex(f, _field(f, pool, TICKET + 4), WAKE, f.const(MAX_THREADS, I32)))
    _work(f, pool, f.const(0))

    def all_done() -> Value:
        return f.cmp("eq", f.atomic_load(I32, completed_address), goal)

    def sleep() -> None:
        f.atomic_store(f.const(1, I32), _field(f, pool, WAITING))
        completed = f.atomic_load(I32, completed_address)
        unfinished = f.cmp("ne", completed, goal)
        f.if_(unfinished, lambda: futex(f, completed_address, WAIT, completed))
        f.atomic_store(f.const(0, I32), _field(f, pool, WAITING))

    spin_then(f, all_done, sleep)
    f.ret()
    return f


def _start_function(target: CpuTarget) -> Function:
    """i64 shlo_pool_start(pool, threads): start threads-1 workers on a zeroed pool; returns how many started."""
    f = Function("shlo_pool_start", [("pool", PTR), ("threads", I64)], target.emitter(), result=I64)

    def start(number: Value, started: Value) -> list[Value]:
        slot = _slot(f, number)
        f.store(f.pool, slot)
        f.store(f.binary("add", started, f.const(1)), slot, 1)
        worker = f.address_of("shlo_pool_worker")
        status = f.call("pthread_create", [f.gep(slot, 16, I8), f.null(), worker, slot], I32, external=True)
        good = f.cmp("eq", status, f.const(0, I32))
        return [f.index(f.iadd(started, f.cast("zext", good, I64)))]

    # A slot whose thread did not start is used for the next one: those in use have no gap.
    (started,) = f.loop(1, f.threads, 1, lambda _, started: start(started, started), [f.const(0)])
    f.store(started, f.pool, STARTED // 8)
    f.ret(started)
    return f


def _slot(f: Function, number: Value) -> Value:
    return f.gep(_field(f, f.pool, WORKER_SLOTS), f.imul(number, SLOT_BYTES), I8)


def functions(target: CpuTarget) -> list[Function]:
    """The pool's functions; `shlo_pool_start` and `shlo_pool_try` are the ones to call."""
    return [_worker_function(target), _run_function(target), _start_function(target), _try_function(target)]


def library_functions(target: CpuTarget) -> list[Function]:
    """What the pool of a library needs besides: it may be unloaded."""
    return [*functions(target), _stop_function(target)]


def _try_function(target: CpuTarget) -> Function:
    """void shlo_pool_try(pool, task, context, iterations, chunk): as `shlo_pool_run`, or, while the pool has a job of
    another call, all of the job in this thread."""
    parameters = [("pool", PTR), ("task", PTR), ("context", PTR), ("iterations", I64), ("chunk", I64)]
    f = Function("shlo_pool_try", parameters, target.emitter())
    taken = _field(f, f.pool, TAKEN)

    def run() -> None:
        f.call("shlo_pool_run", [f.pool, f.task, f.context, f.iterations, f.chunk])
        f.atomic_store(f.const(0, I32), taken)

    def alone() -> None:
        f.call_pointer(f.task, [f.context, f.const(0), f.iterations, f.const(0)])

    f.if_(f.compare_exchange(taken, f.const(0, I32), f.const(1, I32)), run, alone)
    f.ret()
    return f


def _stop_function(target: CpuTarget) -> Function:
    """void shlo_pool_stop(pool): end the workers, wait for that, and leave a zeroed pool."""
    f = Function("shlo_pool_stop", [("pool", PTR)], target.emitter())
    f.atomic_store(f.const(1, I32), _field(f, f.pool, STOP))
    f.atomic_add(_field(f, f.pool, TICKET), f.const(1 << 32))  # another generation
    futex(f, _field(f, f.pool, TICKET + 4), WAKE, f.const(MAX_THREADS, I32))

    def join(number: Value) -> None:
        handle = f.load(PTR, f.gep(_slot(f, number), 16, I8))  # as wide as a pointer
        f.call("pthread_join", [handle, f.null()], I32, external=True)

    f.loop(0, f.load(I64, f.pool, STARTED // 8), 1, join)
    f.set_memory(f.pool, 0, POOL_BYTES)
    f.ret()
    return f
