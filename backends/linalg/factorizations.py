"""Cholesky factors and triangular systems: loops over tensors, as the textbook has them (Golub and Van Loan, 3.1 and
4.2)."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.backends.common.loops import fold
from stablehlo_py.backends.linalg.rules import RULES
from stablehlo_py.backends.linalg.shape import transposed
from stablehlo_py.backends.linalg.tensors import Tensor, TensorFunction
from stablehlo_py.codegen.arith import rounded
from stablehlo_py.codegen.builder import Index, Value
from stablehlo_py.codegen.region import field_arithmetic, subtract_product
from stablehlo_py.codegen.types import Lanes, constant, parts, select
from stablehlo_py.dialect.types import flag, text
from stablehlo_py.mlir import ir


def _conjugate(f: TensorFunction, a: Lanes) -> Lanes:
    return (a[0], f.fneg(a[1])) if isinstance(a, tuple) else a


@RULES.rule("hlo.cholesky")
def _cholesky(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    (operand,), lower = tensors, flag(op, "lower")
    *batch, n, _ = operand.sizes
    of, zero = operand.of, constant(f, operand.of, 0)
    if 0 in operand.sizes:
        return [operand]

    def matrix(at: list[Value], written: list[Tensor]) -> list[Tensor]:
        def read(tensor: Tensor, i: Index, j: Index) -> Lanes:
            """Element (i, j) of the lower triangle, of the operand or of the factor."""
            value = f.element(tensor, [*at, i, j] if lower else [*at, j, i])
            return value if lower else _conjugate(f, value)

        def row(i: Index, value: Value) -> Value:
            def column(j: Index, value: Value) -> Value:
                """L[i, j] = (A[i, j] - sum of L[i, k] conj(L[j, k])) / L[j, j], of k below j."""
                factor = written[0].like(value)

                def term(k: Index, total: list[Lanes]) -> list[Lanes]:
                    return [subtract_product(f, total[0], read(factor, i, k), _conjugate(f, read(factor, j, k)))]

                # Above the diagonal nothing is read of the operand: zeros stand there.
                is_below = f.cmp("sle", f.index(j), f.index(i))
                inner = f.imin(j, i)
                (rest,) = fold(f, 0, inner, 1, [read(operand, i, inner)], term)
                root = f.intrinsic("sqrt", parts(rest)[0])
                pivot: Lanes = (root, f.const(0.0, root.type)) if of.is_complex else root
                ratio = field_arithmetic(f, "divide", rest, read(factor, inner, inner))
                found = select(f, f.cmp("eq", f.index(i), f.index(j)), pivot, ratio)
                found = rounded(f, of, select(f, is_below, found, zero))
                found = found if lower else _conjugate(f, found)
                return f.with_element(found, factor, [*at, i, j] if lower else [*at, j, i])

            return f.loop(0, n, 1, column, [value])[0]

        (result,) = f.loop(0, n, 1, row, [written[0]])
        return [written[0].like(result)]

    return f.nest(batch, [f.filled(constant(f, of, 1), operand.sizes, of)], matrix)


@RULES.rule("hlo.triangular_solve")
def _triangular_solve(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    a, b = tensors
    left, transpose = flag(op, "left_side"), text(op, "transpose_a")
    if 0 in b.sizes:
        return [b]
    rank = len(b.sizes)
    order = [*range(rank - 2), rank - 1, rank - 2]
    # x op(a) = b is op(a)^T x^T = b^T.
    sides = b if left else transposed(f, b, order)
    swapped = (transpose != "NO_TRANSPOSE") == left
    forward = flag(op, "lower") != swapped
    *batch, n, count = sides.sizes

    def coefficient(at: Sequence[Index], i: Index, j: Index) -> Lanes:
        value = f.element(a, [*at, j, i] if swapped else [*at, i, j])
        return _conjugate(f, value) if transpose == "ADJOINT" else value

    def system(at: list[Value], written: list[Tensor]) -> list[Tensor]:
        def unknown(number: Index, value: Value) -> Value:
            i = number if forward else f.isub(n - 1, number)

            def side(s: Index, value: Value) -> Value:
                solution = written[0].like(value)

                def term(k: Index, total: list[Lanes]) -> list[Lanes]:
                    j = k if forward else f.isub(n - 1, k)
                    return [subtract_product(f, total[0], coefficient(at, i, j), f.element(solution, [*at, j, s]))]

                (rest,) = fold(f, 0, number, 1, [f.element(solution, [*at, i, s])], term)
                if not flag(op, "unit_diagonal"):
                    rest = field_arithmetic(f, "divide", rest, coefficient(at, i, i))
                return f.with_element(rounded(f, b.of, rest), solution, [*at, i, s])

            return f.loop(0, count, 1, side, [value])[0]

        (result,) = f.loop(0, n, 1, unknown, [written[0]])
        return [written[0].like(result)]

    (solved,) = f.nest(batch, [sides], system)
    return [solved if left else transposed(f, solved, order)]
