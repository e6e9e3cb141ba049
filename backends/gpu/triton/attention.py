"""Attention as Triton kernels: one program for a tile of the queries of a batch, which goes through the keys tile by
tile (attention_skeleton.py). What a program makes of the products before their softmax is evaluated at each score.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path

from stablehlo_py.backends.gpu.kernels.attention_program import Program
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, kernel_name, pointers_of
from stablehlo_py.backends.gpu.kernels.product import Operand, Side
from stablehlo_py.backends.gpu.triton.build import code_of
from stablehlo_py.backends.gpu.triton.expressions import (
    ACROSS,
    DOWN,
    Index,
    OperandTile,
    Refused,
    number_of,
    rounded,
    type_of,
)
from stablehlo_py.backends.gpu.triton.kernel import compiled
from stablehlo_py.backends.gpu.triton.scores import ScoreTile
from stablehlo_py.backends.gpu.triton.source import function, tuple_of
from stablehlo_py.backends.gpu.triton.worker import Request
from stablehlo_py.codegen.types import Element, element
from stablehlo_py.dialect.index_map import Layout
from stablehlo_py.dialect.types import i64s, num_elements, shape, text
from stablehlo_py.mlir import ir
from stablehlo_py.passes.fusing.attention import Axes

_SKELETON = Path(__file__).with_name("attention_skeleton.py")
_MOST_ELEMENTS = 1 << 31  # of an array: addresses are computed in 32 bits
_TYPES = ("bf16", "f16", "f32")  # of operands
_MOST_SIDE = 256  # columns, and products of a sum: they fill registers
_LEAST = 16  # that a matrix unit takes
# Queries and keys of a tile, warps and stages: those of Triton's own tutorial on attention.
_TILES = (
    (128, 64, 8, 3),
    (128, 64, 4, 3),
    (128, 128, 8, 2),
    (64, 64, 4, 3),
    (128, 64, 8, 2),
    (64, 32, 4, 3),
    (32, 64, 4, 3),
)
# Of f32 without matrix units: threads multiply numbers of their own.
_EXACT_TILES = ((32, 32, 4, 2), (64, 32, 8, 2), (16, 32, 4, 2))
_MOST = 4  # kernels of a fusion: to compile one takes seconds


@dataclass(frozen=True)
class Tiling:
    """Queries and keys of a tile; warps of a block; stages of loads."""

    rows: int
    keys: int
    warps: int
    stages: int


@dataclass(frozen=True)
class TritonAttention:
    """A kernel of an `attention` fusion.

    Attributes:
        p: what is computed; tiling: by which tiles.
        of: the type in which queries and keys are multiplied; weighed: that of weights and values.
    """

    p: Program = field(repr=False)
    tiling: Tiling
    of: Element
    weighed: Element

    @property
    def plan(self) -> str:
        """What it does otherwise than other kernels of this fusion."""
        tiling = self.tiling
        return f"triton {tiling.rows} queries, {tiling.keys} keys, {32 * tiling.warps} threads, {tiling.stages} stages"

    @property
    def blocks(self) -> int:
        """Of the launch."""
        return self.p.batch * -(-self.p.rows // self.tiling.rows)

    @property
    def symbol(self) -> str:
        """The kernel's name."""
        return kernel_name(self.p.fusion.name)

    @property
    def is_possible(self) -> bool:
        """Whether there is shared memory for its tiles, as far as is known before it is compiled."""
        tiling, p = self.tiling, self.p
        keys = tiling.stages * tiling.keys * (_filled(p.scores.depth) * self.of.bytes)
        values = tiling.stages * tiling.keys * (_filled(p.width) * self.weighed.bytes)
        return keys + values + tiling.rows * _filled(p.scores.depth) * self.of.bytes <= p.target.shared_bytes

    # --- source ------------------------------------------------------------------------------------------------------

    def source(self) -> str:
        """The Python file. Raises Refused: there is no Triton for a part of the fusion."""
        parts = [*self._operands(), self._score(), self._weigh(), self._finish(), self._entry()]
        return "\n\n".join((_skeleton(), *parts))

    @property
    def request(self) -> Request:
        """What Triton is asked for. Raises Refused, as `source`."""
        capability, _ = code_of(self.p.target)
        return Request(self.source(), self.symbol, self.pointers(), capability, self.tiling.warps, self.tiling.stages)

    def pointers(self) -> tuple[str, ...]:
        """Triton's types of the parameters. Raises Refused."""
        fusion = self.p.fusion
        return tuple(type_of(element(value)).pointer for value in (*fusion.inputs, *fusion.outputs))

    @cached_property
    def _batch(self) -> Index:
        return Index("batch", self.p.batch)

    @cached_property
    def _rows(self) -> Index:
        return Index("rows", self.p.rows, self.tiling.rows, DOWN)

    @cached_property
    def _keys(self) -> Index:
        return Index("keys", self.p.count, self.tiling.keys, ACROSS)

    @cached_property
    def _columns(self) -> Index:
        return Index("columns", self.p.width, _filled(self.p.width), ACROSS)

    def _operands(self) -> Iterator[str]:
        p = self.p
        depths = Index("depths", p.scores.depth, _filled(p.scores.depth))
        of_queries = self._operand(p.queries, (self._batch, self._rows, replace(depths, along=ACROSS)), self.of)
        yield function("queries", "inputs, batch, rows, depths", of_queries)
        of_keys = self._operand(p.keys, (self._batch, self._keys, replace(depths, along=DOWN)), self.of)
        yield function("keys", "inputs, batch, depths, keys", of_keys)
        indices = (self._batch, self._columns, replace(self._keys, along=DOWN))
        yield function("values", "inputs, batch, keys, columns", self._operand(p.columns, indices, self.weighed))

    def _operand(self, operand: Operand, indices: Sequence[Index], of: Element) -> list[str]:
        assert isinstance(operand, Side)
        tile = OperandTile(self.p.fusion.inputs, indices, (operand.batch, operand.free, operand.contracted))
        tile.give(operand.value, of)
        return tile.lines

    @cached_property
    def _sizes(self) -> Mapping[int, int]:
        """Of dimensions of the first product; below 0 those of columns."""
        columns = self.p.columns
        assert isinstance(columns, Side)
        across = {-1 - number: columns.sizes[d] for number, d in enumerate(columns.free)}
        return dict(enumerate(self.p.sizes)) | across

    def _tile(self, last: Index, labels: Sequence[int]) -> ScoreTile:
        found = self.p.found
        of_all = (tuple(self.p.batches), found.rows, tuple(labels))
        return ScoreTile(self.p.fusion.inputs, (self._batch, self._rows, last), of_all, self._sizes)

    def _op(self, node: int) -> ir.OpView:
        return self.p.graph.nodes[node].op

    def _value(self, node: int) -> ir.Value:
        return self._op(node).results[0]

    def _axes(self, node: int, position: int) -> Axes:
        """Of an operand of a node, which is a member."""
        return self.p.found.axes[self.p.graph.nodes[node].producers[position]]

    def _score(self) -> str:
        p, found = self.p, self.p.found
        tile = self._tile(self._keys, found.keys)
        tile.bind(self._value(found.first), rounded(p.scores.of, "products"))
        scores = tile.at(self._value(found.scores), found.axes[found.scores])
        return function("score", "inputs, batch, rows, keys, products", [*tile.lines, f"return {scores}"])

    def _weigh(self) -> str:
        found = self.p.found
        tile = self._tile(self._keys, found.keys)
        difference = tile.kept(tile.applied(self._op(found.shifted), ["scores", "reference"]))
        op = self._op(found.exponential)
        if op.operation.name != "hlo.exponential":
            raise Refused(f"weights by {op.operation.name}")
        power = tile.kept(rounded(element(op.results[0]), f"exponential({difference}, {self._is_exact})"))
        tile.bind(self._value(found.exponential), power)
        for node, position in sorted(found.factors):
            if node < found.second:  # what is the same for the row is done on the result
                weights = tile.at(self._op(node).operands[1 - position], self._axes(node, 1 - position))
                tile.bind(self._value(node), tile.kept(rounded(element(self._value(node)), weights)))
        added, weight = power, power
        if found.total >= 0:
            added = tile.at(self._op(found.total).operands[0], self._axes(found.total, 0))
        weights = self._op(found.second).operands[found.weights]
        weight = tile.at(weights, self._axes(found.second, found.weights))
        tile.lines.append(f"return {added}, {weight}.to({type_of(self.weighed).name})")
        return function("weigh", "inputs, batch, rows, keys, scores, reference", tile.lines)

    @property
    def _is_exact(self) -> bool:
        """Whether weights have more bits than the machine's estimate of a power."""
        return element(self.p.weights).bits > 16

    def _finish(self) -> str:
        p, found = self.p, self.p.found
        tile = self._tile(self._columns, [label for label in self._sizes if label < 0])
        self._bind_reduction(tile, found.maximum, "largest")
        subtracted = tile.at(self._op(found.shifted).operands[1], found.axes[found.shifted])
        factor = tile.kept(f"exponential(reference_of(largest) - {subtracted}, EXACT)")
        if found.total >= 0:
            self._bind_reduction(tile, found.total, f"total * {factor}")
        result = tile.kept(f"sums * {factor}")
        for node, position in found.factors:
            value = tile.at(self._op(node).operands[position], found.axes[node])
            pair = [result, value] if position == 1 else [value, result]
            result = tile.kept(tile.applied(self._op(node), pair))
        tile.bind(self._value(found.second), tile.kept(rounded(p.values.of, result)))
        for number, value in enumerate(p.fusion.outputs):
            node = p.graph.producer[p.graph.values.index(value)]
            if value == p.output:
                tile.lines += self._stored(tile, number, value, self._result_axes(tile), (self._rows, self._columns))
            else:
                tile.lines += self._stored(tile, number, value, found.axes[node], (self._rows,))
        return function("finish", "inputs, outputs, batch, rows, columns, largest, total, sums, EXACT", tile.lines)

    def _bind_reduction(self, tile: ScoreTile, node: int, found: str) -> None:
        """Of a row: with what the reduction begins with."""
        op = self._op(node)
        start = number_of(op.operands[1])
        if start is None:
            raise Refused("a reduction that begins with what is computed")
        kind = text(op, "kind")
        combined = {"add": f"{found} + {start}", "maximum": f"larger({found}, {start})"}.get(kind)
        if combined is None:
            raise Refused(f"a reduction by {kind}")
        tile.bind(op.results[0], tile.kept(rounded(element(op.results[0]), combined)))

    def _result_axes(self, tile: ScoreTile) -> Axes:
        """Of the result, from those of the second product on."""
        p, found = self.p, self.p.found
        op, nodes = self._op(found.second), p.graph.nodes
        axes = self._axes(found.second, found.weights)
        side = ("lhs", "rhs")[found.weights]
        shared, summed = (i64s(op, f"{side}_{what}") for what in ("batch", "contract"))
        rows = [part for d, part in enumerate(axes) if d not in shared and d not in summed]
        assert isinstance(p.columns, Side)
        across = [(-1 - number,) for number in range(len(p.columns.free))]
        outer = [axes[d] for d in shared]
        known: dict[int, Axes] = {
            found.second: tuple([*outer, *rows, *across] if found.weights == 0 else [*outer, *across, *rows])
        }
        for member in found.members[found.members.index(found.second) + 1 :]:
            node = nodes[member]
            before = next((each for each in node.producers if each in known), None)
            if before is None:
                continue
            current = known[before]
            if node.name == "transpose":
                current = tuple(current[d] for d in i64s(node.op, "permutation"))
            elif node.name == "reshape":
                sizes = [[int(size) for size in shape(each)] for each in (node.op.operands[0], node.op.results[0])]
                current = tile.reshaped(current, *sizes)
            known[member] = current
        return known[found.output]

    def _stored(self, tile: ScoreTile, number: int, value: ir.Value, axes: Axes, across: Sequence[Index]) -> list[str]:
        result = tile.at(value, axes)
        address, checks = tile.address_at(Layout.dense(shape(value)), axes, across)
        condition = f", mask={checks}" if checks else ""
        return [f"tl.store(outputs[{number}] + {address}, {result}.to({type_of(element(value)).name}){condition})"]

    def _entry(self) -> str:
        p, tiling = self.p, self.tiling
        *pointers, _ = pointers_of(p.fusion)
        inputs, outputs = pointers[: len(p.fusion.inputs)], pointers[len(p.fusion.inputs) :]
        precision = "tf32" if p.target.tf32 else "ieee"
        constants = {
            "ROWS": p.rows,
            "COUNT": p.count,
            "BLOCK_ROWS": tiling.rows,
            "BLOCK_KEYS": tiling.keys,
            "BLOCK_DEPTH": _filled(p.scores.depth),
            "BLOCK_COLUMNS": _filled(p.width),
            "PRECISION": f'"{precision}"',
            "EXACT": self._is_exact,
        }
        names = ("queries", "keys", "values", "score", "weigh", "finish")
        arguments = [tuple_of(inputs), tuple_of(outputs), *names]
        arguments += [f"{name}={value}" for name, value in constants.items()]
        launch = f"# {self.blocks} programs of {32 * tiling.warps} threads, {tiling.stages} stages."
        body = ["attention(", *(f"    {argument}," for argument in arguments), ")"]
        return f"{launch}\n{function(self.symbol, ', '.join(pointers), body)}"

    # --- code --------------------------------------------------------------------------------------------------------

    def emit(self) -> GpuKernel:
        """The kernel, compiled. Raises ResourceError: Triton is not installed; UnsupportedError: Triton refuses it, or
        it takes more shared memory than the machine has."""
        return compiled(self.request, self.plan, self.blocks, self.p.target)


