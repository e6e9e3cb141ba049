"""A program with dynamic dimensions, loaded: one machine code for all shapes.

A call hands the dimensions of its arrays to the program, which fills a table of numbers: the shapes of the results, the
memory that it needs, and everything that kernels read of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NoReturn, cast

import numpy as np

from stablehlo_py.backends.base import SizedCode
from stablehlo_py.dialect.symint import IntLike, is_known, substitute
from stablehlo_py.dialect.symint_text import parse_sizes
from stablehlo_py.errors import ArgumentError, Problem, ResourceError, UnsupportedError
from stablehlo_py.runtime.buffer import Buffer
from stablehlo_py.runtime.entry import Entry, required
from stablehlo_py.runtime.loaded import LoadedProgram
from stablehlo_py.runtime.memory import Layouts
from stablehlo_py.runtime.program import CompiledProgram, DynamicCheck

# Shapes of an argument or a result that are called by turns: of so many sizes memory is kept for the next call.
SIZES_KEPT = 16


class NotServed(UnsupportedError):
    """The program rests on an assumption that these shapes do not fulfil, though they are right for the model."""


class DynamicProgram:
    """The machine code and what a call of it needs. Calls are thread-safe."""

    def __init__(self, program: CompiledProgram, device: int = 0) -> None:
        assert program.dynamic is not None
        self.program = program
        self._layout = program.dynamic
        self._loaded = LoadedProgram(program, SIZES_KEPT, device)
        self._code = cast(SizedCode, self._loaded.code)
        self.placement = self._loaded.placement
        self._symbols = [(each.of_shape, each.argument, each.position, each.divisor) for each in self._layout.symbols]
        # Of every result: its sizes; its shape, where that is the same in all calls; its dtype.
        self._results = [
            (sizes, None if any(size < 0 for size in sizes) else sizes, spec.dtype)
            for sizes, spec in zip(self._layout.outputs, program.outputs, strict=True)
        ]

    def run(self, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The results.

        Raises:
            ArgumentError: the shapes do not fit the model's dimensions; every check that fails is named.
            NotServed: they need a program of their own.
            ResourceError: they need more memory than there is.
        """
        table = self._table(arrays)
        return tuple(self._loaded.run(arrays, self._layouts(table), table))

    def call(self, buffers: Sequence[Buffer]) -> tuple[Buffer, ...]:
        """The results as buffers; donated inputs are spent. Raises as `run`."""
        table = self._table(buffers)
        return tuple(self._loaded.call(buffers, self._layouts(table), table))

    def _layouts(self, table: Sequence[int]) -> Layouts:
        """Of the results of a call."""
        layouts = []
        for sizes, known, dtype in self._results:
            shape = known or tuple([table[-1 - size] if size < 0 else size for size in sizes])
            layouts.append((shape, dtype, math.prod(shape) * dtype.itemsize))
        return layouts

    @property
    def entry(self) -> Entry:
        """The program as a C function. Raises UnsupportedError."""
        return required(self._code.entry, self.program.backend)

    def arena_bytes(self, arrays: Sequence[np.ndarray]) -> int:
        """Memory that a call with these arguments needs. Raises ArgumentError and NotServed as `run`."""
        return self._layout.number(self._table(arrays), self._layout.arena_bytes)

    def output_bytes(self, arrays: Sequence[np.ndarray]) -> int:
        """Memory of the results of a call with these arguments. Raises as `arena_bytes`."""
        return sum(size for _, _, size in self._layouts(self._table(arrays)))

    def symbols(self, arrays: Sequence[np.ndarray] | Sequence[Buffer]) -> dict[str, int]:
        """What the symbols in the texts of stages are in a call with these arguments."""
        return {symbol.name: symbol.value(arrays) for symbol in self._layout.symbols}

    def _table(self, arrays: Sequence[np.ndarray] | Sequence[Buffer]) -> Sequence[int]:
        given = [
            (arrays[number].shape[position] if of_shape else int(np.asarray(arrays[number]).flat[position])) // divisor
            for of_shape, number, position, divisor in self._symbols
        ]
        try:
            table = self._code.sizes(given)
        except OverflowError:  # an element of a ui64
            self._refuse(arrays)
        if not table[self._layout.slots]:
            self._refuse(arrays)
        return table

    def _refuse(self, arrays: Sequence[np.ndarray] | Sequence[Buffer]) -> NoReturn:
        """Say why, in numbers of any size: those of the table may be none of i64."""
        values = self.symbols(arrays)
        values |= {f"x{name[1:]}": value for name, value in values.items() if name[0] == "v"}
        failed: dict[str, list[Problem]] = {"argument": [], "memory": [], "assumption": []}
        for check in self._layout.checks:
            condition, *named = (substitute(size, values) for size in parse_sizes(check.sizes))
            if condition != 1:
                failed[check.kind].append(_problem(check, condition, named))
        if failed["argument"]:
            raise ArgumentError("the shapes do not fit the model's dimensions", problems=failed["argument"])
        if failed["memory"]:
            raise ResourceError("no memory holds what these shapes ask for", problems=failed["memory"])
        empty = [
            Problem(f"{'dimension' if symbol.of_shape else 'element'} {symbol.position} of argument {spec.name} is 0")
            for symbol in self._layout.symbols
            for spec in (self.program.inputs[symbol.argument],)
            if symbol.positive and symbol.value(arrays) <= 0
        ]
        overflow = [Problem("a number that they are calculated from is not one of 64 bits")]
        problems = empty or failed["assumption"] or overflow
        raise NotServed("the program for all shapes does not serve these", problems=problems)


def _problem(check: DynamicCheck, condition: IntLike, values: Sequence[IntLike]) -> Problem:
    message = check.message
    for position, value in enumerate(values):
        message = message.replace(f"{{{position}}}", str(value))
    if not is_known(condition):
        message = f"{condition} is a division by zero"
    return Problem(message, check.location or None, check.op or None)
