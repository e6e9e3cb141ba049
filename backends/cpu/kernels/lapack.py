"""Calls of LAPACK, matrix by matrix. What is called, with what, is in lapack_routines.py. Many small matrices are
factorized without it (lu.py).

Small matrices are split over threads. Large ones are one iteration, for LAPACK's own threads: OpenBLAS decides by the
sizes alone how many take part, so either way no bit depends on how many threads a program has.

Of matrices of dynamic size the call decides whether they are small, and asks the routine for its workspace: what the
routine answers is what it gets, unless that is more than `Workspace.enough`.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import replace

import numpy as np

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels import lu
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase, phase_function
from stablehlo_py.backends.cpu.kernels.common import operand
from stablehlo_py.backends.cpu.kernels.lapack_routines import (
    INTEGER,
    SAME,
    TARGETS,
    Argument,
    Array,
    Given,
    Operand,
    Result,
    Routine,
    Scratch,
    Workspace,
    batch_of,
    element_of,
    routine_of,
)
from stablehlo_py.backends.cpu.kernels.lapack_vectors import all_finite, fill_nan, unpack
from stablehlo_py.backends.cpu.symbols import library_address, library_symbol
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I8, I32, I64, Function, Index, Value
from stablehlo_py.codegen.types import ELEMENTS, Element, element
from stablehlo_py.dialect.attributes import BY_ROWS
from stablehlo_py.dialect.custom_call import read_call
from stablehlo_py.dialect.symint import IntLike, SymInt, is_known, largest, less, minimum, select
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.passes.symbolic.checks import Check

# Up to this many elements OpenBLAS stays on the calling thread in nearly all that it does.
SMALL_MATRIX = 64 * 64
CALL_NS, NS_PER_FLOP = 500.0, 0.2
CACHE_LINE = 64
NOT_FINITE = -4  # jaxlib's info for matrices that hold infinities or NaN
MOST = (1 << 31) - 1  # of LAPACK's integers
EXACT_F32 = 1 << 23  # above twice this a float32 may have rounded a count down
UNUSED_BYTES = 64  # what stands for the arrays of a call with lwork = -1, which looks at a first element here and there


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """One phase over the matrices of the batch.

    Raises:
        UnsupportedError: the call is not as its target takes it.
    """
    op = fusion.op("stablehlo.custom_call")
    call = read_call(op)
    routine = routine_of(call)
    batch = math.prod(batch_of(call, routine))
    rows, columns = (*routine.operands[0].shape, 1)[:2]
    if BY_ROWS in op.attributes or (
        routine.name.endswith("getrf") and lu.fits(target, element(op.operands[0]), rows, columns, batch)
    ):
        return lu.emit(fusion, target, int(rows), int(columns), batch)
    small = less(math.prod(routine.operands[0].shape), SMALL_MATRIX + 1)
    numbers = [fusion.inputs.index(value) for value in op.operands]
    in_place = [(numbers.index(input_), output) for input_, output in fusion.inplace]
    f = phase_function(fusion, target)
    inputs = [operand(f, fusion, value) for value in op.operands]
    first: Index = 0
    last: Index = batch
    scratch = f.shared
    if not is_known(small):
        is_small = f.cmp("ne", f.index(small), f.const(0))
        first, last = f.select(is_small, f.begin, f.const(0)), f.select(is_small, f.end, f.index(batch))
        scratch = f.select(is_small, f.private, f.shared)
    elif small:
        first, last, scratch = f.begin, f.end, f.private
    code = _Calls(f, TARGETS[call.target][0], routine, inputs, scratch)
    code.copies = [pair for pair in routine.copies if pair not in in_place]
    f.loop(first, last, 1, code.emit)
    cost = CALL_NS + NS_PER_FLOP * routine.flops
    iterations = select(small, batch, minimum(batch, 1))
    kernel = Kernel.of(phase(f, iterations, cost), private_bytes=select(small, code.scratch_bytes, 0))
    return replace(kernel, shared_bytes=select(small, 0, code.scratch_bytes), checks=code.checks())


class _Calls:
    """Code for one matrix after the other.

    Attributes:
        copies: (operand, result) that have to be copied before the call.
        scratch_bytes: how much of `scratch` is used.
    """

    def __init__(self, f: Function, letter: str, routine: Routine, inputs: list[Value], scratch: Value) -> None:
        self.f, self.letter, self.routine, self.inputs, self.scratch = f, letter, routine, inputs, scratch
        self.outputs = [f.parameters[f"out{number}"] for number in range(len(routine.results))]
        self.copies = list(routine.copies)
        self.empty = 0 in routine.operands[0].shape
        self.scratch_bytes: IntLike = 0
        self.fixed: dict[int, Value] = {}  # pointers of arguments that are the same for every matrix
        if self.empty:
            return
        asks = any(isinstance(argument, Workspace) for argument in routine.arguments)
        self.work: Index = self._work() if asks else 0
        for position, argument in enumerate(routine.arguments):
            pointer = self._fixed(argument)
            if pointer is not None:
                self.fixed[position] = pointer

    def _fixed(self, argument: Argument) -> Value | None:
        if isinstance(argument, Scratch):
            return self._room(argument.count, argument.kind)
        if isinstance(argument, Workspace):
            return self._room(self.work if isinstance(self.work, int) else argument.enough, SAME)
        if argument is Given.WORKSPACE_COUNT:
            return self._integer(self.work)
        return self._integer(0) if argument is Given.IGNORED else self._constant(argument)

    def _constant(self, argument: Argument) -> Value | None:
        f = self.f
        if isinstance(argument, int | SymInt):
            return self._integer(argument)
        if isinstance(argument, str):
            letter = f.alloca(1, I8, 1)
            f.store(f.const(ord(argument), I8), letter)
            return letter
        if argument is Given.ONE:
            of = self._element(SAME)
            one = f.alloca(2, of.storage, 16)
            types.store(f, of, types.constant(f, of, 1), one, 0)
            return one
        return f.null() if argument is Given.NULL else None

    def _room(self, count: IntLike, kind: str) -> Value:
        """Scratch memory for so many elements."""
        place = self.f.gep(self.scratch, self.scratch_bytes, I8)
        self.scratch_bytes += -(-count * self._element(kind).bytes // CACHE_LINE) * CACHE_LINE
        return place

    def _integer(self, value: Index) -> Value:
        """The address of an i32."""
        f, number = self.f, self.f.alloca(1, I32, 4)
        f.store(f.const(value, I32) if isinstance(value, int) else f.cast("trunc", f.index(value), I32), number)
        return number

    def _work(self) -> Index:
        """How many elements of workspace the routine gets."""
        (enough,) = (argument.enough for argument in self.routine.arguments if isinstance(argument, Workspace))
        if is_known(enough, *self.routine.integers):
            return workspace_count(self.routine, self.letter)
        return self.f.imin(self._answer(), enough)

    def _answer(self) -> Index:
        """What the routine answers to lwork = -1, in the call; see `workspace_count`."""
        f, of = self.f, self._element(SAME)
        answer, unused = f.alloca(2, of.storage, 16), f.alloca(UNUSED_BYTES, I8)
        pointers = []
        for argument in self.routine.arguments:
            if isinstance(argument, Workspace):
                pointers.append(answer)
            elif argument is Given.WORKSPACE_COUNT:
                pointers.append(self._integer(-1))
            else:
                pointers.append(self._constant(argument) or unused)
        f.call(library_symbol(self.routine.library, self.routine.name), pointers, external=True)
        asked = f.load(of.storage, answer)
        if of.storage.bits == 32:
            bits = f.bitcast(asked, I32)
            following = f.bitcast(f.binary("add", bits, f.const(1, I32)), of.storage)
            asked = f.select(f.cmp("olt", asked, f.const(float(EXACT_F32), of.storage)), asked, following)
        return f.imax(f.cast("fptosi", asked, I64), 1)

    def checks(self) -> tuple[Check, ...]:
        """What a call must hold to for LAPACK's integers of 32 bits."""
        rooms = [argument.enough for argument in self.routine.arguments if isinstance(argument, Workspace)]
        most = largest([*self.routine.integers, *rooms])
        if is_known(most):
            return ()
        message = f"LAPACK's {self.routine.name} counts to {MOST}, not to {{0}}"
        return (Check(less(most, MOST + 1), "assumption", message, (most,), "stablehlo.custom_call", ""),)

    def emit(self, number: Value) -> None:
        """Everything for matrix `number` of the batch."""
        f, routine = self.f, self.routine
        for source, output in self.copies:
            f.copy_memory(self._result(output, number), self._operand(source, number), self._bytes(output))
        copied = {output for _, output in routine.copies}
        unset = [output for output in range(len(routine.results)) if output not in copied]
        for output in unset if self.empty else routine.zeroed:
            f.set_memory(self._result(output, number), 0, self._bytes(output))
        if self.empty:
            return
        for position, argument in enumerate(routine.arguments):
            if isinstance(argument, Scratch) and argument.copy_of is not None:
                size = self._size(routine.operands[argument.copy_of])
                f.copy_memory(self.fixed[position], self._operand(argument.copy_of, number), size)
        if routine.checked is None:
            self._call(number)
            return
        position, info = routine.checked
        matrix, part = routine.operands[0], self._element(routine.operands[0].kind)
        finite = all_finite(f, self.fixed[position], math.prod(matrix.shape) * (2 if part.is_complex else 1), part)

        def refuse() -> None:
            for output in range(len(routine.results)):
                if output != info:
                    self._fill(output, number)
            f.store(f.const(NOT_FINITE, I32), self._result(info, number))

        f.if_(finite, lambda: self._call(number), refuse)

    def _call(self, number: Value) -> None:
        f, routine = self.f, self.routine
        pointers = [self._pointer(position, argument, number) for position, argument in enumerate(routine.arguments)]
        f.call(library_symbol(routine.library, routine.name), pointers, external=True)
        if not routine.vectors or routine.checked is None:
            return
        info = f.load(I32, self._result(routine.checked[1], number))

        def unpacked() -> None:
            for position, output, imaginary in routine.vectors:
                n, part = routine.results[output].shape[-1], self._element(routine.operands[0].kind)
                unpack(f, n, part, self._result(imaginary, number), self.fixed[position], self._result(output, number))

        def undefined() -> None:
            for _, output, _ in routine.vectors:
                self._fill(output, number)

        f.if_(f.cmp("eq", info, f.const(0, I32)), unpacked, undefined)

    def _pointer(self, position: int, argument: Argument, number: Value) -> Value:
        if isinstance(argument, Operand):
            return self._operand(argument.number, number)
        if isinstance(argument, Result):
            start = self._result(argument.number, number)
            skipped = argument.skip * self._element(self.routine.results[argument.number].kind).bytes
            return self.f.gep(start, skipped, I8)
        return self.fixed[position]

    def _operand(self, operand_number: int, number: Value) -> Value:
        size = self._size(self.routine.operands[operand_number])
        return self.f.gep(self.inputs[operand_number], self.f.imul(number, size), I8)

    def _result(self, output: int, number: Value) -> Value:
        return self.f.gep(self.outputs[output], self.f.imul(number, self._bytes(output)), I8)

    def _fill(self, output: int, number: Value) -> None:
        array = self.routine.results[output]
        of = self._element(array.kind)
        if array.kind != INTEGER:
            fill_nan(self.f, of, self._result(output, number), self._size(array) // (of.storage.bits // 8))

    def _bytes(self, output: int) -> IntLike:
        return self._size(self.routine.results[output])

    def _size(self, array: Array) -> IntLike:
        return math.prod(array.shape) * self._element(array.kind).bytes

    def _element(self, kind: str) -> Element:
        return ELEMENTS[element_of(self.letter, kind)]


_DTYPES = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}


