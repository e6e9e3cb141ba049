"""What JAX's LAPACK targets mean: for each, the Fortran call that answers it for one matrix of a batch.

The semantics are those of jaxlib's kernels (jaxlib/cpu/lapack_kernels.cc in jax-ml/jax): matrices are column-major, a
result that begins as a copy of an operand is computed in place, pivots count from 1, `info` is LAPACK's. Workspaces
have the sizes that jaxlib gives them, so the blocking, and with it every bit, is the same. Shapes are the logical ones;
dynamic dimensions are SymInts.

Where jaxlib leaves memory as it was (vectors that were not asked for) the result is zero here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from stablehlo_py.dialect.custom_call import Buffer, CustomCall
from stablehlo_py.dialect.symint import IntLike, SymInt, maximum, minimum, size_hint
from stablehlo_py.errors import UnsupportedError

# Element kinds of an array, relative to the element type of the matrix: the same, its real part, its complex type, i32.
SAME, REAL, COMPLEX, INTEGER = "same", "real", "complex", "integer"


@dataclass(frozen=True)
class Array:
    """What one matrix of the batch needs of an operand or result: element kind and shape."""

    kind: str
    shape: tuple[IntLike, ...]


@dataclass(frozen=True)
class Operand:
    """An operand's part for this matrix; it is only read."""

    number: int


@dataclass(frozen=True)
class Result:
    """A result's part for this matrix, without its first `skip` elements."""

    number: int
    skip: int = 0


@dataclass(frozen=True)
class Scratch:
    """Memory for the routine alone: `count` elements. It begins as a copy of an operand where that is named."""

    kind: str
    count: IntLike
    copy_of: int | None = None


@dataclass(frozen=True)
class Workspace:
    """As many elements of memory for the routine alone as it asks for, by its own answer to lwork = -1.

    The answer for dynamic sizes comes in the call, when memory is there already: `enough` elements. That is no less
    than the least that the routine's documentation allows, and as much as it asks for with blocks of `BLOCK` rows.
    """

    enough: IntLike


class Given(Enum):
    """What is the same for every routine."""

    ONE = "the number 1, of the matrix's element type"
    WORKSPACE_COUNT = "how many elements the workspace has (`lwork`)"
    IGNORED = "an integer that the routine writes and nobody reads"
    NULL = "no memory"


# A str is a character, a number an integer.
Argument: TypeAlias = Operand | Result | str | IntLike | Scratch | Workspace | Given
BLOCK = 64  # rows: the largest that LAPACK's ilaenv names for the routines here
TRIANGLES = 65 * 64  # what ormqr and gehrd keep of block reflectors (TSIZE), in elements


@dataclass(frozen=True)
class Routine:
    """One call for each matrix.

    Attributes:
        name: the routine, e.g. "dgetrf"; from its maker without the letter of the element type.
        arguments: of the Fortran call, in order.
        operands, results: what the buffers of the custom call must hold for each matrix.
        copies: (operand, result): the result begins as a copy of the operand.
        zeroed: results that the routine does not write.
        flops: for one matrix; from its maker as of real numbers.
        library: "lapack" or "blas".
        checked: (argument, info result): where the scratch copy that is this argument holds what is not finite, the
            routine is not called, info is -4 and every other result is NaN.
        vectors: (argument, result, imaginary parts): a result of complex columns, from the packed real columns in the
            scratch memory that is this argument, see `lapack_vectors.unpack`.
    """

    name: str
    arguments: Sequence[Argument]
    operands: Sequence[Array]
    results: Sequence[Array]
    copies: Sequence[tuple[int, int]] = ()
    zeroed: Sequence[int] = ()
    flops: float = 0.0
    library: str = "lapack"
    checked: tuple[int, int] | None = None
    vectors: Sequence[tuple[int, int, int]] = ()

    @property
    def integers(self) -> list[IntLike]:
        """Those among the arguments."""
        return [argument for argument in self.arguments if isinstance(argument, int | SymInt)]


