"""Artifact files that are not what was written: damaged, of another version, or edited."""

from __future__ import annotations

import hashlib
import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.element_types import ELEMENT_TYPES
from stablehlo_py.errors import EXIT_BAD_INPUT, EXIT_OK, EXIT_USAGE
from stablehlo_py.runtime import artifact
from stablehlo_py.runtime.program import CompiledProgram
from stablehlo_py.runtime.records import DTYPES

F32 = np.float32
STATIC = """func.func @main(%p: tensor<4x3xf32> {tf.aliasing_output = 1 : i32}, %g: tensor<4x3xf32>)
    -> (tensor<4xf32>, tensor<4x3xf32>) {
  %table = stablehlo.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0], [1.0, 2.0, 3.0]]> : tensor<4x3xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.multiply %p, %table : tensor<4x3xf32>
  %1 = stablehlo.dot_general %0, %table, contracting_dims = [1] x [1] : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x4xf32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = stablehlo.add %p, %g : tensor<4x3xf32>
  return %2, %3 : tensor<4xf32>, tensor<4x3xf32>
}"""  # noqa: E501
DYNAMIC = """func.func @main(%x: tensor<?x3xf32>, %y: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %0 = stablehlo.add %x, %y : tensor<?x3xf32>
  %1 = stablehlo.tanh %0 : tensor<?x3xf32>
  return %1 : tensor<?x3xf32>
}"""
QUANTIZED = """!q = !quant.uniform<i8:f32:1, {0.5:3, 0.25:-1}>
func.func @main(%x: tensor<4x2x!q>) -> tensor<4x2xf32> {
  %0 = stablehlo.uniform_dequantize %x : (tensor<4x2x!q>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}"""
GRID = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.all_reduce"(%x) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
LAPACK = """func.func @main(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0:3 = stablehlo.custom_call @lapack_sgetrf_ffi(%x) {mhlo.backend_config = {}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
    result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>, dense<> : tensor<0xindex>]}
    : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3xi32>, tensor<i32>)
  return %0#0 : tensor<3x3xf32>
}"""  # noqa: E501
ROWS = np.arange(12, dtype=F32).reshape(4, 3)
MATRIX = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 10]], F32)


def leaves() -> object:
    """An export whose function does not use its second argument."""
    import jax
    import jax.export

    specs = [jax.ShapeDtypeStruct((3,), F32)] * 3
    return jax.export.export(jax.jit(lambda a, b, c: a - c))(*specs)


VECTORS = [np.array([1, 2, 3], F32), np.array([40, 50, 60], F32), np.array([700, 800, 900], F32)]
MODELS = {
    "static": (STATIC, [ROWS, ROWS + 1]),
    "dynamic": (DYNAMIC, [ROWS, ROWS + 1]),
    "quantized": (QUANTIZED, [np.arange(8, dtype=np.int8).reshape(4, 2)]),
    "grid": (GRID, [np.arange(4, dtype=F32)]),
    "lapack": (LAPACK, [MATRIX]),
    "leaves": (leaves, VECTORS),
}


