"""A program with dynamic dimensions, loaded: one machine code for all shapes.

A call hands the dimensions of its arrays to the program's `shlo_sizes`, which fills a table of numbers: the shapes of
the results, the size of the arena, and everything that kernels read of it.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

import numpy as np

from stablehlo_py.errors import ArgumentError, Problem
from stablehlo_py.runtime.arguments import aligned_copy
from stablehlo_py.runtime.callbacks import failure_of
from stablehlo_py.runtime.memory import RESULTS, Block, require
from stablehlo_py.runtime.program import CompiledProgram, DynamicCheck

_SIZES = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_ENTRY = ctypes.CFUNCTYPE(ctypes.c_void_p, *(ctypes.c_void_p,) * 5)


class DynamicProgram:
    """The machine code and what a call of it needs. Calls are thread-safe."""

    def __init__(self, program: CompiledProgram) -> None:
        from stablehlo_py.backends.cpu.objects import NativeCode
        from stablehlo_py.backends.cpu.symbols import bound
        from stablehlo_py.backends.cpu.threads import pool_for, register_pool_symbols
        from stablehlo_py.runtime.executable import require_host

        require_host(program)
        assert program.dynamic is not None
        self.program = program
        self._layout = program.dynamic
        self._pool = None
        if program.uses_pool:
            register_pool_symbols()
            if program.threads > 1:
                self._pool = pool_for(program.threads)
        with bound(program.symbols):
            self._code = NativeCode(program.objects)
        self._fill = _SIZES(self._code.address("shlo_sizes"))
        self._entry = _ENTRY(self._code.address("shlo_main"))
        program.constants = self._constants = [aligned_copy(array) for array in program.constants]
        pointers = [array.__array_interface__["data"][0] for array in self._constants]
        self._constant_table = (ctypes.c_void_p * max(1, len(pointers)))(*pointers)
        self._donated = dict(program.donations)
        self._arenas: list[Block] = []

    def run(self, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...] | None:
        """The results, or None where the program does not serve these shapes.

        Raises:
            ArgumentError: the shapes do not fit the model's dimensions; every check that fails is named.
            ResourceError: they need more memory than there is.
        """
        table = self._sizes(arrays)
        if not table[self._layout.slots]:
            self._refuse(table)
            return None
        shapes = [tuple(self._number(table, size) for size in sizes) for sizes in self._layout.outputs]
        addresses = [array.__array_interface__["data"][0] for array in arrays]
        addresses.append(ctypes.addressof(table))
        results = []
        for number, (shape, spec) in enumerate(zip(shapes, self.program.outputs, strict=True)):
            result = RESULTS.array(shape, spec.dtype, math.prod(shape) * spec.dtype.itemsize)
            if number in self._donated:  # updated in place: see Executable
                source = self._donated[number]
                np.copyto(result, arrays[source])
                addresses[source] = result.__array_interface__["data"][0]
            results.append(result)
        self._call(addresses, [result.__array_interface__["data"][0] for result in results], table)
        return tuple(results)

    def _sizes(self, arrays: Sequence[np.ndarray]) -> ctypes.Array[ctypes.c_int64]:
        symbols = [
            self._symbol(arrays[argument], dimension) // divisor
            for argument, dimension, divisor in self._layout.symbols
        ]
        given = (ctypes.c_int64 * max(1, len(symbols)))(*symbols)
        table = (ctypes.c_int64 * (self._layout.slots + 1))()
        self._fill(ctypes.addressof(given), ctypes.addressof(table))
        return table

    @staticmethod
    def _symbol(array: np.ndarray, dimension: int) -> int:
        return array.shape[dimension] if dimension >= 0 else int(array.flat[-1 - dimension])

    @staticmethod
    def _number(table: ctypes.Array[ctypes.c_int64], number: int) -> int:
        return table[-1 - number] if number < 0 else number

    def _refuse(self, table: ctypes.Array[ctypes.c_int64]) -> None:
        """Raise where the shapes are wrong for the model, not only for this program."""
        failed = [check for check in self._layout.checks if not self._number(table, check.condition)]
        wrong = [self._problem(table, check) for check in failed if check.required]
        if wrong:
            raise ArgumentError("the shapes do not fit the model's dimensions", problems=wrong)

    def _problem(self, table: ctypes.Array[ctypes.c_int64], check: DynamicCheck) -> Problem:
        message = check.message
        for position, value in enumerate(check.values):
            message = message.replace(f"{{{position}}}", str(self._number(table, value)))
        return Problem(message, check.location or None, check.op or None)

    def _call(self, inputs: Sequence[int], outputs: Sequence[int], table: ctypes.Array[ctypes.c_int64]) -> None:
        size = max(64, self._number(table, self._layout.arena_bytes))
        arena = self._arena(size)
        input_table = (ctypes.c_void_p * len(inputs))(*inputs)
        output_table = (ctypes.c_void_p * max(1, len(outputs)))(*outputs)
        tables = ctypes.addressof(input_table), ctypes.addressof(output_table)
        constants, pool = ctypes.addressof(self._constant_table), self._pool
        if pool is None or not pool.acquire():
            failed = self._entry(*tables, arena.address, constants, None)
        else:
            try:
                failed = self._entry(*tables, arena.address, constants, pool.address)
            finally:
                pool.release()
        error = failure_of(failed) if failed else None
        self._arenas.append(arena)
        if error is not None:
            raise error

    def _arena(self, size: int) -> Block:
        """A block of an earlier call where it is large enough."""
        try:
            block = self._arenas.pop()
        except IndexError:
            block = None
        if block is None or block.size < size:
            require(size, "a call of this model with these shapes")
            block = Block(size)
        return block
