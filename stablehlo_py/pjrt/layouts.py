"""Layouts as JAX asks for them, by PJRT's extension for layouts: a layout is a row of a table, which has one for each
rank, since all arrays here are in row-major order. (What layouts a program may ask for: signature.py.)"""

from __future__ import annotations

from stablehlo_py.codegen.builder import I64, PTR, Value
from stablehlo_py.pjrt.code import OBJECT, Native
from stablehlo_py.pjrt.fields import LAYOUT_BYTES, LAYOUTS, MISSING, MOST_DIMENSIONS

_RANK, _LAYOUT = 40, 48  # of the arguments: a client or topology, a type, dimensions, how many


def layout_text(rank: int) -> str:
    """How XLA writes the row-major layout of that rank: its dimensions from the fastest to the slowest."""
    return f"{{{','.join(map(str, reversed(range(rank))))}}}"


def functions(state: int) -> list[Native]:
    """Those that find the layout of an array, and of a shape."""
    shapes = [_of_shape(name, state) for name in ("Client_DefaultLayout", "Topology_DefaultLayout")]
    return [_of_buffer(state), *shapes]


def _of_buffer(state: int) -> Native:
    f = Native("Buffer_Layout", state)
    rank = f.field(f.get(PTR, f.args, OBJECT), "buffer", "rank")
    f.put(_layout(f, rank), f.args, OBJECT + 8)
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
