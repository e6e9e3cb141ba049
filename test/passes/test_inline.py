"""Inlining takes work in proportion to the ops that come out, however functions call each other."""

from __future__ import annotations

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.dialect import calls
from stablehlo_py.dialect.context import make_context
from stablehlo_py.mlir import ir
from stablehlo_py.passes.inline import Inline


def nest(count: int, calls_each: int) -> str:
    """Functions of which each calls the one before; the first one negates its argument."""
    type_ = "tensor<4xf32>"
    functions = [f"func.func private @f0(%0: {type_}) -> {type_} {{\n  %1 = stablehlo.negate %0 : {type_}\n"]
    for number in range(1, count + 1):
        name = "@main" if number == count else f"private @f{number}"
        called = [f"  %{i + 1} = call @f{number - 1}(%{i}) : ({type_}) -> {type_}\n" for i in range(calls_each)]
        functions += [f"  return %{calls_each if number > 1 else 1} : {type_}\n}}\n"]
        functions += [f"func.func {name}(%0: {type_}) -> {type_} {{\n", *called]
    return "".join([*functions, f"  return %{calls_each} : {type_}\n}}\n"])


@pytest.mark.parametrize(("count", "calls_each"), [(250, 1), (2000, 1), (10, 2), (5, 4)])
def test_every_op_is_visited_a_few_times(monkeypatch: pytest.MonkeyPatch, count: int, calls_each: int) -> None:
    visited = 0
    operations = calls.operations

    def counted(root: ir.Operation) -> list[ir.Operation]:
        nonlocal visited
        found = operations(root)
        visited += len(found)
        return found

    monkeypatch.setattr(calls, "operations", counted)
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(nest(count, calls_each))
        Inline().run(module)
        (main,) = module.body.operations
        assert len(main.regions[0].blocks[0].operations) == calls_each**count + 1
    total = sum(calls_each**level for level in range(count + 1))  # ops that come out, and calls on the way
    assert visited < 8 * total


def test_a_chain_of_functions_deeper_than_pythons_stack() -> None:
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(shlo.compile(nest(3000, 1))(x)[0], -x)


def test_locations_of_deep_calls_list_some_callers_only() -> None:
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(nest(1000, 1))
        Inline().run(module)
        negate = module.body.operations[0].regions[0].blocks[0].operations[0]
        assert 50 < str(negate.location).count("callsite") <= calls.MAX_FRAMES + 1
