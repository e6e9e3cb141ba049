"""The backend: what stablehlo-py asks of a machine, by the entry point `newname` in pyproject.toml."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from stablehlo_py.backends.base import Backend, Code, require_only_device
from stablehlo_py.backends.common.description import describe, everywhere
from stablehlo_py.backends.common.fusion import Fusion, fusions
from stablehlo_py.dialect.attributes import ARENA_BYTES
from stablehlo_py.dialect.context import make_context
from stablehlo_py.dialect.memory import ARENA, CONSTANT, INPUT, OUTPUT
from stablehlo_py.errors import Problem, UnsupportedError
from stablehlo_py.mlir import bytecode, ir
from stablehlo_py.options import Options
from stablehlo_py.runtime.program import CompiledProgram

from .device import DEVICE, Block, Device, Event
from .host import Host
from .kernels import FusionKernel, problem

VERSION = "1"  # of the code that is generated: another one makes cached programs stale


class NewnameBackend(Backend):
    """Newname. Its pipeline and its policy are the usual ones: elementwise ops are fused, everything else is a kernel
    of its own op. Its machine code is the scheduled module."""

    name = "newname"
    platform = "cpu"  # models that jax.export made for the CPU
    stages: Mapping[str, str] = {}

    def describe(self, options: Options) -> str:
        """What code is generated for, for the key of the cache."""
        return VERSION

    def lower(self, module: ir.Module, stop: str, options: Options) -> str:
        """There are no stages of text."""
        raise AssertionError(stop)

    def compile(self, module: ir.Module, options: Options) -> CompiledProgram:
        """A program, if the device has all kernels; an error that names every op that it lacks, with its line."""
        program = describe(module, self.name, self.name, options)
        if any(None in spec.shape for spec in (*program.inputs, *program.outputs)):
            # The runtime then compiles the model for the shapes of each call.
            raise UnsupportedError("newname makes no programs for dynamic dimensions")
        failures: dict[str, list[Problem]] = {}
        for function in fusions(module):
            fusion = Fusion.read(function)
            if found := [each for op in fusion.ops if (each := problem(op))]:
                failures[fusion.name] = found
        if failures:
            raise UnsupportedError("newname cannot run this model", problems=everywhere(module, failures))
        if program.grid is not None:
            raise UnsupportedError("newname runs one process, and no grid", remedy="compile for one device")
        program.arena_bytes = module.operation.attributes[ARENA_BYTES].value
        program.objects = [bytecode(module)]
        program.report = f"kernels: {len(fusions(module))}"
        return program

    def memory(self, device: int = 0) -> Device:
        """Where inputs and results are. Raises ArgumentError: there is no such device."""
        require_only_device(self.name, device)
        return DEVICE

    def load(self, program: CompiledProgram, device: int = 0) -> NewnameCode:
        """The program on the device. Raises ArgumentError, ResourceError."""
        require_only_device(self.name, device)
        return NewnameCode(program)

    def listings(self, program: CompiledProgram) -> Mapping[str, Callable[[], str]]:
        """There are none."""
        return {}

    def custom_calls(self) -> frozenset[str]:
        """None."""
        return frozenset()


class NewnameCode(Code):
    """A program on the device: its kernels are made once, its constants are there."""

    memory = DEVICE

    def __init__(self, program: CompiledProgram) -> None:
        self.arena_bytes = program.arena_bytes
        with make_context():
            self.module = ir.Module.parse(program.objects[0])
        fused = map(Fusion.read, fusions(self.module))
        self.kernels = {fusion.name: FusionKernel(fusion) for fusion in fused}
        self.constants = [self._on_device(array) for array in program.constants]

    @staticmethod
    def _on_device(array: np.ndarray) -> Block:
        made = DEVICE.allocate(array.nbytes)
        DEVICE.write(array, made)
        return made

    def run(self, inputs: Sequence[int], outputs: Sequence[int]) -> Event:
        """One call: returns when the queue has been asked for everything. Raises ResourceError."""
        arena = DEVICE.allocate(self.arena_bytes)  # freed behind the last kernel
        constants = [made.address for made in self.constants]
        spaces = {ARENA: [arena.address], INPUT: inputs, OUTPUT: outputs, CONSTANT: constants}
        addresses = {(space, number): each for space, all_ in spaces.items() for number, each in enumerate(all_)}
        host = Host(self.module, self.kernels, addresses)
        host.run()
        return Event(host.launched)
