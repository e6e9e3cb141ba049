"""Fourier transforms by cuFFT and Cholesky factors by cuSOLVER, on libraries that compute what they are asked for: that
results are right, that our own kernels run where a library is not there or refuses, what is said where it fails, that
nothing leaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from library_programs import found_in, says
from library_programs import program_of as program_with_libraries
from without_compiler import alone

import stablehlo_py as shlo
from stablehlo_py.backends.common.fusion import Fusion, fusions
from stablehlo_py.backends.common.llvm_ir import llvm_ir
from stablehlo_py.backends.gpu.kernels.base import GpuKernel
from stablehlo_py.backends.gpu.libraries import cufft, cusolver, vendor
from stablehlo_py.backends.gpu.libraries.cufft import CufftLibrary
from stablehlo_py.backends.gpu.libraries.cusolver import CusolverLibrary
from stablehlo_py.backends.gpu.libraries.factorizations import finished, library_factorization
from stablehlo_py.backends.gpu.libraries.transforms import library_transform, scaled
from stablehlo_py.backends.gpu.machine_code import machine_code
from stablehlo_py.backends.gpu.opencl.device import OpenClDevice
from stablehlo_py.backends.gpu.target import OPENCL
from stablehlo_py.compiler import run_stages
from stablehlo_py.errors import InternalError, LoadError, ResourceError
from stablehlo_py.mlir import ir
from stablehlo_py.options import Options
from stablehlo_py.runtime import artifact
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.library_calls import FACTORIZATIONS

Function = Callable[..., Any]
LIBRARIES = ("cufft", "cusolver")
SIZE = 256
RANDOM = np.random.default_rng(0)


pytestmark = pytest.mark.usefixtures("wide_types", "no_assembler")


@pytest.fixture
def built_cuda(built_numerics):
    return built_numerics


@pytest.fixture
def numerics(cuda_device, monkeypatch) -> Iterator[Any]:
    """The driver and the libraries of this process."""
    with found_in(cuda_device.path, monkeypatch, CufftLibrary, CusolverLibrary):
        yield cuda_device


program_of = partial(program_with_libraries, libraries=LIBRARIES)


def numbers(*shape: int, dtype: str = "complex64") -> np.ndarray:
    real, imaginary = RANDOM.standard_normal((2, *shape))
    return (real + 1j * imaginary if "c" in np.dtype(dtype).kind else real).astype(dtype)


def positive(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Hermitian matrices that have factors."""
    matrices = numbers(*shape, dtype=dtype).astype("complex128" if "complex" in dtype else "float64")
    return (matrices @ np.swapaxes(matrices, -1, -2).conj() + shape[-1] * np.eye(shape[-1])).astype(dtype)


def cholesky(a: np.ndarray, lower: bool = True) -> str:
    """The op, of matrices."""
    of = {"float32": "f32", "float64": "f64", "complex64": "complex<f32>", "complex128": "complex<f64>"}[a.dtype.name]
    type_ = f"tensor<{'x'.join(map(str, a.shape))}x{of}>"
    return f"""func.func @main(%a: {type_}) -> {type_} {{
      %0 = "stablehlo.cholesky"(%a) {{lower = {str(lower).lower()}}} : ({type_}) -> {type_}
      return %0 : {type_}
    }}"""


TRANSFORMS: dict[str, tuple[str, int, tuple[int, ...], str]] = {
    "one dimension": ("fftn", 1, (8, 512), "complex64"),
    "two": ("fftn", 2, (3, 32, 48), "complex64"),
    "three": ("fftn", 3, (2, 16, 12, 20), "complex128"),
    "a prime": ("fftn", 1, (50, 97), "complex128"),
    "real": ("rfftn", 1, (20, 509), "float32"),
    "real, two": ("rfftn", 2, (3, 64, 66), "float64"),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(numerics, name) -> None:
    function, rank, shape, dtype = TRANSFORMS[name]
    x, axes = numbers(*shape, dtype=dtype), tuple(range(-rank, 0))
    program = program_of(lambda x: getattr(jnp.fft, function)(x, axes=axes), x)
    assert len(program.transforms) == 1
    executable = Executable(program)
    assert says(executable, f"cuFFT 11.3.4 ({numerics.path}) computes 1 Fourier transform")
    (found,) = executable(x)
    tolerance = 1e-4 if found.dtype == np.complex64 else 1e-10
    wanted = getattr(np.fft, function)(x, axes=axes)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * np.sqrt(x.size))
    assert numerics.launches() == []


