"""What the backend 'c' decides for the passes: the fusions of the CPU, but for values in registers. None has several
lanes, and code for element after element is long: what fits in few scalars stays, the rest is loops."""

from __future__ import annotations

from dataclasses import replace

from stablehlo_py.backends.cpu.policy import FUSION as CPU_FUSION
from stablehlo_py.passes.buffers import inplace
from stablehlo_py.passes.policy import StraightLineLimits

SCALARS = 4
CARRIED = 16  # elements of what a loop in one kernel carries

assert CPU_FUSION.loops is not None
FUSION = replace(
    CPU_FUSION,
    straight_line=StraightLineLimits(elements=SCALARS, cost=64),
    loops=replace(CPU_FUSION.loops, elements=CARRIED, cost=1000, width=1),
    in_place={**CPU_FUSION.in_place, "straight_line": inplace.all_at_once(SCALARS)},
)
