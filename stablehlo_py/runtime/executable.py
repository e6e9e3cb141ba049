"""A program loaded into this process and called from Python."""

from __future__ import annotations

import ctypes
import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from stablehlo_py.errors import ArgumentError, LoadError
from stablehlo_py.runtime import program as programs
from stablehlo_py.runtime.arguments import Handle, aligned_copy, convert
from stablehlo_py.runtime.callbacks import failure_of
from stablehlo_py.runtime.memory import RESULTS, Block, require
from stablehlo_py.runtime.program import CompiledProgram, MemoryPlan, PlanEntry, Spec
from stablehlo_py.runtime.stages import Stages

_ENTRY = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)


class Frame:
    """What one call needs for itself: the arena and the pointer tables."""

    __slots__ = ("arena", "arena_block", "inputs", "inputs_address", "outputs", "outputs_address")

    def __init__(self, arena_bytes: int, inputs: int, outputs: int) -> None:
        self.arena_block = Block(max(64, arena_bytes))
        self.arena = self.arena_block.address
        self.inputs = (ctypes.c_void_p * max(1, inputs))()
        self.outputs = (ctypes.c_void_p * max(1, outputs))()
        self.inputs_address = ctypes.addressof(self.inputs)
        self.outputs_address = ctypes.addressof(self.outputs)


