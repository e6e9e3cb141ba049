"""Scatters by atomic updates, where they are asked for: run on an OpenCL device next to the CPU's, which are in order,
and as code for the other machines."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.backends.cpu.target import baseline_target
from stablehlo_py.backends.gpu.compile import lower
from stablehlo_py.backends.gpu.target import GFX90A, GFX942, GFX1100, OPENCL, SM_80, SM_90, GpuTarget
from stablehlo_py.codegen.types import ELEMENTS
from stablehlo_py.compiler import run_stages
from stablehlo_py.errors import OptionError

IN_ORDER = shlo.Options(cache_dir=None, threads=1)
ATOMIC = replace(IN_ORDER, atomic_scatter=True)
RNG = np.random.default_rng(0)
Function = Callable[..., object]


@pytest.fixture
def device(real_device: object) -> None:
    """Skips where there is no device."""


def numbers(dtype: str, *sizes: int) -> np.ndarray:
    """Of a type, negative ones too where it has them."""
    if np.dtype(dtype).kind == "u":
        return RNG.integers(0, 2**31, sizes).astype(dtype)
    real = RNG.standard_normal(sizes) * (2**28 if np.dtype(dtype).kind == "i" else 3)
    return (real + 1j * RNG.standard_normal(sizes)).astype(dtype) if dtype.startswith("complex") else real.astype(dtype)


def indices(size: int, *sizes: int) -> np.ndarray:
    """Some are out of bounds."""
    return RNG.integers(-2, size + 2, sizes).astype(np.int32)


def kernels(executable: shlo.Executable) -> str:
    """The text of a program's kernels."""
    text = executable.stages["kernels"]
    assert isinstance(text, str)
    return text


def updates_atomically(text: str) -> bool:
    """Whether kernels have atomic operations."""
    return re.search(r"llvm\.(atomicrmw|cmpxchg)", text) is not None


def check(function: Function | str, *arrays: np.ndarray, options: shlo.Options = ATOMIC, atomic: bool = True) -> None:
    """It gives what the CPU's program gives, which is in order: of integers, the same bits; and has atomic operations,
    or (`atomic`) has not."""
    text = function if isinstance(function, str) else jax.jit(function, keep_unused=True).lower(*arrays).as_text()
    executable = shlo.compile(text, target="opencl", options=options)
    assert updates_atomically(kernels(executable)) == atomic
    wanted = shlo.compile(text, options=replace(options, atomic_scatter=False))(*arrays)
    for _ in range(2):
        for a, b in zip(executable(*arrays), wanted, strict=True):
            if a.dtype.kind in "biu":
                assert a.tobytes() == b.tobytes()
            else:
                tolerance = 1e-12 if a.dtype.name in ("float64", "complex128") else 1e-4
                wide = a.astype(np.complex128), b.astype(np.complex128)
                np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance)


# --- ops, types, forms -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64", "float32", "float64"])
def test_ops_of_words(dtype: str) -> None:
    """Float products are of powers of 2, so that their bits can be compared, too."""
    with jax.enable_x64(True):
        x, i, u = numbers(dtype, 12, 5), indices(12, 400), numbers(dtype, 400, 5)
        by = numbers(dtype, 400, 5) if np.dtype(dtype).kind in "iu" else np.exp2(RNG.integers(-1, 2, (400, 5)))
        kinds = ("add", "min", "max")
        for how in kinds:
            check(lambda x, i, u, how=how: getattr(x.at[i], how)(u, mode="drop"), x, i, u)
        check(lambda x, i, u: x.at[i].multiply(u, mode="drop"), x, i, by.astype(dtype))


BITS = """
func.func @main(%x: tensor<12x5x{0}>, %i: tensor<400x1xi32>, %u: tensor<400x5x{0}>) -> tensor<12x5x{0}> {{
  %0 = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
    inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
    ^bb0(%old: tensor<{0}>, %new: tensor<{0}>):
      %both = stablehlo.{1} %new, %old : tensor<{0}>
      stablehlo.return %both : tensor<{0}>
  }}) : (tensor<12x5x{0}>, tensor<400x1xi32>, tensor<400x5x{0}>) -> tensor<12x5x{0}>
  return %0 : tensor<12x5x{0}>
}}"""


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("op", ["and", "or", "xor"])
@pytest.mark.parametrize("of", ["i32", "ui64"])
def test_bits(op: str, of: str) -> None:
    dtype = {"i32": "int32", "ui64": "uint64"}[of]
    check(BITS.format(of, op), numbers(dtype, 12, 5), indices(12, 400, 1), numbers(dtype, 400, 5))