def test_inverse_transforms_are_scaled_behind_the_library(numerics) -> None:
    """On the fake driver no kernel does that: what the library computes is left."""
    x = numbers(8, 512)
    program = program_of(jnp.fft.ifft, x)
    (found,) = Executable(program)(x)
    assert [name for name, _ in numerics.launches()] == [f"{program.transforms[0].kernel}_scaled"]
    np.testing.assert_allclose(found / 512, np.fft.ifft(x), rtol=1e-4, atol=1e-4)


@pytest.mark.every(2)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("lower", [True, False])
def test_cholesky(numerics, dtype, lower) -> None:
    a = positive(2, SIZE, SIZE, dtype=dtype)
    program = program_of(cholesky(a, lower), a)
    assert [(call.batch, call.rows, call.lower) for call in program.factorizations] == [(2, SIZE, lower)]
    executable = Executable(program)
    assert says(executable, f"cuSOLVER 11.7.0 ({numerics.path}) computes 1 factorization")
    (found,) = executable(a)
    wanted = np.linalg.cholesky(a.astype("complex128" if a.dtype.kind == "c" else "float64"))
    factor = np.tril(found) if lower else np.swapaxes(np.triu(found), -1, -2).conj()
    tolerance = 1e-10 if np.finfo(a.dtype).eps < 1e-9 else 1e-4
    np.testing.assert_allclose(factor, wanted, rtol=tolerance, atol=tolerance)
    assert [name for name, _ in numerics.launches()] == [f"{program.factorizations[0].kernel}_finished"]


def test_what_is_left_to_our_own_kernels() -> None:
    cases: list[tuple[Function | str, np.ndarray]] = [
        (jnp.fft.fft, numbers(4, 512)),
        (jnp.fft.irfft, numbers(16, 513)),
        (cholesky(a := positive(4, 64, 64)), a),
        (cholesky(a := np.zeros((80, 256, 256), np.float32)), a),
    ]
    for function, array in cases:
        assert program_of(function, array).library_calls == ()
    assert program_of(jnp.fft.fft, numbers(8, 512), libraries=("cusolver", "cublaslt")).library_calls == ()


def whole(x: jax.Array) -> jax.Array:
    """A transform, a product, and a factor."""
    spectrum = jnp.real(jnp.fft.fft(x)).astype(jnp.float32)
    return jax.lax.linalg.cholesky(spectrum @ spectrum.T + jnp.eye(SIZE), symmetrize_input=False)


def test_three_libraries(numerics) -> None:
    """Calls are numbered library by library, whatever comes first; the last one says what it is where it fails."""
    x = numbers(SIZE, SIZE)
    program = program_of(whole, x, libraries=("cufft", "cusolver"))
    executable = Executable(program)
    assert [call.library for call in program.library_calls] == ["cufft", "cusolver"]
    executable(x)
    for name, status, call, text in (
        ("cufftXtExec", 6, program.transforms[0], "by cuFFT 11.3.4 on cuda:0, ended with CUFFT_EXEC_FAILED (6)"),
        ("cufftSetWorkArea", 4, program.transforms[0], "by cuFFT 11.3.4 on cuda:0, ended with CUFFT_INVALID_VALUE (4)"),
        ("cusolverDnXpotrf", 7, program.factorizations[0], "ended with CUSOLVER_STATUS_INTERNAL_ERROR (7)"),
    ):
        executions = numerics.calls("cufftXtExec")
        numerics.fail(name, status, 1)
        try:
            executable(x)
            raise AssertionError("it did not fail")
        except InternalError as error:
            assert text in error.reason and (error.op, error.location) == (call.op, call.location)
        executed = numerics.calls("cufftXtExec") - executions
        assert executed == (name != "cufftSetWorkArea")  # what comes behind a failure is not asked for
        executable(x)


