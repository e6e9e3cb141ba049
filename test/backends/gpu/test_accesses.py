"""How kernels that move memory access it, in machine code: how wide, how often, and what threads wait for."""

from __future__ import annotations

import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest
from device_kernels import device_text

import stablehlo_py as shlo
from stablehlo_py.backends.common.llvm_ir import llvm_ir
from stablehlo_py.backends.gpu.machine_code import assembly
from stablehlo_py.backends.gpu.target import GFX942, SM_90, GpuTarget
from stablehlo_py.compiler import run_stages

SIZES = (1024, 4096)


def code(target: GpuTarget, function: Callable[..., object], *dtypes: str, sizes: tuple[int, ...] = SIZES) -> str:
    """The text of the kernels for arrays of these types."""
    return code_of(target, function, *(jax.ShapeDtypeStruct(sizes, dtype) for dtype in dtypes))


def code_of(target: GpuTarget, function: Callable[..., object], *specs: jax.ShapeDtypeStruct) -> str:
    """The same for arrays of several sizes."""
    module = run_stages(shlo.load(jax.jit(function).lower(*specs).as_text()), "", "scheduled", target="opencl")
    return assembly(llvm_ir(device_text(module, target), target.architecture), target)


def accesses(ptx: str) -> list[str]:
    """Of global memory."""
    return re.findall(r"\b(?:ld|st)\.global[.\w]*", ptx)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int32"])
def test_sixteen_bytes(dtype: str) -> None:
    def function(a: jax.Array, b: jax.Array) -> jax.Array:
        return a * b + a

    found = accesses(code(SM_90, function, dtype, dtype))
    assert len(found) == 3 and all(".v4.b32" in each for each in found)
    gcn = code(GFX942, function, dtype, dtype)
    assert gcn.count("global_load_dwordx4") == 2 and gcn.count("global_store_dwordx4") == 1


@pytest.mark.parametrize("long", [(2048, 8192), (8192, 2048)], ids=["rows", "columns"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_products_of_few_rows(dtype: str, long: tuple[int, int]) -> None:
    """The other operand is read by 16 bytes in whatever way it lies, several of them at once."""
    along = long.index(2048)
    specs = [jax.ShapeDtypeStruct(sizes, dtype) for sizes in ((2, 2048), long)]
    ptx = code_of(SM_90, lambda a, b: jax.lax.dot_general(a, b, (((1,), (along,)), ((), ()))), *specs)
    loads = [each for each in accesses(ptx) if each.startswith("ld")]
    wide = [each for each in loads if ".v4.b32" in each]
    assert len(wide) >= 4 and len(wide) == len(loads)


def test_functions_of_half_floats_have_no_branches() -> None:
    """A quotient whose range is known takes an estimate of the reciprocal, not a division, which branches."""
    ptx = code(SM_90, lambda a: jax.nn.gelu(a), "bfloat16")
    assert "rcp.approx" in ptx and "div.rn" not in ptx


def test_the_widest_type_says_how_many() -> None:
    found = accesses(code(SM_90, lambda a: (a + 1).astype(jnp.bfloat16), "float32"))
    assert [each.split(".", 2)[2] for each in found] == ["nc.v4.b32", "v4.b16"]


@pytest.mark.parametrize(
    "function",
    [lambda a: a[:, 1:] * 2, lambda a: a[:, ::2] + 1],
    ids=["moved", "strided"],
)  # fmt: skip
def test_neighbours_stay_neighbours(function: Callable[..., object]) -> None:
    """What does not lie side by side is read by threads side by side, one element each."""
    assert all(".v" not in each for each in accesses(code(SM_90, function, "float32")))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_indices_are_split_once_for_neighbours(dtype: str) -> None:
    """A row of 1000 is no power of two, so LLVM would not find out that neighbours have neighbouring columns."""
    *_, row, a, result = accesses(code(SM_90, lambda a: a + a[:1] * 2, dtype, sizes=(4096, 1000)))
    assert all(".v4.b32" in each for each in (row, a, result))


def test_few_elements_are_for_many_threads() -> None:
    assert all(".v" not in each for each in accesses(code(SM_90, lambda a: a + 1, "float32", sizes=(64, 64))))


def softmax(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(x, axis=1)


@pytest.mark.parametrize(("dtype", "vectors"), [("float32", 4), ("bfloat16", 1), ("float16", 1)])
def test_rows_are_read_once(dtype: str, vectors: int) -> None:
    """A thread keeps its share of a row: both levels of reductions and the results take what it has read."""
    ptx = code(SM_90, softmax, dtype, sizes=(8192, 512))
    found = [each[:2] for each in accesses(ptx)]
    assert all(".v4.b32" in each for each in accesses(ptx))
    assert found.count("ld") == found.count("st") == vectors
    assert ptx.count("shfl.sync.bfly") == 10
    assert ("bar" in ptx) == (dtype != "float32")  # a row of f32 has one subgroup


def test_subgroups_of_a_row_meet_once_for_a_reduction() -> None:
    ptx = code(SM_90, softmax, "float32", sizes=(1024, 32768))
    assert len(re.findall(r"\bbar(?:rier)?\b", ptx)) == 2
    assert sum("ld" in each for each in accesses(ptx)) == 8  # 1024 threads


def test_rows_of_odd_lengths_are_read_by_neighbours() -> None:
    found = accesses(code(SM_90, softmax, "float32", sizes=(4096, 333)))
    assert all(".v" not in each for each in found)


def test_columns_are_read_in_vectors() -> None:
    """Each thread stores four results."""
    ptx = code(SM_90, lambda x: x.sum(0), "float32", sizes=(1000, 65536))
    found = accesses(ptx)
    assert [each[:2] for each in found] == ["ld", "st"] and all(".v4.b32" in each for each in found)
    assert len(re.findall(r"\bbar(?:rier)?\b", ptx)) == 1
    wide = accesses(code(SM_90, lambda x: x.sum(0), "bfloat16", sizes=(1000, 131072)))
    assert all(".v4.b32" in each for each in wide)


def test_pixels_are_read_in_vectors() -> None:
    found = accesses(code(SM_90, lambda x: x.sum((0, 2, 3)), "float32", sizes=(32, 640, 28, 28)))
    assert sum(".v4.b32" in each for each in found) >= 4