@pytest.mark.usefixtures("device")
def test_complex_numbers() -> None:
    """Sums part by part; products of complex<f32>, which a word holds."""
    with jax.enable_x64(True):
        for dtype in ("complex64", "complex128"):
            x, i, u = numbers(dtype, 9), indices(9, 60), numbers(dtype, 60)
            check(lambda x, i, u: x.at[i].add(u, mode="drop"), x, i, u)
            turns = (u / abs(u)).astype(dtype)
            check(lambda x, i, u: x.at[i].multiply(u, mode="drop"), x, i, turns, atomic=dtype == "complex64")


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "bfloat16", "bool"])
def test_narrow_types_stay_in_order(dtype: str) -> None:
    x, i, u = (RNG.integers(0, 3, sizes, np.int32) for sizes in ((30, 5), (400,), (400, 5)))
    how = "max" if dtype == "bool" else "add"
    check(lambda x, i, u: getattr(x.at[i], how)(u), x.astype(dtype), i, u.astype(dtype), atomic=False)


FORMS: dict[str, tuple[Function, tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    # function of operand, indices, updates; their sizes
    "few points": (lambda x, i, u: x.at[i].add(u, mode="drop"), (50, 8), (9,), (9, 8)),
    "rows": (lambda x, i, u: x.at[i].add(u, mode="drop"), (50, 8), (700,), (700, 8)),
    "one place": (lambda x, i, u: x.at[i].add(u, mode="drop"), (1,), (5000,), (5000,)),
    "histogram": (lambda x, i, u: jnp.zeros_like(x).at[i].add(1, mode="drop"), (10,), (20_000,), (1,)),
    "computed updates": (lambda x, i, u: x.at[i].max(u * u + x[0, 0], mode="drop"), (40, 3), (300,), (300, 3)),
    "batches": (jax.vmap(lambda x, i, u: x.at[i].add(u)), (6, 40, 5), (6, 70), (6, 70, 5)),
    "two indices": (lambda x, i, u: x.at[i[:, 0], i[:, 1]].min(u, mode="drop"), (9, 7, 4), (200, 2), (200, 4)),
    "columns": (lambda x, i, u: x.at[:, i].add(u, mode="drop"), (6, 30), (200,), (6, 200)),
    "several results": (lambda x, i, u: (x.at[i].add(u), x.at[i].max(u)), (20, 3), (90,), (90, 3)),
}


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    function, operand, at, updates = FORMS[name]
    for dtype in ("int32", "float32"):
        check(function, numbers(dtype, *operand), indices(operand[0], *at), numbers(dtype, *updates))


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("windows", ["whole", "partial"])
@pytest.mark.parametrize("count", [5, 100])
def test_windows_that_overlap(windows: str, count: int) -> None:
    of = lax.ScatterDimensionNumbers((1, 2), (), (0,))
    x, i, u = numbers("int32", 40, 6), indices(40, count, 1), numbers("int32", count, 4, 5)
    options = replace(ATOMIC, scatter_windows=windows)
    check(lambda x, i, u: lax.scatter_add(x, i, u, of), x, i, u, options=options)


@pytest.mark.usefixtures("device")
def test_indices_that_no_operand_has() -> None:
    with jax.enable_x64(True):
        far = np.array([2**63 - 1, -(2**63), 2**32 + 1, -1, 3] * 5)
        check(lambda x, i: x.at[i].add(1, mode="drop"), numbers("int32", 9), far)


PAIRS = """
func.func @main(%x: tensor<9xi32>, %y: tensor<9xf32>, %i: tensor<500x1xi32>, %u: tensor<500xi32>, %v: tensor<500xf32>)
    -> (tensor<9xi32>, tensor<9xf32>) {
  %0:2 = "stablehlo.scatter"(%x, %y, %i, %u, %v) <{scatter_dimension_numbers = #stablehlo.scatter<
    inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<i32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<f32>):
      %e = stablehlo.add %a, %c : tensor<i32>
      %f = stablehlo.maximum %d, %b : tensor<f32>
      stablehlo.return %e, %f : tensor<i32>, tensor<f32>
  }) : (tensor<9xi32>, tensor<9xf32>, tensor<500x1xi32>, tensor<500xi32>, tensor<500xf32>)
    -> (tensor<9xi32>, tensor<9xf32>)
  return %0#0, %0#1 : tensor<9xi32>, tensor<9xf32>
}"""


@pytest.mark.usefixtures("device")
def test_several_operands() -> None:
    arrays = (*(numbers(each, 9) for each in ("int32", "float32")), indices(9, 500, 1))
    check(PAIRS, *arrays, *(numbers(each, 500) for each in ("int32", "float32")))


@pytest.mark.usefixtures("device")
def test_values_that_are_no_numbers() -> None:
    """NaN and infinities, from the operand and from updates, are those of scatters in order."""
    x, i, u = numbers("float32", 8), np.arange(400, dtype=np.int32) % 8, numbers("float32", 400)
    x[1], u[2], u[3], u[11] = np.nan, np.nan, np.inf, -np.inf
    for how in ("add", "max", "min"):
        check(lambda x, i, u, how=how: getattr(x.at[i], how)(u), x, i, u)


# --- what stays in order ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("device")
def test_bodies_that_depend_on_the_order() -> None:
    x, i, u = numbers("int32", 12, 5), indices(12, 400), numbers("int32", 400, 5)
    check(lambda x, i, u: x.at[i].set(u, mode="drop"), x, i, u, atomic=False)
    check(BITS.format("i32", "subtract"), x, i[:, None], u, atomic=False)


@pytest.mark.usefixtures("device")
def test_updates_of_different_places() -> None:
    """They need no atomic operations."""
    x, i, u = numbers("float32", 50), np.arange(30, dtype=np.int32), numbers("float32", 30)
    check(lambda x, i, u: x.at[i].add(u, unique_indices=True), x, i, u, atomic=False)
    check(lambda x, i, u: x.at[i[3]].add(u[0]), x, i, u, atomic=False)


# --- in programs -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_loops_that_are_one_kernel(dtype: str) -> None:
    """Blocks are trips of a loop there, some of them of blocks that do not exist: they update nothing."""

    def function(x: jax.Array, i: jax.Array, u: jax.Array) -> jax.Array:
        return lax.fori_loop(0, 40, lambda k, x: x.at[(i + k) % 11].add(u + k.astype(u.dtype)), x)

    arrays = numbers(dtype, 11), indices(11, 13 * 32), numbers(dtype, 13 * 32)
    executable = shlo.compile(jax.jit(function).lower(*arrays).as_text(), target="opencl", options=ATOMIC)
    assert "@while_0" in kernels(executable)
    check(function, *arrays)


@pytest.mark.usefixtures("device")
def test_gradients_of_embeddings() -> None:
    def loss(table: jax.Array, tokens: jax.Array) -> jax.Array:
        return (table[tokens] ** 2).sum()

    tokens = indices(50, 4, 60) % 50
    tokens[:, 30:] = 7  # padding
    check(jax.grad(loss), numbers("float32", 50, 64), tokens)


# --- code of other machines ------------------------------------------------------------------------------------------

GPUS = (SM_80, SM_90, GFX90A, GFX942, GFX1100)
CODE: dict[tuple[str, str], tuple[Sequence[str], ...]] = {
    # patterns for SM_80, SM_90, GFX90A, GFX942, GFX1100
    ("add", "float32"): (*[(r"atom\.global\.add\.f32",)] * 2, *[("global_atomic_add_f32",)] * 3),
    ("add", "float64"): (*[(r"atom\.global\.add\.f64",)] * 2, *[("global_atomic_add_f64",)] * 2, ("cmpswap_b64",)),
    ("add", "int32"): (
        *[(r"atom\.global\.add\.u32",)] * 2,
        *[("global_atomic_add v",)] * 2,
        ("global_atomic_add_u32",),
    ),
    ("max", "int64"): (
        *[(r"atom\.global\.max\.s64",)] * 2,
        *[("global_atomic_smax_x2",)] * 2,
        ("global_atomic_max_i64",),
    ),
    ("min", "uint32"): (
        *[(r"atom\.global\.min\.u32",)] * 2,
        *[("global_atomic_umin",)] * 2,
        ("global_atomic_min_u32",),
    ),
    ("max", "float32"): (*[(r"atom\.relaxed\.gpu\.global\.cas\.b32",)] * 2, *[("global_atomic_cmpswap",)] * 3),
}


def code(how: str, dtype: str, target: GpuTarget) -> str:
    """What LLVM makes of a scatter for a machine."""
    with jax.enable_x64(True):
        specs = [jax.ShapeDtypeStruct(*each) for each in (((99, 4), dtype), ((700,), "int32"), ((700, 4), dtype))]
        text = jax.jit(lambda x, i, u: getattr(x.at[i], how)(u, mode="drop")).lower(*specs).as_text()
    module = run_stages(shlo.load(text), "", "scheduled", target="opencl")
    return lower(module, "ptx" if target.name.startswith("sm_") else "gcn", target, baseline_target())


@pytest.mark.parametrize(("how", "dtype"), CODE)
@pytest.mark.parametrize("number", range(len(GPUS)), ids=[each.name for each in GPUS])
def test_instructions(how: str, dtype: str, number: int) -> None:
    found = code(how, dtype, replace(GPUS[number], atomic_scatter=True))
    for pattern in CODE[how, dtype][number]:
        assert re.search(pattern, found), f"no {pattern} in\n{found}"


@pytest.mark.parametrize("target", GPUS, ids=lambda target: target.name)
def test_no_instruction_unless_asked(target: GpuTarget) -> None:
    found = code("add", "float32", target)
    assert not re.search(r"atom\.\S*global|global_atomic|flat_atomic", found)


def test_which_ops_and_types() -> None:
    ops = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
    for target in (OPENCL, *GPUS):
        can = {of for of in ELEMENTS if target.updates_atomically("hlo.add", ELEMENTS[of])}
        assert can == {"i32", "ui32", "i64", "ui64", "f32", "f64", "complex<f32>", "complex<f64>"}
        assert all(target.updates_atomically(f"hlo.{op}", ELEMENTS["i32"]) for op in ops)
        assert not target.updates_atomically("hlo.subtract", ELEMENTS["i32"])
        assert not target.updates_atomically("hlo.multiply", ELEMENTS["complex<f64>"])
        adds = None if target is OPENCL else "fadd"
        assert target.atomic_instruction("hlo.add", ELEMENTS["f32"]) == adds
        assert target.atomic_instruction("hlo.multiply", ELEMENTS["i32"]) is None


# --- the option ------------------------------------------------------------------------------------------------------


def test_the_option() -> None:
    assert ATOMIC.key != IN_ORDER.key
    assert not shlo.Options().atomic_scatter
    with pytest.raises(OptionError, match="atomic_scatter is 1"):
        shlo.Options(atomic_scatter=1)  # type: ignore[arg-type]
    for target in ("cpu", "c", "linalg"):
        with pytest.raises(OptionError, match=f"scatters of the backend '{target}' combine updates in order") as caught:
            shlo.compile(BITS.format("i32", "xor"), target=target, options=ATOMIC)
        assert "target='cuda'" in str(caught.value)


@pytest.mark.parametrize(("target", "gpu"), [("cuda", "sm_90"), ("rocm", "gfx942")])
def test_programs_for_machines_that_are_not_here(target: str, gpu: str) -> None:
    options = replace(ATOMIC, gpu=gpu)
    made = compile_program(BITS.format("i32", "xor"), target=target, options=options).stages["kernels"]
    assert isinstance(made, str)
    assert f'syncscope("{"device" if target == "cuda" else "agent"}") monotonic' in made
