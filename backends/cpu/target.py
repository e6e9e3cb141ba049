"""The description of a CPU that kernels are generated for. Templates read it; nothing else knows about instruction
sets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from stablehlo_py.backends.cpu.features import missing_features
from stablehlo_py.codegen.emitter import Emitter
from stablehlo_py.codegen.emitters.llvm import LlvmEmitter
from stablehlo_py.codegen.target import X86_64, TargetDescription, host_architecture
from stablehlo_py.errors import OptionError
from stablehlo_py.options import CPUS


@dataclass(frozen=True)
class CpuTarget(TargetDescription):
    """What templates ask of a CPU, besides.

    Attributes:
        l1, l2: data cache sizes in bytes that blocking aims at.
    """

    l1: int = 32 << 10
    l2: int = 1 << 20

    def emitter(self) -> Emitter:
        """What writes one function for this CPU."""
        return LlvmEmitter(self)

    @property
    def pair_intrinsics(self) -> dict[int, str]:
        """By number of 32-bit lanes: the intrinsic that multiplies 16-bit integers and adds neighbouring products. With
        VNNI, LLVM makes one instruction of it and the addition that follows."""
        if self.name == GENERIC.name:
            return {}
        known = {4: "llvm.x86.sse2.pmadd.wd", 8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}
        return {lanes: name for lanes, name in known.items() if lanes <= self.lanes(32)}


AVX512 = CpuTarget(
    "skylake-avx512", "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512cd,+fma,-prefer-256-bit", 512, 32, X86_64
)
AVX512_VNNI = replace(AVX512, name="cascadelake", features=f"{AVX512.features},+avx512vnni")
AVX2 = CpuTarget("haswell", "+avx2,+fma,-avx512f", 256, 16, X86_64)
BASELINE = CpuTarget("x86-64", "", 128, 16, X86_64)
GENERIC = CpuTarget("generic", "", 128, 16, host_architecture())  # any CPU of this architecture
NAMED = dict(zip(CPUS, (AVX512_VNNI, AVX512, AVX2, BASELINE, GENERIC), strict=True))


def required_features(target: CpuTarget) -> tuple[str, ...]:
    """What a CPU must have to run code for a target, by LLVM's names."""
    names = [feature[1:] for feature in target.features.split(",") if feature.startswith("+")]
    return tuple(name for name in names if not name.startswith("prefer-"))


def baseline_target() -> CpuTarget:
    """What every processor of this machine's architecture can run."""
    return BASELINE if host_architecture() is X86_64 else GENERIC


def named_target(name: str | None, default: CpuTarget) -> CpuTarget:
    """The description of that name (`Options.cpu`), None: the default. Raises OptionError: there is none."""
    if name is None:
        return default
    if name not in NAMED:
        raise OptionError(f"there is no CPU description '{name}'", remedy=f"use one of {', '.join(NAMED)}")
    return NAMED[name]


@cache
def host_target() -> CpuTarget:
    """The best description that the host can run."""
    for target in (AVX512_VNNI, AVX512, AVX2):
        if not missing_features(required_features(target)):
            return target
    return baseline_target()
