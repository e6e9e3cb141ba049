"""The description of a CPU that kernels are generated for. Templates read it; nothing else knows about instruction
sets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

import llvmlite.binding as llvm

from stablehlo_py.options import CPUS


@dataclass(frozen=True)
class CpuTarget:
    """What templates ask of a CPU.

    Attributes:
        name: LLVM's name of the CPU, e.g. "haswell".
        features: LLVM feature string, e.g. "+avx2,+fma,-avx512f".
        vector_bits: width of the vectors that kernels use (512, 256 or 128).
        registers: number of vector registers.
        l1, l2: data cache sizes in bytes that blocking aims at.
    """

    name: str
    features: str
    vector_bits: int
    registers: int
    l1: int = 32 << 10
    l2: int = 1 << 20

    def lanes(self, bits: int) -> int:
        """Lanes of a full vector of elements with this many bits."""
        return max(1, self.vector_bits // bits)

    @property
    def pair_intrinsics(self) -> dict[int, str]:
        """By number of 32-bit lanes: the intrinsic that multiplies 16-bit integers and adds neighbouring products. With
        VNNI, LLVM makes one instruction of it and the addition that follows."""
        if self.name == GENERIC.name:
            return {}
        known = {4: "llvm.x86.sse2.pmadd.wd", 8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}
        return {lanes: name for lanes, name in known.items() if lanes <= self.lanes(32)}

    @property
    def function_attributes(self) -> str:
        """The attributes every emitted function carries, so that code does not depend on the compiling host."""
        features = ", ".join(f'"{feature}"' for feature in self.features.split(",") if feature)
        listed = f", target_features = #llvm.target_features<[{features}]>" if features else ""
        return f'target_cpu = "{self.name}"{listed}'


AVX512 = CpuTarget("skylake-avx512", "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512cd,+fma,-prefer-256-bit", 512, 32)
AVX512_VNNI = replace(AVX512, name="cascadelake", features=f"{AVX512.features},+avx512vnni")
AVX2 = CpuTarget("haswell", "+avx2,+fma,-avx512f", 256, 16)
BASELINE = CpuTarget("x86-64", "", 128, 16)
GENERIC = CpuTarget("generic", "", 128, 16)
NAMED = dict(zip(CPUS, (AVX512_VNNI, AVX512, AVX2, BASELINE, GENERIC), strict=True))


def required_features(target: CpuTarget) -> tuple[str, ...]:
    """What a CPU must have to run code for a target, by LLVM's names."""
    names = [feature[1:] for feature in target.features.split(",") if feature.startswith("+")]
    return tuple(name for name in names if not name.startswith("prefer-"))


def missing_features(required: Iterable[str]) -> list[str]:
    """Those of the features that this host lacks."""
    present = llvm.get_host_cpu_features()
    return [name for name in required if not present.get(name)]


@cache
def host_target() -> CpuTarget:
    """The best description that the host can run."""
    for target in (AVX512_VNNI, AVX512, AVX2):
        if not missing_features(required_features(target)):
            return target
    return BASELINE if llvm.get_process_triple().startswith("x86_64") else GENERIC
