"""Arrays side by side, many or narrow, and blocks of matrices: rows are copied piece by piece (kernels/concatenate.py,
kernels/block_matrix.py)."""

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import stablehlo_py as shlo

Array: TypeAlias = Any  # of NumPy or of JAX

RNG = np.random.default_rng(0)
TYPES = [np.float32, np.complex64, np.int8, np.bool_, np.float64, np.complex128, ml_dtypes.bfloat16, np.int16]
FORMS = {
    "many of one width": (1, [(50, 3)] * 64),
    "columns": (1, [(50, 1)] * 100),
    "of all widths, and without elements": (1, [(7, k % 5) for k in range(40)]),
    "inner dimensions": (1, [(5, 2, 3)] * 12),
    "the last of three dimensions": (2, [(5, 2, k % 3 + 1) for k in range(11)]),
    "one row": (0, [(3, 2)] * 20),
    "one row of all sizes, and without elements": (0, [(k % 5, 3) for k in range(40)]),
    "one row of many blocks": (0, [(110, 100), (1, 100), (300, 100), (50, 100)]),
    "more than a vector": (1, [(33, 17)] * 9),
    "many vectors": (1, [(33, 300)] * 9),
    "a few that alternate": (1, [(70, 1)] * 3),
    "two that alternate": (1, [(33, 1)] * 2),
    "as many as may alternate": (2, [(5, 20, 1)] * 8),
    "short between long": (1, [(9, 3), (9, 300), (9, 2)]),
    "few and narrow": (1, [(40, 3)] * 3),
    "long, with a seam within a vector": (1, [(9, 300), (9, 217)]),
    "long, with a seam between vectors": (1, [(9, 64), (9, 640), (9, 131)]),
    "the same again": (1, [(40, 3)] * 2 + [(40, 2)] * 7),
}


@pytest.mark.every(3)
@pytest.mark.parametrize("cpu", ["", "avx2", "x86-64", "generic"])
@pytest.mark.parametrize("form", FORMS)
def test_rows_are_those_of_numpy(form: str, cpu: str) -> None:
    axis, shapes = FORMS[form]
    for dtype in TYPES:
        arrays = [(RNG.standard_normal(shape) * 9).astype(dtype) for shape in shapes]
        with jax.enable_x64(True):
            exported = jax.export.export(jax.jit(lambda *x: jnp.concatenate(x, axis)), platforms=["cpu"])(*arrays)
        options = shlo.Options(threads=2, cache_dir=None, isolate=False, cpu=cpu or None)
        (result,) = shlo.compile(exported, options=options)(*arrays)
        assert np.asarray(result).tobytes() == np.concatenate(arrays, axis).tobytes(), dtype


@pytest.mark.every(3)
@pytest.mark.parametrize("cpu", ["", "avx2", "x86-64"])
@pytest.mark.parametrize(
    ("shapes", "axis", "order"),
    [
        ([(80, 70), (70, 70)], 0, (1, 0)),  # tiles within each
        ([(3, 50), (90, 50)], 0, (1, 0)),  # one is narrower than a tile
        ([(50, 30), (50, 70)], 1, (1, 0)),
        ([(4, 70, 30), (4, 80, 30)], 1, (0, 2, 1)),
        ([(70, 66)] * 6, 0, (1, 0)),
    ],
)
def test_what_is_joined_and_transposed_is_read_by_tiles(
    shapes: list[tuple[int, ...]], axis: int, order: tuple[int, ...], cpu: str
) -> None:
    for dtype in TYPES:
        arrays = [(RNG.standard_normal(shape) * 9).astype(dtype) for shape in shapes]
        with jax.enable_x64(True):
            function = jax.jit(lambda *x: jnp.transpose(jnp.concatenate(x, axis), order))
            exported = jax.export.export(function, platforms=["cpu"])(*arrays)
        options = shlo.Options(threads=2, cache_dir=None, isolate=False, cpu=cpu or None)
        (result,) = shlo.compile(exported, options=options)(*arrays)
        assert np.asarray(result).tobytes() == np.transpose(np.concatenate(arrays, axis), order).tobytes(), dtype


def test_an_operand_that_comes_twice() -> None:
    a, b = (RNG.standard_normal((30, 3)).astype(np.float32) for _ in range(2))
    exported = jax.export.export(jax.jit(lambda a, b: jnp.concatenate([a, b, a, b, a], 1)), platforms=["cpu"])(a, b)
    (result,) = shlo.compile(exported, options=shlo.Options(cache_dir=None))(a, b)
    np.testing.assert_array_equal(result, np.concatenate([a, b, a, b, a], 1))


@pytest.mark.parametrize("cpu", ["", "avx2", "x86-64"])
def test_values_that_are_computed_alternate(cpu: str) -> None:
    def function(x, y):
        pairs = jnp.stack([x + y[:, None], x.T, x * 2], -1)
        return pairs, jnp.repeat(-x, 5, 1), jnp.pad(x, ((0, 0), (6, 5)), mode="reflect")

    x, y = RNG.standard_normal((35, 35)).astype(np.float32), RNG.standard_normal(35).astype(np.float32)
    exported = jax.export.export(jax.jit(function), platforms=["cpu"])(x, y)
    options = shlo.Options(threads=2, cache_dir=None, cpu=cpu or None)
    expected = np.stack([x + y[:, None], x.T, x * 2], -1), np.repeat(-x, 5, 1), np.pad(x, ((0, 0), (6, 5)), "reflect")
    for result, right in zip(shlo.compile(exported, options=options)(x, y), expected, strict=True):
        np.testing.assert_array_equal(result, right)


