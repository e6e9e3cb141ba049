"""How native code calls a library's product: by a plan (plan.py)."""

from __future__ import annotations

from collections.abc import Callable

from stablehlo_py.backends.gpu.driver.calls import Calls
from stablehlo_py.backends.gpu.libraries.plan import PLAN, STATUS_BIT
from stablehlo_py.codegen.builder import I32, I64, PTR, Function, Value
from stablehlo_py.codegen.emitter import Emitter

MULTIPLY = "shlo_multiply"


def multiply(calls: Calls, emitter: Callable[[], Emitter]) -> Function:
    """shlo_multiply(caller, plan, number, a, b, addend, result, bias, workspace): a product in the driver's order. It
    counts as the kernel of that number; what has no bias gets null."""
    pointers = ("a", "b", "addend", "result", "bias", "workspace")
    f = calls.function(MULTIPLY, [("plan", PTR), ("number", I64), *((name, PTR) for name in pointers)], emitter())
    plan = {name: f.load(PTR, f.plan, place) for place, name in enumerate(PLAN)}
    calls.started(f, f.number)

    def set_bias() -> None:
        place = f.alloca(1, PTR)
        f.store(f.bias, place)
        attribute = f.cast("trunc", f.cast("ptrtoint", plan["bias_attribute"], I64), I32)
        _keep(calls, f, f.call_pointer(plan["set"], [plan["description"], attribute, place, f.const(8)], I32))

    f.if_(f.cmp("ne", f.cast("ptrtoint", f.bias, I64), f.const(0)), set_bias)
    operands = [plan["handle"], plan["description"], plan["alpha"], f.b, plan["left"], f.a, plan["right"], plan["beta"]]
    operands += [f.addend, plan["result"], f.result, plan["result"], plan["algorithm"]]
    operands += [f.workspace, f.cast("ptrtoint", plan["workspace"], I64), calls.field(f, "stream")]
    _keep(calls, f, f.call_pointer(plan["multiply"], operands, I32))
    f.ret()
    return f


def _keep(calls: Calls, f: Function, status: Value) -> None:
    """Keep a status of the library, marked as its own."""
    marked = f.binary("or", f.cast("zext", status, I64), f.const(1 << STATUS_BIT))
    calls.keep(f, f.select(f.cmp("eq", status, f.const(0, I32)), f.const(0), marked))
