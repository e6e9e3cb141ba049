"""The descriptions of GPUs that kernels are generated for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from stablehlo_py.backends.common.roofline import Rates
from stablehlo_py.codegen.builder import PTR, Function
from stablehlo_py.codegen.emitters.gpu import AmdgpuEmitter, GpuEmitter, NvptxEmitter, SpirvEmitter
from stablehlo_py.codegen.matrix_units import MATRIX_UNITS, MatrixUnit
from stablehlo_py.codegen.target import Architecture, TargetDescription
from stablehlo_py.codegen.types import Element
from stablehlo_py.dialect.formats import FORMATS
from stablehlo_py.dialect.ops import record_of

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

WORDS = (32, 64)  # bits of what is updated atomically
_ATOMIC = {  # by op: of integers with a sign, and without
    "hlo.add": ("add", "add"),
    "hlo.and": ("and", "and"),
    "hlo.maximum": ("max", "umax"),
    "hlo.minimum": ("min", "umin"),
    "hlo.or": ("or", "or"),
    "hlo.xor": ("xor", "xor"),
}


@dataclass(frozen=True)
class GpuTarget(TargetDescription):
    """What templates ask of a GPU. A thread computes scalars: vectors are as wide as an element. `registers` are the
    32-bit ones that a thread may have.

    Attributes:
        block: threads of a block, where a kernel has no reason for another number.
        most_threads: of a block.
        subgroup: threads that run in step (a warp).
        exchanges: whether threads of a subgroup exchange values. Not all devices of OpenCL do, or have subgroups of
            this size.
        resident: threads that keep the machine busy: those that all its units hold at once.
        shared_bytes: shared memory that a block may have.
        copies: whether threads can copy from global to shared memory while they do other work.
        maps: whether one thread can have boxes of a tensor copied to shared memory (codegen/tensor_maps.py).
        splits_f32: whether three products of TF32 take less time than one of f32 without matrix units.
        tf32: whether products of f32 may round their operands to TF32: to 11 bits of significand.
        atomic_scatter: whether scatters may combine updates in any order, by atomic operations.
        generators: of kernels, besides our own templates, whose kernels are candidates: "triton".
        rates: what it can do in a second.
    """

    block: int = 256
    most_threads: int = 1024
    subgroup: int = 32
    exchanges: bool = True
    resident: int = 1 << 16
    shared_bytes: int = 32 << 10
    copies: bool = False
    maps: bool = False
    splits_f32: bool = False
    tf32: bool = False
    atomic_scatter: bool = False
    generators: tuple[str, ...] = ()
    rates: Rates = field(default=Rates(), repr=False)  # no code depends on them

    @cached_property
    def _emitter(self) -> type[GpuEmitter]:
        return {SPIRV64: SpirvEmitter, NVPTX64: NvptxEmitter, AMDGCN: AmdgpuEmitter}[self.architecture]

    @property
    def parameters(self) -> int:
        """How many a launch takes at most."""
        return self._emitter.most_parameters

    def emitter(self, threads: int = 0, blocks: int = 0) -> GpuEmitter:
        """What writes one function: a kernel with so many blocks (0: not known) of so many threads, or (0) a function
        that kernels call."""
        return self._emitter(self, threads, blocks)

    def kernel(
        self, symbol: str, pointers: Sequence[str], blocks: int, threads: int, noalias: Sequence[str] = ()
    ) -> Function:
        """A kernel under construction, of so many blocks of threads; `noalias` are those of its pointers to what
        nothing else reaches."""
        parameters = [(pointer, PTR) for pointer in pointers]
        return Function(symbol, parameters, self.emitter(threads, blocks), noalias=noalias)

    @property
    def unchecked(self) -> GpuTarget:
        """The same for kernels that are written to be looked at, and are not run."""
        return self

    def lanes(self, bits: int) -> int:
        """One."""
        return 1

    def updates_atomically(self, name: str, of: Element) -> bool:
        """Whether an element in memory may become the result of an op (`name`) of itself and of another number in one
        step to all threads of the device: where the op does not depend on the order, and elements are words of 32 or 64
        bits, or such words one by one (sums of complex numbers)."""
        record = record_of(name)
        if record is None or not (record.commutative and record.associative):
            return False
        words = of.is_complex and (name == "hlo.add" or 2 * of.bits in WORDS)
        return words or (of.kind in ("int", "float") and of.storage.bits in WORDS)

    def atomic_instruction(self, name: str, of: Element) -> str | None:
        """The operation of LLVM's atomicrmw that does it; None: a loop around a compare-and-exchange does."""
        if of.kind == "int":
            return _ATOMIC.get(name, (None, None))[of.unsigned]
        return "fadd" if name == "hlo.add" and self._emitter.adds_floats else None

    def units_for(self, left: str, right: str, result: str) -> list[MatrixUnit]:
        """The matrix units for a product of these element types, the best one first: they have all numbers of the
        operands, and sums of the result's type, or of f32 where that is the operands' or, of operands of 8 bits, one
        of 16 bits at most."""
        units = (MATRIX_UNITS[name] for name in self.matrix_units)
        return [
            unit
            for unit in units
            if _sums_become(unit, result)
            and all(of == each or _has(of, each) for of, each in zip(unit.operands, (left, right), strict=True))
            and (self.tf32 or unit.rounded_to != "tf32")
        ]


