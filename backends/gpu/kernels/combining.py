"""Accumulators of many threads, kept in memory and combined in an order that depends on shapes alone."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.backends.common.loops import tree
from stablehlo_py.backends.common.reduction import Reduction, combined
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.builder import F32, I8, I32, I64, Function, Index, ScalarType, Value
from stablehlo_py.codegen.types import Element, Lanes, each, load, parts, store

FEW_READS = 8  # of shared memory, which a thread makes rather than exchange once more


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
    f: Function,
    target: GpuTarget,
    items: Sequence[Reduction],
    totals: Sequence[Lanes],
    threads: int,
    width: int = 1,
    group: int = 0,
) -> list[Lanes]:
    """The accumulators of the threads of a block whose numbers are equal modulo `width`, and divided by `group` (0: all
    threads of a block are one), combined: each of those threads has the result. All numbers are powers of two.

    Threads of a subgroup exchange them, subgroups leave theirs in shared memory, behind one barrier. Where threads
    cannot exchange, they are combined in a tree in shared memory."""
    group = group or threads
    if not target.exchanges:
        return _tree(f, items, totals, threads, width, group)
    exchanged = _exchanging(f, items, totals, width, min(group, target.subgroup))
    joined = max(width, target.subgroup)
    if joined >= group:
        return exchanged
    # One of the threads that have the same result writes it.
    thread, count = f.thread_number(), group // joined
    kept = [Accumulators.shared(f, item.of, threads // joined * width) for item in items]
    slot = f.iadd(f.imul(f.idiv(thread, joined), width), f.irem(thread, width))

    def keep() -> None:
        for place, total in zip(kept, exchanged, strict=True):
            place.store(slot, total)

    if joined > width:
        f.if_(f.cmp("slt", f.index(f.irem(thread, joined)), f.const(width)), keep)
    else:
        keep()
    f.barrier()
    first = f.imul(f.idiv(thread, group), count)
    if width == 1 and count > FEW_READS:
        own = f.iadd(first, f.irem(thread, count))
        return _exchanging(f, items, [place.load(own) for place in kept], 1, count)
    parts = [
        [place.load(f.iadd(f.imul(f.iadd(first, number), width), f.irem(thread, width))) for place in kept]
        for number in range(count)
    ]
    return tree(parts, lambda a, b: combined(f, items, a, b))


def _exchanging(f: Function, items: Sequence[Reduction], totals: Sequence[Lanes], low: int, high: int) -> list[Lanes]:
    """The accumulators of threads of a subgroup, whose numbers differ in the bits from that of `low` to below that of
    `high`, combined: each of them has the result."""
    while low < high:
        others = [each(lambda part, low=low: _shuffled(f, part, low), total) for total in totals]
        totals = combined(f, items, totals, others)
        low *= 2
    return list(totals)


def _shuffled(f: Function, a: Value, mask: int) -> Value:
    """The scalar of the thread whose number is this one's xor `mask`, of any type: machines exchange 32 bits."""
    by = f.const(mask, I32)
    if a.type in (F32, I32):
        return f.subgroup_shuffle(a, by)
    bits = f.bitcast(a, ScalarType(f"i{a.type.bits}", a.type.bits)) if a.type.is_float else a
    if bits.type.bits < 32:
        found = f.cast("trunc", f.subgroup_shuffle(f.cast("zext", bits, I32), by), bits.type.element)
    else:
        half = f.const(32)
        low, high = (f.cast("trunc", part, I32) for part in (bits, f.binary("lshr", bits, half)))
        low, high = (f.cast("zext", f.subgroup_shuffle(part, by), I64) for part in (low, high))
        found = f.binary("or", low, f.binary("shl", high, half))
    return f.bitcast(found, a.type)


def _tree(
    f: Function, items: Sequence[Reduction], totals: Sequence[Lanes], threads: int, width: int, group: int
) -> list[Lanes]:
    """As `block_combined`, in shared memory alone."""
    if group == width:
        return list(totals)
    thread = f.thread_number()
    kept = [Accumulators.shared(f, item.of, threads) for item in items]
    for place, total in zip(kept, totals, strict=True):
        place.store(thread, total)
    distance = group // 2
    while distance >= width:
        f.barrier()

        def join(distance: int = distance) -> None:
            a, b = ([place.load(at) for place in kept] for at in (thread, f.iadd(thread, distance)))
            for place, total in zip(kept, combined(f, items, a, b), strict=True):
                place.store(thread, total)

        f.if_(f.cmp("slt", f.index(f.irem(thread, group)), f.const(distance)), join)
        distance //= 2
    f.barrier()
    first = f.imul(f.idiv(thread, group), group)
    return [place.load(f.iadd(first, f.irem(thread, width))) for place in kept]
