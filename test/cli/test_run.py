"""shlo-run: inputs, results, comparisons, checks, and how it ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import jax.export
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.cli import compare, run
from stablehlo_py.debug.compare import difference_of
from stablehlo_py.debug.random_arrays import random_array

ADD = """func.func @main(%x: tensor<2x3xf32>, %n: tensor<i32>) -> (tensor<2x3xf32>, tensor<i32>) {
  %y = stablehlo.add %x, %x : tensor<2x3xf32>
  %m = stablehlo.negate %n : tensor<i32>
  return %y, %m : tensor<2x3xf32>, tensor<i32>
}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)
Tool = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tool(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tool:
    """tool(*arguments) -> (status, stdout, stderr) in a folder with add.mlir."""
    monkeypatch.chdir(tmp_path)
    Path("add.mlir").write_text(ADD)

    def call(*arguments: object) -> tuple[int, str, str]:
        try:
            status = run.main([str(argument) for argument in arguments])
        except SystemExit as exit_:  # argparse
            status = int(exit_.code or 0)
        return (status, *capfd.readouterr())

    return call


def test_help(tool: Tool) -> None:
    status, out, _ = tool("--help")
    assert status == 0
    for option in ("--input", "--compare", "--output", "--benchmark", "--dim", "exit status:"):
        assert option in out
    assert max(map(len, out.splitlines())) <= 120


def test_results_are_printed(tool: Tool) -> None:
    np.save("x.npy", X)
    np.save("n.npy", np.int32(5))
    status, out, err = tool("add.mlir", "--input", "x.npy", "--input", "n.npy")
    assert (status, err) == (0, "")
    assert "float32[2, 3]" in out
    assert "10." in out
    assert "-5" in out


def test_npz_in_and_out(tool: Tool) -> None:
    np.savez("in.npz", second=X, first=np.int32(5))
    status, out, _ = tool("add.mlir", "--input", "in.npz", "--output", "out.npz")
    assert (status, out) == (0, "")
    with np.load("out.npz") as results:
        np.testing.assert_array_equal(results["result0"], X * 2)
        np.testing.assert_array_equal(results["result1"], -5)
    assert tool("add.mlir", "--input", "in.npz", "--output", "out.npz", "--print")[1]


def test_npy_out(tool: Tool) -> None:
    assert tool("add.mlir", "--output", "out.npy")[0] == 2
    assert tool("add.mlir", "--output", "out.txt")[0] == 2
    assert tool("add.mlir", "--output", "missing/out.npz")[0] == 3
    Path("one.mlir").write_text("func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }")
    assert tool("one.mlir", "--output", "out.npy")[0] == 0
    assert np.load("out.npy").shape == (3,)


def test_types_that_numpy_does_not_know_travel(tool: Tool) -> None:
    text = "func.func @main(%x: tensor<3xbf16>) -> tensor<3xbf16> { return %x : tensor<3xbf16> }"
    Path("model.mlir").write_text(text)
    x = np.array([1.5, -2, 3], ml_dtypes.bfloat16)
    np.save("x.npy", x)
    assert tool("model.mlir", "--input", "x.npy", "--output", "y.npy")[0] == 0
    np.testing.assert_array_equal(np.load("y.npy").view(ml_dtypes.bfloat16), x)


def test_random_inputs_are_reproducible(tool: Tool) -> None:
    first = tool("add.mlir")[1]
    assert first == tool("add.mlir")[1]
    assert first != tool("add.mlir", "--seed", 1)[1]


@pytest.mark.parametrize("name", "bool int8 uint8 int4 uint2 int64 float16 bfloat16 float64 complex64".split())
def test_random_arrays(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    for sizes in ([], [3, 4], [0]):
        array = random_array(np.random.default_rng(0), dtype, sizes)
        assert (array.dtype, array.shape) == (dtype, tuple(sizes))


def test_the_difference_of_arrays() -> None:
    x = np.array([1.0, np.nan, np.inf, 200.0])
    assert difference_of(x, x.copy()) == 0
    assert difference_of(x, x + np.array([0, 0, 0, 2])) == pytest.approx(2 / 202)
    for other in (x[:3], np.array([1, 2, np.inf, 200]), np.array([1, np.nan, -np.inf, 200]), np.array([np.inf] * 4)):
        assert difference_of(x, other) == np.inf
    assert difference_of(np.zeros((0, 2)), np.zeros((0, 2))) == 0


# --- comparisons -----------------------------------------------------------------------------------------------------


def test_comparison_with_both_oracles(tool: Tool) -> None:
    status, out, err = tool("add.mlir", "--compare=reference,jax")
    assert (status, err) == (0, "")
    assert out.count("agrees") == 4


def test_comparison_of_an_exported_model(tool: Tool) -> None:
    def model(x: jax.Array, w: jax.Array) -> tuple[jax.Array, ...]:
        y = jax.nn.softmax(jnp.tanh(x @ w).astype(jnp.bfloat16))
        return y, jnp.argmax(y, 1), jnp.sort(x, 0)

    specs = jax.ShapeDtypeStruct((5, 6), jnp.float32), jax.ShapeDtypeStruct((6, 7), jnp.float32)
    Path("model.bin").write_bytes(jax.export.export(jax.jit(model))(*specs).serialize())
    status, out, err = tool("model.bin", "--compare=jax,reference")
    assert (status, err) == (0, ""), out
    assert out.count("agrees") == 6


def test_comparison_with_symbolic_dimensions(tool: Tool) -> None:
    text = """func.func @main(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
      %y = stablehlo.exponential %x : tensor<?x3xf32>
      return %y : tensor<?x3xf32>
    }"""
    Path("model.mlir").write_text(text)
    status, out, err = tool("model.mlir", "--dim", 7, "--compare=reference,jax", "--output", "y.npz")
    assert (status, err) == (0, ""), out
    with np.load("y.npz") as results:
        assert results["result0"].shape == (7, 3)


def test_an_entry_other_than_main(tool: Tool) -> None:
    other = ADD.replace("@main", "@other").replace("stablehlo.add", "stablehlo.multiply")
    Path("two.mlir").write_text(ADD.replace("@main", "@one") + other)
    assert tool("two.mlir", "--entry", "other", "--compare=reference,jax")[0] == 0
    assert tool("two.mlir")[0] == 2


def test_a_difference_is_found(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = [X * 3, np.int32(0)]
    for expected in (wrong, [X], [X.astype(np.float64), np.int32(1)], [X[:1], np.int32(1)]):
        monkeypatch.setattr(compare, "ask_oracles", lambda *_, expected=expected: ({"jax": expected}, {}))
        status, out, _ = tool("add.mlir", "--compare=jax", "--tolerance", "1e-3")
        assert status == 1
        assert "DIFFERS" in out


@pytest.mark.parametrize(
    ("ours", "reference", "says"),
    [
        (1, 1, "ours, reference, jax: all agree"),
        (2, 1, "ours disagrees with both: reference and jax agree with each other"),
        (1, 2, "reference disagrees with both: ours and jax agree with each other"),
        (2, 3, "ours and jax, ours and reference, reference and jax disagree"),
    ],
)
def test_three_ways(
    ours: int, reference: int, says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"reference": [X * reference], "jax": [X]}
    monkeypatch.setattr(compare, "ask_oracles", lambda *_: (answers, {}))
    status = compare.compare(["reference", "jax"], "", None, [], [X * ours], None)
    out = capsys.readouterr().out
    assert status == (ours != 1 or reference != 1)
    assert out.splitlines()[-1] == says
    assert ("most at [1, 2]" in out) == (status == 1)


def test_an_oracle_that_fails(tool: Tool) -> None:
    text = """func.func @main(%x: tensor<2x2xf32>) -> tensor<i32> {
      %y:2 = stablehlo.custom_call @lapack_spotrf_ffi(%x) {api_version = 4 : i32,
        backend_config = {uplo = 76 : ui8}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
        result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]}
        : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<i32>)
      return %y#1 : tensor<i32>
    }"""
    Path("model.mlir").write_text(text)
    np.save("spd.npy", np.array([[2, 1], [1, 2]], np.float32))
    status, _, err = tool("model.mlir", "--compare=reference")
    assert status == 4
    assert "no oracle can run the module (reference)" in err
    assert "compare with jax" in err
    assert tool("add.mlir", "--compare=oracle-of-delphi")[0] == 2
    status, out, _ = tool("model.mlir", "--compare=reference,jax", "--input", "spd.npy")
    assert (status, out.count("agrees")) == (0, 1)
    assert "reference cannot run the module" in out


# --- checks ----------------------------------------------------------------------------------------------------------

CHECK = """func.func @main() {
  %x = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %y = stablehlo.add %x, %x : tensor<2xf32>
  stablehlo.custom_call @check.expect_close(%y, %e) {has_side_effect = true} : (tensor<2xf32>, tensor<2xf32>) -> ()
  return
}
""".replace("  %y =", "  %e = stablehlo.constant dense<[2.0, 4.0]> : tensor<2xf32>\n  %y =")


def test_self_checking_modules(tool: Tool) -> None:
    Path("good.mlir").write_text(CHECK)
    status, out, err = tool("good.mlir")
    assert (status, out, err) == (0, "good.mlir: 1 check passed\n", "")
    Path("bad.mlir").write_text(CHECK + "// -----\n" + CHECK.replace("4.0", "5.0"))
    status, out, _ = tool("bad.mlir")
    assert status == 1
    assert "bad.mlir#0: 1 check passed" in out
    assert "bad.mlir#1: check 0 failed" in out
    Path("broken.mlir").write_text(CHECK.replace("stablehlo.add", "stablehlo.addd"))
    assert tool("broken.mlir")[0] == 3


def test_a_comment_about_checks_is_no_check(tool: Tool) -> None:
    Path("plain.mlir").write_text("// like check.expect_eq\n" + ADD)
    assert "float32" in tool("plain.mlir")[1]


# --- artifacts, standard input, timing -------------------------------------------------------------------------------


def test_artifacts(tool: Tool) -> None:
    shlo.compile(ADD).save("add.shloexe")
    np.savez("in.npz", x=X, n=np.int32(5))
    assert tool("add.shloexe", "--input", "in.npz")[1] == tool("add.mlir", "--input", "in.npz")[1]
    status, _, err = tool("add.shloexe", "--compare=jax")
    assert (status, "artifact" in err) == (2, True)
    Path("bad.shloexe").write_bytes(Path("add.shloexe").read_bytes()[:-50])
    assert tool("bad.shloexe")[0] == 3


def test_standard_input(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "stablehlo_py.cli.run", "-", "--compare=reference"]
    done = subprocess.run(command, input=ADD, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("agrees") == 2


def test_the_backend_and_the_cpu_are_for_modules(tool: Tool) -> None:
    assert tool("add.mlir", "--target", "cpu", "--cpu", "x86-64")[0] == 0
    assert tool("add.mlir", "--cpu", "pdp11")[0] == 2
    shlo.compile(ADD).save("add.shloexe")
    status, _, err = tool("add.shloexe", "--cpu", "avx2")
    assert status == 2 and "an artifact is compiled already" in err


@pytest.mark.parametrize(
    "given",
    [["--tf32"], ["--no-graphs"], ["--threads", "1"], ["--entry", "main"], ["--replicas", "2"], ["--target", "opencl"]],
    ids=" ".join,
)
def test_an_artifact_takes_no_options_of_the_compiler(tool: Tool, given: list[str]) -> None:
    shlo.compile(ADD).save("add.shloexe")
    status, _, err = tool("add.shloexe", *given)
    assert status == 2 and f"an artifact is compiled already, and {given[0]} cannot change it" in err
    assert tool("add.shloexe", "--seed", "1", "--device", "0", "--graphs")[0] == 0


def test_benchmark(tool: Tool) -> None:
    status, out, _ = tool("add.mlir", "--benchmark", 5)
    assert status == 0
    assert out.startswith("5 calls: median")
    specs = jax.ShapeDtypeStruct((8,), jnp.float32)
    donating = jax.export.export(jax.jit(lambda x: x + 1, donate_argnums=0))(specs)
    Path("donating.bin").write_bytes(donating.serialize())
    assert tool("donating.bin", "--benchmark", 5)[0] == 0
    assert tool("add.mlir", "--benchmark", 0)[0] == 2


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ((), 2),
        (("missing.mlir",), 3),
        (("add.mlir", "--input", "missing.npy"), 3),
        (("add.mlir", "--input", "add.mlir"), 3),
        (("add.mlir", "--input", "empty.npy"), 3),
        (("add.mlir", "--input", "x.npy"), 3),
        (("add.mlir", "--threads", "0"), 2),
        (("add.mlir", "--entry", "missing"), 2),
        (("broken.mlir",), 3),
        (("garbage.bin",), 3),
        (("unsupported.mlir",), 4),
    ],
)
def test_how_it_ends(tool: Tool, arguments: tuple[str, ...], status: int) -> None:
    np.save("x.npy", X)
    Path("empty.npy").write_bytes(b"")
    Path("broken.mlir").write_text("func.func @main( {")
    Path("garbage.bin").write_bytes(bytes(range(256)))
    Path("unsupported.mlir").write_text(
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
        "  %y = stablehlo.custom_call @foo(%x) : (tensor<2xf32>) -> tensor<2xf32>\n  return %y : tensor<2xf32>\n}"
    )
    found, out, err = tool(*arguments)
    assert (found, out) == (status, "")
    assert err
    assert "Traceback" not in err


def test_a_defect_ends_with_5(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "inputs_of", lambda *_: 1 / 0)
    status, _, err = tool("add.mlir")
    assert status == 5
    assert "ZeroDivisionError" in err
    assert "this is a defect of stablehlo-py: report it" in err


# --- grids -----------------------------------------------------------------------------------------------------------

SUM = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.all_reduce"(%a) ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""


def test_processes_with_inputs_of_their_own(tool: Tool) -> None:
    Path("sum.mlir").write_text(SUM)
    np.save("all.npy", np.ones(4, np.float32))
    np.save("second.npy", np.arange(4, dtype=np.float32))
    given = ("--replicas", 2, "--input", "all.npy", "--process-input", "1,0", "second.npy", "--output", "out.npz")
    assert tool("sum.mlir", *given)[::2] == (0, "")
    results = np.load("out.npz")
    assert results.files == ["process 0,0: result0", "process 1,0: result0"]
    for name in results.files:
        np.testing.assert_array_equal(results[name], 1 + np.arange(4))
    status, out, _ = tool("sum.mlir", "--replicas", 2)  # random inputs, others for each process
    assert status == 0
    assert out.count("float32[4]") == 2
    first, second = out.split("process 1,0: ")
    assert first.splitlines()[1] == second.splitlines()[1]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--replicas", 2, "--process-input", "2,0", "x.npy"), "there is no process (2, 0)"),
        (("--replicas", 2, "--process-input", "first", "x.npy"), "'first' is no process of a grid"),
        (("--replicas", 2, "--benchmark"), "are for one process"),
        (("--replicas", 2, "--output", "x.npy"), "are for one process"),
    ],
)
def test_options_that_no_grid_has(tool: Tool, arguments: tuple[object, ...], reason: str) -> None:
    Path("sum.mlir").write_text(SUM)
    status, _, err = tool("sum.mlir", *arguments)
    assert status == 2
    assert reason in err


def test_inputs_of_processes_where_there_is_one(tool: Tool) -> None:
    status, _, err = tool("add.mlir", "--process-input", "0,0", "x.npy")
    assert status == 2
    assert "does not run as a grid" in err
