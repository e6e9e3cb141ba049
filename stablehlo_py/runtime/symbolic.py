"""Executables of modules with dynamic dimensions: one program for all shapes, specializations where that cannot be
(docs/dynamic-shapes.md)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np

from stablehlo_py.boundary import number, public
from stablehlo_py.errors import ArgumentError, UnsupportedError, shown
from stablehlo_py.runtime import artifact
from stablehlo_py.runtime.arguments import convert
from stablehlo_py.runtime.buffer import Buffer, MemorySpace, Placement
from stablehlo_py.runtime.dynamic import SIZES_KEPT, DynamicProgram, NotServed
from stablehlo_py.runtime.entry import Entry
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.memory import ArrayMemory
from stablehlo_py.runtime.memory_plan import MemoryPlan, arena_entries
from stablehlo_py.runtime.model import CompiledModel, wrapped
from stablehlo_py.runtime.program import CompiledProgram, Leaves, Spec
from stablehlo_py.runtime.random_keys import RandomKeys
from stablehlo_py.runtime.stages import stage_texts

Shapes = tuple[tuple[int, ...], ...]
Results = TypeVar("Results")


class Specializer(Protocol):
    """Executables of a model for the shapes of a call, made when they are asked for (specialization.py)."""

    @property
    def random_keys(self) -> RandomKeys:
        """Where all of them take their random numbers from."""

    def __len__(self) -> int:
        """How many there are."""

    def memory(self) -> MemorySpace | None:
        """Where their inputs and results are, None: in the host's memory. Raises ResourceError."""

    def of(self, shapes: Shapes, values: Mapping[int, int]) -> Executable:
        """The executable for these shapes of the inputs; `values` are those of integer scalar arguments that hold
        dimensions, by argument number.

        Raises:
            ArgumentError: the shapes contradict the model's dimensions.
            UnsupportedError: shapes depend on data.
        """

    def for_call(self, arrays: Sequence[np.ndarray | Buffer]) -> Executable:
        """The executable for a call with these arguments, of which only integer scalars are read. Raises as `of`."""


