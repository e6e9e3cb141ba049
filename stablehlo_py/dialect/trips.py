"""How often a loop of a program runs its body, where that is known before the program runs.

    scf.while (%i = 0, ...) { %p = call @fusion_0(%i) ... } do { %j = call @fusion_1(%i) ... yield %j }

The predicate compares a counter with a constant, which starts at a constant and is changed by one; fusions are looked
into.
"""

from __future__ import annotations

from collections.abc import Mapping

from stablehlo_py.dialect.constants import constant_value, splat
from stablehlo_py.dialect.edit import terminator
from stablehlo_py.dialect.types import text
from stablehlo_py.mlir import ir

_SAME = ("hlo.copy", "hlo.reshape", "tensor.extract")  # give what they take, of one element
_MIRRORED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "NE": "NE"}
_Calls = tuple[ir.Operation, ...]  # through which a value is looked at, the outermost first


def trip_count(loop: ir.OpView, functions: Mapping[str, ir.Operation]) -> int | None:
    """Trips of an `scf.while`; None: it is not known. `functions`: those of the module, by name."""
    before, after = loop.regions[0].blocks[0], loop.regions[1].blocks[0]
    look = _Look(functions)
    compared = look.operation(terminator(before).operands[0], "hlo.compare")
    if compared is None:
        return None
    op, calls = compared
    direction, (left, right) = text(op, "direction"), [look.source(operand, calls) for operand in op.operands]
    if not _is_argument(left, before):
        left, right, direction = right, left, _MIRRORED.get(direction, "")
    limit = look.constant(*right)
    if not _is_argument(left, before) or limit is None:
        return None
    number = ir.BlockArgument(left[0]).arg_number
    start = look.constant(loop.operands[number], ())
    step = look.step(terminator(after).operands[number], after.arguments[number])
    if start is None or step is None:
        return None
    return _count(start, step, limit, direction, loop.operands[number].type.element_type)


def _count(start: int, step: int, limit: int, direction: str, type_: ir.IntegerType) -> int | None:
    """Trips of `for (i = start; i <direction> limit; i += step)`; None: in integers of that type it does not end so."""
    sign = -1 if direction in ("GT", "GE") else 1
    distance = sign * (limit - start) + (direction in ("LE", "GE"))
    by = sign * step
    if direction in ("LT", "LE", "GT", "GE"):
        if distance <= 0:
            return 0
        if by <= 0:
            return None
    elif direction != "NE" or by == 0 or distance % by or distance // by < 0:
        return None
    trips, numbers = -(-distance // by), 1 << type_.width
    least = 0 if type_.is_unsigned else -numbers // 2
    return trips if least <= start + trips * step < least + numbers else None


def _is_argument(found: tuple[ir.Value, _Calls], block: ir.Block) -> bool:
    value, calls = found
    return not calls and isinstance(value, ir.BlockArgument) and value.owner == block


class _Look:
    """Looks for where values come from."""

    def __init__(self, functions: Mapping[str, ir.Operation]) -> None:
        self.functions = functions

    def source(self, value: ir.Value, calls: _Calls) -> tuple[ir.Value, _Calls]:
        """The value that this one is, through fusions, reshapes and copies; the calls in which it is."""
        while True:
            if isinstance(value, ir.BlockArgument):
                if not calls or value.owner != self._body(calls[-1]):
                    return value, calls
                *around, call = calls
                value, calls = call.operands[ir.BlockArgument(value).arg_number], tuple(around)
                continue
            op = value.owner.operation
            if op.name == "func.call":
                value, calls = terminator(self._body(op)).operands[ir.OpResult(value).result_number], (*calls, op)
            elif op.name in _SAME:
                value = op.operands[0]
            else:
                return value, calls

    def _body(self, call: ir.Operation) -> ir.Block:
        return self.functions[call.attributes["callee"].value].regions[0].blocks[0]

    def operation(self, value: ir.Value, name: str) -> tuple[ir.Operation, _Calls] | None:
        """The op that computes a value, if it is that."""
        found, calls = self.source(value, ())
        if isinstance(found, ir.BlockArgument) or found.owner.operation.name != name:
            return None
        return found.owner.operation, calls

    def constant(self, value: ir.Value, calls: _Calls) -> int | None:
        """The one integer that a value is."""
        found, _ = self.source(value, calls)
        if isinstance(found, ir.BlockArgument) or found.owner.operation.name != "hlo.constant":
            return None
        type_ = found.type.element_type
        if not isinstance(type_, ir.IntegerType) or type_.width == 1:
            return None
        if not found.type.rank:
            return int(splat(found))  # type: ignore[arg-type]
        array = constant_value(found.owner)
        return int(array.reshape(())) if array.size == 1 else None

    def step(self, value: ir.Value, counter: ir.Value) -> int | None:
        """The constant by which a value is more than the counter."""
        for name, sign in (("hlo.add", 1), ("hlo.subtract", -1)):
            found = self.operation(value, name)
            if found is None:
                continue
            op, calls = found
            left, right = (self.source(operand, calls) for operand in op.operands)
            if left != (counter, ()) and sign > 0:
                left, right = right, left
            step = self.constant(*right)
            return None if step is None or left != (counter, ()) else sign * step
        return None
