"""Calls of LAPACK as code for GPUs: a thread for a matrix. What they mean is in the CPU's lapack_routines.py; there its
routines are called.

Results are those of LAPACK's unblocked routines up to rounding, but for what is not unique: signs or phases of
eigenvectors and singular vectors. Small matrices of a large batch keep the machine busy; a large one is as slow as one
thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase, phase_function
from stablehlo_py.backends.cpu.kernels.common import operand
from stablehlo_py.backends.cpu.kernels.lapack_routines import TARGETS, Array, Routine, batch_of, element_of, routine_of
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.backends.gpu.kernels import elimination, householder, jacobi
from stablehlo_py.backends.gpu.kernels.matrices import Matrix, Numbers, Reals
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I8, I32, Index, Value
from stablehlo_py.codegen.types import ELEMENTS, Lanes, element
from stablehlo_py.dialect.alignment import aligned
from stablehlo_py.dialect.custom_call import CustomCall, read_call

TOGETHER = 64 << 20  # bytes: scratch memory of so many matrices is one piece; else each thread has its own
NS_PER_FLOP = 1.0


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """One phase over the matrices of the batch, of a call in `targets`.

    Raises:
        UnsupportedError: the call is not as its target takes it.
    """
    op = fusion.op("stablehlo.custom_call")
    call = read_call(op)
    routine = routine_of(call)
    batch = int(math.prod(batch_of(call, routine)))
    f = phase_function(fusion, target)
    code = _CODE[routine.name[1:]]
    x = Numbers(f, element(op.operands[0]))
    counts = [count + 1 for count in code.scratch(*_sizes(routine))]
    used = sum(aligned(count * x.of.bytes) for count in counts)
    together = batch * used <= TOGETHER
    inputs = [operand(f, fusion, value) for value in op.operands]

    def matrix(number: Value) -> None:
        place = f.gep(f.shared, f.imul(number, used), I8) if together else f.private
        rooms = []
        for count in counts:
            rooms.append(place)
            place = f.gep(place, aligned(count * x.of.bytes), I8)
        code.emit(_Problem(x, call, routine, inputs, number, rooms))

    f.loop(f.begin, f.end, 1, matrix)
    part = phase(f, batch, NS_PER_FLOP * routine.flops)
    return Kernel.of(part, shared_bytes=batch * used if together else 0, private_bytes=0 if together else used)


def targets() -> frozenset[str]:
    """Those that have code."""
    return frozenset(target for target in TARGETS if _family(target) in _CODE)


def _family(target: str) -> str:
    """The routine of `lapack_sgetrf_ffi`: getrf."""
    return target.removeprefix("lapack_").removeprefix("blas_").removesuffix("_ffi")[1:]


def _sizes(routine: Routine) -> tuple[int, int]:
    """Rows and columns of the first operand."""
    rows, columns = (*routine.operands[0].shape, 1)[:2]
    return int(rows), int(columns)


class _Problem:
    """One matrix of the batch.

    Attributes:
        m, n: its rows and columns.
        rooms: scratch memory.
    """

    def __init__(
        self, x: Numbers, call: CustomCall, routine: Routine, inputs: Sequence[Value], number: Value, rooms: list[Value]
    ) -> None:
        f = x.f
        self.x, self.call, self.routine, self.rooms = x, call, routine, rooms
        self.m, self.n = _sizes(routine)
        letter = TARGETS[call.target][0]

        def part(base: Value, array: Array) -> Value:
            of = ELEMENTS[element_of(letter, array.kind)]
            return f.gep(base, f.imul(number, math.prod(map(int, array.shape)) * of.bytes), I8)

        self.operands = [part(base, array) for base, array in zip(inputs, routine.operands, strict=True)]
        outputs = [f.parameters[f"out{number}"] for number in range(len(routine.results))]
        self.results = [part(base, array) for base, array in zip(outputs, routine.results, strict=True)]

    def matrix(self, base: Value, rows: int, columns: int, *, adjoint: bool = False) -> Matrix:
        """One that lies there without gaps; `adjoint`: as its conjugate transpose, which is rows x columns."""
        return Matrix(self.x, base, rows, columns, columns if adjoint else rows, adjoint=adjoint)

    def decomposed(self) -> Matrix:
        """The first result, which begins as a copy of the first operand."""
        a, source = (self.matrix(base, self.m, self.n) for base in (self.results[0], self.operands[0]))
        a.fill(source.get)
        return a

    def whole(self, base: Value) -> Matrix:
        """A Hermitian matrix from the triangle of the first operand that the call names."""
        f, x = self.x.f, self.x
        lower = chr(self.call.configuration["uplo"].value) == "L"
        source = self.matrix(self.operands[0], self.n, self.n)

        def value(i: Index, j: Index) -> Lanes:
            low, high = f.imax(i, j), f.imin(i, j)
            given = source.get(low, high) if lower else source.get(high, low)
            is_given = f.cmp("sge" if lower else "sle", f.index(i), f.index(j))
            given = types.select(f, is_given, given, x.conjugate(given))
            on_diagonal = f.cmp("eq", f.index(i), f.index(j))
            return types.select(f, on_diagonal, x.of_real(types.parts(given)[0]), given)

        a = self.matrix(base, self.n, self.n)
        a.fill(value)
        return a

    def succeeded(self, result: int) -> None:
        """Info is 0."""
        self.x.f.store(self.x.f.const(0, I32), self.results[result])


# --- routines ---------------------------------------------------------------------------------------------------------


def _getrf(p: _Problem) -> None:
    elimination.factorize(p.x, p.decomposed(), p.results[1], p.results[2])


def _geqrf(p: _Problem) -> None:
    householder.factorize(p.x, p.decomposed(), p.results[1])


def _orgqr(p: _Problem) -> None:
    householder.multiply_out(p.x, p.decomposed(), p.operands[1], int(p.routine.operands[1].shape[0]))


def _syevd(p: _Problem) -> None:
    x, n = p.x, p.n
    p.succeeded(2)
    if n:
        vectors = p.matrix(p.results[0], n, n)
        a, work = p.whole(p.rooms[0]), p.matrix(p.rooms[1], n, n)
        jacobi.eigenvalues(x, a, Reals(x, p.results[1]), vectors, work, Reals(x, p.rooms[2]))


def _svd(p: _Problem) -> None:
    """Of a matrix with more columns than rows: of its adjoint, whose left vectors are the right ones."""
    x, wide, least = p.x, p.m < p.n, min(p.m, p.n)
    a = p.decomposed()
    p.succeeded(4)
    rows = max(p.m, p.n)
    source = p.matrix(a.base, rows, least, adjoint=wide)
    work = p.matrix(p.rooms[0], rows, least)
    work.fill(source.get)
    left = right = None
    if chr(p.call.configuration["mode"].value) == "N":
        for result in (2, 3):
            sizes = [int(size) for size in p.routine.results[result].shape]
            p.matrix(p.results[result], *sizes).fill(lambda i, j: x.zero)
    else:
        all_left, all_right = int(p.routine.results[2].shape[1]), int(p.routine.results[3].shape[0])
        u, vh = p.matrix(p.results[2], p.m, all_left), p.matrix(p.results[3], p.n, all_right, adjoint=True)
        left, right = (vh, u) if wide else (u, vh)
        if not least:
            left.fill(left.unit)
            return
    if least:
        v, factors = p.matrix(p.rooms[1], least, least), p.matrix(p.rooms[2], least, 1)
        jacobi.singular_values(x, work, Reals(x, p.results[1]), left, right, (v, factors, Reals(x, p.rooms[3])))


def _sytrd(p: _Problem) -> None:
    """By the upper triangle: by the lower one of the matrix that is read backwards."""
    x, n = p.x, p.n
    lower = chr(p.call.configuration["uplo"].value) == "L"
    a = p.decomposed()
    p.succeeded(4)
    if not n:
        return
    a = Matrix(x, a.base, n, n, n, reversed=not lower)
    diagonal, beside = (Reals(x, p.results[number], None if lower else n - number) for number in (1, 2))
    factors = Matrix(x, p.results[3], n - 1, 1, n - 1, reversed=not lower)
    householder.tridiagonalize(x, a, diagonal, beside, factors, p.matrix(p.rooms[0], n, 1))


def _gtsv(p: _Problem) -> None:
    x = p.x
    columns: list[Matrix] = []
    for array, source, result in zip(p.routine.operands, p.operands, p.results, strict=False):
        rows, count = (*map(int, array.shape), 1)[:2]
        columns.append(p.matrix(result, rows, count))
        columns[-1].fill(p.matrix(source, rows, count).get)
    if p.m:
        low, diagonal, up, sides = columns
        elimination.solve_tridiagonal(x, low, diagonal, up, sides, p.results[4])
    else:
        p.succeeded(4)


@dataclass(frozen=True)
class _Code:
    """What a routine is: its code, and how many numbers of scratch memory it takes of m x n, piece by piece."""

    emit: Callable[[_Problem], None]
    scratch: Callable[[int, int], Sequence[int]] = lambda m, n: ()


def _of_svd(m: int, n: int) -> Sequence[int]:
    least = min(m, n)
    return m * n, least * least, least, least


_SVD = _Code(_svd, _of_svd)
_EIGENVALUES = _Code(_syevd, lambda m, n: (n * n, n * n, n))
_TRIDIAGONAL = _Code(_sytrd, lambda m, n: (n,))
_CODE = {
    "getrf": _Code(_getrf),
    "geqrf": _Code(_geqrf),
    "orgqr": _Code(_orgqr),
    "ungqr": _Code(_orgqr),
    "syevd": _EIGENVALUES,
    "heevd": _EIGENVALUES,
    "gtsv": _Code(_gtsv),
    "gesdd": _SVD,
    "gesvd": _SVD,
    "sytrd": _TRIDIAGONAL,
    "hetrd": _TRIDIAGONAL,
}
