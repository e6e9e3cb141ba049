"""LAPACK targets against SciPy's own wrappers of the same routines: every target that jaxlib registers, batched and
not, of sizes down to 0."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import blas, lapack

import stablehlo_py
from stablehlo_py.api import compile_program
from stablehlo_py.backends.cpu import symbols
from stablehlo_py.backends.cpu.kernels.custom_call import known_targets
from stablehlo_py.errors import LoadError, UnsupportedError
from stablehlo_py.runtime.executable import Executable

OPTIONS = stablehlo_py.Options(threads=2, cache_dir=None)
LETTERS = {np.float32: "s", np.float64: "d", np.complex64: "c", np.complex128: "z"}
NAMES = {"f4": "f32", "f8": "f64", "c8": "complex<f32>", "c16": "complex<f64>", "i4": "i32"}
RNG = np.random.default_rng(11)

# What jaxlib 0.10.2 registers for CPU, letters of the element types before the routine.
REGISTERED = """
    strsm dtrsm ctrsm ztrsm sgetrf dgetrf cgetrf zgetrf sgeqrf dgeqrf cgeqrf zgeqrf sgeqp3 dgeqp3 cgeqp3 zgeqp3
    sorgqr dorgqr cungqr zungqr sormqr dormqr cunmqr zunmqr spotrf dpotrf cpotrf zpotrf sgesdd dgesdd cgesdd zgesdd
    sgesvd dgesvd cgesvd zgesvd ssyevd dsyevd cheevd zheevd sgeev dgeev cgeev zgeev ssytrd dsytrd chetrd zhetrd
    sgees dgees cgees zgees sgehrd dgehrd cgehrd zgehrd sgtsv dgtsv cgtsv zgtsv
""".split()


def test_every_target_that_jaxlib_registers_has_a_kernel() -> None:
    expected = {f"lapack_{name}_ffi" for name in REGISTERED} | {f"blas_{letter}trsm_ffi" for letter in "sdcz"}
    assert {target for target in known_targets() if target.startswith(("lapack_", "blas_"))} == expected
    registered = {name for name, *_ in pytest.importorskip("jaxlib.lapack").registrations()["cpu"]}
    registered |= {name for name, *_ in pytest.importorskip("jaxlib.cpu_sparse").registrations()["cpu"]}
    assert registered <= known_targets() and len(registered) >= 58


@dataclass(frozen=True)
class Family:
    """A routine: what to call it with, and what SciPy makes of one matrix.

    Attributes:
        sizes: rows and columns to try.
        operands: (rows, columns, dtype) -> operands of one matrix.
        expected: (operands, configuration) -> results of one matrix, by SciPy; None for those without meaning.
        results: (rows, columns, configuration) -> kind and shape of the results of one matrix.
        configurations: entries of the typed configuration, "A" for the code of a character.
    """

    sizes: Sequence[tuple[int, int]]
    operands: Callable[[int, int, np.dtype], list[np.ndarray]]
    expected: Callable[..., list[np.ndarray | None]]
    results: Callable[..., list[tuple[str, tuple[int, ...]]]]
    configurations: Sequence[dict[str, str | int | bool]] = ({},)


SQUARE = ((5, 5), (1, 1), (2, 2), (7, 7), (0, 0))
ANY = ((5, 3), (3, 5), (1, 1), (1, 4), (4, 4), (4, 0), (0, 3))
TALL = ((5, 3), (4, 4), (1, 1), (3, 0))
BATCHES = ((), (3,), (2, 2), (0,))


def random(*sizes: int, dtype: np.dtype) -> np.ndarray:
    x = RNG.standard_normal(sizes)
    return (x + 1j * RNG.standard_normal(sizes) if dtype.kind == "c" else x).astype(dtype)


def general(m: int, n: int, dtype: np.dtype) -> list[np.ndarray]:
    return [random(m, n, dtype=dtype)]


def hermitian(m: int, n: int, dtype: np.dtype) -> list[np.ndarray]:
    a = random(n, n, dtype=dtype)
    return [a + a.conj().T]


def positive(m: int, n: int, dtype: np.dtype) -> list[np.ndarray]:
    a = random(n, n, dtype=dtype)
    return [a @ a.conj().T + np.eye(n, dtype=dtype)]


def routine(name: str, *arrays: np.ndarray) -> Callable[..., tuple]:
    letter = LETTERS[arrays[0].dtype.type]
    name = (
        {"orgqr": "ungqr", "ormqr": "unmqr", "syevd": "heevd", "sytrd": "hetrd"}.get(name, name)
        if letter in "cz"
        else name
    )
    return getattr(blas if name == "trsm" else lapack, letter + name)


def getrf(a: np.ndarray) -> list[np.ndarray | None]:
    factors, pivots, info = routine("getrf", a)(a)
    return [factors, pivots + 1, info]


def geqrf(a: np.ndarray) -> list[np.ndarray | None]:
    return list(routine("geqrf", a)(a)[:2])


def reflectors(m: int, n: int, dtype: np.dtype) -> list[np.ndarray]:
    a = random(m, n, dtype=dtype)
    return list(geqrf(a)) if a.size else [a, np.zeros(min(m, n), dtype)]


def geqp3(a: np.ndarray, free: np.ndarray) -> list[np.ndarray | None]:
    factors, columns, tau, *_ = routine("geqp3", a)(a)
    return [factors, columns, tau]


def ormqr(a: np.ndarray, tau: np.ndarray, c: np.ndarray, left: bool, transpose: bool) -> list[np.ndarray | None]:
    adjoint = "C" if a.dtype.kind == "c" else "T"
    return [routine("ormqr", a)("LR"[not left], adjoint if transpose else "N", a, tau, c, 64 * max(c.shape))[0]]


def svd(name: str) -> Callable[..., list[np.ndarray | None]]:
    def expected(a: np.ndarray, mode: str) -> list[np.ndarray | None]:
        u, s, vt, info = routine(name, a)(a, compute_uv=int(mode != "N"), full_matrices=int(mode == "A"))
        return [None, s, u, vt, info] if mode != "N" else [None, s, None, None, info]

    return expected


def syevd(a: np.ndarray, mode: str, uplo: str) -> list[np.ndarray | None]:
    w, v, info = routine("syevd", a)(a, compute_v=int(mode == "V"), lower=int(uplo == "L"))
    return [v if mode == "V" else None, w, info]


def columns_of(imaginary: np.ndarray, packed: np.ndarray) -> np.ndarray:
    """Complex eigenvectors from LAPACK's real ones."""
    out = packed.astype(np.result_type(packed, np.complex64))
    j = 0
    while j < len(imaginary):
        if imaginary[j]:
            out[:, j] = packed[:, j] + 1j * packed[:, j + 1]
            out[:, j + 1] = out[:, j].conj()
            j += 1
        j += 1
    return out


