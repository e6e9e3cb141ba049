"""Fourier transforms: the plans of the CPU (fourier_axes.py), where a transform that fits in shared memory is that of
a block.

Stockham's autosort algorithm of mixed radix (Van Loan, "Computational Frameworks for the Fast Fourier Transform", 1.7):
a thread transforms as many numbers as the radix in registers. The first stage reads memory, the last one writes it, the
others go from one half of shared memory to the other, so there is a barrier between two stages. A block has several
transforms where they are short, and where they lie side by side: as many as its neighbouring threads read together.
Longer ones are two passes (four steps); chirps, real transforms and what fits nowhere are phases of the CPU's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels import fft
from stablehlo_py.backends.cpu.kernels.base import Phase
from stablehlo_py.backends.cpu.kernels.fourier import Array, interleaved, radices
from stablehlo_py.backends.cpu.kernels.fourier_axes import Transforms
from stablehlo_py.backends.cpu.kernels.fourier_stage import (
    FORWARD,
    Exchange,
    butterfly,
    multiply,
    roots,
    scaled,
    swapped,
)
from stablehlo_py.backends.gpu.kernels import serial
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, kernel_function
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.builder import Function, Index, Value, vector
from stablehlo_py.codegen.complex import Pair
from stablehlo_py.dialect.symint import IntLike

MOST_THREADS = 256
NUMBERS = 1024  # of a block, where transforms are shorter
SEGMENT = 64  # bytes of memory that neighbouring threads read together
REGISTERS = 32  # enough for radix 8


def emit(fusion: Fusion, target: GpuTarget) -> GpuKernel:
    """The kernels of `hlo.fft`."""
    plan = _Plan(fusion, target)
    fft.transform(plan)
    return serial.of_phases(plan.kernel(), fusion, target, plan.kernels)


class _Plan(Transforms):
    """Attributes:
    kernels: the phases that are kernels already.
    """

    primes = False

    def __init__(self, fusion: Fusion, target: GpuTarget) -> None:
        super().__init__(fusion, serial.Thread.of(target))
        self.gpu, self.kernels = target, dict[str, Function]()

    def chunk_of(self, rows: IntLike, count: IntLike) -> IntLike:
        """One element for each thread."""
        return 1

    def _fits(self, n: int) -> bool:
        """Whether two halves of shared memory hold a transform."""
        return 2 * n * self.of.bytes <= self.gpu.shared_bytes

    def _fitting(self, n: int, lanes: int) -> int:
        return lanes if self._fits(n) else 0  # 0: rows go through four steps where they can

    def _transform(
        self,
        suffix: str,
        source: Array,
        target: Array,
        n: int,
        outer: IntLike,
        width: IntLike,
        lanes: int,
        **options: Any,
    ) -> None:
        if not self._fits(n):
            super()._transform(suffix, source, target, n, outer, width, 1, **options)
            return
        block = _Block(self, suffix, source, target, n, int(outer), int(width), **options)
        f = block.emit()
        f.ret()
        self.kernels[f.name] = f
        self._parts.append((f, Phase(f.name)))


class _Block:
    """A kernel of transforms of one length, `outer` times `width` of them; what lies where: `LaneTransform`."""

    def __init__(
        self,
        plan: _Plan,
        suffix: str,
        source: Array,
        target: Array,
        n: int,
        outer: int,
        width: int,
        *,
        source_rows: bool = False,
        target_rows: bool = False,
        exchange: Exchange = FORWARD,
        scale: float = 1.0,
        twist: int = 0,
    ) -> None:
        self.plan, self.of, self.part = plan, plan.of, plan.part.compute
        self.source, self.target, self.n, self.outer, self.width = source, target, n, outer, width
        self.source_rows, self.target_rows = source_rows, target_rows
        self.exchange, self.scale, self.twist = exchange, scale, twist
        self.stages = radices(n, REGISTERS)
        self.columns = not (source_rows and target_rows)  # neighbouring threads: neighbouring transforms
        held = plan.gpu.shared_bytes // (2 * n * self.of.bytes)
        wanted = max(SEGMENT // self.of.bytes if self.columns else 1, NUMBERS // n)
        self.each = max(1, min(held, wanted, width))  # transforms of a block
        self.groups = -(-width // self.each)
        work = n // max(self.stages) * self.each
        subgroup = plan.gpu.subgroup
        self.threads = max(subgroup, min(MOST_THREADS, -(-work // subgroup) * subgroup))
        self.name = plan.name(suffix)
        self.tables = [
            plan.table(f"twiddle{number}", interleaved(roots(m * radix, np.outer(np.arange(m), np.arange(1, radix)))))
            if m > 1
            else None
            for number, (radix, m) in enumerate(self._sizes())
        ]
        self.low = 1 << (twist.bit_length() // 2)  # factors of the twist: one of few steps, one of the rest
        if twist:
            self.fine = plan.table("fine", interleaved(roots(twist, np.arange(self.low))))
            self.coarse = plan.table("coarse", interleaved(roots(twist, np.arange(0, twist, self.low))))

    def _sizes(self) -> list[tuple[int, int]]:
        """Radix and what is left of the length, stage by stage."""
        left, found = self.n, []
        for radix in self.stages:
            left //= radix
            found.append((radix, left))
        return found

    def emit(self) -> Function:
        """The kernel."""
        plan = self.plan
        f = kernel_function(plan.fusion, plan.gpu, self.name, self.outer * self.groups, self.threads)
        halves = min(2, len(self.stages) - 1)
        rooms = [[f.shared_memory(self.n * self.each, self.part) for _ in range(2)] for _ in range(halves)]
        outer, first = f.idiv(f.block_number(), self.groups), f.imul(f.irem(f.block_number(), self.groups), self.each)
        step = 1
        for stage, (radix, m) in enumerate(self._sizes()):
            if stage:
                f.barrier()
            self._stage(f, stage, radix, m, step, (outer, first), rooms)
            step *= radix
        return f

    def _stage(
        self,
        f: Function,
        stage: int,
        radix: int,
        m: int,
        step: int,
        place: tuple[Index, Index],
        rooms: list[list[Value]],
    ) -> None:
        """From element q + step (p + m k) to element q + step (radix p + k), for p < m, q < step, k < radix."""
        outer, start = place
        count, is_last = self.n // radix, stage == len(self.stages) - 1
        table = self.tables[stage]

        def one(number: Index) -> None:
            if self.columns:
                w, i = f.irem(number, self.each), f.idiv(number, self.each)
            else:
                w, i = f.idiv(number, count), f.irem(number, count)
            transform = f.iadd(start, w)

            def work() -> None:
                p, q = f.idiv(i, step), f.irem(i, step)

                def read(j: Index) -> Pair:
                    if stage:
                        return self._kept(f, rooms[(stage - 1) % len(rooms)], j, w)
                    at = self._at(f, self.source_rows, outer, transform, j)
                    return swapped(self._number(f, self._address(f, self.source), at), self.exchange.entering)

                y = butterfly(f, [read(f.iadd(i, count * k)) for k in range(radix)])
                if table is not None:
                    base = f.imul(p, radix - 1)
                    address = table(f)
                    y = [
                        y[0],
                        *(multiply(f, y[k], self._number(f, address, f.iadd(base, k - 1))) for k in range(1, radix)),
                    ]
                for k, value in enumerate(y):
                    j = f.iadd(q, f.imul(f.iadd(f.imul(p, radix), k), step))
                    if is_last:
                        at = self._at(f, self.target_rows, outer, transform, j)
                        value = self._finished(f, j, transform, value)
                        both = f.insert(f.insert(f.poison(vector(2, self.part)), value[0], 0), value[1], 1)
                        f.store(both, self._address(f, self.target), f.imul(at, 2), align=self.of.bytes)
                    else:
                        room = rooms[stage % len(rooms)]
                        for part, base in zip(value, room, strict=True):
                            f.store(part, base, self._kept_at(f, j, w))

            if self.width % self.each:
                f.if_(f.cmp("slt", f.index(transform), f.const(self.width)), work)
            else:
                work()

        f.loop(f.thread_number(), count * self.each, self.threads, one)

    def _at(self, f: Function, rows: bool, outer: Index, transform: Index, j: Index) -> Index:
        """Where element j of a transform lies in an array."""
        if rows:
            return f.iadd(f.imul(f.iadd(f.imul(outer, self.width), transform), self.n), j)
        return f.iadd(f.imul(f.iadd(f.imul(outer, self.n), j), self.width), transform)

    def _address(self, f: Function, array: Array) -> Value:
        base = f.scratch if array.pointer == "shared" else f.parameters[array.pointer]
        return f.gep(base, array.start, self.of.storage)

    def _kept_at(self, f: Function, j: Index, w: Index) -> Index:
        """Where element j of the block's transform w is in shared memory."""
        return f.iadd(f.imul(j, self.each), w) if self.columns else f.iadd(f.imul(w, self.n), j)

    def _kept(self, f: Function, room: list[Value], j: Index, w: Index) -> Pair:
        at = self._kept_at(f, j, w)
        return f.load(self.part, room[0], at), f.load(self.part, room[1], at)

    def _number(self, f: Function, base: Value, at: Index) -> Pair:
        """A complex number, by one access."""
        both = f.load(vector(2, self.part), base, f.imul(at, 2), align=self.of.bytes)
        return f.extract(both, 0), f.extract(both, 1)

    def _finished(self, f: Function, j: Index, transform: Index, value: Pair) -> Pair:
        """Multiplied by exp(-2 pi i j w / N) and the scale."""
        if self.twist:
            turns = f.imul(j, transform)
            value = multiply(f, value, self._number(f, self.coarse(f), f.idiv(turns, self.low)))
            value = multiply(f, value, self._number(f, self.fine(f), f.irem(turns, self.low)))
        return swapped(scaled(f, value, self.scale), self.exchange.leaving)
