"""`legalize-to-stablehlo` is the inverse of `legalize-to-hlo`: of every op that StableHLO has."""

from __future__ import annotations

import pytest

from stablehlo_py.compiler import run_stages
from stablehlo_py.conformance.cases import Row, instantiate, sections
from stablehlo_py.dialect.types import operations
from stablehlo_py.frontend.load import load
from stablehlo_py.mlir import ir
from stablehlo_py.options import Options
from stablehlo_py.passes.legalize_to_stablehlo import LegalizeToStablehlo

_PREFERRED = ("f32", "i32", "i1", "complex<f32>")


def _rows() -> list[Row]:
    """Every op of the conformance suite, with one element type."""
    rows = []
    for section in sections().values():
        if section.family == "promotion":
            continue  # StableHLO's verifier refuses some of what is left when bodies compute in a type of their own
        for type_ in [each for each in _PREFERRED if each in section.types][:1] or section.types[:1]:
            rows += [Row(section, op, type_, instantiate(section, op, type_)) for op in section.ops]
    return rows


def _legalized(text: str, replicas: int) -> ir.Module:
    """As it is: equal ops, which legalization makes, are not merged when it is StableHLO again."""
    module = load(text, isolate=False)
    run_stages(module, "", "hlo", Options(num_replicas=replicas, disable=("cse",)))
    return module


def _converted(module: ir.Module) -> str:
    with module.context, ir.Location.unknown():
        LegalizeToStablehlo().run(module)
        assert module.operation.verify()
    return str(module)


@pytest.mark.parametrize("row", _rows(), ids=lambda row: row.name)
def test_of_stablehlo_comes_the_same_hlo(row: Row) -> None:
    module = _legalized(row.module, row.section.replicas)
    before = [op.name for op in operations(module.operation)]
    text = _converted(module)
    assert '"hlo.' not in text and "scf." not in text and "tensor.extract" not in text
    if "@hlo." not in text:
        again = _legalized(text, row.section.replicas)
        assert [op.name for op in operations(again.operation)] == before
