"""A backend of somebody else's: a package with an entry point, here written into a folder of the path.

It compiles, saves, loads and runs through the public interface, in a process in which nothing names the CPU backend.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.runtime import artifact
from stablehlo_py.runtime import program as programs

# Its "machine code" is the scheduled module, which it interprets fusion by fusion.
TOY = """
from functools import partial

import numpy as np

from stablehlo_py.backends.base import Backend, Code
from stablehlo_py.backends.common.description import describe
from stablehlo_py.dialect.context import make_context
from stablehlo_py.dialect.evaluate import evaluate_op
from stablehlo_py.mlir import bytecode, ir
from stablehlo_py.runtime.memory import array_at


class ToyBackend(Backend):
    name = "toy"
    platform = "toy"
    stages = {"bytes": "hex"}

    def describe(self, options):
        return "1"

    def lower(self, module, stop, options):
        return bytecode(module).hex()

    def compile(self, module, options):
        program = describe(module, "toy", "toy", options)
        program.objects, program.report = [bytecode(module)], "a toy"
        return program

    def load(self, program, device=0):
        return ToyCode(program)

    def listings(self, program):
        return {"bytes": partial(bytes.hex, program.objects[0])}

    def custom_calls(self):
        return frozenset()


class ToyCode(Code):
    def __init__(self, program):
        self.program = program
        with make_context():
            self.module = ir.Module.parse(program.objects[0])
        self.functions = {f.attributes["sym_name"].value: f.operation for f in self.module.body.operations}

    def run(self, inputs, outputs):
        arrays = [array_at(address, spec) for address, spec in zip(inputs, self.program.inputs)]
        results = self.call("main", arrays)
        for address, spec, result in zip(outputs, self.program.outputs, results, strict=True):
            array_at(address, spec)[...] = result

    def call(self, name, arguments):
        block = self.functions[name].regions[0].blocks[0]
        values = dict(zip(block.arguments, arguments, strict=True))
        for view in block.operations:
            op = view.operation
            operands = [values[operand] for operand in op.operands]
            if op.name == "func.return":
                return operands
            is_call = op.name == "func.call"
            results = self.call(op.attributes["callee"].value, operands) if is_call else evaluate_op(op, operands)
            values.update(zip(op.results, results, strict=True))
"""
MODEL = """func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %y, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.add %x, %0 : tensor<2x3xf32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  return %1, %2 : tensor<2x3xf32>, tensor<2xf32>
}"""
USE = """
import sys
import numpy as np
import stablehlo_py as shlo

x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(3, np.float32)
options = shlo.Options(cache_dir="cache")
made = [shlo.compile("model.mlir", target="toy", options=options) for _ in range(2)]  # compiled, and from the cache
made[0].save("model.shloexe")
made.append(shlo.load_executable("model.shloexe"))
for executable in made:
    buffers = [executable.put(x), executable.put(y)]
    for sums, rows in (executable(x, y), executable.call(buffers)):
        assert (sums == x + 1).all() and np.asarray(rows).tolist() == [6.0, 15.0]
    assert list(executable.stages)[-2:] == ["scheduled", "bytes"] and executable.stages["bytes"]
    assert executable.report().startswith("a toy")
native = [name for name in sys.modules if name.startswith("stablehlo_py.backends.cpu")]
assert not native, native
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of the path with the toy's package in it."""
    (tmp_path / "toy.py").write_text(TOY)
    metadata = tmp_path / "toy-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[stablehlo_py.backends]\ntoy = toy:ToyBackend\n")
    (tmp_path / "model.mlir").write_text(MODEL)
    return tmp_path


def run(site: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A command in a process that has the folder on its path."""
    setup = f"import sys; sys.path.insert(0, {str(site)!r}); "
    return subprocess.run(
        [sys.executable, "-c", setup + command[0], *command[1:]], cwd=site, capture_output=True, text=True
    )


def test_a_backend_is_a_package_with_an_entry_point(site: Path) -> None:
    finished = run(site, USE)
    assert finished.returncode == 0, finished.stderr


def test_the_tools_know_it_too(site: Path) -> None:
    finished = run(site, "from stablehlo_py.cli.compile import main; sys.exit(main())", "model.mlir", "--target", "toy")
    assert (finished.returncode, finished.stderr) == (0, "")
    assert "a toy" in finished.stdout
    finished = run(site, "from stablehlo_py.cli.run import main; sys.exit(main())", "model.shloexe")
    assert (finished.returncode, finished.stderr) == (0, "")
    assert "result0: float32[2, 3]" in finished.stdout


def test_stages_that_a_backend_of_somebody_else_has(site: Path) -> None:
    tool = "from stablehlo_py.cli.opt import main; sys.exit(main())"
    command = ("--target", "toy", "--dump-stages", "out", "model.mlir")
    finished = run(site, tool, "--compile-to=bytes", *command)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert bytes.fromhex(finished.stdout).startswith(b"ML")
    assert any(file.name.endswith("-stage-bytes.hex") for file in (site / "out").iterdir())
    finished = run(site, tool, "--compile-to=kernels", *command)
    assert finished.returncode == 2
    assert "no stage 'kernels'" in finished.stderr and "scheduled, bytes" in finished.stderr
    finished = run(site, "from stablehlo_py.cli.run import main; sys.exit(main())", "model.mlir", "--target=toy")
    assert (finished.returncode, finished.stderr) == (0, "")


def test_an_artifact_of_a_backend_that_is_not_here(tmp_path: Path) -> None:
    spec = programs.Spec("x", (), np.dtype(np.float32))
    program = programs.CompiledProgram("abacus", "beads", (spec,), (spec,), [], [], (), 0, False, 1)
    artifact.save(program, tmp_path / "model.shloexe")
    with pytest.raises(shlo.LoadError, match="'abacus', which is not installed here") as error:
        shlo.load_executable(tmp_path / "model.shloexe")
    assert error.value.remedy
