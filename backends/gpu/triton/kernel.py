"""A source of Triton becomes the kernel of a fusion."""

from __future__ import annotations

from stablehlo_py.backends.gpu.kernels.base import GpuKernel, Launch, Module
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.backends.gpu.triton.build import UNUSED_POINTERS, build, code_of
from stablehlo_py.backends.gpu.triton.worker import Request
from stablehlo_py.errors import UnsupportedError


def compiled(request: Request, plan: str, blocks: int, target: GpuTarget) -> GpuKernel:
    """The kernel of a plan, of so many blocks.

    Raises:
        ResourceError: Triton is not installed.
        UnsupportedError: Triton refuses it, or it takes more shared memory than the machine has.
    """
    built = build(request)
    if built.shared_bytes > target.shared_bytes:
        raise UnsupportedError(
            f"the plan '{plan}' of '{request.symbol}' takes {built.shared_bytes} bytes of shared memory",
            remedy="take another plan",
        )
    launch = Launch(request.symbol, blocks, built.threads, built.shared_bytes, True)
    return GpuKernel((launch,), {}, module=Module(built.cubin, request.source, code_of(target)[1], UNUSED_POINTERS))
