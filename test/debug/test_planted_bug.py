"""A bug planted in a module of a thousand ops is found, pinned to its rule and reduced, by the tools as users run
them."""

from __future__ import annotations

import runpy
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

HERE = Path(__file__).parent
large_module = runpy.run_path(str(HERE / "large_module.py"))["large_module"]


def tool(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"stablehlo_py.cli.{name}", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_a_planted_bug_is_found_pinned_and_reduced(tmp_path: Path) -> None:
    large, small = tmp_path / "large.mlir", tmp_path / "small.mlir"
    large.write_text(large_module(1000))
    assert large.read_text().count(" = stablehlo.") >= 1000
    planted = ("--load-pass", HERE / "planted" / "rule.py")

    started = time.monotonic()
    reduced = tool("reduce", large, "-o", small, *planted)
    assert reduced.returncode == 0, reduced.stderr
    found = tool("bisect", small, "--input", small.with_suffix(".npz"), *planted)
    seconds = time.monotonic() - started

    assert found.returncode == 1, found.stderr
    assert "to blame: rule planted-subtract-negate of pass peephole (stage optimized)" in found.stdout
    assert "stage hlo: right\nstage optimized: wrong" in found.stdout
    text = small.read_text()
    assert text.count(" = ") <= 10
    assert "stablehlo.subtract" in text
    assert "stablehlo.negate" in text
    assert seconds < 240  # 20 on a quiet machine

    # Without the planted rule there is nothing wrong with it.
    clean = tool("bisect", small, "--input", small.with_suffix(".npz"))
    assert (clean.returncode, clean.stdout) == (0, "nothing to blame: the answer is that of reference\n")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that every planted bug makes wrong."""

    def function(x: jax.Array, y: jax.Array) -> tuple[jax.Array, ...]:
        angles = jnp.arctan2(x, y)
        shares = jax.nn.softmax(angles @ y, axis=1)
        pairs = jnp.tanh(x[:16] @ x[16:].T)
        scaled = jnp.cos(shares) * jnp.sin(y.sum(1))[:, None]
        mixed = jnp.tanh((scaled @ x).T) - (-y)
        for _ in range(3):  # each step reads the one before transposed
            mixed = jax.nn.softmax(3 * mixed.T, axis=1) * 3 + y
        return mixed, pairs, shares.sum(0)

    spec = jax.ShapeDtypeStruct((32, 32), jnp.float32)
    path = tmp_path_factory.mktemp("planted") / "model.mlirbc"
    path.write_bytes(jax.export.export(jax.jit(function), platforms=["cpu"])(spec, spec).mlir_module_serialized)
    return path


@pytest.mark.parametrize(
    ("planted", "says"),
    [
        (
            "rule",
            ["stage optimized: wrong", "to blame: rule planted-subtract-negate of pass peephole (stage optimized)"],
        ),
        ("cse", ["stage hlo: right", "to blame: pass cse (stage optimized)", "right with disable=('cse',)"]),
        (
            "row",
            ["stage fused: right", "(row: reduce,", "test_planted_bug.py:", "of its own, too: reduce (kernel row)"],
        ),
        (
            "atan2",
            ["opt0: wrong", "to blame: code generation, the kernel of @", "of its own, too: atan2 (kernel loop)"],
        ),
        ("sharing", ["stage fused: right", "to blame: part shared-memory of pass buffer-assignment (stage code)"]),
        ("inplace", ["stage fused: right", "to blame: part in-place of pass buffer-assignment (stage code)"]),
        ("fusion", ["stage optimized: right\nstage fused: wrong", "to blame: part fuse of pass fusion (stage fused)"]),
    ],
)
def test_every_kind_of_bug_is_named(model: Path, planted: str, says: list[str]) -> None:
    found = tool("bisect", model, "--load-pass", HERE / "planted" / f"{planted}.py")
    assert found.returncode == 1, found.stderr
    for words in says:
        assert words in found.stdout, found.stdout


def test_nobody_is_blamed_without_a_bug(model: Path) -> None:
    found = tool("bisect", model)
    assert (found.returncode, found.stdout) == (0, "nothing to blame: the answer is that of reference\n")


def test_the_whole_module_can_be_bisected_too(tmp_path: Path) -> None:
    large = tmp_path / "large.mlir"
    large.write_text(large_module(40))
    found = tool("bisect", large, "--load-pass", HERE / "planted" / "rule.py", "--oracle", "opt0")
    assert found.returncode == 1, found.stderr
    assert "disable=('planted-subtract-negate',)" in found.stdout


def test_constants_instead_of_inputs(tmp_path: Path) -> None:
    module, small = tmp_path / "module.mlir", tmp_path / "small.mlir"
    module.write_text(
        "func.func @main(%x: tensor<3x4xf32>, %y: tensor<3x4xf32>) -> tensor<4x3xf32> {\n"
        "  %a = stablehlo.tanh %x : tensor<3x4xf32>\n  %n = stablehlo.negate %a : tensor<3x4xf32>\n"
        "  %s = stablehlo.subtract %y, %n : tensor<3x4xf32>\n"
        "  %t = stablehlo.transpose %s, dims = [1, 0] : (tensor<3x4xf32>) -> tensor<4x3xf32>\n"
        "  return %t : tensor<4x3xf32>\n}\n"
    )
    np.savez(tmp_path / "in.npz", x=np.full((3, 4), 2, np.float32), y=np.full((3, 4), 3, np.float32))
    planted = ("--load-pass", HERE / "planted" / "rule.py")
    done = tool(
        "reduce", module, "--input", tmp_path / "in.npz", "-o", small, "--constants", "--oracle", "opt0", *planted
    )
    assert done.returncode == 0, done.stderr
    text = small.read_text()
    assert "@main() ->" in text
    assert text.count("stablehlo.subtract") == text.count("stablehlo.negate") == 1
    assert "tanh" not in text
