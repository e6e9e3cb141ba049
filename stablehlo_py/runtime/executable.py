"""A program loaded into this process and called from Python."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from stablehlo_py.boundary import as_shlo_error, guards_itself, is_expected, public
from stablehlo_py.runtime import artifact
from stablehlo_py.runtime.arguments import convert
from stablehlo_py.runtime.buffer import Buffer, Placement
from stablehlo_py.runtime.entry import Entry, required
from stablehlo_py.runtime.loaded import LoadedProgram
from stablehlo_py.runtime.memory_plan import MemoryPlan, arena_entries
from stablehlo_py.runtime.model import CompiledModel, wrapped
from stablehlo_py.runtime.program import CompiledProgram, Spec
from stablehlo_py.runtime.random_keys import RandomKeys
from stablehlo_py.runtime.stages import stage_texts


class Executable(CompiledModel):
    """A compiled model whose shapes are known. A call makes one foreign call.

    Attributes:
        num_replicas, num_partitions: size of the grid that it runs as; a larger one than 1 x 1 is a GridExecutable.
        fast_call: makes a call in native code, or returns None where `__call__` has to make it. None: there is no such
            function, or no call was made yet.
    """

    num_replicas = num_partitions = 1

    def __init__(self, program: CompiledProgram, device: int = 0) -> None:
        self._program = program
        self.inputs, self.outputs = program.inputs, program.outputs
        self._loaded = LoadedProgram(program, device=device)
        self._stages = stage_texts(program)
        self._leaves = program.leaves
        self._layouts = [_layout_of(spec) for spec in program.outputs]
        self.fast_call: Callable[..., tuple[np.ndarray, ...] | None] | None = None
        self._is_first = True
        self.random_keys = RandomKeys()

    @property
    def _placement(self) -> Placement:
        return self._loaded.placement

    @property
    @public
    def stages(self) -> Mapping[str, str]:
        return self._stages

    @guards_itself
    def __call__(self, *arrays: object) -> tuple[np.ndarray, ...]:
        """Run on NumPy, ml_dtypes, JAX or DLPack arrays. Strided arrays are copied; donated ones are left untouched.

        Raises:
            ArgumentError: the arguments do not fit; every one that does not is named.
            CallError: the function behind a custom call failed.
        """
        if self.fast_call is not None:
            results = self.fast_call(*arrays)
            if results is not None:
                return results
        try:
            prepared = convert(arrays, self.inputs, self._leaves)
            if self._is_first:
                results = tuple(self._loaded.run(prepared, self._layouts))
                self._is_first = False
                self.fast_call = self._loaded.fast_call([_layout_of(spec) for spec in self.inputs], self._layouts)
                return results
            if self.fast_call is not None:
                results = self.fast_call(*prepared)
                if results is not None:
                    return results
            return tuple(self._loaded.run(prepared, self._layouts))
        except Exception as error:
            if is_expected(error):
                raise
            raise as_shlo_error(error, "Executable.__call__ failed") from error

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (
            self._program,
            self._loaded.device,
        )  # a copy, in this process or another, with machine code of its own

    @guards_itself
    def call(self, buffers: Sequence[Buffer]) -> tuple[Buffer, ...]:
        try:
            return tuple(self._loaded.call(self._buffers_for(buffers), self._layouts))
        except Exception as error:
            if is_expected(error):
                raise
            raise as_shlo_error(error, "Executable.call failed") from error

    @property
    @public
    def entry(self) -> Entry:
        """The program as a C function (docs/native-entry.md), which is there as long as the executable.

        Raises:
            UnsupportedError: its backend makes none.
        """
        return required(self._loaded.code.entry, self._program.backend)

    @property
    @public
    def donations(self) -> tuple[tuple[int, int], ...]:
        """(output, input) pairs that share memory: `call` spends the input's buffer."""
        return self._program.donations

    @public
    def memory_plan(self, *arrays: object) -> MemoryPlan:
        """As `CompiledModel.memory_plan`; worked out from the scheduled stage when asked for."""
        if arrays:
            convert(arrays, self.inputs, self._leaves)
        return MemoryPlan(
            self._program.arena_bytes,
            sum(size for _, _, size in map(_layout_of, self.inputs)),
            sum(size for _, _, size in self._layouts),
            sum(constant.nbytes for constant in self._program.constants),
            arena_entries(self._program, {}),
        )

    @public
    def seed(self, number: int) -> None:
        self.random_keys.seed(number)

    @public
    def report(self) -> str:
        return wrapped("\n".join([self._program.report, *self._loaded.code.choices]))

    @public
    def save(self, path: str | os.PathLike[str]) -> None:
        artifact.save(self._program, path)

    def _kind(self) -> str:
        processes = self.num_replicas * self.num_partitions
        grid = f", {self.num_replicas} x {self.num_partitions} processes" if processes > 1 else ""
        return f"{self._program.backend} ({self._program.target}){grid}"


def _layout_of(spec: Spec) -> tuple[tuple[int, ...], np.dtype, int]:
    """Shape, dtype and bytes of an input or a result."""
    sizes = tuple(size for size in spec.shape if size is not None)
    assert len(sizes) == len(spec.shape)
    return sizes, spec.dtype, math.prod(sizes) * spec.dtype.itemsize
