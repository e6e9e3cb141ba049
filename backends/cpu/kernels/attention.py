"""Fusions of kind `attention`: softmax(scores of queries and keys) times values, without an array of all scores.

An iteration has a tile of the queries of one head, and goes through the keys tile by tile (Dao et al., FlashAttention,
2022). Queries are in lanes: a tile of scores, and one of results, is a row of a few vectors for each key, and for each
column. So maxima and sums over keys are lane by lane, and keys and values are read where they lie, as numbers that
every lane multiplies:

    for tile of keys:
        for key:   scores [queries] = sum over depth of queries [depth, queries] * key [depth]
        for key:   what the program makes of scores; the largest so far
        for key:   weights, and their sum
        for column: results [queries] = results * scale + sum over keys of weights [key, queries] * value [key]

All four stay in the L1 cache. Where a mask says by indices which keys a query sees, other tiles are left out
(attention_band.py); a phase before finds out whether all values are finite.

attention_lanes.py has products of f32 and f64, attention_unit.py those of bf16 by matrix units and by instructions that
multiply pairs.

A row whose largest score is not finite is computed as the program would (backends/common/attention.py).
"""

from __future__ import annotations

from stablehlo_py.backends.common.attention import AttentionProgram
from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels.attention_lanes import Attention
from stablehlo_py.backends.cpu.kernels.attention_unit import UnitAttention, attention_unit
from stablehlo_py.backends.cpu.kernels.base import Kernel
from stablehlo_py.backends.cpu.target import CpuTarget


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """The kernel of an `attention` fusion."""
    program = AttentionProgram(fusion, target)
    unit = attention_unit(program, target)
    return (UnitAttention(program, fusion, target, unit) if unit else Attention(program, fusion, target)).emit()
