"""Elementwise ops and views of a fusion as lines of Triton, over a tile of a product's operand or of its result.

Variables hold what our own kernels have in registers: floats are f32, of 16 bits those that the narrow type has, to
which every op rounds. What Triton computes otherwise has no rule here, elementary functions above all.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from stablehlo_py.backends.common.views import View, view_of
from stablehlo_py.codegen.types import Element, element
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.index_map import Digits, Layout, merge_digits, regroup_digits
from stablehlo_py.dialect.ops import Rounds, record_of
from stablehlo_py.dialect.types import shape, text
from stablehlo_py.mlir import ir
from stablehlo_py.rules import Rules


class Refused(Exception):
    """There is no Triton for a part of a fusion; the message says which."""


@dataclass(frozen=True)
class TritonType:
    """What Triton calls an element type, and a pointer to it in a signature."""

    name: str
    pointer: str


TYPES: Mapping[str, TritonType] = {
    "f32": TritonType("tl.float32", "*fp32"),
    "bf16": TritonType("tl.bfloat16", "*bf16"),
    "f16": TritonType("tl.float16", "*fp16"),
    "i8": TritonType("tl.int8", "*i8"),
    "i32": TritonType("tl.int32", "*i32"),
    "i1": TritonType("tl.int8", "*i8"),  # a byte in memory
}


def type_of(of: Element) -> TritonType:
    """Raises Refused."""
    if of.name not in TYPES:
        raise Refused(f"elements of type {of.name}")
    return TYPES[of.name]


DOWN, ACROSS = "[:, None]", "[None, :]"


@dataclass(frozen=True)
class Index:
    """An index of a tile's elements: one number (block 1), or as many as `block` says, which are below `size` where an
    element is there. `name` is the variable that holds them; `along` makes a column or a row of them."""

    name: str
    size: int
    block: int = 1
    along: str = ""

    @property
    def spread(self) -> str:
        """An expression of them, in the tile's rank."""
        return f"{self.name}{self.along}"

    @property
    def check(self) -> str:
        """That an element is there; empty: all are."""
        return f"({self.name} < {self.size}){self.along}" if self.size % self.block else ""


class Tile(ABC):
    """The body of a function that computes values for a tile.

    Attributes:
        inputs: of the fusion: the function's parameter `inputs`.
        indices: those of an element.
        lines: of the body.
    """

    def __init__(self, inputs: Sequence[ir.Value], indices: Sequence[Index]) -> None:
        self.inputs, self.indices = inputs, indices
        self.lines: list[str] = []
        self._known: dict[ir.Value, str] = {}

    @abstractmethod
    def place(self, layout: Layout) -> Sequence[Digits]:
        """Where elements of a view lie, as digits of each index. Raises Refused."""

    def bind(self, value: ir.Value, expression: str) -> None:
        """Say what a value is, as `value` gives it."""
        self._known[value] = expression

    def value(self, value: ir.Value) -> str:
        """The variable that holds a value. Raises Refused."""
        if value not in self._known:
            expression = self._expression(value)
            self._known[value] = f"v{len(self._known)}"
            self.lines.append(f"{self._known[value]} = {expression}")
        return self._known[value]

    def loaded(self, view: View) -> str:
        """An expression of what lies in memory; zero, where an element is not there. Raises Refused."""
        type_of(view.element)
        address, checks = self.address(view.layout)
        condition = f", mask={checks}, other=0" if checks else ""
        return f"tl.load(inputs[{view.argument}] + {address}{condition})"

    def address(self, layout: Layout, across: Sequence[Index] = ()) -> tuple[str, str]:
        """Where elements lie, and that they are there (empty: all are): of the shape of those indices on which the
        place depends, and of those `across` which it is to lie. Raises Refused."""
        terms, checks = [], []
        for index, digits in zip(self.indices, self.place(layout), strict=True):
            found = _terms(index.spread, digits)
            found = found or [f"{index.spread} * 0" for each in across if each == index and index.block > 1]
            terms += found
            checks += [index.check] if found and index.check else []
        if layout.offset or not terms:
            terms.append(str(layout.offset))
        return f"({' + '.join(terms)})", " & ".join(checks)

    def _expression(self, value: ir.Value) -> str:
        view = view_of(value, element(value))
        if view is not None and view.element == element(value):
            return _widened(view.element, self.loaded(view))
        op = value.owner
        number = number_of(value)
        if number is not None:
            return f"tl.full((1, 1), {number}, {_held(element(value))})"
        return self.computed(op)

    def computed(self, op: ir.OpView) -> str:
        """An expression of an op's result. Raises Refused."""
        if op.operation.name not in RULES:
            raise Refused(op.operation.name)
        return self.applied(op, [self.value(operand) for operand in op.operands])

    def applied(self, op: ir.OpView, operands: Sequence[str]) -> str:
        """What an op makes of operands. Raises Refused."""
        name, of = op.operation.name, element(op.results[0])
        if name not in RULES:
            raise Refused(name)
        _held(of)
        found = RULES[name](op, operands)
        record = record_of(name)
        return found if record is not None and record.rounds is Rounds.NEVER else rounded(of, found)