class Executable:
    """A compiled model. Calls are thread-safe, and make one foreign call each.

    Attributes:
        inputs, outputs: tuples of Spec.
        stages: mapping of stage name to text.
        num_replicas, num_partitions: size of the grid that it runs as; a larger one than 1 x 1 is a GridExecutable.
    """

    num_replicas = num_partitions = 1

    def __init__(self, program: CompiledProgram) -> None:
        from stablehlo_py.backends.cpu.objects import NativeCode
        from stablehlo_py.backends.cpu.symbols import bound
        from stablehlo_py.backends.cpu.threads import pool_for, register_grid_symbols, register_pool_symbols

        require_host(program)
        self._program = program
        self.inputs: tuple[Spec, ...] = program.inputs
        self.outputs: tuple[Spec, ...] = program.outputs
        self.stages: Mapping[str, str] = stage_texts(program)
        require(program.arena_bytes, "a call of this model")
        self._pool = None
        if program.grid:
            register_grid_symbols()
        if program.uses_pool:
            register_pool_symbols()
            if program.threads > 1:
                self._pool = pool_for(program.threads)
        with bound(program.symbols) as self._bound:
            self._code = NativeCode(program.objects)
        self._entry = _ENTRY(self._code.address("shlo_main"))
        # The copies take the place of the module's own arrays, which would keep the whole module alive.
        program.constants = self._constants = [aligned_copy(array) for array in program.constants]
        pointers = [array.__array_interface__["data"][0] for array in self._constants]
        self._constant_table = (ctypes.c_void_p * max(1, len(pointers)))(*pointers)
        self._constants_address = ctypes.addressof(self._constant_table)
        self._donated = dict(program.donations)
        self._results = [_memory_of(spec) for spec in program.outputs]
        self._checks = [(spec.dtype, spec.shape) for spec in program.inputs]
        self._frames: list[Frame] = []

    def __call__(self, *arrays: object) -> tuple[np.ndarray, ...]:
        """Run on NumPy, ml_dtypes, JAX or DLPack arrays. Strided arrays are copied; donated ones are left untouched.

        Raises:
            ArgumentError: the arguments do not fit; every one that does not is named.
            CallError: the function behind a custom call failed.
        """
        checks = self._checks
        ready = len(arrays) == len(checks)
        if ready:
            for array, (dtype, shape) in zip(arrays, checks, strict=True):
                if type(array) is not np.ndarray or array.dtype != dtype or array.shape != shape:
                    ready = False
                    break
                flags = array.flags
                if not (flags.c_contiguous and flags.aligned):
                    ready = False
                    break
        prepared: Sequence[np.ndarray] = arrays if ready else convert(arrays, self.inputs)  # type: ignore[assignment]
        addresses = [array.__array_interface__["data"][0] for array in prepared]
        results = []
        for number, (shape, dtype, size) in enumerate(self._results):
            result = RESULTS.array(shape, dtype, size)
            if number in self._donated:
                # The program updates the donated buffer in place: give it the result's memory, holding the input's
                # value.
                source = self._donated[number]
                np.copyto(result, prepared[source])
                addresses[source] = result.__array_interface__["data"][0]
            results.append(result)
        self._run(addresses, results)
        return tuple(results)

    def put(self, array: object, position: int | None = None) -> Handle:
        """Prepare an input once, for many calls. Its spec is found by `position`, else by order: the first input that
        it fits.

        Raises:
            ArgumentError: it fits no input.
        """
        candidates = self.inputs if position is None else (self.inputs[position],)
        failure: ArgumentError | None = None
        for spec in candidates:
            try:
                (ready,) = convert([array], [spec])
            except ArgumentError as error:
                failure = failure or error
                continue
            owned = aligned_copy(ready)
            return Handle(owned, spec)
        raise failure or ArgumentError("the model takes no inputs")

    def call(self, handles: Sequence[Handle]) -> tuple[np.ndarray, ...]:
        """Run on handles made by `put`. A donated input's memory becomes the result's, and its handle is spent.

        Raises:
            ArgumentError: wrong number of handles, wrong specs, or a spent handle.
        """
        if len(handles) != len(self.inputs):
            raise ArgumentError(f"got {len(handles)} handles, the model takes {len(self.inputs)}")
        addresses = []
        for handle, spec in zip(handles, self.inputs, strict=True):
            if handle.array is None:
                raise ArgumentError(
                    f"the handle of {spec.name} was donated to an earlier call", remedy="put() a new array"
                )
            if handle.spec.dtype != spec.dtype or handle.spec.shape != spec.shape:
                raise ArgumentError(f"the handle of {handle.spec} is not the input {spec}")
            addresses.append(handle.address)
        for input_ in self._donated.values():
            if sum(handle is handles[input_] for handle in handles) > 1:
                raise ArgumentError(
                    f"the handle of {self.inputs[input_].name}, which is donated, is also another input",
                    remedy="put() the array once for each input",
                )
        results = []
        for number, (shape, dtype, size) in enumerate(self._results):
            if number in self._donated:
                handle = handles[self._donated[number]]
                assert handle.array is not None
                results.append(handle.array)
            else:
                results.append(RESULTS.array(shape, dtype, size))
        self._run(addresses, results)
        for input_ in self._donated.values():
            handles[input_].array = None
        return tuple(results)

    def _run(self, addresses: list[int], results: list[np.ndarray]) -> None:
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = Frame(self._program.arena_bytes, len(self.inputs), len(self.outputs))
        inputs, outputs = frame.inputs, frame.outputs
        for number, address in enumerate(addresses):
            inputs[number] = address
        for number, result in enumerate(results):
            outputs[number] = result.__array_interface__["data"][0]
        pool = self._pool
        if pool is None or not pool.acquire():
            failed = self._entry(
                frame.inputs_address, frame.outputs_address, frame.arena, self._constants_address, None
            )
        else:
            try:
                failed = self._entry(
                    frame.inputs_address, frame.outputs_address, frame.arena, self._constants_address, pool.address
                )
            finally:
                pool.release()
        error = failure_of(failed) if failed else None
        self._frames.append(frame)
        if error is not None:
            raise error

    @property
    def donations(self) -> tuple[tuple[int, int], ...]:
        """(output, input) pairs that share memory: a call by handles spends the input's handle."""
        return self._program.donations

    @functools.cached_property
    def memory_plan(self) -> MemoryPlan:
        """Where and when every value lives in the arena; worked out from the scheduled stage when asked for."""
        return memory_plan_of(self._program)

    def report(self) -> str:
        """What was compiled, for a person: kernels, kinds, memory, threads, times of the stages."""
        return self._program.report

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an artifact that `load_executable` loads without compiling.

        Raises:
            ResourceError: the file cannot be written; nothing is left behind.
        """
        programs.save(self._program, path)


def memory_plan_of(program: CompiledProgram) -> MemoryPlan:
    """The memory plan that the scheduled stage holds."""
    from stablehlo_py.mlir import ir, make_context
    from stablehlo_py.passes.buffer_assignment import memory_plan

    stage = program.stages.get("scheduled")
    if not isinstance(stage, bytes):
        return MemoryPlan(program.arena_bytes)
    context = make_context()
    with context:
        entries = memory_plan(ir.Module.parse(stage))
        return MemoryPlan(
            program.arena_bytes,
            tuple(PlanEntry(e.value, e.offset, e.size, e.first, e.last, e.source) for e in entries),
        )


def stage_texts(program: CompiledProgram) -> Mapping[str, str]:
    """Texts of all stages of a program, rendered when read."""
    from stablehlo_py.backends.cpu import listing

    derived: dict[str, Callable[[], str]] = {"object": lambda: listing.disassembly(program.objects)}
    kernels = program.stages.get("kernels")
    if isinstance(kernels, str):
        derived = {"llvm": lambda: listing.llvm_ir(kernels), **derived}
    return Stages(program.stages, derived)


def _memory_of(spec: Spec) -> tuple[tuple[int, ...], np.dtype, int]:
    """Shape, dtype and bytes of a result."""
    sizes = tuple(size for size in spec.shape if size is not None)
    assert len(sizes) == len(spec.shape)
    return sizes, spec.dtype, math.prod(sizes) * spec.dtype.itemsize


def require_host(program: CompiledProgram) -> None:
    """Refuse what this machine cannot run, before it dies of an illegal instruction.

    Raises:
        LoadError: the code is for another architecture or system, or for a CPU with more features.
    """
    from stablehlo_py.backends.cpu.target import missing_features

    if program.machine != programs.this_machine():
        raise LoadError(
            f"this program was compiled for {program.machine}, this machine is {programs.this_machine()}",
            remedy="compile the model on the machine that runs it",
        )
    missing = missing_features(program.features)
    if missing:
        raise LoadError(
            f"this program was compiled for the CPU '{program.target}'; this one lacks {', '.join(missing)}",
            remedy="compile the model here, or with Options(target=...) set to a CPU that every machine has",
        )


def load_executable(path: str | os.PathLike[str] | bytes) -> Executable:
    """Load an artifact written by `Executable.save` or `shlo-compile`, from its path or its content.

    Raises:
        ResourceError: the file cannot be read. LoadError: it is not an artifact, or was compiled for another kind of
            machine.
    """
    return executable(programs.deserialize(path))


def executable(program: CompiledProgram) -> Executable:
    """Load a program into this process."""
    if program.grid is None:
        return Executable(program)
    from stablehlo_py.runtime.grid import GridExecutable  # which needs this module first

    return GridExecutable(program)