class Problem:
    """A custom call as the makers of routines read it."""

    def __init__(self, call: CustomCall, letter: str) -> None:
        self.call, self.letter = call, letter
        self.is_complex = letter in "cz"

    def matrix(self, number: int = 0) -> tuple[IntLike, IntLike]:
        """Rows and columns of an operand."""
        return self._last_two(self.call.operands, number)

    def result_matrix(self, number: int) -> tuple[IntLike, IntLike]:
        """Rows and columns of a result."""
        return self._last_two(self.call.results, number)

    def _last_two(self, buffers: Sequence[Buffer], number: int) -> tuple[IntLike, IntLike]:
        self.require(len(buffers) > number and len(buffers[number].shape) >= 2, "lacks a matrix among its arguments")
        rows, columns = buffers[number].shape[-2:]
        return rows, columns

    def order(self) -> IntLike:
        """Rows of the first operand, which is square."""
        rows, columns = self.matrix()
        self.require(rows == columns, f"takes square matrices, not {rows} x {columns}")
        return rows

    def letter_of(self, name: str, allowed: str) -> str:
        """A character of the configuration."""
        value = chr(self.number_of(name))
        self.require(value in allowed, f"has {name} = '{value}', which is none of {', '.join(allowed)}")
        return value

    def number_of(self, name: str) -> int:
        """An integer or flag of the configuration."""
        self.require(name in self.call.configuration, f"has no '{name}' in its configuration")
        return int(self.call.configuration[name].value)

    @staticmethod
    def hint(*sizes: IntLike) -> float:
        """The product of sizes, for costs."""
        return float(math.prod(map(size_hint, sizes)))

    def require(self, holds: bool, otherwise: str) -> None:
        """Raises UnsupportedError."""
        if not holds:
            raise UnsupportedError(f"'{self.call.target}' {otherwise}", op="stablehlo.custom_call")


def _same(*shape: IntLike) -> Array:
    return Array(SAME, shape)


def _leading(rows: IntLike) -> IntLike:
    """A leading dimension, at least 1 also for a matrix without rows."""
    return maximum(1, rows)


def _work(enough: IntLike) -> tuple[Argument, Argument]:
    """The workspace and its size."""
    return Workspace(enough), Given.WORKSPACE_COUNT


_INFO = Array(INTEGER, ())


def _getrf(p: Problem) -> Routine:
    """LU with row interchanges: a -> the factors, pivots, info."""
    m, n = p.matrix()
    least = minimum(m, n)
    arguments = m, n, Result(0), _leading(m), Result(1), Result(2)
    results = [_same(m, n), Array(INTEGER, (least,)), _INFO]
    return Routine("getrf", arguments, [_same(m, n)], results, [(0, 0)], flops=p.hint(m, n, least))


def _geqrf(p: Problem) -> Routine:
    """QR: a -> R above Householder vectors, their factors tau."""
    m, n = p.matrix()
    least = minimum(m, n)
    arguments = m, n, Result(0), _leading(m), Result(1), *_work(n * BLOCK), Given.IGNORED
    results, flops = [_same(m, n), _same(least)], 2 * p.hint(m, n, least)
    return Routine("geqrf", arguments, [_same(m, n)], results, [(0, 0)], flops=flops)


def _geqp3(p: Problem) -> Routine:
    """QR with column pivoting: a, columns to begin with (0: free) -> R and vectors, the permutation from 1, tau."""
    m, n = p.matrix()
    least, columns = minimum(m, n), Array(INTEGER, (n,))
    arguments: list[Argument] = [m, n, Result(0), _leading(m), Result(1), Result(2), *_work(2 * n + (n + 1) * BLOCK)]
    arguments += [Scratch(REAL, 2 * n)] * p.is_complex
    results = [_same(m, n), columns, _same(least)]
    copies, flops = [(0, 0), (1, 1)], 4 * p.hint(m, n, least)
    return Routine("geqp3", [*arguments, Given.IGNORED], [_same(m, n), columns], results, copies, flops=flops)


def _orgqr(p: Problem) -> Routine:
    """The first n columns of Q: Householder vectors, tau -> Q."""
    m, n = p.matrix()
    p.require(len(p.call.operands) == 2, "takes vectors and their factors")
    count = p.call.operands[1].shape[-1]
    p.require(m >= n >= count, f"takes at least as many rows as columns as factors, not {m}, {n} and {count}")
    arguments = m, n, count, Result(0), _leading(m), Operand(1), *_work(n * BLOCK), Given.IGNORED
    name, flops = "ungqr" if p.is_complex else "orgqr", 4 * p.hint(m, n, maximum(1, count))
    return Routine(name, arguments, [_same(m, n), _same(count)], [_same(m, n)], [(0, 0)], flops=flops)


