"""The descriptions of GPUs that kernels are generated for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from stablehlo_py.codegen.emitters.gpu import AmdgpuEmitter, GpuEmitter, NvptxEmitter, SpirvEmitter
from stablehlo_py.codegen.target import Architecture, TargetDescription

_SPIRV_LAYOUT = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64-G1"
_NVPTX_LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
SPIRV64 = Architecture("spirv64", "spirv64-unknown-unknown", _SPIRV_LAYOUT)
NVPTX64 = Architecture("nvptx64", "nvptx64-nvidia-cuda", _NVPTX_LAYOUT)
AMDGCN = Architecture(
    "amdgcn",
    "amdgcn-amd-amdhsa",
    "e-m:e-p:64:64-p1:64:64-p2:32:32-p3:32:32-p4:64:64-p5:32:32-p6:32:32-p7:160:256:256:32"
    "-p8:128:128:128:48-p9:192:256:256:32-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256"
    "-v512:512-v1024:1024-v2048:2048-n32:64-S32-A5-G1-ni:7:8:9",
)


@dataclass(frozen=True)
class GpuTarget(TargetDescription):
    """What templates ask of a GPU. A thread computes scalars: vectors are as wide as an element.

    Attributes:
        block: threads of a block, where a kernel has no reason for another number.
        subgroup: threads that run in step and exchange values (a warp).
        resident: threads that keep the machine busy.
    """

    block: int = 256
    subgroup: int = 32
    resident: int = 1 << 16

    @cached_property
    def _emitter(self) -> type[GpuEmitter]:
        return {SPIRV64: SpirvEmitter, NVPTX64: NvptxEmitter, AMDGCN: AmdgpuEmitter}[self.architecture]

    def emitter(self, threads: int = 0) -> GpuEmitter:
        """What writes one function: a kernel with blocks of so many threads, or (0) a function that kernels call."""
        return self._emitter(self, threads)

    def lanes(self, bits: int) -> int:
        """One."""
        return 1


OPENCL = GpuTarget("opencl", "", 32, 64, SPIRV64)
SM_90 = GpuTarget("sm_90", "+ptx83", 32, 255, NVPTX64, resident=132 * 2048)
GFX942 = GpuTarget("gfx942", "", 32, 256, AMDGCN, subgroup=64, resident=304 * 2048)
