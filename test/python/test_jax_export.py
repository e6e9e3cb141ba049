"""What `jax.export` says beside the module: several platforms, and arguments that the function does not use."""

from __future__ import annotations

import struct

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.errors import ArgumentError
from stablehlo_py.frontend.jax_export import read_flatbuffer

MATRIX, UNUSED, VECTOR = (np.random.default_rng(5).standard_normal(sizes).astype("f") for sizes in ((3, 3), (5,), (3,)))


def solve(a: jax.Array, unused: jax.Array, b: jax.Array) -> jax.Array:
    """LU factorization is a custom call of another name on every platform."""
    return jnp.linalg.solve(a, b)


def exported(*platforms: str) -> jax.export.Exported:
    return jax.export.export(jax.jit(solve), platforms=platforms)(MATRIX, UNUSED, VECTOR)


def form(export: jax.export.Exported, serialized: bool) -> object:
    return export.serialize() if serialized else export


@pytest.mark.parametrize("serialized", [False, True])
@pytest.mark.parametrize("platforms", [("cpu",), ("cpu", "cuda"), ("cuda", "rocm", "cpu")])
def test_platform_is_chosen(platforms: tuple[str, ...], serialized: bool) -> None:
    executable = shlo.compile(form(exported(*platforms), serialized))
    assert [spec.shape for spec in executable.inputs] == [(3, 3), (3,)]
    np.testing.assert_allclose(executable(MATRIX, VECTOR)[0], np.linalg.solve(MATRIX, VECTOR), rtol=1e-4)


@pytest.mark.parametrize("index", [0, 1])
def test_nested_branches_are_inlined(index: int) -> None:
    def on_each(x: jax.Array) -> jax.Array:
        def inner(y: jax.Array) -> jax.Array:
            return jax.lax.platform_dependent(y, cpu=jnp.sin, cuda=jnp.cos)

        scan = jax.lax.scan(lambda c, _: (inner(c), None), x, None, length=3)[0]
        return jax.lax.platform_dependent(scan, cpu=lambda v: v + inner(v), cuda=lambda v: v * 2)

    platforms = ("cpu", "cuda") if index == 0 else ("cuda", "cpu")
    executable = shlo.compile(jax.export.export(jax.jit(on_each), platforms=platforms)(VECTOR))
    assert "case" not in executable.stages["stablehlo"]
    x = np.sin(np.sin(np.sin(VECTOR)))
    np.testing.assert_allclose(executable(VECTOR)[0], x + np.sin(x), rtol=1e-5)


@pytest.mark.parametrize("serialized", [False, True])
def test_exports_for_other_platforms_compile(serialized: bool) -> None:
    executable = shlo.compile(form(exported("cuda", "rocm"), serialized))
    np.testing.assert_allclose(executable(MATRIX, VECTOR)[0], np.linalg.solve(MATRIX, VECTOR), rtol=1e-4)
    assert "cu_lu_pivots" in executable.stages["stablehlo"] and "hip" not in executable.stages["stablehlo"]


@pytest.mark.parametrize("serialized", [False, True])
def test_unused_arguments_may_be_passed(serialized: bool, tmp_path) -> None:
    executable = shlo.compile(form(exported("cpu"), serialized))
    expected = executable(MATRIX, VECTOR)[0]
    executable.save(tmp_path / "solve.shlo")
    for each in (executable, shlo.load_executable(tmp_path / "solve.shlo")):
        np.testing.assert_array_equal(each(MATRIX, UNUSED, VECTOR)[0], expected)
        matrix, vector = each.put(MATRIX), each.put(VECTOR)
        np.testing.assert_array_equal(each.call([matrix, vector])[0], expected)
        np.testing.assert_array_equal(each.call([matrix, matrix, vector])[0], expected)
        with pytest.raises(ArgumentError, match=r"got 1 arguments, the model takes 2 \(or 3, with those"):
            each(MATRIX)


def test_platform_of_a_dynamic_program() -> None:
    (n,) = jax.export.symbolic_shape("n")
    spec = jax.ShapeDtypeStruct((n,), jnp.float32)
    twice = shlo.compile(jax.export.export(jax.jit(lambda x, unused: 2 * x), platforms=("cuda", "cpu"))(spec, spec))
    np.testing.assert_array_equal(twice(VECTOR, VECTOR)[0], 2 * VECTOR)


def test_exports_of_one_module_are_cached_apart(tmp_path) -> None:
    """The bytes of the module alone do not say what stands beside them."""
    options, export = shlo.Options(cache_dir=tmp_path), exported("cpu")
    shlo.compile(export.mlir_module_serialized, options=options)
    for _ in range(2):
        shlo.compile(export, options=options)(MATRIX, UNUSED, VECTOR)


def test_damaged_flatbuffers() -> None:
    """Whatever bytes change, reading ends with the fields or with None."""
    data = bytes(exported("cuda", "cpu").serialize())
    module, export = read_flatbuffer(data)
    assert export.platforms == ("cuda", "cpu") and export.leaves.kept == (0, 2) and export.leaves.count == 3
    assert module.startswith(b"ML\xefR")
    random = np.random.default_rng(0)
    for _ in range(2000):
        damaged = bytearray(data[: random.integers(4, len(data))] if random.random() < 0.5 else data)
        for place in random.integers(0, min(len(damaged), 600), 3):
            damaged[place] = random.integers(256)
        read_flatbuffer(bytes(damaged))
    assert read_flatbuffer(struct.pack("<I", 4)) is None
