"""Paths between fusions: what ops depend on answers long searches, and answers as they do."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import stablehlo_py as shlo
from stablehlo_py.passes.fusing import clusters
from stablehlo_py.passes.fusing.clusters import Ancestors


@pytest.mark.parametrize("asked", [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 4, 0, 3, 1)])
def test_ancestors(asked: tuple[int, ...]) -> None:
    """5 reads 3 and 1, 3 reads 0; 2 and 4 lead elsewhere. In any order of questions."""
    producers = ([-1], [-1], [0, 1], [0, -1], [2], [3, 1])
    known = Ancestors([SimpleNamespace(producers=each) for each in producers], 5)  # type: ignore[misc]
    assert [node for node in sorted(asked) if Ancestors(known._nodes, 5).holds(node)] == [0, 1, 3]
    assert {node for node in asked if known.holds(node)} == {0, 1, 3}
    assert known.holds(5)


def test_fusions_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients that are scaled by their norm, as in training: every update waits for all products."""
    count = 6
    weights = ", ".join(f"%w{i}: tensor<32x32xf32>" for i in range(count))
    lines = ["%z = stablehlo.constant dense<0.0> : tensor<f32>"]
    for i in range(count):
        lines += [
            f"%g{i} = stablehlo.dot_general %x, %w{i}, contracting_dims = [1] x [0] : "
            "(tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>",
            f"%s{i} = stablehlo.multiply %g{i}, %g{i} : tensor<32x32xf32>",
            f"%r{i} = stablehlo.reduce(%s{i} init: %z) applies stablehlo.add across dimensions = [0, 1] : "
            "(tensor<32x32xf32>, tensor<f32>) -> tensor<f32>",
        ]
    lines += [f"%n{i} = stablehlo.add %{'r0' if i == 1 else f'n{i - 1}'}, %r{i} : tensor<f32>" for i in range(1, count)]
    for i in range(count):
        lines += [
            f"%b{i} = stablehlo.broadcast_in_dim %n{count - 1}, dims = [] : (tensor<f32>) -> tensor<32x32xf32>",
            f"%d{i} = stablehlo.divide %g{i}, %b{i} : tensor<32x32xf32>",
            f"%u{i} = stablehlo.subtract %w{i}, %d{i} : tensor<32x32xf32>",
        ]
    results = ", ".join(["tensor<32x32xf32>"] * count)
    values = ", ".join(f"%u{i}" for i in range(count))
    body = "\n".join([*lines, f"return {values} : {results}"])
    program = f"func.func @main(%x: tensor<32x32xf32>, {weights}) -> ({results}) {{\n{body}\n}}"
    asked: list[bool] = []
    original = clusters.Clusters._feeds

    def feeds(self: clusters.Clusters, *of: object) -> bool:
        asked.append(original(self, *of))  # type: ignore[arg-type]
        return asked[-1]

    by_search = shlo.compile(program).stages["fused"]
    monkeypatch.setattr(clusters, "LONG_SEARCH", 1)
    monkeypatch.setattr(clusters.Clusters, "_feeds", feeds)
    assert shlo.compile(program).stages["fused"] == by_search
    assert any(asked)
