"""Products by cuBLASLt, on a library that computes what it is asked for without a device: that its results are right,
that a program's own kernels run where it is not there or refuses, what is said where it fails, that it leaks nothing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from library_programs import found_in, says
from library_programs import program_of as program_with_libraries
from without_compiler import alone

import stablehlo_py as shlo
from stablehlo_py.backends.gpu.libraries import cublaslt as library_module
from stablehlo_py.backends.gpu.libraries import vendor
from stablehlo_py.backends.gpu.libraries.cublaslt import CublasLtLibrary
from stablehlo_py.errors import InternalError, LoadError, OptionError, ResourceError
from stablehlo_py.options import Options
from stablehlo_py.runtime import artifact
from stablehlo_py.runtime.executable import Executable

Function = Callable[..., Any]
BF16, F16, F32, F64 = (np.dtype(each) for each in (ml_dtypes.bfloat16, np.float16, np.float32, np.float64))
E4M3, E5M2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
DEVICE = "cuBLASLt 12.9.3 ("


pytestmark = pytest.mark.usefixtures("wide_types", "no_assembler")


@pytest.fixture
def built_cuda(built_cublaslt):
    return built_cublaslt


@pytest.fixture
def cublaslt(cuda_device, monkeypatch) -> Iterator[Any]:
    """The driver and the library of this process."""
    with found_in(cuda_device.path, monkeypatch, CublasLtLibrary):
        yield cuda_device


program_of = partial(program_with_libraries, libraries=("cublaslt",))


def arrays_of(*shapes: tuple[int, ...], dtype: np.dtype = F32) -> list[np.ndarray]:
    """Random numbers that every float type has; small integers where it is one."""
    generator = np.random.default_rng(0)
    return [(generator.integers(-8, 8, shape) / (1 if dtype.kind == "i" else 8)).astype(dtype) for shape in shapes]


def wanted(function: Function, arrays: list[np.ndarray]) -> np.ndarray:
    """The result in f64, or in integers."""
    wide = np.int64 if arrays[0].dtype.kind == "i" else np.float64
    return np.asarray(function(*(array.astype(wide) for array in arrays)))


def checked(cublaslt, function: Function, arrays: list[np.ndarray], products: int = 1, tolerance: float = 1e-5) -> None:
    """The library alone computes the function, and rightly."""
    program = program_of(function, *arrays)
    assert len(program.products) == products
    executable = Executable(program)
    assert says(executable, f"{DEVICE}{cublaslt.path}) computes {products} product")
    (found,) = executable(*arrays)
    expected = wanted(function, arrays)
    np.testing.assert_allclose(found.astype(expected.dtype), expected, rtol=tolerance, atol=tolerance * 4)
    assert cublaslt.launches() == []


def gelu(x: Any) -> Any:
    """As jax.nn.gelu, of NumPy's arrays too."""
    tanh = jnp.tanh if isinstance(x, jax.core.Tracer) else np.tanh
    constant = type(x.dtype.type(0))
    return x * (constant(0.5) * (1 + tanh(constant(np.sqrt(2 / np.pi)) * (x + constant(0.044715) * (x * x * x)))))


def relu(x: Any) -> Any:
    return jnp.maximum(x, 0)


