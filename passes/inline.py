"""Calls and composites are replaced by the bodies they stand for, until `@main` is flat.

Before::

    func.func private @f(%a: tensor<4xf32>) -> tensor<4xf32> { %0 = stablehlo.tanh %a : ...  return %0 : ... }
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { %0 = call @f(%x) : ...  return %0 : ... }

After::

    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { %0 = stablehlo.tanh %x : ...  return %0 : ... }

A `stablehlo.composite` is a call of its decomposition, except for those that legalization turns into one op
(`chlo.erf`, `chlo.top_k`): they stay, with their decomposition. Works on StableHLO, whose ops implement MLIR's inliner
interface; an op of the hlo dialect cannot (a dialect defined in Python has none), so a call of a function that holds
hlo ops stays. An inlined op's location becomes `callsite(callee at caller)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from stablehlo_py.dialect.locations import describe
from stablehlo_py.errors import Problem, UnsupportedError
from stablehlo_py.mlir import ir, run_upstream
from stablehlo_py.passmanager.base import Pass

# Where the symbol of the callee is.
_CALLEE = {"func.call": "callee", "stablehlo.composite": "decomposition"}


@dataclass(frozen=True)
class Inline(Pass):
    """Inline all calls of functions, and composites through their decomposition.

    Raises UnsupportedError for recursion and for calls of functions without a body.
    """

    name: ClassVar[str] = "inline"

    keep: tuple[str, ...] | None = field(
        default=None, metadata={"help": "names of composites that stay; none: those that are one hlo op"}
    )

    def run(self, module: ir.Module) -> None:
        """Inline until no call is left, then drop the functions that nobody uses."""
        functions = {op.attributes["sym_name"].value: op.operation for op in module.body if _is_function(op)}
        calls = {name: [op for op in _calls(function) if not self._kept(op)] for name, function in functions.items()}
        if not any(calls.values()):
            return
        _check(functions, calls)
        for op in (op for found in calls.values() for op in found if op.name == "stablehlo.composite"):
            _to_call(op)
        del functions, calls  # the inliner erases ops that these refer to
        # The inliner would simplify each callee before; passes of ours do that later, on one flat function.
        run_upstream(module, "inline{default-pipeline=},symbol-dce")

    def _kept(self, op: ir.Operation) -> bool:
        if op.name != "stablehlo.composite":
            return False
        if self.keep is not None:
            return op.attributes["name"].value in self.keep
        from stablehlo_py.legalize.composite import is_known_composite

        return is_known_composite(op)


def _is_function(op: ir.OpView) -> bool:
    return op.operation.name == "func.func"


def _calls(function: ir.Operation) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in _CALLEE:
            found.append(op)
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    return found


def _callee(op: ir.Operation) -> str:
    return op.attributes[_CALLEE[op.name]].value


def _to_call(op: ir.Operation) -> None:
    call = ir.Operation.create(
        "func.call",
        results=[result.type for result in op.results],
        operands=list(op.operands),
        attributes={"callee": op.attributes["decomposition"]},
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    for old, new in zip(op.results, call.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def _check(functions: dict[str, ir.Operation], calls: dict[str, list[ir.Operation]]) -> None:
    """Raise UnsupportedError with every call that cannot be inlined: recursion, and functions without a body."""
    problems: list[Problem] = []
    done: set[str] = set()
    active: list[str] = []

    def visit(name: str) -> None:
        active.append(name)
        for op in calls[name]:
            callee = _callee(op)
            if callee in active:
                cycle = " -> ".join(f"@{each}" for each in [*active[active.index(callee) :], callee])
                reason = f"recursion cannot be inlined: {cycle}"
                problems.append(Problem(reason, describe(op.location), op.name, "write the recursion as a while loop"))
            elif callee not in functions or not len(functions[callee].regions[0].blocks):
                reason = f"calls @{callee}, which has no body"
                problems.append(Problem(reason, describe(op.location), op.name, "export the function with the model"))
            elif callee not in done:
                visit(callee)
        active.pop()
        done.add(name)

    for name in functions:
        if name not in done:
            visit(name)
    if problems:
        raise UnsupportedError("calls cannot be inlined", problems=problems)
