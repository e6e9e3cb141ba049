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
