"""The machine that C is written for: a processor without vectors, of which nothing else is known. The C compiler is
told more where a program is to run in this process: its processor."""

from __future__ import annotations

from dataclasses import dataclass, field

from stablehlo_py.backends.cpu.target import (
    AVX512_BF16,
    GENERIC,
    ZEN4,
    CpuTarget,
    host_target,
    named_target,
    without_units,
)
from stablehlo_py.codegen.emitter import Emitter
from stablehlo_py.codegen.emitters.c import CEmitter
from stablehlo_py.codegen.target import Architecture

ANY = Architecture("c99", "", "e")  # low byte first; pointers as wide as they are


@dataclass(frozen=True)
class CTarget(CpuTarget):
    """What templates see.

    Attributes:
        processor: what the C compiler makes machine code for.
    """

    processor: CpuTarget = field(kw_only=True)

    @classmethod
    def of(cls, name: str | None, *, here: bool = False) -> CTarget:
        """For a processor of that name (`Options.cpu`), whose vectors loops over lanes are as long as. None: any, one
        lane at a time; or, if it is to run `here`, this one. Raises OptionError: there is none."""
        processor = without_units(named_target(name, host_target()))
        if processor is ZEN4:
            processor = AVX512_BF16  # GCC before 13 does not know the other's name
        if processor is GENERIC or (name is None and not here):
            return cls("c99", "", 1, 16, ANY, processor=processor)
        size, masked = (processor.vector_bits, processor.registers), processor.masked_bits
        return cls("c99", "", *size, ANY, processor=processor, masked_bits=masked)

    def emitter(self) -> Emitter:
        """What writes one function."""
        return CEmitter(self)

    @property
    def pair_intrinsics(self) -> dict[int, str]:
        """None."""
        return {}
