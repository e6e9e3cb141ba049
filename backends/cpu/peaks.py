"""What this machine reaches at most: multiply-adds, by kernels that do nothing else, and copies of memory.

What is measured is what compiled programs could use: the instructions of the target that they are compiled for.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from stablehlo_py.backends.common.roofline import Rates
from stablehlo_py.backends.cpu.native import NativeCode
from stablehlo_py.backends.cpu.objects import Unit, compile_units
from stablehlo_py.backends.cpu.target import CpuTarget, host_target, named_target
from stablehlo_py.codegen.builder import F32, F64, I64, PTR, Function, ScalarType, Value, VectorType

#: Bytes that a copy reads and writes: what lies in the caches of a core, in those that cores share, and in memory.
COPIES = (1 << 14, 1 << 18, 1 << 21, 1 << 24, 1 << 28)
_SECONDS = 0.01  # that a kernel runs about, and a copy
_ROUNDS = 5  # of which the best counts: what else runs here makes others slower
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

    def at(self, size: int) -> Rates:
        """With the bandwidth of copies that touch as many bytes, between those that were measured."""
        return replace(self.rates, bandwidth=float(np.interp(np.log2(max(1, size)), *self._curve())))

    def _curve(self) -> tuple[list[float], list[float]]:
        return [float(np.log2(size)) for size in self.copies], list(self.copies.values())


def measure_peaks(threads: int, cpu: str | None = None) -> Peaks:
    """Those of as many threads with the instructions of a CPU (`Options.cpu`), in about half a second. The process
    should be pinned to as many CPUs, and they should have nothing else to do."""
    target = named_target(cpu, host_target())
    kernels = {"f64": _multiply_add("f64", target, F64), "f32": _multiply_add("f32", target, F32)}
    functions = [*(function for function, _ in kernels.values()), _copies(target)]
    code = NativeCode([compile_units([Unit.of(*functions)])])
    rates = {}
    for name, (_, operations) in kernels.items():
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.address(name))
        rates[name] = operations * _rate(threads, partial(_on_memory, call))
    copy = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)(code.address("copies"))
    copies = {size: size * _rate(threads, partial(_between, copy, size // 2)) for size in COPIES}
    narrow = dict.fromkeys(("f16", "i8"), rates["f32"])  # computed as f32, or as integers of 32 bits
    return Peaks(threads, Rates(bandwidth=copies[COPIES[-1]], **{**narrow, **rates}), copies)


def size_text(size: int) -> str:
    """Bytes as KiB or MiB."""
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def _multiply_add(name: str, target: CpuTarget, element: ScalarType) -> tuple[Function, int]:
    """void NAME(ptr, n): n times `_CHAINS` multiply-adds of vectors; and the operations of one of these times."""
    f = Function(name, [("sums", PTR), ("count", I64)], target.emitter(), result=None)
    lanes = target.lanes(element.bits)
    type_ = VectorType(lanes, element) if lanes > 1 else element
    place, count = f.parameters["sums"], f.parameters["count"]
    first, second = f.load(type_, place), f.load(type_, place, lanes)

    def turn(_: object, *sums: Value) -> Sequence[Value]:
        return [f.fma(each, first, second) for each in sums]

    start = [f.load(type_, place, number * lanes) for number in range(_CHAINS)]
    for number, each in enumerate(f.loop(0, count, 1, turn, start)):
        f.store(each, place, number * lanes)
    f.ret()
    return f, 2 * lanes * _CHAINS


def _copies(target: CpuTarget) -> Function:
    """void copies(target, source, size, count): copy so many bytes so often."""
    f = Function("copies", [("to", PTR), ("source", PTR), ("size", I64), ("count", I64)], target.emitter(), result=None)
    f.loop(
        0, f.parameters["count"], 1, lambda _: f.copy_memory(*(f.parameters[name] for name in ("to", "source", "size")))
    )
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
    count, seconds = 1, 0.0
    while seconds < _SECONDS / 4:
        count *= 2
        seconds = _together(works[:1], count)
    count = max(1, int(count * _SECONDS / seconds))
    return threads * count / min(_together(works, count) for _ in range(_ROUNDS)) / 1e12


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
