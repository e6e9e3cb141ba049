"""Matrix products as Triton kernels: one program for a tile of the result, in the order of our own (kernels/tiled.py).

A kernel's source is a Python file: what all of them share (skeleton.py), then what this one reads and stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from stablehlo_py.backends.gpu.kernels.base import GpuKernel, kernel_name, pointers_of
from stablehlo_py.backends.gpu.kernels.product import DotProduct, Operand, Product, Side
from stablehlo_py.backends.gpu.kernels.tiled import NEIGHBOURS, Tiling
from stablehlo_py.backends.gpu.triton.build import code_of
from stablehlo_py.backends.gpu.triton.expressions import ACROSS, DOWN, Index, OperandTile, Refused, ResultTile, type_of
from stablehlo_py.backends.gpu.triton.kernel import compiled
from stablehlo_py.backends.gpu.triton.source import function, tuple_of
from stablehlo_py.backends.gpu.triton.worker import Request
from stablehlo_py.codegen.types import ELEMENTS, Element, element
from stablehlo_py.dialect.types import num_elements

_SKELETON = Path(__file__).with_name("skeleton.py")
_MOST_ELEMENTS = 1 << 31  # of an array: addresses are computed in 32 bits
# Of operands as they are multiplied: the type of sums, and those that results may have.
_SUMS = {
    "bf16": ("f32", ("f32", "bf16")),
    "f16": ("f32", ("f32", "f16")),
    "f32": ("f32", ("f32",)),
    "i8": ("i32", ("i32",)),
}
# Rows and columns of a tile, bytes of its depth, warps, stages and speed: those of Triton's own tutorial on products,
# and of its matrix units of warpgroups.
_TILES = (
    (128, 256, 128, 8, 3, 1.0),
    (128, 128, 128, 8, 4, 0.8),
    (128, 128, 128, 4, 3, 0.8),
    (64, 256, 64, 4, 4, 0.7),
    (128, 64, 128, 4, 4, 0.6),
    (64, 128, 64, 4, 4, 0.6),
    (64, 64, 128, 4, 5, 0.5),
    (64, 32, 64, 2, 5, 0.4),
    (32, 32, 128, 2, 5, 0.3),
)
# Of f32 without matrix units: threads multiply numbers of their own.
_EXACT_TILES = ((64, 64, 64, 8, 3, 0.06), (64, 32, 64, 4, 3, 0.05), (32, 32, 128, 4, 3, 0.05))
_MOST = 6  # kernels of a product: to compile one takes seconds
_LEAST = 16  # rows, columns and products that a matrix unit takes


@dataclass(frozen=True)
class TritonProduct:
    """A kernel of a product.

    Attributes:
        p: the product; tiling: its tiles.
        of: the type in which operands are multiplied.
    """

    p: DotProduct
    tiling: Tiling
    of: Element

    @property
    def plan(self) -> str:
        """What it does otherwise than other kernels of this product."""
        return f"triton {self.tiling}, {self.tiling.stages} stages"

    @property
    def blocks(self) -> int:
        """Of the launch."""
        return self.tiling.tiles(self.p)

    @property
    def symbol(self) -> str:
        """The kernel's name."""
        return kernel_name(self.p.fusion.name)

    @property
    def _pointers(self) -> tuple[str, ...]:
        fusion = self.p.fusion
        return tuple(type_of(element(value)).pointer for value in (*fusion.inputs, *fusion.outputs))

    def source(self) -> str:
        """The Python file. Raises Refused: there is no Triton for a part of the fusion."""
        p, tiling = self.p, self.tiling
        inputs = p.fusion.inputs
        batch = Index("batch", p.batch)
        rows, columns = Index("rows", p.rows, tiling.rows, DOWN), Index("columns", p.columns, tiling.columns, ACROSS)
        depths = Index("depths", p.depth, tiling.depth)
        left = OperandTile(inputs, (batch, rows, replace(depths, along=ACROSS)), _dimensions(p.a))
        left.give(p.a.value, self.of)
        right = OperandTile(inputs, (batch, columns, replace(depths, along=DOWN)), _dimensions(p.b))
        right.give(p.b.value, self.of)
        finish = ResultTile(inputs, (batch, rows, columns))
        narrow = f".to({type_of(p.of).name}).to(tl.float32)" if p.of.round else ""
        finish.bind(p.result, f"sums{narrow}")
        for number, output in enumerate(p.fusion.outputs):
            finish.store(number, output)
        functions = (
            function("left", "inputs, batch, rows, depths", left.lines),
            function("right", "inputs, batch, depths, columns", right.lines),
            function("finish", "inputs, outputs, batch, rows, columns, sums", finish.lines),
            self._entry(),
        )
        return "\n\n".join((_skeleton(), *functions))

    @property
    def request(self) -> Request:
        """What Triton is asked for. Raises Refused, as `source`."""
        warps, stages = self.tiling.threads // self.p.target.subgroup, self.tiling.stages
        return Request(self.source(), self.symbol, self._pointers, code_of(self.p.target)[0], warps, stages)

    def emit(self) -> GpuKernel:
        """The kernel, compiled. Raises ResourceError: Triton is not installed; UnsupportedError: Triton refuses it, or
        it takes more shared memory than the machine has."""
        return compiled(self.request, self.plan, self.blocks, self.p.target)

    def _entry(self) -> str:
        p, tiling = self.p, self.tiling
        *pointers, _ = pointers_of(p.fusion)
        inputs, outputs = pointers[: len(p.fusion.inputs)], pointers[len(p.fusion.inputs) :]
        precision = "tf32" if p.target.tf32 else "ieee"
        constants = {
            "ROWS": p.rows,
            "COLUMNS": p.columns,
            "DEPTH": p.depth,
            "BLOCK_ROWS": tiling.rows,
            "BLOCK_COLUMNS": tiling.columns,
            "BLOCK_DEPTH": tiling.depth,
            "GROUP": NEIGHBOURS,
            "SUMS": type_of(ELEMENTS[_SUMS[self.of.name][0]]).name,
            "PRECISION": f'"{precision}"',
        }
        arguments = [tuple_of(inputs), tuple_of(outputs), "left", "right", "finish"]
        arguments += [f"{name}={value}" for name, value in constants.items()]
        launch = f"# {self.blocks} programs of {tiling.threads} threads, {tiling.stages} stages."
        body = ["product(", *(f"    {argument}," for argument in arguments), ")"]
        return f"{launch}\n{function(self.symbol, ', '.join(pointers), body)}"

    @property
    def is_possible(self) -> bool:
        """Whether there is shared memory for its tiles, as far as is known before it is compiled."""
        tiling = self.tiling
        shared = tiling.stages * (tiling.rows + tiling.columns) * tiling.depth * self.of.bytes
        return shared <= self.p.target.shared_bytes


