"""Calls replaced by the bodies of the functions that they name.

The outermost calls go first, so every op is copied once, and the work is linear in the ops that come out. MLIR's own
inliner goes from the innermost function outwards and gives each op a new location at every level: ten seconds for a
chain of 900 functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from stablehlo_py.dialect import sharding
from stablehlo_py.dialect.edit import inline_block
from stablehlo_py.dialect.locations import describe
from stablehlo_py.dialect.types import named, operations
from stablehlo_py.errors import LoadError, Problem, UnsupportedError, elided
from stablehlo_py.mlir import ir, run_upstream

# What is inlined, and where the symbol of the callee is.
CALLS = {"func.call": "callee", "stablehlo.composite": "decomposition"}
# Callers that a location lists. MLIR walks a location recursively, and some thousands of frames end the process.
MAX_FRAMES = 100

MAIN = "main"  # the name of the function that runs

Keeps = Callable[[ir.Operation], bool]


@dataclass
class _Function:
    """A function with a body, and the calls in it that are inlined."""

    op: ir.Operation
    calls: list[ir.Operation]


def new_function(
    name: str,
    inputs: Sequence[ir.Type],
    results: Sequence[ir.Type],
    ip: ir.InsertionPoint,
    *,
    location: ir.Location | None = None,
    private: bool = False,
    attributes: Mapping[str, ir.Attribute] | None = None,
) -> ir.Block:
    """The empty block of a new `func.func`, which is the block's owner."""
    named = {
        "sym_name": ir.StringAttr.get(name),
        **({"sym_visibility": ir.StringAttr.get("private")} if private else {}),
        "function_type": ir.TypeAttr.get(ir.FunctionType.get(list(inputs), list(results))),
        **(attributes or {}),
    }
    function = ir.Operation.create("func.func", attributes=named, regions=1, loc=location, ip=ip)
    return ir.Block.create_at_start(function.regions[0], list(inputs), [function.location] * len(inputs))


def new_call(
    name: str,
    operands: Sequence[ir.Value],
    results: Sequence[ir.Type],
    ip: ir.InsertionPoint | None = None,
    location: ir.Location | None = None,
) -> ir.Operation:
    """A `func.call` of the function with that name."""
    callee = {"callee": ir.FlatSymbolRefAttr.get(name)}
    return ir.Operation.create(
        "func.call", results=list(results), operands=list(operands), attributes=callee, loc=location, ip=ip
    )


def module_of_call(function: ir.OpView | ir.Operation, times: int = 1) -> ir.Module:
    """A module whose program calls a function so many times, with its own arguments, and gives what the last call gave.
    The function is a copy."""
    module = ir.Module.create()
    kept = function.operation.clone(ip=ir.InsertionPoint(module.body))
    type_ = ir.FunctionType(ir.TypeAttr(kept.attributes["function_type"]).value)
    block = new_function(MAIN, type_.inputs, type_.results, ir.InsertionPoint.at_block_begin(module.body))
    with ir.InsertionPoint(block):
        name = kept.attributes["sym_name"].value
        calls = [new_call(name, block.arguments, type_.results) for _ in range(times)]
        ir.Operation.create("func.return", operands=list(calls[-1].results))
    return module


def is_public(function: ir.OpView) -> bool:
    """True when the function can be called from outside the module."""
    return "sym_visibility" not in function.attributes or function.attributes["sym_visibility"].value == "public"


def functions_of(module: ir.Module | ir.Operation) -> dict[str, ir.Operation]:
    """The functions of a module by name, in its order; some may have no body."""
    ops = [view.operation for view in module.operation.regions[0].blocks[0].operations]
    return {op.attributes["sym_name"].value: op for op in ops if op.name == "func.func"}


def main_function(module: ir.Module) -> ir.OpView:
    """The function `@main` of a loaded module."""
    functions = functions_of(module)
    if MAIN not in functions:
        raise LoadError("the module has no function @main", remedy="load it with stablehlo_py.frontend.load")
    return functions[MAIN].opview


