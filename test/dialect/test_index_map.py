"""Pieces and groups of reshapes; layouts of views against NumPy."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from stablehlo_py.dialect import build as b
from stablehlo_py.dialect.context import make_context
from stablehlo_py.dialect.evaluate import evaluate_op
from stablehlo_py.dialect.index_map import (
    VIEW_OPS,
    Layout,
    refine,
    regroup_digits,
    reshape_groups,
    reshape_pieces,
    view,
)
from stablehlo_py.dialect.symint import symbol
from stablehlo_py.dialect.types import i64s
from stablehlo_py.mlir import ir

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module", autouse=True)
def _context() -> Iterator[None]:
    with make_context(), ir.Location.unknown():
        yield


def shape_of(elements: int) -> tuple[int, ...]:
    """A random shape of so many elements, with ones in between."""
    sizes = []
    while elements > 1:
        divisors = [each for each in range(2, elements + 1) if elements % each == 0]
        sizes.append(int(RNG.choice(divisors)))
        elements //= sizes[-1]
    for _ in range(RNG.integers(0, 3)):
        sizes.insert(int(RNG.integers(0, len(sizes) + 1)), 1)
    return tuple(sizes)


@pytest.mark.parametrize(
    ("source", "target", "pieces"),
    [
        ((8, 3), (2, 12), [(2, 0, 0), (4, 0, 1), (3, 1, 1)]),
        ((3, 4), (4, 3), [(3, 0, None), (4, None, 0), (4, 1, None), (3, None, 1)]),
        ((6, 35, 2), (10, 42), [(2, 0, 0), (3, 0, None), (5, None, 0), (35, 1, None), (21, None, 1), (2, 2, 1)]),
        ((1, 5), (5,), [(1, 0, None), (5, 1, 0)]),
        ((), (1, 1), [(1, None, 0), (1, None, 1)]),
    ],
)
def test_pieces(
    source: tuple[int, ...], target: tuple[int, ...], pieces: list[tuple[int, int | None, int | None]]
) -> None:
    assert reshape_pieces(source, target) == tuple(pieces)


def test_pieces_of_random_shapes() -> None:
    for elements in (1, 12, 60, 64, 210) * 60:
        source, target = shape_of(elements), shape_of(elements)
        pieces = reshape_pieces(source, target)
        for side, sizes in ((1, source), (2, target)):
            mine = [piece for piece in pieces if piece[side] is not None]
            assert [piece[side] for piece in mine] == sorted(piece[side] for piece in mine)
            products = [math.prod(piece.size for piece in mine if piece[side] == d) for d in range(len(sizes))]
            assert tuple(products) == sizes
        before, after = 1, 1
        for size, one, other in pieces:
            assert one is None or other is None or before == after
            before, after = before * (size if one is not None else 1), after * (size if other is not None else 1)


def test_groups_are_the_smallest_runs() -> None:
    assert reshape_groups((6, 4, 5), (8, 3, 5)) == (([0, 1], [0, 1]), ([2], [2]))
    assert reshape_groups((2, 3, 1, 4), (6, 4)) == (([0, 1], [0]), ([2], []), ([3], [1]))
    assert reshape_groups((2, 0), (0,)) is None
    assert reshape_groups((2, 3), (5,)) is None
    for elements in (12, 60, 64, 210) * 60:
        source, target = shape_of(elements), shape_of(elements)
        groups = reshape_groups(source, target)
        assert groups is not None
        for side, sizes in enumerate((source, target)):
            assert [d for group in groups for d in group[side]] == list(range(len(sizes)))
        for one, other in groups:
            assert math.prod(source[d] for d in one) == math.prod(target[d] for d in other)
            inner = [
                {math.prod(sizes[d] for d in dimensions[:count]) for count in range(1, len(dimensions))}
                for dimensions, sizes in ((one, source), (other, target))
            ]
            assert not inner[0] & inner[1]


def test_dynamic_sizes() -> None:
    n, m = symbol("d0_0"), symbol("d0_1")
    assert reshape_pieces((n, 12), (n * 3, 4)) == ((n, 0, 0), (3, 1, 0), (4, 1, 1))
    assert reshape_pieces((n * m,), (n, m)) == ((n, 0, 0), (m, 0, 1))
    assert reshape_groups((n, m, 4), (n, m * 4)) == (([0], [0]), ([1, 2], [1]))
    assert regroup_digits((((n, 12),), ((12, 1),)), (n * 3, 4)) == (((n * 3, 4),), ((4, 1),))


def test_refine() -> None:
    assert refine(((3, 40), (4, 1)), ((4, 80), (3, 1))) is None
    assert refine(((8, 3),), ((2, 100), (4, 1))) == [(2, 12, 100), (4, 3, 1)]


def random_view(x: ir.Value) -> ir.Operation:
    sizes = b.shape(x)
    name = RNG.choice(sorted(VIEW_OPS))
    if name == "reshape":
        return b.reshape(x, shape_of(math.prod(sizes))).owner
    if name == "transpose":
        order = [int(d) for d in RNG.permutation(len(sizes))]
        return b.value("transpose", b.tensor([sizes[d] for d in order], ir.F32Type.get()), x, permutation=order).owner
    if name == "broadcast":
        result, dimensions = list(sizes), list(range(len(sizes)))
        at = int(RNG.integers(0, len(sizes) + 1))
        result.insert(at, int(RNG.integers(1, 3)))
        dimensions = [d + (d >= at) for d in dimensions]
        return b.value("broadcast", b.tensor(result, ir.F32Type.get()), x, dimensions=dimensions).owner
    if name == "reverse":
        chosen = [d for d in range(len(sizes)) if RNG.random() < 0.5]
        return b.value("reverse", x.type, x, dimensions=chosen).owner
    start = [int(RNG.integers(0, size)) if RNG.random() < 0.4 else 0 for size in sizes]
    strides = [int(RNG.integers(1, 3)) if RNG.random() < 0.4 else 1 for _ in sizes]
    result = [-(-(size - low) // step) for size, low, step in zip(sizes, start, strides, strict=True)]
    return b.value(
        "slice", b.tensor(result, ir.F32Type.get()), x, start=start, limit=list(sizes), strides=strides
    ).owner


def places(layout: Layout) -> np.ndarray:
    """The element number of every element, row by row."""
    total = np.array(layout.offset)
    for digits in layout.dimensions:
        along = np.zeros(1, int)
        for size, stride in digits:
            along = (along[:, None] + np.arange(size) * stride).reshape(-1)
        total = total[..., None] + along
    return total


def test_layouts_of_random_views() -> None:
    said = 0
    for _ in range(300):
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            sizes = shape_of(int(RNG.choice([12, 24, 60])))
            x = b.value("iota", b.tensor([math.prod(sizes)], ir.F32Type.get()), dimension=0)
            values, layout = np.arange(math.prod(sizes), dtype=np.float32).reshape(sizes), Layout.dense(sizes)
            x = b.value("reshape", b.tensor(sizes, ir.F32Type.get()), x)
            for _ in range(4):
                op = random_view(x).operation
                name = op.name.removeprefix("hlo.")
                if name not in VIEW_OPS or op.results[0] == x:
                    continue
                attributes = {key: i64s(op, key) for key in VIEW_OPS[name]}
                after = view(layout, name, attributes, b.shape(op.results[0]))
                (values,) = evaluate_op(op, [values])
                if after is None:
                    break
                np.testing.assert_array_equal(places(after), values)
                layout, x, said = after, op.results[0], said + 1
    assert said > 600
