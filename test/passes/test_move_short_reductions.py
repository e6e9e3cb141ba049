"""Short reductions of repeated tensors: which are moved, and that results stay what they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stablehlo_py.dialect import build as ops
from stablehlo_py.dialect.build import tensor
from stablehlo_py.dialect.types import element_type, shape
from stablehlo_py.mlir import ir
from stablehlo_py.passes.move_short_reductions import MoveShortReductions

Build = Callable[..., ir.Module]
Check = Callable[..., str]


def pairs(work: Callable[[ir.Value, ir.Value], ir.Value], kind: str, initial: float) -> Callable[..., ir.Value]:
    """A reduction of what is computed of pairs of rows."""

    def body(a: ir.Value, b: ir.Value) -> ir.Value:
        sizes = [shape(a)[0], shape(b)[0], shape(a)[1]]
        x = work(ops.broadcast(a, sizes, [0, 2]), ops.broadcast(b, sizes, [1, 2]))
        init = ops.splat(initial, tensor([], element_type(x)))
        return ops.made("reduce", x, init, kind=kind, dimensions=[2])

    return body


def squared(a: ir.Value, b: ir.Value) -> ir.Value:
    difference = ops.like("subtract", a, b)
    return ops.like("multiply", difference, difference)


def greater(a: ir.Value, b: ir.Value) -> ir.Value:
    truth = ops.value("compare", tensor(shape(a), ir.IntegerType.get_signless(1)), a, b, direction="GT")
    return ops.convert(truth, ir.IntegerType.get_signless(32))


WORK = {
    "squares": pairs(squared, "add", 0.0),
    "largest": pairs(lambda a, b: ops.like("add", a, b), "maximum", 0.0),
    "count": pairs(greater, "add", 0),
    "with a constant": pairs(lambda a, b: squared(a, ops.like("add", b, ops.splat(0.5, b.type))), "minimum", 9.0),
}


@pytest.mark.parametrize("name", WORK)
@pytest.mark.parametrize("count", [2, 3, 24])
def test_pairs_of_rows(build: Build, check: Check, name: str, count: int) -> None:
    after = check(build([f"20x{count}xf32", f"9x{count}xf32"], WORK[name]), MoveShortReductions().run, tolerance=0)
    assert "dimensions = array<i64: 1>, kind" in after
    assert after.count('"hlo.transpose"') == 1


@pytest.mark.parametrize("of", ["f64", "f16", "bf16"])
def test_types(build: Build, check: Check, of: str) -> None:
    after = check(build([f"20x3x{of}", f"9x3x{of}"], WORK["squares"]), MoveShortReductions().run, tolerance=0)
    assert '"hlo.transpose"' in after


@pytest.mark.parametrize(
    ("a", "b"),
    [("20x25", "9x25"), ("20x1", "9x1"), ("20x3", "7x3"), ("7x3", "9x3")],
    ids=["long sums", "no sums", "few sums side by side", "few repetitions"],
)
def test_others_stay(build: Build, a: str, b: str) -> None:
    module = build([f"{a}xf32", f"{b}xf32"], WORK["squares"])
    before = str(module)
    assert not MoveShortReductions().run(module)
    assert str(module) == before


def test_work_of_which_there_is_much_stays(build: Build) -> None:
    """It would not end: each op reads the one before twice."""

    def doubled(a: ir.Value, b: ir.Value) -> ir.Value:
        x = ops.like("add", a, b)
        for _ in range(60):
            x = ops.like("multiply", x, x)
        return x

    module = build(["20x3xf32", "9x3xf32"], pairs(doubled, "add", 0.0))
    assert not MoveShortReductions().run(module)


def dot(x: ir.Value, y: ir.Value, sizes: list[int], batch: list[int], contract: list[int], rest: list[int]) -> ir.Value:
    """The product of x with y, of whose dimensions the first are those of the batch."""
    first = [*range(len(batch))]
    numbers = {"lhs_batch": batch, "rhs_batch": first, "lhs_contract": contract, "rhs_contract": rest}
    return ops.value("dot", tensor(sizes, element_type(x)), x, y, **numbers)


def forces(read: Callable[[ir.Value, ir.Value], ir.Value]) -> Callable[..., ir.Value]:
    """Differences of rows, of which distances are computed, and which something else reads with these."""

    def body(a: ir.Value, b: ir.Value) -> ir.Value:
        sizes = [shape(a)[0], shape(b)[0], shape(a)[1]]
        apart = ops.like("subtract", ops.broadcast(a, sizes, [0, 2]), ops.broadcast(b, sizes, [1, 2]))
        squares = ops.like("multiply", apart, apart)
        zero = ops.splat(0.0, tensor([], element_type(a)))
        return read(apart, ops.made("reduce", squares, zero, kind="add", dimensions=[2]))

    return body


def total(x: ir.Value, dimensions: list[int]) -> ir.Value:
    zero = ops.splat(0.0, tensor([], element_type(x)))
    return ops.made("reduce", x, zero, kind="add", dimensions=dimensions)


def scaled(apart: ir.Value, distances: ir.Value) -> ir.Value:
    return ops.like("multiply", apart, ops.broadcast(distances, shape(apart), [0, 1]))


READERS = {
    "sum of each first row": lambda x, of: total(scaled(x, of), [1]),
    "sum of each second row": lambda x, of: total(scaled(x, of), [0]),
    "sum of all pairs": lambda x, of: total(scaled(x, of), [0, 1]),
    "sum of all": lambda x, of: total(ops.like("negate", scaled(x, of)), [0, 1, 2]),
    "sum with what was transposed": lambda x, of: total(
        ops.like("add", scaled(x, of), ops.transpose(ops.broadcast(of, [20, 3, 9], [0, 2]), [0, 2, 1])), [1]
    ),
    "product for each row": lambda x, of: dot(x, of, [20, 3], [0], [1], [1]),
    "product from the right": lambda x, of: ops.value(
        "dot",
        tensor([20, 3], element_type(x)),
        of,
        x,
        lhs_batch=[0],
        rhs_batch=[0],
        lhs_contract=[1],
        rhs_contract=[1],
    ),
    "product of all": lambda x, of: dot(x, of, [3], [], [0, 1], [0, 1]),
    "product of all, in another order": lambda x, of: dot(x, ops.transpose(of, [1, 0]), [3], [], [0, 1], [1, 0]),
    "product with the other rows": lambda x, of: dot(x, total(of, [1]), [9, 3], [], [0], [0]),
}


@pytest.mark.parametrize("name", READERS)
def test_all_that_reads_the_differences(build: Build, check: Check, name: str) -> None:
    after = check(build(["20x3xf32", "9x3xf32"], forces(READERS[name])), MoveShortReductions().run, tolerance=1e-5)
    assert "20x9x3" not in after
    assert "hlo.dot" not in after


def by_matrix(x: ir.Value, of: ir.Value) -> ir.Value:
    matrix = ops.splat(0.5, tensor([9, 7], element_type(x)))
    numbers = {"lhs_batch": [], "rhs_batch": [], "lhs_contract": [1], "rhs_contract": [0]}
    return ops.value("dot", tensor([20, 3, 7], element_type(x)), scaled(x, of), matrix, **numbers)


def by_itself(x: ir.Value, of: ir.Value) -> ir.Value:
    x = scaled(x, of)
    numbers = {"lhs_batch": [0], "rhs_batch": [0], "lhs_contract": [1, 2], "rhs_contract": [1, 2]}
    return ops.value("dot", tensor([20], element_type(x)), x, x, **numbers)


OTHERS = {
    "the result": scaled,
    "a reshape": lambda x, of: ops.reshape(scaled(x, of), [20 * 9, 3]),
    "the sum with another transpose": lambda x, of: total(
        ops.like("add", scaled(x, of), ops.transpose(ops.broadcast(of, [3, 20, 9], [1, 2]), [1, 2, 0])), [1]
    ),
    "a product with a matrix": by_matrix,
    "a product with itself": by_itself,
    "a product whose batch is the second dimension": lambda x, of: dot(
        x, ops.transpose(of, [1, 0]), [9, 3], [1], [0], [1]
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_differences_that_others_read_stay(build: Build, name: str) -> None:
    module = build(["20x3xf32", "9x3xf32"], forces(OTHERS[name]))
    before = str(module)
    assert not MoveShortReductions().run(module)
    assert str(module) == before


def test_products_in_a_wider_type_stay(build: Build) -> None:
    def wide(x: ir.Value, of: ir.Value) -> ir.Value:
        numbers = {"lhs_batch": [0], "rhs_batch": [0], "lhs_contract": [1], "rhs_contract": [1]}
        return ops.value("dot", tensor([20, 3], ir.F32Type.get()), x, of, **numbers)

    assert not MoveShortReductions().run(build(["20x3xbf16", "9x3xbf16"], forces(wide)))


@pytest.mark.parametrize(("rows", "moves"), [(9, False), (24, True)])
def test_it_ends_where_both_dimensions_are_short(build: Build, check: Check, rows: int, moves: bool) -> None:
    read = forces(lambda x, of: total(scaled(x, of), [1]))
    module = build(["20x12xf32", f"{rows}x12xf32"], read)
    assert MoveShortReductions().run(module) == moves
    assert not MoveShortReductions().run(module)
