"""Value checks of passes: a small hlo program is run in NumPy before and after, on special values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.context import make_context
from stablehlo_py.dialect.interpret import Interpreter
from stablehlo_py.dialect.rounding import integer_info, is_float_dtype
from stablehlo_py.dialect.sharding import annotate, declare_meshes, shardings_of
from stablehlo_py.dialect.types import operations
from stablehlo_py.mlir import func_dialect, ir

FLOATS = (
    math.nan,
    math.inf,
    -math.inf,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.5,
    3.0,
    1e-3,
    -7.25,
    65504.0,
    1e30,
    -3e38,
    1e-39,
    -1e-45,
    1.0000001,
)


@pytest.fixture(scope="session")
def mlir_context() -> Iterator[ir.Context]:
    context = make_context()
    with context, ir.Location.unknown():
        yield context


def special_values(type_: ir.RankedTensorType, random: np.random.Generator) -> np.ndarray:
    """An array of that type with the values that go wrong: NaN, infinities, zeros of both signs, integer extremes."""
    dtype, sizes = numpy_dtype(type_.element_type), list(type_.shape)
    if dtype.kind == "b":
        return random.integers(0, 2, sizes).astype(bool)
    with np.errstate(all="ignore"):
        if dtype.kind == "c":
            result = np.empty(sizes, dtype)
            result.real, result.imag = (random.choice(FLOATS, sizes) for _ in range(2))
            return result
        if is_float_dtype(dtype):
            return np.asarray(random.choice(FLOATS, sizes)).astype(dtype)
        _, low, high = integer_info(dtype)
        pool = [low, low + 1, -1 if low else high, 0, 1, 2, 3, 5, 7, high - 1, high]
        return np.array(random.choice(pool, sizes), object).astype(np.int64 if low else np.uint64).astype(dtype)


def moderate_values(type_: ir.RankedTensorType, random: np.random.Generator) -> np.ndarray:
    """An array of that type with numbers of moderate size, for ops that round."""
    return np.asarray(random.standard_normal(list(type_.shape)) * 3).astype(numpy_dtype(type_.element_type))


def build_main(types: Sequence[str], body: Callable[..., ir.Value | Sequence[ir.Value]]) -> ir.Module:
    """A module whose `@main` takes tensors of `types` ("2x3xf32") and returns what `body` makes of them with the build
    helpers."""
    module = ir.Module.create()
    inputs = [ir.Type.parse(f"tensor<{type_}>") for type_ in types]
    with ir.InsertionPoint(module.body):
        function = func_dialect.FuncOp("main", (inputs, []))
    block = function.add_entry_block()
    with ir.InsertionPoint(block):
        made = body(*block.arguments)
        results = [made] if isinstance(made, ir.Value) else list(made)
        func_dialect.ReturnOp(results)
    function.attributes["function_type"] = ir.TypeAttr.get(
        ir.FunctionType.get(inputs, [result.type for result in results])
    )
    return module


@pytest.fixture
def build(mlir_context: ir.Context) -> Callable[..., ir.Module]:
    """build(types, body) -> module: see `build_main`."""
    return build_main


def run_main(module: ir.Module, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Results of `@main` in the reference interpreter of the tests."""
    return Interpreter().function(module.body.operations[0], arguments)


def assert_same(expected: Sequence[np.ndarray], actual: Sequence[np.ndarray], tolerance: float = 0.0) -> None:
    """Equal shapes and elements: bit for bit but for the payload of NaN, or within a relative tolerance."""
    assert len(expected) == len(actual)
    for before, after in zip(expected, actual, strict=True):
        assert before.shape == after.shape
        assert before.dtype == after.dtype
        if before.dtype.kind in "fcV" and tolerance:
            np.testing.assert_allclose(
                after.astype(np.float64), before.astype(np.float64), rtol=tolerance, atol=tolerance
            )
            continue
        if before.dtype.kind == "V":
            np.testing.assert_array_equal(after.astype(np.float64), before.astype(np.float64))
        else:
            np.testing.assert_array_equal(after, before)
        if is_float_dtype(before.dtype):
            zeros = before == 0
            np.testing.assert_array_equal(np.signbit(after)[zeros], np.signbit(before)[zeros])


def mark(module: ir.Module) -> list[str]:
    """Give every result of every op a sharding of its own; returns those of the module's results."""
    declare_meshes(module, {})
    number = 0
    for op in operations(module.operation):
        if len(op.results) and all(isinstance(result.type, ir.RankedTensorType) for result in op.results):
            annotate(op, [f"sharding {number + position}" for position in range(len(op.results))])
            number += len(op.results)
    return marks_of_results(module)


def marks_of_results(module: ir.Module) -> list[str]:
    """What the ops that make the results of `@main` say of their sharding; "" where an argument is returned."""
    *_, last = module.body.operations[0].regions[0].blocks[0].operations
    return [
        "" if isinstance(value.owner, ir.Block) else shardings_of(value.owner)[value.result_number]
        for value in last.operands
    ]


@pytest.fixture
def check(mlir_context: ir.Context) -> Callable[..., str]:
    """check(program, run, tolerance=0.0, rounds=8) -> the module after `run(module)`, printed; fails where any value
    changes, or where the sharding of a result is lost."""

    def run_check(
        program: str | ir.Module, run: Callable[[ir.Module], object], tolerance: float = 0.0, rounds: int = 8
    ) -> str:
        module = ir.Module.parse(program) if isinstance(program, str) else program
        assert module.operation.verify()
        random = np.random.default_rng(7)
        types = list(module.body.operations[0].type.inputs)
        if tolerance:
            arguments = [[moderate_values(t, random) for t in types] for _ in range(rounds)]
        else:
            arguments = [[special_values(t, random) for t in types] for _ in range(rounds)]
        expected = [run_main(module, each) for each in arguments]
        sharded = ir.Module.parse(str(module))
        for each in (sharded, module):
            kept = mark(each) if each is sharded else []
            run(each)
            assert each.operation.verify()
            assert not kept or marks_of_results(each) == kept, str(each)
            for before, values in zip(expected, arguments, strict=True):
                assert_same(before, run_main(each, values), tolerance)
        return str(module)

    return run_check
