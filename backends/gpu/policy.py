"""What GPUs decide for the passes: one policy for all of them."""

from __future__ import annotations

from stablehlo_py.passes.buffers import inplace
from stablehlo_py.passes.policy import Costs, EpilogueLimits, FusionPolicy

COSTS = Costs(
    expensive_flops=20,
    duplicate_flops=10,  # arithmetic is cheap, memory is not
    constant_subtree_flops=16,
    gather_saves=1,
    parallel_rows=64,
    serial_elements=1 << 12,
)

FUSION = FusionPolicy(
    kinds=frozenset(("attention", "loop", "row", "column", "in_place_update")),
    transposing=frozenset(("loop",)),
    body_ops=128,
    outputs=8,
    concatenated=8,
    operand_views=frozenset(("broadcast", "convert", "reshape", "reverse", "slice", "transpose")),
    # Arithmetic hides what an epilogue reads: it is read once, where the products are read many times.
    epilogue=EpilogueLimits(inputs=6, streams=6, long_contraction=0, transposes=False),
    immediates={
        "reduce_general": lambda operands: operands // 2,
        "reduce_window": lambda operands: operands // 2,
        "reduce_window_general": lambda operands: operands // 2,
        "select_and_scatter": lambda operands: 2,
    },
    in_place={
        "loop": inplace.element_by_element,
        "scatter": inplace.overwritten,
    },
)
