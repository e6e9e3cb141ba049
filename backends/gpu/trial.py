"""Kernels by themselves on a device: their results, and the time that they take.

A trial is a program like any other, whose entry starts one kernel several times; so all of it is what programs for the
device are made of, and no Python runs between two starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np

from stablehlo_py.backends.common.fusion import fusions
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.backends.gpu.compile import generate, program_of
from stablehlo_py.backends.gpu.plans import KernelPlan, Plans, digest, name_of
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.dialect.calls import module_of_call
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir
from stablehlo_py.options import Options
from stablehlo_py.passmanager.pipeline import Pipeline
from stablehlo_py.runtime.buffer import Buffer
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.program import Spec

MOST_SPILLS = 512  # bytes of a thread's registers in memory: a kernel with more is not worth a run
# Results of two kernels differ by so many units in the last place of the largest at most, where operands are computed;
# whole numbers of them in such a part of the elements.
ROUNDINGS, MOST_ROUNDED = 64.0, 0.01


@dataclass(frozen=True)
class Machine:
    """What is compiled for: the name of a backend, a GPU and its host, and what else options ask for. `device` is what
    the driver calls the GPU that is there; `key`, all of this and what assembles, in words."""

    backend: str
    target: GpuTarget
    host: CpuTarget
    options: Options
    device: str
    key: str


class Bench:
    """What trials of one fusion's kernels share: its arguments, small random whole numbers, none of them 0. Sums of
    products of such are exact, so all right candidates give the same bits where operands are arguments."""

    def __init__(self, function: ir.OpView, machine: Machine) -> None:
        self.function, self.machine = function, machine
        self._arrays: list[np.ndarray] = []
        self._buffers: list[Buffer] = []

    def arguments(self, executable: Executable) -> list[Buffer]:
        """Those of the fusion, on the device."""
        if not self._arrays:
            generator = np.random.default_rng(0)
            self._arrays = [_random(generator, spec) for spec in executable.inputs]
        if not self._buffers:
            self._buffers = [executable.put(array, number) for number, array in enumerate(self._arrays)]
        return self._buffers

    def forget(self) -> None:
        """After a failure: what was on the device may be gone."""
        self._buffers = []


class Trial:
    """A kernel of a fusion, by its plan, on the device; a run starts it so many times.

    Raises:
        ShloError: it cannot be compiled or loaded, or it is not worth a run.
    """

    def __init__(self, bench: Bench, plan: str, repeats: int) -> None:
        self.plan = plan
        self._bench, self._repeats = bench, repeats
        machine = bench.machine
        module = module_of_call(bench.function, repeats)
        Pipeline.parse(f"buffer-assignment{{target={machine.backend}}}").run(module)
        target, (function,) = machine.target, fusions(module)
        wanted = KernelPlan(name_of(function), digest(function), plan)
        generated = generate(module, target, Plans(target.name, "", (wanted,)))
        spills = max((usage.spills for usage in generated.code().usage.values()), default=0)
        if spills > MOST_SPILLS:
            raise UnsupportedError(f"it spills {spills} bytes of a thread's registers")
        own = replace(machine.options, libraries=())  # it is the kernel that is timed
        program = program_of(module, generated, machine.backend, target, machine.host, own)
        self._executable = Executable(program, machine.options.device)

    def results(self) -> list[np.ndarray]:
        """What the kernel computes of the arguments. Raises ShloError: the device failed."""
        return [np.asarray(buffer) for buffer in self._executable.call(self._bench.arguments(self._executable))]

    def seconds(self, clock: Callable[[], float]) -> float:
        """The time of one start, among several. Raises ShloError: the device failed."""
        arguments = self._bench.arguments(self._executable)
        begin = clock()
        for buffer in self._executable.call(arguments):
            buffer.wait()
        return (clock() - begin) / self._repeats


def _random(generator: np.random.Generator, spec: Spec) -> np.ndarray:
    sizes = tuple(size or 0 for size in spec.shape)
    values = np.array([1, 0] if spec.dtype == bool else [1, 1] if "int" in spec.dtype.name else [-2, -1, 1, 2])
    return values.astype(spec.dtype)[generator.integers(0, len(values), sizes, np.uint8)]


def agree(results: list[np.ndarray], first: list[np.ndarray]) -> bool:
    """Whether two kernels of a fusion computed the same, but for rounding."""
    return all(map(_same, results, first))


def _same(result: np.ndarray, first: np.ndarray) -> bool:
    if result.tobytes() == first.tobytes():
        return True
    if result.dtype == bool or "int" in result.dtype.name:  # what rounding has brought over a threshold
        return float(np.mean(result != first)) <= MOST_ROUNDED
    kind = np.complex128 if result.dtype.kind == "c" else np.float64
    found, wanted = result.astype(kind), first.astype(kind)
    finite = np.isfinite(wanted)
    if not np.array_equal(found[~finite], wanted[~finite], equal_nan=True):
        return False
    bound = ROUNDINGS * float(ml_dtypes.finfo(result.dtype).eps) * np.max(np.abs(wanted[finite]), initial=0.0)
    return bool(np.all(np.abs(found[finite] - wanted[finite]) <= bound))