A, B, BIAS, ROWS = (48, 64), (64, 32), (32,), (48, 32)
PLAIN: dict[str, tuple[Function, list[tuple[int, ...]]]] = {
    "plain": (lambda a, b: a @ b, [A, B]),
    "left transposed": (lambda a, b: a.T @ b, [(64, 48), B]),
    "right transposed": (lambda a, b: a @ b.T, [A, (32, 64)]),
    "both transposed": (lambda a, b: a.T @ b.T, [(64, 48), (32, 64)]),
    "batches": (lambda a, b: a @ b, [(3, *A), (3, *B)]),
    "batches that share a matrix": (lambda a, b: a @ b, [(3, *A), B]),
    "batches of shared rows": (lambda a, b: jnp.einsum("mk,bkn->mbn", a, b), [A, (3, *B)]),
    "rows that step unevenly": (lambda a, b: a[:, 8:] @ b, [(3, 56, 64), B]),
    "heads": (lambda a, b: jnp.einsum("qhd,khd->hqk", a, b), [(32, 3, 16), (32, 3, 16)]),
    "sums over two dimensions": (lambda a, b: jnp.einsum("mhd,hdn->mn", a, b), [(48, 4, 16), (4, 16, 32)]),
    "columns of two dimensions": (lambda a, b: jnp.einsum("mk,khd->mhd", a, b), [A, (64, 4, 8)]),
    "rows of two dimensions": (lambda a, b: a @ b, [(2, 24, 64), B]),
    "a part of a matrix": (lambda a, b: a[:, 16:] @ b[16:, 8:], [A, (64, 40)]),
}
EPILOGUES: dict[str, tuple[Function, list[tuple[int, ...]]]] = {
    "bias": (lambda a, b, c: a @ b + c, [A, B, BIAS]),
    "bias of batches": (lambda a, b, c: a @ b + c, [(3, *A), (3, *B), BIAS]),
    "bias of two dimensions": (lambda a, b, c: jnp.einsum("mk,hdk->mhd", a, b) + c, [A, (4, 8, 64), (4, 8)]),
    "relu": (lambda a, b: relu(a @ b), [A, B]),
    "relu of a bias": (lambda a, b, c: relu(a @ b + c), [A, B, BIAS]),
    "gelu": (lambda a, b: gelu(a @ b), [A, B]),
    "gelu of a bias": (lambda a, b, c: gelu(a @ b + c), [A, B, BIAS]),
    "residual": (lambda a, b, c: c + a @ b, [A, B, ROWS]),
    "residual of batches": (lambda a, b, c: a @ b - c, [(3, *A), (3, *B), (3, *ROWS)]),
    "factors": (lambda a, b, c: 0.5 * (a @ b) + 0.25 * c, [A, B, ROWS]),
    "all": (lambda a, b, c, d: gelu((a @ b) * 0.5 + c + d * 2), [A, B, BIAS, ROWS]),
}


@pytest.mark.parametrize("name", PLAIN)
def test_matrices(cublaslt, name) -> None:
    function, shapes = PLAIN[name]
    checked(cublaslt, function, arrays_of(*shapes))


@pytest.mark.every(3)
@pytest.mark.parametrize("dtype", [F32, BF16, F16], ids=str)
@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogues(cublaslt, name, dtype) -> None:
    function, shapes = EPILOGUES[name]
    checked(cublaslt, function, arrays_of(*shapes, dtype=dtype), tolerance={2: 1e-2, 4: 1e-5}[dtype.itemsize])


def dot_of(result: type) -> Function:
    """A product whose sums have another type than its operands."""

    def function(a: Any, b: Any) -> Any:
        if isinstance(a, np.ndarray):
            return a @ b.T
        return jax.lax.dot_general(a, b, (((1,), (1,)), ((), ())), preferred_element_type=result)

    return function


@pytest.mark.parametrize(
    ("dtype", "result"),
    [(F64, jnp.float64), (BF16, jnp.float32), (F16, jnp.float32), (np.dtype(np.int8), jnp.int32), (E4M3, jnp.float32)],
    ids=str,
)
def test_types(cublaslt, dtype, result) -> None:
    checked(cublaslt, dot_of(result), arrays_of(A, (32, 64), dtype=dtype))


def test_sums_are_rounded_once(cublaslt) -> None:
    """Where a model rounds the sums and what is added, the library rounds what comes out."""
    arrays = arrays_of(A, B, BIAS, dtype=BF16)
    program = program_of(lambda a, b, c: relu(a @ b + c), *arrays)
    (product,) = program.products
    assert (product.sums, product.result.dtype, product.bias is None) == (F32, BF16, False)
    (found,) = Executable(program)(*arrays)
    a, b, c = (array.astype(F64) for array in arrays)
    assert np.array_equal(found, np.maximum(a @ b + c, 0).astype(BF16))