def _ormqr(p: Problem) -> Routine:
    """Q c or c Q, or with its adjoint: Householder vectors, tau, c -> the product."""
    p.require(len(p.call.operands) == 3, "takes vectors, their factors and a matrix")
    rows, columns = p.matrix(0)
    m, n = p.matrix(2)
    count = p.call.operands[1].shape[-1]
    left, transposed = p.number_of("left"), p.number_of("transpose")
    p.require(rows == (m if left else n), f"multiplies {m} x {n} by vectors of {rows} elements")
    p.require(count <= minimum(rows, columns), f"has {count} factors for {columns} vectors of {rows} elements")
    adjoint = "C" if p.is_complex else "T"
    # The routine changes the vectors while it runs, and changes them back: they are copied, for operands may be read
    # by other calls meanwhile.
    vectors = Scratch(SAME, rows * columns, copy_of=0)
    arguments: list[Argument] = ["L" if left else "R", adjoint if transposed else "N", m, n, count]
    arguments += [vectors, _leading(rows), Operand(1), Result(0), _leading(m)]
    arguments += [*_work((n if left else m) * BLOCK + TRIANGLES), Given.IGNORED]
    operands = [_same(rows, columns), _same(count), _same(m, n)]
    name, flops = "unmqr" if p.is_complex else "ormqr", 4 * p.hint(m, n, maximum(1, count))
    return Routine(name, arguments, operands, [_same(m, n)], [(2, 0)], flops=flops)


def _svd(p: Problem, name: str) -> Routine:
    """SVD: a -> a destroyed, singular values, U, V^H, info. Modes: A all vectors, S min(m, n) of them, N none."""
    m, n = p.matrix()
    least, most = minimum(m, n), maximum(m, n)
    mode = p.letter_of("mode", "ASN")
    left, right = {"A": ((m, m), (n, n)), "S": ((m, least), (least, n))}.get(mode) or (
        p.result_matrix(2),
        p.result_matrix(3),
    )
    arguments: list[Argument] = [mode] * (2 if name == "gesvd" else 1)
    arguments += [m, n, Result(0), _leading(m), Result(1), Result(2), _leading(m), Result(3), _leading(right[0])]
    arguments += _work(5 * least * least + 8 * least + most + 2 * (m + n) * BLOCK + TRIANGLES)
    if p.is_complex:
        real = 5 * least
        if name == "gesdd":
            squares = maximum(5 * least * least + 5 * least, 2 * most * least + 2 * least * least + least)
            real = 7 * least if mode == "N" else squares
        arguments.append(Scratch(REAL, real))
    if name == "gesdd":
        arguments.append(Scratch(INTEGER, 8 * least))
    results = [_same(m, n), Array(REAL, (least,)), _same(*left), _same(*right), _INFO]
    unset, flops = (2, 3) if mode == "N" else (), 10 * p.hint(m, n, maximum(1, least))
    return Routine(name, [*arguments, Result(4)], [_same(m, n)], results, [(0, 0)], unset, flops)


def _syevd(p: Problem) -> Routine:
    """Eigenvalues of Hermitian matrices: a -> eigenvectors (mode V), eigenvalues in ascending order, info."""
    n = p.order()
    mode, uplo = p.letter_of("mode", "NV"), p.letter_of("uplo", "LU")
    vectors = mode == "V"
    work = (2 * n + n * n if vectors else n + 1) if p.is_complex else 1 + 6 * n + 2 * n * n if vectors else 2 * n + 1
    real = 1 + 5 * n + 2 * n * n if vectors else maximum(n, 1)
    integers = 3 + 5 * n if vectors else 1
    arguments: list[Argument] = [mode, uplo, n, Result(0), _leading(n), Result(1), Scratch(SAME, work), work]
    if p.is_complex:
        arguments += [Scratch(REAL, real), real]
    arguments += [Scratch(INTEGER, integers), integers, Result(2)]
    results = [_same(n, n), Array(REAL, (n,)), _INFO]
    name, flops = "heevd" if p.is_complex else "syevd", 5 * p.hint(n, n, n)
    return Routine(name, arguments, [_same(n, n)], results, [(0, 0)], flops=flops)


