"""What work costs on a CPU: the one place that threads, recomputation and staging are decided by.

Passes ask in flops (`passes/policy.py`); kernels ask in nanoseconds, for one vector of results (16 floats), on one core
of an AVX-512 machine. What decides about their code (`vector_ns`) is the same for all machines, because the order of
sums follows from it; what decides about threads (`phase_ns`) is what the target takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.ops import record_of
from stablehlo_py.dialect.symint import always_at_most, size_hint
from stablehlo_py.dialect.types import i64s, shape, tensor_bytes
from stablehlo_py.mlir import ir
from stablehlo_py.passes.policy import Costs, flops_per_element

# Nanoseconds of ops that take another time than their flops say (f32, in a loop on data in the nearest cache).
_MEASURED_NS = {
    "hlo.divide": 4.0,
    "hlo.erf_inv": 22.0,
    "hlo.lgamma": 65.0,
    "hlo.digamma": 70.0,
    "hlo.power": 17.0,
    "hlo.rsqrt": 3.0,
    "hlo.sqrt": 3.5,
}


def _is_random(name: str) -> bool:
    record = record_of(name)
    return record is not None and record.random_access


def _reads_windows(value: ir.Value) -> bool:
    """Whether half a vector of elements that a gather reads lies side by side, or more."""
    sizes = shape(value)
    inner = len(sizes) - 1
    return (
        value.owner.name == "hlo.gather"
        and inner in i64s(value.owner, "offset_dims")
        and always_at_most(8, sizes[inner])
    )


@dataclass(frozen=True)
class CpuCosts(Costs):
    """What kernels ask besides.

    A thread is given at least a grain of work: nanoseconds of estimated work in one range of iterations.

    Attributes:
        flop_ns: a vector of an op, for each of its flops, unless what it takes was measured.
        memory_ns: a load or a store. near_share: of it, a load of what was just read.
        random_ns: what a load of as many elements that lie anywhere takes besides.
        far_bytes, far_times: of arrays that large, reads of elements or of windows that lie anywhere take so many times
            as long: no cache of a core holds them, and each lies in another page.
        combine_ns: to combine the lanes of a vector.
        lone_ns: an elementary function of one number, which has no use for lanes.
        pack_ns: to copy an element of an operand to a panel.
        kept_ns: until a value that was stored can be loaded.
        stage_ns: from here on a value that is read in several passes over a row is kept in the cache, not computed
            again.
        bound_ns: below this, memory and latency decide what a reduction takes, and several accumulators pay.
        grain_ns: what a thread is given at least. To hand a phase to a thread that is awake takes 1,000.
        wake_ns: what the phases that ask for threads must take together, where none of them is in a loop: the first
            may have to wake them, which takes 2,000 to 5,000. asleep_ns: the same where loops do not ask for them, so
            that they sleep.
        short_trip_ns, mixed_share: in trips of a loop whose phases that ask for threads take less than that, each
            thread has the same part of all phases: data that goes from core to core in each trip takes longer than is
            won. Where there are no such parts, and these phases take less than so many times what the others take, they
            ask for none.
        instruction_ns: an instruction of straight-line code.
        called_ns: of kernels that take as long nobody notices how good the code is that calls them, in a loop either.
        light_ns: programs that take less are light.
        quick_ns: a light program that takes less is compiled without optimization. A call of it takes 30 times as long.
    """

    flop_ns: float = 0.3
    memory_ns: float = 0.5
    near_share: float = 0.25
    random_ns: float = 4.0
    far_bytes: int = 1 << 21
    far_times: float = 20.0
    combine_ns: float = 1.0
    lone_ns: float = 20.0
    pack_ns: float = 0.3
    kept_ns: float = 8.0
    stage_ns: float = 2.5
    bound_ns: float = 2.0
    grain_ns: float = 4_000.0
    wake_ns: float = 20_000.0
    asleep_ns: float = 100_000.0
    short_trip_ns: float = 50_000.0
    mixed_share: float = 6.0
    instruction_ns: float = 0.25
    called_ns: float = 3_000.0
    light_ns: float = 12_000.0
    quick_ns: float = 100.0

    def op_ns(self, name: str) -> float:
        """Nanoseconds for one vector of an op, by its name."""
        return self._computed_ns(name) + (self.random_ns if _is_random(name) else 0.0)

    def _computed_ns(self, name: str) -> float:
        return _MEASURED_NS.get(name) or self.flop_ns * flops_per_element(record_of(name))

    def vector_ns(self, values: Iterable[ir.Value], loads: int, stores: int) -> float:
        """Nanoseconds for one vector of results computed from these values."""
        ops = (self.op_ns(value.owner.name) for value in values)
        return sum(ops, self.memory_ns * (loads + stores))

    def phase_ns(self, target: CpuTarget, values: Iterable[ir.Value], loads: float, stores: int) -> float:
        """The same on a target: what a phase takes, by which no result's bits are chosen."""
        return sum((self._taken_ns(target, value) for value in values), self.memory_ns * (loads + stores))

    def _taken_ns(self, target: CpuTarget, value: ir.Value) -> float:
        name, of = value.owner.name, element(value)
        taken = target.op_ns.get(name) if of.is_float else None
        if taken:
            return taken[of.storage.bits > 32]
        return self._computed_ns(name) * target.flop_share + (self._reads_ns(value) if _is_random(name) else 0.0)

    def _reads_ns(self, gather: ir.Value) -> float:
        near = self.memory_ns if _reads_windows(gather) else self.random_ns
        is_far = size_hint(tensor_bytes(gather.owner.operands[0])) >= self.far_bytes
        return near * self.far_times if is_far else near

    def grain(self, iteration_ns: float, work_ns: float | None = None) -> int:
        """The smallest range of iterations that holds so much work; None: a grain of it."""
        work = self.grain_ns if work_ns is None else work_ns
        return max(1, math.ceil(work / max(iteration_ns, 0.01)))


COSTS = CpuCosts(
    expensive_flops=6,
    duplicate_flops=4,  # a load and a store take as long
    constant_subtree_flops=4,
    repeated_flops=1,
    gather_saves=4,
    early_bytes=1 << 20,
    parallel_rows=8,
    serial_elements=1 << 16,  # more, and several threads are faster than staying in the cache
    shared_reduction=1 << 14,
)
