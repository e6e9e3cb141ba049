"""Householder reflections of one matrix, as LAPACK's unblocked routines compute them (geqr2, org2r, sytd2). Golub and
Van Loan, "Matrix Computations", sections 5.1, 5.2 and 8.3.1.

A reflection is H = I - tau v v^H with v = (1, v_1, ...). v_1 and what follows lie where elements of the matrix have
become zero, tau in an array of its own.
"""

from __future__ import annotations

from stablehlo_py.backends.gpu.kernels.matrices import Matrix, Numbers, Reals
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import Index, Value
from stablehlo_py.codegen.types import Lanes


def reflector(x: Numbers, a: Matrix, row: Index, column: Index) -> tuple[Value, Lanes]:
    """Makes the elements of a column below `row` zero: v lies there then. Returns the element at `row`, which is real
    (the matrix still has the old one), and tau."""
    f, below = x.f, x.f.iadd(row, 1)
    alpha = a.get(row, column)
    parts = types.parts(alpha)

    def larger(i: Value, most: Value) -> Value:
        return x.larger(most, x.size(a.get(i, column)))

    (largest,) = f.loop(below, a.rows, 1, larger, [x.number(0)])
    unit = f.select(f.cmp("oeq", largest, x.number(0)), x.number(1), largest)

    def add(i: Value, total: Value) -> Value:
        return f.fadd(total, x.square(x.over_real(a.get(i, column), unit)))

    (squares,) = f.loop(below, a.rows, 1, add, [x.number(0)])
    length = f.fmul(unit, f.intrinsic("sqrt", squares))
    nothing = f.cmp("oeq", length, x.number(0))  # H = I
    if len(parts) == 2:
        nothing = f.binary("and", nothing, f.cmp("oeq", parts[1], x.number(0)))
    turned = f.fneg(f.intrinsic("copysign", x.hypotenuse(*parts, length), parts[0]))
    divisor = f.select(nothing, x.number(1), turned)
    difference = x.difference(alpha, x.of_real(turned))
    tau = x.over_real(x.negative(difference), divisor)
    scale = x.divided(x.one, types.select(f, nothing, x.one, difference))
    f.loop(below, a.rows, 1, lambda i: a.set(i, column, x.times(a.get(i, column), scale)))
    return f.select(nothing, parts[0], turned), types.select(f, nothing, x.zero, tau)


def reflect(x: Numbers, a: Matrix, row: Index, column: Index, tau: Lanes, begin: Index, end: Index) -> None:
    """Columns [begin, end) of `a`, from `row` on, become H times them, with the v that lies below `row` in `column`."""
    f, below = x.f, x.f.iadd(row, 1)

    def one(j: Value) -> None:
        def step(i: Value, total: list[Lanes]) -> list[Lanes]:
            return [x.plus(total[0], x.conjugate(a.get(i, column)), a.get(i, j))]

        (product,) = x.fold(below, a.rows, [a.get(row, j)], step)
        product = x.times(tau, product)
        a.set(row, j, x.difference(a.get(row, j), product))
        f.loop(below, a.rows, 1, lambda i: a.set(i, j, x.minus(a.get(i, j), a.get(i, column), product)))

    f.loop(begin, end, 1, one)


def factorize(x: Numbers, a: Matrix, factors: Value) -> None:
    """QR in place: R above the vectors of the reflections, min(rows, columns) factors tau."""
    f = x.f

    def one(k: Value) -> None:
        beta, tau = reflector(x, a, k, k)
        types.store(f, x.of, tau, factors, k)
        reflect(x, a, k, k, x.conjugate(tau), f.iadd(k, 1), a.columns)
        a.set(k, k, x.of_real(beta))

    f.loop(0, min(a.rows, a.columns), 1, one)


def multiply_out(x: Numbers, a: Matrix, factors: Value, count: int) -> None:
    """The first columns of Q = H_0 H_1 ..., as many as `a` has, in place of the vectors of `count` reflections."""
    f = x.f
    f.loop(count, a.columns, 1, lambda j: f.loop(0, a.rows, 1, lambda i: a.set(i, j, a.unit(i, j))))

    def one(done: Value) -> None:
        k = f.index(f.isub(count - 1, done))
        tau = types.load(f, x.of, factors, k)
        reflect(x, a, k, k, tau, f.iadd(k, 1), a.columns)
        f.loop(f.iadd(k, 1), a.rows, 1, lambda i: a.set(i, k, x.negative(x.times(tau, a.get(i, k)))))
        a.set(k, k, x.difference(x.one, tau))
        f.loop(0, k, 1, lambda i: a.set(i, k, x.zero))

    f.loop(0, count, 1, one)


def tridiagonalize(x: Numbers, a: Matrix, diagonal: Reals, beside: Reals, factors: Matrix, work: Matrix) -> None:
    """Q^H A Q of a Hermitian matrix by its lower triangle, in place: the diagonal, n - 1 elements beside it, vectors of
    the reflections below those, their factors. `work`: a column of n numbers."""
    f, n = x.f, a.rows

    def element(i: Index, j: Index) -> Lanes:
        """Of the whole matrix."""
        is_lower = f.cmp("sge", f.index(i), f.index(j))
        low, high = f.imax(i, j), f.imin(i, j)
        value = a.get(low, high)
        return types.select(f, is_lower, value, x.conjugate(value))

    def one(k: Value) -> None:
        first = f.index(f.iadd(k, 1))
        diagonal.set(k, types.parts(a.get(k, k))[0])
        beta, tau = reflector(x, a, first, k)
        beside.set(k, beta)
        factors.set(k, 0, tau)
        a.set(first, k, x.one)

        def product(i: Value) -> None:
            (total,) = x.fold(first, n, [x.zero], lambda j, t: [x.plus(t[0], element(i, j), a.get(j, k))])
            work.set(i, 0, x.times(tau, total))

        f.loop(first, n, 1, product)
        (inner,) = x.fold(first, n, [x.zero], lambda i, t: [x.plus(t[0], x.conjugate(work.get(i, 0)), a.get(i, k))])
        half = x.scaled(x.times(tau, inner), x.number(-0.5))
        f.loop(first, n, 1, lambda i: work.set(i, 0, x.plus(work.get(i, 0), half, a.get(i, k))))

        def update(j: Value) -> None:
            v, w = x.conjugate(a.get(j, k)), x.conjugate(work.get(j, 0))
            f.loop(j, n, 1, lambda i: a.set(i, j, x.minus(x.minus(a.get(i, j), a.get(i, k), w), work.get(i, 0), v)))

        f.loop(first, n, 1, update)
        a.set(first, k, x.of_real(beta))

    f.loop(0, n - 1, 1, one)
    diagonal.set(n - 1, types.parts(a.get(n - 1, n - 1))[0])
