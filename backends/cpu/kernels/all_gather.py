"""hlo.all_gather: block i is the operand of the group's member i."""

from stablehlo_py.backends.cpu.kernels.base import Fusion, Kernel
from stablehlo_py.backends.cpu.kernels.exchange import exchange
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.dialect.ops.grid import NOBODY
from stablehlo_py.dialect.types import i64


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """A kernel of `width` blocks; zeros where a group is smaller."""
    width = i64(fusion.ops[0], "width")
    return exchange(
        fusion,
        target,
        width,
        lambda group, member: [(other, 0) for other in group] + [(NOBODY, 0)] * (width - len(group)),
    )
