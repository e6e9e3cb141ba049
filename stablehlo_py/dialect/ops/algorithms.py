"""Whole algorithms."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from stablehlo_py.dialect import elements
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.ops.factors import Builder, Kind, common_but
from stablehlo_py.dialect.ops.record import Array, Shape, Shapes, op
from stablehlo_py.dialect.types import (
    element_type,
    flag,
    i64,
    i64s,
    is_float,
    is_integer,
    rank,
    shape,
    symint,
    text,
)
from stablehlo_py.dialect.verify import Conditions, alike, one_of, operand_elements, require, same_elements
from stablehlo_py.mlir import ir

FFT_KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")
TRANSPOSES = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
ALGORITHMS = ("DEFAULT", "THREE_FRY", "PHILOX")


def _square_matrices(op: ir.OpView) -> None:
    """The first operand."""
    sizes = shape(op.operands[0])
    require(len(sizes) >= 2 and sizes[-1] == sizes[-2], "needs square matrices in the last two dimensions")


op(
    "cholesky(operand: T) {lower} -> (result: T)",
    "Cholesky factor of the last two dimensions; the other triangle holds the operand's or zeros (spec: "
    "unspecified; we write zeros).",
    checks=(_square_matrices, operand_elements("float or complex")),
    ulps=16,
    factors=common_but(lambda op: (-2, -1), Kind.REPLICATED),
)


def _triangular_solve_shape(c: Conditions, op: ir.Operation, a: Shape, b: Shape) -> Shapes:
    c.united([a[:-2], b[:-2]])
    c.require_equal(a[-1], a[-2])
    c.require_equal(a[-1], b[-2 if flag(op, "left_side") else -1])
    return [b]


def _triangular_solve_factors(b: Builder, op: ir.Operation) -> None:
    rank = len(b.shapes[1])
    b.common(range(rank - 2))
    free = rank - 1 if flag(op, "left_side") else rank - 2
    b.add(b.shapes[1][free], {1: free}, {0: free})


op(
    "triangular_solve(a: any, b: T) {left_side, lower, unit_diagonal, transpose_a} -> (result: T)",
    "Solves op(a) x = b (`left_side`) or x op(a) = b; `transpose_a`: NO_TRANSPOSE TRANSPOSE ADJOINT.",
    checks=(
        _square_matrices,
        operand_elements("float or complex"),
        one_of("transpose_a", TRANSPOSES),
        alike("a", "b"),
    ),
    ulps=16,
    shapes=_triangular_solve_shape,
    factors=_triangular_solve_factors,
)


def _check_fft(op: ir.OpView) -> None:
    """fft."""
    kind, length = text(op, "kind"), i64s(op, "length")
    entries = 1 <= len(length) <= 3 and len(length) <= rank(op.operands[0])
    require(entries, "length needs one to three entries, at most the rank")
    require(is_float(element_type(op.operands[0])) == (kind == "RFFT"), f"{kind} of elements of another kind")
    require(is_float(element_type(op.results[0])) == (kind == "IRFFT"), f"{kind} gives elements of another kind")


def fft_operand_sizes(kind: str, length: Sequence[int]) -> tuple[int, ...]:
    """Sizes of the dimensions that a transform takes (spec, section fft, C4 to C6): the half for an IRFFT."""
    if kind == "IRFFT" and length[-1]:
        return (*length[:-1], length[-1] // 2 + 1)
    return tuple(length)


def _fft_shape(c: Conditions, op: ir.Operation, x: Shape) -> Shapes:
    """Real transforms change the last dimension: RFFT to the half that determines the rest, IRFFT back."""
    kind, length = text(op, "kind"), i64s(op, "length")
    for size in length:
        c.require_at_most(0, size)
    c.united([x[-len(length) :], fft_operand_sizes(kind, length)])
    half = kind == "RFFT" and length[-1]
    return [[*x[: -len(length)], *length[:-1], length[-1] // 2 + 1 if half else length[-1]]]


op(
    "fft(operand: any) {kind, length} -> (result: any)",
    "Fourier transform of the last len(`length`) dimensions; `kind`: FFT IFFT RFFT IRFFT.",
    checks=(one_of("kind", FFT_KINDS), _check_fft),
    ulps=16,
    shapes=_fft_shape,
    factors=common_but(lambda op: range(-len(i64s(op, "length")), 0)),
)


def _check_rng_bit_generator(op: ir.OpView) -> None:
    """rng_bit_generator."""
    state = op.operands[0]
    require(rank(state) == 1 and is_integer(element_type(state)), "state must be a vector of integers")


op(
    "rng_bit_generator(state: T) {algorithm} -> (new_state: T, bits: any)",
    "Random bits from a state; `algorithm`: DEFAULT THREE_FRY PHILOX.",
    checks=(one_of("algorithm", ALGORITHMS), _check_rng_bit_generator),
    factors=lambda b, op: None,  # bits depend on the number of their element: all are replicated
)


def _check_top_k(op: ir.OpView) -> None:
    """top_k."""
    require(rank(op.operands[0]) >= 1, "needs a dimension to choose from")
    require(str(element_type(op.results[1])) == "i32", "indices must be i32")


def _top_k_shape(c: Conditions, op: ir.Operation, x: Shape) -> Shapes:
    k = symint(op, "k")
    c.require_within([k], x[-1:])
    return [(*x[:-1], k)] * 2


def _top_k(op: ir.Operation, operands: list[Array], body: Callable[[int], object]) -> list[Array]:
    (x,) = operands
    keys = (
        elements.total_order_key(x)
        if "float" in x.dtype.name
        else x.astype(np.uint64 if x.dtype.kind == "u" else np.int64)
    )
    # ~key turns the order around without overflow, and leaves ties in the order of their indices.
    places = np.argsort(~keys, -1, kind="stable")[..., : i64(op, "k")]
    return [np.take_along_axis(x, places, -1), places.astype(numpy_dtype(element_type(op.results[1])))]


op(
    "top_k(operand: any) {k} -> (values: any, indices: any)",
    "The `k` largest elements of the last dimension, in descending (total) order, ties by lower index; and their "
    "i32 indices.",
    checks=(same_elements, _check_top_k),
    region_value=_top_k,
    shapes=_top_k_shape,
    factors=common_but(lambda op: [-1]),
)