def test_tf32_is_asked_for(cublaslt) -> None:
    """Only by its own option, and only of f32."""
    a, b = (np.random.default_rng(0).standard_normal(shape).astype(F32) for shape in (A, B))
    exact = a.astype(F64) @ b.astype(F64)
    for tf32, least, most in ((False, 0.0, 1e-5), (True, 1e-4, 1e-1)):
        (found,) = Executable(program_of(lambda a, b: a @ b, a, b, tf32=tf32))(a, b)
        assert least <= np.abs(found - exact).max() <= most
    (product,) = program_of(lambda a, b: a @ b, *arrays_of(A, B, dtype=BF16), tf32=True).products
    assert not product.tf32


UNMATCHED: dict[str, tuple[Function, list[tuple[int, ...]]]] = {
    "few rows": (lambda a, b: a @ b, [(4, 64), B]),
    "few products": (lambda a, b: a @ b, [(48, 4), (4, 32)]),
    "a bias of rows": (lambda a, b, c: a @ b + c[:, None], [A, B, (48,)]),
    "a scaled bias": (lambda a, b, c: (a @ b + c) * 2, [A, B, BIAS]),
    "two biases": (lambda a, b, c, d: a @ b + c + d, [A, B, BIAS, BIAS]),
    "two residuals": (lambda a, b, c, d: a @ b + c + d, [A, B, ROWS, ROWS]),
    "a number": (lambda a, b: a @ b + 1, [A, B]),
    "another bound": (lambda a, b: jnp.maximum(a @ b, 1), [A, B]),
    "gelu by erf": (lambda a, b: jax.nn.gelu(a @ b, approximate=False), [A, B]),
    "silu": (lambda a, b: jax.nn.silu(a @ b), [A, B]),
    "gelu with another factor": (
        lambda a, b: (x := a @ b) * (0.5 * (1 + jnp.tanh(0.8 * (x + 0.044715 * x**3)))),
        [A, B],
    ),
    "a residual behind the activation": (lambda a, b, c: relu(a @ b) + c, [A, B, ROWS]),
    "a square": (lambda a, b: (a @ b) ** 2, [A, B]),
    "a product with the residual": (lambda a, b, c: (a @ b) * c, [A, B, ROWS]),
    "two results": (lambda a, b, c: ((x := a @ b), relu(x + c)), [A, B, BIAS]),
    "an operand that is computed": (lambda a, b: jnp.exp(a) @ b, [A, B]),
    "a reversed operand": (lambda a, b: a[::-1] @ b, [A, B]),
    "every other column": (lambda a, b: a[:, ::2] @ b, [(48, 128), B]),
    "an unaligned part": (lambda a, b: a[:, 1:] @ b, [(48, 65), B]),
}


@pytest.mark.parametrize("name", UNMATCHED)
def test_what_is_left_to_our_own_kernels(name) -> None:
    function, shapes = UNMATCHED[name]
    computed = name == "an operand that is computed"  # in a kernel before it, so what is multiplied lies in memory
    assert len(program_of(function, *arrays_of(*shapes)).products) == computed


ROOT, CUBE = np.float32(np.sqrt(2 / np.pi)), np.float32(0.044715)


@pytest.mark.parametrize(
    ("function", "is_gelu"),
    [
        (jax.nn.gelu, True),
        (lambda x: 0.5 * x * (1 + jnp.tanh(ROOT * x * (1 + CUBE * x * x))), True),
        (lambda x: 0.5 * x + jnp.tanh(ROOT * (x + CUBE * (x * x * x))) * x / 2, True),
        (lambda x: 0.5 * x * (1 + jnp.tanh(ROOT * x)), False),
        (lambda x: 0.5 * x * (1 - jnp.tanh(ROOT * x * (1 + CUBE * x * x))), False),
    ],
)
def test_gelu_however_it_is_written(function, is_gelu) -> None:
    program = program_of(lambda a, b: function(a @ b), *arrays_of(A, B))
    assert [product.activation for product in program.products] == ["gelu"] * is_gelu