def geev(a: np.ndarray, compute_left: str, compute_right: str) -> list[np.ndarray | None]:
    *values, left, right, info = routine("geev", a)(a, int(compute_left == "V"), int(compute_right == "V"))
    vectors = [left if compute_left == "V" else None, right if compute_right == "V" else None]
    if a.dtype.kind != "c":
        vectors = [None if one is None else columns_of(values[1], one) for one in vectors]
    zero = np.zeros(a.shape, np.result_type(a, np.complex64))
    return [*values, *(zero if one is None else one for one in vectors), info]


def gees(a: np.ndarray, mode: str, sort: str) -> list[np.ndarray | None]:
    t, selected, *values, vectors, _, info = routine("gees", a)(lambda *_: False, a, int(mode == "V"))
    return [t, vectors if mode == "V" else np.zeros_like(a), *values, selected, info]


def gehrd(a: np.ndarray, low: int, high: int) -> list[np.ndarray | None]:
    return list(routine("gehrd", a)(a, low - 1, high - 1))


def sytrd(a: np.ndarray, uplo: str) -> list[np.ndarray | None]:
    return list(routine("sytrd", a)(a, lower=int(uplo == "L")))


def tridiagonal(n: int, sides: int, dtype: np.dtype) -> list[np.ndarray]:
    return [random(n, dtype=dtype), 4 + random(n, dtype=dtype), random(n, dtype=dtype), random(n, sides, dtype=dtype)]


def gtsv(dl: np.ndarray, d: np.ndarray, du: np.ndarray, b: np.ndarray) -> list[np.ndarray | None]:
    if len(d) == 1:
        return [dl, d, du, b / d, np.int32(0)]
    below, diagonal, above, x, info = routine("gtsv", d)(dl[1:], d, du[:-1], b)
    return [np.append(dl[:1], below), diagonal, np.append(above, du[-1:]), x, info]


