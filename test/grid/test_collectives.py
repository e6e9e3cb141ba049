"""Collectives against StableHLO's reference interpreter, which runs the same program on the same grid, and against
NumPy where it cannot: it runs no more processes at a time than the machine has cores, so larger groups never meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, reduce
from types import ModuleType

import numpy as np
import pytest

import stablehlo_py as shlo

MESH = (
    '#stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 4>, '
    '#stablehlo.mesh_axis<name = "y", size = 2>]>, axes = [{axes}]>'
)
CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = {}, type = 0>"
ACROSS, GLOBAL = CHANNEL.format(1), CHANNEL.format(1) + ", use_global_device_ids"


def _dense(rows: list[list[int]]) -> str:
    return f"dense<{rows}> : tensor<{len(rows)}x{len(rows[0])}xi64>"


def _region(body: str, element: str) -> str:
    return f"""({{
    ^bb0(%x: tensor<{element}>, %y: tensor<{element}>):
      {body}
      stablehlo.return %r : tensor<{element}>
    }})"""


def _program(op: str, operands: list[str], results: list[str], attributes: str, region: str = "") -> str:
    names = [f"%a{i}" for i in range(len(operands))]
    arguments = ", ".join(f"{name}: {type_}" for name, type_ in zip(names, operands, strict=True))
    returned = ", ".join(f"%v#{i}" for i in range(len(results)))
    signature = f"({', '.join(operands)}) -> ({', '.join(results)})"
    return f"""func.func @main({arguments}) -> ({", ".join(results)}) {{
  %v:{len(results)} = "stablehlo.{op}"({", ".join(names)}) {region} {{{attributes}}} : {signature}
  return {returned} : {", ".join(results)}
}}"""


ADD = "%r = stablehlo.add %x, %y : tensor<{0}>"
MAX = "%r = stablehlo.maximum %x, %y : tensor<{0}>"
# Neither commutative nor associative: the order of the group shows.
ODD = """%c = stablehlo.constant dense<3> : tensor<{0}>
      %0 = stablehlo.multiply %x, %c : tensor<{0}>
      %1 = stablehlo.compare LT, %0, %y : (tensor<{0}>, tensor<{0}>) -> tensor<i1>
      %2 = stablehlo.subtract %y, %0 : tensor<{0}>
      %3 = stablehlo.add %0, %y : tensor<{0}>
      %r = stablehlo.select %1, %2, %3 : tensor<i1>, tensor<{0}>"""


def _groups(rows: list[list[int]], more: str = "") -> str:
    return f"replica_groups = {_dense(rows)}" + (f", {more}" if more else "")


@dataclass(frozen=True)
class Case:
    """A program and the grid that runs it."""

    replicas: int
    partitions: int
    text: str


def _case(grid: str, text: str) -> Case:
    replicas, partitions = map(int, grid.split("x"))
    return Case(replicas, partitions, text)


def _reduce(op: str, body: str, operands: str, results: str, attributes: str) -> str:
    element = results.split()[0].rsplit("x", 1)[-1].rstrip(">")
    return _program(op, operands.split(), results.split(), attributes, _region(body.format(element), element))


def _move(op: str, operands: str, results: str, attributes: str) -> str:
    return _program(op, operands.split(), results.split(), attributes)


def _permute(more: str = "") -> str:
    attributes = f"source_target_pairs = {_dense([[0, 1], [1, 2], [3, 3]])}" + more
    return _move("collective_permute", "tensor<3xi32>", "tensor<3xi32>", attributes)


F, I64, WIDE = "tensor<4xf32>", "tensor<2x3xi64>", "tensor<3x7001xi32>"
GATHER, SCATTER = "all_gather_dim = 1 : i64, ", "scatter_dimension = 1 : i64, "
ALL_TO_ALL = "split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, "
IDS = """func.func @main() -> (tensor<ui32>, tensor<ui32>) {
  %0 = stablehlo.replica_id : tensor<ui32>
  %1 = stablehlo.partition_id : tensor<ui32>
  return %0, %1 : tensor<ui32>, tensor<ui32>
}"""
CASES = {
    "ids": _case("2x3", IDS),
    "all_reduce": _case("2x1", _reduce("all_reduce", ADD, F, F, _groups([[0, 1]]))),
    "all_reduce both": _case("2x2", _reduce("all_reduce", MAX, F, F, _groups([[0], [1]], ACROSS))),
    "all_reduce flattened": _case("2x3", _reduce("all_reduce", ADD, F, F, _groups([[1, 0], [2, 3], [5, 4]], GLOBAL))),
    "all_reduce ragged": _case("3x1", _reduce("all_reduce", ADD, F, F, _groups([[0, 1], [2, -1]]))),
    "all_reduce variadic": _case(
        "2x1", _reduce("all_reduce", ADD, f"{F} tensor<2x2xf32>", f"{F} tensor<2x2xf32>", _groups([[0, 1]]))
    ),
    "all_reduce own body": _case("2x1", _reduce("all_reduce", ODD, I64, I64, _groups([[0, 1]]))),
    "all_reduce large": _case("2x1", _reduce("all_reduce", ODD, WIDE, WIDE, _groups([[0, 1]]))),
    "collective_reduce": _case("4x1", _reduce("collective_reduce", ADD, F, F, _groups([[1, 0], [2, 3]]))),
    "reduce_scatter": _case(
        "2x1", _reduce("reduce_scatter", ADD, "tensor<3x4xi32>", "tensor<3x2xi32>", SCATTER + _groups([[0, 1]]))
    ),
    "reduce_scatter flattened": _case(
        "2x2",
        _reduce(
            "reduce_scatter", ADD, "tensor<3x4xi32>", "tensor<3x2xi32>", SCATTER + _groups([[1, 0], [3, 2]], GLOBAL)
        ),
    ),
    "all_gather": _case("4x1", _move("all_gather", I64, "tensor<2x6xi64>", GATHER + _groups([[1, 0], [2, 3]]))),
    "all_gather variadic": _case(
        "1x2",
        _move(
            "all_gather", f"{I64} tensor<1x1xf32>", "tensor<2x6xi64> tensor<1x2xf32>", GATHER + _groups([[0]], ACROSS)
        ),
    ),
    "all_gather first": _case(
        "2x1", _move("all_gather", I64, "tensor<4x3xi64>", "all_gather_dim = 0 : i64, " + _groups([[0, 1]]))
    ),
    "all_to_all": _case(
        "4x1", _move("all_to_all", "tensor<2x4xi64>", "tensor<4x2xi64>", ALL_TO_ALL + _groups([[1, 0], [2, 3]]))
    ),
    "all_to_all cross_partition": _case(
        "2x2", _move("all_to_all", "tensor<2x4xi64>", "tensor<4x2xi64>", ALL_TO_ALL + _groups([[1, 0]], ACROSS))
    ),
    "collective_broadcast": _case("4x1", _move("collective_broadcast", F, F, _groups([[2, 1]]))),
    "collective_broadcast cross_partition": _case(
        "2x3", _move("collective_broadcast", F, F, _groups([[2, 1]], ACROSS))
    ),
    "collective_permute": _case("4x1", _permute()),
    "collective_permute cross_partition": _case("2x4", _permute(", " + ACROSS)),
}


Process = list[np.ndarray]
Model = Callable[[list[np.ndarray]], list[np.ndarray]]


def _reduced(groups: list[list[int]], combine: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Model:
    """The one operand of every process, combined in the order of its group."""

    def model(operands: list[np.ndarray]) -> list[np.ndarray]:
        totals = {member: reduce(combine, [operands[i] for i in group]) for group in groups for member in group}
        return [totals[number] for number in range(len(operands))]

    return model


def _odd(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(3 * x < y, y - 3 * x, 3 * x + y)


def _scattered(operands: list[np.ndarray]) -> list[np.ndarray]:
    return np.split(reduce(_odd, operands), len(operands), axis=1)


ROOT = """func.func @main(%a: tensor<4xf32>, %root: tensor<1xi32>) -> tensor<4xf32> {
  %v = "stablehlo.collective_reduce"(%a, %root) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %r = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %r : tensor<f32>
    }) {replica_groups = dense<[[2, 0, 1]]> : tensor<1x3xi64>, has_dynamic_root}
    : (tensor<4xf32>, tensor<1xi32>) -> tensor<4xf32>
  return %v : tensor<4xf32>
}"""
PARTS = '#stablehlo.axis_ref<name = "x", sub_axis_info = (2)2>, #stablehlo.axis_ref<name = "y">'
MODELS: dict[str, tuple[Case, Model]] = {
    "all_reduce cross_replica": (
        _case("4x2", _reduce("all_reduce", ODD, I64, I64, _groups([[2, 0], [1, 3]]))),
        _reduced([[4, 0], [5, 1], [2, 6], [3, 7]], _odd),
    ),
    "all_reduce cross_replica_and_partition": (
        _case("2x3", _reduce("all_reduce", ODD, I64, I64, _groups([[1, 0]], ACROSS))),
        _reduced([[3, 0, 4, 1, 5, 2]], _odd),
    ),
    "all_reduce flattened": (
        _case("2x3", _reduce("all_reduce", ODD, I64, I64, _groups([[5, 0, 3], [1, 2, 4]], GLOBAL))),
        _reduced([[5, 0, 3], [1, 2, 4]], _odd),
    ),
    "all_reduce ragged": (
        _case("6x1", _reduce("all_reduce", ODD, I64, I64, _groups([[5, 0, 3], [1, 2, -1], [4, -1, -1]]))),
        _reduced([[5, 0, 3], [1, 2], [4]], _odd),
    ),
    "all_reduce promoted": (
        _case("3x1", _reduce("all_reduce", ADD, "tensor<4xf16>", F, _groups([[0, 1, 2]]))),
        _reduced([[0, 1, 2]], lambda x, y: np.float32(x) + np.float32(y)),
    ),
    "all_reduce large": (
        _case("5x1", _reduce("all_reduce", ODD, WIDE, WIDE, _groups([[3, 0, 1, 4, 2]]))),
        _reduced([[3, 0, 1, 4, 2]], _odd),
    ),
    "all_reduce over a part of an axis": (
        _case("1x8", _reduce("all_reduce", ODD, I64, I64, f"replica_groups = {MESH.format(axes=PARTS)}, {GLOBAL}")),
        _reduced([[0, 1, 2, 3], [4, 5, 6, 7]], _odd),
    ),
    "all_reduce over an axis": (
        _case(
            "1x8",
            _reduce(
                "all_reduce",
                ODD,
                I64,
                I64,
                "replica_groups = " + MESH.format(axes='#stablehlo.axis_ref<name = "x">') + ", " + GLOBAL,
            ),
        ),
        _reduced([[0, 2, 4, 6], [1, 3, 5, 7]], _odd),
    ),
    "reduce_scatter": (
        _case(
            "4x1",
            _reduce("reduce_scatter", ODD, "tensor<3x8xi32>", "tensor<3x2xi32>", SCATTER + _groups([[0, 1, 2, 3]])),
        ),
        _scattered,
    ),
}


@cache
def _arguments(case: Case) -> tuple[shlo.Executable, list[list[np.ndarray]]]:
    made = shlo.compile(
        case.text, options=shlo.Options(num_replicas=case.replicas, num_partitions=case.partitions, verify=True)
    )
    random = np.random.default_rng(0)
    count = case.replicas * case.partitions
    return made, [[random.integers(-9, 9, s.shape).astype(s.dtype) for s in made.inputs] for _ in range(count)]


@pytest.fixture(scope="module")
def expected(reference: ModuleType) -> dict[str, list[list[np.ndarray]]]:
    requests = [
        reference.Request(case.text, case.replicas, case.partitions, _arguments(case)[1]) for case in CASES.values()
    ]
    return dict(zip(CASES, reference.run(requests), strict=True))


def _run(case: Case, made: shlo.Executable, arguments: list[list[np.ndarray]]) -> list[tuple[np.ndarray, ...]]:
    """Results by process."""
    assert isinstance(made, shlo.GridExecutable)
    rows = [arguments[r * case.partitions : (r + 1) * case.partitions] for r in range(case.replicas)]
    return [process for row in made.call_grid(rows) for process in row]


@pytest.mark.parametrize("name", CASES)
def test_as_the_reference_interpreter(name: str, expected: dict[str, list[list[np.ndarray]]]) -> None:
    made, arguments = _arguments(CASES[name])
    for _ in range(3):
        for process, wanted in zip(_run(CASES[name], made, arguments), expected[name], strict=True):
            for one, other in zip(process, wanted, strict=True):
                np.testing.assert_array_equal(one, other, strict=True)


@pytest.mark.parametrize("name", MODELS)
def test_as_numpy(name: str) -> None:
    case, model = MODELS[name]
    made, arguments = _arguments(case)
    expected = model([operand for (operand,) in arguments])
    for (one,), wanted in zip(_run(case, made, arguments), expected, strict=True):
        np.testing.assert_array_equal(one, wanted, strict=True)


def test_the_root_is_a_value() -> None:
    case = _case("3x1", ROOT)
    made, arguments = _arguments(case)
    for process in arguments:
        process[1][:] = 2  # the third of the group: process 1
    total = sum(process[0] for process in arguments)
    for number, (result,) in enumerate(_run(case, made, arguments)):
        np.testing.assert_array_equal(result, total if number == 1 else np.zeros(4, np.float32))
