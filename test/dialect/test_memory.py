"""Memory of scheduled programs, as backends read it."""

from __future__ import annotations

from stablehlo_py.dialect.context import make_context
from stablehlo_py.dialect.memory import free_memory
from stablehlo_py.mlir import ir


def test_scratch_takes_the_first_gap_that_it_fits() -> None:
    text = "module attributes {hlo.free_memory = {fusion_3 = array<i64: 0, 64, 96, 512, 640, 4096, 8000>}} {}"
    with make_context():
        free = free_memory(ir.Module.parse(text))["fusion_3"]
    assert [free.place_for(size) for size in (64, 65, 384, 385, 4000)] == [0, 128, 128, 640, 8000]
