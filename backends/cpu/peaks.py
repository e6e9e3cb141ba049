"""What this machine reaches at most: multiply-adds, by kernels that do nothing else, and copies of memory.

What is measured is what compiled programs could use: the instructions of the target that they are compiled for.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from stablehlo_py.backends.common.roofline import Rates
from stablehlo_py.backends.cpu.kernels.matrix_unit import ROW_BYTES, configure_tiles
from stablehlo_py.backends.cpu.kernels.vector_unit import VectorUnit, vector_unit
from stablehlo_py.backends.cpu.native import NativeCode
from stablehlo_py.backends.cpu.objects import Unit, compile_units
from stablehlo_py.backends.cpu.target import AMX_BF16, AMX_INT8, CpuTarget, baseline_target, host_target, named_target
from stablehlo_py.backends.cpu.weight_tiles import SIDE
from stablehlo_py.codegen.builder import F32, F64, I8, I16, I32, I64, PTR, Function, ScalarType, Type, Value, VectorType
from stablehlo_py.codegen.types import ELEMENTS

#: Bytes that a copy reads and writes: what lies in the caches of a core, in those that cores share, and in memory.
COPIES = (1 << 14, 1 << 18, 1 << 21, 1 << 24, 1 << 28)
_SECONDS = 0.01  # that a kernel runs about, and a copy
_ROUNDS = 5  # of which the best counts: what else runs here makes others slower
_GLANCE_SECONDS = 0.001  # that one thread takes to see whether it has a core
_SHARED = 1.3  # times as long as alone take threads that do not have one each: two of them take 2
_TURNS = 4_000  # of two threads that answer each other
_MOST_LOOKS = 200 * _TURNS  # of one of them, who gives up then: the other may have no core
_NEAR_SECONDS = 150e-9  # a turn and its answer, of cores that share a cache; 65 on Zen 4, where others take 330
_FAR = 2.0  # times as long as it took between the nearest
_PATIENCE = 3.0  # seconds that a host has, to begin with, to put its processors near each other
_CHAINS = 12  # sums at once: two a cycle, four cycles each, and some more


@dataclass(frozen=True)
class Peaks:
    """Of so many threads.

    Attributes:
        rates: operations a second, in 10^12; the bandwidth is that of the largest copies.
        copies: bytes a second, in 10^12, that copies of so many bytes (`COPIES`) read and write.
    """

    threads: int
    rates: Rates
    copies: Mapping[int, float]

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> Peaks:
        """From what `asdict` gave and JSON made of it."""
        copies = {int(size): rate for size, rate in described["copies"].items()}
        return cls(described["threads"], Rates(**described["rates"]), copies)

    def __str__(self) -> str:
        rates = {"f64": self.rates.f64, "f32": self.rates.f32, "bf16": self.rates.f16, "i8": self.rates.i8}
        operations = ", ".join(f"{1e3 * rate:.0f} {name}" for name, rate in rates.items())
        copies = ", ".join(f"{1e3 * rate:.0f} of {size_text(size)}" for size, rate in self.copies.items())
        return f"{self.threads} thread{'s' * (self.threads > 1)}: GFLOP/s {operations}; GB/s of copies {copies}"

    def best(self, other: Peaks | None) -> Peaks:
        """The higher of each with those of another measurement, which was disturbed at other moments."""
        if other is None:
            return self
        rates = {
            each.name: max(getattr(self.rates, each.name), getattr(other.rates, each.name)) for each in fields(Rates)
        }
        copies = {size: max(rate, other.copies.get(size, 0.0)) for size, rate in self.copies.items()}
        return Peaks(self.threads, Rates(**rates), copies)

    def at(self, size: int) -> Rates:
        """With the bandwidth of copies that touch as many bytes, between those that were measured."""
        return replace(self.rates, bandwidth=float(np.interp(np.log2(max(1, size)), *self._curve())))

    def _curve(self) -> tuple[list[float], list[float]]:
        return [float(np.log2(size)) for size in self.copies], list(self.copies.values())


def measure_peaks(threads: int, cpu: str | None = None) -> Peaks:
    """Those of as many threads with the instructions of a CPU (`Options.cpu`), in about half a second. The process
    should be pinned to as many CPUs, and they should have nothing else to do."""
    kernels = _kernels(named_target(cpu, host_target()))
    code = NativeCode([compile_units([Unit.of(*(function for function, _ in kernels.values()), _copies())])])
    rates = {}
    for name, (_, operations) in kernels.items():
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.address(name))
        rates[name] = operations * _rate(threads, partial(_on_memory, call))
    copy = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)(code.address("copies"))
    copies = {size: size * _rate(threads, partial(_between, copy, size // 2)) for size in COPIES}
    computed_as_f32 = dict.fromkeys(("f16", "i8"), rates["f32"])
    return Peaks(threads, Rates(bandwidth=copies[COPIES[-1]], **{**computed_as_f32, **rates}), copies)


class Cores:
    """Whether this machine gives so many threads a core each, near each other. Multiply-adds tell the first: where
    threads share a core, or something else runs, they take longer together than one of them alone. Turns tell the
    second: where cores share no cache, two threads that answer each other take five times as long, and programs whose
    threads read what others wrote up to twice. The host of a virtual machine may do either for seconds, and what has
    run before may still have threads that wait busily.

    Attributes:
        threads: how many.
    """

    def __init__(self, threads: int, cpu: str | None = None) -> None:
        self.threads = threads
        name = "f32"
        function, _ = _kernels(named_target(cpu, host_target()))[name]
        self._code = NativeCode([compile_units([Unit.of(function, _turns())])])
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(self._code.address(name))
        turns = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(self._code.address("turns"))
        self._works = [_on_memory(call) for _ in range(threads)]
        self._count = _count_for(self._works[0], _GLANCE_SECONDS)
        self._turn = np.zeros(64, np.int64)
        self._answering = [partial(turns, self._turn.ctypes.data, own) for own in range(min(2, threads))]
        self._least = self._turn_seconds()
        begin = time.perf_counter()
        while self._least > _NEAR_SECONDS and time.perf_counter() - begin < _PATIENCE:
            self._least = min(self._least, self._turn_seconds())

    def are_given(self) -> bool:
        """Whether they are, now: measured in a few milliseconds."""
        alone, together = (min(_together(self._works[:n], self._count) for _ in range(2)) for n in (1, self.threads))
        return together < _SHARED * alone and self._are_near()

    def _are_near(self) -> bool:
        taken = self._turn_seconds()
        self._least = min(self._least, taken)
        return taken < max(_NEAR_SECONDS, _FAR * self._least)

    def _turn_seconds(self) -> float:
        """What a turn and its answer take; of one thread, nothing."""

        def once() -> float:
            self._turn[:] = 0
            return _together(self._answering, _TURNS) / _TURNS

        return min(once() for _ in range(2)) if self.threads > 1 else 0.0


def size_text(size: int) -> str:
    """Bytes as KiB or MiB."""
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


# --- kernels ----------------------------------------------------------------------------------------------------------

Kernel: TypeAlias = "tuple[Function, int]"  # void NAME(ptr, n): do something n times; the operations of one time


def _kernels(target: CpuTarget) -> dict[str, Kernel]:
    """By the name of the rate: what does most operations of that type at once."""
    found = {name: _multiply_add(name, target, element) for name, element in (("f64", F64), ("f32", F32))}
    pairs = target.pair_intrinsics.get(target.lanes(32))
    if pairs:
        found["i8"] = _pairs(target, pairs)
    for name, of, accumulator in (("f16", ELEMENTS["bf16"], F32), ("i8", ELEMENTS["i8"], I32)):
        vectors = vector_unit(of, of, accumulator, target)
        if vectors:
            found[name] = _groups(name, vectors, accumulator)
    units = {"f16": (AMX_BF16, 2, "llvm.x86.tdpbf16ps"), "i8": (AMX_INT8, 4, "llvm.x86.tdpbssd")}
    for name, (unit, group, instruction) in units.items():
        if unit in target.matrix_units:
            found[name] = _tiles(name, target, group, instruction)
    return found


def _begin(name: str, target: CpuTarget) -> tuple[Function, Value, Value]:
    f = Function(name, [("memory", PTR), ("count", I64)], target.emitter(), result=None)
    return f, f.parameters["memory"], f.parameters["count"]


def _chains(f: Function, type_: Type, memory: Value, count: Value, step: Callable[[Value], Value]) -> None:
    """Let each of `_CHAINS` vectors become `step` of itself so often."""
    lanes = type_.lanes
    places = [number * lanes for number in range(_CHAINS)]
    start = [f.load(type_, memory, place) for place in places]
    for value, place in zip(f.loop(0, count, 1, lambda _, *each: list(map(step, each)), start), places, strict=True):
        f.store(value, memory, place)
    f.ret()


def _multiply_add(name: str, target: CpuTarget, element: ScalarType) -> Kernel:
    """Multiply-adds of vectors."""
    f, memory, count = _begin(name, target)
    lanes = target.lanes(element.bits)
    type_ = VectorType(lanes, element) if lanes > 1 else element
    first, second = f.load(type_, memory), f.load(type_, memory, lanes)

    def step(value: Value) -> Value:
        return f.fma(value, first, second) if target.fused else f.fadd(f.fmul(value, first), second)

    _chains(f, type_, memory, count, step)
    return f, 2 * lanes * _CHAINS


def _pairs(target: CpuTarget, intrinsic: str) -> Kernel:
    """Products of 16-bit integers, added in pairs to lanes of 32 bits."""
    f, memory, count = _begin("i8", target)
    lanes = target.lanes(32)
    wide, narrow = VectorType(lanes, I32), VectorType(2 * lanes, I16)
    factors = f.load(narrow, memory)

    def step(value: Value) -> Value:
        products = f.target_intrinsic(intrinsic, f.bitcast(value, narrow), factors, result=wide)
        return f.binary("add", value, products)

    _chains(f, wide, memory, count, step)
    return f, 4 * lanes * _CHAINS


def _groups(name: str, unit: VectorUnit, accumulator: ScalarType) -> Kernel:
    """Products of groups of narrow numbers, added to lanes of 32 bits."""
    f, memory, count = _begin(name, unit.target)
    factors = f.load(VectorType(unit.lanes, I32), memory)
    _chains(
        f, VectorType(unit.lanes, accumulator), memory, count, lambda value: unit.multiply(f, factors, factors, value)
    )
    return f, 2 * unit.group * unit.lanes * _CHAINS


def _tiles(name: str, target: CpuTarget, group: int, instruction: str) -> Kernel:
    """Products of tiles of AMX: 2 x 2 tiles of sums."""
    f, memory, count = _begin(name, target)
    configure_tiles(f)
    tiles = [f.const(number, I8) for number in range(8)]
    for tile in tiles:
        f.target_effect("llvm.x86.tileloadd64", tile, memory, f.const(ROW_BYTES))

    def turn(_: object) -> None:
        for number in range(4):
            f.target_effect(instruction, tiles[number], tiles[4 + number // 2], tiles[6 + number % 2])

    f.loop(0, count, 1, turn)
    f.target_effect("llvm.x86.tilestored64", tiles[0], memory, f.const(ROW_BYTES))
    f.target_effect("llvm.x86.tilerelease")
    f.ret()
    return f, 4 * 2 * SIDE**3 * group


def _turns() -> Function:
    """void turns(number, own, count): of two threads, one that makes the even numbers odd (`own` 0), and one that makes
    the odd ones even (1), so often."""
    f = Function("turns", [("number", PTR), ("own", I64), ("count", I64)], baseline_target().emitter(), result=None)

    def goes_on(done: Value, looks: Value) -> Value:
        return f.binary("and", f.cmp("slt", done, f.count), f.cmp("slt", looks, f.const(_MOST_LOOKS)))

    def look(done: Value, looks: Value) -> list[Value]:
        awaited = f.binary("add", f.binary("add", done, done), f.own)
        is_mine = f.cmp("eq", f.atomic_load(I64, f.number), awaited)
        f.if_(is_mine, lambda: f.atomic_store(f.binary("add", awaited, f.const(1)), f.number), f.pause)
        return [f.binary("add", done, f.cast("zext", is_mine, I64)), f.binary("add", looks, f.const(1))]

    f.while_([f.const(0), f.const(0)], goes_on, look)
    f.ret()
    return f


def _copies() -> Function:
    """void copies(to, source, size, count): copy so many bytes so often."""
    parameters = [("to", PTR), ("source", PTR), ("size", I64), ("count", I64)]
    f = Function("copies", parameters, baseline_target().emitter(), result=None)
    to, source, size, count = f.parameters.values()
    f.loop(0, count, 1, lambda _: f.copy_memory(to, source, size))
    f.ret()
    return f


def _on_memory(call: Callable[[int, int], None]) -> Callable[[int], None]:
    """What calls so often, on memory of its own."""
    memory = np.full(4096, 0.5)
    return lambda count: call(memory.ctypes.data, count)


def _between(call: Callable[[int, int, int, int], None], size: int) -> Callable[[int], None]:
    """What copies so many bytes so often."""
    source, target = np.ones(size, np.uint8), np.ones(size, np.uint8)
    return lambda count: call(target.ctypes.data, source.ctypes.data, size, count)


def _rate(threads: int, make: Callable[[], Callable[[int], None]]) -> float:
    """How many times a second all threads together do what a `make()` of each does so often, in 10^12."""
    works = [make() for _ in range(threads)]
    count = _count_for(works[0], _SECONDS)
    return threads * count / min(_together(works, count) for _ in range(_ROUNDS)) / 1e12


def _count_for(work: Callable[[int], None], least: float) -> int:
    """How often it does its work in about so many seconds."""
    count, seconds = 1, 0.0
    while seconds < least / 4:
        count *= 2
        seconds = _together([work], count)
    return max(1, int(count * least / seconds))


def _together(works: Sequence[Callable[[int], None]], count: int) -> float:
    """Seconds until all threads have done their work."""
    barrier = threading.Barrier(len(works))

    def run(work: Callable[[int], None]) -> None:
        barrier.wait()
        work(count)

    others = [threading.Thread(target=run, args=(work,)) for work in works[1:]]
    for thread in others:
        thread.start()
    barrier.wait()
    start = time.perf_counter()
    works[0](count)
    for thread in others:
        thread.join()
    return time.perf_counter() - start
