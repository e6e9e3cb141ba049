"""hlo.send."""

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels.base import Kernel
from stablehlo_py.backends.cpu.kernels.transfer import through_channel
from stablehlo_py.backends.cpu.target import CpuTarget


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """Into the channel of this process's target."""
    return through_channel(fusion, target, "targets", "shlo_grid_send")
