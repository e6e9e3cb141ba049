"""hlo.collective_permute: the operand of one other process, or zeros."""

from stablehlo_py.backends.cpu.kernels.base import Fusion, Kernel
from stablehlo_py.backends.cpu.kernels.exchange import exchange
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.dialect.types import i64s


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """A kernel of one block."""
    sources = i64s(fusion.ops[0], "sources")
    return exchange(fusion, target, 1, lambda group, member: [(sources[member], 0)])
