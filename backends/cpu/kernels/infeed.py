"""hlo.infeed."""

from stablehlo_py.backends.cpu.kernels.transfer import at_port as emit

__all__ = ["emit"]