def kernels(p: Program) -> list[TritonAttention]:
    """Those of a fusion, in the order of their tiles; none, where there is no Triton for a part of it."""
    types = _multiplied(p)
    if types is None:
        return []
    is_exact = "f32" in (types[0].name, types[1].name) and not p.target.tf32
    tiles = _EXACT_TILES if is_exact else _TILES
    fitting = [Tiling(*each) for each in tiles if each[0] <= 2 * max(p.rows, _LEAST)]
    found = [each for each in (TritonAttention(p, tiling, *types) for tiling in fitting) if each.is_possible]
    try:
        for each in found[:1]:  # whether there is Triton for its fusion does not depend on tiles
            each.source()
            each.pointers()
    except Refused:
        return []
    return found[:_MOST]


def _multiplied(p: Program) -> tuple[Element, Element] | None:
    """The types in which both products are computed; None: there are none for Triton."""
    arrays = (*p.fusion.inputs, *p.fusion.outputs)
    if p.fusion.aliased or any(int(num_elements(value)) >= _MOST_ELEMENTS for value in arrays):
        return None
    queries, keys, columns, weights = (
        element(value) for value in (p.queries.value, p.keys.value, p.columns.value, p.weights)
    )
    of_products = {each.of.name for each in (p.scores, p.values)}
    is_known = queries == keys and columns == weights and {queries.name, columns.name} <= set(_TYPES)
    is_small = p.scores.depth <= _MOST_SIDE and p.width <= _MOST_SIDE
    return (queries, columns) if is_known and is_small and of_products <= set(_TYPES) else None


def _filled(size: int) -> int:
    """What a tile has for so many: a power of 2."""
    return max(_LEAST, 1 << math.ceil(math.log2(size)))


@cache
def _skeleton() -> str:
    return _SKELETON.read_text()
