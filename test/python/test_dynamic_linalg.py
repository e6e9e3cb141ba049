"""Linear algebra on matrices of dynamic size: one compilation serves all sizes, with JAX's results."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
from jax import export, lax

import stablehlo_py
from stablehlo_py import Options
from stablehlo_py.backends.cpu.kernels.lapack import workspace_count
from stablehlo_py.backends.cpu.kernels.lapack_routines import TARGETS, Problem, Workspace, typed
from stablehlo_py.dialect.context import make_context
from stablehlo_py.dialect.custom_call import Buffer, CustomCall
from stablehlo_py.errors import ArgumentError
from stablehlo_py.mlir import ir
from stablehlo_py.runtime.dynamic import NotServed
from stablehlo_py.runtime.memory import Block

ONCE = Options(threads=2, cache_dir=None, dynamic="once")
SIZES = (1, 2, 5, 33)
Shape = tuple[str | int, ...]
Model = Callable[..., Any]


def positive(x: jax.Array) -> jax.Array:
    """Positive definite matrices that are far from singular."""
    return x @ adjoint(x) + 4 * x.shape[-1] * jnp.eye(x.shape[-1], dtype=x.dtype)


def adjoint(x: jax.Array) -> jax.Array:
    return jnp.conj(x.swapaxes(-1, -2))


def from_eigenvectors(x: jax.Array) -> jax.Array:
    values, vectors = jnp.linalg.eigh(positive(x))
    return (vectors * values[..., None, :]) @ adjoint(vectors)


def from_general_eigenvectors(x: jax.Array) -> jax.Array:
    values, vectors = jnp.linalg.eig(positive(x) + jnp.diag(jnp.arange(x.shape[-1])).astype(x.dtype))
    return (vectors * values[..., None, :]) @ jnp.linalg.inv(vectors)


def from_singular_vectors(x: jax.Array) -> jax.Array:
    left, values, right = jnp.linalg.svd(x)
    return (left * values[..., None, :]) @ right


def from_schur(x: jax.Array) -> jax.Array:
    triangle, vectors = jsl.schur(x)
    return vectors @ triangle @ adjoint(vectors)


def from_factors(x: jax.Array) -> jax.Array:
    q, r = jnp.linalg.qr(x)
    return q @ r


def tridiagonal_system(low: jax.Array, middle: jax.Array, up: jax.Array, sides: jax.Array) -> jax.Array:
    return lax.linalg.tridiagonal_solve(low.at[..., 0].set(0), middle + 8, up.at[..., -1].set(0), sides)


def right_solve(x: jax.Array, y: jax.Array) -> jax.Array:
    return lax.linalg.triangular_solve(positive(x), y, left_side=False, lower=True, transpose_a=True, conjugate_a=True)


MATRICES: Shape = ("b", "n", "n")
SIDES: Shape = ("b", "n", "m")
MODELS: dict[str, tuple[Model, tuple[Shape, ...]]] = {
    "cholesky": (lambda x: jnp.linalg.cholesky(positive(x)), (MATRICES,)),
    "cholesky, upper": (lambda x: jsl.cholesky(positive(x)), (MATRICES,)),
    "gradient of cholesky": (
        jax.grad(lambda x: jnp.abs(jnp.linalg.cholesky(positive(x))).sum()),
        (("n", "n"),),
    ),
    "solve": (lambda x, y: jnp.linalg.solve(positive(x), y), (MATRICES, SIDES)),
    "solve, one side": (lambda x, y: jnp.linalg.solve(positive(x), y), (("n", "n"), ("n",))),
    "triangular solve": (lambda x, y: jsl.solve_triangular(positive(x), y, lower=True), (MATRICES, SIDES)),
    "triangular solve, adjoint": (lambda x, y: jsl.solve_triangular(positive(x), y, trans="C"), (MATRICES, SIDES)),
    "triangular solve from the right": (right_solve, (MATRICES, ("b", "m", "n"))),
    "solve by cholesky": (lambda x, y: jsl.cho_solve(jsl.cho_factor(positive(x)), y), (("n", "n"), ("n", "m"))),
    "inverse": (lambda x: jnp.linalg.inv(positive(x)), (MATRICES,)),
    "determinant": (lambda x: jnp.linalg.slogdet(x), (MATRICES,)),
    "lu": (lambda x: jsl.lu(x), (("n", "n"),)),
    "qr": (from_factors, (MATRICES,)),
    "svd": (from_singular_vectors, (MATRICES,)),
    "singular values": (lambda x: jnp.linalg.svd(x, full_matrices=False)[1], (("b", "m", "n"),)),
    "all singular vectors": (lambda x: jnp.abs(jnp.linalg.svd(x)[0].sum()) >= 0, (("b", "m", "n"),)),
    "eigh": (from_eigenvectors, (MATRICES,)),
    "eig": (from_general_eigenvectors, (MATRICES,)),
    "schur": (from_schur, (("n", "n"),)),
    "matrix exponential": (lambda x: jsl.expm(x / x.shape[-1]), (MATRICES,)),
    "polar": (lambda x: jsl.polar(positive(x))[1], (("n", "n"),)),
    "tridiagonal solve": (tridiagonal_system, (("b", "n"),) * 3 + (SIDES,)),
}


def exported(function: Model, shapes: Sequence[Shape], dtype: type) -> export.Exported:
    names = sorted({size for shape in shapes for size in shape if isinstance(size, str)})
    symbols = dict(zip(names, export.symbolic_shape(", ".join(names)), strict=True))
    specs = [jax.ShapeDtypeStruct(tuple(symbols.get(size, size) for size in shape), dtype) for shape in shapes]
    return export.export(jax.jit(function))(*specs)


def arrays_of(shapes: Sequence[Shape], dtype: type, **sizes: int) -> list[np.ndarray]:
    random = np.random.default_rng(sizes["n"])
    found = []
    for shape in shapes:
        numbers = [sizes[size] if isinstance(size, str) else size for size in shape]
        array = random.standard_normal(numbers)
        if np.issubdtype(dtype, np.complexfloating):
            array = array + 1j * random.standard_normal(numbers)
        found.append(array.astype(dtype))
    return found


def check(results: Sequence[np.ndarray], wanted: Any) -> None:
    for got, expected in zip(results, map(np.asarray, jax.tree.leaves(wanted)), strict=True):
        assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
        scale = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3 * scale)


COMPLEX = ("cholesky", "triangular solve, adjoint", "triangular solve from the right", "inverse", "svd", "eig", "schur")
REAL_AND_COMPLEX = [(name, np.float32) for name in MODELS] + [(name, np.complex64) for name in COMPLEX]


@pytest.mark.parametrize(("name", "dtype"), REAL_AND_COMPLEX)
def test_one_program_serves_all_sizes(name: str, dtype: type) -> None:
    function, shapes = MODELS[name]
    executable = stablehlo_py.compile(exported(function, shapes, dtype), options=ONCE)
    for n in SIZES:
        arrays = arrays_of(shapes, dtype, n=n, m=n + 4, b=1 + n % 4)
        check(executable(*arrays), jax.jit(function)(*arrays))
    assert executable.compilations == 1


def test_many_right_hand_sides() -> None:
    """Fewer than lanes, a vector of them, several: each has code of its own."""
    function, shapes = MODELS["triangular solve"]
    executable = stablehlo_py.compile(exported(function, shapes, np.float32), options=ONCE)
    for m in (1, 3, 16, 17, 63, 64, 65, 200):
        arrays = arrays_of(shapes, np.float32, n=11, m=m, b=2)
        check(executable(*arrays), jax.jit(function)(*arrays))


@pytest.mark.parametrize("shape", [(2, 70, 70), (3, 64, 64), (1, 65, 90), (2, 90, 65)])
def test_large_matrices(shape: tuple[int, int, int]) -> None:
    """They are one iteration each for LAPACK's own threads; the smallest ones of that kind, and smaller ones."""
    executable = stablehlo_py.compile(exported(*MODELS["singular values"], np.float32), options=ONCE)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    check(executable(x), np.linalg.svd(x, compute_uv=False))


