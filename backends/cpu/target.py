"""The description of a CPU that kernels are generated for. Templates read it; nothing else knows about instruction
sets."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from stablehlo_py.backends.cpu.features import AMD, TILE_FEATURES, TUNING, missing_features, vendor
from stablehlo_py.codegen.emitter import Emitter
from stablehlo_py.codegen.emitters.llvm import LlvmEmitter
from stablehlo_py.codegen.emitters.llvm_ir import LlvmIrEmitter
from stablehlo_py.codegen.target import (
    AARCH64,
    ARMV7,
    RISCV64,
    WASM32,
    X86_64,
    TargetDescription,
    host_architecture,
)
from stablehlo_py.errors import OptionError
from stablehlo_py.options import CPUS, OTHER_CPUS

NO_MASKS = 128  # `masked_bits` of a CPU without: no element is as wide


@dataclass(frozen=True)
class CpuTarget(TargetDescription):
    """What templates ask of a CPU, besides.

    Attributes:
        l1, l2: data cache sizes in bytes that blocking aims at. l3: what a core has of a cache that all share, where
            that is as good for what is read from one end to the other; 0: it is not.
        byte_products: which instructions add the products of four neighbouring bytes to a lane of 32 bits: "dotprod":
            those of bytes that are both signed or both unsigned; "i8mm": all; "": none.
        dots: features of x86-64 whose instructions do that to full vectors, to products of unsigned and signed bytes,
            or of two bf16 (kernels/vector_unit.py).
        shares_functions: kernels may call functions that others of the program call, too. tile_levels: the contracted
            axes of a product's tile are at least so many.
        scalable: vectors of this width are the first lanes of those of SVE, which are as wide or wider.
        flop_share: of what a flop is assumed to take (policy_costs.py), what it takes here.
        op_ns: nanoseconds that a vector of an op adds to a loop that does more, of f32 and of f64, where they were
            measured; `policy_costs.py` has what is assumed of others.
        emits: what writes functions for it. is_light: these are of a program that calls for little work.
    """

    l1: int = 32 << 10
    l2: int = 1 << 20
    l3: int = 0
    byte_products: str = ""
    dots: tuple[str, ...] = ()
    scalable: bool = False
    shares_functions: bool = False
    tile_levels: int = 1
    flop_share: float = 1.0
    op_ns: Mapping[str, tuple[float, float]] = field(default_factory=dict, hash=False)
    emits: type[LlvmEmitter | LlvmIrEmitter] = field(default=LlvmEmitter, repr=False)
    is_light: bool = field(default=False, repr=False)

    def emitter(self) -> Emitter:
        """What writes one function for this CPU."""
        return self.emits(self)

    @property
    def pair_intrinsics(self) -> dict[int, str]:
        """By number of 32-bit lanes: the intrinsic that multiplies 16-bit integers and adds neighbouring products. With
        VNNI, LLVM makes one instruction of it and the addition that follows."""
        if self.architecture is WASM32 and self.vector_bits == 128:
            return {4: "llvm.wasm.dot"}
        if self.architecture is not X86_64 or self.name == GENERIC.name:
            return {}
        known = {4: "llvm.x86.sse2.pmadd.wd", 8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}
        return {lanes: name for lanes, name in known.items() if lanes <= self.lanes(32)}

    def quad_intrinsic(self, unsigned: tuple[bool, bool]) -> str:
        """The intrinsic that adds the products of four neighbouring bytes to a full vector of 32-bit lanes, by whether
        the bytes of the two operands are unsigned; "": there is none. Where they differ the unsigned ones come
        first."""
        kind = {(False, False): "sdot", (True, True): "udot"}.get(unsigned, "usdot")
        if not self.byte_products or self.vector_bits != 128 or (kind == "usdot" and self.byte_products != "i8mm"):
            return ""
        return f"llvm.aarch64.neon.{kind}.v4i32.v16i8"

    @property
    def packed_types(self) -> tuple[str, ...]:
        """Types of the elements whose products want their right operand in panels (weight_tiles.py), as LLVM names
        them; none: no products do."""
        units = {*self.matrix_units, *self.dots}
        known = {"i8": {AMX_INT8, VNNI, AVX_VNNI_FEATURE}, "bf16": {AMX_BF16, BF16_FEATURE}}
        return tuple(name for name, features in known.items() if features & units)

    @property
    def loses_nan(self) -> bool:
        """Whether the instruction for the larger of two floats takes the second one where one is NaN, or both are
        zero."""
        return self.architecture is X86_64

    @property
    def attributes(self) -> str:
        """What functions of LLVM say of themselves besides processor and features."""
        # Units of 128 bits: at least these; up to 16, as the architecture says. Longer vectors do the same.
        return f"vscale_range({self.vector_bits // 128},16)" if self.scalable else ""


AVX512 = CpuTarget(
    "skylake-avx512",
    "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512cd,+fma,-prefer-256-bit",
    512,
    32,
    X86_64,
    masked_bits=8,
    scaling="llvm.x86.avx512.mask.scalef",
)
VNNI, AVX_VNNI_FEATURE, BF16_FEATURE = "avx512vnni", "avxvnni", "avx512bf16"
# fast-dpwssd: without it LLVM makes two instructions of a multiply-add of pairs where it takes the sum to come late.
AVX512_VNNI = replace(AVX512, name="cascadelake", features=f"{AVX512.features},+{VNNI},+fast-dpwssd", dots=(VNNI,))
AVX512_BF16 = replace(AVX512_VNNI, features=f"{AVX512_VNNI.features},+{BF16_FEATURE}", dots=(VNNI, BF16_FEATURE))
# Beside eight additions and multiplications (benchmarks/bench_op_costs.py).
_ZEN4_NS = {
    "hlo.acos": (5.5, 8.0),
    "hlo.acosh": (10.5, 14.5),
    "hlo.asin": (5.5, 8.0),
    "hlo.asinh": (9.5, 13.5),
    "hlo.atan2": (7.5, 12.5),
    "hlo.atanh": (7.0, 9.0),
    "hlo.bessel_i1e": (13.5, 36.0),
    "hlo.cbrt": (4.5, 8.5),
    "hlo.cosh": (4.5, 8.0),
    "hlo.cosine": (6.5, 9.0),
    "hlo.digamma": (37.0, 126.0),
    "hlo.divide": (0.8, 1.5),
    "hlo.erf": (7.5, 26.0),
    "hlo.erf_inv": (20.0, 48.0),
    "hlo.erfc": (13.5, 25.0),
    "hlo.exponential": (2.5, 5.0),
    "hlo.lgamma": (45.0, 106.0),
    "hlo.log": (5.0, 7.0),
    "hlo.log_plus_one": (4.5, 8.0),
    "hlo.logistic": (6.5, 10.0),
    "hlo.power": (16.0, 36.0),
    "hlo.remainder": (2.5, 3.5),
    "hlo.rsqrt": (3.5, 5.0),
    "hlo.sine": (6.5, 9.0),
    "hlo.sinh": (5.5, 11.0),
    "hlo.sqrt": (1.2, 2.8),
    "hlo.tan": (8.0, 11.5),
    "hlo.tanh": (6.0, 9.0),
    "hlo.zeta": (197.0, 508.0),
}
# A gather is a program of the processor's own there, which takes longer than loads one by one. The other features are
# what LLVM takes from the name, as far as it makes instructions of them.
ZEN4 = replace(
    AVX512_BF16,
    name="znver4",
    features=f"{AVX512_BF16.features},+avx512vbmi,+avx512vbmi2,+avx512bitalg,+avx512vpopcntdq,+avx512ifma,+gfni,+sse4a,"
    "+prfchw,+prefer-no-gather,+prefer-no-scatter",
    gathers=False,
    flop_share=0.5,
    op_ns=_ZEN4_NS,
)
AMX_BF16, AMX_INT8 = "amx-bf16", "amx-int8"
# Products of bf16 that tiles are too large for are those of f32 there: as many a cycle as by vdpbf16ps.
AMX = replace(
    AVX512_BF16,
    dots=(VNNI,),
    features=f"{AVX512_BF16.features},+amx-tile,+amx-bf16,+amx-int8",
    matrix_units=(AMX_BF16, AMX_INT8),
    l1=48 << 10,
    l2=2 << 20,
)
AVX2 = CpuTarget("haswell", "+avx2,+fma,-avx512f", 256, 16, X86_64)
_ZEN3_NS = {
    "hlo.acos": (5.5, 10.5),
    "hlo.acosh": (17.0, 23.0),
    "hlo.asin": (6.2, 13.5),
    "hlo.asinh": (14.0, 21.5),
    "hlo.atan2": (12.0, 17.0),
    "hlo.atanh": (9.8, 13.2),
    "hlo.bessel_i1e": (14.8, 40.0),
    "hlo.cbrt": (6.2, 7.8),
    "hlo.cosh": (5.0, 13.5),
    "hlo.cosine": (5.8, 9.0),
    "hlo.digamma": (40.0, 113.0),
    "hlo.divide": (0.7, 1.2),
    "hlo.erf": (8.5, 28.8),
    "hlo.erf_inv": (27.5, 55.5),
    "hlo.erfc": (16.8, 31.5),
    "hlo.exponential": (5.0, 5.5),
    "hlo.exponential_minus_one": (7.2, 7.5),
    "hlo.lgamma": (54.5, 107.5),
    "hlo.log": (7.5, 11.0),
    "hlo.log_plus_one": (10.0, 13.5),
    "hlo.logistic": (9.8, 11.8),
    "hlo.power": (21.2, 43.8),
    "hlo.remainder": (3.8, 2.5),
    "hlo.rsqrt": (5.2, 4.8),
    "hlo.sine": (6.0, 9.0),
    "hlo.sinh": (6.0, 14.8),
    "hlo.sqrt": (0.7, 1.4),
    "hlo.tan": (9.2, 13.2),
    "hlo.tanh": (5.8, 9.2),
    "hlo.zeta": (238.0, 576.5),
}
# As on Zen 4, a gather takes longer than loads one by one, which LLVM knows by the name. A store under a mask is a
# program of the processor's own as well.
ZEN3 = replace(
    AVX2,
    name="znver3",
    features=f"{AVX2.features},+bmi2,+f16c,+movbe,+popcnt,-sse4a,+vaes,+vpclmulqdq",
    gathers=False,
    masked_stores=False,
    l2=512 << 10,
    l3=4 << 20,
    op_ns=_ZEN3_NS,
)
AVX_VNNI = replace(AVX2, features=f"{AVX2.features},+{AVX_VNNI_FEATURE}", dots=(AVX_VNNI_FEATURE,))
BASELINE = CpuTarget("x86-64", "", 128, 16, X86_64, masked_bits=NO_MASKS, fused=False, rounds=False, converts_f16=False)
# Any CPU of this architecture.
GENERIC = CpuTarget(
    "generic",
    "",
    128,
    16,
    host_architecture(),
    masked_bits=NO_MASKS,
    fused=host_architecture() is not X86_64,
    rounds=host_architecture() is not X86_64,
    converts_f16=host_architecture() is AARCH64,
)
_OF_HOSTS = (AMX, ZEN4, AVX512_BF16, AVX512_VNNI, AVX512, AVX_VNNI, ZEN3, AVX2)  # the best first
NAMED = dict(zip(CPUS, (*_OF_HOSTS, BASELINE, GENERIC), strict=True))

_NEON = CpuTarget("generic", "+neon", 128, 32, AARCH64, masked_bits=NO_MASKS)
_SVE = replace(_NEON, vector_bits=256, masked_bits=8, scalable=True, divides_integers=True)
_RV64 = CpuTarget("generic-rv64", "+m,+a,+f,+d,+c", 64, 32, RISCV64, masked_bits=NO_MASKS, converts_f16=False)
_RVV = replace(_RV64, features=f"{_RV64.features},+v", vector_bits=128, masked_bits=8, divides_integers=True)
_SIMD128 = "+simd128,+bulk-memory,+nontrapping-fptoint,+sign-ext,+mutable-globals"
_WASM = CpuTarget("generic", _SIMD128, 128, 16, WASM32, masked_bits=NO_MASKS, fused=False, converts_f16=False)
_ARM = CpuTarget(
    "generic", "+v7,+vfp3d16", 64, 8, ARMV7, masked_bits=NO_MASKS, fused=False, rounds=False, converts_f16=False
)
# CPUs that object files are generated for, and programs of this process are not.
_OTHERS = (
    replace(BASELINE, name="x86-64-v2", rounds=True),
    replace(AVX2, name="x86-64-v3"),
    replace(AVX512, name="x86-64-v4"),
    replace(AVX512_VNNI, name="icelake-server"),
    replace(AVX512_BF16, name="sapphirerapids", l1=48 << 10, l2=2 << 20),
    _NEON,
    replace(_NEON, name="cortex-a53", features="", l2=512 << 10),
    replace(_NEON, name="cortex-a72", features=""),
    replace(_NEON, name="neoverse-n1", features="", byte_products="dotprod", l1=64 << 10),
    replace(_NEON, name="neoverse-n2", features="", byte_products="i8mm", l1=64 << 10),
    replace(_NEON, name="apple-m1", features="", byte_products="dotprod", l1=64 << 10, l2=4 << 20),
    replace(_SVE, name="neoverse-v1", features="", l1=64 << 10),
    replace(_SVE, name="a64fx", features="", vector_bits=512, l1=64 << 10),
    _RV64,
    _RVV,
    replace(_RVV, features=f"{_RVV.features},+zvl256b", vector_bits=256),
    replace(_RVV, features=f"{_RVV.features},+zvl512b", vector_bits=512),
    _WASM,
    replace(_WASM, name="mvp", features="", vector_bits=64),
    _ARM,
    replace(_ARM, features="+v7,+neon,+vfp4", vector_bits=128, registers=16, fused=True, converts_f16=True),
    replace(_ARM, name="cortex-a7", features="+neon", vector_bits=128, registers=16, fused=True, converts_f16=True),
    replace(_ARM, name="cortex-a9", features="+neon", vector_bits=128, registers=16),
)
OTHERS = dict(zip(OTHER_CPUS, _OTHERS, strict=True))


def required_features(target: CpuTarget, *, tiles: bool = True) -> tuple[str, ...]:
    """What a CPU must have to run code for a target, by LLVM's names; code without `tiles` does not need those."""
    names = [feature[1:] for feature in target.features.split(",") if feature.startswith("+")]
    return tuple(name for name in names if not name.startswith(TUNING) and (tiles or name not in TILE_FEATURES))


