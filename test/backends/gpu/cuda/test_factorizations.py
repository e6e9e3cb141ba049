"""LU and QR factors, eigenvalues and singular values by cuSOLVER, on a library that has them from LAPACK: that results
are right, that our own kernels run where it is not there or refuses, what is said where it fails, that nothing leaks.
Cholesky's factors are in test_numerics.py."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from library_programs import found_in, says
from library_programs import program_of as program_with_libraries

import stablehlo_py as shlo
from stablehlo_py.backends.common.fusion import Fusion, fusions
from stablehlo_py.backends.common.llvm_ir import llvm_ir
from stablehlo_py.backends.cpu.symbols import library_address
from stablehlo_py.backends.gpu.kernels.base import GpuKernel
from stablehlo_py.backends.gpu.libraries import vendor
from stablehlo_py.backends.gpu.libraries.cusolver import CusolverLibrary, function_of
from stablehlo_py.backends.gpu.libraries.factorizations import library_factorization, matched_kernels
from stablehlo_py.backends.gpu.machine_code import machine_code
from stablehlo_py.backends.gpu.opencl.device import OpenClDevice
from stablehlo_py.backends.gpu.target import OPENCL
from stablehlo_py.compiler import run_stages
from stablehlo_py.errors import InternalError, LoadError, ResourceError
from stablehlo_py.mlir import ir
from stablehlo_py.options import Options
from stablehlo_py.runtime import artifact
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.library_calls import LibraryFactorization

Function = Callable[..., Any]
RANDOM = np.random.default_rng(3)
DTYPES = ["float32", "float64", "complex64", "complex128"]
#: In the order in which the fake library numbers them; of real numbers, and of complex ones.
ROUTINES = [("getrf", "getrf"), ("geqrf", "geqrf"), ("orgqr", "ungqr"), ("syevd", "heevd"), ("gesvd", "gesvd")]
LAPACK = [library_address("lapack", f"{letter}{names[letter in 'cz']}") for names in ROUTINES for letter in "sdcz"]
TABLE = (ctypes.c_void_p * len(LAPACK))(*LAPACK)

pytestmark = pytest.mark.usefixtures("wide_types", "no_assembler")


@pytest.fixture
def built_cuda(built_numerics):
    return built_numerics


@pytest.fixture
def solver(cuda_device, monkeypatch) -> Iterator[Any]:
    """The driver and the library of this process."""
    cuda_device.set(lapack=ctypes.addressof(TABLE))
    with found_in(cuda_device.path, monkeypatch, CusolverLibrary):
        yield cuda_device


program_of = partial(program_with_libraries, libraries=("cusolver",))


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    real, imaginary = RANDOM.standard_normal((2, *shape))
    return (real + 1j * imaginary if "c" in np.dtype(dtype).kind else real).astype(dtype)


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    tolerance = 1e-10 if np.finfo(found.dtype).eps < 1e-9 else 2e-4
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * max(1.0, np.abs(wanted).max()))


Results = list[tuple[str, tuple[int, ...]]]


def call(routine: str, dtype: str, entries: str, operands: list[tuple[int, ...]], results: Results) -> str:
    """A module that calls LAPACK. It names no layouts, so it takes memory as it finds it: matrices by columns."""
    letter, of = {"float32": ("s", "f32"), "float64": ("d", "f64"), "complex64": ("c", "complex<f32>"),
                  "complex128": ("z", "complex<f64>")}[dtype]  # fmt: skip
    kinds = {"same": of, "real": "f64" if letter in "dz" else "f32", "integer": "i32"}

    def type_(shape: tuple[int, ...], element: str) -> str:
        return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"

    ins = [type_(shape, of) for shape in operands]
    outs = [type_(shape, kinds[kind]) for kind, shape in results]
    names = [f"%a{number}" for number in range(len(ins))]
    values = ", ".join(f"%0#{number}" for number in range(len(outs))) if len(outs) > 1 else "%0"
    arguments = ", ".join(f"{name}: {type_}" for name, type_ in zip(names, ins, strict=True))
    head = "%0" if len(outs) == 1 else f"%0:{len(outs)}"
    of_call = f"({', '.join(ins)}) -> ({', '.join(outs)})"
    return f"""func.func @main({arguments}) -> ({", ".join(outs)}) {{
      {head} = stablehlo.custom_call @lapack_{letter}{routine}_ffi({", ".join(names)}) {{
        mhlo.backend_config = {{{entries}}}}} : {of_call}
      return {values} : {", ".join(outs)}
    }}"""


def by_columns(a: np.ndarray) -> np.ndarray:
    """The array of the same shape in whose memory these matrices lie by columns."""
    return np.ascontiguousarray(np.swapaxes(a, -1, -2)).reshape(a.shape)


def matrices(a: np.ndarray) -> np.ndarray:
    """The inverse of `by_columns`."""
    *batch, rows, columns = a.shape
    return np.swapaxes(a.reshape(*batch, columns, rows), -1, -2)


def computed(solver: Any, text: Function | str, *arrays: np.ndarray) -> tuple[LibraryFactorization, list[np.ndarray]]:
    """What the library makes of a program of one call: which call, and the results."""
    program = program_of(text, *arrays)
    (found,) = program.factorizations
    if found.is_wide:  # what our own kernels access
        size, rooms = found.dtype.itemsize, found.rooms
        vectors = [int(np.prod(spec.shape)) * size for spec in program.outputs[2:4]]
        solver.describe(f"{found.kernel}_transposed", [arrays[0].nbytes, *[0] * 6], [0] * 7)
        solver.describe(f"{found.kernel}_exchanged", [*[0] * 6, rooms[-1]], [0, 0, 0, *vectors, 0, 0])
    executable = Executable(program)
    assert says(executable, f"cuSOLVER 11.7.0 ({solver.path}) computes 1 factorization")
    name, before = function_of(found.routine, found.dtype), solver.calls(function_of(found.routine, found.dtype))
    results = [np.asarray(result) for result in executable(*arrays)]
    assert solver.calls(name) - before == found.batch
    return found, results


@pytest.mark.every(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m, n", [(40, 40), (50, 33), (33, 50)])
def test_lu(solver, dtype, m, n) -> None:
    """Pivots count from 1, and a singular matrix is told by its number."""
    a, least = numbers(3, m, n, dtype=dtype), min(m, n)
    a[1, :, 4] = 0
    text = call("getrf", dtype, "", [a.shape], [("same", a.shape), ("integer", (3, least)), ("integer", (3,))])
    found, (factors, pivots, info) = computed(solver, text, by_columns(a))
    factors = matrices(factors)
    assert (found.rows, found.columns, found.batch, found.routine) == (m, n, 3, "getrf")
    assert info.tolist() == [0, 5, 0] and pivots.dtype == np.int32
    assert pivots.min() >= 1 and pivots.max() <= m
    for matrix, factor, own in zip(a, factors, pivots, strict=True):
        lower = np.tril(factor[:, :least], -1) + np.eye(m, least)
        exchanged = matrix.copy()
        for row, other in enumerate(own):
            exchanged[[row, other - 1]] = exchanged[[other - 1, row]]
        close((lower @ np.triu(factor[:least])).astype(dtype), exchanged)
    assert solver.launches() == []


@pytest.mark.every(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m, n", [(40, 40), (50, 33), (33, 50)])
def test_qr(solver, dtype, m, n) -> None:
    a, least = numbers(2, m, n, dtype=dtype), min(m, n)
    text = call("geqrf", dtype, "", [a.shape], [("same", a.shape), ("same", (2, least))])
    found, (factors, taus) = computed(solver, text, by_columns(a))
    factors = matrices(factors)
    assert (found.rows, found.columns, found.routine) == (m, n, "geqrf")
    vectors = factors[:, :, :least].copy()
    routine = "ungqr" if a.dtype.kind == "c" else "orgqr"
    text = call(routine, dtype, "", [vectors.shape, taus.shape], [("same", vectors.shape)])
    found, (q,) = computed(solver, text, by_columns(vectors), taus)
    q = matrices(q)
    assert (found.rows, found.columns, found.factors, found.routine) == (m, least, least, "orgqr")
    close(q @ np.triu(factors[:, :least]), a)
    close(np.swapaxes(q.conj(), -1, -2) @ q, np.broadcast_to(np.eye(least), (2, least, least)))
    assert solver.launches() == []


@pytest.mark.every(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("mode", "VN")
def test_eigenvalues(solver, dtype, uplo, mode) -> None:
    """Of the triangle that is named: there is something else in the other one."""
    a = numbers(2, 36, 36, dtype=dtype)
    own = np.tril(a, -1) if uplo == "L" else np.triu(a, 1)
    diagonal = np.eye(36) * a.real
    hermitian = (own + np.swapaxes(own.conj(), -1, -2) + diagonal).astype(dtype)
    entries = f"mode = {ord(mode)} : ui8, uplo = {ord(uplo)} : ui8"
    text = call("heevd" if a.dtype.kind == "c" else "syevd", dtype, entries, [a.shape],
                [("same", a.shape), ("real", (2, 36)), ("integer", (2,))])  # fmt: skip
    found, (v, w, info) = computed(solver, text, by_columns(a))
    v = matrices(v)
    assert (found.routine, found.lower, found.vectors) == ("syevd", uplo == "L", mode)
    assert info.tolist() == [0, 0]
    close(w, np.linalg.eigvalsh(hermitian))
    if mode == "V":
        close(hermitian @ v, v * w[:, None, :])


@pytest.mark.every(4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", "ASN")
@pytest.mark.parametrize("routine, m, n", [("gesdd", 40, 40), ("gesdd", 50, 33), ("gesvd", 33, 50), ("gesdd", 33, 50)])
def test_singular_values(solver, dtype, mode, routine, m, n) -> None:
    """Of matrices with more columns than rows, the library finds those of the transposed ones."""
    a, least = numbers(2, m, n, dtype=dtype), min(m, n)
    left, right = {"A": (m, n), "S": (least, least), "N": (1, 1)}[mode]
    shapes = [a.shape, (2, least), (2, m, left), (2, right, n), (2,)]
    kinds = ["same", "real", "same", "same", "integer"]
    text = call(routine, dtype, f"mode = {ord(mode)} : ui8", [a.shape], list(zip(kinds, shapes, strict=True)))
    found, (_, s, u, vh, info) = computed(solver, text, by_columns(a))
    assert (found.routine, found.is_wide, found.vectors) == ("gesvd", m < n, mode)
    launched = [name.removeprefix(found.kernel) for name, _ in solver.launches()]
    behind = ["_zeros"] if mode == "N" else ["_exchanged"] * (m < n)
    assert launched == ["_transposed"] * (m < n) + behind
    if m < n:  # the fake driver's kernels do not transpose
        return
    assert info.tolist() == [0, 0]
    close(s, np.linalg.svd(a, compute_uv=False))
    if mode != "N":
        u, vh = matrices(u), matrices(vh)
        close((u[..., :least] * s[:, None, :]) @ vh[:, :least], a)
        close(np.swapaxes(u.conj(), -1, -2) @ u, np.broadcast_to(np.eye(left), (2, left, left)))
        close(vh @ np.swapaxes(vh.conj(), -1, -2), np.broadcast_to(np.eye(right), (2, right, right)))


def lu(a: np.ndarray) -> str:
    *batch, m, n = a.shape
    results = [("same", a.shape), ("integer", (*batch, min(m, n))), ("integer", tuple(batch))]
    return call("getrf", a.dtype.name, "", [a.shape], results)


def test_what_jax_makes(solver) -> None:
    """Programs of several calls, whose matrices lie by rows before."""
    a = numbers(2, 40, 40)
    for function, names in (
        (jnp.linalg.solve, {"getrf"}),
        (jnp.linalg.qr, {"geqrf", "orgqr"}),
        (jnp.linalg.eigh, {"syevd"}),
        (partial(jnp.linalg.svd, full_matrices=False), {"gesvd"}),
    ):
        arrays = [a, a] if names == {"getrf"} else [a]
        program = program_of(function, *arrays)
        assert {each.routine for each in program.factorizations} == names
        executable = Executable(program)
        executable(*arrays)
        count = len(program.factorizations)
        assert says(executable, f"computes {count} factorization{'s' if count > 1 else ''}")


def test_what_is_left_to_our_own_kernels() -> None:
    for a in (numbers(2, 31, 40), numbers(65, 32, 32), numbers(0, 40, 40)):
        assert program_of(lu(a), a).factorizations == ()
    a = numbers(40, 40)
    assert program_of(lu(a), a, libraries=("cufft", "cublaslt")).factorizations == ()


def test_the_library_is_not_there_or_refuses(solver, monkeypatch, tmp_path) -> None:
    a = numbers(2, 40, 40)
    program = program_of(lu(a), a)
    (found,) = program.factorizations
    solver.set(refuses=1)
    executable = Executable(program)
    assert says(executable, f"computes 0 factorizations; it refuses, and our own kernels compute: {found.kernel}")
    before = len(solver.launches())
    executable(a)
    assert len(solver.launches()) > before
    solver.set(workspace=1 << 32)
    assert says(Executable(program), "computes 0 factorizations")
    solver.set(workspace=1 << 16)
    assert says(Executable(program), "computes 1 factorization")
    monkeypatch.setenv(CusolverLibrary.variable, str(tmp_path / "libcusolver.so.12"))
    vendor.found.cache_clear()
    executable = Executable(program)
    assert says(executable, "our own kernels compute 1 factorization: there is no cuSOLVER here")
    executable(a)


def programs() -> Iterator[tuple[str, Any, list[np.ndarray]]]:
    """One of each routine, with the name of its function."""
    a, taus = numbers(2, 40, 40), numbers(2, 40)
    yield "cusolverDnSgetrf", program_of(lu(a), a), [a]
    results: Results = [("same", a.shape), ("same", (2, 40))]
    yield "cusolverDnSgeqrf", program_of(call("geqrf", "float32", "", [a.shape], results), a), [a]
    text = call("orgqr", "float32", "", [a.shape, taus.shape], [("same", a.shape)])
    yield "cusolverDnSorgqr", program_of(text, a, taus), [a, taus]
    results = [("same", a.shape), ("real", (2, 40)), ("integer", (2,))]
    text = call("syevd", "float32", f"mode = {ord('V')} : ui8, uplo = {ord('L')} : ui8", [a.shape], results)
    yield "cusolverDnSsyevd", program_of(text, a), [a]
    results = [*results[:2], ("same", a.shape), ("same", a.shape), ("integer", (2,))]
    yield (
        "cusolverDnSgesvd",
        program_of(call("gesdd", "float32", f"mode = {ord('S')} : ui8", [a.shape], results), a),
        [a],
    )


def test_whatever_fails_is_an_error_of_ours_and_leaks_nothing(solver) -> None:
    """Every call of every function fails once; the next time all is well."""
    for name, program, arrays in programs():

        def whole_day(program: Any = program, arrays: list[np.ndarray] = arrays) -> np.ndarray:
            return np.asarray(Executable(program)(*arrays)[0])

        first = whole_day()
        asked = ("cusolverDnCreate", "cusolverDnCreateParams", "cusolverDnSetStream", f"{name}_bufferSize", name)
        counts = {each: solver.calls(each) for each in asked}
        whole_day()
        counts = {each: solver.calls(each) - count for each, count in counts.items()}
        assert counts[name] == 2 and all(counts.values())
        for each, count in counts.items():
            for nth in range(1, count + 1):
                for status in (2, 77):
                    solver.fail(each, status, nth)
                    try:
                        whole_day()
                        raise AssertionError("it did not fail")
                    except (InternalError, ResourceError) as error:
                        assert ("_ALLOC_FAILED (2)" if status == 2 else "an unknown status (77)") in str(error)
                    solver.itself.fake_forgive()
                    assert not any(solver.live().get(kind) for kind in ("solvers", "parameters")), (each, nth, status)
        solver.fail(name, 6, 1)
        (found,) = program.factorizations
        try:
            whole_day()
            raise AssertionError("it did not fail")
        except InternalError as error:
            assert "CUSOLVER_STATUS_EXECUTION_FAILED (6)" in error.reason
            assert (error.op, error.location) == (found.op, found.location)
        assert np.array_equal(whole_day(), first, equal_nan=True)


def test_artifacts_keep_calls_and_refuse_changed_ones(solver) -> None:
    for _, program, _ in programs():
        assert artifact.deserialize(artifact.serialize(program)).library_calls == program.library_calls
    (found,) = program.factorizations
    for changed in ({"rows": 0}, {"batch": -1}, {"routine": "gels"}, {"vectors": "X"}, {"factors": 41}):
        content = artifact.serialize(replace(program, factorizations=(replace(found, **changed),)))
        with pytest.raises(LoadError, match="is not a whole executable artifact"):
            artifact.deserialize(content)


# --- our kernels beside the library, on a device ----------------------------------------------------------------------


def svd_text(a: np.ndarray, mode: str) -> str:
    m, n = a.shape[-2:]
    least = min(m, n)
    left, right = {"A": (m, n), "S": (least, least), "N": (2, 3)}[mode]
    shapes = [a.shape, (2, least), (2, m, left), (2, right, n), (2,)]
    kinds = ["same", "real", "same", "same", "integer"]
    return call("gesdd", a.dtype.name, f"mode = {ord(mode)} : ui8", [a.shape], list(zip(kinds, shapes, strict=True)))


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
@pytest.mark.parametrize("mode", "AS")
def test_wide_matrices_are_transposed_and_vectors_exchanged(real_device, dtype, mode) -> None:
    """With NumPy's values between our two kernels, in the library's place."""
    a = numbers(2, 33, 50, dtype=dtype)
    m, n = a.shape[-2:]
    kept = n if mode == "A" else m
    device = OpenClDevice()
    with only_fusion(svd_text(a, mode)) as fusion:
        found = library_factorization(fusion)
        assert found is not None and found.is_wide
        before, behind = matched_kernels(fusion, OPENCL, found)
        assert before is not None and behind is not None
        workspace = np.full(found.rooms[-1], 0xEE, np.uint8)
        results = [np.zeros((2, *shape), dtype) for shape in ((m, n), (m,), (m, m), (kept, n), ())]
        *_, workspace = run(device, before, [by_columns(a), *results, workspace])
        place, left, right, end = found.rooms
        size = found.dtype.itemsize
        of_library = matrices(workspace[place : place + 2 * m * n * size].view(dtype).reshape(2, n, m))
        assert np.array_equal(of_library, np.swapaxes(a, -1, -2))
        u, s, vh = np.linalg.svd(of_library, full_matrices=mode == "A")
        for begin, each in ((left, u), (right, vh)):
            workspace[begin : begin + each.nbytes] = by_columns(each.astype(dtype)).view(np.uint8).ravel()
        assert end == right + -(-vh.nbytes // 256) * 256
        _, _, _, left_found, right_found, _, _ = run(device, behind, [by_columns(a), *results, workspace])
    close((matrices(left_found) * s[:, None, :]) @ matrices(right_found)[:, :m], a)


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_vectors_that_nobody_asks_for_are_zeros(real_device, dtype) -> None:
    a = numbers(2, 40, 33, dtype=dtype)
    with only_fusion(svd_text(a, "N")) as fusion:
        found = library_factorization(fusion)
        assert found is not None
        before, behind = matched_kernels(fusion, OPENCL, found)
        assert before is None and behind is not None
        shapes = ((40, 33), (33,), (40, 2), (3, 33), ())
        results = [np.ones((2, *shape), dtype) for shape in shapes]
        kept = run(OpenClDevice(), behind, [a, *results, np.zeros(4, np.int32)])
    assert not kept[3].any() and not kept[4].any()
    assert all(each.all() for each in kept[1:3])


@contextmanager
def only_fusion(text: str) -> Iterator[Fusion]:
    module = run_stages(shlo.load(text), "", "scheduled", Options(libraries=("cusolver",)), target="cuda")
    with module.context, ir.Location.unknown():
        (function,) = fusions(module)
        yield Fusion.read(function)


def run(device: OpenClDevice, kernel: GpuKernel, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """What a kernel leaves of the arrays that its pointers lead to."""
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
    results = [np.empty_like(array) for array in arrays]
    for block, result in zip(held, results, strict=True):
        device.memory.read(block, result)
    del built
    return results
