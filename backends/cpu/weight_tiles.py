"""How a matrix unit (kernels/matrix_unit.py) reads weights without packing them: constants that lie as its tiles do.

    [panel of 32 columns][step][tile of 16 columns][group][column][element of the group]

A group is what fills 32 bits along the contracted axis. As a view of such a constant, a matrix of weights has three
digits along each dimension: `tiled_digits`.
"""

from __future__ import annotations

import math

from stablehlo_py.dialect.index_map import Digits, Layout, merge_digits
from stablehlo_py.dialect.symint import is_known
from stablehlo_py.dialect.types import element_type, i64s, shape
from stablehlo_py.mlir import ir
from stablehlo_py.passes.policy import WeightLayout

SIDE = 16  # rows of a tile, columns of a tile of sums, groups of the contracted axis
PANEL = 2 * SIDE
LEAST = 1 << 14  # products of a contraction that are worth a matrix unit
LEAST_NARROW = 1 << 16  # with columns that fill no tile
LEAST_SHORT = 1 << 19  # with rows that fill no tile
GROUPS = (2, 4)


def group_of(element: ir.Type) -> int | None:
    """Elements of a group, where there are units for them."""
    if isinstance(element, ir.BF16Type):
        return 2
    return 4 if isinstance(element, ir.IntegerType) and element.width == 8 else None


def tiled_digits(depth: int, columns: int, group: int) -> tuple[Digits, Digits]:
    """The digits of the contracted dimension and of the columns, where whole tiles hold them."""
    tile = SIDE * SIDE * group
    steps, panels = depth // (SIDE * group), columns // PANEL
    along = ((steps, 2 * tile), (SIDE, SIDE * group), (group, 1))
    across = ((panels, steps * 2 * tile), (2, tile), (SIDE, group))
    return merge_digits(along), merge_digits(across)


def tiled_group(along: Digits, across: Digits) -> int | None:
    """The group of weights with these digits, if they lie so."""
    if not is_known(*(number for digits in (along, across) for digit in digits for number in digit)):
        return None
    depth, columns = (int(math.prod(size for size, _ in digits)) for digits in (along, across))
    found = tuple(merge_digits(digits) for digits in (along, across))
    return next((group for group in GROUPS if found == tiled_digits(depth, columns, group)), None)


def is_tiled(layout: Layout) -> bool:
    """Whether it is that of such weights, in either order of the dimensions."""
    dimensions = layout.dimensions
    return len(dimensions) == 2 and any(tiled_group(*each) is not None for each in (dimensions, dimensions[::-1]))


def weight_layout(dot: ir.Operation) -> WeightLayout | None:
    """How the right operand of an `hlo.dot` has to lie for a matrix unit; None where it is not for one, or not of whole
    tiles."""
    left, right = dot.operands
    group, contract = group_of(element_type(right)), i64s(dot, "rhs_contract")
    if group is None or group_of(element_type(left)) != group or not is_known(*shape(left), *shape(right)):
        return None
    if len(shape(right)) != 2 or len(contract) != 1 or i64s(dot, "rhs_batch"):
        return None
    (along,) = contract
    depth, columns = int(shape(right)[along]), int(shape(right)[1 - along])
    rows = int(math.prod(shape(left))) // max(1, depth)
    if depth % (SIDE * group) or columns % PANEL or not depth or not columns or rows < 2:
        return None
    if rows * depth * columns < (LEAST if rows >= SIDE else LEAST_SHORT):
        return None
    of_depth, of_columns = (depth // (SIDE * group), SIDE, group), (columns // PANEL, 2, SIDE)
    if along:
        return WeightLayout((*of_columns, *of_depth), (0, 3, 1, 4, 2, 5))
    return WeightLayout((*of_depth, *of_columns), (3, 0, 4, 1, 5, 2))
