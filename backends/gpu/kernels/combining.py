"""Accumulators of many threads, kept in memory and combined in an order that depends on shapes alone."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.backends.common.reduction import Reduction, combined
from stablehlo_py.codegen.builder import I8, Function, Index, ScalarType, Value
from stablehlo_py.codegen.types import Element, Lanes, load, parts, store


def _stored(of: Element) -> ScalarType:
    """How a register of an element type is kept, whose values memory may round: wide floats as they are."""
    return of.compute if of.compute.bits >= 8 else of.storage


class Accumulators:
    """Arrays of accumulators of one reduction at some addresses, one for each part of a complex number."""

    def __init__(self, f: Function, of: Element, bases: Sequence[Value]) -> None:
        self.f, self.of, self.bases = f, of, bases

    @classmethod
    def shared(cls, f: Function, of: Element, count: int) -> Accumulators:
        """In the shared memory of a block."""
        return cls(f, of, [f.shared_memory(count, _stored(of)) for _ in range(2 if of.is_complex else 1)])

    @classmethod
    def scratch(cls, f: Function, of: Element, count: int, offset: int) -> Accumulators:
        """In scratch memory, from an offset on."""
        size = accumulator_bytes(of, count) // (2 if of.is_complex else 1)
        return cls(f, of, [f.gep(f.scratch, offset + part * size, I8) for part in range(2 if of.is_complex else 1)])

    def store(self, at: Index, value: Lanes) -> None:
        """Keep one."""
        for base, part in zip(self.bases, parts(value), strict=True):
            if part.type.bits < 8:
                store(self.f, self.of, part, base, at)
            else:
                self.f.store(part, base, at)

    def load(self, at: Index) -> Lanes:
        """Read one."""
        if self.of.compute.bits < 8:
            return load(self.f, self.of, self.bases[0], at)
        loaded = [self.f.load(self.of.compute, base, at) for base in self.bases]
        return (loaded[0], loaded[1]) if self.of.is_complex else loaded[0]


def accumulator_bytes(of: Element, count: int) -> int:
    """Scratch memory of so many accumulators."""
    return -(-count * _stored(of).bits // 8 // 64) * 64 * (2 if of.is_complex else 1)


def block_combined(
    f: Function, items: Sequence[Reduction], totals: Sequence[Lanes], threads: int, width: int = 1
) -> list[Lanes]:
    """The accumulators of the threads of a block whose numbers are equal modulo `width`, combined in a tree: each of
    those threads has the result. Both numbers are powers of two."""
    thread = f.thread_number()
    kept = [Accumulators.shared(f, item.of, threads) for item in items]
    for place, total in zip(kept, totals, strict=True):
        place.store(thread, total)
    distance = threads // 2
    while distance >= width:
        f.barrier()

        def join(distance: int = distance) -> None:
            a, b = ([place.load(at) for place in kept] for at in (thread, f.iadd(thread, distance)))
            for place, total in zip(kept, combined(f, items, a, b), strict=True):
                place.store(thread, total)

        f.if_(f.cmp("slt", thread, f.const(distance)), join)
        distance //= 2
    f.barrier()
    return [place.load(f.irem(thread, width)) for place in kept]
