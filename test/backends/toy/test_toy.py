"""A backend with policy, stages and passes of its own compiles and runs models, and needs nothing of another one."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py import suite
from stablehlo_py.backends.common.fusion import fusions
from stablehlo_py.cli import opt
from stablehlo_py.debug.engines import ENGINES, at_stage
from stablehlo_py.debug.settings import Settings
from stablehlo_py.dialect.calls import module_of_call
from stablehlo_py.mlir import bytecode, ir
from stablehlo_py.passes.policy import Costs, FusionPolicy
from stablehlo_py.targets import find_backend, register_backend, unregister_backend

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from toy import MEMORY, ToyBackend  # noqa: E402

OPTIONS = shlo.Options(cache_dir=None)
SOFTMAX = """func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.exponential %x : tensor<4x8xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %3 = stablehlo.divide %0, %2 : tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}"""
ALONE = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import stablehlo_py as shlo
from stablehlo_py.targets import register_backend
from toy import ToyBackend

register_backend("toy", ToyBackend)
executable = shlo.compile("model.mlir", target="toy", options=shlo.Options(cache_dir=None))
(result,) = executable(np.zeros((4, 8), np.float32))
assert (result == 0.125).all()
others = [name for name in sys.modules if name.startswith(("stablehlo_py.backends.cpu", "llvmlite"))]
assert not others, others
"""
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where a softmax lies; the toy is registered, as an entry point would do it."""
    register_backend("toy", ToyBackend)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.mlir").write_text(SOFTMAX)
    yield tmp_path
    unregister_backend("toy")


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """shlo-opt for the toy: its status, what it wrote, and what it said."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        status = opt.main(["--target=toy", *arguments])
        return status, *capfd.readouterr()

    return run


@pytest.mark.parametrize("name", ["mlp", "attention", "lstm", "newton"])
def test_models_run(name: str) -> None:
    model = suite.build(name, "small")
    executable = shlo.compile(suite.export(model), target="toy", options=OPTIONS)
    for result, wanted in zip(executable(*model.arrays()), suite.reference(model), strict=True):
        assert suite.largest_difference(result, wanted) <= model.tolerance
    assert list(executable.stages) == ["stablehlo", "hlo", "optimized", "maps", "listing", "bytes"]
    kinds = {line.split()[1].rstrip(":") for line in executable.stages["listing"].splitlines()}
    assert "map" in kinds and not kinds & {
        "loop",
        "row",
        "column",
        "straight_line",
        "straight_line_loop",
        "in_place_update",
    }


def test_nothing_of_another_backend_is_needed(folder: Path) -> None:
    finished = subprocess.run([sys.executable, "-c", ALONE, str(HERE)], capture_output=True, text=True, cwd=folder)
    assert finished.returncode == 0, finished.stderr


def test_a_stage_has_the_passes_of_the_backend(run: Run, folder: Path) -> None:
    status, output, errors = run("model.mlir", "--compile-to=listing", "--dump-stages=out")
    assert (status, errors) == (0, "")
    # The exponential has two readers and is computed once; nothing is a kernel of rows.
    assert [line.split(":")[0] for line in output.splitlines()] == ["0 map", "1 reduce", "2 map"]
    names = [path.name.partition("-")[2] for path in (folder / "out").iterdir()]
    assert {"toy-order.mlir", "stage-maps.mlir", "stage-listing.lst"} <= set(names)
    assert not {"schedule.mlir", "buffer-assignment.mlir", "outline-loops.mlir"} & set(names)
    status, _, errors = run("model.mlir", "--compile-to=scheduled")
    assert status == 2 and "no stage 'scheduled'" in errors and "maps" in errors


def test_a_stage_of_the_backend_is_read_back(run: Run) -> None:
    assert run("model.mlir", "--compile-to=maps", "-o", "maps.mlir")[0] == 0
    listing = run("maps.mlir", "--compile-from=maps", "--compile-to=listing")
    assert listing == run("model.mlir", "--compile-to=listing")


def test_a_pass_alone_asks_the_policy_of_its_target(run: Run) -> None:
    status, output, errors = run("model.mlir", "--pass-pipeline=legalize-to-hlo,fusion{target=toy},toy-order")
    assert (status, errors) == (0, "")
    assert 'hlo.fusion = "map"' in output and "toy.number" in output
    assert 'hlo.fusion = "map"' not in run("model.mlir", "--pass-pipeline=legalize-to-hlo,fusion")[1]
    status, _, errors = run("model.mlir", "--pass-pipeline=fusion{target=abacus}")
    assert status == 2 and "no backend for target 'abacus'" in errors


def test_what_can_be_left_out_is_what_the_backend_runs(run: Run) -> None:
    status, output, _ = run("model.mlir", "--compile-to=maps", "--disable=fuse")
    assert status == 0 and output.count("hlo.fusion") == 4
    status, _, errors = run("model.mlir", "--compile-to=maps", "--disable=toy-order")
    assert status == 2 and "'toy-order' cannot be disabled" in errors
    status, _, errors = run("model.mlir", "--compile-to=maps", "--disable=schedule")
    assert status == 2 and "no pass or rule 'schedule'" in errors


def test_kernels_run_by_themselves() -> None:
    module = at_stage("fused", SOFTMAX, ((4, 8),), None, OPTIONS, (), "toy")
    with module.context, ir.Location.unknown():
        first = bytecode(module_of_call(fusions(module)[0]))
    x = np.ones((4, 8), np.float32)
    (result,) = ENGINES["kernel"](first, [x], Settings(None, OPTIONS, target="toy"))
    np.testing.assert_allclose(result, np.exp(x), rtol=1e-6)