def _geev(p: Problem) -> Routine:
    """Eigenvalues of general matrices: a -> eigenvalues (real matrices: real and imaginary parts), left and right
    eigenvectors as complex columns, info."""
    n = p.order()
    sides = [p.letter_of(side, "NV") for side in ("compute_left", "compute_right")]
    arguments: list[Argument] = [*sides, n, Scratch(SAME, n * n, copy_of=0), _leading(n)]
    values = 1 if p.is_complex else 2
    arguments += [Result(number) for number in range(values)]
    first, info = len(arguments), values + 2
    for side in range(2):
        arguments += [Result(values + side) if p.is_complex else Scratch(SAME, n * n), _leading(n)]
    arguments += _work(4 * n + 2 * n * BLOCK + TRIANGLES)
    if p.is_complex:
        arguments.append(Scratch(REAL, 2 * n))
    vectors = [(first + 2 * side, values + side, 1) for side in (0, 1) if sides[side] == "V" and not p.is_complex]
    results = [*[Array(SAME, (n,))] * values, *[Array(COMPLEX, (n, n))] * 2, _INFO]
    unset = [values + side for side in (0, 1) if sides[side] == "N"]
    arguments.append(Result(info))
    flops = 25 * p.hint(n, n, n)
    return Routine("geev", arguments, [_same(n, n)], results, (), unset, flops, checked=(3, info), vectors=vectors)


def _gees(p: Problem) -> Routine:
    """Schur form: a -> T, Schur vectors (mode V), eigenvalues (real matrices: two parts), 0, info."""
    n = p.order()
    mode, sort = p.letter_of("mode", "NV"), p.letter_of("sort", "NS")
    p.require(sort == "N", "sorts eigenvalues, which jaxlib does not implement either")
    values = 1 if p.is_complex else 2
    arguments: list[Argument] = [mode, sort, Given.NULL, n, Result(0), _leading(n), Result(values + 2)]
    arguments += [Result(2 + number) for number in range(values)]
    arguments += [Result(1), _leading(n), *_work(3 * n + n * BLOCK + TRIANGLES)]
    if p.is_complex:
        arguments.append(Scratch(REAL, n))
    arguments += [Given.NULL, Result(values + 3)]
    results = [_same(n, n), _same(n, n), *[_same(n)] * values, _INFO, _INFO]
    unset, flops = [1] if mode == "N" else (), 25 * p.hint(n, n, n)
    return Routine("gees", arguments, [_same(n, n)], results, [(0, 0)], unset, flops)


def _gehrd(p: Problem) -> Routine:
    """Hessenberg form: a -> H above Householder vectors, tau, info."""
    n = p.order()
    low, high = p.number_of("low"), p.number_of("high")
    p.require(n == 0 or 1 <= low <= high <= n, f"has rows {low} to {high} of matrices with {n}")
    arguments = n, low, high, Result(0), _leading(n), Result(1), *_work(n * BLOCK + TRIANGLES), Result(2)
    results, flops = [_same(n, n), _same(maximum(n - 1, 0)), _INFO], 10 / 3 * p.hint(n, n, n)
    return Routine("gehrd", arguments, [_same(n, n)], results, [(0, 0)], flops=flops)


def _sytrd(p: Problem) -> Routine:
    """Tridiagonal form of Hermitian matrices: a -> a with Householder vectors, diagonal, off-diagonal, tau, info."""
    n = p.order()
    arguments: list[Argument] = [p.letter_of("uplo", "LU"), n, Result(0), _leading(n)]
    arguments += [Result(1), Result(2), Result(3), *_work(n * BLOCK), Result(4)]
    less = maximum(n - 1, 0)
    results = [_same(n, n), Array(REAL, (n,)), Array(REAL, (less,)), _same(less), _INFO]
    name, flops = "hetrd" if p.is_complex else "sytrd", 4 / 3 * p.hint(n, n, n)
    return Routine(name, arguments, [_same(n, n)], results, [(0, 0)], flops=flops)


def _gtsv(p: Problem) -> Routine:
    """Tridiagonal systems: lower diagonal (its first element unused), diagonal, upper diagonal, right-hand sides ->
    all four overwritten, the last with the solutions; info."""
    n, sides = p.matrix(3)
    # LAPACK's lower diagonal begins with the second row.
    arguments = n, sides, Result(0, skip=1), Result(1), Result(2), Result(3), _leading(n), Result(4)
    copies = [(number, number) for number in range(4)]
    arrays = [*[_same(n)] * 3, _same(n, sides)]
    return Routine("gtsv", arguments, arrays, [*arrays, _INFO], copies, flops=5 * p.hint(n, sides + 1))


