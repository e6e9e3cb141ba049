"""The CPU's policy: kinds that have kernels, one place for costs."""

from __future__ import annotations

from pathlib import Path

import pytest

import stablehlo_py as shlo
from stablehlo_py.backends.cpu import kernels
from stablehlo_py.backends.cpu.policy import FUSION
from stablehlo_py.backends.cpu.policy_costs import COSTS
from stablehlo_py.dialect.ops import records
from stablehlo_py.passes.policy import flops_per_element

LGAMMA = """func.func @main(%x: tensor<20000xf32>) -> tensor<20000xf32> {
  %0 = chlo.lgamma %x : tensor<20000xf32> -> tensor<20000xf32>
  return %0 : tensor<20000xf32>
}"""


def test_every_kind_has_a_kernel() -> None:
    for kind in kernels.KINDS:
        assert callable(kernels.template(kind)), kind
    named = FUSION.kinds | FUSION.in_place.keys() | FUSION.immediates.keys() | FUSION.apart.keys()
    assert named <= kernels.KINDS.keys()
    assert kernels.template("iteration") is None


def test_parts_of_kernels_are_no_kinds() -> None:
    files = {path.stem for path in Path(kernels.__file__).parent.glob("[!_]*.py")}
    assert files > set(kernels.KINDS.values())


@pytest.mark.parametrize("name", [record.name for record in records() if flops_per_element(record) > 1])
def test_what_takes_many_instructions_takes_time(name: str) -> None:
    assert COSTS.op_ns(name) > COSTS.flop_ns


def test_expensive_functions_are_worth_threads() -> None:
    kernels_of = shlo.compile(LGAMMA, options=shlo.Options(threads=2, cache_dir=None)).stages["kernels"]
    assert "shlo_parallel" in kernels_of


def test_a_grain_holds_the_work_it_is_for() -> None:
    for work in (COSTS.grain_ns, COSTS.product_grain_ns, COSTS.op_grain_ns):
        for iteration in (0.0, 0.3, 7.0, 5_000.0, 1e9):
            grain = COSTS.grain(iteration, work)
            assert grain == 1 or (grain - 1) * iteration < work <= grain * max(iteration, 0.01)
