"""What generated code knows of the machine that runs it, which may be another one than this.

Whoever generates code asks a `TargetDescription`. The only question to this machine is which architecture it has
(`host_architecture`), for code that this process runs.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from functools import cached_property

from stablehlo_py.errors import InternalError, UnsupportedError


@dataclass(frozen=True)
class Architecture:
    """An instruction set with its calling convention and system.

    Attributes:
        name: as the system calls it, e.g. "x86_64".
        triple: as LLVM calls it.
        data_layout: LLVM's description of sizes, alignments and byte order.
        system_calls: (name, number) of those that generated code makes.
        spin_hint: the intrinsic that tells a core that it spins, and its operands; None: there is none that every
            processor of the architecture has.
        abi: the calling convention as LLVM calls it, where the triple does not say it.
    """

    name: str
    triple: str
    data_layout: str
    system_calls: tuple[tuple[str, int], ...] = ()
    spin_hint: tuple[str, tuple[int, ...]] | None = None
    abi: str = ""

    @cached_property
    def pointer_bits(self) -> int:
        """Width of a pointer: the data layout says it where it is not 64."""
        sizes = re.search(r"(?:^|-)p0?:(\d+)", self.data_layout)
        return int(sizes[1]) if sizes else 64

    @property
    def byte_order(self) -> str:
        """ "little" or "big"."""
        return "big" if self.data_layout.startswith("E") else "little"

    def system_call(self, name: str) -> int:
        """The number of a system call. Raises InternalError where it is not known."""
        for known, number in self.system_calls:
            if known == name:
                return number
        raise InternalError(f"the number of the system call {name} is not known for {self.triple}")


_ARM_LAYOUT = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i8:8:32-i16:16:32-i64:64-i128:128-n32:64-S128-Fn32"
X86_64 = Architecture(
    "x86_64",
    "x86_64-unknown-linux-gnu",
    "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128",
    (("futex", 202),),
    ("llvm.x86.sse2.pause", ()),
)
AARCH64 = Architecture(
    "aarch64", "aarch64-unknown-linux-gnu", _ARM_LAYOUT, (("futex", 98),), ("llvm.aarch64.hint", (1,))
)
RISCV64 = Architecture(
    "riscv64",
    "riscv64-unknown-linux-gnu",
    "e-m:e-p:64:64-i64:64-i128:128-n32:64-S128",
    (("futex", 98),),
    abi="lp64d",
)
WASM32 = Architecture(
    "wasm32",
    "wasm32-unknown-unknown",
    "e-m:e-p:32:32-p10:8:8-p20:8:8-i64:64-i128:128-n32:64-S128-ni:1:10:20",
)
ARMV7 = Architecture(
    "armv7",
    "armv7-unknown-linux-gnueabihf",
    "e-m:e-p:32:32-Fi8-i64:64-v128:64:128-a:0:32-n32-S64",
    (("futex", 240),),
    ("llvm.arm.hint", (1,)),
)
# Those that may be this machine's; what has pointers of 32 bits never is.
ARCHITECTURES = {architecture.name: architecture for architecture in (X86_64, AARCH64, RISCV64)}


def architecture_of(name: str) -> Architecture:
    """The architecture that a system calls so.

    Raises:
        UnsupportedError: none that code is generated for.
    """
    found = ARCHITECTURES.get(name)
    if found is None:
        raise UnsupportedError(f"code for {name} cannot be generated", remedy=f"use {' or '.join(ARCHITECTURES)}")
    return found


def host_architecture() -> Architecture:
    """That of this machine. Raises as `architecture_of`."""
    return architecture_of(platform.machine())


@dataclass(frozen=True)
class TargetDescription:
    """A processor, as far as generated code depends on it; a backend's own description derives from it.

    Attributes:
        name: LLVM's name of the processor, e.g. "haswell".
        features: LLVM feature string, e.g. "+avx2,+fma,-avx512f".
        vector_bits: width of the vectors that kernels use.
        registers: number of vector registers.
        architecture: instruction set, calling convention and system.
        matrix_units: names of the units that multiply tiles.
        masked_bits: elements of this width and above are loaded and stored under a mask by one instruction; where there
            is none, LLVM makes a branch for each lane of it.
        fused: whether one instruction computes a * b + c, rounded once, of f32 and of f64.
        rounds: whether one instruction rounds f32 and f64 to whole numbers.
        converts_f16: whether one instruction makes f32 of f16, and one the reverse.
        divides_integers: whether one instruction divides a vector of integers.
        scaling: the intrinsics that multiply each lane of a vector of floats by its own power of two, without the end
            of the name (".ps.512": 512 bits of f32, "pd": of f64); "": there are none. They take the numbers, the
            powers as such numbers, what lanes have that a mask leaves out, the mask, and with 512 bits the mode of
            rounding (4: the processor's), as AVX-512's do.
        gathers: whether one instruction loads lanes that lie anywhere, in less time than loads of one after the other.
        masked_stores: whether a store under a mask, where there is one, takes no longer than stores of two pieces.
    """

    name: str
    features: str
    vector_bits: int
    registers: int
    architecture: Architecture
    matrix_units: tuple[str, ...] = ()
    masked_bits: int = 32
    fused: bool = True
    rounds: bool = True
    converts_f16: bool = True
    divides_integers: bool = False
    scaling: str = ""
    gathers: bool = True
    masked_stores: bool = True

    def lanes(self, bits: int) -> int:
        """Lanes of a full vector of elements with this many bits."""
        return max(1, self.vector_bits // bits)