class SymbolicExecutable(CompiledModel):
    """A compiled model whose shapes are known at call time: a program for all of them, specializations for what that
    does not serve, or both. One that was loaded from an artifact has no module to specialize."""

    def __init__(
        self,
        inputs: tuple[Spec, ...],
        outputs: tuple[Spec, ...],
        program: CompiledProgram | None,
        specializations: Specializer | None,
        reason: str = "",
        leaves: Leaves | None = None,
        device: int = 0,
    ) -> None:
        self.inputs, self.outputs = inputs, outputs
        self._once = DynamicProgram(program, device) if program is not None else None
        self._memory = ArrayMemory(SIZES_KEPT * len(inputs))
        self._specializations = specializations
        self._leaves = leaves
        self._device = device
        self._reason = reason  # why there is no program for all shapes

    @property
    def _placement(self) -> Placement:
        if self._once is not None:
            return self._once.placement
        space = None if self._specializations is None else self._specializations.memory()
        return Placement(space, self._memory)

    @staticmethod
    @public
    def of_program(program: CompiledProgram, device: int = 0) -> SymbolicExecutable:
        """A program for all shapes, without the module that it was made from."""
        return SymbolicExecutable(program.inputs, program.outputs, program, None, "", program.leaves, device)

    def __reduce__(self) -> tuple[object, ...]:
        program = self._once.program if self._once is not None else None
        parts = (self.inputs, self.outputs, program, self._specializations, self._reason, self._leaves, self._device)
        return SymbolicExecutable, parts

    @property
    @public
    def compilations(self) -> int:
        """How often the model was compiled, loads from the cache included."""
        if self._specializations is None:
            return 0
        return (self._once is not None) + len(self._specializations)

    @public
    def specialize(self, *shapes: Sequence[int], values: Mapping[int, int] | None = None) -> Executable:
        """The executable for these input shapes, compiled at the first request. `values` are those of integer scalar
        arguments that hold dimensions, by argument number.

        Raises:
            ArgumentError: the shapes contradict the model's dimensions.
            UnsupportedError: shapes depend on data, or the executable was loaded from an artifact.
        """
        if self._specializations is None:
            raise UnsupportedError("an artifact does not hold the module that it was made from", remedy=_WITHOUT_MODULE)
        return self._specializations.of(*_checked(shapes, values))

    @public
    def __call__(self, *arrays: object) -> tuple[np.ndarray, ...]:
        """Run. Shapes that the program for all shapes does not serve, or that there is none for, are compiled for.

        Raises:
            ArgumentError: the arguments do not fit the specs, or the model's dimensions.
            UnsupportedError: the executable was loaded from an artifact, whose program does not serve these shapes.
        """
        prepared = convert(arrays, self.inputs, self._leaves)
        results = self._served(lambda once: once.run(prepared))
        return self._specialized(prepared)(*prepared) if results is None else results

    def _served(self, run: Callable[[DynamicProgram], Results]) -> Results | None:
        """Results of the program for all shapes, None where a specialization is to run."""
        if self._once is None:
            return None
        try:
            return run(self._once)
        except NotServed as error:
            if self._specializations is None:
                problems = [replace(problem, remedy=_WITHOUT_MODULE) for problem in error.problems]
                raise NotServed("the artifact's program does not serve these shapes", problems=problems) from None
            return None

    def _specialized(self, arrays: Sequence[np.ndarray | Buffer]) -> Executable:
        assert self._specializations is not None
        return self._specializations.for_call(arrays)

    @public
    def call(self, buffers: Sequence[Buffer]) -> tuple[Buffer, ...]:
        """Run on buffers; see `Executable.call`.

        Raises:
            ArgumentError: wrong number of buffers, or shapes that do not fit the model's dimensions.
            UnsupportedError: as `__call__`.
        """
        buffers = self._buffers_for(buffers)
        results = self._served(lambda once: once.call(buffers))
        return self._specialized(buffers).call(buffers) if results is None else results

    def _program(self) -> DynamicProgram:
        if self._once is None:
            raise UnsupportedError(
                f"there is no program for all shapes, because:\n{self._reason}",
                remedy="use the executable of concrete shapes: exe.specialize(*shapes)",
            )
        return self._once

    @property
    @public
    def entry(self) -> Entry:
        """The program for all shapes as a C function; see `Executable.entry`.

        Raises:
            UnsupportedError: there is no program for all shapes, or its backend makes no native function.
        """
        return self._program().entry

    @property
    @public
    def stages(self) -> Mapping[str, str]:
        """Stage name to text, of the program for all shapes.

        Raises:
            UnsupportedError: there is none.
        """
        return stage_texts(self._program().program)

    @public
    def memory_plan(self, *arrays: object) -> MemoryPlan:
        """As `CompiledModel.memory_plan`.

        Raises:
            ArgumentError: the arguments do not fit. UnsupportedError: there is no program for all shapes.
        """
        once, prepared = self._program(), convert(arrays, self.inputs, self._leaves)
        return MemoryPlan(
            once.arena_bytes(prepared),
            sum(array.nbytes for array in prepared),
            once.output_bytes(prepared),
            sum(constant.nbytes for constant in once.program.constants),
            arena_entries(once.program, once.symbols(prepared)),
        )

    @public
    def seed(self, number: int) -> None:
        """As `Executable.seed`, of all specializations together; a program for all shapes draws no random numbers.

        Raises:
            ArgumentError: it is no number from 0 on.
        """
        if self._specializations is not None:
            self._specializations.random_keys.seed(number)

    @public
    def report(self) -> str:
        """Whether one program serves all shapes, and why not; what was compiled."""
        if self._once is not None:
            return wrapped(f"one program for all shapes\n{self._once.program.report}")
        count = 0 if self._specializations is None else len(self._specializations)
        return wrapped(f"one program for each shapes ({count} so far), because:\n{self._reason}")

    @public
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the program for all shapes as an artifact, which `load_executable` loads without compiling.

        Raises:
            UnsupportedError: there is no such program.
            ResourceError: the file cannot be written; nothing is left behind.
        """
        artifact.save(self._program().program, path)

    def _kind(self) -> str:
        return "one program for all shapes" if self._once is not None else "one program for each shapes"


def _checked(shapes: Sequence[Sequence[int]], values: Mapping[int, int] | None) -> tuple[Shapes, Mapping[int, int]]:
    """Shapes as tuples of numbers, and values by number of the argument. Raises ArgumentError."""
    remedy = "pass one tuple of sizes for each argument, as in specialize((8, 4), (8,))"
    if not all(isinstance(sizes, (tuple, list)) for sizes in shapes):
        raise ArgumentError(f"{shown(shapes)} are no shapes", remedy=remedy)
    if values is not None and not isinstance(values, Mapping):
        raise ArgumentError(
            f"values is {shown(values)}", remedy="pass a dictionary from numbers of arguments to values"
        )
    known = {number(key, "an argument"): number(value, "a value") for key, value in (values or {}).items()}
    return tuple(tuple(number(size, "a size") for size in sizes) for sizes in shapes), known


_WITHOUT_MODULE = (
    "compile the model where it runs, with stablehlo_py.compile, or save the executable of these shapes beside it: "
    "exe.specialize(*shapes).save(path)"
)