def test_the_same_bits_as_for_known_sizes() -> None:
    """The routine gets the workspace that it asks for, and so the same blocks."""
    source = exported(lambda x: jnp.linalg.eigh(x), (("n", "n"),), np.float32)
    executable = stablehlo_py.compile(source, options=ONCE)
    for n in (7, 100):
        (x,) = arrays_of((("n", "n"),), np.float32, n=n)
        for got, expected in zip(executable(x), executable.specialize(x.shape)(x), strict=True):
            assert got.tobytes() == expected.tobytes()


def test_off_diagonals() -> None:
    """Of one row there is none: an empty dimension is specialized."""
    source = exported(lambda x: lax.linalg.tridiagonal(positive(x))[1:3], (MATRICES,), np.complex64)
    executable = stablehlo_py.compile(source, options=ONCE)
    for n in (2, 5, 33):
        (x,) = arrays_of((MATRICES,), np.complex64, n=n, b=2)
        diagonal, off = executable(x)
        for number in range(2):
            whole = np.diag(diagonal[number]) + np.diag(off[number], 1) + np.diag(off[number], -1)
            expected = np.linalg.eigvalsh(np.asarray(positive(x[number])))
            np.testing.assert_allclose(np.linalg.eigvalsh(whole), expected, rtol=1e-4)
    assert executable.compilations == 1


def test_a_matrix_must_be_square() -> None:
    source = exported(lambda x: jnp.linalg.det(x), (("n", "n"),), np.float32)
    executable = stablehlo_py.compile(source, options=ONCE)
    with pytest.raises(
        ArgumentError, match=r"Found inconsistency between dimension size args\[0\].shape\[1\]"
    ) as error:
        executable(np.ones((3, 4), np.float32))
    assert len(error.value.problems) == 1


