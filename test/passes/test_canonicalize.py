"""Rules on shapes, contractions and convolutions: each fires on its pattern, and no value changes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hlo_values import add, compare, constant, cut, iota, mul, pad, reduce, scalar, typed

from stablehlo_py.dialect import build as b
from stablehlo_py.mlir import ir
from stablehlo_py.passes.canonicalize_convolution import CONVOLUTION
from stablehlo_py.passes.canonicalize_dot import DOT
from stablehlo_py.passes.peephole import peephole_rules
from stablehlo_py.passes.shape_rules import SHAPES, THROUGH
from stablehlo_py.passmanager.rewrite import apply_rules


def dot(x: ir.Value, y: ir.Value, result: str, lb: list = (), rb: list = (), lc: list = (), rc: list = ()) -> ir.Value:
    return b.value(
        "dot", typed(result), x, y, lhs_batch=list(lb), rhs_batch=list(rb), lhs_contract=list(lc), rhs_contract=list(rc)
    )


def square(x: ir.Value) -> ir.Value:
    """In steps, both of which use it."""
    return mul(b.like("negate", x), x)


def convolution(x: ir.Value, w: ir.Value, result: str, **changes: object) -> ir.Value:
    """Channels last, kernel height, width, input, output; two spatial dimensions."""
    attributes = {
        "strides": [1, 1],
        "padding": [0, 0, 0, 0],
        "lhs_dilation": [1, 1],
        "rhs_dilation": [1, 1],
        "reversal": [0, 0],
        "input_dims": [0, 3, 1, 2],
        "kernel_dims": [2, 3, 0, 1],
        "output_dims": [0, 3, 1, 2],
        "feature_groups": 1,
        "batch_groups": 1,
    }
    return b.value("convolution", typed(result), x, w, **{**attributes, **changes})


@dataclass(frozen=True)
class Case:
    rule: str
    types: tuple[str, ...]
    body: Callable[..., ir.Value]
    tolerance: float = 0.0


def case(rule: str, types: str, body: Callable[..., ir.Value], tolerance: float = 0.0) -> Case:
    return Case(rule, tuple(types.split()), body, tolerance)


SHAPE_CASES = [
    case("constant-splat", "2x2xf32", lambda x: add(x, constant([[2.5, 2.5], [2.5, 2.5]], "f32"))),
    case("constant-splat", "2x2xui8", lambda x: add(x, constant([[200, 200], [200, 200]], "ui8"))),
    case("iota-line", "3x4xi32", lambda x: add(x, iota("3x4xi32", 1))),
    case("reshape-same", "3x4xi32", lambda x: b.value("reshape", x.type, x)),
    case("reshape-same", "f32", lambda x: b.reshape(x, [1, 1])),
    case("reshape-twice", "3x4xi32", lambda x: b.reshape(b.reshape(x, [12]), [2, 6])),
    case("reshape-broadcast", "6xf32", lambda x: b.reshape(b.broadcast(x, [4, 6, 5], [1]), [2, 2, 3, 2, 5])),
    case("transpose-to-reshape", "3x1x4xf32", lambda x: b.transpose(x, [1, 0, 2])),
    case("transpose-twice", "2x3x4xf32", lambda x: b.transpose(b.transpose(x, [2, 0, 1]), [2, 1, 0])),
    case("transpose-broadcast", "2x3xf32", lambda x: b.transpose(b.broadcast(x, [2, 5, 3], [0, 2]), [2, 1, 0])),
    case("transpose-reshape", "2x3xf32", lambda x: b.transpose(b.reshape(x, [2, 1, 3]), [2, 1, 0])),
    case("broadcast-to-reshape", "2x3xf32", lambda x: b.broadcast(x, [2, 1, 3], [0, 2])),
    case("broadcast-twice", "2xf32", lambda x: b.broadcast(b.broadcast(x, [2, 3], [0]), [4, 2, 3], [1, 2])),
    case("broadcast-reshape", "3xf32", lambda x: b.broadcast(b.reshape(x, [3, 1]), [3, 1, 5], [0, 1])),
    case("slice-everything", "3xf32", lambda x: cut(x, (0, 3))),
    case("slice-twice", "20xf32", lambda x: cut(cut(x, (1, 18, 3)), (1, 5, 2))),
    case("slice-operands", "4xf32", lambda x: cut(b.broadcast(x, [4, 6], [0]), (1, 3), (0, 6, 2))),
    case("slice-operands", "4x5xf32", lambda x: cut(b.transpose(x, [1, 0]), (1, 3), (0, 4, 2))),
    case("slice-operands", "4x6xf32", lambda x: cut(b.reshape(x, [4, 1, 2, 3]), (1, 3), (0, 1), (0, 2), (0, 3))),
    case("slice-operands", "8xf32 8xf32", lambda x, y: cut(compare(x, y, "LT"), (1, 7, 2))),
    case("slice-operands", "4x5x3xi32", lambda x: cut(reduce(x, "add", [1], scalar(0, "i32")), (1, 3), (0, 3, 2))),
    case(
        "slice-operands",
        "2x8x4xf32 2x4x6xf32",
        lambda x, y: cut(dot(x, y, "2x8x6xf32", [0], [0], [2], [1]), (1, 2), (2, 8, 3), (0, 6)),
        1e-5,
    ),
    case(
        "slice-operands",
        "4x7x7x3xf32 3x3x3x8xf32",
        lambda x, w: cut(convolution(x, w, "4x5x5x8xf32"), (1, 3), (0, 5), (0, 5), (0, 8, 2)),
        1e-5,
    ),
    case(
        "elementwise-broadcasts",
        "4xf32 4xf32",
        lambda x, y: add(b.broadcast(x, [4, 6], [0]), b.broadcast(y, [4, 6], [0])),
    ),
    case(
        "elementwise-broadcasts",
        "4xf32 4x5xf32",
        lambda x, y: add(b.broadcast(x, [4, 5, 6], [0]), b.broadcast(y, [4, 5, 6], [0, 1])),
    ),
    case(
        "elementwise-broadcasts",
        "4xf32 f32",
        lambda x, y: compare(b.broadcast(x, [4, 6], [0]), b.broadcast(y, [4, 6], []), "GE"),
    ),
    case("elementwise-reshapes", "4x6xf32 4x6xf32", lambda x, y: add(b.reshape(x, [24]), b.reshape(y, [24]))),
    case("elementwise-reshapes", "4x6xf32 3x8xf32", lambda x, y: add(b.reshape(b.like("abs", x), [3, 8]), y)),
    case(
        "elementwise-reshapes",
        "4x6xf32 6xf32",
        lambda x, y: add(b.reshape(x, [2, 2, 6]), b.broadcast(y, [2, 2, 6], [2])),
    ),
    case(  # what follows goes along: both factors of the product, not the other operand of the last sum
        "elementwise-reshapes",
        "4x6xf32 3x8xf32",
        lambda x, y: add(square(add(b.reshape(b.like("abs", x), [3, 8]), y)), b.like("tanh", y)),
    ),
    case("elementwise-transposes", "4x6xf32 4x6xf32", lambda x, y: add(b.transpose(x, [1, 0]), b.transpose(y, [1, 0]))),
    case(
        "elementwise-transposes",
        "4x6xf32",
        lambda x: b.transpose(mul(b.transpose(x, [1, 0]), b.splat(3, typed("6x4xf32"))), [1, 0]),
    ),
    case(
        "elementwise-transposes",
        "4x6xf32 6xf32 4x5xf32",
        lambda x, y, z: dot(mul(b.transpose(x, [1, 0]), b.broadcast(y, [6, 4], [0])), z, "6x5xf32", lc=[1], rc=[0]),
        1e-5,
    ),
    case(
        "elementwise-transposes",
        "4x6xf32 4x6xf32 6xf32",
        lambda x, y, z: mul(add(b.transpose(x, [1, 0]), b.transpose(y, [1, 0])), b.broadcast(z, [6, 4], [0])),
    ),
    case("reduce-reshape", "4x6x5xi32", lambda x: reduce(b.reshape(x, [4, 2, 3, 5]), "add", [1, 2], scalar(2, "i32"))),
    case("reduce-reshape", "24x5xi32", lambda x: reduce(b.reshape(x, [4, 6, 5]), "add", [2], scalar(2, "i32"))),
    case("reduce-transpose", "3x4x5xi32", lambda x: reduce(b.transpose(x, [1, 0, 2]), "add", [0], scalar(9, "i32"))),
    case(
        "reduce-transpose",
        "3x4x5x6xi32",
        lambda x: reduce(b.transpose(x, [3, 0, 1, 2]), "add", [3, 0, 2], scalar(9, "i32")),
    ),
]
DOT_CASES = [
    case("dot-empty", "3x0xf32 0x2xf32", lambda x, y: dot(x, y, "3x2xf32", lc=[1], rc=[0])),
    case("dot-outer", "4x3xf32 4x1x5xf32", lambda x, y: dot(x, b.reshape(y, [4, 5]), "4x3x5xf32", [0], [0]), 1e-6),
    case(
        "dot-outer",
        "3x4xf32 5x1x4xf32",
        lambda x, y: dot(b.reshape(x, [3, 1, 4]), y, "4x3x5xf32", [2], [2], [1], [1]),
        1e-6,
    ),
    case("dot-short-sums", "4x3xf32 4x7x3xf32", lambda x, y: dot(x, y, "4x7xf32", [0], [0], lc=[1], rc=[2]), 1e-5),
    case("dot-short-sums", "4x3xi8 4x7x3xi8", lambda x, y: dot(x, y, "4x7xi8", [0], [0], lc=[1], rc=[2])),
    case("dot-short-sums", "4x3xui16 4x7x3xui16", lambda x, y: dot(x, y, "4x7xui16", [0], [0], lc=[1], rc=[2])),
    case("dot-short-sums", "7x4xf32 4xf32", lambda x, y: dot(x, y, "7xf32", lc=[1], rc=[0]), 1e-5),
    case("dot-short-sums", "2x5xf32 5x2xf32", lambda x, y: dot(x, y, "5xf32", [1], [0], [0], [1]), 1e-5),
    case(
        "reduce-product",
        "4x3xf32 5x3xf32",
        lambda x, y: reduce(
            mul(b.broadcast(x, [4, 5, 3], [0, 2]), b.broadcast(y, [4, 5, 3], [1, 2])), "add", [2], scalar(0.0)
        ),
        1e-5,
    ),
    case("dot-merge-contracting", "2x3x4xf32 3x4x5xf32", lambda x, y: dot(x, y, "2x5xf32", lc=[1, 2], rc=[0, 1]), 1e-5),
    case(
        "dot-transpose",
        "2x3x4xf32 2x3x5xf32",
        lambda x, y: dot(b.transpose(x, [0, 2, 1]), y, "2x4x5xf32", [0], [0], [2], [1]),
        1e-5,
    ),
    case(
        "dot-transpose",
        "2x3x4xf32 3x2x5xf32",
        lambda x, y: dot(x, b.transpose(y, [1, 0, 2]), "2x4x5xf32", [0], [0], [1], [1]),
        1e-5,
    ),
    case(
        "dot-reshape",
        "2x3x4xf32 4x5xf32",
        lambda x, y: dot(b.reshape(x, [6, 4]), y, "6x5xf32", lc=[1], rc=[0]),
        1e-5,
    ),
    case(
        "dot-reshape",
        "2x4xf32 4x6xf32",
        lambda x, y: dot(x, b.reshape(y, [4, 2, 3]), "2x2x3xf32", lc=[1], rc=[0]),
        1e-5,
    ),
    case(
        "dot-reshape",
        "2x3x4x5xf32 2x3x5x6xf32",
        lambda x, y: dot(b.reshape(x, [6, 4, 5]), b.reshape(y, [6, 5, 6]), "6x4x6xf32", [0], [0], [2], [1]),
        1e-5,
    ),
    case(
        "dot-transpose",
        "4x3x2x5xf32 6x4x2x3xf32",
        lambda x, y: dot(
            b.transpose(x, [2, 1, 3, 0]), b.transpose(y, [3, 1, 2, 0]), "2x5x6xf32", [0], [2], [3, 1], [1, 0]
        ),
        1e-5,
    ),
    case(
        "dot-reshape",
        "4x2x3x6x7xf32 7x6x5xf32",
        lambda x, y: dot(b.reshape(x, [8, 3, 6, 7]), y, "6x8x3x5xf32", [2], [1], [3], [0]),
        1e-5,
    ),
    case(
        "dot-reshape",
        "3x5x2x3x4xf32 4x7x2x3x8xf32",
        lambda x, y: dot(b.reshape(x, [15, 6, 4]), b.reshape(y, [4, 7, 6, 8]), "6x15x7x8xf32", [1], [2], [2], [0]),
        1e-5,
    ),
    case(
        "dot-repeated",
        "6x1x8xi32 2x5x8xi32",  # keys of two groups of three heads
        lambda x, y: dot(
            x, b.reshape(b.broadcast(y, [2, 3, 5, 8], [0, 2, 3]), [6, 5, 8]), "6x1x5xi32", [0], [0], [2], [2]
        ),
    ),
    case(
        "dot-repeated",
        "5x8xi32 3x8xi32",
        lambda x, y: dot(b.broadcast(x, [3, 5, 8], [1, 2]), y, "3x5xi32", [0], [0], [2], [1]),
    ),
    case(
        "transpose-dot",
        "2x3x4xf32 2x4x5xf32",
        lambda x, y: b.transpose(dot(x, y, "2x3x5xf32", [0], [0], [2], [1]), [2, 0, 1]),
        1e-5,
    ),
    case(
        "transpose-dot", "3x4xf32 4x5xf32", lambda x, y: b.transpose(dot(x, y, "3x5xf32", lc=[1], rc=[0]), [1, 0]), 1e-5
    ),
]
CONVOLUTION_CASES = [
    case("convolution-empty", "0x5x5x2xf32 3x3x2x4xf32", lambda x, w: convolution(x, w, "0x3x3x4xf32")),
    case(
        "convolution-size-one",
        "2x5x1x2xf32 3x1x2x4xf32",
        lambda x, w: convolution(x, w, "2x3x1x4xf32", strides=[1, 2], reversal=[1, 1]),
        1e-5,
    ),
    case(
        "convolution-pad",
        "2x5x4x2xf32 3x3x2x4xf32",
        lambda x, w: convolution(
            pad(x, scalar(0), [0, 1, 2, 0], [0, 2, 0, 0], [0, 1, 0, 0]), w, "2x11x5x4xf32", padding=[1, 0, 0, 1]
        ),
        1e-5,
    ),
    case(
        "convolution-batch-groups",
        "6x5x5x2xf32 3x3x2x4xf32",
        lambda x, w: convolution(x, w, "3x3x3x4xf32", batch_groups=2),
        1e-5,
    ),
    case(
        "convolution-batch-groups",
        "2x5x5x6xf32 3x3x2x4xf32",
        lambda x, w: convolution(x, w, "3x3x3x4xf32", batch_groups=2, input_dims=[3, 0, 1, 2]),
        1e-5,
    ),
    case(
        "convolution-pointwise",
        "2x5x6x3xf32 1x1x3x4xf32",
        lambda x, w: convolution(x, w, "2x3x3x4xf32", strides=[2, 2]),
        1e-5,
    ),
    case(
        "convolution-pointwise",
        "1x3x5x6xf32 4x3x1x1xf32",
        lambda x, w: convolution(
            x, w, "1x4x5x6xf32", input_dims=[0, 1, 2, 3], kernel_dims=[1, 0, 2, 3], output_dims=[0, 1, 2, 3]
        ),
        1e-5,
    ),
    case("convolution-whole-input", "2x5x6x3xf32 5x6x3x4xf32", lambda x, w: convolution(x, w, "2x1x1x4xf32"), 1e-5),
]
CASES = SHAPE_CASES + DOT_CASES + CONVOLUTION_CASES


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{each.rule}" for i, each in enumerate(CASES)])
def test_rule_fires_and_keeps_values(case: Case, build: Callable, check: Callable) -> None:
    fired: dict[str, int] = {}

    def run(module: ir.Module) -> None:
        fired.update(apply_rules(module, peephole_rules()).rewrites)

    check(build(case.types, case.body), run, case.tolerance)
    assert case.rule in fired, fired


@pytest.mark.parametrize(
    ("types", "body"),
    [
        pytest.param(
            "2x3x4x5xf32 3x2x5x6xf32",
            lambda x, y: dot(b.reshape(x, [6, 4, 5]), b.reshape(y, [6, 5, 6]), "6x4x6xf32", [0], [0], [2], [1]),
            id="batch dimensions of other sizes",
        ),
        pytest.param(
            "4x2x3xf32 2x3x5xf32",
            lambda x, y: dot(b.reshape(x, [4, 6]), b.reshape(y, [6, 5]), "4x5xf32", lc=[1], rc=[0]),
            id="contracting dimensions, which are merged",
        ),
        pytest.param(
            "4x6xf32 6x5xf32",
            lambda x, y: dot(b.reshape(x, [2, 12]), b.reshape(y, [12, 3]), "2x3xf32", lc=[1], rc=[0]),
            id="free and contracting dimensions in one run",
        ),
        pytest.param(
            "4x6x5xf32",
            lambda x: reduce(b.reshape(x, [8, 3, 5]), "maximum", [1], scalar(0.0)),
            id="a run that is reduced in part",
        ),
        pytest.param(
            "4x6x5xf32",
            lambda x: reduce(b.transpose(x, [2, 1, 0]), "maximum", [1], scalar(0.0)),
            id="a transpose of what is kept",
        ),
    ],
)
def test_views_of_operands_that_stay(types: str, body: Callable, build: Callable) -> None:
    module = build(types.split(), body)
    before = str(module)
    assert not apply_rules(module, THROUGH + DOT).changed
    assert str(module) == before


@pytest.mark.parametrize("seed", range(60))
def test_sums_of_repeated_factors(seed: int, build: Callable, check: Callable) -> None:
    """Batches, rows, columns and what is contracted lie in any order; few rows or columns, batches that are not first,
    and a dimension of one factor that is contracted stay sums."""
    random = np.random.default_rng(seed)
    batch, left, right, contract = ([2, 3][: random.integers(3)], [2, 4][: random.integers(3)], [5], [2, 3])
    contract = contract[: random.integers(1, 3)]
    alone = int(random.integers(6) == 0)  # one factor has a contracted dimension that the other has not
    roles = [*("b" * len(batch)), *("l" * len(left)), *("r" * len(right)), *("c" * len(contract)), *("a" * alone)]
    sizes = [*batch, *left, *right, *contract, *([7] * alone)]
    order = [*range(len(batch)), *(len(batch) + random.permutation(len(roles) - len(batch))).tolist()]
    if random.integers(4) == 0:
        order = random.permutation(len(roles)).tolist()
    roles, sizes = [roles[place] for place in order], [sizes[place] for place in order]
    parts = [[at for at, role in enumerate(roles) if role in own] for own in ("blca", "brc")]
    swapped = bool(random.integers(2))

    def body(x: ir.Value, y: ir.Value) -> ir.Value:
        factors = [b.broadcast(one, sizes, part) for one, part in zip((x, y), parts, strict=True)]
        product = mul(*(factors[::-1] if swapped else factors))
        return reduce(product, "add", [at for at, role in enumerate(roles) if role in "ca"], scalar(0, "i32"))

    module = build(["x".join(map(str, [*(sizes[at] for at in part), "i32"])) for part in parts], body)
    fired: dict[str, int] = {}
    check(module, lambda module: fired.update(apply_rules(module, DOT).rewrites), rounds=2)
    first = roles[: len(batch)] == ["b"] * len(batch)
    assert ("reduce-product" in fired) == (math.prod(left) >= 4 and first and not alone)


def random_view(sizes: list[int], random: np.random.Generator) -> tuple[str, Callable[[ir.Value], ir.Value]]:
    """The type of a tensor, and the reshape, transpose and reshape that make one of shape `sizes` of it."""
    halves = [[2, size // 2] if size % 2 == 0 and random.integers(2) else [size] for size in sizes]
    pieces = [piece for pair in halves for piece in pair]
    order = random.permutation(len(pieces)).tolist() if random.integers(2) else list(range(len(pieces)))
    turned = [pieces[number] for number in order]
    source = [math.prod(turned[:2]), *turned[2:]] if random.integers(2) else turned
    back = np.argsort(order).tolist()
    return "x".join(map(str, [*source, "i32"])), lambda x: b.reshape(b.transpose(b.reshape(x, turned), back), sizes)


@pytest.mark.parametrize("seed", range(80))
def test_dots_of_random_views(seed: int, build: Callable, check: Callable) -> None:
    random = np.random.default_rng(seed)
    batch, left, right, contract = (random.choice([1, 2, 3, 4, 6], random.integers(3)).tolist() for _ in range(4))
    types, views, numbers, free = [], [], [], []
    for own in (left, right):
        roles = [*batch, *own, *contract]
        order = random.permutation(len(roles)).tolist()
        place = np.argsort(order).astype(int).tolist()
        numbers.append((place[: len(batch)], place[len(batch) + len(own) :]))
        free += [roles[number] for number in order if len(batch) <= number < len(batch) + len(own)]
        type_, view = random_view([roles[number] for number in order], random)
        types.append(type_)
        views.append(view)
    (lb, lc), (rb, rc) = numbers
    result = "x".join(map(str, [*batch, *free, "i32"]))
    module = build(types, lambda x, y: dot(views[0](x), views[1](y), result, lb, rb, lc, rc))
    check(module, lambda module: apply_rules(module, SHAPES + DOT), rounds=2)


@pytest.mark.parametrize("seed", range(60))
def test_products_of_repeated_operands(seed: int, build: Callable, check: Callable) -> None:
    """Either operand is repeated over batch dimensions, as a whole or each element; dimensions lie in any order."""
    random = np.random.default_rng(seed)
    batch = [(2, 3), (4, 1), (3, 2)][: random.integers(1, 4)]
    sizes = [own * repeats for own, repeats in batch]
    rows = [1] * random.integers(2)
    columns, contract = [5] * random.integers(3), [7] * random.integers(1, 3)
    orders = [random.permutation(len([*sizes, *own, *contract])).tolist() for own in (rows, columns)]
    x_sizes = np.array([*sizes, *rows, *contract])[orders[0]].tolist()
    full: list[int] = []
    mapped: list[int] = []
    turns = random.integers(6) == 0  # the whole is repeated: that stays as it is
    for number in orders[1]:
        own, repeats = batch[number] if number < len(batch) else ([*columns, *contract][number - len(batch)], 1)
        mapped.append(len(full) + turns)
        full += [repeats, own] if turns else [own, repeats]
    y_sizes = np.array([*sizes, *columns, *contract])[orders[1]].tolist()
    source = [full[dimension] for dimension in mapped]
    numbers, free = [], []
    for order, own in zip(orders, (rows, columns), strict=True):
        place = np.argsort(order).tolist()
        numbers.append((place[: len(batch)], place[len(batch) + len(own) :]))
        free.append([1 if own is rows else 5] * len(own))
    swapped = bool(random.integers(2))

    def body(x: ir.Value, y: ir.Value) -> ir.Value:
        operands, sides = [x, b.reshape(b.broadcast(y, full, mapped), y_sizes)], list(numbers)
        if swapped:
            operands, sides = operands[::-1], sides[::-1]
        result = [*sizes, *(free[1] + free[0] if swapped else free[0] + free[1])]
        (lb, lc), (rb, rc) = sides
        return dot(*operands, "x".join(map(str, [*result, "i32"])), lb, rb, lc, rc)

    module = build(["x".join(map(str, [*each, "i32"])) for each in (x_sizes, source)], body)
    fired: dict[str, int] = {}
    check(module, lambda module: fired.update(apply_rules(module, SHAPES + DOT).rewrites), rounds=2)
    assert ("dot-repeated" in fired) != turns


@pytest.mark.parametrize("seed", range(40))
def test_reductions_of_random_views(seed: int, build: Callable, check: Callable) -> None:
    random = np.random.default_rng(seed)
    sizes = random.choice([1, 2, 3, 4, 6], random.integers(1, 5)).tolist()
    reduced = random.permutation(len(sizes))[: random.integers(1, len(sizes) + 1)].tolist()
    type_, view = random_view(sizes, random)
    module = build([type_], lambda x: reduce(view(x), "add", reduced, scalar(3, "i32")))
    check(module, lambda module: apply_rules(module, SHAPES), rounds=2)


def test_every_rule_has_a_case() -> None:
    assert {rule.name for rule in SHAPES + DOT + CONVOLUTION} == {each.rule for each in CASES}