def workspace_count(routine: Routine, letter: str) -> int:
    """How many elements of workspace a routine asks for, by its own answer to lwork = -1.

    Raises:
        UnsupportedError: SciPy lacks the routine, or the count exceeds its integers.
    """
    address = library_address("lapack", routine.name)
    if address is None:
        raise UnsupportedError(
            f"SciPy's LAPACK has no {routine.name}", remedy="install SciPy from PyPI (pip install scipy)"
        )
    answer = np.zeros(2, _DTYPES[letter])
    unused = np.zeros(UNUSED_BYTES, np.uint8)
    pointers: list[object] = []
    for argument in routine.arguments:
        if isinstance(argument, str):
            pointers.append(argument.encode())
        elif isinstance(argument, int | SymInt) or argument is Given.WORKSPACE_COUNT:
            pointers.append(ctypes.byref(ctypes.c_int32(-1 if isinstance(argument, Given) else int(argument))))
        elif isinstance(argument, Workspace):
            pointers.append(answer.ctypes.data)
        else:
            pointers.append(None if argument is Given.NULL else unused.ctypes.data)
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers))(address)(*pointers)
    asked = answer[0].real
    exact = asked < (EXACT_F32 if asked.dtype == np.float32 else MOST)
    count = int(np.ceil(asked if exact else np.nextafter(asked, np.inf, dtype=asked.dtype)))
    if not 0 < count < 1 << 31:
        raise UnsupportedError(f"LAPACK's {routine.name} needs scratch memory of {count} elements for such matrices")
    return count
