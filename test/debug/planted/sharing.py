"""A pass file with a planted bug: buffer assignment takes every value for dead one op before it is read for the last
time."""

from dataclasses import dataclass, replace

from stablehlo_py.passes import buffer_assignment
from stablehlo_py.passes.buffer_assignment import BufferAssignment

_assign_offsets = buffer_assignment.assign_offsets


def _too_early(intervals):
    return _assign_offsets([replace(each, last=max(each.first, each.last - 1)) for each in intervals])


buffer_assignment.assign_offsets = _too_early


@dataclass(frozen=True)
class PlantedAssignment(BufferAssignment):
    """The shipped pass on wrong live ranges."""