@pytest.mark.parametrize("cpu", ["", "avx2", "x86-64"])
@pytest.mark.parametrize("many", [8, 9, 15, 16, 17])
def test_many_values_that_are_computed(many: int, cpu: str) -> None:
    """As columns, rows, and pieces of rows; fused, or each by itself."""

    def function(numpy, x):
        pieces = [x * (number + 1) + number for number in range(many)]
        return [numpy.stack(pieces, -1), numpy.stack(pieces), numpy.concatenate(pieces, 1)]

    x = RNG.standard_normal((35, 5)).astype(np.float32)
    exported = jax.export.export(jax.jit(lambda x: function(jnp, x)), platforms=["cpu"])(x)
    results = shlo.compile(exported, options=shlo.Options(cache_dir=None, cpu=cpu or None))(x)
    for result, right in zip(results, function(np, x), strict=True):
        np.testing.assert_allclose(result, right, rtol=1e-6)


@pytest.mark.parametrize("many", [3, 40])
def test_what_reads_a_concatenation_of_many_finds_it_in_memory(many: int) -> None:
    """A reader that is fused with it asks for each element which operand it comes from."""
    arrays = [RNG.standard_normal((4, 40)).astype(np.float32) for _ in range(many)]
    exported = jax.export.export(jax.jit(lambda *x: jnp.concatenate(x, 1).sum(0)), platforms=["cpu"])(*arrays)
    executable = shlo.compile(exported, options=shlo.Options(cache_dir=None, isolate=False))
    np.testing.assert_allclose(executable(*arrays)[0], np.concatenate(arrays, 1).sum(0), rtol=1e-5, atol=1e-5)
    assert str(executable.stages["scheduled"]).count(" call @fusion") == (1 if many == 3 else 2)


def test_values_alternate_by_shuffles() -> None:
    """Elements are not read one by one."""
    x = [RNG.standard_normal(64).astype(np.float32) for _ in range(3)]
    exported = jax.export.export(jax.jit(lambda *x: jnp.stack(x, -1)), platforms=["cpu"])(*x)
    text = str(shlo.compile(exported, options=shlo.Options(cache_dir=None)).stages["kernels"])
    assert "shufflevector" in text
    assert "masked.gather" not in text


@pytest.mark.parametrize("cpu", ["", "avx2", "generic"])
@pytest.mark.parametrize("dtype", [np.float32, np.complex128, np.int16])
def test_blocks_of_matrices(dtype: type, cpu: str) -> None:
    """Some of them zeros, in batches, of other heights left and right; the blocks are a table."""

    def function(numpy, a, b, c, d):
        left = numpy.concatenate([a, b], 1)
        zeros = numpy.zeros((*left.shape[:2], 260), left.dtype)
        right = numpy.concatenate([numpy.concatenate([c, d], 2), zeros[:, : left.shape[1] - c.shape[1]]], 1)
        return numpy.concatenate([left, right, zeros], 2)

    sizes = [(2, 6, 130), (2, 3, 130), (2, 5, 131), (2, 5, 129)]
    arrays = [(RNG.standard_normal(size) * 9).astype(dtype) for size in sizes]
    with jax.enable_x64(True):
        exported = jax.export.export(jax.jit(lambda *x: function(jnp, *x)), platforms=["cpu"])(*arrays)
    options = shlo.Options(threads=2, cache_dir=None, cpu=cpu or None)
    executable = shlo.compile(exported, options=options)
    assert ".bands" in str(executable.stages["kernels"])
    (result,) = executable(*arrays)
    np.testing.assert_array_equal(result, function(np, *arrays))


@pytest.mark.every(3)
@pytest.mark.parametrize("cpu", ["", "avx2", "x86-64", "generic"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((7, 5, 53), 0), ((3, 6, 4, 33), 1), ((9, 70), 0), ((2, 7, 19, 16), 2), ((5, 3, 3), 0)]
)
def test_what_is_computed_lies_in_the_piece_of_its_row(shape: tuple[int, ...], axis: int, cpu: str) -> None:
    """All lanes are of one row, so of one piece: what the others would be there is neither computed nor read."""

    def joined(x: Array, spread: Callable[[Array], Array]) -> list[Array]:
        y = x + spread(x[..., :1, :])
        return [y, y + 1, y * 2 - 1]

    for dtype in (np.float32, np.int8, np.complex64, np.float64, ml_dtypes.bfloat16):
        x = RNG.integers(-3, 4, shape).astype(dtype)
        with jax.enable_x64(True):
            function = jax.jit(lambda x: jnp.concatenate(joined(x, lambda row: jnp.broadcast_to(row, shape)), axis))
            exported = jax.export.export(function, platforms=["cpu"])(x)
        options = shlo.Options(threads=2, cache_dir=None, isolate=False, cpu=cpu or None)
        (result,) = shlo.compile(exported, options=options)(x)
        expected = np.concatenate(joined(x, lambda row: row), axis)
        assert np.asarray(result).tobytes() == expected.tobytes(), dtype


def test_rows_of_joined_arrays_are_read_without_masks() -> None:
    """A load all of whose lanes are off, of a page that is not there, takes hundreds of cycles."""
    x = RNG.standard_normal((70, 34, 53)).astype(np.float32)

    def joined(x: Array) -> Array:
        y = x + x[:, :1]
        return jnp.concatenate([y, y + 1], 0)

    exported = jax.export.export(jax.jit(joined), platforms=["cpu"])(x)
    executable = shlo.compile(exported, options=shlo.Options(cache_dir=None, isolate=False))
    assert "masked.load" not in executable.stages["kernels"]
    (result,) = executable(x)
    y = x + x[:, :1]
    np.testing.assert_array_equal(result, np.concatenate([y, y + 1], 0))