def launched(driver: Any, executable: Executable, x: np.ndarray) -> int:
    before = len(driver.launches())
    executable(x)
    return len(driver.launches()) - before


def test_libraries_that_are_not_there(numerics, monkeypatch, tmp_path) -> None:
    x = numbers(SIZE, SIZE)
    program = program_of(whole, x)
    with_them = launched(numerics, Executable(program), x)
    monkeypatch.setenv(CufftLibrary.variable, str(tmp_path / "libcufft.so.11"))
    vendor.found.cache_clear()
    executable = Executable(program)
    assert says(executable, f"our own kernels compute 1 Fourier transform: there is no cuFFT here: {tmp_path}")
    assert says(executable, f"cuSOLVER 11.7.0 ({numerics.path}) computes 1 factorization")
    assert launched(numerics, executable, x) > with_them
    numerics.set(cusolver_version=11001)
    vendor.found.cache_clear()
    assert says(Executable(program), "cuSOLVER 11.0.1, and 11.4 is needed")


def test_libraries_that_refuse(numerics) -> None:
    x = numbers(SIZE, SIZE)
    program = program_of(whole, x)
    transform, factorization = program.library_calls
    numerics.set(refuses=2)
    executable = Executable(program)
    assert says(executable, f"0 Fourier transforms; it refuses, and our own kernels compute: {transform.kernel}")
    assert says(executable, f"it refuses, and our own kernels compute: {factorization.kernel}")
    assert numerics.live().get("transforms", 0) == 0
    numerics.set(workspace=1 << 40)
    assert says(Executable(program), "computes 0 factorizations")
    numerics.set(workspace=1 << 16)
    numerics.fail("cusolverDnCreate", 1)
    assert says(Executable(program), "refuses cuda:0: CUSOLVER_STATUS_NOT_INITIALIZED (1)")


def test_whatever_fails_is_an_error_of_ours_and_leaks_nothing(numerics) -> None:
    """Every call of every function of the libraries fails once; the next time all is well."""
    x = numbers(SIZE, SIZE)
    program = program_of(whole, x)
    others = {cusolver.function_of(routine, dtype) for routine in FACTORIZATIONS[1:] for dtype in cufft.DATA_TYPES}
    names = [name for name in (*cufft.FUNCTIONS, *cusolver.FUNCTIONS) if "GetVersion" not in name]
    names = [name for name in names if name.removesuffix("_bufferSize") not in others]

    def whole_day() -> np.ndarray:
        return Executable(program)(x)[0]

    first = whole_day()
    before = {name: numerics.calls(name) for name in names}
    whole_day()
    counts = {name: numerics.calls(name) - count for name, count in before.items()}
    assert all(counts.values())
    failed = 0
    for name, count in counts.items():
        for nth in range(1, count + 1):
            for status in (2, 77):
                numerics.fail(name, status, nth)
                try:
                    whole_day()
                except (InternalError, ResourceError) as error:
                    failed += 1
                    assert "_ALLOC_FAILED (2)" in str(error) or "an unknown status (77)" in str(error)
                numerics.itself.fake_forgive()
                kinds = ("transforms", "solvers", "parameters")
                assert not any(numerics.live().get(kind) for kind in kinds), (name, nth, status)
    assert np.array_equal(whole_day(), first, equal_nan=True)
    assert failed > 15


WITHOUT_COMPILER = """
path, arrays = sys.argv[1], list(np.load(sys.argv[2]).values())
executable = shlo.load_executable(path)
print("cuFFT" in executable.report() and "cuSOLVER" in executable.report())
print(np.asarray(executable(*arrays)[0]).shape)
assert not compiling(), compiling()
"""


def test_programs_run_without_a_compiler(numerics, tmp_path) -> None:
    x, path, inputs = numbers(SIZE, SIZE), tmp_path / "model.shloexe", tmp_path / "inputs.npz"
    program = program_of(whole, x)
    artifact.save(program, path)
    assert artifact.load(path).library_calls == program.library_calls
    np.savez(inputs, x)
    libraries = (CufftLibrary, CusolverLibrary)
    environment = {"SHLO_CUDA_LIBRARY": numerics.path, **{each.variable: numerics.path for each in libraries}}
    assert alone(WITHOUT_COMPILER, path, inputs, **environment).splitlines() == ["True", f"({SIZE}, {SIZE})"]