def without_units(target: CpuTarget) -> CpuTarget:
    """The same CPU without its matrix units."""
    return AVX512_BF16 if target is AMX else target


def baseline_target() -> CpuTarget:
    """What every processor of this machine's architecture can run."""
    return BASELINE if host_architecture() is X86_64 else GENERIC


def named_target(name: str | None, default: CpuTarget) -> CpuTarget:
    """The description of that name (`Options.cpu`), None: the default. Raises OptionError: there is none."""
    if name is None:
        return default
    found = NAMED.get(name) or OTHERS.get(name)
    if found is None:
        raise OptionError(
            f"there is no CPU description '{name}'",
            remedy="\n".join(
                textwrap.wrap(f"use one of {', '.join(NAMED)}; or, for object files, of {', '.join(OTHERS)}")
            ),
        )
    return found


@cache
def runs_here(target: CpuTarget) -> bool:
    """Whether programs for a CPU may be loaded into a process of this one, if it has the features: those of `NAMED`,
    and what other packages describe for this architecture."""
    described_elsewhere = target not in OTHERS.values() and target.architecture == host_architecture()
    return target in NAMED.values() or described_elsewhere


def require_own(target: CpuTarget, name: str | None) -> None:
    """Raise OptionError unless programs for this CPU may be loaded into a process of this one."""
    if not runs_here(target):
        raise OptionError(
            f"the CPU '{name or target.name}' is not this one: only object files can be generated for it",
            remedy=f"leave the option out, or use one of {', '.join(NAMED)}",
        )


@cache
def host_target() -> CpuTarget:
    """The best description that the host can run, and lets this process run."""
    for target in _OF_HOSTS:
        if target in (ZEN3, ZEN4) and vendor() != AMD:
            continue
        if not missing_features(required_features(target)):
            return target
    return baseline_target()
