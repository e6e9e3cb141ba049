"""How native code calls a library: it goes through a plan (plan.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stablehlo_py.backends.gpu.driver.calls import Calls
from stablehlo_py.backends.gpu.driver.queue import STATUS
from stablehlo_py.backends.gpu.libraries.plan import ARGUMENTS, BASES, STATUS_BIT, STEP
from stablehlo_py.codegen.builder import I32, I64, PTR, Function, Index, Value
from stablehlo_py.codegen.emitter import Emitter

CALL_LIBRARY = "shlo_call_library"


def call_library(calls: Calls, emitter: Callable[[], Emitter]) -> Function:
    """shlo_call_library(caller, plan, number, bases): the calls of a plan in the driver's order, until one fails. They
    count as the kernel of that number."""
    f = calls.function(CALL_LIBRARY, [("plan", PTR), ("number", I64), ("bases", PTR)], emitter())
    calls.started(f, f.number)

    def one(number: Index) -> None:
        step = f.gep(f.plan, f.iadd(f.imul(number, STEP), 1), I64)
        arguments = [_argument(f, step, 1 + 2 * each) for each in range(ARGUMENTS)]
        status = f.call_pointer(f.load(PTR, step), arguments, I32)
        marked = f.binary("or", f.cast("zext", status, I64), f.const(1 << STATUS_BIT))
        calls.keep(f, f.select(f.cmp("eq", status, f.const(0, I32)), f.const(0), marked))

    def unless_failed(number: Index) -> None:
        f.if_(f.cmp("eq", calls.field(f, STATUS, I64), f.const(0)), lambda: one(number))

    f.loop(0, f.load(I64, f.plan), 1, unless_failed)
    f.ret()
    return f


def _argument(f: Function, step: Value, place: int) -> Value:
    base, offset = (f.load(I64, step, place + more) for more in (0, 1))
    is_address = f.cmp("slt", base, f.const(0))
    slot = f.gep(f.bases, f.select(is_address, f.binary("xor", base, f.const(-1)), base), I64)
    return f.select(is_address, f.cast("ptrtoint", slot, I64), f.binary("add", f.load(I64, slot), offset))


def bases(calls: Calls, f: Function, place: Value, workspace: Value, pointers: Sequence[Value]) -> None:
    """Store what arguments begin at, `BASES` and the pointers of a fusion's kernels."""
    known = dict(zip(BASES, (f.null(), workspace, calls.field(f, "stream")), strict=True))
    for number, value in enumerate((*known.values(), *pointers)):
        f.store(value, place, number)
