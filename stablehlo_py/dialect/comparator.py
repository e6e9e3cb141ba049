"""Comparators of sorts: regions of pairs of scalars, the left and the right side's of each operand."""

from __future__ import annotations

from stablehlo_py.mlir import ir


def mirrored(left: ir.Value, right: ir.Value) -> bool:
    """Whether `right` is of the right side what `left` is of the left one."""
    a, b = left.owner, right.owner
    if isinstance(a, ir.Block) or isinstance(b, ir.Block):
        if not (isinstance(a, ir.Block) and isinstance(b, ir.Block)):
            return False
        number = ir.BlockArgument(left).arg_number
        return number % 2 == 0 and ir.BlockArgument(right).arg_number == number + 1
    return (
        a.name == b.name
        and len(a.regions) == 0
        and ir.OpResult(left).result_number == ir.OpResult(right).result_number
        and _attributes(a) == _attributes(b)
        and len(a.operands) == len(b.operands)
        and all(mirrored(x, y) for x, y in zip(a.operands, b.operands, strict=True))
    )


def _attributes(op: ir.Operation) -> dict[str, ir.Attribute]:
    return {name: op.attributes[name] for name in op.attributes}