def kernels(product: Product) -> list[TritonProduct]:
    """Those of a product, the ones first that take the least time, as estimated; none, where there is no Triton for a
    part of its fusion."""
    of = _multiplied(product)
    if of is None or not isinstance(product, DotProduct):
        return []
    fitting = [TritonProduct(product, tiling, of) for tiling in _tilings(product, of)]
    found = sorted((each for each in fitting if each.is_possible), key=lambda each: each.tiling.cost(product))
    try:
        for each in found[:1]:  # whether there is Triton for its fusion does not depend on tiles
            each.source()
    except Refused:
        return []
    return found[:_MOST]


def _multiplied(product: Product) -> Element | None:
    """The type in which operands are multiplied; None: there is none for Triton."""
    arrays = (*product.fusion.inputs, *product.fusion.outputs)
    if product.fusion.aliased or any(int(num_elements(value)) >= _MOST_ELEMENTS for value in arrays):
        return None
    a, b = (element(operand.value) for operand in (product.a, product.b))
    of = a if a == b and a.name in _SUMS else product.of
    return of if product.of.name in _SUMS.get(of.name, ("", ()))[1] else None


def _tilings(product: Product, of: Element) -> Iterator[Tiling]:
    exact = of.name == "f32" and not product.target.tf32
    for rows, columns, depth, warps, stages, speed in _EXACT_TILES if exact else _TILES:
        if rows <= 2 * max(product.rows, _LEAST) and columns <= 2 * max(product.columns, _LEAST):
            threads = warps * product.target.subgroup
            yield Tiling(rows, columns, depth // of.bytes, threads, stages, speed, split=1)


def _dimensions(operand: Operand) -> Sequence[Sequence[int]]:
    assert isinstance(operand, Side)
    return operand.batch, operand.free, operand.contracted


@cache
def _skeleton() -> str:
    return _SKELETON.read_text()
