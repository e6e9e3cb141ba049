"""What the CPU backend decides for the passes: fusions and blocks (policy_costs.py: costs).

The kernels are tuned to these numbers, and the numbers to the kernels. Measured on AVX-512 machines
(docs/decisions.md); narrower vectors share them.
"""

from __future__ import annotations

from stablehlo_py.backends.cpu.blocks import FEWEST_SIDES, is_blocked, takes_rows
from stablehlo_py.backends.cpu.weight_tiles import is_tiled, weight_layout
from stablehlo_py.dialect.index_map import Layout
from stablehlo_py.dialect.ops import Work, record_of
from stablehlo_py.dialect.types import shape
from stablehlo_py.mlir import ir
from stablehlo_py.passes.buffers import inplace
from stablehlo_py.passes.policy import (
    AttentionLimits,
    BatchLimits,
    Blocking,
    EpilogueLimits,
    FusionPolicy,
    LoopLimits,
    StraightLineLimits,
)

REGISTER_ELEMENTS = 64  # a few vector registers hold them


def _is_loadable(layout: Layout) -> bool:
    """Is there one stride a dimension, and none that would have to turn every vector around? Or are these tiles?"""
    has_strides = all(len(digits) <= 1 and all(stride != -1 for _, stride in digits) for digits in layout.dimensions)
    return has_strides or is_tiled(layout)


def _in_registers(op: ir.Operation) -> bool:
    """Has kernels/straight_line.py code for an op? Not for what is read at random, or computed only when the program is
    called."""
    name, record = op.name.removeprefix("hlo."), record_of(op.name)
    if name == "bitcast_convert":
        return shape(op.operands[0]) == shape(op.results[0])
    works = (Work.ELEMENTS, Work.INDICES, Work.MOVES, Work.UPDATES)
    small = record is not None and record.work in works and name not in ("gather", "const_size")
    return small or name in ("reduce", "dot")


FUSION = FusionPolicy(
    kinds=frozenset(("attention", "scores", "loop", "row", "column", "in_place_update")),
    # A tile of a product is a block of several rows: what moves elements would be read across them.
    apart={"dot": frozenset(("concatenate", "gather"))},
    transposing=frozenset(("loop",)),  # the other kinds run vectors along rows
    strided=True,
    body_ops=256,
    outputs=8,
    scattered=4,
    general=8,
    concatenated=8,
    alternating=16,
    operand_views=frozenset(("broadcast", "convert", "reshape", "reverse", "slice", "transpose")),
    rounded_operands=frozenset(("bf16",)),
    operand_layout=_is_loadable,
    weights=weight_layout,
    # Initial values of reductions are broadcast to registers; `select_and_scatter` has two operands before its own.
    immediates={
        "reduce_general": lambda operands: operands // 2,
        "reduce_window": lambda operands: operands // 2,
        "reduce_window_general": lambda operands: operands // 2,
        "select_and_scatter": lambda operands: 2,
    },
    # A tile is a few cache lines of many rows: with more streams than three, one pass over whole rows is faster.
    # Queries fill vectors, keys tiles of registers. Sums over scores have products of f32: those of 16 bits are faster
    # one by one on matrix units. Fewer scores stay in the cache anyway.
    attention=AttentionLimits(
        queries=32, keys=32, columns=512, bits=16, sums_bits=32, flat=True, whole=True, scores=192**2
    ),
    epilogue=EpilogueLimits(inputs=6, streams=3, long_contraction=512, transposes=True),
    straight_line=StraightLineLimits(elements=REGISTER_ELEMENTS, cost=256),
    # 16 lanes of 32 bits are a vector register of AVX-512.
    batches=BatchLimits(elements=32, cost=600, work=1 << 32),
    loops=LoopLimits(elements=256, cost=3000, width=16, holds=_in_registers),
    in_place={
        "convolution": inplace.element_by_element,
        "custom_call": inplace.aliased,
        "dot": inplace.element_by_element,
        "loop": inplace.element_by_element,
        "row": inplace.row_by_row,
        "scatter": inplace.overwritten,
        "straight_line": inplace.all_at_once(REGISTER_ELEMENTS),  # everything is in registers before anything is stored
        "straight_line_loop": inplace.carried,
        "in_place_update": inplace.updated,
    },
)

# Kernels of complex numbers, and of those that are computed with in another type, go through the whole triangle for
# every group of rows; a product reads its operands from the cache.
BLOCKING = Blocking(rows=128, fewest_sides=FEWEST_SIDES, stays_whole=is_blocked, takes_rows=takes_rows)
