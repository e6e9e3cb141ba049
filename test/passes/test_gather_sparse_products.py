"""Products with sparse constants: which are gathered, and that results are those of the products, also where a number
that is multiplied by zero is not finite."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from stablehlo_py.dialect import build as ops
from stablehlo_py.dialect.build import tensor
from stablehlo_py.dialect.interpret import Interpreter
from stablehlo_py.dialect.types import element_type, shape
from stablehlo_py.mlir import ir
from stablehlo_py.passes.gather_sparse_products import GatherSparseProducts

Build = Callable[..., ir.Module]
Check = Callable[..., str]


def sparse(terms: int, depth: int, columns: int, *, fewer: bool = True) -> np.ndarray:
    """A matrix with so many small whole numbers other than zero in its columns, in some one less."""
    random = np.random.default_rng(3)
    matrix = np.zeros((depth, columns), np.float32)
    for column in range(columns):
        count = terms - (fewer and column % 3 == 0)
        matrix[random.choice(depth, count, replace=False), column] = random.integers(1, 5, count)
    return matrix


def product(matrix: np.ndarray, side: int, along: int, dimension: int, result: str = "f32") -> Callable[..., ir.Value]:
    """The body of a function: a product of the matrix, as operand number `side`, summed `along` one of its dimensions,
    and of the argument, along `dimension`."""

    def body(x: ir.Value) -> ir.Value:
        stored = matrix if along == 0 else matrix.T
        w = ops.convert(ops.constant(stored, ir.F32Type.get()), element_type(x))
        operands, contract = ((w, x), (along, dimension)) if side == 0 else ((x, w), (dimension, along))
        free = [
            size
            for value, d in zip(operands, contract, strict=True)
            for other, size in enumerate(shape(value))
            if other != d
        ]
        return ops.value(
            "dot",
            tensor(free, ir.Type.parse(result)),
            *operands,
            lhs_batch=[],
            rhs_batch=[],
            lhs_contract=[contract[0]],
            rhs_contract=[contract[1]],
        )

    return body


@pytest.mark.parametrize("along", [0, 1])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(("sizes", "dimension"), [("3x40x20", 1), ("40x17", 0), ("2x3x96", 2), ("96", 0)])
def test_products_are_gathered(build: Build, check: Check, sizes: str, dimension: int, side: int, along: int) -> None:
    depth = int(sizes.split("x")[dimension])
    module = build([f"{sizes}xf32"], product(sparse(3, depth, 21), side, along, dimension))
    after = check(module, GatherSparseProducts().run, tolerance=1e-5)
    assert "hlo.dot" not in after
    assert after.count('"hlo.gather"') == 3


@pytest.mark.parametrize(("of", "result"), [("f64", "f64"), ("bf16", "bf16"), ("f16", "f16"), ("bf16", "f32")])
def test_types(build: Build, check: Check, of: str, result: str) -> None:
    module = build([f"40x20x{of}"], product(sparse(2, 40, 9), 0, 0, 0, result))
    tolerance = {"f64": 1e-12, "f32": 1e-6}.get(result, 1e-2)
    assert "hlo.dot" not in check(module, GatherSparseProducts().run, tolerance=tolerance)


@pytest.mark.parametrize("fewer", [False, True])
def test_zero_times_infinity_is_not_a_number(build: Build, mlir_context: ir.Context, fewer: bool) -> None:
    """Of whole numbers sums have no rounding error: all must be equal, for any numbers that are not finite."""
    random = np.random.default_rng(5)
    for chance in (0.0, 0.02, 0.5, 1.0):
        module = build(["40x60xf32"], product(sparse(2, 40, 33, fewer=fewer), 0, 0, 0))
        x = random.integers(-3, 4, (40, 60)).astype(np.float32)
        wrong = random.random(x.shape) < chance
        x[wrong] = random.choice(np.float32([np.inf, -np.inf, np.nan]), wrong.sum())
        with np.errstate(invalid="ignore"):
            (expected,) = Interpreter().function(module.body.operations[0], [x])
            assert GatherSparseProducts().run(module)
            (actual,) = Interpreter().function(module.body.operations[0], [x])
        np.testing.assert_array_equal(actual, expected)
        assert np.isnan(actual).any() == (chance > 0)


def test_constants_are_computed(build: Build, check: Check) -> None:
    """As resized images have them: a number minus a distance, where that is positive."""

    def body(x: ir.Value) -> ir.Value:
        f32 = ir.F32Type.get()
        size = tensor((64, 30), f32)
        there = ops.broadcast(ops.constant(np.arange(30, dtype=np.float32) * 2 + 0.5, f32), shape(size), [1])
        here = ops.value("iota", size, dimension=0)
        distance = ops.like("abs", ops.like("subtract", there, here))
        w = ops.like("maximum", ops.like("subtract", ops.splat(1.0, size), distance), ops.splat(0.0, size))
        numbers = {"lhs_batch": [], "rhs_batch": [], "lhs_contract": [0], "rhs_contract": [1]}
        return ops.value("dot", tensor((30, 5, 16), f32), w, x, **numbers)

    after = check(build(["5x64x16xf32"], body), GatherSparseProducts().run, tolerance=1e-6)
    assert after.count('"hlo.gather"') == 2


def test_products_that_stay(build: Build, check: Check) -> None:
    def stays(sizes: str, matrix: np.ndarray, dimension: int) -> None:
        module = build([f"{sizes}xf32"], product(matrix, 0, 0, dimension))
        assert not GatherSparseProducts().run(module)

    dense = np.ones((80, 5), np.float32)
    stays("80x20", dense, 0)
    stays("80x20", sparse(9, 80, 5, fewer=False), 0)  # too many terms
    stays("23x20", sparse(3, 23, 5), 0)
    stays("20x95", sparse(3, 95, 5), 1)
    infinite = sparse(2, 80, 5)
    infinite[7, 2] = np.inf
    stays("80x20", infinite, 0)
    assert not GatherSparseProducts().run(build(["80x20xi32"], product(sparse(2, 80, 5), 0, 0, 0, "i32")))
