"""What a compiled model is to its user, whatever kind of executable it became."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from stablehlo_py.boundary import expect, is_expected, public
from stablehlo_py.errors import ArgumentError
from stablehlo_py.interrupts import deferred
from stablehlo_py.runtime.arguments import as_array, candidates, not_buffers, problem_with, taken, usable
from stablehlo_py.runtime.buffer import Buffer, Placement
from stablehlo_py.runtime.memory_plan import MemoryPlan
from stablehlo_py.runtime.program import Leaves, Spec, signature


@deferred()  # shutil drops every OSError: also the one that a handler of a signal raises meanwhile
def wrapped(text: str) -> str:
    """Lines no longer than the terminal is wide, continued with two spaces; as they are where there is no terminal
    and COLUMNS is not set."""
    width = shutil.get_terminal_size((sys.maxsize, 0)).columns
    lines = (textwrap.wrap(line, max(width, 20), subsequent_indent="  ") or [""] for line in text.splitlines())
    return "\n".join(itertools.chain.from_iterable(lines))


class CompiledModel(ABC):
    """The interface that `Executable`, `GridExecutable` and `SymbolicExecutable` share. Calls are thread-safe.

    Attributes:
        inputs, outputs: name, shape and dtype of every argument and result; a symbolic dimension is None.
    """

    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    _leaves: Leaves | None  # of the call that it was exported from

    @property
    @abstractmethod
    def _placement(self) -> Placement:
        """Of its buffers."""

    @property
    @abstractmethod
    def stages(self) -> Mapping[str, str]:
        """Stage name to text, in the order of the stages. Those of small sources (1 MiB) are made when they are read.

        Raises:
            UnsupportedError: no program serves all shapes; `specialize` gives one that has stages.
        """

    @abstractmethod
    def __call__(self, *arrays: object) -> tuple[np.ndarray, ...]:
        """Run on NumPy, ml_dtypes, JAX or DLPack arrays. Strided arrays are copied.

        Raises:
            ArgumentError: the arguments do not fit the model; every one that does not is named.
            CallError: the function behind a custom call failed.
        """

    @public
    def put(self, array: object, position: int | None = None, *, copy: bool = True) -> Buffer:
        """Bring an input to where the program runs, once for many calls. Its spec is found by `position`, else by
        order: the first input that it fits. Without `copy` a dense array of the host (NumPy, JAX, DLPack) is used where
        it is, and must not change as long as calls use it; of the device where the program runs (DLPack,
        `__cuda_array_interface__`) likewise. With `copy`, an array of that device is copied there.

        Raises:
            ArgumentError: it fits no input, or not the one at `position`; or it cannot be used without a copy.
        """
        expect(copy, bool, "copy", "True or False")
        problems = []
        there = self._placement.there(array)
        for spec in candidates(self.inputs, position):
            candidate = as_array(array, spec) if there is None else there
            problem = problem_with(candidate, spec)
            if problem is None and there is not None:
                if not there.flags.c_contiguous:
                    raise ArgumentError(f"argument {spec.name} is not dense", remedy="make it contiguous where it is")
                return self._placement.adopt(array, there, spec, copy=copy)
            if problem is None:
                ready = np.require(candidate, requirements=("C", "ALIGNED"))
                return self._placement.put(ready if copy else usable(array, ready, spec), spec, copy=copy)
            problems.append(problem)
        raise ArgumentError("the array fits no input" if problems else "the model takes no inputs", problems=problems)

    def _buffers_for(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        """One buffer for each input, checked. Raises ArgumentError."""
        try:
            inputs, placement = self.inputs, self._placement
            space = placement.space
            if len(buffers) != len(inputs):
                buffers = taken(buffers, inputs, self._leaves, "buffers")
            for buffer, spec in zip(buffers, inputs, strict=True):
                if buffer.spec is not spec or buffer._space is not space or buffer._gone is not None:
                    placement.check(buffer, spec)
        except Exception as error:  # what is no buffer has no such attributes, what is no sequence no length
            if is_expected(error):
                raise
            raise not_buffers(buffers) from error
        return buffers

    @abstractmethod
    def call(self, buffers: Sequence[Buffer]) -> tuple[Buffer, ...]:
        """Run on buffers, of `put` or of earlier calls, and leave the results where they are. On devices this returns
        at once: reading a result waits for it. A donated input's memory becomes the result's, and its buffer is spent.

        Raises:
            ArgumentError: wrong number of buffers, wrong specs, or a spent buffer.
            CallError: the function behind a custom call failed.
        """

    @abstractmethod
    def memory_plan(self, *arrays: object) -> MemoryPlan:
        """What a call with these arguments needs, in bytes, and where every intermediate value lives. A model without
        symbolic dimensions needs no arguments to tell.

        Raises:
            ArgumentError: the arguments do not fit the model.
            UnsupportedError: no program serves all shapes; `specialize` gives one that has a plan.
        """

    @abstractmethod
    def seed(self, number: int) -> None:
        """Start the random numbers of `stablehlo.rng` anew (docs/random-numbers.md). A new executable starts with 0.

        Raises:
            ArgumentError: the number is negative.
        """

    @abstractmethod
    def report(self) -> str:
        """What was compiled, for a person: kernels, kinds, memory, threads, times of the stages. Lines are as wide as
        the terminal."""

    @abstractmethod
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an artifact that `load_executable` loads without compiling.

        Raises:
            UnsupportedError: no program serves all shapes.
            ResourceError: the file cannot be written; nothing is left behind.
        """

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {signature(self.inputs, self.outputs)}, {self._kind()}>"

    @abstractmethod
    def _kind(self) -> str:
        """What kind of program it is, in a few words."""
