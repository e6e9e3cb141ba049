"""Ops that move elements or carry whole values: the stored integers move."""

from __future__ import annotations

from stablehlo_py.dialect import build
from stablehlo_py.dialect.attributes import ZEROS
from stablehlo_py.legalize.quantized.rules import RULES, Reading, require_same, rule
from stablehlo_py.mlir import ir

# Every quantized value of these has one type (up to the dimension of per-axis parameters).
_MOVEMENT = """
    all_gather all_to_all broadcast broadcast_in_dim concatenate dynamic_broadcast_in_dim dynamic_gather dynamic_pad
    dynamic_reshape dynamic_slice dynamic_update_slice gather get_dimension_size pad real_dynamic_slice reshape reverse
    set_dimension_size slice torch_index_select transpose
"""
# Each result has the type of its own operand, or nobody's: the verifiers of these see to it.
_CONTAINERS = """
    bitcast_convert case composite custom_call get_tuple_element if infeed optimization_barrier outfeed recv
    return send tuple while
"""


def _movement(op: ir.OpView, of: Reading) -> None:
    require_same([value for value in (*op.operands, *op.results) if of(value) is not None], of)


@rule("stablehlo.collective_broadcast", "stablehlo.collective_permute")
def _exchange(op: ir.OpView, of: Reading) -> None:
    """Where nothing arrives the results are zero."""
    _movement(op, of)
    remember_zeros(op, of)


def remember_zeros(op: ir.OpView, of: Reading) -> None:
    """Tell the op what stands for zero in its results."""
    quantized = [of(result) for result in op.results]
    op.attributes[ZEROS] = build.attribute([each.zero_points[0] if each else 0 for each in quantized])


def _container(op: ir.OpView, of: Reading) -> None:
    """The op is the same on any type."""


RULES.enter(_movement, *(f"stablehlo.{name}" for name in _MOVEMENT.split()))
RULES.enter(_container, *(f"stablehlo.{name}" for name in _CONTAINERS.split()))
rule("func.return", "func.call")(_container)
