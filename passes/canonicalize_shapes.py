"""One form for reshapes, transposes, broadcasts and slices, and work on the smallest shape.

    %0 = hlo.broadcast %x {dimensions = [0]} : tensor<8xf32> -> tensor<8x512xf32>
    %1 = hlo.broadcast %eps                  : tensor<f32> -> tensor<8x512xf32>
    %2 = hlo.add %0, %1
    %3 = hlo.rsqrt %2
        ==>  %1 = hlo.broadcast %eps         : tensor<f32> -> tensor<8xf32>
             %2 = hlo.add %x, %1
             %3 = hlo.rsqrt %2
             %4 = hlo.broadcast %3 {dimensions = [0]} : tensor<8xf32> -> tensor<8x512xf32>

- Chains of one kind are one op; what changes nothing goes; a transpose that only moves dimensions of size 1 is a
  reshape.
- Broadcasts, reshapes and pairs of transposes sink towards the results, through elementwise ops and reductions (see
  `shape_rules/through.py`): a reshape in the middle of an elementwise chain would end a fusion.
- Slices rise towards what they slice: what nobody reads is not computed.
- Splat constants are broadcasts of scalars, and an iota of several dimensions is a broadcast of a line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.passes.shape_rules import SHAPES
from stablehlo_py.passmanager.rewrite import RulePass, RuleSet


@dataclass(frozen=True)
class CanonicalizeShapes(RulePass):
    """Merges and moves reshapes, transposes, broadcasts and slices, so that work is done on the smallest shape."""

    name: ClassVar[str] = "canonicalize-shapes"
    table: ClassVar[RuleSet] = SHAPES