def potrf(a: np.ndarray, uplo: str) -> list[np.ndarray | None]:
    factor, info = routine("potrf", a)(a, lower=int(uplo == "L"), clean=0)
    return [factor, info]


def triangular(order: str) -> Callable[[int, int, np.dtype], list[np.ndarray]]:
    def operands(m: int, n: int, dtype: np.dtype) -> list[np.ndarray]:
        size = m if order == "L" else n
        return [random(size, size, dtype=dtype) / 4 + 2 * np.eye(size, dtype=dtype), random(m, n, dtype=dtype)]

    return operands


def trsm(a: np.ndarray, b: np.ndarray, side: str, uplo: str, trans_x: str, diag: str) -> list[np.ndarray | None]:
    code = "NTC".index(trans_x)
    return [routine("trsm", a)(1, a, b, int(side == "R"), int(uplo == "L"), code, int(diag == "U"))]


def choices(**values: Sequence[str | int | bool]) -> list[dict[str, str | int | bool]]:
    return [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]


SAME, REAL, COMPLEX, INTEGER = "same", "real", "complex", "integer"
INFO = (INTEGER, ())


def svd_results(m: int, n: int, mode: str) -> list[tuple[str, tuple[int, ...]]]:
    least = min(m, n)
    left, right = ((m, least), (least, n)) if mode == "S" else ((m, m), (n, n))
    return [(SAME, (m, n)), (REAL, (least,)), (SAME, left), (SAME, right), INFO]


def eigen_results(m: int, n: int, **_: str) -> list[tuple[str, tuple[int, ...]]]:
    return [("values", (n,)), (COMPLEX, (n, n)), (COMPLEX, (n, n)), INFO]


FAMILIES = {
    "getrf": Family(ANY, general, getrf, lambda m, n: [(SAME, (m, n)), (INTEGER, (min(m, n),)), INFO]),
    "geqrf": Family(ANY, general, geqrf, lambda m, n: [(SAME, (m, n)), (SAME, (min(m, n),))]),
    "geqp3": Family(
        ANY[:5],
        lambda m, n, dtype: [random(m, n, dtype=dtype), np.zeros(n, np.int32)],
        geqp3,
        lambda m, n: [(SAME, (m, n)), (INTEGER, (n,)), (SAME, (min(m, n),))],
    ),
    "orgqr": Family(TALL, reflectors, lambda a, tau: [routine("orgqr", a)(a, tau)[0]], lambda m, n: [(SAME, (m, n))]),
    "ormqr-left": Family(
        TALL[:3],
        lambda m, n, dtype: [*reflectors(m, n, dtype), random(m, 2, dtype=dtype)],
        ormqr,
        lambda m, n, **_: [(SAME, (m, 2))],
        choices(left=[True], transpose=[False, True]),
    ),
    "ormqr-right": Family(
        TALL[:3],
        lambda m, n, dtype: [*reflectors(m, n, dtype), random(2, m, dtype=dtype)],
        ormqr,
        lambda m, n, **_: [(SAME, (2, m))],
        choices(left=[False], transpose=[False, True]),
    ),
    "gesdd": Family(ANY, general, svd("gesdd"), svd_results, choices(mode="ASN")),
    "gesvd": Family(ANY, general, svd("gesvd"), svd_results, choices(mode="ASN")),
    "syevd": Family(
        SQUARE,
        hermitian,
        syevd,
        lambda m, n, **_: [(SAME, (n, n)), (REAL, (n,)), INFO],
        choices(mode="VN", uplo="LU"),
    ),
    "geev": Family(SQUARE, general, geev, eigen_results, choices(compute_left="NV", compute_right="NV")),
    "gees": Family(
        SQUARE,
        general,
        gees,
        lambda m, n, **_: [(SAME, (n, n)), (SAME, (n, n)), ("values", (n,)), INFO, INFO],
        choices(mode="NV", sort="N"),
    ),
    "gehrd": Family(
        SQUARE[:1],
        general,
        gehrd,
        lambda m, n, **_: [(SAME, (n, n)), (SAME, (n - 1,)), INFO],
        choices(low=[1, 2], high=[4, 5]),
    ),
    "gehrd-small": Family(
        SQUARE[1:2],
        general,
        gehrd,
        lambda m, n, **_: [(SAME, (n, n)), (SAME, (n - 1,)), INFO],
        [{"low": 1, "high": 1}],
    ),
    "sytrd": Family(
        SQUARE,
        hermitian,
        sytrd,
        lambda m, n, **_: [(SAME, (n, n)), (REAL, (n,)), (REAL, (max(n - 1, 0),)), (SAME, (max(n - 1, 0),)), INFO],
        choices(uplo="LU"),
    ),
    "gtsv": Family(
        ((5, 2), (1, 3), (2, 1)),
        tridiagonal,
        gtsv,
        lambda n, sides: [*[(SAME, (n,))] * 3, (SAME, (n, sides)), INFO],
    ),
    "potrf": Family(SQUARE, positive, potrf, lambda m, n, **_: [(SAME, (n, n)), INFO], choices(uplo="LU")),
    "trsm-left": Family(
        ((5, 3), (1, 1), (3, 0)),
        triangular("L"),
        trsm,
        lambda m, n, **_: [(SAME, (m, n))],
        choices(side="L", uplo="LU", trans_x="TC", diag="N"),
    ),
    "trsm-right": Family(
        ((3, 5), (1, 1), (0, 3)),
        triangular("R"),
        trsm,
        lambda m, n, **_: [(SAME, (m, n))],
        choices(side="R", uplo="LU", trans_x="NC", diag="U"),
    ),
}


