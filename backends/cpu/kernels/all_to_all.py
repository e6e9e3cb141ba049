"""hlo.all_to_all: block i is the block that the group's member i has for this process."""

from stablehlo_py.backends.cpu.kernels.base import Fusion, Kernel
from stablehlo_py.backends.cpu.kernels.exchange import exchange
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.dialect.types import i64


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """A kernel of `width` blocks."""
    return exchange(
        fusion,
        target,
        i64(fusion.ops[0], "width"),
        lambda group, member: [(other, group.index(member)) for other in group],
    )