def layers(x: Any, *weights: Any) -> Any:
    """A transformer's, without attention and norms."""
    for first, bias, second, other in zip(*[iter(weights)] * 4, strict=True):
        x = x + (gelu(x @ first + bias) @ second + other)
    return x


def layered(count: int, dtype: np.dtype = F32) -> list[np.ndarray]:
    x, *weights = arrays_of((2, 24, 32), *[(32, 64), (64,), (64, 32), (32,)] * count, dtype=dtype)
    return [x, *((each / 8).astype(dtype) for each in weights)]


def test_layers(cublaslt) -> None:
    """Two kernels, called from many places, each time with another bias; everything waits on the stream."""
    arrays = layered(6)
    program = program_of(layers, *arrays)
    assert len(program.kernels) == len(program.products) == 2
    executable = Executable(program)
    calls = cublaslt.calls("cublasLtMatmul")
    buffers = [executable.put(array, number) for number, array in enumerate(arrays)]
    (found,) = executable.call(buffers)
    assert cublaslt.calls("cublasLtMatmul") - calls == 12 and not found.is_ready()
    np.testing.assert_allclose(np.asarray(found), wanted(layers, arrays), rtol=1e-4, atol=1e-4)
    assert cublaslt.launches() == []


def test_memory(cublaslt) -> None:
    arrays = layered(1)
    without, program = program_of(layers, *arrays, libraries=()), program_of(layers, *arrays)
    assert without.products == () and "librar" not in without.report
    assert 32 << 20 <= program.arena_bytes - without.arena_bytes < (32 << 20) + 512
    assert "libraries: cublaslt may compute 2 products" in program.report
    assert "MiB for a call, of which a library works in 32 MiB" in program.report
    older = program_of(layers, *arrays, gpu="sm_80")
    assert {product.workspace_bytes for product in older.products} == {4 << 20}
    assert Executable(program).memory_plan().arena_bytes == program.arena_bytes


def launched(driver, executable: Executable, arrays: list[np.ndarray]) -> list[str]:
    """The kernels that a call starts."""
    before = len(driver.launches())
    executable(*arrays)
    return [name for name, _ in driver.launches()[before:]]