def test_sizes_that_exceed_the_integers_of_lapack_are_not_served() -> None:
    source = exported(lambda x: jnp.linalg.eigh(x), (("n", "n"),), np.float32)
    program = stablehlo_py.compile(source, options=ONCE)._once
    largest, too_large = (np.broadcast_to(np.float32(0), (n, n)) for n in (32766, 32767))
    assert program.arena_bytes([largest]) > 4 * 2 * 32766**2
    with pytest.raises(NotServed, match="LAPACK's ssyevd counts to 2147483647, not to 2147549181"):
        program.arena_bytes([too_large])


def test_failures_are_those_of_lapack() -> None:
    source = exported(lambda x: jnp.linalg.cholesky(x), (("b", "n", "n"),), np.float32)
    x = np.stack([np.eye(6, dtype=np.float32), -np.eye(6, dtype=np.float32)])
    (got,) = stablehlo_py.compile(source, options=ONCE)(x)
    expected = np.asarray(jax.jit(jnp.linalg.cholesky)(x))
    assert np.isnan(expected[1]).any()
    np.testing.assert_array_equal(got, expected)


# --- memory ----------------------------------------------------------------------------------------------------------


class GuardedBlock(Block):
    """An arena with a margin that nothing may be written to."""

    MARGIN = 4096
    made: ClassVar[list[GuardedBlock]] = []

    def __init__(self, size: int) -> None:
        super().__init__(size + self.MARGIN)
        self.margin = (ctypes.c_ubyte * self.MARGIN).from_address(self.address + size)
        ctypes.memset(self.margin, 0xAB, self.MARGIN)
        self.made.append(self)

    @property
    def is_whole(self) -> bool:
        return bytes(self.margin) == b"\xab" * self.MARGIN


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("eig", np.float32),
        ("eig", np.complex64),
        ("schur", np.float32),
        ("svd", np.complex64),
        ("triangular solve from the right", np.float32),
    ],
)
def test_calls_stay_inside_their_arena(name: str, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scratch memory is the last thing in an arena."""
    monkeypatch.setattr("stablehlo_py.backends.cpu.code.Block", GuardedBlock)
    function, shapes = MODELS[name]
    executable = stablehlo_py.compile(exported(function, shapes, dtype), options=ONCE)
    for n in (1, 2, 3, 7, 16, 31, 66):
        GuardedBlock.made.clear()
        arrays = arrays_of(shapes, dtype, n=n, m=n + 1, b=2)
        check(executable(*arrays), jax.jit(function)(*arrays))
        executable._once._code._free.clear()
        assert GuardedBlock.made
        assert all(block.is_whole for block in GuardedBlock.made)


def calls(m: int, n: int) -> Iterator[tuple[str, str, tuple[tuple[int, ...], ...], dict[str, str | int]]]:
    """Family of real matrices, of complex ones, shapes of operands, configuration, for all with a workspace."""
    least, square = min(m, n), ((n, n),)
    yield "geqrf", "geqrf", ((m, n),), {}
    yield "geqp3", "geqp3", ((m, n), (n,)), {}
    yield "orgqr", "ungqr", ((max(m, n), least), (least,)), {}
    for left in (0, 1):
        rows = m if left else n
        yield "ormqr", "unmqr", ((rows, rows), (rows,), (m, n)), {"left": left, "transpose": left}
    for family in ("gesdd", "gesvd"):
        for mode in "AS":
            yield family, family, ((m, n),), {"mode": mode}
    for sides in ("NN", "NV", "VV"):
        yield "geev", "geev", square, {"compute_left": sides[0], "compute_right": sides[1]}
    yield "gees", "gees", square, {"mode": "V", "sort": "N"}
    yield "gehrd", "gehrd", square, {"low": 1, "high": n}
    yield "sytrd", "hetrd", square, {"uplo": "L"}


@pytest.mark.parametrize("letter", "sdcz")
def test_there_is_room_for_what_routines_ask(letter: str) -> None:
    with make_context(), ir.Location.unknown():

        def attribute(value: str | int) -> ir.Attribute:
            number = ord(value) if isinstance(value, str) else value
            return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)

        element = ir.F32Type.get()
        for m, n in [(1, 1), (2, 5), (33, 33), (76, 76), (300, 20), (20, 300), (500, 500), (1000, 2000), (2000, 1000)]:
            for real, complex_, shapes, settings in calls(m, n):
                target = f"lapack_{letter}{complex_ if letter in 'cz' else real}_ffi"
                configuration = {name: attribute(value) for name, value in settings.items()}
                operands = tuple(Buffer(shape, tuple(range(len(shape))), element) for shape in shapes)
                routine = typed(
                    Problem(CustomCall(target, configuration, operands, (), ()), letter), TARGETS[target][1]
                )
                (room,) = (each.enough for each in routine.arguments if isinstance(each, Workspace))
                assert workspace_count(routine, letter) <= room, (target, m, n, settings)
