"""Programs on an OpenCL device that find races between the threads of a launch (docs/gpu.md, "Finding races").

They are compiled as all others, with an emitter that checks every access of memory (codegen/emitters/race_check.py),
and a kernel before each launch that counts it. A call waits for its kernels, reads what they have found, and ends with
a `RaceError` where that is a race.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace

import numpy as np

from stablehlo_py.backends.base import Code
from stablehlo_py.backends.gpu.backend import OpenClBackend
from stablehlo_py.backends.gpu.code import GpuCode
from stablehlo_py.backends.gpu.compile import generate, program_of, require_one_process
from stablehlo_py.backends.gpu.driver.memory import GpuAllocation
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, Launch
from stablehlo_py.backends.gpu.opencl.calls import SVM_POINTERS
from stablehlo_py.backends.gpu.opencl.device import Built, OpenClDevice
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.emitters.gpu import GpuEmitter
from stablehlo_py.codegen.emitters.race_check import RaceCheckEmitter, RaceChecks
from stablehlo_py.codegen.emitters.race_helpers import (
    BARRIERS,
    BLOCKS,
    FINDINGS,
    KIND,
    LATER,
    MOST_PLACES,
    PROVIDE,
    PROVIDED,
    THREADS,
)
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import ir
from stablehlo_py.options import Options
from stablehlo_py.runtime.buffer import Event
from stablehlo_py.runtime.memory import address_of
from stablehlo_py.runtime.program import CompiledProgram, Spec

CHECKS = "races"  # among the stages of a program: what is checked in it, as JSON
_ALIGNED = 64  # where the shadows of arrays begin, in bytes of the arrays
_TOKENS = 16  # bytes beside each element of global memory
_OTHERS = {THREADS: "another one", BLOCKS: "one of another block", BARRIERS: "another one"}
_REMEDIES = {
    THREADS: "a barrier is missing in the template, between these places",
    BLOCKS: "blocks of a launch have no order: what one of them has of another is for the next launch",
    BARRIERS: "all threads of a block have to come to the same barriers, in the same order",
}


@dataclass(frozen=True)
class Race:
    """Two places of a kernel. Threads access one element there, one of them writes, and no barrier is between them
    (`kind` THREADS), or nothing could be, as they are of two blocks (BLOCKS); or not all threads come to the same
    barriers, but some here and some there (BARRIERS). `count`: how often that was seen."""

    kind: int
    kernel: str
    later: str
    earlier: str
    count: int

    def __str__(self) -> str:
        return f"{self.kernel}: a thread {self.later}, {_OTHERS[self.kind]} {self.earlier} ({self.count} times)"


class RaceError(InternalError):
    """A kernel has races.

    Attributes:
        races: which.
    """

    def __init__(self, races: Sequence[Race]) -> None:
        self.races = tuple(races)
        kinds = sorted({race.kind for race in races})
        super().__init__(
            "\n".join(["threads race", *map(str, self.races)]),
            remedy="; ".join(_REMEDIES[kind] for kind in kinds),
        )


@dataclass(frozen=True)
class CheckedTarget(GpuTarget):
    """A GPU whose kernels are checked.

    Attributes:
        checks: is told what is checked in them.
    """

    checks: RaceChecks = field(default_factory=RaceChecks, compare=False, repr=False)

    @classmethod
    def of(cls, target: GpuTarget, checks: RaceChecks) -> CheckedTarget:
        """Of a device of OpenCL."""
        return cls(**{each.name: getattr(target, each.name) for each in fields(target)}, checks=checks)

    @property
    def unchecked(self) -> GpuTarget:
        """The device without checks."""
        return GpuTarget(**{each.name: getattr(self, each.name) for each in fields(GpuTarget)})

    def emitter(self, threads: int = 0, blocks: int = 0) -> GpuEmitter:
        """As `GpuTarget.emitter`."""
        return RaceCheckEmitter(self, threads, blocks, self.checks)


class RaceCheckBackend(OpenClBackend):
    """Programs that find their own races.

    Args:
        unchecked: whose kernels are checked, None: those for OpenCL.
    """

    name = "opencl-races"

    def __init__(self, unchecked: GpuTarget | None = None) -> None:
        self.unchecked = unchecked

    def target(self, options: Options) -> CheckedTarget:
        """That of OpenCL, checked: another one for every program. Raises as `GpuBackend.target`."""
        return CheckedTarget.of(self.unchecked or super().target(options), RaceChecks())

    def compile(self, module: ir.Module, options: Options) -> CompiledProgram:
        """As `OpenClBackend.compile`."""
        target = self.target(options)
        plans = self.plans(module, replace(options, autotune=False))  # times of checked kernels say nothing
        generated = generate(module, target, plans, host=self.host(options))
        require_one_process(module, self.name)
        kernels = {name: _begun(kernel, target.checks) for name, kernel in generated.kernels.items()}
        generated = replace(generated, kernels=kernels)
        program = program_of(module, generated, self.name, target, self.host(options), options)
        program.stages = {**program.stages, CHECKS: json.dumps(asdict(target.checks), indent=1)}
        return program

    def load(self, program: CompiledProgram, device: int = 0) -> Code:
        """The program, on a device. Raises as `GpuBackend.load`."""
        return RaceCheckCode(program, self.opened().get(device))


def _begun(kernel: GpuKernel, checks: RaceChecks) -> GpuKernel:
    """With what comes before each launch."""
    launches = list[Launch]()
    for launch in kernel.launches:
        if launch.symbol in checks.begins:
            launches.append(Launch(checks.begins[launch.symbol], 1, 1))
        launches.append(launch)
    return replace(kernel, launches=tuple(launches))


class RaceCheckCode(GpuCode):
    """A program that finds its own races, on a device of OpenCL."""

    _device: OpenClDevice
    _built: Built | None

    def __init__(self, program: CompiledProgram, on: OpenClDevice) -> None:
        super().__init__(program, on)
        self._sizes = [_bytes(spec) for spec in (*program.inputs, *program.outputs)]
        self._arena_bytes = program.arena_bytes
        checks = checks_of(program)
        self._detector = None
        if self._built is not None and checks.begins:
            self._detector = Detector(
                on, self._built, checks, len(self._sizes) + 1, sum(self._sizes) + self._arena_bytes
            )

    def _build(self, binary: bytes) -> Built:
        # It is called once or twice: what the driver's optimizer gains, it does not win back in the time that it takes.
        return self._device.build(binary, optimized=False)

    def leave_out(self, barrier: int | None) -> None:
        """Find what would race without one of the program's barriers, by its number in `RaceChecks`. It is still there,
        but for the checks it orders nothing; None: each does. Raises ResourceError."""
        assert self._detector is not None
        self._detector.provide(0 if barrier is None else barrier + 1)

    def run(self, inputs: Sequence[int], outputs: Sequence[int]) -> Event | None:
        """One call. Raises RaceError."""
        detector = self._detector
        if detector is None:
            return super().run(inputs, outputs)
        self._queue.library.require()
        with self._queue.lock:
            arrays = zip((*inputs, *outputs), self._sizes, strict=True)
            detector.watch([*arrays, (self._arena.address, self._arena_bytes)])
            event = super().run(inputs, outputs)
            found = detector.found()
        if found:
            raise RaceError(found)
        return event


def _bytes(spec: Spec) -> int:
    size = spec.dtype.itemsize
    for each in spec.shape:
        assert each is not None  # kernels are for one shape
        size *= each
    return size


def checks_of(program: CompiledProgram) -> RaceChecks:
    """What is checked in a program."""
    text = program.stages[CHECKS]
    assert isinstance(text, str)
    return RaceChecks(**json.loads(text))


class Detector:
    """What a program's kernels share with the host (codegen/emitters/race_helpers.py).

    Args:
        arrays: how many there are at most. size: their bytes.
    """

    def __init__(self, on: OpenClDevice, built: Built, checks: RaceChecks, arrays: int, size: int) -> None:
        self._memory, self._checks = on.memory, checks
        self._length = 1 << arrays.bit_length()  # one more at least: the first is none
        # Arrays begin at multiples of what is accessed as a whole.
        elements = (size + _ALIGNED * arrays) // (checks.granule or _ALIGNED) + 1
        self._shadow = _written(on, np.zeros(elements * _TOKENS, np.uint8))
        self._table = on.memory.allocate(3 * 8 * self._length)
        self._found = _written(on, np.zeros((FINDINGS, 2), np.uint32))
        shadow = (self._shadow.address, elements * _TOKENS // 8)
        self._words = [self._table.address, self._length, *shadow, self._found.address]
        self._on, self._provide = on, built.kernel(PROVIDE)
        library = on.queue.library
        # What kernels reach without that it is among their arguments.
        reached = np.array([self._table.address, self._shadow.address, self._found.address], np.uintp)
        for name in (*checks.begins, *set(checks.begins.values())):
            library.call("clSetKernelExecInfo", built.kernel(name), SVM_POINTERS, reached.nbytes, address_of(reached))
        self.provide()

    def provide(self, left_out: int = 0) -> None:
        """What kernels read of it. `left_out`: which barrier orders nothing, from 1 on. Raises ResourceError."""
        words = [*self._words, left_out]
        assert len(words) == PROVIDED
        queue, provided, one = self._on.queue, _written(self._on, np.array(words)), np.ones(1, np.uintp)
        with queue.lock:
            queue.library.call("clSetKernelArgSVMPointer", self._provide, 0, provided.address)
            size = address_of(one)
            queue.call("clEnqueueNDRangeKernel", self._provide, 1, None, size, size, 0, None, None)
            queue.finish()

    def watch(self, arrays: Iterable[tuple[int, int]]) -> None:
        """Check what lies at these addresses, in so many bytes, from now on. Raises ResourceError."""
        table = np.full((3, self._length), np.iinfo(np.uint64).max, np.uint64)
        table[:, 0] = offset = 0
        for number, (begin, end) in enumerate(_merged(arrays), 1):
            table[:, number] = begin, end, offset
            offset += -(-(end - begin) // _ALIGNED) * _ALIGNED
        self._memory.write(table, self._table)

    def found(self) -> list[Race]:
        """The races since this was asked the last time. Raises ResourceError."""
        table = np.zeros((FINDINGS, 2), np.uint32)
        self._memory.read(self._found, table)
        rows = table[table[:, 0] != 0].tolist()
        if rows:
            self._memory.write(np.zeros_like(table), self._found)
        return sorted((self._race(*row) for row in rows), key=str)

    def _race(self, finding: int, count: int) -> Race:
        later, earlier = (self._checks.places[number % MOST_PLACES] for number in (finding >> LATER, finding))
        return Race(finding >> KIND, later[0], later[1], earlier[1], count)


def _merged(arrays: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Beginnings and ends of arrays in ascending order, those that overlap as one."""
    last = (0, 0)
    for begin, size in sorted(each for each in arrays if each[1]):
        if begin < last[1]:
            last = last[0], max(last[1], begin + size)
            continue
        if last[1]:
            yield last
        last = begin, begin + size
    if last[1]:
        yield last


def _written(on: OpenClDevice, array: np.ndarray) -> GpuAllocation:
    """An array on a device."""
    block = on.memory.allocate(array.nbytes)
    on.memory.write(array, block)
    return block
