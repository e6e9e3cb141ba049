"""Gaussian elimination with row interchanges of one matrix, as LAPACK's getf2. Golub and Van Loan, "Matrix
Computations", section 3.4."""

from __future__ import annotations

from stablehlo_py.backends.gpu.kernels.matrices import Matrix, Numbers
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I32, Index, Value
from stablehlo_py.codegen.types import Lanes


def factorize(x: Numbers, a: Matrix, pivots: Value, info: Value) -> None:
    """L below the diagonal and U, in place; i32: the rows, from 1, with which rows were exchanged, and the number of
    the first pivot that is zero, or 0."""
    f, least = x.f, min(a.rows, a.columns)

    def column(k: Index, first_zero: Value) -> Value:
        def larger(i: Value, row: Value, most: Value) -> list[Value]:
            size = x.one_norm(a.get(i, k))
            wins = f.cmp("ogt", size, most)
            return [f.select(wins, i, row), f.select(wins, size, most)]

        row, _ = f.loop(f.iadd(k, 1), a.rows, 1, larger, [f.index(k), x.one_norm(a.get(k, k))])
        following = f.index(f.iadd(row, 1))
        f.store(f.cast("trunc", following, I32), pivots, k)

        def exchange(j: Value) -> None:
            one, two = a.get(k, j), a.get(row, j)
            a.set(k, j, two)
            a.set(row, j, one)

        f.if_(f.cmp("ne", row, f.index(k)), lambda: f.loop(0, a.columns, 1, exchange))
        pivot = a.get(k, k)
        is_zero = f.cmp("oeq", x.one_norm(pivot), x.number(0))
        divisor = types.select(f, is_zero, x.one, pivot)
        below = f.iadd(k, 1)
        f.loop(below, a.rows, 1, lambda i: a.set(i, k, x.divided(a.get(i, k), divisor)))

        def update(j: Value) -> None:
            factor = a.get(k, j)
            f.loop(below, a.rows, 1, lambda i: a.set(i, j, x.minus(a.get(i, j), a.get(i, k), factor)))

        f.loop(below, a.columns, 1, update)
        is_first = f.binary("and", is_zero, f.cmp("eq", first_zero, f.const(0)))
        return f.select(is_first, f.index(below), first_zero)

    (first_zero,) = f.loop(0, least, 1, column, [f.const(0)])
    f.store(f.cast("trunc", first_zero, I32), info)


def solve_tridiagonal(x: Numbers, low: Matrix, diagonal: Matrix, up: Matrix, sides: Matrix, info: Value) -> None:
    """Tridiagonal systems as LAPACK's gtsv: three columns of n numbers (the first of `low` and the last of `up` are not
    read), which become those of U, the second one above its diagonal in `low` from 1 on; right-hand sides, which become
    the solutions; i32: the number of the first pivot that is zero, or 0."""
    f, n = x.f, diagonal.rows

    def eliminate(k: Index, first_zero: Value) -> Value:
        following = f.iadd(k, 1)
        below, own = low.get(following, 0), diagonal.get(k, 0)
        swaps = f.cmp("ogt", x.one_norm(below), x.one_norm(own))
        is_last = f.cmp("eq", f.index(following), f.const(n - 1))
        pivot, other = types.select(f, swaps, below, own), types.select(f, swaps, own, below)
        is_zero = f.cmp("oeq", x.one_norm(pivot), x.number(0))
        factor = x.divided(other, types.select(f, is_zero, x.one, pivot))
        above, next_own = up.get(k, 0), diagonal.get(following, 0)
        beside = types.select(f, swaps, next_own, above)
        diagonal.set(k, 0, pivot)
        up.set(k, 0, beside)
        diagonal.set(following, 0, x.minus(types.select(f, swaps, above, next_own), factor, beside))

        def fill() -> None:
            next_above = up.get(following, 0)
            low.set(following, 0, types.select(f, swaps, next_above, x.zero))
            up.set(following, 0, types.select(f, swaps, x.negative(x.times(factor, next_above)), next_above))

        f.if_(is_last, lambda: None, fill)

        def side(c: Index) -> None:
            one, two = sides.get(k, c), sides.get(following, c)
            stays = types.select(f, swaps, two, one)
            sides.set(k, c, stays)
            sides.set(following, c, x.minus(types.select(f, swaps, one, two), factor, stays))

        f.loop(0, sides.columns, 1, side)
        return first(k, is_zero, first_zero)

    def first(k: Index, is_zero: Value, first_zero: Value) -> Value:
        is_first = f.binary("and", is_zero, f.cmp("eq", first_zero, f.const(0)))
        return f.select(is_first, f.index(f.iadd(k, 1)), first_zero)

    (first_zero,) = f.loop(0, n - 1, 1, eliminate, [f.const(0)])
    last_is_zero = f.cmp("oeq", x.one_norm(diagonal.get(n - 1, 0)), x.number(0))
    f.store(f.cast("trunc", first(n - 1, last_is_zero, first_zero), I32), info)

    def substitute(c: Index) -> None:
        def one(done: Index, next_: Lanes, after: Lanes) -> list[Lanes]:
            """Unknown n - 1 - done, from the two after it: zeros where there are none."""
            k = f.index(f.isub(n - 1, done))
            has_next, has_after = (f.cmp("sge", f.index(done), f.const(count)) for count in (1, 2))
            # What lies in the last places was not computed.
            beside = types.select(f, has_next, up.get(k, 0), x.zero)
            second = types.select(f, has_after, low.get(f.imin(f.iadd(k, 1), n - 1), 0), x.zero)
            known = x.minus(x.minus(sides.get(k, c), beside, next_), second, after)
            value = x.divided(known, diagonal.get(k, 0))
            sides.set(k, c, value)
            return [value, next_]

        x.fold(0, n, [x.zero, x.zero], lambda done, values: one(done, *values))

    f.loop(0, sides.columns, 1, substitute)
