"""Layouts as JAX asks for them, by PJRT's extension for layouts. The row-major one of each rank is a row of a table. Of
others there are few, and they stay for ever: each is such a row, and behind it the order of dimensions that arrays
refer to (`Blocks.layout`)."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.codegen.builder import I64, PTR, Value
from stablehlo_py.pjrt.code import OBJECT, Native
from stablehlo_py.pjrt.fields import DESCENDING, LAYOUT_BYTES, LAYOUTS, MISSING, MOST_DIMENSIONS

_RANK, _LAYOUT = 40, 48  # of the arguments: a client or topology, a type, dimensions, how many


def layout_text(order: Sequence[int]) -> str:
    """How XLA writes a layout: dimensions from the fastest to the slowest."""
    return f"{{{','.join(map(str, order))}}}"


def descending(f: Native, rank: Value) -> Value:
    """The address of the order of a row-major array."""
    return f.at(f.shared(DESCENDING), f.binary("sub", f.const(8 * MOST_DIMENSIONS), f.binary("shl", rank, f.const(3))))


def is_row_major(f: Native, buffer: Value) -> Value:
    """Whether an array is."""
    own = f.field(buffer, "buffer", "minor_to_major")
    return f.cmp("eq", own, f.number(descending(f, f.field(buffer, "buffer", "rank"))))


def functions(state: int) -> list[Native]:
    """Those that find the layout of an array, and of a shape."""
    shapes = [_of_shape(name, state) for name in ("Client_DefaultLayout", "Topology_DefaultLayout")]
    return [_of_buffer(state), *shapes]


def _of_buffer(state: int) -> Native:
    f = Native("Buffer_Layout", state)
    buffer = f.get(PTR, f.args, OBJECT)
    behind = f.at(f.field(buffer, "buffer", "minor_to_major", PTR), -LAYOUT_BYTES)
    usual = _layout(f, f.field(buffer, "buffer", "rank"))
    f.put(f.select(is_row_major(f, buffer), usual, behind), f.args, OBJECT + 8)
    f.ret(f.null())
    return f


def _of_shape(name: str, state: int) -> Native:
    f = Native(name, state)
    rank, error = f.get(I64, f.args, _RANK), f.shared(MISSING)
    unknown = f.cmp("ugt", rank, f.const(MOST_DIMENSIONS))
    f.if_(unknown, lambda: f.refer(error))
    f.ret_if(unknown, error)
    f.put(_layout(f, rank), f.args, _LAYOUT)
    f.ret(f.null())
    return f


def _layout(f: Native, rank: Value) -> Value:
    return f.at(f.cell(LAYOUTS), f.binary("mul", rank, f.const(LAYOUT_BYTES)))