class OperandTile(Tile):
    """Of a product's operand, whose dimensions have these numbers: of the batch, and of both indices of the tile."""

    def __init__(
        self, inputs: Sequence[ir.Value], indices: Sequence[Index], dimensions: Sequence[Sequence[int]]
    ) -> None:
        super().__init__(inputs, indices)
        self._dimensions = dimensions

    def place(self, layout: Layout) -> Sequence[Digits]:
        """As `Tile.place`."""
        return [tuple(digit for d in each for digit in layout.dimensions[d]) for each in self._dimensions]

    def give(self, value: ir.Value, of: Element) -> None:
        """Return a value, in a type that has it; the last index is that of the products. Raises Refused."""
        depths = self.indices[2]
        view = view_of(value, of)
        if view is not None and view.element == of:
            digits = self.place(view.layout)[1:]
            is_whole = all(any(stride for _, stride in each) for each in digits)
            found = self.loaded(view)
            self.lines.append(f"return {found if is_whole else self._whole(found)}")
            return
        found = _narrowed(of, element(value), self._whole(self.value(value)))
        # Behind the last product all are zero, whatever is computed of the zeros there.
        self.lines.append(f"return tl.where({depths.check}, {found}, 0)" if depths.check else f"return {found}")

    def _whole(self, expression: str) -> str:
        _, first, second = self.indices
        down, across = (first, second) if first.along == DOWN else (second, first)
        return f"tl.broadcast_to({expression}, ({down.block}, {across.block}))"


class ResultTile(Tile):
    """Of what a product becomes: its batch, rows and columns, one behind the other, in whatever shape."""

    def place(self, layout: Layout) -> Sequence[Digits]:
        """As `Tile.place`."""
        found = regroup_digits(layout.dimensions, [index.size for index in self.indices])
        if found is None:
            raise Refused("a view across rows of the result")
        return found

    def computed(self, op: ir.OpView) -> str:
        """As `Tile.computed`."""
        if op.operation.name == "hlo.reshape":
            return self.value(op.operands[0])
        return super().computed(op)

    def store(self, number: int, value: ir.Value) -> None:
        """Write an output of the fusion. Raises Refused."""
        of = element(value)
        address, checks = self.address(Layout.dense(shape(value)), self.indices)
        condition = f", mask={checks}" if checks else ""
        found = self.value(value)
        self.lines.append(f"tl.store(outputs[{number}] + {address}, {found}.to({type_of(of).name}){condition})")


def _terms(index: str, digits: Digits) -> list[str]:
    """The terms of an address, for an index that has these digits."""
    merged, found, inner = merge_digits(digits), [], 1
    for number, (size, stride) in reversed(list(enumerate(merged))):
        digit = index if inner == 1 else f"{index} // {inner}"
        digit = digit if number == 0 else f"{digit} % {size}"
        found += [digit if stride == 1 else f"{digit} * {stride}"] if stride else []
        inner *= int(size)
    return found[::-1]


def rounded(of: Element, expression: str) -> str:
    """As a variable holds a float of 16 bits; others as they are."""
    return expression if of.round is None else f"({expression}).to({type_of(of).name}).to(tl.float32)"


def _held(of: Element) -> str:
    """The type of variables that hold a value. Raises Refused."""
    if of.kind == "bool":
        return "tl.int1"
    return "tl.float32" if of.is_float and of.name in TYPES else type_of(of).name


def _widened(of: Element, expression: str) -> str:
    return expression if _held(of) == type_of(of).name else f"{expression}.to({_held(of)})"


