"""The parts of reduction: delta debugging, edits of a module, what a case must show."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from stablehlo_py.debug import edits
from stablehlo_py.debug.delta import minimize
from stablehlo_py.debug.edits import Case

X = np.arange(6, dtype=np.float32).reshape(2, 3)
CHAIN = Case(
    """func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
      %a = stablehlo.abs %x : tensor<2x3xf32>
      %b = stablehlo.add %a, %y : tensor<2x3xf32>
      %c = stablehlo.negate %b : tensor<2x3xf32>
      return %c, %a : tensor<2x3xf32>, tensor<2x3xf32>
    }""",
    (X, X),
)
LOOP = Case(
    """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<3xf32>
        cond {
          %n = stablehlo.constant dense<3> : tensor<i32>
          %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        } do {
          %one = stablehlo.constant dense<1> : tensor<i32>
          %next = stablehlo.add %i, %one : tensor<i32>
          %w = stablehlo.sine %v : tensor<3xf32>
          stablehlo.return %next, %w : tensor<i32>, tensor<3xf32>
        }
      return %r#1 : tensor<3xf32>
    }""",
    (np.ones(3, np.float32),),
)


@pytest.mark.parametrize("wanted", [(), (3,), (0, 99), (10, 11, 50), tuple(range(0, 100, 9))])
def test_minimize_finds_what_is_needed(wanted: tuple[int, ...]) -> None:
    asked = []

    def shows(part: list[int]) -> bool:
        asked.append(part)
        return set(wanted) <= set(part)

    assert minimize(range(100), shows) == list(wanted)
    assert len(asked) <= (20 if len(wanted) < 2 else 1000)


def test_ops_are_cut_out() -> None:
    values = {(0, 0): X + 1, (1, 0): X + 2}
    made = edits.cut(CHAIN, [1], values)
    assert made is not None
    assert (made.ops, [array[0, 0] for array in made.inputs]) == (1, [0, 1])
    assert "stablehlo.add" in made.module
    last = edits.cut(CHAIN, [2], values)
    assert last is not None
    np.testing.assert_array_equal(last.inputs[0], X + 2)
    assert edits.cut(CHAIN, [2], {}) is None  # nobody knows the value
    assert edits.cut(CHAIN, [], values) is None


def test_every_value_is_exposed() -> None:
    made, keys = edits.exposed(CHAIN)
    assert keys == [(0, 0), (1, 0), (2, 0)]
    assert edits.result_count(made) == 3


def test_results_and_what_is_unused_go() -> None:
    made = edits.keep_results(CHAIN, [1])
    assert made is not None
    assert (made.ops, len(made.inputs), edits.result_count(made)) == (1, 1, 1)


def test_bypasses_keep_types() -> None:
    made = list(edits.bypasses(CHAIN))
    assert len(made) == 4  # negate, add twice, abs
    assert all(each.ops == 2 for each in made)


def test_a_loop_becomes_its_body() -> None:
    made = [each for each in edits.bypasses(LOOP) if "while" not in each.module]
    assert [each.ops for each in made] == [1]
    assert "stablehlo.sine" in made[0].module


def test_sizes_shrink_together() -> None:
    assert edits.sizes_of(CHAIN) == [3, 2]
    made = edits.with_size(CHAIN, 3, 1)
    assert made is not None
    assert [array.shape for array in made.inputs] == [(2, 1), (2, 1)]
    assert "tensor<2x3xf32>" not in made.module
    reshape = Case(
        "func.func @main(%x: tensor<2x3xf32>) -> tensor<6xf32> {\n"
        "  %a = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>\n  return %a : tensor<6xf32>\n}",
        (X,),
    )
    assert edits.with_size(reshape, 3, 1) is None


def test_inputs_become_plainer() -> None:
    numbers = [number for number, _ in edits.plainer_inputs(CHAIN)]
    assert numbers == [0, 0, 1, 1]  # they are whole numbers already


def test_inputs_become_constants() -> None:
    text = edits.with_constant_inputs(CHAIN)
    assert "@main() ->" in text
    assert "dense<[[0.0" in text.replace("0.000000e+00", "0.0")


def reduce(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stablehlo_py.cli.reduce", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=folder)


def test_a_script_says_what_must_be_kept(tmp_path: Path) -> None:
    (tmp_path / "loop.mlir").write_text(LOOP.module)
    script = tmp_path / "has-sine.sh"
    script.write_text('#!/bin/sh\ngrep -q sine "$1" && test -f "$2"\n')
    os.chmod(script, 0o755)
    done = reduce(tmp_path, "loop.mlir", "--script", script)
    assert done.returncode == 0, done.stderr
    assert "stablehlo.sine" in done.stdout
    assert "while" not in done.stdout
    assert reduce(tmp_path, "loop.mlir", "--script", "./missing.sh").returncode == 3
    nothing = reduce(tmp_path, "loop.mlir")
    assert (nothing.returncode, "nothing to reduce" in nothing.stderr) == (2, True)


def test_an_error_is_kept(tmp_path: Path) -> None:
    (tmp_path / "call.mlir").write_text(
        "func.func @main(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {\n"
        "  %a = stablehlo.sine %x : tensor<4x2xf32>\n"
        "  %b = stablehlo.custom_call @foo(%a) : (tensor<4x2xf32>) -> tensor<4x2xf32>\n"
        "  %c = stablehlo.cosine %b : tensor<4x2xf32>\n  return %c : tensor<4x2xf32>\n}"
    )
    done = reduce(tmp_path, "call.mlir", "--error", "foo")
    assert done.returncode == 0, done.stderr
    assert "custom_call @foo" in done.stdout
    assert "sine" not in done.stdout
    assert "2 tries" not in done.stdout
    assert reduce(tmp_path, "call.mlir", "--error", "bar").returncode == 2
