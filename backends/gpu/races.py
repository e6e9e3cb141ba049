"""Programs on an OpenCL device that find races between the threads of a block (docs/gpu.md, "Finding races").

They are compiled as all others, with an emitter that checks every access of shared memory (codegen/emitters/
race_check.py). A call waits for its kernels, reads their counters, and ends with a `RaceError` where one has found a
race.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields

import numpy as np

from stablehlo_py.backends.base import Code
from stablehlo_py.backends.gpu.backend import OpenClBackend
from stablehlo_py.backends.gpu.code import GpuCode
from stablehlo_py.backends.gpu.compile import compile_module
from stablehlo_py.backends.gpu.opencl.device import Built, OpenClDevice
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.emitters.gpu import GpuEmitter
from stablehlo_py.codegen.emitters.race_check import MOST_SITES, READER, RaceCheckEmitter, RaceChecks
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import ir
from stablehlo_py.options import Options
from stablehlo_py.runtime.buffer import Event
from stablehlo_py.runtime.program import CompiledProgram

CHECKS = "races"  # among the stages of a program: what is checked in it, as JSON


@dataclass(frozen=True)
class Race:
    """Two places of a kernel where threads access one element, one of them writes, and no barrier is between them;
    `count`: how often that was seen."""

    kernel: str
    later: str
    earlier: str
    count: int

    def __str__(self) -> str:
        return f"{self.kernel}: a thread {self.later}, another one {self.earlier} ({self.count} times)"


class RaceError(InternalError):
    """A kernel has races.

    Attributes:
        races: which.
    """

    def __init__(self, races: Sequence[Race]) -> None:
        self.races = tuple(races)
        super().__init__(
            "\n".join(["threads of a block race", *map(str, self.races)]),
            remedy="a barrier is missing in the template, between these places",
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

    def emitter(self, threads: int = 0, blocks: int = 0) -> GpuEmitter:
        """As `GpuTarget.emitter`."""
        return RaceCheckEmitter(self, threads, blocks, self.checks)


class RaceCheckBackend(OpenClBackend):
    """Programs that find their own races.

    Args:
        without: the number of a barrier, among those of the whole program, that is left out.
        unchecked: whose kernels are checked, None: those for OpenCL.
    """

    name = "opencl-races"

    def __init__(self, without: int | None = None, unchecked: GpuTarget | None = None) -> None:
        self.without, self.unchecked = without, unchecked

    def target(self, options: Options) -> CheckedTarget:
        """That of OpenCL, checked: another one for every program. Raises as `GpuBackend.target`."""
        return CheckedTarget.of(self.unchecked or super().target(options), RaceChecks(self.without))

    def compile(self, module: ir.Module, options: Options) -> CompiledProgram:
        """As `OpenClBackend.compile`."""
        target = self.target(options)
        program = compile_module(module, self.name, target, self.host(options), options)
        program.stages[CHECKS] = json.dumps(asdict(target.checks), indent=1)
        return program

    def load(self, program: CompiledProgram, device: int = 0) -> Code:
        """The program, on a device. Raises as `GpuBackend.load`."""
        return RaceCheckCode(program, self.opened().get(device))


class RaceCheckCode(GpuCode):
    """A program that finds its own races, on a device of OpenCL."""

    _device: OpenClDevice
    _built: Built | None

    def __init__(self, program: CompiledProgram, on: OpenClDevice) -> None:
        super().__init__(program, on)
        self._checks = checks_of(program)

    def _build(self, binary: bytes) -> Built:
        # It is called once or twice: what the driver's optimizer gains, it does not win back in the time that it takes.
        return self._device.build(binary, optimized=False)

    def run(self, inputs: Sequence[int], outputs: Sequence[int]) -> Event | None:
        """One call. Raises RaceError."""
        event = super().run(inputs, outputs)
        if self._built is not None:
            with self._queue.lock:
                found = races(self._device, self._built, self._checks.sites)
            if found:
                raise RaceError(found)
        return event


def checks_of(program: CompiledProgram) -> RaceChecks:
    """What is checked in a program."""
    text = program.stages[CHECKS]
    assert isinstance(text, str)
    return RaceChecks(**json.loads(text))


def races(on: OpenClDevice, built: Built, sites: Mapping[str, Sequence[str]]) -> list[Race]:
    """The races since this was asked the last time, in kernels whose places are `sites`."""
    found = []
    counts = np.zeros((MOST_SITES, MOST_SITES), np.int32)
    block, one = on.memory.allocate(counts.nbytes), np.ones(1, np.uintp)
    for kernel, places in sites.items():
        reader = built.kernel(READER.format(kernel))
        on.queue.library.call("clSetKernelArgSVMPointer", reader, 0, block.address)
        on.queue.call("clEnqueueNDRangeKernel", reader, 1, None, one.ctypes.data, one.ctypes.data, 0, None, None)
        on.memory.read(block, counts)
        pairs = np.argwhere(counts).tolist()
        found += [Race(kernel, places[later], places[earlier], int(counts[later, earlier])) for later, earlier in pairs]
    return found
