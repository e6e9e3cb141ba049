"""JAX's random numbers: the rolled threefry loop is written out and its constants fold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from stablehlo_py.dialect.interpret import Interpreter
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.pipeline import Pipeline

jax = pytest.importorskip("jax")

PIPELINE = "inline,symbol-dce,legalize-to-hlo,peephole,simplify-loops,unroll-loops,peephole,cse,dce"


def optimized(function: Callable, *arguments: object) -> ir.Module:
    text = jax.jit(function).lower(*arguments).as_text()
    module = ir.Module.parse(text)
    Pipeline.parse(PIPELINE).run(module)
    assert module.operation.verify()
    return module


def test_uniform_has_no_loop_left(mlir_context: ir.Context) -> None:
    key = jax.random.PRNGKey(7)
    module = optimized(lambda key: jax.random.uniform(key, (4, 5)), key)
    printed = str(module)
    assert "scf.while" not in printed
    # The rotation amounts are splats of constants, not slices of tables (two slices take the key apart).
    assert printed.count("hlo.slice") == 2
    (result,) = Interpreter().function(module.body.operations[0], [np.asarray(key)])
    np.testing.assert_array_equal(result, np.asarray(jax.random.uniform(key, (4, 5))))


def test_constant_key_folds_to_the_numbers(mlir_context: ir.Context) -> None:
    module = optimized(lambda: jax.random.bits(jax.random.PRNGKey(3), (16,)))
    assert str(module).count('"hlo.') == 1
    (result,) = Interpreter().function(module.body.operations[0], [])
    np.testing.assert_array_equal(result, np.asarray(jax.random.bits(jax.random.PRNGKey(3), (16,))))