def target_of(family: str, dtype: type) -> str:
    name = family.partition("-")[0]
    complex_name = {"orgqr": "ungqr", "ormqr": "unmqr", "syevd": "heevd", "sytrd": "hetrd"}
    letter = LETTERS[dtype]
    return f"lapack_{letter}{complex_name.get(name, name) if letter in 'cz' else name}_ffi"


def type_of(shape: Sequence[int], dtype: np.dtype) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{NAMES[np.dtype(dtype).str[1:]]}>"


def layout(rank: int, matrix: bool) -> str:
    order = list(range(rank))[::-1]
    if matrix:
        order[:2] = order[1::-1]
    return f"dense<[{', '.join(map(str, order))}]> : tensor<{rank}xindex>" if rank else "dense<> : tensor<0xindex>"


def configured(configuration: dict[str, str | int | bool]) -> str:
    def entry(value: str | int | bool) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        return f"{ord(value)} : ui8" if isinstance(value, str) else f"{value} : i32"

    return ", ".join(f"{name} = {entry(value)}" for name, value in configuration.items())


@dataclass(frozen=True)
class Case:
    """One call: its configuration, operands, and the types and values (where they have a meaning) of its results."""

    configuration: dict[str, str | int | bool]
    operands: list[np.ndarray]
    results: list[tuple[tuple[int, ...], np.dtype]]
    expected: list[np.ndarray | None]


def result_types(
    family: Family, size: tuple[int, int], batch: tuple[int, ...], configuration: dict, dtype: np.dtype
) -> list[tuple[tuple[int, ...], np.dtype]]:
    kinds = {SAME: dtype, REAL: dtype.type(0).real.dtype, COMPLEX: np.result_type(dtype, np.complex64)}
    kinds[INTEGER] = np.dtype(np.int32)
    types = []
    for kind, shape in family.results(*size, **configuration):
        # Eigenvalues of real matrices come as real and imaginary parts.
        for _ in range(2 if kind == "values" and dtype.kind != "c" else 1):
            types.append(((*batch, *shape), kinds.get(kind, dtype)))
    return types


def make_case(
    family: Family, size: tuple[int, int], batch: tuple[int, ...], configuration: dict, dtype: np.dtype
) -> Case:
    count = int(np.prod(batch))
    matrices = [family.operands(*size, dtype) for _ in range(max(1, count))]
    operands = [
        np.array([one[number] for one in matrices[:count]], array.dtype).reshape((*batch, *array.shape))
        for number, array in enumerate(matrices[0])
    ]
    types = result_types(family, size, batch, configuration, dtype)
    if any(operand.size == 0 for operand in operands):
        return Case(configuration, operands, types, [np.zeros(shape, kind) for shape, kind in types])
    answers = [family.expected(*one, **configuration) for one in matrices]
    expected = [
        None if one is None else np.array([answer[number] for answer in answers]).reshape(types[number][0])
        for number, one in enumerate(answers[0])
    ]
    return Case(configuration, operands, types, expected)