def _sums_become(unit: MatrixUnit, result: str) -> bool:
    """Whether results of a type are sums of a unit, rounded once."""
    if result == unit.total:
        return True
    is_narrow = unit.bits == 8 and result in FORMATS and result not in ("f32", "f64")
    return unit.total == "f32" and (result in unit.operands or is_narrow)


def _has(of: str, each: str) -> bool:
    """Whether a type that units take has all values of another one, infinities and NaN too."""
    return of in FORMATS and each in FORMATS and FORMATS[of].holds(FORMATS[each])


_MMA = ("mma.m16n8k16.bf16", "mma.m16n8k16.f16", "mma.m16n8k8.tf32", "mma.m16n8k32.i8", "mma.m8n8k4.f64")
_WGMMA = ("wgmma.m64k16.bf16", "wgmma.m64k16.f16")
_MMA_F8, _WGMMA_F8, _MFMA_F8 = (
    tuple(name for name in MATRIX_UNITS if name.startswith(f"{shape}.f8"))
    for shape in ("mma.m16n8k32", "wgmma.m64k32", "mfma.16x16x32")
)
_MFMA = ("mfma.16x16x16.bf16", "mfma.16x16x16.f16", "mfma.16x16x4.f32", "mfma.16x16x4.f64")


def _nvidia(name: str, ptx: str, units: int, rates: Rates) -> GpuTarget:
    """One of NVIDIA's, with so many multiprocessors; `ptx` is the version that its code is written in: drivers of that
    age take it. Its code runs on later machines too, which have no less shared memory than this."""
    resident, shared = units * 2048, 99 << 10
    return GpuTarget(
        name, f"+{ptx}", 32, 255, NVPTX64, _MMA, resident=resident, shared_bytes=shared, copies=True, rates=rates
    )


def _amd(name: str, resident: int, rates: Rates, units: tuple[str, ...], subgroup: int = 64) -> GpuTarget:
    shared = 64 << 10
    return GpuTarget(
        name, "", 32, 256, AMDGCN, units, subgroup=subgroup, resident=resident, shared_bytes=shared, rates=rates
    )


OPENCL = GpuTarget("opencl", "", 32, 64, SPIRV64, most_threads=256, exchanges=False)
# A100, H100 and B200 with SXM; a part of an MI250X, an MI300X, an RX 7900 XTX: the vendors' data sheets.
_H100 = Rates(bandwidth=3.35, f64=67, f32=67, f16=989, f8=1979, i8=1979)
_A100 = Rates(bandwidth=2.04, f64=19.5, f32=19.5, f16=312, i8=624)
SM_80 = replace(_nvidia("sm_80", "ptx83", 108, _A100), splits_f32=True)
SM_90 = replace(_nvidia("sm_90", "ptx83", 132, _H100), matrix_units=_MMA_F8 + _MMA)
# With what later machines do not have.
_UNITS_90A = _WGMMA_F8 + _WGMMA + SM_90.matrix_units
SM_90A = replace(_nvidia("sm_90a", "ptx83", 132, _H100), matrix_units=_UNITS_90A, shared_bytes=227 << 10, maps=True)
_B200 = Rates(bandwidth=8.0, f64=37, f32=75, f16=2250, f8=4500, i8=4500)
SM_100 = replace(_nvidia("sm_100", "ptx86", 148, _B200), matrix_units=_MMA_F8 + _MMA)
_MI250X = Rates(bandwidth=1.6, f64=47.9, f32=47.9, f16=191.5, i8=191.5)
_MI300X = Rates(bandwidth=5.3, f64=163.4, f32=163.4, f16=1307, f8_fnuz=2615, i8=2615)
GFX90A = _amd("gfx90a", 110 * 2048, _MI250X, (*_MFMA, "mfma.16x16x16.i8"))
GFX942 = _amd("gfx942", 304 * 2048, _MI300X, (*_MFMA_F8, *_MFMA, "mfma.16x16x32.i8"))
_RX_7900 = Rates(bandwidth=0.96, f64=1.9, f32=61.4, f16=123, i8=123)
GFX1100 = _amd("gfx1100", 96 * 1024, _RX_7900, ("wmma.16x16x16.bf16", "wmma.16x16x16.f16", "wmma.16x16x16.i8"), 32)
NAMED = {target.name: target for target in (SM_80, SM_90, SM_90A, SM_100, GFX90A, GFX942, GFX1100)}
