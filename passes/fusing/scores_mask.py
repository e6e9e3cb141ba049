"""The mask of sums over scores, as far as it says by indices which places of both sides they have nothing of
(attention_mask.py). Every select that asks the same, or more, gives what it has for such a place:

    s = select(row >= key, q k^T, -inf)                    -inf where row < key
    w = select(row >= key, exp(s - max) * dp, 0)           0 there
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stablehlo_py.dialect.constants import splat
from stablehlo_py.dialect.types import text
from stablehlo_py.passes.fusing.attention import Axes
from stablehlo_py.passes.fusing.attention_mask import Mask, mask_of_select
from stablehlo_py.passes.fusing.graph import REDUCE, Graph
from stablehlo_py.passes.fusing.scores import VIEWS, Scores, Sum
from stablehlo_py.passes.fusing.scores import Axes as ScoreAxes


@dataclass(frozen=True)
class MaskedScores:
    """What is known of masked places.

    Attributes:
        mask: of the first select.
        taken: selects, and the operand whose element they give.
        nodes: that compute the bounds.
    """

    mask: Mask
    taken: Mapping[int, int]
    nodes: frozenset[int]


def masked_scores(graph: Graph, scores: Scores) -> MaskedScores | None:
    """The mask, if there is one."""
    sizes = graph.nodes[scores.products[0]].shape
    found: list[Mask] = []
    for index in sorted(scores.axes):
        mask = mask_of_select(graph, index, dimensions_of(scores.axes[index]), sizes)
        if mask is not None and (not found or all(bound in mask.bounds for bound in found[0].bounds)):
            found.append(mask)
    if not found:
        return None
    taken = {mask.select: 3 - mask.seen for mask in found}
    return MaskedScores(found[0], taken, frozenset().union(*(mask.nodes for mask in found)))


def dimensions_of(axes: ScoreAxes) -> Axes:
    """The axes of a score as dimensions of the first product."""
    return tuple(tuple(d for _, d in part) for part in axes)


def masked_extreme(graph: Graph, scores: Scores, masked: MaskedScores, sum_: Sum) -> float | None:
    """What a reduction that takes a maximum or a minimum has of all masked places, where that is one number."""
    node = graph.nodes[sum_.node]
    if node.role != REDUCE or text(node.op, "kind") not in ("maximum", "minimum"):
        return None
    index = node.producers[0]
    while index in scores.axes:
        node = graph.nodes[index]
        if index not in masked.taken and node.name not in VIEWS:
            return None
        position = masked.taken.get(index, 0)
        value = splat(node.op.operands[position])
        if value is not None:
            return float(value) if isinstance(value, int | float) else None
        index = node.producers[position]
    return None