def module_of(target: str, cases: Sequence[Case], matrix_ranks: bool = True) -> str:
    """All calls in one module; matrices are column-major, or as LAPACK would not have them."""
    arguments, results, calls, returned = [], [], [], []
    for number, one in enumerate(cases):
        operands = [(f"%a{number}_{i}", type_of(x.shape, x.dtype), len(x.shape)) for i, x in enumerate(one.operands)]
        types = [type_of(shape, dtype) for shape, dtype in one.results]
        arguments += [f"{name}: {text}" for name, text, _ in operands]
        results += types
        returned += [f"%r{number}#{i}" for i in range(len(types))]
        batch = min(rank for *_, rank in operands) if target.endswith("gtsv_ffi") else 0
        batch = (batch or operands[0][2]) - (1 if batch else 2)
        layouts = [
            f"[{', '.join(layout(rank, matrix_ranks and rank == batch + 2) for rank in ranks)}]"
            for ranks in ([rank for *_, rank in operands], [len(shape) for shape, _ in one.results])
        ]
        calls.append(
            f"%r{number}:{len(types)} = stablehlo.custom_call @{target}({', '.join(name for name, *_ in operands)}) {{"
            f"mhlo.backend_config = {{{configured(one.configuration)}}}, operand_layouts = {layouts[0]}, "
            f"result_layouts = {layouts[1]}}} : ({', '.join(text for _, text, _ in operands)}) -> ({', '.join(types)})"
        )
    body = "\n".join(calls)
    return (
        f"func.func @main({', '.join(arguments)}) -> ({', '.join(results)}) {{\n{body}\n"
        f"return {', '.join(returned)} : {', '.join(results)}\n}}"
    )


def check(target: str, cases: Sequence[Case], text: str) -> None:
    results = iter(stablehlo_py.compile(text, options=OPTIONS)(*[x for one in cases for x in one.operands]))
    for one in cases:
        for number, (shape, dtype) in enumerate(one.results):
            ours, theirs = next(results), one.expected[number]
            assert (ours.shape, ours.dtype) == (shape, dtype)
            if theirs is None:
                continue
            where = f"{target} {one.configuration} on {[x.shape for x in one.operands]}, result {number}"
            tolerance = 200 * np.finfo(dtype).eps if dtype.kind in "fc" else 0
            scale = np.abs(theirs).max(initial=1)
            np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * scale, err_msg=where)


@pytest.mark.parametrize("dtype", LETTERS, ids=lambda dtype: LETTERS[dtype])
@pytest.mark.parametrize("name", FAMILIES)
def test_against_scipy(name: str, dtype: type) -> None:
    family = FAMILIES[name]
    chosen = list(itertools.product(family.configurations, family.sizes))
    batches = itertools.cycle(BATCHES)
    cases = [make_case(family, size, next(batches), one, np.dtype(dtype)) for one, size in chosen]
    cases += [make_case(family, family.sizes[0], (3,), one, np.dtype(dtype)) for one in family.configurations]
    target = target_of(name, dtype)
    check(target, cases, module_of(target, cases))


@pytest.mark.parametrize("name", ["potrf", "trsm-left", "trsm-right"])
def test_memory_is_taken_as_it_lies(name: str) -> None:
    # Row-major matrices are transposed ones to LAPACK: so jaxlib, which never looks at layouts.
    family, dtype = FAMILIES[name], np.dtype(np.complex64)
    cases = []
    for one in family.configurations:
        case = make_case(family, (5, 5), (2,), one, dtype)
        turned = [x.swapaxes(-1, -2) if x.ndim == 3 else x for x in case.operands]
        expected = [x.swapaxes(-1, -2) if x is not None and x.ndim == 3 else x for x in case.expected]
        cases.append(Case(one, turned, case.results, expected))
    target = target_of(name, np.complex64)
    check(target, cases, module_of(target, cases, matrix_ranks=False))


def call_of(name: str, dtype: type, size: tuple[int, int], batch: tuple[int, ...]) -> tuple[str, list[np.ndarray]]:
    family = FAMILIES[name]
    case = make_case(family, size, batch, family.configurations[0], np.dtype(dtype))
    return module_of(target_of(name, dtype), [case]), case.operands


