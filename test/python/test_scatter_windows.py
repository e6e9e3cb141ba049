"""Windows of a scatter that lie partly out of bounds: those elements of them that are inside, as the specification
says, or none, as XLA and JAX have it (docs/decisions.md)."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.export
import numpy as np
import pytest
from jax import lax

import stablehlo_py as shlo

TEXT = """
module %s {
  func.func @main(%%x: tensor<5xf32>, %%i: tensor<3x1xi32>, %%u: tensor<3x2xf32>) -> tensor<5xf32> {
    %%0 = "stablehlo.scatter"(%%x, %%i, %%u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
        scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%%a: tensor<f32>, %%b: tensor<f32>):
      %%s = stablehlo.add %%a, %%b : tensor<f32>
      stablehlo.return %%s : tensor<f32>
    }) : (tensor<5xf32>, tensor<3x1xi32>, tensor<3x2xf32>) -> tensor<5xf32>
    return %%0 : tensor<5xf32>
  }
}"""
OF_JAX = "@jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32}"
ARGUMENTS = (
    np.zeros(5, np.float32),
    np.array([[-1], [4], [2]], np.int32),
    np.array([[1, 2], [3, 4], [5, 6]], np.float32),
)
PARTIAL, WHOLE = [2, 0, 5, 6, 3], [0, 0, 5, 6, 0]


@pytest.mark.parametrize("opt_level", [0, 1])
@pytest.mark.parametrize(
    ("attributes", "windows", "expected"),
    [
        ("", "auto", PARTIAL),
        ("", "whole", WHOLE),
        (OF_JAX, "auto", WHOLE),
        (OF_JAX, "partial", PARTIAL),
        ("attributes {jax.uses_shape_polymorphism = false}", "auto", WHOLE),
        ("attributes {hlo.whole_windows}", "auto", WHOLE),
    ],
)
def test_the_module_and_the_option_decide(attributes: str, windows: str, expected: list[int], opt_level: int) -> None:
    options = shlo.Options(cache_dir=None, scatter_windows=windows, opt_level=opt_level)
    (result,) = shlo.compile(TEXT % attributes, options=options)(*ARGUMENTS)
    assert result.tolist() == expected


def test_a_grid_that_options_ask_for_is_none_of_jax() -> None:
    executable = shlo.compile(TEXT % "", options=shlo.Options(cache_dir=None, num_replicas=1))
    assert executable(*ARGUMENTS)[0].tolist() == PARTIAL


def test_another_name_is_an_error() -> None:
    with pytest.raises(shlo.OptionError, match="scatter_windows is 'clip'"):
        shlo.Options(scatter_windows="clip")


def _numbers(window: tuple[int, ...], inserted: tuple[int, ...], moved: tuple[int, ...]) -> lax.ScatterDimensionNumbers:
    return lax.ScatterDimensionNumbers(window, inserted, moved)


SCATTERS: dict[str, tuple[Callable[..., jax.Array], lax.ScatterDimensionNumbers, tuple[int, ...], tuple[int, ...], int]]
SCATTERS = {
    "vectors": (lax.scatter_add, _numbers((1,), (), (0,)), (8,), (6, 3), 1),
    "boxes": (lax.scatter_max, _numbers((1, 2), (), (0, 1)), (8, 9), (6, 3, 4), 2),
    "long rows": (lax.scatter_add, _numbers((1,), (0,), (0, 1)), (8, 40), (6, 33), 2),
    "columns": (lax.scatter_mul, _numbers((1, 2), (), (0,)), (8, 33), (6, 2, 33), 1),
    "as wide as the operand": (lax.scatter_add, _numbers((1,), (), (0,)), (8,), (6, 8), 1),
    "points": (lax.scatter_add, _numbers((), (0,), (0,)), (8,), (6,), 1),
}


@pytest.mark.parametrize("donated", [False, True])
@pytest.mark.parametrize("name", SCATTERS)
def test_scatters_of_jax(name: str, donated: bool) -> None:
    scatter, numbers, sizes, updates, components = SCATTERS[name]
    rng = np.random.default_rng(0)
    x, u = (rng.integers(-4, 5, shape).astype(np.float32) for shape in (sizes, updates))
    i = rng.integers(-2, 9, (6, components)).astype(np.int32)
    function = jax.jit(lambda x, i, u: scatter(x, i, u, numbers), donate_argnums=(0,) if donated else ())
    exported = jax.export.export(function)(x, i, u)
    expected = np.asarray(scatter(x, i, u, numbers))
    (result,) = shlo.compile(exported, options=shlo.Options(cache_dir=None))(x, i, u)
    np.testing.assert_array_equal(result, expected)


def test_scatters_of_open_size() -> None:
    (n,) = jax.export.symbolic_shape("n", constraints=["n >= 3"])
    numbers = _numbers((1,), (), (0,))
    shapes = [((n,), np.float32), ((6, 1), np.int32), ((6, 3), np.float32)]
    specs = [jax.ShapeDtypeStruct(*each) for each in shapes]
    exported = jax.export.export(jax.jit(lambda x, i, u: lax.scatter_add(x, i, u, numbers)))(*specs)
    executable = shlo.compile(exported, options=shlo.Options(cache_dir=None))
    rng = np.random.default_rng(1)
    for size in (3, 8):
        x, u = np.zeros(size, np.float32), rng.integers(-4, 5, (6, 3)).astype(np.float32)
        i = rng.integers(-2, 9, (6, 1)).astype(np.int32)
        np.testing.assert_array_equal(executable(x, i, u)[0], np.asarray(lax.scatter_add(x, i, u, numbers)))


def test_gradients_of_scatter_max_with_windows_partly_out_of_bounds() -> None:
    """They were NaN: the counts that the gradient divides by counted what the maximum left out."""
    numbers = _numbers((1,), (), (0,))
    rng = np.random.default_rng(2)
    x, u = rng.standard_normal(5).astype(np.float32), rng.standard_normal((3, 2)).astype(np.float32)
    i = np.array([[-1], [4], [2]], np.int32)
    gradient = jax.jit(jax.grad(lambda x, u: lax.scatter_max(x, i, u, numbers).sum(), argnums=(0, 1)))
    results = shlo.compile(jax.export.export(gradient)(x, u), options=shlo.Options(cache_dir=None))(x, u)
    for result, expected in zip(results, gradient(x, u), strict=True):
        np.testing.assert_allclose(result, np.asarray(expected), rtol=1e-6)


@pytest.mark.parametrize("opt_level", [0, 1])
@pytest.mark.parametrize(("size", "count"), [(0, 0), (3, 0), (0, 2)])
@pytest.mark.parametrize("donated", [False, True])
def test_a_scatter_into_or_of_nothing(size: int, count: int, donated: bool, opt_level: int) -> None:
    """It was an IndexError: its kernel has no functions."""
    function = jax.jit(lambda x, i, u: x.at[i].add(u, mode="drop"), donate_argnums=(0,) if donated else ())
    arguments = np.ones(size, np.float32), np.zeros(count, np.int32), np.ones(count, np.float32)
    exported = jax.export.export(function)(*arguments)
    options = shlo.Options(cache_dir=None, opt_level=opt_level)
    assert shlo.compile(exported, options=options)(*arguments)[0].tolist() == [1.0] * size
