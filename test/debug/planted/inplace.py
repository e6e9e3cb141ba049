"""A pass file with a planted bug: a fusion that reads an operand transposed is written over it all the same."""

from dataclasses import dataclass

from stablehlo_py.passes.buffer_assignment import BufferAssignment
from stablehlo_py.passes.buffers import inplace

_keeps_order = inplace._keeps_order
inplace._keeps_order = lambda op: op.name == "hlo.transpose" or _keeps_order(op)


@dataclass(frozen=True)
class PlantedAssignment(BufferAssignment):
    """The shipped pass, which asks what may be written in place."""