def _narrowed(of: Element, source: Element, expression: str) -> str:
    """Of what is held as a value of `source`, as `of`, which has it."""
    return expression if _held(source) == type_of(of).name else f"{expression}.to({type_of(of).name})"


def number_of(value: ir.Value) -> str | None:
    """The number that all elements of a value are, as text; None: they are none."""
    op = value.owner.operation
    if op.name in ("hlo.broadcast", "hlo.reshape"):
        return None if isinstance(op.operands[0].owner, ir.Block) else number_of(op.operands[0])
    if op.name != "hlo.constant":
        return None
    array = constant_value(value.owner)
    if not array.size or array.tobytes() != array.flat[0].tobytes() * array.size:
        return None
    if not element(value).is_float:
        return str(int(array.flat[0]))
    number = float(array.flat[0])
    return repr(number) if math.isfinite(number) else f'float("{number}")'


Rule: TypeAlias = Callable[[ir.OpView, Sequence[str]], str]
RULES: Rules[Rule] = Rules("hlo.")  # to an expression, not yet rounded
_INFIX = {"add": "+", "subtract": "-", "multiply": "*"}
_LOGIC = {"and": "&", "or": "|", "xor": "^"}
_COMPARISONS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}


@RULES.rule(*_INFIX)
def _infix(op: ir.OpView, operands: Sequence[str]) -> str:
    if element(op.results[0]).kind == "bool":
        raise Refused("arithmetic on truth values")
    return f" {_INFIX[op.operation.name.removeprefix('hlo.')]} ".join(operands)


@RULES.rule("divide", "sqrt")
def _rounded_correctly(op: ir.OpView, operands: Sequence[str]) -> str:
    if not element(op.results[0]).is_float:
        raise Refused("divisions of integers")
    name = {"hlo.divide": "tl.div_rn", "hlo.sqrt": "tl.sqrt_rn"}[op.operation.name]
    return f"{name}({', '.join(operands)})"


@RULES.rule("maximum", "minimum")
def _extreme(op: ir.OpView, operands: Sequence[str]) -> str:
    of = element(op.results[0])
    if of.kind == "bool":
        raise Refused("arithmetic on truth values")
    nan = ", propagate_nan=tl.PropagateNan.ALL" if of.is_float else ""
    return f"tl.{op.operation.name.removeprefix('hlo.')}({', '.join(operands)}{nan})"


@RULES.rule("negate")
def _negate(op: ir.OpView, operands: Sequence[str]) -> str:
    # The minus of Triton before 3.9 subtracts from 0, which -0 is not.
    return f"{operands[0]} * -1.0" if element(op.results[0]).is_float else f"-{operands[0]}"


@RULES.rule("abs")
def _abs(op: ir.OpView, operands: Sequence[str]) -> str:
    return f"tl.abs({operands[0]})"


@RULES.rule("compare")
def _compare(op: ir.OpView, operands: Sequence[str]) -> str:
    if "total_order" in op.attributes or element(op.operands[0]).kind == "bool":
        raise Refused("comparisons in total order, or of truth values")
    return f" {_COMPARISONS[text(op, 'direction')]} ".join(operands)


@RULES.rule("and", "or", "xor")
def _logic(op: ir.OpView, operands: Sequence[str]) -> str:
    return f" {_LOGIC[op.operation.name.removeprefix('hlo.')]} ".join(operands)


@RULES.rule("not")
def _not(op: ir.OpView, operands: Sequence[str]) -> str:
    return f"{operands[0]} == 0" if element(op.results[0]).kind == "bool" else f"~{operands[0]}"


@RULES.rule("is_finite")
def _is_finite(op: ir.OpView, operands: Sequence[str]) -> str:
    return f'tl.abs({operands[0]}) < float("inf")'


@RULES.rule("select")
def _select(op: ir.OpView, operands: Sequence[str]) -> str:
    return f"tl.where({', '.join(operands)})"


@RULES.rule("convert")
def _convert(op: ir.OpView, operands: Sequence[str]) -> str:
    source, of = element(op.operands[0]), element(op.results[0])
    (operand,) = operands
    if source.kind == "bool" or of.kind == "bool" or (source.is_float and not of.is_float):
        raise Refused(f"conversions of {source.name} to {of.name}")
    if not source.is_float and of.round is not None and source.bits > 24:  # it would round twice
        raise Refused(f"conversions of {source.name} to {of.name}")
    return operand if _held(source) == _held(of) else f"{operand}.to({_held(of)})"
