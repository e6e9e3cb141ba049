"""A product of two tensors on its way to a kernel: rows times columns, sums over so many products, in batches. Operands
are evaluated where they are read, whatever they are made of; what becomes of a sum, an epilogue says."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import split
from stablehlo_py.backends.gpu.kernels.base import kernel_function
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import I1, I32, Function, Index, Value, VectorType
from stablehlo_py.codegen.conversions import convert
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.elemental.convolution import input_index
from stablehlo_py.codegen.index import (
    Affine,
    Delinearized,
    Variable,
    add,
    affine_of,
    delinearize,
    delinearized,
    known_multiple,
    linear_index,
    same,
    scalar,
    scale,
)
from stablehlo_py.codegen.types import Element, Lanes, constant, element, select, to_bits
from stablehlo_py.dialect.formats import holds
from stablehlo_py.dialect.types import i64, i64s, shape
from stablehlo_py.dialect.window import spatial_windows
from stablehlo_py.mlir import ir

PIECE_BITS = 128  # that are read at a time
FOUR = VectorType(4, I32)  # their registers
MOST_NEIGHBOURS, MOST_OPS = 8, 64  # results that a thread stores together; ops of all of them
Indices = Mapping[int, Affine]  # by dimension


class Operand(ABC):
    """A tensor whose elements have a batch, a row (of the right operand: a column) and a place in the sums.

    Attributes:
        value: the tensor.
        rows: how many rows (columns) a batch has; depth: how many products a sum.
    """

    def __init__(self, value: ir.Value, rows: int, depth: int) -> None:
        self.value, self.rows, self.depth = value, rows, depth
        self.sizes = [int(size) for size in shape(value)]

    @property
    @abstractmethod
    def contracts(self) -> Sequence[int]:
        """The dimensions along which sums go through consecutive products, the last one fastest."""

    @abstractmethod
    def at(self, e: Elemental, batch: Index, row: Affine, k: Affine, lanes: int) -> tuple[Indices, Value | None]:
        """Where an element is, and the condition that it is there (None: it always is; else the indices are safe all
        the same, and it counts as zero). Row or product may go up from lane to lane."""

    @property
    def contracts_last(self) -> bool:
        """Whether neighbours in memory, as far as the shape says, are neighbours in the sum."""
        solid = [d for d, size in enumerate(self.sizes) if size > 1]
        return bool(solid) and solid[-1] in self.contracts

    def place(self, indices: Indices) -> Delinearized:
        """An element, by its indices."""
        return delinearized(self.sizes, [indices[d] for d in range(len(self.sizes))])


class Side(Operand):
    """An operand of `hlo.dot`: its batch, free and contracted dimensions."""

    def __init__(self, value: ir.Value, batch: tuple[int, ...], contracted: tuple[int, ...]) -> None:
        sizes = [int(size) for size in shape(value)]
        self.batch, self.contracted = batch, contracted
        self.free = tuple(d for d in range(len(sizes)) if d not in batch + contracted)
        rows, depth = (math.prod(sizes[d] for d in each) for each in (self.free, contracted))
        super().__init__(value, rows, depth)

    @property
    def contracts(self) -> Sequence[int]:
        return self.contracted

    def at(self, e: Elemental, batch: Index, row: Affine, k: Affine, lanes: int) -> tuple[Indices, Value | None]:
        batches = math.prod(self.sizes[d] for d in self.batch)
        numbers = ((self.batch, affine_of(batch, batches - 1)), (self.free, row), (self.contracted, k))
        found: dict[int, Affine] = {}
        for dimensions, number in numbers:
            found |= split(e.f, number, {d: self.sizes[d] for d in dimensions}, lanes)
        return found, None


class Patches(Operand):
    """The input of `hlo.convolution`: a row is a pixel of the output, its products are the window's places, and at each
    the features."""

    def __init__(self, op: ir.OpView) -> None:
        self.windows = spatial_windows(op)
        self.inputs, self.outputs = i64s(op, "input_dims"), i64s(op, "output_dims")
        self.kernel, result = shape(op.operands[1]), shape(op.results[0])
        self.features = int(self.kernel[i64s(op, "kernel_dims")[0]])
        self.feature_groups, self.batch_groups = i64(op, "feature_groups"), i64(op, "batch_groups")
        self.pixels = {d: int(result[d]) for d in (self.outputs[0], *(window.output for window in self.windows))}
        self.taps = [int(window.width) for window in self.windows]
        super().__init__(op.operands[0], math.prod(self.pixels.values()), math.prod(self.taps) * self.features)

    @property
    def contracts(self) -> Sequence[int]:
        return (self.inputs[1],)

    def at(self, e: Elemental, batch: Index, row: Affine, k: Affine, lanes: int) -> tuple[Indices, Value | None]:
        f = e.f
        group = affine_of(batch, max(self.feature_groups, self.batch_groups) - 1)
        pixel = split(f, row, self.pixels, lanes)
        *taps, feature = split(f, k, dict(enumerate([*self.taps, self.features])), lanes).values()
        if self.feature_groups > 1:
            feature = add(f, feature, scale(f, group, self.features))
        image = pixel[self.outputs[0]]
        if self.batch_groups > 1:
            image = add(f, image, scale(f, group, self.pixels[self.outputs[0]]))
        found = {self.inputs[0]: image, self.inputs[1]: feature}
        conditions: list[Value | bool | None] = []
        for window, tap in zip(self.windows, taps, strict=True):
            index, holds = input_index(e, window, pixel[window.output], tap)
            found[window.input], inside, _ = e.clamped(index, window.size)
            conditions += [holds, inside]
        known = [f.const(each, I1) if isinstance(each, bool) else each for each in conditions]
        asked = [each for each in known if each is not None and each.constant != 1]
        return found, reduce(partial(f.binary, "and"), asked) if asked else None


class Filters(Operand):
    """The kernel of `hlo.convolution`: a column is a feature of the output."""

    def __init__(self, op: ir.OpView) -> None:
        self.windows, self.kernel_dims = spatial_windows(op), i64s(op, "kernel_dims")
        sizes = shape(op.operands[1])
        self.groups = max(i64(op, "feature_groups"), i64(op, "batch_groups"))
        self.places = {d: int(sizes[d]) for d in (*(window.kernel for window in self.windows), self.kernel_dims[0])}
        columns = int(sizes[self.kernel_dims[1]]) // self.groups
        super().__init__(op.operands[1], columns, math.prod(self.places.values()))

    @property
    def contracts(self) -> Sequence[int]:
        return tuple(self.places)

    def at(self, e: Elemental, batch: Index, row: Affine, k: Affine, lanes: int) -> tuple[Indices, Value | None]:
        f = e.f
        found = split(f, k, self.places, lanes)
        for window in self.windows:
            if window.reversed:
                found[window.kernel] = add(f, scale(f, found[window.kernel], -1), window.width - 1)
        group = affine_of(batch, self.groups - 1)
        return {**found, self.kernel_dims[1]: add(f, scale(f, group, self.rows), row)}, None


@dataclass(frozen=True)
class Piece:
    """Neighbours in memory, in words of 32 bits: so many, at `base` + `start`. Zeros, unless it `exists` (None: it
    does)."""

    base: Value
    start: Index
    exists: Value | None
    words: int = FOUR.lanes

    def only_if(self, f: Function, condition: Value) -> Piece:
        """The same where a condition holds."""
        return replace(self, exists=condition if self.exists is None else f.binary("and", self.exists, condition))

    def load(self, f: Function) -> Value:
        """Its words, in registers."""
        type_ = VectorType(self.words, I32) if self.words > 1 else I32
        found = f.load(type_, self.base, self.start, align=4 * self.words)
        return found if self.exists is None else f.select(self.exists, found, f.const(0, type_))


class Product(ABC):
    """A product on its way to a kernel.

    Attributes:
        a, b: the operands; result: of the op; of: its element type.
        batch, rows, columns, depth: how many there are of each.
    """

    def __init__(
        self, fusion: Fusion, target: GpuTarget, result: ir.Value, operands: tuple[Operand, Operand], batch: int
    ) -> None:
        self.fusion, self.target, self.result = fusion, target, result
        self.a, self.b = operands
        self.of = element(result)
        self.batch, self.rows, self.columns, self.depth = batch, self.a.rows, self.b.rows, self.a.depth

    @property
    def takes_short_sums(self) -> bool:
        """Whether units may keep sums in fewer bits than f32 has for some products (`MatrixUnit.sum_bits`): where the
        result keeps fewer, or the model multiplies numbers of 8 bits and less. One that converts them to f32 before
        asks for f32's accuracy."""
        return self.of.bits < 32 or self.widest_asked < 16

    @property
    def widest_asked(self) -> int:
        """Bits of the wider one of the types that the model multiplies, whatever they were converted from."""
        return max(element(each.value).bits for each in (self.a, self.b))

    def begin(self, blocks: int, threads: int, symbol: str = "") -> Function:
        """The kernel (the fusion's name, unless given), and what evaluates values in it."""
        f = kernel_function(self.fusion, self.target, symbol or self.fusion.name, blocks, threads)
        self.e = Elemental(f, self.fusion, self.target, 1)
        return f

    def element(
        self, operand: Operand, batch: Index, row: Index | Affine, k: Index | Affine, of: Element | None = None
    ) -> Value:
        """An element of an operand, in the type of the sums or in a given one."""
        value = convert(self.e.f, element(operand.value), of or self.of, self._value(operand, batch, row, k))
        assert isinstance(value, Value)
        return value

    def bits(
        self, operand: Operand, batch: Index, row: Index | Affine, k: Index | Affine, of: Element | None = None
    ) -> Value:
        """The bits of an element of an operand, in its own type or in a given one."""
        of = of or element(operand.value)
        return to_bits(self.e.f, of, self.element(operand, batch, row, k, of))

    def _value(self, operand: Operand, batch: Index, row: Index | Affine, k: Index | Affine) -> Value:
        f = self.e.f
        at_row, at_k = (
            number if isinstance(number, Affine) else affine_of(number, size - 1)
            for number, size in ((row, operand.rows), (k, operand.depth))
        )
        indices, condition = operand.at(self.e, batch, at_row, at_k, 1)
        found = self.e.value(operand.value, operand.place(indices))
        if condition is not None:
            found = select(f, condition, found, constant(f, element(operand.value), 0.0))
        assert isinstance(found, Value)
        return found

    def piece(self, operand: Operand, batch: Index, row: Index, k: Index, bits: int = PIECE_BITS) -> Piece | None:
        """`bits` of neighbours as they lie in memory; None: they do not lie there so, or are computed. Along them,
        row or product is a multiple of their number; both are at most what lets them be inside."""
        f, last = self.e.f, operand.contracts_last
        wide = bits // element(operand.value).bits
        if not self.e.is_stored(operand.value) or (operand.depth if last else operand.rows) % wide:
            return None
        places = []
        for number, size, along in ((row, operand.rows, not last), (k, operand.depth, last)):
            high, multiple = (size - wide, wide) if along else (size - 1, 1)
            places.append(Affine(0, ((Variable(f.index(number), 0, high, multiple), 1),), int(along)))
        indices, condition = operand.at(self.e, batch, places[0], places[1], wide)
        offset = linear_index(f, operand.place(indices))
        if not offset.contiguous or known_multiple(offset) % wide:
            return None
        start = scalar(f, Affine(offset.constant, offset.terms))
        words = f.imul(f.idiv(start, wide), bits // 32)
        return Piece(self.e.base(operand.value), words, condition, bits // 32)

    def lies_in_pieces(self, operand: Operand) -> bool:
        """Whether `piece` finds the operand's elements."""
        return self._in_pieces[operand is self.b]

    @cached_property
    def _in_pieces(self) -> tuple[bool, bool]:
        """Of both operands: asked of a kernel that is thrown away."""
        f = self.begin(1, 1)
        number = f.block_size()
        a, b = (self.piece(operand, number, number, number) is not None for operand in (self.a, self.b))
        return a, b

    @abstractmethod
    def place_of(self, batch: Index, row: Index, column: Affine) -> Delinearized:
        """The element of the result."""

    def neighbours(self) -> int:
        """Columns of the result whose sums are best stored together: a power of two that divides their number."""
        outputs = [element(value) for value in self.fusion.outputs]
        wide = min(PIECE_BITS // 8 // max(each.bytes for each in outputs), MOST_NEIGHBOURS)
        last = int(shape(self.result)[-1]) if self.columns_last else 1
        while wide > 1 and (last % wide or len(self.fusion.ops) * wide > MOST_OPS):
            wide //= 2
        return max(1, wide)

    @property
    def columns_last(self) -> bool:
        """Whether neighbouring columns are neighbours in the result."""
        return True

    def store(self, batch: Index, row: Index, column: Index, totals: Sequence[Value]) -> None:
        """What becomes of the sums of neighbouring columns, the first of which is a multiple of their number."""
        f, count = self.e.f, len(totals)
        variable = Variable(f.index(column), 0, self.columns - count, count)
        found = []
        for number, total in enumerate(totals):
            place = self.place_of(batch, row, Affine(number, ((variable, 1),)))
            here, sum_ = linear_index(f, place), arith.rounded(f, self.of, total)
            self.e.bind(self.result, partial(_only_at, here, sum_))
            found.append((place, [self.e.value(value, place) for value in self.fusion.outputs]))
            self.e.bind(self.result, None)
        for place, results in found:
            for number, (value, result) in enumerate(zip(self.fusion.outputs, results, strict=True)):
                self.e.write(element(value), f.parameters[f"out{number}"], place, result)


def _only_at(here: Affine, value: Lanes, e: Elemental, at: Delinearized) -> Lanes | None:
    return value if same(e.f, linear_index(e.f, at), here) else None


def _unconverted(value: ir.Value) -> ir.Value:
    """What a value was converted from without rounding."""
    while not isinstance(value, ir.BlockArgument) and value.owner.operation.name == "hlo.convert":
        source = value.owner.operands[0]
        if not holds(element(value).name, element(source).name):
            break
        value = source
    return value


def _same(value: ir.Value) -> ir.Value:
    return value


class DotProduct(Product):
    """`hlo.dot`: the only one of a fusion, or a given one, whose operands are taken as they are. What the only one has
    from narrower floats is read as these: the products are the same."""

    def __init__(self, fusion: Fusion, target: GpuTarget, op: ir.OpView | None = None) -> None:
        source = _unconverted if op is None else _same
        op = op or fusion.op("hlo.dot")
        self._asked = max(element(value).bits for value in op.operands)
        a, b = (
            Side(source(value), i64s(op, f"{side}_batch"), i64s(op, f"{side}_contract"))
            for value, side in zip(op.operands, ("lhs", "rhs"), strict=True)
        )
        super().__init__(fusion, target, op.results[0], (a, b), math.prod(a.sizes[d] for d in a.batch))

    @property
    def widest_asked(self) -> int:
        return self._asked

    @property
    def columns_last(self) -> bool:
        sizes = shape(self.result)
        return bool(sizes) and self.columns % int(sizes[-1]) == 0

    def place_of(self, batch: Index, row: Index, column: Affine) -> Delinearized:
        sizes = [int(size) for size in shape(self.result)]
        parts = ((self.batch, affine_of(batch, self.batch - 1)), (self.rows, affine_of(row, self.rows - 1)))
        return delinearized(sizes, delinearize(self.e.f, (*parts, (self.columns, column)), sizes, 1))


class ConvolutionProduct(Product):
    """`hlo.convolution` as a product of patches of its input and its kernel. The columns are the result's last
    dimension: its pixels, where they are."""

    def __init__(self, fusion: Fusion, target: GpuTarget) -> None:
        op = fusion.op("hlo.convolution")
        patches, filters = Patches(op), Filters(op)
        self.feature, self.pixels, rank = patches.outputs[1], patches.pixels, len(patches.outputs)
        self.is_turned = self.feature != rank - 1
        operands = (filters, patches) if self.is_turned else (patches, filters)
        super().__init__(fusion, target, op.results[0], operands, filters.groups)

    @property
    def columns_last(self) -> bool:
        return not self.is_turned

    def place_of(self, batch: Index, row: Index, column: Affine) -> Delinearized:
        f, features = self.e.f, self.a.rows if self.is_turned else self.b.rows
        of_row = affine_of(row, self.rows - 1)
        pixel, feature = (column, of_row) if self.is_turned else (of_row, column)
        indices = split(f, pixel, self.pixels)
        group = affine_of(batch, self.batch - 1)
        indices[self.feature] = add(f, scale(f, group, features), feature)
        return delinearized(shape(self.result), [indices[d] for d in range(len(indices))])
