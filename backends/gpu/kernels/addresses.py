"""Where the buffers are of a kernel that has more of them than a launch takes: launches before it write their addresses
into a table in its scratch memory, which it reads (`GpuEmitter.function`)."""

from __future__ import annotations

from stablehlo_py.backends.gpu.kernels.base import GpuKernel
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.builder import I64, PTR, Function

NAME = "shlo_addresses"


def emit(target: GpuTarget) -> GpuKernel:
    """shlo_addresses(table, address0, address1 ...): as many as a launch takes, one after another into a table."""
    addresses = [f"address{number}" for number in range(target.parameters - 1)]
    f = Function(
        NAME, [("table", PTR), *((address, PTR) for address in addresses)], target.emitter(threads=1, blocks=1)
    )
    for number, address in enumerate(addresses):
        f.store(f.cast("ptrtoint", f.parameters[address], I64), f.table, number)
    f.ret()
    return GpuKernel.of(f)
