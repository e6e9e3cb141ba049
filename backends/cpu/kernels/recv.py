"""hlo.recv."""

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels.base import Kernel
from stablehlo_py.backends.cpu.kernels.transfer import through_channel
from stablehlo_py.backends.cpu.target import CpuTarget


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """Out of this process's own channel."""
    return through_channel(fusion, target, "sources", "shlo_grid_recv")
