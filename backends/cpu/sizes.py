"""The function that fills the table of sizes at the start of a call.

    void shlo_sizes(const int64_t *symbols, int64_t *table)

`symbols` are the dimensions and values of arguments that `DynamicLayout.symbols` lists. Behind the slots stands one
number more: 1 where every dimension is positive, every check of the call holds, and no number left i64 on the way.
"""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.codegen.builder import I64, PTR, Function, Value
from stablehlo_py.codegen.size_table import SizeCode, SizeTable
from stablehlo_py.dialect.size import Number, Size, positive, symbols
from stablehlo_py.dialect.size_text import sizes_text
from stablehlo_py.passes.symbolic.checks import Check
from stablehlo_py.runtime.program import DynamicCheck, DynamicLayout, DynamicSymbol

ENTRY = "shlo_sizes"


def emit_sizes(
    table: SizeTable, outputs: Sequence[Sequence[Number]], arena: Number, checks: Sequence[Check]
) -> tuple[Function, DynamicLayout]:
    """The function, and where the runtime finds what it needs. Nothing may be added to the table afterwards."""

    def reference(number: Number) -> int:
        return -1 - table.slot(number) if isinstance(number, Size) else number

    shapes = tuple(tuple(map(reference, sizes)) for sizes in outputs)
    arena_bytes = reference(arena)
    used = {name for size in (*table.slots, *(check.condition for check in checks)) for name in symbols(size)}
    names = sorted(name for name in used if positive(name) not in used - {name})
    f = Function(ENTRY, [("symbols", PTR), ("table", PTR)])
    values = {name: f.load(I64, f.symbols, position) for position, name in enumerate(names)}
    code = SizeCode(f, {name: values[name if name in values else positive(name)] for name in used})
    for size, slot in table.slots.items():
        f.store(code.number(size), f.table, slot)
    holds: Value = f.const(1)
    for name, value in values.items():
        if name == positive(name):
            holds = f.binary("and", holds, f.cast("zext", f.cmp("sgt", value, f.const(0)), I64))
    for check in checks:
        holds = f.binary("and", holds, code.number(check.condition))
    f.store(f.select(code.undefined, f.const(0), holds), f.table, len(table.slots))
    f.ret()
    described = tuple(
        DynamicCheck(check.kind, check.message, sizes_text((check.condition, *check.values)), check.op, check.location)
        for check in checks
    )
    layout = DynamicLayout(tuple(map(DynamicSymbol.named, names)), len(table.slots), shapes, arena_bytes, described)
    return f, layout
