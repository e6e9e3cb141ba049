"""What the kernel of sums over scores (scores.py) reads, and how it is cut into tiles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from stablehlo_py.backends.common.contraction import Operand
from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.reduction import reduction_levels
from stablehlo_py.backends.common.scores import ScoresProgram, WeightedSum
from stablehlo_py.backends.cpu.kernels.arithmetic import arithmetic_of
from stablehlo_py.backends.cpu.kernels.attention_operands import Rows, packed, rows_of
from stablehlo_py.backends.cpu.kernels.product import KernelBuilder
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import Function, Index, Value, vector
from stablehlo_py.codegen.index import affine_of
from stablehlo_py.dialect.types import i64s, shape
from stablehlo_py.mlir import ir
from stablehlo_py.passes.fusing.scores import Label

MOST_VECTORS = 4  # of queries, and of columns
KEYS = 48  # of a tile: about so many, a multiple of the rows of registers
RANGES = 8  # iterations that there are at least, if there are as many tiles


class Plan:
    """What a kernel reads, and its tiles.

    Attributes:
        lanes: queries of a vector; width: of a tile; height: rows of products in registers; keys: of a tile.
        row, key: the labels that tiles go along; others: those of queries but `row`.
        left, right: the operands of products of queries, and of keys; columns: those of sums.
        over_keys, over_queries: sums, by number.
    """

    def __init__(self, fusion: Fusion, target: CpuTarget) -> None:
        self.fusion, self.target = fusion, target
        self.p = p = ScoresProgram(fusion, target)
        self.arithmetic = arithmetic_of(p.value_of(p.scores.products[0]))
        self.type = self.arithmetic.accumulator
        (self.key,) = p.inner
        self.row = max(p.outer, key=p.size)
        self.others = [label for label in p.outer if label != self.row]
        self.sizes = [int(size) for size in shape(p.value_of(p.scores.products[0]))]
        self.rows, self.count = p.size(self.row), p.size(self.key)
        self.lanes = target.lanes(self.type.bits)
        self.most = MOST_VECTORS if target.registers >= 32 else MOST_VECTORS // 2
        self.width = self.lanes * min(self.most, -(-self.rows // self.lanes))
        self.height = max(1, (target.registers - 1 - self.most) // self.most)
        self.keys = -(-KEYS // self.height) * self.height
        self.sums = [WeightedSum(p, each) for each in p.weighted]
        over_keys = p.scores.left if self.key in p.scores.left else p.scores.right
        is_over_keys = [each.sum.left == (over_keys == p.scores.left) for each in self.sums]
        self.over_keys = [number for number, is_so in enumerate(is_over_keys) if is_so]
        self.over_queries = [number for number, is_so in enumerate(is_over_keys) if not is_so]
        by_result = {each.result: each for each in p.reductions}
        levels = reduction_levels([each.item for each in p.reductions])
        self.levels = [[by_result[item.result] for item in level] for level in levels]
        self.builder = KernelBuilder(fusion, target)
        self._known: list[tuple[Rows, Rows]] = []
        pairs = [self._operands_of(node) for node in p.scores.products]
        self.left, self.right = [left for left, _ in pairs], [right for _, right in pairs]
        self.columns = [self._columns_of(number) for number in range(len(self.sums))]

    # --- operands ----------------------------------------------------------------------------------------------------

    def _operands_of(self, node: int) -> tuple[Rows, Rows]:
        """The operand of queries, and that of keys, of a product."""
        op, axes = self.p.op(node), self.p.scores.axes[node]
        found = dict[bool, Rows]()
        for number, name in enumerate(("lhs", "rhs")):
            batch, contract = i64s(op, f"{name}_batch"), i64s(op, f"{name}_contract")
            free = [d for d in range(len(shape(op.operands[number]))) if d not in (*batch, *contract)]
            start = len(batch) if number == 0 else len(axes) - len(free)
            places = {d: position for position, d in enumerate(batch)} | {d: start + i for i, d in enumerate(free)}
            is_key = any(self.key in axes[places[d]] for d in free)
            labels = {d: axes[place] for d, place in places.items()}
            found[is_key] = self._rows(op.operands[number], labels, self.key if is_key else self.row, contract)
        return found[False], found[True]

    def _columns_of(self, number: int) -> Rows:
        sum_ = self.sums[number]
        names = ("lhs", "rhs") if sum_.sum.operand == 0 else ("rhs", "lhs")
        labels = dict[int, Sequence[Label]]()
        for what in ("batch", "contract"):
            of_weights, of_columns = (i64s(sum_.op, f"{name}_{what}") for name in names)
            labels |= {c: sum_.axes[w] for w, c in zip(of_weights, of_columns, strict=True)}
        side = self.key if number in self.over_keys else self.row
        return self._rows(sum_.column_operand, labels, side, tuple(sum_.column_sizes))

    def _rows(self, value: ir.Value, labels: Mapping[int, Sequence[Label]], side: Label, inner: Sequence[int]) -> Rows:
        """An operand, copied by a phase before where rows do not lie one behind the other."""
        parts = {d: tuple(place for _, place in part) for d, part in labels.items()}
        rows = rows_of(value, self.arithmetic, parts, side[1], inner)
        for before, found in self._known:
            if before == rows:
                return found
        is_there = rows.is_near and rows.operand.element == self.arithmetic.element
        found = rows if is_there else packed(self.builder, str(len(self._known)), rows, self.lanes)
        self._known.append((rows, found))
        return found

    @property
    def operands(self) -> list[Rows]:
        """All that are different."""
        return [found for _, found in self._known]

    @property
    def tiles(self) -> int:
        """Tiles of queries, along all of their labels."""
        return math.prod(map(self.p.size, self.others)) * -(-self.rows // self.width)

    @property
    def shares(self) -> int:
        """Iterations of a batch."""
        return min(self.tiles, -(-RANGES // self.p.batch)) if self.over_queries else self.tiles


class Queries:
    """`valid` queries from `first` on, at a place of the other labels.

    Args:
        at: the number of the batch, and the index along each label but the row's and the key's.

    Attributes:
        row_values: where the reductions of the queries are, a line of the tile's width for each.
    """

    def __init__(
        self,
        plan: Plan,
        f: Function,
        at: tuple[Index, dict[Label, Index]],
        first: Index,
        valid: int,
        row_values: Operand,
    ) -> None:
        self.f, self.p, self.first, self.valid = f, plan.p, first, valid
        self.batch, self.outer = at
        self.sizes, self.row_values = plan.sizes, row_values.at(f)
        self.type = vector(plan.lanes, plan.type)
        self.vectors = -(-valid // plan.lanes)
        self.places = {label: affine_of(index, self.p.size(label) - 1) for label, index in self.outer.items()}
        self.zero = f.const(0.0, self.type)

    def start(self, rows: Rows) -> Value:
        """Where the copy of an operand begins that belongs to the tile."""
        return rows.copy(self.f, self.copy(rows))

    def copy(self, rows: Rows) -> Index:
        """Its number."""
        return rows.number(self.f, {place: index for (_, place), index in self.outer.items()}, self.sizes)