def test_a_library_that_is_not_there(cublaslt, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv(CublasLtLibrary.variable, str(tmp_path / "libcublasLt.so.12"))
    arrays = layered(1)
    program = program_of(layers, *arrays)
    executable = Executable(program)
    message = f"our own kernels compute 2 products: there is no cuBLASLt here: {tmp_path}"
    assert says(executable, message)
    assert launched(cublaslt, executable, arrays) == list(program.kernels)


def test_a_library_that_is_too_old(cublaslt) -> None:
    cublaslt.set(library_version=111103)
    executable = Executable(program_of(layers, *layered(1)))
    assert says(executable, "cuBLASLt 11.11.3, and 12.0 is needed")


def test_a_library_that_does_not_work_here(cublaslt) -> None:
    cublaslt.fail("cublasLtCreate", 1)
    arrays = layered(1)
    program = program_of(layers, *arrays)
    executable = Executable(program)
    assert says(executable, "refuses cuda:0: CUBLAS_STATUS_NOT_INITIALIZED (1)")
    assert launched(cublaslt, executable, arrays) == list(program.kernels)


def test_a_library_that_refuses_one_product(cublaslt) -> None:
    cublaslt.set(refuses=1)
    arrays = layered(1)
    program = program_of(layers, *arrays)
    executable = Executable(program)
    own, _ = (product.kernel for product in program.products)
    assert says(executable, f"computes 1 product; it refuses, and our own kernels compute: {own}")
    calls = cublaslt.calls("cublasLtMatmul")
    assert launched(cublaslt, executable, arrays) == [own]
    assert cublaslt.calls("cublasLtMatmul") == calls + 1
    assert cublaslt.live()["products"] == 1  # the plan of the other is gone


def test_algorithms_that_need_more_memory_than_there_is(cublaslt) -> None:
    cublaslt.set(workspace=5 << 20)
    assert says(Executable(program_of(lambda a, b: a @ b, *arrays_of(A, B))), "computes 1 product")
    cublaslt.set(workspace=33 << 20)
    assert says(Executable(program_of(lambda a, b: a @ b, *arrays_of(A, B))), "it refuses")


def test_the_choice_is_made_once(cublaslt) -> None:
    arrays = layered(1)
    executable = Executable(program_of(layers, *arrays))
    asked = cublaslt.calls("cublasLtMatmulAlgoGetHeuristic")
    first = executable(*arrays)
    cublaslt.set(refuses=100)
    for _ in range(5):
        assert np.array_equal(executable(*arrays), first)
    assert cublaslt.calls("cublasLtMatmulAlgoGetHeuristic") == asked == 2
    assert cublaslt.launches() == []


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize(("status", "kind"), [(13, InternalError), (3, ResourceError)])
def test_a_product_that_fails(cublaslt, status, kind, nth) -> None:
    arrays = layered(1)
    program = program_of(layers, *arrays)
    executable = Executable(program)
    first = executable(*arrays)
    cublaslt.fail("cublasLtMatmul", status, nth)
    product = program.products[nth - 1]
    try:  # pytest.raises would keep the executable, by way of this frame
        executable(*arrays)
        raise AssertionError("it did not fail")
    except kind as error:
        reason = f"a call, at '{product.kernel}' by cuBLASLt 12.9.3 on cuda:0, ended with CUBLAS_"
        assert error.reason.startswith(reason)
        assert (error.op, error.location) == ("hlo.dot", product.location) and product.location
        assert "help: free memory" in str(error) or "help: compile the model without libraries" in str(error)
    assert np.array_equal(executable(*arrays), first)


def test_a_device_that_is_lost(cublaslt) -> None:
    arrays = layered(1)
    executable = Executable(program_of(layers, *arrays))
    first = executable(*arrays)
    cublaslt.fail("execute", 700, 8)
    with pytest.raises(InternalError, match="ILLEGAL_ADDRESS"):
        executable(*arrays)
    assert np.array_equal(executable(*arrays), first)


def test_whatever_fails_is_an_error_of_ours_and_leaks_nothing(cublaslt) -> None:
    """Every call of every function of the library fails once; the next time all is well."""
    arrays = arrays_of((3, *A), (3, *B), (32, 64))
    program = program_of(lambda a, b, c: relu(a @ b) @ c, *arrays)
    names = [name for name in library_module.FUNCTIONS if not name.startswith("cublasLtGet")]

    def whole_day() -> np.ndarray:
        return Executable(program)(*arrays)[0]  # two products, one of batches

    first = whole_day()
    before = {name: cublaslt.calls(name) for name in names}
    whole_day()
    counts = {name: cublaslt.calls(name) - count for name, count in before.items()}
    assert all(counts.values())
    failed = 0
    for name, count in counts.items():
        for nth in range(1, count + 1):
            for status in (3, 14):
                cublaslt.fail(name, status, nth)
                try:
                    whole_day()
                except (InternalError, ResourceError) as error:
                    failed += 1
                    assert "CUBLAS_STATUS_ALLOC_FAILED" in str(error) or "an unknown status (14)" in str(error)
                cublaslt.itself.fake_forgive()
                kinds = ("handles", "products", "layouts", "preferences")
                assert not any(cublaslt.live().get(kind) for kind in kinds), (name, nth, status)
    assert np.array_equal(whole_day(), first)
    assert failed > 60


WITHOUT_COMPILER = """
import ctypes, os
path, arrays = sys.argv[1], list(np.load(sys.argv[2]).values())
executable = shlo.load_executable(path)
print("computes 2 products" in executable.report())
print(np.asarray(executable(*arrays)[0]).sum())
assert not compiling(), compiling()
"""


def test_programs_run_without_a_compiler(cublaslt, tmp_path) -> None:
    """An artifact holds the library's products and the kernels."""
    arrays, path, inputs = layered(1), tmp_path / "model.shloexe", tmp_path / "inputs.npz"
    program = program_of(layers, *arrays)
    artifact.save(program, path)
    assert artifact.load(path).products == program.products
    np.savez(inputs, *arrays)
    environment = {"SHLO_CUDA_LIBRARY": cublaslt.path, CublasLtLibrary.variable: cublaslt.path}
    found, total = alone(WITHOUT_COMPILER, path, inputs, **environment).splitlines()
    assert found == "True" and np.isclose(float(total), wanted(layers, arrays).sum(), rtol=1e-3)


def test_products_that_were_changed_are_refused(cublaslt) -> None:
    program = program_of(lambda a, b: a @ b, *arrays_of(A, B))
    (product,) = program.products
    for changed in (
        replace(product, batch=0),
        replace(product, library="mkl"),
        replace(product, activation="silu"),
        replace(product, workspace_bytes=-1),
        replace(product, a=replace(product.a, columns=63)),
        replace(product, a=replace(product.a, stride=63)),
        replace(product, result=replace(product.result, rows=49)),
    ):
        content = artifact.serialize(replace(program, products=(changed,)))
        with pytest.raises(LoadError, match="is not a whole executable artifact"):
            artifact.deserialize(content)
    bigger = replace(product, a=replace(product.a, batch_stride=1 << 40), batch=2)
    with pytest.raises(LoadError, match="generated for another description"):
        Executable(artifact.deserialize(artifact.serialize(replace(program, products=(bigger,)))))


def test_options() -> None:
    assert Options(libraries="cublaslt").libraries == Options(libraries=["cublaslt"]).libraries == ("cublaslt",)
    assert Options(libraries="cublaslt").key != Options().key and Options().libraries == ()
    with pytest.raises(OptionError, match=r"there is no library 'mkl'\n  help: use a tuple of names"):
        Options(libraries=("mkl",))
    with pytest.raises(OptionError, match="libraries holds 7"):
        Options(libraries=(7,))  # type: ignore[arg-type]
    (text,) = [jax.jit(lambda a, b: a @ b).lower(*arrays_of(A, B)).as_text()]
    for target, gpu in (("opencl", None), ("rocm", "gfx942"), ("cpu", None)):
        with pytest.raises(OptionError, match=f"programs of the backend '{target}' (do not )?use"):
            shlo.compile(text, target, options=Options(gpu=gpu, libraries=("cublaslt",)))


def test_where_the_library_is_looked_for(monkeypatch, tmp_path) -> None:
    """A later release than the driver's is left out."""
    for folder, release in (("cu13", 13), ("cublas", 12)):
        (tmp_path / folder / "lib").mkdir(parents=True)
        (tmp_path / folder / "lib" / f"libcublasLt.so.{release}").touch()
    packages = type("Spec", (), {"submodule_search_locations": [str(tmp_path)]})
    monkeypatch.delenv(CublasLtLibrary.variable, raising=False)
    monkeypatch.setattr(vendor, "find_spec", lambda name: packages)
    twelve = ["libcublasLt.so.12", str(tmp_path / "cublas/lib/libcublasLt.so.12")]
    thirteen = ["libcublasLt.so.13", str(tmp_path / "cu13/lib/libcublasLt.so.13")]
    assert list(CublasLtLibrary.candidates(12040)) == twelve
    assert list(CublasLtLibrary.candidates(13000)) == thirteen + twelve
    monkeypatch.setenv(CublasLtLibrary.variable, "mine.so")
    assert list(CublasLtLibrary.candidates(13000)) == ["mine.so"]


def test_a_description_of_an_algorithm_is_the_librarys() -> None:
    """cublasLtMatmulHeuristicResult_t of cublasLt.h."""
    assert ctypes.sizeof(library_module.Result) == 96
    assert library_module.Result.workspace.offset == 64 and library_module.Result.state.offset == 72