def inline_calls(module: ir.Module, keeps: Keeps) -> None:
    """Inline every call and composite but those that `keeps` is true of, then drop the functions that nobody uses. The
    location of an inlined op becomes `callsite(callee at caller)`.

    Raises:
        UnsupportedError: there is recursion, a call of a function without a body, or of one with several blocks.
    """
    functions = {name: _scan(op, keeps) for name, op in functions_of(module).items() if len(op.regions[0].blocks)}
    calling = [function for function in functions.values() if function.calls]
    if not calling:
        return
    _check(functions)
    # A private function that is called is gone afterwards, mostly; a decomposition of a composite that stays is not.
    expanded = [function for function in calling if is_public(function.op.opview)] or calling
    for function in expanded:
        _expand(function.calls, functions, keeps)
    count = len(expanded)
    del functions, calling, expanded, function  # symbol-dce erases ops that these refer to
    run_upstream(module, "symbol-dce")
    if len(functions_of(module)) > count:  # others may hold calls
        inline_calls(module, keeps)


def _scan(function: ir.Operation, keeps: Keeps) -> _Function:
    return _Function(function, [op for op in named(function, CALLS) if not keeps(op)])


def _callee(op: ir.Operation) -> str:
    return op.attributes[CALLS[op.name]].value


def _expand(calls: Iterable[ir.Operation], functions: dict[str, _Function], keeps: Keeps) -> None:
    """Inline calls, and the calls that come with the bodies."""
    waiting = [(call, call.location, 1) for call in calls]
    while waiting:
        call, caller, depth = waiting.pop()
        copy = functions[_callee(call)].op.clone()
        for op in operations(copy):
            location = ir.Location.callsite(op.location, [caller])
            op.location = location
            if op.name in CALLS and not keeps(op):
                waiting.append((op, location if depth < MAX_FRAMES else caller, depth + 1))
        block = copy.regions[0].blocks[0]
        values = inline_block(block, _sharded(call, copy, "arg_attrs", call.operands), call)
        for result, value in zip(call.results, _sharded(call, copy, "res_attrs", values), strict=True):
            sharding.replace(result, value)
        call.erase()
        copy.erase()


def _sharded(call: ir.Operation, function: ir.Operation, name: str, values: Sequence[ir.Value]) -> list[ir.Value]:
    """The values, sharded as the function says of its arguments or results."""
    said = sharding.shardings_of_values(function, name, len(values))
    return [
        sharding.constrained(value, text, ir.InsertionPoint(call)) if text else value
        for value, text in zip(values, said, strict=True)
    ]


def _check(functions: dict[str, _Function]) -> None:
    """Raise UnsupportedError with every call that cannot be inlined."""
    problems = []
    graph: dict[str, list[str]] = {}
    for name, function in functions.items():
        graph[name] = [_callee(op) for op in function.calls if _callee(op) in functions]
        for op in function.calls:
            problem = _problem_with(_callee(op), functions)
            if problem is not None:
                reason, remedy = problem
                problems.append(
                    Problem(f"calls @{_callee(op)}, which {reason}", describe(op.location), op.name, remedy)
                )
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        problems.append(_recursion(error.args[1], functions))
    if problems:
        raise UnsupportedError("calls cannot be inlined", problems=problems)


def _problem_with(callee: str, functions: dict[str, _Function]) -> tuple[str, str] | None:
    if callee not in functions:
        return "has no body", "export the function with the model"
    if len(functions[callee].op.regions[0].blocks) > 1:
        return "has several blocks", "write branches with stablehlo.if, stablehlo.case and stablehlo.while"
    return None


def _recursion(cycle: list[str], functions: dict[str, _Function]) -> Problem:
    """The cycle begins with the function that the module defines first; the call that closes it is to blame."""
    names = list(functions)
    callers = cycle[:0:-1]  # the sorter lists callees first, the first one twice
    start = callers.index(min(callers, key=names.index))
    callers = callers[start:] + callers[:start]
    op = next(op for op in functions[callers[-1]].calls if _callee(op) == callers[0])
    chain = elided([f"@{name}" for name in [*callers, callers[0]]], separator=" -> ")
    reason = f"recursion cannot be inlined: {chain}"
    return Problem(reason, describe(op.location), op.name, "write the recursion as a while loop")