@pytest.mark.parametrize("name", MODELS)
def test_metadata_that_were_edited_and_signed_anew(tmp_path: Path, name: str) -> None:
    source, arrays = MODELS[name]
    options = shlo.Options(threads=2, num_replicas=2 if name == "grid" else None)
    executable = shlo.compile(source() if callable(source) else source, options=options)
    executable.save(tmp_path / "model.shloexe")
    np.savez(tmp_path / "inputs.npz", *arrays)
    script = Path(__file__).with_name("edited_artifacts.py")
    command = [sys.executable, script, tmp_path / "model.shloexe", tmp_path / "inputs.npz"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"{lines[-1:]}: {done.stderr[-2000:]}"
    outcomes = [line for line in lines if line[1] is not None]
    assert len(outcomes) > 500
    assert [line for line in outcomes if line[1] not in ("refused", "right")] == []
    right = {line[0].split(" = ")[0] for line in outcomes if line[1] == "right"}
    # What is only for people to read.
    assert {name for name in right if not name.startswith("contents.stages")} <= {"contents.key", "contents.report"}


def test_dtypes_of_artifacts_have_names() -> None:
    assert len(DTYPES) == len(ELEMENT_TYPES)
    assert all(dtype.name == name and not dtype.hasobject for name, dtype in DTYPES.items())


# --- damage ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("artifact") / "model.shloexe"
    shlo.compile(STATIC).save(path)
    return path.read_bytes()


def test_bytes_changed_anywhere_are_found(content: bytes) -> None:
    generator = np.random.default_rng(0)
    places = [*generator.integers(0, len(content), 200), *range(len(content) - 100, len(content)), *range(100)]
    for place in places:
        changed = bytearray(content)
        changed[place] ^= int(generator.integers(1, 256))
        with pytest.raises(shlo.LoadError):
            artifact.deserialize(bytes(changed))
    for size in [*range(100), *generator.integers(0, len(content), 100)]:
        with pytest.raises(shlo.LoadError):
            artifact.deserialize(content[:size])
    with pytest.raises(shlo.LoadError):
        artifact.deserialize(content + b"\0")


def test_an_artifact_of_another_version(content: bytes) -> None:
    with pytest.raises(shlo.LoadError, match="format 999, this version reads") as caught:
        shlo.load_executable(content[:8] + struct.pack("<I", 999) + content[12:])
    assert caught.value.remedy == "compile the model again"


@pytest.mark.parametrize("metadata", [b"", b"{", b"[]", b"7", b'{"key": ""}', b"\xff", b"[" * 100_000, b"9" * 5000])
def test_metadata_that_are_none(content: bytes, metadata: bytes) -> None:
    for pair in ((metadata, b"{}"), (b"{}", metadata), (metadata, metadata)):
        body = struct.pack("<QQ", *map(len, pair)) + b"".join(pair)
        with pytest.raises(shlo.LoadError):
            shlo.load_executable(content[:12] + hashlib.sha256(body).digest() + body)


def test_code_of_another_program(content: bytes) -> None:
    """Object files that were exchanged, and everything signed anew."""
    program = artifact.deserialize(content)
    program.objects = artifact.deserialize(artifact.serialize(_program(STATIC.replace("4x3", "5x3")))).objects
    with pytest.raises(shlo.LoadError, match="another description"):
        shlo.load_executable(artifact.serialize(program))
    program.objects = [b"no object file"]
    with pytest.raises(shlo.LoadError, match="damaged"):
        shlo.load_executable(artifact.serialize(program))


def _program(text: str) -> CompiledProgram:
    from stablehlo_py.api import compile_program

    text = text.replace("[1.0, 2.0, 3.0]]>", "[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]>").replace("4x4", "5x5")
    return compile_program(text.replace("tensor<4xf32>", "tensor<5xf32>"))


# --- digests ---------------------------------------------------------------------------------------------------------


def test_a_digest_admits_one_file(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.shloexe"
    path.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    for given in (digest, digest.upper()):
        shlo.load_executable(path, sha256=given)
        shlo.load_executable(content, sha256=given)
    with pytest.raises(shlo.LoadError, match=f"has the SHA-256 {digest}"):
        shlo.load_executable(path, sha256="0" * 64)
    for no_digest in ("", "0" * 63, "g" * 64, f"{digest}\n"):
        with pytest.raises(shlo.OptionError, match="sha256"):
            shlo.load_executable(path, sha256=no_digest)


def test_tools_print_and_check_digests(tmp_path: Path) -> None:
    def tool(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", f"stablehlo_py.cli.{name}", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    model, path = tmp_path / "model.mlir", tmp_path / "model.shloexe"
    model.write_text(STATIC)
    done = tool("compile", model)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert f"SHA-256: {digest}" in done.stdout
    assert tool("run", path, "--sha256", digest).returncode == EXIT_OK
    refused = tool("run", path, "--sha256", "0" * 64)
    assert (refused.returncode, refused.stdout) == (EXIT_BAD_INPUT, "")
    assert "help: do not load it" in refused.stderr
    assert tool("run", path, "--sha256", "7").returncode == EXIT_USAGE
    assert tool("run", model, "--sha256", digest).returncode == EXIT_USAGE


def test_an_artifact_is_no_source(content: bytes) -> None:
    with pytest.raises(shlo.LoadError, match="executable artifact") as caught:
        shlo.compile(content)
    assert "load_executable" in (caught.value.remedy or "")