def test_calls_that_were_changed_are_refused(numerics) -> None:
    program = program_of(whole, numbers(SIZE, SIZE))
    (transform,), (factor,) = program.transforms, program.factorizations
    for changed in (
        {"transforms": (replace(transform, library="mkl"),)},
        {"transforms": (replace(transform, workspace_bytes=-1),)},
        {"transforms": (replace(transform, lengths=(2, 2, 2, 2)),)},
        {"transforms": (replace(transform, batch=0),)},
        {"transforms": (replace(transform, operand=np.dtype("int32")),)},
        {"factorizations": (replace(factor, rows=0, columns=0),)},
        {"factorizations": (replace(factor, columns=8),)},
        {"factorizations": (replace(factor, routine="gerqf"),)},
        {"factorizations": (replace(factor, routine="orgqr", factors=SIZE + 1),)},
        {"factorizations": (replace(factor, routine="gesvd", vectors="O"),)},
        {"factorizations": (replace(factor, dtype=np.dtype("int8")),)},
    ):
        content = artifact.serialize(replace(program, **changed))
        with pytest.raises(LoadError, match="is not a whole executable artifact"):
            artifact.deserialize(content)


# --- our kernels behind libraries, on a device -----------------------------------------------------------------------


@contextmanager
def only_fusion(text: str) -> Iterator[Fusion]:
    module = run_stages(shlo.load(text), "", "scheduled", Options(libraries=LIBRARIES), target="cuda")
    with module.context, ir.Location.unknown():
        (function,) = fusions(module)
        yield Fusion.read(function)


def run(device: OpenClDevice, kernel: GpuKernel, arrays: list[np.ndarray]) -> np.ndarray:
    """What a kernel of (in0, out0, scratch) makes of the second array."""
    (launch,) = kernel.launches
    text = "\n".join([*kernel.externals.values(), *kernel.tables.values(), *kernel.functions.values()])
    built = device.build(machine_code(llvm_ir(text, OPENCL.architecture), OPENCL))
    handle = built.kernel(launch.symbol)
    held = [device.memory.allocate(array.nbytes) for array in arrays]
    for number, (array, block) in enumerate(zip(arrays, held, strict=True)):
        device.memory.write(array, block)
        device.queue.library.call("clSetKernelArgSVMPointer", handle, number, block.address)
    sizes, local = (np.array([each], np.uintp) for each in (launch.blocks * launch.threads, launch.threads))
    device.queue.call("clEnqueueNDRangeKernel", handle, 1, None, sizes.ctypes.data, local.ctypes.data, 0, None, None)
    result = np.empty_like(arrays[1])
    device.memory.read(held[1], result)
    del built
    return result


@pytest.fixture
def opencl(real_device) -> OpenClDevice:
    return OpenClDevice()


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_factors_are_finished(opencl, dtype, lower) -> None:
    a = numbers(3, SIZE, SIZE, dtype=dtype)
    with only_fusion(cholesky(a, lower)) as fusion:
        call = library_factorization(fusion)
        assert call is not None
        kernel = finished(fusion, OPENCL, call)
    found = run(opencl, kernel, [a, a, np.array([0, 5, 0], np.int32)])
    wanted = np.tril(a) if lower else np.triu(a)
    wanted[1][wanted[1] != 0] = np.nan * (1 + 1j) if a.dtype.kind == "c" else np.nan
    assert np.array_equal(found[[0, 2]], wanted[[0, 2]])
    assert np.array_equal(np.isnan(found[1]), np.isnan(wanted[1])) and not found[1][~np.isnan(wanted[1])].any()


def test_inverse_transforms_are_scaled(opencl) -> None:
    x = numbers(8, 512)
    with only_fusion(jax.jit(jnp.fft.ifft).lower(x).as_text()) as fusion:
        call = library_transform(fusion)
        assert call is not None
        kernel = scaled(fusion, OPENCL, call)
    assert kernel is not None
    assert np.array_equal(run(opencl, kernel, [x, x, np.zeros(4, np.int32)]), x / np.float32(512))
