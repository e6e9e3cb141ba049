"""What ops with regions use and define (as MLIR's `RegionUtils`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from stablehlo_py.mlir import ir

#: What ends a region; it computes nothing.
TERMINATORS = frozenset(("func.return", "scf.condition", "scf.yield", "stablehlo.return"))
#: Regions of these may use values from outside; all others count as isolated.
OPEN_REGIONS = frozenset(
    {"scf.while", "scf.if", "scf.index_switch", "scf.for", "stablehlo.while", "stablehlo.if", "stablehlo.case"}
)


def _walk(op: ir.Operation | ir.OpView, visit: Callable[[ir.Operation], None]) -> None:
    """Call `visit` on an op and on all that it holds, in order."""

    def called(inner: ir.Operation) -> ir.WalkResult:
        visit(inner)
        return ir.WalkResult.ADVANCE

    op = op.operation
    if len(op.regions):
        op.walk(called, ir.WalkOrder.PRE_ORDER)
    else:
        visit(op)


def defined_values(op: ir.Operation | ir.OpView) -> set[ir.Value]:
    """Results of an op and of the ops in its regions, and arguments of the blocks there."""
    found: set[ir.Value] = set()

    def visit(inner: ir.Operation) -> None:
        found.update(inner.results)
        for region in inner.regions:
            for block in region.blocks:
                found.update(block.arguments)

    _walk(op, visit)
    return found


def used_values(ops: Iterable[ir.Operation | ir.OpView]) -> list[ir.Value]:
    """What ops and those in their regions use, and none of them defines, in order of first use."""
    used: dict[ir.Value, None] = {}
    defined: set[ir.Value] = set()
    for op in ops:
        _walk(op, lambda inner: used.update(dict.fromkeys(inner.operands)))
        defined |= defined_values(op)
    return [value for value in used if value not in defined]


def captured_values(op: ir.Operation | ir.OpView) -> list[ir.Value]:
    """Values from outside that the regions of an op use, in order of first use."""
    blocks = [block for region in op.regions for block in region.blocks]
    arguments = {argument for block in blocks for argument in block.arguments}
    return [value for value in used_values(inner for block in blocks for inner in block) if value not in arguments]


def replace_operands(op: ir.Operation | ir.OpView, replacements: Mapping[ir.Value, ir.Value]) -> None:
    """Let an op, and those in its regions, use other values."""

    def visit(inner: ir.Operation) -> None:
        for number, operand in enumerate(inner.operands):
            if operand in replacements:
                inner.operands[number] = replacements[operand]

    _walk(op, visit)
