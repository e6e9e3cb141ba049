"""Eigenvalues and singular values of one matrix by Jacobi's rotations: of both sides of a Hermitian matrix, or of the
columns of any (Hestenes). Golub and Van Loan, "Matrix Computations", sections 8.5 and 8.6.3; Demmel and Veselic,
"Jacobi's method is more accurate than QR", 1992.

A sweep rotates each pair of columns once. Sweeps go on until one finds nothing to rotate: from some point on each
squares what is left, so there are 5 to 12.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stablehlo_py.backends.gpu.kernels import householder
from stablehlo_py.backends.gpu.kernels.matrices import Matrix, Numbers, Reals
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I64, Index, Value
from stablehlo_py.codegen.types import Lanes

MOST_SWEEPS = 40


@dataclass(frozen=True)
class _Rotation:
    """p' = cosine p - sine turn q, q' = sine p + cosine turn q: a unitary change of two columns."""

    x: Numbers
    cosine: Value
    sine: Value
    turn: Lanes

    @classmethod
    def between(cls, x: Numbers, first: Value, second: Value, product: Lanes, size: Value) -> _Rotation:
        """The smaller angle by which [[first, product], [conj(product), second]] becomes diagonal; size = |product|."""
        f, one = x.f, x.number(1)
        ratio = f.fdiv(f.fsub(second, first), f.fmul(x.number(2), size))
        root = f.intrinsic("sqrt", f.fadd(f.fmul(ratio, ratio), one))
        tangent = f.fdiv(f.intrinsic("copysign", one, ratio), f.fadd(f.intrinsic("fabs", ratio), root))
        cosine = f.fdiv(one, f.intrinsic("sqrt", f.fadd(f.fmul(tangent, tangent), one)))
        return cls(x, cosine, f.fmul(tangent, cosine), x.over_real(x.conjugate(product), size))

    def apply(self, p: Lanes, q: Lanes, *, conjugated: bool = False) -> tuple[Lanes, Lanes]:
        """Of two elements of a row; `conjugated`: of a column, for the other side of a Hermitian matrix."""
        x = self.x
        turned = x.times(x.conjugate(self.turn) if conjugated else self.turn, q)
        one = x.difference(x.scaled(p, self.cosine), x.scaled(turned, self.sine))
        return one, x.sum(x.scaled(p, self.sine), x.scaled(turned, self.cosine))

    def columns(self, a: Matrix, p: Index, q: Index) -> None:
        """Two columns of a matrix."""

        def row(i: Value) -> None:
            one, two = self.apply(a.get(i, p), a.get(i, q))
            a.set(i, p, one)
            a.set(i, q, two)

        self.x.f.loop(0, a.rows, 1, row)


def _sweeps(x: Numbers, n: int, pair: Callable[[Value, Value], Value]) -> None:
    """`pair(p, q)`, p < q < n, again and again: it says (i64) whether there was something to rotate."""
    f = x.f

    def sweep(number: Value, _: Value) -> list[Value]:
        def row(p: Value, count: Value) -> list[Value]:
            return f.loop(f.iadd(p, 1), n, 1, lambda q, found: f.binary("add", found, pair(p, q)), [count])

        (count,) = f.loop(0, n - 1, 1, row, [f.const(0)])
        return [f.index(f.iadd(number, 1)), count]

    def goes_on(number: Value, count: Value) -> Value:
        return f.binary("and", f.cmp("ne", count, f.const(0)), f.cmp("slt", number, f.const(MOST_SWEEPS)))

    if n > 1:
        f.while_([f.const(0), f.const(1)], goes_on, sweep)


def _rotated(x: Numbers, needed: Value, rotate: Callable[[], None]) -> Value:
    x.f.if_(needed, rotate)
    return x.f.cast("zext", needed, I64)


def eigenvalues(x: Numbers, a: Matrix, values: Reals, vectors: Matrix, work: Matrix, unsorted: Reals) -> None:
    """A Hermitian matrix, whole, which is destroyed -> its eigenvalues in ascending order and orthonormal eigenvectors.
    `work`: n x n, `unsorted`: n numbers. Where the matrix is not finite, all values are NaN."""
    f, n = x.f, a.rows
    norm = _norm(x, a)
    least = f.fmul(norm, x.number(x.eps / (4 * max(n, 1))))
    work.fill(work.unit)

    def pair(p: Value, q: Value) -> Value:
        product = a.get(p, q)
        size = x.hypotenuse(*types.parts(product))

        def rotate() -> None:
            first, second = (types.parts(a.get(each, each))[0] for each in (p, q))
            rotation = _Rotation.between(x, first, second, product, size)
            rotation.columns(a, p, q)

            def other_side(j: Value) -> None:
                one, two = rotation.apply(a.get(p, j), a.get(q, j), conjugated=True)
                a.set(p, j, one)
                a.set(q, j, two)

            f.loop(0, n, 1, other_side)
            a.set(p, q, x.zero)
            a.set(q, p, x.zero)
            rotation.columns(work, p, q)

        return _rotated(x, f.cmp("ogt", size, least), rotate)

    _sweeps(x, n, pair)
    none = f.fsub(norm, norm)  # 0, or NaN
    f.loop(0, n, 1, lambda i: unsorted.set(i, f.fadd(types.parts(a.get(i, i))[0], none)))
    _in_order(x, n, unsorted, False, values, lambda j, to: _copy_column(x, work, j, vectors, to))


def singular_values(
    x: Numbers, a: Matrix, values: Reals, left: Matrix | None, right: Matrix | None, work: tuple[Matrix, Matrix, Reals]
) -> None:
    """A matrix with no more columns (n) than rows, which is destroyed -> its singular values in descending order; all
    left singular vectors, or the first ones, as columns of `left`, and the right ones as columns of `right`. `work`:
    n x n, a column of n, n real numbers. Where the matrix is not finite, all values are NaN."""
    f, n = x.f, a.columns
    v, factors, unsorted = work
    largest = _norm(x, a)
    none = f.fsub(largest, largest)
    safe = f.binary("and", f.cmp("ogt", largest, x.number(0)), f.cmp("oeq", none, x.number(0)))
    unit = f.select(safe, largest, x.number(1))
    a.each(lambda i, j: a.set(i, j, x.over_real(a.get(i, j), unit)))
    v.fill(v.unit)

    def pair(p: Value, q: Value) -> Value:
        def step(i: Value, totals: list[Lanes]) -> list[Lanes]:
            one, two = a.get(i, p), a.get(i, q)
            first, second, product = totals
            assert isinstance(first, Value)
            assert isinstance(second, Value)
            squares = f.fadd(first, x.square(one)), f.fadd(second, x.square(two))
            return [*squares, x.plus(product, x.conjugate(one), two)]

        first, second, product = x.fold(0, a.rows, [x.number(0), x.number(0), x.zero], step)
        assert isinstance(first, Value)
        assert isinstance(second, Value)
        size = x.hypotenuse(*types.parts(product))
        bound = f.fmul(f.intrinsic("sqrt", first), f.intrinsic("sqrt", second))
        bound = x.larger(f.fmul(bound, x.number(x.eps * a.rows**0.5)), x.number(x.least / x.eps))

        def rotate() -> None:
            rotation = _Rotation.between(x, first, second, product, size)
            rotation.columns(a, p, q)
            rotation.columns(v, p, q)

        return _rotated(x, f.cmp("ogt", size, bound), rotate)

    _sweeps(x, n, pair)

    def length(j: Value) -> None:
        (squares,) = f.loop(0, a.rows, 1, lambda i, t: f.fadd(t, x.square(a.get(i, j))), [x.number(0)])
        unsorted.set(j, f.fadd(f.fmul(f.intrinsic("sqrt", squares), unit), none))

    f.loop(0, n, 1, length)

    def column(j: Value, to: Value) -> None:
        if left is not None and right is not None:
            _copy_column(x, a, j, left, to)
            _copy_column(x, v, j, right, to)

    _in_order(x, n, unsorted, True, values, column)
    if left is None:
        return
    # The columns are orthogonal: R of their QR factorization is diagonal. Q is orthonormal also where they are zero.
    narrow = Matrix(x, left.base, left.rows, n, left.leading, adjoint=left.adjoint)
    householder.factorize(x, narrow, factors.base)
    f.loop(0, n, 1, lambda j: unsorted.set(j, f.intrinsic("copysign", x.number(1), types.parts(left.get(j, j))[0])))
    householder.multiply_out(x, left, factors.base, n)
    left.each(lambda i, j: left.set(i, j, x.scaled(left.get(i, j), unsorted.get(j))), columns=n)


def _norm(x: Numbers, a: Matrix) -> Value:
    """The root of the sum of squares; NaN or infinite where an element is."""
    f = x.f

    def over(step: Callable[[Lanes, Value], Value]) -> Value:
        def column(j: Value, total: Value) -> list[Value]:
            return f.loop(0, a.rows, 1, lambda i, inner: step(a.get(i, j), inner), [total])

        return f.loop(0, a.columns, 1, column, [x.number(0)])[0]

    largest = over(lambda value, most: x.larger(most, x.size(value)))
    unit = f.select(f.cmp("ogt", largest, x.number(0)), largest, x.number(1))
    squares = over(lambda value, total: f.fadd(total, x.square(x.over_real(value, unit))))
    return f.fmul(unit, f.intrinsic("sqrt", squares))


def _copy_column(x: Numbers, a: Matrix, j: Index, to: Matrix, number: Index) -> None:
    x.f.loop(0, a.rows, 1, lambda i: to.set(i, number, a.get(i, j)))


def _in_order(
    x: Numbers, n: int, unsorted: Reals, descending: bool, values: Reals, move: Callable[[Value, Value], None]
) -> None:
    """Sorts n values, equal ones as they come; `move(j, to)` for each of them."""
    f = x.f

    def one(j: Index) -> None:
        mine = unsorted.get(j)

        def count(i: Index, before: Value) -> Value:
            other = unsorted.get(i)
            less = f.cmp("ogt" if descending else "olt", other, mine)
            more = f.cmp("olt" if descending else "ogt", other, mine)
            earlier = f.binary(
                "and", f.cmp("slt", f.index(i), f.index(j)), f.binary("xor", more, f.const(True, more.type))
            )
            return f.binary("add", before, f.cast("zext", f.binary("or", less, earlier), I64))

        (place,) = f.loop(0, n, 1, count, [f.const(0)])
        values.set(place, mine)
        move(f.index(j), place)

    f.loop(0, n, 1, one)