def test_the_policy_of_no_machine_fuses_loops(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ToyBackend, "costs", Costs())
    monkeypatch.setattr(ToyBackend, "fusion", FusionPolicy())
    _, output, _ = run("model.mlir", "--compile-to=listing")
    assert [line.split(":")[0] for line in output.splitlines()] == ["0 loop", "1 reduce", "2 loop"]


def test_a_backend_is_made_once_and_can_be_taken_back() -> None:
    assert find_backend("toy") is find_backend("toy")
    unregister_backend("toy")
    with pytest.raises(shlo.OptionError, match="no backend for target 'toy'"):
        find_backend("toy")


RUNNING_SUM = """func.func @main(%state: tensor<3xf32> {tf.aliasing_output = 0 : i32}, %x: tensor<3xf32>)
    -> (tensor<3xf32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.add %state, %x : tensor<3xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
  return %0, %1 : tensor<3xf32>, tensor<f32>
}"""


def test_state_stays_on_the_device() -> None:
    """Nothing is copied but what is put and what is read."""
    executable = shlo.compile(RUNNING_SUM, target="toy", options=OPTIONS)
    MEMORY.copies.clear()
    state, x = executable.put(np.zeros(3, np.float32), 0), executable.put(np.arange(3, dtype=np.float32), 1)
    for _ in range(5):
        state, total = executable.call([state, x])
        assert state.device == "toy:0" and state.memory_space == "scratchpad" and state.address >= 1 << 60
    assert MEMORY.copies == {"to the device": 2}
    np.testing.assert_array_equal(total, 15)
    assert total.is_ready()
    np.testing.assert_array_equal(state, [0, 5, 10])
    assert MEMORY.copies == {"to the device": 2, "to the host": 2}


SYMBOLIC = """func.func @main(%n: tensor<i32>, %x: tensor<?x3xf32>, %y: tensor<3xf32>) -> (tensor<?x3xf32>, tensor<?xi32>) {
  %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
  %2 = stablehlo.reshape %three : (tensor<i32>) -> tensor<1xi32>
  %3 = stablehlo.concatenate %1, %2, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %4 = stablehlo.dynamic_broadcast_in_dim %y, %3, dims = [1] : (tensor<3xf32>, tensor<2xi32>) -> tensor<?x3xf32>
  %5 = stablehlo.add %x, %4 : tensor<?x3xf32>
  %6 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %7 = stablehlo.dynamic_iota %6, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
  return %5, %7 : tensor<?x3xf32>, tensor<?xi32>
}"""  # noqa: E501


def test_state_of_many_shapes_stays_on_the_device() -> None:
    """Nothing is copied to learn shapes but an argument that is one."""
    executable = shlo.compile(SYMBOLIC, target="toy", options=OPTIONS)
    y = executable.put(np.arange(3, dtype=np.float32), 2)
    for rows in (2, 5, 2):
        n, state = executable.put(np.int32(rows + 1), 0), executable.put(np.zeros((rows, 3), np.float32), 1)
        state, _ = executable.call([n, state, y])
        MEMORY.copies.clear()
        state, count = executable.call([n, state, y])
        assert state.device == "toy:0" and MEMORY.copies == {"to the host": 1}
        np.testing.assert_array_equal(state, [[0, 2, 4]] * rows)
        np.testing.assert_array_equal(count, range(rows + 1))
    assert executable.compilations == 2


def test_a_call_with_arrays_copies_each_once() -> None:
    executable = shlo.compile(SOFTMAX, target="toy", options=OPTIONS)
    MEMORY.copies.clear()
    (result,) = executable(np.zeros((4, 8), np.float32))
    assert (result == 0.125).all() and result.flags.writeable
    assert MEMORY.copies == {"to the device": 1, "to the host": 1}


def test_calls_return_before_the_work_is_done() -> None:
    executable = shlo.compile(SOFTMAX, target="toy", options=OPTIONS)
    x, go_on = executable.put(np.zeros((4, 8), np.float32)), threading.Event()
    MEMORY.ask(go_on.wait)
    (result,) = executable.call([x])
    assert not result.is_ready() and "not ready" in repr(result)
    go_on.set()
    assert result.wait().is_ready()
    np.testing.assert_array_equal(np.asarray(result), 0.125)


def test_memory_is_freed_with_its_buffer() -> None:
    executable = shlo.compile(SOFTMAX, target="toy", options=OPTIONS)
    before = len(MEMORY.content)
    buffers = [executable.put(np.zeros((4, 8), np.float32)) for _ in range(3)]
    assert len(MEMORY.content) == before + 3
    buffers.pop()
    buffers[0].release()
    MEMORY.ask(int).wait()
    assert len(MEMORY.content) == before + 1
    with pytest.raises(shlo.ArgumentError, match="released"):
        executable.call(buffers[:1])


def test_buffers_of_another_memory_are_refused() -> None:
    executable = shlo.compile(SOFTMAX, target="toy", options=OPTIONS)
    other = shlo.compile(SOFTMAX, options=OPTIONS)
    buffer = other.put(np.zeros((4, 8), np.float32))
    with pytest.raises(shlo.ArgumentError, match="in host memory, where the program does not run"):
        executable.call([buffer])
    with pytest.raises(shlo.ArgumentError, match="the program runs in scratchpad memory of toy:0"):
        executable.put(np.zeros((4, 8), np.float32), copy=False)
    (result,) = other.call([buffer])
    np.testing.assert_array_equal(executable(result)[0], executable(np.asarray(result))[0])  # arrays of any device
