"""Saved programs are loaded and called in processes that have Python, NumPy and ml_dtypes, and nothing else: no MLIR,
no LLVM, no JAX, and none of the modules of this package that compile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from without_compiler import alone

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.runtime import artifact

OPTIONS = shlo.Options(threads=2, cache_dir=None)

# Loops, constants, several results; one of them is the argument's memory.
LOOP = """func.func @main(%x: tensor<64xf32> {tf.aliasing_output = 0 : i32}, %n: tensor<i32>)
    -> (tensor<64xf32>, tensor<i32>, tensor<bf16>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %table = stablehlo.constant dense<[TABLE]> : tensor<64xf32>
  %r:2 = stablehlo.while(%a = %x, %i = %zero) : tensor<64xf32>, tensor<i32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }
  do {
    %s = stablehlo.sine %a : tensor<64xf32>
    %t = stablehlo.add %s, %table : tensor<64xf32>
    %u = stablehlo.reverse %t, dims = [0] : tensor<64xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %u, %j : tensor<64xf32>, tensor<i32>
  }
  %f = stablehlo.convert %r#1 : (tensor<i32>) -> tensor<bf16>
  return %r#0, %r#1, %f : tensor<64xf32>, tensor<i32>, tensor<bf16>
}""".replace("TABLE", ", ".join(f"{number}.5" for number in range(64)))


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., Path]:
    """A program in a file."""

    def save(text: str, target: str = "cpu", **options: object) -> Path:
        program = compile_program(text, target=target, options=shlo.Options(threads=2, cache_dir=None, **options))  # type: ignore[arg-type]
        artifact.save(program, tmp_path / f"{target}.shloexe")
        return tmp_path / f"{target}.shloexe"

    return save


CALLED = """
executable = shlo.load_executable(sys.argv[1])
results = executable(np.linspace(-2, 2, 64, dtype=np.float32), np.int32(5))
buffers = [executable.put(np.linspace(-2, 2, 64, dtype=np.float32), 0), executable.put(np.int32(5), 1)]
again = [np.asarray(buffer) for buffer in executable.call(buffers)]
assert all(one.tobytes() == other.tobytes() for one, other in zip(results, again))
assert "memory" in executable.report() and not compiling(), compiling()
np.savez(sys.argv[2], *[result.astype(np.float64) for result in results])
"""


@pytest.mark.parametrize("target", ["cpu", "opencl"])
def test_a_program_with_a_loop(saved, tmp_path, request, target) -> None:
    if target == "opencl":
        request.getfixturevalue("real_device")
    alone(CALLED, saved(LOOP, target), tmp_path / "results.npz")
    x, n = np.linspace(-2, 2, 64, dtype=np.float32), np.int32(5)
    wanted = shlo.compile(LOOP, target=target, options=OPTIONS)(x, n)
    with np.load(tmp_path / "results.npz") as found:
        for number, result in enumerate(wanted):
            assert (found[f"arr_{number}"] == result.astype(np.float64)).all()


def test_threads(saved, tmp_path) -> None:
    """The pool's code comes with the program."""
    text = """func.func @main(%x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
      %0 = stablehlo.dot %x, %x : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
      %1 = stablehlo.tanh %0 : tensor<1024x1024xf32>
      return %1 : tensor<1024x1024xf32>
    }"""
    path = saved(text)
    assert artifact.load(path).uses_pool
    script = """
x = np.eye(1024, dtype=np.float32)
(y,) = shlo.load_executable(sys.argv[1])(x)
print(np.allclose(y, np.tanh(x), atol=1e-6), len(__import__("os").listdir("/proc/self/task")) > 1)
"""
    assert alone(script, path, OPENBLAS_NUM_THREADS="1") == "True True\n"


def test_a_program_for_all_shapes(saved) -> None:
    text = """func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
      %0 = stablehlo.exponential %x : tensor<?x4xf32>
      return %0 : tensor<?x4xf32>
    }"""
    script = """
executable = shlo.load_executable(sys.argv[1])
for rows in (1, 7, 300):
    x = np.ones((rows, 4), np.float32)
    assert np.allclose(executable(x)[0], np.exp(x))
assert not compiling(), compiling()
"""
    alone(script, saved(text, dynamic="once"))


def test_a_function_of_python(saved) -> None:
    """It is called from native code, and what it raises comes out."""
    text = """func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = stablehlo.custom_call @doubled(%x) {api_version = 2 : i32} : (tensor<8xf32>) -> tensor<8xf32>
      return %0 : tensor<8xf32>
    }"""
    shlo.register_custom_call("doubled", lambda x: 2 * x)
    try:
        path = saved(text)
    finally:
        shlo.unregister_custom_call("doubled")
    script = """
def doubled(x):
    if x[0] < 0:
        raise ValueError("below zero")
    return 2 * x

shlo.register_custom_call("doubled", doubled)
executable = shlo.load_executable(sys.argv[1])
print(executable(np.ones(8, np.float32))[0].sum())
try:
    executable(-np.ones(8, np.float32))
except shlo.CallError as error:
    print(error.__cause__)
"""
    assert alone(script, path) == "16.0\nbelow zero\n"


def test_a_grid_of_processes(saved) -> None:
    text = """module attributes {mhlo.num_replicas = 3 : i32} {
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "stablehlo.all_reduce"(%x) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) {replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }}"""
    script = """
executable = shlo.load_executable(sys.argv[1])
print(np.asarray(executable.call_grid([[[row]] for row in np.arange(12, dtype=np.float32).reshape(3, 4)])).tolist())
assert not compiling(), compiling()
"""
    row = [12.0, 15.0, 18.0, 21.0]
    assert alone(script, saved(text)) == f"{3 * [[[row]]]}\n"


def test_ctrl_c_ends_a_loop(saved) -> None:
    script = """
import os, signal, threading
executable = shlo.load_executable(sys.argv[1])
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    executable(np.ones(64, np.float32), np.int32(2**31 - 1))
except KeyboardInterrupt:
    print("ended")
"""
    assert alone(script, saved(LOOP)) == "ended\n"


def test_what_needs_a_compiler_says_so(saved) -> None:
    """Texts of stages that are kept as MLIR has them; machine code is listed without it."""
    script = """
executable = shlo.load_executable(sys.argv[1])
try:
    executable.stages["scheduled"]
except shlo.ResourceError as error:
    print(error.reason.partition(": ")[2])
print("main" in executable.stages["object"] or "no objdump" in executable.stages["object"])
"""
    assert alone(script, saved(LOOP)) == "the Python package 'torch_mlir' is missing\nTrue\n"
