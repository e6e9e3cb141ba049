"""Transpositions in tiles, run on an OpenCL device next to the CPU's kernels, and what they access in machine code."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from device_kernels import device_text

import stablehlo_py as shlo
from stablehlo_py.backends.common.llvm_ir import llvm_ir
from stablehlo_py.backends.gpu.machine_code import assembly
from stablehlo_py.backends.gpu.target import SM_90
from stablehlo_py.compiler import run_stages

OPTIONS = shlo.Options(cache_dir=None, threads=1)
RANDOM = np.random.default_rng(0)
on_a_device = pytest.mark.usefixtures("real_device")


def numbers(*sizes: int, dtype: str = "float32") -> Any:
    """Bits of all kinds."""
    if dtype in ("bool", "int4"):
        return np.asarray(jnp.asarray(RANDOM.integers(0, 2 if dtype == "bool" else 8, sizes)).astype(dtype))
    return (RANDOM.standard_normal(sizes) * 30).astype(dtype)


def check(function: Callable[..., object], *arrays: Any, in_tiles: bool = True) -> None:
    """A function of JAX gives exactly what the CPU's program gives."""
    with jax.enable_x64(True):
        text = jax.jit(function).lower(*arrays).as_text()
    executable = shlo.compile(text, target="opencl", options=OPTIONS)
    assert ("barrier" in executable.stages["kernels"]) == in_tiles
    for found, wanted in zip(executable(*arrays), shlo.compile(text, options=OPTIONS)(*arrays), strict=True):
        assert found.tobytes() == wanted.tobytes()


@on_a_device
@pytest.mark.parametrize(
    "sizes", [(64, 64), (31, 133), (33, 127), (128, 32), (1000, 36), (1024, 8), (132, 260), (4097, 9), (20, 1028)]
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_matrices(sizes: tuple[int, int], dtype: str) -> None:
    check(lambda x: x.T, numbers(*sizes, dtype=dtype))


@on_a_device
@pytest.mark.parametrize("dtype", ["float16", "float64", "complex64", "complex128", "int4", "bool", "int16", "int64"])
def test_types(dtype: str) -> None:
    for sizes in ((144, 160), (65, 70)):
        check(lambda x: x.T, numbers(*sizes, dtype=dtype))


PERMUTATIONS = {
    "pixels last": ((3, 16, 13, 20), (0, 2, 3, 1)),
    "pixels first": ((3, 13, 20, 16), (0, 3, 1, 2)),
    "all turned": ((20, 12, 40), (2, 1, 0)),
    "first and last": ((40, 3, 44), (2, 1, 0)),
    "moved to the end": ((40, 5, 36), (1, 2, 0)),
    "five dimensions": ((4, 3, 12, 2, 16), (3, 0, 4, 1, 2)),
}


@on_a_device
@pytest.mark.parametrize("name", PERMUTATIONS)
def test_permutations(name: str) -> None:
    sizes, permutation = PERMUTATIONS[name]
    check(lambda x: jnp.transpose(x, permutation), numbers(*sizes))
    check(lambda x: jnp.transpose(x, permutation), numbers(*sizes, dtype="float16"))


@on_a_device
def test_inner_rows_stay_as_they_are() -> None:
    check(lambda x: jnp.transpose(x, (1, 0, 2)), numbers(64, 65, 16), in_tiles=False)


@on_a_device
def test_what_is_fused() -> None:
    x, y, bias = numbers(70, 132), numbers(132, 70), numbers(70)
    check(lambda x, y, bias: (jnp.abs(x).T * 2 + y + bias, (y < x.T)), x, y, bias)
    check(lambda x: x + x.T, numbers(100, 100))
    check(lambda x, y: (x.T + y.T * 2, x.T.astype("bfloat16")), x, numbers(70, 132))
    check(lambda x: x[:, 4:].T[:, ::-1] + x[:, :-4].T, numbers(64, 68))
    check(lambda x: x.reshape(64, 6, 22).transpose(1, 2, 0).reshape(66, 128), numbers(128, 66))
    check(lambda x: (x.T, x.T.astype("float32")), numbers(64, 96, dtype="bfloat16"))
    check(lambda x, y: x.T + y.astype("float32").T, numbers(64, 96), numbers(64, 96, dtype="bfloat16"))


@on_a_device
def test_halves_stay_as_they_are() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16).reshape(256, 256)
    finite = np.where((bits & 0x7C00) == 0x7C00, 0, bits).astype(np.uint16).view(np.float16)
    check(lambda x: x.T, finite)


def code(function: Callable[..., object], dtype: str, *sizes: int) -> str:
    """PTX."""
    text = jax.jit(function).lower(jax.ShapeDtypeStruct(sizes, dtype)).as_text()
    module = run_stages(shlo.load(text), "", "scheduled", target="opencl")
    return assembly(llvm_ir(device_text(module, SM_90), SM_90.architecture), SM_90)


@pytest.mark.parametrize(("dtype", "in_word"), [("float32", 1), ("bfloat16", 2), ("float16", 2), ("int8", 4)])
def test_both_sides_are_accessed_sixteen_bytes_at_a_time(dtype: str, in_word: int) -> None:
    ptx = code(lambda x: x.T, dtype, 4096, 4096)
    found = re.findall(r"\b(?:ld|st)\.global[.\w]*", ptx)
    assert all(".v4.b32" in each for each in found) and len(found) == 2 * in_word
    assert len(re.findall(r"\bst\.shared\.b32", ptx)) == len(re.findall(r"\bld\.shared\.b32", ptx)) == 4 * in_word
    assert len(re.findall(r"\bbar(?:rier)?\b", ptx)) == 1


def test_permutations_are_accessed_sixteen_bytes_at_a_time() -> None:
    found = re.findall(r"\b(?:ld|st)\.global[.\w]*", code(lambda x: x.transpose(0, 2, 3, 1), "float32", 8, 64, 56, 56))
    assert all(".v4.b32" in each for each in found)


@pytest.mark.parametrize("in_word", [1, 2, 4])
def test_words_are_in_different_banks(in_word: int) -> None:
    """Those that threads of a subgroup write at once, and those that they read."""
    wide, pitch = 4 * in_word, 32 * in_word + 4 * (in_word - 1) + 1
    written, read = set(), set()
    for thread in range(32):
        piece, row = thread % 8, thread // 8
        written.add((row * pitch + piece * wide + piece // (32 // wide) * 4) % 32)
        read.add((piece * 4 * pitch + row) % 32)
    assert len(written) == len(read) == 32