@pytest.mark.parametrize(("name", "size", "batch"), [("geqrf", (16, 12), (200,)), ("gesdd", (96, 80), (3,))])
def test_no_bit_depends_on_threads(name: str, size: tuple[int, int], batch: tuple[int, ...]) -> None:
    text, arrays = call_of(name, np.float64, size, batch)
    first, second = (
        stablehlo_py.compile(text, options=stablehlo_py.Options(threads=threads, cache_dir=None))(*arrays)
        for threads in (1, 3)
    )
    assert [one.tobytes() for one in first] == [one.tobytes() for one in second]


def test_infinities_give_nan_and_info() -> None:
    text, (a,) = call_of("geev", np.float64, (3, 3), (3,))
    a[1, 0, 2] = np.inf
    *results, info = stablehlo_py.compile(text, options=OPTIONS)(a)
    assert info.tolist() == [0, -4, 0]
    for result in results:
        assert np.isnan(result[1]).all() and not np.isnan(result[[0, 2]]).any()


def test_a_constant_matrix() -> None:
    text, _ = call_of("getrf", np.float32, (3, 3), ())
    body = text.split("{\n", 1)
    constant = "%a0_0 = stablehlo.constant dense<2.0> : tensor<3x3xf32>\n"
    head = body[0].replace("%a0_0: tensor<3x3xf32>", "")
    factors, pivots, info = stablehlo_py.compile(f"{head}{{\n{constant}{body[1]}", options=OPTIONS)()
    assert pivots.tolist() == [1, 2, 3] and info == 2
    np.testing.assert_array_equal(factors, [[2, 2, 2], [1, 0, 0], [1, 0, 0]])


def test_a_saved_program_finds_lapack_again(tmp_path: Path) -> None:
    text, arrays = call_of("getrf", np.float32, (4, 4), ())
    exe = stablehlo_py.compile(text, options=OPTIONS)
    exe.save(tmp_path / "lu.shlo")
    again = stablehlo_py.load_executable(tmp_path / "lu.shlo")
    assert all((a == b).all() for a, b in zip(exe(*arrays), again(*arrays), strict=True))


def test_a_program_with_a_routine_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    program = compile_program(call_of("getrf", np.float32, (4, 4), ())[0], options=OPTIONS)
    monkeypatch.delitem(symbols._LIBRARIES, "lapack")
    with pytest.raises(LoadError, match=r"calls 'shlo\.lapack\.sgetrf', which this process does not have"):
        Executable(program)
    missing = ("shlo.lapack.sgetrx", "shlo.lapacke.x")
    with pytest.raises(LoadError) as caught:
        symbols.bound(missing)
    assert [problem.reason for problem in caught.value.problems] == [
        f"the program calls '{symbol}', which this process does not have" for symbol in missing
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tensor<4xi32>", "tensor<3xi32>", "has tensor<3xi32> among its results, at 1, instead of tensor<4xi32>"),
        ("4x4xf32", "4x4xf64", "has tensor<4x4xf64> among its operands, at 0, instead of tensor<4x4xf32>"),
        ("tensor<4x4xf32>", "tensor<4xf32>", "lacks a matrix among its arguments"),
    ],
)
def test_calls_that_do_not_fit(old: str, new: str, message: str) -> None:
    text = call_of("getrf", np.float32, (4, 4), ())[0].replace(old, new)
    if new == "tensor<4xf32>":
        text = text.replace("dense<[0, 1]> : tensor<2xindex>", "dense<0> : tensor<1xindex>")
    with pytest.raises(UnsupportedError, match=f"'lapack_sgetrf_ffi' {message}"):
        stablehlo_py.compile(text, options=OPTIONS)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("gesdd", "mode = 65", "mode = 79", "has mode = 'O', which is none of A, S, N"),
        ("gees", "sort = 78", "sort = 83", "sorts eigenvalues"),
        ("gehrd", "high = 4", "high = 9", "has rows 1 to 9 of matrices with 5"),
        ("syevd", "uplo", "upper", "has no 'uplo' in its configuration"),
    ],
)
def test_configurations_that_do_not_fit(name: str, old: str, new: str, message: str) -> None:
    size = FAMILIES[name].sizes[0]
    text = call_of(name, np.float64, size, ())[0]
    assert old in text
    with pytest.raises(UnsupportedError, match=message):
        stablehlo_py.compile(text.replace(old, new), options=OPTIONS)
