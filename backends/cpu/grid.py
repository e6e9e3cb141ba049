"""How the processes of a grid meet, emitted as native code by our own builder.

A process is a thread that runs the program's entry. What it shares with the others is one block of memory: a header,
a record for each process, barriers, channels. The program's last input, `process`, holds the process's number and the
address of its record.

A process that has to wait says on what in its record, spins briefly, then sleeps in a futex, for `NAP` at most: then it
looks whether the grid has failed, in which case nobody waits any more and every program returns after the op that it is
at. Who waits, and whether what it waits for is still to come, is all in memory, so it can be told that nobody can ever
go on: by the runtime (stablehlo_py/runtime/grid_call.py), or by the processes that wait, where no thread looks after
them (stablehlo_py/pjrt/processes.py).
"""

from __future__ import annotations

from stablehlo_py.backends.cpu.layout import (
    ARRIVED,
    AT,
    FAILED,
    GENERATION,
    HEADER,
    NAP,
    NUMBER,
    PROCESSES,
    RECORD,
    RECORD_BYTES,
    RECORDS,
    STUCK,
    WAIT_ADDRESS,
    WAIT_VALUE,
    WAITS,
)
from stablehlo_py.backends.cpu.pool import WAIT, WAKE, futex, spin_then
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import I1, I8, I32, I64, PTR, Function, ScalarType, Value

EVERYBODY = 0x7FFFFFFF


def field(f: Function, base: Value, offset: int) -> Value:
    """The address of a field."""
    return f.gep(base, offset, I8)


def read(f: Function, base: Value, offset: int, type_: ScalarType = I64) -> Value:
    """The value of a field."""
    return f.load(type_, field(f, base, offset))


def has_failed(f: Function, header: Value) -> Value:
    """i1: the grid has failed."""
    return f.cmp("ne", f.atomic_load(I32, field(f, header, FAILED)), f.const(0, I32))


def fail(f: Function, process: Value, code: int) -> None:
    """Let the grid fail, if it has not yet; `process` is the program's input."""
    header = read(f, read(f, process, RECORD, PTR), HEADER, PTR)
    first = f.compare_exchange(field(f, header, FAILED), f.const(0, I32), f.const(code, I32))
    f.if_(first, lambda: f.store(read(f, process, NUMBER), field(f, header, AT)))


def _wait_function(target: CpuTarget) -> Function:
    """void shlo_grid_wait(record, address, value): return when the i32 at `address` is not `value`, or the grid has
    failed."""
    f = Function("shlo_grid_wait", [("record", PTR), ("address", PTR), ("value", I32)], target.emitter())
    header = read(f, f.record, HEADER, PTR)
    waits_before = f.alloca(1, I64)
    f.store(f.const(-1), waits_before)

    def changed() -> Value:
        return f.cmp("ne", f.atomic_load(I32, f.address), f.value)

    def over() -> Value:
        return f.binary("or", changed(), has_failed(f, header))

    def nap() -> None:
        futex(f, f.address, WAIT, f.value, field(f, header, NAP))
        goes_on = f.binary("xor", over(), f.const(1, I1))
        f.if_(f.binary("and", goes_on, f.cmp("ne", read(f, header, PROCESSES), f.const(0))), look)

    def look() -> None:
        waits = f.call("shlo_grid_waits", [header], I64)
        stuck = f.binary("and", f.cmp("sge", waits, f.const(0)), f.cmp("eq", waits, f.load(I64, waits_before)))

        def give_up() -> None:
            f.compare_exchange(field(f, header, FAILED), f.const(0, I32), f.const(STUCK, I32))

        f.if_(stuck, give_up)
        f.store(waits, waits_before)

    def wait() -> None:
        f.store(f.cast("zext", f.value, I64), field(f, f.record, WAIT_VALUE))
        f.atomic_add(field(f, f.record, WAITS), f.const(1))
        f.atomic_store(f.cast("ptrtoint", f.address, I64), field(f, f.record, WAIT_ADDRESS))
        spin_then(f, over, nap)
        f.atomic_store(f.const(0), field(f, f.record, WAIT_ADDRESS))

    f.if_(f.binary("xor", over(), f.const(1, I1)), wait)
    f.ret()
    return f


def _waits_function(target: CpuTarget) -> Function:
    """i64 shlo_grid_waits(header): how often all processes together have waited, if each of them waits now, for
    something that has not come; else -1. Nobody can go on if that is so twice, with the same number."""
    f = Function("shlo_grid_waits", [("header", PTR)], target.emitter(), result=I64)
    records = read(f, f.header, RECORDS, PTR)

    def add(number: Value, total: Value) -> list[Value]:
        record = f.gep(records, f.imul(number, RECORD_BYTES), I8)
        address = read(f, record, WAIT_ADDRESS)

        def unchanged() -> Value:
            found = f.atomic_load(I32, f.cast("inttoptr", address, PTR))
            return f.cmp("eq", f.cast("zext", found, I64), read(f, record, WAIT_VALUE))

        (waits,) = f.if_(f.cmp("ne", address, f.const(0)), unchanged, lambda: f.const(False, I1))
        waits = f.binary("and", waits, f.cmp("sge", total, f.const(0)))
        return [f.select(waits, f.binary("add", total, read(f, record, WAITS)), f.const(-1))]

    (total,) = f.loop(0, read(f, f.header, PROCESSES), 1, add, [f.const(0)])
    f.ret(total)
    return f


def _meet_function(target: CpuTarget) -> Function:
    """i1 shlo_grid_meet(record, place, count): wait at a barrier until `count` processes are there; true if the
    grid has failed."""
    f = Function("shlo_grid_meet", [("record", PTR), ("place", PTR), ("count", I64)], target.emitter(), result=I1)
    header, generation_address = read(f, f.record, HEADER, PTR), field(f, f.place, GENERATION)
    generation = f.atomic_load(I32, generation_address)
    before = f.atomic_add(field(f, f.place, ARRIVED), f.const(1, I32))
    arrived = f.binary("add", before, f.const(1, I32))
    last = f.cmp("eq", arrived, f.cast("trunc", f.count, I32))

    def release() -> None:
        f.atomic_store(f.const(0, I32), field(f, f.place, ARRIVED))
        f.atomic_add(generation_address, f.const(1, I32))
        futex(f, generation_address, WAKE, f.const(EVERYBODY, I32))

    f.if_(last, release, lambda: f.call("shlo_grid_wait", [f.record, generation_address, generation]))
    f.ret(has_failed(f, header))
    return f


def meet(f: Function, record: Value, barrier: Value, count: Value) -> Value:
    """Call shlo_grid_meet; i1: the grid has failed."""
    return f.call("shlo_grid_meet", [record, barrier, count], I1, external=True)


def _end_function(target: CpuTarget) -> Function:
    """i32 shlo_grid_end(header): the loops of a grid that has failed end."""
    f = Function("shlo_grid_end", [("header", PTR)], target.emitter(), result=I32)
    f.ret(f.const(1, I32))
    return f


def functions(target: CpuTarget) -> list[Function]:
    """What kernels that communicate call, and loops."""
    return [_waits_function(target), _wait_function(target), _meet_function(target), _end_function(target)]