def _potrf(p: Problem) -> Routine:
    """Cholesky: a -> the factor in the triangle that is named, the other one as it was; info."""
    n = p.order()
    arguments = p.letter_of("uplo", "LU"), n, Result(0), _leading(n), Result(1)
    return Routine("potrf", arguments, [_same(n, n)], [_same(n, n), _INFO], [(0, 0)], flops=p.hint(n, n, n) / 3)


def _trsm(p: Problem) -> Routine:
    """Triangular systems: triangles, right-hand sides -> solutions."""
    p.require(len(p.call.operands) == 2, "takes triangles and right-hand sides")
    m, n = p.matrix(1)
    side = p.letter_of("side", "LR")
    order = m if side == "L" else n
    texts = side, p.letter_of("uplo", "LU"), p.letter_of("trans_x", "NTC"), p.letter_of("diag", "NU")
    arguments = *texts, m, n, Given.ONE, Operand(0), _leading(order), Result(0), _leading(m)
    operands = [_same(order, order), _same(m, n)]
    flops = p.hint(m, n, order)
    return Routine("trsm", arguments, operands, [_same(m, n)], [(1, 0)], flops=flops, library="blas")


Maker: TypeAlias = Callable[[Problem], Routine]

_FAMILIES: dict[str, Maker] = {
    "getrf": _getrf,
    "geqrf": _geqrf,
    "geqp3": _geqp3,
    "gesdd": lambda p: _svd(p, "gesdd"),
    "gesvd": lambda p: _svd(p, "gesvd"),
    "geev": _geev,
    "gees": _gees,
    "gehrd": _gehrd,
    "gtsv": _gtsv,
    "potrf": _potrf,
    "trsm": _trsm,
}
_BY_FIELD: dict[tuple[str, str], Maker] = {
    ("orgqr", "ungqr"): _orgqr,
    ("ormqr", "unmqr"): _ormqr,
    ("syevd", "heevd"): _syevd,
    ("sytrd", "hetrd"): _sytrd,
}
# Target -> letter of the element type (s f32, d f64, c complex64, z complex128), maker.
TARGETS: dict[str, tuple[str, Maker]] = {
    **{f"lapack_{letter}{name}_ffi": (letter, make) for name, make in _FAMILIES.items() for letter in "sdcz"},
    **{
        f"lapack_{letter}{names[letter in 'cz']}_ffi": (letter, make)
        for names, make in _BY_FIELD.items()
        for letter in "sdcz"
    },
    # What JAX called them until 2025.
    **{f"blas_{letter}trsm_ffi": (letter, _trsm) for letter in "sdcz"},
}
ELEMENTS = {"s": "f32", "d": "f64", "c": "complex<f32>", "z": "complex<f64>"}


def routine_of(call: CustomCall) -> Routine:
    """The routine that answers a call of a target in `TARGETS`.

    Raises:
        UnsupportedError: operands, results or configuration are not what the target takes.
    """
    letter, make = TARGETS[call.target]
    problem = Problem(call, letter)
    routine = typed(problem, make)
    for what, buffers, arrays in (
        ("operands", call.operands, routine.operands),
        ("results", call.results, routine.results),
    ):
        problem.require(len(buffers) == len(arrays), f"has {len(buffers)} {what} instead of {len(arrays)}")
        for number, (buffer, array) in enumerate(zip(buffers, arrays, strict=True)):
            shape = (*batch_of(call, routine), *array.shape)
            expected = f"tensor<{''.join(f'{size}x' for size in shape)}{element_of(letter, array.kind)}>"
            found = f"tensor<{''.join(f'{size}x' for size in buffer.shape)}{buffer.element}>"
            problem.require(found == expected, f"has {found} among its {what}, at {number}, instead of {expected}")
    return routine


def typed(problem: Problem, make: Maker) -> Routine:
    """What a maker gives, for the problem's element type."""
    made = make(problem)
    return replace(made, name=problem.letter + made.name, flops=made.flops * (4.0 if problem.is_complex else 1.0))


def batch_of(call: CustomCall, routine: Routine) -> tuple[IntLike, ...]:
    """The batch dimensions: what stands before the matrix in the first operand."""
    sizes = call.operands[0].shape
    return sizes[: len(sizes) - len(routine.operands[0].shape)]


def element_of(letter: str, kind: str) -> str:
    """The element type of an array, as MLIR prints it."""
    part = "f32" if letter in "sc" else "f64"
    return {SAME: ELEMENTS[letter], REAL: part, COMPLEX: f"complex<{part}>", INTEGER: "i32"}[kind]
