"""Every rule of `simplify`: it fires on its pattern, and no value changes, on special values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hlo_values import (
    add,
    best_place,
    between_zeros,
    compare,
    constant,
    convert,
    cut,
    div,
    dynamic_slice,
    gather,
    in_order,
    iota,
    join,
    least,
    like,
    masked,
    most,
    mul,
    one_zero,
    pad,
    power,
    reduce,
    scalar,
    select,
    sub,
    total,
    typed,
    unary,
)
from scatters import BOX, EACH, ROW, scatter

from stablehlo_py.dialect import build as b
from stablehlo_py.dialect.attributes import WHOLE_WINDOWS
from stablehlo_py.mlir import ir
from stablehlo_py.passes.peephole import peephole_rules
from stablehlo_py.passes.simplify_rules import EXACT
from stablehlo_py.passes.simplify_rules import reduce as simplify_reduce
from stablehlo_py.passes.simplify_rules.collectives import COLLECTIVES
from stablehlo_py.passes.simplify_rules.library import LIBRARY
from stablehlo_py.passmanager.rewrite import apply_rules

F, N, U, B, C = "16xf32", "16xi32", "16xui8", "16xi1", "16xcomplex<f32>"

neg, abs_, exp = unary("negate"), unary("abs"), unary("exponential")
not_, rev = unary("not"), lambda x, *dimensions: b.like("reverse", x, dimensions=dimensions)


@dataclass(frozen=True)
class Case:
    rule: str
    types: tuple[str, ...]
    body: Callable[..., ir.Value]
    tolerance: float = 0.0


def case(rule: str, types: str, body: Callable[..., ir.Value], tolerance: float = 0.0) -> Case:
    return Case(rule, tuple(types.split()), body, tolerance)


ARITHMETIC = [
    case("constant-right", F, lambda x: add(like(x, 1.5), x)),
    case("constant-right", N, lambda x: b.like("xor", like(x, 3), x)),
    case("identity", N, lambda x: add(x, like(x, 0))),
    case("identity", F, lambda x: add(x, like(x, -0.0))),
    case("add-zero", F, lambda x: add(mul(x, x), like(x, 0.0))),
    case("constants-together", N, lambda x: add(add(x, like(x, 2**31 - 1)), like(x, 5))),
    case("constants-together", U, lambda x: mul(mul(x, like(x, 77)), like(x, 5))),
    case("add-negated", f"{F} {F}", lambda x, y: add(x, neg(y))),
    case("add-negated", f"{F} {F}", lambda x, y: add(neg(x), y)),
    case("subtract-negated", f"{F} {F}", lambda x, y: sub(x, neg(y))),
    case("subtract-zero", F, lambda x: sub(x, like(x, 0.0))),
    case("subtract-constant", N, lambda x: sub(x, like(x, -(2**31)))),
    case("subtract-self", N, lambda x: sub(x, x)),
    case("zero-subtract", N, lambda x: sub(like(x, 0), x)),
    case("zero-subtract", F, lambda x: sub(like(x, -0.0), x)),
    case("subtract-sum", f"{N} {N}", lambda x, y: sub(add(x, y), y)),
    case("subtract-sum", f"{N} {N}", lambda x, y: sub(add(x, y), x)),
    case("identity", F, lambda x: mul(x, like(x, 1))),
    case("one-right", N, lambda x: div(x, like(x, 1))),
    case("one-right", F, lambda x: power(x, like(x, 1))),
    case("absorbing", N, lambda x: mul(x, like(x, 0))),
    case("minus-one-right", F, lambda x: mul(x, like(x, -1))),
    case("minus-one-right", N, lambda x: div(x, like(x, -1))),
    case("negated-both", f"{F} {F}", lambda x, y: mul(neg(x), neg(y))),
    case("negated-both", f"{F} {F}", lambda x, y: div(neg(x), neg(y))),
    case("negated-by-constant", F, lambda x: mul(neg(x), like(x, 2.5))),
    case("negated-by-constant", F, lambda x: div(neg(x), like(x, 2.5))),
    case("divide-by-power-of-two", F, lambda x: div(x, like(x, 8))),
    case("divide-by-power-of-two", F, lambda x: div(x, like(x, -(2.0**-100)))),
    case("divide-by-power-of-two", "16xbf16", lambda x: div(x, like(x, 0.25))),
    case("divide-by-power-of-two", "16xf16", lambda x: div(x, like(x, 1024))),
    case("remainder-one", N, lambda x: b.like("remainder", x, like(x, 1))),
    case("logistic", F, lambda x: div(like(x, 1), add(like(x, 1), exp(neg(x)))), 1e-6),
    case("logistic", F, lambda x: div(like(x, 1), add(exp(neg(x)), like(x, 1))), 1e-6),
    case("power-of-constant", F, lambda x: power(x, like(x, 2)), 1e-6),
    case("power-of-constant", F, lambda x: power(x, like(x, 3)), 1e-6),
    case("power-of-constant", F, lambda x: power(x, like(x, -1)), 1e-6),
    case("power-of-constant", F, lambda x: power(x, like(x, 0))),
    case("power-of-constant", N, lambda x: power(x, like(x, 13))),
    *(case("power-of-halves", F, lambda x, n=n: power(x, like(x, n)), 1e-6) for n in (1.5, 2.5, -1.5)),
    case("power-of-one", F, lambda x: power(like(x, 1), x)),
    case("involution", F, lambda x: neg(neg(x))),
    case("involution", N, lambda x: not_(not_(x))),
    case("negate-difference", f"{N} {N}", lambda x, y: neg(sub(x, y))),
    case("negate-product", F, lambda x: neg(mul(x, like(x, 3)))),
    case("negate-product", N, lambda x: neg(mul(x, like(x, 3)))),
    case("abs-of-abs", F, lambda x: abs_(abs_(x))),
    case("abs-of-abs", N, lambda x: abs_(neg(x))),
    case("round-whole", F, lambda x: b.like("ceil", b.like("floor", x))),
    case("round-whole", N, lambda x: b.like("round_nearest_afz", convert(x, "f32"))),
    case(
        "part-of-complex",
        f"{F} {F}",
        lambda x, y: b.value("imag", x.type, b.value("complex", typed("16xcomplex<f32>"), x, y)),
    ),
    case("part-of-real", F, lambda x: b.value("real", typed("16xf64"), convert(x, "complex<f64>"))),
    case("part-of-real", F, lambda x: b.value("imag", x.type, convert(x, "complex<f32>"))),
    case("part-of-sum", f"{C} {C}", lambda x, y: b.value("real", typed(F), sub(b.like("negate", x), add(y, x)))),
    case("part-of-sum", "4x7xcomplex<f32>", lambda x: b.value("imag", typed("4xf32"), total(x)), 1e-6),
    case(
        "complex-of-parts",
        "4xcomplex<f32>",
        lambda z: b.value("complex", z.type, *(b.value(part, typed("4xf32"), z) for part in ("real", "imag"))),
    ),
    case("identity", F, lambda x: least(x, like(x, math.inf))),
    case("identity", N, lambda x: b.like("or", x, like(x, 0))),
    case("identity", N, lambda x: b.like("xor", x, like(x, 0))),
    case("absorbing", U, lambda x: least(x, like(x, 0))),
    case("absorbing", U, lambda x: b.like("or", x, like(x, 255))),
    case("absorbing", N, lambda x: b.like("or", x, like(x, -1))),
    case("idempotent", F, lambda x: most(x, x)),
    case("idempotent", N, lambda x: b.like("or", x, x)),
    case("identity", F, lambda x: most(x, like(x, -math.inf))),
    case("identity", U, lambda x: least(x, like(x, 255))),
    case("absorbing", N, lambda x: most(x, like(x, 2**31 - 1))),
    case("idempotent-twice", f"{F} {F}", lambda x, y: most(most(x, y), y)),
    case("constants-together", F, lambda x: least(least(x, like(x, 2)), like(x, 3))),
    case("clamp-twice", F, lambda x: most(least(most(x, like(x, -0.0)), like(x, 6)), like(x, -0.0))),
    case("extremum-absorbs", f"{N} {N}", lambda x, y: most(least(x, y), x)),
]
LOGIC = [
    case("identity", N, lambda x: b.like("and", x, like(x, -1))),
    case("identity", U, lambda x: b.like("and", x, like(x, 255))),
    case("absorbing", B, lambda x: b.like("and", x, like(x, False))),
    case("absorbing", B, lambda x: b.like("or", x, like(x, True))),
    case("xor-constant", N, lambda x: b.like("xor", x, like(x, -1))),
    case("xor-constant", N, lambda x: b.like("xor", x, x)),
    case("constants-together", N, lambda x: b.like("or", b.like("or", x, like(x, 12)), like(x, 3))),
    case("idempotent-twice", f"{N} {N}", lambda x, y: b.like("and", b.like("and", x, y), y)),
    case("bitwise-complement", N, lambda x: b.like("or", x, not_(x))),
    case("xor-twice", f"{N} {N}", lambda x, y: b.like("xor", b.like("xor", x, y), x)),
    case("not-compare", f"{N} {N}", lambda x, y: not_(compare(x, y, "LT"))),
    case("not-compare", f"{F} {F}", lambda x, y: not_(compare(x, y, "EQ"))),
    case("not-compare", f"{F} {F}", lambda x, y: not_(compare(x, y, "LE", total_order=ir.UnitAttr.get()))),
    case("shift-zero", N, lambda x: b.like("shift_left", x, like(x, 0))),
    case("shift-out", N, lambda x: b.like("shift_right_logical", x, like(x, 32))),
    case("shift-out", N, lambda x: b.like("shift_left", x, like(x, -1))),
    case(
        "shift-twice",
        U,
        lambda x: b.like("shift_right_logical", b.like("shift_right_logical", x, like(x, 3)), like(x, 4)),
    ),
    case(
        "shift-twice",
        N,
        lambda x: b.like("shift_right_arithmetic", b.like("shift_right_arithmetic", x, like(x, 3)), like(x, 4)),
    ),
]
CHOOSE = [
    case("compare-constant-right", F, lambda x: compare(like(x, 1), x, "LT")),
    case("compare-self", N, lambda x: compare(x, x, "LE")),
    case(
        "compare-range", "2000xi32", lambda x: select(compare(iota("2000xi32"), like(x, 0), "LT"), x, iota("2000xi32"))
    ),
    case("compare-range", U, lambda x: compare(x, like(x, 0), "GE")),
    case("compare-range", N, lambda x: compare(b.like("and", x, like(x, 7)), like(x, 8), "NE")),
    case("compare-bool", B, lambda x: compare(x, like(x, True), "NE")),
    case("compare-sum", N, lambda x: compare(add(x, like(x, 2**31 - 1)), like(x, -7), "EQ")),
    case("compare-difference", f"{N} {N}", lambda x, y: compare(sub(x, y), like(x, 0), "NE")),
    case(
        "compare-choice",
        f"{B} {N}",
        lambda p, x: compare(select(p, like(x, 0), b.like("maximum", x, like(x, 1))), like(x, 0), "EQ"),
    ),
    case(
        "compare-choice",
        f"{B} {N}",
        lambda p, x: compare(select(p, like(x, 9), b.like("minimum", x, like(x, 8))), like(x, 9), "NE"),
    ),
    case("compare-converted-bool", B, lambda x: compare(convert(x, "f32"), b.splat(0, typed(F)), "NE")),
    case("compare-converted-bool", B, lambda x: compare(convert(x, "i32"), b.splat(1, typed(N)), "LT")),
    case("select-same", f"{B} {F}", lambda p, x: select(p, x, x)),
    case("select-constant", f"{F} {F}", lambda x, y: select(b.splat(False, typed(B)), x, y)),
    case("select-not", f"{B} {F} {F}", lambda p, x, y: select(not_(p), x, y)),
    case("select-bool", f"{B} {B}", lambda p, x: select(p, like(x, True), x)),
    case("select-bool", f"{B} {B}", lambda p, x: select(p, x, like(x, False))),
    case("select-bool", f"{B} {B}", lambda p, x: select(p, like(x, False), x)),
    case("select-bool", f"{B} {B}", lambda p, x: select(p, x, like(x, True))),
    case("select-twice", f"{B} {F} {F} {F}", lambda p, x, y, z: select(p, select(p, x, y), z)),
    case("select-twice", f"{B} {F} {F} {F}", lambda p, x, y, z: select(p, x, select(p, y, z))),
    case("select-equal", f"{N} {N}", lambda x, y: select(compare(x, y, "EQ"), x, y)),
    case("select-extremum", f"{N} {N}", lambda x, y: select(compare(x, y, "LT"), x, y)),
    case("select-extremum", f"{N} {N}", lambda x, y: select(compare(y, x, "LE"), x, y)),
]
CONVERT = [
    case("convert-same", F, lambda x: convert(x, "f32")),
    case("convert-twice", "16xbf16", lambda x: convert(convert(x, "f32"), "bf16")),
    case("convert-twice", "16xi8", lambda x: convert(convert(x, "i32"), "f32")),
    case("convert-twice", F, lambda x: convert(convert(x, "f64"), "i8")),
    case("convert-iota", "2000xf32", lambda x: add(convert(iota("2000xi32"), "f32"), x)),
    case("convert-same", F, lambda x: b.value("bitcast_convert", x.type, x)),
    case(
        "bitcast-twice",
        F,
        lambda x: b.value("bitcast_convert", typed("16xui32"), b.value("bitcast_convert", typed(N), x)),
    ),
    case(
        "reduce-precision-wide", "16xbf16", lambda x: b.like("reduce_precision", x, exponent_bits=8, mantissa_bits=10)
    ),
]
REDUCE = [
    case("reduce-empty", "0x4xf32", lambda x: reduce(x, "add", [0], scalar(3.0))),
    case("reduce-size-one", "4x1xi32", lambda x: reduce(x, "add", [1], scalar(3, "i32"))),
    case("reduce-size-one", "4x1x5xf32", lambda x: reduce(x, "maximum", [1, 2], scalar(-math.inf))),
    case("reduce-broadcast", "4xi32", lambda x: reduce(b.broadcast(x, [4, 7], [0]), "add", [1], scalar(3, "i32"))),
    case("reduce-broadcast", "4xi32", lambda x: reduce(b.broadcast(x, [4, 7], [0]), "add", [0, 1], scalar(3, "i32"))),
    case("reduce-broadcast", "4xf32", lambda x: reduce(b.broadcast(x, [4, 7], [0]), "maximum", [1], scalar(1.0))),
    case(
        "reduce-twice",
        "3x4x5xi32",
        lambda x: reduce(reduce(x, "add", [1], scalar(0, "i32")), "add", [1], scalar(9, "i32")),
    ),
    case("reduce-stack", "4x1xf32 4x1xf32", lambda x, y: reduce(join(1, x, y, x, x, y), "add", [1], scalar(2.0)), 1e-6),
    case("reduce-stack", "1x4xi32 1x4xi32", lambda x, y: reduce(join(0, x, y, x), "multiply", [0], scalar(3, "i32"))),
    case("reduce-stack", "1x4xbf16 1x4xbf16", lambda x, y: reduce(join(0, x, y), "minimum", [0], scalar(1.0, "bf16"))),
    case("reduce-stack", "2x1x3xi1 2x1x3xi1", lambda x, y: reduce(join(1, x, y), "or", [1], scalar(False, "i1"))),
    case("reduce-diagonal", "80x80xf32", lambda x: reduce(masked(x, 0, 1, 0.0), "add", [0, 1], scalar(0.0))),
    case("reduce-diagonal", "80x80xf32", lambda x: reduce(masked(x, 1, 0, 0.0), "add", [0], scalar(0.0))),
    case("reduce-diagonal", "80x80xi32", lambda x: reduce(masked(x, 0, 1, 1), "multiply", [1], scalar(3, "i32"))),
    case("reduce-diagonal", "40x2x3x40xf32", lambda x: reduce(masked(x, 0, 3, -math.inf), "maximum", [0], scalar(1.0))),
    case("reduce-diagonal", "80x80xf32", lambda x: reduce(masked(x, 0, 1, math.inf, 0.5), "minimum", [0], scalar(1.0))),
    case("reduce-diagonal", "40x2x40x3xf32", lambda x: reduce(masked(x, 0, 2, 0.0), "add", [2, 1], scalar(0.0)), 1e-6),
    case("reduce-to-place", "16xf32", lambda x: best_place(x)[1]),
    case("reduce-to-place", "8x5xf32", lambda x: best_place(x)[1]),
    case("reduce-to-place", "8x5xf32", lambda x: best_place(x, "LT")[1]),
    case("reduce-to-place", "2x3x5xi32", lambda x: best_place(x)[1]),
    case("reduce-to-place", "1100xf32", lambda x: best_place(x)[1]),
    case("reduce-to-place", "1x1280xi32", lambda x: best_place(x, "LT")[1]),
    case("reduce-to-place", "7x5xi32", lambda x: best_place(x, "LT", is_nan=False)[1]),
    case("reduce-to-place", "8x5xi1", lambda x: best_place(x)[1]),
    case("reduce-to-place", "8x5xi1", lambda x: best_place(x, "LT", dimension=0)[1]),
    case("reduce-to-place", "8x5xf32", lambda x: best_place(x, dimension=0)[1]),
    case("reduce-to-place", "2x3x5xf32", lambda x: best_place(x, "LT", dimension=1)[1]),
    case("reduce-to-place", "1280x1xi32", lambda x: best_place(x, dimension=0)[1]),
]
MOVE = [
    case("concatenate-one", "3xf32 0xf32", lambda x, y: join(0, x, y)),
    case("concatenate-nested", "3xf32 2xf32", lambda x, y: join(0, join(0, x, y), x)),
    case(
        "concatenate-adjacent-slices",
        "9x2xf32 1x2xf32",
        lambda x, y: join(0, cut(x, (1, 3), (0, 2)), cut(x, (3, 6), (0, 2)), y),
    ),
    case("concatenate-splats", "f32", lambda x: join(0, b.broadcast(x, [1], []), b.broadcast(x, [2], []))),
    case("slice-of-concatenate", "3xf32 4xf32 5xf32", lambda x, y, z: cut(join(0, x, y, z), (1, 6))),
    case("slice-of-concatenate", "3xf32 4xf32 5xf32", lambda x, y, z: cut(join(0, x, y, z), (8, 12, 2))),
    case("slice-of-pad", "5xf32", lambda x: cut(pad(x, scalar(0), [2], [2], [0]), (3, 6))),
    case("pad-nothing", "5xf32", lambda x: pad(x, scalar(0), [0], [0], [0])),
    case("pad-nothing", "0xf32", lambda x: pad(x, scalar(2), [1], [2], [0])),
    case("pad-negative", "5x4xf32", lambda x: pad(x, scalar(0), [-2, 1], [3, -1], [0, 0])),
    case("pad-splat", "f32", lambda x: pad(b.broadcast(x, [5], []), x, [1], [2], [0])),
    case(
        "interleaved",
        "3x4xf32 3x4xf32",
        lambda x, y: add(pad(x, scalar(0), [0, 1], [0, 0], [0, 1]), pad(y, scalar(0), [0, 0], [0, 1], [0, 1])),
    ),
    case(
        "interleaved",
        "3x4xf32 3x4xf32",
        lambda x, y: add(pad(x, scalar(-0.0), [1, 0], [0, 0], [1, 0]), pad(y, scalar(0), [0, 0], [1, 0], [1, 0])),
    ),
    case(
        "interleaved",
        "3x4xi1 3x4xi1",
        lambda x, y: b.like(
            "or",
            pad(x, b.splat(False, typed("i1")), [0, 0], [1, 0], [1, 0]),
            pad(y, b.splat(False, typed("i1")), [1, 0], [0, 0], [1, 0]),
        ),
    ),
    case("side-by-side", "3x4xf32 3x2xf32", lambda x, y: add(between_zeros(x, 0, 2), between_zeros(y, 4, 0))),
    case("side-by-side", "3x4xf32 3x2xf32", lambda x, y: add(between_zeros(y, 6, 1), between_zeros(x, 1, 4))),
    case(
        "side-by-side",
        "3x1xf32",
        lambda x: add(join(1, like(x, 0.0), like(x, -0.0), between_zeros(x, 1, 0)), between_zeros(x, 0, 3)),
    ),
    case("side-by-side", "3x2xi32", lambda x: add(between_zeros(x, 0, 2, "i32"), between_zeros(x, 2, 0, "i32"))),
    case(
        "side-by-side",
        "3x1xf32",
        lambda x: add(add(between_zeros(x, 0, 2), between_zeros(x, 2, 0)), between_zeros(add(x, x), 1, 1)),
    ),
    case(
        "side-by-side",
        "3x2xf32 3x2xf32",
        lambda x, y: add(pad(x, scalar(-0.0), [1, 1], [2, 3], [0, 0]), pad(y, scalar(-0.0), [1, 3], [2, 1], [0, 0])),
    ),
    case(
        "side-by-side",
        "3x4xi1",
        lambda x: b.like("or", *(pad(x, b.splat(False, typed("i1")), [a, 0], [3 - a, 0], [0, 0]) for a in (3, 0))),
    ),
    case("reverse-twice", "3x4xf32", lambda x: rev(rev(x, 0, 1), 1)),
    case("reverse-nothing", "3x1xf32", lambda x: rev(x, 0, 1)),
]
INDEX = [
    case("dynamic-slice-constant", "9x4xf32", lambda x: dynamic_slice(x, [3, 4], scalar(8, "i32"), scalar(1, "i32"))),
    case("update-everything", "4xf32 4xf32 i32", lambda x, y, i: b.like("dynamic_update_slice", x, y, i)),
    case("update-nothing", "4xf32 0xf32 i32", lambda x, y, i: b.like("dynamic_update_slice", x, y, i)),
    case("update-nothing", "4xf32 i32", lambda x, i: b.like("dynamic_update_slice", x, dynamic_slice(x, [2], i), i)),
    case(
        "update-twice",
        "4xf32 2xf32 2xf32 i32",
        lambda x, y, z, i: b.like("dynamic_update_slice", b.like("dynamic_update_slice", x, y, i), z, i),
    ),
    case(
        "slice-of-update",
        "4xf32 2xf32 i32",
        lambda x, y, i: dynamic_slice(b.like("dynamic_update_slice", x, y, i), [2], i),
    ),
    case("index-of-splat", "f32 i32", lambda x, i: dynamic_slice(b.broadcast(x, [9], []), [3], i)),
    case(
        "index-of-splat",
        "f32 2xi32",
        lambda x, i: gather(
            b.broadcast(x, [9], []),
            i,
            "2xf32",
            collapsed_slice_dims=[0],
            start_index_map=[0],
            index_vector_dim=1,
            slice_sizes=[1],
        ),
    ),
    case("scatter-each", "2x5x1xi8 2x5x1xf32", lambda i, u: scatter(b.splat(2, typed("2x99x5xf32")), i, u, EACH, add)),
    case("scatter-one", "5x6xf32 2x3xf32", lambda x, u: scatter(x, constant([3, 1], "i32"), u, BOX, add)),
    case(
        "scatter-one",
        "5x6xf32 2xi32 2x3xf32",  # a window counts as a whole or not at all
        lambda x, i, u: scatter(x, b.like("remainder", i, like(i, 6)), u, BOX, mul, WHOLE_WINDOWS),
    ),
    case(  # the old element is not read; others are kept where the index is out of bounds
        "scatter-one",
        "5x6xf32 1x1xi8 1x6xf32",
        lambda x, i, u: scatter(x, b.like("remainder", i, like(i, 7)), u, ROW, lambda old, new: new),
    ),
    case(
        "scatter-one",
        "5x6xf32 2xui8 5x6xf32",
        lambda x, i, u: scatter(x, i, u, BOX, lambda old, new: new, WHOLE_WINDOWS),
    ),
    case(
        "gather-one",
        "5x6xf32 1x1xi32",
        lambda x, i: gather(
            x,
            i,
            "1x6xf32",
            offset_dims=[1],
            collapsed_slice_dims=[0],
            start_index_map=[0],
            index_vector_dim=1,
            slice_sizes=[1, 6],
        ),
    ),
    case(
        "gather-one",
        "5x6xf32 2xi32",
        lambda x, i: gather(
            x, i, "2x3xf32", offset_dims=[0, 1], start_index_map=[1, 0], index_vector_dim=0, slice_sizes=[2, 3]
        ),
    ),
    case(
        "gather-sequence",
        "9x4xf32",
        lambda x: gather(
            x,
            constant([[1], [3], [5]], "i32"),
            "3x4xf32",
            offset_dims=[1],
            collapsed_slice_dims=[0],
            start_index_map=[0],
            index_vector_dim=1,
            slice_sizes=[1, 4],
        ),
    ),
    case(
        "gather-sequence",
        "9x4xf32",
        lambda x: gather(
            x,
            constant([[1], [1], [1], [3], [3], [3]], "i32"),
            "6x4xf32",
            offset_dims=[1],
            collapsed_slice_dims=[0],
            start_index_map=[0],
            index_vector_dim=1,
            slice_sizes=[1, 4],
        ),
    ),
    case(
        "gather-sequence",
        "9x4xf32",
        lambda x: gather(
            x,
            b.reshape(iota("4xi32"), [4, 1]),
            "9x4xf32",
            offset_dims=[0],
            collapsed_slice_dims=[1],
            start_index_map=[1],
            index_vector_dim=1,
            slice_sizes=[9, 1],
        ),
    ),
]
SORT = [
    case("sort-few", "5x3xf32", lambda x: in_order(1, x)[0]),
    case("sort-few", "5x4xf32", lambda x: in_order(1, x, key=one_zero)[0]),
    case("sort-few", "5x4xf64", lambda x: in_order(1, x, iota("5x4xi32", 1), key=one_zero, direction="GT")[1]),
    case("sort-few", "7x2xf16 7x2xi8", lambda x, y: in_order(1, x, y, turned=True)[1]),
    case("sort-few", "2x3x4xi8", lambda x: in_order(2, x, direction="GT")[0]),
    case("sort-few", "6x4x1xui16", lambda x: in_order(1, x)[0]),
    case("sort-few", "6x4xi32 6x4xf32", lambda x, y: in_order(1, x, y, key=lambda x: mul(x, x), turned=True)[1]),
    case("sort-few", "9x4xbf16", lambda x: cut(in_order(0, x, key=one_zero)[0], (4, 5), (0, 4))),
    case("sort-few", "3x5x4xi64", lambda x: cut(in_order(1, x)[0], (0, 3), (3, 4), (0, 2))),
]
CASES = ARITHMETIC + LOGIC + CHOOSE + CONVERT + REDUCE + MOVE + SORT + INDEX


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{each.rule}" for i, each in enumerate(CASES)])
def test_rule_fires_and_keeps_values(
    case: Case, build: Callable, check: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simplify_reduce, "LONG", 1 << 10)  # the interpreter takes seconds for real ones
    fired: dict[str, int] = {}
    check(
        build(case.types, case.body),
        lambda module: fired.update(apply_rules(module, peephole_rules()).rewrites),
        case.tolerance,
    )
    assert case.rule in fired, fired


def test_every_rule_has_a_case() -> None:
    """But those of what nothing here evaluates: decompose_collectives.mlir, and calls of libraries in simplify.mlir."""
    others = {rule.name for rules in (COLLECTIVES, LIBRARY) for rule in rules.rules}
    assert {rule.name for rule in EXACT} - others == {each.rule for each in CASES}


# Patterns that look alike and must not match: the value would change.
UNCHANGED = [
    ("4x3xf32", lambda x: in_order(1, x, total=False)[0]),
    ("4x5xi32", lambda x: in_order(1, x)[0]),
    ("3x4xi32", lambda x: in_order(0, x)[0]),
    (F, lambda x: add(x, like(x, 0.0))),
    (F, lambda x: mul(x, like(x, 0.0))),
    (F, lambda x: add(add(x, like(x, 1.5)), like(x, 2.5))),
    (F, lambda x: mul(mul(x, like(x, 1.5)), like(x, 2.5))),
    (F, lambda x: sub(x, x)),
    (F, lambda x: sub(like(x, 0.0), x)),
    (F, lambda x: div(x, like(x, 3.0))),
    (F, lambda x: power(x, like(x, 0.5))),
    (F, lambda x: power(x, like(x, 3.5))),
    (F, lambda x: power(x, like(x, -2.5))),
    ("16xf16", lambda x: power(x, like(x, 1.5))),
    (F, lambda x: most(x, like(x, math.inf))),
    (F, lambda x: compare(x, x, "EQ")),
    (F, lambda x: not_(compare(x, like(x, 1.0), "LT"))),
    (F, lambda x: convert(convert(x, "bf16"), "f32")),
    (N, lambda x: convert(convert(x, "f32"), "i32")),
    (N, lambda x: convert(convert(x, "f64"), "i8")),
    ("1x4xbf16", lambda x: reduce(join(0, x, like(x, 1.0)), "add", [0], scalar(0.0, "bf16"))),  # adds up in f32
    ("1x4xf32", lambda x: reduce(join(0, x, like(x, 1.0)), "add", [0, 1], scalar(0.0))),
    ("2x4xf32", lambda x: reduce(join(0, x, like(x, 1.0)), "add", [0], scalar(0.0))),
    ("f32", lambda x: join(0, b.broadcast(scalar(1.0), [1], []), b.broadcast(x, [2], []))),
    ("f32", lambda x: join(0, b.broadcast(x, [1], []), b.broadcast(scalar(1.0), [2], []))),
    (
        "400xf32",
        lambda x: gather(  # the indices wrap around
            x,
            iota("300xi8"),
            "300xf32",
            collapsed_slice_dims=[0],
            start_index_map=[0],
            index_vector_dim=1,
            slice_sizes=[1],
        ),
    ),
    ("4xf32", lambda x: add(pad(x, scalar(0), [0], [1], [1]), pad(x, scalar(1), [1], [0], [1]))),
    ("2x5x1xi8", lambda i: scatter(b.splat(0, typed("2x129x5xi8")), i, i, EACH, add)),  # too many places for i8
    ("5x6xf32", lambda x: scatter(x, constant([5, 1], "i32"), b.splat(1.0, typed("2x3xf32")), BOX, add)),
]


@pytest.mark.parametrize(("type_", "body"), UNCHANGED)
def test_rules_that_would_change_values_do_not_exist(
    type_: str, body: Callable, build: Callable, check: Callable
) -> None:
    module = build([type_], body)
    count = str(module).count("hlo.")
    assert check(module, lambda module: apply_rules(module, peephole_rules())).count("hlo.") == count


@pytest.mark.parametrize(
    "body",
    [
        lambda x: best_place(x, is_nan=False)[1],
        lambda x: best_place(x, first=3)[1],
        lambda x: best_place(x)[0],
    ],
    ids=["NaN loses", "another first place", "the element is read"],
)
def test_places_that_are_no_least_ones_stay_as_they_are(body: Callable, build: Callable, check: Callable) -> None:
    assert "stablehlo.reduce" in check(build(["8x5xf32"], body), lambda module: apply_rules(module, peephole_rules()))


@pytest.mark.parametrize(("type_", "in_pieces"), [("16384xf32", True), ("16383xf32", False), ("2x16384xf32", False)])
def test_places_in_long_vectors_are_found_in_pieces(type_: str, in_pieces: bool, build: Callable) -> None:
    module = build([type_], lambda x: best_place(x)[1])
    assert apply_rules(module, peephole_rules()).rewrites["reduce-to-place"] == 1
    assert ("hlo.dynamic_slice" in str(module)) == in_pieces


def test_approximate_rules_are_opt_in(build: Callable, check: Callable) -> None:
    def body(x: ir.Value) -> ir.Value:
        positive = abs_(x)
        return power(div(div(x, b.like("sqrt", positive)), like(x, 3.0)), like(x, 0.5))

    assert "hlo.rsqrt" not in check(build([F], body), lambda module: apply_rules(module, peephole_rules()), 1e-5)
    after = check(build([F], lambda x: body(abs_(x))), lambda module: apply_rules(module, peephole_rules(True)), 1e-5)
    assert "hlo.rsqrt" in after
    assert "hlo.power" not in after
    assert "hlo.divide" not in after


@pytest.mark.parametrize("combine", [add, mul])
def test_constants_do_not_go_round_without_folding(combine: Callable, build: Callable) -> None:
    module = build([N], lambda x: most(x, combine(combine(like(x, 3), like(x, 5)), like(x, 7))))
    apply_rules(module, peephole_rules(), disable=("fold",))  # comes to an end
    assert module.operation.verify()
